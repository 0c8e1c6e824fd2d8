//! The providers whose oldest ticket only time holds back, by the instant.
//!
//! An interval holds its provider's line for a moment after each start, so the one that was put in last is
//! mostly the next to leave. It is kept at hand, and the others in a [`Tournament`].

use alloc::collections::TryReserveError;

use crate::Instant;
use crate::tournament::Tournament;

#[derive(Clone, Debug)]
pub(crate) struct Timed {
    /// Who was put in last, while it is in; never, if it is not.
    last: u32,
    at: Instant,
    others: Tournament,
}

impl Timed {
    pub(crate) const fn new() -> Self {
        Self { last: 0, at: Instant::NEVER, others: Tournament::new() }
    }

    pub(crate) fn try_reserve(&mut self, providers: usize) -> Result<(), TryReserveError> {
        self.others.try_reserve(providers)
    }

    /// The first instant, or never.
    #[inline(always)]
    pub(crate) fn first_at(&self) -> Instant {
        self.at.min(Instant::from_nanos(self.others.least()))
    }

    /// Whether nobody is in.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.at == Instant::NEVER && self.others.least() == u64::MAX
    }

    /// Takes one out whose time has come.
    #[inline(always)]
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<u32> {
        // (Now is before never.)
        if self.at <= now {
            self.at = Instant::NEVER;
            return Some(self.last);
        }
        if self.others.least() <= now.as_nanos() { self.take_other() } else { None }
    }

    #[inline(never)]
    fn take_other(&mut self) -> Option<u32> {
        let first = self.others.first()?;
        self.others.remove(first);
        Some(first)
    }

    /// Puts a provider in, or moves it to another instant.
    #[inline(always)]
    pub(crate) fn set(&mut self, provider: u32, at: Instant) {
        if self.last != provider && !self.is_empty() {
            self.put_by(provider);
        }
        self.last = provider;
        self.at = at;
    }

    /// Whoever is at hand joins the others, of whom another is not one any more.
    #[inline(never)]
    fn put_by(&mut self, provider: u32) {
        if self.at < Instant::NEVER {
            self.others.set(self.last, self.at.as_nanos());
        }
        self.others.remove(provider);
    }

    /// Takes a provider out, if it is in.
    #[inline]
    pub(crate) fn remove(&mut self, provider: u32) {
        if self.last == provider && self.at < Instant::NEVER {
            self.at = Instant::NEVER;
        } else {
            self.others.remove(provider);
        }
    }

    /// A provider, if it is in, has another number from now on, which none has that is in.
    pub(crate) fn rename(&mut self, from: u32, to: u32) {
        if let Some(at) = self.at_of(from) {
            self.remove(from);
            self.set(to, at);
        }
    }

    /// No provider from this number on is in: there is no room for many more any more.
    pub(crate) fn shrink(&mut self, providers: usize, room: usize) {
        self.others.shrink(providers, room);
    }

    fn at_of(&self, provider: u32) -> Option<Instant> {
        if self.last == provider && self.at < Instant::NEVER {
            return Some(self.at);
        }
        self.others.key_of(provider).map(Instant::from_nanos)
    }

    #[cfg(steps)]
    pub(crate) fn steps(&self) -> u64 {
        self.others.steps.total()
    }

    #[cfg(audit)]
    pub(crate) fn audit(&self, provider: u32, at: Option<Instant>) {
        assert_eq!(self.at_of(provider), at, "the providers that time holds back");
        self.others.audit();
        if self.at < Instant::NEVER {
            assert_eq!(self.others.key_of(self.last), None, "timed: the last is in once");
        }
    }
}
