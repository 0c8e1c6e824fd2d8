//! What is smol's own about the adapter: timers that no executor drives, and executors that share them.
//! Time is real, and no start is early. Everything else is shown by the conformance suite, and the alarm
//! by the tests of `admission-rt`.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use admission_rt::runtime::{Clock, SystemClock};
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

#[derive(Default)]
struct Counter(AtomicU32);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
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
