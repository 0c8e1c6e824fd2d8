//! A queue of a thousand that moves on: one release, the grant that it allows, and one more who joins.

use std::collections::VecDeque;
use std::hint::black_box;
use std::task::{Context, Poll, Waker};

use admission_tokio::{Admission, Provider};

use crate::combined::{PROVIDERS, handles, names};
use crate::{Group, case, tokio_runtime};

/// A coordinator in which one call runs at a time, with sixteen providers.
///
/// # Panics
///
/// Never: the configuration is right.
#[must_use]
pub fn one_at_a_time(queued: usize) -> (Admission, Vec<Provider>) {
    let mut builder = Admission::builder().max_concurrent(1).max_queued(queued as u32);
    for name in names() {
        builder = builder.provider(name, |limits| limits);
    }
    let admission = builder.build().expect("the configuration is right");
    let handles = handles(&admission);
    (admission, handles)
}

/// A queue of futures that is always a thousand long: one release, the poll of who is granted, and a new one at the
/// end. For counting instructions.
///
/// # Panics
///
/// If the head of the queue is not granted.
#[must_use]
pub fn drained() -> Group {
    let case = case("admission: release, grant, poll, join, N=1000", || {
        let runtime = tokio_runtime();
        let (_admission, providers) = {
            let _inside = runtime.enter();
            one_at_a_time(1_001)
        };
        let inside = crate::leaked(runtime).enter();
        let mut cx = Context::from_waker(Waker::noop());
        let mut number = 0_u64;
        let mut next = move || {
            number += 1;
            providers[number as usize % PROVIDERS].key(number).acquire()
        };
        let mut first = next();
        let Poll::Ready(Ok(permit)) = first.poll_acquire(&mut cx) else { panic!("nobody is there yet") };
        let mut held = Some(permit);
        let mut waiting = VecDeque::with_capacity(1_001);
        for _ in 0..1_000 {
            let mut acquire = next();
            assert!(acquire.poll_acquire(&mut cx).is_pending());
            waiting.push_back(acquire);
        }
        Box::new(move |n| {
            let _inside = &inside;
            for _ in 0..n {
                drop(held.take());
                let mut head = waiting.pop_front().expect("a thousand wait");
                match head.poll_acquire(&mut cx) {
                    Poll::Ready(Ok(permit)) => held = Some(black_box(permit)),
                    _ => panic!("the head of the queue was not granted"),
                }
                let mut acquire = next();
                assert!(acquire.poll_acquire(&mut cx).is_pending());
                waiting.push_back(acquire);
            }
        })
    });
    Group { name: "drain", cases: vec![case], against: vec![] }
}
