//! One coordinator and the calls into it.
//!
//! Owns: which call comes when, who is known to the round, and the line about each call. Lacks the drawing
//! of limits (`draw.rs`) and of what is written about a scope or a ticket that is looked at (`look.rs`).

use alloc::vec::Vec;
use core::fmt::{self, Write};

use admission_core::{
    Admitted, ChangeError, Coordinator, Event, Instant, Key, ProviderId, Refusal, Request, ScopeId, Step,
    TicketId, UnitId,
};

use crate::dice::Dice;
use crate::draw::{self, MS};
use crate::look;
use crate::tally::{Digesting, STRANGE_UNIT, Tally};

/// Names of providers that are asked for: more than there are, so that some are strangers.
const NAMES: u32 = 7;
const KEYS: u64 = 5;
/// So many tickets are alive at most, or somebody lets go of one.
const MOST_ALIVE: usize = 48;

/// A round that goes on.
pub(crate) struct Round<'a, 'out> {
    number: u32,
    dice: &'a mut Dice,
    tally: &'a mut Tally,
    out: &'a mut Digesting<'out>,
    core: Coordinator,
    now: u64,
    units: u16,
    providers: u32,
    made: u32,
    /// Those that have not ended for their caller, with the number that they have in the text.
    alive: Vec<(TicketId, u32)>,
    /// Those that were granted and not stepped since.
    granted: Vec<TicketId>,
    /// One that is gone, for calls that come too late.
    gone: Option<TicketId>,
}

impl<'a, 'out> Round<'a, 'out> {
    /// Draws a configuration, and builds from it.
    pub(crate) fn begin(
        number: u32,
        dice: &'a mut Dice,
        tally: &'a mut Tally,
        out: &'a mut Digesting<'out>,
    ) -> Result<Self, fmt::Error> {
        let config = draw::config(dice);
        out.line(format_args!("round {number}"))?;
        let core = Coordinator::new(&config).map_err(|_| fmt::Error)?;
        // Names are few.
        let providers = config.providers.len() as u32;
        let now = dice.below(1 << 40);
        let (alive, granted) = (Vec::with_capacity(2 * MOST_ALIVE), Vec::with_capacity(2 * MOST_ALIVE));
        let units = config.units;
        let (made, gone) = (0, None);
        Ok(Self { number, dice, tally, out, core, now, units, providers, made, alive, granted, gone })
    }

    /// Makes so many calls, then lets everybody go.
    pub(crate) fn play(mut self, calls: u32) -> fmt::Result {
        let closes_at = if self.dice.one_in(4) { u32::MAX } else { calls - calls / 8 };
        for call in 0..calls {
            self.let_time_pass();
            self.head()?;
            if call == closes_at {
                self.out.write_str("close")?;
                self.core.close(self.at());
            } else {
                self.call()?;
            }
            self.after()?;
            if call % 64 == 63 {
                look::snapshot(&self.core, self.out)?;
            }
        }
        self.drain()
    }

