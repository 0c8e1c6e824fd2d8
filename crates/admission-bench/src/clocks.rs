//! What time is taken with: the CPU time of a thread, that of the process, and the machine's clock.
//!
//! Owns: the only readings of clocks in this crate. Lacks any judgement of them, but for one: a piece
//! of work that the scheduler cut into is not to be believed.

use std::time::{Instant, SystemTime};

use admission_rt::runtime::Clock;
use governor::clock::{Clock as _, QuantaClock, QuantaInstant, Reference};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of CPU that this thread has used. A busy neighbour does not show in it.
#[must_use]
pub fn thread_cpu() -> f64 {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of CPU that this process has used.
#[must_use]
pub fn process_cpu() -> f64 {
    read(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(clock: ClockId) -> f64 {
    let time = clock_gettime(clock).expect("the clocks of CPU time are always there");
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

/// How often the scheduler took the core from this thread against its will.
#[must_use]
pub fn preemptions() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("a thread may ask about itself");
    usage.involuntary_context_switches()
}

/// The machine's clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "starts that are held apart in real time are measured in it")]
pub fn now() -> Instant {
    Instant::now()
}

/// The processor's time-stamp counter as a coordinator's clock: the one that governor reads, by its own reading.
#[derive(Debug)]
pub struct StampCounter {
    clock: QuantaClock,
    origin: QuantaInstant,
}

impl StampCounter {
    /// A clock that reads zero now.
    #[must_use]
    pub fn new() -> Self {
        let clock = QuantaClock::default();
        Self { origin: clock.now(), clock }
    }
}

impl Default for StampCounter {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for StampCounter {
    fn now(&self) -> admission_rt::Instant {
        admission_rt::Instant::from_nanos(self.clock.now().duration_since(self.origin).into())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that others ask")]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The CPU time of a piece of work, and whether it ran in one go.
pub fn slice(work: impl FnOnce()) -> (f64, bool) {
    let (cpu, cuts) = (thread_cpu(), preemptions());
    work();
    (thread_cpu() - cpu, preemptions() == cuts)
}
