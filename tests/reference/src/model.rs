//! The model itself: its calls, and the order of what happens within each.
//!
//! Within a call come take-backs, expiries, the call's own effect, then grants, each in the order
//! of submission (rule W6); [`Model::begin`] is the first half and [`Model::finish`] the last. An
//! effect that comes before anything else in its call (S4, W3) says so. The model deliberately
//! keeps nothing but the tickets, the scopes and the latest instant. The calls that change the
//! coordinator itself are in `living.rs`.

use crate::alarm::{is_expired, is_overdue};
use crate::estimate::flat;
use crate::scope::{Paced, Provider, Scope};
use crate::ticket::{Record, Stage};
use crate::types::{
    Admitted, Change, Config, Counts, Event, Hold, Limits, PacerView, Reason, Refusal, Request, State, Step,
    Ticket,
};

/// A coordinator that decides by scanning everything.
#[derive(Clone, Debug)]
pub struct Model {
    pub(crate) max_queued: u32,
    pub(crate) full_hand_off: u64,
    max_wait: Option<u64>,
    pub(crate) units: u16,
    pub(crate) template: Option<Limits>,
    pub(crate) client: Scope,
    /// Those that are there, and what is kept of those that were removed (rule L10).
    pub(crate) providers: Vec<Provider>,
    /// Every ticket that its caller still has, in the order of submission.
    pub(crate) tickets: Vec<Record>,
    next_ticket: Ticket,
    /// The latest instant seen.
    pub(crate) now: u64,
    pub(crate) closed: bool,
    pub(crate) watching_idle: bool,
    events: Vec<Event>,
}

