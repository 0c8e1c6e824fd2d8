//! Operations that are tried again: where each attempt stands, and what is held in between.
//!
//! Owns: the retry of rule E5, for `run` and the limiters. Lacks: queries and streams, which retry by the
//! same policy.

use std::future::{Future, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use admission_rt::backon::{ConstantBuilder, FibonacciBuilder};
use admission_rt::{
    AbortHandle, AbortReason, AbortSignal, Attempt, Counts, IntervalLimiter, Rejected, Retry, RetryCall,
    RetryError, Strategy,
};

use crate::mount::{Boxed, Mount};
use crate::signal::{Signal, poll_once};
use crate::transcript::Transcript;

/// How a retried call of these bodies ends: its error is the number of the attempt that failed.
type Outcome = Result<u32, RetryError<u32>>;

/// A retried call that runs beside the body.
type Retried = Boxed<Option<Outcome>>;

/// A call whose attempts fail, but for this one, each as soon as it has started.
fn attempts<M: Mount>(
    t: &Transcript<M>,
    name: &str,
    call: RetryCall<M::Runtime, u32>,
    succeeds: u32,
) -> impl Future<Output = Outcome> + Unpin + Send + 'static {
    let (name, recorder) = (name.to_owned(), t.recorder());
    Box::pin(call.try_run(move |attempt: Attempt| {
        let number = attempt.number();
        recorder.note(format!("{name}{number}"));
        ready(if number == succeeds { Ok(number) } else { Err(number) })
    }))
}

/// Submits a call now, and lets it run beside the body.
async fn beside<M: Mount>(mut call: impl Future<Output = Outcome> + Unpin + Send + 'static) -> Retried {
    assert!(poll_once(&mut call).await.is_pending());
    M::spawn(Box::pin(call))
}

async fn end(retried: Retried) -> Outcome {
    retried.await.expect("no panic")
}

/// The refusal, the last attempt's error, and the number of attempts.
#[track_caller]
fn refusal(outcome: Outcome) -> (Rejected, Option<u32>, u32) {
    match outcome {
        Err(RetryError::Rejected { rejected, last, attempts, .. }) => (rejected, last, attempts),
        other => panic!("{other:?}"),
    }
}

/// Once the first attempt has failed its retry is the last in the queue, whatever the delay.
pub async fn retries_stand_behind_those_who_wait<M: Mount>() {
    // rule E5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let fail = Signal::default();
    let call = {
        let (recorder, fail) = (t.recorder(), fail.clone());
        a.retry(Retry::times(1)).try_run(move |attempt: Attempt| {
            recorder.note(format!("retried{}", attempt.number()));
            let fail = fail.clone();
            async move {
                fail.wait().await;
                if attempt.number() == 1 { Err(1) } else { Ok(2) }
            }
        })
    };
    let retried = beside::<M>(Box::pin(call)).await;
    let first = t.call("first", &a).await;
    let second = t.call("second", &a).await;
    fail.set();
    first.settle().await;
    second.settle().await;
    assert_eq!(end(retried).await.expect("the second attempt"), 2);
    assert_eq!(t.names(), ["retried1", "first", "second", "retried2"]);
    assert_eq!(admission.counts(), Counts::default());
}

/// Between two attempts there is no permit, no key and no place in the queue.
pub async fn waiting_to_retry_holds_nothing<M: Mount>() {
    // rules E5, L1
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.max_queued(0).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let policy = Retry::times(1).delay(t.ms(200));
    let mut retried = attempts(&t, "retried", a.key("k").retry(policy), 2);
    assert!(poll_once(&mut retried).await.is_pending());
    assert_eq!(admission.counts(), Counts::default());
    t.call("other", a.key("k")).await.settle().await;
    assert_eq!(retried.await.expect("the second attempt"), 2);
    t.expect(&[("retried1", 0), ("other", 0), ("retried2", 200)]);
}

