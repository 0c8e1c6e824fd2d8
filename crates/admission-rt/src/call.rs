//! The options of one call.
//!
//! Owns: what a call asks for beyond its provider, and the ways to begin it. Lacks state: until a
//! future is polled, or `enqueue` or `try_acquire` is called, the coordinator knows nothing of it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use admission_core::{ProviderId, UnitId};

use crate::acquire::{Admit, at_once};
use crate::builder::UNKNOWN_UNIT;
use crate::guests::{Guest, Target};
use crate::key::KeyGuard;
use crate::runtime::Runtime;
use crate::shared::Shared;
use crate::{AbortSignal, Acquire, Key, Permit, Rejected, Retry, RetryCall, Run, TryRun};

/// One call to a provider, with options: made by [`Provider::call`](crate::Provider::call) or by
/// any option on a provider, and begun by [`run`](Self::run), [`acquire`](Self::acquire) and the
/// like. Each clone is another call.
#[must_use = "a call does nothing until it is begun"]
pub struct Call<R> {
    pub(crate) shared: Arc<Shared>,
    pub(crate) provider: ProviderId,
    pub(crate) key: Option<u64>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) rare: Option<Box<Rare>>,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> Call<R> {
    #[inline]
    pub(crate) fn new(shared: Arc<Shared>, Target { id, guest }: &Target) -> Self {
        let rare = guest.as_ref().map(Rare::of_guest);
        Self { shared, provider: *id, key: None, timeout: None, rare, runtime: PhantomData }
    }

    /// The same to a provider of the configuration's, with a key that needs nothing to keep it.
    #[inline(always)]
    pub(crate) const fn with_key(shared: Arc<Shared>, provider: ProviderId, key: u64) -> Self {
        Self { shared, provider, key: Some(key), timeout: None, rare: None, runtime: PhantomData }
    }

    /// Names the call: while another with the same key is granted or running, this one waits
    /// (rule L1). Without a key nothing is compared. A key is one name in the whole coordinator, whichever provider it is
    /// said to (rule E6): let it say whose it is, where two providers might have one.
    #[inline]
    pub fn key(self, key: impl Into<Key>) -> Self {
        match self.shared.keys.plain(key.into()) {
            Ok(number) => self.numbered(number),
            Err(key) => self.named(key),
        }
    }

    #[inline]
    pub(crate) fn numbered(mut self, number: u64) -> Self {
        self.key = Some(number);
        // One that was stated before is of no use any more.
        if self.rare.is_some() {
            self.keep_key(None);
        }
        self
    }

    #[inline(never)]
    pub(crate) fn named(mut self, key: Key) -> Self {
        let (number, guard) = self.shared.keys.intern(key);
        self.key = Some(number);
        self.keep_key(Some(guard));
        self
    }

    #[cold]
    fn keep_key(&mut self, guard: Option<KeyGuard>) {
        self.rare_mut().key = guard;
    }

    /// What the call costs in a unit that was declared with [`Builder::unit`](crate::Builder::unit);
    /// 0 in those that are not stated. Of several statements about a unit the last counts. Every
    /// call costs 1 of `requests`, which cannot be stated. A unit that was not declared is told as
    /// [`Rejected::UnknownUnit`] when the call is begun.
    pub fn cost(mut self, unit: &str, amount: u64) -> Self {
        let id = self.shared.names.unit(unit);
        let rare = self.rare_mut();
        match id {
            Some(id) => rare.costs.set(id, amount),
            None => {
                rare.costs.set(UNKNOWN_UNIT, amount);
                rare.unknown_unit = Some(unit.into());
            }
        }
        self
    }

    /// How long the call may wait to be granted: after that it is refused with
    /// [`Rejected::AdmissionTimeout`] (rule W2). Counts from the call's submission: its future's
    /// first poll, or [`enqueue`](Self::enqueue). For ever unless stated, because no number is right for every caller
    /// (rule D4).
    pub fn admission_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Ends the wait when this signal fires, with [`Rejected::Aborted`] and the signal's reason
    /// (rule W3). A call that has started is not touched.
    pub fn abort_signal(mut self, signal: &AbortSignal) -> Self {
        self.rare_mut().signal = Some(signal.clone());
        self
    }

    /// Tries again where a policy says so: for operations that may fail. Each attempt is a call of its
    /// own with these options, at the tail of the queue (rule E5); see [`RetryCall`].
    pub fn retry<E>(self, policy: Retry<E>) -> RetryCall<R, E> {
        RetryCall::new(self, policy)
    }

    /// Waits for the call's turn, and gives a [`Permit`] to hold while it runs. Lazy: see
    /// [`Acquire`].
    #[inline]
    pub fn acquire(self) -> Acquire<R> {
        Acquire::new(self)
    }

    /// A permit at once or not at all: takes no place in the queue.
    ///
    /// # Errors
    ///
    /// [`Rejected::Exhausted`] when the call would have to wait, and the other refusals as they
    /// apply. Needs no runtime.
    pub fn try_acquire(self) -> Result<Permit, Rejected> {
        if self.key.is_none() && self.rare.is_none() {
            return at_once(&self.shared, self.provider);
        }
        Admit::new(self).at_once()
    }

    /// Takes the call's place in the queue now, and not with the first poll (rule W0): the order of
    /// submission is the order of these calls. If it is refused, the first poll says so.
    ///
    /// The grant, when it comes, waits for the future to be polled no longer than the hand-off time
    /// (rule S4).
    pub fn enqueue(self) -> Acquire<R> {
        let mut acquire = Acquire::new(self);
        acquire.enqueue();
        acquire
    }

    /// Waits for the call's turn, calls the operation, and releases the permit when the operation's
    /// future is finished or dropped. Lazy: see [`Run`].
    pub fn run<F, Fut>(self, operation: F) -> Run<R, F, Fut>
    where
        F: FnOnce() -> Fut,
        Fut: Future,
    {
        Run::new(self.acquire(), operation)
    }

    /// Like [`run`](Self::run), for operations that may fail: one error type for both. An operation that
    /// corrects its cost (rule L8) goes through [`retry`](Self::retry), whose attempts can, or holds the
    /// [`Permit`] itself.
    pub fn try_run<F, Fut, T, E>(self, operation: F) -> TryRun<R, F, Fut>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        TryRun::new(self.run(operation))
    }

    /// The call's own signal, or one that never fires.
    pub(crate) fn signal(&self) -> AbortSignal {
        let signal = self.rare.as_ref().and_then(|rare| rare.signal.clone());
        signal.unwrap_or(AbortSignal::never())
    }

    /// Starts nothing of its provider's for so long.
    pub(crate) fn cool(&self, delay: Duration) {
        self.shared.cool(self.provider, delay);
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

/// Another call with the same options: its key is one more user of that key, its signal the same.
impl<R> Clone for Call<R> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            provider: self.provider,
            key: self.key,
            timeout: self.timeout,
            rare: self.rare.clone(),
            runtime: PhantomData,
        }
    }
}

