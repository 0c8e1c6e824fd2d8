//! The exact window by itself: it decides as a coordinator does whose only limit it is, and as a plain count of the
//! starts in the window does.
//!
//! Times are milliseconds, where they are not said to be nanoseconds.

mod dice;
mod transcript;

use std::time::Duration;

use admission_core::{Admitted, SlidingWindow};
use dice::Dice;
use transcript::*;

fn window(limit: u64, millis: u64) -> SlidingWindow {
    SlidingWindow::new(limit, ms(millis)).expect("limits that are in order")
}

/// Every start there ever was, and what can be counted of them.
#[derive(Default)]
struct Plain {
    starts: Vec<u64>,
}

impl Plain {
    fn in_window(&self, window: u64, now: u64) -> usize {
        self.starts.iter().filter(|&&start| start + window > now).count()
    }

    /// From when one more has room, by looking at every start that may make some.
    fn earliest(&self, limit: u64, window: u64, now: u64) -> u64 {
        let leaves = self.starts.iter().map(|start| start + window).filter(|&leaves| leaves > now);
        let has_room = |&then: &u64| (self.in_window(window, then) as u64) < limit;
        std::iter::once(now).chain(leaves).filter(has_room).min().expect("all of them leave")
    }
}

// rules L3, T1: whatever comes in between, bursts, silence, several at one instant, time that runs back
#[test]
fn it_decides_as_a_coordinator_and_as_a_plain_count_do() {
    for seed in 0..150 {
        let mut dice = Dice(seed);
        let (limit, length) = (1 + dice.below(12), 1 + dice.below(60));
        let length_nanos = Duration::from_nanos(length);
        let mut window = SlidingWindow::new(limit, length_nanos).expect("limits that are in order");
        let mut core = Coordinator::new(&config(free(), &[free().window(limit, length_nanos)]))
            .expect("a configuration that is in order");
        let mut plain = Plain::default();
        let mut now: u64 = dice.below(3);
        for _ in 0..400 {
            // Mostly a few at a time; at times nobody comes for longer than the window.
            let later = match dice.below(20) {
                0..=7 => dice.below(2),
                8..=18 => dice.below(2 * length / limit + 2),
                _ => dice.below(3 * length),
            };
            // A reading may be of before the last start, and counts as that.
            let is_behind = plain.starts.last() == Some(&now) && dice.below(6) == 0;
            let told = if is_behind { now.saturating_sub(dice.below(5)) } else { now + later };
            now = now.max(told);
            let earliest = plain.earliest(limit, length, now);
            let available = limit - plain.in_window(length, now) as u64;
            let case = format!("{limit} in {length} ns, at {now}, seed {seed}");
            assert_eq!(window.earliest(nanos(told)), nanos(earliest), "{case}");
            assert_eq!(window.available(nanos(told)), available, "{case}");
            let answer = window.try_start(nanos(told));
            assert_eq!(answer, if earliest == now { Ok(()) } else { Err(nanos(earliest)) }, "{case}");
            let request = ask(A).at_once();
            match core.request(&request, nanos(now)) {
                Ok(Admitted::Started(ticket)) => {
                    assert_eq!(answer, Ok(()), "{case}");
                    core.handle_release(ticket, nanos(now));
                    plain.starts.push(now);
                }
                Ok(Admitted::Queued(_)) => panic!("it may not wait"),
                Err(refusal) => {
                    let then = refusal.retry_after.map(|after| nanos(now) + after);
                    assert_eq!(answer.err(), then, "{case}");
                }
            }
        }
    }
}

// rule L3: what it says is exact, on both sides
#[test]
fn it_is_full_until_the_instant_that_it_tells_of_and_not_longer() {
    let mut window = window(2, 1_000);
    for then in [0, 400] {
        assert_eq!(window.try_start(at(then)), Ok(()));
    }
    for (before, after) in [(999_999_999, 1_000_000_000), (1_399_999_999, 1_400_000_000)] {
        assert_eq!(window.try_start(nanos(before)), Err(nanos(after)));
        assert_eq!(window.earliest(nanos(before)), nanos(after));
        assert_eq!(window.available(nanos(before)), 0);
        assert_eq!(window.earliest(nanos(after)), nanos(after));
        assert_eq!(window.available(nanos(after)), 1);
        assert_eq!(window.try_start(nanos(after)), Ok(()));
    }
}

// rule L3: of a burst that fills it, none leaves before the others, and none is forgotten
#[test]
fn a_burst_at_one_instant_leaves_as_one() {
    let mut window = window(60, MINUTE);
    for _ in 0..3 {
        let then = window.earliest(at(0));
        for left in (0..60).rev() {
            assert_eq!(window.try_start(then), Ok(()));
            assert_eq!(window.available(then), left);
        }
        assert_eq!(window.try_start(then), Err(then + ms(MINUTE)));
    }
}

// rule L3: as long as it is full, and when it has not been for a while
#[test]
fn a_full_window_that_was_left_alone_has_all_its_room_again() {
    let mut window = window(60, MINUTE);
    let mut now = 0;
    for _ in 0..5 {
        for _ in 0..200 {
            now += 1_000;
            assert_eq!(window.try_start(at(now)), Ok(()));
        }
        now += 2 * MINUTE;
        assert_eq!(window.available(at(now)), 60);
        for nth in 0..60 {
            now += 1;
            assert_eq!(window.try_start(at(now)), Ok(()), "{nth}");
        }
        assert_eq!(window.try_start(at(now)), Err(at(now - 59 + MINUTE)));
        now += MINUTE;
    }
}

// rule T1
#[test]
fn a_reading_before_the_last_start_counts_as_that() {
    let mut window = window(2, 10);
    for then in [100, 50] {
        assert_eq!(window.try_start(at(then)), Ok(()));
    }
    // The second counts as of 100 too.
    assert_eq!(window.try_start(at(0)), Err(at(110)));
    assert_eq!(window.earliest(at(0)), at(110));
    assert_eq!(window.try_start(at(109)), Err(at(110)));
    for then in [110, 110] {
        assert_eq!(window.try_start(at(then)), Ok(()));
    }
}

// rule T2: what happens at the end of time never happens
#[test]
fn a_window_may_be_longer_than_time_and_time_does_not_end() {
    let mut endless = SlidingWindow::new(2, Duration::MAX).expect("limits that are in order");
    for then in [1, 2] {
        assert_eq!(endless.try_start(at(then)), Ok(()));
    }
    for then in [at(3), Instant::NEVER] {
        assert_eq!(endless.try_start(then), Err(Instant::NEVER));
        assert_eq!(endless.earliest(then), Instant::NEVER);
    }
    let mut window = window(2, 10);
    for _ in 0..2 {
        assert_eq!(window.try_start(Instant::NEVER), Ok(()));
    }
    assert_eq!(window.try_start(Instant::NEVER), Err(Instant::NEVER));
    assert!(window.earliest(at(0)) == Instant::NEVER && window.available(Instant::NEVER) == 0);
}

// rules L1, L6
#[test]
fn a_limit_of_nothing_is_an_error_and_a_window_of_nothing_refuses_nothing() {
    assert_eq!(SlidingWindow::new(0, ms(10)).err(), Some(LimitsError::ZeroLimit));
    let mut window = window(1, 0);
    for then in [5, 5, 6, 3] {
        assert_eq!(window.try_start(at(then)), Ok(()));
        assert_eq!(window.available(at(then)), 1);
    }
}
