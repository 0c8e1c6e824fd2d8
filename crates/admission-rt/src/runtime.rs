//! What a runtime must bring: an alarm, and a way to say which runtime is running the caller.
//!
//! Owns: the contract between the coordinator and a runtime. Lacks, on purpose: `sleep` and
//! `block_on`. Futures own no timer; the shared state holds one alarm per runtime that has callers
//! waiting, and decides by its own clock what an alarm only wakes it for (rule T3). Where a runtime's
//! sleep can be polled anywhere, [`SleepAlarm`] makes an alarm of it; where its reactor watches files, `TimerFd` is a
//! timer that is one.

use std::any::TypeId;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use admission_core::Instant;

pub use crate::bell::Bell;
pub use crate::clock::SystemClock;
pub use crate::sleep_alarm::SleepAlarm;
#[cfg(all(feature = "timerfd", any(target_os = "linux", target_os = "android")))]
pub use crate::timer_fd::TimerFd;

/// Where a coordinator's time comes from. It is chosen when the coordinator is built (rule T5).
///
/// `now` is called while the coordinator is locked, so that no stamp is older than the decision it
/// belongs to: it must be quick, must not block, must not panic, and must not call the coordinator.
pub trait Clock: Send + Sync + 'static {
    /// The monotonic time since an origin of the clock's own.
    fn now(&self) -> Instant;

    /// The wall clock, for stamps that people read. Nothing is decided by it (rule T4).
    fn wall(&self) -> SystemTime;
}

/// A runtime, by type. Nothing is stored of it: the type only says where alarms come from.
///
/// An adapter promises:
///
/// 1. `current` is cheap, does not panic, and names the runtime that polls the caller, or nothing
///    where there is none.
/// 2. An alarm that was armed with `Some(delay)` rings its [`Bell`] once, when the delay is over or
///    soon after, whether or not any future of the coordinator is polled. Early is harmless.
/// 3. Arming again replaces what was armed; `None` disarms, and an idle alarm costs no timer.
/// 4. No delay is too long: what the host's timer cannot hold is waited for in pieces.
/// 5. An alarm whose runtime goes away says so with [`Bell::lost`], from wherever it is dropped,
///    and answers every later `arm` with [`Dead`].
/// 6. `arm` does not panic, and may ring the bell from inside.
pub trait Runtime: Send + Sync + 'static {
    /// The runtime's alarm.
    type Alarm: Alarm;

    /// The clock of a coordinator that is built for this runtime and not given another.
    fn clock() -> Arc<dyn Clock>;

    /// The runtime that is running the caller, if there is one.
    fn current() -> Option<RuntimeId>;

    /// An alarm in the runtime that is running the caller. Called only where [`current`] has just
    /// named one; should that be gone all the same, an alarm that is [`Dead`] will do.
    ///
    /// [`current`]: Runtime::current
    fn alarm(bell: Bell) -> Self::Alarm;
}

/// A runtime that can run a future on its own: for what goes on when nobody polls it, such as the
/// physical call of a query, which keeps its slots until it is really finished (rule Q6). Waiting,
/// running and pacing need none of it.
///
/// An adapter promises:
///
/// 1. The future is polled until it is done, whether or not the caller goes on: there is no handle,
///    and dropping nothing cancels it.
/// 2. It is polled where [`current`](Runtime::current) names a runtime, so that it can wait and sleep.
/// 3. Where the runtime ends first, or is gone already, the future is dropped: that is how whoever
///    waits for it hears of it. `spawn` does not panic.
pub trait Spawn: Runtime {
    /// Runs a future on its own, in the runtime that is running the caller.
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static;
}

/// One timer for a whole coordinator, in one runtime.
pub trait Alarm: Send + 'static {
    /// Rings the bell once after `delay`, in place of whatever was armed before; `None` disarms.
    ///
    /// # Errors
    ///
    /// [`Dead`] when the alarm's runtime is gone.
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead>;
}

/// The runtime of an alarm is gone, and with it all its timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dead;

/// Tells one runtime from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuntimeId {
    kind: TypeId,
    number: u64,
}

impl RuntimeId {
    /// Runtime `number` of the kind `R`.
    #[must_use]
    pub fn new<R: Runtime>(number: u64) -> Self {
        Self { kind: TypeId::of::<R>(), number }
    }
}
