//! Queries whose source panics, whose runtime goes away, or whose every await is cut short.
//!
//! Owns: what is left of a query's cycle then, which is nothing. Lacks: the rules of a sound one.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use admission_rt::{Counts, OnAbort, Query, QueryError, QueryStatus, Retry};
use admission_testing::{Simulation, Virtual, VirtualClock};

use crate::mount::{Boxed, Mount};
use crate::puppet::{Failed, Puppet, next, outcome, refresh, until};
use crate::signal::{poll_once, yield_now};
use crate::transcript::Transcript;

/// Whatever panics, the cycle ends as panicked, everything is free, and the query is as good as new.
pub async fn a_panicking_source_loses_nothing<M: Mount>() {
    // rules W5, W7, Q3
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    for on_abort in [OnAbort::Finish, OnAbort::Drop] {
        for fault in
            [Fault::Call, Fault::Poll, Fault::LaterPoll, Fault::Drop, Fault::Predicate, Fault::Payload]
        {
            let policy = Retry::times(3).when(move |_: &Failed| match fault {
                Fault::Predicate => panic!("the predicate"),
                _ => true,
            });
            let puppet = Puppet::default();
            let good = puppet.source();
            let calls = std::sync::atomic::AtomicU32::new(0);
            let query: Query<u32, Failed> = a.query("key").on_abort(on_abort).retry(policy).build(
                move |attempt| -> Boxed<Result<u32, Failed>> {
                    if calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) > 0 {
                        return good(attempt);
                    }
                    match fault {
                        Fault::Call => panic!("the call"),
                        fault => Box::pin(Faulty { fault, polls: 0 }),
                    }
                },
            );
            let error = outcome(refresh::<M>(&query)).await.expect_err("it panicked");
            assert!(matches!(error, QueryError::Panicked), "{fault:?}: {error:?}");
            assert_eq!(query.snapshot().status, QueryStatus::Error);
            assert_eq!(admission.counts(), Counts::default(), "{fault:?}");
            puppet.nth(0).answer(Ok(7));
            assert_eq!(*query.refresh().await.expect("it is as good as new").data, 7);
        }
    }
}

/// Where a source panics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Call,
    Poll,
    LaterPoll,
    Drop,
    Predicate,
    Payload,
}

struct Faulty {
    fault: Fault,
    polls: u32,
}

/// A payload whose own end is another panic.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload");
    }
}

impl Future for Faulty {
    type Output = Result<u32, Failed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.polls += 1;
        match (self.fault, self.polls) {
            (Fault::Poll, _) | (Fault::LaterPoll, 2) => panic!("the poll"),
            (Fault::Payload, _) => std::panic::panic_any(Bomb),
            (Fault::LaterPoll, _) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            (Fault::Predicate, _) => Poll::Ready(Err(Failed(1))),
            (Fault::Call | Fault::Drop, _) => Poll::Ready(Ok(1)),
        }
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        if self.fault == Fault::Drop {
            panic!("the drop");
        }
    }
}

/// A refresh can be dropped after any number of its polls, and leaves nothing.
pub async fn a_refresh_can_be_dropped_at_every_await_point<M: Mount>() {
    // rules W5, Q4
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    for polls in 0..12 {
        for on_abort in [OnAbort::Finish, OnAbort::Drop] {
            let query: Query<u32, Failed> =
                a.query("key").on_abort(on_abort).retry(Retry::times(2)).build(|attempt| async move {
                    yield_now().await;
                    if attempt.number() < 3 { Err(Failed(1)) } else { Ok(1) }
                });
            let mut leaves = query.refresh();
            for _ in 0..polls {
                if poll_once(&mut leaves).await.is_ready() {
                    break;
                }
                yield_now().await;
            }
            drop(leaves);
            assert!(!query.snapshot().status.is_active());
            until(|| admission.counts() == Counts::default()).await;
        }
    }
}

