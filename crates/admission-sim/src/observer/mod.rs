//! Who watches the coordinator from outside, and knows nothing of what goes on in it.
//!
//! Owns: what every caller was told and when, every start and every end, the limits in force; and what the
//! contract says about those. It asks the coordinator nothing. Lacks what cannot be seen from outside, and
//! says so at each check: above all whether a waiting call is granted. A call is *clean* if it was polled,
//! waits, and has not been woken since: then it is surely queued. One that was woken, or that took a place
//! and was not polled since, *may be granted*.

mod changes;
mod checks;
pub(crate) use checks::reason_of;
mod scope;

use admission_rt::Rejected;

use crate::limits::{LimitSpec, Ms};
use crate::plan::{CallSpec, How, NAMES, Setup};
use scope::{Phantom, Watch};

/// A promise that was not kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    /// The rule, or what is wrong where no rule has a number.
    pub(crate) rule: &'static str,
    pub(crate) what: String,
}

/// Where a call is, as far as its caller knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    New,
    Waiting,
    Running,
    Over,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) phase: Phase,
    pub(crate) how: How,
    pub(crate) provider: usize,
    key: Option<(u64, bool)>,
    tokens: u64,
    has_unknown_unit: bool,
    timeout: Option<u64>,
    /// Its place in the order of submission, and of everything else that happened.
    submitted: u64,
    deadline: Option<u64>,
    /// Whether its waker is with the coordinator.
    polled: bool,
    /// When it was first woken since it was last polled.
    pub(crate) woken: Option<(u64, u64)>,
    /// Since when it is clean, if it is.
    clean_since: u64,
    /// It became so inside a wake, where others may have been granted already who are woken only later.
    is_blurred: bool,
    busy: bool,
    /// Whether the poll that goes on is the one that submitted it.
    is_first: bool,
    /// When it may have been granted, for the poll that goes on; `None` for this very poll.
    granted: Grant,
    nested_before: u64,
    /// Whether the logs of the client, and of its provider, may not ask it any more (rule D2).
    is_exempt: [bool; 2],
    /// A cost was corrected, or somebody exempt started, while it may have been granted: that takes no grant
    /// back (rules L8, D2).
    is_past_logs: bool,
    was_impossible: bool,
    was_removed: bool,
    /// Its signal has fired.
    pub(crate) fired: bool,
    fired_before: bool,
    /// Its signal took it out, by a handle: that needs no poll.
    is_out: bool,
    pub(crate) leaked: bool,
    /// Its grant may have been taken back and given again without a word since it was woken.
    disturbed: bool,
    /// The only refusal that is right for it (rule D5).
    expected: Option<&'static str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Grant {
    Now,
    At(u64, u64),
    Unknown,
}

#[derive(Clone, Debug)]
struct Name {
    is_here: bool,
    is_made: bool,
    watch: Watch,
    not_before: u64,
}

/// A time before which nobody like this starts (rule R1).
#[derive(Clone, Copy, Debug)]
struct Bound {
    provider: usize,
    tokens: u64,
    until: u64,
}

pub(crate) struct Observer {
    pub(crate) calls: Vec<Record>,
    client: Watch,
    names: Vec<Name>,
    template: Option<LimitSpec>,
    max_queued: u32,
    pub(crate) hand_off: u64,
    has_max_wait: bool,
    pub(crate) closed: Option<u64>,
    /// The time of that.
    closed_at: Option<u64>,
    /// A waker closed it: others whom the same call granted may be woken after that.
    closed_in_wake: bool,
    bounds: Vec<Bound>,
    phantoms: Vec<Phantom>,
    seq: u64,
    /// How deep in wakers the world is, and how often anything was done in one.
    pub(crate) depth: u32,
    pub(crate) nested: u64,
    pub(crate) violation: Option<Violation>,
}

impl Observer {
    pub(crate) fn new(setup: &Setup) -> Self {
        let names = (0..NAMES).map(|n| Name {
            is_here: n < setup.providers.len(),
            is_made: false,
            watch: setup.providers.get(n).map(Watch::new).unwrap_or_default(),
            not_before: 0,
        });
        Self {
            calls: Vec::new(),
            client: Watch::new(&setup.client),
            names: names.collect(),
            template: setup.template.clone(),
            max_queued: setup.max_queued,
            hand_off: setup.hand_off,
            has_max_wait: setup.max_wait.is_some(),
            closed: None,
            closed_at: None,
            closed_in_wake: false,
            bounds: Vec::new(),
            phantoms: Vec::new(),
            seq: 0,
            depth: 0,
            nested: 0,
            violation: None,
        }
    }

