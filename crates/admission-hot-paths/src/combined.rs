//! The whole job while nobody waits: a client's limit, a provider's limit, one call per key, a rate.
//!
//! Sixteen providers and ten thousand keys, in a fixed random order.

use std::time::Duration;

use admission_tokio::{Admission, Builder, Provider};

use crate::{Case, Dice, Run, case, on_tokio};

/// How many providers.
pub const PROVIDERS: usize = 16;
const KEYS: usize = 10_000;

/// The names of the providers.
#[must_use]
pub fn names() -> Vec<String> {
    (0..PROVIDERS).map(|number| format!("provider-{number:02}")).collect()
}

/// A coordinator with sixteen providers, to be built: all limits on, and time always allows the next start; or the
/// limits of concurrency and the keys alone.
pub fn builder(is_timed: bool) -> Builder {
    let mut builder = Admission::builder().max_concurrent(64);
    for name in names() {
        builder = builder.provider(name, |limits| {
            let limits = limits.max_concurrent(8);
            let nano = Duration::from_nanos(1);
            if is_timed { limits.interval(nano).window(60, nano) } else { limits }
        });
    }
    builder
}

/// It, built.
///
/// # Panics
///
/// Never: the configuration is right.
#[must_use]
pub fn admission(is_timed: bool) -> Admission {
    builder(is_timed).build().expect("the configuration is right")
}

/// The handles of its providers.
///
/// # Panics
///
/// Never: it has these providers.
#[must_use]
pub fn handles(admission: &Admission) -> Vec<Provider> {
    names().iter().map(|name| admission.provider(name).expect("it was named")).collect()
}

/// Provider and key of each call; a key always goes to the same provider.
fn calls() -> impl FnMut() -> (usize, u64) {
    let mut dice = Dice::new(3);
    let keys: Vec<u64> = (0..1 << 16).map(|_| dice.below(KEYS) as u64).collect();
    let mut at = 0;
    move || {
        at = (at + 1) & 0xffff;
        (keys[at] as usize % PROVIDERS, keys[at])
    }
}

/// Does the next call, again and again.
pub fn run<F: Future>(mut call: impl FnMut(usize, u64) -> F + 'static) -> Run {
    let mut next = calls();
    on_tokio(move || {
        let (provider, key) = next();
        call(provider, key)
    })
}

/// A key as text.
#[must_use]
pub fn texts() -> Vec<String> {
    (0..KEYS).map(|key| format!("[\"issues\",\"repo-{key:08}\"]")).collect()
}

/// The ways to do it.
#[must_use]
pub fn cases() -> Vec<Case> {
    vec![
        case("admission: all limits", || {
            let providers = handles(&admission(true));
            run(move |provider, key| providers[provider].key(key).acquire())
        }),
        case("admission: all limits, provider by name", || {
            let (admission, names) = (admission(true), names());
            run(move |provider, key| {
                let provider = admission.provider(&names[provider]).expect("it was named");
                provider.key(key).acquire()
            })
        }),
        case("admission: caps and keys only", || {
            let providers = handles(&admission(false));
            run(move |provider, key| providers[provider].key(key).acquire())
        }),
        case("admission: all limits, String keys", || {
            let providers = handles(&admission(true));
            let texts = texts();
            run(move |provider, key| providers[provider].key(&texts[key as usize]).acquire())
        }),
    ]
}
