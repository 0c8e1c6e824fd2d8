//! Foreign code that panics: a wake, an alarm.
//!
//! Owns: the one place where panics are caught, so that one waker's panic does not cost the others
//! their wakes. Lacks any use for the panics of operations, which pass through untouched.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The first panic that was caught, to be resumed when everybody has been served.
#[must_use = "a caught panic is resumed or swallowed"]
pub(crate) struct Unwind(Option<Box<dyn Any + Send>>);

impl Unwind {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Runs foreign code; `None` if it panicked.
    pub(crate) fn catch<T>(&mut self, foreign: impl FnOnce() -> T) -> Option<T> {
        // What the foreign code leaves half done is its own; ours is not borrowed into it.
        match catch_unwind(AssertUnwindSafe(foreign)) {
            Ok(value) => Some(value),
            Err(panic) => {
                if self.0.is_none() {
                    self.0 = Some(panic);
                } else {
                    bury(panic);
                }
                None
            }
        }
    }

    /// Whether there was a panic.
    pub(crate) const fn has_caught(&self) -> bool {
        self.0.is_some()
    }

    /// Goes on with the panic, unless this thread is unwinding already: two would abort.
    #[inline]
    pub(crate) fn resume(self) {
        if let Some(panic) = self.0 {
            go_on(panic);
        }
    }

    /// Whether [`resume`](Self::resume) will not come back.
    pub(crate) fn will_resume(&self) -> bool {
        self.0.is_some() && !std::thread::panicking()
    }

    /// Forgets the panic, for callers that must not unwind.
    #[inline]
    pub(crate) fn swallow(self) {
        if let Some(panic) = self.0 {
            bury(panic);
        }
    }
}

/// Runs code that must not unwind: a destructor's, an alarm's.
pub(crate) fn quietly(act: impl FnOnce()) {
    let mut unwind = Unwind::new();
    unwind.catch(act);
    unwind.swallow();
}

/// Runs foreign code; `None` if it panicked.
pub(crate) fn caught<A>(foreign: impl FnOnce() -> A) -> Option<A> {
    let mut unwind = Unwind::new();
    let answer = unwind.catch(foreign);
    unwind.swallow();
    answer
}

/// Polls what takes a turn of the coordinator, for tasks that nobody could blame. A panic there is that of
/// a waker whom the turn has woken: a stranger's. The turn was taken all the same, and what it came to is
/// told by another.
pub(crate) fn undisturbed<A>(mut poll: impl FnMut() -> A) -> A {
    caught(&mut poll).unwrap_or_else(poll)
}

/// What is perhaps there, and of whose destructor no panic gets out.
pub(crate) struct Quiet<T>(pub(crate) Option<T>);

impl<T> Drop for Quiet<T> {
    fn drop(&mut self) {
        quietly(|| drop(self.0.take()));
    }
}

#[cold]
fn go_on(panic: Box<dyn Any + Send>) {
    if std::thread::panicking() {
        bury(panic);
    } else {
        resume_unwind(panic);
    }
}

/// A panic's payload is foreign too: its destructor may panic in turn.
#[cold]
pub(crate) fn bury(panic: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(move || drop(panic))) {
        std::mem::forget(second);
    }
}
