//! The races in `races/` on the machine's own threads, for ThreadSanitizer above all (`cargo xtask sanitize
//! thread`), which sees every access and not only the locks.
//!
//! Owns: how often each is run. Lacks the bodies, and any say in the order of steps.

#![cfg(not(any(admission_loom, admission_shuttle)))]

mod common;
mod races;

// rules W3, W4, W5, W6, W7, S3, S4, S6, T6, L1, L7, L10, E4, D3, D5
#[test]
fn threads_keep_the_rules_in_whatever_order() {
    let times = std::env::var("RACES").ok().and_then(|number| number.parse().ok()).unwrap_or(50);
    for &(_, race) in races::RACES {
        for _ in 0..times {
            common::within(60, race);
        }
    }
}
