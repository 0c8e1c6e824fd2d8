//! Queries: cycles of admission, attempts and retries, and those who look at them.
//!
//! Owns: rules Q1, Q2, Q3, Q5, Q9 and Q10. Lacks: how a cycle is ended from outside, and what a call
//! holds after that, which have a file of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use admission_rt::{
    AbortReason, AttemptError, Counts, Query, QueryBuilder, QueryError, QueryStatus, Rejected, Retry,
};
use admission_testing::VirtualClock;

use crate::mount::Mount;
use crate::puppet::{Failed, Puppet, expect_just_past, next, outcome, refresh, until, until_status};
use crate::signal::{Counter, poll_once};
use crate::transcript::Transcript;

type Builder<M> = QueryBuilder<<M as Mount>::Runtime, Failed>;

/// Unknown names are told when the query is created; with a template there are none.
pub async fn an_unknown_provider_is_an_error_when_the_query_is_created<M: Mount>() {
    // rule Q1
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p);
    let unknown = admission.query::<Failed>("b", 7).expect_err("there is no b");
    assert_eq!(&*unknown.name, "b");
    let known: Builder<M> = admission.query("a", "key").expect("there is an a");
    let puppet = Puppet::default();
    let query = known.build(puppet.source());
    assert_eq!(query.snapshot().status, QueryStatus::Idle);
    let of_provider: Query<u32, Failed> = a.query(7).build(puppet.source());
    assert_eq!(of_provider.snapshot().version, 1);
    let templated = t.build(|b| b.template(|p| p));
    assert!(templated.query::<Failed>("whoever", 7).is_ok());
    // Lazy: nothing was asked for.
    drop((query.refresh(), of_provider.refresh()));
    assert_eq!((admission.counts(), puppet.count()), (Counts::default(), 0));
}

/// The wait for admission does not count for the attempt, nor the other way round.
pub async fn the_attempt_timeout_starts_when_the_source_is_called<M: Mount>() {
    // rules Q2, D4
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let before = t.call("before", &a).await;
    let puppet = Puppet::default();
    let query = a.query(1).attempt_timeout(t.ms(50)).build(puppet.source());
    let waiting = refresh::<M>(&query);
    until_status(&query, |status| matches!(status, QueryStatus::Queued { attempt: 1, .. })).await;
    t.until(100).await;
    assert_eq!(puppet.count(), 0);
    before.settle().await;
    let call = puppet.called(0).await;
    t.expect_now(100);
    let failed = outcome(waiting).await.expect_err("it was not answered");
    t.expect_now(150);
    assert!(matches!(failed, QueryError::AttemptTimeout { limit, .. } if limit == t.ms(50)), "{failed:?}");
    assert!(matches!(call.told(), Some(AbortReason::Timeout)));
    let times = query.snapshot().times.clone();
    assert_eq!(times.attempts, 1);
    assert!(times.latest[0].is_timed_out);
    if M::EXACT {
        assert_eq!((times.queued, times.ran), (t.ms(100), t.ms(50)), "two clocks, kept apart");
    }
    call.answer(Ok(1));
    call.gone().await;
}

/// Neither timeout is there unless stated.
pub async fn a_query_without_timeouts_waits_and_runs_for_as_long_as_it_takes<M: Mount>() {
    // rule D4
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let before = t.call("before", &a).await;
    let puppet = Puppet::default();
    let query = a.query(1).build(puppet.source());
    let waiting = refresh::<M>(&query);
    t.until(if M::EXACT { 100_000_000 } else { 50 }).await;
    before.settle().await;
    let call = puppet.called(0).await;
    t.until(if M::EXACT { 200_000_000 } else { 100 }).await;
    call.answer(Ok(7));
    assert_eq!(*outcome(waiting).await.expect("data").data, 7);
}

/// Overflow, admission timeout and close set the error and end the cycle; the source is not called, and
/// the policy is not asked.
pub async fn a_refusal_ends_the_cycle_and_is_no_attempt<M: Mount>() {
    // rules Q3, E5
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.max_queued(1).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let puppet = Puppet::default();
    let asked = Arc::new(AtomicUsize::new(0));
    let (of_errors, of_refusals) = (asked.clone(), asked.clone());
    let policy = Retry::times(3)
        .when(move |_: &Failed| of_errors.fetch_add(1, Ordering::SeqCst) == 0)
        .when_refused(move |_| of_refusals.fetch_add(1, Ordering::SeqCst) == 0);
    let query = a.query(1).admission_timeout(t.ms(30)).retry(policy).build(puppet.source());

    let late = query.refresh().await.expect_err("nothing comes free");
    assert!(late.rejected().is_some_and(Rejected::is_admission_timeout), "{late:?}");
    expect_just_past(&t, 30);
    let snapshot = query.snapshot();
    assert_eq!(snapshot.status, QueryStatus::Error);
    assert!(snapshot.error.as_ref().and_then(QueryError::rejected).is_some());
    assert_eq!(snapshot.times.attempts, 0);

    let queued = t.call("queued", &a).await;
    let full = query.refresh().await.expect_err("the queue is full");
    assert!(full.rejected().is_some_and(Rejected::is_overflow), "{full:?}");
    running.settle().await;
    queued.settle().await;

    admission.close();
    let closed = query.refresh().await.expect_err("it is closed");
    assert!(matches!(closed, QueryError::Rejected { rejected: Rejected::Closed, last: None, .. }));
    assert_eq!((puppet.count(), asked.load(Ordering::SeqCst)), (0, 0));
}

