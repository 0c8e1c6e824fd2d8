//! How a query's cycle is ended from outside, in every state, and what its call holds after that.
//!
//! Owns: rules Q4, Q6, Q7 and Q8. Lacks: cycles that end of their own, and faults.

use admission_rt::{
    AbortReason, Admission, Counts, LimitKind, OnAbort, Permit, Provider, Query, QueryError, QueryStatus,
    Refresh, Rejected, Retry,
};

use crate::mount::Mount;
use crate::puppet::{Failed, Puppet, expect_just_past, next, outcome, refresh, until, until_status};
use crate::signal::poll_once;
use crate::transcript::Transcript;

/// What ends a cycle from outside.
type End = fn(&Query<u32, Failed>);

/// Each attempt's signal is its own, and the end of the cycle fires the newest one's.
pub async fn each_attempt_has_a_signal_of_its_own<M: Mount>() {
    // rule Q4
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p);
    let ends: [(End, AbortReason); 2] =
        [(Query::pause, AbortReason::Paused), (Query::dispose, AbortReason::Disposed)];
    for (number, (end, why)) in ends.into_iter().enumerate() {
        let puppet = Puppet::default();
        let query = a.query(number as u64).retry(Retry::times(1)).build(puppet.source());
        let waiting = refresh::<M>(&query);
        let first = puppet.called(0).await;
        first.answer(Err(Failed(1)));
        let second = puppet.called(1).await;
        until_status(&query, |status| matches!(status, QueryStatus::Running { attempt: 2, .. })).await;
        end(&query);
        assert!(first.told().is_none(), "its attempt was over");
        assert_eq!(second.told().map(|told| told.to_string()), Some(why.to_string()));
        outcome(waiting).await.expect_err("it was ended");
        second.answer(Ok(1));
        second.gone().await;
    }
}

/// The last one who goes takes a queued cycle out of the queue, at once.
pub async fn the_last_unsubscribe_takes_a_queued_cycle_out<M: Mount>() {
    // rules Q4, W3
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let puppet = Puppet::default();
    let query = a.query(1).build(puppet.source());
    let subscription = query.subscribe();
    let (mut one, mut other) = (query.refresh(), query.refresh());
    assert!(poll_once(&mut one).await.is_pending());
    assert!(poll_once(&mut other).await.is_pending());
    until(|| admission.counts().queued == 1).await;
    drop(one);
    drop(subscription);
    assert_eq!(admission.counts().queued, 1, "somebody waits");
    drop(other);
    assert_eq!(admission.counts().queued, 0, "nobody does");
    assert_eq!(query.snapshot().status, QueryStatus::Idle);
    running.settle().await;
    assert_eq!((puppet.count(), admission.counts()), (0, Counts::default()));
}

/// A subscriber keeps a cycle that its refresh has left; without one the call is told to stop.
pub async fn a_refresh_that_is_dropped_leaves_the_cycle<M: Mount>() {
    // rules Q4, Q6
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p);
    let puppet = Puppet::default();
    let query = a.query(1).build(puppet.source());
    let mut subscription = query.subscribe();
    let mut leaves = query.refresh();
    assert!(poll_once(&mut leaves).await.is_pending());
    let call = puppet.called(0).await;
    drop(leaves);
    assert!(call.told().is_none());
    call.answer(Ok(7));
    while next(&mut subscription).await.expect("there is more").data.is_none() {}

    let mut leaves = query.refresh();
    assert!(poll_once(&mut leaves).await.is_pending());
    let call = puppet.called(1).await;
    until_status(&query, |status| matches!(status, QueryStatus::Running { .. })).await;
    drop(subscription);
    assert!(call.told().is_none());
    drop(leaves);
    assert!(matches!(call.told(), Some(AbortReason::Unsubscribed)));
    let left = query.snapshot();
    assert_eq!((left.status, left.data.as_deref()), (QueryStatus::Data, Some(&7)), "as it was");
    assert_eq!(admission.counts().running, 1, "it is not released by that");
    call.answer(Ok(8));
    until(|| admission.counts() == Counts::default()).await;
    assert_eq!(query.snapshot().data.as_deref(), Some(&7), "what nobody waited for is nobody's");
}

