//! What can be seen of the coordinator without changing it: the alarm, the counts, the snapshot.
//!
//! Nothing here lets time pass. Lacks what is told of single tickets, which is in `explain`.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::Coordinator;
use crate::scope::Scope;
use crate::snapshot::{ScopeSnapshot, Snapshot};
use crate::verdict::{Opening, Verdict, held_whoever_asks, judge};
use crate::{Instant, ProviderId, ScopeId, Side, TicketId};

/// Where a provider is (rule L10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// It takes requests.
    Here,
    /// It was removed, and something of it is still remembered.
    Removed,
    /// Never heard of, or forgotten.
    Unknown,
}

/// How many tickets are where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Started and not released.
    pub running: u32,
    /// Granted and not started.
    pub granted: u32,
    /// Waiting.
    pub queued: u32,
}

impl Coordinator {
    /// The next instant at which time alone may change something: strictly after every `now` seen
    /// so far, never too late, and none if only a call can (rule T6).
    ///
    /// Any other call may change the answer, [`poll_event`](Self::poll_event) and
    /// [`poll_only_grant`](Self::poll_only_grant) excepted.
    ///
    /// # Cost
    ///
    /// A few steps; a search in the client's logs if it has some.
    #[inline]
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        // At the deadline itself a grant wins (rule W2).
        let mut next = self.queue.first_deadline().plus(1);
        if self.queue.queued() > 0 || self.is_idle_watched {
            next = next.min(self.hand_off.first_due());
        }
        // Mostly the client is full, or nobody waits for time alone.
        if held_whoever_asks(&self.client, Side::Client).is_none()
            && (self.ready.may_have_any() || self.timed.first_at() < Instant::NEVER)
        {
            next = next.min(self.next_opening());
        }
        (next < Instant::NEVER).then_some(next)
    }

    /// Whether time alone does nothing but take grants back (rule S4), whatever its next instant: no pacer of the client's
    /// counts it, no ticket is held back by it or has a deadline, and no provider is forgotten some day.
    ///
    /// # Cost
    ///
    /// A few comparisons.
    #[must_use]
    #[inline]
    pub fn are_only_grants_timed(&self) -> bool {
        !self.client.is_paced()
            && self.timed.is_empty()
            && self.queue.first_deadline() == Instant::NEVER
            && self.providers.first_rested() == Instant::NEVER
    }

    /// The ticket that is granted, and when its grant is to be taken back, if no other is out and time alone does nothing
    /// else: then it may start as of the last `now`, whenever that is told. `None` if there is more to it.
    ///
    /// # Cost
    ///
    /// A few comparisons.
    #[must_use]
    #[inline]
    pub fn only_grant(&self) -> Option<(TicketId, Instant)> {
        let index = self.hand_off.only()?;
        self.are_only_grants_timed().then(|| (self.queue.ticket(index), self.hand_off.first_due()))
    }

    /// The next instant at which time alone lets somebody go, where the client is not full.
    #[inline(never)]
    fn next_opening(&self) -> Instant {
        let now = self.seen;
        let mut next = Instant::NEVER;
        if let Some(provider) = self.ready.first() {
            let ask = self.queue.ask(self.queue.front(provider));
            if let Verdict::Until(at, _) = judge(&self.client, Side::Client, ask, now) {
                next = at;
            }
        }
        let at = self.timed.first_at();
        if at < next && !self.client.has_interval {
            next = at;
        } else if at < next {
            // Whatever it costs, the client's intervals hold it back as well.
            let opening = Opening::of(&self.client, Side::Client, self.queue.ask_no_log(), now);
            next = next.min(at.max(opening.at));
        }
        next
    }

    /// How many tickets there is room for, without allocating: as long a table under
    /// [`TicketId::index`](crate::TicketId::index) will do for a driver.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.queue.slab().capacity()
    }

    /// How many tickets are where.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { running: self.client.running, granted: self.client.granted, queued: self.queue.queued() }
    }

    /// Whether it refuses everything from now on.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether nothing is queued, granted or running.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.counts() == Counts::default()
    }

    /// Everything that can be seen, at the last `now` (rule O1).
    ///
    /// # Cost
    ///
    /// O(providers), O(grants that have not started), and memory for the answer; however many wait.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let now = self.seen;
        let mut first_due = vec![Instant::NEVER; self.providers.len() as usize];
        self.hand_off.each(self.queue.slab(), |index, at| {
            let first = &mut first_due[self.queue.place(index) as usize];
            *first = at.min(*first);
        });
        let first_due_of_all = first_due.iter().copied().min().unwrap_or(Instant::NEVER);
        let here = (0..self.providers.len()).filter(|&place| self.providers.is_here(place));
        let snapshot =
            |scope: &Scope, queued, due| ScopeSnapshot::of(scope, queued, &self.hand_off, due, now);
        let mut providers: Vec<_> = here
            .map(|place| {
                let id = ProviderId(self.providers.number(place));
                let due = first_due[place as usize];
                (id, snapshot(&self.providers[place], self.queue.queued_at(place), due))
            })
            .collect();
        providers.sort_unstable_by_key(|(id, _)| *id);
        Snapshot {
            at: now,
            is_closed: self.is_closed,
            max_queued: self.max_queued,
            next: self.poll_timeout(),
            client: snapshot(&self.client, self.queue.queued(), first_due_of_all),
            providers,
        }
    }

    /// Whether the number is a provider's that is here, or that was removed and is remembered.
    #[must_use]
    pub fn presence(&self, provider: ProviderId) -> Presence {
        match self.find_remembered(provider).map(|place| self.providers.standing(place)) {
            None => Presence::Unknown,
            Some(standing) if standing.is_here() => Presence::Here,
            Some(_) => Presence::Removed,
        }
    }

    /// The end of a provider's cooldown; the origin if there was none, or no such provider.
    #[must_use]
    pub fn not_before(&self, provider: ProviderId) -> Instant {
        let place = self.find(provider);
        place.map_or(Instant::ZERO, |place| self.providers[place].not_before)
    }

    /// The hand-off time that the next grant of a scope gets by it (rule S4a); `None` for an unknown
    /// provider.
    #[must_use]
    pub fn hand_off_time(&self, scope: ScopeId) -> Option<Duration> {
        let place = match scope {
            ScopeId::Client => None,
            ScopeId::Provider(provider) => Some(self.find(provider)?),
        };
        Some(self.hand_off.time(self.scope(place).halvings))
    }

    /// How much has been looked at so far: tickets, keys, entries of heaps and logs (rule E7).
    #[cfg(steps)]
    #[doc(hidden)]
    pub fn steps(&self) -> u64 {
        let heaps = self.ready.steps() + self.timed.steps();
        self.queue.steps() + heaps + self.providers.steps() + self.client.steps()
    }
}
