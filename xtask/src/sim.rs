//! `cargo xtask sim`: many seeded histories with faults, in a release build.
//!
//! It owns nothing but the command line: what a history is and how one is cut short is `admission-sim`'s.

use clap::Args;

use crate::step::Step;

/// Live through seeded histories of callers and faults, with an observer; stops at the first that breaks a rule.
#[derive(Args)]
pub(crate) struct Sim {
    /// How many histories; 10,000 unless a time is given
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// For how many minutes at most
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// The first seed: to replay one, with `--seeds 1`
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
}

impl Sim {
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut step = Step::cargo("run --release --quiet -p admission-sim --");
        step = step.word("--seed").word(&self.seed.to_string());
        for (name, value) in [("--seeds", self.seeds), ("--minutes", self.minutes)] {
            if let Some(value) = value {
                step = step.word(name).word(&value.to_string());
            }
        }
        if self.keep_going {
            step = step.word("--keep-going");
        }
        step.run_here()
    }
}
