//! Why calls wait (rule O2), and who is told when one waits long.
//!
//! Owns: the words, and the list of those that are not worth a word yet. What holds a call back is the
//! machine's to say; nothing is decided by any of this, and nothing reads it back.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use admission_core::{Coordinator, Explanation, Held, Hold, Instant, TicketId, TicketState};

use crate::in_force::OfScopes;
use crate::rejected::{Brief, Plain};
use crate::shared::{Shared, State};
use crate::{Key, Limit, LimitKind, OtherCall, Scope};

/// A call that waits, and why: from [`Admission::waiting`](crate::Admission::waiting),
/// [`Acquire::explain`](crate::Acquire::explain), or told to
/// [`on_long_wait`](crate::Builder::on_long_wait).
///
/// Displayed it is a line for a log:
///
/// ```text
/// github, key repo-7: has waited 2.5 s, not before 12.3 s from now; held back by its key, which a call to github
/// has had for at least 2.6 s; 60 per 60 s (12.3 s more)
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Waiting {
    /// Whom the call goes to.
    pub provider: Arc<str>,
    /// Its key, if it has one.
    pub key: Option<Key>,
    /// For how long it has waited, since its submission.
    pub age: Duration,
    /// What is left of its admission timeout, or of the longest wait of its limiter.
    pub time_left: Option<Duration>,
    /// Whether it is granted, and has yet to be polled.
    pub is_granted: bool,
    /// Everything that holds it back, each by itself; empty if it is granted.
    ///
    /// An older call is among them only if it goes first by rule E3: nothing but windows hold it back, of
    /// the provider that both have or of the client, in which too little is left for it. One that is merely
    /// ahead in the queue is not: of two calls that wait for one slot, each is held back by the concurrency.
    /// And while the client's concurrency, an interval of it or a grant under that lets nobody go, none is.
    /// Who is ahead is seen from the order of [`Admission::waiting`](crate::Admission::waiting).
    pub held_by: Vec<HeldBy>,
    /// From now it does not start for at least so long, by its own pacers and cooldown alone: a lower
    /// bound. `None` if these would let it start now, or can never tell.
    pub not_before: Option<Duration>,
}

/// One thing that holds a call back.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HeldBy {
    /// What.
    pub limit: Limit,
    /// For how long from now at least, if time alone ends it: calls that start meanwhile may make it longer.
    pub time_left: Option<Duration>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Plain(&self.provider))?;
        if let Some(key) = &self.key {
            write!(f, ", key {key}")?;
        }
        if self.is_granted {
            return write!(f, ": granted after {}, and has yet to be polled", Brief(self.age));
        }
        write!(f, ": has waited {}", Brief(self.age))?;
        if let Some(not_before) = self.not_before {
            write!(f, ", not before {} from now", Brief(not_before))?;
        }
        for (nth, held_by) in self.held_by.iter().enumerate() {
            f.write_str(if nth == 0 { "; held back by " } else { "; " })?;
            held_by.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limit { scope, kind } = &self.limit;
        if let (Scope::Client, true) = (scope, kind.is_of_scope()) {
            f.write_str("the client\'s ")?;
        }
        kind.fmt(f)?;
        match self.time_left {
            Some(time) => write!(f, " ({} more)", Brief(time)),
            None => Ok(()),
        }
    }
}

impl LimitKind {
    /// Whether it may be the client's or the provider's.
    const fn is_of_scope(&self) -> bool {
        matches!(self, Self::Concurrency(_) | Self::Interval(_) | Self::Window { .. } | Self::HandOff)
    }
}

/// What the machine said of a ticket, with the numbers that have yet to be named.
pub(crate) struct Found {
    explanation: Explanation,
    limits: OfScopes,
    /// The older tickets that are in its way.
    others: Vec<(TicketId, Explanation)>,
}

impl State {
    pub(crate) fn explain(&self, ticket: TicketId) -> Option<Found> {
        let explanation = self.core.explain(ticket)?;
        let older = explanation.holds.iter().filter(|held| held.hold == Hold::Order);
        let others = older.filter_map(|held| held.by).filter_map(|by| Some((by, self.core.explain(by)?)));
        let limits = self.limits.of_scopes(explanation.provider);
        Some(Found { others: others.collect(), explanation, limits })
    }
}

impl Shared {
    /// One ticket, if it waits. Who only reads is not to blame for a waker that panics.
    pub(crate) fn explain(&self, ticket: TicketId) -> Option<Waiting> {
        // Whoever is woken may go, and is told of by name all the same.
        let _held = self.guests.hold();
        let (found, unwind) = self.turn_held(|state, now| {
            state.core.handle_timeout(now);
            state.explain(ticket)
        });
        unwind.swallow();
        self.in_words(found.as_slice()).pop()
    }

