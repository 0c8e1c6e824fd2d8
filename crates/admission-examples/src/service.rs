//! A real HTTP service on a free port of the loopback. What it answers is the example's affair.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 4_096;

/// A running service. It stops to accept when this is dropped.
#[derive(Debug)]
pub struct Service {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Service {
    /// Starts to serve, on tokio.
    ///
    /// # Errors
    ///
    /// When there is no port to be had.
    pub fn start(app: Router) -> std::io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let listener = listener.tap_io(|stream| {
            // A reply is one small write: it must not wait for the next.
            let _ = stream.set_nodelay(true);
        });
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { address, task })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path, which begins with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// 429, with how long to stay away: in whole seconds, as the standard has it, and in milliseconds,
/// as several services add.
#[must_use]
pub fn too_many_requests(retry_after: Duration) -> Response {
    let ms = retry_after.as_nanos().div_ceil(1_000_000);
    let headers = [("retry-after", ms.div_ceil(1_000).to_string()), ("retry-after-ms", ms.to_string())];
    (StatusCode::TOO_MANY_REQUESTS, headers, "too many requests\n").into_response()
}
