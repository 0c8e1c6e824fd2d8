//! The board of one contestant: what each provider's calls have come to so far, shown while they
//! run as bars on a terminal and as plain lines elsewhere.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admission_examples::time::{Stopwatch, seconds};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;

use crate::client::CallError;
use crate::scenario::Scenario;

/// How often a plain line is printed.
const PLAIN_LINE_EVERY: Duration = Duration::from_secs(1);

/// What one provider's calls have come to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lane {
    pub(crate) calls: usize,
    pub(crate) succeeded: usize,
    /// Calls that were given up, for whatever reason.
    pub(crate) failed: usize,
    /// Replies of 429, those that were tried again included.
    pub(crate) refusals: usize,
    /// The last call's end, since the first call.
    pub(crate) finish: Duration,
    /// Why the first that failed did so, if it was not for a 429.
    pub(crate) trouble: Option<String>,
}

/// Shared by a contestant's calls.
#[derive(Debug)]
pub(crate) struct Board {
    clock: Stopwatch,
    names: Vec<&'static str>,
    lanes: Mutex<Vec<Lane>>,
    bars: Vec<ProgressBar>,
}

/// How to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Bars,
    Lines,
    Nothing,
}

impl Show {
    pub(crate) fn choose(quiet: bool) -> Self {
        match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Self::Nothing,
            (false, true) => Self::Bars,
            (false, false) => Self::Lines,
        }
    }
}

impl Board {
    /// A board whose clock starts now.
    pub(crate) fn new(scenario: &Scenario, show: Show) -> Arc<Self> {
        let multi = MultiProgress::new();
        let bars = match show {
            Show::Bars => scenario
                .providers
                .iter()
                .map(|provider| {
                    let bar = multi.add(ProgressBar::new(provider.calls as u64));
                    bar.set_style(style());
                    bar.set_prefix(provider.name);
                    bar.enable_steady_tick(Duration::from_millis(100));
                    bar
                })
                .collect(),
            Show::Lines | Show::Nothing => Vec::new(),
        };
        Arc::new(Self {
            clock: Stopwatch::start(),
            names: scenario.providers.iter().map(|p| p.name).collect(),
            lanes: Mutex::new(
                scenario
                    .providers
                    .iter()
                    .map(|provider| Lane { calls: provider.calls, ..Lane::default() })
                    .collect(),
            ),
            bars,
        })
    }

    /// A reply was 429.
    pub(crate) fn refused(&self, provider: usize) {
        let mut lanes = self.lanes();
        lanes[provider].refusals += 1;
        if let Some(bar) = self.bars.get(provider) {
            bar.set_message(format!("{} × 429", lanes[provider].refusals));
        }
    }

    /// A call is over.
    pub(crate) fn settled<T>(&self, provider: usize, outcome: &Result<T, CallError>) {
        let mut lanes = self.lanes();
        let lane = &mut lanes[provider];
        lane.finish = self.clock.elapsed();
        match outcome {
            Ok(_) => lane.succeeded += 1,
            Err(error) => {
                lane.failed += 1;
                if !matches!(error, CallError::Refused { .. }) && lane.trouble.is_none() {
                    lane.trouble = Some(error.to_string());
                }
            }
        }
        if let Some(bar) = self.bars.get(provider) {
            bar.set_position((lane.succeeded + lane.failed) as u64);
        }
    }

    /// Prints a line every second until it is aborted.
    pub(crate) fn print_lines(self: &Arc<Self>) -> JoinHandle<()> {
        let board = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(PLAIN_LINE_EVERY).await;
                board.print_line();
            }
        })
    }

    /// One plain line with everything on it.
    pub(crate) fn print_line(&self) {
        let lanes = self.lanes().clone();
        let mut line = format!("{:>9}", seconds(self.clock.elapsed()));
        for (name, lane) in self.names.iter().zip(&lanes) {
            let done = lane.succeeded + lane.failed;
            line += &format!("   {name} {done:>3}/{}", lane.calls);
            if lane.refusals > 0 {
                line += &format!(" ({} × 429)", lane.refusals);
            }
        }
        eprintln!("{line}");
    }

    /// Leaves the bars as they are, and tells what they stand for.
    pub(crate) fn close(&self) -> Vec<Lane> {
        for bar in &self.bars {
            bar.abandon();
        }
        self.lanes().clone()
    }

    fn lanes(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("  {prefix:<8} {bar:40.cyan/blue} {pos:>4}/{len} {elapsed} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
