//! A polite crawler: a thousand hosts, none of them known in advance, each with limits of its own from one
//! template (two calls at once, and a gap between two starts), and a bound on all calls together. The
//! pages are a stream, and each names its host as the provider that it calls. In the middle of the run the
//! program asks why the oldest calls wait; hosts that are done with are forgotten as it goes on.
//!
//! Run it with `cargo run --release --example crawl`. It ends with an error if any host saw more calls at
//! once or closer together than it wants, if there were too many in all, or if a page is missing.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that is run by hand talks to its terminal")]

mod service;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use admission::tokio::Admission;
use admission::{AdmissionStreamExt, Interval, Retry};
use admission_examples::http::{self, Failure};
use admission_examples::report::{self, Complaints, check};
use admission_examples::time::{Stopwatch, milliseconds, parse_duration, seconds};
use clap::Parser;
use futures_util::{StreamExt, stream};

use crate::service::{Web, text_of};

/// At most so many calls at once, whoever they go to.
const AT_ONCE: u32 = 64;
/// At most so many calls at once to one host.
const PER_HOST: u32 = 2;
/// How many pages are looked after at once: in flight, or waiting for their turn.
const FRONTIER: usize = 256;
/// How many of the calls that wait are shown.
const SHOWN: usize = 6;

/// Reads some pages of each of many hosts, politely
#[derive(Debug, Parser)]
#[command(name = "crawl")]
struct Args {
    /// How many hosts there are
    #[arg(long, default_value_t = 1_000)]
    hosts: u32,

    /// How many pages each has
    #[arg(long, default_value_t = 4)]
    pages: u32,

    /// At least so long from one start to the next at one host
    #[arg(long, value_name = "TIME", default_value = "60ms", value_parser = parse_duration)]
    delay: Duration,

    /// What is added to it: a start is stamped a little after it was decided, and under a heavy load that
    /// may take longer for one than for the next
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = parse_duration)]
    margin: Duration,
}

/// A page to read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Page {
    host: Arc<str>,
    number: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    report::exit(crawl(Args::parse()).await)
}

/// Everything; returns what did not come out as it must.
async fn crawl(args: Args) -> Result<Complaints, Box<dyn Error>> {
    let web = Web::start()?;
    let admission = Admission::builder()
        .max_concurrent(AT_ONCE)
        .template(|host| host.max_concurrent(PER_HOST).paced(Interval::new(args.delay).margin(args.margin)))
        .build()?;
    let clock = Stopwatch::start();
    let reader = Reader { http: http::client().build()?, url: web.url().into(), clock };
    let per_host = admission.clone();
    let pages = (0..args.hosts).flat_map(|host| {
        let host: Arc<str> = format!("host-{host}.example").into();
        (0..args.pages).map(move |number| Page { host: Arc::clone(&host), number })
    });
    let total = (args.hosts * args.pages) as usize;

    let mut outcomes = stream::iter(pages)
        .map_admitted(admission.provider("any host")?.call(), move |page: Page, _attempt| reader.read(page))
        .per_item(move |page, call| per_host.provider(&page.host).map_or(call, |host| host.call()))
        .concurrency(FRONTIER)
        .as_completed()
        .retry(Retry::times(2).when(Failure::is_transient))
        .spawned();

    let mut complaints = Complaints::new();
    let (mut done, mut most_known) = (0, 0);
    while let Some(outcome) = outcomes.next().await {
        done += 1;
        match outcome {
            Ok((page, text)) => {
                check(&mut complaints, text == text_of(&page), || format!("{page:?}: {text}"))
            }
            Err(error) => complaints.push(format!("a page is missing: {error}")),
        }
        if done % 50 == 0 {
            most_known = admission.snapshot().providers.len().max(most_known);
        }
        if done == total / 2 {
            println!("after {}, {done} of {total} pages", seconds(clock.elapsed()));
            print_waiting(&admission);
        }
    }
    println!("after {}, {done} of {total} pages", seconds(clock.elapsed()));
    check(&mut complaints, done == total, || format!("{done} pages of {total}"));

    // The last hosts are forgotten once their gap is over.
    tokio::time::sleep(args.delay + 2 * args.margin).await;
    let known = admission.snapshot().providers.len();
    println!("\n{} hosts were met, at most {most_known} known at once, {known} in the end", args.hosts);
    check(&mut complaints, known == 0, || format!("{known} hosts are still known"));
    println!("{}", web.summary());
    complaints.extend(web.complaints(args.delay));
    Ok(complaints)
}

/// Why the oldest calls wait.
fn print_waiting(admission: &Admission) {
    let waiting = admission.waiting();
    println!("{} calls wait, the oldest:", waiting.len());
    for call in waiting.iter().take(SHOWN) {
        println!("  {call}");
    }
    let longest = waiting.iter().filter_map(|call| call.not_before).max().unwrap_or_default();
    println!("the longest gap that one of them waits for: {}", milliseconds(longest));
}

/// Reads pages.
struct Reader {
    http: reqwest::Client,
    url: Arc<str>,
    clock: Stopwatch,
}

impl Reader {
    /// One call: stamped when this is called, not when it is polled.
    fn read(&self, page: Page) -> impl Future<Output = Result<(Page, String), Failure>> + use<> {
        let started = self.clock.elapsed();
        let request = self.http.get(format!("{}/{}", self.url, page.number)).header("host", &*page.host);
        let text = http::text(http::stamped(request, started));
        async move { Ok((page, text.await?)) }
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
        let args = Args::parse_from([
            "crawl", "--hosts", "80", "--pages", "3", "--delay", "30ms", "--margin", "50ms",
        ]);
        assert_eq!(crawl(args).await.unwrap(), Complaints::new());
    }
}
