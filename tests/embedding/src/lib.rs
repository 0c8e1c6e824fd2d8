//! Loops, executors and runtimes of others, each driving a part of admission as its users may.
//!
//! Owns: [`Driver`], the two duties of whoever drives the bare core; [`EventLoop`], a hand-written loop
//! with timers of its own; [`executor`], which polls a task from inside its waker; and two runtimes, each in a
//! page or two of code: [`timer_thread`], and [`embassy`] around somebody else's executor. The examples of the
//! pages about them are compiled and run from here.
//!
//! Lacks, on purpose: anything to be published. What is worth having is on those pages, to be copied.
#![forbid(unsafe_code)]

pub mod driver;
pub mod embassy;
pub mod event_loop;
pub mod executor;
mod spawn;
pub mod timer_thread;

pub use driver::{Driver, Next};
pub use event_loop::{EventLoop, Job};

/// The examples of the pages, as tests of the documentation.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/embedding.md")]
    mod embedding {}

    #[doc = include_str!("../../../docs/guide.md")]
    mod guide {}

    #[doc = include_str!("../../../docs/runtimes.md")]
    mod runtimes {}

    #[doc = include_str!("../../../docs/testing.md")]
    mod testing {}
}
