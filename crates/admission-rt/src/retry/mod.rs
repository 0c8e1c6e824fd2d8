//! Trying again: what is retried, how often, and after how long.
//!
//! Owns: the policy, and the one small machine that decides by it for whoever retries. Lacks any wait
//! (see [`pause`]) and any priority: a retry is a new call at the tail (rule E5). Lacks a backoff of
//! its own, too: delays come from a [`backon`] builder, jitter included.

mod error;
mod pause;
mod run;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backon::BackoffBuilder;

use crate::Rejected;
use crate::unwind::Quiet;

pub use error::RetryError;
pub(crate) use pause::Pause;
pub(crate) use run::Stranger;
pub use run::{RetryCall, RetryRun};

/// When to try again: a policy for operations that fail with `E`. Cheap to clone, to be shared by all
/// calls that are retried alike.
///
/// It says how often and after how long ([`times`](Self::times), [`backoff`](Self::backoff)), and may
/// narrow that down to some errors ([`when`](Self::when)). Refusals are another matter: they are not
/// errors of the operation, and are not retried unless [`when_refused`](Self::when_refused) says so
/// (rule E5).
///
/// ```
/// use admission_rt::{Retry, backon::ExponentialBuilder};
/// use std::time::Duration;
///
/// struct Failed { status: u16, retry_after: Option<Duration> }
///
/// let backoff = ExponentialBuilder::default().with_min_delay(Duration::from_millis(100)).with_jitter();
/// let policy = Retry::backoff(backoff)
///     .when(|failed: &Failed| failed.status == 429 || failed.status >= 500)
///     .cooldown(|failed| failed.retry_after);
/// ```
///
/// # What it is given
///
/// Its closures and its backoff run with no lock held, and may call the coordinator. If one panics,
/// the panic passes through whoever polls, like an operation's own: the permit is released and the
/// call is over.
pub struct Retry<E> {
    policy: Arc<Policy<E>>,
}

impl<E> Retry<E> {
    /// No retries. The default.
    #[must_use]
    pub fn never() -> Self {
        Self::times(0)
    }

    /// So many retries after the first attempt, at once unless [`delay`](Self::delay) says otherwise.
    #[must_use]
    pub fn times(retries: u32) -> Self {
        Self::new(Some(retries), None)
    }

    /// Retries after the delays that a builder gives, for as long as it gives any: `backon`'s
    /// constant, Fibonacci or exponential one, or an iterator of durations (that can be cloned) as it
    /// is. Each call begins anew. Jitter is the builder's, and so is the end: a builder that never
    /// ends retries for ever, if [`at_most`](Self::at_most) does not end it.
    #[must_use]
    pub fn backoff<B>(builder: B) -> Self
    where
        B: BackoffBuilder<Backoff: 'static> + Clone + 'static,
    {
        Self::new(None, Some(Arc::new(move || Box::new(builder.clone().build()))))
    }

    /// At most so many retries, whatever else allows more.
    #[must_use]
    pub fn at_most(self, retries: u32) -> Self {
        self.with(|policy| policy.times = Some(policy.times.map_or(retries, |times| times.min(retries))))
    }

    /// Waits at least so long before each retry. Zero unless stated.
    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|policy| policy.delay = delay)
    }

    /// Retries only after these errors; after every error unless stated. Asked once for each error
    /// that could be retried, and never about a refusal (rules E5, Q3). The closure's argument wants its type
    /// written out: `|error: &MyError|`.
    #[must_use]
    pub fn when(self, is_transient: impl Fn(&E) -> bool + Send + Sync + 'static) -> Self {
        self.with(|policy| policy.when = Some(Arc::new(is_transient)))
    }

    /// Turns an error into a cooldown of the call's provider: what a server says with `Retry-After`
    /// (rule L5). Asked about every error of the operation, also that of the last attempt, and one
    /// that is not retried: it concerns everybody who calls that provider.
    ///
    /// The cooldown is set before the attempt's permit is released, so that nobody who waits slips in
    /// between. (An [`IntervalLimiter`](crate::IntervalLimiter) has let go of its permit long before
    /// there is an error; there the cooldown comes as soon as it can.) The retry itself, if there is
    /// one, comes no earlier than the cooldown's end: until then it could only wait.
    #[must_use]
    pub fn cooldown(self, ask: impl Fn(&E) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.with(|policy| policy.cooldown = Some(Arc::new(ask)))
    }

    /// Asks for admission again after these refusals; after none unless stated (rule E5).
    ///
    /// It counts as a retry, among as many and with the same delays as those after an error, and waits
    /// at least as long as the refusal's [`retry_after`](Rejected::retry_after). Not asked about what
    /// no waiting mends: an abort, a closed coordinator, an unknown unit, a place without a runtime.
    /// A query never asks this (rule Q3).
    #[must_use]
    pub fn when_refused(self, is_transient: impl Fn(&Rejected) -> bool + Send + Sync + 'static) -> Self {
        self.with(|policy| policy.when_refused = Some(Arc::new(is_transient)))
    }

    /// The cooldown that an error asks for. User code, like all of the policy's closures.
    pub(crate) fn cooldown_after(&self, error: &E) -> Option<Duration> {
        self.policy.cooldown.as_ref().and_then(|ask| ask(error))
    }

    fn new(times: Option<u32>, backoff: Option<Arc<dyn Fn() -> Delays + Send + Sync>>) -> Self {
        let delay = Duration::ZERO;
        let policy = Policy { times, delay, backoff, when: None, cooldown: None, when_refused: None };
        Self { policy: Arc::new(policy) }
    }

    fn with(mut self, change: impl FnOnce(&mut Policy<E>)) -> Self {
        change(Arc::make_mut(&mut self.policy));
        self
    }
}

