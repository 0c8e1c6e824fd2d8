//! What a call will most likely meet, read without the lock.
//!
//! Owns: one word of guesses, written in turns when they change: who writes has the lock, or one guess would undo
//! another, and the next turn that looks may be long in coming. Lacks any say: nothing is decided by a guess but which
//! way is tried first and what is made ready beforehand. One that is wrong costs a turn, or a waker cloned for nothing.

use crate::shared::State;
use crate::sync::AtomicU8;
use crate::sync::Ordering::Relaxed;

/// The guesses. None of them: a call that comes now will most likely start, and that will be nothing to anybody else.
pub(crate) struct Guess(AtomicU8);

/// Calls waited when it was last looked.
const QUEUE: u8 = 1;
/// The last call that did not have to wait was refused.
const REFUSAL: u8 = 1 << 1;
/// Somebody waited for something that no ticket is about, and wants to hear of every turn.
const WATCHED: u8 = 1 << 2;

impl Guess {
    pub(crate) fn new(state: &State) -> Self {
        Self(AtomicU8::new(seen(state)))
    }

    /// Whether a call will most likely start at once, and nobody is to hear of it.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// Whether a call will most likely have to wait.
    #[inline]
    pub(crate) fn is_queue(&self) -> bool {
        self.0.load(Relaxed) & QUEUE != 0
    }

    /// A call was refused in this turn, or it has started.
    #[inline]
    pub(crate) fn note_refusal(&self, _state: &State, is_refused: bool) {
        self.note(REFUSAL, if is_refused { REFUSAL } else { 0 });
    }

    /// For who has the lock.
    #[inline]
    fn note(&self, bits: u8, are: u8) {
        let old = self.0.load(Relaxed);
        let new = old & !bits | are;
        // Others read it all the time, so it is written only when it changes.
        if new != old {
            self.0.store(new, Relaxed);
        }
    }

    /// What there is to see in the state at the end of a turn.
    #[inline]
    pub(crate) fn note_state(&self, state: &State) {
        self.note(QUEUE | WATCHED, seen(state));
    }
}

#[inline]
fn seen(state: &State) -> u8 {
    let bit = |is: bool, bit: u8| if is { bit } else { 0 };
    bit(state.core.counts().queued > 0, QUEUE) | bit(state.attention.is_watched(), WATCHED)
}
