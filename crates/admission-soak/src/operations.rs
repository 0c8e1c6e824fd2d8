//! The operations: what they do once they are called.
//!
//! Owns: a script drawn beforehand, and the future that follows it. Lacks the permit, which is admission's.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::Dice;
use crate::ground::{Fail, Ground};
use crate::guarded::{Progress, boom, boom_in_drop, tame};
use crate::host::{Boxed, Host};
use crate::observer::{Inside, Observer, Value};
use crate::tally::Event;

/// What an operation is going to do.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// The provider of [`PLACES`](crate::observer::PLACES); of the template, if there is none.
    pub place: Option<usize>,
    /// The key of [`KEYS`](crate::observer::KEYS).
    pub key: Option<usize>,
    steps: u32,
    sleep: Option<Duration>,
    fails: bool,
}

impl Script {
    /// Draws one.
    pub fn draw(place: Option<usize>, key: Option<usize>, dice: &mut Dice) -> Self {
        Self {
            place,
            key,
            steps: dice.below(4) as u32,
            sleep: dice.one_in(12).then(|| Duration::from_micros(dice.below(600))),
            fails: dice.one_in(5),
        }
    }
}

/// An operation that runs.
pub struct Operation {
    script: Script,
    sleep: Option<Boxed>,
    observer: Arc<Observer>,
    value: Value,
    _inside: Inside,
}

impl Operation {
    /// Calls it.
    pub fn begin<H: Host>(ground: &Arc<Ground>, script: Script, progress: &Progress) -> Self {
        let observer = &ground.observer;
        boom(observer, Event::PanicInClosure, 100);
        progress.has_started.store(true, Ordering::SeqCst);
        Self {
            script,
            sleep: script.sleep.map(H::sleep),
            observer: Arc::clone(observer),
            value: Value::new(observer),
            _inside: Inside::enter(observer, script.place, script.key),
        }
    }
}

impl Future for Operation {
    type Output = Result<Value, Fail>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        boom(&self.observer, Event::PanicInOperation, 60);
        if let Some(steps) = self.script.steps.checked_sub(1) {
            self.script.steps = steps;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(mut sleep) = self.sleep.take() {
            let waker = tame(&self.observer, cx);
            if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.sleep = Some(sleep);
                return Poll::Pending;
            }
        }
        if self.script.fails {
            self.observer.tally.count(Event::Failed);
            return Poll::Ready(Err(Fail(self.value.clone())));
        }
        self.observer.tally.count(Event::Finished);
        Poll::Ready(Ok(self.value.clone()))
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        boom_in_drop(&self.observer, 100);
    }
}

/// Gives way once.
pub async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits by a timer of the runtime's.
pub async fn sleep<H: Host>(observer: &Arc<Observer>, time: Duration) {
    let mut sleep = H::sleep(time);
    std::future::poll_fn(|cx| {
        let waker = tame(observer, cx);
        sleep.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await;
}
