//! The rate limiter: one sliding log as an object of its own.
//!
//! Owns: clamping (rule R5) and the strategy. Lacks a queue or a log of its own: it is a
//! coordinator with one provider that has one window.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use admission_core::{Counts, CountsFrom, Pacer, ProviderId, ScopeId};

use crate::alarms::Host;
use crate::builder::{Limits, Plan, Window};
use crate::guests::Target;
use crate::runtime::{Clock, Runtime};
use crate::shared::Manner;
use crate::{
    Acquire, BuildError, Call, ChangeError, Closed, Idle, Permit, Provider, Rejected, Retry, RetryCall, Run,
    TryRun,
};

/// At most `limit` calls in any window of one length, wherever it begins: "60 per minute" is never
/// 120 across a boundary (rules R1 to R6).
///
/// A handle: clones are the same limiter. A call is spent when it is admitted, whether it succeeds
/// or fails; slow work spends no more (rule R4).
pub struct RateLimiter<R> {
    provider: Provider<R>,
}

impl<R: Runtime> RateLimiter<R> {
    /// Begins a limiter of `limit` calls in any `window`. A limit of 0 is taken as 1; a window of 0
    /// admits everything (rule R5).
    pub fn builder(limit: u64, window: Duration) -> RateLimiterBuilder<R> {
        RateLimiterBuilder {
            window: Window::new(limit.max(1), window),
            name: None,
            strategy: Strategy::Wait,
            plan: Plan { max_queued: Some(65_536), ..Plan::default() },
            clock: None,
            runtime: PhantomData,
        }
    }

    /// Begins a limiter from numbers that come from elsewhere, a configuration file, say. A limit
    /// below 1 or not finite is 1, and a fraction is cut off; a window that is negative or not
    /// finite is 0, and one too long for a [`Duration`] is the longest (rule R5).
    pub fn builder_from_floats(limit: f64, window_secs: f64) -> RateLimiterBuilder<R> {
        Self::builder(whole(limit), clamped(window_secs))
    }

    /// A call without options, to add some: a timeout, a signal, a key.
    pub fn call(&self) -> Call<R> {
        self.provider.call()
    }

    /// Runs an operation when its turn comes; see [`Call::run`].
    pub fn run<F, Fut>(&self, operation: F) -> Run<R, F, Fut>
    where
        F: FnOnce() -> Fut,
        Fut: Future,
    {
        self.provider.run(operation)
    }

    /// Runs an operation that may fail, whose own error passes through unchanged (rule R6); see
    /// [`Call::try_run`].
    pub fn try_run<F, Fut, T, E>(&self, operation: F) -> TryRun<R, F, Fut>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.provider.try_run(operation)
    }

    /// Tries again where a policy says so, each attempt in a place of its own (rule E5); see
    /// [`Call::retry`].
    pub fn retry<E>(&self, policy: Retry<E>) -> RetryCall<R, E> {
        self.provider.retry(policy)
    }

    /// Waits for a turn; see [`Call::acquire`].
    pub fn acquire(&self) -> Acquire<R> {
        self.provider.acquire()
    }

    /// A permit at once or not at all, whatever the strategy; see [`Call::try_acquire`].
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why not, and for how long at least it is no use to try again.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit, Rejected> {
        self.provider.try_acquire()
    }

    /// Takes a place in the queue now; see [`Call::enqueue`].
    pub fn enqueue(&self) -> Acquire<R> {
        self.provider.enqueue()
    }

    /// How many calls are free right now, from 0 to the limit (rule R3).
    #[must_use]
    pub fn available(&self) -> u64 {
        let scope = ScopeId::Provider(self.provider.target.id);
        self.provider.shared.turn(|state, now| state.core.available(scope, 0, now)).unwrap_or(0)
    }

    /// Forgets the window and admits every call that is queued now, even past the limit; those
    /// starts are logged (rule R3).
    pub fn reset(&self) {
        // Nobody can remove a limiter's provider.
        let _ = self.provider.reset();
    }

    /// Changes the limit and the window while calls wait and run; what was counted stays counted, and
    /// whoever may start now is woken (rule L7). What it counts from, and the margin, stay as they
    /// were built. Clamped as when it is built (rule R5).
    ///
    /// # Errors
    ///
    /// [`BuildError::OutOfMemory`], and nothing changes.
    pub fn set_limit(&self, limit: u64, window: Duration) -> Result<(), ChangeError> {
        let Provider { shared, target, .. } = &self.provider;
        let before = shared.turn(|state, _| state.limits.of(target.id).cloned());
        let mut new = Window::new(limit.max(1), window);
        if let Some(Pacer::Log(log)) = before.and_then(|limits| limits.pacers.first().copied()) {
            new = new.margin(log.margin);
            if log.counts == CountsFrom::Settled {
                new = new.until_settled();
            }
        }
        self.provider.set_limits(|limits| limits.log(new))
    }

    /// The same from numbers that come from elsewhere; see
    /// [`builder_from_floats`](Self::builder_from_floats).
    ///
    /// # Errors
    ///
    /// As [`set_limit`](Self::set_limit).
    pub fn set_limit_from_floats(&self, limit: f64, window_secs: f64) -> Result<(), ChangeError> {
        self.set_limit(whole(limit), clamped(window_secs))
    }

    /// Refuses every call that waits, and every later one (rule W4).
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

    /// Waits until nothing is queued, granted or running.
    pub fn idle(&self) -> Idle {
        Idle::new(self.provider.shared.clone(), Host::of::<R>())
    }

    /// How many calls are queued, granted and running.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.provider.shared.counts()
    }

    /// The same limiter, for callers in another runtime.
    #[must_use]
    pub fn on<S: Runtime>(&self) -> RateLimiter<S> {
        RateLimiter { provider: self.provider.on() }
    }
}

