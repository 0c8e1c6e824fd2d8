//! The wait of one call, from submission to permit or refusal.
//!
//! Owns: the ticket between its request and its end, and the way out of each state. Every wait in
//! this crate is one of these: `run`, the limiters and the rest are built on it. Lacks a timer, and
//! lacks any duty to the others: who is next is decided whether or not this future is polled.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use admission_core::{Admitted, Instant, Key, ProviderId, Reason, Refusal, Request, Step, TicketId};

use crate::alarms::{Booked, Host};
use crate::call::{Call, Rare};
use crate::in_force::Told;
use crate::runtime::{Runtime, RuntimeId};
use crate::shared::{Shared, State};
use crate::unwind::{Unwind, quietly};
use crate::{AbortReason, Permit, Rejected, Waiting};

/// The future of a call's turn: `Result<Permit, Rejected>`.
///
/// *Lazy*: before its first poll it has no ticket, no place and no slot (rule W0; one made by
/// `enqueue` has its place at once). *Cancel safe*: dropping it in any state takes the call out of
/// wherever it is; if it was granted and had not started, its pacer budget stays spent (rule S3),
/// and whoever is next is woken. *Once*: after it has answered it stays pending for ever, like a
/// fused future, and never panics.
///
/// A wait is two polls: one that takes a place, and one that starts. `Send`, `Unpin` and `'static`;
/// at most 32 bytes, plus a box for calls with a cost, a signal, a text key, or an admission
/// timeout that is not whole milliseconds below four hours, and for calls to a provider that the
/// builder did not name.
#[must_use = "futures do nothing unless polled"]
pub struct Acquire<R> {
    admit: Admit,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> Acquire<R> {
    pub(crate) fn new(call: Call<R>) -> Self {
        Self { admit: Admit::new(call), runtime: PhantomData }
    }

    /// Like `poll`, without a pin: for services that keep the future in a field.
    pub fn poll_acquire(&mut self, cx: &mut Context<'_>) -> Poll<Result<Permit, Rejected>> {
        self.admit.poll(Host::of::<R>(), cx)
    }

    /// Why it waits (rule O2), while it does; `None` before it is submitted and once it has ended. A
    /// call that is granted and has yet to be polled says so.
    ///
    /// Costs one turn of the lock, and a few allocations.
    #[must_use]
    pub fn explain(&self) -> Option<Waiting> {
        match (&self.admit.stage, &self.admit.shared) {
            (Stage::Waiting { ticket, .. }, Some(shared)) => shared.explain(*ticket),
            _ => None,
        }
    }

    pub(crate) fn enqueue(&mut self) {
        self.admit.enqueue();
    }
}

impl<R: Runtime> Future for Acquire<R> {
    type Output = Result<Permit, Rejected>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_acquire(cx)
    }
}

impl<R> fmt::Debug for Acquire<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.admit.stage {
            Stage::Lazy { .. } | Stage::LazyKey { .. } => "not submitted",
            Stage::Waiting { .. } => "waiting",
            Stage::Refused(_) => "refused",
            Stage::Ended { .. } | Stage::Done => "done",
        };
        f.debug_tuple("Acquire").field(&stage).finish()
    }
}

/// An [`Acquire`] of whatever runtime.
pub(crate) struct Admit {
    stage: Stage,
    /// Gone when done.
    shared: Option<Arc<Shared>>,
    rare: Option<Box<Rare>>,
}

/// Where the call is. The fields are arranged to be 16 bytes in all.
enum Stage {
    /// Not submitted: the coordinator knows nothing of it.
    Lazy { timeout: Millis, provider: ProviderId },
    /// The same, with a key.
    LazyKey { timeout: Millis, provider: ProviderId, key: u64 },
    /// Submitted. It may wait, be granted or be refused by now: the next step tells.
    Waiting { provider: ProviderId, ticket: TicketId },
    /// The ticket is gone, and its place may be another's by now.
    Ended { provider: ProviderId },
    /// Refused when it was enqueued, or in a poll that ended in another's panic: the next poll will tell.
    Refused(Box<Rejected>),
    /// It has answered.
    Done,
}

/// What a turn says about the ticket.
enum Heard {
    Start,
    Refused(Told),
    /// It waits, and its waker and alarm are in place.
    Settled,
    /// It waits, and has no alarm or another waker.
    Unsettled,
    /// It waits, and no alarm can be had.
    NoRuntime,
}

