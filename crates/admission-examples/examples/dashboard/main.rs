//! A dashboard opens, and every panel calls at once. This program starts a real HTTP service that
//! grants each of its providers a quota, makes the same calls in four ways, one after another, and
//! shows what the server saw: a table, and a picture as SVG and PNG.
//!
//! Run it with `cargo run --release --example dashboard`; `-- --help` tells the rest. It ends with an
//! error if the calls that went through `admission` until settled met a single 429, ever passed the
//! quota in any window as the server stamped them, or took over 5 % longer than the ideal.

#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that is run by hand talks to its terminal"
)]

mod client;
mod contestants;
mod measure;
mod picture;
mod progress;
mod report;
mod scenario;
mod server;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use admission_examples::time::parse_duration;
use clap::{Parser, ValueEnum};

use crate::client::Client;
use crate::contestants::Contestant;
use crate::progress::{Board, Show};
use crate::report::{ProviderResult, Record};
use crate::scenario::Scenario;
use crate::server::Server;

/// Opens a dashboard whose panels all call at once, in four ways, against a server with quotas
#[derive(Debug, Parser)]
#[command(name = "dashboard")]
struct Args {
    /// The window of `github`, which grants 60 calls in it; those of the others are fractions of it.
    /// Below 3s, latencies alone can come to more than the 5 % that the verdict allows
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_window)]
    window: Duration,

    /// How many panels the dashboard has
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=2_000))]
    panels: u16,

    /// What the latencies are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Where the picture goes
    #[arg(long, value_name = "DIR", default_value = "target/dashboard")]
    out: PathBuf,

    /// Run only this one; may be given several times
    #[arg(long, value_name = "NAME")]
    contestant: Vec<Contestant>,

    /// Show no progress
    #[arg(long)]
    quiet: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    admission_examples::report::exit(dashboard(Args::parse()).await)
}

/// Everything; returns what did not come out as it must.
async fn dashboard(args: Args) -> Result<Vec<String>, Box<dyn Error>> {
    let scenario = Scenario::new(args.panels.into(), args.window, args.seed);
    let show = Show::choose(args.quiet);
    let mut records = Vec::new();
    for contestant in Contestant::value_variants() {
        if !args.contestant.is_empty() && !args.contestant.contains(contestant) {
            continue;
        }
        if show != Show::Nothing {
            eprintln!("{}: {}", contestant.name(), contestant.about());
        }
        records.push(compete(*contestant, &scenario, show).await?);
    }
    if show != Show::Nothing {
        eprintln!();
    }
    println!("{}", report::table(&scenario, &records));
    for path in picture::draw(&args.out, &scenario, &records)? {
        println!("{}", path.display());
    }
    Ok(report::complaints(&scenario, &records))
}

/// One contestant against a server of its own.
async fn compete(contestant: Contestant, scenario: &Scenario, show: Show) -> Result<Record, Box<dyn Error>> {
    let server = Server::start(scenario)?;
    let board = Board::new(scenario, show);
    let client = Client::new(server.address(), board.clone())?;
    let begun = server.elapsed();
    let lines = (show == Show::Lines).then(|| board.print_lines());
    let ran = contestants::run(contestant, scenario, client, &board).await;
    if let Some(lines) = lines {
        lines.abort();
        board.print_line();
    }
    let lanes = board.close();
    ran.map_err(|error| format!("{}: {error}", contestant.name()))?;

    let results = scenario.providers.iter().enumerate().zip(lanes);
    let results = results.map(|((index, provider), lane)| {
        if let Some(trouble) = &lane.trouble {
            eprintln!("{}, {}: {trouble}", contestant.name(), provider.name);
        }
        let mut arrivals = server.arrivals(index);
        for arrival in &mut arrivals {
            arrival.at = arrival.at.saturating_sub(begun);
        }
        ProviderResult::new(provider, lane, arrivals)
    });
    Ok(Record { contestant, results: results.collect() })
}

fn parse_window(text: &str) -> Result<Duration, String> {
    let window = parse_duration(text)?;
    match (500..=3_600_000).contains(&window.as_millis()) {
        true => Ok(window),
        false => Err("between 500ms and 60m".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        use clap::CommandFactory;
        Args::command().debug_assert();
        assert_eq!(parse_window("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_window("1m"), Ok(Duration::from_secs(60)));
        for bad in ["", "0s", "499ms", "61m"] {
            assert!(parse_window(bad).is_err(), "{bad}");
        }
    }
}
