//! `cargo xtask soak`: mixed traffic through every real runtime, in a release build.
//!
//! It owns nothing but the command line: what the traffic is and what may not be left of it is `admission-soak`'s.

use std::process::Command;

use clap::Args;

use crate::workspace;

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
        let mut command = Command::new(workspace::cargo());
        command.args(["run", "--release", "--quiet", "-p", "admission-soak", "--"]);
        command.current_dir(workspace::root()?).arg("--seed").arg(self.seed.to_string());
        // Their executors have one thread, or as many as there are cores, unless told.
        command.env("SMOL_THREADS", "2").env("ASYNC_STD_THREAD_COUNT", "2");
        if let Some(minutes) = self.minutes {
            command.arg("--minutes").arg(minutes.to_string());
        }
        if let Some(calls) = self.calls {
            command.arg("--calls").arg(calls.to_string());
        }
        if let Some(runtime) = &self.runtime {
            command.arg("--runtime").arg(runtime);
        }
        let status = command.status().map_err(|error| format!("cargo could not be run: {error}"))?;
        if status.success() { Ok(()) } else { Err("the soak failed; see above".to_owned()) }
    }
}
