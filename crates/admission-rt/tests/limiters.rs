//! The two objects that are made of one rule.

mod common;

use std::future::{pending, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use admission_rt::{AbortHandle, AbortSignal, BuildError, Rejected, Scope, Strategy};
use common::{IntervalLimiter, RateLimiter, Task, World, counts, ms};

// rule R1, R2
#[test]
fn a_fan_out_of_200_starts_60_and_refuses_140() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = RateLimiter::builder(60, ms(60_000)).max_wait(ms(15_000)).name("github").build().unwrap();
    let mut started = 0;
    for _ in 0..200 {
        match Task::new(limiter.run(|| ready(()))).ready() {
            Ok(()) => started += 1,
            Err(Rejected::MaxWait { retry_after, .. }) => assert_eq!(retry_after, Some(ms(60_000))),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((started, limiter.available()), (60, 0));
    let words = "github: the wait is too long, held back by 60 per 60 s; try again in at least 60 s";
    assert_eq!(
        limiter.try_acquire().unwrap_err().to_string(),
        words.replace("the wait is too long", "may not start at once")
    );
    assert_eq!(Task::new(limiter.acquire()).ready().unwrap_err().to_string(), words);
}

// rule R1
#[test]
fn a_rejecting_limiter_never_waits() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = RateLimiter::builder(1, ms(1_000)).strategy(Strategy::Reject).build().unwrap();
    drop(Task::new(limiter.acquire()).ready().unwrap());
    for refused in
        [Task::new(limiter.acquire()).ready(), Task::new(limiter.enqueue()).ready(), limiter.try_acquire()]
    {
        let error = refused.unwrap_err();
        assert!(matches!(error, Rejected::Exhausted { .. }));
        assert_eq!(error.retry_after(), Some(ms(1_000)));
    }
    assert_eq!(limiter.counts(), counts(0, 0, 0));
}

// rule R3, R4
#[test]
fn reset_admits_every_call_that_is_queued() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = RateLimiter::builder(2, ms(1_000)).build().unwrap();
    assert_eq!(limiter.available(), 2);
    let failed = Task::new(limiter.try_run(|| ready(Err::<(), _>("no")))).ready();
    assert!(failed.is_err());
    assert_eq!(limiter.available(), 1, "a call that failed is spent");
    drop(limiter.try_acquire().unwrap());
    let mut waiting: Vec<_> = (0..5).map(|_| Task::waiting(limiter.acquire())).collect();
    limiter.reset();
    for task in &mut waiting {
        assert_eq!(task.wakes(), 1);
        drop(task.ready().unwrap());
    }
    assert_eq!(limiter.available(), 0, "and logs them");
    let mut late = Task::waiting(limiter.acquire());
    world.advance_to(1_000);
    drop(late.ready().unwrap());
}

// rule R4
#[test]
fn slow_work_spends_no_more() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = RateLimiter::builder(1, ms(100)).build().unwrap();
    let slow = limiter.try_acquire().unwrap();
    world.set(99);
    assert_eq!(limiter.available(), 0);
    world.set(100);
    assert_eq!(limiter.available(), 1, "one window after its start, whether or not it is over");
    drop(slow);
    assert_eq!(limiter.available(), 1);
}

// rule R5
#[test]
fn numbers_that_are_out_of_range_are_clamped() {
    let world = World::new();
    let _entered = world.enter();
    for limit in [0.0, -3.0, 0.9, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.9] {
        let limiter = RateLimiter::builder_from_floats(limit, 60.0).build().unwrap();
        assert_eq!(limiter.available(), 1, "{limit}");
    }
    assert_eq!(RateLimiter::builder(0, ms(1)).build().unwrap().available(), 1);
    assert_eq!(RateLimiter::builder_from_floats(1e300, 1.0).build().unwrap().available(), u64::MAX);
    for window in [-1.0, f64::NAN, f64::INFINITY, 0.0] {
        let limiter = RateLimiter::builder_from_floats(1.0, window).build().unwrap();
        for _ in 0..10 {
            drop(limiter.try_acquire().expect("a window of 0 admits everything"));
        }
    }
    let limiter = RateLimiter::builder_from_floats(1.0, f64::MAX).max_wait_secs(f64::NAN).build().unwrap();
    drop(limiter.try_acquire().unwrap());
    world.set(u64::from(u32::MAX));
    assert!(limiter.try_acquire().is_err());
    let refused = Task::new(limiter.acquire()).ready();
    assert!(matches!(refused, Err(Rejected::MaxWait { .. })), "a max_wait of 0 refuses what would wait");
    let too_short = RateLimiter::builder(1, ms(1)).hand_off(Duration::ZERO).build();
    assert_eq!(too_short.err(), Some(BuildError::HandOffTooShort));
}

