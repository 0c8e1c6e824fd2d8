//! Numbers for providers that the configuration does not name: those that are added later, and those
//! that the template makes on demand (rule L10).
//!
//! Owns: the interner, with a lock of its own that is never held together with the coordinator's. A
//! number means one name for as long as anybody could tell: it is given to another only when no
//! handle, future or permit has the name, and the machine has nothing of it. The first is counted
//! here; the second is the machine's to know, and comes as [`Sighting`]s, which are taken under the
//! coordinator's lock and told here after it. They may arrive out of order, so each has a stamp, and
//! only the latest counts. The machine hears of a number only from somebody who has its name, and who
//! has it looked at before letting go: so once nobody has the name, the latest sighting is true.

use std::collections::HashMap;
use std::collections::hash_map::Entry::Vacant;

use admission_core::{Presence, ProviderId};

use crate::shared::{Shared, State};
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use crate::unwind::quietly;

/// Whom calls go to.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) id: ProviderId,
    /// What keeps the number, if it is not the configuration.
    pub(crate) guest: Option<Arc<Guest>>,
}

impl Target {
    /// A provider of the configuration's.
    pub(crate) const fn configured(id: ProviderId) -> Self {
        Self { id, guest: None }
    }
}

/// A provider's name and number, shared by all who have them. Never dropped under a lock.
pub(crate) struct Guest {
    shared: Arc<Shared>,
    pub(crate) id: ProviderId,
    pub(crate) name: Arc<str>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        quietly(|| {
            let (seen, unwind) = self.shared.turn_held(|state, _| state.sight(self.id));
            unwind.swallow();
            self.shared.guests.leave(seen);
        });
    }
}

/// Whether the machine knew a number, at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Sighting {
    id: ProviderId,
    /// The how manieth sighting it was.
    stamp: u64,
    is_known: bool,
}

impl State {
    /// Looks whether the machine has anything of a provider.
    pub(crate) fn sight(&mut self, id: ProviderId) -> Sighting {
        self.sightings += 1;
        let is_known = self.core.presence(id) != Presence::Unknown;
        Sighting { id, stamp: self.sightings, is_known }
    }
}

/// Sightings on their way from under the lock. On the stack: a turn allocates nothing.
pub(crate) struct Sightings {
    sightings: [Option<Sighting>; Self::BATCH],
    len: usize,
}

impl Sightings {
    const BATCH: usize = 16;

    pub(crate) const fn new() -> Self {
        Self { sightings: [None; Self::BATCH], len: 0 }
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len == Self::BATCH
    }

    /// One more, where there is room.
    pub(crate) fn push(&mut self, sighting: Sighting) {
        self.sightings[self.len] = Some(sighting);
        self.len += 1;
    }
}

/// The interner.
pub(crate) struct Guests {
    /// The first number that the configuration does not have.
    first: u32,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// Never walked, so that no decision depends on its order (rule O3).
    numbers: HashMap<Arc<str>, u32>,
    /// Never walked either.
    entries: HashMap<u32, Entry>,
    /// The number that is looked at next for a new name.
    next: u32,
    /// How many there are for whom all numbers stay as they are.
    holders: usize,
    /// Numbers that may be free once there are none.
    put_off: Vec<u32>,
}

struct Entry {
    name: Arc<str>,
    guest: Weak<Guest>,
    /// How many [`Guest`]s there are, those included that are just being dropped.
    guests: u32,
    /// The stamp of the latest sighting.
    seen: u64,
    is_known: bool,
}

impl Guests {
    pub(crate) fn new(first: u32) -> Self {
        Self { first, table: Mutex::default() }
    }

    /// Who has this name; `None` if nobody has, and none is to be made (or no number is left).
    pub(crate) fn find(&self, shared: &Arc<Shared>, name: &str, make: bool) -> Option<Arc<Guest>> {
        let mut table = self.lock();
        let number = match table.numbers.get(name) {
            Some(number) => *number,
            None if make => table.insert(name.into(), u32::MAX - self.first)?,
            None => return None,
        };
        let id = ProviderId::new(self.first + number);
        let entry = table.entries.get_mut(&number)?;
        if let Some(guest) = entry.guest.upgrade() {
            return Some(guest);
        }
        let guest = Arc::new(Guest { shared: shared.clone(), id, name: entry.name.clone() });
        entry.guests += 1;
        entry.guest = Arc::downgrade(&guest);
        Some(guest)
    }

