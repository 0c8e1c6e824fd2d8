//! The service that the contestants call: real HTTP on the loopback, one gate per provider. A
//! request is stamped as its handler is entered, on the server's own monotonic clock, and judged by
//! that stamp alone: no tolerance, no rounding.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admission_examples::quota::SlidingLog;
use admission_examples::service::{self, too_many_requests};
use admission_examples::time::Stopwatch;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::scenario::Scenario;

/// What a provider that has too many calls at once suggests: it cannot know when one will end.
const BUSY_RETRY: Duration = Duration::from_millis(100);

/// One request, as the server saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// Since the server was started.
    pub(crate) at: Duration,
    pub(crate) accepted: bool,
}

/// A running service. It stops to accept when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    http: service::Service,
    service: Arc<Service>,
}

impl Server {
    /// Starts a service with nothing in its windows, on a free port.
    pub(crate) fn start(scenario: &Scenario) -> std::io::Result<Self> {
        let service = Arc::new(Service {
            clock: Stopwatch::start(),
            scenario: scenario.clone(),
            gates: scenario
                .providers
                .iter()
                .map(|p| Mutex::new(Gate::new(p.limit, p.window, p.cap)))
                .collect(),
        });
        let app = Router::new().route("/{provider}/{call}", get(handle)).with_state(Arc::clone(&service));
        Ok(Self { http: service::Service::start(app)?, service })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// The server's clock now: what a stamp would say.
    pub(crate) fn elapsed(&self) -> Duration {
        self.service.clock.elapsed()
    }

    /// Every request to that provider so far, in order of arrival.
    pub(crate) fn arrivals(&self, provider: usize) -> Vec<Arrival> {
        self.service.gate(provider).arrivals.clone()
    }
}

#[derive(Debug)]
struct Service {
    clock: Stopwatch,
    scenario: Scenario,
    gates: Vec<Mutex<Gate>>,
}

impl Service {
    fn gate(&self, provider: usize) -> MutexGuard<'_, Gate> {
        self.gates[provider].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stamps and judges one request. The stamp is taken under the gate's lock, so that stamps are
    /// in order.
    fn arrive(self: &Arc<Self>, provider: usize) -> Result<Slot, Duration> {
        let mut gate = self.gate(provider);
        let now = self.clock.elapsed();
        gate.arrive(now)?;
        Ok(Slot { service: Arc::clone(self), provider })
    }
}

/// One of a provider's calls at work; ends with the handler, also when the client hangs up.
struct Slot {
    service: Arc<Service>,
    provider: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.service.gate(self.provider).running -= 1;
    }
}

async fn handle(State(service): State<Arc<Service>>, Path((name, call)): Path<(String, usize)>) -> Response {
    let providers = &service.scenario.providers;
    let Some(provider) = providers.iter().position(|p| p.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match service.arrive(provider) {
        Ok(slot) => {
            tokio::time::sleep(service.scenario.latency(provider, call)).await;
            drop(slot);
            format!("{name} has data for {call}\n").into_response()
        }
        Err(retry_after) => too_many_requests(retry_after),
    }
}

/// One provider's rule, and its record.
#[derive(Debug)]
struct Gate {
    log: SlidingLog,
    cap: usize,
    running: usize,
    arrivals: Vec<Arrival>,
}

impl Gate {
    fn new(limit: usize, window: Duration, cap: Option<usize>) -> Self {
        Self {
            log: SlidingLog::new(limit as u64, window),
            cap: cap.unwrap_or(usize::MAX),
            running: 0,
            arrivals: Vec::new(),
        }
    }

    /// Accepts a request that arrives at `now`, or says how long to stay away.
    fn arrive(&mut self, now: Duration) -> Result<(), Duration> {
        let verdict = match self.log.wait(now, 1) {
            Duration::ZERO if self.running >= self.cap => Err(BUSY_RETRY),
            Duration::ZERO => {
                self.log.book(now, 1);
                self.running += 1;
                Ok(())
            }
            wait => Err(wait),
        };
        self.arrivals.push(Arrival { at: now, accepted: verdict.is_ok() });
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_cap_counts_what_runs() {
        let mut gate = Gate::new(3, ms(10), Some(1));
        assert_eq!(gate.arrive(ms(0)), Ok(()));
        assert_eq!(gate.arrive(ms(1)), Err(BUSY_RETRY));
        gate.running -= 1;
        assert_eq!(gate.arrive(ms(2)), Ok(()));
        gate.running -= 1;
        assert_eq!(gate.arrive(ms(3)), Ok(()));
        // Both apply: the quota is what takes longer.
        assert_eq!(gate.arrive(ms(4)), Err(ms(6)));
        // Every request is on record, refused ones too.
        let accepted = gate.arrivals.iter().filter(|a| a.accepted).count();
        assert_eq!((accepted, gate.arrivals.len()), (3, 5));
    }
}