/// A close ends a queued cycle; one that runs goes on, and its retry is refused.
pub async fn a_close_ends_what_is_queued_and_lets_run_what_runs<M: Mount>() {
    // rules Q3, Q5, W4
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(2));
    let (puppet, other) = (Puppet::default(), Puppet::default());
    let runs = a.query(1).retry(Retry::times(5)).build(puppet.source());
    let waits = a.query(1).build(other.source());
    let running = refresh::<M>(&runs);
    let call = puppet.called(0).await;
    let waiting = refresh::<M>(&waits);
    until(|| admission.counts().queued == 1).await;
    admission.close();
    let closed = outcome(waiting).await.expect_err("it was queued");
    assert!(closed.rejected().is_some_and(Rejected::is_closed));
    assert!(call.told().is_none(), "running calls go on");
    call.answer(Err(Failed(503)));
    let refused = outcome(running).await.expect_err("there is no retry any more");
    assert!(refused.rejected().is_some_and(Rejected::is_closed), "{refused:?}");
    assert_eq!(refused.error().map(|error| &**error), Some(&Failed(503)), "the last attempt's error");
    assert_eq!((puppet.count(), other.count(), admission.counts()), (1, 0, Counts::default()));
}

/// Number, delay and predicate are the policy's; each retry is a new ticket, at the tail.
pub async fn a_failed_attempt_is_retried_at_the_tail<M: Mount>() {
    // rules Q5, E5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let puppet = Puppet::default();
    let policy = Retry::times(2).delay(t.ms(10)).when(|failed: &Failed| failed.0 >= 500);
    let query = a.query(1).retry(policy).build(puppet.source());
    let waiting = refresh::<M>(&query);
    let first = puppet.called(0).await;
    let other = t.call("other", &a).await;
    first.answer(Err(Failed(503)));
    other.started().await;
    until_status(&query, |status| !matches!(status, QueryStatus::Running { .. })).await;
    if M::EXACT {
        let delay = t.ms(10);
        assert!(
            matches!(query.snapshot().status, QueryStatus::WaitingToRetry { attempt: 1, delay: d, .. } if d == delay)
        );
        assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 0 }, "it holds nothing");
    }
    t.until(30).await;
    assert_eq!(puppet.count(), 1, "the retry waits for the one before it");
    other.settle().await;
    let second = puppet.called(1).await;
    t.expect_now(30);
    assert_eq!((first.attempt().number(), second.attempt().number()), (1, 2));
    second.answer(Err(Failed(500)));
    let third = puppet.called(2).await;
    t.expect_now(40);
    third.answer(Ok(7));
    let fetched = outcome(waiting).await.expect("the third time");
    assert_eq!((*fetched.data, fetched.times.attempts), (7, 3));
    if M::EXACT {
        let times: Vec<_> = fetched.times.latest.iter().map(|a| (a.queued, a.ran)).collect();
        let zero = Some(Duration::ZERO);
        assert_eq!(times, [(t.ms(0), zero), (t.ms(20), zero), (t.ms(0), zero)]);
    }

    // What the predicate does not name is not retried.
    let waiting = refresh::<M>(&query);
    puppet.called(3).await.answer(Err(Failed(404)));
    let failed = outcome(waiting).await.expect_err("it failed");
    assert!(matches!(&failed, QueryError::Source(error) if **error == Failed(404)));
    assert_eq!(admission.counts(), Counts::default());
}

/// The number of retries is bounded, and the last error is the outcome.
pub async fn when_no_retry_is_left_the_last_error_is_told<M: Mount>() {
    // rule Q5
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p);
    let puppet = Puppet::default();
    for number in 0..3 {
        puppet.nth(number).answer(Err(Failed(number as u32)));
    }
    let query = a.query("key").retry(Retry::times(2)).build(puppet.source());
    let failed = query.refresh().await.expect_err("three failures");
    assert_eq!(failed.error().map(|error| error.0), Some(2));
    assert_eq!((puppet.count(), query.snapshot().times.attempts), (3, 3));
}

