//! The service: two models, each with its own quota of requests, of tokens and of calls at once. It counts
//! every request as it arrives, with the tokens that its answer really takes, and knows moments in which
//! it is too busy for anybody.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admission_examples::quota::{InFlight, SlidingLog};
use admission_examples::scramble;
use admission_examples::service::{Service, too_many_requests};
use admission_examples::time::Stopwatch;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};

/// What one model allows, which its clients know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// Requests per window.
    pub(crate) requests: u64,
    /// Tokens per window, prompts and answers together.
    pub(crate) tokens: u64,
    /// Requests at once.
    pub(crate) at_once: u32,
    /// How long it works on each token of an answer.
    pub(crate) per_token: Duration,
    /// The requests at whose arrival it becomes too busy, by number.
    busy_at: [u64; 2],
}

/// One is held back by its tokens, the other by its requests.
pub(crate) const MODELS: [Model; 2] = [
    Model {
        name: "large",
        requests: 20,
        tokens: 4_000,
        at_once: 4,
        per_token: Duration::from_micros(800),
        busy_at: [7, 0],
    },
    Model {
        name: "small",
        requests: 30,
        tokens: 20_000,
        at_once: 6,
        per_token: Duration::from_micros(200),
        busy_at: [20, 60],
    },
];

/// How long it is too busy for anybody.
const BUSY_FOR: Duration = Duration::from_millis(250);

/// What a request costs at most, as its client knows it in advance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) prompt: u64,
    pub(crate) max_answer: u64,
}

impl Size {
    /// The size of request number `number`.
    pub(crate) fn of(number: u64) -> Self {
        Self { prompt: 40 + scramble(number) % 160, max_answer: 100 + scramble(!number) % 300 }
    }

    /// What to reserve for it.
    pub(crate) const fn estimate(self) -> u64 {
        self.prompt + self.max_answer
    }

    /// What the answer takes: a fifth to four fifths of what it may.
    pub(crate) fn answer(self) -> u64 {
        self.max_answer * (20 + scramble(self.prompt ^ (self.max_answer << 32)) % 61) / 100
    }
}

/// The service, and what it saw.
pub(crate) struct Llm {
    http: Service,
    desks: Arc<Desks>,
}

/// What has happened to a model.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) answered: u64,
    /// Told to come back, because the model was too busy.
    pub(crate) refused: u64,
    pub(crate) violations: u64,
    /// The tokens of all answers.
    pub(crate) tokens: u64,
    pub(crate) most_requests: u64,
    pub(crate) most_tokens: u64,
    pub(crate) most_at_once: usize,
}

struct Desks {
    clock: Stopwatch,
    desks: [(InFlight, Mutex<Desk>); 2],
}

struct Desk {
    seen: Seen,
    requests: SlidingLog,
    tokens: SlidingLog,
    arrivals: u64,
    busy_until: Duration,
}

impl Llm {
    pub(crate) fn start(window: Duration) -> std::io::Result<Self> {
        let desks = MODELS.map(|model| {
            let desk = Desk {
                seen: Seen::default(),
                requests: SlidingLog::new(model.requests, window),
                tokens: SlidingLog::new(model.tokens, window),
                arrivals: 0,
                busy_until: Duration::ZERO,
            };
            (InFlight::default(), Mutex::new(desk))
        });
        let desks = Arc::new(Desks { clock: Stopwatch::start(), desks });
        let app = Router::new().route("/{model}/chat", post(chat)).with_state(Arc::clone(&desks));
        Ok(Self { http: Service::start(app)?, desks })
    }

    pub(crate) fn url(&self, model: &Model) -> String {
        self.http.url(&format!("/{}/chat", model.name))
    }

    pub(crate) fn seen(&self, model: usize) -> Seen {
        let desk = self.desks.lock(model);
        Seen {
            most_requests: desk.requests.most(),
            most_tokens: desk.tokens.most(),
            most_at_once: self.desks.desks[model].0.most(),
            ..desk.seen
        }
    }
}

impl Desks {
    fn lock(&self, model: usize) -> MutexGuard<'_, Desk> {
        self.desks[model].1.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stamps and judges one request whose answer takes so many tokens, or says how long to stay away.
    fn arrive(&self, model: usize, tokens: u64, at_once: usize) -> Result<(), Duration> {
        let mut desk = self.lock(model);
        let now = self.clock.elapsed();
        desk.arrivals += 1;
        if MODELS[model].busy_at.contains(&desk.arrivals) {
            desk.busy_until = now + BUSY_FOR;
        }
        // A request counts as one whatever it is answered; what was not answered took no tokens.
        let wait = desk.requests.wait(now, 1);
        desk.requests.book(now, 1);
        let mut is_allowed = wait.is_zero() && at_once <= MODELS[model].at_once as usize;
        let busy = desk.busy_until.saturating_sub(now);
        if busy.is_zero() {
            is_allowed &= desk.tokens.wait(now, tokens).is_zero();
            desk.tokens.book(now, tokens);
            desk.seen.tokens += tokens;
            desk.seen.answered += 1;
        } else {
            desk.seen.refused += 1;
        }
        // It is counted and answered all the same, so that one mistake is not told twice.
        desk.seen.violations += u64::from(!is_allowed);
        if busy.is_zero() { Ok(()) } else { Err(busy) }
    }
}

async fn chat(State(desks): State<Arc<Desks>>, Path(model): Path<String>, body: String) -> Response {
    let Some(model) = MODELS.iter().position(|m| m.name == model) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Some(size) = read(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let slot = desks.desks[model].0.enter();
    let at_once = desks.desks[model].0.now();
    let answer = size.answer();
    if let Err(retry_after) = desks.arrive(model, size.prompt + answer, at_once) {
        return too_many_requests(retry_after);
    }
    tokio::time::sleep(MODELS[model].per_token * answer as u32).await;
    drop(slot);
    json!({ "usage": { "total_tokens": size.prompt + answer } }).to_string().into_response()
}

fn read(body: &str) -> Option<Size> {
    let body: Value = serde_json::from_str(body).ok()?;
    Some(Size { prompt: body["prompt_tokens"].as_u64()?, max_answer: body["max_tokens"].as_u64()? })
}
