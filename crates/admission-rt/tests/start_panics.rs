//! A signal whose destructor panics in the very poll that starts its call, or refuses it.
//!
//! Owns: what the call still has after that, and what it is told. Lacks panics of wakers and operations (`hostile.rs`).

mod common;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use admission_rt::{AbortSignal, Rejected};
use common::{Task, World, counts};

/// A source that never fires, and panics when it goes.
struct Bomb;

impl Future for Bomb {
    type Output = &'static str;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Pending
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the source's own");
    }
}

// rules L1, D3, W5
#[test]
fn a_call_keeps_its_key_though_its_signal_panics_as_it_starts() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    let mut call = Task::new(a.key("text").abort_signal(&AbortSignal::from_future(Bomb)).acquire());
    assert!(catch_unwind(AssertUnwindSafe(|| call.poll())).is_err(), "the source goes with its last signal");
    assert_eq!(admission.counts(), counts(1, 0, 0), "it has started");
    assert!(a.key("text").try_acquire().is_err(), "and has its key");
    let permit = call.ready().unwrap();
    assert!(a.key("text").try_acquire().is_err(), "as long as its permit is there");
    drop(permit);
    drop(a.key("text").try_acquire().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rules L6, W5
#[test]
fn a_call_that_is_refused_as_its_signal_panics_is_told_so_by_its_next_poll() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().max_queued(0).provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let mut call = Task::new(a.key("text").abort_signal(&AbortSignal::from_future(Bomb)).acquire());
    assert!(catch_unwind(AssertUnwindSafe(|| call.poll())).is_err(), "the source goes with its last signal");
    assert!(matches!(call.ready().unwrap_err(), Rejected::Overflow { .. }));
    assert!(call.poll().is_pending(), "once");
    drop(permit);
    assert_eq!(admission.counts(), counts(0, 0, 0));
    drop(a.key("text").try_acquire().unwrap());
}

// rule W5
#[test]
fn a_call_that_has_no_alarm_as_its_signal_panics_is_told_so_by_its_next_poll() {
    let world = World::new();
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let mut call = Task::new(a.key("text").abort_signal(&AbortSignal::from_future(Bomb)).acquire());
    assert!(catch_unwind(AssertUnwindSafe(|| call.poll())).is_err(), "the source goes with its last signal");
    assert!(matches!(call.ready().unwrap_err(), Rejected::NoRuntime));
    assert_eq!(admission.counts(), counts(1, 0, 0), "its ticket is gone");
    drop(permit);
}
