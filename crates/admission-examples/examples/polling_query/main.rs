//! One query, polled, and looked at by several. The service is slow once (the attempt times out and is
//! tried again, but not before the service has let go of it: two calls with one key never overlap), fails
//! twice (backoff), and says 429 with `Retry-After` once (a cooldown). Then the query is paused and
//! resumed, two refreshes at once become one call, and in the end it is disposed of.
//!
//! Run it with `cargo run --release --example polling_query`. It ends with an error if the service saw a
//! request past its quota, during its rest, or beside another one; or if a subscriber saw something that
//! it should not have.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that is run by hand talks to its terminal")]

mod service;
mod subscribers;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use admission::backon::ExponentialBuilder;
use admission::tokio::Admission;
use admission::{Query, QueryError, QueryStatus, Retry, Window};
use admission_examples::http::{self, Failure};
use admission_examples::report::{self, Complaints, check};
use admission_examples::time::{Stopwatch, milliseconds, parse_duration};
use clap::Parser;
use tokio::time::{MissedTickBehavior, interval};

use crate::service::{Feed, QUOTA, SLOW, WINDOW};
use crate::subscribers::Reader;

/// The data: what the service says.
type Reading = u64;

/// How long an attempt may take. The service's slow answer takes longer, its others much less.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(350);

/// Polls a service that has bad moments, for several subscribers
#[derive(Debug, Parser)]
#[command(name = "polling_query")]
struct Args {
    /// How often to poll
    #[arg(long, value_name = "TIME", default_value = "150ms", value_parser = parse_duration)]
    every: Duration,

    /// How often before the pause, and again after it
    #[arg(long, default_value_t = 12)]
    polls: u32,

    /// How long the slow subscriber takes for each snapshot
    #[arg(long, value_name = "TIME", default_value = "600ms", value_parser = parse_duration)]
    slow: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    report::exit(polling_query(Args::parse()).await)
}

/// Everything; returns what did not come out as it must.
async fn polling_query(args: Args) -> Result<Complaints, Box<dyn Error>> {
    let feed = Feed::start()?;
    let clock = Stopwatch::start();
    let admission = Admission::builder()
        .provider("feed", |p| p.log(Window::new(QUOTA, WINDOW).until_settled()).max_concurrent(4))
        .build()?;
    let query = build(&admission, &feed)?;

    let reader = |name, pause| Reader { name, pause, clock, leaves_after: None };
    let readers = [
        reader("quick", Duration::ZERO),
        reader("slow", args.slow),
        Reader { leaves_after: Some(9), ..reader("brief", Duration::ZERO) },
    ];
    let readers = readers.map(|reader| tokio::spawn(reader.read(query.subscribe())));

    let mut complaints = Complaints::new();
    let before = poll(&query, args.every, args.polls).await;

    println!("{:>10}  -- paused", milliseconds(clock.elapsed()));
    query.pause();
    admission.idle().await;
    let requests = feed.seen().requests;
    let meanwhile = poll(&query, args.every, 4).await;
    check(&mut complaints, feed.seen().requests == requests, || "a paused query made a request".into());
    check(&mut complaints, meanwhile.paused == 4, || format!("a paused query was refreshed: {meanwhile:?}"));
    println!("{:>10}  -- resumed", milliseconds(clock.elapsed()));
    query.resume();

    let after = poll(&query, args.every, args.polls).await;
    let outcomes = before.data + after.data;
    check(&mut complaints, outcomes == 2 * args.polls, || {
        format!("{outcomes} of {} polls gave data: {before:?}, {after:?}", 2 * args.polls)
    });

    let requests = feed.seen().requests;
    let (one, other) = tokio::join!(query.refresh(), query.refresh());
    let is_shared = match (one, other) {
        (Ok(one), Ok(other)) => Arc::ptr_eq(&one.data, &other.data),
        _ => false,
    };
    check(&mut complaints, is_shared, || "two refreshes at once gave different data".into());
    let joined = feed.seen().requests - requests;
    println!("{:>10}  -- two refreshes at once: {joined} request", milliseconds(clock.elapsed()));

    query.dispose();
    let refused = query.refresh().await;
    check(&mut complaints, matches!(refused, Err(QueryError::Disposed)), || {
        format!("refreshed: {refused:?}")
    });
    for reader in readers {
        let read = reader.await?;
        check(&mut complaints, read.is_newer_each_time, || {
            format!("{}: snapshots were out of order", read.name)
        });
        if read.name == "brief" {
            continue;
        }
        check(&mut complaints, read.last == Some(QueryStatus::Disposed), || {
            format!("{}: the stream ended with {:?}", read.name, read.last)
        });
    }

    let seen = feed.seen();
    println!(
        "\nthe service saw {} requests: {} answered 503, {} answered 429, {} when it should not",
        seen.requests, seen.failed, seen.refused, seen.violations
    );
    complaints.extend(feed.complaints());
    Ok(complaints)
}

fn build(admission: &Admission, feed: &Feed) -> Result<Query<Reading, Failure>, Box<dyn Error>> {
    let client = http::client().build()?;
    let url = feed.url();
    let backoff = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(40))
        .with_max_delay(SLOW)
        .with_max_times(5)
        .with_jitter();
    let policy = Retry::backoff(backoff).when(Failure::is_transient).cooldown(Failure::retry_after);
    let query = admission
        .query("feed", "reading")?
        .admission_timeout(Duration::from_secs(5))
        .attempt_timeout(ATTEMPT_TIMEOUT)
        .retry(policy)
        // An attempt that times out is left to finish, and keeps its key until then.
        .build(move |_attempt| {
            let request = client.get(&url);
            async move {
                let text = http::text(request).await?;
                text.parse().map_err(|error| Failure::Broken(format!("{text}: {error}")))
            }
        });
    Ok(query)
}

/// What has become of some polls.
#[derive(Debug, Default)]
struct Polls {
    data: u32,
    paused: u32,
    failed: u32,
}

/// Refreshes the query so many times.
async fn poll(query: &Query<Reading, Failure>, every: Duration, times: u32) -> Polls {
    let mut polls = Polls::default();
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..times {
        ticks.tick().await;
        match query.refresh().await {
            Ok(_) => polls.data += 1,
            Err(QueryError::Paused) => polls.paused += 1,
            Err(_) => polls.failed += 1,
        }
    }
    polls
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
        let args = Args::parse_from(["polling_query", "--every", "20ms", "--polls", "7", "--slow", "200ms"]);
        assert_eq!(polling_query(args).await.unwrap(), Complaints::new());
    }
}