impl<R> Clone for RateLimiter<R> {
    fn clone(&self) -> Self {
        Self { provider: self.provider.clone() }
    }
}

impl<R> fmt::Debug for RateLimiter<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &self.provider.shared;
        let counts = shared.turn(|state, _| state.core.counts());
        let name = shared.names.name(&self.provider.target);
        f.debug_struct("RateLimiter").field("name", &name).field("counts", &counts).finish_non_exhaustive()
    }
}

/// What becomes of a call that may not start at once (rule R1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// It waits for its turn. The default.
    #[default]
    Wait,
    /// It is refused with [`Rejected::Exhausted`].
    Reject,
}

/// Builds a [`RateLimiter`].
#[must_use = "a builder builds nothing until `build`"]
pub struct RateLimiterBuilder<R> {
    window: Window,
    name: Option<Arc<str>>,
    strategy: Strategy,
    plan: Plan,
    clock: Option<Arc<dyn Clock>>,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> RateLimiterBuilder<R> {
    /// What its errors and `Debug` call it; `rate limiter` unless stated. Name each if there are several: otherwise a
    /// log does not say which of them refused.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What becomes of a call that may not start at once; [`Strategy::Wait`] unless stated.
    pub const fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// The longest wait that is worth its while: a call whose estimated wait is longer is refused at
    /// once with [`Rejected::MaxWait`] and that estimate (rule R2). None unless stated; 0 refuses
    /// whatever would wait.
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.plan.max_wait = Some(wait);
        self
    }

    /// The same from a number: negative or not finite is 0 (rule R5).
    pub fn max_wait_secs(self, wait: f64) -> Self {
        self.max_wait(clamped(wait))
    }

    /// At most so many calls waiting; one more is refused with [`Rejected::Overflow`]. 65,536
    /// unless stated: a limiter's queue is bounded by patience (`max_wait`) rather than by memory,
    /// and this is a few megabytes.
    pub const fn max_queued(mut self, calls: u32) -> Self {
        self.plan.max_queued = Some(calls);
        self
    }

    /// Counts a call until one window after it ended, as the server may see it; see
    /// [`Window::until_settled`].
    pub fn until_settled(mut self) -> Self {
        self.window = self.window.until_settled();
        self
    }

    /// Adds to the window; see [`Window::margin`].
    pub fn margin(mut self, margin: Duration) -> Self {
        self.window = self.window.margin(margin);
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
    /// [`BuildError::HandOffTooShort`]; everything else that is out of range is clamped (rule R5).
    pub fn build(mut self) -> Result<RateLimiter<R>, BuildError> {
        let name = self.name.unwrap_or_else(|| "rate limiter".into());
        self.plan.providers.push((name, Limits::default().log(self.window)));
        let manner = Manner { at_once: self.strategy == Strategy::Reject, until_called: false };
        let shared = self.plan.build(self.clock.unwrap_or_else(R::clock), manner, None)?;
        Ok(RateLimiter { provider: Provider::new(shared, Target::configured(ProviderId::new(0))) })
    }
}

impl<R> fmt::Debug for RateLimiterBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiterBuilder")
            .field("window", &self.window)
            .field("strategy", &self.strategy)
            .finish_non_exhaustive()
    }
}

/// Rule R5: not finite is 1, and a fraction is cut off.
const fn whole(limit: f64) -> u64 {
    // The cast saturates.
    if limit.is_finite() { limit as u64 } else { 1 }
}

/// Rule R5: negative or not finite is 0, too long is the longest.
fn clamped(secs: f64) -> Duration {
    if !secs.is_finite() || secs <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // rule R5
    #[test]
    fn durations_that_are_out_of_range_are_clamped() {
        for secs in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -0.0, 0.0] {
            assert_eq!(clamped(secs), Duration::ZERO);
        }
        assert_eq!(clamped(f64::MAX), Duration::MAX);
        assert_eq!(clamped(1.5), Duration::from_millis(1_500));
    }
}
