//! The faults that this kind of software has in public, as transcripts.
//!
//! Owns: the items of the checklist that are a story of their own. Lacks: the fourth and fifth (in
//! `order`), the sixth, seventh and tenth (in `limits`), the ninth (in `errors`), the twelfth (in
//! `clocks`), the thirteenth (in `close`) and the fourteenth (in `hostile`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use admission_rt::{AbortHandle, Counts, Instant, Rejected};
use admission_testing::VirtualClock;

use crate::mount::Mount;
use crate::signal::poll_once;
use crate::transcript::{Running, Transcript, settle_all};

/// C = 1. `a` runs, `b` is granted and dropped before it is polled again, `c` starts in that step;
/// ten thousand times.
pub async fn a_granted_ticket_that_is_dropped_passes_its_turn_on<M: Mount>() {
    // rules S3, W3, W5; the first item
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.max_concurrent(1).provider("a", |p| p));
    let a = admission.provider("a").expect("it is there");
    let first = t.call("a", &a).await;
    let b = t.hold("b", &a).await;
    t.until(10).await;
    first.settle().await;
    drop(b);
    let c = t.call("c", &a).await;
    assert!(c.has_started());
    t.expect(&[("a", 0), ("c", 10)]);
    c.settle().await;
    for round in 0..10_000 {
        let running = a.try_acquire().unwrap_or_else(|refused| panic!("round {round}: {refused}"));
        let mut granted = a.acquire();
        assert!(poll_once(&mut granted).await.is_pending());
        drop(running);
        assert_eq!(admission.counts(), Counts { running: 0, granted: 1, queued: 0 });
        drop(granted);
        drop(a.try_acquire().unwrap_or_else(|refused| panic!("round {round}: {refused}")));
    }
    assert_eq!(admission.counts(), Counts::default());
}

/// A{gap = 100}. The head of the queue goes away, and the one behind it starts when the head would
/// have, with no other event.
pub async fn the_head_of_the_queue_may_go_away<M: Mount>() {
    // rules T6, W3, L2; the second item
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.interval(t.ms(100)));
    let a1 = t.call("a1", &a).await;
    t.until(1).await;
    let a2 = t.hold("a2", &a).await;
    t.until(2).await;
    let a3 = t.call("a3", &a).await;
    t.until(50).await;
    drop(a2);
    assert!(M::armed().is_none_or(|armed| armed == 1));
    settle_all([a1, a3]).await;
    t.expect(&[("a1", 0), ("a3", 100)]);
    assert_eq!(admission.counts(), Counts::default());
}

/// A cools down until 10 000; B{gap = 500}. The earlier deadline comes later, and the alarm is set
/// to it.
pub async fn an_earlier_deadline_may_come_later<M: Mount>() {
    // rules T3, T6, E2; the third item
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.provider("a", |p| p).provider("b", |p| p.interval(t.ms(500))));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    a.cooldown(t.ms(10_000)).unwrap();
    let a1 = t.call("a1", &a).await;
    t.until(50).await;
    let b0 = t.call("b0", &b).await;
    t.until(100).await;
    let b1 = t.call("b1", &b).await;
    b1.started().await;
    assert!(!a1.has_started() || !M::EXACT);
    settle_all([b0, b1, a1]).await;
    t.expect(&[("b0", 50), ("b1", 550), ("a1", 10_000)]);
}

/// The other direction: the earliest deadline goes away, and the later one is still kept.
pub async fn the_earliest_deadline_may_go_away<M: Mount>() {
    // rules T3, T6, W3; the third item
    let t = Transcript::<M>::new();
    let admission =
        t.build(|b| b.provider("a", |p| p.interval(t.ms(100))).provider("b", |p| p.interval(t.ms(300))));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    settle_all([t.call("a1", &a).await, t.call("b1", &b).await]).await;
    let a2 = t.call("a2", &a).await;
    let b2 = t.call("b2", &b).await;
    a2.drop_it().await;
    t.call("c", b.admission_timeout(t.ms(10))).await.refused().await;
    b2.settle().await;
    t.expect(&[("a1", 0), ("b1", 0), ("b2", 300)]);
}

