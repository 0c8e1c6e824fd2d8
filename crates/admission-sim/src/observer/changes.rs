//! Changes of the coordinator, as the observer notes them.
//!
//! Owns: what each change means for what was seen before. Those that may start somebody are noted before they
//! are made, and taken back if they are not made. Lacks checks.

use super::scope::{Phantom, Watch};
use super::{Name, Observer, Phase};
use crate::limits::LimitSpec;

impl Observer {
    pub(crate) fn cools_down(&mut self, name: usize, until: u64, now: u64) {
        self.bounds.clear();
        self.demand(name, now);
        self.names[name].not_before = self.names[name].not_before.max(until);
        self.disturb();
    }

    pub(crate) fn resets(&mut self, scope: Option<usize>) {
        self.bounds.clear();
        for record in self.calls.iter_mut().filter(|record| record.phase == Phase::Waiting) {
            match scope {
                None => record.is_exempt[0] = true,
                Some(name) if record.provider == name => record.is_exempt[1] = true,
                Some(_) => {}
            }
        }
        match scope {
            None => self.client.reset(),
            Some(name) => self.names[name].watch.reset(),
        }
    }

    /// Other limits; says how it was before.
    pub(crate) fn changes(&mut self, scope: Option<usize>, limits: &LimitSpec, now: u64) -> Undo {
        let undo = Undo { scope, client: self.client.clone(), names: self.names.clone() };
        self.bounds.clear();
        match scope {
            None => self.client.change(limits, now),
            Some(name) => {
                if !self.names[name].is_here && self.may_demand(name) {
                    // Made again for this, it has these limits at once: what is remembered of its name is not
                    // cut down to the template's first.
                    self.put(name, limits, now);
                    self.names[name].is_made = true;
                } else {
                    if self.names[name].is_made {
                        for at in self.names[name].watch.forget_over(now) {
                            self.phantoms.push(Phantom { at, provider: name, tokens: 0 });
                        }
                    }
                    self.names[name].watch.change(limits, now);
                }
            }
        }
        self.note_impossible();
        self.disturb();
        undo
    }

    pub(crate) fn undo(&mut self, undo: Undo) {
        match undo.scope {
            None => self.client = undo.client,
            Some(name) => self.names[name] = undo.names[name].clone(),
        }
    }

    pub(crate) fn is_here(&self, name: usize) -> bool {
        self.names[name].is_here
    }

    pub(crate) fn is_made(&self, name: usize) -> bool {
        self.names[name].is_made
    }

    pub(crate) fn may_demand(&self, name: usize) -> bool {
        self.names[name].is_here || (self.template.is_some() && self.closed.is_none())
    }

    pub(crate) fn adds(&mut self, name: usize, limits: &LimitSpec, now: u64) {
        self.bounds.clear();
        self.put(name, limits, now);
    }

    pub(crate) fn removes(&mut self, name: usize) {
        self.bounds.clear();
        self.names[name].is_here = false;
        for record in self.calls.iter_mut() {
            record.was_removed |= record.phase == Phase::Waiting && record.provider == name;
        }
    }

    /// A provider that the template made turned out to be forgotten.
    pub(crate) fn is_gone(&mut self, name: usize) {
        self.names[name].is_here = false;
    }

    pub(crate) fn settles(&mut self, call: usize, tokens: u64) {
        self.bounds.clear();
        self.excuse_granted();
        self.calls[call].tokens = tokens;
    }

    /// Logs have more in them than grants knew that are out, and no grant is taken back for that.
    pub(super) fn excuse_granted(&mut self) {
        let maybe: Vec<bool> = self.calls.iter().map(|record| self.may_be_granted(record)).collect();
        for (record, maybe) in self.calls.iter_mut().zip(maybe) {
            record.is_past_logs |= maybe;
        }
    }

    pub(crate) fn set_max_queued(&mut self, calls: u32) {
        self.max_queued = calls;
    }

    pub(crate) fn closes(&mut self, now: u64) {
        let seq = self.next();
        if self.closed.is_none() {
            self.closed = Some(seq);
            self.closed_at = Some(now);
            self.closed_in_wake = self.depth > 0;
        }
    }

    /// Grants are taken back, and may be given again to those who have no waker there.
    pub(crate) fn disturb(&mut self) {
        for record in &mut self.calls {
            record.disturbed |= record.phase == Phase::Waiting && (record.woken.is_some() || !record.polled);
        }
    }

    fn note_impossible(&mut self) {
        for record in &mut self.calls {
            record.was_impossible |= record.phase == Phase::Waiting
                && (self.client.is_impossible(record.tokens)
                    || self.names[record.provider].watch.is_impossible(record.tokens));
        }
    }
}

/// How the limits were before a change.
pub(crate) struct Undo {
    scope: Option<usize>,
    client: Watch,
    names: Vec<Name>,
}
