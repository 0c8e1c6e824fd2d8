//! The handles of a coordinator and of its providers, with waits that block.
//!
//! Owns: nothing beyond the handles of [`admission_rt`] that it wraps, method by method, so that whoever
//! waits with threads needs no other crate. Lacks rules: what a method means is said over there.

use std::time::Duration;

use admission_rt::runtime::Runtime;
use admission_rt::{
    AbortSignal, ChangeError, Counts, Key, Limits, Permit, Rejected, Retry, RunError, Snapshot,
    UnknownProvider, Waiting,
};

use crate::{Acquire, Blocking, Builder, Call, QueryBuilder, RetryCall, block_on};

/// Decides who may start and when, over all the upstreams of one client, and lets threads wait for it.
///
/// A handle, like [`admission_rt::Admission`]: clones are the same coordinator, and it may live in a
/// `static`.
#[derive(Clone, Debug)]
pub struct Admission {
    inner: admission_rt::Admission<Blocking>,
}

impl Admission {
    /// Begins a coordinator without limits.
    pub fn builder() -> Builder {
        Builder::from(admission_rt::Admission::builder())
    }

    /// A handle of one provider. Look it up once and keep it: its calls then compare no names. With a
    /// [template](Builder::template) any name will do.
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when there is no provider of this name, and no template to make one.
    pub fn provider(&self, name: &str) -> Result<Provider, UnknownProvider> {
        self.inner.provider(name).map(Provider::from)
    }

    /// Adds a provider while the coordinator is in use (rule L10); see
    /// [`add_provider`](admission_rt::Admission::add_provider).
    ///
    /// # Errors
    ///
    /// [`ChangeError`] says that it is there already, or what is wrong with its limits; then nothing
    /// changes.
    pub fn add_provider(
        &self,
        name: &str,
        limits: impl FnOnce(Limits) -> Limits,
    ) -> Result<Provider, ChangeError> {
        self.inner.add_provider(name, limits).map(Provider::from)
    }

    /// Removes a provider (rule L10): threads that are parked for it return with
    /// [`Rejected::Removed`], and what runs goes on. See
    /// [`remove_provider`](admission_rt::Admission::remove_provider).
    ///
    /// # Errors
    ///
    /// [`ChangeError::UnknownProvider`] when there is no provider with this name.
    pub fn remove_provider(&self, name: &str) -> Result<(), ChangeError> {
        self.inner.remove_provider(name)
    }

    /// Changes the client-wide limits while calls wait and run (rule L7). The closure begins with no
    /// limits: what it does not state is not limited any more. See [`Provider::set_limits`].
    ///
    /// # Errors
    ///
    /// [`ChangeError`] says what is wrong with the limits; then nothing changes.
    pub fn set_limits(&self, limits: impl FnOnce(Limits) -> Limits) -> Result<(), ChangeError> {
        self.inner.set_limits(limits)
    }

    /// Changes how many calls may wait (rule L7). Lowering it refuses nobody who waits.
    pub fn set_max_queued(&self, calls: u32) {
        self.inner.set_max_queued(calls);
    }

    /// Begins a query of a provider; see [`Query`](crate::Query).
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when there is no provider of this name, and no template to make one (rule Q1).
    pub fn query<E>(&self, provider: &str, key: impl Into<Key>) -> Result<QueryBuilder<E>, UnknownProvider> {
        self.inner.query(provider, key).map(QueryBuilder::from)
    }

    /// Starts nothing of a provider for `delay` from now; see [`Provider::cooldown`].
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when there is no provider of this name, and no template to make one.
    pub fn cooldown(&self, provider: &str, delay: Duration) -> Result<(), UnknownProvider> {
        self.inner.cooldown(provider, delay)
    }

    /// Forgets what the client-wide windows have counted; see
    /// [`reset`](admission_rt::Admission::reset).
    pub fn reset(&self) {
        self.inner.reset();
    }

    /// Refuses every call that waits, and every later one (rule W4): whoever is parked for one returns
    /// with [`Rejected::Closed`].
    pub fn close(&self) {
        self.inner.close();
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Blocks until it is closed.
    pub fn closed(&self) {
        block_on(self.inner.closed());
    }

    /// Blocks until nothing is queued, granted or running: after a [`close`](Self::close), for what
    /// still runs.
    pub fn idle(&self) {
        block_on(self.inner.idle());
    }

    /// How many calls are queued, granted and running, after time has passed (rule W6).
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.inner.counts()
    }

    /// Every call that waits, in the order of submission, and why it does (rule O2); see
    /// [`waiting`](admission_rt::Admission::waiting).
    #[must_use]
    pub fn waiting(&self) -> Vec<Waiting> {
        self.inner.waiting()
    }

