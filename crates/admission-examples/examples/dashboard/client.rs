//! How every contestant calls: one GET over a cold connection, plain HTTP/1, no pool, no retry of
//! the library's own, so that one call is one request.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use admission_examples::http::{self, Failure};
use tokio::sync::Semaphore;

use crate::progress::Board;

/// File descriptors that are not for calls.
const SPARE_FILES: u64 = 96;

/// Why a call brought no data.
#[derive(Debug, Clone)]
pub(crate) enum CallError {
    /// 429, and how long to stay away.
    Refused { retry_after: Duration },
    /// Anything else that a network does.
    Broken(String),
    /// It was never made.
    NotAdmitted(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { retry_after } => {
                write!(f, "429, come back in {} ms", retry_after.as_millis())
            }
            Self::Broken(why) => write!(f, "broken: {why}"),
            Self::NotAdmitted(why) => write!(f, "not admitted: {why}"),
        }
    }
}

/// Makes calls to one server. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Arc<str>,
    sockets: Arc<Semaphore>,
    board: Arc<Board>,
}

impl Client {
    /// Calls go to the server at `address`; what is refused is told to `board`.
    pub(crate) fn new(address: SocketAddr, board: Arc<Board>) -> Result<Self, reqwest::Error> {
        let http = http::client().pool_max_idle_per_host(0).build()?;
        Ok(Self {
            http,
            base: format!("http://{address}").into(),
            sockets: Arc::new(Semaphore::new(most_sockets())),
            board,
        })
    }

    /// One call. A reply is read to its end before this returns.
    pub(crate) async fn get(&self, provider: usize, name: &str, call: usize) -> Result<String, CallError> {
        let _socket = self.sockets.acquire().await;
        let url = format!("{}/{name}/{call}", self.base);
        http::text(self.http.get(url)).await.map_err(|failure| match failure {
            Failure::Refused { retry_after } => {
                self.board.refused(provider);
                CallError::Refused { retry_after }
            }
            broken => CallError::Broken(broken.to_string()),
        })
    }
}

/// How many calls may be on the wire at once: both ends of a connection are in this process.
fn most_sockets() -> usize {
    let files = rlimit::increase_nofile_limit(16_384).unwrap_or(256);
    let sockets = files.saturating_sub(SPARE_FILES).max(32) / 2;
    usize::try_from(sockets).map_or(Semaphore::MAX_PERMITS, |n| n.min(Semaphore::MAX_PERMITS))
}
