//! What the history is worth: that it is the same each time, and that everything comes up in it.

use scenario::{Plan, play};

// rule O3
#[test]
fn the_same_plan_gives_the_same_text() {
    let [first, again, other] = [1, 1, 2].map(|seed| {
        let mut text = String::new();
        play(&Plan { seed, rounds: 4, ..Plan::default() }, &mut text).expect("a string takes it");
        text
    });
    assert!(first == again, "the same plan gave two texts");
    assert!(first != other, "the seed changes nothing");
}

#[test]
fn every_event_and_every_reason_comes_up() {
    let mut text = String::new();
    let tally = play(&Plan::default(), &mut text).expect("a string takes it");
    let lacks: Vec<_> = tally.counts().filter(|(_, count)| *count == 0).collect();
    assert!(lacks.is_empty(), "the history lacks {lacks:?}");
    assert!(tally.decisions > 9_000 && tally.starts > 500, "{tally:?}");
    assert!(text.is_ascii() && !text.contains("0x"), "the text names an address");
}
