//! What an alarm rings.
//!
//! Owns: the way from an alarm back to its coordinator. Lacks a strong reference, so that a timer
//! that is still set keeps no coordinator alive.

use std::fmt;
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use crate::shared::Shared;
use crate::unwind::quietly;

/// The coordinator's end of an [`Alarm`](crate::runtime::Alarm): rung when the alarm's time has
/// come.
///
/// A bell whose coordinator is gone, or whose alarm has been replaced, does nothing. All calls are
/// cheap, never panic, and may come from any thread, also from inside
/// [`arm`](crate::runtime::Alarm::arm). The alarm itself may be dropped inside a call, when that
/// was all that the coordinator was still there for: call with no lock held that the alarm's own
/// destructor takes.
#[derive(Clone)]
pub struct Bell {
    shared: Weak<Shared>,
    alarm: u64,
}

impl Bell {
    pub(crate) const fn new(shared: Weak<Shared>, alarm: u64) -> Self {
        Self { shared, alarm }
    }

    /// The alarm's time has come. The coordinator looks at its own clock, grants and expires what
    /// is due, and sets the alarm again if need be; ringing early or twice is harmless (rule T3).
    pub fn ring(&self) {
        if let Some(shared) = self.shared.upgrade() {
            // A waker that panics has its task to blame, not the timer that found it.
            quietly(|| {
                shared.turn(|state, now| {
                    state.alarms.rang(self.alarm);
                    state.core.handle_timeout(now);
                });
            });
            quietly(|| drop(shared));
        }
    }

    /// The alarm's runtime is gone, and its timers with it. Whoever counted on this alarm is woken,
    /// and books with the runtime that polls it next.
    pub fn lost(&self) {
        if let Some(shared) = self.shared.upgrade() {
            quietly(|| shared.turn(|state, _| state.alarms.lose(self.alarm)));
            quietly(|| drop(shared));
        }
    }

    /// A waker that rings: for an alarm that is itself a future, polled outside any task.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::new(Ringer(self.clone())))
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").field("alarm", &self.alarm).finish_non_exhaustive()
    }
}

struct Ringer(Bell);

impl Wake for Ringer {
    fn wake(self: Arc<Self>) {
        self.0.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.ring();
    }
}