    /// All that wait, in the order of submission.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let _held = self.guests.hold();
        let (found, unwind) = self.turn_held(|state, now| {
            state.core.handle_timeout(now);
            let tickets = state.core.queued_tickets();
            tickets.into_iter().filter_map(|ticket| state.explain(ticket)).collect::<Vec<_>>()
        });
        unwind.swallow();
        self.in_words(&found)
    }

    pub(crate) fn in_words(&self, found: &[Found]) -> Vec<Waiting> {
        let keys = self.keys.keys(found.iter().filter_map(|found| Some(found.explanation.key?.0)));
        let waiting = found.iter().map(|Found { explanation, limits, others }| {
            let Explanation { at, provider, key, submitted, deadline, earliest, .. } = explanation;
            let from_now = |instant: Instant| {
                Some(instant.saturating_duration_since(*at))
                    .filter(|_| *at < instant && instant < Instant::NEVER)
            };
            let provider = self.provider_name(*provider);
            let held_by = explanation.holds.iter().map(|Held { hold, until, by, .. }| HeldBy {
                limit: {
                    let older = others.iter().find(|(other, _)| Some(other) == by.as_ref());
                    let older = older.map(|(_, older)| (older.provider, false, older.submitted));
                    let holder = explanation
                        .key_holder
                        .map(|holder| (holder.provider, holder.is_running, holder.since));
                    let other = if *hold == Hold::Key { holder } else { older };
                    let other = other.map(|(provider, runs, since)| self.other(provider, runs, since, *at));
                    self.names.limit(*hold, limits.of(*hold), &provider, || other)
                },
                time_left: until.and_then(from_now),
            });
            Waiting {
                held_by: held_by.collect(),
                provider,
                key: key.and_then(|key| keys.get(&key.0).cloned()),
                age: at.saturating_duration_since(*submitted),
                time_left: deadline.and_then(from_now),
                is_granted: explanation.state == TicketState::Granted,
                not_before: earliest.and_then(from_now),
            }
        });
        waiting.collect()
    }

    pub(crate) fn other(
        &self,
        provider: admission_core::ProviderId,
        runs: bool,
        since: Instant,
        at: Instant,
    ) -> OtherCall {
        OtherCall { provider: self.provider_name(provider), runs, time: at.saturating_duration_since(since) }
    }

    fn provider_name(&self, id: admission_core::ProviderId) -> Arc<str> {
        match self.guests.name(id) {
            Some(name) => name,
            None if self.names.is_configured(id) => self.names.configured_name(id).clone(),
            // Its last call has ended since, and nobody has the name any more.
            None => "?".into(),
        }
    }
}

/// So many are reported by one turn at most.
const REPORTS_AT_ONCE: usize = 16;

/// What is called when a call has waited long.
pub(crate) type Hook = Arc<dyn Fn(&Waiting) + Send + Sync>;

/// Those who wait and have not been reported, the oldest first. There if anybody wants to know.
pub(crate) struct LongWaits {
    after: Duration,
    due: VecDeque<(Instant, TicketId)>,
    /// Due, and to be told when the lock is gone.
    told: Vec<Found>,
}

impl LongWaits {
    pub(crate) const fn new(after: Duration) -> Self {
        Self { after, due: VecDeque::new(), told: Vec::new() }
    }

    /// A call has begun to wait.
    pub(crate) fn note(&mut self, ticket: TicketId, core: &Coordinator, now: Instant) {
        let counts = core.counts();
        if self.due.len() >= 64 + 2 * (counts.queued as usize + counts.granted as usize) {
            self.due.retain(|(_, ticket)| waits(core, *ticket));
        }
        // All wait for equally long before they are due, so the newest is the last.
        self.due.push_back((now + self.after, ticket));
    }

    /// When the first is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.front().map(|(due, _)| *due).filter(|due| *due < Instant::NEVER)
    }

    pub(crate) fn must_tell(&self) -> bool {
        !self.told.is_empty()
    }

    /// Those to be told.
    pub(crate) fn take(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.told)
    }
}

fn waits(core: &Coordinator, ticket: TicketId) -> bool {
    !matches!(core.state(ticket), None | Some(TicketState::Running))
}

impl State {
    /// Time has passed: finds those who have waited long. A grant that has just come is no longer worth
    /// a word. Not many at once, for each is explained under the lock: the alarm is due for the others.
    pub(crate) fn mark_long_waits(&mut self, now: Instant) {
        let Some(mut long) = self.long_waits.take() else { return };
        while let Some(&(due, ticket)) = long.due.front() {
            if waits(&self.core, ticket) {
                if due > now || long.told.len() >= REPORTS_AT_ONCE {
                    break;
                }
                if self.core.state(ticket) != Some(TicketState::Granted) {
                    long.told.extend(self.explain(ticket));
                }
            }
            long.due.pop_front();
        }
        self.long_waits = Some(long);
    }
}
