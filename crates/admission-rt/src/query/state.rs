//! What all handles of a query share, and the one lock around it.
//!
//! Owns: who waits and subscribes, which cycle goes on, and the newest snapshot. Every change is made
//! here, and what it calls for (wakes, aborts, the drop of what is old) is done once the lock is gone:
//! nothing of a user's runs under it, and it is never held together with the coordinator's. Lacks the
//! cycle itself, which is a task of its own.

use std::task::{Context, Poll, Waker};

use super::builder::{OnAbort, Plan};
use super::cycle::{Cycle, Outcome, Running};
use super::error::QueryError;
use super::invocation::Invocation;
use super::snapshot::{CycleTimes, QuerySnapshot, QueryStatus};
use crate::slab::Slab;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};
use crate::unwind::{Unwind, quietly};
use crate::{AbortHandle, AbortReason, Rejected};

pub(super) struct Inner<T, E> {
    pub(super) plan: Plan<T, E>,
    state: Mutex<State<T, E>>,
}

struct State<T, E> {
    snapshot: Arc<QuerySnapshot<T, E>>,
    cycle: Option<Current<T, E>>,
    /// A subscriber's waker is not there while it has yet to look at the newest snapshot.
    subscribers: Slab<Option<Waker>>,
    subscribed: usize,
    is_paused: bool,
    is_disposed: bool,
}

/// The cycle that goes on.
struct Current<T, E> {
    cycle: Arc<Cycle<T, E>>,
    /// How many refreshes wait for it.
    waiting: usize,
    /// Aborts its attempt, or the wait for the next.
    handle: AbortHandle,
    call: Option<Arc<Invocation<T, E>>>,
}

/// What a change calls for, once the lock is gone.
#[must_use]
struct Aftermath<T, E> {
    old: Arc<QuerySnapshot<T, E>>,
    wakers: Vec<Waker>,
}

impl<T, E> Aftermath<T, E> {
    fn follow(self, unwind: &mut Unwind) {
        for waker in self.wakers {
            unwind.catch(|| waker.wake());
        }
        unwind.catch(|| drop(self.old));
    }
}

impl<T, E> State<T, E> {
    /// The next snapshot. Nothing of a user's is dropped here: all that it replaces is in the old one.
    fn publish(&mut self, change: impl FnOnce(&mut QuerySnapshot<T, E>)) -> Aftermath<T, E> {
        let mut next = QuerySnapshot::clone(&self.snapshot);
        next.version += 1;
        change(&mut next);
        let old = std::mem::replace(&mut self.snapshot, Arc::new(next));
        let wakers = self.subscribers.iter_mut().filter_map(Option::take).collect();
        Aftermath { old, wakers }
    }

    fn is_current(&self, cycle: &Arc<Cycle<T, E>>) -> bool {
        self.cycle.as_ref().is_some_and(|current| Arc::ptr_eq(&current.cycle, cycle))
    }

    fn current(&mut self, cycle: &Arc<Cycle<T, E>>) -> Option<&mut Current<T, E>> {
        self.cycle.as_mut().filter(|current| Arc::ptr_eq(&current.cycle, cycle))
    }

    /// The cycle, taken out because nobody is there for it any more, and what that calls for.
    fn unsubscribe(&mut self) -> Option<(Current<T, E>, Aftermath<T, E>)> {
        let waiting = self.cycle.as_ref()?.waiting;
        if waiting > 0 || self.subscribed > 0 {
            return None;
        }
        let current = self.cycle.take()?;
        Some((current, self.publish(|snapshot| snapshot.status = snapshot.at_rest())))
    }
}

impl<T, E> Inner<T, E> {
    pub(super) fn new(plan: Plan<T, E>) -> Arc<Self> {
        let state = State {
            snapshot: Arc::new(QuerySnapshot::new()),
            cycle: None,
            subscribers: Slab::new(),
            subscribed: 0,
            is_paused: false,
            is_disposed: false,
        };
        Arc::new(Self { plan, state: Mutex::new(state) })
    }

    pub(super) fn snapshot(&self) -> Arc<QuerySnapshot<T, E>> {
        self.lock().snapshot.clone()
    }

