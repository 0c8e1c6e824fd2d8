//! Coordinators that differ in what nobody may see, beside each other: they say the same to the same calls, at the
//! same times.
//!
//! Owns: the comparison, over random histories. One lets calls take over the ticket of one that has just ended, and
//! the others do not; one reads its clock only where it must, and the other in every turn. Lacks the case for each
//! condition, which is `batons/`'s, and the count of readings, which is `clock.rs`'s. A failure prints its seed:
//!
//! ```text
//! SEED=7 cargo test -p admission-rt --test twins
//! ```

#![cfg(not(any(admission_loom, admission_shuttle)))]

#[path = "../common/mod.rs"]
mod common;

mod history;
mod twin;

use std::ops::Range;

use common::dice::Dice;
use history::{Act, Plan};
use twin::{Kind, Twin};

/// One seed if one is asked for, or as many as there is time for.
fn seeds(debug: u64, release: u64) -> Range<u64> {
    let only = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    only.map_or(0..if cfg!(debug_assertions) { debug } else { release }, |seed: u64| seed..seed + 1)
}

/// The same steps for all, who say the same and show the same; then their twins are asked once more.
fn compare(
    seed: u64,
    kinds: &[Kind],
    alter: fn(Act) -> Act,
    told: fn(String) -> String,
    at_last: fn(&mut Twin) -> String,
) -> Vec<Twin> {
    let mut dice = Dice::new(seed);
    let plan = Plan::draw(&mut dice, kinds.contains(&Kind::Timed));
    // Who is told of long waits is told in the first turn that is late enough.
    let kinds = kinds.iter().filter(|kind| !(plan.has_hook && **kind == Kind::Turned));
    let mut twins: Vec<_> = kinds.map(|kind| Twin::new(&plan, *kind)).collect();
    let mut acts = Vec::new();
    for _ in 0..60 {
        let act = alter(Act::draw(&mut dice, &plan));
        acts.push(act);
        let (first, others) = twins.split_first_mut().expect("there are some");
        let said = (told(first.act(act)), first.seen());
        for other in others {
            let also = (told(other.act(act)), other.seen());
            assert!(said == also, "SEED={seed}: {said:?}\n{:?}: {also:?}\n{plan:?} {acts:?}", other.kind);
        }
    }
    let said: Vec<_> = twins.iter_mut().map(|twin| told(at_last(twin))).collect();
    assert!(said.iter().all(|also| *also == said[0]), "SEED={seed}: {said:#?} {plan:#?} {acts:#?}");
    twins
}

// rules E1, E2, E4, L1, L3, L7, L8, L9, L10, O1, O2, S3, S4, S6, T1, T6, W2, W3, W4, W5, W6, W7, D5
#[test]
fn whether_a_ticket_is_taken_over_makes_no_difference_that_anybody_sees() {
    let seeds = seeds(500, 20_000);
    let is_one = seeds.end - seeds.start == 1;
    let mut taken_over = 0;
    for seed in seeds {
        let kinds = [Kind::Free, Kind::Watched, Kind::Turned];
        let twins = compare(seed, &kinds, |act| act, |told| told, Twin::end_all);
        taken_over += twins[0].taken_over;
        assert!(twins[1..].iter().all(|twin| twin.taken_over == 0), "it is prevented there");
    }
    assert!(taken_over > 400 || is_one, "only {taken_over} tickets were taken over");
}

/// The same but for how long keys are held: that one who reads no clock knows less of.
fn without_times_of_holders(told: String) -> String {
    const HOLDER: &str = "Key(Some(OtherCall {";
    let mut parts = told.split(HOLDER);
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (holder, after) = part.split_once('}').expect("it is told to the end");
        let (who, _time) = holder.split_once(", time: ").expect("it has a time");
        rest.extend([HOLDER, who, " }", after]);
    }
    rest
}

// rules T5, S4, W2, O2
#[test]
fn what_is_decided_without_a_look_at_the_clock_is_what_is_decided_with_one() {
    let seeds = seeds(500, 20_000);
    let is_one = seeds.end - seeds.start == 1;
    let mut waited = 0;
    for seed in seeds {
        // One has a provider more, and where all are told of that shows.
        let alter = |act| if let Act::Look(2 | 4) = act { Act::Look(1) } else { act };
        let at_last =
            |twin: &mut Twin| twin.act(Act::EndAll) + &twin.act(Act::Look(1)) + &twin.act(Act::Look(0));
        let twins = compare(seed, &[Kind::Free, Kind::Timed], alter, without_times_of_holders, at_last);
        waited += twins[0].waited;
    }
    assert!(waited > 100 || is_one, "only {waited} calls waited and started");
}
