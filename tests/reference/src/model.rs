//! The model itself: its calls, and the order of what happens within each.
//!
//! Within a call come take-backs, expiries, the call's own effect, then grants, each in the order
//! of submission (rule W6); [`Model::begin`] is the first half and [`Model::finish`] the last. An
//! effect that comes before anything else in its call (S4, W3) says so. The model deliberately
//! keeps nothing but the tickets, the scopes and the latest instant.

use crate::alarm::{is_expired, is_overdue};
use crate::estimate::flat;
use crate::scope::{Scope, spent};
use crate::ticket::{Record, Stage};
use crate::types::{
    Admitted, Config, Counts, Event, Hold, Pacer, Reason, Refusal, Request, State, Step, Ticket,
};

/// A coordinator that decides by scanning everything.
#[derive(Clone, Debug)]
pub struct Model {
    max_queued: u32,
    full_hand_off: u64,
    max_wait: Option<u64>,
    units: u16,
    pub(crate) client: Scope,
    pub(crate) providers: Vec<Scope>,
    /// Every ticket that its caller still has, in the order of submission.
    pub(crate) tickets: Vec<Record>,
    next_ticket: Ticket,
    /// The latest instant seen.
    pub(crate) now: u64,
    closed: bool,
    pub(crate) watching_idle: bool,
    events: Vec<Event>,
}

// The calls.
impl Model {
    /// A coordinator with nothing in it, at instant 0.
    pub fn new(config: Config) -> Model {
        let scope = |limits| Scope::new(limits, config.hand_off);
        Model {
            max_queued: config.max_queued,
            full_hand_off: config.hand_off,
            max_wait: config.max_wait,
            units: config.units,
            client: scope(&config.client),
            providers: config.providers.iter().map(scope).collect(),
            tickets: Vec::new(),
            next_ticket: 0,
            now: 0,
            closed: false,
            watching_idle: false,
            events: Vec::new(),
        }
    }

    /// The latest instant that was seen.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// A newcomer: it starts at once, or is queued, or is refused.
    // rule E4: overdue tickets expire, then the newcomer is judged, then what is due is granted
    pub fn request(&mut self, request: &Request, now: u64) -> Result<Admitted, Refusal> {
        self.begin(now);
        let answer = self.judge_newcomer(request);
        self.finish(None);
        answer
    }

    /// This waiter's future is polled.
    pub fn step(&mut self, ticket: Ticket, now: u64) -> Step {
        self.see(now);
        let mut started = false;
        if let Some(record) = self.find_mut(ticket) {
            match record.stage {
                // rule S4: a grant not yet taken back starts, however late, before time passes
                Stage::Granted { .. } => {
                    self.start(ticket);
                    started = true;
                }
                // rules S4, W6: being passed over ends before time passes
                Stage::Queued { .. } => {
                    record.stage = Stage::Queued { passed_over: false };
                    record.polled_since = true; // rule S4a
                }
                Stage::Running | Stage::Ended(_) => {}
            }
        }
        let waited = self.find(ticket).is_some_and(Record::is_queued);
        self.begin(now);
        self.finish(Some(ticket));
        match self.find(ticket).map(|record| record.stage.clone()) {
            None => Step::Gone,
            Some(Stage::Running) if started || waited => Step::Start,
            Some(Stage::Running) => Step::Running,
            Some(Stage::Queued { .. } | Stage::Granted { .. }) => Step::Wait,
            Some(Stage::Ended(refusal)) => {
                self.remove(ticket);
                Step::GiveUp(refusal)
            }
        }
    }

    /// The call settled, or the ticket was dropped, in any state; it is gone afterwards.
    pub fn handle_release(&mut self, ticket: Ticket, now: u64) {
        self.see(now);
        // rule W3: leaving the queue, or a grant, comes before anything else in the call
        self.leave(ticket);
        if !self.find(ticket).is_some_and(Record::is_running) {
            self.remove(ticket);
        }
        self.begin(now);
        if self.find(ticket).is_some() {
            self.settle(ticket);
            self.remove(ticket);
        }
        self.finish(None);
    }

    /// The ticket's signal fired: if it waits or is granted, it ends as aborted.
    pub fn handle_abort(&mut self, ticket: Ticket, now: u64) {
        self.see(now);
        // rule W3: before anything else in the call
        if self.leave(ticket) {
            self.end(ticket, flat(Reason::Aborted));
        }
        self.begin(now);
        self.finish(None);
    }

    /// Time passed; harmless when early.
    // rule T3
    pub fn handle_timeout(&mut self, now: u64) {
        self.begin(now);
        self.finish(None);
    }