/// An attempt that timed out is retried unless the query says no; its old call holds the key, and then
/// the refusal tells of both.
pub async fn a_retry_that_is_refused_tells_of_the_attempt_before_it<M: Mount>() {
    // rules Q5, Q6
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(8));
    let puppet = Puppet::default();
    let build = || {
        let policy = Retry::times(3);
        a.query(1).admission_timeout(t.ms(30)).attempt_timeout(t.ms(50)).retry(policy)
    };
    let query = build().build(puppet.source());
    let refused = query.refresh().await.expect_err("the old call still has the key");
    expect_just_past(&t, 80);
    match &refused {
        QueryError::Rejected { rejected, last: Some(AttemptError::Timeout { limit, .. }), .. } => {
            assert!(rejected.is_admission_timeout(), "{rejected:?}");
            assert_eq!(*limit, t.ms(50));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((puppet.count(), admission.counts().running), (1, 1));
    puppet.nth(0).answer(Ok(1));
    until(|| admission.counts() == Counts::default()).await;
    assert!(query.snapshot().data.is_none(), "what came too late is nobody's");

    let once = build().retry_timeouts(false).build(puppet.source());
    let late = once.refresh().await.expect_err("nobody answers");
    assert!(matches!(late, QueryError::AttemptTimeout { .. }), "{late:?}");
    puppet.nth(1).answer(Ok(1));
    puppet.nth(1).gone().await;
}

/// A cooldown that an error asks for is there before its slot is free.
pub async fn a_cooldown_that_an_error_asks_for_comes_before_the_slot_is_free<M: Mount>() {
    // rules L5, Q5
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let puppet = Puppet::default();
    let after = t.ms(60);
    let policy = Retry::times(1).cooldown(move |_: &Failed| Some(after));
    let query = a.query(1).retry(policy).build(puppet.source());
    let waiting = refresh::<M>(&query);
    let call = puppet.called(0).await;
    let other = t.call("other", &a).await;
    call.answer(Err(Failed(429)));
    other.settle().await;
    t.expect(&[("other", 60)]);
    puppet.called(1).await.answer(Ok(1));
    outcome(waiting).await.expect("the second time");
}

/// The stamp is the wall's, as the coordinator's clock has it, and a jump of it decides nothing.
pub async fn a_result_is_stamped_with_the_wall_clock<M: Mount>() {
    // rules Q9, T4
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let (_admission, a) = t.provider(|p| p);
    let puppet = Puppet::default();
    puppet.nth(0).answer(Ok(1));
    puppet.nth(1).answer(Ok(2));
    let query = a.query(1).build(puppet.source());
    let wall = std::time::UNIX_EPOCH + Duration::from_secs(1_234_567);
    clock.set_wall(wall);
    let fetched = query.refresh().await.expect("data");
    assert_eq!(fetched.received_at, wall);
    assert_eq!(query.snapshot().received_at, Some(wall));
    clock.set_wall(std::time::UNIX_EPOCH);
    let fetched = query.refresh().await.expect("data");
    assert_eq!((fetched.received_at, *fetched.data), (std::time::UNIX_EPOCH, 2));
}

/// Whoever refreshes while a cycle goes on joins it, and gets the same data.
pub async fn a_refresh_joins_the_cycle_that_goes_on<M: Mount>() {
    // rule Q10
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let before = t.call("before", &a).await;
    let puppet = Puppet::default();
    let query = a.query(1).build(puppet.source());
    let queued: Vec<_> = (0..50).map(|_| refresh::<M>(&query.clone())).collect();
    until_status(&query, QueryStatus::is_active).await;
    before.settle().await;
    let call = puppet.called(0).await;
    let mut late = query.refresh();
    assert!(poll_once(&mut late).await.is_pending());
    call.answer(Ok(7));
    let fetched = late.await.expect("data");
    // Fifty tasks may come one after the other, where they run on threads of their own.
    if M::ONE_THREAD {
        assert_eq!(puppet.count(), 1);
        for refresh in queued {
            let same = outcome(refresh).await.expect("data");
            assert!(Arc::ptr_eq(&same.data, &fetched.data), "shared, not copied");
        }
    } else {
        puppet.nth(1).answer(Ok(7));
        drop(queued);
    }
}

/// The newest snapshot at once, then each newer one, until the query is disposed of.
pub async fn a_subscriber_sees_the_snapshots<M: Mount>() {
    // rule Q10
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let before = t.call("before", &a).await;
    let puppet = Puppet::default();
    let query = a.query(1).build(puppet.source());
    let mut seen = query.subscribe();
    assert_eq!(next(&mut seen).await.expect("the first").status, QueryStatus::Idle);
    let waiting = refresh::<M>(&query);
    let queued = next(&mut seen).await.expect("it is asked for");
    assert!(matches!(queued.status, QueryStatus::Queued { attempt: 1, .. }), "{queued:?}");
    before.settle().await;
    let running = next(&mut seen).await.expect("it is called");
    assert!(matches!(running.status, QueryStatus::Running { attempt: 1, .. }), "{running:?}");
    puppet.called(0).await.answer(Ok(7));
    let data = next(&mut seen).await.expect("it has answered");
    assert_eq!((data.status, data.data.as_deref()), (QueryStatus::Data, Some(&7)));
    assert!(data.version > running.version && running.version > queued.version);
    outcome(waiting).await.expect("data");

    // What was known stays to be seen while the next cycle goes on, and after it has failed.
    let waiting = refresh::<M>(&query);
    let call = puppet.called(1).await;
    until_status(&query, |status| matches!(status, QueryStatus::Running { .. })).await;
    assert_eq!(query.snapshot().data.as_deref(), Some(&7));
    call.answer(Err(Failed(1)));
    outcome(waiting).await.expect_err("it failed");
    let failed = query.snapshot();
    assert_eq!((failed.status, failed.data.as_deref()), (QueryStatus::Error, Some(&7)));
    assert_eq!(failed.received_at, data.received_at, "of the data");
    assert!(matches!(&failed.error, Some(QueryError::Source(error)) if **error == Failed(1)));

    query.dispose();
    assert_eq!(next(&mut seen).await.expect("the last").status, QueryStatus::Disposed);
    assert!(next(&mut seen).await.is_none() && next(&mut seen).await.is_none());
}

/// Whoever reads slowly gets the newest, and holds up nobody.
pub async fn a_slow_subscriber_skips_and_holds_up_nobody<M: Mount>() {
    // rule Q10
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p);
    let puppet = Puppet::default();
    let query = a.query(1).build(puppet.source());
    let mut slow = query.subscribe();
    assert!(next(&mut slow).await.is_some());
    for number in 0..20 {
        puppet.nth(number).answer(Ok(number as u32));
        query.refresh().await.expect("data");
    }
    let newest = next(&mut slow).await.expect("the newest");
    assert_eq!(newest.data.as_deref(), Some(&19));
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(counter.clone());
    let answer = slow.poll_snapshot(&mut Context::from_waker(&waker));
    assert!(answer.is_pending(), "there is none newer");
    puppet.nth(20).answer(Ok(20));
    query.refresh().await.expect("data");
    assert_eq!(counter.wakes(), 1, "and it is woken once until it looks");
}

