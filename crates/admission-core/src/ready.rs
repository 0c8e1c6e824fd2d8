//! The providers whose oldest ticket passes its provider, by that ticket's place in the order.
//!
//! A grant mostly fills the client, and often its provider too, which then is not ready any more and soon is again:
//! with an interval, as soon as the grant has started and its time is over. So who leaves as the client is full is
//! noted, and taken out of the [`Tournament`] when somebody else comes, or the first is asked for; if it is back
//! before that, it has moved in one walk.

use alloc::collections::TryReserveError;

use crate::tournament::Tournament;

/// No provider.
const NOBODY: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Ready {
    tournament: Tournament,
    /// Who is not in any more, though the tournament has it, or [`NOBODY`].
    leaving: u32,
}

impl Ready {
    pub(crate) const fn new() -> Self {
        Self { tournament: Tournament::new(), leaving: NOBODY }
    }

    pub(crate) fn try_reserve(&mut self, providers: usize) -> Result<(), TryReserveError> {
        self.tournament.try_reserve(providers)
    }

    /// Whether somebody may be in: if not, nobody is.
    #[inline(always)]
    pub(crate) fn may_have_any(&self) -> bool {
        self.tournament.least() < u64::MAX
    }

    /// The smallest key, or the largest number there is.
    pub(crate) fn least(&self) -> u64 {
        self.first().and_then(|first| self.tournament.key_of(first)).unwrap_or(u64::MAX)
    }

    /// Whose key is the smallest.
    pub(crate) fn first(&self) -> Option<u32> {
        if self.leaving == NOBODY {
            self.tournament.first()
        } else {
            self.tournament.first_beside(self.leaving)
        }
    }

    /// The same, for who is going to change it.
    #[inline(always)]
    pub(crate) fn take_note_of_first(&mut self) -> Option<u32> {
        if self.leaving != NOBODY {
            self.let_go();
        }
        self.tournament.first()
    }

    /// Puts a provider in, or moves it to another key.
    #[inline(always)]
    pub(crate) fn set(&mut self, provider: u32, key: u64) {
        if self.leaving != NOBODY {
            self.let_others_go(provider);
        }
        self.tournament.set(provider, key);
    }

    /// Moves the [first](Self::take_note_of_first), of which note was taken, to a larger key.
    #[inline(always)]
    pub(crate) fn move_first(&mut self, key: u64) {
        debug_assert!(self.leaving == NOBODY, "note was taken of another first");
        self.tournament.move_first(key);
    }

    /// Takes a provider out, if it is in.
    #[inline(always)]
    pub(crate) fn remove(&mut self, provider: u32) {
        if self.leaving != NOBODY {
            // (It may be the one that leaves.)
            self.let_go();
        }
        self.tournament.remove(provider);
    }

    /// Takes a provider out that is in, and may be back soon.
    #[inline(always)]
    pub(crate) fn leave(&mut self, provider: u32) {
        if self.leaving != NOBODY {
            self.let_go();
        }
        self.leaving = provider;
    }

    #[inline(never)]
    fn let_go(&mut self) {
        self.tournament.remove(self.leaving);
        self.leaving = NOBODY;
    }

    /// Whoever leaves has left, unless it is this one.
    #[inline(always)]
    fn let_others_go(&mut self, provider: u32) {
        if self.leaving != provider {
            self.let_go();
        }
        self.leaving = NOBODY;
    }

    /// A provider, if it is in, has another number from now on, which none has that is in.
    pub(crate) fn rename(&mut self, from: u32, to: u32) {
        self.let_others_go(NOBODY);
        self.tournament.rename(from, to);
    }

    /// No provider from this number on is in: there is no room for many more any more.
    pub(crate) fn shrink(&mut self, providers: usize, room: usize) {
        self.let_others_go(NOBODY);
        self.tournament.shrink(providers, room);
    }

    #[cfg(steps)]
    pub(crate) fn steps(&self) -> u64 {
        self.tournament.steps.total()
    }

    #[cfg(audit)]
    pub(crate) fn audit(&self, provider: u32, key: Option<u64>) {
        let its = self.tournament.key_of(provider).filter(|_| provider != self.leaving);
        assert_eq!(its, key, "the providers whose oldest passes its provider");
    }

    #[cfg(audit)]
    pub(crate) fn audit_order(&self) {
        self.tournament.audit();
        let mut settled = self.clone();
        let first = settled.take_note_of_first();
        let key = |first: Option<u32>| first.and_then(|first| settled.tournament.key_of(first));
        assert_eq!(key(self.first()), key(first), "ready: the first beside who leaves");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    #[test]
    fn who_leaves_is_not_in_and_may_be_back() {
        let mut ready = Ready::new();
        let mut model = BTreeMap::new();
        let mut seed = 5u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (provider, key) = ((seed >> 33) as u32 % 20, seed >> 40);
            match seed >> 61 {
                0 | 1 => {
                    ready.remove(provider);
                    model.remove(&provider);
                }
                2 | 3 if model.contains_key(&provider) => {
                    ready.leave(provider);
                    model.remove(&provider);
                }
                4 => {
                    ready.take_note_of_first();
                }
                5 if !model.contains_key(&(provider + 1)) => {
                    ready.rename(provider, provider + 1);
                    if let Some(key) = model.remove(&provider) {
                        model.insert(provider + 1, key);
                    }
                }
                _ => {
                    ready.set(provider, key);
                    model.insert(provider, key);
                }
            }
            let least = model.values().min().copied();
            assert_eq!(ready.least(), least.unwrap_or(u64::MAX));
            assert_eq!(ready.first().map(|first| model[&first]), least);
            assert!(ready.may_have_any() || model.is_empty());
        }
    }
}
