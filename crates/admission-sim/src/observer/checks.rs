//! What the contract says about starts, waits and refusals, as far as it can be seen from outside.
//!
//! Owns: one check per promise, each with a word on what it leaves out and why. Checks whose moment is
//! blurred by something that a waker did meanwhile are left out, since the coordinator decided before that.

use admission_rt::Rejected;

use super::{Bound, Grant, How, Ms, Observer, Phantom, Phase, Record, word};

impl Observer {
    /// A call starts.
    pub(super) fn check_start(&mut self, call: usize, now: u64) {
        let record = self.calls[call].clone();
        let said = |what: &str| format!("caller {call} starts {what}");
        if record.phase != Phase::Waiting {
            self.violate("D1", said("twice, or without having asked"));
            return;
        }
        if let Some(expected) = record.expected {
            self.violate("D5", said(&format!("and should be told: {expected}")));
        }
        // rule S3: looked at once more right before the start. A signal that fires in the same poll may be late.
        if record.fired_before {
            self.violate("S3", said("after its signal has fired"));
        }
        if record.was_removed {
            self.violate("L10", said("though its provider was removed while it waited"));
        }
        // rule W4: after a close only grants that were out may start. Of a call that took a place and was never
        // polled nobody can say whether it was granted.
        let is_late = match (self.closed, record.granted) {
            (None, _) | (_, Grant::Unknown) => false,
            (Some(_), Grant::Now) => self.is_quiet(&record),
            (Some(closed), Grant::At(seq, _)) => seq > closed && !self.closed_in_wake,
        };
        if is_late {
            self.violate("W4", said("after the close, and was not granted before"));
        }
        // rule W2: at the deadline a grant wins, after it there is none.
        let granted_at = match record.granted {
            Grant::Now => Some(now),
            Grant::At(_, at) => Some(at),
            Grant::Unknown => None,
        };
        if let (Some(deadline), Some(at)) = (record.deadline, granted_at) {
            if at > deadline {
                self.violate(
                    "W2",
                    said(&format!("by a grant of {}, after its deadline {}", Ms(at), Ms(deadline))),
                );
            }
        }
        self.check_limits(call, &record, now);
        self.check_bounds(call, &record, now);
        self.check_order(call, &record);
    }

    fn check_limits(&mut self, call: usize, record: &Record, now: u64) {
        let name = &self.names[record.provider];
        let scopes = [("client", &self.client, None), ("provider", &name.watch, Some(record.provider))];
        let tokens_of = |call: usize| self.calls[call].tokens;
        let mut found = Vec::new();
        for (n, (scope, watch, provider)) in scopes.into_iter().enumerate() {
            let running = 1 + self.running(provider);
            if watch.max_concurrent.is_some_and(|most| running > most as usize) {
                found.push(("L1", format!("caller {call} starts as number {running} of the {scope}")));
            }
            // rules D2, L8: who was queued at a reset may be exempt for good, and who was perhaps granted when a
            // cost was corrected (or somebody exempt started) keeps the grant. Their own starts are not held against the logs; they are logged.
            let ask_logs = !record.is_exempt[n] && !record.is_past_logs;
            if let Some(why) = watch.forbids(record.tokens, now, ask_logs, &tokens_of, &[]) {
                let rule = if why.contains("apart") || why.contains("after the last") { "L2" } else { "L3" };
                found.push((rule, format!("caller {call} starts, {scope}: {why}")));
            }
        }
        if name.not_before > now && self.is_quiet(record) {
            found.push((
                "L5",
                format!("caller {call} starts {} before the cooldown ends", Ms(name.not_before - now)),
            ));
        }
        if let Some(other) = self.holder(record) {
            found.push(("L1", format!("caller {call} starts while caller {other} has its key")));
        }
        for (rule, what) in found {
            self.violate(rule, what);
        }
    }

    /// How many calls run, of a provider or of all.
    pub(super) fn running(&self, provider: Option<usize>) -> usize {
        let is_in = |record: &&Record| {
            record.phase == Phase::Running && provider.is_none_or(|provider| record.provider == provider)
        };
        self.calls.iter().filter(is_in).count()
    }

