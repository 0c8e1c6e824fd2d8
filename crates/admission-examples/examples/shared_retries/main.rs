//! Two executions of a mapped stream share one `IntervalLimiter`: every attempt of either, retries too,
//! starts at least 100 ms after the one before it, and at most eight callers wait. A retry stands at the
//! tail of the queue like anybody; a queue that is full is an error that nobody retries.
//!
//! Run it with `cargo run --release --example shared_retries`. It ends with an error if the service saw
//! two starts that were closer, or if a result is wrong.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that is run by hand talks to its terminal")]

mod service;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use admission::tokio::IntervalLimiter;
use admission::{AbortSignal, AdmissionStreamExt, ItemError, Retry, RunError};
use admission_examples::http::{self, Failure};
use admission_examples::report::{self, Complaints, check};
use admission_examples::time::{Stopwatch, milliseconds, parse_duration, seconds};
use clap::Parser;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};

use crate::service::{Processor, Request, fails, result};

/// The execution, and the number of the job in it.
type Job = (u32, u32);

/// An outcome of a job.
type Outcome = Result<String, ItemError<Failure>>;

/// How many callers may wait.
const MAX_WAITING: u32 = 8;
/// How often a job is tried again.
const RETRIES: u32 = 2;

/// Runs two streams of jobs with retries over one interval limiter
#[derive(Debug, Parser)]
#[command(name = "shared_retries")]
struct Args {
    /// At least so long from one start to the next
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
    interval: Duration,

    /// What is added to it: a start is stamped a little after it was decided, and under a heavy load that
    /// may take longer for one than for the next
    #[arg(long, value_name = "TIME", default_value = "3ms", value_parser = parse_duration)]
    margin: Duration,

    /// How many jobs each execution has
    #[arg(long, default_value_t = 12)]
    jobs: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    report::exit(shared_retries(Args::parse()).await)
}

/// Everything; returns what did not come out as it must.
async fn shared_retries(args: Args) -> Result<Complaints, Box<dyn Error>> {
    let clock = Stopwatch::start();
    let processor = Processor::start(clock)?;
    let client = Client { http: http::client().build()?, base: processor.url(), clock };
    let limiter =
        IntervalLimiter::builder(args.interval).margin(args.margin).max_waiting(MAX_WAITING).build()?;

    let mut complaints = Complaints::new();
    let (first, second) =
        tokio::join!(execute(&limiter, &client, 0, args.jobs), execute(&limiter, &client, 1, args.jobs));
    let took = clock.elapsed();
    for (execution, outcomes) in [(0, &first), (1, &second)] {
        complaints.extend(wrong(execution, outcomes, args.jobs));
    }
    let requests = processor.requests();
    print_requests(&requests);
    let expected: u32 = (0..args.jobs).map(|number| 2 * attempts((0, number))).sum();
    check(&mut complaints, requests.len() == expected as usize, || {
        format!("{} requests, not {expected}", requests.len())
    });
    println!(
        "\n2 × {} jobs, {} requests after {}; at best {}",
        args.jobs,
        requests.len(),
        seconds(took),
        seconds(args.interval * expected.saturating_sub(1)),
    );

    let (refused, called) = crowd(&limiter, &client).await;
    println!("{} calls at once: {called} had their turn, {refused} found the queue full", refused + called);
    check(&mut complaints, (1..=MAX_WAITING).contains(&refused), || {
        format!("{refused} found the queue full")
    });

    let (starts, arrivals) = processor.gaps();
    let least = |gaps: &[Duration]| gaps.iter().min().copied().unwrap_or_default();
    println!(
        "the smallest gap: {} between two starts, {} between two arrivals",
        milliseconds(least(&starts)),
        milliseconds(least(&arrivals)),
    );
    let close = starts.iter().filter(|gap| **gap < args.interval).count();
    check(&mut complaints, close == 0, || {
        format!("{close} starts were less than {} after the one before", milliseconds(args.interval))
    });
    Ok(complaints)
}

/// One execution: every job in its turn, two at once, each tried again if that may help.
async fn execute(limiter: &IntervalLimiter, client: &Client, execution: u32, jobs: u32) -> Vec<Outcome> {
    let client = client.clone();
    stream::iter((0..jobs).map(move |number| (execution, number)))
        .map_admitted(limiter, move |job, _attempt| client.process(job))
        .concurrency(2)
        .capacity(2)
        // A refusal of the limiter is no failure of the job, and is not retried.
        .retry(Retry::times(RETRIES).when(Failure::is_transient))
        .spawned()
        .collect()
        .await
}

/// Twice as many calls at once as may wait: how many found the queue full, and how many did not.
async fn crowd(limiter: &IntervalLimiter, client: &Client) -> (u32, u32) {
    let calls = (0..2 * MAX_WAITING).map(|number| {
        let job = (2, 6 * number);
        limiter.try_run(&AbortSignal::never(), move || client.process(job))
    });
    let outcomes = join_all(calls).await;
    let refused = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Err(RunError::Rejected(rejected)) if rejected.is_overflow()));
    let refused = refused.count();
    (refused as u32, (outcomes.len() - refused) as u32)
}

/// Makes the calls. Clones share everything.
#[derive(Debug, Clone)]
struct Client {
    http: reqwest::Client,
    base: String,
    clock: Stopwatch,
}

impl Client {
    /// One attempt at a job: stamped when this is called, not when it is polled.
    fn process(&self, (execution, number): Job) -> impl Future<Output = Result<String, Failure>> + use<> {
        let started = self.clock.elapsed();
        let request = self.http.get(format!("{}/{execution}/{number}", self.base));
        http::text(http::stamped(request, started))
    }
}

/// How often a job is called in all.
fn attempts(job: Job) -> u32 {
    let (times, error) = fails(job);
    if error.is_server_error() { 1 + times.min(RETRIES) } else { 1 }
}

/// What is wrong with the outcomes of an execution, which are in the order of its jobs.
fn wrong(execution: u32, outcomes: &[Outcome], jobs: u32) -> Complaints {
    let mut complaints = Complaints::new();
    check(&mut complaints, outcomes.len() == jobs as usize, || format!("{} outcomes", outcomes.len()));
    for (number, outcome) in (0..).zip(outcomes) {
        let job = (execution, number);
        let (times, status) = fails(job);
        let is_right = match outcome {
            Ok(text) => *text == result(job) && (times <= RETRIES),
            Err(error) => {
                let failure = Failure::Status(status.as_u16());
                error.error() == Some(&failure) && error.attempts() == attempts(job) && times > RETRIES
            }
        };
        check(&mut complaints, is_right, || format!("job {job:?}: {outcome:?}"));
    }
    complaints
}

fn print_requests(requests: &[Request]) {
    println!("   started     arrived  execution  job  attempt  status");
    for Request { job: (execution, number), attempt, started, arrived, status } in requests {
        println!(
            "{:>10}  {:>10}  {execution:>9}  {number:>3}  {attempt:>7}  {:>6}",
            milliseconds(*started),
            milliseconds(*arrived),
            status.as_u16()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn everything_is_as_promised() {
        let args =
            Args::parse_from(["shared_retries", "--interval", "25ms", "--margin", "25ms", "--jobs", "6"]);
        assert_eq!(shared_retries(args).await.unwrap(), Complaints::new());
    }
}
