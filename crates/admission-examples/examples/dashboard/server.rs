//! The service that the contestants call: real HTTP on the loopback, one gate per provider. A
//! request is stamped as its handler is entered, on the server's own monotonic clock, and judged by
//! that stamp alone: no tolerance, no rounding.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

use crate::scenario::Scenario;

/// What a provider that has too many calls at once suggests: it cannot know when one will end.
const BUSY_RETRY: Duration = Duration::from_millis(100);

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 4_096;

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
    address: SocketAddr,
    service: Arc<Service>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a service with nothing in its windows, on a free port.
    pub(crate) async fn start(scenario: &Scenario) -> std::io::Result<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the server has a clock of its own, which the client knows nothing of"
        )]
        let begun = Instant::now();
        let service = Arc::new(Service {
            begun,
            scenario: scenario.clone(),
            gates: scenario
                .providers
                .iter()
                .map(|p| Mutex::new(Gate::new(p.limit, p.window, p.cap)))
                .collect(),
        });
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let listener = listener.tap_io(|stream| {
            // A reply is one small write: it must not wait for the next.
            let _ = stream.set_nodelay(true);
        });
        let app = Router::new().route("/{provider}/{call}", get(handle)).with_state(Arc::clone(&service));
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { address, service, task })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's clock now: what a stamp would say.
    pub(crate) fn elapsed(&self) -> Duration {
        self.service.begun.elapsed()
    }

    /// Every request to that provider so far, in order of arrival.
    pub(crate) fn arrivals(&self, provider: usize) -> Vec<Arrival> {
        self.service.gate(provider).arrivals.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
struct Service {
    begun: Instant,
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
        let now = self.begun.elapsed();
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
        Err(retry_after) => {
            let ms = retry_after.as_nanos().div_ceil(1_000_000);
            let headers =
                [("retry-after", ms.div_ceil(1_000).to_string()), ("retry-after-ms", ms.to_string())];
            (StatusCode::TOO_MANY_REQUESTS, headers, "too many requests\n").into_response()
        }
    }
}

/// One provider's rule, and its record.
#[derive(Debug)]
struct Gate {
    limit: usize,
    window: Duration,
    cap: usize,
    running: usize,
    /// The stamps of the accepted requests that are less than one window old.
    recent: VecDeque<Duration>,
    arrivals: Vec<Arrival>,
}

impl Gate {
    fn new(limit: usize, window: Duration, cap: Option<usize>) -> Self {
        Self {
            limit,
            window,
            cap: cap.unwrap_or(usize::MAX),
            running: 0,
            recent: VecDeque::new(),
            arrivals: Vec::new(),
        }
    }

    /// Accepts a request that arrives at `now`, or says how long to stay away.
    fn arrive(&mut self, now: Duration) -> Result<(), Duration> {
        while self.recent.front().is_some_and(|at| now - *at >= self.window) {
            self.recent.pop_front();
        }
        let verdict = if self.recent.len() >= self.limit {
            Err(self.recent[0] + self.window - now)
        } else if self.running >= self.cap {
            Err(BUSY_RETRY)
        } else {
            self.recent.push_back(now);
            self.running += 1;
            Ok(())
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
    fn the_quota_counts_what_was_accepted_in_the_half_open_window() {
        let mut gate = Gate::new(2, ms(10), None);
        assert_eq!(gate.arrive(ms(0)), Ok(()));
        assert_eq!(gate.arrive(ms(4)), Ok(()));
        // Full until the first is exactly one window old; refusals use up nothing.
        assert_eq!(gate.arrive(ms(4)), Err(ms(6)));
        assert_eq!(gate.arrive(ms(9)), Err(ms(1)));
        let just_before = ms(10) - Duration::from_nanos(1);
        assert_eq!(gate.arrive(just_before), Err(Duration::from_nanos(1)));
        assert_eq!(gate.arrive(ms(10)), Ok(()));
        assert_eq!(gate.arrive(ms(13)), Err(ms(1)));
        assert_eq!(gate.arrive(ms(14)), Ok(()));
        // Every request is on record, refused ones too.
        let accepted = gate.arrivals.iter().filter(|a| a.accepted).count();
        assert_eq!((accepted, gate.arrivals.len()), (4, 8));
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
    }

    #[test]
    fn no_window_of_accepted_requests_passes_the_quota() {
        let mut gate = Gate::new(5, ms(20), None);
        let mut now = 0;
        for step in 0..2_000_u64 {
            now += (step * step + 3) % 7;
            let _ = gate.arrive(ms(now));
        }
        let accepted: Vec<Duration> = gate.arrivals.iter().filter(|a| a.accepted).map(|a| a.at).collect();
        assert_eq!(crate::measure::most_in_any_window(&accepted, ms(20)), 5);
    }
}