// The calls.
impl Model {
    /// A coordinator with nothing in it, at instant 0.
    pub fn new(config: Config) -> Model {
        let scope = |limits| Scope::new(limits, config.hand_off);
        let provider = |(name, limits)| Provider {
            name,
            is_removed: false,
            is_from_template: false,
            scope: scope(limits),
        };
        Model {
            max_queued: config.max_queued,
            full_hand_off: config.hand_off,
            max_wait: config.max_wait,
            units: config.units,
            client: scope(&config.client),
            providers: (0..).zip(&config.providers).map(provider).collect(),
            template: config.template,
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

    /// The same as of the last call, for one that starts at once; nobody knows when that was.
    pub fn request_undated(&mut self, request: &Request) -> Result<Admitted, Refusal> {
        let answer = self.request(request, self.now);
        if let Ok(Admitted::Started(ticket)) = answer {
            if let Some(record) = self.find_mut(ticket) {
                record.is_undated = true;
            }
        }
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
                Stage::Running { .. } | Stage::Ended(_) => {}
            }
        }
        let waited = self.find(ticket).is_some_and(Record::is_queued);
        self.begin(now);
        self.finish(Some(ticket));
        match self.find(ticket).map(|record| record.stage.clone()) {
            None => Step::Gone,
            Some(Stage::Running { .. }) if started || waited => Step::Start,
            Some(Stage::Running { .. }) => Step::Running,
            Some(Stage::Queued { .. } | Stage::Granted { .. }) => Step::Wait,
            Some(Stage::Ended(refusal)) => {
                let limits_changed = self.find(ticket).is_some_and(|record| self.has_other_limits(record));
                self.remove(ticket);
                Step::GiveUp(Refusal { limits_changed, ..refusal })
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

    /// The provider is not to be called for a while; one that is not there is made on demand (rule
    /// L10), and if it cannot be, nothing happens.
    // rules L5, S5
    pub fn cooldown(&mut self, provider: u32, delay: u64, now: u64) {
        self.begin(now);
        if self.demand(provider) {
            let until = self.now.saturating_add(delay);
            let scope = self.scope_mut(Some(provider));
            scope.not_before = scope.not_before.max(until);
            // rule S5: a cooldown that is already over takes nothing back
            if self.scope(Some(provider)).not_before > self.now {
                self.take_back_grants(Some(provider));
            }
        }
        self.finish(None);
    }

    /// Forgets the logs of a scope (`None`: the client).
    // rules D2, R3; rule L10: resetting one that is not there is an error and changes nothing
    pub fn reset(&mut self, scope: Option<u32>, now: u64) -> Result<(), Change> {
        self.begin(now);
        let answer = if self.has_scope(scope) {
            self.forget_logs(scope);
            Ok(())
        } else {
            Err(Change::UnknownProvider)
        };
        self.finish(None);
        answer
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
        if !self.has_scope(scope) || index >= self.scope(scope).pacers.len() {
            return 0;
        }
        match self.pacer_view(scope, index) {
            PacerView::Log { left, .. } => left,
            PacerView::Interval { .. } => 0,
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
        self.counts_in(None)
    }

    /// The instant before which nothing of that provider starts; 0 if there is none.
    // rule L5
    pub fn not_before(&self, provider: u32) -> u64 {
        if self.has_scope(Some(provider)) { self.scope(Some(provider)).not_before } else { 0 }
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

    /// The first half of every call: take-backs, then expiries; then what is idle is forgotten.
    // rules W6, L10
    pub(crate) fn begin(&mut self, now: u64) {
        self.see(now);
        for scope in self.providers.iter_mut().map(|one| &mut one.scope).chain([&mut self.client]) {
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
        self.forget_idle();
    }

    /// The last half of every call: what may start is granted, in the order of submission; the
    /// ticket that is polled in this call is started instead.
    // rules W6, E2, S4
    pub(crate) fn finish(&mut self, polled: Option<Ticket>) {
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

    /// Takes back what of a scope is granted, for a cooldown or for other limits.
    // rules S5, L7: it returns to its place and is not passed over; its deadline goes on
    pub(crate) fn take_back_grants(&mut self, scope: Option<u32>) {
        for ticket in self.which(|record| record.is_granted() && record.is_in(scope)) {
            self.take_back(ticket, false);
            // rules L7, D5: an impossible cost comes before a deadline
            self.refuse_if_impossible(ticket);
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
        if !self.can_demand(request.provider) {
            return Err(flat(Reason::UnknownProvider));
        }
        if request.costs.iter().any(|&(unit, _)| unit >= self.units) {
            return Err(flat(Reason::UnknownUnit));
        }
        // rule L10: on demand, if there is a template
        self.demand(request.provider);
        let newcomer = self.newcomer(request);
        let ticket = newcomer.ticket;
        if let Some(log) = self.impossible(&newcomer) {
            return Err(Refusal { held_by: Some(log), ..flat(Reason::ImpossibleCost) });
        }

        self.come_upon(&newcomer);

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
        let key_holder = self.key_holder_if(held_by, &newcomer);
        Err(Refusal { reason, held_by, retry_after, key_holder, limits_changed: false })
    }

    /// From now on everybody knows that whoever runs with this newcomer's key does.
    // rule O2
    fn come_upon(&mut self, newcomer: &Record) {
        let now = self.now;
        let shares = |other: &&mut Record| newcomer.key.is_some() && other.key == newcomer.key;
        for other in self.tickets.iter_mut().filter(shares).filter(|other| other.is_undated) {
            other.come_upon.get_or_insert(now);
        }
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
            submitted: self.now,
            stage: Stage::Queued { passed_over: false },
            refused_by: None,
            exempt_client: false,
            exempt_provider: false,
            taken_back: false,
            polled_since: false,
            is_undated: false,
            come_upon: None,
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
        self.tell_pacers(ticket, |pacer, record| pacer.start(at, record));
        if let Some(record) = self.find_mut(ticket) {
            record.stage = Stage::Running { at };
        }
    }

    // rule L9: from now on it counts for one window; rules D2, L7: unless the log does not know it
    fn settle(&mut self, ticket: Ticket) {
        let at = self.now;
        self.tell_pacers(ticket, |pacer, record| pacer.settle(at, record));
    }

    /// Takes a ticket out of the queue or of its grant; true if it was in one of them.
    // rules W3, S3
    fn leave(&mut self, ticket: Ticket) -> bool {
        match self.find(ticket).map(|record| record.stage.clone()) {
            Some(Stage::Queued { .. }) => true,
            // rule S3: the pacer budget stays spent, as of the grant
            Some(Stage::Granted { at, .. }) => {
                self.tell_pacers(ticket, |pacer, record| pacer.enter(at, record));
                true
            }
            Some(Stage::Running { .. } | Stage::Ended(_)) | None => false,
        }
    }

    /// Tells every pacer of both scopes of a ticket something about it.
    pub(crate) fn tell_pacers(&mut self, ticket: Ticket, tell: impl Fn(&mut Paced, &Record)) {
        let Some(record) = self.find(ticket).cloned() else {
            return;
        };
        for (_, scope) in record.scopes() {
            for pacer in &mut self.scope_mut(scope).pacers {
                tell(pacer, &record);
            }
        }
    }

    /// Each ticket that is queued is exempt from the logs, and from nothing else.
    // rule D2: of that scope only, running calls' entries included
    fn forget_logs(&mut self, scope: Option<u32>) {
        let queued = self.which(|record| record.is_queued() && record.is_in(scope));
        for pacer in self.scope_mut(scope).pacers.iter_mut().filter(|pacer| pacer.is_log()) {
            pacer.reset();
        }
        for ticket in queued {
            if let Some(record) = self.find_mut(ticket) {
                match scope {
                    None => record.exempt_client = true,
                    Some(_) => record.exempt_provider = true,
                }
            }
        }
    }

    /// Refuses a queued ticket whose cost cannot fit any more.
    // rules L6, L7
    pub(crate) fn refuse_if_impossible(&mut self, ticket: Ticket) {
        let queued = self.find(ticket).filter(|record| record.is_queued());
        if let Some(log) = queued.and_then(|record| self.impossible(record)) {
            self.end(ticket, Refusal { held_by: Some(log), ..flat(Reason::ImpossibleCost) });
        }
    }

    /// Refuses an accepted ticket; its next step tells it.
    pub(crate) fn end(&mut self, ticket: Ticket, refusal: Refusal) {
        let record = self.find(ticket).cloned();
        let limits = record.and_then(|record| self.limits_of(&record, refusal.held_by));
        if let Some(record) = self.find_mut(ticket) {
            record.refused_by = limits;
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

    pub(crate) fn find_mut(&mut self, ticket: Ticket) -> Option<&mut Record> {
        self.tickets.iter_mut().find(|record| record.ticket == ticket)
    }

    /// The tickets of which something holds, in the order of submission.
    pub(crate) fn which(&self, holds: impl Fn(&Record) -> bool) -> Vec<Ticket> {
        let chosen = self.tickets.iter().filter(|record| holds(record));
        chosen.map(|record| record.ticket).collect()
    }

    /// Whether that scope is there; a removed provider is not.
    pub(crate) fn has_scope(&self, scope: Option<u32>) -> bool {
        let is_there = |name| self.providers.iter().any(|one| one.name == name && !one.is_removed);
        scope.is_none_or(is_there)
    }

    /// A scope that is there, or of which something is kept.
    pub(crate) fn scope(&self, scope: Option<u32>) -> &Scope {
        match scope {
            None => &self.client,
            Some(name) => {
                let provider = self.providers.iter().find(|one| one.name == name);
                &provider.expect("only what is there or kept is looked at").scope
            }
        }
    }

    pub(crate) fn scope_mut(&mut self, scope: Option<u32>) -> &mut Scope {
        match scope {
            None => &mut self.client,
            Some(name) => {
                let provider = self.providers.iter_mut().find(|one| one.name == name);
                &mut provider.expect("only what is there or kept is changed").scope
            }
        }
    }

    /// Both scopes of an accepted ticket.
    fn scopes_of(&self, ticket: Ticket) -> [Option<u32>; 2] {
        let provider = self.find(ticket).map(|record| record.provider);
        [provider, None]
    }
}
