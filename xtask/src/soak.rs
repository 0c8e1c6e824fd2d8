//! `cargo xtask soak`: mixed traffic through every real runtime, in a release build.
//!
//! It owns nothing but the command line: what the traffic is and what may not be left of it is `admission-soak`'s.

use clap::Args;

use crate::step::Step;

/// Run mixed traffic through every runtime, round after round, and look at what is left of it.
#[derive(Args)]
pub(crate) struct Soak {
    /// For how many minutes at most, over all runtimes
    #[arg(long, value_name = "M")]
    minutes: Option<f64>,
    /// How many calls on each runtime; 30,000 unless a time is given
    #[arg(long, value_name = "N")]
    calls: Option<u64>,
    /// Only the runtimes with this in their name
    #[arg(long, value_name = "NAME")]
    runtime: Option<String>,
    /// What is drawn follows from it; what threads and timers make of that does not
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

impl Soak {
    pub(crate) fn run(&self) -> Result<(), String> {
        // Their executors have one thread, or as many as there are cores, unless told.
        let mut step = Step::cargo("run --release --quiet -p admission-soak --")
            .env("SMOL_THREADS", "2")
            .env("ASYNC_STD_THREAD_COUNT", "2")
            .word("--seed")
            .word(&self.seed.to_string());
        if let Some(minutes) = self.minutes {
            step = step.word("--minutes").word(&minutes.to_string());
        }
        if let Some(calls) = self.calls {
            step = step.word("--calls").word(&calls.to_string());
        }
        if let Some(runtime) = &self.runtime {
            step = step.word("--runtime").word(runtime);
        }
        step.run_here()
    }
}