    /// Who runs with the key of a call.
    fn holder(&self, record: &Record) -> Option<usize> {
        record.key?;
        self.calls.iter().position(|other| other.phase == Phase::Running && other.key == record.key)
    }

    /// rule R1: nobody beats a `retry_after`. Only those are remembered that were told while nobody waited, for
    /// they count who waits too, and who waits may go away.
    fn check_bounds(&mut self, call: usize, record: &Record, now: u64) {
        let is_asked = record.is_exempt == [false; 2] && !record.is_past_logs;
        let beaten = self.bounds.iter().find(|bound| {
            is_asked
                && bound.provider == record.provider
                && bound.tokens <= record.tokens
                && now < bound.until
        });
        if let Some(bound) = beaten {
            let what = format!("caller {call} starts {} before a retry_after is over", Ms(bound.until - now));
            self.violate("R1", what);
        }
    }

    /// rules E2, E3: of two calls to one provider the older goes first if it asks for no more: its tokens are no
    /// more, and it has no key or the same. It must have been clean since before the younger was granted: then
    /// it was in the queue, not passed over, and not granted itself.
    fn check_order(&mut self, call: usize, record: &Record) {
        let granted = match record.granted {
            Grant::Now => u64::MAX,
            Grant::At(seq, _) => seq,
            Grant::Unknown => return,
        };
        if self.depth > 0 || !self.is_quiet(record) || record.is_exempt != [false; 2] {
            return;
        }
        let is_newcomer = record.is_first;
        let passed = self.calls.iter().enumerate().find(|(_, older)| {
            let is_alike = older.provider == record.provider
                || (is_newcomer && {
                    let name = &self.names[older.provider];
                    name.watch.is_open() && name.not_before == 0 && name.is_here
                });
            Self::is_clean(older)
                && older.submitted < record.submitted
                && older.clean_since < granted
                && !older.is_blurred
                && is_alike
                && older.tokens <= record.tokens
                && (older.key.is_none() || older.key == record.key)
                && !older.fired
        });
        if let Some((older, _)) = passed {
            let what =
                format!("caller {call} starts before caller {older}, who is older and asks for no more");
            self.violate("E2", what);
        }
    }

    /// Whether no waker did anything while the call was polled.
    fn is_quiet(&self, record: &Record) -> bool {
        self.depth == 0 && record.nested_before == self.nested
    }

    /// A call waits: it was polled, and has no answer.
    pub(super) fn check_waits(&mut self, call: usize, now: u64) {
        let record = self.calls[call].clone();
        if let Some(expected) = record.expected {
            self.violate("D5", format!("caller {call} waits and should be told: {expected}"));
        }
        if record.how == How::TryAcquire {
            self.violate("R1", format!("caller {call} waits, and was not to"));
        }
        if !self.is_quiet(&record) || !Self::is_clean(&record) {
            return;
        }
        if record.fired_before {
            self.violate("W3", format!("caller {call} waits though its signal has fired"));
        }
        // rule W1: who is clean is queued. If it came just now, there was room for it beside the others.
        let is_new = record.is_first;
        let others = self.calls.iter().filter(|other| {
            Self::is_clean(other)
                && other.submitted < record.submitted
                && other.deadline.is_none_or(|at| at >= now)
        });
        let others = others.count();
        if is_new && record.how != How::Enqueue && others >= self.max_queued as usize {
            let most = self.max_queued;
            self.violate("W1", format!("caller {call} waits as number {} of {most}", others + 1));
        }
    }

