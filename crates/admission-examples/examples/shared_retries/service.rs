//! The service that two executions share: it wants its requests a certain time apart, and knows which
//! jobs fail, and how often. It notes of each request when it was started and when it arrived.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admission_examples::http::started;
use admission_examples::quota::gaps;
use admission_examples::scramble;
use admission_examples::service::Service;
use admission_examples::time::Stopwatch;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::Job;

/// The service, and what it saw.
pub(crate) struct Processor {
    http: Service,
    records: Arc<Records>,
}

struct Records {
    clock: Stopwatch,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    attempts: HashMap<Job, u32>,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) job: Job,
    pub(crate) attempt: u32,
    /// When the client called its operation.
    pub(crate) started: Duration,
    pub(crate) arrived: Duration,
    pub(crate) status: StatusCode,
}

impl Processor {
    /// `clock` is the client's, so that both measure alike.
    pub(crate) fn start(clock: Stopwatch) -> std::io::Result<Self> {
        let records = Arc::new(Records { clock, log: Mutex::default() });
        let app = Router::new().route("/{execution}/{job}", get(process)).with_state(Arc::clone(&records));
        Ok(Self { http: Service::start(app)?, records })
    }

    pub(crate) fn url(&self) -> String {
        self.http.url("")
    }

    /// Every request, in the order of their starts.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let mut requests = self.records.lock().requests.clone();
        requests.sort_unstable_by_key(|request| request.started);
        requests
    }

    /// The gaps between starts, and between arrivals.
    pub(crate) fn gaps(&self) -> (Vec<Duration>, Vec<Duration>) {
        let requests = self.requests();
        let started: Vec<_> = requests.iter().map(|request| request.started).collect();
        let arrived: Vec<_> = requests.iter().map(|request| request.arrived).collect();
        (gaps(&started), gaps(&arrived))
    }
}

impl Records {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a job fails before it succeeds, and with what.
pub(crate) fn fails((_, number): Job) -> (u32, StatusCode) {
    match number % 6 {
        2 => (1, StatusCode::SERVICE_UNAVAILABLE),
        3 => (2, StatusCode::SERVICE_UNAVAILABLE),
        // Once more than is retried.
        5 => (3, StatusCode::SERVICE_UNAVAILABLE),
        // Not to be retried at all.
        4 => (u32::MAX, StatusCode::UNPROCESSABLE_ENTITY),
        _ => (0, StatusCode::OK),
    }
}

async fn process(State(records): State<Arc<Records>>, Path(job): Path<Job>, headers: HeaderMap) -> Response {
    let Some(started) = started(&headers) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let status = {
        let mut log = records.lock();
        let arrived = records.clock.elapsed();
        let attempt = log.attempts.entry(job).or_default();
        *attempt += 1;
        let attempt = *attempt;
        let (times, error) = fails(job);
        let status = if attempt <= times { error } else { StatusCode::OK };
        log.requests.push(Request { job, attempt, started, arrived, status });
        status
    };
    // Longer than the interval, so that calls overlap.
    let random = scramble(u64::from(job.0) << 32 | u64::from(job.1)) % 100;
    tokio::time::sleep(Duration::from_millis(80 + random)).await;
    match status {
        StatusCode::OK => result(job).into_response(),
        error => error.into_response(),
    }
}

/// What a job comes to.
pub(crate) fn result((execution, number): Job) -> String {
    format!("job {number} of execution {execution} is done")
}
