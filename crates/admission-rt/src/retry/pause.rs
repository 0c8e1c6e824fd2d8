//! The wait between two attempts.
//!
//! Owns: the way out of that wait, by time or by a signal. Lacks a ticket: whoever waits here holds no
//! slot, no key and no place (rule E5).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::abort::Aborted;
use crate::alarms::Host;
use crate::shared::Shared;
use crate::sleep::Sleep;
use crate::{AbortSignal, Rejected};

/// Waits for a delay by the coordinator's clock, and not at all once the signal has fired.
///
/// A delay of zero takes one more poll, and needs no runtime: others run in between, so that an
/// operation that fails at once and is retried for ever does not keep its thread for ever.
pub(crate) struct Pause {
    wait: Wait,
    aborted: Option<Aborted>,
}

enum Wait {
    Turn,
    Time(Sleep),
    Over,
}

impl Pause {
    pub(crate) fn new(
        shared: Arc<Shared>,
        host: &'static Host,
        delay: Duration,
        signal: &AbortSignal,
    ) -> Self {
        let wait = match delay {
            Duration::ZERO => Wait::Turn,
            delay => Wait::Time(Sleep::new(shared, host, delay)),
        };
        let aborted = if signal.is_never() { None } else { Some(signal.aborted()) };
        Self { wait, aborted }
    }
}

impl Future for Pause {
    /// `Aborted`, or `NoRuntime` where nobody could wake it.
    type Output = Result<(), Rejected>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Some(aborted) = &mut this.aborted {
            if let Poll::Ready(reason) = Pin::new(aborted).poll(cx) {
                return Poll::Ready(Err(Rejected::Aborted(reason)));
            }
        }
        match &mut this.wait {
            Wait::Turn => {
                this.wait = Wait::Over;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Wait::Time(sleep) => Pin::new(sleep).poll(cx),
            Wait::Over => Poll::Ready(Ok(())),
        }
    }
}
