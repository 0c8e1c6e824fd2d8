//! The table at the end, and the verdict: what has to be true of the contestant that counts until
//! its calls have settled.

use std::time::Duration;

use admission_examples::quota::most_in_any_window;
use admission_examples::time::seconds;

use crate::contestants::Contestant;
use crate::progress::Lane;
use crate::scenario::{Provider, Scenario};
use crate::server::Arrival;

/// How much later than the ideal the last call may end.
const MOST_OVER_IDEAL: f64 = 1.05;

/// All that is known about one contestant's run.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) contestant: Contestant,
    pub(crate) results: Vec<ProviderResult>,
}

/// One contestant's calls to one provider, as both sides saw them.
#[derive(Debug)]
pub(crate) struct ProviderResult {
    pub(crate) lane: Lane,
    /// In order; since the first call.
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) refused: usize,
    /// The most arrivals, accepted or refused, in any window of the provider's.
    pub(crate) most: usize,
}

impl ProviderResult {
    pub(crate) fn new(provider: &Provider, lane: Lane, arrivals: Vec<Arrival>) -> Self {
        let stamps: Vec<Duration> = arrivals.iter().map(|arrival| arrival.at).collect();
        Self {
            refused: arrivals.iter().filter(|arrival| !arrival.accepted).count(),
            most: most_in_any_window(&stamps, provider.window),
            lane,
            arrivals,
        }
    }

    /// How the time to finish compares with the ideal, if everything was done.
    pub(crate) fn over_ideal(&self, provider: &Provider) -> Option<f64> {
        (self.lane.succeeded == self.lane.calls)
            .then(|| self.lane.finish.as_secs_f64() / provider.ideal().as_secs_f64())
    }
}

/// The table, with what its words mean.
pub(crate) fn table(scenario: &Scenario, records: &[Record]) -> String {
    let head = [
        "contestant",
        "provider",
        "calls",
        "succeeded",
        "429s",
        "most in a window",
        "quota",
        "finish",
        "ideal",
        "finish/ideal",
    ];
    let mut rows = vec![head.map(String::from)];
    for record in records {
        let mut contestant = record.contestant.name();
        for (provider, result) in scenario.providers.iter().zip(&record.results) {
            rows.push([
                std::mem::take(&mut contestant).to_owned(),
                provider.name.to_owned(),
                result.lane.calls.to_string(),
                result.lane.succeeded.to_string(),
                result.refused.to_string(),
                result.most.to_string(),
                provider.limit.to_string(),
                seconds(result.lane.finish),
                seconds(provider.ideal()),
                result
                    .over_ideal(provider)
                    .map_or_else(|| "not all done".into(), |ratio| format!("{ratio:.3}")),
            ]);
        }
    }
    let mut text = admission_examples::report::table(&rows, 2);
    text += "\nMost in a window: the most arrivals at the server, accepted or refused, in any interval of\n\
             one window's length. Ideal: (⌈calls/quota⌉ − 1) windows, and the last batch through the cap on\n\
             calls at once at the mean latency; or all calls through that cap, if that is longer:\n\n";
    for provider in &scenario.providers {
        text += &format!("  {:<8} {:<24} {}\n", provider.name, provider.terms(), provider.formula());
    }
    text
}

/// What is wrong with the run, if anything: every promise about `until_settled`, for each provider.
pub(crate) fn complaints(scenario: &Scenario, records: &[Record]) -> Vec<String> {
    let mut complaints = Vec::new();
    let settled = records.iter().filter(|record| record.contestant == Contestant::UntilSettled);
    for record in settled {
        for (provider, result) in scenario.providers.iter().zip(&record.results) {
            let mut complain = |what: String| {
                complaints.push(format!("{}, {}: {what}", record.contestant.name(), provider.name));
            };
            if result.refused > 0 {
                complain(format!("{} calls were answered 429", result.refused));
            }
            if result.most > provider.limit {
                complain(format!("{} arrivals in one window, the quota is {}", result.most, provider.limit));
            }
            match result.over_ideal(provider) {
                None => complain(format!(
                    "only {} of {} calls succeeded",
                    result.lane.succeeded, result.lane.calls
                )),
                Some(ratio) if ratio > MOST_OVER_IDEAL => complain(format!(
                    "finished after {}, {:.1} % over the ideal of {}",
                    seconds(result.lane.finish),
                    (ratio - 1.0) * 100.0,
                    seconds(provider.ideal())
                )),
                Some(_) => {}
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(arrivals: &[(u64, bool)], succeeded: usize, finish: u64) -> (Scenario, Vec<Record>) {
        let mut scenario = Scenario::new(4, Duration::from_secs(1), 1);
        scenario.providers.truncate(1);
        scenario.providers[0].limit = 2;
        let lane = Lane { calls: 4, succeeded, finish: Duration::from_millis(finish), ..Lane::default() };
        let arrivals = arrivals
            .iter()
            .map(|(at, accepted)| Arrival { at: Duration::from_millis(*at), accepted: *accepted })
            .collect();
        let result = ProviderResult::new(&scenario.providers[0], lane, arrivals);
        let record = Record { contestant: Contestant::UntilSettled, results: vec![result] };
        (scenario, vec![record])
    }

    #[test]
    fn a_good_run_has_no_complaints() {
        let (scenario, records) = record(&[(0, true), (1, true), (1_001, true), (1_002, true)], 4, 1_040);
        assert!(complaints(&scenario, &records).is_empty());
        assert!(table(&scenario, &records).contains("(⌈4/2⌉ − 1) × 1 s + 22.5 ms = 1.02 s"));
    }

    #[test]
    fn each_broken_promise_is_told() {
        let late = record(&[(0, true), (1, true), (1_001, true), (1_002, true)], 4, 1_080);
        let refused = record(&[(0, true), (1, true), (999, false), (1_002, true)], 3, 1_040);
        for ((scenario, records), expected) in
            [(late, vec!["over the ideal"]), (refused, vec!["429", "3 arrivals", "only 3 of 4"])]
        {
            let told = complaints(&scenario, &records);
            assert_eq!(told.len(), expected.len(), "{told:?}");
            for (told, expected) in told.iter().zip(expected) {
                assert!(told.contains(expected), "{told}");
            }
        }
    }
}
