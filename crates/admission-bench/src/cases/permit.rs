//! One permit, taken and given back while nobody waits.

use std::hint::black_box;
use std::sync::Arc;

use admission_core::{Admitted, Config, Coordinator, Instant, Limits, ProviderId, Request};
use admission_tokio::{Admission, Provider};

use super::{on_smol, on_tokio, reference};
use crate::runner::{Group, case, each};

/// A coordinator with one limit: 64 calls at once.
///
/// # Panics
///
/// Never: the configuration is right.
#[must_use]
pub fn one_limit() -> Provider {
    let admission = Admission::builder().max_concurrent(64).provider("only", |limits| limits).build();
    admission.expect("the configuration is right").provider("only").expect("it was just named")
}

/// The table.
#[must_use]
pub fn group() -> Group {
    let cases = vec![
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
            let semaphore = super::leaked(tokio::sync::Semaphore::new(64));
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
        each("the machine alone: no lock, given time", || {
            let mut config = Config::new();
            config.client = Limits::new().max_concurrent(64);
            config.providers.push(Limits::new());
            let mut machine = Coordinator::new(&config).expect("the configuration is right");
            let request = Request::new(ProviderId::new(0));
            let mut now = 0;
            move || {
                now += 10;
                let at = Instant::from_nanos(now);
                match black_box(&mut machine).request(&request, at) {
                    Ok(Admitted::Started(ticket)) => machine.handle_release(black_box(ticket), at),
                    other => panic!("not started: {other:?}"),
                }
            }
        }),
        each("admission: try_acquire", || {
            let provider = one_limit();
            move || drop(black_box(black_box(&provider).try_acquire()))
        }),
        case("admission: acquire().await", || {
            let provider = one_limit();
            on_tokio(move || black_box(&provider).acquire())
        }),
        case("admission: acquire().await on smol", || {
            let provider = one_limit().on::<admission_smol::Smol>();
            on_smol(move || black_box(&provider).acquire())
        }),
    ];
    let against = vec![
        ("admission: acquire().await", "tokio Semaphore: acquire_owned().await"),
        ("admission: try_acquire", "tokio Semaphore: try_acquire"),
    ];
    Group { name: "permit", cases, against }
}