// rule L9
#[test]
fn a_log_can_count_until_the_call_is_settled() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = RateLimiter::builder(1, ms(100)).until_settled().margin(ms(10)).build().unwrap();
    let permit = limiter.try_acquire().unwrap();
    world.set(500);
    assert_eq!(limiter.available(), 0);
    drop(permit);
    world.set(609);
    assert_eq!(limiter.available(), 0);
    world.set(610);
    assert_eq!(limiter.available(), 1);
}

// rule I1, I3
#[test]
fn starts_are_an_interval_apart_and_io_may_overlap() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = IntervalLimiter::builder(ms(100)).max_waiting(2).clock(world.clock()).build().unwrap();
    let starts = Arc::new(Mutex::new(Vec::new()));
    let never = AbortSignal::never();
    let run = |name: &'static str| {
        let (starts, clock) = (starts.clone(), world.clock());
        limiter.run(&never, move || {
            starts.lock().unwrap().push((name, clock.now().as_nanos() / 1_000_000));
            pending::<()>()
        })
    };
    let mut tasks: Vec<_> = ["a", "b", "c"].map(|name| Task::waiting(run(name))).into();
    assert_eq!(limiter.counts(), counts(0, 2, 0), "the first has let go");
    let error = Task::new(run("d")).ready().unwrap_err();
    let words = "interval limiter: queue is full, held back by 100 ms apart; try again in at least 100 ms";
    assert_eq!(error.to_string(), words);
    world.advance_to(130);
    assert!(tasks[1].is_woken());
    assert!(tasks[1].poll().is_pending());
    world.advance_to(229);
    assert_eq!(tasks[2].wakes(), 0);
    world.advance_to(230);
    assert!(tasks[2].poll().is_pending());
    assert_eq!(*starts.lock().unwrap(), [("a", 0), ("b", 130), ("c", 230)]);
    assert_eq!(limiter.counts(), counts(0, 0, 0));
    assert_eq!(world.armed(), None);
}

// rule I3, W5
#[test]
fn an_interval_limiters_operation_may_panic() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = IntervalLimiter::builder(ms(100)).build().unwrap();
    let mut run =
        Task::new(limiter.run(&AbortSignal::never(), || -> std::future::Ready<()> { panic!("own") }));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.poll())).is_err());
    assert_eq!(limiter.counts(), counts(0, 0, 0));
    let mut next = Task::waiting(limiter.acquire());
    world.advance_to(100);
    next.ready().unwrap();
    assert_eq!(limiter.counts(), counts(0, 0, 0), "a start keeps nothing");
}

// rule I3, S3
#[test]
fn an_abort_while_queued_costs_nothing_and_after_the_grant_the_interval() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = IntervalLimiter::builder(ms(100)).build().unwrap();
    let (handle, signal) = AbortHandle::new();
    Task::new(limiter.acquire()).ready().unwrap();
    let mut queued = Task::waiting(limiter.run(&signal, pending::<()>));
    let mut next = Task::waiting(limiter.acquire());
    handle.abort();
    assert!(queued.ready().unwrap_err().is_aborted());
    world.advance_to(100);
    next.ready().unwrap();

    let (handle, signal) = AbortHandle::new();
    let mut granted = Task::waiting(limiter.run(&signal, pending::<()>));
    let mut next = Task::waiting(limiter.acquire());
    world.advance_to(200);
    assert!(granted.is_woken());
    handle.abort();
    assert!(granted.ready().unwrap_err().is_aborted());
    world.advance_to(299);
    assert!(!next.is_woken());
    world.advance_to(300);
    next.ready().unwrap();
}

// rule I2
#[test]
fn a_zero_interval_is_an_error() {
    let error = IntervalLimiter::builder(Duration::ZERO).build().unwrap_err();
    assert_eq!(error, BuildError::ZeroInterval { scope: Scope::Provider("interval limiter".into()) });
}
