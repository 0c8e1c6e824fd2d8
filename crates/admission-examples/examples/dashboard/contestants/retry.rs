//! What most clients do: send, and when the server says 429, wait as long as it says and send again.

use std::time::Duration;

use backon::{ConstantBuilder, Retryable};

use crate::client::{CallError, Client};

/// A call that was refused so often is given up.
const MOST_RETRIES: usize = 500;

/// One call with as many requests as it takes.
pub(crate) async fn get(
    client: &Client,
    provider: usize,
    name: &str,
    call: usize,
) -> Result<String, CallError> {
    let times = ConstantBuilder::default().with_delay(Duration::ZERO).with_max_times(MOST_RETRIES);
    (|| client.get(provider, name, call))
        .retry(times)
        .when(|error| matches!(error, CallError::Refused { .. }))
        .adjust(|error, delay| match error {
            CallError::Refused { retry_after } => delay.map(|_| *retry_after),
            _ => delay,
        })
        .await
}
