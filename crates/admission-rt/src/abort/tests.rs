//! Signals from inside: their listeners, and what is linked to them.

use super::*;
use crate::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId};
use std::time::{Duration, SystemTime};

/// No runtime at all: enough for calls that are enqueued, and for those that start.
struct Nowhere;

impl Runtime for Nowhere {
    type Alarm = Silent;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(Silent)
    }

    fn current() -> Option<RuntimeId> {
        None
    }

    fn alarm(_: Bell) -> Silent {
        Silent
    }
}

struct Silent;

impl Alarm for Silent {
    fn arm(&mut self, _: Option<Duration>) -> Result<(), Dead> {
        Err(Dead)
    }
}

impl Clock for Silent {
    fn now(&self) -> crate::Instant {
        crate::Instant::ZERO
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

// rule W3, W5, I3
#[test]
fn a_ticket_leaves_no_listener_behind() {
    let build = crate::Admission::<Nowhere>::builder().provider("a", |p| p.max_concurrent(1)).build();
    let admission = build.unwrap();
    let a = admission.provider("a").unwrap();
    let (handle, signal) = AbortHandle::new();
    let call = || a.abort_signal(&signal);
    let mut cx = Context::from_waker(Waker::noop());

    let permit = call().try_acquire().unwrap();
    assert_eq!(signal.listeners(), 0, "one that started never listened");
    drop(call().enqueue());
    assert_eq!(signal.listeners(), 0, "dropped");
    let mut granted = call().enqueue();
    assert_eq!(signal.listeners(), 1);
    drop(permit);
    let Poll::Ready(Ok(permit)) = granted.poll_acquire(&mut cx) else { panic!("granted") };
    assert_eq!(signal.listeners(), 0, "started");
    let mut lost = call().enqueue();
    assert!(lost.poll_acquire(&mut cx).is_ready());
    assert_eq!(signal.listeners(), 0, "refused: there is no runtime");
    let aborted = signal.aborted();
    let mut waiting = Box::pin(aborted);
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    let refused = call().enqueue();
    assert_eq!(signal.listeners(), 2);
    admission.close();
    drop(refused);
    assert_eq!(signal.listeners(), 1, "closed, and dropped");
    drop(waiting);
    assert_eq!(signal.listeners(), 0);
    drop(permit);
    handle.abort();
    assert_eq!(admission.counts(), crate::Counts::default());
}

// rule I4, W5
#[test]
fn a_linked_signal_leaves_nothing_with_those_that_fire_it() {
    let ((_quiet, one), (handle, other)) = (AbortHandle::new(), AbortHandle::new());
    let linked = AbortHandle::linked([one.clone(), other.clone(), AbortSignal::never()]);
    let below = AbortHandle::linked([linked.signal()]);
    assert_eq!((one.listeners(), other.listeners()), (1, 1));
    handle.abort_with("enough");
    for signal in [linked.signal(), below.signal(), AbortHandle::linked([other]).signal()] {
        assert_eq!(signal.reason().unwrap().to_string(), "enough");
    }
    assert!(!one.is_aborted());
    drop((linked, below));
    assert_eq!(one.listeners(), 0);
}

// rule W3
#[test]
fn a_signal_from_a_future_fires_those_that_are_linked_to_it() {
    struct Counter(std::sync::atomic::AtomicUsize);
    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }
    let (handle, source) = AbortHandle::new();
    let source = AbortSignal::from_future(async move { source.aborted().await });
    let linked = AbortHandle::linked([source]).signal();
    let counter = Arc::new(Counter(0.into()));
    let waker = Waker::from(counter.clone());
    let mut aborted = Box::pin(linked.aborted());
    assert!(aborted.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    handle.abort_with("ready");
    assert_eq!(counter.0.load(std::sync::atomic::Ordering::SeqCst), 1);
    let Poll::Ready(reason) = aborted.as_mut().poll(&mut Context::from_waker(&waker)) else {
        panic!("it has fired")
    };
    assert_eq!(reason.to_string(), "ready");
}
// rules W3, I4
#[test]
fn an_abort_returns_when_all_are_out_even_if_another_thread_saw_it_first() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::thread;

    /// The first listener of the upper signal: has another thread look at the lower one meanwhile.
    type Look = (AbortSignal, SyncSender<()>, Receiver<()>);
    struct Meanwhile(Mutex<Option<Look>>);
    impl Wake for Meanwhile {
        fn wake(self: Arc<Self>) {
            let (signal, seen, is_seen) = self.0.lock().unwrap().take().unwrap();
            thread::spawn(move || {
                let mut aborted = signal.aborted();
                let polled = Pin::new(&mut aborted).poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_ready() && signal.is_aborted() && signal.reason().is_some());
                let _ = seen.send(());
            });
            is_seen.recv().unwrap();
        }
    }

    /// The first listener of the lower signal: keeps any thread but the test's from going on.
    struct Stuck {
        test: thread::ThreadId,
        seen: SyncSender<()>,
        go_on: Mutex<Receiver<()>>,
        wakes: AtomicUsize,
    }
    impl Wake for Stuck {
        fn wake(self: Arc<Self>) {
            self.wakes.fetch_add(1, Ordering::SeqCst);
            if thread::current().id() != self.test {
                let _ = self.seen.send(());
                let _ = self.go_on.lock().unwrap().recv();
            }
        }
    }

    let build = crate::Admission::<Nowhere>::builder().provider("a", |p| p.max_concurrent(1)).build();
    let admission = build.unwrap();
    let a = admission.provider("a").unwrap();
    let (handle, upper) = AbortHandle::new();
    let (seen, is_seen) = sync_channel(2);
    let (release, go_on) = sync_channel::<()>(1);
    let cell = Arc::new(Meanwhile(Mutex::default()));
    let mut first = Box::pin(upper.aborted());
    let waker = Waker::from(cell.clone());
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let lower = AbortHandle::linked([upper]).signal();
    let test = thread::current().id();
    let stuck =
        Arc::new(Stuck { test, seen: seen.clone(), go_on: Mutex::new(go_on), wakes: AtomicUsize::new(0) });
    let mut second = Box::pin(lower.aborted());
    let waker = Waker::from(stuck.clone());
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    *cell.0.lock().unwrap() = Some((lower.clone(), seen, is_seen));

    let _runs = a.try_acquire().unwrap();
    let _waits = a.abort_signal(&lower).enqueue();
    assert_eq!(admission.counts().queued, 1);
    handle.abort();
    let queued = admission.counts().queued;
    drop(release);
    assert_eq!(queued, 0, "before the abort returns");
    assert_eq!(stuck.wakes.load(Ordering::SeqCst), 1, "once each");
}
