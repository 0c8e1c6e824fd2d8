//! Every invariant of the machine, checked after each call under `--cfg audit`.
//!
//! It looks at everything, the slow way, and panics with the name of what is broken. Without the
//! cfg it is not compiled.

use super::Coordinator;
use crate::queue::{NIL, Rank, State};
use crate::scope::Pacer;
use crate::verdict::{Folded, Verdict, judge};
use crate::{Instant, Side};

impl Coordinator {
    pub(crate) fn audit(&self) {
        self.queue.audit();
        self.ready.audit_order();
        let slots = || self.queue.slots().map(|index| (index, self.queue.slot(index)));
        let grants = self.hand_off.audit(self.queue.slab());
        assert_eq!(self.client.granted, grants, "a hand-off for each grant");
        assert!(self.batch.is_empty(), "no call leaves its batch");

        let now = self.seen;
        assert!(now < Instant::NEVER, "rule T2: now stays below never");
        assert!(self.quiet_before <= self.first_instant(), "nothing happens by itself before");
        assert!(self.poll_timeout().is_none_or(|at| at > now), "rule T6: an alarm is in the future");
        if self.queue.queued() == 0 && !self.is_idle_watched {
            assert_eq!(self.poll_timeout(), None, "rule T6: no alarm with an empty queue");
        }
        assert!(!self.is_closed || self.queue.queued() == 0, "rule W4: nobody waits once closed");

        let places = || 0..self.providers.len();
        let scopes = places().map(|place| (Some(place), &self.providers[place]));
        for (provider, scope) in scopes.chain([(None, &self.client)]) {
            let number = provider.map(|place| self.providers.number(place));
            let here = || slots().filter(|(_, slot)| number.is_none_or(|number| slot.provider == number));
            let count = |state| here().filter(|(_, slot)| slot.state == state).count() as u32;
            assert_eq!(scope.granted, count(State::Granted), "grants of a scope");
            assert_eq!(scope.running, count(State::Running), "running calls of a scope");
            // A limit that was lowered revokes nothing that runs (rule L7).
            let is_over = scope.granted + scope.running > scope.max_concurrent;
            assert!(!is_over || scope.granted == 0, "rule L1: concurrency");
            assert!(!scope.has_interval || scope.granted <= 1, "rule S2: one grant at a time");
            let side = provider.map_or(Side::Client, |_| Side::Provider);
            for index in slots().filter(|(_, slot)| slot.state.is_queued()).map(|(index, _)| index) {
                Folded::audit(scope, side, self.queue.ask(index), now);
            }
            for pacer in &scope.pacers {
                let Pacer::Log(log) = pacer else { continue };
                let cost = |index| u128::from(self.queue.ask(index).cost(log.unit));
                let granted = here().filter(|(_, slot)| slot.state == State::Granted);
                let unsettled = here().filter(|(_, slot)| {
                    slot.state == State::Running && log.is_unsettled(slot.start_number())
                });
                log.audit(
                    granted.map(|(index, _)| cost(index)).sum(),
                    scope.granted,
                    unsettled.map(|(index, _)| cost(index)).sum(),
                );
            }
        }
        let has_tickets = |place: u32| {
            slots().any(|(_, slot)| {
                slot.provider == self.providers.number(place)
                    && !matches!(slot.state, State::Free | State::Ended(_))
            })
        };
        self.providers.audit(has_tickets);
        for place in places() {
            let number = self.providers.number(place);
            assert_eq!(self.queue.place_of(number), Some(place), "a provider has one place everywhere");
        }
        for provider in places() {
            let scope = &self.providers[provider];
            let front = self.queue.front(provider);
            let verdict = (front != NIL).then(|| judge(scope, Side::Provider, self.queue.ask(front), now));
            let (mut ready, mut timed, mut rank) = (None, None, Rank::Held);
            match verdict {
                Some(Verdict::Go) => {
                    ready = Some(self.queue.slot(front).seq);
                    rank = Rank::Ready;
                }
                Some(Verdict::Until(at, _)) if at < Instant::NEVER => {
                    timed = Some(at);
                    rank = Rank::Timed;
                }
                _ => {}
            }
            assert_eq!(self.queue.rank(provider), rank, "what was noted of a provider");
            self.ready.audit(provider, ready);
            self.timed.audit(provider, timed);
        }
        if let Some(provider) = self.ready.first() {
            let ask = self.queue.ask(self.queue.front(provider));
            let verdict = judge(&self.client, Side::Client, ask, now);
            assert_ne!(verdict, Verdict::Go, "rule W6: whoever may go has been granted");
        }
    }
}
