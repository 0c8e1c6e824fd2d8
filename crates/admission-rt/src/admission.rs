//! The coordinator's handle.
//!
//! Owns: what concerns all providers at once. Lacks decisions, which are the machine's, and calls,
//! which go through a [`Provider`](crate::Provider).

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use admission_core::{Counts, ScopeId};

use crate::alarms::Host;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::{Builder, Closed, Idle, Provider};

/// Decides who may start and when, over all the upstreams of one client.
///
/// A handle: clones are the same coordinator, and it may live in a `static`. If all handles are
/// dropped while calls wait or run, these are served as usual (rule W6). `R` only says which
/// runtime's alarm wakes the callers; an adapter's alias writes it.
pub struct Admission<R: Runtime> {
    shared: Arc<Shared>,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> Admission<R> {
    /// Begins a coordinator without limits.
    pub fn builder() -> Builder<R> {
        Builder::new()
    }

    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared, runtime: PhantomData }
    }

    /// A handle of one provider. Look it up once and keep it: its calls then compare no names.
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when no provider was built with this name.
    pub fn provider(&self, name: &str) -> Result<Provider<R>, UnknownProvider> {
        match self.shared.names.provider(name) {
            Some(id) => Ok(Provider::new(self.shared.clone(), id)),
            None => Err(UnknownProvider { name: name.into() }),
        }
    }

    /// Starts nothing of a provider for `delay` from now; see [`Provider::cooldown`].
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when no provider was built with this name.
    pub fn cooldown(&self, provider: &str, delay: Duration) -> Result<(), UnknownProvider> {
        self.provider(provider).map(|provider| provider.cooldown(delay))
    }

    /// Forgets what the client-wide windows have counted; calls that are queued now are exempt from
    /// those windows when they start (rule D2). Providers keep theirs.
    pub fn reset(&self) {
        self.shared.turn(|state, now| state.core.reset(ScopeId::Client, now));
    }

    /// Refuses every call that waits, and every later one, with
    /// [`Rejected::Closed`](crate::Rejected::Closed); all of them are woken in this call. What runs
    /// goes on, and what is granted may still start (rule W4).
    pub fn close(&self) {
        self.shared.turn(|state, now| state.core.close(now));
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.turn(|state, _| state.core.is_closed())
    }

    /// Waits until it is closed.
    pub fn closed(&self) -> Closed {
        Closed::new(self.shared.clone())
    }

    /// Waits until nothing is queued, granted or running: after a [`close`](Self::close), for what
    /// still runs.
    pub fn idle(&self) -> Idle {
        Idle::new(self.shared.clone(), Host::of::<R>())
    }

    /// How many calls are queued, granted and running, after time has passed (rule W6).
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// The same coordinator, for callers in another runtime. It keeps its clock.
    #[must_use]
    pub fn on<S: Runtime>(&self) -> Admission<S> {
        Admission::new(self.shared.clone())
    }
}

impl<R: Runtime> Clone for Admission<R> {
    fn clone(&self) -> Self {
        Self::new(self.shared.clone())
    }
}

impl<R: Runtime> fmt::Debug for Admission<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Looking must change nothing, so time does not pass here.
        let (counts, closed) = self.shared.turn(|state, _| (state.core.counts(), state.core.is_closed()));
        f.debug_struct("Admission").field("counts", &counts).field("closed", &closed).finish_non_exhaustive()
    }
}

/// No provider was built with this name.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnknownProvider {
    /// The name.
    pub name: Arc<str>,
}

impl fmt::Display for UnknownProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown provider: {}", self.name)
    }
}

impl Error for UnknownProvider {}