impl Stage {
    /// Asks the machine about the ticket, and notes at once if it is gone; `wait` says how a
    /// waiting one is settled. With it comes a waker to be dropped outside the lock.
    fn step(
        &mut self,
        state: &mut State,
        now: Instant,
        wait: impl FnOnce(&mut State, TicketId) -> Heard,
    ) -> (Heard, Option<Waker>) {
        let Self::Waiting { provider, ticket } = *self else { return (Heard::Refused(closed()), None) };
        match state.core.step(ticket, now) {
            Step::Wait => (wait(state, ticket), None),
            Step::Start | Step::Running => (Heard::Start, state.leave(ticket)),
            Step::GiveUp(refusal) => {
                *self = Self::Ended { provider };
                (Heard::Refused(state.limits.told(refusal, provider, now)), state.leave(ticket))
            }
            Step::Gone => {
                *self = Self::Ended { provider };
                (Heard::Refused(closed()), None)
            }
        }
    }
}

impl Admit {
    pub(crate) fn new<R: Runtime>(call: Call<R>) -> Self {
        let Call { shared, provider, key, timeout, mut rare, .. } = call;
        let millis = Millis::new(timeout);
        if millis == Millis::ELSEWHERE {
            rare.get_or_insert_default().timeout = timeout;
        }
        let stage = match key {
            Some(key) => Stage::LazyKey { timeout: millis, provider, key },
            None => Stage::Lazy { timeout: millis, provider },
        };
        Self { stage, shared: Some(shared), rare }
    }

    /// Submits the call and starts it, or not.
    pub(crate) fn at_once(mut self) -> Result<Permit, Rejected> {
        if let Some(reason) = self.look() {
            return Err(self.aborted(reason));
        }
        match self.submit(|request| request.at_once()) {
            Ok(_) => self.start().ok_or(Rejected::Closed),
            Err(refusal) => Err(self.refused(refusal)),
        }
    }

    /// Submits the call, to be polled later.
    fn enqueue(&mut self) {
        let refused = if let Some(reason) = self.look() {
            self.aborted(reason)
        } else {
            match self.submit(|request| request.deferred()) {
                Ok(_) => match self.listen() {
                    None => return,
                    Some(reason) => self.aborted(reason),
                },
                Err(refusal) => self.refused(refusal),
            }
        };
        self.stage = Stage::Refused(Box::new(refused));
    }

    pub(crate) fn poll(
        &mut self,
        host: &'static Host,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Permit, Rejected>> {
        match self.stage {
            Stage::Lazy { .. } | Stage::LazyKey { .. } | Stage::Waiting { .. } => {}
            Stage::Ended { .. } | Stage::Done => return Poll::Pending,
            Stage::Refused(_) => {
                return match std::mem::replace(&mut self.stage, Stage::Done) {
                    Stage::Refused(refused) => Poll::Ready(Err(*refused)),
                    _ => Poll::Pending,
                };
            }
        }
        // Looked at before submitting, and once more right before a start (rules W3, S3).
        if let Some(reason) = self.look() {
            return Poll::Ready(Err(self.aborted(reason)));
        }
        let mut heard = match self.stage {
            // It listens already, unless the poll that submitted it ended in another's panic.
            Stage::Waiting { .. } => match self.listen() {
                None => self.step(cx.waker()),
                Some(reason) => return Poll::Ready(Err(self.aborted(reason))),
            },
            _ => match self.submit(|request| request) {
                Ok(Admitted::Started(_)) => Heard::Start,
                // At once, so that an abort finds the ticket from here on (rule W3).
                Ok(Admitted::Queued(_)) => match self.listen() {
                    None => Heard::Unsettled,
                    Some(reason) => return Poll::Ready(Err(self.aborted(reason))),
                },
                Err(refusal) => Heard::Refused(refusal),
            },
        };
        if let Heard::Unsettled = heard {
            // Whose alarm, and a clone of the waker: foreign code, so between two turns.
            heard = match (host.current)() {
                Some(runtime) => self.sit(host, cx.waker().clone(), runtime),
                None => Heard::NoRuntime,
            };
            if let Heard::Settled = heard {
                // A signal from a future may have become ready before the waker was in place.
                if let Some(reason) = self.look() {
                    return Poll::Ready(Err(self.aborted(reason)));
                }
            }
        }
        match heard {
            Heard::Start => match self.start() {
                Some(permit) => Poll::Ready(Ok(permit)),
                None => Poll::Pending,
            },
            Heard::Refused(refusal) => Poll::Ready(Err(self.refused(refusal))),
            Heard::NoRuntime => {
                self.finish();
                Poll::Ready(Err(Rejected::NoRuntime))
            }
            Heard::Settled | Heard::Unsettled => Poll::Pending,
        }
    }

