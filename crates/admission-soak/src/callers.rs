//! The callers: each makes one call after the other, of a kind that it draws, and ends it in a way that it draws.
//!
//! Owns: plain calls and their ends. Lacks queries and streams (`around`), changes (`changes`), and threads' own calls
//! (`threads`).

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use admission_rt::{AbortHandle, Call, Permit, Rejected, Retry, RetryError, RunError};
use futures_util::future::{Either, select};

use crate::alarms::Watched;
use crate::ground::{Fail, Ground};
use crate::guarded::{Guarded, Progress, guard};
use crate::host::{Boxed, Host};
use crate::observer::{INTERVAL, Inside, KEYS, PLACES, RATE, Value};
use crate::operations::{Operation, Script, sleep, yield_now};
use crate::tally::Event;
use crate::{Dice, around, changes};

/// Makes calls until the round has none left.
pub(crate) async fn caller<H: Host>(ground: Arc<Ground>, mut dice: Dice) {
    while ground.takes_one() {
        one::<H>(&ground, &mut dice).await;
        if dice.one_in(16) {
            yield_now().await;
        }
    }
}

async fn one<H: Host>(ground: &Arc<Ground>, dice: &mut Dice) {
    let progress = Arc::new(Progress::default());
    let is_hostile = dice.one_in(5);
    // What takes long by nature, or wakes many, is rarer.
    let call = match dice.below(128) {
        0..26 => run::<H>(ground, dice, &progress, false),
        26..40 => run::<H>(ground, dice, &progress, true),
        40..58 => acquire::<H>(ground, dice, &progress),
        58..68 => return try_acquire::<H>(ground, dice),
        68..76 => return enqueue::<H>(ground, dice).await,
        76..84 => retry::<H>(ground, dice, &progress),
        84..92 => of_template::<H>(ground, dice, &progress),
        92..98 => rate_limiter::<H>(ground, dice, &progress),
        98..102 => interval_limiter::<H>(ground, dice, &progress),
        102..106 => {
            if guard(&ground.observer, || H::own_call(ground, dice)) == Some(true) {
                ground.observer.tally.count(Event::OwnFace);
            }
            return;
        }
        106..114 => around::looks::<H>(ground, dice),
        114..118 => around::stream::<H>(ground, dice),
        118 if dice.one_in(8) => idle::<H>(ground),
        119..124 => {
            guard(&ground.observer, || changes::change::<H>(ground, dice));
            return;
        }
        _ => run::<H>(ground, dice, &progress, false),
    };
    end::<H>(Guarded::new(ground, progress, is_hostile, call), ground, dice).await;
}

/// Awaits a call, or cancels it at some stage or other.
async fn end<H: Host>(mut call: Guarded, ground: &Arc<Ground>, dice: &mut Dice) {
    let observer = &ground.observer;
    match dice.below(10) {
        0 | 1 => {
            for _ in 0..dice.below(4) {
                if poll_once(&mut call).await.is_ready() {
                    return;
                }
                yield_now().await;
            }
            observer.tally.count(call.stage());
        }
        2 => {
            let time = Duration::from_micros(dice.below(1_500));
            if let Either::Right(((), call)) = select(call, H::sleep(time)).await {
                observer.tally.count(Event::LostRace);
                observer.tally.count(call.stage());
            }
        }
        _ => {
            // The caller itself may end with its runtime.
            let mut tell = WithRuntime(Some(ground));
            call.await;
            tell.0 = None;
        }
    }
}

struct WithRuntime<'a>(Option<&'a Arc<Ground>>);

impl Drop for WithRuntime<'_> {
    fn drop(&mut self) {
        if let Some(ground) = self.0 {
            ground.observer.tally.count(Event::WithRuntime);
        }
    }
}

async fn poll_once(call: &mut Guarded) -> Poll<bool> {
    std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *call).poll(cx))).await
}

