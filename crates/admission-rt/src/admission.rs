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
use crate::guests::Target;
use crate::rejected::Plain;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::{BuildError, Builder, ChangeError, Closed, Idle, Limits, Provider, Scope, Snapshot, Waiting};

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
    /// With a [template](Builder::template) any name will do. The handle alone makes nothing: the
    /// provider is made by its first call, cooldown or change of limits.
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when there is no provider with this name, and no template.
    pub fn provider(&self, name: &str) -> Result<Provider<R>, UnknownProvider> {
        match self.shared.target(name) {
            Some(target) => Ok(Provider::new(self.shared.clone(), target)),
            None => Err(UnknownProvider { name: name.into() }),
        }
    }

    /// Adds a provider while the coordinator is in use (rule L10). If one of this name was removed,
    /// it goes on with what is left of that: windows, intervals, cooldown and running calls.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] says that it is there already, or what is wrong with its limits; then nothing
    /// changes.
    pub fn add_provider(
        &self,
        name: &str,
        limits: impl FnOnce(Limits) -> Limits,
    ) -> Result<Provider<R>, ChangeError> {
        let shared = &self.shared;
        let limits = limits(Limits::default());
        let Some(target) = shared.named(name, true) else {
            return Err(ChangeError::Limits(BuildError::TooManyProviders));
        };
        let scope = Scope::Provider(shared.names.name(&target).clone());
        let limits = Arc::new(limits.numbered(&scope, shared.names.units())?);
        let id = target.id;
        let (outcome, old) = shared.turn(|state, now| match state.core.add_provider(id, &limits, now) {
            Ok(()) => (Ok(()), state.limits.set(ScopeId::Provider(id), limits.clone())),
            Err(error) => (Err(error), None),
        });
        drop(old);
        match outcome {
            Ok(()) => Ok(Provider::new(shared.clone(), target)),
            Err(error) => Err(shared.names.not_changed(error, scope)),
        }
    }

    /// Removes a provider (rule L10). Its calls that wait, and those that were granted and have not
    /// started, are refused with [`Rejected::Removed`](crate::Rejected::Removed) and cost nothing;
    /// those that run go on.
    ///
    /// Its name keeps its windows, intervals and cooldown until they are over, should it be added
    /// again. With a template it is made again on demand.
    ///
    /// # Errors
    ///
    /// [`ChangeError::UnknownProvider`] when there is no provider with this name.
    pub fn remove_provider(&self, name: &str) -> Result<(), ChangeError> {
        let shared = &self.shared;
        let unknown = || UnknownProvider { name: name.into() };
        let Target { id, guest } = shared.named(name, false).ok_or_else(unknown)?;
        let outcome = shared.remove(id);
        drop(guest);
        outcome.map_err(|_| unknown().into())
    }

    /// Changes the client-wide limits while calls wait and run (rule L7). The closure begins with no
    /// limits: what it does not state is not limited any more. See [`Provider::set_limits`].
    ///
    /// # Errors
    ///
    /// [`ChangeError`] says what is wrong with the limits; then nothing changes.
    pub fn set_limits(&self, limits: impl FnOnce(Limits) -> Limits) -> Result<(), ChangeError> {
        self.shared.set_limits(ScopeId::Client, Scope::Client, limits(Limits::default()))
    }

    /// Changes how many calls may wait (rule L7). Lowering it refuses nobody who waits.
    pub fn set_max_queued(&self, calls: u32) {
        self.shared.turn(|state, now| state.core.set_max_queued(calls, now));
    }

    /// Starts nothing of a provider for `delay` from now; see [`Provider::cooldown`].
    ///
    /// # Errors
    ///
    /// [`UnknownProvider`] when there is no provider with this name, and no template.
    pub fn cooldown(&self, provider: &str, delay: Duration) -> Result<(), UnknownProvider> {
        self.provider(provider)?.cooldown(delay)
    }

    /// Forgets what the client-wide windows have counted; calls that are queued now are exempt from
    /// those windows when they start (rule D2). Providers keep theirs.
    pub fn reset(&self) {
        // The client is always there.
        let _ = self.shared.turn(|state, now| state.core.reset(ScopeId::Client, now));
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

    /// What it looks like from outside, after time has passed (rules O1, W6): for every scope what
    /// runs and waits, what is spent and left, and until when. To be printed, or read field by field.
    ///
    /// Costs a look at every provider, under the lock.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        // Until the names are found, no number may become another name's.
        let held = self.shared.guests.hold();
        let ((core, limits), unwind) = self.shared.turn_held(|state, now| {
            state.core.handle_timeout(now);
            let core = state.core.snapshot();
            let providers = core.providers.iter().map(|(id, _)| state.limits.of(*id).cloned());
            let limits: Vec<_> =
                std::iter::once(Some(state.limits.client().clone())).chain(providers).collect();
            (core, limits)
        });
        // Who only reads is not to blame for a waker that panics.
        unwind.swallow();
        let names = held.names(core.providers.iter().map(|(id, _)| *id));
        drop(held);
        Snapshot::new(core, &self.shared.names, &limits, names)
    }

    /// Every call that waits, in the order of submission, and why it does (rules O2, W6). To be printed, a
    /// line each, or read field by field. Whoever is merely ahead is not told as a reason: see
    /// [`Waiting::held_by`].
    ///
    /// Costs a look at every call that waits and at all that could hold it back, under the lock, and a
    /// walk over all keys in use if one of them is a text: for a status page, not for each call.
    #[must_use]
    pub fn waiting(&self) -> Vec<Waiting> {
        self.shared.waiting()
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

/// There is no provider with this name.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnknownProvider {
    /// The name.
    pub name: Arc<str>,
}

impl fmt::Display for UnknownProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown provider: {}", Plain(&self.name))
    }
}

impl Error for UnknownProvider {}