    /// The outcome of a cycle, by its own task. Nothing happens if it was ended from outside.
    pub(super) fn finish(&self, cycle: &Arc<Cycle<T, E>>, outcome: Outcome<T, E>, times: Arc<CycleTimes>) {
        let mut state = self.lock();
        if !state.is_current(cycle) {
            drop(state);
            quietly(|| drop(outcome));
            return;
        }
        let current = state.cycle.take();
        let aftermath = state.publish(|snapshot| {
            match &outcome {
                Ok(fetched) => {
                    snapshot.data = Some(fetched.data.clone());
                    snapshot.received_at = Some(fetched.received_at);
                    snapshot.error = None;
                }
                Err(error) => snapshot.error = Some(error.clone()),
            }
            snapshot.status = snapshot.at_rest();
            snapshot.times = times;
        });
        drop(state);
        let mut unwind = Unwind::new();
        cycle.settle(outcome, &mut unwind);
        aftermath.follow(&mut unwind);
        unwind.catch(|| drop(current));
        // The task has itself nothing to do with a waker's panic.
        unwind.swallow();
    }

    /// A cycle's task tells how it gets on; `false` if the cycle was ended from outside.
    pub(super) fn progress(
        &self,
        cycle: &Arc<Cycle<T, E>>,
        status: QueryStatus,
        times: &CycleTimes,
        step: Step<T, E>,
    ) -> bool {
        let times = Arc::new(times.clone());
        let mut state = self.lock();
        let Some(current) = state.current(cycle) else { return false };
        let old = match step {
            Step::Fail(handle) => (Some(std::mem::replace(&mut current.handle, handle)), current.call.take()),
            Step::Call(call) => (None, current.call.replace(call)),
            Step::Tell => (None, None),
        };
        let aftermath = state.publish(|snapshot| {
            snapshot.status = status;
            snapshot.times = times;
        });
        drop(state);
        let mut unwind = Unwind::new();
        aftermath.follow(&mut unwind);
        unwind.catch(|| drop(old));
        unwind.swallow();
        true
    }

    /// A cycle's task ended before its cycle did.
    pub(super) fn lose(&self, cycle: &Arc<Cycle<T, E>>, error: QueryError<E>) -> Unwind {
        let mut state = self.lock();
        if !state.is_current(cycle) {
            return Unwind::new();
        }
        let Some(current) = state.cycle.take() else { return Unwind::new() };
        let aftermath = state.publish(|snapshot| {
            snapshot.error = Some(error.clone());
            snapshot.status = snapshot.at_rest();
        });
        drop(state);
        self.abandon(Some(current), error, AbortReason::Requested, aftermath)
    }

    pub(super) fn pause(&self) -> Unwind {
        let mut state = self.lock();
        if state.is_paused || state.is_disposed {
            return Unwind::new();
        }
        state.is_paused = true;
        let current = state.cycle.take();
        let aftermath = state.publish(|snapshot| snapshot.status = QueryStatus::Paused);
        drop(state);
        self.abandon(current, QueryError::Paused, AbortReason::Paused, aftermath)
    }

    pub(super) fn resume(&self) -> Unwind {
        let mut unwind = Unwind::new();
        let mut state = self.lock();
        if state.is_paused && !state.is_disposed {
            state.is_paused = false;
            let aftermath = state.publish(|snapshot| snapshot.status = snapshot.at_rest());
            drop(state);
            aftermath.follow(&mut unwind);
        }
        unwind
    }

    pub(super) fn dispose(&self) -> Unwind {
        let mut state = self.lock();
        if state.is_disposed {
            return Unwind::new();
        }
        state.is_disposed = true;
        let current = state.cycle.take();
        let aftermath = state.publish(|snapshot| snapshot.status = QueryStatus::Disposed);
        drop(state);
        self.abandon(current, QueryError::Disposed, AbortReason::Disposed, aftermath)
    }

    /// A refresh waits for its cycle no more.
    pub(super) fn leave(&self, cycle: &Arc<Cycle<T, E>>) -> Unwind {
        let mut state = self.lock();
        let Some(current) = state.current(cycle) else { return Unwind::new() };
        current.waiting -= 1;
        self.unsubscribed(state)
    }

    /// A seat among the subscribers.
    pub(super) fn subscribe(&self) -> Option<u32> {
        let mut state = self.lock();
        let seat = state.subscribers.insert(None);
        state.subscribed += usize::from(seat.is_some());
        seat
    }

