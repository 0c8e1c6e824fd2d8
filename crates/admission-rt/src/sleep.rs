//! A stand-in.
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use admission_core::Instant;

use crate::Rejected;
use crate::alarms::Host;
use crate::shared::Shared;

pub(crate) struct Sleep {
    shared: Arc<Shared>,
    host: &'static Host,
    until: Instant,
}

impl Sleep {
    pub(crate) fn new(shared: Arc<Shared>, host: &'static Host, delay: Duration) -> Self {
        let until = shared.turn(|_, now| now + delay);
        Self { shared, host, until }
    }
}

impl Future for Sleep {
    type Output = Result<(), Rejected>;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let _ = self.host;
        if self.shared.turn(|_, now| now >= self.until) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}
