//! Calls that take over the ticket of one that has just ended, as a runner takes a baton.
//!
//! Owns: how many are inside, counted from outside by real threads; and the cases for which there is no room in a
//! word. Beside it: one case for each condition (`left.rs`), providers that come and go (`visitors.rs`), and turns in
//! whose midst something happens (`midst.rs`). Lacks the orders of steps, which are loom's (`races/`), and the
//! comparison with calls of which each takes the lock, over random histories (`twins/`).
//!
//! ```text
//! ROUNDS=3000 cargo test --release -p admission-rt --test batons
//! ```

#![cfg(not(any(admission_loom, admission_shuttle)))]

#[path = "../common/mod.rs"]
mod common;

mod clock;
mod left;
mod meeting;
mod midst;
mod visitors;

use std::sync::atomic::Ordering::SeqCst;

use common::counts;
use meeting::Meeting;

// rules L1, L7, L10, E4, S1, W4, W6, D5
#[test]
fn no_more_are_inside_than_may_be_whatever_changes_meanwhile() {
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(24);
    for round in 0..rounds {
        common::within(60, move || {
            let meeting = Meeting::new(4);
            // One caller alone, so that it is certain how many: as many as its seed has like calls in a row.
            let taken_over = meeting.call(round * 4, 300);
            assert!(taken_over > 20, "only {taken_over} tickets were taken over");
            std::thread::scope(|threads| {
                for thread in 1..4 {
                    let meeting = &meeting;
                    threads.spawn(move || meeting.call(round * 4 + thread, 300));
                }
                meeting.watch(round * 4, 100);
            });
            assert_eq!(meeting.admission.counts(), counts(0, 0, 0), "rule W5");
            assert!(meeting.rooms.iter().all(|room| room.inside.load(SeqCst) == 0));
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
