//! Which provider is where, which is made when it is asked for, and which is forgotten (rule L10).
//!
//! Owns: the way from a number or a scope to its place, and the end of a provider of which nothing is
//! left. Lacks the changes of providers that are asked for, which are in `living`.

use super::living::ChangeError;
use super::{Coordinator, RESERVED_EVENTS};
use crate::providers::Standing;
use crate::scope::Scope;
use crate::{Event, Instant, ProviderId, ScopeId};

/// Providers that one call forgets at most: more than one makes, so that the gone never pile up.
const FORGOTTEN_PER_CALL: usize = 4;
/// So many places of providers are kept that nobody has. One under the audit, so that the histories that
/// it watches give up places all the time.
const KEPT_PLACES: usize = if cfg!(audit) { 1 } else { 64 };

impl Coordinator {
    /// The place of a provider that is here.
    #[inline(always)]
    pub(super) fn find(&self, provider: ProviderId) -> Option<u32> {
        self.queue.place_of(provider.0).filter(|&place| self.providers.is_here(place))
    }

    /// The place of a provider that is here, or removed and remembered.
    pub(super) fn find_remembered(&self, provider: ProviderId) -> Option<u32> {
        self.queue.place_of(provider.0).filter(|&place| self.providers.is_remembered(place))
    }

    /// The number of the provider at a place; none for the client.
    pub(super) fn number_of(&self, place: Option<u32>) -> Option<u32> {
        place.map(|place| self.providers.number(place))
    }

    /// The place of a provider that is here, or nothing for the client.
    pub(super) fn find_scope(&self, scope: ScopeId) -> Result<Option<u32>, ChangeError> {
        match scope {
            ScopeId::Client => Ok(None),
            ScopeId::Provider(provider) => self.find(provider).map(Some).ok_or(ChangeError::UnknownProvider),
        }
    }

    pub(super) fn scope(&self, place: Option<u32>) -> &Scope {
        place.map_or(&self.client, |place| &self.providers[place])
    }

    pub(super) fn scope_mut(&mut self, place: Option<u32>) -> &mut Scope {
        match place {
            None => &mut self.client,
            Some(place) => &mut self.providers[place],
        }
    }

    pub(super) fn units(&self) -> u16 {
        self.queue.units()
    }

    /// Whether a provider is here, or can be made (rule L10).
    pub(super) fn can_have(&self, provider: ProviderId) -> bool {
        let can_make = self.providers.template.is_some() && !self.is_closed;
        can_make || self.find(provider).is_some()
    }

    /// The place of a provider that is here, made from the template if need be (rule L10).
    #[inline(always)]
    pub(super) fn find_or_make(&mut self, provider: ProviderId, now: Instant) -> Result<u32, ChangeError> {
        match self.find(provider) {
            Some(place) => Ok(place),
            None => self.make(provider, now),
        }
    }

    /// A provider that is not here is made from the template, if there is one (rule L10).
    #[inline(never)]
    pub(super) fn make(&mut self, provider: ProviderId, now: Instant) -> Result<u32, ChangeError> {
        if self.is_closed {
            return Err(ChangeError::UnknownProvider);
        }
        let template = self.providers.template.take();
        let Some(limits) = template else { return Err(ChangeError::UnknownProvider) };
        let made = self.put_provider(provider, Standing::Made, &limits, now);
        self.providers.template = Some(limits);
        self.judge_changed(now);
        made
    }

    /// Forgets providers that are gone, some at a time.
    #[cold]
    pub(super) fn forget_some(&mut self) {
        for _ in 0..FORGOTTEN_PER_CALL {
            let Some(place) = self.providers.next_gone() else { break };
            self.forget(place);
        }
    }

    /// Nothing is left of a provider, and the last one takes its place.
    pub(super) fn forget(&mut self, place: u32) {
        self.events.push(Event::Forgotten(ProviderId(self.providers.number(place))));
        self.providers.forget(place);
        self.timed.remove(place);
        self.ready.remove(place);
        if self.providers.is_configured(place) {
            return;
        }
        self.queue.remove_provider(place);
        let last = self.providers.len();
        self.timed.rename(last, place);
        self.ready.rename(last, place);
        // After a crowd of providers is gone, the room for it goes too: half of it for a quarter, so that
        // who comes and goes does not ask for it again and again.
        let len = last as usize;
        if self.queue.vacant_places() > KEPT_PLACES.max(len * 3) {
            let room = KEPT_PLACES.max(len * 2);
            self.providers.shrink(room);
            self.queue.shrink(room);
            self.timed.shrink(len, room);
            self.ready.shrink(len, room);
            self.events.shrink_to(RESERVED_EVENTS as usize);
        }
    }
}