/// What was told to stop holds slot and key until it has stopped, and a later cycle never overlaps it.
pub async fn an_aborted_source_holds_its_slots_until_it_has_finished<M: Mount>() {
    // rules Q6, W7
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(2));
    let puppet = Puppet::default();
    let query = a.query(1).admission_timeout(t.ms(50)).build(puppet.source());
    let waiting = refresh::<M>(&query);
    let old = puppet.called(0).await;
    query.pause();
    assert!(matches!(outcome(waiting).await, Err(QueryError::Paused)), "the cycle itself has ended");
    query.resume();
    assert_eq!(admission.counts().running, 1);
    let late = query.refresh().await.expect_err("the old call has the key");
    assert!(late.rejected().is_some_and(Rejected::is_admission_timeout), "{late:?}");
    expect_just_past(&t, 50);
    let patient = a.query(1).build(puppet.source());
    let waiting = refresh::<M>(&patient);
    until(|| admission.counts().queued == 1).await;
    assert_eq!((puppet.count(), old.is_gone()), (1, false));
    old.answer(Err(Failed(1)));
    let new = puppet.called(1).await;
    assert!(old.is_gone(), "no two at once");
    new.answer(Ok(2));
    assert_eq!(*outcome(waiting).await.expect("data").data, 2);
}

/// A source that never ends holds its slot and its key for ever, even when its query is disposed of and
/// dropped; other keys are not its concern.
pub async fn a_source_that_never_finishes_holds_its_key<M: Mount>() {
    // rule Q7
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(2));
    let puppet = Puppet::default();
    let query = a.query("key").build(puppet.source());
    let waiting = refresh::<M>(&query);
    let stuck = puppet.called(0).await;
    query.dispose();
    assert!(matches!(outcome(waiting).await, Err(QueryError::Disposed)));
    drop(query);
    for round in 1..=3 {
        let later = a.query("key").admission_timeout(t.ms(20)).build(puppet.source());
        let late = later.refresh().await.expect_err("it has the key");
        let Some(Rejected::AdmissionTimeout { held_by: Some(limit), .. }) = late.rejected() else {
            panic!("{late:?}")
        };
        let LimitKind::Key(Some(holder)) = &limit.kind else { panic!("{limit:?}") };
        assert_eq!((&*holder.provider, holder.runs), ("a", true), "it says who has the key");
        assert!(holder.time >= t.ms(20 * round), "and for how long: {:?}", holder.time);
        expect_just_past(&t, 20 * round);
    }
    puppet.nth(1).answer(Ok(1));
    let other = a.query("another").build(puppet.source());
    other.refresh().await.expect("a slot is left");
    assert_eq!((admission.counts().running, stuck.is_gone()), (1, false));
    assert!(matches!(stuck.told(), Some(AbortReason::Disposed)));
    // The test, unlike the rule, has an end.
    stuck.answer(Ok(1));
    stuck.gone().await;
}

/// A query may ask that an aborted call be dropped: then its slots are free at once.
pub async fn a_call_that_may_be_dropped_frees_its_slots_at_once<M: Mount>() {
    // rules Q7, W7
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let puppet = Puppet::default();
    let build = || a.query(1).on_abort(OnAbort::Drop);
    let query = build().build(puppet.source());
    let ends: [End; 2] = [Query::pause, Query::dispose];
    for (number, end) in ends.into_iter().enumerate() {
        let waiting = refresh::<M>(&query);
        let call = puppet.called(number).await;
        until_status(&query, |status| matches!(status, QueryStatus::Running { .. })).await;
        end(&query);
        if M::ONE_THREAD {
            assert!(call.is_gone(), "at once, and not when its cycle's task hears of it");
            assert_eq!(admission.counts(), Counts::default());
            assert!(!query.snapshot().status.is_active());
        }
        // The poll that called the source may still go on, on another thread.
        until(|| call.is_gone() && admission.counts() == Counts::default()).await;
        outcome(waiting).await.expect_err("it was ended");
        query.resume();
    }

    let unsubscribed = build().build(puppet.source());
    let mut leaves = unsubscribed.refresh();
    assert!(poll_once(&mut leaves).await.is_pending());
    let call = puppet.called(2).await;
    until_status(&unsubscribed, |status| matches!(status, QueryStatus::Running { .. })).await;
    drop(leaves);
    until(|| call.is_gone() && admission.counts() == Counts::default()).await;

    let late = build().attempt_timeout(t.ms(20)).retry(Retry::times(1)).build(puppet.source());
    puppet.nth(4).answer(Ok(4));
    let waiting = refresh::<M>(&late);
    let first = puppet.called(3).await;
    puppet.called(4).await;
    assert!(first.is_gone(), "so the retry need not wait for it");
    assert_eq!(*outcome(waiting).await.expect("data").data, 4);
}

