//! Items that run on the runtime.
//!
//! Owns: the mailbox by which tasks hand their outcomes to the stream. Lacks any handle on the tasks:
//! they hear from the stream by their signal alone, and keep what they hold until they are finished.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures_core::{FusedStream, Stream};
use pin_project_lite::pin_project;

use super::engine::{Crew, Engine, Output};
use super::work::{Ended, Outcome, Shop};
use super::{Calls, ItemError};
use crate::Attempt;
use crate::runtime::Spawn;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::unwind::{bury, quietly};

/// Tasks, and what has come from them.
pub(super) struct Spawned<C, T, F, U, E> {
    shop: Shop<C, T, F, E>,
    mailbox: Arc<Mailbox<Output<U, E>>>,
    /// Taken out of the mailbox.
    letters: VecDeque<Letter<Output<U, E>>>,
}

type Letter<O> = (u64, O);

impl<C, T, F, U, E> Spawned<C, T, F, U, E> {
    pub(super) fn new(shop: Shop<C, T, F, E>) -> Self {
        Self { shop, mailbox: Arc::default(), letters: VecDeque::new() }
    }

    /// Outputs are dropped one by one: two that panic at once would end the process.
    fn dismiss_all(&mut self) {
        self.mailbox.close();
        self.letters.drain(..).for_each(|letter| quietly(|| drop(letter)));
    }
}

