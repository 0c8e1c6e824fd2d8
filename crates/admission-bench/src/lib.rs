//! Measures admission beside what one would use instead, on the same work.
//!
//! `cargo xtask bench` runs all of it and writes `docs/benchmarks.md`. What is admission's own in it stands in
//! `admission-hot-paths`, which counts instructions too. How time is taken, and why not with a benchmark
//! library, is said in `runner.rs`. The programs are `admission-bench`, which measures time and counts
//! instructions, and `count-allocations`, which counts memory: in a program of its own, because a counting
//! allocator costs time.
//!
//! Lacks, on purpose, any say in what the libraries do: nothing depends on this crate.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks to the terminal")]

pub mod cases;
pub mod clocks;
pub mod contention;
pub mod goals;
pub mod pacing;
pub mod page;
pub mod picture;
pub mod queues;
pub mod results;
pub mod runner;
