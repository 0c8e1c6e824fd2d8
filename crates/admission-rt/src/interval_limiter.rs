//! The shared interval limiter: one pacer as an object of its own.
//!
//! Owns: its name and its manner, which is to let go of a call as soon as it was called (rule I3).
//! Lacks a queue or a clock of its own: it is a coordinator with one provider that has one interval.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use admission_core::{Counts, Pacer, ProviderId};

use crate::alarms::Host;
use crate::builder::{Interval, Limits, Plan};
use crate::guests::Target;
use crate::runtime::{Clock, Runtime};
use crate::shared::Manner;
use crate::{
    AbortSignal, Acquire, BuildError, Call, ChangeError, Closed, Idle, Provider, Rejected, Retry, RetryCall,
    Run, TryRun,
};

/// Hands out start times at least an interval apart, first in first out, to whoever shares it
/// (rules I1 to I3).
///
/// A handle: clones are the same limiter; retries share it too, each taking its own place at the
/// tail. It paces starts and does not wait for what was started: a call's I/O may overlap with the
/// next. The first start is immediate; idle time earns no credit.
pub struct IntervalLimiter<R> {
    provider: Provider<R>,
}

impl<R: Runtime> IntervalLimiter<R> {
    /// Begins a limiter of one start per `interval`.
    pub fn builder(interval: Duration) -> IntervalLimiterBuilder<R> {
        IntervalLimiterBuilder {
            interval: Interval::new(interval),
            name: None,
            plan: Plan::default(),
            clock: None,
            runtime: PhantomData,
        }
    }

    /// Waits for a start and calls the operation in that very poll, after one last look at the
    /// signal; then lets go, and drives the operation's future. The interval runs from the call of
    /// the operation. Lazy: see [`Run`].
    ///
    /// [`Rejected::Aborted`] carries the signal's reason; [`Rejected::Overflow`] means that
    /// `max_waiting` callers wait already.
    pub fn run<F, Fut>(&self, signal: &AbortSignal, operation: F) -> Run<R, F, Fut>
    where
        F: FnOnce() -> Fut,
        Fut: Future,
    {
        self.with(signal).run(operation)
    }

    /// Like [`run`](Self::run), for operations that may fail. Without a signal: `limiter.call().try_run(…)`.
    pub fn try_run<F, Fut, T, E>(&self, signal: &AbortSignal, operation: F) -> TryRun<R, F, Fut>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.with(signal).try_run(operation)
    }

    /// Tries again where a policy says so, each attempt in a place of its own at the tail (rules I1,
    /// E5). The signal ends the wait for a start and the wait between two attempts; admission is let
    /// go as soon as an attempt was called. See [`Call::retry`].
    pub fn retry<E>(&self, signal: &AbortSignal, policy: Retry<E>) -> RetryCall<R, E> {
        self.with(signal).retry(policy)
    }

    /// Waits for a start: when this is ready, start. Lazy and cancel safe: see [`Start`].
    pub fn acquire(&self) -> Start<R> {
        Start { acquire: self.provider.acquire() }
    }

    /// A start now or not at all: takes no place in the queue and needs no runtime. If it is `Ok`, start; the
    /// interval runs from this call.
    ///
    /// # Errors
    ///
    /// [`Rejected::Exhausted`] says what held it back, and for how long at least it is no use to try again;
    /// [`Rejected::Closed`].
    pub fn try_acquire(&self) -> Result<(), Rejected> {
        self.provider.try_acquire().map(drop)
    }

    /// A call without options, to add some: a timeout, a signal, a key. A permit from it is to be
    /// dropped as soon as the call has started.
    pub fn call(&self) -> Call<R> {
        self.provider.call()
    }

    /// How many callers wait, are granted, or are between their start and the call of their
    /// operation.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.provider.shared.counts()
    }

    /// Changes the interval while callers wait; it runs from the last start (rule L7). The margin
    /// stays as it was built.
    ///
    /// # Errors
    ///
    /// [`BuildError::ZeroInterval`] (rule I2), and nothing changes.
    pub fn set_interval(&self, interval: Duration) -> Result<(), ChangeError> {
        let Provider { shared, target, .. } = &self.provider;
        let before = shared.turn(|state, _| state.limits.of(target.id).cloned());
        let mut new = Interval::new(interval);
        if let Some(Pacer::Interval(old)) = before.and_then(|limits| limits.pacers.first().copied()) {
            new = new.margin(old.margin);
        }
        self.provider.set_limits(|limits| limits.paced(new))
    }

    /// Refuses every caller that waits, and every later one (rule W4).
    pub fn close(&self) {
        self.provider.shared.turn(|state, now| state.core.close(now));
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.provider.shared.turn(|state, _| state.core.is_closed())
    }

    /// Waits until it is closed.
    pub fn closed(&self) -> Closed {
        Closed::new(self.provider.shared.clone())
    }

    /// Waits until nobody waits or is granted.
    pub fn idle(&self) -> Idle {
        Idle::new(self.provider.shared.clone(), Host::of::<R>())
    }

    /// The same limiter, for callers in another runtime.
    #[must_use]
    pub fn on<S: Runtime>(&self) -> IntervalLimiter<S> {
        IntervalLimiter { provider: self.provider.on() }
    }

    fn with(&self, signal: &AbortSignal) -> Call<R> {
        match signal.is_never() {
            true => self.provider.call(),
            false => self.provider.abort_signal(signal),
        }
    }
}

