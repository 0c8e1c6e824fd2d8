//! Leaving the queue: by a signal, or by dropping the future, in every state.
//!
//! Owns: rule W3, and what an abort leaves of a call that runs. Lacks: closing.

use std::sync::Arc;
use std::time::Duration;

use admission_rt::{AbortHandle, AbortReason, AbortSignal, Counts, Rejected};
use admission_testing::VirtualClock;

use crate::mount::Mount;
use crate::signal::{Signal, poll_once};
use crate::transcript::Transcript;

/// The one that is aborted gets the reason; the order of the others stays.
pub async fn an_abort_takes_the_ticket_out_with_its_reason<M: Mount>() {
    // rule W3
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.max_concurrent(1).max_queued(3).provider("a", |p| p));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let (handle, signal) = AbortHandle::new();
    let first = t.call("first", &a).await;
    let aborted = t.call("aborted", a.abort_signal(&signal)).await;
    let third = t.call("third", &a).await;
    let why: Arc<dyn std::error::Error + Send + Sync> =
        Arc::from(Box::<dyn std::error::Error + Send + Sync>::from("shut"));
    handle.abort_with(AbortReason::Custom(why));
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 2 }, "at once");
    let newcomer = t.call("newcomer", &a).await;
    match aborted.refused().await {
        Rejected::Aborted(AbortReason::Custom(why)) => assert_eq!(why.to_string(), "shut"),
        other => panic!("{other:?}"),
    }
    running.settle().await;
    first.settle().await;
    third.settle().await;
    newcomer.settle().await;
    assert_eq!(t.names(), ["running", "first", "third", "newcomer"]);
}

/// A signal that has fired before refuses before anything else, and nothing is queued.
pub async fn an_aborted_signal_refuses_before_submitting<M: Mount>() {
    // rules W3, D5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.window(2, t.ms(600_000)));
    let (handle, signal) = AbortHandle::new();
    handle.abort();
    let held = t.hold("held", a.abort_signal(&signal)).await;
    assert!(matches!(held.refusal(), Rejected::Aborted(AbortReason::Requested)), "{:?}", held.refusal());
    assert!(matches!(a.abort_signal(&signal).try_acquire(), Err(Rejected::Aborted(_))));
    drop((a.try_acquire().expect("nothing is spent"), a.try_acquire().expect("nothing is spent")));
    assert_eq!(admission.counts(), Counts::default());
}

/// Dropping the handle aborts nothing; the first reason stays.
pub async fn a_signal_fires_once_and_not_by_being_dropped<M: Mount>() {
    // rule W3
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let (handle, signal) = AbortHandle::new();
    drop(handle);
    assert!(!signal.is_aborted());
    t.call("calm", a.abort_signal(&signal)).await.settle().await;
    let (handle, signal) = AbortHandle::new();
    handle.abort_with(AbortReason::Timeout);
    handle.abort();
    assert!(matches!(signal.reason(), Some(AbortReason::Timeout)));
    assert!(matches!(signal.aborted().await, AbortReason::Timeout));
    assert!(AbortSignal::never().reason().is_none());
    assert_eq!(t.names(), ["calm"]);
}

/// One signal takes out everybody who waits with it, and nobody else.
pub async fn one_signal_may_abort_many<M: Mount>() {
    // rules W3, W5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let (handle, signal) = AbortHandle::new();
    let mut aborted = Vec::new();
    for _ in 0..100 {
        aborted.push(t.call("aborted", a.abort_signal(&signal)).await);
    }
    let other = t.call("other", &a).await;
    handle.abort();
    assert_eq!(admission.counts().queued, 1);
    for call in aborted {
        assert!(call.refused().await.is_aborted());
    }
    running.settle().await;
    other.settle().await;
    assert_eq!(t.names(), ["running", "other"]);
}

/// The last look at the signal is between grant and start.
pub async fn a_signal_is_looked_at_once_more_before_the_start<M: Mount>() {
    // rules S3, W3
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let (handle, signal) = AbortHandle::new();
    let mut held = t.hold("held", a.abort_signal(&signal)).await;
    let next = t.call("next", &a).await;
    running.settle().await;
    assert_eq!(admission.counts(), Counts { running: 0, granted: 1, queued: 1 });
    handle.abort();
    next.started().await;
    held.poll().await;
    assert!(held.refusal().is_aborted() && !held.has_started());
    next.settle().await;
    assert_eq!(t.names(), ["running", "next"]);
}