impl<C, T, F, Fut, U, E> Crew<T> for Spawned<C, T, F, U, E>
where
    C: Calls<T, Runtime: Spawn>,
    T: Send + 'static,
    F: Fn(T, Attempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<U, E>> + Send + 'static,
    U: Send + 'static,
    E: Send + 'static,
{
    type Value = U;
    type Error = E;

    fn begin(&mut self, number: u64, item: T) {
        let mut work = self.shop.work::<Fut>(number, item);
        // Here, and not where it is first polled: so items queue in the order of the source.
        work.enqueue();
        let post = Post { number, mailbox: Some(self.mailbox.clone()) };
        <C::Runtime as Spawn>::spawn(async move {
            let (_, outcome) = work.await;
            post.send(match outcome {
                Outcome::Done(output) => output,
                Outcome::Panicked(panic, attempts) => {
                    let error = ItemError::panicked(&*panic, attempts);
                    bury(panic);
                    Err(error)
                }
            });
        });
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended<U, E>> {
        if self.letters.is_empty() && !self.mailbox.collect(&mut self.letters, cx) {
            return Poll::Pending;
        }
        match self.letters.pop_front() {
            Some((number, output)) => Poll::Ready((number, Outcome::Done(output))),
            None => Poll::Pending,
        }
    }

    fn dismiss(&mut self) {
        self.dismiss_all();
    }
}

impl<C, T, F, U, E> Drop for Spawned<C, T, F, U, E> {
    fn drop(&mut self) {
        self.dismiss_all();
    }
}

/// Where tasks put their outcomes. Its lock is held for a moment, and never while foreign code runs.
struct Mailbox<O> {
    state: Mutex<Mail<O>>,
}

struct Mail<O> {
    letters: VecDeque<Letter<O>>,
    waker: Option<Waker>,
    is_closed: bool,
}

impl<O> Default for Mailbox<O> {
    fn default() -> Self {
        let state = Mail { letters: VecDeque::new(), waker: None, is_closed: false };
        Self { state: Mutex::new(state) }
    }
}

impl<O> Mailbox<O> {
    fn lock(&self) -> MutexGuard<'_, Mail<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is there; if that is nothing, the waker will be woken.
    fn collect(&self, letters: &mut VecDeque<Letter<O>>, cx: &mut Context<'_>) -> bool {
        let mut new: Option<Waker> = None;
        loop {
            let mut state = self.lock();
            if !state.letters.is_empty() {
                std::mem::swap(&mut state.letters, letters);
                drop(state);
                return true;
            }
            if state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                drop(state);
                return false;
            }
            if let Some(new) = new.take() {
                let old = state.waker.replace(new);
                drop(state);
                drop(old);
                return false;
            }
            drop(state);
            new = Some(cx.waker().clone());
        }
    }

    fn put(&self, letter: Letter<O>) {
        let mut letter = Some(letter);
        let mut state = self.lock();
        let waker = if state.is_closed {
            None
        } else {
            state.letters.extend(letter.take());
            state.waker.take()
        };
        drop(state);
        drop(letter);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let (letters, waker) = (std::mem::take(&mut state.letters), state.waker.take());
        drop(state);
        letters.into_iter().for_each(|letter| quietly(|| drop(letter)));
        quietly(|| drop(waker));
    }
}

/// A task's way to the mailbox. If the task is dropped before it is finished, the stream hears that.
struct Post<U, E> {
    number: u64,
    mailbox: Option<Arc<Mailbox<Output<U, E>>>>,
}

impl<U, E> Post<U, E> {
    fn send(mut self, output: Output<U, E>) {
        self.deliver(output);
    }

    fn deliver(&mut self, output: Output<U, E>) {
        if let Some(mailbox) = self.mailbox.take() {
            // A value nobody reads may panic when it is dropped, and a waker when it is woken: that is
            // not for the runtime to suffer from.
            quietly(|| mailbox.put((self.number, output)));
            quietly(|| drop(mailbox));
        }
    }
}

impl<U, E> Drop for Post<U, E> {
    fn drop(&mut self) {
        self.deliver(Err(ItemError::Lost));
    }
}

pin_project! {
    /// The stream of [`MapAdmitted::spawned`](super::MapAdmitted::spawned): gives
    /// `Result<U, ItemError<E>>`, and has the operations run on the runtime.
    ///
    /// *Lazy*: nothing is read before the first poll. *Not polled*, it begins nothing more, and what it
    /// has begun goes on: no slot is held longer than its operation takes. *Dropped*, it tells
    /// operations that run to stop, by their signal; whatever they hold is theirs until they are
    /// finished (rule W7). Items that wait for admission or for their next attempt leave at once. A
    /// panic of an operation is its item's [`ItemError::Panicked`]. It is fused.
    #[must_use = "streams do nothing unless polled"]
    pub struct SpawnedMap<S, C, F, U, E>
    where
        S: Stream,
    {
        #[pin]
        pub(super) engine: Engine<S, Spawned<C, S::Item, F, U, E>, U, E>,
    }
}

impl<S, C, F, Fut, U, E> SpawnedMap<S, C, F, U, E>
where
    S: Stream<Item: Send + 'static>,
    C: Calls<S::Item, Runtime: Spawn>,
    F: Fn(S::Item, Attempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<U, E>> + Send + 'static,
    U: Send + 'static,
    E: Send + 'static,
{
    /// How many items wait for admission, run, or wait to be retried, as far as the stream has heard.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    /// How many outputs are finished and wait to be read, as far as the stream has heard.
    #[must_use]
    pub const fn finished(&self) -> usize {
        self.engine.finished()
    }
}

impl<S, C, F, Fut, U, E> Stream for SpawnedMap<S, C, F, U, E>
where
    S: Stream<Item: Send + 'static>,
    C: Calls<S::Item, Runtime: Spawn>,
    F: Fn(S::Item, Attempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<U, E>> + Send + 'static,
    U: Send + 'static,
    E: Send + 'static,
{
    type Item = Result<U, ItemError<E>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Output<U, E>>> {
        self.project().engine.poll_next(cx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.engine.size_hint()
    }
}

impl<S, C, F, Fut, U, E> FusedStream for SpawnedMap<S, C, F, U, E>
where
    S: Stream<Item: Send + 'static>,
    C: Calls<S::Item, Runtime: Spawn>,
    F: Fn(S::Item, Attempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<U, E>> + Send + 'static,
    U: Send + 'static,
    E: Send + 'static,
{
    fn is_terminated(&self) -> bool {
        self.engine.has_ended()
    }
}

impl<S, C, F, U, E> fmt::Debug for SpawnedMap<S, C, F, U, E>
where
    S: Stream,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.describe(f.debug_struct("SpawnedMap"))
    }
}
