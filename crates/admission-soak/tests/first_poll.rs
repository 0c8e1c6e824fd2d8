//! Two hundred thousand operations that are over as soon as they are polled, on a stack that holds no recursion.
//!
//! Owns: that everything built on calls goes round in loops. A stack that overflows ends the whole test program.

#![forbid(unsafe_code)]

use std::future::{Future, ready};
use std::pin::pin;
use std::thread;
use std::time::Duration;

use admission_rt::runtime::{Runtime, Spawn};
use admission_rt::{Admission, AdmissionStreamExt, Counts, Provider, Retry};
use futures_util::stream::{FuturesUnordered, StreamExt as _, iter};

const OPERATIONS: u32 = 200_000;

/// Less than a frame for every second operation, and more than a debug build needs.
const STACK: usize = 256 * 1_024;

fn provider<R: Runtime>() -> (Admission<R>, Provider<R>) {
    let admission =
        Admission::builder().max_queued(OPERATIONS).provider("a", |p| p.max_concurrent(1)).build();
    let admission = admission.expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    (admission, a)
}

async fn runs<R: Runtime>() {
    let (admission, a) = provider::<R>();
    // All at once: each one's end grants the next one.
    let mut all: FuturesUnordered<_> = (0..OPERATIONS).map(|n| a.run(move || ready(n))).collect();
    let mut sum = 0;
    while let Some(n) = all.next().await {
        sum += u64::from(n.expect("a slot"));
    }
    assert_eq!(sum, u64::from(OPERATIONS) * u64::from(OPERATIONS - 1) / 2);
    assert_eq!(admission.counts(), Counts::default());
}

/// One after the other, in one task.
async fn runs_in_a_row<R: Runtime>() {
    let (admission, a) = provider::<R>();
    for n in 0..OPERATIONS {
        assert_eq!(a.run(|| ready(n)).await.expect("a slot"), n);
    }
    assert_eq!(pin!(iter(0..OPERATIONS).paced(&a)).count().await, OPERATIONS as usize);
    assert_eq!(admission.counts(), Counts::default());
}

/// Everybody waits behind one, and goes at once.
async fn permits<R: Runtime>() {
    let (admission, a) = provider::<R>();
    let gate = a.try_acquire().expect("a slot");
    let mut all: FuturesUnordered<_> = (0..OPERATIONS).map(|_| a.enqueue()).collect();
    assert_eq!(admission.counts().queued, OPERATIONS);
    drop(gate);
    let mut permits = 0;
    while let Some(permit) = all.next().await {
        drop(permit.expect("a slot"));
        permits += 1;
    }
    assert_eq!(permits, OPERATIONS);
    // And all are dropped at once, each of which grants the next.
    let gate = a.try_acquire().expect("a slot");
    let all: Vec<_> = (0..OPERATIONS).map(|_| a.enqueue()).collect();
    drop(gate);
    drop(all);
    assert_eq!(admission.counts(), Counts::default());
}

async fn retries<R: Runtime>() {
    let (admission, a) = provider::<R>();
    let mut left = OPERATIONS;
    let policy = Retry::times(u32::MAX);
    let outcome = a.retry(policy).try_run(|_| {
        left -= 1;
        ready(if left == 0 { Ok(()) } else { Err(()) })
    });
    outcome.await.expect("the last attempt");
    assert_eq!(admission.counts(), Counts::default());
}

async fn streams<R: Spawn>() {
    let (admission, a) = provider::<R>();
    let operation = |n: u32, _| ready(Ok::<_, ()>(n));
    let source = || iter(0..OPERATIONS).map_admitted(&a, operation);
    assert_eq!(pin!(source().driven()).count().await, OPERATIONS as usize);
    let many = source().concurrency(64).capacity(64).as_completed();
    assert_eq!(pin!(many.spawned()).count().await, OPERATIONS as usize);
    assert_eq!(admission.counts(), Counts::default());
}

/// Fewer, since each is two tasks: a recursion would need a hundredth of them.
async fn queries<R: Spawn>() {
    let (admission, a) = provider::<R>();
    let query = a.query::<()>("key").build(|attempt| ready(Ok(attempt.number())));
    let mut subscription = query.subscribe();
    for _ in 0..OPERATIONS / 10 {
        assert_eq!(*query.refresh().await.expect("data"), 1);
        drop(subscription.next().await);
    }
    let policy = Retry::times(u32::MAX);
    let query = a
        .query("retried")
        .retry(policy)
        .build(|attempt| ready(if attempt.number() < OPERATIONS / 10 { Err(()) } else { Ok(()) }));
    query.refresh().await.expect("the last attempt");
    // The call's own task may be a moment behind its cycle.
    admission.idle().await;
    assert_eq!(admission.counts(), Counts::default());
}

async fn everything<R: Spawn>() {
    runs::<R>().await;
    streams::<R>().await;
    queries::<R>().await;
}

fn on_a_small_stack(body: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK).spawn(body).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn boxed<R: Spawn>() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    Box::pin(everything::<R>())
}

// rules S6, E2, W5, Q5, I4
#[test]
fn what_is_over_at_once_does_not_recurse_on_one_thread_of_tokio() {
    on_a_small_stack(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(boxed::<admission_tokio::Tokio>());
    });
}

// rules S6, E2, W5, Q5, I4
#[test]
fn what_is_over_at_once_does_not_recurse_on_threads_of_tokio() {
    on_a_small_stack(|| {
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_stack_size(STACK).enable_time().build();
        runtime.expect("a runtime").block_on(boxed::<admission_tokio::Tokio>());
    });
}

// rules S6, E2, W5, Q5, I4
#[test]
fn what_is_over_at_once_does_not_recurse_on_smol() {
    on_a_small_stack(|| smol::block_on(boxed::<admission_smol::Smol>()));
}

// rules S6, E2, W5, Q5, I4
#[test]
fn what_is_over_at_once_does_not_recurse_on_async_std() {
    on_a_small_stack(|| async_std::task::block_on(boxed::<admission_async_std::AsyncStd>()));
}

/// Spawned items and sources are threads here, so there are no two hundred thousand of those. What needs no runtime
/// at all is shown here alone.
// rules S6, E2, W5
#[test]
fn what_is_over_at_once_does_not_recurse_on_threads_that_park() {
    on_a_small_stack(|| {
        admission_blocking::block_on(Box::pin(async {
            runs::<admission_blocking::Blocking>().await;
            runs_in_a_row::<admission_blocking::Blocking>().await;
            permits::<admission_blocking::Blocking>().await;
            retries::<admission_blocking::Blocking>().await;
        }));
        let pace = Duration::from_nanos(1);
        let admission = admission_blocking::Admission::builder().provider("a", |p| p.interval(pace)).build();
        let a = admission.expect("a sound configuration").provider("a").expect("it is there");
        for n in 0..OPERATIONS {
            assert_eq!(a.run(|| n).expect("its turn"), n);
        }
    });
}