/// Once the operation runs the signal is its own affair: slot and key are its until it ends.
pub async fn an_abort_frees_nothing_of_a_call_that_runs<M: Mount>() {
    // rules W7, L1
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let (handle, signal) = AbortHandle::new();
    let running = t.call("running", a.key("k").abort_signal(&signal)).await;
    let next = t.call("next", a.key("k")).await;
    handle.abort();
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 1 });
    assert!(!next.has_started());
    running.settle().await;
    next.settle().await;
    assert_eq!(t.names(), ["running", "next"]);
}

/// Dropping the future of a call that runs ends the operation, and so frees what it held.
pub async fn dropping_a_call_that_runs_ends_it<M: Mount>() {
    // rules W7, W5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", a.key("k")).await;
    let next = t.call("next", a.key("k")).await;
    running.drop_it().await;
    next.settle().await;
    assert_eq!(t.names(), ["running", "next"]);
    assert_eq!(admission.counts(), Counts::default());
}

/// A future can be dropped in every state it has: unpolled, queued, granted, taken back, running,
/// refused. Whoever is behind it goes on.
pub async fn a_future_can_be_dropped_in_every_state<M: Mount>() {
    // rules W3, W5, S3, S4
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.hand_off(t.ms(20)).max_concurrent(1).provider("a", |p| p));
    let a = admission.provider("a").expect("it is there");
    // Unpolled.
    drop(t.unpolled("unpolled", a.key("k")));
    // Queued.
    let running = t.call("running", a.key("k")).await;
    let queued = t.hold("queued", a.key("k")).await;
    drop(queued);
    // Granted.
    let granted = t.hold("granted", a.key("k")).await;
    let second = t.call("second", a.key("k")).await;
    running.settle().await;
    drop(granted);
    second.started().await;
    // Taken back.
    let taken_back = t.hold("taken back", a.key("k")).await;
    let third = t.call("third", a.key("k")).await;
    second.settle().await;
    third.started().await;
    drop(taken_back);
    // Running.
    let fourth = t.call("fourth", a.key("k")).await;
    third.drop_it().await;
    fourth.started().await;
    // Refused.
    let (handle, signal) = AbortHandle::new();
    handle.abort();
    drop(t.hold("refused", a.abort_signal(&signal)).await);
    fourth.settle().await;
    assert_eq!(t.names(), ["running", "second", "third", "fourth"]);
    assert_eq!(admission.counts(), Counts::default());
}

/// A future can be dropped at any of its await points: after `n` polls, for every `n`.
pub async fn a_call_can_be_cancelled_at_every_await_point<M: Mount>() {
    // rules W5, W3, W7
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    for polls in 0..6 {
        let blocker = a.try_acquire().expect("nothing was leaked");
        let gates = [Signal::default(), Signal::default()];
        let mut call = Box::pin(a.key("k").run({
            let gates = gates.clone();
            move || async move {
                for gate in gates {
                    gate.wait().await;
                }
            }
        }));
        let mut blocker = Some(blocker);
        for poll in 0..polls {
            match poll {
                1 => blocker = None,
                2 => gates[0].set(),
                3 => gates[1].set(),
                _ => {}
            }
            if poll_once(&mut call).await.is_ready() {
                break;
            }
        }
        drop(call);
        drop(blocker);
        assert_eq!(admission.counts(), Counts::default(), "after {polls} polls");
    }
}

/// A signal can be any future.
pub async fn a_signal_can_be_made_of_a_future<M: Mount>() {
    // rule W3
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let switch = Signal::default();
    let signal = AbortSignal::from_future({
        let switch = switch.clone();
        async move {
            switch.wait().await;
            AbortReason::Timeout
        }
    });
    let waiting = t.call("waiting", a.abort_signal(&signal)).await;
    switch.set();
    let refused = waiting.refused().await;
    assert!(matches!(refused, Rejected::Aborted(AbortReason::Timeout)), "{refused:?}");
    running.settle().await;
    assert_eq!(t.names(), ["running"]);
}

/// Whoever leaves costs nothing, even if it was due: the removal comes before anything else.
pub async fn leaving_costs_nothing_though_the_ticket_was_due<M: Mount>() {
    // rules W3, W6
    let clock = VirtualClock::new();
    let hour = Duration::from_secs(3_600);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let (admission, a) = t.provider(|p| p.interval(hour).window(2, hour * 1_000));
    for by_signal in [false, true] {
        drop(a.try_acquire().expect("nothing is spent but by those who started"));
        let (handle, signal) = AbortHandle::new();
        let due = t.hold("due", a.abort_signal(&signal)).await;
        clock.advance(hour);
        if by_signal {
            handle.abort();
        } else {
            drop(due);
        }
    }
    assert_eq!(admission.counts(), Counts::default());
    assert!(t.names().is_empty());
}
