//! Calls that take over the ticket of one that has just ended, as a runner takes a baton, beside the same calls
//! of which each takes the lock: nobody can tell which is which.
//!
//! Owns: the comparison, over random histories; how many are inside, counted from outside by real threads; and
//! the cases for which there is no room in a word. Beside it: one case for each condition (`left.rs`), providers
//! that come and go (`visitors.rs`), and turns in whose midst something happens (`midst.rs`). Lacks the orders of
//! steps, which are loom's (`races/`). A failure of the comparison prints its seed:
//!
//! ```text
//! SEED=7 cargo test -p admission-rt --test batons
//! ROUNDS=3000 cargo test --release -p admission-rt --test batons
//! ```

#![cfg(not(any(admission_loom, admission_shuttle)))]

#[path = "../common/mod.rs"]
mod common;

mod clock;
mod house;
mod left;
mod midst;
mod visitors;
mod yard;

use std::sync::atomic::Ordering::SeqCst;

use common::counts;
use common::dice::Dice;
use house::{Act, House, Plan, Prevented};
use yard::Yard;

// rules E1, E2, E4, L1, L3, L7, L8, L9, L10, O1, O2, S3, S4, S6, T1, T6, W2, W3, W4, W5, W6, W7, D5
#[test]
fn whether_a_ticket_is_taken_over_makes_no_difference_that_anybody_sees() {
    let only = std::env::var("SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = only.map_or(0..if cfg!(debug_assertions) { 500 } else { 20_000 }, |seed| seed..seed + 1);
    let mut taken_over = 0;
    for seed in seeds {
        let mut dice = Dice::new(seed);
        let plan = Plan::draw(&mut dice);
        let all = [Prevented::No, Prevented::ByWatcher, Prevented::ByTurns];
        // Who is told of long waits is told in the first turn that is late enough.
        let compared = if plan.has_hook { &all[..2] } else { &all[..] };
        let mut houses: Vec<_> = compared.iter().map(|prevented| House::new(&plan, *prevented)).collect();
        let mut acts = Vec::new();
        for _ in 0..60 {
            let act = Act::draw(&mut dice, &plan);
            acts.push(act);
            let (free, prevented) = houses.split_first_mut().expect("there are some");
            let told = (free.act(act), free.seen());
            for other in prevented {
                let also = (other.act(act), other.seen());
                assert!(
                    told == also,
                    "SEED={seed}: {told:?}\n{:?}: {also:?}\n{plan:?} {acts:?}",
                    other.prevented
                );
            }
        }
        let told: Vec<_> = houses.iter_mut().map(House::end_all).collect();
        assert!(told.iter().all(|also| *also == told[0]), "SEED={seed}: {told:#?} {plan:#?} {acts:#?}");
        taken_over += houses[0].taken_over;
        assert!(houses[1..].iter().all(|house| house.taken_over == 0), "it is prevented there");
    }
    assert!(taken_over > 400 || only.is_some(), "only {taken_over} tickets were taken over");
}

// rules L1, L7, L10, E4, S1, W4, W6, D5
#[test]
fn no_more_are_inside_than_may_be_whatever_changes_meanwhile() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(24);
    for round in 0..rounds {
        common::within(60, move || {
            let yard = Yard::new(4);
            // One caller alone, so that it is certain how many: as many as its seed has like calls in a row.
            let taken_over = yard.call(round * 4, 300);
            assert!(taken_over > 20, "only {taken_over} tickets were taken over");
            std::thread::scope(|threads| {
                for thread in 1..4 {
                    let yard = &yard;
                    threads.spawn(move || yard.call(round * 4 + thread, 300));
                }
                yard.watch(round * 4, 100);
            });
            assert_eq!(yard.admission.counts(), counts(0, 0, 0), "rule W5");
            assert!(yard.rooms.iter().all(|room| room.inside.load(SeqCst) == 0));
        });
    }
}

// rules L1, W7
// Not under the audit, which looks at all of them in every call.
#[cfg(not(audit))]
#[test]
fn tickets_and_providers_of_high_numbers_are_like_any() {
    let names: Vec<String> = (0..=1 << 14).map(|nth| nth.to_string()).collect();
    let world = common::World::new();
    let _entered = world.enter();
    let builder = names.iter().fold(world.builder(), |builder, name| {
        builder.provider(name.as_str(), |limits| limits.max_concurrent(70_000))
    });
    let admission = builder.build().unwrap();
    let many = admission.provider("0").unwrap();
    let mut crowd: Vec<_> = (0..65_540).map(|_| many.try_acquire().unwrap()).collect();
    for name in ["0", "1", "16383", "16384"] {
        let provider = admission.provider(name).unwrap();
        let before = admission.snapshot().provider(name).map(|at| at.running);
        for _ in 0..3 {
            let permits = [(); 3].map(|()| provider.try_acquire().unwrap());
            drop(permits);
            drop(provider.try_acquire().unwrap());
            let permit = provider.try_acquire().unwrap();
            assert_eq!(admission.counts(), counts(65_541, 0, 0));
            assert_eq!(admission.snapshot().provider(name).map(|at| at.running - 1), before);
            drop(permit);
        }
        assert_eq!(admission.snapshot().provider(name).map(|at| at.running), before);
    }
    crowd.truncate(3);
    assert_eq!(admission.counts(), counts(3, 0, 0));
}