/// A{quota = 200 / 1000}. 200 start at 0; the next 200 all become eligible at 1000, and start in the
/// order of their submission.
pub async fn a_tie_in_time_keeps_the_order_of_submission<M: Mount>() {
    // rules E2, L3; the fifth item
    let clock = VirtualClock::new();
    let at = Instant::from_millis;
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let window = Duration::from_millis(1_000);
    let admission = t.build(|b| b.provider("a", |p| p.window(200, window)).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let names: Vec<String> = (1..=400).map(|n| format!("a{n:03}")).collect();
    let mut calls: Vec<Running> = Vec::new();
    for name in &names[..200] {
        calls.push(t.call(name, &a).await);
    }
    clock.set(at(1));
    for name in &names[200..] {
        calls.push(t.call(name, &a).await);
    }
    clock.set(Instant::from_nanos(999_999_999));
    drop(b.try_acquire().expect("b is free, and nobody is due"));
    assert_eq!(t.names(), names[..200]);
    clock.set(at(1_000));
    drop(b.try_acquire());
    settle_all(calls).await;
    t.expect_names(&names);
}

/// The same with 200 that wait for one cooldown.
pub async fn a_tie_at_a_cooldown_keeps_the_order_of_submission<M: Mount>() {
    // rules E2, L5; the fifth item
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| b.provider("a", |p| p).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    a.cooldown(Duration::from_secs(3_600)).unwrap();
    let names: Vec<String> = (1..=200).map(|n| format!("a{n:03}")).collect();
    let mut calls = Vec::new();
    for name in &names {
        calls.push(t.call(name, &a).await);
    }
    clock.advance(Duration::from_secs(3_600) - Duration::from_nanos(1));
    drop(b.try_acquire().expect("b is free, and nobody is due"));
    assert!(t.names().is_empty());
    clock.advance(Duration::from_nanos(1));
    drop(b.try_acquire());
    settle_all(calls).await;
    t.expect_names(&names);
}

/// A{gap}. Ten wait; the clock jumps over ten gaps; one starts, and then a full gap passes.
pub async fn a_stall_is_not_caught_up<M: Mount>() {
    // rules L2, T3, W6; the eighth item
    let clock = VirtualClock::new();
    let gap = Duration::from_secs(3_600);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| b.provider("a", |p| p.interval(gap)).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let mut calls = Vec::new();
    for name in ["a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"] {
        calls.push(t.call(name, &a).await);
    }
    for (jump, started) in [(gap, 2), (gap * 19 / 2, 3), (gap - Duration::from_nanos(1), 3), (gap, 4)] {
        clock.advance(jump);
        // Whatever the answer is, asking lets time pass.
        drop(b.try_acquire());
        calls[started - 1].started().await;
        drop(b.try_acquire().expect("b is free"));
        assert_eq!(t.names().len(), started);
        assert_eq!(admission.counts().granted, 0);
    }
    for call in calls {
        call.drop_it().await;
    }
}

/// A clock that goes back and forth mints no credit.
pub async fn time_never_runs_back<M: Mount>() {
    // rules T1, L2; the eleventh item
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let (_admission, a) = t.provider(|p| p.interval(Duration::from_millis(100)));
    let mut starts = 0;
    for n in 0..200 {
        clock.set(Instant::from_millis(if n % 2 == 0 { 1_000 } else { 400 }));
        starts += u32::from(a.try_acquire().is_ok());
    }
    assert_eq!(starts, 1);
    clock.set(Instant::from_millis(1_100));
    drop(a.try_acquire().expect("a gap after the latest reading"));
    assert!(a.try_acquire().is_err());
}

/// Eight threads, ten thousand submits each, while the clock runs: never more starts than gaps.
pub async fn threads_mint_no_credit<M: Mount>() {
    // rules T1, T5, L2; the eleventh item
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let (admission, a) = t.provider(|p| p.interval(Duration::from_nanos(100)));
    let starts = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (a, clock, starts) = (a.clone(), clock.clone(), Arc::clone(&starts));
            thread::spawn(move || {
                for _ in 0..10_000 {
                    clock.advance(Duration::from_nanos(1));
                    if a.try_acquire().is_ok() {
                        starts.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    let starts = starts.load(Ordering::Relaxed);
    assert!(starts <= clock.now().as_nanos() / 100 + 1, "{starts} starts");
    assert!(starts >= 1);
    assert_eq!(admission.counts(), Counts::default());
}

/// C = 2, A{conc = 1}. `a1` runs and ignores its abort until 500: slot and key are its own so long,
/// and the others go on.
pub async fn slot_and_key_belong_to_the_operation_until_it_settles<M: Mount>() {
    // rules W7, W2, L1; the fifteenth item
    let t = Transcript::<M>::new();
    let admission =
        t.build(|b| b.max_concurrent(2).provider("a", |p| p.max_concurrent(1)).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let (handle, signal) = AbortHandle::new();
    let a1 = t.call("a1", a.key("k").abort_signal(&signal)).await;
    t.until(10).await;
    handle.abort();
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 0 });
    t.until(20).await;
    let a2 = t.call("a2", a.key("k").admission_timeout(t.ms(300))).await;
    t.until(30).await;
    let b1 = t.call("b1", &b).await;
    assert!(b1.has_started());
    b1.settle().await;
    let refused = a2.refused().await;
    assert!(matches!(refused, Rejected::AdmissionTimeout { .. }), "{refused:?}");
    assert!(t.elapsed() >= t.ms(320) && (!M::EXACT || t.elapsed() <= t.ms(321)), "{:?}", t.elapsed());
    t.until(450).await;
    let patience = t.ms(if M::EXACT { 300 } else { 600_000 });
    let a3 = t.call("a3", a.key("other").admission_timeout(patience)).await;
    t.until(500).await;
    a1.settle().await;
    a3.settle().await;
    t.expect(&[("a1", 0), ("b1", 30), ("a3", 500)]);
    assert_eq!(admission.counts(), Counts::default());
}

/// One that never settles concerns its provider and its key only, and close still returns.
pub async fn a_call_that_never_settles_concerns_its_own_only<M: Mount>() {
    // rules W7, W4, L1; the fifteenth item
    let t = Transcript::<M>::new();
    let admission =
        t.build(|b| b.max_concurrent(2).provider("a", |p| p.max_concurrent(1)).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let stuck = t.call("stuck", a.key("k")).await;
    let by_slot = t.call("by slot", &a).await;
    let by_key = t.call("by key", b.key("k")).await;
    for n in 0..100 {
        t.call(&format!("b{n}"), &b).await.settle().await;
    }
    assert!(!by_slot.has_started() && !by_key.has_started());
    admission.close();
    assert!(matches!(by_slot.refused().await, Rejected::Closed));
    assert!(matches!(by_key.refused().await, Rejected::Closed));
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 0 });
    stuck.drop_it().await;
    admission.idle().await;
}
