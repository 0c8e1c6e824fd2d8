//! Who has a key, and who waits for it (rules L1, E6).
//!
//! A key with one ticket is that ticket's number in a table and nothing else. Only a key that is
//! shared gets a record, with one group for each provider at which it waits. While the key is free,
//! the oldest ticket of each group stands in its provider's line as the group's delegate and the
//! others are parked behind it; while the key is held, all are parked. So a key that comes free
//! costs one step per provider at which it waits, however many wait there.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;

use hashbrown::HashTable;

use super::key_table::{KeyTable, Members, NOBODY, Scattered, Walked, hash};
use super::line::Line;
use super::slab::{NIL, Slab};

/// Marks a number in the table as a record's.
const RECORD: u32 = 1 << 31;

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    table: KeyTable,
    records: Pool<Record>,
    groups: Pool<Group>,
    /// Finds a group by its key and provider.
    group_table: HashTable<u32>,
}

/// What a key leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// The only ticket that has it.
    Sole(u32),
    /// The record of those that share it.
    Shared(u32),
}

/// What the table of keys said of one.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// The beginning of its chain, and who is the last in it, until somebody enters the table.
    place: (usize, u32),
    /// Who has it.
    pub(crate) entry: Option<Entry>,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    key: Scattered,
    /// The next at the same place of the table.
    link: u32,
    /// The ticket that is granted or running, or [`NIL`].
    pub(crate) holder: u32,
    /// How many tickets have the key, the holder and those passed over included.
    pub(crate) tickets: u32,
    pub(crate) first_group: u32,
}

/// The tickets of one key that wait at one provider, those passed over not included.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) record: u32,
    provider: u32,
    /// The one that stands in the provider's line, or [`NIL`].
    pub(crate) delegate: u32,
    pub(crate) parked: Line,
    pub(crate) next: u32,
    previous: u32,
}

impl Keys {
    pub(crate) const fn new() -> Self {
        Self {
            table: KeyTable::new(),
            records: Pool::new(),
            groups: Pool::new(),
            group_table: HashTable::new(),
        }
    }

    /// Makes room for so many keys.
    pub(crate) fn try_reserve(&mut self, keys: usize) -> Result<(), TryReserveError> {
        self.table.try_reserve(keys)
    }

    pub(crate) fn find(&self, key: Scattered, slab: &Slab) -> Option<Entry> {
        decode_any(self.walk(self.table.head(self.table.home(key)), key, slab).found)
    }

    #[inline(never)]
    fn walk(&self, head: u32, key: Scattered, slab: &Slab) -> Walked {
        KeyTable::walk(head, key, |entry| match decode(entry) {
            Entry::Sole(index) => (slab[index].key, slab[index].link),
            Entry::Shared(record) => (self.records.get(record).key, self.records.get(record).link),
        })
    }

    /// Where a key has its place in the table, and who has it.
    #[inline(always)]
    pub(crate) fn look_up(&self, key: Scattered, slab: &Slab) -> Found {
        let home = self.table.home(key);
        let head = self.table.head(home);
        if head == NOBODY {
            return Found { place: (home, NOBODY), entry: None };
        }
        // Most chains are of one ticket. (A record's number is no slot's.)
        match slab.get(head) {
            Some(slot) if slot.key != key && slot.link == NOBODY => {
                Found { place: (home, head), entry: None }
            }
            _ => self.look_along(home, head, key, slab),
        }
    }

    #[inline(never)]
    fn look_along(&self, home: usize, head: u32, key: Scattered, slab: &Slab) -> Found {
        let walked = self.walk(head, key, slab);
        Found { place: (home, walked.before), entry: decode_any(walked.found) }
    }

    /// A ticket, which has nobody next to it, is the only one that has a key.
    #[inline(always)]
    pub(crate) fn enter(&mut self, found: Found, key: Scattered, index: u32, slab: &mut Slab) {
        let here = &mut Here { slab, records: &mut self.records };
        self.table.insert(found.place, key, index, here);
    }

