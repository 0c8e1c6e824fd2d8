//! What is built on calls: queries with those who look at them, and streams with slow readers.
//!
//! Owns: how each is made, read and left. Lacks plain calls.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use admission_rt::runtime::{Runtime, Spawn};
use admission_rt::{AdmissionStreamExt, Call, OnAbort, Query, Retry};
use futures_util::future::{Either, select};
use futures_util::stream::{FusedStream, Stream, StreamExt as _, iter};

use crate::Dice;
use crate::alarms::Watched;
use crate::callers::{answer, policy};
use crate::ground::{Fail, Ground};
use crate::guarded::Progress;
use crate::host::{Boxed, Host};
use crate::observer::{KEYS, Value};
use crate::operations::{Operation, Script, sleep, yield_now};
use crate::tally::Event;

/// The query number `at` of a round, of a key that others use too.
pub(crate) fn query<H: Host>(ground: &Arc<Ground>, at: usize, dice: &mut Dice) -> Option<Query<Value, Fail>> {
    let place = [0, 1, 3, 4, 5][at % 5];
    let key = at % KEYS;
    let mut builder =
        ground.provider::<H::Runtime>(place).ok()?.query(format!("key {key}")).retry(policy(dice));
    if dice.one_in(2) {
        builder = builder.admission_timeout(Duration::from_micros(500 + dice.below(3_000)));
    }
    if dice.one_in(2) {
        builder = builder.attempt_timeout(Duration::from_micros(100 + dice.below(1_000)));
    }
    if dice.one_in(2) {
        builder = builder.on_abort(OnAbort::Drop);
    }
    let ground = Arc::clone(ground);
    Some(builder.build(move |attempt| {
        ground.observer.tally.count(Event::Sources);
        let mut dice = Dice::new(ground.observer.draw());
        let script = Script::draw(Some(place), Some(key), &mut dice);
        let operation = Operation::begin::<H>(&ground, script, &Progress::default());
        async move {
            let mut operation = operation;
            if dice.one_in(2) {
                // Some listen to their signal.
                match select(&mut operation, attempt.signal().aborted()).await {
                    Either::Left((outcome, _)) => return outcome,
                    Either::Right(_) => {}
                }
            }
            operation.await
        }
    }))
}

/// Refreshes a query, or looks on.
pub(crate) fn looks<H: Host>(ground: &Arc<Ground>, dice: &mut Dice) -> Boxed {
    let Some(query) = ground.query(dice.any()) else { return Box::pin(std::future::ready(())) };
    let tally = &ground.observer.tally;
    if dice.one_in(2) {
        tally.count(Event::Refresh);
        return Box::pin(async move { drop(query.refresh().await) });
    }
    tally.count(Event::Subscribe);
    let reads = dice.below(5);
    let is_slow = dice.one_in(2);
    let ground = Arc::clone(ground);
    Box::pin(async move {
        let mut subscription = query.subscribe();
        let mut refresh = pin!(query.refresh());
        for _ in 0..reads {
            // Nothing new may ever come.
            let patience = pin!(sleep::<H>(&ground.observer, Duration::from_micros(800)));
            let next = pin!(subscription.next());
            match select(select(next, &mut refresh), patience).await {
                Either::Left((Either::Left((None, _)), _)) | Either::Right(_) => return,
                Either::Left((Either::Right(_), _)) => break,
                Either::Left(_) if is_slow => yield_now().await,
                Either::Left(_) => {}
            }
        }
        ground.observer.tally.count(Event::DropRefresh);
    })
}