impl<R> Clone for IntervalLimiter<R> {
    fn clone(&self) -> Self {
        Self { provider: self.provider.clone() }
    }
}

impl<R> fmt::Debug for IntervalLimiter<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &self.provider.shared;
        let counts = shared.turn(|state, _| state.core.counts());
        let name = shared.names.name(&self.provider.target);
        f.debug_struct("IntervalLimiter")
            .field("name", &name)
            .field("counts", &counts)
            .finish_non_exhaustive()
    }
}

/// The future of [`IntervalLimiter::acquire`]: an [`Acquire`] that keeps no permit.
#[must_use = "futures do nothing unless polled"]
pub struct Start<R> {
    acquire: Acquire<R>,
}

impl<R: Runtime> Future for Start<R> {
    type Output = Result<(), Rejected>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.get_mut().acquire.poll_acquire(cx)).map(drop))
    }
}

impl<R> fmt::Debug for Start<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Start").field(&self.acquire).finish()
    }
}

/// Builds an [`IntervalLimiter`].
#[must_use = "a builder builds nothing until `build`"]
pub struct IntervalLimiterBuilder<R> {
    interval: Interval,
    name: Option<Arc<str>>,
    plan: Plan,
    clock: Option<Arc<dyn Clock>>,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> IntervalLimiterBuilder<R> {
    /// What its errors and `Debug` call it; `interval limiter` unless stated. Name each if there are several: otherwise a
    /// log does not say which of them refused.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// At most so many callers waiting, the granted one not counted; one more is refused with
    /// [`Rejected::Overflow`]. 1,024 unless stated; 0 means at once or not at all.
    pub const fn max_waiting(mut self, callers: u32) -> Self {
        self.plan.max_queued = Some(callers);
        self
    }

    /// Adds to the interval. Zero unless stated.
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.interval = self.interval.margin(margin);
        self
    }

    /// How long a granted call may be left unpolled; see [`Builder::hand_off`](crate::Builder::hand_off).
    pub const fn hand_off(mut self, time: Duration) -> Self {
        self.plan.hand_off = Some(time);
        self
    }

    /// Takes time from another clock than the runtime's own (rule T5).
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The limiter.
    ///
    /// # Errors
    ///
    /// [`BuildError::ZeroInterval`] (rule I2) and [`BuildError::HandOffTooShort`].
    pub fn build(mut self) -> Result<IntervalLimiter<R>, BuildError> {
        let name = self.name.unwrap_or_else(|| "interval limiter".into());
        self.plan.providers.push((name, Limits::default().paced(self.interval)));
        let manner = Manner { at_once: false, until_called: true };
        let shared = self.plan.build(self.clock.unwrap_or_else(R::clock), manner, None)?;
        Ok(IntervalLimiter { provider: Provider::new(shared, Target::configured(ProviderId::new(0))) })
    }
}

impl<R> fmt::Debug for IntervalLimiterBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntervalLimiterBuilder").field("interval", &self.interval).finish_non_exhaustive()
    }
}