    fn at(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Now and then not at all, exactly to the alarm, a little early, late, far, and back.
    fn let_time_pass(&mut self) {
        let alarm = self.core.poll_timeout().map(Instant::as_nanos);
        // Some alarms are years away, and a round should see more than one year.
        let alarm = alarm.filter(|&at| at - self.now.min(at) < 3_600_000 * MS);
        self.now = match (self.dice.below(16), alarm) {
            (0..=5, _) => self.now,
            (6 | 7, _) => self.now + self.dice.below(8) * MS,
            (8, _) => self.now + self.dice.below(3_000),
            (9, Some(at)) => at.max(self.now + 1) - 1,
            (10..=12, Some(at)) => at.max(self.now),
            (13, Some(at)) => at.max(self.now) + self.dice.below(30 * MS),
            (14, _) if self.dice.one_in(8) => self.now + self.dice.below(1 << 42),
            (15, _) if self.dice.one_in(4) => self.now.saturating_sub(self.dice.below(10 * MS)),
            _ => self.now + self.dice.below(5) * 5 * MS,
        };
    }

    fn head(&mut self) -> fmt::Result {
        self.tally.decisions += 1;
        write!(self.out, "{}.{} @{} ", self.number, self.tally.decisions, self.now)
    }

    fn call(&mut self) -> fmt::Result {
        if self.alive.len() >= MOST_ALIVE {
            return self.release();
        }
        match self.dice.below(40) {
            0..=13 => self.request(),
            14..=21 => self.step(),
            22..=27 => self.release(),
            28 | 29 => self.abort(),
            30 | 31 => {
                self.out.write_str("timeout")?;
                self.core.handle_timeout(self.at());
                Ok(())
            }
            32 => self.cooldown(),
            33 => self.look(),
            34 | 35 => self.settle_cost(),
            36 => self.reset(),
            _ => self.change(),
        }
    }

    fn request(&mut self) -> fmt::Result {
        let provider = self.provider();
        write!(self.out, "request p{}", provider.number())?;
        let mut request = Request::new(provider);
        if self.dice.one_in(3) {
            let key = self.dice.below(KEYS);
            // Keys are 64 bits wide, whatever a word is.
            request = request.key(Key(key | key << 62));
            write!(self.out, " k{key}")?;
        }
        let mut costs = [(UnitId::REQUESTS, 0); 2];
        let priced = self.dice.below(3) as usize;
        for place in costs.iter_mut().take(priced) {
            let unit = if self.dice.one_in(60) { STRANGE_UNIT } else { self.unit() };
            let cost = self.dice.below(9) << if self.dice.one_in(8) { 33 } else { 0 };
            *place = (unit, cost);
            write!(self.out, " {cost} of u{}", unit.index() as u64)?;
        }
        request = request.costs(costs.get(..priced).unwrap_or(&[]));
        if self.dice.one_in(3) {
            let timeout = draw::span(self.dice);
            request = request.timeout(timeout);
            write!(self.out, " within {}", timeout.as_nanos())?;
        }
        match self.dice.below(12) {
            0 | 1 => {
                request = request.deferred();
                self.out.write_str(" deferred")?;
            }
            2 => {
                request = request.at_once();
                self.out.write_str(" at once")?;
            }
            _ => {}
        }
        match self.core.request(&request, self.at()) {
            Ok(Admitted::Started(ticket)) => {
                self.tally.starts += 1;
                self.admit(ticket, "started")
            }
            Ok(Admitted::Queued(ticket)) => self.admit(ticket, "queued"),
            Err(refusal) => self.refusal(refusal),
        }
    }

    fn admit(&mut self, ticket: TicketId, how: &str) -> fmt::Result {
        self.alive.push((ticket, self.made));
        self.made += 1;
        write!(self.out, " -> {how} ")?;
        self.ticket(ticket)
    }

    fn step(&mut self) -> fmt::Result {
        // Mostly one that has reason to come.
        let due = if self.dice.one_in(4) { None } else { self.dice.pick(&self.granted) };
        let Some(ticket) = due.or_else(|| self.somebody()) else { return self.request() };
        self.out.write_str("step ")?;
        self.ticket(ticket)?;
        self.granted.retain(|granted| *granted != ticket);
        let step = self.core.step(ticket, self.at());
        self.tally.step(step);
        match step {
            Step::Start => self.out.write_str(" -> start"),
            Step::Wait => self.out.write_str(" -> wait"),
            Step::Running => self.out.write_str(" -> running"),
            Step::Gone => self.out.write_str(" -> gone"),
            Step::GiveUp(refusal) => {
                self.refusal(refusal)?;
                self.let_go(ticket);
                Ok(())
            }
        }
    }

    fn release(&mut self) -> fmt::Result {
        let Some(ticket) = self.somebody() else { return self.request() };
        self.out.write_str("release ")?;
        self.ticket(ticket)?;
        self.core.handle_release(ticket, self.at());
        self.let_go(ticket);
        Ok(())
    }

    fn abort(&mut self) -> fmt::Result {
        let Some(ticket) = self.somebody() else { return self.request() };
        self.out.write_str("abort ")?;
        self.ticket(ticket)?;
        self.core.handle_abort(ticket, self.at());
        Ok(())
    }

    fn cooldown(&mut self) -> fmt::Result {
        let provider = self.provider();
        let delay = if self.dice.one_in(40) { draw::span(self.dice) } else { draw::short(self.dice) };
        write!(self.out, "cooldown p{} {}", provider.number(), delay.as_nanos())?;
        let outcome = self.core.cooldown(provider, delay, self.at());
        self.outcome(outcome)?;
        write!(self.out, " until {}", self.core.not_before(provider).as_nanos())
    }

    fn reset(&mut self) -> fmt::Result {
        self.out.write_str("reset")?;
        let scope = self.scope()?;
        let outcome = self.core.reset(scope, self.at());
        self.outcome(outcome)
    }

    fn settle_cost(&mut self) -> fmt::Result {
        let Some(ticket) = self.somebody() else { return self.request() };
        let unit = if self.dice.one_in(6) { STRANGE_UNIT } else { self.unit() };
        let cost = self.dice.below(14) << if self.dice.one_in(10) { 40 } else { 0 };
        self.out.write_str("settle ")?;
        self.ticket(ticket)?;
        write!(self.out, " {cost} of u{}", unit.index() as u64)?;
        let outcome = self.core.settle_cost(ticket, unit, cost, self.at());
        self.outcome(outcome)
    }

    /// Other limits, another length of the queue, another provider.
    fn change(&mut self) -> fmt::Result {
        let outcome = match self.dice.below(8) {
            0..=2 => {
                self.out.write_str("limits")?;
                let scope = self.scope()?;
                let limits = draw::new_limits(self.dice, self.units);
                look::limits(&limits, self.out)?;
                self.core.set_limits(scope, &limits, self.at())
            }
            3 => {
                let max_queued = self.dice.small(24);
                write!(self.out, "max_queued {max_queued}")?;
                self.core.set_max_queued(max_queued, self.at());
                Ok(())
            }
            4 | 5 => {
                let provider = ProviderId::new(self.dice.small(NAMES));
                write!(self.out, "add p{}", provider.number())?;
                let limits = draw::new_limits(self.dice, self.units);
                look::limits(&limits, self.out)?;
                self.core.add_provider(provider, &limits, self.at())
            }
            6 => {
                let provider = self.provider();
                write!(self.out, "remove p{}", provider.number())?;
                self.core.remove_provider(provider, self.at())
            }
            _ => {
                let is_watched = self.dice.one_in(2);
                write!(self.out, "watch_idle {is_watched}")?;
                self.core.watch_idle(is_watched);
                Ok(())
            }
        };
        self.outcome(outcome)
    }

    /// What the machine says of itself when it is asked.
    fn look(&mut self) -> fmt::Result {
        let provider = self.provider();
        self.out.write_str("look")?;
        let scope = self.scope()?;
        let available = self.core.available(scope, 0, self.at());
        look::scope(&self.core, scope, provider, available, self.out)?;
        let waiting = self.core.queued_tickets();
        if let Some(ticket) = self.dice.pick(&waiting) {
            self.out.write_str(" about ")?;
            self.ticket(ticket)?;
            let (alive, tally) = (&self.alive, &mut *self.tally);
            look::explanation(&self.core, ticket, tally, self.out, &|ticket| number_of(alive, ticket))?;
        }
        Ok(())
    }

    /// What came of it besides the answer, who is where, and when the next alarm is.
    fn after(&mut self) -> fmt::Result {
        while let Some(event) = self.core.poll_event() {
            self.tally.event(event);
            match event {
                Event::Granted(ticket) => {
                    self.granted.push(ticket);
                    self.out.write_str("; granted ")?;
                    self.ticket(ticket)?;
                }
                Event::Refused(ticket, reason) => {
                    self.out.write_str("; refused ")?;
                    self.ticket(ticket)?;
                    write!(self.out, " {reason:?}")?;
                }
                Event::TakenBack(ticket) => {
                    self.granted.retain(|granted| *granted != ticket);
                    self.out.write_str("; taken back ")?;
                    self.ticket(ticket)?;
                }
                Event::Forgotten(provider) => write!(self.out, "; forgotten p{}", provider.number())?,
                event => write!(self.out, "; {event:?}")?,
            }
        }
        let counts = self.core.counts();
        write!(self.out, " = {} {} {}", counts.running, counts.granted, counts.queued)?;
        match self.core.poll_timeout() {
            Some(at) => writeln!(self.out, " next {}", at.as_nanos()),
            None => self.out.write_str("\n"),
        }
    }

    /// Everybody goes, the oldest first, and the alarms that are left ring.
    fn drain(&mut self) -> fmt::Result {
        while let Some(&(ticket, _)) = self.alive.first() {
            self.head()?;
            self.out.write_str("drain ")?;
            self.ticket(ticket)?;
            self.core.handle_release(ticket, self.at());
            self.let_go(ticket);
            self.after()?;
        }
        look::snapshot(&self.core, self.out)?;
        writeln!(self.out, "idle {}", self.core.is_idle())
    }

    /// Somebody who is there, or now and then somebody who is not.
    fn somebody(&mut self) -> Option<TicketId> {
        if self.dice.one_in(10) && self.gone.is_some() {
            return self.gone;
        }
        self.dice.pick(&self.alive).map(|(ticket, _)| ticket)
    }

    fn let_go(&mut self, ticket: TicketId) {
        self.alive.retain(|(alive, _)| *alive != ticket);
        self.granted.retain(|granted| *granted != ticket);
        self.gone = Some(ticket);
    }

    /// One of the configured, or anybody.
    fn provider(&mut self) -> ProviderId {
        let names = if self.dice.one_in(6) { NAMES } else { self.providers };
        ProviderId::new(self.dice.small(names))
    }

    fn scope(&mut self) -> Result<ScopeId, fmt::Error> {
        if self.dice.one_in(3) {
            self.out.write_str(" client")?;
            return Ok(ScopeId::Client);
        }
        let provider = self.provider();
        write!(self.out, " p{}", provider.number())?;
        Ok(ScopeId::Provider(provider))
    }

    fn unit(&mut self) -> UnitId {
        // Units are few.
        UnitId::new(self.dice.small(u32::from(self.units)) as u16)
    }

    /// A ticket is named by its number in the round and by the slot that it lies in.
    fn ticket(&mut self, ticket: TicketId) -> fmt::Result {
        look::ticket(ticket, number_of(&self.alive, ticket), self.out)
    }

    fn refusal(&mut self, refusal: Refusal) -> fmt::Result {
        self.tally.reason(refusal.reason);
        if let Some(hold) = refusal.held_by {
            self.tally.hold(hold);
        }
        write!(self.out, " -> refused {:?}", refusal.reason)?;
        if let Some(hold) = refusal.held_by {
            write!(self.out, " by {hold:?}")?;
        }
        if let Some(after) = refusal.retry_after {
            write!(self.out, " for {}", after.as_nanos())?;
        }
        if let Some(holder) = refusal.key_holder {
            self.out.write_str(" key of ")?;
            self.ticket(holder.ticket)?;
            write!(self.out, " since {} {}", holder.since.as_nanos(), holder.is_running)?;
        }
        if refusal.limits_changed {
            self.out.write_str(" since changed")?;
        }
        Ok(())
    }

    fn outcome(&mut self, outcome: Result<(), ChangeError>) -> fmt::Result {
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => {
                self.tally.change(error);
                write!(self.out, " -> {error}")
            }
        }
    }
}

/// What the text calls a ticket; nothing if its caller has let go of it.
fn number_of(alive: &[(TicketId, u32)], ticket: TicketId) -> Option<u32> {
    alive.iter().find(|(alive, _)| *alive == ticket).map(|(_, number)| *number)
}
