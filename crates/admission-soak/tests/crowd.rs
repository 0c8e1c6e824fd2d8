//! A hundred thousand callers at once on each runtime with several threads, and readers that are slow.
//!
//! Owns: what such a number shows that the soak's few hundred do not. Time is real, and nothing is said about how long it takes.

#![forbid(unsafe_code)]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use admission_rt::{AbortHandle, Admission, AdmissionStreamExt, Counts, Rejected};
use admission_soak::alarms::{Watched, alarms};
use admission_soak::host::{CurrentThread, Host, MultiThread, OnAsyncStd, OnSmol, PreciseThreads, Threads};
use admission_soak::operations::yield_now;
use futures_util::future::{Either, select};
use futures_util::stream::{StreamExt as _, iter};

const CALLERS: u32 = 100_000;

/// All wait; a quarter is told to stop by one signal, a quarter is dropped, and half starts.
fn a_hundred_thousand_at_once<H: Host>() {
    let host = H::start();
    let admission = Admission::<Watched<H::Runtime>>::builder()
        .max_concurrent(64)
        .max_queued(CALLERS)
        .hand_off(Duration::from_secs(3_600))
        .provider("a", |p| p.max_concurrent(64))
        .build()
        .expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    let gate: Vec<_> = (0..64).map(|_| a.try_acquire().expect("a slot")).collect();
    let (abort, aborted) = AbortHandle::new();
    let (drops, dropped) = AbortHandle::new();
    let running = Arc::new(AtomicU32::new(0));
    let (send, answers) = channel();
    for n in 0..CALLERS {
        let call = a.key(u64::from(n)).admission_timeout(Duration::from_secs(3_600));
        let call = if n % 4 == 0 { call.abort_signal(&aborted) } else { call };
        let (running, send, dropped) = (Arc::clone(&running), send.clone(), dropped.clone());
        host.spawn(Box::pin(async move {
            let run = call.run(async || {
                assert!(running.fetch_add(1, Ordering::SeqCst) < 64);
                yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
            });
            let answer = if n % 4 == 1 {
                let (run, dropped) = (pin!(run), pin!(dropped.aborted()));
                match select(run, dropped).await {
                    Either::Left((answer, _)) => Some(answer),
                    Either::Right(_) => None,
                }
            } else {
                Some(run.await)
            };
            send.send(answer).expect("somebody listens");
        }));
    }
    drop(send);
    // Whoever waits first sets the alarm, and may do so after all the others have come.
    while admission.counts().queued < CALLERS || alarms().1 == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(alarms().1, 1, "one alarm for all of them");
    abort.abort();
    drops.abort();
    while admission.counts().queued > CALLERS / 2 {
        thread::sleep(Duration::from_millis(1));
    }
    drop(gate);
    let (mut started, mut stopped, mut gone) = (0, 0, 0);
    for answer in answers {
        match answer {
            Some(Ok(())) => started += 1,
            Some(Err(Rejected::Aborted(_))) => stopped += 1,
            Some(Err(refused)) => panic!("{refused}"),
            None => gone += 1,
        }
    }
    assert_eq!((started, stopped, gone), (CALLERS / 2, CALLERS / 4, CALLERS / 4));
    assert_eq!(admission.counts(), Counts::default());
    assert_eq!(alarms().1, 0);
    drop((a, admission));
    while alarms().0 > 0 || host.tasks().is_some_and(|tasks| tasks > 0) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// A reader that pauses between two items holds back its own stream, and makes nothing pile up.
fn slow_readers<H: Host>() {
    const READERS: u32 = 8;
    let host = H::start();
    let admission =
        Admission::<Watched<H::Runtime>>::builder().provider("a", |p| p.max_concurrent(4)).build();
    let a = admission.expect("a sound configuration").provider("a").expect("it is there");
    let (done, wait) = channel();
    for reader in 0..READERS {
        let (a, done) = (a.clone(), done.clone());
        host.spawn(Box::pin(async move {
            let pulled = AtomicUsize::new(0);
            let source = iter(0..60_usize).inspect(|_| {
                pulled.fetch_add(1, Ordering::SeqCst);
            });
            let operation = |item, _| async move {
                yield_now().await;
                Ok::<_, ()>(item)
            };
            let map = source.map_admitted(&a, operation).concurrency(3).capacity(5);
            let mut read = 0;
            let mut check = |item: usize| {
                read += 1;
                assert_eq!(item + 1, read, "in order");
                assert!(pulled.load(Ordering::SeqCst) <= read + 5, "five ahead at most");
            };
            let pause = Duration::from_millis(1);
            if reader % 2 == 0 {
                let mut stream = pin!(map.driven());
                while let Some(item) = stream.next().await {
                    H::sleep(pause).await;
                    check(item.expect("it is admitted"));
                }
            } else {
                let mut stream = pin!(map.spawned());
                while let Some(item) = stream.next().await {
                    H::sleep(pause).await;
                    assert!(stream.in_flight() + stream.finished() <= 5);
                    check(item.expect("it is admitted"));
                }
            }
            assert_eq!(read, 60);
            done.send(()).expect("somebody listens");
        }));
    }
    drop(done);
    assert_eq!(wait.iter().count(), READERS as usize);
}

/// One after the other: what is counted is the whole process's.
// rules W5, W1, W3, L1, T6, I4
#[test]
fn crowds_settle_and_slow_readers_bound_their_streams() {
    a_hundred_thousand_at_once::<MultiThread>();
    a_hundred_thousand_at_once::<OnSmol>();
    a_hundred_thousand_at_once::<OnAsyncStd>();
    slow_readers::<CurrentThread>();
    slow_readers::<MultiThread>();
    slow_readers::<PreciseThreads>();
    slow_readers::<OnSmol>();
    slow_readers::<OnAsyncStd>();
    slow_readers::<Threads>();
}
