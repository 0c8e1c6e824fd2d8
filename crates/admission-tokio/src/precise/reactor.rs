//! The precise alarm elsewhere: a timer of `async-io`, whose reactor is the process's.
//!
//! Owns: nothing but the choice. Lacks the end of a runtime: the reactor, a thread that is started when it is first
//! needed, lives as long as the process.

use std::time::Duration;

use admission_rt::runtime::{Alarm, Bell, Dead, RuntimeId, SleepAlarm};
use async_io::Timer;

use super::Precise;

/// Always the same one, and always there.
pub(super) fn current() -> Option<RuntimeId> {
    Some(RuntimeId::new::<Precise>(0))
}

/// The alarm of a coordinator. What it is made of is nobody's business.
#[derive(Debug)]
pub struct PreciseAlarm(SleepAlarm<Timer>);

impl PreciseAlarm {
    pub(super) fn new(bell: Bell) -> Self {
        Self(SleepAlarm::new(bell, Timer::after))
    }
}

impl Alarm for PreciseAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        self.0.arm(delay)
    }
}
