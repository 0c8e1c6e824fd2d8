//! Threads that wait: who keeps the time for whom, and in which order they go. Time is real, and no
//! start is early. The rules themselves are tested by the conformance suite.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use admission_blocking::{Admission, Blocking, IntervalLimiter, Provider, RateLimiter, block_on};
use admission_rt::runtime::{Clock, SystemClock};
use admission_rt::{AbortHandle, BuildError, Counts, Rejected, RunError, Strategy, Waiting};

const GAP: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_secs(3_600);
const CENTURIES: Duration = Duration::from_secs(500 * 365 * 24 * 60 * 60);

fn paced(gap: Duration) -> (Admission, Provider) {
    // A machine that stops for a moment is not a caller that does not run.
    let builder = Admission::builder().hand_off(HOUR).provider("a", |p| p.interval(gap));
    let admission = builder.build().expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    (admission, a)
}

/// Until so many calls are queued.
fn until_queued(admission: &Admission, calls: u32) {
    while admission.counts().queued < calls {
        thread::yield_now();
    }
}

struct Polled<F> {
    future: Pin<Box<F>>,
    polls: u32,
}

impl<F: Future> Future for Polled<F> {
    type Output = (F::Output, u32);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.polls += 1;
        let polls = self.polls;
        self.future.as_mut().poll(cx).map(|output| (output, polls))
    }
}

#[test]
fn a_wait_is_two_polls_however_many_wait() {
    // rules S1, L2
    let (_admission, a) = paced(Duration::from_millis(2));
    let clock = SystemClock::new();
    let began = clock.now();
    let starts = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                let future = Box::pin(a.on::<Blocking>().acquire());
                let (permit, polls) = block_on(Polled { future, polls: 0 });
                starts.lock().expect("no panic").push(clock.now());
                drop(permit.expect("its turn"));
                // Keeping the time for others takes none.
                assert!(polls <= 2, "{polls} polls");
            });
        }
    });
    let mut starts = starts.into_inner().expect("no panic");
    starts.sort();
    for (nth, at) in (0..).zip(starts) {
        assert!(at.saturating_duration_since(began) >= Duration::from_millis(2) * nth);
    }
}

#[test]
fn the_order_is_that_of_submission() {
    // rules E2, L2
    let admission = Admission::builder().hand_off(HOUR).provider("a", |p| p.max_concurrent(1).interval(GAP));
    let admission = admission.build().expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    let clock = SystemClock::new();
    let began = clock.now();
    let running = a.acquire().expect("the first is immediate");
    let starts = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for n in 0..8 {
            let (a, starts) = (&a, &starts);
            scope.spawn(move || {
                a.run(|| starts.lock().expect("no panic").push((n, clock.now()))).expect("its turn");
            });
            until_queued(&admission, n + 1);
        }
        drop(running);
    });
    let starts = starts.into_inner().expect("no panic");
    assert_eq!(starts.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    for ((_, at), nth) in starts.iter().zip(1..) {
        assert!(at.saturating_duration_since(began) >= GAP * nth);
    }
    assert_eq!(admission.counts(), Counts::default());
}

/// The one that has parked longest sleeps for an hour, and is roused for somebody else's 10 ms.
#[test]
fn who_leads_is_roused_for_an_earlier_alarm() {
    // rules T6, T5
    let (slow, of_slow) = paced(HOUR);
    let (_quick, of_quick) = paced(GAP);
    drop((of_slow.acquire(), of_quick.acquire()));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| of_slow.acquire());
        until_queued(&slow, 1);
        for _ in 0..5 {
            drop(of_quick.acquire().expect("its turn"));
        }
        slow.close();
        assert!(waiting.join().expect("no panic").expect_err("it is closed").is_closed());
    });
}