    /// A call is refused.
    pub(super) fn check_told(&mut self, call: usize, rejected: &Rejected, was_outside: bool, now: u64) {
        let record = self.calls[call].clone();
        let told = word(rejected);
        if record.phase != Phase::Waiting {
            self.violate("D1", format!("caller {call} is told {told}, and did not wait"));
            return;
        }
        if let Some(expected) = record.expected {
            if told != expected {
                self.violate("D5", format!("caller {call} is told {told} and should be told: {expected}"));
            }
            return;
        }
        // rule S3: a signal that had fired comes before everything else; but an answer that the call had got
        // before that, in the queue, stands.
        if record.fired_before && record.granted == Grant::Now && told != "aborted" {
            self.violate("W3", format!("caller {call} is told {told} though its signal has fired"));
        }
        let is_right = match rejected {
            Rejected::Aborted(reason) => record.fired && reason.to_string() == reason_of(call),
            Rejected::Closed => self.closed.is_some(),
            Rejected::Removed { provider } => {
                record.was_removed && **provider == *format!("p{}", record.provider)
            }
            Rejected::NoRuntime => was_outside,
            Rejected::ImpossibleCost { cost, .. } => record.was_impossible && *cost == record.tokens,
            Rejected::Exhausted { .. } => record.how == How::TryAcquire,
            Rejected::MaxWait { .. } => self.has_max_wait,
            Rejected::Overflow { .. } => record.how != How::TryAcquire,
            Rejected::AdmissionTimeout { .. } => record.deadline.is_some_and(|deadline| now > deadline),
            _ => false,
        };
        if !is_right {
            self.violate("D5", format!("caller {call} is told {told}, which is not so"));
        }
        let is_new = record.is_first;
        if !self.is_quiet(&record) || !is_new {
            return;
        }
        // rule W1: as many wait as may. Who may be granted or is out without having heard of it is counted.
        if told == "overflow" {
            let others = self.calls.iter().enumerate().filter(|(n, other)| {
                *n != call
                    && other.phase == Phase::Waiting
                    && !other.is_out
                    && other.deadline.is_none_or(|deadline| deadline >= now)
            });
            let others = others.count();
            if others < self.max_queued as usize {
                let most = self.max_queued;
                self.violate("W1", format!("caller {call} is told overflow, and {others} of {most} wait"));
            }
        }
        let others = self.calls.iter().enumerate();
        let is_alone = !others.clone().any(|(n, other)| n != call && other.phase == Phase::Waiting);
        if !is_alone || !matches!(told, "exhausted" | "max wait" | "overflow") {
            return;
        }
        // rule E1: nobody else waits, and nothing stands against it.
        if self.may_start(&record, now) {
            self.violate("E1", format!("caller {call} is told {told}, and nothing holds it back"));
        }
        if let Some(wait) = rejected.retry_after() {
            let until = now.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
            self.bounds.push(Bound { provider: record.provider, tokens: record.tokens, until });
        }
    }

    /// Whether nothing stands against a start that could be seen, with every grant that may have been abandoned
    /// counted.
    fn may_start(&self, record: &Record, now: u64) -> bool {
        let name = &self.names[record.provider];
        let of_provider: Vec<Phantom> =
            self.phantoms.iter().copied().filter(|one| one.provider == record.provider).collect();
        let tokens_of = |call: usize| self.calls[call].tokens;
        let is_below = |most: Option<u32>, running: usize| most.is_none_or(|most| running < most as usize);
        self.closed.is_none()
            && name.is_here
            && name.not_before <= now
            && self.holder(record).is_none()
            && is_below(self.client.max_concurrent, self.running(None))
            && is_below(name.watch.max_concurrent, self.running(Some(record.provider)))
            && self.client.forbids(record.tokens, now, true, &tokens_of, &self.phantoms).is_none()
            && name.watch.forbids(record.tokens, now, true, &tokens_of, &of_provider).is_none()
    }

    /// Whether a call may hold something by a grant that nobody has taken. After the hand-off time it was taken
    /// back for certain, unless it may have been given again without a word.
    fn may_hold(&self, record: &Record, now: u64) -> bool {
        let is_over = |(_, at): (u64, u64)| at.saturating_add(self.hand_off) <= now;
        self.may_be_granted(record)
            && (record.disturbed || !record.polled || !record.woken.is_some_and(is_over))
    }

    /// Checks what must hold whenever nothing goes on, at the latest time that the coordinator has seen: every
    /// call into it lets time pass, and grants whoever may go (rule W6).
    pub(crate) fn check_rest(&mut self, now: u64) {
        self.check_late(now);
        if self.calls.iter().any(|record| self.may_hold(record, now)) {
            return;
        }
        let left = (0..self.calls.len()).find(|&call| {
            let record = &self.calls[call];
            let watch = &self.names[record.provider].watch;
            // rule E3: an older ticket may have precedence if there are logs.
            let has_older = self.calls.iter().any(|older| {
                older.phase == Phase::Waiting
                    && older.submitted < record.submitted
                    && (self.client.has_logs() || (older.provider == record.provider && watch.has_logs()))
            });
            Self::is_clean(record)
                && !record.fired
                && record.deadline.is_none_or(|deadline| deadline >= now)
                && !has_older
                && self.may_start(record, now)
        });
        if let Some(call) = left {
            self.violate("W6", format!("caller {call} is left behind at {}: nothing holds it back", Ms(now)));
        }
    }

