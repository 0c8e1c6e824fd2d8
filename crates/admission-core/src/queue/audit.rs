//! Every invariant of the queue, checked after each call under `--cfg audit`. Without the cfg it is not
//! compiled.

use alloc::vec::Vec;

use super::{Entry, NIL, Queue, Scattered, Slot, State};
use crate::Instant;

impl Queue {
    pub(crate) fn audit(&self) {
        use alloc::collections::{BTreeMap, BTreeSet};
        let mut keys: BTreeMap<Scattered, (u32, Vec<u32>)> = BTreeMap::new();
        let mut queued = 0;
        let mut with_deadline = 0;
        for index in self.slots() {
            let slot = self.slot(index);
            let is_here = slot.state.is_queued();
            queued += u32::from(is_here);
            if is_here && slot.deadline < Instant::NEVER {
                with_deadline += 1;
                assert_eq!(
                    self.deadlines.key_of(index),
                    Some(slot.deadline.as_nanos()),
                    "a waiting deadline"
                );
            }
            if matches!(slot.state, State::Free | State::Ended(_)) {
                continue;
            }
            if let Some(key) = slot.key() {
                let (holders, tickets) = keys.entry(key).or_default();
                *holders += u32::from(slot.state.holds_key());
                tickets.push(index);
            }
        }
        assert_eq!(self.queued, queued, "the count of those that wait");
        assert_eq!(self.deadlines.len(), with_deadline, "deadlines of those that wait only");
        self.deadlines.audit();
        assert_eq!(self.keys.counts().0, keys.len(), "a key for each that a ticket has, and no more");
        assert_eq!(self.keys.counts().2, self.keys.group_table_len(), "groups that can be found");
        for (&key, (holders, tickets)) in &keys {
            assert!(*holders <= 1, "rule L1: one ticket at a time per key");
            // The oldest waiting ticket of each provider stands in line, if the key is free.
            let mut seen = BTreeSet::new();
            let mut waiting: Vec<&Slot> = tickets.iter().map(|&i| self.slot(i)).collect();
            waiting.sort_by_key(|slot| slot.seq);
            for slot in waiting.iter().filter(|slot| matches!(slot.state, State::InLine | State::Parked)) {
                let is_delegate = *holders == 0 && seen.insert(slot.provider);
                assert_eq!(slot.state == State::InLine, is_delegate, "rule E6: who stands in line for a key");
            }
            let is_shared = matches!(self.keys.find(key, &self.slab), Some(Entry::Shared(_)));
            for slot in waiting.iter().filter(|slot| slot.state == State::InLine) {
                assert_eq!(slot.group != NIL, is_shared, "who is in line knows whether its key is shared");
            }
            match self.keys.find(key, &self.slab) {
                Some(Entry::Sole(index)) => assert_eq!(tickets, &[index], "a sole ticket"),
                Some(Entry::Shared(_)) => {}
                None => panic!("a key that a ticket has"),
            }
        }
        assert_eq!(self.places.len() + self.configured as usize, self.lanes.len(), "a place for each");
        for (place, lane) in self.lanes.iter().enumerate() {
            let provider = lane.provider;
            assert_eq!(self.place_of(provider), Some(place as u32), "a provider can be found");
            let here = || {
                self.slots()
                    .map(|i| self.slot(i))
                    .filter(move |slot| slot.state == State::InLine && slot.provider == provider)
            };
            assert_eq!(lane.line.audit(&self.slab) as usize, here().count(), "a provider's line");
            let waits = |slot: &&Slot| slot.state.is_queued() && slot.provider == provider;
            let queued = self.slots().map(|i| self.slot(i)).filter(waits).count();
            assert_eq!(lane.queued as usize, queued, "those that wait at a provider");
            let metered = here().filter(|slot| !slot.flags.is_exempt_somewhere()).count();
            assert_eq!((lane.queued - lane.unmetered) as usize, metered, "the metered in a line");
        }
    }
}
