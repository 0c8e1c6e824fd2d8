//! A stream that is read no faster than a limiter allows.
//!
//! Owns: the order of things: admission first, then the read. Lacks retries, and any item: nothing is
//! read ahead, so a refusal loses nothing.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::{FusedStream, Stream};
use pin_project_lite::pin_project;

use crate::runtime::Runtime;
use crate::{Acquire, Call, Permit, Rejected};

pin_project! {
    /// The stream of [`paced`](super::AdmissionStreamExt::paced): each read of the source is a call.
    ///
    /// A read begins when it is admitted, and not before somebody polls for it; it holds its permit
    /// until the source has answered (an [`IntervalLimiter`](crate::IntervalLimiter) lets go once the
    /// source was asked). The first refusal is the last item, and the source is untouched by it:
    /// [`into_inner`](Self::into_inner) gives it back. *Cancel safe*: dropped while it waits, it leaves
    /// its place. It is fused, and polls the source no more after its end.
    #[must_use = "streams do nothing unless polled"]
    pub struct Paced<S, R> {
        // Before the permit, and so dropped before it.
        #[pin]
        source: S,
        call: Call<R>,
        stage: Stage<R>,
    }
}

enum Stage<R> {
    Idle,
    Waiting(Acquire<R>),
    Reading(Option<Permit>),
    Ended,
}

impl<S, R: Runtime> Paced<S, R> {
    pub(super) const fn new(source: S, call: Call<R>) -> Self {
        Self { source, call, stage: Stage::Idle }
    }

    /// The source, with every item that was not handed out.
    pub fn into_inner(self) -> S {
        self.source
    }
}

impl<S: Stream, R: Runtime> Stream for Paced<S, R> {
    type Item = Result<S::Item, Rejected>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            match this.stage {
                Stage::Idle => *this.stage = Stage::Waiting(this.call.clone().acquire()),
                Stage::Waiting(acquire) => match ready!(acquire.poll_acquire(cx)) {
                    Ok(permit) => *this.stage = Stage::Reading(Some(permit)),
                    Err(rejected) => {
                        *this.stage = Stage::Ended;
                        return Poll::Ready(Some(Err(rejected)));
                    }
                },
                Stage::Reading(permit) => {
                    let read = this.source.as_mut().poll_next(cx);
                    if permit.as_ref().is_some_and(Permit::is_until_called) {
                        *permit = None;
                    }
                    let item = ready!(read);
                    *this.stage = if item.is_some() { Stage::Idle } else { Stage::Ended };
                    return Poll::Ready(item.map(Ok));
                }
                Stage::Ended => return Poll::Ready(None),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if let Stage::Ended = self.stage {
            return (0, Some(0));
        }
        // A refusal ends it, in the place of any item or of the end.
        let (lower, upper) = self.source.size_hint();
        (lower.min(1), upper.and_then(|upper| upper.checked_add(1)))
    }
}

impl<S: Stream, R: Runtime> FusedStream for Paced<S, R> {
    fn is_terminated(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }
}

impl<S, R> fmt::Debug for Paced<S, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Idle => "idle",
            Stage::Waiting(_) => "waiting",
            Stage::Reading(_) => "reading",
            Stage::Ended => "ended",
        };
        f.debug_struct("Paced").field("call", &self.call).field("stage", &stage).finish_non_exhaustive()
    }
}