impl<R> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("provider", Rare::provider(self.rare.as_deref(), &self.shared, self.provider))
            .field("key", &self.key)
            .field("admission_timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// What a call has beside the rest, if anything. That there is nothing is seen without a call, where this is
/// dropped.
#[derive(Default)]
pub(crate) struct Extras(pub(crate) Option<Box<Rare>>);

impl Drop for Extras {
    #[inline]
    fn drop(&mut self) {
        if let Some(rare) = self.0.take() {
            let_go(rare);
        }
    }
}

#[inline(never)]
fn let_go(rare: Box<Rare>) {
    drop(rare);
}

/// What few calls have: in one box, so that the others pay a pointer for it. Cloned only while the
/// call has not begun: a listener belongs to one ticket.
#[derive(Clone, Default)]
pub(crate) struct Rare {
    pub(crate) costs: Costs,
    pub(crate) unknown_unit: Option<Arc<str>>,
    /// An admission timeout that has no room in the future itself.
    pub(crate) timeout: Option<Duration>,
    pub(crate) signal: Option<AbortSignal>,
    /// The ticket's place among the signal's listeners.
    pub(crate) listener: Option<u32>,
    pub(crate) key: Option<KeyGuard>,
    /// Keeps the provider's number, if the configuration does not.
    pub(crate) guest: Option<Arc<Guest>>,
}

impl Rare {
    /// That of a call to a provider whose number is to be kept.
    #[inline(never)]
    fn of_guest(guest: &Arc<Guest>) -> Box<Self> {
        Box::new(Self { guest: Some(guest.clone()), ..Self::default() })
    }

    /// The name of a call's provider.
    pub(crate) fn provider<'a>(rare: Option<&'a Self>, shared: &'a Shared, id: ProviderId) -> &'a Arc<str> {
        match rare.and_then(|rare| rare.guest.as_ref()) {
            Some(guest) => &guest.name,
            None => shared.names.configured_name(id),
        }
    }

    /// Whether it holds a number that the running call uses.
    pub(crate) const fn is_kept(&self) -> bool {
        self.key.is_some() || self.guest.is_some()
    }

    /// The call starts, and its signal is no affair of its any more.
    #[inline(never)]
    pub(crate) fn forget_signal(&mut self) {
        self.leave();
        self.signal = None;
    }

    /// Listens to the signal no more.
    pub(crate) fn leave(&mut self) {
        if let (Some(listener), Some(signal)) = (self.listener.take(), &self.signal) {
            signal.leave(listener);
        }
    }
}

/// Costs in other units than requests; two have room without a box of their own.
#[derive(Clone, Debug)]
pub(crate) enum Costs {
    Few([(UnitId, u64); 2], u8),
    Many(Vec<(UnitId, u64)>),
}

impl Costs {
    pub(crate) fn as_slice(&self) -> &[(UnitId, u64)] {
        match self {
            Self::Few(costs, len) => &costs[..usize::from(*len)],
            Self::Many(costs) => costs,
        }
    }

    fn set(&mut self, unit: UnitId, amount: u64) {
        let stated = match self {
            Self::Few(costs, len) => &mut costs[..usize::from(*len)],
            Self::Many(costs) => costs,
        };
        if let Some(cost) = stated.iter_mut().find(|(of, _)| *of == unit) {
            cost.1 = amount;
            return;
        }
        match self {
            Self::Few(costs, len @ 0..2) => {
                costs[usize::from(*len)] = (unit, amount);
                *len += 1;
            }
            Self::Few(costs, _) => {
                let mut costs = costs.to_vec();
                costs.push((unit, amount));
                *self = Self::Many(costs);
            }
            Self::Many(costs) => costs.push((unit, amount)),
        }
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self::Few([(UnitId::REQUESTS, 0); 2], 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_statement_about_a_unit_counts() {
        let [a, b, c] = [1, 2, 3].map(UnitId::new);
        let mut costs = Costs::default();
        assert_eq!(costs.as_slice(), []);
        costs.set(a, 1);
        costs.set(b, 2);
        costs.set(a, 3);
        assert_eq!(costs.as_slice(), [(a, 3), (b, 2)]);
        costs.set(c, 4);
        costs.set(c, 5);
        costs.set(b, 6);
        assert_eq!(costs.as_slice(), [(a, 3), (b, 6), (c, 5)]);
    }
}
