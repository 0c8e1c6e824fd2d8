//! What tickets cost in the units after requests, of which each costs 1.
//!
//! Owns: the costs by slot, and those of the newcomer that is being judged. Lacks the limits on them.

use super::Queue;
use crate::UnitId;
use crate::scope::Ask;

impl Queue {
    /// What a ticket asks of its scopes.
    #[inline(always)]
    pub(crate) fn ask(&self, index: u32) -> Ask<'_> {
        Ask::of(self, index)
    }

    /// The same for the newcomer that is being judged.
    #[inline(always)]
    pub(crate) fn ask_of_newcomer(&self) -> Ask<'_> {
        Ask::of_newcomer(self)
    }

    /// The same for somebody whom no log holds back.
    pub(crate) fn ask_no_log(&self) -> Ask<'_> {
        Ask::no_log(self)
    }

    /// Whether there are more units than requests.
    #[inline(always)]
    pub(crate) fn has_more_units(&self) -> bool {
        self.more_units > 0
    }

    /// How many units there are, requests included.
    pub(crate) fn units(&self) -> u16 {
        self.more_units as u16 + 1
    }

    /// Notes what a newcomer costs.
    pub(crate) fn judge_newcomer(&mut self, costs: &[(UnitId, u64)]) {
        self.newcomer_costs.fill(0);
        add_costs(&mut self.newcomer_costs, costs);
    }

    /// What the newcomer costs in a unit other than requests.
    pub(crate) fn newcomers_cost(&self, unit: UnitId) -> u64 {
        self.newcomer_costs[unit.index() - 1]
    }

    /// What a ticket costs in a unit other than requests.
    pub(crate) fn cost(&self, index: u32, unit: UnitId) -> u64 {
        self.costs[index as usize * self.more_units + unit.index() - 1]
    }

    #[inline(never)]
    pub(super) fn note_costs(&mut self, index: u32, costs: &[(UnitId, u64)]) {
        let first = index as usize * self.more_units;
        if self.costs.len() < first + self.more_units {
            self.costs.resize(first + self.more_units, 0);
        }
        let own = &mut self.costs[first..first + self.more_units];
        own.fill(0);
        add_costs(own, costs);
    }

    /// What a ticket costs in a unit turned out to be another (rule L8).
    pub(crate) fn correct_cost(&mut self, index: u32, unit: UnitId, cost: u64) {
        if let Some(place) = unit.index().checked_sub(1) {
            self.costs[index as usize * self.more_units + place] = cost;
        }
    }
}

/// Adds stated costs to those in the units after requests; what is stated in requests is not asked.
fn add_costs(own: &mut [u64], costs: &[(UnitId, u64)]) {
    for &(unit, cost) in costs {
        if let Some(place) = unit.index().checked_sub(1) {
            own[place] = own[place].saturating_add(cost);
        }
    }
}
