//! How exactly starts are held apart, in real time: what is lost against an ideal pacer, whether a gap is ever too
//! short, and what a start costs.
//!
//! Starts are stamped where their caller runs on. For admission they are stamped at the permit too: with the very
//! reading of the clock that the decision was made by, since a caller can lose the core between the two.

pub mod made_up;
pub mod quota;

use std::future::poll_fn;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use admission_hot_paths::{Dice, tokio_runtime};
use admission_rt::runtime::{Clock, Runtime, SystemClock};
use admission_rt::{Admission, Provider};
use admission_smol::Smol;
use admission_tokio::Tokio;
use admission_tokio::precise::Precise;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tower::{Service, ServiceExt};

use crate::clocks::{now, process_cpu};
use crate::results::Results;
use crate::runner::{Effort, median, quantile};

/// Paces: each call comes back when one more start is allowed.
pub(crate) trait Pace {
    /// When the start was stamped, if it was stamped elsewhere than where its caller runs on.
    async fn start(&mut self) -> Option<Instant>;
}

impl Pace for DefaultDirectRateLimiter {
    async fn start(&mut self) -> Option<Instant> {
        self.until_ready().await;
        None
    }
}

impl Pace for leaky_bucket::RateLimiter {
    async fn start(&mut self) -> Option<Instant> {
        self.acquire_one().await;
        None
    }
}

impl Pace for tokio::time::Interval {
    async fn start(&mut self) -> Option<Instant> {
        self.tick().await;
        None
    }
}

/// tokio's sleep between looks at a limiter that only says how long to wait.
impl Pace for ratelimit::Ratelimiter {
    async fn start(&mut self) -> Option<Instant> {
        while let Err(ratelimit::TryWaitError::Insufficient(wait)) = self.try_wait() {
            tokio::time::sleep(wait).await;
        }
        None
    }
}

pub(crate) struct Tower<S>(pub(crate) S);

impl<S: Service<(), Response = (), Error = ()>> Pace for Tower<S> {
    async fn start(&mut self) -> Option<Instant> {
        if let Ok(service) = self.0.ready().await {
            let _ = service.call(()).await;
        }
        None
    }
}

/// A service that answers at once.
pub(crate) fn echo()
-> impl Service<(), Response = (), Error = (), Future = std::future::Ready<Result<(), ()>>> {
    tower::service_fn(|()| std::future::ready(Ok(())))
}

/// A gap from start to start, by hand, with somebody's timer.
struct ByHand<T> {
    next: Option<Instant>,
    gap: Duration,
    timer: fn(Instant) -> T,
}

impl<T: Future> ByHand<T> {
    fn new(gap: Duration, timer: fn(Instant) -> T) -> Self {
        Self { next: None, gap, timer }
    }
}

impl<T: Future> Pace for ByHand<T> {
    async fn start(&mut self) -> Option<Instant> {
        if let Some(next) = self.next {
            (self.timer)(next).await;
        }
        let started = now();
        self.next = Some(started + self.gap);
        Some(started)
    }
}

/// A clock that remembers its last reading, which is that of the last turn.
#[derive(Debug)]
struct Remembering {
    inner: SystemClock,
    last: AtomicU64,
}

impl Clock for Remembering {
    fn now(&self) -> admission_rt::Instant {
        let now = self.inner.now();
        self.last.store(now.as_nanos(), Ordering::Relaxed);
        now
    }

    fn wall(&self) -> SystemTime {
        self.inner.wall()
    }
}

/// Admission, whose permit is let go at once.
pub(crate) struct Admitted<R> {
    provider: Provider<R>,
    clock: Arc<Remembering>,
    origin: Instant,
    starts: u32,
}

impl<R: Runtime> Admitted<R> {
    pub(crate) fn new(limits: impl FnOnce(admission_rt::Limits) -> admission_rt::Limits) -> Self {
        let origin = now();
        let clock = Arc::new(Remembering { inner: SystemClock::new(), last: AtomicU64::new(0) });
        let builder = Admission::<R>::builder().provider("paced", limits).clock(clock.clone());
        let admission = builder.build().expect("the configuration is right");
        let provider = admission.provider("paced").expect("it was named");
        Self { provider, clock, origin, starts: 0 }
    }
}

impl<R: Runtime> Pace for Admitted<R> {
    async fn start(&mut self) -> Option<Instant> {
        self.starts += 1;
        // Now and then somebody else waits first, and gives up.
        let mut other = (self.starts % 8 == 0).then(|| self.provider.acquire());
        let is_pending = poll_fn(|cx| {
            Poll::Ready(other.as_mut().is_some_and(|other| other.poll_acquire(cx).is_pending()))
        });
        let permit = if is_pending.await || other.is_none() {
            let mut acquire = self.provider.acquire();
            poll_fn(|cx| {
                let answer = acquire.poll_acquire(cx);
                other = None;
                answer
            })
            .await
            .ok()
        } else {
            // It need not wait, and is the start.
            None
        };
        let stamp = self.clock.last.load(Ordering::Relaxed);
        drop(permit);
        Some(self.origin + Duration::from_nanos(stamp))
    }
}

/// Where futures run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    Tokio,
    /// With its I/O, which the precise alarm needs.
    TokioIo,
    Smol,
}

impl On {
    pub(crate) fn block_on<F: Future>(self, future: F) -> F::Output {
        match self {
            Self::Tokio => tokio_runtime().block_on(future),
            Self::TokioIo => {
                let mut builder = tokio::runtime::Builder::new_current_thread();
                builder.enable_all().build().expect("a runtime of one thread can be built").block_on(future)
            }
            Self::Smol => smol::block_on(future),
        }
    }
}

/// What was seen of some starts.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Where the caller runs on.
    outside: Vec<Instant>,
    /// At the permit.
    stamps: Vec<Instant>,
    cpu: f64,
}

