//! Fifty starts in a tenth of a second, in real time: how many fall into any one window, and how much later than
//! ideal the last one is.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use admission_smol::Smol;
use admission_tokio::Tokio;
use admission_tokio::precise::Precise;
use governor::{Quota, RateLimiter};

use super::{Admitted, ON_SMOL, ON_TOKIO, On, PRECISE, Pace, Tower, echo};
use crate::clocks::now;
use crate::results::Results;
use crate::runner::Effort;

const LIMIT: u32 = 50;
const WINDOW: Duration = Duration::from_millis(100);

/// The most starts in any half-open window.
fn most(starts: &[Instant]) -> usize {
    let mut first = 0;
    let counts = (0..starts.len()).map(|last| {
        while starts[last] - starts[first] >= WINDOW {
            first += 1;
        }
        last + 1 - first
    });
    counts.max().unwrap_or_default()
}

async fn starts(pace: &mut impl Pace, count: usize, starts: &mut Vec<Instant>) {
    for _ in 0..count {
        let stamp = pace.start().await;
        starts.push(stamp.unwrap_or_else(now));
    }
}

fn row<P: Pace>(name: &str, on: On, calls: usize, make: impl Fn() -> P, results: &mut Results) {
    let saturated = on.block_on(async {
        let mut seen = Vec::with_capacity(calls);
        starts(&mut make(), calls, &mut seen).await;
        seen
    });
    // One call, most of a window of silence, then as many as two windows hold but one; four times over.
    let bursts = on.block_on(async {
        let (mut pace, mut seen) = (make(), Vec::new());
        for _ in 0..4 {
            starts(&mut pace, 1, &mut seen).await;
            smol::Timer::after(WINDOW.mul_f64(0.95)).await;
            starts(&mut pace, 2 * LIMIT as usize - 1, &mut seen).await;
            smol::Timer::after(WINDOW * 3 / 2).await;
        }
        seen
    });
    let ideal = WINDOW.as_secs_f64() * (calls.div_ceil(LIMIT as usize) - 1) as f64;
    let took = (saturated[calls - 1] - saturated[0]).as_secs_f64();
    let mut set = |metric: &str, number| results.set("quota", name, metric, number);
    set("most", most(&saturated) as f64);
    set("most, bursts", most(&bursts) as f64);
    set("finish", took / ideal);
}

/// Measures them.
pub fn measure(effort: &Effort, results: &mut Results) {
    let calls = if effort.is_quick { 500 } else { 2_000 };
    let limit = LIMIT as usize;
    let governor = |burst: u32| {
        move || {
            let period = WINDOW / burst;
            let quota = Quota::with_period(period).expect("it is not zero");
            RateLimiter::direct(quota.allow_burst(NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN)))
        }
    };
    row("governor, burst 50", On::Tokio, calls, governor(50), results);
    row("governor made safe: burst 25", On::Tokio, calls, governor(25), results);
    let leaky = || {
        leaky_bucket::RateLimiter::builder().initial(limit).max(limit).refill(limit).interval(WINDOW).build()
    };
    row("leaky-bucket, at most 50", On::Tokio, calls, leaky, results);
    let tower = || Tower(tower::ServiceBuilder::new().rate_limit(u64::from(LIMIT), WINDOW).service(echo()));
    row("tower: RateLimit(50)", On::Tokio, calls, tower, results);
    let ratelimit = || {
        let most = u64::from(LIMIT);
        let builder = ratelimit::Ratelimiter::builder(most).period(WINDOW).max_tokens(most);
        builder.initial_available(most).build().expect("the configuration is right")
    };
    row("ratelimit, at most 50", On::Tokio, calls, ratelimit, results);
    let on_tokio = || Admitted::<Tokio>::new(|limits| limits.window(u64::from(LIMIT), WINDOW));
    row(ON_TOKIO, On::Tokio, calls, on_tokio, results);
    let precise = || Admitted::<Precise>::new(|limits| limits.window(u64::from(LIMIT), WINDOW));
    row(PRECISE, On::TokioIo, calls, precise, results);
    let on_smol = || Admitted::<Smol>::new(|limits| limits.window(u64::from(LIMIT), WINDOW));
    row(ON_SMOL, On::Smol, calls, on_smol, results);
}
