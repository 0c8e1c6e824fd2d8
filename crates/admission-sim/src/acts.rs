//! What is done to the coordinator as a whole, and what wakers do inside `wake`.
//!
//! Owns: each such deed, told to the observer in the right order. Lacks the choice of deeds.

use std::time::Duration;

use admission_rt::{ChangeError, Limits};

use crate::caller::{Planned, Slot};
use crate::faults::Fault;
use crate::limits::LimitSpec;
use crate::observer::Phase;
use crate::plan::{CallSpec, How, NAMES, Reentry, Signal};
use crate::world::World;

impl World {
    pub(crate) fn reenter(&self, reentry: Reentry) {
        self.say(|| format!("in wake: {reentry:?}"));
        let find = |number: usize| self.numbers.borrow().get(&number).copied();
        match reentry {
            Reentry::Poll(who) => {
                if let Some(n) = find(who) {
                    self.note(Fault::PolledInWake);
                    self.poll(n);
                }
            }
            Reentry::TryAcquire(name) => {
                self.note(Fault::CalledInWake);
                let _ = self.call(CallSpec {
                    how: How::TryAcquire,
                    provider: name,
                    key: None,
                    is_text: false,
                    tokens: 0,
                    has_unknown_unit: false,
                    timeout: None,
                    signal: Signal::None,
                    takes: 0,
                    runtime: 0,
                    is_fickle: false,
                    is_prompt: true,
                });
            }
            Reentry::Drop(who) => {
                if let Some(n) = find(who) {
                    self.note(Fault::DroppedInWake);
                    self.drop_slot(n);
                }
            }
            Reentry::Abort(who) => {
                if let Some(n) = find(who) {
                    self.note(Fault::DroppedInWake);
                    self.abort(n);
                }
            }
            Reentry::Cooldown(name) => {
                self.note(Fault::ChangedInWake);
                self.cooldown(name, 5_000_000);
            }
            Reentry::SetMaxQueued(calls) => {
                self.note(Fault::ChangedInWake);
                self.set_max_queued(calls);
            }
            Reentry::Look => self.look(),
            Reentry::Close => {
                self.note(Fault::ClosedInWake);
                self.close();
            }
        }
    }

    pub(crate) fn cooldown(&self, name: usize, delay: u64) {
        let Some(admission) = self.admission() else { return };
        self.note(Fault::CooledDown);
        let now = self.now();
        let may = self.observer.borrow().may_demand(name);
        if may {
            self.observer.borrow_mut().cools_down(name, now.saturating_add(delay), now);
        }
        let kept = self.providers.borrow().get(name).cloned();
        let outcome = self.guarded(|| match kept {
            Some(provider) => provider.cooldown(Duration::from_nanos(delay)),
            None => admission.cooldown(&format!("p{name}"), Duration::from_nanos(delay)),
        });
        if outcome.is_some_and(|outcome| outcome.is_err()) && may && !self.may_be_forgotten(name) {
            self.violate("L10", format!("p{name} is unknown to a cooldown, and is there"));
        }
    }

    pub(crate) fn reset(&self, scope: Option<usize>) {
        let Some(admission) = self.admission() else { return };
        self.note(Fault::Reset);
        let Some(name) = scope else {
            self.observer.borrow_mut().resets(None);
            let _ = self.guarded(|| admission.reset());
            self.time_passed();
            return;
        };
        if !self.observer.borrow().is_here(name) {
            return;
        }
        let nested = self.observer.borrow().nested;
        self.observer.borrow_mut().resets(Some(name));
        let kept = self.providers.borrow().get(name).cloned();
        let provider = kept.or_else(|| admission.provider(&format!("p{name}")).ok());
        let outcome = provider.map(|provider| self.guarded(|| provider.reset()));
        if matches!(outcome, Some(Some(Err(_)))) {
            self.gone(name, "a reset", nested);
        }
    }

    pub(crate) fn set_limits(&self, scope: Option<usize>, limits: &LimitSpec) {
        let Some(admission) = self.admission() else { return };
        self.note(Fault::LimitsChanged);
        if scope.is_some_and(|name| !self.observer.borrow().may_demand(name)) {
            return;
        }
        let is_valid = limits.is_valid();
        let now = self.now();
        let undo = is_valid.then(|| self.observer.borrow_mut().changes(scope, limits, now));
        let outcome = match scope {
            None => self.guarded(|| admission.set_limits(|l| limits.build(l))),
            Some(name) => {
                let kept = self.providers.borrow().get(name).cloned();
                let provider = kept.or_else(|| admission.provider(&format!("p{name}")).ok());
                let Some(provider) = provider else { return };
                self.guarded(|| provider.set_limits(|l| limits.build(l)))
            }
        };
        match outcome {
            Some(Err(ChangeError::Limits(_))) if !is_valid => {}
            Some(Ok(())) if !is_valid => self.violate("L1", format!("limits are taken: {limits}")),
            Some(Err(error)) => {
                if let Some(undo) = undo {
                    self.observer.borrow_mut().undo(undo);
                }
                if !scope.is_some_and(|name| self.may_be_forgotten(name)) {
                    self.violate("L7", format!("limits are not changed: {error}"));
                }
            }
            _ => {}
        }
    }