/// The one that leads leaves, and the others' alarms ring all the same.
#[test]
fn who_leaves_hands_over() {
    // rules W5, W3
    for _ in 0..20 {
        let (slow, of_slow) = paced(HOUR);
        let (quick, of_quick) = paced(GAP);
        drop((of_slow.acquire(), of_quick.acquire()));
        let (handle, signal) = AbortHandle::new();
        thread::scope(|scope| {
            let leader = scope.spawn(|| of_slow.abort_signal(&signal).acquire());
            until_queued(&slow, 1);
            let others: Vec<_> = (0..3).map(|_| scope.spawn(|| of_quick.acquire().map(drop))).collect();
            while quick.counts().queued == 0 && !others.iter().any(|other| other.is_finished()) {
                thread::yield_now();
            }
            handle.abort_with("enough");
            let refused = leader.join().expect("no panic").expect_err("it is aborted");
            assert_eq!(refused.to_string(), "aborted: enough");
            for other in others {
                other.join().expect("no panic").expect("its turn");
            }
        });
    }
}

#[test]
fn no_wait_is_too_long_to_wait_for() {
    // rule T2
    let (admission, a) = paced(Duration::MAX);
    drop(a.acquire().expect("the first is immediate"));
    a.cooldown(Duration::MAX).unwrap();
    thread::scope(|scope| {
        let for_ever = scope.spawn(|| a.acquire());
        let centuries = scope.spawn(|| a.admission_timeout(CENTURIES).acquire());
        until_queued(&admission, 2);
        let refused = a.admission_timeout(GAP).acquire().expect_err("it is too long");
        assert!(refused.is_admission_timeout(), "{refused}");
        admission.close();
        for waiting in [for_ever, centuries] {
            assert!(waiting.join().expect("no panic").expect_err("it is closed").is_closed());
        }
    });
    assert_eq!(admission.counts(), Counts::default());
}

#[test]
fn a_permit_ends_with_its_operation() {
    // rules W7, W5, R6
    let admission = Admission::builder().max_concurrent(1).provider("a", |p| p).build();
    let admission = admission.expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    assert_eq!(a.run(|| admission.counts().running).expect("its turn"), 1);
    assert_eq!(admission.counts(), Counts::default());
    let panicked = catch_unwind(AssertUnwindSafe(|| a.run(|| panic!("on purpose"))));
    assert!(panicked.is_err());
    assert_eq!(admission.counts(), Counts::default());
    assert!(matches!(a.try_run(|| Err::<(), _>("its own")), Err(RunError::Operation("its own"))));
    // An operation may wait in turn, on the same thread.
    let nested = a.run(|| a.admission_timeout(GAP).acquire().map(drop).expect_err("it is taken"));
    assert!(nested.expect("its turn").is_admission_timeout());
    drop(a.try_acquire().expect("it is free"));
}

#[test]
fn options_are_those_of_the_async_face() {
    // rules L1, L6, W0, W2
    let admission = Admission::builder()
        .hand_off(HOUR)
        .unit("tokens")
        .provider("a", |p| p.log(admission_rt::Window::new(10, HOUR).unit("tokens")))
        .provider("b", |p| p.max_concurrent(1))
        .build()
        .expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    assert_eq!((a.name(), b.name()), ("a", "b"));
    assert!(matches!(a.cost("tokens", 11).acquire(), Err(Rejected::ImpossibleCost { .. })));
    let held = a.key("k").acquire().expect("it is free");
    let refused = b.key("k").admission_timeout(GAP).acquire().expect_err("the key is taken");
    assert!(refused.is_admission_timeout());
    drop(held);
    // A place that was taken early is before one that was taken late.
    let running = b.acquire().expect("it is free");
    let early = b.enqueue();
    thread::scope(|scope| {
        let late = scope.spawn(|| b.acquire());
        until_queued(&admission, 2);
        drop(running);
        let early = early.wait().expect("its turn");
        assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 1 });
        drop(early);
        drop(late.join().expect("no panic").expect("its turn"));
    });
    drop(b.enqueue());
    admission.idle();
    admission.close();
    admission.closed();
    assert!(admission.is_closed());
    assert!(admission.provider("c").is_err());
}

