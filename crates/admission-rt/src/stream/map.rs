//! What a mapped stream is built with.
//!
//! Owns: the options, with their defaults, and the choice of who runs the operations. Lacks a default
//! for that choice: it decides what happens while nobody polls the stream.

use std::fmt;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::stream::FuturesUnordered;

use super::driven::Driven;
use super::engine::{Bounds, Engine};
use super::outbox::Order;
use super::spawned::Spawned;
use super::work::{Again, Shop};
use super::{Calls, DrivenMap, PerItem, SpawnedMap};
use crate::runtime::{Runtime, Spawn};
use crate::{AbortHandle, AbortSignal, Attempt, Call, Retry};

/// Not a stream until you say [`spawned`](Self::spawned) or [`driven`](Self::driven): the options of one whose
/// items are worked on, each when its turn comes. Made by
/// [`map_admitted`](super::AdmissionStreamExt::map_admitted).
#[must_use = "not a stream until you say `spawned()` or `driven()`"]
pub struct MapAdmitted<S: Stream, C, F, E> {
    source: S,
    calls: C,
    operation: F,
    policy: Retry<E>,
    again: Option<Again<S::Item>>,
    signal: AbortSignal,
    concurrency: usize,
    capacity: Option<usize>,
    order: Order,
    stops_at_error: bool,
}

impl<S: Stream, R: Runtime, F, E> MapAdmitted<S, Call<R>, F, E> {
    pub(super) fn new(source: S, call: Call<R>, operation: F, stops_at_error: bool) -> Self {
        Self {
            source,
            calls: call,
            operation,
            policy: Retry::never(),
            again: None,
            signal: AbortSignal::never(),
            concurrency: 1,
            capacity: None,
            order: Order::Source,
            stops_at_error,
        }
    }

    /// Adds to each item's call what depends on the item: its key, its cost. The closure gets the call
    /// as it was given, and may as well answer with another one, to another provider. It is called when
    /// the item is begun.
    pub fn per_item<G>(self, with: G) -> MapAdmitted<S, PerItem<R, G>, F, E>
    where
        G: FnMut(&S::Item, Call<R>) -> Call<R>,
    {
        MapAdmitted {
            calls: PerItem::new(self.calls, with),
            source: self.source,
            operation: self.operation,
            policy: self.policy,
            again: self.again,
            signal: self.signal,
            concurrency: self.concurrency,
            capacity: self.capacity,
            order: self.order,
            stops_at_error: self.stops_at_error,
        }
    }
}

impl<S: Stream, C, F, E> MapAdmitted<S, C, F, E> {
    /// At most so many items in flight at once: waiting for admission, running, or waiting to be
    /// retried. 1 unless stated, since the right number is the caller's to know. 0 is 1: a stream that
    /// may begin nothing would never end, and an adapter has nobody to tell an error to.
    pub fn concurrency(mut self, items: usize) -> Self {
        self.concurrency = items.max(1);
        self
    }

    /// At most so many items begun and not read: in flight, or finished and waiting to be read. So
    /// the stream is never further ahead of its reader than this, and there is room for every output. As many as
    /// the [`concurrency`](Self::concurrency) unless stated; fewer bound that, too. 0 is 1.
    pub fn capacity(mut self, items: usize) -> Self {
        self.capacity = Some(items.max(1));
        self
    }

    /// Hands outputs out as they are completed, and not in the order of the source: one that takes
    /// long then holds up nobody, and fills no capacity with those behind it.
    pub fn as_completed(mut self) -> Self {
        self.order = Order::Completed;
        self
    }

    /// Tries an item again where a policy says so. Each attempt takes a place of its own at the tail
    /// (rule E5) and gets a clone of the item; an item that is no cheap clone can be put into an
    /// [`Arc`] first. Refusals are not retried unless the policy opts in.
    pub fn retry(mut self, policy: Retry<E>) -> Self
    where
        S::Item: Clone,
    {
        self.policy = policy;
        self.again = Some(S::Item::clone);
        self
    }

    /// Ends the stream when this signal fires: nothing more is begun, items that wait are refused with
    /// [`Rejected::Aborted`](crate::Rejected::Aborted) and its reason, and operations that run are
    /// told. What has been begun is still handed out, and then the stream ends. A signal of the call
    /// itself does the same.
    pub fn abort_signal(mut self, signal: &AbortSignal) -> Self {
        self.signal = signal.clone();
        self
    }

    /// A stream that drives the operations itself: they may borrow, and need not be `Send`.
    ///
    /// The price: they get on only while the stream is polled. A consumer that pauses between two
    /// items stops them all, and an operation that runs keeps its slot meanwhile. Prefer
    /// [`spawned`](Self::spawned) where others share the coordinator.
    pub fn driven<Fut, U>(self) -> DrivenMap<S, C, F, Fut, U, E>
    where
        C: Calls<S::Item>,
        F: Fn(S::Item, Attempt) -> Fut,
        Fut: Future<Output = Result<U, E>>,
    {
        let engine = self.engine(|shop| Driven { shop, set: FuturesUnordered::new() });
        DrivenMap { engine }
    }

    /// A stream whose operations run on the runtime that polls it: each is a task, which gets on
    /// whether or not the stream is polled, and holds its slot no longer than it takes.
    pub fn spawned<Fut, U>(self) -> SpawnedMap<S, C, F, U, E>
    where
        S::Item: Send + 'static,
        C: Calls<S::Item, Runtime: Spawn>,
        F: Fn(S::Item, Attempt) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<U, E>> + Send + 'static,
        U: Send + 'static,
        E: Send + 'static,
    {
        SpawnedMap { engine: self.engine(Spawned::new) }
    }

    fn engine<W, U>(self, crew: impl FnOnce(Shop<C, S::Item, F, E>) -> W) -> Engine<S, W, U, E>
    where
        C: Calls<S::Item>,
        W: super::engine::Crew<S::Item, Value = U, Error = E>,
    {
        let shared = self.calls.signal();
        let can_be_aborted = !(shared.is_never() && self.signal.is_never());
        let stop = AbortHandle::linked([shared.clone(), self.signal]);
        let signal = stop.signal();
        let aborted = can_be_aborted.then(|| signal.aborted());
        let shop = Shop {
            calls: self.calls,
            operation: Arc::new(self.operation),
            policy: self.policy,
            again: self.again,
            shared,
            signal,
        };
        let bounds = Bounds {
            concurrency: self.concurrency,
            capacity: self.capacity.unwrap_or(self.concurrency),
            order: self.order,
            stops_at_error: self.stops_at_error,
        };
        Engine::new(self.source, crew(shop), bounds, stop, aborted)
    }
}

impl<S: Stream, C: fmt::Debug, F, E> fmt::Debug for MapAdmitted<S, C, F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapAdmitted")
            .field("calls", &self.calls)
            .field("policy", &self.policy)
            .field("concurrency", &self.concurrency)
            .field("capacity", &self.capacity)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
