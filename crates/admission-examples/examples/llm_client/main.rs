//! A client of two models with a budget of tokens. Each model allows so many requests and so many tokens
//! in a window, and so many calls at once; the client keeps all three for both of them in one coordinator.
//! A call reserves what it may cost at most, and corrects that to what the answer says it took, so that
//! the next may start on what is left. A model that says 429 is left alone by everybody for as long as it
//! wants.
//!
//! Run it with `cargo run --release --example llm_client`. The windows are seconds where a real service
//! has minutes. It ends with an error if the service, which counts for itself, saw a quota passed once, or
//! if a call came to nothing.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that is run by hand talks to its terminal")]

mod service;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use admission::tokio::{Admission, Provider};
use admission::{Attempt, Retry, RetryError, Window};
use admission_examples::http::{self, Failure};
use admission_examples::report::{self, Complaints, check, table};
use admission_examples::time::{Stopwatch, parse_duration, seconds, short};
use clap::Parser;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::service::{Llm, MODELS, Model, Size};

/// Calls a service with budgets of requests, tokens and calls at once
#[derive(Debug, Parser)]
#[command(name = "llm_client")]
struct Args {
    /// The window of the quotas
    #[arg(long, value_name = "TIME", default_value = "1.5s", value_parser = parse_duration)]
    window: Duration,

    /// How many calls there are; every third goes to the large model
    #[arg(long, default_value_t = 120)]
    calls: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    report::exit(llm_client(Args::parse()).await)
}

/// Everything; returns what did not come out as it must.
async fn llm_client(args: Args) -> Result<Complaints, Box<dyn Error>> {
    let llm = Llm::start(args.window)?;
    let mut builder = Admission::builder().unit("tokens").max_queued(args.calls);
    for model in &MODELS {
        builder = builder.provider(model.name, |p| {
            p.max_concurrent(model.at_once)
                .log(Window::new(model.requests, args.window).until_settled())
                .log(Window::new(model.tokens, args.window).unit("tokens").until_settled())
        });
    }
    let admission = builder.build()?;
    let client = http::client().build()?;

    let clock = Stopwatch::start();
    let mut calls = JoinSet::new();
    for number in 0..args.calls {
        let model = usize::from(number % 3 != 0);
        let chat = Chat {
            http: client.clone(),
            url: llm.url(&MODELS[model]),
            size: Size::of(u64::from(number)),
            provider: admission.provider(MODELS[model].name)?,
        };
        calls.spawn(async move {
            let size = chat.size;
            let outcome = chat.ask().await;
            (model, size, outcome, clock.elapsed())
        });
    }
    let mut totals = [Totals::default(), Totals::default()];
    let mut complaints = Complaints::new();
    while let Some(joined) = calls.join_next().await {
        let (model, size, outcome, at) = joined?;
        let totals = &mut totals[model];
        totals.calls += 1;
        totals.reserved += size.estimate();
        totals.finish = totals.finish.max(at);
        match outcome {
            Ok(tokens) => totals.used += tokens,
            Err(error) => complaints.push(format!("{}, a call failed: {error}", MODELS[model].name)),
        }
    }
    println!("{}", table_of(&llm, &totals, args.window));
    for (index, model) in MODELS.iter().enumerate() {
        let seen = llm.seen(index);
        check(&mut complaints, seen.violations == 0, || {
            format!("{}: {} requests passed a quota", model.name, seen.violations)
        });
        let used = totals[index].used;
        check(&mut complaints, seen.tokens == used, || {
            format!("{}: the service counted {} tokens, the client {used}", model.name, seen.tokens)
        });
    }
    Ok(complaints)
}

/// One question to a model.
struct Chat {
    http: reqwest::Client,
    url: String,
    size: Size,
    provider: Provider,
}

impl Chat {
    /// Asks in its turn, and again if the model was busy. The answer is how many tokens it took.
    async fn ask(&self) -> Result<u64, RetryError<Failure>> {
        // No backoff: the cooldown says when to go on, and the queue who goes first.
        let policy = Retry::times(20).when(Failure::is_transient).cooldown(Failure::retry_after);
        self.provider
            .cost("tokens", self.size.estimate())
            .retry(policy)
            .try_run(|attempt| self.attempt(attempt))
            .await
    }

    async fn attempt(&self, attempt: Attempt) -> Result<u64, Failure> {
        let body = json!({ "prompt_tokens": self.size.prompt, "max_tokens": self.size.max_answer });
        let request = self.http.post(&self.url).body(body.to_string());
        let answer = http::text(request).await;
        let used = match &answer {
            Ok(text) => tokens(text)?,
            // What was not answered took nothing.
            Err(Failure::Refused { .. }) => 0,
            // Who knows.
            Err(_) => self.size.estimate(),
        };
        attempt.settle("tokens", used).map_err(|error| Failure::Broken(error.to_string()))?;
        answer.map(|_| used)
    }
}

fn tokens(answer: &str) -> Result<u64, Failure> {
    let broken = || Failure::Broken(format!("no usage in {answer}"));
    let answer: Value = serde_json::from_str(answer).map_err(|_| broken())?;
    answer["usage"]["total_tokens"].as_u64().ok_or_else(broken)
}

/// What the client knows of its calls to one model.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    calls: u64,
    reserved: u64,
    used: u64,
    finish: Duration,
}

impl Totals {
    /// When the last call could start at best: every window but the last is full.
    fn ideal(&self, model: &Model, window: Duration) -> Duration {
        let windows = self.calls.div_ceil(model.requests).max(self.used.div_ceil(model.tokens));
        window * windows.saturating_sub(1) as u32
    }
}

fn table_of(llm: &Llm, totals: &[Totals; 2], window: Duration) -> String {
    let head = [
        "model",
        "calls",
        "reserved",
        "used",
        "429s",
        "most requests",
        "quota",
        "most tokens",
        "quota",
        "at once",
        "cap",
        "finish",
        "ideal",
    ];
    let mut rows = vec![head.map(String::from)];
    for (index, (model, totals)) in MODELS.iter().zip(totals).enumerate() {
        let seen = llm.seen(index);
        rows.push([
            model.name.to_owned(),
            totals.calls.to_string(),
            totals.reserved.to_string(),
            totals.used.to_string(),
            seen.refused.to_string(),
            seen.most_requests.to_string(),
            model.requests.to_string(),
            seen.most_tokens.to_string(),
            model.tokens.to_string(),
            seen.most_at_once.to_string(),
            model.at_once.to_string(),
            seconds(totals.finish),
            seconds(totals.ideal(model, window)),
        ]);
    }
    format!(
        "{}\nReserved and used: tokens, before and after the answers. Most: in any window of {}, as the service\n\
         counted. Ideal: the start of the last window that the quotas need, if nobody ever says 429.",
        table(&rows, 1),
        short(window)
    )
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
        let args = Args::parse_from(["llm_client", "--window", "400ms", "--calls", "90"]);
        assert_eq!(llm_client(args).await.unwrap(), Complaints::new());
    }
}
