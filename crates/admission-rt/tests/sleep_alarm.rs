//! The alarm that is made of a sleep, over sleeps that are looked into.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use admission_rt::runtime::{Bell, Clock, Runtime, RuntimeId, SleepAlarm, SystemClock};
use admission_rt::{Admission, Provider};

const HOUR: Duration = Duration::from_secs(3_600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

thread_local! {
    /// How long each sleep was to be, in their order.
    static ASKED: RefCell<Vec<Duration>> = const { RefCell::new(Vec::new()) };
    /// Who wakes the last of them.
    static WAKER: RefCell<Option<Waker>> = const { RefCell::new(None) };
    /// How many there are.
    static LIVING: Cell<u32> = const { Cell::new(0) };
    /// How many are over before they begin.
    static OVER_AT_ONCE: Cell<u32> = const { Cell::new(0) };
    /// The last alarm, as it was made.
    static PRINTED: Cell<String> = const { Cell::new(String::new()) };
}

struct Sleep;

impl Sleep {
    fn begin(time: Duration) -> Self {
        ASKED.with_borrow_mut(|asked| asked.push(time));
        LIVING.set(LIVING.get() + 1);
        Self
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(left) = OVER_AT_ONCE.get().checked_sub(1) {
            OVER_AT_ONCE.set(left);
            return Poll::Ready(());
        }
        WAKER.set(Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        LIVING.set(LIVING.get() - 1);
    }
}

struct Sleeps;

impl Runtime for Sleeps {
    type Alarm = SleepAlarm<Sleep>;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(SystemClock::new())
    }

    fn current() -> Option<RuntimeId> {
        Some(RuntimeId::new::<Self>(0))
    }

    fn alarm(bell: Bell) -> Self::Alarm {
        let alarm = SleepAlarm::new(bell, Sleep::begin);
        PRINTED.set(format!("{alarm:?}"));
        alarm
    }
}

/// A provider whose first call has just started.
fn paced(gap: Duration) -> Provider<Sleeps> {
    let admission = Admission::builder().provider("a", |p| p.interval(gap)).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    a
}

fn asked() -> usize {
    ASKED.with_borrow(Vec::len)
}

// rules T6, W5
#[test]
fn a_wait_that_is_dropped_leaves_no_sleep() {
    let a = paced(HOUR);
    let mut cx = Context::from_waker(Waker::noop());
    let mut waiting = a.acquire();
    assert!(waiting.poll_acquire(&mut cx).is_pending());
    assert_eq!((asked(), LIVING.get()), (1, 1));
    drop(waiting);
    assert_eq!((asked(), LIVING.get()), (1, 0));
    // And one that waits with its coordinator gone takes it along.
    let mut waiting = a.acquire();
    assert!(waiting.poll_acquire(&mut cx).is_pending());
    assert_eq!((asked(), LIVING.get()), (2, 1));
    drop((a, waiting));
    assert_eq!((asked(), LIVING.get()), (2, 0));
}

// rule T3
#[test]
fn a_sleep_that_is_early_or_moved_gives_way_to_the_next() {
    let a = paced(HOUR);
    let mut cx = Context::from_waker(Waker::noop());
    let mut waiting = a.acquire();
    assert!(waiting.poll_acquire(&mut cx).is_pending());
    // Its waker rings, and the coordinator finds that it is too early.
    WAKER.take().unwrap().wake();
    assert_eq!((asked(), LIVING.get()), (2, 1));
    // Somebody has less time.
    let mut brief = a.admission_timeout(HOUR / 2).acquire();
    assert!(brief.poll_acquire(&mut cx).is_pending());
    assert_eq!((asked(), LIVING.get()), (3, 1));
    assert!(ASKED.with_borrow(|asked| asked[2] < asked[1]));
}

// rule T3
#[test]
fn a_sleep_that_is_over_at_once_rings_too() {
    let a = paced(HOUR);
    OVER_AT_ONCE.set(3);
    let mut waiting = a.acquire();
    assert!(waiting.poll_acquire(&mut Context::from_waker(Waker::noop())).is_pending());
    // It rang three times from inside, and was armed anew each time.
    assert_eq!((asked(), LIVING.get()), (4, 1));
}

// rule T2
#[test]
fn no_sleep_is_longer_than_a_year() {
    let a = paced(HOUR * 1_000_000);
    let mut waiting = a.acquire();
    assert!(waiting.poll_acquire(&mut Context::from_waker(Waker::noop())).is_pending());
    WAKER.take().unwrap().wake();
    assert_eq!(ASKED.take(), [YEAR, YEAR]);
}

#[test]
fn an_alarm_can_be_printed() {
    let a = paced(HOUR);
    assert!(a.acquire().poll_acquire(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(PRINTED.take(), "SleepAlarm { armed: false, .. }");
}