/// A provider, and a call of it with options.
pub(crate) fn call<H: Host>(
    ground: &Arc<Ground>,
    dice: &mut Dice,
) -> Option<(Call<Watched<H::Runtime>>, Script)> {
    // The paced ones are slow, and few go there.
    let place = match dice.below(32) {
        0..13 => 0,
        13..16 => 1,
        16..18 => 2,
        18..24 => 3,
        24..29 => 4,
        _ => 5,
    };
    let key = dice.one_in(4).then(|| dice.below(KEYS as u64) as usize);
    let provider = ground.provider::<H::Runtime>(place).ok()?;
    Some((options::<H>(provider.call(), ground, dice, key), Script::draw(Some(place), key, dice)))
}

fn options<H: Host>(
    mut call: Call<Watched<H::Runtime>>,
    ground: &Arc<Ground>,
    dice: &mut Dice,
    key: Option<usize>,
) -> Call<Watched<H::Runtime>> {
    if let Some(key) = key {
        call = call.key(format!("key {key}"));
    } else if dice.one_in(4) {
        // Nobody else's: a name that must be forgotten, and is long, so that it shows if it is not.
        call = call.key(format!("a key of its own: {:0512x}", dice.any()));
    }
    if dice.one_in(3) {
        call = call.cost("tokens", dice.below(120));
    }
    match dice.below(5) {
        0 => call = call.admission_timeout(Duration::from_micros(dice.below(2_000))),
        1 => call = call.admission_timeout(Duration::from_secs(3_600)),
        _ => {}
    }
    if dice.one_in(5) {
        let (handle, signal) = AbortHandle::new();
        call = call.abort_signal(&signal);
        if dice.one_in(16) {
            handle.abort();
        }
        ground.leave_handle(handle, dice.any());
    }
    if dice.one_in(16) {
        ground.fire(dice.any());
    }
    call
}

fn run<H: Host>(ground: &Arc<Ground>, dice: &mut Dice, progress: &Arc<Progress>, tries: bool) -> Boxed {
    let Some((call, script)) = call::<H>(ground, dice) else { return Box::pin(std::future::ready(())) };
    let (ground, progress) = (Arc::clone(ground), Arc::clone(progress));
    ground.observer.tally.count(if tries { Event::TryRun } else { Event::Run });
    Box::pin(async move {
        let begin = || Operation::begin::<H>(&ground, script, &progress);
        if tries {
            answer_of_try(&ground, call.try_run(begin).await);
        } else {
            answer(&ground, call.run(begin).await);
        }
    })
}

fn of_template<H: Host>(ground: &Arc<Ground>, dice: &mut Dice, progress: &Arc<Progress>) -> Boxed {
    let provider = ground.admission.provider(&format!("host {}", dice.below(400)));
    let Ok(provider) = provider else { return Box::pin(std::future::ready(())) };
    let key = dice.one_in(8).then(|| dice.below(KEYS as u64) as usize);
    let call = options::<H>(provider.on().call(), ground, dice, key);
    let script = Script::draw(None, key, dice);
    let (ground, progress) = (Arc::clone(ground), Arc::clone(progress));
    ground.observer.tally.count(Event::OnTemplate);
    Box::pin(async move {
        answer(&ground, call.run(|| Operation::begin::<H>(&ground, script, &progress)).await);
    })
}

fn acquire<H: Host>(ground: &Arc<Ground>, dice: &mut Dice, progress: &Arc<Progress>) -> Boxed {
    let Some((call, script)) = call::<H>(ground, dice) else { return Box::pin(std::future::ready(())) };
    let (ground, progress, mut dice) = (Arc::clone(ground), Arc::clone(progress), dice.fork());
    ground.observer.tally.count(Event::Acquire);
    Box::pin(async move {
        if let Some(permit) = answer(&ground, call.acquire().await) {
            progress.has_started.store(true, Ordering::SeqCst);
            hold::<H>(&ground, script, &permit, &mut dice).await;
        }
    })
}

