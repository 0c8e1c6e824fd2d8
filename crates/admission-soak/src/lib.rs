//! A soak: mixed traffic on a real runtime, round after round, and what is left of it each time.
//!
//! Callers of every kind run, hold, drop, abort, expire and panic; their wakers come back in; limits and providers
//! change under them; runtimes end with callers in them. An observer counts from inside the operations what runs and
//! when it started. After each round nothing may be left: no call, no key, no waker, no alarm, no provider that was
//! made for a guest; and the heap must be what it was at the same point before.
//!
//! ```sh
//! cargo xtask soak --minutes 5             # over all runtimes
//! cargo xtask soak --runtime smol --calls 1000000 --seed 7
//! ```
//!
//! A seed gives the same traffic. It does not give the same history: threads and timers are the machine's. What wants
//! a history that can be replayed is `admission-sim`'s.
//!
//! Lacks: virtual time, a model of what is right, and speed.

#![forbid(unsafe_code)]

pub mod alarms;
mod around;
mod callers;
mod changes;
mod dice;
pub mod ground;
pub mod guarded;
pub mod heap;
pub mod host;
pub mod observer;
pub mod operations;
mod soak;
pub mod tally;
mod threads;

pub use dice::Dice;
pub use soak::{Options, quiet_about_booms, soak};
