//! Abort signals: at once, with a reason, and without a trace.

mod common;

use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use admission_rt::{AbortHandle, AbortReason, AbortSignal, Rejected};
use common::{Admission, Provider, Task, World, counts, ms, panicking_waker};

fn one_at_a_time(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

fn reason<T: std::fmt::Debug>(answer: Result<T, Rejected>) -> String {
    match answer.unwrap_err() {
        Rejected::Aborted(reason) => reason.to_string(),
        other => panic!("{other}"),
    }
}

// rule W3, W5
#[test]
fn an_abort_takes_a_waiter_out_although_nobody_polls_it() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let (handle, signal) = AbortHandle::new();
    let mut first = Task::waiting(a.acquire());
    let mut aborted = Task::waiting(a.abort_signal(&signal).acquire());
    let mut enqueued = Task::new(a.abort_signal(&signal).enqueue());
    let mut last = Task::waiting(a.acquire());
    assert_eq!(admission.counts(), counts(1, 4, 0));
    handle.abort_with("no longer wanted");
    assert_eq!(admission.counts(), counts(1, 2, 0));
    assert_eq!(aborted.wakes(), 1);
    assert_eq!(reason(aborted.ready()), "no longer wanted");
    assert_eq!(reason(enqueued.ready()), "no longer wanted");
    drop(permit);
    drop(first.ready().unwrap());
    drop(last.ready().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!((first.wakes(), last.wakes()), (1, 1), "the order of the others is kept");
}

// rule W3, D5
#[test]
fn a_signal_that_has_fired_comes_first() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    admission.close();
    let (handle, signal) = AbortHandle::new();
    handle.abort();
    handle.abort_with(AbortReason::Timeout);
    let call = || a.abort_signal(&signal);
    assert_eq!(reason(call().try_acquire()), "on request");
    assert_eq!(reason(Task::new(call().acquire()).ready()), "on request");
    assert_eq!(reason(Task::new(call().enqueue()).ready()), "on request");
    assert!(matches!(signal.reason(), Some(AbortReason::Requested)), "the first reason stands");
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule W3
#[test]
fn an_abort_between_the_submission_and_the_listening_is_not_missed() {
    use admission_rt::Instant;
    use admission_rt::runtime::Clock;
    /// Aborts when it is read. (It may, as long as nobody of its own coordinator listens.)
    struct Aborts(AbortHandle);
    impl Clock for Aborts {
        fn now(&self) -> Instant {
            self.0.abort();
            Instant::ZERO
        }
        fn wall(&self) -> std::time::SystemTime {
            std::time::SystemTime::UNIX_EPOCH
        }
    }
    let (handle, signal) = AbortHandle::new();
    let (clock, idle) = (Arc::new(Aborts(handle)), AbortHandle::new().1);
    let admission = Admission::builder().clock(clock).provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let enqueued = a.abort_signal(&signal).enqueue();
    assert_eq!(admission.counts(), counts(0, 0, 0), "before anybody polls it");
    assert_eq!(reason(Task::new(enqueued).ready()), "on request");
    drop(Task::new(a.abort_signal(&idle).enqueue()).ready().unwrap());
}

// rules S3, W3
#[test]
fn a_call_does_not_start_once_abort_has_returned_however_its_first_poll_is_cut() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let (handle, signal) = AbortHandle::new();
    // Between the turn that submits and the turn that waits: abort returns, then the slot comes free.
    *world.when_asked.lock().unwrap() = Some(Box::new(move || {
        handle.abort_with("too late");
        drop(permit);
    }));
    let mut call = Task::new(a.abort_signal(&signal).acquire());
    assert!(reason(call.ready()).contains("too late"));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule S3
#[test]
fn a_signal_is_looked_at_once_more_before_the_start() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let (handle, signal) = AbortHandle::new();
    let never = || -> std::future::Ready<()> { unreachable!("was aborted") };
    let mut granted = Task::waiting(a.abort_signal(&signal).run(never));
    world.advance_to(100);
    assert_eq!(admission.counts(), counts(0, 0, 1));
    world.set(120);
    handle.abort();
    assert_eq!(admission.counts(), counts(0, 0, 0), "abandoned by the abort itself");
    assert_eq!(reason(granted.ready()), "on request");
    assert_eq!(a.try_acquire().unwrap_err().retry_after(), Some(ms(80)), "spent as of the grant");
}

// rule W3, I3
#[test]
fn an_abort_does_not_touch_a_running_call() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let (handle, signal) = AbortHandle::new();
    let mut run = Task::waiting(a.abort_signal(&signal).run(pending::<()>));
    handle.abort();
    assert!(run.poll().is_pending());
    assert_eq!(admission.counts(), counts(1, 0, 0));
}

#[test]
fn one_can_wait_for_a_signal() {
    let (handle, signal) = AbortHandle::new();
    assert!(Task::new(AbortSignal::never().aborted()).poll().is_pending());
    let mut waiting = Task::waiting(signal.aborted());
    let mut other = Task::waiting(handle.signal().aborted());
    assert!(waiting.poll().is_pending());
    assert_eq!((waiting.wakers_held(), waiting.wakes()), (1, 0));
    drop(Task::waiting(signal.aborted()));
    assert!(!signal.is_aborted());
    let error: Arc<dyn std::error::Error + Send + Sync> = Arc::new(std::fmt::Error);
    handle.abort_with(error);
    assert!(signal.is_aborted());
    assert_eq!((waiting.wakers_held(), waiting.wakes()), (0, 1));
    let AbortReason::Custom(error) = waiting.ready() else { panic!("custom") };
    assert!(error.is::<std::fmt::Error>());
    drop(other.ready());
    drop(handle);
}