    /// The first turn: asks the machine.
    fn submit(&mut self, how: impl for<'a> FnOnce(Request<'a>) -> Request<'a>) -> Result<Admitted, Told> {
        let Self { stage, shared, rare } = self;
        let (provider, key, millis) = match *stage {
            Stage::Lazy { timeout, provider } => (provider, None, timeout),
            Stage::LazyKey { timeout, provider, key } => (provider, Some(Key(key)), timeout),
            _ => return Err(closed()),
        };
        let Some(shared) = shared else { return Err(closed()) };
        let mut request = Request::new(provider);
        request.key = key;
        request.timeout = millis.get();
        if let Some(rare) = rare {
            request.costs = rare.costs.as_slice();
            request.timeout = request.timeout.or(rare.timeout);
        }
        if shared.manner.at_once {
            request = request.at_once();
        }
        let request = how(request);
        shared.turn(|state, now| {
            let answer = state.core.request(&request, now);
            if let (Ok(Admitted::Queued(ticket)), Some(long_waits)) = (answer, &mut state.long_waits) {
                long_waits.note(ticket, &state.core, now);
            }
            // Noted before the lock is gone: from here on, drop knows what to undo, even if one of
            // those whom this turn wakes panics.
            if let Ok(Admitted::Started(ticket) | Admitted::Queued(ticket)) = answer {
                *stage = Stage::Waiting { provider, ticket };
            }
            answer.map_err(|refusal| state.limits.told(refusal, provider, now))
        })
    }

    /// A later poll: one turn, and no more if nothing changed.
    fn step(&mut self, waker: &Waker) -> Heard {
        let Self { stage, shared: Some(shared), .. } = self else { return Heard::Refused(closed()) };
        let ((heard, old), unwind) = shared.turn_held(|state, now| {
            stage.step(state, now, |state, ticket| {
                if state.waiters.keeps(ticket, waker) { Heard::Settled } else { Heard::Unsettled }
            })
        });
        drop(old);
        self.go_on(heard, unwind)
    }

    /// The turn that gives a waiting ticket its waker and its alarm. It may have been granted since
    /// the turn before, and then it starts here: nobody would wake it for that.
    fn sit(&mut self, host: &'static Host, waker: Waker, runtime: RuntimeId) -> Heard {
        let Self { stage, shared: Some(shared), .. } = self else { return Heard::Refused(closed()) };
        let mut waker = Some(waker);
        let mut booked = Booked::Done;
        let ((heard, old), unwind) = shared.turn_held(|state, now| {
            stage.step(state, now, |state, ticket| {
                let room = state.core.capacity();
                (waker, booked) = state.waiters.sit(ticket, waker.take(), runtime, &mut state.alarms, room);
                Heard::Settled
            })
        });
        let has_alarm = shared.make(host, booked);
        drop((waker, old));
        let heard = self.go_on(heard, unwind);
        if has_alarm { heard } else { Heard::NoRuntime }
    }

    /// Goes on with the panic of a waker that the turn has woken. A refusal is kept for the next poll: the
    /// ticket is gone, and nobody else would tell.
    fn go_on(&mut self, heard: Heard, unwind: Unwind) -> Heard {
        match heard {
            Heard::Refused(told) if unwind.will_resume() => {
                self.stage = Stage::Refused(Box::new(self.refused(told)));
                unwind.resume();
                Heard::Settled
            }
            heard => {
                unwind.resume();
                heard
            }
        }
    }

    /// The reason, if the call's signal has fired.
    fn look(&self) -> Option<AbortReason> {
        self.rare.as_ref()?.signal.as_ref()?.look()
    }

    /// Has the signal take the ticket out; the reason, if it has fired already.
    fn listen(&mut self) -> Option<AbortReason> {
        let (Some(shared), Some(rare)) = (&self.shared, &mut self.rare) else { return None };
        let (Stage::Waiting { ticket, .. }, Some(signal), None) = (&self.stage, &rare.signal, rare.listener)
        else {
            return None;
        };
        match signal.listen(shared, *ticket) {
            Ok(listener) => {
                rare.listener = listener;
                None
            }
            Err(reason) => Some(reason),
        }
    }

    /// The call starts: nothing of the wait is left but what the permit needs (rule I3).
    fn start(&mut self) -> Option<Permit> {
        let Stage::Waiting { ticket, .. } = self.stage else { return None };
        if let Some(rare) = &mut self.rare {
            rare.leave();
            rare.signal = None;
        }
        let shared = self.shared.take()?;
        self.stage = Stage::Done;
        Some(Permit::new(shared, ticket, self.rare.take().filter(|rare| rare.is_kept())))
    }

    fn aborted(&mut self, reason: AbortReason) -> Rejected {
        self.finish();
        Rejected::Aborted(reason)
    }

    fn refused(&mut self, told: Told) -> Rejected {
        let rejected = match (&self.stage, &self.shared) {
            (
                Stage::Lazy { provider, .. } | Stage::LazyKey { provider, .. } | Stage::Ended { provider },
                Some(shared),
            ) => {
                let rare = self.rare.as_deref();
                let costs = rare.map_or(&[][..], |rare| rare.costs.as_slice());
                let unknown_unit = rare.and_then(|rare| rare.unknown_unit.as_ref());
                let provider = Rare::provider(rare, shared, *provider);
                let holder = told
                    .refusal
                    .key_holder
                    .map(|holder| shared.other(holder.provider, holder.is_running, holder.since, told.at));
                match shared.names.rejected(&told, provider, costs, unknown_unit, holder) {
                    Rejected::Aborted(asked) => Rejected::Aborted(self.look().unwrap_or(asked)),
                    rejected => rejected,
                }
            }
            _ => Rejected::Closed,
        };
        self.finish();
        rejected
    }

    /// Lets go of everything, in whatever state.
    fn finish(&mut self) {
        if let Stage::Waiting { ticket, .. } = std::mem::replace(&mut self.stage, Stage::Done) {
            if let Some(shared) = &self.shared {
                shared.release(ticket);
            }
        }
        // After the ticket: whoever aborts meanwhile, and finds no listener, may count on its being gone.
        if let Some(rare) = &mut self.rare {
            rare.leave();
        }
        // The key's number after the ticket, and the provider's.
        drop((self.rare.take(), self.shared.take()));
    }
}

