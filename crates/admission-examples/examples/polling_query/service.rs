//! The service that is polled: a reading that is newer with each request. It has bad moments, by the
//! number of the request, and checks that it is called as it allows.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admission_examples::quota::{InFlight, SlidingLog};
use admission_examples::report::{Complaints, check};
use admission_examples::scramble;
use admission_examples::service::{Service, too_many_requests};
use admission_examples::time::Stopwatch;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// At most so many requests per [`WINDOW`].
pub(crate) const QUOTA: u64 = 12;
/// The quota's window.
pub(crate) const WINDOW: Duration = Duration::from_secs(1);

/// The request that takes [`SLOW`].
const SLOW_REQUEST: u64 = 4;
/// Longer than any client waits for a reading.
pub(crate) const SLOW: Duration = Duration::from_millis(700);
/// The requests that are answered 503.
const FAILED_REQUESTS: [u64; 2] = [8, 9];
/// The request that is answered 429, and starts a rest of [`REST`].
const REFUSED_REQUEST: u64 = 13;
/// What `Retry-After` says.
const REST: Duration = Duration::from_millis(600);

/// The service, and what it saw.
pub(crate) struct Feed {
    http: Service,
    records: Arc<Records>,
}

/// What has happened to a [`Feed`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) refused: u64,
    /// Requests past the quota, and requests during the rest.
    pub(crate) violations: u64,
}

struct Records {
    clock: Stopwatch,
    in_flight: InFlight,
    state: Mutex<Judge>,
}

struct Judge {
    seen: Seen,
    log: SlidingLog,
    rests_until: Duration,
}

impl Feed {
    pub(crate) fn start() -> std::io::Result<Self> {
        let judge =
            Judge { seen: Seen::default(), log: SlidingLog::new(QUOTA, WINDOW), rests_until: Duration::ZERO };
        let records = Arc::new(Records {
            clock: Stopwatch::start(),
            in_flight: InFlight::default(),
            state: Mutex::new(judge),
        });
        let app = Router::new().route("/reading", get(reading)).with_state(Arc::clone(&records));
        Ok(Self { http: Service::start(app)?, records })
    }

    pub(crate) fn url(&self) -> String {
        self.http.url("/reading")
    }

    pub(crate) fn seen(&self) -> Seen {
        self.records.lock().seen
    }

    /// What it has to complain about.
    pub(crate) fn complaints(&self) -> Complaints {
        let mut complaints = Complaints::new();
        let (seen, most) = (self.seen(), self.records.in_flight.most());
        check(&mut complaints, seen.violations == 0, || {
            format!("{} requests came when they should not", seen.violations)
        });
        check(&mut complaints, most == 1, || format!("{most} requests with one key at once"));
        complaints
    }
}

impl Records {
    fn lock(&self) -> std::sync::MutexGuard<'_, Judge> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stamps and judges one request: its number, or how long to stay away.
    fn arrive(&self) -> Result<u64, Duration> {
        let mut judge = self.lock();
        let now = self.clock.elapsed();
        judge.seen.requests += 1;
        let request = judge.seen.requests;
        if request == REFUSED_REQUEST {
            judge.rests_until = now + REST;
            judge.seen.refused += 1;
            return Err(REST);
        }
        let rest = judge.rests_until.saturating_sub(now);
        let wait = judge.log.admit(now, 1).err().unwrap_or_default();
        match rest.max(wait) {
            Duration::ZERO => Ok(request),
            wait => {
                judge.seen.violations += 1;
                Err(wait)
            }
        }
    }
}

async fn reading(State(records): State<Arc<Records>>) -> Response {
    let _slot = records.in_flight.enter();
    let request = match records.arrive() {
        Ok(request) => request,
        Err(retry_after) => return too_many_requests(retry_after),
    };
    if FAILED_REQUESTS.contains(&request) {
        records.lock().seen.failed += 1;
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let latency = match request {
        SLOW_REQUEST => SLOW,
        _ => Duration::from_millis(10 + scramble(request) % 20),
    };
    tokio::time::sleep(latency).await;
    request.to_string().into_response()
}
