//! Closing, and waiting until nothing is left.
//!
//! Owns: rule W4. Lacks: dropping handles without closing, which is a rule of waiting.

use std::sync::Arc;
use std::time::Duration;

use admission_rt::{Counts, Rejected};
use admission_testing::VirtualClock;

use crate::mount::Mount;
use crate::transcript::Transcript;

/// Whoever waits is told so in that very call, whatever it waits for; what runs goes on.
pub async fn close_ends_every_wait_at_once<M: Mount>() {
    // rules W4, T6; the thirteenth item of the checklist
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.max_concurrent(2).provider("a", |p| p).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let running = t.call("running", a.key("k")).await;
    let by_key = t.call("by its key", a.key("k")).await;
    b.cooldown(t.ms(600_000)).unwrap();
    let by_cooldown = t.call("by a cooldown", &b).await;
    let second = t.call("second", &a).await;
    let mut waiting = vec![by_key, by_cooldown];
    for _ in 0..3 {
        waiting.push(t.call("by concurrency", &a).await);
    }
    assert_eq!(admission.counts(), Counts { running: 2, granted: 0, queued: 5 });
    t.until(100).await;
    admission.close();
    assert_eq!(admission.counts(), Counts { running: 2, granted: 0, queued: 0 });
    if let Some(armed) = M::armed() {
        assert_eq!(armed, 0, "nobody waits for anything");
    }
    for call in waiting {
        let refused = call.refused().await;
        assert!(matches!(refused, Rejected::Closed), "{refused:?}");
    }
    running.settle().await;
    second.settle().await;
    assert_eq!(t.names(), ["running", "second"]);
    assert_eq!(admission.counts(), Counts::default());
}

/// Whoever comes later is told so too, even where it could start.
pub async fn a_closed_coordinator_admits_nobody<M: Mount>() {
    // rule W4
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p);
    assert!(!admission.is_closed());
    admission.close();
    admission.close();
    assert!(admission.is_closed());
    admission.closed().await;
    assert!(matches!(a.acquire().await, Err(Rejected::Closed)));
    assert!(matches!(a.try_acquire(), Err(Rejected::Closed)));
    assert!(matches!(a.enqueue().await, Err(Rejected::Closed)));
    assert!(matches!(t.hold("late", &a).await.refusal(), Rejected::Closed));
    assert!(t.names().is_empty());
}

/// A grant that is out when it closes may still start.
pub async fn a_grant_that_is_out_may_still_start<M: Mount>() {
    // rules W4, S1
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let running = t.call("running", &a).await;
    let mut held = t.hold("held", &a).await;
    running.settle().await;
    admission.close();
    held.poll().await;
    assert!(held.has_started());
    assert_eq!(t.names(), ["running", "held"]);
}

/// Taken back after the close, it ends as closed.
pub async fn a_grant_taken_back_after_the_close_ends_as_closed<M: Mount>() {
    // rules W4, S4
    let clock = VirtualClock::new();
    let ms = Duration::from_millis;
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let admission = t.build(|b| b.hand_off(ms(50)).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let mut held = t.hold("held", a.admission_timeout(ms(10))).await;
    running.settle().await;
    admission.close();
    assert_eq!(admission.counts(), Counts { running: 0, granted: 1, queued: 0 });
    clock.advance(ms(50));
    admission.idle().await;
    held.poll().await;
    assert!(matches!(held.refusal(), Rejected::Closed), "closed comes before expired: {:?}", held.refusal());
    assert_eq!(t.names(), ["running"]);
}

/// Somebody waits for idle, so an alarm takes back the last grant.
pub async fn whoever_waits_for_idle_waits_for_no_caller_that_does_not_run<M: Mount>() {
    // rules W4, S4, T6
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.hand_off(t.ms(50)).provider("a", |p| p.max_concurrent(1)));
    let a = admission.provider("a").expect("it is there");
    let running = t.call("running", &a).await;
    let mut held = t.hold("held", &a).await;
    running.settle().await;
    admission.close();
    admission.idle().await;
    held.poll().await;
    assert!(matches!(held.refusal(), Rejected::Closed), "{:?}", held.refusal());
    t.expect_now(50);
}

/// `idle` waits until nothing is queued, granted or running; `closed` until it is closed.
pub async fn one_can_wait_for_idle_and_for_closed<M: Mount>() {
    // rule W4
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    admission.idle().await;
    let running = t.call("running", &a).await;
    let waiting = t.call("waiting", &a).await;
    let idle = M::spawn(Box::pin(admission.idle()));
    let closed = M::spawn(Box::pin(admission.closed()));
    running.settle().await;
    waiting.started().await;
    assert_eq!(admission.counts().running, 1);
    waiting.settle().await;
    idle.await.expect("no panic");
    assert_eq!(admission.counts(), Counts::default());
    admission.close();
    closed.await.expect("no panic");
    assert_eq!(t.names(), ["running", "waiting"]);
}

/// A close wins over what was due and not yet granted, and over deadlines that are far off.
pub async fn a_close_ends_waits_of_any_length<M: Mount>() {
    // rules W4, T2
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.interval(Duration::MAX));
    t.call("first", &a).await.settle().await;
    let never = t.call("never", &a).await;
    let soon = t.call("soon", a.admission_timeout(t.ms(600_000))).await;
    admission.close();
    assert!(matches!(never.refused().await, Rejected::Closed));
    assert!(matches!(soon.refused().await, Rejected::Closed));
    assert_eq!(t.names(), ["first"]);
}

/// A close closes what was due and not yet granted, though its timer was late.
pub async fn a_close_comes_before_the_grants_of_its_call<M: Mount>() {
    // rules W4, W6
    let clock = VirtualClock::new();
    let hour = Duration::from_secs(3_600);
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let (admission, a) = t.provider(|p| p.interval(hour));
    drop(a.try_acquire().expect("the first is immediate"));
    let mut due = t.hold("due", &a).await;
    clock.advance(hour);
    admission.close();
    due.poll().await;
    assert!(matches!(due.refusal(), Rejected::Closed));
    assert!(t.names().is_empty());
}
