//! Waiting for the coordinator as a whole: until it is idle, until it is closed.
//!
//! Owns: a seat among those who wait, given back when the future is dropped. Lacks a place in the
//! queue: waiting here delays nobody and admits nobody.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::alarms::{Booked, Host};
use crate::runtime::RuntimeId;
use crate::shared::Shared;
use crate::unwind::quietly;

/// The future of [`Admission::idle`](crate::Admission::idle): ready once nothing was queued,
/// granted or running, if only for a moment, after it was first polled.
///
/// Cancel safe. While it waits and a grant is out, an alarm of the runtime that polls it makes sure
/// that a caller who does not take its grant does not keep it waiting (rules S4, T6). Polled
/// outside any runtime it has no alarm, and hears of it with the next call to the coordinator.
#[must_use = "futures do nothing unless polled"]
pub struct Idle {
    shared: Arc<Shared>,
    host: &'static Host,
    seat: Option<u32>,
    /// A runtime that has no alarms any more. Asked again it would only wake this future again.
    gone: Option<RuntimeId>,
}

impl Idle {
    pub(crate) const fn new(shared: Arc<Shared>, host: &'static Host) -> Self {
        Self { shared, host, seat: None, gone: None }
    }

    fn leave(&mut self) {
        let Self { shared, seat, .. } = self;
        if seat.is_some() {
            let (waker, unwind) = shared.turn_held(|state, _| {
                let waker = state.idle.leave(seat, &mut state.alarms);
                state.watch_idle();
                waker
            });
            drop(waker);
            unwind.resume();
        }
    }
}

impl Future for Idle {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Self { shared, host, seat, gone } = this;
        let runtime = (host.current)().filter(|runtime| Some(*runtime) != *gone);
        let mut needs_waker = false;
        let ready = shared.turn(|state, now| {
            state.core.handle_timeout(now);
            let ready = state.idle.has_reached(*seat) || state.core.is_idle();
            needs_waker = !ready && !state.idle.keeps(*seat, cx.waker(), runtime.is_some());
            ready
        });
        if ready {
            this.leave();
            return Poll::Ready(());
        }
        if !needs_waker {
            return Poll::Pending;
        }
        let mut waker = Some(cx.waker().clone());
        let mut booked = Booked::Done;
        let (ready, unwind) = shared.turn_held(|state, _| {
            if state.idle.has_reached(*seat) || state.core.is_idle() {
                return true;
            }
            if let Some(new) = waker.take() {
                (waker, booked) = state.idle.sit(seat, new, runtime, &mut state.alarms);
            }
            state.watch_idle();
            false
        });
        if !shared.make(host, booked) {
            *gone = runtime;
        }
        drop(waker);
        unwind.resume();
        if ready {
            this.leave();
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        quietly(|| self.leave());
    }
}

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idle").field("waiting", &self.seat.is_some()).finish_non_exhaustive()
    }
}

/// The future of [`Admission::closed`](crate::Admission::closed): ready once the coordinator is
/// closed. Cancel safe; needs no runtime, and lets no time pass.
#[must_use = "futures do nothing unless polled"]
pub struct Closed {
    shared: Arc<Shared>,
    seat: Option<u32>,
}

impl Closed {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared, seat: None }
    }

    fn leave(&mut self) {
        let Self { shared, seat } = self;
        if seat.is_some() {
            let (waker, unwind) = shared.turn_held(|state, _| state.closed.leave(seat, &mut state.alarms));
            drop(waker);
            unwind.resume();
        }
    }
}

impl Future for Closed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Self { shared, seat } = this;
        let mut needs_waker = false;
        let mut closed = shared.turn(|state, _| {
            needs_waker = !state.closed.keeps(*seat, cx.waker(), false);
            state.core.is_closed()
        });
        if !closed && needs_waker {
            let mut waker = Some(cx.waker().clone());
            let (now_closed, unwind) = shared.turn_held(|state, _| {
                if state.core.is_closed() {
                    return true;
                }
                if let Some(new) = waker.take() {
                    (waker, _) = state.closed.sit(seat, new, None, &mut state.alarms);
                }
                false
            });
            closed = now_closed;
            drop(waker);
            unwind.resume();
        }
        if closed {
            this.leave();
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        quietly(|| self.leave());
    }
}

impl fmt::Debug for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed").field("waiting", &self.seat.is_some()).finish_non_exhaustive()
    }
}