    /// The same where it takes no more than a look at one other ticket; `None`, and nothing is changed, otherwise.
    #[inline(always)]
    pub(crate) fn enter_plainly(&mut self, key: Scattered, index: u32, slab: &mut Slab) -> Option<()> {
        let head = self.table.vacant_or_first(key)?;
        if *head == NOBODY {
            *head = index;
        } else {
            let other = slab.get_mut(*head).filter(|other| other.key != key && other.link == NOBODY)?;
            other.link = index;
        }
        self.table.count_in();
        Some(())
    }

    /// Takes a ticket's key out, which nobody else has, if it is the first in its chain; `None`, and nothing is
    /// changed, otherwise.
    #[inline(always)]
    pub(crate) fn remove_first(&mut self, key: Scattered, index: u32, link: u32) -> Option<()> {
        let head = self.table.first(key).filter(|head| **head == index)?;
        *head = link;
        self.table.count_out();
        Some(())
    }

    /// The same if at most one other is before it.
    #[inline(always)]
    pub(crate) fn remove_plainly(
        &mut self,
        key: Scattered,
        index: u32,
        link: u32,
        slab: &mut Slab,
    ) -> Option<()> {
        let head = self.table.first(key)?;
        if *head == index {
            *head = link;
        } else {
            slab.get_mut(*head).filter(|other| other.link == index)?.link = link;
        }
        self.table.count_out();
        Some(())
    }

    /// Takes a ticket's key out if no other ticket has it; if it is shared, says by which record.
    #[inline(always)]
    pub(crate) fn remove_sole(&mut self, key: Scattered, index: u32, slab: &mut Slab) -> Option<u32> {
        let link = slab[index].link;
        match self.remove_plainly(key, index, link, slab) {
            Some(()) => None,
            None => self.remove_along(key, index, slab),
        }
    }

    #[inline(never)]
    fn remove_along(&mut self, key: Scattered, index: u32, slab: &mut Slab) -> Option<u32> {
        let home = self.table.home(key);
        if self.table.remove(home, index, &mut Here { slab, records: &mut self.records }) {
            return None;
        }
        match self.find(key, slab)? {
            Entry::Sole(_) => None,
            Entry::Shared(record) => Some(record),
        }
    }

    /// The last of those that shared a key goes.
    pub(crate) fn remove_shared(&mut self, record: u32, slab: &mut Slab) {
        let home = self.table.home(self.records.get(record).key);
        self.table.remove(home, record | RECORD, &mut Here { slab, records: &mut self.records });
        self.records.remove(record);
    }

    /// Makes a record for a key that one ticket has, and holds if it is `holder`.
    pub(crate) fn share(&mut self, key: Scattered, sole: u32, holder: u32, slab: &mut Slab) -> u32 {
        let record = Record { key, link: slab[sole].link, holder, tickets: 1, first_group: NIL };
        let index = self.records.insert(record);
        let here = &mut Here { slab, records: &mut self.records };
        self.table.replace(self.table.home(key), sole, index | RECORD, here);
        index
    }

    /// The ticket that is granted or running, or [`NIL`].
    pub(crate) fn holder(&self, record: u32) -> u32 {
        self.records.get(record).holder
    }

    pub(crate) fn record(&mut self, record: u32) -> &mut Record {
        self.records.get_mut(record)
    }

    pub(crate) fn group(&mut self, group: u32) -> &mut Group {
        self.groups.get_mut(group)
    }

    /// The group of a shared key at a provider, made if need be.
    pub(crate) fn group_at(&mut self, record: u32, provider: u32) -> u32 {
        let hash_here = group_hash(record, provider);
        let groups = &self.groups;
        let found = self.group_table.find(hash_here, |&group| {
            let group = groups.get(group);
            group.record == record && group.provider == provider
        });
        if let Some(&group) = found {
            return group;
        }
        let next = self.records.get(record).first_group;
        let group = self.groups.insert(Group {
            record,
            provider,
            delegate: NIL,
            parked: Line::new(),
            next,
            previous: NIL,
        });
        if next != NIL {
            self.groups.get_mut(next).previous = group;
        }
        self.records.get_mut(record).first_group = group;
        let groups = &self.groups;
        self.group_table.insert_unique(hash_here, group, |&group| {
            let group = groups.get(group);
            group_hash(group.record, group.provider)
        });
        group
    }

