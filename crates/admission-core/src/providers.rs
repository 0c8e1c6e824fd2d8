//! The providers: which there are, which were removed and are still remembered, and which are at rest
//! and may be forgotten (rule L10).
//!
//! Those of the configuration lie at the places of their numbers for good; the others are found by
//! their number in a table, and their places are used again. Forgetting is done a few at a time, so
//! that no call pays for a crowd; whoever is to be forgotten is gone at once for all who ask. Lacks names, which the driver has, and
//! lacks all say in what a provider allows: that is its [`Scope`]'s.

use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::heap::Heap;
use crate::queue::hash;
use crate::scope::Scope;
use crate::{Instant, Limits, LimitsError};

/// So many vacant places are kept when nobody is left to have them. None under the audit, so that the
/// histories that it watches give up places all the time.
const KEPT_PLACES: usize = if cfg!(audit) { 0 } else { 64 };

#[derive(Clone, Debug)]
pub(crate) struct Providers {
    places: Vec<Provider>,
    /// How many the configuration has.
    configured: u32,
    /// The places of the others that there are, by their numbers.
    table: HashTable<u32>,
    /// Places that nobody has.
    free: Vec<u32>,
    pub(crate) template: Option<Limits>,
    /// Those at rest that are to be forgotten, by the instant from which nothing is left of them.
    resting: Heap,
    /// The latest instant at which it was looked who is gone.
    looked_at: Instant,
    /// How many times that was looked.
    looks: u64,
    /// What was looked at in scopes that are forgotten.
    #[cfg(steps)]
    forgotten_steps: u64,
}

#[derive(Clone, Debug)]
struct Provider {
    number: u32,
    standing: Standing,
    /// After how many looks it came to rest. It is not gone before the next.
    rested: u64,
    scope: Scope,
}

/// What a provider is to the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Here until it is removed.
    Kept,
    /// Made from the template, whose limits it still has: here until nothing is left of it.
    Made,
    /// Made from the template, and changed since.
    Changed,
    /// Not here, and remembered until nothing is left of it.
    Removed,
    /// Forgotten: the place is nobody's, or that of a number of the configuration's.
    Vacant,
}

impl Standing {
    pub(crate) fn is_here(self) -> bool {
        matches!(self, Self::Kept | Self::Made | Self::Changed)
    }

    /// Whether it is forgotten as soon as nothing is left of it.
    fn fades(self) -> bool {
        matches!(self, Self::Made | Self::Removed)
    }
}

impl Providers {
    pub(crate) fn try_new(scopes: Vec<Scope>, template: Option<Limits>) -> Self {
        let provider = |(number, scope)| Provider { number, standing: Standing::Kept, rested: 0, scope };
        let places: Vec<Provider> = (0..).zip(scopes).map(provider).collect();
        Self {
            configured: places.len() as u32,
            places,
            table: HashTable::new(),
            free: Vec::new(),
            template,
            resting: Heap::default(),
            looked_at: Instant::ZERO,
            looks: 0,
            #[cfg(steps)]
            forgotten_steps: 0,
        }
    }

    /// How many places there are, the vacant ones too.
    pub(crate) fn len(&self) -> u32 {
        self.places.len() as u32
    }

    /// The place of a provider that is here.
    pub(crate) fn find(&self, number: u32) -> Option<u32> {
        self.find_remembered(number).filter(|&place| self.standing(place).is_here())
    }

    /// The place of a provider that is here, or removed and remembered.
    pub(crate) fn find_remembered(&self, number: u32) -> Option<u32> {
        self.find_place(number).filter(|&place| !self.is_gone(place))
    }

    /// The place of a provider that is gone, and is still to be forgotten.
    pub(crate) fn find_gone(&self, number: u32) -> Option<u32> {
        self.find_place(number).filter(|&place| self.is_gone(place))
    }

    fn find_place(&self, number: u32) -> Option<u32> {
        let place = if number < self.configured {
            number
        } else {
            *self
                .table
                .find(hash(u64::from(number)), |&place| self.places[place as usize].number == number)?
        };
        (self.standing(place) != Standing::Vacant).then_some(place)
    }

    /// The fingerprint of the limits that a provider has, or would have if it were made now.
    pub(crate) fn fingerprint(&self, number: u32) -> Option<u64> {
        match self.find(number) {
            Some(place) => Some(self[place].fingerprint),
            None => self.template.as_ref().map(Limits::fingerprint),
        }
    }

    /// Whether nothing was left of a provider when that was last looked.
    fn is_gone(&self, place: u32) -> bool {
        let from = self.resting.key_of(place).map(Instant::from_nanos);
        from.is_some_and(|from| from <= self.looked_at) && self.places[place as usize].rested < self.looks
    }

    pub(crate) fn is_here(&self, place: u32) -> bool {
        self.standing(place).is_here() && !self.is_gone(place)
    }