impl<E> Clone for Retry<E> {
    fn clone(&self) -> Self {
        Self { policy: self.policy.clone() }
    }
}

impl<E> Default for Retry<E> {
    fn default() -> Self {
        Self::never()
    }
}

impl<E> fmt::Debug for Retry<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Policy { times, delay, backoff, when, cooldown, when_refused } = &*self.policy;
        f.debug_struct("Retry")
            .field("at_most", times)
            .field("delay", delay)
            .field("backoff", &backoff.is_some())
            .field("when", &when.is_some())
            .field("cooldown", &cooldown.is_some())
            .field("when_refused", &when_refused.is_some())
            .finish()
    }
}

/// The delays of one call's retries.
type Delays = Box<dyn Iterator<Item = Duration> + Send + Sync>;

type Ask<T, A> = Option<Arc<dyn Fn(&T) -> A + Send + Sync>>;

struct Policy<E> {
    times: Option<u32>,
    delay: Duration,
    backoff: Option<Arc<dyn Fn() -> Delays + Send + Sync>>,
    when: Ask<E, bool>,
    cooldown: Ask<E, Option<Duration>>,
    when_refused: Ask<Rejected, bool>,
}

impl<E> Clone for Policy<E> {
    fn clone(&self) -> Self {
        Self {
            times: self.times,
            delay: self.delay,
            backoff: self.backoff.clone(),
            when: self.when.clone(),
            cooldown: self.cooldown.clone(),
            when_refused: self.when_refused.clone(),
        }
    }
}

/// The retries of one call: how many attempts there were, and what comes next. Everything that
/// retries asks this, so that a policy means the same everywhere.
///
/// Its methods call user code: with no lock held, and in a state that may be left by a panic.
pub(crate) struct Retries<E> {
    policy: Retry<E>,
    /// Not there before the first retry. A user's iterator: what its destructor does costs nobody the outcome.
    delays: Quiet<Delays>,
    attempts: u32,
    retries: u32,
}

impl<E> Retries<E> {
    pub(crate) const fn new(policy: Retry<E>) -> Self {
        Self { policy, delays: Quiet(None), attempts: 0, retries: 0 }
    }

    /// An attempt begins: its number, 1 for the first.
    pub(crate) fn begin(&mut self) -> u32 {
        self.attempts = self.attempts.saturating_add(1);
        self.attempts
    }

    /// How often the operation was called.
    pub(crate) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The operation failed: how long to wait for the next attempt, `None` if there is none. `cool` is
    /// called first, with the cooldown that the error asks for, while the attempt holds its permit.
    pub(crate) fn after_error(&mut self, error: &E, cool: impl FnOnce(Duration)) -> Option<Duration> {
        let cooldown = self.policy.cooldown_after(error);
        if let Some(delay) = cooldown {
            cool(delay);
        }
        self.after_cooled(error, cooldown)
    }

    /// The same, where the cooldown that the error asks for has been seen to.
    pub(crate) fn after_cooled(&mut self, error: &E, cooldown: Option<Duration>) -> Option<Duration> {
        let when = self.policy.policy.when.as_ref();
        let is_retried = !self.is_spent() && when.is_none_or(|ask| ask(error));
        self.next_delay(is_retried, cooldown)
    }

    /// The attempt's time is over, and there is no error to ask about.
    pub(crate) fn after_timeout(&mut self) -> Option<Duration> {
        self.next_delay(!self.is_spent(), None)
    }

    /// Admission was refused: how long to wait until it is asked for again, `None` if it is not.
    pub(crate) fn after_refusal(&mut self, rejected: &Rejected) -> Option<Duration> {
        let ask = self.policy.policy.when_refused.as_ref();
        let is_retried = !self.is_spent() && !is_final(rejected) && ask.is_some_and(|ask| ask(rejected));
        self.next_delay(is_retried, rejected.retry_after())
    }

    fn is_spent(&self) -> bool {
        self.policy.policy.times.is_some_and(|times| self.retries >= times)
    }

    fn next_delay(&mut self, is_retried: bool, at_least: Option<Duration>) -> Option<Duration> {
        if !is_retried {
            return None;
        }
        let policy = &*self.policy.policy;
        let delay = match &policy.backoff {
            Some(backoff) => self.delays.0.get_or_insert_with(|| backoff()).next()?,
            None => Duration::ZERO,
        };
        self.retries = self.retries.saturating_add(1);
        Some(delay.max(policy.delay).max(at_least.unwrap_or_default()))
    }
}

/// Whether no waiting can mend a refusal.
const fn is_final(rejected: &Rejected) -> bool {
    match rejected {
        Rejected::Aborted(_) | Rejected::Closed | Rejected::UnknownUnit(_) | Rejected::NoRuntime => true,
        Rejected::UnknownProvider { .. }
        | Rejected::Removed { .. }
        | Rejected::ImpossibleCost { .. }
        | Rejected::Exhausted { .. }
        | Rejected::MaxWait { .. }
        | Rejected::Overflow { .. }
        | Rejected::AdmissionTimeout { .. } => false,
    }
}
