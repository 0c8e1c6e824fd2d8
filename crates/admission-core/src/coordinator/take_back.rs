//! Grants that end before their start: nobody came for them (rule S4), a cooldown (rule S5) or other
//! limits (rule L7) came between.
//!
//! Owns: what such a grant gives back, and where its ticket goes. Lacks those that are abandoned, whose
//! tickets end with them.

use super::Coordinator;
use crate::{Event, Instant, Reason};

impl Coordinator {
    /// Takes the grants of one scope back, which are at their places again at once (rules S5, L7).
    pub(super) fn take_back_grants(&mut self, place: Option<u32>, why: TakenBack, now: Instant) {
        if self.scope(place).granted > 0 {
            let number = self.number_of(place);
            self.hand_off.of_scope(self.queue.slab(), number, &mut self.batch);
            self.take_back_batch(why, now);
        }
    }

    /// A grant holds nothing any more, and nothing was spent.
    pub(super) fn give_back(&mut self, index: u32, now: Instant) {
        let provider = self.queue.place(index);
        self.hand_off.remove(self.queue.slab_mut(), index);
        self.client.take_back(self.queue.ask(index), now);
        self.providers[provider].take_back(self.queue.ask(index), now);
    }

    /// Takes the grants in the batch back.
    pub(super) fn take_back_batch(&mut self, why: TakenBack, now: Instant) {
        let unpolled = why == TakenBack::Unpolled;
        self.queue.sort(&mut self.batch);
        for place in 0..self.batch.len() {
            let index = self.batch[place];
            let provider = self.queue.place(index);
            self.give_back(index, now);
            if unpolled {
                self.hand_off.halve(&mut self.client.halvings);
                self.hand_off.halve(&mut self.providers[provider].halvings);
            }
            self.queue.requeue(index, unpolled);
            self.queue.mark_changed(provider);
            self.events.push(Event::TakenBack(self.queue.ticket(index)));
            if self.is_closed {
                // A grant that is taken back after the close ends as closed (rule W4).
                self.queue.leave(index);
                self.end(index, Reason::Closed, None, now);
            } else if why == TakenBack::ByLimits && self.end_if_impossible(index, now) {
                // Told so (rule D5).
            } else if !unpolled && self.queue.slot(index).deadline < now {
                self.end_late(index, now);
            }
        }
        self.batch.clear();
        self.note_instant(self.queue.first_deadline());
    }
}

/// Why a grant is taken back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenBack {
    /// Its caller did not run: it is passed over (rule S4).
    Unpolled,
    /// A cooldown came between (rule S5).
    ByCooldown,
    /// Other limits came between (rule L7).
    ByLimits,
}
