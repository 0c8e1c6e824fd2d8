//! The handle of one provider.
//!
//! Owns: nothing but a way to say whom a call goes to. Every method begins a
//! [`Call`](crate::Call); options that are given once are given there.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use admission_core::{ChangeError as Change, ScopeId};

use crate::acquire::at_once;
use crate::guests::Target;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::{
    AbortSignal, Acquire, Call, ChangeError, Key, Limits, Permit, Rejected, Retry, RetryCall, Run, Scope,
    TryRun, UnknownProvider,
};

/// A provider of an [`Admission`](crate::Admission), to send calls to. Cheap to clone, and keeps
/// the coordinator alive.
///
/// It means its name, whatever becomes of that (rule L10): where the builder has a template, the
/// provider is made again on demand after it was removed or forgotten; without one calls are refused
/// with [`Rejected::UnknownProvider`] until a provider of that name is added.
pub struct Provider<R> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) target: Target,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> Provider<R> {
    pub(crate) const fn new(shared: Arc<Shared>, target: Target) -> Self {
        Self { shared, target, runtime: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.names.name(&self.target)
    }

    /// A call without options, to add some.
    #[inline]
    pub fn call(&self) -> Call<R> {
        Call::new(self.shared.clone(), &self.target)
    }

    /// A call with a key, which is one name in the whole coordinator; see [`Call::key`].
    #[inline]
    pub fn key(&self, key: impl Into<Key>) -> Call<R> {
        match self.shared.keys.plain(key.into()) {
            Ok(number) if self.target.guest.is_none() => {
                Call::with_key(self.shared.clone(), self.target.id, number)
            }
            Ok(number) => self.numbered(number),
            Err(key) => self.named(key),
        }
    }

    #[inline(never)]
    fn numbered(&self, key: u64) -> Call<R> {
        self.call().numbered(key)
    }

    #[inline(never)]
    fn named(&self, key: Key) -> Call<R> {
        self.call().named(key)
    }

    /// A call with a cost; see [`Call::cost`].
    pub fn cost(&self, unit: &str, amount: u64) -> Call<R> {
        self.call().cost(unit, amount)
    }

    /// A call that waits so long at most; see [`Call::admission_timeout`].
    pub fn admission_timeout(&self, timeout: Duration) -> Call<R> {
        self.call().admission_timeout(timeout)
    }

    /// A call that stops waiting when a signal fires; see [`Call::abort_signal`].
    pub fn abort_signal(&self, signal: &AbortSignal) -> Call<R> {
        self.call().abort_signal(signal)
    }

    /// Waits for a turn; see [`Call::acquire`].
    #[inline]
    pub fn acquire(&self) -> Acquire<R> {
        self.call().acquire()
    }

    /// A permit at once or not at all; see [`Call::try_acquire`].
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why not.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit, Rejected> {
        // (What is mostly done with a call where there are too many; so nothing is made for it.)
        match self.target.guest {
            None => at_once(&self.shared, self.target.id),
            Some(_) => self.call().try_acquire(),
        }
    }

    /// Takes a place in the queue now; see [`Call::enqueue`].
    pub fn enqueue(&self) -> Acquire<R> {
        self.call().enqueue()
    }

    /// Runs an operation when its turn comes; see [`Call::run`].
    pub fn run<F, Fut>(&self, operation: F) -> Run<R, F, Fut>
    where
        F: FnOnce() -> Fut,
        Fut: Future,
    {
        self.call().run(operation)
    }

    /// Runs an operation that may fail; see [`Call::try_run`].
    pub fn try_run<F, Fut, T, E>(&self, operation: F) -> TryRun<R, F, Fut>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.call().try_run(operation)
    }

    /// Tries again where a policy says so; see [`Call::retry`].
    pub fn retry<E>(&self, policy: Retry<E>) -> RetryCall<R, E> {
        self.call().retry(policy)
    }

    /// Starts nothing for `delay` from now: what a server asks for with `Retry-After`. A cooldown
    /// is never shortened, touches no running call, and takes grants back that have not started
    /// (rules L5, S5).
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when the provider was removed and there is no template: nobody is left to
    /// remember the cooldown, should the provider be added again. A provider that nobody removes is
    /// always there.
    pub fn cooldown(&self, delay: Duration) -> Result<(), UnknownProvider> {
        let id = self.target.id;
        self.known(self.shared.turn(|state, now| state.cooldown(id, delay, now)))
    }

    /// Forgets what this provider's windows have counted; calls that are queued now are exempt from
    /// those windows when they start (rule D2).
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when there is no such provider at the moment: it was removed, or has yet to
    /// be made by its first call. What a removed one has counted is not forgotten by this.
    pub fn reset(&self) -> Result<(), UnknownProvider> {
        let scope = ScopeId::Provider(self.target.id);
        self.known(self.shared.turn(|state, now| state.core.reset(scope, now)))
    }

    /// Changes its limits while calls wait and run (rule L7). The closure begins with no limits: what
    /// it does not state is not limited any more.
    ///
    /// Nothing that runs is touched, and nothing that a window has counted is forgotten: an interval
    /// goes on from its last start, a window from what it has counted in its unit; of several alike
    /// the n-th takes over from the n-th. A window that grows counts what was inside the old one, and does not
    /// get back what had left it. A window or interval that was not there before (the first of its kind
    /// or unit, or one more) knows nothing of earlier starts, nor of calls that run: it admits as if the provider
    /// had been idle. So does one that was left out and comes back. Concurrency counts all that run.
    ///
    /// Whoever may start now is woken; a call that waits and can no longer fit is refused with
    /// [`Rejected::ImpossibleCost`]. Grants that have not started are taken back, so that no start breaks
    /// the new limits.
    ///
    /// A provider that the template made has limits of its own from then on, and is not forgotten
    /// until it has the template's again, or is removed.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] says what is wrong with the limits, or that the provider was removed; then
    /// nothing changes.
    pub fn set_limits(&self, limits: impl FnOnce(Limits) -> Limits) -> Result<(), ChangeError> {
        let scope = Scope::Provider(self.shared.names.name(&self.target).clone());
        let limits = limits(Limits::default());
        self.shared.set_limits(ScopeId::Provider(self.target.id), scope, limits)
    }

    /// The same provider, for callers in another runtime.
    #[must_use]
    pub fn on<S: Runtime>(&self) -> Provider<S> {
        Provider::new(self.shared.clone(), self.target.clone())
    }

    fn known(&self, outcome: Result<(), Change>) -> Result<(), UnknownProvider> {
        outcome.map_err(|_| UnknownProvider { name: self.shared.names.name(&self.target).clone() })
    }
}

impl<R> Clone for Provider<R> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), target: self.target.clone(), runtime: PhantomData }
    }
}

impl<R> fmt::Debug for Provider<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provider").field(self.shared.names.name(&self.target)).finish()
    }
}
