//! What the examples share: a local HTTP service with quotas that it checks itself, a client to call it
//! with, and the words of a report. Each example is a program under `examples/`; start with
//! `cargo run --release --example dashboard`.
//!
//! Lacks anything of `admission`: how that is used is what the examples are there to show.

#![forbid(unsafe_code)]

pub mod http;
pub mod quota;
pub mod report;
pub mod service;
pub mod time;

/// A fixed mixing of 64 bits (the finaliser of SplitMix64), for numbers that look random and are the
/// same in every run.
#[must_use]
pub fn scramble(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
