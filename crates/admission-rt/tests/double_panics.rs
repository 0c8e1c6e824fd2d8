//! Two of a user's panics at once: one that goes on, and a destructor that it meets.
//!
//! Owns: the places where something of the user's is at hand while something else of the user's runs. A test
//! here fails by ending its process. Lacks panics one by one.

mod common;

use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use admission_rt::{
    AbortReason, AbortSignal, AdmissionStreamExt, Attempt, OnAbort, Query, Refresh, Rejected, Retry, Window,
};
use common::{Admission, Bomb, Provider, Task, World, counts, ms, panicking_waker};
use futures_core::Stream;
use futures_util::stream::iter;

fn provider(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(3)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

fn panics<A>(act: impl FnOnce() -> A) -> bool {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(value) => {
            std::mem::forget(value);
            false
        }
        Err(_) => true,
    }
}

fn poll<S: Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()))
}

/// An operation that answers, and panics when it is dropped.
fn answers<A>(answer: impl Fn() -> A) -> impl Future<Output = A> {
    let bomb = Bomb;
    poll_fn(move |_| {
        let _ = &bomb;
        Poll::Ready(answer())
    })
}

// rules W5, W7
#[test]
fn an_answer_meets_its_operations_panic() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    let mut run = Task::new(a.run(|| answers(|| Bomb)));
    assert!(panics(|| run.poll()));
    let mut retried = Task::new(a.retry(Retry::times(1)).try_run(|_| answers(|| Err::<(), _>(Bomb))));
    assert!(panics(|| retried.poll()));
    assert_eq!(admission.counts(), counts(0, 0, 0), "both have let go");
}

// rules W5, E5
#[test]
fn an_error_meets_its_predicates_panic() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    let asked = || -> Retry<Bomb> { Retry::times(1).when(|_| panic!("asked")) };
    let mut retried = Task::new(a.retry(asked()).try_run(|_| ready(Err::<(), _>(Bomb))));
    assert!(panics(|| retried.poll()));
    assert_eq!(admission.counts(), counts(0, 0, 0));
    let items = || iter([1]).map_admitted(&a, |_, _| ready(Err::<(), _>(Bomb))).retry(asked());
    let mut driven = items().driven();
    assert!(panics(|| poll(&mut driven)));
    let mut spawned = items().spawned();
    assert!(poll(&mut spawned).is_pending());
    world.run();
    assert!(matches!(poll(&mut spawned), Poll::Ready(Some(Err(_)))));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rules W5, W7
#[test]
fn what_a_retried_call_has_is_dropped_one_by_one() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    let calls = AtomicUsize::new(0);
    let operation = |_: Attempt| {
        let bomb = (calls.fetch_add(1, Ordering::SeqCst) > 0).then(|| Bomb);
        poll_fn(move |_| match &bomb {
            Some(_) => Poll::<Result<(), _>>::Pending,
            None => Poll::Ready(Err(Bomb)),
        })
    };
    let mut retried = Task::waiting(a.retry(Retry::times(1)).try_run(operation));
    assert!(retried.poll().is_pending());
    assert_eq!(admission.counts(), counts(1, 0, 0), "it runs, and has an old error");
    let _ = panics(|| drop(retried));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule W5
#[test]
fn data_meets_an_error() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    for on_abort in [OnAbort::Finish, OnAbort::Drop] {
        let calls = AtomicUsize::new(0);
        let query: Query<Bomb, Bomb> = a.query(1).on_abort(on_abort).build(move |_| {
            let is_data = calls.fetch_add(1, Ordering::SeqCst) % 2 == 0;
            ready(if is_data { Ok(Bomb) } else { Err(Bomb) })
        });
        for nth in 0..4 {
            let mut waiting = Task::waiting(query.refresh());
            world.run();
            let outcome = waiting.ready();
            assert_eq!(outcome.is_ok(), nth % 2 == 0);
            let _ = panics(|| drop(outcome));
            assert_eq!(world.task_counts().0, 0);
        }
        let _ = panics(|| drop(query));
        assert_eq!(admission.counts(), counts(0, 0, 0));
    }
}