impl Seen {
    fn note(&mut self, stamp: Option<Instant>) {
        let outside = now();
        self.outside.push(outside);
        self.stamps.push(stamp.unwrap_or(outside));
    }
}

fn gaps(starts: &[Instant]) -> Vec<f64> {
    starts.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos() as f64).collect()
}

/// One more call is always waiting.
async fn saturated(mut pace: impl Pace, count: usize) -> Seen {
    let mut seen = Seen::default();
    let began = process_cpu();
    for _ in 0..count {
        let stamp = pace.start().await;
        seen.note(stamp);
    }
    seen.cpu = (process_cpu() - began) / count as f64;
    seen
}

/// Calls come up to two gaps apart, and now and then the thread is blocked for three and a half.
async fn uneven(mut pace: impl Pace, count: usize, gap: Duration) -> Seen {
    let mut seen = Seen::default();
    let mut dice = Dice::new(21);
    for number in 0..count {
        smol::Timer::after(gap.mul_f64(dice.below(2_000) as f64 / 1_000.0)).await;
        if number % 16 == 7 {
            std::thread::sleep(gap.mul_f64(3.5));
        }
        let stamp = pace.start().await;
        seen.note(stamp);
    }
    seen
}

struct Row<'a> {
    name: &'a str,
    gap: Duration,
    counts: (usize, usize),
    repeats: usize,
}

impl Row<'_> {
    fn measure<P: Pace>(&self, on: On, make: impl Fn() -> P, results: &mut Results) {
        let gap = self.gap.as_nanos() as f64;
        let (mut losses, mut cpu, mut late, mut least) = (vec![], vec![], vec![], f64::INFINITY);
        let (mut short, mut clearly_short, mut short_at_permit) = (0, 0, 0);
        for _ in 0..self.repeats {
            let even = on.block_on(async { saturated(make(), self.counts.0).await });
            let odd = on.block_on(async { uneven(make(), self.counts.1, self.gap).await });
            let even_gaps = gaps(&even.outside);
            losses.push(1.0 - gap * even_gaps.len() as f64 / even_gaps.iter().sum::<f64>());
            cpu.push(even.cpu / 1e3);
            late.extend(even_gaps.iter().map(|taken| (taken - gap) / 1e3));
            for gaps in [even_gaps, gaps(&odd.outside)] {
                short += gaps.iter().filter(|taken| **taken < gap).count();
                clearly_short += gaps.iter().filter(|taken| **taken < 0.9 * gap).count();
                least = gaps.iter().copied().fold(least, f64::min);
            }
            for gaps in [gaps(&even.stamps), gaps(&odd.stamps)] {
                short_at_permit += gaps.iter().filter(|taken| **taken < gap).count();
            }
        }
        let table = format!("gaps of {} ms", self.gap.as_millis());
        let mut set = |metric: &str, number| results.set(&table, self.name, metric, number);
        set("loss", median(&losses) * 100.0);
        set("us", median(&cpu));
        set("late", median(&late));
        set("late p90", quantile(&late, 0.9));
        set("least", least / 1e6);
        set("short", f64::from(short as u32));
        set("clearly short", f64::from(clearly_short as u32));
        set("short at permit", f64::from(short_at_permit as u32));
    }
}

/// Measures gaps of 1, 5 and 100 milliseconds.
pub fn measure(effort: &Effort, results: &mut Results) {
    for (millis, counts) in [(1, (500, 100)), (5, (100, 40)), (100, (7, 6))] {
        let gap = Duration::from_millis(millis);
        let repeats = if effort.is_quick { 1 } else { 3 };
        let row = |name: &'static str| Row { name, gap, counts, repeats };
        let governor = || {
            let quota = Quota::with_period(gap).expect("it is not zero").allow_burst(NonZeroU32::MIN);
            RateLimiter::direct(quota)
        };
        row("governor: until_ready").measure(On::Tokio, governor, results);
        let leaky = || leaky_bucket::RateLimiter::builder().initial(1).max(1).refill(1).interval(gap).build();
        row("leaky-bucket, at most 1").measure(On::Tokio, leaky, results);
        row("tokio: interval").measure(On::Tokio, || tokio::time::interval(gap), results);
        let tower = || Tower(tower::ServiceBuilder::new().rate_limit(1, gap).service(echo()));
        row("tower: RateLimit").measure(On::Tokio, tower, results);
        let ratelimit = || {
            let builder = ratelimit::Ratelimiter::builder(1).period(gap).max_tokens(1);
            builder.initial_available(1).build().expect("the configuration is right")
        };
        row("ratelimit, with tokio's sleep").measure(On::Tokio, ratelimit, results);
        let tokios = || ByHand::new(gap, |next| tokio::time::sleep_until(next.into()));
        row("by hand, with tokio's sleep").measure(On::Tokio, tokios, results);
        let smols = || ByHand::new(gap, smol::Timer::at);
        row("by hand, with smol's timer").measure(On::Smol, smols, results);
        let on_tokio = || Admitted::<Tokio>::new(|limits| limits.interval(gap));
        row(ON_TOKIO).measure(On::Tokio, on_tokio, results);
        let precise = || Admitted::<Precise>::new(|limits| limits.interval(gap));
        row(PRECISE).measure(On::TokioIo, precise, results);
        let on_smol = || Admitted::<Smol>::new(|limits| limits.interval(gap));
        row(ON_SMOL).measure(On::Smol, on_smol, results);
    }
}

/// What the tables call it.
pub const ON_TOKIO: &str = "admission on tokio";
/// What the tables call it.
pub const PRECISE: &str = "admission on tokio, precise";
/// What the tables call it.
pub const ON_SMOL: &str = "admission on smol";