#[test]
fn the_two_limiters_block_too() {
    // rules R1, R3, I2, I3
    assert!(matches!(IntervalLimiter::builder(Duration::ZERO).build(), Err(BuildError::ZeroInterval { .. })));
    let pace = IntervalLimiter::builder(GAP).max_waiting(4).name("pace").build().expect("sound");
    let (handle, signal) = AbortHandle::new();
    let clock = SystemClock::new();
    let began = clock.now();
    for n in 0..4 {
        let at = pace.run(&signal, || {
            assert_eq!(pace.counts(), Counts::default(), "admission ends when the operation is called");
            clock.now()
        });
        assert!(at.expect("its turn").saturating_duration_since(began) >= GAP * n);
    }
    pace.acquire().expect("its turn");
    handle.abort();
    assert!(pace.run(&signal, || ()).expect_err("aborted").is_aborted());

    let quota = RateLimiter::builder(2, HOUR).strategy(Strategy::Reject).build().expect("clamped");
    assert_eq!(quota.run(|| quota.available()).expect("its turn"), 1);
    drop(quota.acquire().expect("one is left"));
    assert!(matches!(quota.acquire(), Err(Rejected::Exhausted { .. })));
    quota.reset();
    assert_eq!(quota.available(), 2);
}

/// Polled where no thread would park for it, a future cannot wait, and says so.
#[test]
fn only_a_thread_that_parks_can_wait() {
    // rules T5, W5
    let (admission, a) = paced(HOUR);
    let elsewhere = a.on::<Blocking>();
    drop(elsewhere.try_acquire().expect("the first is immediate"));
    let mut waiting = elsewhere.acquire();
    match waiting.poll_acquire(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(Rejected::NoRuntime)) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(admission.counts(), Counts::default());
}

/// A thread keeps what it parks with, but not for two waits at once.
#[test]
fn a_wait_may_stand_inside_another() {
    // rules L2, T5
    let (_admission, a) = paced(GAP);
    let clock = SystemClock::new();
    let began = clock.now();
    drop(a.acquire().expect("the first is immediate"));
    block_on(async {
        let outside = a.on::<Blocking>();
        drop(outside.acquire().await.expect("its turn"));
        drop(a.acquire().expect("its turn"));
        drop(outside.acquire().await.expect("its turn"));
    });
    assert!(clock.now().saturating_duration_since(began) >= GAP * 3);
}

#[test]
fn a_waker_that_is_kept_wakes_no_later_wait() {
    // rule W5
    let waker = || poll_fn(|cx| Poll::Ready(cx.waker().clone()));
    let kept = block_on(waker());
    block_on(async {
        assert!(!kept.will_wake(&waker().await));
        block_on(async { assert!(!kept.will_wake(&waker().await)) });
    });
}

#[test]
fn whoever_is_called_by_the_leader_may_wait_too() {
    // rules T6, W5: there is nobody else to keep the time meanwhile
    let limiter = IntervalLimiter::builder(GAP).build().expect("an interval");
    let told = Arc::new(AtomicUsize::new(0));
    let (paced, count) = (limiter.clone(), Arc::clone(&told));
    let report = move |_: &Waiting| {
        for _ in 0..3 {
            paced.acquire().expect("its turn");
            count.fetch_add(1, Ordering::SeqCst);
        }
    };
    let builder = Admission::builder().max_concurrent(1).provider("a", |p| p).on_long_wait(GAP, report);
    let admission = builder.build().expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    let permit = a.acquire().expect("its turn");
    let refused = a.admission_timeout(GAP * 2).acquire().expect_err("nobody lets go");
    assert!(matches!(refused, Rejected::AdmissionTimeout { .. }));
    // Another test's thread may lead, and then it is that one which reports.
    while told.load(Ordering::SeqCst) < 3 {
        thread::yield_now();
    }
    drop(permit);
}
