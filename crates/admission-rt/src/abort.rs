//! Abort signals: one side says stop, with a reason; any number of calls listen.
//!
//! Owns: the listeners of a signal. A waiting ticket listens *itself*, so that an abort takes it
//! out of the queue at once, whether or not its future is polled (rule W3). Lacks any hold on a
//! call that runs: an operation that wants to stop early listens on its own.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

use admission_core::TicketId;

use crate::AbortReason;
use crate::shared::Shared;
use crate::slab::Slab;
use crate::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use crate::unwind::{Unwind, quietly};

/// The side that aborts. Clones abort the same signal; dropping a handle aborts nothing.
///
/// ```
/// use admission_rt::{AbortHandle, AbortReason};
///
/// let (handle, signal) = AbortHandle::new();
/// assert!(!signal.is_aborted());
/// handle.abort_with("the user left");
/// handle.abort_with(AbortReason::Timeout); // Too late: the first reason stands.
/// assert_eq!(signal.reason().unwrap().to_string(), "the user left");
/// ```
#[derive(Clone, Debug)]
pub struct AbortHandle {
    inner: Arc<Inner>,
}

impl AbortHandle {
    /// A handle and its signal.
    #[must_use]
    pub fn new() -> (Self, AbortSignal) {
        let handle = Self { inner: Inner::new(None, Vec::new()) };
        let signal = handle.signal();
        (handle, signal)
    }

    /// A handle whose signal also fires when one of these does, with that one's reason. So a ticket
    /// that waits with it leaves its queue at once, whichever it is. Nothing of it is left with them
    /// once the signal is gone.
    pub(crate) fn linked(signals: impl IntoIterator<Item = AbortSignal>) -> Self {
        let signals = signals.into_iter().filter_map(|signal| signal.inner);
        let inner = Inner::new(None, signals.collect());
        // One may have fired before it could be heard.
        if let Some(reason) = inner.look().cloned() {
            inner.abort(reason);
        }
        Self { inner }
    }

    /// Aborts with [`AbortReason::Requested`].
    pub fn abort(&self) {
        self.inner.abort(AbortReason::Requested);
    }

    /// Aborts with a reason: every call that waits with this signal leaves its queue before this
    /// returns, and gets the reason. The first reason stands; a later one is dropped, and returns at once
    /// even if another thread is still about the first.
    pub fn abort_with(&self, reason: impl Into<AbortReason>) {
        self.inner.abort(reason.into());
    }

    /// A signal that fires when this handle aborts.
    #[must_use]
    pub fn signal(&self) -> AbortSignal {
        AbortSignal { inner: Some(self.inner.clone()) }
    }
}

/// The side that is told. Clones are the same signal.
///
/// Given to a call with [`abort_signal`](crate::Call::abort_signal): it is looked at before the
/// call is submitted, again right before it starts (rule S3), and never after that.
#[derive(Clone, Debug)]
pub struct AbortSignal {
    inner: Option<Arc<Inner>>,
}

impl AbortSignal {
    /// A signal that never fires. It costs nothing.
    #[must_use]
    pub const fn never() -> Self {
        Self { inner: None }
    }

    /// A signal that fires when a future is ready, with its output as the reason: a timer, a
    /// cancellation token, a closed channel.
    ///
    /// Nothing is spawned: the future is polled by those who wait with the signal, and makes no
    /// progress while nobody does. It must not poll a call that waits with this same signal.
    #[must_use]
    pub fn from_future<F>(source: F) -> Self
    where
        F: Future<Output: Into<AbortReason>> + Send + 'static,
    {
        Self { inner: Some(Inner::new(Some(Box::pin(async move { source.await.into() })), Vec::new())) }
    }

