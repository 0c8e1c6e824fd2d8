//! What is told of single tickets (rule O2), and of who has a key. It reads and changes nothing; what
//! holds a ticket back is listed by [`verdict`](crate::verdict), which decides by it too.

use alloc::vec::Vec;

use super::Coordinator;
use crate::queue::{NIL, Scattered, State};
use crate::verdict::{Opening, each_hold, held_whoever_asks, is_held_by_logs_alone};
use crate::{Explanation, Held, Hold, Instant, KeyHolder, ProviderId, Side, TicketId, TicketState};

impl Coordinator {
    /// What holds a ticket back, and everything else that can be said of it, at the last `now` (rule O2).
    /// `None` if there is no such ticket any more, or if it has ended.
    ///
    /// To hear of this moment, call [`handle_timeout`](Self::handle_timeout) first: without a call no
    /// time passes.
    ///
    /// # Cost
    ///
    /// O(pacers of its two scopes), a search in each of their logs, and memory for the answer; however
    /// many wait.
    ///
    /// ```
    /// use admission_core::{Admitted, Config, Coordinator, Hold, Instant, Limits, ProviderId, Request, Side};
    /// use core::time::Duration;
    ///
    /// let mut config = Config::new();
    /// config.providers.push(Limits::new().max_concurrent(1).interval(Duration::from_millis(100)));
    /// let mut coordinator = Coordinator::new(&config)?;
    /// let bank = Request::new(ProviderId::new(0));
    /// let at = Instant::from_millis;
    /// let Ok(Admitted::Started(_)) = coordinator.request(&bank, at(0)) else { unreachable!() };
    /// let Ok(Admitted::Queued(waits)) = coordinator.request(&bank, at(10)) else { unreachable!() };
    ///
    /// let told = coordinator.explain(waits).expect("it waits");
    /// let holds: Vec<_> = told.holds.iter().map(|held| (held.hold, held.until)).collect();
    /// let slots = (Hold::Concurrency(Side::Provider), None);
    /// assert_eq!(holds, [slots, (Hold::Interval(Side::Provider, 0), Some(at(100)))]);
    /// assert_eq!((told.submitted, told.earliest), (at(10), Some(at(100))));
    /// # Ok::<(), admission_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn explain(&self, ticket: TicketId) -> Option<Explanation> {
        let index = self.queue.find(ticket)?;
        let slot = self.queue.slot(index);
        let state = self.state(ticket)?;
        let holds = if slot.state.is_queued() { self.holds(index) } else { Vec::new() };
        let earliest = match state {
            TicketState::Queued | TicketState::PassedOver => self.opens(index),
            TicketState::Granted => Some(self.seen),
            TicketState::Running => None,
        };
        let is_held_by_key = holds.iter().any(|held| held.hold == Hold::Key);
        Some(Explanation {
            at: self.seen,
            state,
            provider: ProviderId(slot.provider),
            key: slot.key().map(Scattered::key),
            submitted: slot.submitted,
            since: slot.state.holds_key().then(|| slot.since()).filter(|&since| since < Instant::NEVER),
            deadline: Some(slot.deadline)
                .filter(|&deadline| slot.state != State::Running && deadline < Instant::NEVER),
            key_holder: slot.key().filter(|_| is_held_by_key).and_then(|key| self.key_holder(key)),
            holds,
            earliest,
        })
    }

    /// Where a ticket is, and nothing more; `None` if it has ended. Reads only.
    ///
    /// # Cost
    ///
    /// O(1).
    #[must_use]
    pub fn state(&self, ticket: TicketId) -> Option<TicketState> {
        Some(match self.queue.state(ticket)? {
            State::InLine | State::Parked => TicketState::Queued,
            State::Aside => TicketState::PassedOver,
            State::Granted => TicketState::Granted,
            State::Running => TicketState::Running,
            State::Free | State::Ended(_) => return None,
        })
    }

    /// The tickets that wait, in the order of submission, those that are passed over included: for
    /// [`explain`](Self::explain).
    ///
    /// # Cost
    ///
    /// O(tickets), O(queued log queued) to put them in order, and memory for the answer.
    #[must_use]
    pub fn queued_tickets(&self) -> Vec<TicketId> {
        let mut waiting = Vec::with_capacity(self.queue.queued() as usize);
        waiting.extend(self.queue.slots().filter(|&index| self.queue.slot(index).state.is_queued()));
        self.queue.sort(&mut waiting);
        waiting.into_iter().map(|index| self.queue.ticket(index)).collect()
    }

    /// Who has a key, where that is what holds a ticket back.
    pub(super) fn key_holder_if(&self, hold: Option<Hold>, key: Option<Scattered>) -> Option<KeyHolder> {
        key.filter(|_| hold == Some(Hold::Key)).and_then(|key| self.key_holder(key))
    }

    fn key_holder(&self, key: Scattered) -> Option<KeyHolder> {
        let index = self.queue.holder(key)?;
        let slot = self.queue.slot(index);
        Some(KeyHolder {
            ticket: self.queue.ticket(index),
            provider: ProviderId(slot.provider),
            is_running: slot.state == State::Running,
            since: slot.since().min(self.seen),
        })
    }

    /// All that holds a waiting ticket back: each condition of rule E1 that is not met.
    fn holds(&self, index: u32) -> Vec<Held> {
        let slot = self.queue.slot(index);
        let now = self.seen;
        let mut holds = Vec::new();
        if slot.state == State::Aside {
            holds.push(Held { hold: Hold::Unpolled, until: None, by: None });
        }
        if let Some(holder) = slot.key().and_then(|key| self.queue.holder(key)) {
            holds.push(Held { hold: Hold::Key, until: None, by: Some(self.queue.ticket(holder)) });
        }
        let place = self.queue.place(index);
        let scopes = [(Side::Provider, &self.providers[place]), (Side::Client, &self.client)];
        for (side, scope) in scopes {
            each_hold(scope, side, self.queue.ask(index), now, |hold, until| {
                holds.push(Held { hold, until, by: None });
            });
        }
        let older = self.older_first(place, slot.seq).into_iter().flatten();
        holds.extend(older.map(|older| Held {
            hold: Hold::Order,
            until: None,
            by: Some(self.queue.ticket(older)),
        }));
        holds
    }

    /// The older tickets that have precedence over one by rule E3, the oldest first: one that its
    /// provider's budgets hold back, and one that the client's do. Each is the oldest that can be it,
    /// for between calls nobody may go (rule W6).
    fn older_first(&self, provider: u32, seq: u64) -> [Option<u32>; 2] {
        let now = self.seen;
        let is_client_open = held_whoever_asks(&self.client, Side::Client).is_none()
            && Opening::of(&self.client, Side::Client, self.queue.ask_no_log(), now).hold.is_none();
        if !is_client_open {
            return [None; 2];
        }
        // Whoever is ready passes its provider, so that only the client's budgets are left.
        let ready_seq = self.ready.least().min(seq);
        let ready = self.ready.first().filter(|_| ready_seq < seq);
        let front = self.queue.front(provider);
        let is_older = front != NIL
            && self.queue.slot(front).seq < ready_seq
            && is_held_by_logs_alone(&self.providers[provider], Side::Provider, self.queue.ask(front), now);
        [is_older.then_some(front), ready.map(|provider| self.queue.front(provider))]
    }

    /// From when the pacers and the cooldown of a waiting ticket's own scopes let it start, if they do
    /// not now.
    fn opens(&self, index: u32) -> Option<Instant> {
        let (of_client, of_provider) = (self.queue.ask(index), self.queue.ask(index));
        let wait = self.wait_behind(self.queue.place(index), of_client, of_provider, 0, self.seen)?;
        Some(self.seen + wait)
    }
}