    pub(crate) fn violate(&mut self, rule: &'static str, what: impl Into<String>) {
        let what = what.into();
        self.violation.get_or_insert(Violation { rule, what });
    }

    fn next(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// A new caller; says its number.
    pub(crate) fn call(&mut self, spec: &CallSpec) -> usize {
        self.calls.push(Record {
            phase: Phase::New,
            how: spec.how,
            provider: spec.provider,
            key: spec.key.map(|key| (key, spec.is_text)),
            tokens: spec.tokens,
            has_unknown_unit: spec.has_unknown_unit,
            timeout: spec.timeout,
            submitted: 0,
            deadline: None,
            polled: false,
            woken: None,
            clean_since: 0,
            is_blurred: false,
            busy: false,
            is_first: false,
            granted: Grant::Now,
            nested_before: 0,
            is_exempt: [false; 2],
            is_past_logs: false,
            was_impossible: false,
            was_removed: false,
            fired: false,
            fired_before: false,
            is_out: false,
            leaked: false,
            disturbed: false,
            expected: None,
        });
        self.calls.len() - 1
    }

    /// The call is about to be polled, enqueued or tried; `seen` is the latest time that the coordinator
    /// has seen, `now` the time that it is about to see.
    pub(crate) fn begins(&mut self, call: usize, now: u64) {
        let seq = self.next();
        let (nested, is_in_wake) = (self.nested, self.depth > 0);
        if self.calls[call].phase == Phase::New {
            self.submit(call, seq, now);
        }
        let record = &mut self.calls[call];
        record.nested_before = nested;
        record.busy = true;
        record.is_first = record.submitted == seq;
        record.fired_before = record.fired;
        record.granted = match record.woken.take() {
            Some((seq, at)) => Grant::At(seq, at),
            None if record.polled || record.is_first => Grant::Now,
            None => Grant::Unknown,
        };
        if record.granted != Grant::Now || record.is_first {
            record.clean_since = seq;
            record.is_blurred = is_in_wake;
        }
        record.disturbed = false;
    }

    fn submit(&mut self, call: usize, seq: u64, now: u64) {
        let record = &self.calls[call];
        // What names a unit that there is not makes no provider, nor does what is aborted before it asks.
        let made = match record.has_unknown_unit || record.fired {
            true => self.may_demand(record.provider),
            false => self.demand(record.provider, now),
        };
        let record = &self.calls[call];
        let name = &self.names[record.provider];
        let is_impossible =
            self.client.is_impossible(record.tokens) || name.watch.is_impossible(record.tokens);
        let expected = if record.fired {
            Some("aborted")
        } else if self.closed.is_some() {
            Some("closed")
        } else if !made {
            Some("unknown provider")
        } else if record.has_unknown_unit {
            Some("unknown unit")
        } else if is_impossible {
            Some("impossible cost")
        } else {
            None
        };
        let record = &mut self.calls[call];
        record.phase = Phase::Waiting;
        record.submitted = seq;
        record.deadline = record.timeout.map(|timeout| now.saturating_add(timeout));
        record.expected = expected;
    }

    /// A provider is needed: it is there, or is made from the template (rule L10).
    fn demand(&mut self, name: usize, now: u64) -> bool {
        if self.names[name].is_here {
            return true;
        }
        let Some(template) = self.template.clone().filter(|_| self.closed.is_none()) else { return false };
        self.put(name, &template, now);
        self.names[name].is_made = true;
        true
    }

    fn put(&mut self, name: usize, limits: &LimitSpec, now: u64) {
        let one = &mut self.names[name];
        for at in one.watch.forget_over(now) {
            self.phantoms.push(Phantom { at, provider: name, tokens: 0 });
        }
        one.watch.change(limits, now);
        one.is_here = true;
        one.is_made = false;
    }

    /// The poll is over, and the call waits.
    pub(crate) fn waits(&mut self, call: usize, now: u64) {
        let record = &mut self.calls[call];
        record.busy = false;
        if record.phase != Phase::Waiting {
            return;
        }
        record.polled = true;
        self.check_waits(call, now);
    }

    /// The call took a place, and may have been refused or granted.
    pub(crate) fn enqueued(&mut self, call: usize) {
        self.calls[call].busy = false;
    }

    /// The call has started.
    pub(crate) fn starts(&mut self, call: usize, now: u64) {
        self.check_start(call, now);
        if self.calls[call].is_exempt != [false; 2] {
            // rule D2: it starts past the limit, and who was granted before that keeps the grant.
            self.excuse_granted();
        }
        let record = &mut self.calls[call];
        record.busy = false;
        record.phase = Phase::Running;
        let provider = record.provider;
        self.client.start(call, now);
        self.names[provider].watch.start(call, now);
    }

    /// The call is over, right before the coordinator hears of it.
    pub(crate) fn ends(&mut self, call: usize, now: u64) {
        let record = &mut self.calls[call];
        if record.phase != Phase::Running {
            return;
        }
        record.phase = Phase::Over;
        let provider = record.provider;
        self.client.end(call, now);
        self.names[provider].watch.end(call, now);
    }

    /// The call was refused.
    pub(crate) fn told(&mut self, call: usize, rejected: &Rejected, was_outside: bool, now: u64) {
        self.check_told(call, rejected, was_outside, now);
        self.suppose_abandoned(call, now);
        let record = &mut self.calls[call];
        record.busy = false;
        record.phase = Phase::Over;
    }

    /// The call's future was dropped while it waited.
    pub(crate) fn dropped(&mut self, call: usize, now: u64) {
        if self.calls[call].phase == Phase::Waiting {
            self.suppose_abandoned(call, now);
        }
        if self.calls[call].phase != Phase::Running {
            self.calls[call].phase = Phase::Over;
        }
    }

    /// The call's future or permit was leaked: it stays as it is for ever.
    pub(crate) fn leaked(&mut self, call: usize) {
        self.calls[call].leaked = true;
    }

    /// The latest waker of the call was woken.
    pub(crate) fn woken(&mut self, call: usize, now: u64) {
        let seq = self.next();
        let record = &mut self.calls[call];
        if record.phase == Phase::Waiting && record.woken.is_none() {
            record.woken = Some((seq, now));
        }
    }

    /// The call's signal fires; by a handle it takes the call out at once.
    pub(crate) fn fires(&mut self, call: usize, by_handle: bool, now: u64) {
        self.suppose_abandoned(call, now);
        self.calls[call].fired = true;
        self.calls[call].disturbed = true;
        self.calls[call].is_out = by_handle;
    }

    /// A grant that is given up has spent its budget (rule S3), if it was one.
    fn suppose_abandoned(&mut self, call: usize, now: u64) {
        let record = &self.calls[call];
        if record.phase == Phase::Waiting && (self.may_be_granted(record) || record.granted != Grant::Now) {
            self.phantoms.push(Phantom { at: now, provider: record.provider, tokens: record.tokens });
        }
    }

    fn may_be_granted(&self, record: &Record) -> bool {
        record.phase == Phase::Waiting
            && (record.woken.is_some() || !record.polled || record.busy || self.depth > 0)
    }

    fn is_clean(record: &Record) -> bool {
        record.phase == Phase::Waiting && record.polled && record.woken.is_none() && !record.busy
    }

    /// Whether the coordinator has something of a call for certain.
    pub(crate) fn has_ticket(&self, call: usize) -> bool {
        let record = &self.calls[call];
        record.phase == Phase::Running || (record.phase == Phase::Waiting && record.polled)
    }

    /// Whether anybody waits, or is out and has not heard of it.
    pub(crate) fn is_anybody_waiting(&self) -> bool {
        self.calls.iter().any(|record| record.phase == Phase::Waiting)
    }
}

/// What a refusal is called here.
fn word(rejected: &Rejected) -> &'static str {
    match rejected {
        Rejected::Aborted(_) => "aborted",
        Rejected::Closed => "closed",
        Rejected::UnknownProvider { .. } => "unknown provider",
        Rejected::Removed { .. } => "removed",
        Rejected::UnknownUnit(_) => "unknown unit",
        Rejected::NoRuntime => "no runtime",
        Rejected::ImpossibleCost { .. } => "impossible cost",
        Rejected::Exhausted { .. } => "exhausted",
        Rejected::MaxWait { .. } => "max wait",
        Rejected::Overflow { .. } => "overflow",
        Rejected::AdmissionTimeout { .. } => "admission timeout",
        _ => "something new",
    }
}
