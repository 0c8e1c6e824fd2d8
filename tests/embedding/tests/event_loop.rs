//! The bare core in a hand-written loop, in virtual time: each test is a transcript.

use std::time::Duration;

use admission_core::{Config, Counts, Key, Limits};
use embedding::{EventLoop, Job};

const EXACT: Duration = Duration::from_nanos(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Two calls at once; a bank that wants 100 ms between starts, and a shop that allows two in any 500 ms.
fn config() -> Config {
    let mut config = Config::new();
    config.max_queued = 4;
    config.client = Limits::new().max_concurrent(2);
    config.providers = vec![Limits::new().interval(ms(100)), Limits::new().window(2, ms(500))];
    config
}

fn keyed(mut job: Job, key: u64) -> Job {
    job.request = job.request.key(Key(key));
    job
}

fn hasty(mut job: Job, timeout_ms: u64) -> Job {
    job.request = job.request.timeout(ms(timeout_ms));
    job
}

fn morning(tick: Duration) -> EventLoop {
    let mut event_loop = EventLoop::new(&config(), tick).expect("a good configuration");
    event_loop.submit_at(0, Job::new("balance", 0, 30));
    event_loop.submit_at(10, Job::new("statement", 0, 120));
    event_loop.submit_at(20, keyed(Job::new("cart", 1, 50), 7));
    event_loop.submit_at(25, keyed(Job::new("cart again", 1, 50), 7));
    event_loop.submit_at(40, hasty(Job::new("hasty", 0, 10), 60));
    event_loop.submit_at(45, Job::new("prices", 1, 10));
    event_loop.submit_at(50, Job::new("one too many", 1, 10));
    event_loop
}

#[test]
fn a_morning_of_two_providers() {
    // rules E2, L1, L2, L3, W1, W2
    let mut event_loop = morning(EXACT);
    event_loop.run();
    assert_eq!(
        event_loop.transcript(),
        [
            "0 balance starts",
            "10 statement waits",
            "20 cart starts",
            "25 cart again waits",
            "30 balance ends",
            "40 hasty waits",
            "45 prices starts",
            "50 one too many waits",
            "55 prices ends",
            "70 cart ends",
            "100 statement starts",
            "100 hasty not admitted in time: held back by the provider's interval (pacer 0); try again in at least 99.999999ms",
            "220 statement ends",
            "520 cart again starts",
            "545 one too many starts",
            "555 one too many ends",
            "570 cart again ends",
        ]
    );
    assert_eq!(event_loop.driver().counts(), Counts::default());
}

#[test]
fn coarse_timers_are_late_and_change_no_order() {
    // rules T3, L2, L3
    let starts = |tick| {
        let mut event_loop = EventLoop::new(&config(), tick).expect("a good configuration");
        for at in [0, 1, 2, 3] {
            event_loop.submit_at(at, Job::new("bank", 0, 5));
        }
        event_loop.run();
        let starts = event_loop.transcript().iter().filter(|line| line.ends_with("starts"));
        let times = starts.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
        times.collect::<Vec<_>>()
    };
    assert_eq!(starts(EXACT), [0, 100, 200, 300]);
    // Late by up to a tick; what is late moves those behind it, and nobody catches up.
    assert_eq!(starts(ms(30)), [0, 120, 240, 360]);
    assert_eq!(starts(ms(70)), [0, 140, 280, 420]);
    assert_eq!(starts(ms(1_000)), [0, 1_000, 2_000, 3_000]);
}

#[test]
fn an_alarm_that_nobody_wants_any_more_finds_nothing_to_do() {
    // rules T3, T6
    let mut event_loop = EventLoop::new(&config(), EXACT).expect("a good configuration");
    event_loop.submit_at(0, Job::new("first", 1, 5));
    event_loop.submit_at(0, Job::new("second", 1, 5));
    event_loop.submit_at(10, Job::new("third", 1, 10));
    event_loop.submit_at(20, hasty(Job::new("hasty", 1, 10), 100));
    event_loop.run();
    assert_eq!(event_loop.transcript().last().map(String::as_str), Some("510 third ends"));
    // For 500, for 120 (it came to be earlier), and once more for 500 since the loop forgot the first.
    assert_eq!(event_loop.alarms(), 3);
    assert_eq!(event_loop.driver().until(), None);
}

#[test]
fn the_same_loop_runs_the_same_way() {
    // rule O3
    let transcript = |tick| {
        let mut event_loop = morning(tick);
        event_loop.run();
        event_loop.transcript().to_vec()
    };
    assert_eq!(transcript(ms(20)), transcript(ms(20)));
}