    /// What it looks like from outside, to be printed, or read field by field (rule O1); see
    /// [`snapshot`](admission_rt::Admission::snapshot).
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }

    /// The same coordinator, for callers in another runtime. It keeps its clock.
    #[must_use]
    pub fn on<S: Runtime>(&self) -> admission_rt::Admission<S> {
        self.inner.on()
    }
}

impl From<admission_rt::Admission<Blocking>> for Admission {
    fn from(inner: admission_rt::Admission<Blocking>) -> Self {
        Self { inner }
    }
}

/// A provider, to send calls to. Cheap to clone, and keeps the coordinator alive. It means its name,
/// whatever becomes of that (rule L10).
#[derive(Clone, Debug)]
pub struct Provider {
    inner: admission_rt::Provider<Blocking>,
}

impl Provider {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// A call without options, to add some.
    pub fn call(&self) -> Call {
        Call::from(self.inner.call())
    }

    /// A call with a key; see [`Call::key`].
    pub fn key(&self, key: impl Into<Key>) -> Call {
        self.call().key(key)
    }

    /// A call with a cost; see [`Call::cost`].
    pub fn cost(&self, unit: &str, amount: u64) -> Call {
        self.call().cost(unit, amount)
    }

    /// A call that waits so long at most; see [`Call::admission_timeout`].
    pub fn admission_timeout(&self, timeout: Duration) -> Call {
        self.call().admission_timeout(timeout)
    }

    /// A call that stops waiting when a signal fires; see [`Call::abort_signal`].
    pub fn abort_signal(&self, signal: &AbortSignal) -> Call {
        self.call().abort_signal(signal)
    }

    /// Blocks until it is this call's turn; see [`Call::acquire`].
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why it never was.
    pub fn acquire(&self) -> Result<Permit, Rejected> {
        self.call().acquire()
    }

    /// A permit at once or not at all; see [`Call::try_acquire`].
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why not.
    pub fn try_acquire(&self) -> Result<Permit, Rejected> {
        self.call().try_acquire()
    }

    /// Takes a place in the queue now, and waits later; see [`Call::enqueue`].
    pub fn enqueue(&self) -> Acquire {
        self.call().enqueue()
    }

    /// Runs an operation when its turn comes; see [`Call::run`].
    ///
    /// # Errors
    ///
    /// [`Rejected`] says why it was not called.
    pub fn run<T>(&self, operation: impl FnOnce() -> T) -> Result<T, Rejected> {
        self.call().run(operation)
    }

    /// Tries again where a policy says so; see [`Call::retry`].
    pub fn retry<E>(&self, policy: Retry<E>) -> RetryCall<E> {
        self.call().retry(policy)
    }

    /// Runs an operation that may fail; see [`Call::try_run`].
    ///
    /// # Errors
    ///
    /// The operation's own, or why it was not called.
    pub fn try_run<T, E>(&self, operation: impl FnOnce() -> Result<T, E>) -> Result<T, RunError<E>> {
        self.call().try_run(operation)
    }

    /// Begins a query of this provider; see [`Query`](crate::Query).
    pub fn query<E>(&self, key: impl Into<Key>) -> QueryBuilder<E> {
        QueryBuilder::from(self.inner.query(key))
    }

    /// Starts nothing for `delay` from now; see [`cooldown`](admission_rt::Provider::cooldown).
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when the provider was removed, and there is no template to make it again.
    pub fn cooldown(&self, delay: Duration) -> Result<(), UnknownProvider> {
        self.inner.cooldown(delay)
    }

    /// Forgets what this provider's windows have counted; see [`reset`](admission_rt::Provider::reset).
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when there is no such provider at the moment.
    pub fn reset(&self) -> Result<(), UnknownProvider> {
        self.inner.reset()
    }

    /// Changes its limits while calls wait and run (rule L7). The closure begins with no limits: what
    /// it does not state is not limited any more. Threads whose turn has come by it go on, and those
    /// whose call can no longer fit return with [`Rejected::ImpossibleCost`]; see
    /// [`set_limits`](admission_rt::Provider::set_limits).
    ///
    /// # Errors
    ///
    /// [`ChangeError`] says what is wrong with the limits, or that the provider was removed; then
    /// nothing changes.
    pub fn set_limits(&self, limits: impl FnOnce(Limits) -> Limits) -> Result<(), ChangeError> {
        self.inner.set_limits(limits)
    }

    /// The same provider, for callers in another runtime.
    #[must_use]
    pub fn on<S: Runtime>(&self) -> admission_rt::Provider<S> {
        self.inner.on()
    }
}

impl From<admission_rt::Provider<Blocking>> for Provider {
    fn from(inner: admission_rt::Provider<Blocking>) -> Self {
        Self { inner }
    }
}