    /// Hears what was seen of providers that the machine says it has forgotten.
    pub(crate) fn note(&self, sightings: &mut Sightings) {
        if sightings.len == 0 {
            return;
        }
        let mut table = self.lock();
        for sighting in sightings.sightings[..sightings.len].iter().flatten() {
            if let Some(number) = sighting.id.number().checked_sub(self.first) {
                table.note(number, *sighting);
            }
        }
        sightings.len = 0;
    }

    /// A guest is gone, who has had a last look.
    fn leave(&self, seen: Sighting) {
        let mut table = self.lock();
        let Some(number) = seen.id.number().checked_sub(self.first) else { return };
        let Some(entry) = table.entries.get_mut(&number) else { return };
        entry.guests -= 1;
        if entry.guests == 0 {
            entry.guest = Weak::new();
        }
        table.note(number, seen);
    }

    /// The name behind a number, while anybody has it or the machine knows it.
    pub(crate) fn name(&self, id: ProviderId) -> Option<Arc<str>> {
        let number = id.number().checked_sub(self.first)?;
        self.lock().entries.get(&number).map(|entry| entry.name.clone())
    }

    /// While the answer is kept, no number becomes another name's.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.lock().holders += 1;
        Held(self)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, name: Arc<str>, numbers: u32) -> Option<u32> {
        if self.numbers.len() >= numbers as usize {
            return None;
        }
        let (guest, name_too) = (Weak::new(), name.clone());
        let number = loop {
            let number = self.next % numbers;
            self.next = number + 1;
            // Not all are taken, so one is found; the first, until 2^32 names have been here.
            if let Vacant(entry) = self.entries.entry(number) {
                entry.insert(Entry { name, guest, guests: 0, seen: 0, is_known: false });
                break number;
            }
        };
        self.numbers.insert(name_too, number);
        Some(number)
    }

    fn note(&mut self, number: u32, sighting: Sighting) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if sighting.stamp > entry.seen {
            entry.seen = sighting.stamp;
            entry.is_known = sighting.is_known;
        }
        self.free(number);
    }

    /// Forgets a name that nobody has and the machine has nothing of.
    fn free(&mut self, number: u32) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if entry.guests > 0 || entry.is_known {
            return;
        }
        if self.holders > 0 {
            self.put_off.push(number);
            return;
        }
        if let Some(entry) = self.entries.remove(&number) {
            self.numbers.remove(&entry.name);
        }
        // A crowd that is gone leaves no empty rooms behind.
        if self.numbers.capacity() > KEPT && self.numbers.len() < self.numbers.capacity() / 8 {
            self.numbers.shrink_to(self.numbers.len() * 2);
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }
}

/// So much room is kept when nobody is left.
pub(crate) const KEPT: usize = 64;

/// Keeps numbers from becoming other names'.
pub(crate) struct Held<'a>(&'a Guests);

