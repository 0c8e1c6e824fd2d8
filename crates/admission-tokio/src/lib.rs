//! The tokio adapter: a small task per coordinator and runtime that sleeps until the next deadline.
//!
//! Owns: the alarm, whose runtime it is, the clock, and the aliases. Lacks, on purpose: any sleep in
//! a waiting future (they own no timer), and any decision (the coordinator's clock decides, the
//! alarm only wakes it).
//!
//! Any kind of tokio runtime will do, as long as its time is enabled. Where it is not, the first
//! call that has to wait panics in its own poll, as tokio's own `sleep` does; calls that need not
//! wait never notice. Under tokio's paused clock an hour of waiting takes no time, if the
//! coordinator is built inside that runtime:
//!
//! ```
//! use admission_tokio::Admission;
//! use std::time::Duration;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
//! # runtime.block_on(async {
//! let hour = Duration::from_secs(3_600);
//! let admission = Admission::builder().provider("slow", |p| p.interval(hour)).build().unwrap();
//! let slow = admission.provider("slow").unwrap();
//!
//! assert_eq!(slow.run(async || 1).await.unwrap(), 1);
//! assert_eq!(slow.run(async || 2).await.unwrap(), 2);
//! # });
//! ```
//!
//! Tokio's timers tick in milliseconds; for paces of a few of them there is an alarm of another kind, with
//! the feature `precise`.
#![forbid(unsafe_code)]

#[cfg(feature = "precise")]
pub mod precise;

use std::future::{Future, poll_fn};
use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::{Duration, SystemTime};

use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, Spawn};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

admission_rt::aliases!(Tokio);

/// The runtime, by type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tokio;

impl Runtime for Tokio {
    type Alarm = TokioAlarm;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(TokioClock::new())
    }

    fn current() -> Option<RuntimeId> {
        number_of_current().map(RuntimeId::new::<Tokio>)
    }

    fn alarm(bell: Bell) -> TokioAlarm {
        let handle = Handle::try_current();
        let at_once = handle.as_ref().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::CurrentThread);
        let state = State { dead: handle.is_err(), ..State::default() };
        let post = Arc::new(Post { bell, at_once, state: Mutex::new(state) });
        if let Ok(handle) = handle {
            // Where time is not enabled this panics, and it should do so in the caller's poll rather
            // than in a task that nobody awaits.
            drop(sleep(Duration::ZERO));
            handle.spawn(unconstrained(keep(Keeper { post: Arc::clone(&post) })));
        }
        TokioAlarm { post }
    }
}

impl Spawn for Tokio {
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if let Ok(handle) = Handle::try_current() {
            drop(handle.spawn(future));
        }
    }
}

/// Tokio's own clock, which can be paused; its origin is its creation.
///
/// Away from a runtime it goes on with the host's time, of which a paused runtime knows nothing: a
/// coordinator with a paused clock should be built and used inside its runtime.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    origin: Instant,
}

impl TokioClock {
    /// A clock that reads zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> admission_rt::Instant {
        admission_rt::Instant::ZERO + Instant::now().saturating_duration_since(self.origin)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that others ask")]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The coordinator's end of the alarm. The other end is a task; dropping this one ends it.
#[derive(Debug)]
pub struct TokioAlarm {
    post: Arc<Post>,
}

impl Alarm for TokioAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        let due = delay.map(|delay| Instant::now() + delay.min(LONGEST));
        let mut state = self.post.lock();
        if state.dead {
            return Err(Dead);
        }
        state.due = due;
        // A sleep that ends before the alarm is due can stay: it costs one look when it ends.
        let task = match (due, state.asleep) {
            (Some(due), Some(asleep)) if asleep <= due => None,
            (None, None) => None,
            _ => state.task.take(),
        };
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        Ok(())
    }
}

impl Drop for TokioAlarm {
    fn drop(&mut self) {
        let mut state = self.post.lock();
        state.dropped = true;
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// What the two ends share.
#[derive(Debug)]
struct Post {
    bell: Bell,
    /// Whether the sleep's waker rings the bell itself. On one thread that saves the task's turn in
    /// the queue; on many it would keep the timer's thread from its other timers.
    at_once: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When to ring, if at all.
    due: Option<Instant>,
    /// Until when the task sleeps, if it does.
    asleep: Option<Instant>,
    /// Wakes the task, which leaves it here whenever it has looked.
    task: Option<Waker>,
    dropped: bool,
    dead: bool,
}

impl Post {
    /// Rings if it is time.
    fn fire(&self) {
        let mut state = self.lock();
        state.asleep = None;
        if state.due.is_some_and(|due| due <= Instant::now()) {
            state.due = None;
            drop(state);
            self.bell.ring();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waker of the sleep, where the bell is rung at once.
impl Wake for Post {
    fn wake(self: Arc<Self>) {
        self.fire();
        let task = self.lock().task.take();
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// The task's end of the alarm. It is dropped with the task, so it knows when the runtime goes away.
struct Keeper {
    post: Arc<Post>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut state = self.post.lock();
        state.dead = true;
        let dropped = state.dropped;
        let task = state.task.take();
        drop(state);
        drop(task);
        if !dropped {
            self.post.bell.lost();
        }
    }
}

/// The task: sleeps until the alarm is due, and ends when it is dropped.
async fn keep(keeper: Keeper) {
    let post = &keeper.post;
    let ring_at_once = Waker::from(Arc::clone(post));
    let mut asleep = pin!(None::<Sleep>);
    poll_fn(|cx| {
        loop {
            let task = cx.waker().clone();
            let mut state = post.lock();
            let old = state.task.replace(task);
            let (dropped, due) = (state.dropped, state.due);
            state.asleep = due;
            drop(state);
            drop(old);
            if dropped {
                return Poll::Ready(());
            }
            let Some(due) = due else {
                asleep.set(None);
                return Poll::Pending;
            };
            match asleep.as_mut().as_pin_mut() {
                None => asleep.set(Some(sleep_until(due))),
                Some(sleep) if sleep.deadline() == due => {}
                Some(sleep) => sleep.reset(due),
            }
            if let Some(sleep) = asleep.as_mut().as_pin_mut() {
                let waker = if post.at_once { &ring_at_once } else { cx.waker() };
                ready!(sleep.poll(&mut Context::from_waker(waker)));
            }
            asleep.set(None);
            post.fire();
        }
    })
    .await;
}

/// Tells the runtime that polls the caller from all others that live.
fn number_of_current() -> Option<u64> {
    let handle = Handle::try_current().ok()?;
    let mut number = Number(0);
    handle.id().hash(&mut number);
    Some(number.0)
}

/// Takes the one number that tokio's runtime id hashes.
struct Number(u64);

impl Hasher for Number {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The longest sleep that is asked of tokio. What is longer is waited for in pieces.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
