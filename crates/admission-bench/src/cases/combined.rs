//! The whole job while nobody waits: a client's limit, a provider's limit, one call per key, a rate.
//!
//! Sixteen providers and ten thousand keys, in a fixed random order. The compositions are what one writes
//! today with the peers; they take their permits in the only order that does not deadlock, and hold up ready
//! calls for it (see the table about the head of the line).

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admission_tokio::{Admission, Provider};
use dashmap::DashMap;
use governor::DefaultDirectRateLimiter;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tower::{Service, ServiceExt};

use super::rate::{Window, unlimited};
use super::{leaked, on_tokio, reference};
use crate::clocks;
use crate::runner::{Case, Dice, Group, Run, case};

/// How many providers.
pub const PROVIDERS: usize = 16;
const KEYS: usize = 10_000;

/// The composition that everything is compared with.
pub const COMPOSED: &str = "A′: semaphores, DashMap of mutexes that forgets, governor";
/// The composition that keeps the quota exactly.
pub const EXACT: &str = "D: A′ with an exact log and a pacer for governor";

/// The names of the providers.
#[must_use]
pub fn names() -> Vec<String> {
    (0..PROVIDERS).map(|number| format!("provider-{number:02}")).collect()
}

/// A coordinator with sixteen providers: all limits on, and time always allows the next start; or the limits
/// of concurrency and the keys alone.
///
/// # Panics
///
/// Never: the configuration is right.
#[must_use]
pub fn admission(is_timed: bool) -> Admission {
    let mut builder = Admission::builder().max_concurrent(64);
    for name in names() {
        builder = builder.provider(name, |limits| {
            let limits = limits.max_concurrent(8);
            let nano = Duration::from_nanos(1);
            if is_timed { limits.interval(nano).window(60, nano) } else { limits }
        });
    }
    builder.build().expect("the configuration is right")
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

fn run<F: Future>(mut call: impl FnMut(usize, u64) -> F + 'static) -> Run {
    let mut next = calls();
    on_tokio(move || {
        let (provider, key) = next();
        call(provider, key)
    })
}

type Locks<K> = DashMap<K, Arc<AsyncMutex<()>>>;

struct Composed {
    client: Semaphore,
    providers: HashMap<String, (Semaphore, DefaultDirectRateLimiter)>,
    names: Vec<String>,
}

impl Composed {
    fn new() -> &'static Self {
        let provider = |name: String| (name, (Semaphore::new(8), unlimited()));
        let providers = names().into_iter().map(provider).collect();
        leaked(Self { client: Semaphore::new(64), providers, names: names() })
    }

    async fn limited(&self, provider: usize) {
        let (semaphore, rate) = &self.providers[&self.names[provider]];
        let _provider = semaphore.acquire().await;
        let _client = self.client.acquire().await;
        rate.until_ready().await;
        black_box(());
    }
}

/// The table.
#[must_use]
pub fn group() -> Group {
    let mut cases = vec![reference()];
    cases.extend(compositions());
    cases.extend([
        case("tower: ConcurrencyLimit twice (no key, no rate)", || {
            let client = Arc::new(Semaphore::new(64));
            let service = |_| {
                let echo = tower::service_fn(|key: u64| std::future::ready(Ok::<u64, ()>(key)));
                let limited = tower::limit::ConcurrencyLimit::new(echo, 8);
                tower::limit::ConcurrencyLimit::with_semaphore(limited, client.clone())
            };
            let services: Vec<_> = (0..PROVIDERS).map(service).collect();
            run(move |provider, key| {
                let mut service = services[provider].clone();
                async move {
                    let Ok(ready) = service.ready().await else { return Err(()) };
                    ready.call(key).await
                }
            })
        }),
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
    ]);
    let against = vec![
        ("admission: all limits", COMPOSED),
        ("admission: all limits", EXACT),
        ("admission: all limits, provider by name", COMPOSED),
        ("admission: caps and keys only", COMPOSED),
        ("admission: all limits, String keys", "A″: A′ with String keys"),
    ];
    Group { name: "combined", cases, against }
}

fn texts() -> Vec<String> {
    (0..KEYS).map(|key| format!("[\"issues\",\"repo-{key:08}\"]")).collect()
}

fn compositions() -> [Case; 4] {
    [
        case("A: semaphores, DashMap of mutexes that never forgets, governor", || {
            let composed = Composed::new();
            let locks = leaked(Locks::<u64>::new());
            run(move |provider, key| async move {
                let lock = locks.entry(key).or_default().clone();
                let _key = lock.lock().await;
                composed.limited(provider).await;
            })
        }),
        case(COMPOSED, || {
            let composed = Composed::new();
            let locks = leaked(Locks::<u64>::new());
            run(move |provider, key| async move {
                let lock = locks.entry(key).or_default().clone();
                let held = lock.lock().await;
                composed.limited(provider).await;
                drop(held);
                drop(lock);
                locks.remove_if(&key, |_, lock| Arc::strong_count(lock) == 1);
            })
        }),
        case("A″: A′ with String keys", || {
            let composed = Composed::new();
            let locks = leaked(Locks::<String>::new());
            let texts = leaked(texts());
            run(move |provider, key| async move {
                let text = &texts[key as usize];
                let lock = locks.entry(text.clone()).or_default().clone();
                let held = lock.lock().await;
                composed.limited(provider).await;
                drop(held);
                drop(lock);
                locks.remove_if(text, |_, lock| Arc::strong_count(lock) == 1);
            })
        }),
        case(EXACT, || {
            struct Provider {
                semaphore: Semaphore,
                /// The log, and the earliest next start.
                pace: Mutex<(Window, u64)>,
            }
            let provider = |name| {
                let pace = Mutex::new((Window::new(60, 1), 0));
                (name, Provider { semaphore: Semaphore::new(8), pace })
            };
            let providers: &HashMap<String, Provider> = leaked(names().into_iter().map(provider).collect());
            let (client, names) = (leaked(Semaphore::new(64)), leaked(names()));
            let locks = leaked(Locks::<u64>::new());
            let origin = clocks::now();
            run(move |provider, key| async move {
                let lock = locks.entry(key).or_default().clone();
                let held = lock.lock().await;
                {
                    let provider = &providers[&names[provider]];
                    let _provider = provider.semaphore.acquire().await;
                    let _client = client.acquire().await;
                    loop {
                        let now = origin.elapsed().as_nanos() as u64;
                        let wait = {
                            let mut pace = provider.pace.lock().unwrap_or_else(PoisonError::into_inner);
                            let (log, next) = &mut *pace;
                            match next.saturating_sub(now) {
                                0 => log.check(now).map(|()| *next = now + 1),
                                wait => Err(wait),
                            }
                        };
                        let Err(wait) = wait else { break };
                        tokio::time::sleep(Duration::from_nanos(wait)).await;
                    }
                    black_box(());
                }
                drop(held);
                drop(lock);
                locks.remove_if(&key, |_, lock| Arc::strong_count(lock) == 1);
            })
        }),
    ]
}