/// A runtime that goes away in the middle of a cycle ends that, and tells everybody; the next one may
/// begin another.
pub async fn a_runtime_that_goes_away_ends_its_cycle<M: Mount>() {
    // rules W5, Q6
    for on_abort in [OnAbort::Finish, OnAbort::Drop] {
        for stage in [Stage::Unpolled, Stage::Queued, Stage::Running, Stage::Retrying] {
            let clock = VirtualClock::new();
            let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
            let (admission, a) = t.provider(|p| p.max_concurrent(1));
            let permit = (stage == Stage::Queued).then(|| a.try_acquire().expect("it is free"));
            let policy = Retry::times(1).delay(Duration::from_secs(3_600));
            let puppet = Puppet::default();
            let query = a.on::<Virtual>().query(1).on_abort(on_abort).retry(policy).build(puppet.source());
            let mut subscription = query.subscribe();
            if stage == Stage::Retrying {
                puppet.nth(0).answer(Err(Failed(1)));
            }
            let (there, clock_there) = (query.clone(), clock.clone());
            let waiting = thread::spawn(move || {
                let simulation = Simulation::with_clock(clock_there);
                let mut refresh = there.refresh();
                assert!(simulation.block_on(poll_once(&mut refresh)).is_pending());
                if stage != Stage::Unpolled {
                    simulation.run_ready();
                }
                refresh
            });
            let waiting = waiting.join().expect("no panic");
            assert!(matches!(waiting.await, Err(QueryError::Lost)), "{stage:?}");
            let newest = next(&mut subscription).await.expect("the newest");
            assert_eq!(newest.status, QueryStatus::Error);
            assert!(matches!(newest.error, Some(QueryError::Lost)));
            drop(permit);
            assert_eq!(admission.counts(), Counts::default(), "{stage:?}");
            let calls = puppet.count();
            puppet.nth(calls).answer(Ok(7));
            let again = thread::spawn(move || {
                Simulation::with_clock(clock).block_on(query.refresh()).map(|fetched| *fetched.data)
            });
            let again = again.join().expect("no panic");
            assert!(matches!(again, Ok(7)), "{stage:?}: {again:?}");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Unpolled,
    Queued,
    Running,
    Retrying,
}

/// Outside any runtime a refresh says so, and nothing is left of it.
pub async fn a_refresh_outside_any_runtime_is_refused<M: Mount>() {
    // rule W5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p);
    let query: Query<u32, Failed> = a.on::<Virtual>().query(1).build(|_| pending());
    let mut refresh = query.refresh();
    let refused = thread::spawn(move || {
        let waker = std::task::Waker::noop();
        Pin::new(&mut refresh).poll(&mut Context::from_waker(waker))
    });
    let Poll::Ready(Err(error)) = refused.join().expect("no panic") else { panic!("nobody would wake it") };
    assert!(matches!(error.rejected(), Some(admission_rt::Rejected::NoRuntime)), "{error:?}");
    assert_eq!(query.snapshot().status, QueryStatus::Idle);
    assert_eq!(admission.counts(), Counts::default());
}

/// A cycle with both timeouts and a retry leaves no alarm behind.
pub async fn no_timer_is_left_of_a_cycle<M: Mount>() {
    // rules T6, W5
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p);
    let puppet = Puppet::default();
    let build = || {
        let retry = Retry::times(1).delay(t.ms(10));
        a.query(1).admission_timeout(t.ms(100)).attempt_timeout(t.ms(100)).retry(retry)
    };
    let query = build().build(puppet.source());
    let waiting = refresh::<M>(&query);
    let call = puppet.called(0).await;
    yield_now().await;
    assert_eq!(M::armed(), Some(1), "the attempt's time");
    call.answer(Err(Failed(1)));
    let call = puppet.called(1).await;
    t.expect_now(10);
    call.answer(Ok(7));
    outcome(waiting).await.expect("data");
    assert_eq!(M::armed(), Some(0));
    let waiting = refresh::<M>(&query);
    let call = puppet.called(2).await;
    query.pause();
    outcome(waiting).await.expect_err("it was ended");
    yield_now().await;
    assert_eq!(M::armed(), Some(0));
    call.answer(Ok(1));
    call.gone().await;
}
