//! What is async-std's own about the adapter: its timers, which no executor drives. Everything else is
//! shown by the conformance suite, and the alarm by the tests of `admission-rt`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use admission_async_std::Admission;

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
    // A machine that stops for a moment is not a caller that does not run.
    let builder = Admission::builder().hand_off(Duration::from_secs(3_600));
    let admission = builder.provider("a", |p| p.interval(Duration::from_millis(10))).build();
    let a = admission.expect("a sound configuration").provider("a").expect("it is there");
    drop(a.try_acquire().expect("the first is immediate"));
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut cx = Context::from_waker(&waker);
    let mut waiting = a.acquire();
    assert!(waiting.poll_acquire(&mut cx).is_pending());
    while counter.0.load(Ordering::SeqCst) == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(waiting.poll_acquire(&mut cx).is_ready());
    assert_eq!(counter.0.load(Ordering::SeqCst), 1);
}
