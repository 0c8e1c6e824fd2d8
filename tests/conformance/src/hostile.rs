//! Foreign code at the worst moments: wakers and destructors that call the coordinator.
//!
//! Owns: the fourteenth item of the checklist. Lacks: a waker whose *clone* calls back, which cannot be
//! written without unsafe code.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use admission_rt::{AbortHandle, AbortSignal, Acquire, Admission, Counts, Provider, Rejected};
use admission_testing::VirtualClock;

use crate::mount::Mount;
use crate::signal::{poll_idly, poll_once};
use crate::transcript::Transcript;

/// Counts, submits, tries, aborts and resets whenever it can.
struct Meddler<M: Mount> {
    admission: Admission<M::Runtime>,
    provider: Provider<M::Runtime>,
    abort: AbortHandle,
    meddled: Weak<AtomicUsize>,
}

impl<M: Mount> Meddler<M> {
    fn meddle(&self) {
        let counts = self.admission.counts();
        assert!(counts.running <= 1, "{counts:?}");
        drop(self.provider.try_acquire());
        let mut submitted = self.provider.acquire();
        drop(poll_idly(&mut submitted));
        drop(self.provider.enqueue());
        drop(submitted);
        self.abort.abort();
        self.provider.reset().unwrap();
        self.provider.cooldown(Duration::ZERO).unwrap();
        if let Some(meddled) = self.meddled.upgrade() {
            meddled.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl<M: Mount> Drop for Meddler<M> {
    fn drop(&mut self) {
        self.meddle();
    }
}

struct Hostile<M: Mount>(Meddler<M>);

impl<M: Mount> Wake for Hostile<M> {
    fn wake(self: Arc<Self>) {
        self.0.meddle();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.meddle();
    }
}

/// One world with a full slot, and any number of meddlers.
struct Stage<M: Mount> {
    t: Transcript<M>,
    admission: Admission<M::Runtime>,
    a: Provider<M::Runtime>,
    meddled: Arc<AtomicUsize>,
}

impl<M: Mount> Stage<M> {
    fn new(clock: &VirtualClock) -> Self {
        let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
        let (admission, a) = t.provider(|p| p.max_concurrent(1));
        Self { t, admission, a, meddled: Arc::default() }
    }

    fn meddler(&self, abort: &AbortHandle) -> Meddler<M> {
        let (admission, provider) = (self.admission.clone(), self.a.clone());
        Meddler { admission, provider, abort: abort.clone(), meddled: Arc::downgrade(&self.meddled) }
    }

    fn waker(&self, abort: &AbortHandle) -> Waker {
        Waker::from(Arc::new(Hostile(self.meddler(abort))))
    }

    fn poll(&self, future: &mut Acquire<M::Runtime>, waker: &Waker) -> Poll<Result<(), Rejected>> {
        future.poll_acquire(&mut Context::from_waker(waker)).map(|answer| answer.map(drop))
    }

    fn check(&self, at_least: usize) {
        let meddled = self.meddled.swap(0, Ordering::SeqCst);
        assert!(meddled >= at_least, "{meddled} calls from inside, not {at_least}");
        assert_eq!(self.admission.counts(), Counts::default());
        drop(self.a.try_acquire().expect("the slot is free"));
    }
}

/// Two wakers, one ticket: the first is dropped when the second comes, the second is woken by the
/// grant and dropped at the start.
pub async fn a_waker_may_call_back_when_it_is_replaced_and_granted<M: Mount>() {
    // rules W5, S1; the fourteenth item of the checklist
    let stage = Stage::<M>::new(&VirtualClock::new());
    let (other, _) = AbortHandle::new();
    let permit = stage.a.try_acquire().expect("it is free");
    let mut waiting = stage.a.acquire();
    assert!(stage.poll(&mut waiting, &stage.waker(&other)).is_pending());
    assert!(stage.poll(&mut waiting, &stage.waker(&other)).is_pending());
    drop(permit);
    assert!(matches!(poll_once(&mut waiting).await, Poll::Ready(Ok(_))));
    drop(waiting);
    stage.check(3);
}

/// Its own abort, from inside the wake of another's.
pub async fn a_waker_may_abort_from_inside_a_wake<M: Mount>() {
    // rules W3, W5; the fourteenth item of the checklist
    let stage = Stage::<M>::new(&VirtualClock::new());
    let (first, first_signal) = AbortHandle::new();
    let (second, second_signal) = AbortHandle::new();
    let permit = stage.a.try_acquire().expect("it is free");
    let mut one = stage.a.abort_signal(&first_signal).acquire();
    let mut two = stage.a.abort_signal(&second_signal).acquire();
    // Each of them, woken, aborts the other.
    assert!(stage.poll(&mut one, &stage.waker(&second)).is_pending());
    assert!(stage.poll(&mut two, &stage.waker(&first)).is_pending());
    first.abort();
    assert!(second_signal.is_aborted());
    for mut future in [one, two] {
        match poll_once(&mut future).await {
            Poll::Ready(Err(refused)) => assert!(refused.is_aborted(), "{refused:?}"),
            other => panic!("{:?}", other.map(|answer| answer.map(drop))),
        }
    }
    drop(permit);
    stage.check(2);
}

/// A deadline that passes, told by any other call.
pub async fn a_waker_may_call_back_when_its_ticket_expires<M: Mount>() {
    // rules W2, W5; the fourteenth item of the checklist
    let clock = VirtualClock::new();
    let stage = Stage::<M>::new(&clock);
    let hour = Duration::from_secs(3_600);
    let (other, _) = AbortHandle::new();
    let permit = stage.a.try_acquire().expect("it is free");
    let mut waiting = stage.a.admission_timeout(hour).acquire();
    assert!(stage.poll(&mut waiting, &stage.waker(&other)).is_pending());
    clock.advance(hour + Duration::from_nanos(1));
    assert!(stage.a.try_acquire().is_err());
    match poll_once(&mut waiting).await {
        Poll::Ready(Err(Rejected::AdmissionTimeout { .. })) => {}
        other => panic!("{:?}", other.map(|answer| answer.map(drop))),
    }
    drop(permit);
    stage.check(2);
}

/// A close wakes everybody, and each of them calls back, and submits to what is closed.
pub async fn a_waker_may_call_back_when_the_coordinator_closes<M: Mount>() {
    // rules W4, W5; the fourteenth item of the checklist
    let stage = Stage::<M>::new(&VirtualClock::new());
    let (other, _) = AbortHandle::new();
    let permit = stage.a.try_acquire().expect("it is free");
    let mut waiting: Vec<_> = (0..20).map(|_| stage.a.acquire()).collect();
    for future in &mut waiting {
        assert!(stage.poll(future, &stage.waker(&other)).is_pending());
    }
    let mut closed = stage.admission.closed();
    let mut idle = stage.admission.idle();
    let waker = stage.waker(&other);
    assert!(std::pin::Pin::new(&mut closed).poll_with(&waker).is_pending());
    assert!(std::pin::Pin::new(&mut idle).poll_with(&waker).is_pending());
    drop(waker);
    stage.admission.close();
    for mut future in waiting {
        assert!(matches!(poll_once(&mut future).await, Poll::Ready(Err(Rejected::Closed))));
    }
    drop(permit);
    closed.await;
    idle.await;
    assert!(stage.meddled.load(Ordering::SeqCst) >= 22);
    assert_eq!(stage.admission.counts(), Counts::default());
    assert!(stage.t.names().is_empty());
}

/// Dropped while it waits, while it is granted, and after its runtime has forgotten it.
pub async fn a_waker_may_call_back_when_its_future_is_dropped<M: Mount>() {
    // rules W3, S3, W5; the fourteenth item of the checklist
    let stage = Stage::<M>::new(&VirtualClock::new());
    let (other, _) = AbortHandle::new();
    let permit = stage.a.try_acquire().expect("it is free");
    let mut queued = stage.a.acquire();
    assert!(stage.poll(&mut queued, &stage.waker(&other)).is_pending());
    drop(queued);
    let mut granted = stage.a.acquire();
    assert!(stage.poll(&mut granted, &stage.waker(&other)).is_pending());
    drop(permit);
    drop(granted);
    stage.check(3);
}

/// What the operation has captured may call back from its destructor, wherever the call ends.
pub async fn what_an_operation_captures_may_call_back_when_it_is_dropped<M: Mount>() {
    // rules W5, W7; the fourteenth item of the checklist
    let stage = Stage::<M>::new(&VirtualClock::new());
    let (other, signal) = AbortHandle::new();
    let operation = |meddler: Meddler<M>| {
        move || async move {
            let _meddler = meddler;
            std::future::pending::<()>().await;
        }
    };
    // Never polled; queued and dropped; aborted; running and dropped; panicked.
    drop(stage.a.run(operation(stage.meddler(&other))));
    let permit = stage.a.try_acquire().expect("it is free");
    let mut queued = Box::pin(stage.a.run(operation(stage.meddler(&other))));
    assert!(poll_once(&mut queued).await.is_pending());
    drop(queued);
    let mut aborted = Box::pin(stage.a.abort_signal(&signal).run(operation(stage.meddler(&other))));
    assert!(poll_once(&mut aborted).await.is_ready(), "a meddler has aborted it already");
    drop(aborted);
    drop(permit);
    let mut running = Box::pin(stage.a.run(operation(stage.meddler(&other))));
    assert!(poll_once(&mut running).await.is_pending());
    drop(running);
    let meddler = stage.meddler(&other);
    let panics = stage.a.run(move || async move {
        let _meddler = meddler;
        panic!("on purpose");
    });
    assert!(M::spawn::<Result<(), Rejected>>(Box::pin(panics)).await.is_none());
    stage.check(5);
}

/// A signal's listeners may call back too.
pub async fn whoever_waits_for_a_signal_may_call_back<M: Mount>() {
    // rules W3, W5; the fourteenth item of the checklist
    let stage = Stage::<M>::new(&VirtualClock::new());
    let (handle, signal) = AbortHandle::new();
    let waker = stage.waker(&handle);
    let mut listeners: Vec<_> = (0..3).map(|_| Box::pin(signal.aborted())).collect();
    for listener in &mut listeners {
        assert!(listener.as_mut().poll_with(&waker).is_pending());
    }
    drop(listeners.pop());
    drop(waker);
    handle.abort();
    for listener in &mut listeners {
        assert!(poll_once(listener).await.is_ready());
    }
    assert!(AbortSignal::never().reason().is_none());
    drop(listeners);
    stage.check(2);
}

trait PollWith: Future {
    fn poll_with(self: std::pin::Pin<&mut Self>, waker: &Waker) -> Poll<Self::Output> {
        self.poll(&mut Context::from_waker(waker))
    }
}

impl<F: Future> PollWith for F {}
