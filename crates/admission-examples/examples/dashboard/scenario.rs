//! What is asked of whom: the providers with their quotas, how many calls a dashboard of so many
//! panels makes to each, how long each call takes, and how soon all of it could be done at best.

use std::time::Duration;

use admission_examples::scramble;
use admission_examples::time::{seconds, short};

/// The shortest and the longest that a provider works on a call.
const LATENCY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(40));

/// What a call takes on average.
pub(crate) const MEAN_LATENCY: Duration = Duration::from_micros(22_500);

/// One upstream service, and what it grants.
#[derive(Debug, Clone)]
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    /// How many calls the dashboard makes to it.
    pub(crate) calls: usize,
    /// At most `limit` accepted calls in any half-open interval of length `window`.
    pub(crate) limit: usize,
    pub(crate) window: Duration,
    /// At most so many at once, if it says so.
    pub(crate) cap: Option<usize>,
}

/// The whole fan-out.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) panels: usize,
    pub(crate) seed: u64,
    pub(crate) providers: Vec<Provider>,
}

impl Scenario {
    /// Every panel reads issues from `github` and a series from `metrics`; every second one shows a
    /// payment from `stripe`. The windows are fractions of `window`, so that all three need about
    /// the same time.
    pub(crate) fn new(panels: usize, window: Duration, seed: u64) -> Self {
        let provider = |name, calls, limit, window, cap| Provider { name, calls, limit, window, cap };
        Self {
            panels,
            seed,
            providers: vec![
                provider("github", panels, 60, window, None),
                provider("stripe", panels.div_ceil(2), 20, window * 2 / 3, Some(4)),
                provider("metrics", panels, 30, window / 2, Some(8)),
            ],
        }
    }

    /// All calls, as (index of the provider, number of the call), panel by panel.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.panels).flat_map(|panel| {
            let stripe = (panel % 2 == 0).then_some((1, panel / 2));
            [Some((0, panel)), stripe, Some((2, panel))].into_iter().flatten()
        })
    }

    /// How long `provider` works on its call number `call`: the same for every contestant.
    pub(crate) fn latency(&self, provider: usize, call: usize) -> Duration {
        let (shortest, longest) = LATENCY;
        let span = (longest - shortest).as_micros() as u64 + 1;
        let random = scramble(scramble(self.seed ^ ((provider as u64) << 32)) ^ call as u64);
        shortest + Duration::from_micros(random % span)
    }
}

impl Provider {
    /// The soonest that all its calls can be done: when the last batch is let in, plus that batch
    /// through its cap at the mean latency; or, if that is longer, all calls through its cap.
    pub(crate) fn ideal(&self) -> Duration {
        let by_quota = self.window * self.later_windows() as u32 + MEAN_LATENCY * self.last_rounds() as u32;
        by_quota.max(self.by_cap())
    }

    /// How many windows have to pass before the last batch is let in.
    fn later_windows(&self) -> usize {
        self.calls.div_ceil(self.limit).saturating_sub(1)
    }

    /// How often the last batch fills its cap.
    fn last_rounds(&self) -> usize {
        let last = self.calls - self.later_windows() * self.limit;
        self.cap.map_or(1, |cap| last.div_ceil(cap))
    }

    fn by_cap(&self) -> Duration {
        self.cap.map_or(Duration::ZERO, |cap| MEAN_LATENCY * self.calls.div_ceil(cap) as u32)
    }

    /// The arithmetic behind [`Provider::ideal`].
    pub(crate) fn formula(&self) -> String {
        let ideal = seconds(self.ideal());
        match self.cap {
            Some(cap) if self.by_cap() == self.ideal() => {
                format!("⌈{}/{cap}⌉ × 22.5 ms = {ideal}", self.calls)
            }
            _ => {
                let rounds = match self.last_rounds() {
                    1 => String::new(),
                    rounds => format!("{rounds} × "),
                };
                let Self { calls, limit, window, .. } = self;
                format!("(⌈{calls}/{limit}⌉ − 1) × {} + {rounds}22.5 ms = {ideal}", short(*window))
            }
        }
    }

    /// `60 per 3 s`, `20 per 2 s, 4 at once`.
    pub(crate) fn terms(&self) -> String {
        let quota = format!("{} per {}", self.limit, short(self.window));
        match self.cap {
            Some(cap) => format!("{quota}, {cap} at once"),
            None => quota,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_as_many_as_each_provider_expects() {
        for panels in [1, 2, 199, 200] {
            let scenario = Scenario::new(panels, Duration::from_secs(3), 1);
            for (index, provider) in scenario.providers.iter().enumerate() {
                let mut numbers: Vec<usize> =
                    scenario.calls().filter(|(to, _)| *to == index).map(|(_, call)| call).collect();
                numbers.sort_unstable();
                assert_eq!(numbers, (0..provider.calls).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn latencies_are_seeded_in_range_and_of_the_stated_mean() {
        let scenario = Scenario::new(200, Duration::from_secs(3), 7);
        let all: Vec<Duration> = (0..10_000).map(|call| scenario.latency(0, call)).collect();
        assert!(all.iter().all(|l| (LATENCY.0..=LATENCY.1).contains(l)));
        assert_eq!(all[17], Scenario::new(5, Duration::ZERO, 7).latency(0, 17));
        let mean = all.iter().sum::<Duration>() / all.len() as u32;
        assert!(mean.abs_diff(MEAN_LATENCY) < Duration::from_micros(500));
    }

    #[test]
    fn the_ideal_is_set_by_the_quota_or_by_the_cap() {
        let mut provider = Scenario::new(200, Duration::from_secs(60), 1).providers[0].clone();
        assert_eq!(provider.ideal(), Duration::from_secs(180) + Duration::from_micros(22_500));
        provider.calls = 60;
        assert_eq!(provider.ideal(), MEAN_LATENCY);
        provider.cap = Some(2);
        assert_eq!(provider.ideal(), MEAN_LATENCY * 30);
        assert_eq!(provider.formula(), "⌈60/2⌉ × 22.5 ms = 0.68 s");
    }
}