#[test]
fn a_handle_that_is_dropped_aborts_nothing() {
    let (handle, signal) = AbortHandle::new();
    let mut waiting = Task::waiting(signal.aborted());
    drop(handle);
    assert!(waiting.poll().is_pending());
    assert!(!signal.is_aborted());
}

/// A future that is ready when it is told to, and may wake from inside its own poll.
#[derive(Clone, Default)]
struct Source(Arc<Mutex<SourceState>>);

#[derive(Default)]
struct SourceState {
    reason: Option<AbortReason>,
    waker: Option<Waker>,
    wakes_inside: bool,
    after_waking: Option<Box<dyn FnOnce() + Send>>,
    polls: usize,
}

impl Source {
    fn fire(&self, reason: AbortReason) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.reason = Some(reason);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Source {
    type Output = AbortReason;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<AbortReason> {
        let mut state = self.0.lock().unwrap();
        state.polls += 1;
        if let Some(reason) = state.reason.take() {
            return Poll::Ready(reason);
        }
        state.waker = Some(cx.waker().clone());
        if std::mem::take(&mut state.wakes_inside) {
            let after_waking = state.after_waking.take();
            drop(state);
            cx.waker().wake_by_ref();
            if let Some(after_waking) = after_waking {
                after_waking();
            }
        }
        Poll::Pending
    }
}

// rule W3
#[test]
fn a_future_can_be_a_signal() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let _permit = a.try_acquire().unwrap();
    let source = Source::default();
    let signal = AbortSignal::from_future(source.clone());
    assert_eq!(source.0.lock().unwrap().polls, 0, "nobody waits yet");
    let mut aborted = Task::waiting(signal.aborted());
    let mut waiting = Task::waiting(a.abort_signal(&signal).acquire());
    let gone = Task::waiting(a.abort_signal(&signal).acquire());
    assert_eq!(admission.counts(), counts(1, 2, 0));
    source.fire(AbortReason::Timeout);
    assert_eq!((aborted.wakes(), waiting.wakes(), gone.wakes()), (1, 1, 1), "any of them may poll it");
    drop(gone);
    assert!(!signal.is_aborted(), "nobody has polled it yet");
    assert_eq!(reason(waiting.ready()), "timed out");
    assert!(signal.is_aborted());
    assert!(matches!(aborted.ready(), AbortReason::Timeout));
    assert_eq!(admission.counts(), counts(1, 0, 0));
    let polls = source.0.lock().unwrap().polls;
    assert_eq!(reason(a.abort_signal(&signal).try_acquire()), "timed out");
    assert_eq!(source.0.lock().unwrap().polls, polls, "it is done");
}

// rule W3
#[test]
fn a_future_that_is_ready_already_has_fired() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let signal = AbortSignal::from_future(async {});
    assert_eq!(reason(a.abort_signal(&signal).try_acquire()), "on request");
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

#[test]
fn a_future_that_wakes_from_inside_its_poll_is_polled_again() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let _permit = a.try_acquire().unwrap();
    let source = Source::default();
    source.0.lock().unwrap().wakes_inside = true;
    let signal = AbortSignal::from_future(source.clone());
    let mut aborted = Task::waiting(signal.aborted());
    assert!(aborted.is_woken());
    assert!(aborted.poll().is_pending());
    let mut waiting = Task::waiting(a.abort_signal(&signal).acquire());
    source.fire(AbortReason::Requested);
    assert!(waiting.is_woken());
    assert_eq!(reason(waiting.ready()), "on request");
    aborted.ready();
}

// Those who come by while the source is being polled are told to come again, for the one who polls it
// may go away before it does.
#[test]
fn whoever_found_the_future_busy_is_woken_again() {
    let source = Source::default();
    let signal = AbortSignal::from_future(source.clone());
    let other = Arc::new(Mutex::new(Task::waiting(signal.aborted())));
    {
        let mut state = source.0.lock().unwrap();
        state.wakes_inside = true;
        let other = other.clone();
        state.after_waking = Some(Box::new(move || assert!(other.lock().unwrap().poll().is_pending())));
    }
    drop(Task::waiting(signal.aborted()));
    assert_eq!(other.lock().unwrap().wakes(), 2);
    source.fire(AbortReason::Requested);
    other.lock().unwrap().ready();
}

// rule W3
#[test]
fn a_future_that_is_ready_while_the_call_sits_down_is_not_missed() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let _permit = a.try_acquire().unwrap();
    let mut yielded = false;
    let signal = AbortSignal::from_future(std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        // Woken before anybody listens.
        cx.waker().wake_by_ref();
        Poll::Pending
    }));
    assert_eq!(reason(Task::new(a.abort_signal(&signal).acquire()).ready()), "on request");
    assert_eq!(admission.counts(), counts(1, 0, 0));
}

// rules W3, W5
#[test]
fn an_abort_finds_a_ticket_whose_first_poll_ended_in_anothers_panic() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let mut stranger = Task::new(a.admission_timeout(ms(10)).acquire());
    assert!(stranger.poll_with(&panicking_waker()).is_pending());
    world.set(20);
    let (handle, signal) = AbortHandle::new();
    let mut waits = Task::new(a.abort_signal(&signal).acquire());
    assert!(catch_unwind(AssertUnwindSafe(|| waits.poll())).is_err());
    assert!(waits.poll().is_pending());
    assert_eq!(admission.counts(), counts(1, 1, 0));
    handle.abort();
    assert_eq!((admission.counts(), waits.wakes()), (counts(1, 0, 0), 1));
    assert!(waits.ready().unwrap_err().is_aborted());
    drop((permit, stranger));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}