/// A stream of some kind, and its reader.
pub(crate) fn stream<H: Host>(ground: &Arc<Ground>, dice: &mut Dice) -> Boxed {
    let place = [0, 3, 4][dice.below(3) as usize];
    let Ok(provider) = ground.provider::<H::Runtime>(place) else {
        return Box::pin(std::future::ready(()));
    };
    let plan = Plan {
        items: 1 + dice.below(12) as usize,
        concurrency: 1 + dice.below(4) as usize,
        capacity: 1 + dice.below(6) as usize,
        reads: if dice.one_in(3) { dice.below(8) as usize } else { usize::MAX },
        pause: [None, Some(Duration::ZERO), Some(Duration::from_micros(150))][dice.below(3) as usize],
    };
    let tally = &ground.observer.tally;
    let kind = dice.below(5);
    tally.count([Event::Driven, Event::Driven, Event::Spawned, Event::Spawned, Event::Paced][kind as usize]);
    let (ground, mut dice) = (Arc::clone(ground), dice.fork());
    Box::pin(async move {
        let call = provider.cost("tokens", dice.below(20));
        match kind {
            0 | 1 => driven::<H>(&ground, call, place, plan, &mut dice).await,
            2 | 3 => spawned::<H>(&ground, call, place, plan, &mut dice).await,
            _ => {
                let mut paced = pin!(iter(0..plan.items).paced(call));
                for _ in 0..plan.reads {
                    let Some(item) = paced.next().await else { return };
                    answer(&ground, item);
                    pause::<H>(&ground, plan).await;
                }
                ground.observer.tally.count(Event::DropStream);
            }
        }
    })
}

/// How a stream is made and read.
#[derive(Clone, Copy)]
struct Plan {
    items: usize,
    concurrency: usize,
    capacity: usize,
    /// How many items are read before it is dropped.
    reads: usize,
    pause: Option<Duration>,
}

async fn pause<H: Host>(ground: &Ground, plan: Plan) {
    match plan.pause {
        None => {}
        Some(Duration::ZERO) => yield_now().await,
        Some(time) => sleep::<H>(&ground.observer, time).await,
    }
}

async fn driven<H: Host>(
    ground: &Arc<Ground>,
    call: Call<Watched<H::Runtime>>,
    place: usize,
    plan: Plan,
    dice: &mut Dice,
) {
    let pulled = AtomicUsize::new(0);
    let as_completed = dice.one_in(2);
    let policy = policy(dice);
    let operation = |_, _| {
        let script = Script::draw(Some(place), None, &mut Dice::new(ground.observer.draw()));
        Operation::begin::<H>(ground, script, &Progress::default())
    };
    let source = iter(0..plan.items).inspect(|_| {
        pulled.fetch_add(1, Ordering::SeqCst);
    });
    let map = source.map_admitted(call, operation).concurrency(plan.concurrency).capacity(plan.capacity);
    let map = map.retry(policy);
    let stream = if as_completed { map.as_completed() } else { map }.driven();
    read::<H, _>(ground, pin!(stream), &pulled, plan).await;
}

async fn spawned<H: Host>(
    ground: &Arc<Ground>,
    call: Call<Watched<H::Runtime>>,
    place: usize,
    plan: Plan,
    dice: &mut Dice,
) where
    Watched<H::Runtime>: Runtime + Spawn,
{
    let pulled = AtomicUsize::new(0);
    let as_completed = dice.one_in(2);
    let policy: Retry<Fail> = policy(dice);
    let calls = Arc::clone(ground);
    let operation = move |_, _| {
        let script = Script::draw(Some(place), None, &mut Dice::new(calls.observer.draw()));
        Operation::begin::<H>(&calls, script, &Progress::default())
    };
    let source = iter(0..plan.items).inspect(|_| {
        pulled.fetch_add(1, Ordering::SeqCst);
    });
    let map = source.map_admitted(call, operation).concurrency(plan.concurrency).capacity(plan.capacity);
    let map = map.retry(policy);
    let stream = if as_completed { map.as_completed() } else { map }.spawned();
    read::<H, _>(ground, pin!(stream), &pulled, plan).await;
}

/// Reads a stream at the reader's own pace, and checks that it is never further ahead than its capacity.
async fn read<H: Host, S: Stream + FusedStream>(
    ground: &Ground,
    mut stream: std::pin::Pin<&mut S>,
    pulled: &AtomicUsize,
    plan: Plan,
) {
    let mut read = 0;
    while read < plan.reads {
        let Some(item) = stream.next().await else {
            if read != plan.items {
                ground.observer.fault(format!("{read} items came of {}", plan.items));
            }
            return;
        };
        drop(item);
        read += 1;
        ground.observer.tally.count(Event::Items);
        pause::<H>(ground, plan).await;
        let ahead = pulled.load(Ordering::SeqCst) - read;
        if ahead > plan.capacity {
            ground.observer.fault(format!("a stream is {ahead} ahead of its reader, of {}", plan.capacity));
        }
    }
    ground.observer.tally.count(Event::DropStream);
}