/// The delays are the builder's, by the coordinator's clock, and its end is the end.
pub async fn delays_are_seen_in_the_starts<M: Mount>() {
    // rules E5, T5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p);
    let same = ConstantBuilder::default().with_delay(t.ms(10)).with_max_times(3);
    let outcome = attempts(&t, "c", a.retry(Retry::backoff(same)), 9).await;
    assert!(matches!(outcome, Err(RetryError::Operation { error: 4, attempts: 4, .. })), "{outcome:?}");
    let sum = FibonacciBuilder::default().with_min_delay(t.ms(10)).without_max_times();
    let outcome = attempts(&t, "f", a.retry(Retry::backoff(sum).at_most(3)), 9).await;
    assert!(matches!(outcome, Err(RetryError::Operation { error: 4, attempts: 4, .. })), "{outcome:?}");
    t.expect(&[
        ("c1", 0),
        ("c2", 10),
        ("c3", 20),
        ("c4", 30),
        ("f1", 30),
        ("f2", 40),
        ("f3", 50),
        ("f4", 70),
    ]);
    assert_eq!(admission.counts(), Counts::default());
}

/// It is asked about the operation's errors, and about nothing else.
pub async fn a_predicate_is_never_asked_about_a_refusal<M: Mount>() {
    // rules E5, Q3
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.max_queued(1).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let asked = Arc::new(AtomicU32::new(0));
    let policy = {
        let asked = Arc::clone(&asked);
        Retry::times(9).when(move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            true
        })
    };
    let running = t.call("running", &a).await;
    let waiting = t.call("waiting", &a).await;
    let overflows = attempts(&t, "overflows", a.retry(policy.clone()), 9).await;
    assert!(matches!(refusal(overflows), (Rejected::Overflow { .. }, None, 0)));
    waiting.drop_it().await;
    let call = a.admission_timeout(t.ms(50)).retry(policy.clone());
    let expires = attempts(&t, "expires", call, 9).await;
    assert!(matches!(refusal(expires), (Rejected::AdmissionTimeout { .. }, None, 0)));
    let closed = beside::<M>(attempts(&t, "closed", a.retry(policy), 9)).await;
    admission.close();
    assert!(matches!(refusal(end(closed).await), (Rejected::Closed, None, 0)));
    running.settle().await;
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    assert_eq!(t.names(), ["running"]);
}

/// Where it says so, a refused call asks again, and not before that can be of use.
pub async fn a_policy_may_have_refusals_retried<M: Mount>() {
    // rules E5, R1
    let t = Transcript::<M>::new();
    let strict = t.limiter(1, t.ms(600_000), |b| b.strategy(Strategy::Reject));
    drop(strict.try_acquire().expect("the first"));
    let refused = attempts(&t, "refused", strict.retry(Retry::times(9)), 1).await;
    assert!(matches!(refusal(refused), (Rejected::Exhausted { .. }, None, 0)), "not unless it is asked for");
    let limiter = t.limiter(1, t.ms(100), |b| b.strategy(Strategy::Reject));
    t.call("first", &limiter).await.settle().await;
    let policy = Retry::times(1).when_refused(|rejected| matches!(rejected, Rejected::Exhausted { .. }));
    let outcome = attempts(&t, "retried", limiter.retry(policy), 1).await;
    assert_eq!(outcome.expect("its first attempt"), 1);
    t.expect(&[("first", 0), ("retried1", 100)]);
}

/// Before the attempt's permit is released, so that nobody who waits slips in between; and the retry
/// does not wait for its end in the queue.
pub async fn an_error_may_become_a_cooldown<M: Mount>() {
    // rules L5, E5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let fail = Signal::default();
    let policy = Retry::times(1).cooldown({
        let after = t.ms(100);
        move |error| (*error == 1).then_some(after)
    });
    let call = {
        let (recorder, fail) = (t.recorder(), fail.clone());
        a.retry(policy).try_run(move |attempt: Attempt| {
            recorder.note(format!("retried{}", attempt.number()));
            let fail = fail.clone();
            async move {
                fail.wait().await;
                if attempt.number() == 1 { Err(1) } else { Ok(2) }
            }
        })
    };
    let mut call = Box::pin(call);
    assert!(poll_once(&mut call).await.is_pending());
    let waiting = t.call("waiting", &a).await;
    fail.set();
    assert!(poll_once(&mut call).await.is_pending());
    // In real time the cooldown may be over by now.
    if M::EXACT {
        assert_eq!(admission.counts(), Counts { running: 0, granted: 0, queued: 1 }, "it waits outside");
    }
    waiting.finish();
    assert_eq!(call.await.expect("the second attempt"), 2);
    waiting.settle().await;
    t.expect(&[("retried1", 0), ("waiting", 100), ("retried2", 100)]);
}