impl Drop for Admit {
    fn drop(&mut self) {
        if self.shared.is_some() {
            quietly(|| self.finish());
        }
    }
}

/// An admission timeout in 24 bits, where it fits: whole milliseconds below 4 h 39 min. So the
/// usual ones need no box.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Millis([u8; 3]);

impl Millis {
    const NONE: Self = Self([0xff; 3]);
    /// There is one, and it did not fit.
    const ELSEWHERE: Self = Self([0xfe, 0xff, 0xff]);

    fn new(timeout: Option<Duration>) -> Self {
        let Some(timeout) = timeout else { return Self::NONE };
        let millis = timeout.as_millis();
        if millis >= 0xff_fffe || timeout.subsec_nanos() % 1_000_000 != 0 {
            return Self::ELSEWHERE;
        }
        let [a, b, c, _] = (millis as u32).to_le_bytes();
        Self([a, b, c])
    }

    fn get(self) -> Option<Duration> {
        let Self([a, b, c]) = self;
        let millis = u32::from_le_bytes([a, b, c, 0]);
        (millis < 0xff_fffe).then(|| Duration::from_millis(u64::from(millis)))
    }
}

/// The answer to a question that cannot come up: a ticket that the machine does not know.
const fn closed() -> Told {
    Told::alone(Refusal::new(Reason::Closed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_is_32_bytes() {
        assert_eq!(size_of::<Stage>(), 16);
        assert_eq!(size_of::<Acquire<()>>(), 32);
    }

    #[test]
    fn usual_timeouts_need_no_box() {
        let fits = |timeout| Millis::new(Some(timeout)).get() == Some(timeout);
        for millis in [0, 1, 300, 65_536, 0xff_fffd] {
            assert!(fits(Duration::from_millis(millis)));
        }
        for timeout in [Duration::from_nanos(1), Duration::from_millis(0xff_fffe), Duration::MAX] {
            assert!(Millis::new(Some(timeout)) == Millis::ELSEWHERE);
            assert_eq!(Millis::ELSEWHERE.get(), None);
        }
        assert!(Millis::new(None) == Millis::NONE);
        assert_eq!(Millis::NONE.get(), None);
    }
}