/// A pause or a dispose finds a cycle anywhere, and leaves nothing of it.
pub async fn pause_and_dispose_end_a_cycle_in_every_state<M: Mount>() {
    // rules Q8, Q4, W5
    let t = Transcript::<M>::new();
    let ends: [(End, QueryStatus); 2] =
        [(Query::pause, QueryStatus::Paused), (Query::dispose, QueryStatus::Disposed)];
    for (end, status) in ends {
        for state in
            [State::Lazy, State::Asking, State::Queued, State::Granted, State::Running, State::Retrying]
        {
            let (admission, a) = t.provider(|p| p.max_concurrent(1));
            let puppet = Puppet::default();
            let delay = t.ms(3_600_000);
            let query = a.query(1).retry(Retry::times(1).delay(delay)).build(puppet.source());
            let (refresh, permit) = state.reach::<M>(&admission, &a, &query, &puppet).await;
            end(&query);
            drop(permit);
            let error = refresh.await.expect_err("it was ended");
            match status {
                QueryStatus::Paused => assert!(matches!(error, QueryError::Paused), "{state:?}: {error:?}"),
                _ => assert!(matches!(error, QueryError::Disposed), "{state:?}: {error:?}"),
            }
            assert_eq!(query.snapshot().status, status, "{state:?}");
            assert!(query.snapshot().error.is_none(), "{state:?}: nothing has failed");
            // Where tasks run beside the body the source may have been called before the end.
            for number in 0..puppet.count() {
                puppet.nth(number).answer(Ok(1));
            }
            until(|| admission.counts() == Counts::default()).await;
            if M::ONE_THREAD && !matches!(state, State::Running | State::Retrying) {
                assert_eq!(puppet.count(), 0, "{state:?}");
            }

            // No cycle begins until it is resumed, if ever.
            let again = query.refresh().await.expect_err("not now");
            assert_eq!(format!("{again:?}"), format!("{error:?}"));
            query.resume();
            let next = puppet.count();
            puppet.nth(next).answer(Ok(7));
            match status {
                QueryStatus::Paused => drop(query.refresh().await.expect("it goes on")),
                _ => drop(query.refresh().await.expect_err("it is final")),
            }
        }
    }
}

/// Where a cycle may be when it is ended.
#[derive(Clone, Copy, Debug)]
enum State {
    Lazy,
    Asking,
    Queued,
    Granted,
    Running,
    Retrying,
}

impl State {
    /// A refresh whose cycle is there.
    async fn reach<M: Mount>(
        self,
        admission: &Admission<M::Runtime>,
        a: &Provider<M::Runtime>,
        query: &Query<u32, Failed>,
        puppet: &Puppet,
    ) -> (Refresh<u32, Failed>, Option<Permit>) {
        let mut refresh = query.refresh();
        let permit = match self {
            Self::Lazy => return (refresh, None),
            Self::Queued | Self::Granted => Some(a.try_acquire().expect("it is free")),
            Self::Asking | Self::Running | Self::Retrying => None,
        };
        assert!(poll_once(&mut refresh).await.is_pending());
        match self {
            Self::Lazy | Self::Asking => {}
            Self::Queued => until(|| admission.counts().queued == 1).await,
            Self::Granted => {
                until(|| admission.counts().queued == 1).await;
                drop(permit);
                return (refresh, None);
            }
            Self::Running => {
                puppet.called(0).await;
                until_status(query, |status| matches!(status, QueryStatus::Running { .. })).await;
            }
            Self::Retrying => {
                puppet.called(0).await.answer(Err(Failed(1)));
                until_status(query, |status| matches!(status, QueryStatus::WaitingToRetry { .. })).await;
            }
        }
        (refresh, permit)
    }
}
