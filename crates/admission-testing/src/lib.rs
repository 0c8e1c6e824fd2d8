//! A runtime in which time is a number: a virtual clock, and a deterministic executor that moves it.
//!
//! Owns: [`VirtualClock`], [`Simulation`] (one thread, tasks in the order in which they were woken,
//! time that jumps to the next timer when nothing else can run), [`Virtual`] (the same as a runtime
//! for `admission`, like any other), and ways to make its timers fire early, late or never. Lacks,
//! on purpose: threads, I/O, randomness, and any look at the host's clock.
//!
//! The guide, `docs/testing.md` in the repository, tests a client that retries through an hour of ups and
//! downs, says what is virtual here and what is not, and shows how to make timers lie.
//!
//! An hour of waiting takes no time, and the same program does the same thing every time:
//!
//! ```
//! use admission_testing::{Admission, Simulation};
//! use std::time::Duration;
//!
//! let simulation = Simulation::new();
//! let starts = simulation.block_on(async {
//!     let hour = Duration::from_secs(3_600);
//!     let admission = Admission::builder().provider("slow", |p| p.interval(hour)).build().unwrap();
//!     let slow = admission.provider("slow").unwrap();
//!     let mut starts = Vec::new();
//!     for _ in 0..3 {
//!         slow.run(async || starts.push(admission_testing::now().as_nanos())).await.unwrap();
//!     }
//!     starts
//! });
//! assert_eq!(starts, [0, 3_600_000_000_000, 7_200_000_000_000]);
//! assert_eq!(simulation.alarms().armed, 0);
//! ```
#![forbid(unsafe_code)]

mod clock;
mod executor;
mod timers;

pub use clock::VirtualClock;
pub use executor::{
    Handle, JoinError, JoinHandle, Simulation, Sleep, YieldNow, now, sleep, spawn, yield_now,
};
pub use timers::{Alarms, Arming, Firing, Virtual, VirtualAlarm};

admission_rt::aliases!(Virtual);
