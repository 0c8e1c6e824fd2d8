//! How every contestant calls: one GET over a cold connection, plain HTTP/1, no pool, no retry of
//! the library's own, so that one call is one request.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use tokio::sync::Semaphore;

use crate::progress::Board;

/// File descriptors that are not for calls.
const SPARE_FILES: u64 = 96;

/// Long enough for any reply, short enough to end.
const TIMEOUT: Duration = Duration::from_secs(30);

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
        let http = reqwest::Client::builder()
            .http1_only()
            .pool_max_idle_per_host(0)
            .retry(reqwest::retry::never())
            .no_proxy()
            .timeout(TIMEOUT)
            .build()?;
        Ok(Self {
            http,
            base: format!("http://{address}").into(),
            sockets: Arc::new(Semaphore::new(most_sockets())),
            board,
        })
    }

    /// One call. A reply is read to its end before this returns.
    pub(crate) async fn get(&self, provider: usize, name: &str, call: usize) -> Result<String, CallError> {
        let broken = |error: reqwest::Error| CallError::Broken(format!("{error:?}"));
        let _socket = self.sockets.acquire().await;
        let url = format!("{}/{name}/{call}", self.base);
        let response = self.http.get(url).send().await.map_err(broken)?;
        let status = response.status();
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.board.refused(provider);
            let ms = response.headers().get("retry-after-ms");
            let ms = ms.and_then(|ms| ms.to_str().ok()?.parse().ok());
            let retry_after = Duration::from_millis(ms.unwrap_or(1_000));
            return Err(CallError::Refused { retry_after });
        }
        let response = response.error_for_status().map_err(broken)?;
        response.text().await.map_err(broken)
    }
}

/// How many calls may be on the wire at once: both ends of a connection are in this process.
fn most_sockets() -> usize {
    let files = rlimit::increase_nofile_limit(16_384).unwrap_or(256);
    let sockets = files.saturating_sub(SPARE_FILES).max(32) / 2;
    usize::try_from(sockets).map_or(Semaphore::MAX_PERMITS, |n| n.min(Semaphore::MAX_PERMITS))
}
