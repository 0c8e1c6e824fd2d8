//! The handle of one provider.
//!
//! Owns: nothing but a way to say whom a call goes to. Every method begins a
//! [`Call`](crate::Call); options that are given once are given there.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use admission_core::{ProviderId, ScopeId};

use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::{AbortSignal, Acquire, Call, Key, Permit, Rejected, Run, TryRun};

/// A provider of an [`Admission`](crate::Admission), to send calls to. Cheap to clone, and keeps
/// the coordinator alive.
pub struct Provider<R> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: ProviderId,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> Provider<R> {
    pub(crate) const fn new(shared: Arc<Shared>, id: ProviderId) -> Self {
        Self { shared, id, runtime: PhantomData }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.names.provider_name(self.id)
    }

    /// A call without options, to add some.
    pub fn call(&self) -> Call<R> {
        Call::new(self.shared.clone(), self.id)
    }

    /// A call with a key; see [`Call::key`].
    pub fn key(&self, key: impl Into<Key>) -> Call<R> {
        self.call().key(key)
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
    pub fn acquire(&self) -> Acquire<R> {
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

    /// Starts nothing for `delay` from now: what a server asks for with `Retry-After`. A cooldown
    /// is never shortened, touches no running call, and takes grants back that have not started
    /// (rules L5, S5).
    pub fn cooldown(&self, delay: Duration) {
        self.shared.turn(|state, now| state.core.cooldown(self.id, delay, now));
    }

    /// Forgets what this provider's windows have counted; calls that are queued now are exempt from
    /// those windows when they start (rule D2).
    pub fn reset(&self) {
        self.shared.turn(|state, now| state.core.reset(ScopeId::Provider(self.id), now));
    }

    /// The same provider, for callers in another runtime.
    #[must_use]
    pub fn on<S: Runtime>(&self) -> Provider<S> {
        Provider::new(self.shared.clone(), self.id)
    }
}

impl<R> Clone for Provider<R> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), id: self.id, runtime: PhantomData }
    }
}

impl<R> fmt::Debug for Provider<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provider").field(&self.shared.names.provider_name(self.id)).finish()
    }
}