    /// rules W2, W4, W3, L10: whoever is out has been woken in that call.
    fn check_late(&mut self, now: u64) {
        let closed = self.closed.is_some();
        let out = self.calls.iter().enumerate().find_map(|(call, record)| {
            if !Self::is_clean(record) {
                return None;
            }
            let is_late = record.deadline.is_some_and(|deadline| deadline < now);
            let why = if closed {
                ("W4", "the close")
            } else if record.was_removed {
                ("L10", "its provider's removal")
            } else if is_late {
                ("W2", "its deadline")
            } else {
                return None;
            };
            Some((why.0, format!("caller {call} was not woken by {}", why.1)))
        });
        if let Some((rule, what)) = out {
            self.violate(rule, what);
        }
    }

    /// Whether nobody can be in any more, if the coordinator has let time pass up to `now`.
    pub(crate) fn is_surely_empty(&self, now: u64) -> bool {
        self.calls.iter().all(|record| match record.phase {
            Phase::New | Phase::Over => true,
            Phase::Running => false,
            Phase::Waiting => self.latest_end(record).is_some_and(|end| end <= now),
        })
    }

    /// When a call that waits is out at the latest, though nobody polls it. After the close and after its
    /// deadline it is granted no more, so all it can have is a grant of before (rules W2, W4, S4).
    fn latest_end(&self, record: &Record) -> Option<u64> {
        if record.is_out || record.was_removed {
            return Some(0);
        }
        let ends = [self.closed_at, record.deadline];
        ends.into_iter().flatten().min().map(|at| at.saturating_add(self.hand_off))
    }

    /// The next instant after `now` at which something may change that can be seen from outside.
    pub(crate) fn next_change(&self, now: u64) -> Option<u64> {
        let waiting = || self.calls.iter().filter(|record| record.phase == Phase::Waiting);
        let of_names = self
            .names
            .iter()
            .flat_map(|name| name.watch.openings(&self.phantoms).chain(std::iter::once(name.not_before)));
        let deadlines = waiting().filter_map(|record| record.deadline.map(|at| at + 1));
        let hand_offs = waiting().filter_map(|record| record.woken.map(|(_, at)| at + self.hand_off));
        let client = self.client.openings(&self.phantoms);
        let changes = client.chain(of_names).chain(deadlines).chain(hand_offs);
        changes.filter(|at| *at > now).min()
    }

    /// How long it may take until everybody is out, if operations take no longer than `takes`: as if every
    /// start had to wait for all that any start has to wait for.
    pub(crate) fn longest_wait(&self, takes: u64, now: u64) -> u64 {
        let spans = self.names.iter().map(|name| name.watch.longest()).max().unwrap_or(0);
        let cooldowns = self.names.iter().map(|name| name.not_before.saturating_sub(now)).max().unwrap_or(0);
        let each = takes + spans + self.client.longest() + self.hand_off + 1;
        let count = self.calls.iter().filter(|record| record.phase != Phase::Over).count() as u64;
        cooldowns + (count + 2) * each
    }

    /// Whether a call that waits may be held up for ever by what was leaked.
    pub(crate) fn is_held_by_leaks(&self, call: usize) -> bool {
        let record = &self.calls[call];
        // A leaked permit keeps its key, its slots and what is counted until it settles; one who waits behind
        // somebody that such a budget holds up waits as long (rule E3). So any leak of a scope will do. A
        // leaked future that waits holds up nobody for longer than the hand-off time (rule S4).
        let leaked = self.calls.iter().filter(|other| other.leaked && other.phase == Phase::Running);
        let mut leaked = leaked.filter(|other| {
            !self.client.is_open() || other.provider == record.provider || other.key == record.key
        });
        leaked.next().is_some()
    }
}

/// The reason that a call's signal fires with.
pub(crate) fn reason_of(call: usize) -> String {
    format!("caller {call} left")
}
