//! A call as its caller holds it: polled with a waker that is counted and perhaps hostile, its panics caught, its
//! drop guarded.
//!
//! Owns: the wrapper, the waker, and the panics that are made. Lacks what is called.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::ground::{FLEX, Ground, QUEUE};
use crate::host::Boxed;
use crate::observer::{Observer, PLACES};
use crate::tally::Event;

/// How far a call has come, as its caller sees it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Its operation was called, or its permit is there.
    pub has_started: AtomicBool,
    is_woken: AtomicBool,
}

/// See the module. Its output says whether the call came to its end without a panic.
pub struct Guarded {
    ground: Arc<Ground>,
    call: Option<Boxed>,
    progress: Arc<Progress>,
    is_hostile: bool,
    is_polled: bool,
    /// The waker of the task, and ours for it.
    wakers: Option<(Waker, Waker)>,
}

impl Guarded {
    /// Guards a call.
    pub fn new(ground: &Arc<Ground>, progress: Arc<Progress>, is_hostile: bool, call: Boxed) -> Self {
        let ground = Arc::clone(ground);
        Self { ground, call: Some(call), progress, is_hostile, is_polled: false, wakers: None }
    }

    /// The cancel that it is to be dropped now.
    pub fn stage(&self) -> Event {
        if !self.is_polled {
            Event::DropUnpolled
        } else if self.progress.has_started.load(Ordering::SeqCst) {
            Event::DropRunning
        } else if self.progress.is_woken.load(Ordering::SeqCst) {
            Event::DropWoken
        } else {
            Event::DropQueued
        }
    }

    fn waker(&mut self, task: &Waker) -> Waker {
        if let Some((known, ours)) = &self.wakers {
            if known.will_wake(task) {
                return ours.clone();
            }
        }
        self.ground.observer.wakers.fetch_add(1, Ordering::SeqCst);
        let ours = Waker::from(Arc::new(Counted {
            task: task.clone(),
            progress: Arc::clone(&self.progress),
            observer: Arc::clone(&self.ground.observer),
            meddles: self.is_hostile.then(|| Arc::clone(&self.ground)),
        }));
        self.wakers = Some((task.clone(), ours.clone()));
        ours
    }
}

impl Future for Guarded {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let ours = self.waker(cx.waker());
        self.progress.is_woken.store(false, Ordering::SeqCst);
        self.is_polled = true;
        let Self { ground, call, .. } = &mut *self;
        let Some(future) = call else { return Poll::Ready(true) };
        let polled = guard(&ground.observer, || {
            ground.observer.polling(|| future.as_mut().poll(&mut Context::from_waker(&ours)))
        });
        if polled == Some(Poll::Pending) {
            return Poll::Pending;
        }
        guard(&ground.observer, || drop(call.take()));
        self.wakers = None;
        Poll::Ready(polled.is_some())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let Self { ground, call, .. } = self;
        guard(&ground.observer, || drop(call.take()));
    }
}

/// A waker for what is not admission's, such as a timer of a runtime, which has not deserved one that panics.
pub fn tame(observer: &Arc<Observer>, cx: &Context<'_>) -> Waker {
    Waker::from(Arc::new(Tamed { waker: cx.waker().clone(), observer: Arc::clone(observer) }))
}

struct Tamed {
    waker: Waker,
    observer: Arc<Observer>,
}

impl Wake for Tamed {
    fn wake(self: Arc<Self>) {
        guard(&self.observer, || self.waker.wake_by_ref());
    }
}

/// Does what may panic, which only what was made to may. The answer is missing if it did.
pub fn guard<A>(observer: &Arc<Observer>, act: impl FnOnce() -> A) -> Option<A> {
    let depth = GUARDED.get();
    GUARDED.set(depth + 1);
    let outcome = catch_unwind(AssertUnwindSafe(act));
    GUARDED.set(depth);
    match outcome {
        Ok(answer) => Some(answer),
        Err(panic) => {
            observer.tally.count(Event::CameOut);
            if !is_boom(&*panic) {
                observer.fault("a panic that nobody made came out");
            }
            drop(panic);
            None
        }
    }
}

/// Panics, one time in so many, unless this thread panics already.
pub fn boom(observer: &Arc<Observer>, what: Event, one_in: u64) {
    let may = observer.is_hostile.load(Ordering::Relaxed) && !std::thread::panicking();
    if may && observer.draw() % one_in == 0 {
        observer.tally.count(what);
        panic!("boom");
    }
}

/// The same for a destructor: only where somebody catches it.
pub fn boom_in_drop(observer: &Arc<Observer>, one_in: u64) {
    if GUARDED.get() > 0 {
        boom(observer, Event::PanicInDrop, one_in);
    }
}

/// Whether a panic is one that was made here.
pub fn is_boom(panic: &(dyn Any + Send)) -> bool {
    panic.downcast_ref::<&str>() == Some(&"boom")
}

/// Wakes its task, and then perhaps comes back in, or panics.
struct Counted {
    task: Waker,
    progress: Arc<Progress>,
    observer: Arc<Observer>,
    meddles: Option<Arc<Ground>>,
}

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.progress.is_woken.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
        if let Some(ground) = &self.meddles {
            self.observer.tally.count(Event::Wakes);
            meddle(ground);
            boom(&self.observer, Event::PanicInWaker, 24);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.observer.wakers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Calls the coordinator from inside whatever has called us, but not for ever.
fn meddle(ground: &Arc<Ground>) {
    let depth = DEPTH.get();
    if depth >= DEEPEST || !ground.observer.is_hostile.load(Ordering::Relaxed) {
        return;
    }
    struct Back(u32);
    impl Drop for Back {
        fn drop(&mut self) {
            DEPTH.set(self.0);
        }
    }
    DEPTH.set(depth + 1);
    let _back = Back(depth);
    let chance = ground.observer.draw();
    let (what, chance) = (chance % 16, chance / 16);
    let provider = ground.admission.provider(PLACES[chance as usize % PLACES.len()].name);
    let Ok(provider) = provider else { return };
    ground.observer.tally.count(Event::Meddled);
    match what {
        0 => drop(ground.admission.snapshot()),
        1 => drop(ground.admission.waiting()),
        2 => drop(ground.admission.counts()),
        3..5 => drop(provider.try_acquire()),
        5 => drop(provider.enqueue()),
        6..8 => ground.fire(chance),
        8..10 => ground.drop_stranger(chance),
        10..13 => ground.poll_stranger(chance),
        13 => drop(ground.query(chance).map(|query| query.subscribe())),
        14 => ground.admission.set_max_queued(QUEUE - chance as u32 % 16),
        _ => drop(ground.admission.cooldown(PLACES[FLEX].name, Duration::from_micros(50))),
    }
}

thread_local! {
    static GUARDED: Cell<u32> = const { Cell::new(0) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// So deep wakers may stand inside each other.
const DEEPEST: u32 = 3;
