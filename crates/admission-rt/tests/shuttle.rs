//! Many random orders of the steps of the races in `races/`, drawn by shuttle: `cargo xtask shuttle`.
//!
//! Owns: how many, and how they are drawn: half of them evenly, and half with few changes of thread in places
//! that are drawn (PCT), which finds bugs that need a long stay elsewhere. Lacks the bodies. What is found is
//! printed with a schedule, and `SHUTTLE_RANDOM_SEED` draws the same again.

#![cfg(admission_shuttle)]
#![allow(clippy::print_stdout, reason = "how many orders there were is what is to be known")]

mod common;
mod races;

// rules W3, W4, W5, W6, W7, S3, S4, S6, T6, L1, L7, L10, E4, D3, D5
#[test]
fn random_orders_of_steps_keep_the_rules() {
    let iterations = std::env::var("ITERATIONS").ok().and_then(|number| number.parse().ok()).unwrap_or(1_000);
    let only = std::env::var("RACE").unwrap_or_default();
    let mut total = 0;
    for &(name, race) in races::RACES.iter().filter(|(name, _)| name.contains(&only)) {
        shuttle::check_random(race, iterations / 2);
        shuttle::check_pct(race, iterations - iterations / 2, 3);
        println!("{iterations:>8} orders: {name}");
        total += iterations;
    }
    println!("{total:>8} orders in all");
}
