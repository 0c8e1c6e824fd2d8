//! The stream itself: reads items, has them worked on, hands outputs out.
//!
//! Owns: the bounds (how many items are in flight, how many are begun and not read), the ways to end,
//! and the one [`poll_next`](Engine::poll_next) that both kinds of stream share. Lacks any idea of who
//! polls an item's work: that is its crew's.

use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use pin_project_lite::pin_project;

use super::ItemError;
use super::outbox::{Order, Outbox};
use super::work::{Ended, Outcome};
use crate::unwind::quietly;
use crate::{AbortHandle, Aborted};

/// Those who work on items.
pub(super) trait Crew<T> {
    type Value;
    type Error;

    /// Begins an item. Should this panic, it is as if the item had not been there.
    fn begin(&mut self, number: u64, item: T);

    /// The next outcome; only asked while some item is in flight.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended<Self::Value, Self::Error>>;

    /// Drops what can be dropped, and whatever comes later.
    fn dismiss(&mut self);
}

/// What the builder says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// At most so many items in flight.
    pub(super) concurrency: usize,
    /// At most so many items begun and not read.
    pub(super) capacity: usize,
    pub(super) order: Order,
    pub(super) stops_at_error: bool,
}

pub(super) type Output<U, E> = Result<U, ItemError<E>>;

pin_project! {
    /// A stream of outputs.
    pub(super) struct Engine<S, W, U, E> {
        // First, and so dropped first: whoever works is told before anything is taken away.
        stop: Stop,
        crew: W,
        outbox: Outbox<Output<U, E>>,
        // Gone as soon as nothing more is to be read from it.
        #[pin]
        source: Option<S>,
        bounds: Bounds,
        in_flight: usize,
        // Not there where nobody could abort.
        aborted: Option<Aborted>,
        has_ended: bool,
    }
}

impl<S, W, U, E> Engine<S, W, U, E>
where
    S: Stream,
    W: Crew<S::Item, Value = U, Error = E>,
{
    pub(super) const fn new(
        source: S,
        crew: W,
        bounds: Bounds,
        stop: AbortHandle,
        aborted: Option<Aborted>,
    ) -> Self {
        Self {
            stop: Stop(Some(stop)),
            crew,
            outbox: Outbox::new(bounds.order),
            source: Some(source),
            bounds,
            in_flight: 0,
            aborted,
            has_ended: false,
        }
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) const fn finished(&self) -> usize {
        self.outbox.finished()
    }

    pub(super) fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Output<U, E>>> {
        let mut this = self.project();
        if *this.has_ended {
            return Poll::Ready(None);
        }
        if this.aborted.as_mut().is_some_and(|aborted| Pin::new(aborted).poll(cx).is_ready()) {
            *this.aborted = None;
            this.source.set(None);
        }
        loop {
            while *this.in_flight < this.bounds.concurrency
                && *this.in_flight + this.outbox.finished() < this.bounds.capacity
            {
                let Some(source) = this.source.as_mut().as_pin_mut() else { break };
                match source.poll_next(cx) {
                    Poll::Pending => break,
                    Poll::Ready(None) => this.source.set(None),
                    Poll::Ready(Some(item)) => {
                        this.crew.begin(this.outbox.next(), item);
                        this.outbox.begin();
                        *this.in_flight += 1;
                    }
                }
            }
            let mut has_finished = false;
            while *this.in_flight > 0 {
                let Poll::Ready((number, outcome)) = this.crew.poll(cx) else { break };
                *this.in_flight -= 1;
                has_finished = true;
                match outcome {
                    Outcome::Done(output) => {
                        let is_last = output.is_err() && this.bounds.stops_at_error;
                        this.outbox.file(number, output);
                        if is_last {
                            // What would be begun now would be dropped soon.
                            this.source.set(None);
                        }
                    }
                    Outcome::Panicked(panic, _) => {
                        this.outbox.void(number);
                        resume_unwind(panic);
                    }
                }
            }
            if let Some(output) = this.outbox.pop() {
                if output.is_err() && this.bounds.stops_at_error {
                    *this.has_ended = true;
                    *this.in_flight = 0;
                    // Nothing that is thrown away here takes the error along.
                    quietly(|| this.stop.fire("the stream ended early"));
                    quietly(|| this.crew.dismiss());
                    quietly(|| *this.outbox = Outbox::new(this.bounds.order));
                }
                return Poll::Ready(Some(output));
            }
            if *this.in_flight == 0 && this.source.is_none() {
                *this.has_ended = true;
                *this.aborted = None;
                this.stop.0 = None;
                return Poll::Ready(None);
            }
            if !has_finished {
                return Poll::Pending;
            }
        }
    }

    pub(super) fn size_hint(&self) -> (usize, Option<usize>) {
        let begun = self.in_flight + self.outbox.finished();
        let (lower, upper) = match &self.source {
            Some(source) => source.size_hint(),
            None => (0, Some(0)),
        };
        // Each item has one output, but those that are not begun may never be.
        let lower = if self.aborted.is_some() { begun } else { begun.saturating_add(lower) };
        let lower = if self.bounds.stops_at_error { lower.min(1) } else { lower };
        (lower, upper.and_then(|upper| upper.checked_add(begun)))
    }
}

impl<S, W, U, E> Engine<S, W, U, E> {
    pub(super) fn describe(&self, mut f: fmt::DebugStruct<'_, '_>) -> fmt::Result {
        f.field("bounds", &self.bounds)
            .field("in_flight", &self.in_flight)
            .field("finished", &self.outbox.finished())
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}

/// Tells operations that nobody waits for them any more, unless all of them are done.
struct Stop(Option<AbortHandle>);

impl Stop {
    fn fire(&mut self, why: &'static str) {
        if let Some(handle) = self.0.take() {
            handle.abort_with(why);
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        quietly(|| self.fire("the stream was dropped"));
    }
}
