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

use admission_core::{Admitted, Key, ProviderId, Reason, Refusal, Request, TicketId, TicketState};

use crate::alarms::{Booked, Host};
use crate::baton::Likeness;
use crate::call::{Call, Extras, Rare};
use crate::in_force::Told;
use crate::millis::Millis;
use crate::runtime::{Runtime, RuntimeId};
use crate::shared::{Shared, State};
use crate::stage::{Heard, Stage};
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
    #[inline(always)]
    pub fn poll_acquire(&mut self, cx: &mut Context<'_>) -> Poll<Result<Permit, Rejected>> {
        self.admit.poll(Host::of::<R>(), cx)
    }

    /// Why it waits (rule O2), while it does; `None` before it is submitted and once it has ended. A
    /// call that is granted and has yet to be polled says so.
    ///
    /// Costs one turn of the lock, and a few allocations.
    #[must_use]
    pub fn explain(&self) -> Option<Waiting> {
        let Live { stage, shared, .. } = self.admit.0.as_ref()?;
        shared.explain(stage.ticket()?)
    }

    pub(crate) fn enqueue(&mut self) {
        self.admit.enqueue();
    }
}

impl<R: Runtime> Future for Acquire<R> {
    type Output = Result<Permit, Rejected>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_acquire(cx)
    }
}

impl<R> fmt::Debug for Acquire<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.admit.0.as_ref().map(|live| &live.stage) {
            Some(Stage::Lazy { .. } | Stage::LazyKey { .. }) => "not submitted",
            Some(Stage::Waiting { .. }) => "waiting",
            Some(Stage::Refused(_)) => "refused",
            Some(Stage::Ended { .. }) | None => "done",
        };
        f.debug_tuple("Acquire").field(&stage).finish()
    }
}

/// An [`Acquire`] of whatever runtime. Nothing is left of one that has answered.
pub(crate) struct Admit(Option<Live>);

/// A call of which nothing was said but whom it goes to starts now, or is refused.
///
/// In line, as the usual way to start is, and for the same reason.
#[inline(always)]
pub(crate) fn at_once(shared: &Arc<Shared>, provider: ProviderId) -> Result<Permit, Rejected> {
    match shared.start_plainly(provider) {
        Some((ticket, likeness)) => {
            Ok(Permit::new(shared.clone(), TicketId::from_bits(ticket), likeness, Extras(None)))
        }
        None => at_once_at_length(shared, provider),
    }
}

/// The same in a turn at length. Where there are too many calls most are refused, so a refusal is put into words where
/// what it is of is at hand, and not handed on.
#[inline(never)]
fn at_once_at_length(shared: &Arc<Shared>, provider: ProviderId) -> Result<Permit, Rejected> {
    let request = Request::new(provider).at_once();
    let mut outcome = Err(Rejected::Closed);
    let (started, unwind) = shared.turn_timed(|state, time| {
        // (By reference, and to where it is to be: to move an answer takes as long as to give it.)
        match &state.request(&request, time) {
            Ok(Admitted::Started(ticket) | Admitted::Queued(ticket)) => {
                Some((*ticket, shared.note_start(state, provider, *ticket, time.read().is_none())))
            }
            Err(refusal) => {
                shared.guess.note_refusal(state, true);
                let limits = state.limits.of_refusal(refusal, provider).map(|limits| &**limits);
                let name = shared.names.configured_name(provider);
                outcome = Err(shared.names.rejected(refusal, limits, name, &[], None, || None));
                None
            }
        }
    });
    if let Some((ticket, likeness)) = started {
        outcome = Ok(Permit::new(shared.clone(), ticket, likeness, Extras(None)));
    }
    // Last: whoever is woken may panic, and then the call must not be left running.
    unwind.resume();
    outcome
}

/// What a poll says: nothing yet, unless something is put here.
type Answer = Poll<Result<Permit, Rejected>>;

/// A call that has not been answered. The ticket goes first (see [`leave`](Self::leave)), and then the fields in this
/// order: so the key's number goes after the ticket, and so does the provider's.
struct Live {
    stage: Stage,
    extras: Extras,
    shared: Arc<Shared>,
}

