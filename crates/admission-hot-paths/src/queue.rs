//! A queue of a thousand that moves on: one release, the grant that it allows, and one more who joins; or one that
//! is left from anywhere.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem::replace;
use std::task::{Context, Poll, Waker};

use admission_rt::Permit;
use admission_tokio::{Acquire, Admission, Provider};

use crate::combined::{PROVIDERS, handles, names};
use crate::{Dice, Group, Run, case, tokio_runtime};

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

/// A call that runs, a thousand that wait behind it, and how more of them are made.
fn full() -> (Option<Permit>, VecDeque<Acquire>, impl FnMut() -> Acquire) {
    let inside = crate::leaked(tokio_runtime()).enter();
    let (_admission, providers) = one_at_a_time(1_001);
    let mut number = 0_u64;
    let mut next = move || {
        let _inside = &inside;
        number += 1;
        providers[number as usize % PROVIDERS].key(number).acquire()
    };
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(permit)) = next().poll_acquire(&mut cx) else { panic!("nobody is there yet") };
    let mut waiting = VecDeque::with_capacity(1_001);
    for _ in 0..1_000 {
        let mut acquire = next();
        assert!(acquire.poll_acquire(&mut cx).is_pending());
        waiting.push_back(acquire);
    }
    (Some(permit), waiting, next)
}

/// A queue of tasks that is always a thousand long: one release, the poll of who is granted, and a new one at the end, which
/// comes after that or, as with tasks that loop, before. For counting instructions.
///
/// # Panics
///
/// If the head of the queue is not granted.
#[must_use]
pub fn drained() -> Group {
    let drain = case("admission: release, grant, poll, join, N=1000", || moved_on(false));
    let again = case("admission: release, grant, join, poll, N=1000", || moved_on(true));
    Group { name: "drain", cases: vec![drain, again], against: vec![] }
}

fn moved_on(joins_first: bool) -> Run {
    let inside = crate::leaked(tokio_runtime()).enter();
    let (_admission, providers) = one_at_a_time(1_001);
    let providers = crate::leaked(providers);
    let mut number = 0_u64;
    let mut next = move || {
        number += 1;
        let number = number;
        async move {
            let permit = providers[number as usize % PROVIDERS].key(number).acquire().await;
            once_more().await;
            drop(permit);
        }
    };
    let mut cx = Context::from_waker(Waker::noop());
    let mut tasks: Vec<_> = (0..1_001).map(|_| Box::pin(next())).collect();
    for task in &mut tasks {
        assert!(task.as_mut().poll(&mut cx).is_pending());
    }
    let mut runs = 0;
    Box::new(move |n| {
        let _inside = &inside;
        for _ in 0..n {
            let head = (runs + 1) % tasks.len();
            assert!(tasks[runs].as_mut().poll(&mut cx).is_ready(), "it has its permit, and lets go of it");
            // The new one lies where the old one lay: nothing is moved that was just written.
            tasks[runs].set(next());
            let order = if joins_first { [runs, head] } else { [head, runs] };
            for at in order {
                assert!(tasks[at].as_mut().poll(&mut cx).is_pending(), "one waits, and one starts");
            }
            runs = head;
        }
    })
}

/// Lets others run once.
async fn once_more() {
    let mut is_second = false;
    poll_fn(|_| if replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// The same queue, and one from anywhere that is dropped, and a new one at the end.
///
/// # Panics
///
/// If a new one does not wait.
#[must_use]
pub fn left() -> Group {
    let case = case("admission: leave from anywhere, join, N=1000", || {
        let (held, mut waiting, mut next) = full();
        let mut cx = Context::from_waker(Waker::noop());
        let mut dice = Dice::new(10);
        Box::new(move |n| {
            let _held = &held;
            for _ in 0..n {
                let at = dice.below(waiting.len());
                drop(waiting.swap_remove_front(at));
                let mut acquire = next();
                assert!(acquire.poll_acquire(&mut cx).is_pending());
                waiting.push_back(acquire);
            }
        })
    });
    Group { name: "leave", cases: vec![case], against: vec![] }
}
