//! One permit, taken and given back while nobody waits.

use std::hint::black_box;

use admission_core::{Admitted, Config, Coordinator, Instant, Limits, ProviderId, Request};
use admission_tokio::{Admission, Provider};

use crate::{Case, case, each, on_tokio};

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

/// The ways to do it.
#[must_use]
pub fn cases() -> Vec<Case> {
    vec![
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
                    Ok(Admitted::Started(ticket)) => machine.handle_release(ticket, at),
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
    ]
}
