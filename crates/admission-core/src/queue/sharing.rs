//! Tickets that share a key (rules L1, E6): who holds it, who stands in line for it, and who is parked.
//!
//! Owns: the moves between a line and the place behind a key. Lacks the table and the records, which are
//! [`Keys`](super::keys::Keys)', and the lines.

use super::{Entry, Found, NIL, Queue, Scattered, Slot, State};
use crate::Instant;

impl Queue {
    /// The ticket with this key that is granted or running, if one is (rule L1).
    pub(crate) fn holder(&self, key: Scattered) -> Option<u32> {
        self.holder_of(self.keys.find(key, &self.slab)?)
    }

    fn holder_of(&self, entry: Entry) -> Option<u32> {
        match entry {
            Entry::Sole(index) => Some(index).filter(|&index| self.slab[index].state.holds_key()),
            Entry::Shared(record) => Some(self.keys.holder(record)).filter(|&index| index != NIL),
        }
    }

    /// Who has a key, and where the next ticket with it enters the table.
    #[inline(always)]
    pub(crate) fn look_up(&self, key: Scattered) -> Found {
        self.keys.look_up(key, &self.slab)
    }

    /// Takes a key that others have for the next ticket that is created, which is granted, unless one
    /// of them holds it.
    #[inline(never)]
    pub(crate) fn claim(&mut self, key: Scattered, entry: Entry) -> bool {
        let is_free = self.holder_of(entry).is_none();
        if is_free {
            let record = self.share_key(key, entry);
            self.hold_shared(record, self.slab.next());
        }
        is_free
    }

    /// Others have a key, and somebody else comes for it: whoever holds it is seen to.
    #[inline(never)]
    pub(crate) fn stamp_holder(&mut self, entry: Entry, now: Instant) {
        if let Some(holder) = self.holder_of(entry) {
            if self.slab[holder].state == State::Running {
                self.slab[holder].stamp(now);
            }
        }
    }

    /// A delegate takes its key.
    #[inline(never)]
    pub(super) fn take_shared(&mut self, index: u32, group: u32) {
        self.slab[index].group = NIL;
        self.keys.group(group).delegate = NIL;
        let record = self.keys.group(group).record;
        self.keys.drop_if_empty(group);
        self.hold_shared(record, index);
    }

    /// Nobody else stands in line for a key that is held.
    #[inline(never)]
    fn hold_shared(&mut self, record: u32, index: u32) {
        self.keys.record(record).holder = index;
        let mut group = self.keys.record(record).first_group;
        while group != NIL {
            let delegate = core::mem::replace(&mut self.keys.group(group).delegate, NIL);
            if delegate != NIL {
                self.step_back(delegate, group);
            }
            group = self.keys.group(group).next;
        }
    }

    #[inline(never)]
    pub(super) fn enqueue_sharing(&mut self, index: u32, place: u32, entry: Entry) {
        self.count_in(place);
        if let Some(key) = self.slab[index].key() {
            let record = self.share_key(key, entry);
            self.stand_among(record, index);
        }
    }

    #[inline(never)]
    pub(super) fn finish_shared(&mut self, record: u32) {
        self.release_shared(record);
        self.quit_shared(record);
    }

    /// One more ticket has a key that others have, whose record that is.
    #[inline(never)]
    fn share_key(&mut self, key: Scattered, entry: Entry) -> u32 {
        match entry {
            Entry::Shared(record) => {
                self.keys.record(record).tickets += 1;
                record
            }
            Entry::Sole(other) => {
                let Slot { state, provider, .. } = self.slab[other];
                let holder = if state.holds_key() { other } else { NIL };
                let record = self.keys.share(key, other, holder, &mut self.slab);
                self.keys.record(record).tickets = 2;
                if state == State::InLine {
                    let group = self.keys.group_at(record, provider);
                    self.keys.group(group).delegate = other;
                    self.slab[other].group = group;
                }
                record
            }
        }
    }

    /// One ticket less has its key, which it does not hold.
    #[inline(always)]
    pub(super) fn quit_key(&mut self, index: u32, key: Scattered) {
        if let Some(record) = self.keys.remove_sole(key, index, &mut self.slab) {
            self.quit_shared(record);
        }
    }

    fn quit_shared(&mut self, record: u32) {
        self.keys.record(record).tickets -= 1;
        if self.keys.record(record).tickets == 0 {
            self.keys.remove_shared(record, &mut self.slab);
        }
    }

    /// A ticket does not hold its key any more.
    pub(super) fn release_key(&mut self, index: u32) {
        let Some(key) = self.slab[index].key() else { return };
        if let Some(Entry::Shared(record)) = self.keys.find(key, &self.slab) {
            self.release_shared(record);
        }
    }

    /// A key is free: at each provider the oldest that waits for it may stand in line (rule E6).
    fn release_shared(&mut self, record: u32) {
        self.keys.record(record).holder = NIL;
        let mut group = self.keys.record(record).first_group;
        while group != NIL {
            self.send_delegate(group);
            group = self.keys.group(group).next;
        }
    }

    /// Puts a waiting ticket where it belongs: in line, or behind its key.
    pub(super) fn stand(&mut self, index: u32) {
        let entry = self.slab[index].key().and_then(|key| self.keys.find(key, &self.slab));
        let place = self.place(index);
        match entry {
            Some(Entry::Shared(record)) => self.stand_among(record, index),
            Some(Entry::Sole(_)) | None => self.enter_line(index, place),
        }
    }

    /// The same where it is known who shares its key.
    #[inline(never)]
    fn stand_among(&mut self, record: u32, index: u32) {
        let (provider, seq) = (self.slab[index].provider, self.slab[index].seq);
        let group = self.keys.group_at(record, provider);
        let delegate = self.keys.group(group).delegate;
        if self.keys.record(record).holder != NIL {
            self.park(index, group);
        } else if delegate == NIL {
            self.delegate(index, group);
        } else if seq < self.slab[delegate].seq {
            self.step_back(delegate, group);
            self.delegate(index, group);
        } else {
            self.park(index, group);
        }
    }

    /// If nobody stands in line for a group, its oldest does from now on.
    pub(super) fn send_delegate(&mut self, group: u32) {
        let oldest = self.keys.group(group).parked.first();
        let record = self.keys.group(group).record;
        if oldest != NIL && self.keys.group(group).delegate == NIL && self.keys.record(record).holder == NIL {
            self.keys.group(group).parked.remove_any(&mut self.slab, oldest);
            self.delegate(oldest, group);
        }
    }

    pub(super) fn delegate(&mut self, index: u32, group: u32) {
        self.keys.group(group).delegate = index;
        self.slab[index].group = group;
        self.enter_line(index, self.place(index));
    }

    /// Who stands in line for a key goes behind it.
    #[inline(never)]
    fn step_back(&mut self, delegate: u32, group: u32) {
        self.leave_line(delegate, self.place(delegate));
        self.park(delegate, group);
    }

    fn park(&mut self, index: u32, group: u32) {
        self.slab[index].state = State::Parked;
        self.slab[index].group = group;
        self.keys.group(group).parked.insert(&mut self.slab, index);
    }
}