    /// Whether it has fired. (A signal from a future does not ask the future.)
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.fired().is_some())
    }

    /// The reason, once it has fired.
    #[must_use]
    pub fn reason(&self) -> Option<AbortReason> {
        self.inner.as_ref()?.fired().cloned()
    }

    /// Waits until it fires. Cancel safe: dropping the future leaves nothing behind.
    pub fn aborted(&self) -> Aborted {
        Aborted { signal: self.clone(), listener: None }
    }

    /// Fires it, for those who made it.
    pub(crate) fn abort(&self, reason: AbortReason) {
        if let Some(inner) = &self.inner {
            inner.abort(reason);
        }
    }

    pub(crate) const fn is_never(&self) -> bool {
        self.inner.is_none()
    }

    /// Whether they are the same signal.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.inner, &other.inner) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }

    /// The reason, if it has fired or its future is ready now.
    pub(crate) fn look(&self) -> Option<AbortReason> {
        self.inner.as_ref()?.look().cloned()
    }

    /// Makes a ticket leave its queue when the signal fires. `Err` if it has fired already.
    pub(crate) fn listen(&self, shared: &Arc<Shared>, ticket: TicketId) -> Result<Option<u32>, AbortReason> {
        let Some(inner) = &self.inner else { return Ok(None) };
        let shared = Arc::downgrade(shared);
        let mut listeners = inner.lock();
        // Looked at under the lock: whoever sets the reason takes the listeners after that.
        if inner.reason.get().is_none() {
            return Ok(listeners.insert(Listener::Ticket(shared, ticket)));
        }
        drop(listeners);
        Err(inner.reason.get().cloned().unwrap_or(AbortReason::Requested))
    }

    /// Listens no more. Once a signal has fired there are no listeners, and nothing to do.
    pub(crate) fn leave(&self, listener: u32) {
        if let Some(inner) = &self.inner {
            inner.leave(listener);
        }
    }

    #[cfg(test)]
    pub(crate) fn listeners(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.lock().len())
    }
}

/// The future of [`AbortSignal::aborted`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Aborted {
    signal: AbortSignal,
    listener: Option<u32>,
}

impl Future for Aborted {
    type Output = AbortReason;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<AbortReason> {
        let this = self.get_mut();
        let Some(inner) = &this.signal.inner else { return Poll::Pending };
        if let Some(reason) = inner.reason.get() {
            return Poll::Ready(reason.clone());
        }
        let mut listeners = inner.lock();
        let kept = this.listener.and_then(|listener| listeners.get_mut(listener)).is_some_and(
            |listener| matches!(listener, Listener::Task(Some(waker)) if waker.will_wake(cx.waker())),
        );
        drop(listeners);
        if !kept {
            let waker = cx.waker().clone();
            let mut listeners = inner.lock();
            let mut old = None;
            if inner.reason.get().is_none() {
                let listener = Listener::Task(Some(waker));
                match this.listener.and_then(|listener| listeners.get_mut(listener)) {
                    Some(place) => old = Some(std::mem::replace(place, listener)),
                    None => this.listener = listeners.insert(listener),
                }
            } else {
                old = Some(Listener::Task(Some(waker)));
            }
            drop(listeners);
            drop(old);
        }
        // After listening, so that a wake of the source's is not missed.
        match inner.look() {
            Some(reason) => Poll::Ready(reason.clone()),
            None => Poll::Pending,
        }
    }
}

impl Drop for Aborted {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.take() {
            quietly(|| self.signal.leave(listener));
        }
    }
}

struct Inner {
    /// Set before the listeners are taken, and never again: read without a lock, cloned and dropped
    /// outside every lock.
    reason: OnceLock<AbortReason>,
    listeners: Mutex<Slab<Listener>>,
    source: Option<Mutex<Source>>,
    /// The signals that fire this one, each with its place among their listeners.
    upstream: Vec<(Arc<Self>, Option<u32>)>,
    /// This very object, for the waker that the source gets.
    me: Weak<Self>,
}

enum Listener {
    /// A task; without a waker once it was woken by the source.
    Task(Option<Waker>),
    /// A ticket in a coordinator.
    Ticket(Weak<Shared>, TicketId),
    /// A signal that fires with this one.
    Linked(Weak<Inner>),
}

type SourceFuture = Pin<Box<dyn Future<Output = AbortReason> + Send>>;

/// The future behind a signal.
struct Source {
    /// Not there while somebody polls it, and when it is done.
    future: Option<SourceFuture>,
    /// It was woken while somebody polled it: those who came by meanwhile must come again.
    woken: bool,
}