/// Does something with a permit; what is counted is gone before it is.
async fn hold<H: Host>(ground: &Arc<Ground>, script: Script, permit: &Permit, dice: &mut Dice) {
    let inside = Inside::enter(&ground.observer, script.place, script.key);
    for _ in 0..dice.below(4) {
        yield_now().await;
        settle(ground, permit, dice);
    }
    if dice.one_in(16) {
        sleep::<H>(&ground.observer, Duration::from_micros(dice.below(600))).await;
    }
    drop(inside);
}

fn settle(ground: &Ground, permit: &Permit, dice: &mut Dice) {
    if dice.one_in(3) && permit.settle("tokens", dice.below(200)).is_ok() {
        ground.observer.tally.count(Event::Settled);
    }
}

fn try_acquire<H: Host>(ground: &Arc<Ground>, dice: &mut Dice) {
    ground.observer.tally.count(Event::TryAcquire);
    guard(&ground.observer, || {
        let Some((call, script)) = call::<H>(ground, dice) else { return };
        let tried = ground.observer.polling(|| {
            let permit = call.try_acquire()?;
            Ok((Inside::enter(&ground.observer, script.place, script.key), permit))
        });
        // In the order in which they were made they would be dropped the wrong way round.
        if let Some((inside, permit)) = answer(ground, tried) {
            settle(ground, &permit, dice);
            drop(inside);
            drop(permit);
        }
    });
}

/// Takes a place at once: and drops it unpolled, leaves it to strangers, or waits after all.
async fn enqueue<H: Host>(ground: &Arc<Ground>, dice: &mut Dice) {
    ground.observer.tally.count(Event::Enqueue);
    let enqueued = guard(&ground.observer, || {
        let (call, script) = call::<H>(ground, dice)?;
        Some((call.enqueue(), script))
    });
    let Some((acquire, script)) = enqueued.flatten() else { return };
    match dice.below(4) {
        0 | 1 => {
            ground.observer.tally.count(Event::DropQueued);
            guard(&ground.observer, || drop(acquire));
        }
        2 => {
            let call = async move { drop(acquire.await) };
            guard(&ground.observer, || ground.leave(Box::pin(call), dice.any()));
        }
        _ => {
            let (inner, mut other) = (Arc::clone(ground), dice.fork());
            let progress = Arc::new(Progress::default());
            let call = async move {
                if let Some(permit) = answer(&inner, acquire.await) {
                    hold::<H>(&inner, script, &permit, &mut other).await;
                }
            };
            let call = Guarded::new(ground, progress, dice.one_in(5), Box::pin(call));
            end::<H>(call, ground, dice).await;
        }
    }
}

/// What a policy of the soak retries, and when.
pub(crate) fn policy(dice: &mut Dice) -> Retry<Fail> {
    let policy = Retry::times(dice.below(4) as u32);
    let policy = if dice.one_in(2) { policy.delay(Duration::from_micros(dice.below(500))) } else { policy };
    let policy = if dice.one_in(4) { policy.when(|_| false) } else { policy };
    if dice.one_in(3) {
        policy.when_refused(|refused| !matches!(refused, Rejected::Aborted(_)))
    } else {
        policy
    }
}

fn retry<H: Host>(ground: &Arc<Ground>, dice: &mut Dice, progress: &Arc<Progress>) -> Boxed {
    let Some((call, script)) = call::<H>(ground, dice) else { return Box::pin(std::future::ready(())) };
    let call = call.retry(policy(dice));
    let (ground, progress) = (Arc::clone(ground), Arc::clone(progress));
    ground.observer.tally.count(Event::Retry);
    Box::pin(async move {
        let outcome = call.try_run(|_| Operation::begin::<H>(&ground, script, &progress)).await;
        answer_of_retry(&ground, &outcome);
    })
}

