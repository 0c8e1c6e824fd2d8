//! The lines of the providers, by place, and which of them are to be judged anew.
//!
//! Owns: where a provider's line is, how many stand in it, and what was last said of its oldest ticket.
//! Lacks the line itself, which is [`Line`]'s, and any judgement: it lists whose line changed.

use super::line::Line;
use super::{Queue, hash};

/// The line of one provider.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    /// The provider's number.
    pub(super) provider: u32,
    pub(super) line: Line,
    /// How many wait at all, those parked and passed over included.
    pub(super) queued: u32,
    /// How many of those do not stand in the line, or are exempt from a log.
    pub(super) unmetered: u32,
    pub(super) is_changed: bool,
    /// Whether it is of interest though nobody stands in its line: it is forgotten some day, or its
    /// standing has changed.
    pub(super) is_fleeting: bool,
    /// What was last said of its oldest ticket.
    pub(super) rank: Rank,
}

/// What is known of a provider that is to be judged.
pub(crate) struct Front {
    /// Its oldest ticket, or [`NIL`].
    pub(crate) index: u32,
    /// What was last said of it.
    pub(crate) rank: Rank,
    /// Whether it is of interest though nobody waits there.
    pub(crate) is_fleeting: bool,
}

/// How those who judge have sorted a provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rank {
    /// Its oldest ticket waits for somebody else, or there is none.
    Held,
    /// Its oldest ticket passes its provider.
    Ready,
    /// Only time holds its oldest ticket back.
    Timed,
}

impl Lane {
    pub(super) const fn new(provider: u32) -> Self {
        Self {
            provider,
            line: Line::new(),
            queued: 0,
            unmetered: 0,
            is_changed: false,
            is_fleeting: true,
            rank: Rank::Held,
        }
    }

    #[inline(always)]
    pub(super) fn front(&self) -> Front {
        Front { index: self.line.first(), rank: self.rank, is_fleeting: self.is_fleeting }
    }
}

impl Queue {
    /// The oldest ticket that only limits can hold back at a provider, or [`NIL`].
    pub(crate) fn front(&self, provider: u32) -> u32 {
        self.lanes[provider as usize].line.first()
    }

    /// How many wait at a provider.
    pub(crate) fn queued_at(&self, provider: u32) -> u32 {
        self.lanes[provider as usize].queued
    }

    /// The place of the provider with this number, if it has one.
    #[inline(always)]
    pub(crate) fn place_of(&self, provider: u32) -> Option<u32> {
        if provider < self.configured {
            return Some(provider);
        }
        self.place_of_other(provider)
    }

    /// The same for a provider that the configuration does not have.
    #[inline(never)]
    fn place_of_other(&self, provider: u32) -> Option<u32> {
        let is_its = |&place: &u32| self.lanes[place as usize].provider == provider;
        self.places.find(hash(u64::from(provider)), is_its).copied()
    }

    /// The place of the provider of a ticket that has not ended.
    #[inline(always)]
    pub(crate) fn place(&self, index: u32) -> u32 {
        self.place_with_ticket(self.slab[index].provider)
    }

    /// The place of a provider that has a ticket which has not ended.
    #[inline(always)]
    pub(crate) fn place_with_ticket(&self, provider: u32) -> u32 {
        self.place_of(provider).expect("a provider with a ticket has a place")
    }

    pub(super) fn lane(&mut self, index: u32) -> &mut Lane {
        let place = self.place(index);
        &mut self.lanes[place as usize]
    }

    /// Makes a line for one more provider, in the next place.
    pub(crate) fn add_provider(&mut self, provider: u32) {
        let place = self.lanes.len() as u32;
        self.lanes.push(Lane::new(provider));
        let lanes = &self.lanes;
        self.places.insert_unique(hash(u64::from(provider)), place, |&place| hash_of(lanes, place));
    }

    /// A provider that is not the configuration's, and has no ticket, goes: the last one takes its place. None is
    /// to be judged anew: whoever changed was judged in this call before.
    pub(crate) fn remove_provider(&mut self, place: u32) {
        debug_assert!(!self.has_changed(), "a provider that is forgotten in the midst of a call");
        let last = self.lanes.len() as u32 - 1;
        if let Ok(entry) = self.places.find_entry(hash_of(&self.lanes, place), |&other| other == place) {
            entry.remove();
        }
        let hash_of_last = hash_of(&self.lanes, last);
        if let Some(moved) = self.places.find_mut(hash_of_last, |&other| other == last) {
            *moved = place;
        }
        self.lanes.swap_remove(place as usize);
    }