/// A refusal of a later attempt tells of the attempt before it.
pub async fn a_refused_retry_carries_the_last_error<M: Mount>() {
    // rules Q5, E5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let fail = Signal::default();
    let policy = Retry::backoff([Duration::ZERO, t.ms(50)].into_iter());
    let call = a.admission_timeout(t.ms(20)).retry(policy);
    let mut retried = Box::pin({
        let fail = fail.clone();
        call.try_run(move |attempt: Attempt| {
            let (number, fail) = (attempt.number(), fail.clone());
            async move {
                if number == 2 {
                    fail.wait().await;
                }
                Err::<u32, _>(number)
            }
        })
    });
    assert!(poll_once(&mut retried).await.is_pending());
    assert!(poll_once(&mut retried).await.is_pending());
    // In line before the second attempt ends, so that it has the place when the third wants it.
    let other = t.call("other", &a).await;
    fail.set();
    assert!(poll_once(&mut retried).await.is_pending());
    let outcome = retried.await;
    let words = outcome.as_ref().expect_err("it is refused").to_string();
    assert!(words.ends_with("(after 2 attempts)"), "{words}");
    assert!(matches!(refusal(outcome), (Rejected::AdmissionTimeout { .. }, Some(2), 2)));
    other.settle().await;
    assert_eq!(admission.counts(), Counts::default());
}

/// Each attempt knows which it is, and the end tells how many there were.
pub async fn attempts_are_numbered_and_counted<M: Mount>() {
    // rule E5
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p);
    let outcome = attempts(&t, "a", a.retry(Retry::times(5)), 3).await;
    assert_eq!(outcome.expect("the third"), 3);
    let policy = Retry::times(5).when(|error| *error < 2);
    let error = attempts(&t, "b", a.retry(policy), 9).await.expect_err("none succeeds");
    assert_eq!((error.attempts(), error.into_error()), (2, Some(2)));
    assert_eq!(t.names(), ["a1", "a2", "a3", "b1", "b2"]);
}

/// The call's signal ends the wait between two attempts as it ends a wait for admission.
pub async fn an_abort_ends_the_wait_between_attempts<M: Mount>() {
    // rules W3, E5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let (handle, signal) = AbortHandle::new();
    let policy = Retry::times(1).delay(Duration::MAX);
    let call = a.abort_signal(&signal).retry(policy);
    let retried = beside::<M>(attempts(&t, "retried", call, 9)).await;
    handle.abort_with("shut");
    match refusal(end(retried).await) {
        (Rejected::Aborted(AbortReason::Custom(why)), Some(1), 1) => assert_eq!(why.to_string(), "shut"),
        other => panic!("{other:?}"),
    }
    assert_eq!(admission.counts(), Counts::default());
    assert_eq!(t.names(), ["retried1"]);
    if let Some(armed) = M::armed() {
        assert_eq!(armed, 0, "no timer is left");
    }
}

/// Retries of one caller and calls of others are an interval apart, each in a place of its own.
pub async fn retries_share_one_interval<M: Mount>() {
    // rules I1, E5, L2
    let t = Transcript::<M>::new();
    let builder = IntervalLimiter::builder(t.ms(100)).clock(t.clock());
    let builder = if M::EXACT { builder } else { builder.hand_off(Duration::from_secs(3_600)) };
    let limiter = builder.build().expect("the interval is not zero");
    let call = limiter.retry(&AbortSignal::never(), Retry::times(2));
    let mut retried = attempts(&t, "retried", call, 9);
    assert!(poll_once(&mut retried).await.is_pending());
    let other = t.call("other", &limiter).await;
    let outcome = retried.await;
    assert!(matches!(outcome, Err(RetryError::Operation { error: 3, attempts: 3, .. })), "{outcome:?}");
    other.settle().await;
    t.expect(&[("retried1", 0), ("other", 100), ("retried2", 200), ("retried3", 300)]);
    assert_eq!(limiter.counts(), Counts::default());
}

/// Nothing is left of it: no timer, no place.
pub async fn a_retried_call_may_be_dropped_while_it_waits<M: Mount>() {
    // rule W5
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let policy = Retry::times(1).delay(t.ms(600_000));
    let mut retried = attempts(&t, "retried", a.key("k").retry(policy), 9);
    assert!(poll_once(&mut retried).await.is_pending());
    drop(retried);
    assert_eq!(admission.counts(), Counts::default());
    if let Some(armed) = M::armed() {
        assert_eq!(armed, 0, "no timer is left");
    }
    t.call("next", a.key("k")).await.settle().await;
    assert_eq!(t.names(), ["retried1", "next"]);
}
