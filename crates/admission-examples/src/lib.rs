//! The home of the examples, and nothing else: each is a program under `examples/`, and what they
//! stand on are this crate's development dependencies. Start with
//! `cargo run --release --example dashboard`.

#![forbid(unsafe_code)]
