//! A source whose every call is in the body's hands.
//!
//! Owns: the calls that a query made, what each was told, and when its future went. Lacks: any answer
//! that the body does not give.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use admission_rt::{AbortReason, Attempt, Query, QuerySnapshot, QueryStatus, Refresh, Subscription};

use crate::mount::{Boxed, Mount};
use crate::signal::{Signal, yield_now};
use crate::transcript::Transcript;

/// What the sources of these bodies fail with. It is no `Error`, and cannot be cloned.
#[derive(PartialEq, Eq, Debug)]
pub struct Failed(pub u32);

/// The outcome of a cycle.
pub type Outcome = <Refresh<u32, Failed> as Future>::Output;

/// The source. Clones are the same.
#[derive(Clone, Default)]
pub struct Puppet {
    calls: Arc<Mutex<Vec<Pulled>>>,
}

/// One call of it.
#[derive(Clone, Default)]
pub struct Pulled {
    attempt: Arc<Mutex<Option<Attempt>>>,
    answer: Arc<Mutex<Option<Result<u32, Failed>>>>,
    called: Signal,
    answered: Signal,
    gone: Signal,
}

impl Puppet {
    /// To build a query with.
    pub fn source(&self) -> impl Fn(Attempt) -> Boxed<Result<u32, Failed>> + Send + Sync + 'static {
        let puppet = self.clone();
        move |attempt| {
            let call = puppet.nth(puppet.count());
            *call.attempt.lock().unwrap_or_else(PoisonError::into_inner) = Some(attempt);
            call.called.set();
            let gone = Gone(call.gone.clone());
            Box::pin(async move {
                let _gone = gone;
                call.answered.wait().await;
                let answer = call.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
                answer.expect("it is there")
            })
        }
    }

    /// How often it was called.
    #[must_use]
    pub fn count(&self) -> usize {
        self.calls().iter().filter(|call| call.called.is_set()).count()
    }

    /// The call with this number, counted from 0, whether or not it has come.
    #[must_use]
    pub fn nth(&self, number: usize) -> Pulled {
        let mut calls = self.calls();
        while calls.len() <= number {
            calls.push(Pulled::default());
        }
        calls[number].clone()
    }

    /// The call with this number, once it has come.
    pub async fn called(&self, number: usize) -> Pulled {
        let call = self.nth(number);
        call.called.wait().await;
        call
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Vec<Pulled>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pulled {
    /// Lets it give this.
    pub fn answer(&self, answer: Result<u32, Failed>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.answered.set();
    }

    /// The attempt that it is.
    ///
    /// # Panics
    ///
    /// When it has not come.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        let attempt = self.attempt.lock().unwrap_or_else(PoisonError::into_inner).clone();
        attempt.expect("it was called")
    }

    /// What its signal says.
    #[must_use]
    pub fn told(&self) -> Option<AbortReason> {
        self.attempt().signal().reason()
    }

    /// Whether its future is there no more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.gone.is_set()
    }

    /// Until its future is there no more.
    pub async fn gone(&self) {
        self.gone.wait().await;
    }
}

struct Gone(Signal);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// A refresh that runs beside the body.
pub fn refresh<M: Mount>(query: &Query<u32, Failed>) -> Boxed<Option<Outcome>> {
    M::spawn(Box::pin(query.refresh()))
}

/// The outcome of a refresh that runs beside the body.
///
/// # Panics
///
/// When it did.
pub async fn outcome(refresh: Boxed<Option<Outcome>>) -> Outcome {
    refresh.await.expect("no panic")
}

/// Waits for others to bring this about, without letting time pass.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        yield_now().await;
    }
}

/// Waits until the query does this.
pub async fn until_status(query: &Query<u32, Failed>, is_so: impl Fn(QueryStatus) -> bool) {
    until(|| is_so(query.snapshot().status)).await;
}

/// Asserts that a deadline has just passed: a timer may be a millisecond late, where time is exact.
///
/// # Panics
///
/// When it is another time.
#[track_caller]
pub fn expect_just_past<M: Mount>(t: &Transcript<M>, millis: u32) {
    let (now, at) = (t.elapsed(), t.ms(millis));
    assert!(now >= at, "it is {now:?}, before {at:?}");
    assert!(!M::EXACT || now < at + t.ms(5), "it is {now:?}, long after {at:?}");
}

/// The next snapshot of a subscription.
pub async fn next(subscription: &mut Subscription<u32, Failed>) -> Option<Arc<QuerySnapshot<u32, Failed>>> {
    Next(subscription).await
}

struct Next<'a>(&'a mut Subscription<u32, Failed>);

impl Future for Next<'_> {
    type Output = Option<Arc<QuerySnapshot<u32, Failed>>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_snapshot(cx)
    }
}