impl Admit {
    #[inline(always)]
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
        Self(Some(Live { stage, shared, extras: Extras(rare) }))
    }

    /// Submits the call and starts it, or not.
    pub(crate) fn at_once(mut self) -> Result<Permit, Rejected> {
        if let Some(permit) = self.start_short() {
            return Ok(permit);
        }
        let Some(live) = &mut self.0 else { return Err(Rejected::Closed) };
        if let Some(reason) = live.look() {
            return Err(self.aborted(reason));
        }
        let mut told = None;
        let (heard, unwind) =
            live.submit_and(|request| request.at_once(), &mut told, |_, _| Heard::Unsettled);
        unwind.resume();
        match heard {
            Heard::Start(likeness) => self.start(likeness).ok_or(Rejected::Closed),
            _ => Err(self.refused(told)),
        }
    }

    /// Submits the call, to be polled later.
    fn enqueue(&mut self) {
        let Some(live) = &mut self.0 else { return };
        let reason = live.look().or_else(|| {
            let mut told = None;
            let (heard, unwind) =
                live.submit_and(|request| request.deferred(), &mut told, |_, _| Heard::Unsettled);
            unwind.resume();
            if heard == Heard::Refused {
                live.keep_refusal(&mut told);
                return None;
            }
            live.listen()
        });
        if let Some(reason) = reason {
            live.keep_abort(reason);
        }
    }

    #[inline(always)]
    pub(crate) fn poll(
        &mut self,
        host: &'static Host,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Permit, Rejected>> {
        let started = match &self.0 {
            Some(Live { stage: Stage::Lazy { .. } | Stage::LazyKey { .. }, .. }) => self.start_short(),
            // Mostly it was woken because its grant is offered.
            Some(Live { stage: Stage::Waiting { .. }, .. }) => self.take_up(),
            _ => None,
        };
        if let Some(permit) = started {
            return Poll::Ready(Ok(permit));
        }
        // Beside, not as what is returned: then a permit at once is never put into memory in pieces and moved as a
        // whole, which costs as much as a lock.
        let mut answer = Poll::Pending;
        match &self.0 {
            Some(Live { stage: Stage::Lazy { .. } | Stage::LazyKey { .. }, .. }) => {
                self.poll_first(host, cx, &mut answer);
            }
            _ => self.poll_again(host, cx, &mut answer),
        }
        answer
    }

    /// The usual way of a call of which nothing rare was said: it takes over the ticket of one like it, or else it
    /// starts in one short turn, where that looks likely. If not, nothing has happened.
    ///
    /// In line, and what it calls answers in registers: a permit that is written and moved at once costs as much as
    /// a lock.
    #[inline(always)]
    fn start_short(&mut self) -> Option<Permit> {
        let live = self.0.as_ref().filter(|live| live.extras.0.is_none())?;
        let (ticket, likeness) = match live.stage {
            Stage::Lazy { provider, .. } => live.shared.start_plainly(provider)?,
            Stage::LazyKey { provider, key, .. } if live.shared.guess.is_short() => {
                (live.shared.start_with_key(provider, Key(key))?, Likeness::NONE)
            }
            _ => return None,
        };
        self.start_plainly(TicketId::from_bits(ticket), likeness)
    }

    /// The call has started, and had nothing but what a permit needs.
    #[inline(always)]
    fn start_plainly(&mut self, ticket: TicketId, likeness: Likeness) -> Option<Permit> {
        let Live { shared, stage, extras } = self.0.take()?;
        // (Neither holds anything that is to be dropped. Without a call the registers need not be put by.)
        std::mem::forget((stage, extras));
        Some(Permit::new(shared, ticket, likeness, Extras(None)))
    }

    /// A poll that submits a call at length.
    #[inline(never)]
    fn poll_first(&mut self, host: &'static Host, cx: &mut Context<'_>, answer: &mut Answer) {
        let Some(live) = &mut self.0 else { return };
        // Looked at before submitting, and once more right before a start (rules W3, S3).
        if live.extras.0.is_some() && live.is_aborted() {
            return self.poll_again(host, cx, answer);
        }
        if live.is_likely_to_wait() {
            return self.poll_and_sit(host, cx, answer);
        }
        let mut told = None;
        let (heard, unwind) = live.submit_and(|request| request, &mut told, |_, _| Heard::Unsettled);
        let heard = live.go_on(heard, &mut told, unwind);
        self.answer(heard, &mut told, host, cx, answer);
    }

    #[inline(always)]
    fn answer(
        &mut self,
        heard: Heard,
        told: &mut Option<Told>,
        host: &'static Host,
        cx: &mut Context<'_>,
        answer: &mut Answer,
    ) {
        match heard {
            Heard::Start(likeness) => self.started(likeness, answer),
            Heard::Settled => {}
            heard => self.poll_at_length(heard, told, host, cx, answer),
        }
    }

    /// The call starts without a turn, if its grant was offered (see [`crate::offer`]).
    #[inline(always)]
    fn take_up(&mut self) -> Option<Permit> {
        let live = self.0.as_ref().filter(|live| live.extras.0.is_none())?;
        let ticket = live.stage.ticket()?;
        if !live.shared.offer.take(ticket) {
            return None;
        }
        self.start_plainly(ticket, Likeness::NONE)
    }

    /// A poll that does not submit, or must not.
    #[inline(never)]
    fn poll_again(&mut self, host: &'static Host, cx: &mut Context<'_>, answer: &mut Answer) {
        let Some(live) = &mut self.0 else { return };
        if matches!(live.stage, Stage::Refused(_)) {
            return self.tell(answer);
        }
        // It listens already, unless the poll that submitted it ended in another's panic.
        if live.extras.0.is_some() {
            if let Some(reason) = live.look().or_else(|| live.listen()) {
                *answer = Poll::Ready(Err(self.aborted(reason)));
                return;
            }
        }
        let mut told = None;
        let heard = live.step(cx.waker(), &mut told);
        self.answer(heard, &mut told, host, cx, answer);
    }

    /// What was kept to be told.
    #[cold]
    fn tell(&mut self, answer: &mut Answer) {
        if let Some(Live { stage: Stage::Refused(refused), .. }) = self.0.take() {
            *answer = Poll::Ready(Err(*refused));
        }
    }

    /// The rest of a poll in which the call does not start by its first turn.
    #[inline(never)]
    fn poll_at_length(
        &mut self,
        mut heard: Heard,
        told: &mut Option<Told>,
        host: &'static Host,
        cx: &mut Context<'_>,
        answer: &mut Answer,
    ) {
        let Some(live) = &mut self.0 else { return };
        let mut aborted = None;
        if heard == Heard::Unsettled {
            // At once, so that an abort finds the ticket from here on (rule W3).
            aborted = live.listen();
            if aborted.is_none() {
                // Whose alarm, and a clone of the waker: foreign code, so between two turns.
                heard = match (host.current)() {
                    Some(runtime) => live.sit(host, cx.waker().clone(), runtime, told),
                    None => Heard::NoRuntime,
                };
                if heard == Heard::Settled {
                    // A signal from a future may have become ready before the waker was in place.
                    aborted = live.look();
                }
            }
        }
        let refused = match (aborted, heard) {
            (Some(reason), _) => Rejected::Aborted(reason),
            (None, Heard::Start(likeness)) => return self.started(likeness, answer),
            (None, Heard::Refused) => live.rejected(told.take()),
            (None, Heard::NoRuntime) => Rejected::NoRuntime,
            (None, Heard::Settled | Heard::Unsettled) => return,
        };
        if live.has_signal() {
            // Kept until it is gone: a source of the signal's that goes with it may panic, and then the next poll tells.
            live.keep(refused);
            return self.tell(answer);
        }
        self.finish();
        *answer = Poll::Ready(Err(refused));
    }

    /// The first turn of a call that will most likely have to wait, and the last until it is granted. Whose
    /// alarm, and a clone of the waker, are foreign code, and come before it.
    #[inline(never)]
    fn poll_and_sit(&mut self, host: &'static Host, cx: &mut Context<'_>, answer: &mut Answer) {
        let Some(live) = &mut self.0 else { return };
        let mut told = None;
        let runtime = (host.current)();
        let mut waker = runtime.is_some().then(|| cx.waker().clone());
        let mut booked = Booked::Done;
        let (heard, mut unwind) = live.submit_and(
            |request| request,
            &mut told,
            |state, ticket| {
                match runtime {
                    // It may have been granted in this very call (rule E4), and then a step starts it.
                    Some(runtime) if state.core.state(ticket) == Some(TicketState::Queued) => {
                        waker = state.sit(ticket, waker.take(), runtime, &mut booked);
                        Heard::Settled
                    }
                    _ => Heard::Unsettled,
                }
            },
        );
        let has_alarm = live.shared.make(host, booked);
        unwind.catch(|| drop(waker));
        let heard = live.go_on(heard, &mut told, unwind);
        self.answer(if has_alarm { heard } else { Heard::NoRuntime }, &mut told, host, cx, answer);
    }

    #[inline(always)]
    fn started(&mut self, likeness: Likeness, answer: &mut Answer) {
        if let Some(permit) = self.start(likeness) {
            *answer = Poll::Ready(Ok(permit));
        }
    }

    /// The call starts: nothing of the wait is left but what the permit needs (rule I3).
    #[inline(always)]
    fn start(&mut self, likeness: Likeness) -> Option<Permit> {
        let live = self.0.as_mut()?;
        let Stage::Waiting { ticket, .. } = live.stage else { return None };
        if let Some(rare) = &mut live.extras.0 {
            // While the rest is still here: a source of the signal's that goes with it may panic, and the key must
            // not go then.
            rare.forget_signal();
        }
        let Live { shared, mut extras, .. } = self.0.take()?;
        let rare = extras.0.take().filter(|rare| rare.is_kept());
        Some(Permit::new(shared, ticket, likeness, Extras(rare)))
    }

    fn aborted(&mut self, reason: AbortReason) -> Rejected {
        self.finish();
        Rejected::Aborted(reason)
    }

    #[cold]
    fn refused(&mut self, told: Option<Told>) -> Rejected {
        let rejected = self.0.as_ref().map_or(Rejected::Closed, |live| live.rejected(told));
        self.finish();
        rejected
    }

    /// Lets go of everything, in whatever state.
    fn finish(&mut self) {
        if let Some(live) = &mut self.0 {
            live.leave();
        }
        self.0 = None;
    }
}