/// Counts the outcome of a call that was tried again.
pub(crate) fn answer_of_retry<T>(ground: &Ground, outcome: &Result<T, RetryError<Fail>>) {
    match outcome.as_ref().err().and_then(RetryError::rejected) {
        Some(refused) => refusal(ground, refused),
        None => ground.observer.tally.count(Event::Admitted),
    }
}

fn rate_limiter<H: Host>(ground: &Arc<Ground>, dice: &mut Dice, progress: &Arc<Progress>) -> Boxed {
    let steps = dice.below(3);
    let call = ground.rate.on::<Watched<H::Runtime>>().call();
    let call = if dice.one_in(3) { call.admission_timeout(Duration::from_millis(2)) } else { call };
    let (ground, progress) = (Arc::clone(ground), Arc::clone(progress));
    ground.observer.tally.count(Event::RateLimiter);
    Box::pin(async move {
        let operation = async || {
            ground.observer.started(RATE);
            progress.has_started.store(true, Ordering::SeqCst);
            for _ in 0..steps {
                yield_now().await;
            }
        };
        answer(&ground, call.run(operation).await);
    })
}

fn interval_limiter<H: Host>(ground: &Arc<Ground>, dice: &mut Dice, progress: &Arc<Progress>) -> Boxed {
    let limiter = ground.interval.on::<Watched<H::Runtime>>();
    let (handle, signal) = AbortHandle::new();
    ground.leave_handle(handle, dice.any());
    let (ground, progress) = (Arc::clone(ground), Arc::clone(progress));
    ground.observer.tally.count(Event::IntervalLimiter);
    Box::pin(async move {
        let value = Value::new(&ground.observer);
        let operation = || {
            ground.observer.started(INTERVAL);
            progress.has_started.store(true, Ordering::SeqCst);
            yield_now()
        };
        answer(&ground, limiter.run(&signal, operation).await);
        drop(value);
    })
}

/// In the midst of traffic it may never come: it is dropped at some time.
fn idle<H: Host>(ground: &Arc<Ground>) -> Boxed {
    ground.observer.tally.count(Event::Idle);
    let admission = ground.admission.on::<Watched<H::Runtime>>();
    let observer = Arc::clone(&ground.observer);
    Box::pin(async move {
        let patience = pin!(sleep::<H>(&observer, Duration::from_millis(2)));
        drop(select(select(admission.idle(), admission.closed()), patience).await);
    })
}

/// Counts an answer, and gives what came of it.
pub(crate) fn answer<T>(ground: &Ground, answer: Result<T, Rejected>) -> Option<T> {
    match answer {
        Ok(value) => {
            ground.observer.tally.count(Event::Admitted);
            Some(value)
        }
        Err(refused) => {
            refusal(ground, &refused);
            None
        }
    }
}

/// The same for an operation that may fail.
pub(crate) fn answer_of_try<T>(ground: &Ground, outcome: Result<T, RunError<Fail>>) {
    match outcome {
        Err(RunError::Rejected(refused)) => refusal(ground, &refused),
        _ => ground.observer.tally.count(Event::Admitted),
    }
}

/// Counts a refusal. None of them may be told that it is closed, or costs what can never be paid.
pub(crate) fn refusal(ground: &Ground, refused: &Rejected) {
    let event = match refused {
        Rejected::Aborted(_) => Event::Aborted,
        Rejected::AdmissionTimeout { .. } => Event::Expired,
        Rejected::Overflow { .. } => Event::Overflow,
        Rejected::Closed | Rejected::ImpossibleCost { .. } | Rejected::UnknownUnit(_) => {
            ground.observer.fault(format!("refused for a reason that there is not: {refused}"));
            Event::OtherRefusal
        }
        _ => Event::OtherRefusal,
    };
    ground.observer.tally.count(event);
}

/// The names of the providers that are always there.
pub(crate) fn is_of_the_soak(name: &str) -> bool {
    PLACES.iter().any(|place| place.name == name)
}