    /// Forgets a group in which nobody is left.
    pub(crate) fn drop_if_empty(&mut self, group: u32) {
        let Group { record, provider, delegate, next, previous, .. } = *self.groups.get(group);
        if delegate != NIL || !self.groups.get(group).parked.is_empty() {
            return;
        }
        if next != NIL {
            self.groups.get_mut(next).previous = previous;
        }
        if previous == NIL {
            self.records.get_mut(record).first_group = next;
        } else {
            self.groups.get_mut(previous).next = next;
        }
        if let Ok(entry) = self.group_table.find_entry(group_hash(record, provider), |&other| other == group)
        {
            entry.remove();
        }
        self.groups.remove(group);
    }

    #[cfg(steps)]
    pub(crate) fn steps(&self) -> u64 {
        self.records.steps.total() + self.groups.steps.total()
    }

    #[cfg(audit)]
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.table.len(), self.records.live, self.groups.live)
    }

    #[cfg(audit)]
    pub(crate) fn group_table_len(&self) -> usize {
        self.group_table.len()
    }
}

fn decode(entry: u32) -> Entry {
    if entry & RECORD == 0 { Entry::Sole(entry) } else { Entry::Shared(entry & !RECORD) }
}

/// The same for a number that may be nobody's.
#[inline(always)]
fn decode_any(entry: u32) -> Option<Entry> {
    (entry != NOBODY).then(|| decode(entry))
}

/// Those in the table: tickets that are the only ones with their keys, and records.
struct Here<'a> {
    slab: &'a mut Slab,
    records: &'a mut Pool<Record>,
}

impl Members for Here<'_> {
    fn key(&self, entry: u32) -> Scattered {
        match decode(entry) {
            Entry::Sole(index) => self.slab[index].key,
            Entry::Shared(record) => self.records.get(record).key,
        }
    }

    fn next(&self, entry: u32) -> u32 {
        match decode(entry) {
            Entry::Sole(index) => self.slab[index].link,
            Entry::Shared(record) => self.records.get(record).link,
        }
    }

    #[inline(always)]
    fn set_next(&mut self, entry: u32, next: u32) {
        match decode(entry) {
            Entry::Sole(index) => self.slab[index].link = next,
            Entry::Shared(record) => self.records.get_mut(record).link = next,
        }
    }
}

fn group_hash(record: u32, provider: u32) -> u64 {
    hash(u64::from(record) << 32 | u64::from(provider))
}

/// Values under small reused numbers.
#[derive(Clone, Debug)]
struct Pool<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
    #[cfg(audit)]
    live: usize,
    #[cfg(steps)]
    steps: crate::steps::Steps,
}

impl<T> Pool<T> {
    const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            #[cfg(audit)]
            live: 0,
            #[cfg(steps)]
            steps: crate::steps::Steps::new(),
        }
    }

    fn insert(&mut self, value: T) -> u32 {
        #[cfg(audit)]
        {
            self.live += 1;
        }
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(value);
            return index;
        }
        self.slots.push(Some(value));
        // So that what comes back needs no memory.
        self.free.reserve_exact(self.slots.capacity() - self.free.len());
        (self.slots.len() - 1) as u32
    }

    fn remove(&mut self, index: u32) {
        #[cfg(audit)]
        {
            self.live -= 1;
        }
        self.slots[index as usize] = None;
        self.free.push(index);
    }
}

impl<T> Pool<T> {
    fn get(&self, index: u32) -> &T {
        #[cfg(steps)]
        self.steps.count();
        self.slots[index as usize].as_ref().expect("a number that was given out")
    }

    fn get_mut(&mut self, index: u32) -> &mut T {
        #[cfg(steps)]
        self.steps.count();
        self.slots[index as usize].as_mut().expect("a number that was given out")
    }
}