impl Held<'_> {
    /// The names of those of these providers that the configuration does not name.
    pub(crate) fn names(&self, ids: impl Iterator<Item = ProviderId>) -> Vec<Option<Arc<str>>> {
        let table = self.0.lock();
        let name = |id: ProviderId| {
            let number = id.number().checked_sub(self.0.first)?;
            table.entries.get(&number).map(|entry| entry.name.clone())
        };
        ids.map(name).collect()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut table = self.0.lock();
        table.holders -= 1;
        if table.holders == 0 {
            for number in std::mem::take(&mut table.put_off) {
                table.free(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Plan;
    use crate::runtime::Clock;
    use crate::shared::Manner;

    struct Still;

    impl Clock for Still {
        fn now(&self) -> crate::Instant {
            crate::Instant::ZERO
        }

        fn wall(&self) -> std::time::SystemTime {
            std::time::SystemTime::UNIX_EPOCH
        }
    }

    fn shared() -> Arc<Shared> {
        let plan = Plan { template: Some(crate::Limits::default()), ..Plan::default() };
        plan.build(Arc::new(Still), Manner::default(), None).unwrap()
    }

    fn guest(shared: &Arc<Shared>, name: &str) -> Arc<Guest> {
        shared.guests.find(shared, name, true).unwrap()
    }

    fn is_remembered(shared: &Arc<Shared>, name: &str) -> bool {
        shared.guests.lock().numbers.contains_key(name)
    }

    /// As the machine would say it.
    fn seen(id: ProviderId, stamp: u64, is_known: bool) -> Sightings {
        let mut sightings = Sightings::new();
        sightings.push(Sighting { id, stamp, is_known });
        sightings
    }

    // rule L10
    #[test]
    fn a_number_is_one_names_while_anybody_has_it() {
        let shared = shared();
        let a = guest(&shared, "a");
        let again = guest(&shared, "a");
        assert_eq!(a.id, again.id);
        assert_ne!(guest(&shared, "b").id, a.id);
        assert!(!is_remembered(&shared, "b"), "nobody has it, and the machine never heard of it");
        assert!(shared.guests.find(&shared, "b", false).is_none());
        drop(a);
        assert_eq!(guest(&shared, "a").id, again.id);
        shared.guests.lock().next = u32::MAX;
        assert_ne!(guest(&shared, "c").id, again.id, "not even when the numbers begin anew");
        drop(again);
        assert!(!is_remembered(&shared, "a"));
    }

    // rule L10
    #[test]
    fn a_number_is_kept_while_the_machine_knows_it() {
        let shared = shared();
        let a = guest(&shared, "a");
        let id = a.id;
        shared.turn(|state, now| state.cooldown(id, std::time::Duration::from_secs(1), now)).unwrap();
        drop(a);
        assert!(is_remembered(&shared, "a"));
        // Word of an earlier forgetting comes late.
        shared.guests.note(&mut seen(id, 0, false));
        assert!(is_remembered(&shared, "a"));
        shared.guests.note(&mut seen(id, u64::MAX, false));
        assert!(!is_remembered(&shared, "a"));
    }

    // rules L10, O1
    #[test]
    fn a_number_is_kept_for_somebody_who_reads_names() {
        let shared = shared();
        let held = shared.guests.hold();
        let id = guest(&shared, "a").id;
        assert!(is_remembered(&shared, "a"), "put off");
        let other = guest(&shared, "b");
        assert_ne!(other.id, id);
        assert_eq!(held.names([id].into_iter()), [Some("a".into())]);
        let back = guest(&shared, "a");
        let also = shared.guests.hold();
        drop(guest(&shared, "c"));
        drop(also);
        assert!(is_remembered(&shared, "c"), "somebody else reads still");
        drop(held);
        assert!(!is_remembered(&shared, "c"));
        assert!(is_remembered(&shared, "a"), "somebody has it again");
        drop(back);
        assert!(!is_remembered(&shared, "a"));
    }

    // rule L10
    #[test]
    fn where_no_number_is_left_there_is_no_name() {
        let shared = shared();
        let guests = Guests::new(u32::MAX - 2);
        let [a, b] = ["a", "b"].map(|name| guests.find(&shared, name, true).unwrap());
        assert_ne!(a.id, b.id);
        assert!(guests.find(&shared, "c", true).is_none());
        assert_eq!(guests.find(&shared, "a", true).unwrap().id, a.id, "who has one keeps it");
    }

    // rule L10
    #[test]
    fn a_crowd_leaves_no_room_behind() {
        // How much room is left depends on where names lie, and that is chance.
        for _ in 0..40 {
            let shared = shared();
            let crowd: Vec<_> = (0..1_000).map(|n| guest(&shared, &n.to_string())).collect();
            assert!(shared.guests.lock().numbers.capacity() >= 1_000);
            let last = guest(&shared, "999");
            drop(crowd);
            let table = shared.guests.lock();
            assert!(table.numbers.capacity() <= KEPT && table.entries.capacity() <= KEPT);
            drop(table);
            drop(last);
        }
    }
}