    /// A closure that should say limits panics instead: nothing changes.
    pub(crate) fn closure_panics(&self, scope: Option<usize>) {
        let Some(admission) = self.admission() else { return };
        self.note(Fault::PanicInClosure);
        let closure = |_: Limits| -> Limits { Planned::Closure.panic() };
        let _ = self.guarded(|| match scope {
            None => admission.set_limits(closure),
            Some(name) => admission.add_provider(&format!("p{name}"), closure).map(drop),
        });
    }

    pub(crate) fn set_max_queued(&self, calls: u32) {
        let Some(admission) = self.admission() else { return };
        self.note(Fault::QueueChanged);
        self.observer.borrow_mut().set_max_queued(calls);
        let _ = self.guarded(|| admission.set_max_queued(calls));
        self.time_passed();
    }

    pub(crate) fn add(&self, name: usize, limits: &LimitSpec) {
        let Some(admission) = self.admission() else { return };
        if name >= NAMES || !limits.is_valid() {
            return;
        }
        // Who is due is woken by this already. Otherwise a waker might panic in the call itself, and take along
        // the answer whether a provider was there that the template had made.
        self.look();
        let (was_here, now) = (self.observer.borrow().is_here(name), self.now());
        let outcome = self.guarded(|| admission.add_provider(&format!("p{name}"), |l| limits.build(l)));
        match outcome {
            Some(Err(ChangeError::ProviderExists { .. })) => {
                if !was_here {
                    self.violate("L10", format!("p{name} is said to be there, and was removed"));
                }
            }
            Some(Err(error)) => self.violate("L10", format!("p{name} is not added: {error}")),
            outcome => {
                if was_here && !self.may_be_forgotten(name) {
                    if outcome.is_some() {
                        self.violate("L10", format!("p{name} is added, and is there"));
                    }
                    return;
                }
                self.note(Fault::ProviderAdded);
                self.observer.borrow_mut().adds(name, limits, now);
            }
        }
    }

    pub(crate) fn remove(&self, name: usize) {
        let Some(admission) = self.admission() else { return };
        if !self.observer.borrow().is_here(name) {
            return;
        }
        self.note(Fault::ProviderRemoved);
        let nested = self.observer.borrow().nested;
        self.observer.borrow_mut().removes(name);
        let outcome = self.guarded(|| admission.remove_provider(&format!("p{name}")));
        if matches!(outcome, Some(Err(_))) {
            self.gone(name, "a removal", nested);
        }
    }

    /// The coordinator says that a provider is not there, or was not: a waker that was woken since `nested` may
    /// have called it, and so made it again.
    fn gone(&self, name: usize, to_whom: &str, nested: u64) {
        if self.may_be_forgotten(name) {
            if self.observer.borrow().nested == nested {
                self.observer.borrow_mut().is_gone(name);
            }
        } else {
            self.violate("L10", format!("p{name} is unknown to {to_whom}, and is there"));
        }
    }

    /// Whether a provider is one of those that the template made, which go when nothing is left of them.
    fn may_be_forgotten(&self, name: usize) -> bool {
        self.observer.borrow().is_made(name)
    }

    pub(crate) fn close(&self) {
        let Some(admission) = self.admission() else { return };
        self.observer.borrow_mut().closes(self.now());
        let _ = self.guarded(|| admission.close());
        self.time_passed();
    }

    pub(crate) fn look(&self) {
        let Some(admission) = self.admission() else { return };
        let _ = self.guarded(|| admission.counts());
        self.time_passed();
        let _ = self.guarded(|| admission.snapshot().to_string());
    }

    pub(crate) fn settle(&self, n: usize, tokens: u64) {
        let caller = self.caller(n);
        let slot = caller.take();
        if matches!(slot, Slot::Busy) {
            return;
        }
        if let Slot::Permit(permit) = &slot {
            self.note(Fault::Settled);
            self.observer.borrow_mut().settles(n, tokens);
            let _ = self.guarded(|| permit.settle(crate::limits::TOKENS, tokens));
        }
        caller.put(slot);
    }

    pub(crate) fn forget(&self, n: usize) {
        let caller = self.caller(n);
        let slot = caller.take();
        match slot {
            Slot::Busy => return,
            Slot::Nothing => return caller.put(slot),
            _ => {}
        }
        caller.put(Slot::Nothing);
        std::mem::forget(slot);
        match self.phase(n) {
            Phase::Waiting => self.note(Fault::LeakedWaiting),
            Phase::Running => self.note(Fault::LeakedPermit),
            Phase::New | Phase::Over => {
                let now = self.now();
                self.observer.borrow_mut().dropped(n, now);
            }
        }
        self.observer.borrow_mut().leaked(n);
    }
}
