//! The client's side of HTTP: one call is one request, and an answer that is no data is an error that
//! says what to do about it.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use axum::http::HeaderMap;
use reqwest::{ClientBuilder, RequestBuilder, Response, StatusCode};

/// Long enough for any reply, short enough to end.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How long a 429 keeps away that does not say so.
const UNSTATED: Duration = Duration::from_secs(1);

/// Says when a call was started; see [`started`].
const STARTED: &str = "started-ns";

/// A plain HTTP/1 client without retries of its own.
pub fn client() -> ClientBuilder {
    reqwest::Client::builder().http1_only().retry(reqwest::retry::never()).no_proxy().timeout(TIMEOUT)
}

/// Why a call brought no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 429, and how long to stay away.
    Refused {
        /// For so long.
        retry_after: Duration,
    },
    /// Another answer that is no success.
    Status(u16),
    /// Anything else that a network does.
    Broken(String),
}

impl Failure {
    /// Whether the same request may succeed later.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Broken(_) => true,
            Self::Status(status) => *status >= 500,
        }
    }

    /// How long the service wants to be left alone, if it said so.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after } => Some(*retry_after),
            Self::Status(_) | Self::Broken(_) => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { retry_after } => write!(f, "429, come back in {} ms", retry_after.as_millis()),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Broken(why) => write!(f, "broken: {why}"),
        }
    }
}

impl Error for Failure {}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        Self::Broken(format!("{error:?}"))
    }
}

/// Sends a request, and reads the answer to its end.
///
/// # Errors
///
/// [`Failure`], also for every answer that is no success.
pub async fn text(request: RequestBuilder) -> Result<String, Failure> {
    let response = request.send().await?;
    match response.status() {
        StatusCode::TOO_MANY_REQUESTS => Err(Failure::Refused { retry_after: retry_after(&response) }),
        status if !status.is_success() => Err(Failure::Status(status.as_u16())),
        _ => Ok(response.text().await?),
    }
}

fn retry_after(response: &Response) -> Duration {
    let number = |name| response.headers().get(name)?.to_str().ok()?.parse().ok();
    let ms = number("retry-after-ms").map(Duration::from_millis);
    ms.or_else(|| number("retry-after").map(Duration::from_secs)).unwrap_or(UNSTATED)
}

/// Tells the service when this call was started. What an interval promises is the gap between two
/// *starts*; what of it is left between two arrivals is up to the wire, so a service that wants to
/// check the promise to the nanosecond has to be told. Client and service must share the clock.
pub fn stamped(request: RequestBuilder, started: Duration) -> RequestBuilder {
    request.header(STARTED, started.as_nanos().to_string())
}

/// When the call behind these headers was started, if it says so.
#[must_use]
pub fn started(headers: &HeaderMap) -> Option<Duration> {
    let nanos = headers.get(STARTED)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}