    /// The snapshot that a subscriber has not seen yet; `None` if there will be no other.
    pub(super) fn poll_newer(
        &self,
        seat: Option<u32>,
        seen: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Arc<QuerySnapshot<T, E>>>> {
        let newer = |state: &State<T, E>| {
            if state.snapshot.version > seen {
                Poll::Ready(Some(state.snapshot.clone()))
            } else if state.is_disposed {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        };
        let mut state = self.lock();
        let answer = newer(&state);
        let place = seat.and_then(|seat| state.subscribers.get_mut(seat));
        let is_kept = place.is_some_and(|place| place.as_ref().is_some_and(|w| w.will_wake(cx.waker())));
        drop(state);
        if answer.is_ready() || is_kept {
            return answer;
        }
        let waker = cx.waker().clone();
        let mut state = self.lock();
        let answer = newer(&state);
        let old = match seat.and_then(|seat| state.subscribers.get_mut(seat)) {
            Some(place) if answer.is_pending() => place.replace(waker),
            _ => Some(waker),
        };
        drop(state);
        drop(old);
        answer
    }

    /// A subscriber goes.
    pub(super) fn unsubscribe(&self, seat: u32) -> Unwind {
        let mut state = self.lock();
        let waker = state.subscribers.remove(seat);
        state.subscribed -= usize::from(waker.is_some());
        let mut unwind = self.unsubscribed(state);
        unwind.catch(|| drop(waker));
        unwind
    }

    /// Ends the cycle if nobody is there for it any more (rule Q4).
    fn unsubscribed(&self, mut state: MutexGuard<'_, State<T, E>>) -> Unwind {
        let Some((current, aftermath)) = state.unsubscribe() else { return Unwind::new() };
        drop(state);
        // Nobody waits for this outcome.
        self.abandon(Some(current), QueryError::Lost, AbortReason::Unsubscribed, aftermath)
    }

    /// What is to be done for a cycle that was ended from outside. Its ticket leaves the queue, and with
    /// [`OnAbort::Drop`] its slots are free, before anybody hears of it.
    fn abandon(
        &self,
        current: Option<Current<T, E>>,
        error: QueryError<E>,
        reason: AbortReason,
        aftermath: Aftermath<T, E>,
    ) -> Unwind {
        let mut unwind = Unwind::new();
        if let Some(Current { cycle, handle, call, .. }) = current {
            unwind.catch(|| handle.abort_with(reason));
            if let (Some(call), OnAbort::Drop) = (&call, self.plan.on_abort) {
                call.kill();
            }
            cycle.settle(Err(error), &mut unwind);
            unwind.catch(|| drop((call, cycle)));
        }
        aftermath.follow(&mut unwind);
        unwind
    }

    fn lock(&self) -> MutexGuard<'_, State<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a cycle gets on.
pub(super) enum Step<T, E> {
    /// An attempt has failed; this aborts the wait for the next, and that.
    Fail(AbortHandle),
    /// It called the source.
    Call(Arc<Invocation<T, E>>),
    /// What is in the snapshot, and no more.
    Tell,
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> Inner<T, E> {
    /// Waits for the cycle that goes on, or begins one.
    pub(super) fn join(self: &Arc<Self>) -> Result<Arc<Cycle<T, E>>, QueryError<E>> {
        let has_runtime = (self.plan.host.current)().is_some();
        let mut state = self.lock();
        if state.is_disposed {
            return Err(QueryError::Disposed);
        }
        if state.is_paused {
            return Err(QueryError::Paused);
        }
        if let Some(current) = &mut state.cycle {
            current.waiting += 1;
            return Ok(current.cycle.clone());
        }
        if !has_runtime {
            return Err(QueryError::refused(Rejected::NoRuntime, None));
        }
        let cycle = Cycle::new();
        let (handle, signal) = AbortHandle::new();
        state.cycle = Some(Current { cycle: cycle.clone(), waiting: 1, handle, call: None });
        let aftermath = state.publish(|snapshot| {
            snapshot.status = QueryStatus::Queued { attempt: 1 };
            snapshot.times = Arc::default();
        });
        drop(state);
        let running = Running::new(self.clone(), cycle.clone());
        (self.plan.spawn)(Box::pin(super::cycle::task(running, signal)));
        let mut unwind = Unwind::new();
        aftermath.follow(&mut unwind);
        // Whoever refreshes is not to blame for a subscriber's waker.
        unwind.swallow();
        Ok(cycle)
    }
}
