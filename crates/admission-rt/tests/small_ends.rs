//! Calls that end badly: an operation or a query's source that panics when it is dropped, after it has failed; a source
//! whose runtime gives up its call; a stream's item that panics, or that answers when its stream has already failed.
//!
//! Owns: one scene for each small change of the code that went unnoticed there (`cargo xtask mutants`). Lacks two
//! panics at once, which `double_panics.rs` has, and such scenes of waiting and of small questions, which
//! `small_print.rs` and `small_answers.rs` have.

mod common;

use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use admission_rt::{AdmissionStreamExt, Attempt, OnAbort, Query, QueryError, Retry};
use common::{Admission, Bomb, Provider, Task, World, counts};
use futures_util::StreamExt;
use futures_util::stream::iter;

fn provider(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(2)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

/// An operation that fails, and panics when it is dropped.
fn fails() -> impl Future<Output = Result<u32, u32>> {
    let bomb = Bomb;
    poll_fn(move |_| {
        let _ = &bomb;
        Poll::Ready(Err(1))
    })
}

// rules E5, W5
#[test]
fn nobody_is_asked_about_the_error_of_an_operation_that_panics_after_it() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let policy = Retry::times(1).when(move |_| count.fetch_add(1, Ordering::SeqCst) == 0);
    let mut retried = Task::new(a.retry(policy).try_run(|_| fails()));
    assert!(catch_unwind(AssertUnwindSafe(|| retried.poll())).is_err());
    assert_eq!((asked.load(Ordering::SeqCst), admission.counts()), (0, counts(0, 0, 0)));
}

// rule W5
#[test]
fn a_source_that_panics_after_its_error_has_panicked() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    for on_abort in [OnAbort::Finish, OnAbort::Drop] {
        let query: Query<u32, u32> = a.query(1).on_abort(on_abort).build(|_| fails());
        let mut waiting = Task::waiting(query.refresh());
        world.run();
        assert!(matches!(waiting.ready(), Err(QueryError::Panicked)), "{on_abort:?}");
        assert_eq!(admission.counts(), counts(0, 0, 0));
    }
}

// rules W5, W7
#[test]
fn a_source_that_its_runtime_gives_up_is_lost_and_its_permit_is_not() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    let query: Query<u32, u32> = a.query(1).on_abort(OnAbort::Finish).build(|_| pending());
    let mut waiting = Task::waiting(query.refresh());
    world.run();
    assert_eq!((world.task_counts().0, admission.counts()), (2, counts(1, 0, 0)), "the cycle and its call");
    world.drop_nth(1);
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!(world.task_counts(), (1, 1), "its cycle is told");
    world.run();
    assert!(matches!(waiting.ready(), Err(QueryError::Lost)));
}

// rule I4
#[test]
fn an_item_that_panics_says_in_which_attempt() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    let operation = |_: u32, attempt: Attempt| async move {
        assert!(attempt.number() == 1, "once is enough");
        Err::<u32, u32>(1)
    };
    let mut stream = iter([1_u32]).map_admitted(&a, operation).retry(Retry::times(1)).spawned();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(stream.poll_next_unpin(&mut cx).is_pending());
    world.run();
    let Poll::Ready(Some(Err(error))) = stream.poll_next_unpin(&mut cx) else { panic!("it has failed") };
    assert_eq!(
        (error.attempts(), error.to_string()),
        (2, "the operation panicked: once is enough".to_owned())
    );
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

// rule I4
#[test]
fn what_comes_to_a_stream_that_has_failed_is_not_kept() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world);
    let (drops, may_end) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counter, door) = (drops.clone(), may_end.clone());
    let operation = move |item: u32, _: Attempt| {
        let (counter, door) = (counter.clone(), door.clone());
        poll_fn(move |_| match item {
            0 => Poll::Ready(Err(0_u32)),
            _ if door.load(Ordering::SeqCst) => Poll::Ready(Ok(Counted(counter.clone()))),
            _ => Poll::Pending,
        })
    };
    let mut stream = iter([0_u32, 1]).try_map_admitted(&a, operation).concurrency(2).spawned();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(stream.poll_next_unpin(&mut cx).is_pending());
    world.run();
    assert!(matches!(stream.poll_next_unpin(&mut cx), Poll::Ready(Some(Err(_)))));
    assert_eq!(admission.counts(), counts(1, 0, 0), "the other has to end by itself");
    may_end.store(true, Ordering::SeqCst);
    assert_eq!(world.poll_tasks(), 0);
    assert_eq!((drops.load(Ordering::SeqCst), admission.counts()), (1, counts(0, 0, 0)));
    assert!(matches!(stream.poll_next_unpin(&mut cx), Poll::Ready(None)));
}
