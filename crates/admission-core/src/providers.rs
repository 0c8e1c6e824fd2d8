//! The providers: which there are, which were removed and are still remembered, and which are at rest
//! and may be forgotten (rule L10).
//!
//! Each has a place. Those of the configuration keep theirs, which is their number; when one of the
//! others is forgotten the last one takes its place, so that after a crowd is gone nothing is left of
//! it, whoever stays. Forgetting is done a few at a time, so that no call pays for a crowd; whoever is
//! to be forgotten is gone at once for all who ask. Lacks names, which the driver has, the places
//! themselves, which are the [`Queue`](crate::queue::Queue)'s to find, and all say in what a provider
//! allows: that is its [`Scope`]'s.

use alloc::vec::Vec;

use crate::heap::Heap;
use crate::scope::Scope;
use crate::{Instant, Limits, LimitsError};

#[derive(Clone, Debug)]
pub(crate) struct Providers {
    places: Vec<Provider>,
    /// How many the configuration has.
    configured: u32,
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
    /// Forgotten: the place of a number of the configuration's.
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
            template,
            resting: Heap::new(),
            looked_at: Instant::ZERO,
            looks: 0,
            #[cfg(steps)]
            forgotten_steps: 0,
        }
    }

    /// How many places there are.
    pub(crate) fn len(&self) -> u32 {
        self.places.len() as u32
    }

    /// Whether nothing was left of a provider when that was last looked.
    pub(crate) fn is_gone(&self, place: u32) -> bool {
        let from = self.resting.key_of(place).map(Instant::from_nanos);
        from.is_some_and(|from| from <= self.looked_at) && self.places[place as usize].rested < self.looks
    }

    /// Whether a provider is here, or was removed and is remembered.
    pub(crate) fn is_remembered(&self, place: u32) -> bool {
        self.standing(place) != Standing::Vacant && !self.is_gone(place)
    }

    /// Whether it is the place of a number of the configuration's.
    pub(crate) fn is_configured(&self, place: u32) -> bool {
        place < self.configured
    }

    pub(crate) fn is_here(&self, place: u32) -> bool {
        match self.standing(place) {
            // It is never at rest.
            Standing::Kept => true,
            standing => standing.is_here() && !self.is_gone(place),
        }
    }

    /// The scope in a place.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut Scope> {
        self.places.get_mut(place as usize).map(|provider| &mut provider.scope)
    }

    /// The scope of a provider of the configuration, whatever it is to the coordinator now.
    #[inline(always)]
    pub(crate) fn configured_mut(&mut self, number: u32) -> Option<&mut Scope> {
        let provider = self.places.get_mut(number as usize).filter(|_| number < self.configured)?;
        Some(&mut provider.scope)
    }

    /// The scope of a provider of the configuration that is here, and was never removed.
    #[inline(always)]
    pub(crate) fn kept_mut(&mut self, number: u32) -> Option<&mut Scope> {
        let provider = self.places.get_mut(number as usize).filter(|_| number < self.configured)?;
        (provider.standing == Standing::Kept).then_some(&mut provider.scope)
    }

    /// Whether that is so.
    #[inline(always)]
    pub(crate) fn is_kept(&self, number: u32) -> bool {
        let provider = self.places.get(number as usize).filter(|_| number < self.configured);
        provider.is_some_and(|provider| provider.standing == Standing::Kept)
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

    /// A provider that is not remembered comes, at the place of its number in the configuration, or at
    /// the next.
    pub(crate) fn insert(
        &mut self,
        number: u32,
        standing: Standing,
        limits: &Limits,
        next_start: u64,
    ) -> Result<u32, LimitsError> {
        let scope = Scope::try_new(limits, next_start)?;
        let provider = Provider { number, standing, rested: self.looks, scope };
        if self.is_configured(number) {
            self.places[number as usize] = provider;
            return Ok(number);
        }
        self.places.push(provider);
        Ok(self.len() - 1)
    }

    /// Notes from when nothing will be left of a provider, if it is at rest: has no ticket. Says
    /// whether it is one that is forgotten some day.
    pub(crate) fn rest(&mut self, place: u32, has_tickets: bool) -> bool {
        let provider = &mut self.places[place as usize];
        provider.rested = self.looks;
        let from = provider.scope.empty_from();
        if has_tickets || !provider.standing.fades() || from == Instant::NEVER {
            self.resting.remove(place);
        } else {
            self.resting.set(place, from.as_nanos());
        }
        self.places[place as usize].standing.fades()
    }

    /// The first instant from which nothing is left of one that is at rest, or never.
    #[inline(always)]
    pub(crate) fn first_rested(&self) -> Instant {
        Instant::from_nanos(self.resting.least())
    }

    /// From now on those at rest of which nothing is left are gone (rule L10). Called as soon as there
    /// is one.
    pub(crate) fn look(&mut self, now: Instant) {
        self.looked_at = now;
        self.looks += 1;
    }

    /// One of those that are gone. Right after a look only.
    pub(crate) fn next_gone(&self) -> Option<u32> {
        let (from, place) = self.resting.peek()?;
        (Instant::from_nanos(from) <= self.looked_at).then_some(place)
    }

    /// Forgets a provider that is gone: its number is free. Unless it is the configuration's, its place is
    /// the last one's from now on.
    pub(crate) fn forget(&mut self, place: u32) {
        self.resting.remove(place);
        #[cfg(steps)]
        {
            self.forgotten_steps += self[place].steps();
        }
        if self.is_configured(place) {
            let provider = &mut self.places[place as usize];
            provider.standing = Standing::Vacant;
            provider.scope = Scope::default();
        } else {
            self.places.swap_remove(place as usize);
            self.resting.rename(self.len(), place);
        }
    }

    /// There is room for so many from now on, and no more.
    pub(crate) fn shrink(&mut self, room: usize) {
        self.places.shrink_to(room);
        self.resting.shrink(self.places.len(), room);
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