impl Inner {
    fn new(source: Option<SourceFuture>, upstream: Vec<Arc<Self>>) -> Arc<Self> {
        let source = source.map(|future| Mutex::new(Source { future: Some(future), woken: false }));
        Arc::new_cyclic(|me| {
            let listen = |signal: Arc<Self>| {
                let mut listeners = signal.lock();
                let is_late = signal.reason.get().is_some();
                let listener = if is_late { None } else { listeners.insert(Listener::Linked(me.clone())) };
                drop(listeners);
                (signal, listener)
            };
            Self {
                reason: OnceLock::new(),
                listeners: Mutex::new(Slab::new()),
                source,
                upstream: upstream.into_iter().map(listen).collect(),
                me: me.clone(),
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Slab<Listener>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn abort(&self, reason: AbortReason) {
        if self.reason.set(reason).is_err() {
            return;
        }
        let Some(reason) = self.reason.get() else { return };
        let mut listeners = std::mem::take(&mut *self.lock());
        let mut unwind = Unwind::new();
        for listener in listeners.iter_mut() {
            match listener {
                Listener::Task(waker) => {
                    if let Some(waker) = waker.take() {
                        unwind.catch(|| waker.wake());
                    }
                }
                Listener::Ticket(shared, ticket) => {
                    let Some(shared) = shared.upgrade() else { continue };
                    unwind.catch(|| shared.turn(|state, now| state.core.handle_abort(*ticket, now)));
                    // This may have been the last handle, and then its drop is foreign code too.
                    unwind.catch(|| drop(shared));
                }
                Listener::Linked(linked) => {
                    let Some(linked) = linked.upgrade() else { continue };
                    unwind.catch(|| linked.abort(reason.clone()));
                    unwind.catch(|| drop(linked));
                }
            }
        }
        unwind.resume();
    }

    /// The reason: its own, or that of a signal which fires this one and is just about to.
    fn fired(&self) -> Option<&AbortReason> {
        self.reason.get().or_else(|| self.upstream.iter().find_map(|(signal, _)| signal.fired()))
    }

    /// The reason; polls the source, if there is one and nobody else is at it.
    ///
    /// It fires nothing that is not its own. Whoever aborts a signal fires those that are linked to it,
    /// and may say that all are out when it is done: nobody else may have begun with one of them.
    fn look(&self) -> Option<&AbortReason> {
        if self.reason.get().is_none() && self.source.is_some() {
            self.poll_source();
        }
        self.reason.get().or_else(|| self.upstream.iter().find_map(|(signal, _)| signal.look()))
    }

    fn poll_source(&self) {
        let (Some(source), Some(me)) = (&self.source, self.me.upgrade()) else { return };
        let lock = || source.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut future) = lock().future.take() else { return };
        let waker = Waker::from(Arc::new(SourceWaker(Arc::downgrade(&me))));
        // If the source panics it is dropped, and the signal never fires.
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(reason) => {
                drop(future);
                self.abort(reason);
            }
            Poll::Pending => {
                let mut source = lock();
                source.future = Some(future);
                let woken = std::mem::take(&mut source.woken);
                drop(source);
                if woken {
                    self.nudge();
                }
            }
        }
    }

    /// Has everybody who waits with the signal polled again, since any of them may go away before
    /// it does.
    fn nudge(&self) {
        let mut wakers = Vec::new();
        let mut tickets = Vec::new();
        let mut linked = Vec::new();
        for listener in self.lock().iter_mut() {
            match listener {
                Listener::Task(waker) => wakers.extend(waker.take()),
                Listener::Ticket(shared, ticket) => tickets.push((shared.clone(), *ticket)),
                Listener::Linked(inner) => linked.extend(inner.upgrade()),
            }
        }
        let mut unwind = Unwind::new();
        for (shared, ticket) in tickets {
            let Some(shared) = shared.upgrade() else { continue };
            let (waker, caught) = shared.turn_held(|state, _| state.waiters.nudge(ticket));
            unwind.catch(|| caught.resume());
            wakers.extend(waker);
            unwind.catch(|| drop(shared));
        }
        for waker in wakers {
            unwind.catch(|| waker.wake());
        }
        for inner in linked {
            unwind.catch(|| inner.nudge());
            unwind.catch(|| drop(inner));
        }
        unwind.resume();
    }

    /// Once it has fired there are no listeners, and nothing to do.
    fn leave(&self, listener: u32) {
        let mut listeners = self.lock();
        let left = if self.reason.get().is_none() { listeners.remove(listener) } else { None };
        drop(listeners);
        drop(left);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for (signal, listener) in self.upstream.drain(..) {
            if let Some(listener) = listener {
                quietly(|| signal.leave(listener));
            }
            // It may be the last that has it, and with it a future of the caller's own.
            quietly(|| drop(signal));
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Abort").field("reason", &self.reason.get()).finish_non_exhaustive()
    }
}

/// What a source wakes.
struct SourceWaker(Weak<Inner>);

impl Wake for SourceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Some(inner) = self.0.upgrade() else { return };
        if let Some(source) = &inner.source {
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            source.woken = source.future.is_none();
        }
        inner.nudge();
    }
}

#[cfg(test)]
mod tests;
