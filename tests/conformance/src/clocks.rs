//! Clocks and timers: whose clock decides, and what timers that lie are worth.
//!
//! Owns: rules T3 to T6 as far as they can be seen from outside, and the bodies that only the virtual
//! mount can carry, because only it can make a timer fire early or late. Lacks: T1 and T2, which
//! stand with the checklist and with bad input.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use admission_rt::{Admission, Counts};
use admission_testing::{Firing, Handle, Simulation, VirtualClock};

use crate::mount::Mount;
use crate::signal::{poll_once, yield_now};
use crate::transcript::{Transcript, settle_all};

/// A coordinator that is given no clock has the runtime's own.
pub async fn the_default_clock_is_the_runtimes_own<M: Mount>() {
    // rules T5, L2
    let t = Transcript::<M>::new();
    let gap = t.ms(100);
    let admission = Admission::<M::Runtime>::builder().provider("a", |p| p.interval(gap)).build();
    let a = admission.expect("a sound configuration").provider("a").expect("it is there");
    for _ in 0..4 {
        drop(a.acquire().await.expect("its turn"));
    }
    t.expect_now(300);
}

/// The coordinator's clock decides; the runtime's timers only wake it.
pub async fn the_coordinators_clock_decides<M: Mount>() {
    // rules T5, T3
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let (admission, a) = t.provider(|p| p.interval(Duration::from_millis(20)));
    drop(a.try_acquire().expect("the first is immediate"));
    let mut waiting = a.acquire();
    assert!(poll_once(&mut waiting).await.is_pending());
    // The timers go off again and again, and the clock stands still.
    M::sleep(Duration::from_millis(100)).await;
    assert_eq!(admission.counts(), Counts { running: 0, granted: 0, queued: 1 });
    clock.advance(Duration::from_millis(20));
    drop(waiting.await.expect("its turn, with no other event than a timer"));
}

/// Changing the wall clock releases nothing.
pub async fn the_wall_clock_decides_nothing<M: Mount>() {
    // rules T4, L5
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let hour = Duration::from_secs(3_600);
    let admission = t.build(|b| {
        b.provider("a", |p| p.interval(hour)).provider("b", |p| p.window(1, hour)).provider("c", |p| p)
    });
    let provider = |name| admission.provider(name).expect("it is there");
    drop((provider("a").try_acquire(), provider("b").try_acquire()));
    provider("c").cooldown(hour).unwrap();
    for wall in [SystemTime::UNIX_EPOCH + hour * 24, SystemTime::UNIX_EPOCH] {
        clock.set_wall(wall);
        for name in ["a", "b", "c"] {
            assert!(provider(name).try_acquire().is_err(), "{name}");
        }
    }
    clock.advance(hour);
    for name in ["a", "b", "c"] {
        drop(provider(name).try_acquire().expect("the hour is over"));
    }
}

/// One coordinator can be used from several runtimes, one after another, on one time line.
pub async fn a_coordinator_can_be_used_from_another_runtime<M: Mount>() {
    // rules T5, L2
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let (admission, a) = t.provider(|p| p.interval(Duration::from_millis(100)));
    drop(a.try_acquire().expect("the first is immediate"));
    let elsewhere = admission.on::<admission_testing::Virtual>();
    let there = thread::spawn(move || {
        let simulation = Simulation::with_clock(clock);
        simulation.block_on(async move {
            let a = elsewhere.provider("a").expect("it is there");
            drop(a.acquire().await.expect("its turn"));
            admission_testing::now()
        })
    });
    let now = there.join().expect("no panic");
    assert_eq!(now.as_nanos(), 100_000_000);
    assert_eq!(admission.counts(), Counts::default());
}

/// An hour's wait takes no real time.
pub async fn an_hours_wait_takes_no_real_time<M: Mount>() {
    // rule T5
    let t = Transcript::<M>::new();
    let (_admission, a) = t.provider(|p| p.interval(t.ms(3_600_000)));
    let mut calls = Vec::new();
    let names: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
    for name in &names {
        calls.push(t.call(name, &a).await);
    }
    settle_all(calls).await;
    let hour = |n: usize| u32::try_from(n).expect("small") * 3_600_000;
    t.expect(&names.iter().enumerate().map(|(n, name)| (name.as_str(), hour(n))).collect::<Vec<_>>());
}