// rules I4, W5
#[test]
fn outputs_that_nobody_reads_are_dropped_one_by_one() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    let held = Arc::new(());
    let operation = |item: u32, _: Attempt| {
        let held = Arc::clone(&held);
        async move {
            match item {
                0 => pending().await,
                9 => Err(Bomb),
                _ => Ok((Bomb, held)),
            }
        }
    };
    for is_read in [false, true] {
        let mut driven = iter([0, 1, 2]).map_admitted(&a, operation).concurrency(3).driven();
        assert!(poll(&mut driven).is_pending());
        assert_eq!(driven.finished(), 2);
        let _ = panics(|| drop(driven));

        let held = Arc::clone(&held);
        let operation = move |item: u32, _: Attempt| {
            let held = Arc::clone(&held);
            async move { if item == 9 { Err(Bomb) } else { Ok((Bomb, held)) } }
        };
        let source = iter([1, 2, 9]);
        let mut spawned = source.try_map_admitted(&a, operation).concurrency(3).as_completed().spawned();
        assert!(poll(&mut spawned).is_pending());
        world.run();
        if is_read {
            let read = poll(&mut spawned);
            let _ = panics(|| drop(read));
        }
        let _ = panics(|| drop(spawned));
        assert_eq!(admission.counts(), counts(0, 0, 0));
    }
    assert_eq!(Arc::strong_count(&held), 1, "each of them is gone, the one that was read too");

    // An early end throws away what was finished, and keeps the error.
    let operation = |item: u32, _: Attempt| ready(if item == 9 { Err(Bomb) } else { Ok(Bomb) });
    let source = iter([9, 1, 2]);
    let mut stream = source.try_map_admitted(&a, operation).concurrency(3).spawned();
    assert!(poll(&mut stream).is_pending());
    world.run();
    let output = poll(&mut stream);
    assert!(matches!(output, Poll::Ready(Some(Err(_)))));
    let _ = panics(|| drop(output));
    assert!(matches!(poll(&mut stream), Poll::Ready(None)));
}

// rules Q7, W5
#[test]
fn a_source_that_ends_its_query_meets_what_the_query_has_captured() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    let held = Arc::<Mutex<Option<(Refresh<(), ()>, Query<(), ()>)>>>::default();
    let (inside, captured) = (held.clone(), Bomb);
    let query = a.query(1).on_abort(OnAbort::Drop).build(move |_| {
        let _ = &captured;
        let last = inside.lock().unwrap().take();
        drop(last);
        answers(|| Ok(()))
    });
    let mut waiting = query.refresh();
    assert!(Pin::new(&mut waiting).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    *held.lock().unwrap() = Some((waiting, query));
    world.run();
    assert_eq!((admission.counts(), world.task_counts().0), (counts(0, 0, 0), 0));
    assert_eq!(Arc::strong_count(&held), 1, "nothing is left of the query");
}

// rules L6, W5, D5
#[test]
fn a_refusal_meets_the_panic_of_its_signals_source_and_is_told_all_the_same() {
    let world = World::new();
    let _entered = world.enter();
    let tokens = Window::new(5, ms(100)).unit("tokens");
    let builder = world.builder().unit("tokens").provider("a", |p| p.max_concurrent(1).log(tokens));
    let admission = builder.build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let mut stranger = Task::new(a.admission_timeout(ms(10)).acquire());
    assert!(stranger.poll_with(&panicking_waker()).is_pending());
    world.set(20);
    let source = Bomb;
    let signal = AbortSignal::from_future(poll_fn(move |_| {
        let _ = &source;
        Poll::<AbortReason>::Pending
    }));
    let call = a.cost("tokens", 6).abort_signal(&signal);
    drop(signal);
    let mut refused = Task::new(call.acquire());
    assert!(panics(|| refused.poll()));
    let told = refused.ready().unwrap_err();
    assert!(matches!(told, Rejected::ImpossibleCost { .. }), "{told:?}");
    drop(permit);
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rules W3, W5
#[test]
fn a_call_that_is_dropped_with_a_signal_that_panics_leaves_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let signal = || {
        let source = Bomb;
        AbortSignal::from_future(poll_fn(move |_| {
            let _ = &source;
            Poll::<AbortReason>::Pending
        }))
    };
    for is_unwinding in [false, true] {
        let mut call = Task::new(a.key("text").abort_signal(&signal()).acquire());
        assert!(call.poll().is_pending());
        assert_eq!(admission.counts(), counts(1, 1, 0));
        let dropped = catch_unwind(AssertUnwindSafe(move || {
            let _call = call;
            assert!(!is_unwinding, "the caller's own");
        }));
        assert_eq!(dropped.is_err(), is_unwinding, "no panic of the source's gets out");
        assert_eq!(admission.counts(), counts(1, 0, 0));
    }
    drop(permit);
    drop(a.key("text").try_acquire().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}
