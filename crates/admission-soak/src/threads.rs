//! Calls of threads, by the front that blocks.
//!
//! Owns: one of each kind. Lacks cancels: a thread that waits can only be aborted or expire.

use std::sync::Arc;
use std::time::Duration;

use admission_blocking::{Admission, Blocking, Provider, RateLimiter};

use crate::Dice;
use crate::callers::{answer, answer_of_retry, answer_of_try, policy};
use crate::ground::{Fail, Ground};
use crate::guarded::boom;
use crate::observer::{Inside, KEYS, PLACES, RATE, Value};
use crate::tally::Event;

/// Makes a call, and blocks until it is over.
pub(crate) fn call(ground: &Arc<Ground>, dice: &mut Dice) {
    let observer = &ground.observer;
    let admission = Admission::from(ground.admission.on::<Blocking>());
    let place = [0, 0, 1, 3, 4][dice.below(5) as usize];
    let Ok(provider): Result<Provider, _> = admission.provider(PLACES[place].name) else { return };
    let key = dice.one_in(3).then(|| dice.below(KEYS as u64) as usize);
    let mut call = provider.call();
    if let Some(key) = key {
        call = call.key(format!("key {key}"));
    }
    if dice.one_in(2) {
        call = call.admission_timeout(Duration::from_micros(dice.below(3_000)));
    }
    let fails = dice.one_in(4);
    let operation = || {
        boom(observer, Event::PanicInClosure, 40);
        let _inside = Inside::enter(observer, Some(place), key);
        std::thread::yield_now();
        boom(observer, Event::PanicInOperation, 40);
        Value::new(observer)
    };
    let may_fail = || if fails { Err(Fail(operation())) } else { Ok(operation()) };
    match dice.below(7) {
        0 | 1 => drop(answer(ground, call.run(operation))),
        2 => answer_of_try(ground, call.try_run(may_fail)),
        3 => answer_of_retry(ground, &call.retry(policy(dice)).try_run(|_| may_fail())),
        4 => {
            if let Some(permit) = answer(ground, call.acquire()) {
                let inside = Inside::enter(observer, Some(place), key);
                std::thread::yield_now();
                drop(inside);
                drop(permit);
            }
        }
        5 => {
            if let Some(permit) = answer(ground, call.enqueue().wait()) {
                drop(permit);
            }
        }
        _ => {
            let limiter = RateLimiter::from(ground.rate.on::<Blocking>());
            let _ = answer(ground, limiter.run(|| observer.started(RATE)));
        }
    }
}