/// No timer is armed while nothing is queued, whatever way the queue became empty.
pub async fn no_timer_is_armed_while_nothing_is_queued<M: Mount>() {
    // rule T6
    let t = Transcript::<M>::new();
    let armed = || M::armed().expect("this mount can see it");
    let (admission, a) = t.provider(|p| p.max_concurrent(1).interval(t.ms(100)).window(50, t.ms(5_000)));
    let running = t.call("running", &a).await;
    assert_eq!(armed(), 0, "a call that runs needs no timer");
    let waiting = t.call("waiting", &a).await;
    assert_eq!(armed(), 0, "the slot is taken, and time alone changes nothing");
    running.settle().await;
    assert_eq!(armed(), 1, "the interval ends");
    waiting.started().await;
    assert_eq!(armed(), 0, "nobody waits");
    waiting.settle().await;
    let dropped = t.call("dropped", &a).await;
    assert_eq!(armed(), 1);
    dropped.drop_it().await;
    assert_eq!(armed(), 0, "it went away");
    let (handle, signal) = admission_rt::AbortHandle::new();
    let aborted = t.call("aborted", a.abort_signal(&signal)).await;
    assert_eq!(armed(), 1);
    handle.abort();
    assert_eq!(armed(), 0, "it was aborted");
    assert!(aborted.refused().await.is_aborted());
    let expired = t.call("expired", a.admission_timeout(t.ms(5))).await;
    assert_eq!(armed(), 1);
    drop(expired.refused().await);
    assert_eq!(armed(), 0, "it expired");
    let first = t.call("first", &a).await;
    first.started().await;
    let held = t.hold("held", &a).await;
    first.settle().await;
    assert_eq!(armed(), 1);
    M::sleep(t.ms(150)).await;
    assert_eq!(admission.counts(), Counts { running: 0, granted: 1, queued: 0 });
    assert_eq!(armed(), 0, "a grant is out, and nobody waits");
    let idle = M::spawn(Box::pin(admission.idle()));
    yield_now().await;
    assert_eq!(armed(), 1, "somebody waits for idle, and the grant will be taken back");
    drop(held);
    assert_eq!(armed(), 0);
    idle.await.expect("no panic");
}

/// Due at 100, the timer fires at 99.6, then at 99.95, then at 100.1: the start is at 100.1, and the
/// timer was armed three times.
pub async fn a_timer_that_fires_early_changes_nothing<M: Mount>() {
    // rules T3, T6; the twelfth item of the checklist
    let micros = Duration::from_micros;
    let firings = [Firing::Early(micros(400)), Firing::Early(micros(50)), Firing::Late(micros(100))];
    let t = Transcript::<M>::new();
    let handle = Handle::current().expect("a simulation");
    let arms = Arc::new(Mutex::new(Vec::new()));
    handle.set_timer_policy({
        let arms = Arc::clone(&arms);
        move |arming| {
            let mut arms = arms.lock().expect("no panic");
            arms.push((arming.now.as_nanos() / 1_000, arming.due.as_nanos() / 1_000));
            firings.get(arms.len() - 1).copied().unwrap_or(Firing::OnTime)
        }
    });
    let (_admission, a) = t.provider(|p| p.interval(t.ms(100)));
    drop(a.try_acquire().expect("the first is immediate"));
    drop(a.acquire().await.expect("its turn"));
    assert_eq!(t.elapsed(), micros(100_100));
    assert_eq!(*arms.lock().expect("no panic"), [(0, 100_000), (99_600, 100_000), (99_950, 100_000)]);
    assert_eq!(handle.alarms().fires, 3);
}