    /// The provider is not to be called for a while; nothing happens if there is none.
    // rules L5, S5
    pub fn cooldown(&mut self, provider: u32, delay: u64, now: u64) {
        self.begin(now);
        let until = self.now.saturating_add(delay);
        if let Some(scope) = self.providers.get_mut(provider as usize) {
            scope.not_before = scope.not_before.max(until);
            // rule S5: a cooldown that is already over takes nothing back
            if scope.not_before > self.now {
                self.take_back_for_cooldown(provider);
            }
        }
        self.finish(None);
    }

    /// Forgets the logs of a scope (`None`: the client); nothing happens if there is none.
    // rules D2, R3
    pub fn reset(&mut self, scope: Option<u32>, now: u64) {
        self.begin(now);
        if self.has_scope(scope) {
            for pacer in &mut self.scope_mut(scope).pacers {
                if pacer.is_log() {
                    pacer.entries.clear();
                }
            }
            for record in self.tickets.iter_mut().filter(|record| record.is_in(scope)) {
                let (queued, running) = (record.is_queued(), record.is_running());
                match scope {
                    None => {
                        record.exempt_client |= queued;
                        record.forgotten_client |= running;
                    }
                    Some(_) => {
                        record.exempt_provider |= queued;
                        record.forgotten_provider |= running;
                    }
                }
            }
        }
        self.finish(None);
    }

    /// Ends the queue; what is granted or running goes on.
    // rule W4
    pub fn close(&mut self, now: u64) {
        self.begin(now);
        self.closed = true;
        for ticket in self.which(Record::is_queued) {
            self.end(ticket, flat(Reason::Closed));
        }
        self.finish(None);
    }

    /// How much of one log's limit is free once time has passed; 0 if there is no such log.
    // rule R3
    pub fn available(&mut self, scope: Option<u32>, pacer: u16, now: u64) -> u64 {
        self.begin(now);
        self.finish(None);
        let index = usize::from(pacer);
        if !self.has_scope(scope) {
            return 0;
        }
        match self.scope(scope).pacers.get(index) {
            Some(log) => match log.rule {
                Pacer::Log { limit, .. } => {
                    let counted = self.counted(scope, index, self.now);
                    let spent = spent(&counted, log.span(), self.now);
                    u128::from(limit).saturating_sub(spent) as u64
                }
                Pacer::Interval { .. } => 0,
            },
            None => 0,
        }
    }

    /// Says whether somebody waits for the coordinator to be idle.
    // rules S4, T6
    pub fn watch_idle(&mut self, watching: bool) {
        self.watching_idle = watching;
    }

    /// What happened since this was last asked, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// How many tickets are where.
    pub fn counts(&self) -> Counts {
        let count = |is: fn(&Record) -> bool| self.which(is).len() as u32;
        Counts {
            running: count(Record::is_running),
            granted: count(Record::is_granted),
            queued: count(Record::is_queued),
        }
    }

    /// The instant before which nothing of that provider starts; 0 if there is none.
    // rule L5
    pub fn not_before(&self, provider: u32) -> u64 {
        let scope = self.providers.get(provider as usize);
        scope.map_or(0, |scope| scope.not_before)
    }

    /// The hand-off time of a scope (`None`: the client) as it is now; 0 if there is none.
    // rule S4a
    pub fn hand_off(&self, scope: Option<u32>) -> u64 {
        if self.has_scope(scope) { self.scope(scope).hand_off } else { 0 }
    }

    /// Where a ticket is; none if it is gone.
    pub fn state(&self, ticket: Ticket) -> Option<State> {
        self.find(ticket).map(Record::state)
    }
}

// Time passes.
impl Model {
    /// Takes note of the instant.
    // rule T1: time never runs back. rule T2: `now` stays below never
    fn see(&mut self, now: u64) {
        self.now = self.now.max(now.min(u64::MAX - 1));
    }

    /// The first half of every call: take-backs, then expiries.
    // rule W6
    fn begin(&mut self, now: u64) {
        self.see(now);
        for scope in self.providers.iter_mut().chain([&mut self.client]) {
            for pacer in &mut scope.pacers {
                pacer.forget_before(self.now);
            }
        }
        let now = self.now;
        for ticket in self.which(|record| is_overdue(record, now)) {
            self.take_back_unpolled(ticket);
        }
        for ticket in self.which(|record| is_expired(record, now)) {
            self.expire(ticket);
        }
    }

    /// The last half of every call: what may start is granted, in the order of submission; the
    /// ticket that is polled in this call is started instead.
    // rules W6, E2, S4
    fn finish(&mut self, polled: Option<Ticket>) {
        while let Some(ticket) = self.first_eligible(self.now) {
            if Some(ticket) == polled {
                self.start(ticket);
            } else {
                self.grant(ticket);
            }
        }
    }

