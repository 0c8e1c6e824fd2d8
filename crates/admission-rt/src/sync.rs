//! What this crate locks with: the standard library's primitives, or those of a model checker.
//!
//! Owns: the choice. `--cfg admission_loom` has every order of a few threads' steps tried, `--cfg admission_shuttle`
//! many random ones of more; both stop a thread wherever it takes a lock, looks whether something was set, or touches
//! a word beside the lock. Lacks anything of its own in a normal build.
//!
//! `Arc` and `Weak` are the standard library's in every build, since the checkers' cannot hold `dyn Clock`
//! (and loom has no `Weak`). Nothing is lost by that: a count is touched beside a lock or a set, where the
//! checkers stop, and never twice between two of those, so every order of counts is some order of stops.

pub(crate) use std::sync::{Arc, PoisonError, TryLockError, Weak};

#[cfg(not(any(admission_loom, admission_shuttle)))]
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};

#[cfg(not(any(admission_loom, admission_shuttle)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

#[cfg(all(admission_loom, not(admission_shuttle)))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
#[cfg(admission_shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

#[cfg(all(admission_loom, not(admission_shuttle)))]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(admission_shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

#[cfg(any(admission_loom, admission_shuttle))]
pub(crate) use once::OnceLock;

/// The checkers have no `OnceLock`: here is one that stops where the real one would look or set.
#[cfg(any(admission_loom, admission_shuttle))]
mod once {
    use super::{AtomicBool, Ordering};

    pub(crate) struct OnceLock<T> {
        is_set: AtomicBool,
        value: std::sync::OnceLock<T>,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self { is_set: AtomicBool::new(false), value: std::sync::OnceLock::new() }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
        }

        /// No stop is between the swap and the set, so they are one step, as in the real one.
        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            if self.is_set.swap(true, Ordering::AcqRel) { Err(value) } else { self.value.set(value) }
        }
    }
}