/// One that fires a nanosecond early, every time, is armed again and does not spin.
pub async fn a_timer_that_always_fires_early_gets_there<M: Mount>() {
    // rules T3, T2
    let t = Transcript::<M>::new();
    let handle = Handle::current().expect("a simulation");
    handle.set_timer_policy(|_| Firing::Early(Duration::from_nanos(1)));
    let (_admission, a) = t.provider(|p| p.interval(t.ms(100)));
    let started = t.call("started", &a).await;
    let waiting = t.call("waiting", &a).await;
    handle.set_timer_policy({
        let mut lies = 10;
        move |_| {
            lies -= 1;
            if lies > 0 { Firing::Early(Duration::from_nanos(1)) } else { Firing::OnTime }
        }
    });
    settle_all([started, waiting]).await;
    t.expect(&[("started", 0), ("waiting", 100)]);
    assert!(handle.alarms().fires <= 12, "{:?}", handle.alarms());
}

/// One that fires late causes no burst: a start, and then a full gap.
pub async fn a_timer_that_fires_late_causes_no_burst<M: Mount>() {
    // rules T3, L2; the eighth item of the checklist
    let t = Transcript::<M>::new();
    let handle = Handle::current().expect("a simulation");
    handle.set_timer_policy(|arming| {
        let is_late = arming.due.as_nanos() == 200_000_000;
        if is_late { Firing::Late(Duration::from_millis(950)) } else { Firing::OnTime }
    });
    let (_admission, a) = t.provider(|p| p.interval(t.ms(100)));
    let mut calls = Vec::new();
    for name in ["a0", "a1", "a2", "a3", "a4"] {
        calls.push(t.call(name, &a).await);
    }
    settle_all(calls).await;
    t.expect(&[("a0", 0), ("a1", 100), ("a2", 1_150), ("a3", 1_250), ("a4", 1_350)]);
}

/// One that never fires holds up nobody, as long as somebody calls.
pub async fn a_timer_that_never_fires_is_made_up_for_by_any_call<M: Mount>() {
    // rules T3, W6
    let t = Transcript::<M>::new();
    let handle = Handle::current().expect("a simulation");
    handle.set_timer_policy(|_| Firing::Never);
    let admission = t.build(|b| b.provider("a", |p| p.interval(t.ms(100))).provider("b", |p| p));
    let a = admission.provider("a").expect("it is there");
    let b = admission.provider("b").expect("it is there");
    let a1 = t.call("a1", &a).await;
    let a2 = t.call("a2", &a).await;
    t.until(250).await;
    assert!(!a2.has_started());
    drop(b.try_acquire().expect_err("it does not overtake"));
    a2.started().await;
    t.expect(&[("a1", 0), ("a2", 250)]);
    settle_all([a1, a2]).await;
}

/// Callers that outlive their runtime are woken, and go on in the runtime that polls them next.
pub async fn a_runtime_that_goes_away_strands_nobody<M: Mount>() {
    // rules W5, T5
    let clock = VirtualClock::new();
    let t = Transcript::<M>::with_clock(Arc::new(clock.clone()));
    let (admission, a) = t.provider(|p| p.interval(Duration::from_millis(10)));
    drop(a.try_acquire().expect("the first is immediate"));
    let elsewhere = admission.on::<admission_testing::Virtual>();
    let clock_there = clock.clone();
    let waiting = thread::spawn(move || {
        let simulation = Simulation::with_clock(clock_there);
        let mut waiting = elsewhere.provider("a").expect("it is there").acquire();
        let polled = simulation.block_on(poll_once(&mut waiting));
        assert!(polled.is_pending());
        assert_eq!(simulation.alarms().armed, 1);
        waiting
    });
    let waiting = waiting.join().expect("no panic");
    // Its runtime is gone. Another one polls it, and its timer serves this one too.
    let mine = t.call("mine", &a).await;
    let there = thread::spawn(move || {
        let simulation = Simulation::with_clock(clock);
        drop(simulation.block_on(waiting).expect("its turn"));
        simulation.run_for(Duration::from_millis(10));
    });
    there.join().expect("no panic");
    mine.settle().await;
    assert_eq!(t.names(), ["mine"]);
    assert_eq!(admission.counts(), Counts::default());
}
