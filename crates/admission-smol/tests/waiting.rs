//! What is smol's own about the adapter: timers without a task, and executors that share them. Time is
//! real, and no start is early. The rules themselves are tested by the conformance suite.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use admission_rt::runtime::{Clock, SystemClock};
use admission_rt::{AbortHandle, Counts, Rejected};
use admission_smol::{Acquire, Admission, Provider};

const GAP: Duration = Duration::from_millis(10);

fn paced(gap: Duration) -> (Admission, Provider) {
    // A machine that stops for a moment is not a caller that does not run.
    let builder = Admission::builder().hand_off(Duration::from_secs(3_600));
    let admission = builder.provider("a", |p| p.interval(gap)).build().expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    (admission, a)
}

fn is_pending(acquire: &mut Acquire, waker: &Waker) -> bool {
    acquire.poll_acquire(&mut Context::from_waker(waker)).is_pending()
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

#[derive(Default)]
struct Counter(AtomicU32);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_wait_is_two_polls() {
    // rules S1, L2
    let (_admission, a) = paced(GAP);
    let clock = SystemClock::new();
    let began = clock.now();
    smol::block_on(async {
        for n in 0..5 {
            let run = a.run(async || clock.now().saturating_duration_since(began));
            let (start, polls) = Polled { future: Box::pin(run), polls: 0 }.await;
            assert!(start.expect("its turn") >= GAP * n);
            // One to take a place, one to start; or just the one, if the machine slept that long.
            assert!(polls <= 2, "{polls} polls");
        }
    });
}

/// The timer wakes the coordinator, which wakes whoever may go, and no executor runs.
#[test]
fn a_timer_needs_no_executor() {
    // rules T5, W6
    let (_admission, a) = paced(GAP);
    drop(a.try_acquire().expect("the first is immediate"));
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut waiting = a.acquire();
    assert!(is_pending(&mut waiting, &waker));
    while counter.0.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!is_pending(&mut waiting, &waker));
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
}

#[test]
fn the_order_is_that_of_submission_whichever_executor_polls() {
    // rules E2, L2
    let (_admission, a) = paced(GAP);
    let starts = Arc::new(Mutex::new(Vec::new()));
    let clock = SystemClock::new();
    let began = clock.now();
    let mut calls = Vec::new();
    for n in 0..8_u32 {
        let starts = Arc::clone(&starts);
        let mut call = Box::pin(a.run(async move || {
            starts.lock().expect("no panic").push((n, clock.now()));
        }));
        // Submitted here, and polled elsewhere from now on.
        if call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            calls.push(call);
        }
    }
    let mut threads = Vec::new();
    let mut tasks = Vec::new();
    while let Some(call) = calls.pop() {
        if calls.len() % 2 == 0 {
            threads.push(thread::spawn(|| smol::block_on(call)));
        } else {
            tasks.push(smol::spawn(call));
        }
    }
    for task in tasks {
        smol::block_on(task).expect("its turn");
    }
    for thread in threads {
        thread.join().expect("no panic").expect("its turn");
    }
    let starts = starts.lock().expect("no panic");
    assert_eq!(starts.len(), 8);
    for (nth, (n, at)) in (0..).zip(&*starts) {
        assert_eq!(*n, nth);
        assert!(at.saturating_duration_since(began) >= GAP * nth);
    }
}

#[test]
fn an_abort_ends_an_hours_wait() {
    // rule W3
    let (admission, a) = paced(Duration::from_secs(3_600));
    drop(a.try_acquire().expect("the first is immediate"));
    let (handle, signal) = AbortHandle::new();
    let waiting = smol::spawn(a.abort_signal(&signal).acquire());
    while admission.counts().queued == 0 {
        thread::yield_now();
    }
    handle.abort();
    match smol::block_on(waiting) {
        Err(Rejected::Aborted(_)) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(admission.counts(), Counts::default());
}

#[test]
fn no_wait_is_too_long_to_wait_for() {
    // rule T2
    let (admission, a) = paced(Duration::MAX);
    drop(a.try_acquire().expect("the first is immediate"));
    a.cooldown(Duration::MAX).unwrap();
    let mut for_ever = a.acquire();
    assert!(is_pending(&mut for_ever, Waker::noop()));
    let mut centuries = a.admission_timeout(Duration::from_secs(500 * 365 * 24 * 60 * 60)).acquire();
    assert!(is_pending(&mut centuries, Waker::noop()));
    let short = smol::block_on(a.admission_timeout(GAP).acquire());
    assert!(matches!(short, Err(Rejected::AdmissionTimeout { .. })), "{short:?}");
    drop((for_ever, centuries));
    assert_eq!(admission.counts(), Counts::default());
}

/// smol's reactor is there wherever a future is polled, also on a plain thread.
#[test]
fn one_can_wait_on_a_plain_thread() {
    // rules T5, L2
    let (_admission, a) = paced(GAP);
    let clock = SystemClock::new();
    let began = clock.now();
    for n in 0..3 {
        // This one only parks.
        smol::future::block_on(pin!(a.acquire())).map(drop).expect("its turn");
        assert!(clock.now().saturating_duration_since(began) >= GAP * n);
    }
}