impl Live {
    /// Whether it is worth having a waker at hand before the call is submitted. One that has a signal listens
    /// to it as soon as it has a ticket, and its waker comes after that.
    #[inline]
    fn is_likely_to_wait(&self) -> bool {
        self.shared.guess.is_queue() && !self.shared.manner.at_once && !self.has_signal()
    }

    #[inline]
    fn has_signal(&self) -> bool {
        self.extras.0.as_ref().is_some_and(|rare| rare.signal.is_some())
    }

    /// Asks the machine, and notes what it says; `wait` says how a call is settled that has to wait.
    #[inline(always)]
    fn submit_and(
        &mut self,
        how: impl for<'a> FnOnce(Request<'a>) -> Request<'a>,
        told: &mut Option<Told>,
        wait: impl FnOnce(&mut State, TicketId) -> Heard,
    ) -> (Heard, Unwind) {
        let Self { stage, shared, extras } = self;
        let (provider, key, millis) = match *stage {
            Stage::Lazy { timeout, provider } => (provider, None, timeout),
            Stage::LazyKey { timeout, provider, key } => (provider, Some(Key(key)), timeout),
            _ => return (Heard::Refused, Unwind::new()),
        };
        let is_plain = key.is_none();
        let mut request = Request::new(provider);
        request.key = key;
        request.timeout = millis.get();
        if let Some(rare) = &extras.0 {
            request.costs = rare.costs.as_slice();
            request.timeout = request.timeout.or(rare.timeout);
        }
        if shared.manner.at_once {
            request = request.at_once();
        }
        let request = how(request);
        // The ticket is noted before the lock is gone: from here on, drop knows what to undo, even if one
        // of those whom this turn wakes panics.
        shared.turn_timed(|state, time| match state.request(&request, time) {
            Ok(Admitted::Started(ticket)) => {
                *stage = Stage::Waiting { provider, ticket };
                Heard::Start(shared.note_start(state, provider, ticket, is_plain && time.read().is_none()))
            }
            Ok(Admitted::Queued(ticket)) => {
                *stage = Stage::Waiting { provider, ticket };
                let now = state.time_of(time);
                if let Some(long_waits) = &mut state.long_waits {
                    long_waits.note(ticket, &state.core, now);
                }
                wait(state, ticket)
            }
            Err(refusal) => {
                let now = state.time_of(time);
                shared.guess.note_refusal(state, true);
                *told = Some(state.limits.told(refusal, provider, now));
                Heard::Refused
            }
        })
    }

    /// A later poll: one turn, and no more if nothing changed.
    fn step(&mut self, waker: &Waker, told: &mut Option<Told>) -> Heard {
        let Self { stage, shared, .. } = self;
        let waiting = stage.ticket();
        if waiting.is_some_and(|ticket| shared.offer.take(ticket)) {
            return Heard::Start(Likeness::NONE);
        }
        let may_start = |state: &State| waiting.is_some_and(|ticket| state.may_start_untimed(ticket));
        let ((heard, old), mut unwind) = shared.turn_timed_unless(may_start, |state, time| {
            let now = state.time_of(time);
            stage.step(state, now, told, |state, ticket| {
                if state.waiters.keeps(ticket, waker) { Heard::Settled } else { Heard::Unsettled }
            })
        });
        unwind.catch(|| drop(old));
        self.go_on(heard, told, unwind)
    }

    /// The turn that gives a waiting ticket its waker and its alarm. It may have been granted since
    /// the turn before, and then it starts here: nobody would wake it for that.
    fn sit(
        &mut self,
        host: &'static Host,
        waker: Waker,
        runtime: RuntimeId,
        told: &mut Option<Told>,
    ) -> Heard {
        let Self { stage, shared, .. } = self;
        let mut waker = Some(waker);
        let mut booked = Booked::Done;
        let ((heard, old), mut unwind) = shared.turn_timed(|state, time| {
            let now = state.read_time(time);
            stage.step(state, now, told, |state, ticket| {
                waker = state.sit(ticket, waker.take(), runtime, &mut booked);
                Heard::Settled
            })
        });
        let has_alarm = shared.make(host, booked);
        unwind.catch(|| drop((waker, old)));
        let heard = self.go_on(heard, told, unwind);
        if has_alarm { heard } else { Heard::NoRuntime }
    }

    /// Goes on with the panic of a waker that the turn has woken, or of one that was dropped after it. A refusal is
    /// kept for the next poll: the ticket is gone, and nobody else would tell.
    #[inline]
    fn go_on(&mut self, heard: Heard, told: &mut Option<Told>, unwind: Unwind) -> Heard {
        if heard == Heard::Refused && unwind.will_resume() {
            self.keep_refusal(told);
        }
        unwind.resume();
        heard
    }

    #[cold]
    fn keep_refusal(&mut self, told: &mut Option<Told>) {
        let rejected = self.rejected(told.take());
        self.keep(rejected);
    }

    #[cold]
    fn keep_abort(&mut self, reason: AbortReason) {
        self.keep(Rejected::Aborted(reason));
    }

    /// The call is over, and the next poll will tell.
    fn keep(&mut self, rejected: Rejected) {
        self.leave();
        self.stage = Stage::Refused(Box::new(rejected));
        // Last: a source of the signal's that goes with it may panic, and nothing of the call may be submitted anew.
        drop(std::mem::take(&mut self.extras));
    }

    #[inline(never)]
    fn is_aborted(&self) -> bool {
        self.look().is_some()
    }

    /// The reason, if the call's signal has fired.
    fn look(&self) -> Option<AbortReason> {
        self.extras.0.as_ref()?.signal.as_ref()?.look()
    }

    /// Has the signal take the ticket out; the reason, if it has fired already.
    fn listen(&mut self) -> Option<AbortReason> {
        let Some(rare) = &mut self.extras.0 else { return None };
        let (Stage::Waiting { ticket, .. }, Some(signal), None) = (&self.stage, &rare.signal, rare.listener)
        else {
            return None;
        };
        match signal.listen(&self.shared, *ticket) {
            Ok(listener) => {
                rare.listener = listener;
                None
            }
            Err(reason) => Some(reason),
        }
    }

    /// What a refusal says. One of which nothing was told cannot come up: a ticket that the machine does not
    /// know.
    #[cold]
    fn rejected(&self, told: Option<Told>) -> Rejected {
        let told = told.unwrap_or(const { Told::alone(Refusal::new(Reason::Closed)) });
        let (Stage::Lazy { provider, .. } | Stage::LazyKey { provider, .. } | Stage::Ended { provider }) =
            self.stage
        else {
            return Rejected::Closed;
        };
        let rare = self.extras.0.as_deref();
        let costs = rare.map_or(&[][..], |rare| rare.costs.as_slice());
        let unknown_unit = rare.and_then(|rare| rare.unknown_unit.as_ref());
        let provider = Rare::provider(rare, &self.shared, provider);
        let holder = || {
            let holder = told.refusal.key_holder?;
            Some(self.shared.other(holder.provider, holder.is_running, holder.since, told.at))
        };
        let limits = told.limits.as_deref();
        match self.shared.names.rejected(&told.refusal, limits, provider, costs, unknown_unit, holder) {
            Rejected::Aborted(asked) => Rejected::Aborted(self.look().unwrap_or(asked)),
            rejected => rejected,
        }
    }

    /// Gives up the ticket, if there is one, and listens no more.
    #[inline(always)]
    fn leave(&mut self) {
        if let Stage::Waiting { provider, ticket } = self.stage {
            self.stage = Stage::Ended { provider };
            self.shared.release(ticket);
        }
        // After the ticket: whoever aborts meanwhile, and finds no listener, may count on its being gone.
        if let Some(rare) = &mut self.extras.0 {
            rare.leave();
        }
    }
}

impl Drop for Admit {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_some() {
            abandon(self);
        }
    }
}

/// Lets go of everything where it lies: to move it would take longer.
#[inline(never)]
fn abandon(admit: &mut Admit) {
    quietly(|| admit.finish());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_is_32_bytes() {
        assert_eq!(size_of::<Acquire<()>>(), 32);
    }
}
