//! A thousand hosts, served by one server that tells them apart by the `Host` header. Each of them counts
//! what it works on and notes when its requests were started; what all of them work on together is counted
//! too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admission_examples::http::started;
use admission_examples::quota::{InFlight, gaps};
use admission_examples::report::{Complaints, check};
use admission_examples::scramble;
use admission_examples::service::Service;
use admission_examples::time::milliseconds;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::{AT_ONCE, PER_HOST, Page};

/// The server, and what its hosts saw.
pub(crate) struct Web {
    http: Service,
    hosts: Arc<Hosts>,
}

#[derive(Default)]
struct Hosts {
    all: InFlight,
    hosts: Mutex<HashMap<String, Host>>,
}

#[derive(Default)]
struct Host {
    in_flight: InFlight,
    started: Vec<Duration>,
    /// The requests that were answered 503 once.
    failed: Vec<u32>,
}

impl Web {
    pub(crate) fn start() -> std::io::Result<Self> {
        let hosts = Arc::<Hosts>::default();
        let app = Router::new().route("/{page}", get(page)).with_state(Arc::clone(&hosts));
        Ok(Self { http: Service::start(app)?, hosts })
    }

    pub(crate) fn url(&self) -> String {
        self.http.url("")
    }

    /// What it saw, in a line.
    pub(crate) fn summary(&self) -> String {
        let hosts = self.hosts.lock();
        let requests: usize = hosts.values().map(|host| host.started.len()).sum();
        let most = hosts.values().map(|host| host.in_flight.most()).max().unwrap_or(0);
        let gap = hosts.values().flat_map(|host| gaps(&host.started)).min().unwrap_or_default();
        format!(
            "{} hosts saw {requests} requests: at most {} of all at once, at most {most} of one host, the \
             smallest gap at one host {}",
            hosts.len(),
            self.hosts.all.most(),
            milliseconds(gap)
        )
    }

    /// What its hosts have to complain about.
    pub(crate) fn complaints(&self, delay: Duration) -> Complaints {
        let mut complaints = Complaints::new();
        let all = self.hosts.all.most();
        check(&mut complaints, all <= AT_ONCE as usize, || format!("{all} requests at once"));
        for (name, host) in &*self.hosts.lock() {
            let most = host.in_flight.most();
            check(&mut complaints, most <= PER_HOST as usize, || format!("{name}: {most} requests at once"));
            for gap in gaps(&host.started).into_iter().filter(|gap| *gap < delay) {
                complaints.push(format!("{name}: a start {} after another", milliseconds(gap)));
            }
        }
        complaints
    }
}

impl Hosts {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Host>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn page(State(hosts): State<Arc<Hosts>>, Path(number): Path<u32>, headers: HeaderMap) -> Response {
    let name = headers.get("host").and_then(|name| name.to_str().ok());
    let (Some(name), Some(started)) = (name, started(&headers)) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let random = scramble(
        name.bytes()
            .fold(u64::from(number), |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte))),
    );
    let (_slot, _one_of_all, fails) = {
        let mut all = hosts.lock();
        let host = all.entry(name.to_owned()).or_default();
        host.started.push(started);
        let fails = random % 50 == 0 && !host.failed.contains(&number);
        if fails {
            host.failed.push(number);
        }
        (host.in_flight.enter(), hosts.all.enter(), fails)
    };
    // Now and then one takes so long that the host's next two calls meet its bound.
    let latency = if random % 8 == 1 { 150 } else { 5 + random % 20 };
    tokio::time::sleep(Duration::from_millis(latency)).await;
    if fails {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    text_of(&Page { host: name.into(), number }).into_response()
}

/// What stands on a page.
pub(crate) fn text_of(page: &Page) -> String {
    format!("page {} of {}", page.number, page.host)
}
