//! One rate check, nobody waiting.
//!
//! Where a clock is read that is most of the time, so cases that are given the time stand beside those that
//! read it. The exact window stands by itself, beside governor's check; what it costs within the machine is the
//! difference between a machine with it and one without.

use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use admission_core::{Admitted, Config, Coordinator, Instant, Limits, ProviderId, Request};
use admission_hot_paths::{Case, Dice, Group, each, reference, window};
use admission_rt::Strategy;
use governor::clock::{FakeRelativeClock, MonotonicClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

use crate::clocks;

const MINUTE: u64 = 60_000_000_000;

/// One word and no clock: what the exact window is compared with.
pub const GIVEN_TIME: &str = "governor: check, given time";
/// The machine, with nothing to count.
pub const MACHINE: &str = "the machine alone, no limit, given time";
/// The same with a window that is full all the time.
pub const MACHINE_FULL: &str = "the machine alone, 60 a minute, given time";
/// The same with a window that always has room.
pub const MACHINE_WITH_ROOM: &str = "the machine alone, 100,000 a minute, given time";

/// The exact window as it is mostly written: expired starts go at the front, a new one comes at the back.
#[derive(Debug)]
pub struct Window {
    starts: VecDeque<u64>,
    limit: usize,
    nanos: u64,
}

impl Window {
    /// At most so many starts in so many nanoseconds.
    #[must_use]
    pub fn new(limit: usize, nanos: u64) -> Self {
        Self { starts: VecDeque::with_capacity(limit), limit, nanos }
    }

    /// A start now, or how long it has to wait.
    ///
    /// # Errors
    ///
    /// The wait in nanoseconds.
    #[inline]
    pub fn check(&mut self, now: u64) -> Result<(), u64> {
        while self.starts.front().is_some_and(|start| start + self.nanos <= now) {
            self.starts.pop_front();
        }
        if self.starts.len() < self.limit {
            self.starts.push_back(now);
            return Ok(());
        }
        Err(self.starts[0] + self.nanos - now)
    }
}

/// A quota that is never reached.
#[must_use]
pub const fn plenty() -> Quota {
    Quota::per_second(NonZeroU32::MAX).allow_burst(NonZeroU32::MAX)
}

/// The table.
#[must_use]
pub fn group() -> Group {
    let hour = Duration::from_secs(3_600);
    let mut cases = vec![
        reference(),
        each("VecDeque in a std Mutex, 60 a minute, given time", || {
            let window = Mutex::new(Window::new(60, MINUTE));
            let mut now = MINUTE;
            move || {
                now += MINUTE / 60 + 1;
                let mut window = black_box(&window).lock().unwrap_or_else(PoisonError::into_inner);
                assert!(window.check(now).is_ok());
            }
        }),
        each("the clock alone: Instant::now", || {
            || {
                black_box(clocks::now());
            }
        }),
        each(GIVEN_TIME, || {
            let limiter = RateLimiter::direct_with_clock(plenty(), FakeRelativeClock::default());
            move || assert!(black_box(&limiter).check().is_ok())
        }),
        each("governor: check, time-stamp counter", || {
            let limiter = RateLimiter::direct(plenty());
            move || assert!(black_box(&limiter).check().is_ok())
        }),
        each("governor: check, Instant::now", || {
            let limiter = RateLimiter::direct_with_clock(plenty(), MonotonicClock);
            move || assert!(black_box(&limiter).check().is_ok())
        }),
        keyed("governor: check_key, 1,000 keys", 1_000),
        keyed("governor: check_key, 100,000 keys", 100_000),
        each("leaky-bucket: try_acquire", move || {
            let plenty = usize::MAX >> 2;
            let mut builder = leaky_bucket::RateLimiter::builder();
            let limiter = builder.initial(plenty).max(plenty).interval(hour).build();
            move || assert!(black_box(&limiter).try_acquire(1))
        }),
        each("ratelimit: try_wait", || {
            let most = 1_000_000_000_000;
            let builder = ratelimit::Ratelimiter::builder(1_000_000_000).max_tokens(most);
            let limiter = builder.initial_available(most).build().expect("the configuration is right");
            move || assert!(black_box(&limiter).try_wait().is_ok())
        }),
        machine(MACHINE, Limits::new()),
        machine(MACHINE_FULL, Limits::new().window(60, Duration::from_secs(60))),
        machine(MACHINE_WITH_ROOM, Limits::new().window(100_000, Duration::from_secs(60))),
        each("admission: RateLimiter, try_acquire, admits", || {
            // Real time is longer than the window from one call to the next.
            let builder = admission_tokio::RateLimiter::builder(60, Duration::from_nanos(1));
            let limiter = builder.build().expect("the configuration is right");
            move || assert!(black_box(&limiter).try_acquire().is_ok())
        }),
        each("admission: RateLimiter, try_acquire, refuses", move || {
            let builder = admission_tokio::RateLimiter::builder(60, 24 * hour).strategy(Strategy::Reject);
            let limiter = builder.build().expect("the configuration is right");
            for _ in 0..60 {
                assert!(limiter.try_acquire().is_ok());
            }
            move || assert!(black_box(&limiter).try_acquire().is_err())
        }),
    ];
    // Beside governor's, with which it is compared.
    let at = cases.iter().position(|case| case.name == GIVEN_TIME).unwrap_or(0);
    cases.splice(at..at, window::cases());
    let against = vec![
        (window::FULL, GIVEN_TIME),
        (window::WITH_ROOM, GIVEN_TIME),
        (MACHINE_FULL, MACHINE),
        (MACHINE, GIVEN_TIME),
        (MACHINE_FULL, GIVEN_TIME),
        (MACHINE_WITH_ROOM, GIVEN_TIME),
        ("admission: RateLimiter, try_acquire, admits", "governor: check, Instant::now"),
    ];
    Group { name: "rate", cases, against }
}

/// The machine with one limit, which always has room for one more start when it is asked.
///
/// (The ticket is handed on as it comes. A copy of it as a whole, right after its halves were written, has to wait for
/// them: twice as long as the call took, and only where no log is written in between.)
fn machine(name: &'static str, limits: Limits) -> Case {
    each(name, move || {
        let mut config = Config::new();
        config.providers.push(limits.clone());
        let mut machine = Coordinator::new(&config).expect("the configuration is right");
        let request = Request::new(ProviderId::new(0));
        let mut now = MINUTE;
        move || {
            now += MINUTE / 60 + 1;
            let at = Instant::from_nanos(now);
            match black_box(&mut machine).request(&request, at) {
                Ok(Admitted::Started(ticket)) => machine.handle_release(ticket, at),
                other => panic!("not started: {other:?}"),
            }
        }
    })
}

fn keyed(name: &'static str, count: usize) -> Case {
    each(name, move || {
        let limiter = RateLimiter::dashmap(plenty());
        let keys: Vec<u64> = Dice::new(42).order(count).into_iter().map(|key| key as u64).collect();
        for key in &keys {
            assert!(limiter.check_key(key).is_ok());
        }
        let mut at = 0;
        move || {
            at = if at + 1 == keys.len() { 0 } else { at + 1 };
            assert!(black_box(&limiter).check_key(&keys[at]).is_ok());
        }
    })
}

/// The direct limiter whose quota is never reached.
#[must_use]
pub fn unlimited() -> DefaultDirectRateLimiter {
    RateLimiter::direct(plenty())
}