    pub(crate) fn standing(&self, place: u32) -> Standing {
        self.places[place as usize].standing
    }

    pub(crate) fn set_standing(&mut self, place: u32, standing: Standing) {
        self.places[place as usize].standing = standing;
    }

    pub(crate) fn number(&self, place: u32) -> u32 {
        self.places[place as usize].number
    }

    /// A place for a provider that is not remembered; says whether it is one more than before.
    pub(crate) fn insert(
        &mut self,
        number: u32,
        standing: Standing,
        limits: &Limits,
        next_start: u64,
    ) -> Result<(u32, bool), LimitsError> {
        let scope = Scope::try_new(limits, next_start)?;
        let provider = Provider { number, standing, rested: self.looks, scope };
        if number < self.configured {
            self.places[number as usize] = provider;
            return Ok((number, false));
        }
        let (place, is_more) = match self.free.pop() {
            Some(place) => (place, false),
            None => (self.places.len() as u32, true),
        };
        if is_more {
            self.places.push(provider);
        } else {
            self.places[place as usize] = provider;
        }
        let places = &self.places;
        self.table.insert_unique(hash(u64::from(number)), place, |&place| {
            hash(u64::from(places[place as usize].number))
        });
        Ok((place, is_more))
    }

    /// Notes from when nothing will be left of a provider, if it is at rest: has no ticket.
    pub(crate) fn rest(&mut self, place: u32, has_tickets: bool) {
        let provider = &mut self.places[place as usize];
        provider.rested = self.looks;
        let from = provider.scope.empty_from();
        if has_tickets || !provider.standing.fades() || from == Instant::NEVER {
            self.resting.remove(place);
        } else {
            self.resting.set(place, from.as_nanos());
        }
    }

    /// From now on those at rest of which nothing is left are gone (rule L10).
    pub(crate) fn look(&mut self, now: Instant) {
        self.looked_at = now;
        self.looks += 1;
    }

    /// One of those that are gone. Right after a look only.
    pub(crate) fn next_gone(&self) -> Option<u32> {
        let (from, place) = self.resting.peek()?;
        (Instant::from_nanos(from) <= self.looked_at).then_some(place)
    }

    /// Forgets a provider that is gone: its number is free.
    pub(crate) fn forget(&mut self, place: u32) -> u32 {
        self.resting.remove(place);
        let provider = &mut self.places[place as usize];
        provider.standing = Standing::Vacant;
        #[cfg(steps)]
        {
            self.forgotten_steps += provider.scope.steps();
        }
        provider.scope = Scope::default();
        let number = provider.number;
        if number >= self.configured {
            let found = self.table.find_entry(hash(u64::from(number)), |&other| other == place);
            if let Ok(entry) = found {
                entry.remove();
            }
            self.free.push(place);
        }
        number
    }

    /// Whether the configuration's providers are the only ones that are remembered, and there are many
    /// places more than those.
    pub(crate) fn are_mostly_vacant(&self) -> bool {
        self.table.is_empty() && self.places.len() - self.configured as usize > KEPT_PLACES
    }

    /// Gives up all places but the configuration's; says how many those are.
    pub(crate) fn move_together(&mut self) -> u32 {
        self.places.truncate(self.configured as usize);
        self.places.shrink_to_fit();
        self.table = HashTable::new();
        self.free = Vec::new();
        self.resting.keep(self.configured);
        self.configured
    }

    #[cfg(steps)]
    pub(crate) fn steps(&self) -> u64 {
        let in_scopes = self.places.iter().map(|provider| provider.scope.steps()).sum::<u64>();
        self.resting.steps.total() + in_scopes + self.forgotten_steps
    }

    #[cfg(audit)]
    pub(crate) fn audit(&self, has_tickets: impl Fn(u32) -> bool) {
        self.resting.audit();
        for place in 0..self.len() {
            let provider = &self.places[place as usize];
            let from = provider.scope.empty_from();
            let is_resting = provider.standing.fades() && !has_tickets(place) && from != Instant::NEVER;
            let noted = self.resting.key_of(place);
            assert_eq!(noted, is_resting.then(|| from.as_nanos()), "rule L10: who is at rest");
            if provider.standing == Standing::Vacant {
                assert!(!has_tickets(place), "rule L10: a forgotten provider has no ticket");
            } else {
                assert_eq!(self.find_place(provider.number), Some(place), "a provider can be found");
                assert!(!self.is_gone(place) || !has_tickets(place), "rule L10: who is gone has no ticket");
            }
        }
    }
}

impl core::ops::Index<u32> for Providers {
    type Output = Scope;

    fn index(&self, place: u32) -> &Scope {
        &self.places[place as usize].scope
    }
}

impl core::ops::IndexMut<u32> for Providers {
    fn index_mut(&mut self, place: u32) -> &mut Scope {
        &mut self.places[place as usize].scope
    }
}