/// One state, however many look at it.
pub async fn many_subscribers_share_one_snapshot<M: Mount>() {
    // rule Q10
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p);
    let puppet = Puppet::default();
    puppet.nth(0).answer(Ok(7));
    let query = a.query(1).build(puppet.source());
    let mut subscribers: Vec<_> = (0..100).map(|_| query.subscribe()).collect();
    let fetched = query.refresh().await.expect("data");
    let newest = query.snapshot();
    for subscriber in &mut subscribers {
        let seen = next(subscriber).await.expect("the newest");
        assert!(Arc::ptr_eq(&seen, &newest));
    }
    assert!(newest.data.as_ref().is_some_and(|data| Arc::ptr_eq(data, &fetched.data)));
}

/// A cycle's ticket has the query's costs, and a unit that nobody declared is told.
pub async fn a_query_has_costs<M: Mount>() {
    // rules L3, Q3
    let t = Transcript::<M>::new();
    let hour = t.ms(3_600_000);
    let tokens = admission_rt::Window::new(10, hour).unit("tokens");
    let admission = t.build(|b| b.unit("tokens").max_queued(0).provider("a", |p| p.log(tokens)));
    let a = admission.provider("a").expect("it is there");
    let puppet = Puppet::default();
    let query = a.query(1).cost("tokens", 6).build(puppet.source());
    let waiting = refresh::<M>(&query);
    let call = puppet.called(0).await;
    call.attempt().settle("tokens", 5).expect("it runs");
    call.answer(Ok(1));
    outcome(waiting).await.expect("data");
    let full = query.refresh().await.expect_err("five are left, and six are needed");
    assert!(full.rejected().is_some_and(Rejected::is_overflow), "{full:?}");
    let unknown = a.query::<Failed>(2).cost("bytes", 1).build(puppet.source()).refresh().await;
    assert!(matches!(unknown, Err(QueryError::Rejected { rejected: Rejected::UnknownUnit(_), .. })));
}
