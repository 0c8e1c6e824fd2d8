//! A caller: its future, its operation, its waker and its signal, each of which may do what it should not.
//!
//! Owns: the foreign code that the library meets. Lacks decisions: what a caller does next is the script's.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use admission_rt::{AbortHandle, AbortReason, Permit, Rejected};
use admission_testing::Acquire;

use crate::faults::Fault;
use crate::observer::reason_of;
use crate::plan::{CallSpec, Reentry};
use crate::world::with_world;

/// The payload of a panic that was planned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Planned {
    Waker,
    Operation,
    Predicate,
    Destructor,
    Closure,
}

impl Planned {
    /// Panics, and prints nothing.
    pub(crate) fn panic(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }
}

pub(crate) struct Caller {
    pub(crate) spec: CallSpec,
    pub(crate) slot: RefCell<Slot>,
    pub(crate) handle: Option<AbortHandle>,
    pub(crate) source: Option<Arc<Source>>,
    bell: RefCell<Arc<CallersWaker>>,
    bells: RefCell<Vec<Weak<CallersWaker>>>,
    pub(crate) is_neglected: Cell<bool>,
    /// When it started, by the runtimes' clock.
    pub(crate) started: Cell<Option<u64>>,
    pub(crate) is_done: Cell<bool>,
    pub(crate) panics: Cell<bool>,
    pub(crate) panics_in_predicate: Cell<bool>,
    pub(crate) panics_in_drop: Cell<bool>,
    pub(crate) panics_in_wake: Cell<bool>,
    pub(crate) reentries: RefCell<Vec<Reentry>>,
}

/// What a caller has in its hands.
pub(crate) enum Slot {
    Nothing,
    /// It is being polled or dropped further up the stack.
    Busy,
    Acquire(Acquire),
    Run(Pin<Box<dyn Future<Output = Result<(), Rejected>>>>),
    Permit(Permit),
}

impl Caller {
    pub(crate) fn new(
        number: usize,
        spec: CallSpec,
        handle: Option<AbortHandle>,
        source: Option<Arc<Source>>,
    ) -> Self {
        let bell = Arc::new(CallersWaker { caller: number, nth: 0 });
        Self {
            spec,
            slot: RefCell::new(Slot::Nothing),
            handle,
            source,
            bells: RefCell::new(vec![Arc::downgrade(&bell)]),
            bell: RefCell::new(bell),
            is_neglected: Cell::new(false),
            started: Cell::new(None),
            is_done: Cell::new(false),
            panics: Cell::new(false),
            panics_in_predicate: Cell::new(false),
            panics_in_drop: Cell::new(false),
            panics_in_wake: Cell::new(false),
            reentries: RefCell::default(),
        }
    }

    /// The waker for the next poll: mostly the one before, and always another from a fickle caller.
    pub(crate) fn waker(&self) -> Waker {
        if self.spec.is_fickle {
            let next = {
                let bell = self.bell.borrow();
                Arc::new(CallersWaker { caller: bell.caller, nth: bell.nth + 1 })
            };
            self.bells.borrow_mut().push(Arc::downgrade(&next));
            let old = self.bell.replace(next);
            drop(old);
        }
        Waker::from(self.bell.borrow().clone())
    }

    /// Whether anybody else still has one of its wakers.
    pub(crate) fn is_waker_held(&self) -> bool {
        let bells = self.bells.borrow();
        let held: usize = bells.iter().map(Weak::strong_count).sum();
        held > 1
    }

    /// Whether anybody else still has the future of its signal.
    pub(crate) fn is_signal_held(&self) -> bool {
        self.source.as_ref().is_some_and(|source| Arc::strong_count(source) > 1)
    }

    pub(crate) fn take(&self) -> Slot {
        self.slot.replace(Slot::Busy)
    }

    pub(crate) fn put(&self, slot: Slot) {
        let busy = self.slot.replace(slot);
        debug_assert!(matches!(busy, Slot::Busy));
    }
}

/// A waker of one caller, and its how manieth.
struct CallersWaker {
    caller: usize,
    nth: u64,
}

impl Wake for CallersWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        with_world(|world| {
            // A waker that was replaced since wakes nobody any more.
            let is_latest = world.caller(self.caller).bell.borrow().nth == self.nth;
            world.woken(self.caller, is_latest);
        });
    }
}

/// What a caller runs when it may: starts when it is made, ends when it is dropped.
pub(crate) struct Operation {
    caller: usize,
}

impl Operation {
    pub(crate) fn begin(caller: usize) -> Self {
        with_world(|world| world.starts(caller));
        let operation = Self { caller };
        if with_world(|world| world.caller(caller).panics.get() && world.caller(caller).spec.takes == 0)
            == Some(true)
        {
            with_world(|world| world.caller(caller).panics_in_drop.set(false));
            drop(operation);
            with_world(|world| world.caller(caller).panics.set(false));
            Planned::Operation.panic();
        }
        operation
    }
}

impl Future for Operation {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let (panics, is_done) = with_world(|world| {
            let caller = world.caller(self.caller);
            (caller.panics.take(), caller.is_done.get())
        })
        .unwrap_or((false, true));
        if panics {
            Planned::Operation.panic();
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        let panics = with_world(|world| {
            world.ends(self.caller);
            world.caller(self.caller).panics_in_drop.take()
        });
        if panics == Some(true) && !std::thread::panicking() {
            with_world(|world| world.note(Fault::PanicInDestructor));
            Planned::Destructor.panic();
        }
    }
}

/// What a signal from a future waits for.
#[derive(Default)]
pub(crate) struct Source {
    is_ready: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Source {
    pub(crate) fn fire(&self) {
        self.is_ready.store(true, Ordering::SeqCst);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The future of a [`Source`].
pub(crate) struct Awaited {
    pub(crate) caller: usize,
    pub(crate) source: Arc<Source>,
}

impl Future for Awaited {
    type Output = AbortReason;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<AbortReason> {
        if self.source.is_ready.load(Ordering::SeqCst) {
            return Poll::Ready(AbortReason::from(reason_of(self.caller).as_str()));
        }
        let old =
            self.source.waker.lock().unwrap_or_else(PoisonError::into_inner).replace(cx.waker().clone());
        drop(old);
        Poll::Pending
    }
}
