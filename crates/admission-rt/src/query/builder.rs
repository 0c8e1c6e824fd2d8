//! What a query is made from.
//!
//! Owns: its options, and what each cycle is run by once the runtime's type is forgotten. Lacks state:
//! until a query is refreshed the coordinator knows nothing of it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use admission_core::ProviderId;

use super::Query;
use super::invocation::Operation;
use super::state::Inner;
use crate::acquire::Admit;
use crate::alarms::Host;
use crate::runtime::{Runtime, Spawn};
use crate::shared::Shared;
use crate::{AbortSignal, Admission, Attempt, Key, Provider, Retry, UnknownProvider};

/// What becomes of a source's call that is aborted: by pause, dispose, the last unsubscribe, or the
/// attempt timeout. Its signal fires in either case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnAbort {
    /// It goes on, and holds its slots and its key until its future is finished (rule Q6): what a
    /// server is doing is not undone by looking away. A source that never finishes holds them for ever,
    /// and later cycles of its key fail admission (rule Q7). The default.
    #[default]
    Finish,
    /// Its future is dropped, and its slots and its key are free at once. Right for a source whose
    /// future, dropped, really ends the call.
    Drop,
}

/// The options of a [`Query`]: begun with [`Admission::query`] or [`Provider::query`], and ended with
/// [`build`](Self::build).
#[must_use = "a query is made by `build`"]
pub struct QueryBuilder<R, E> {
    provider: Provider<R>,
    key: Key,
    admission_timeout: Option<Duration>,
    attempt_timeout: Option<Duration>,
    costs: Vec<(Arc<str>, u64)>,
    policy: Retry<E>,
    retries_timeouts: bool,
    on_abort: OnAbort,
}

impl<R: Runtime + Spawn, E> QueryBuilder<R, E> {
    fn new(provider: Provider<R>, key: Key) -> Self {
        Self {
            provider,
            key,
            admission_timeout: None,
            attempt_timeout: None,
            costs: Vec::new(),
            policy: Retry::never(),
            retries_timeouts: true,
            on_abort: OnAbort::Finish,
        }
    }

    /// How long each attempt may wait for admission; see
    /// [`Call::admission_timeout`](crate::Call::admission_timeout). For ever unless stated (rule D4).
    pub fn admission_timeout(mut self, timeout: Duration) -> Self {
        self.admission_timeout = Some(timeout);
        self
    }

    /// How long each attempt may take, from the call of the source on (rule Q2): then its signal fires
    /// with [`AbortReason::Timeout`](crate::AbortReason::Timeout), and the attempt has failed. For ever
    /// unless stated (rule D4).
    ///
    /// Where dropping the source's future really ends the call, as with most HTTP clients, say
    /// [`on_abort(OnAbort::Drop)`](Self::on_abort) too. Otherwise the call itself may still run, and then holds its slots and its key ([`OnAbort::Finish`], rule
    /// Q6): a retry waits for them under its admission timeout, and without one for as long as it
    /// takes.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = Some(timeout);
        self
    }

    /// What each attempt costs in a unit; see [`Call::cost`](crate::Call::cost). A unit that was not
    /// declared is told as [`Rejected::UnknownUnit`](crate::Rejected::UnknownUnit) by the first cycle.
    pub fn cost(mut self, unit: &str, amount: u64) -> Self {
        self.costs.push((unit.into(), amount));
        self
    }

    /// Tries again where the policy says so. Each retry asks for admission anew, at the tail of the queue
    /// (rules Q5, E5), and holds nothing before. Never unless stated.
    ///
    /// The policy is asked about the source's errors, and about no refusal (rule Q3): its
    /// [`when_refused`](Retry::when_refused) is not used. An attempt that timed out is retried too, within
    /// the policy's number and with its delays, without asking its [`when`](Retry::when), which knows
    /// the source's errors only; [`retry_timeouts`](Self::retry_timeouts) turns that off.
    pub fn retry(mut self, policy: Retry<E>) -> Self {
        self.policy = policy;
        self
    }

    /// Whether an attempt that timed out is retried where the policy allows another. Yes unless stated: a
    /// slow answer is the most transient of failures.
    pub fn retry_timeouts(mut self, retry: bool) -> Self {
        self.retries_timeouts = retry;
        self
    }

    /// What becomes of a call that is aborted. It may finish unless stated.
    pub fn on_abort(mut self, on_abort: OnAbort) -> Self {
        self.on_abort = on_abort;
        self
    }

    /// The query of a source: a closure that begins one physical call, and is called once for each
    /// attempt, with the [`Attempt`] that it is. Nothing runs before the first
    /// [`refresh`](Query::refresh).
    ///
    /// The source is called in the poll that starts the attempt. A panic, in it or in its future, is
    /// caught and ends the cycle with [`QueryError::Panicked`](super::QueryError::Panicked). Should it
    /// capture the query itself, the two keep each other alive.
    pub fn build<T, F, Fut>(self, source: F) -> Query<T, E>
    where
        T: Send + Sync + 'static,
        E: Send + Sync + 'static,
        F: Fn(Attempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let Self { provider, key, admission_timeout, attempt_timeout, costs, policy, .. } = self;
        let (retries_timeouts, on_abort) = (self.retries_timeouts, self.on_abort);
        let shared = provider.shared.clone();
        let id = provider.target.id;
        // A call is made anew for each attempt, so that its key is known only while a ticket has it (rule
        // D3).
        let admit = move |signal: &AbortSignal| {
            let mut call = provider.key(key.clone()).abort_signal(signal);
            if let Some(timeout) = admission_timeout {
                call = call.admission_timeout(timeout);
            }
            for (unit, amount) in &costs {
                call = call.cost(unit, *amount);
            }
            Admit::new(call)
        };
        Query::new(Inner::new(Plan {
            shared,
            host: Host::of::<R>(),
            spawn: |task| R::spawn(task),
            provider: id,
            admit: Box::new(admit),
            source: Box::new(move |attempt| Box::pin(source(attempt))),
            policy,
            retries_timeouts,
            attempt_timeout,
            on_abort,
        }))
    }
}