    /// How many providers there is room for in places that nobody has.
    pub(crate) fn vacant_places(&self) -> usize {
        self.lanes.capacity() - self.lanes.len()
    }

    /// There is room for so many providers from now on, and no more.
    pub(crate) fn shrink(&mut self, room: usize) {
        self.lanes.shrink_to(room);
        self.changed.shrink_to(room);
        let lanes = &self.lanes;
        self.places.shrink_to(room, |&place| hash_of(lanes, place));
    }

    /// How many in a provider's line its logs are asked about (rule R2).
    pub(crate) fn metered_in_line(&self, provider: u32) -> u32 {
        let lane = &self.lanes[provider as usize];
        lane.queued - lane.unmetered
    }

    /// A provider must be judged anew: its line or its limits changed. Where nobody waits, and nobody
    /// did when it was last judged, there is nothing to judge.
    #[inline(always)]
    pub(crate) fn mark_changed(&mut self, provider: u32) {
        let lane = &mut self.lanes[provider as usize];
        let is_plain = lane.rank == Rank::Held && !lane.is_fleeting && lane.line.is_empty();
        if !(is_plain || lane.is_changed) {
            self.mark(provider);
        }
    }

    #[inline(never)]
    fn mark(&mut self, provider: u32) {
        self.lanes[provider as usize].is_changed = true;
        self.changed.push(provider);
    }

    /// The same where nobody stands in line.
    #[inline(always)]
    pub(crate) fn mark_if_fleeting(&mut self, provider: u32) {
        if self.lanes[provider as usize].is_fleeting {
            self.mark_changed(provider);
        }
    }

    /// The same after a change of its standing.
    pub(crate) fn mark_fleeting(&mut self, provider: u32) {
        self.lanes[provider as usize].is_fleeting = true;
        self.mark_changed(provider);
    }

    #[inline]
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    #[inline(always)]
    pub(crate) fn next_changed(&mut self) -> Option<u32> {
        let place = self.changed.pop()?;
        self.lanes[place as usize].is_changed = false;
        Some(place)
    }

    #[inline(always)]
    pub(crate) fn front_of(&self, place: u32) -> Front {
        self.lanes[place as usize].front()
    }

    /// Whether a provider is to be judged after something that can only let a ticket go: not one that lets
    /// its oldest go as before, nor one where nobody waits.
    #[inline(always)]
    pub(crate) fn is_of_interest(&self, place: u32) -> bool {
        let lane = &self.lanes[place as usize];
        lane.rank != Rank::Ready && (lane.is_fleeting || !lane.line.is_empty())
    }

    /// Notes what is said of a provider's oldest ticket.
    #[inline(always)]
    pub(crate) fn note_rank(&mut self, provider: u32, rank: Rank) {
        self.lanes[provider as usize].rank = rank;
    }

    pub(crate) fn note_fleeting(&mut self, provider: u32, is_fleeting: bool) {
        self.lanes[provider as usize].is_fleeting = is_fleeting;
    }

    #[cfg(audit)]
    pub(crate) fn rank(&self, provider: u32) -> Rank {
        self.lanes[provider as usize].rank
    }

    /// One more waits, who does not stand in line yet.
    #[inline]
    pub(super) fn count_in(&mut self, place: u32) {
        self.queued += 1;
        self.lanes[place as usize].queued += 1;
        self.lanes[place as usize].unmetered += 1;
        if self.lanes[place as usize].queued == 1 {
            // It is not at rest any more.
            self.mark_changed(place);
        }
    }

    /// One less waits, who does not stand in line any more.
    #[inline]
    pub(super) fn count_out(&mut self, place: u32) {
        self.queued -= 1;
        self.lanes[place as usize].queued -= 1;
        self.lanes[place as usize].unmetered -= 1;
        if self.lanes[place as usize].queued == 0 {
            // It may be at rest now.
            self.mark_changed(place);
        }
    }
}

fn hash_of(lanes: &[Lane], place: u32) -> u64 {
    hash(u64::from(lanes[place as usize].provider))
}