    // rule S4: everything comes back, and the ticket is passed over until it is polled
    fn take_back_unpolled(&mut self, ticket: Ticket) {
        // rule S4a
        for scope in self.scopes_of(ticket) {
            self.scope_mut(scope).halve_hand_off();
        }
        self.take_back(ticket, true);
    }

    // rule S5: it returns to its place and is not passed over; its deadline goes on
    fn take_back_for_cooldown(&mut self, provider: u32) {
        let its = |record: &Record| record.is_granted() && record.provider == provider;
        for ticket in self.which(its) {
            self.take_back(ticket, false);
            // rule W2: taken back past its deadline, it expires in that call
            if self.find(ticket).is_some_and(|record| is_expired(record, self.now)) {
                self.expire(ticket);
            }
        }
    }

    fn take_back(&mut self, ticket: Ticket, passed_over: bool) {
        if let Some(record) = self.find_mut(ticket) {
            record.stage = Stage::Queued { passed_over };
            record.taken_back = true;
            record.polled_since = false;
        }
        self.events.push(Event::TakenBack(ticket));
        // rule W4: it ends as closed, which comes before expired
        if self.closed {
            self.end(ticket, flat(Reason::Closed));
        }
    }

    // rules W2, R2
    fn expire(&mut self, ticket: Ticket) {
        if let Some(refusal) = self.find(ticket).map(|record| self.late_refusal(record)) {
            self.end(ticket, refusal);
        }
    }
}

// What happens to one ticket.
impl Model {
    /// Judges a newcomer against the queue as it stands.
    // rules E4, D5
    fn judge_newcomer(&mut self, request: &Request) -> Result<Admitted, Refusal> {
        if self.closed {
            return Err(flat(Reason::Closed));
        }
        if !self.has_scope(Some(request.provider)) {
            return Err(flat(Reason::UnknownProvider));
        }
        if request.costs.iter().any(|&(unit, _)| unit >= self.units) {
            return Err(flat(Reason::UnknownUnit));
        }
        let newcomer = self.newcomer(request);
        let ticket = newcomer.ticket;
        if let Some(log) = self.impossible(&newcomer) {
            return Err(Refusal { held_by: Some(log), ..flat(Reason::ImpossibleCost) });
        }

        // rule E4: it does not jump a queued ticket that is eligible
        let somebody_is_due = self.first_eligible(self.now).is_some();
        let held_by = self.held_by(&newcomer, self.now).or(somebody_is_due.then_some(Hold::Order));
        if held_by.is_none() {
            self.accept(newcomer);
            if request.deferred {
                // rule S1: its own step starts it
                self.grant(ticket);
                return Ok(Admitted::Queued(ticket));
            }
            // rule S6: grant and start are one
            self.start(ticket);
            return Ok(Admitted::Started(ticket));
        }

        // rules R1, R2
        let ahead = self.calls_ahead(&newcomer);
        let retry_after = self.wait_until(self.estimate(&newcomer, ahead, self.now));
        let wait = retry_after.unwrap_or(0);
        let is_too_long = |max_wait| max_wait == 0 || wait > max_wait;
        let reason = if !request.wait {
            Reason::Exhausted
        } else if self.max_wait.is_some_and(is_too_long) {
            Reason::MaxWait
        } else if self.counts().queued >= self.max_queued {
            // rule W1
            Reason::Overflow
        } else {
            self.accept(newcomer);
            return Ok(Admitted::Queued(ticket));
        };
        Err(Refusal { reason, held_by, retry_after })
    }

    /// The ticket that a request becomes if it is accepted.
    fn newcomer(&self, request: &Request) -> Record {
        let mut costs = vec![0_u64; usize::from(self.units)];
        for &(unit, cost) in &request.costs {
            let sum = &mut costs[usize::from(unit)];
            *sum = sum.saturating_add(cost);
        }
        costs[0] = 1;

        // rule W2, and rule R2: at equality the reason is max-wait
        let end_of = |wait: Option<u64>| wait.map_or(u64::MAX, |wait| self.now.saturating_add(wait));
        let (timeout, max_wait) = (end_of(request.timeout), end_of(self.max_wait));
        let late = if self.max_wait.is_some() && max_wait <= timeout {
            Reason::MaxWait
        } else {
            Reason::AdmissionTimeout
        };

        Record {
            ticket: self.next_ticket,
            provider: request.provider,
            key: request.key,
            costs,
            deadline: timeout.min(max_wait),
            late,
            stage: Stage::Queued { passed_over: false },
            exempt_client: false,
            exempt_provider: false,
            forgotten_client: false,
            forgotten_provider: false,
            taken_back: false,
            polled_since: false,
        }
    }

