//! One permit, taken and given back while nobody waits.

use std::hint::black_box;
use std::sync::Arc;

use admission_hot_paths::permit::{self, one_limit};
use admission_hot_paths::{Group, case, each, leaked, on_tokio, reference};

use super::on_smol;

/// The table.
#[must_use]
pub fn group() -> Group {
    let mut cases = vec![
        reference(),
        each("parking_lot Mutex and a counter", || {
            let counter = parking_lot::Mutex::new(64_usize);
            move || {
                let counter = black_box(&counter);
                *counter.lock() -= 1;
                *counter.lock() += 1;
            }
        }),
        each("tokio Semaphore: try_acquire", || {
            let semaphore = tokio::sync::Semaphore::new(64);
            move || drop(black_box(black_box(&semaphore).try_acquire()))
        }),
        case("tokio Semaphore: acquire().await", || {
            let semaphore = leaked(tokio::sync::Semaphore::new(64));
            on_tokio(move || black_box(semaphore).acquire())
        }),
        case("tokio Semaphore: acquire_owned().await", || {
            let semaphore = Arc::new(tokio::sync::Semaphore::new(64));
            on_tokio(move || black_box(&semaphore).clone().acquire_owned())
        }),
        each("async-lock Semaphore: try_acquire", || {
            let semaphore = async_lock::Semaphore::new(64);
            move || drop(black_box(black_box(&semaphore).try_acquire()))
        }),
        case("async-lock Semaphore: acquire_arc().await", || {
            let semaphore = Arc::new(async_lock::Semaphore::new(64));
            on_smol(move || black_box(&semaphore).acquire_arc())
        }),
    ];
    cases.extend(permit::cases());
    cases.push(case("admission: acquire().await on smol", || {
        let provider = one_limit().on::<admission_smol::Smol>();
        on_smol(move || black_box(&provider).acquire())
    }));
    let against = vec![
        ("admission: acquire().await", "tokio Semaphore: acquire_owned().await"),
        ("admission: try_acquire", "tokio Semaphore: try_acquire"),
    ];
    Group { name: "permit", cases, against }
}
