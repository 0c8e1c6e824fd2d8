//! The whole job while nobody waits: a client's limit, a provider's limit, one call per key, a rate.
//!
//! Sixteen providers and ten thousand keys, in a fixed random order. The compositions are what one writes
//! today with the peers; they take their permits in the only order that does not deadlock, and hold up ready
//! calls for it (see the table about the head of the line).

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admission_hot_paths::combined::{self, PROVIDERS, names, run, texts};
use admission_hot_paths::{Case, Group, case, leaked, reference};
use dashmap::DashMap;
use governor::DefaultDirectRateLimiter;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tower::{Service, ServiceExt};

use super::rate::{Window, unlimited};
use crate::clocks;

/// The composition that everything is compared with.
pub const COMPOSED: &str = "A′: semaphores, DashMap of mutexes that forgets, governor";
/// The composition that keeps the quota exactly.
pub const EXACT: &str = "D: A′ with an exact log and a pacer for governor";

/// With the clock that governor has in the compositions.
pub const STAMPED: &str = "admission: all limits, governor's clock";

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
    cases.extend([case("tower: ConcurrencyLimit twice (no key, no rate)", || {
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
    })]);
    cases.extend(combined::cases());
    cases.push(case(STAMPED, || {
        let clock = Arc::new(clocks::StampCounter::new());
        let admission = combined::builder(true).clock(clock).build().expect("the configuration is right");
        let providers = combined::handles(&admission);
        run(move |provider, key| providers[provider].key(key).acquire())
    }));
    let against = vec![
        ("admission: all limits", COMPOSED),
        ("admission: all limits", EXACT),
        ("admission: all limits, provider by name", COMPOSED),
        (STAMPED, COMPOSED),
        ("admission: caps and keys only", COMPOSED),
        ("admission: all limits, String keys", "A″: A′ with String keys"),
    ];
    Group { name: "combined", cases, against }
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