    fn accept(&mut self, newcomer: Record) {
        self.next_ticket += 1;
        self.tickets.push(newcomer);
    }

    // rules S1, S4a: the shorter of its scopes' times, fixed now; the full time if it was polled
    // since its grant was taken back
    fn grant(&mut self, ticket: Ticket) {
        let (at, full) = (self.now, self.full_hand_off);
        let times = self.scopes_of(ticket).map(|scope| self.scope(scope).hand_off);
        let shorter = times[0].min(times[1]);
        if let Some(record) = self.find_mut(ticket) {
            let is_back = record.taken_back && record.polled_since;
            let until = at.saturating_add(if is_back { full } else { shorter });
            record.stage = Stage::Granted { at, until };
            self.events.push(Event::Granted(ticket));
        }
    }

    // rule S1: pacers count the actual start; rule S4a: a start restores the hand-off time
    fn start(&mut self, ticket: Ticket) {
        let (at, full) = (self.now, self.full_hand_off);
        for scope in self.scopes_of(ticket) {
            self.scope_mut(scope).hand_off = full;
        }
        // rule L9: what counts until it has settled is counted from the running tickets
        self.log(ticket, at, |rule| !is_until_settled(rule));
        if let Some(record) = self.find_mut(ticket) {
            record.stage = Stage::Running;
        }
    }

    // rule L9: from now on it counts for one window; rule D2: unless the log has forgotten it
    fn settle(&mut self, ticket: Ticket) {
        self.log(ticket, self.now, is_until_settled);
    }

    /// Takes a ticket out of the queue or of its grant; true if it was in one of them.
    // rules W3, S3
    fn leave(&mut self, ticket: Ticket) -> bool {
        match self.find(ticket).map(|record| record.stage.clone()) {
            Some(Stage::Queued { .. }) => true,
            // rule S3: the pacer budget stays spent, as of the grant
            Some(Stage::Granted { at, .. }) => {
                self.log(ticket, at, |_| true);
                true
            }
            Some(Stage::Running | Stage::Ended(_)) | None => false,
        }
    }

    /// Remembers a start in those pacers of both scopes that are asked for.
    fn log(&mut self, ticket: Ticket, at: u64, which: fn(&Pacer) -> bool) {
        let Some(record) = self.find(ticket).cloned() else {
            return;
        };
        for (side, scope) in record.scopes() {
            // rule D2
            if record.is_forgotten(side) {
                continue;
            }
            let pacers = self.scope_mut(scope).pacers.iter_mut();
            for pacer in pacers.filter(|pacer| which(&pacer.rule)) {
                pacer.enter(at, &record.costs);
            }
        }
    }

    /// Refuses an accepted ticket; its next step tells it.
    fn end(&mut self, ticket: Ticket, refusal: Refusal) {
        if let Some(record) = self.find_mut(ticket) {
            record.stage = Stage::Ended(refusal);
            self.events.push(Event::Refused(ticket, refusal.reason));
        }
    }

    fn remove(&mut self, ticket: Ticket) {
        self.tickets.retain(|record| record.ticket != ticket);
    }
}

// Looking things up.
impl Model {
    pub(crate) fn find(&self, ticket: Ticket) -> Option<&Record> {
        self.tickets.iter().find(|record| record.ticket == ticket)
    }

    fn find_mut(&mut self, ticket: Ticket) -> Option<&mut Record> {
        self.tickets.iter_mut().find(|record| record.ticket == ticket)
    }

    /// The tickets of which something holds, in the order of submission.
    fn which(&self, holds: impl Fn(&Record) -> bool) -> Vec<Ticket> {
        let chosen = self.tickets.iter().filter(|record| holds(record));
        chosen.map(|record| record.ticket).collect()
    }

    fn has_scope(&self, scope: Option<u32>) -> bool {
        scope.is_none_or(|provider| (provider as usize) < self.providers.len())
    }

    pub(crate) fn scope(&self, scope: Option<u32>) -> &Scope {
        match scope {
            None => &self.client,
            Some(provider) => &self.providers[provider as usize],
        }
    }

    fn scope_mut(&mut self, scope: Option<u32>) -> &mut Scope {
        match scope {
            None => &mut self.client,
            Some(provider) => &mut self.providers[provider as usize],
        }
    }

    /// Both scopes of an accepted ticket.
    fn scopes_of(&self, ticket: Ticket) -> [Option<u32>; 2] {
        let provider = self.find(ticket).map(|record| record.provider);
        [provider, None]
    }
}

fn is_until_settled(rule: &Pacer) -> bool {
    matches!(rule, Pacer::Log { until_settled: true, .. })
}
