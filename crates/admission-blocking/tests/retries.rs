//! Threads that try again: each attempt is a call of its own, and a paced one holds nothing while it runs.

use std::thread;
use std::time::Duration;

use admission_blocking::{Admission, IntervalLimiter};
use admission_rt::{AbortHandle, AbortSignal, Counts, Retry, RetryError};

// rules E5, R6
#[test]
fn a_thread_tries_again_and_holds_nothing_meanwhile() {
    let admission = Admission::builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let policy = Retry::times(2).delay(Duration::from_millis(20)).when(|error: &u32| *error < 3);
    let (outcome, other) = thread::scope(|scope| {
        let first = scope.spawn(|| a.retry(policy.clone()).try_run(|attempt| Err::<(), _>(attempt.number())));
        let other = scope.spawn(|| a.run(|| admission.counts().running));
        (first.join().unwrap(), other.join().unwrap())
    });
    assert!(matches!(outcome, Err(RetryError::Operation { error: 3, attempts: 3, .. })), "{outcome:?}");
    assert_eq!(other.unwrap(), 1);
    assert_eq!(admission.counts(), Counts::default());
}

// rules I3, W7
#[test]
fn a_paced_attempt_holds_no_permit_while_it_runs() {
    let pace = IntervalLimiter::builder(Duration::from_millis(5)).build().unwrap();
    let attempts = pace.retry(&AbortSignal::never(), Retry::times(1));
    let counts = attempts.try_run(|attempt| match attempt.number() {
        1 => Err("once more"),
        _ => Ok(pace.counts()),
    });
    assert_eq!(counts.unwrap(), Counts::default());
}

// rule W3
#[test]
fn an_abort_ends_the_wait_between_two_attempts() {
    let admission = Admission::builder().provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    let (handle, signal) = AbortHandle::new();
    let day = Duration::from_secs(86_400);
    let outcome = a.abort_signal(&signal).retry(Retry::times(1).delay(day)).try_run(|_| {
        handle.abort();
        Err::<(), _>("failed")
    });
    let Err(RetryError::Rejected { rejected, last, attempts, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(rejected.is_aborted());
    assert_eq!((last, attempts), (Some("failed"), 1));
}