impl<R, E> Clone for QueryBuilder<R, E> {
    fn clone(&self) -> Self {
        Self {
            provider: self.provider.clone(),
            key: self.key.clone(),
            admission_timeout: self.admission_timeout,
            attempt_timeout: self.attempt_timeout,
            costs: self.costs.clone(),
            policy: self.policy.clone(),
            retries_timeouts: self.retries_timeouts,
            on_abort: self.on_abort,
        }
    }
}

impl<R: Runtime, E> fmt::Debug for QueryBuilder<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryBuilder")
            .field("provider", &self.provider.name())
            .field("key", &self.key)
            .field("admission_timeout", &self.admission_timeout)
            .field("attempt_timeout", &self.attempt_timeout)
            .field("retry", &self.policy)
            .field("on_abort", &self.on_abort)
            .finish_non_exhaustive()
    }
}

impl<R: Runtime + Spawn> Admission<R> {
    /// Begins a query: a call of a provider that is made again and again under one key, for data that
    /// several parts of a program look at. See [`Query`].
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when there is no provider of this name, and no template: here, and not when
    /// the query runs (rule Q1).
    pub fn query<E>(
        &self,
        provider: &str,
        key: impl Into<Key>,
    ) -> Result<QueryBuilder<R, E>, UnknownProvider> {
        Ok(self.provider(provider)?.query(key))
    }
}

impl<R: Runtime + Spawn> Provider<R> {
    /// Begins a query of this provider; see [`Admission::query`].
    pub fn query<E>(&self, key: impl Into<Key>) -> QueryBuilder<R, E> {
        QueryBuilder::new(self.clone(), key.into())
    }
}

/// What runs on its own.
pub(super) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// By what a cycle is run, of whatever runtime.
pub(super) struct Plan<T, E> {
    pub(super) shared: Arc<Shared>,
    pub(super) host: &'static Host,
    pub(super) spawn: fn(Task),
    pub(super) provider: ProviderId,
    admit: Box<dyn Fn(&AbortSignal) -> Admit + Send + Sync>,
    pub(super) source: Box<dyn Fn(Attempt) -> Operation<T, E> + Send + Sync>,
    pub(super) policy: Retry<E>,
    pub(super) retries_timeouts: bool,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) on_abort: OnAbort,
}

impl<T, E> Plan<T, E> {
    /// Asks for admission.
    pub(super) fn admit(&self, signal: &AbortSignal) -> Admit {
        (self.admit)(signal)
    }
}
