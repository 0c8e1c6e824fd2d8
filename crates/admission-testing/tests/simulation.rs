//! The executor by itself: order, time, panics, and its end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use admission_rt::runtime::Runtime;
use admission_rt::{Instant, Rejected};
use admission_testing::{
    Admission, Firing, Handle, JoinError, Simulation, Virtual, VirtualClock, now, sleep, spawn, yield_now,
};

const MS: Duration = Duration::from_millis(1);

#[test]
fn tasks_run_in_the_order_in_which_they_were_woken() {
    let simulation = Simulation::new();
    let log = Rc::new(RefCell::new(Vec::new()));
    for name in ["a", "b", "c"] {
        let log = Rc::clone(&log);
        drop(simulation.spawn(async move {
            log.borrow_mut().push((name, 1));
            yield_now().await;
            log.borrow_mut().push((name, 2));
        }));
    }
    simulation.run_ready();
    assert_eq!(*log.borrow(), [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 2), ("c", 2)]);
}

#[test]
fn time_jumps_only_when_nothing_can_run() {
    let simulation = Simulation::new();
    let (early, late) = simulation.block_on(async {
        let sleeper = spawn(async {
            sleep(MS * 5).await;
            now()
        });
        for _ in 0..100 {
            yield_now().await;
            assert_eq!(now(), Instant::ZERO);
        }
        let early = sleeper.await.unwrap();
        sleep(MS * 10).await;
        (early, now())
    });
    assert_eq!((early, late), (Instant::from_millis(5), Instant::from_millis(15)));
}

#[test]
fn sleeps_of_one_instant_end_in_the_order_in_which_they_began() {
    let simulation = Simulation::new();
    let log = Rc::new(RefCell::new(Vec::new()));
    for n in 0..10 {
        let log = Rc::clone(&log);
        drop(simulation.spawn(async move {
            sleep(MS).await;
            log.borrow_mut().push(n);
        }));
    }
    simulation.run_until_idle();
    assert_eq!(*log.borrow(), (0..10).collect::<Vec<_>>());
}

#[test]
fn it_can_be_run_for_a_while() {
    let simulation = Simulation::new();
    let task = simulation.spawn(async {
        for _ in 0..3 {
            sleep(MS * 10).await;
        }
    });
    simulation.run_for(MS * 25);
    assert_eq!(simulation.clock().now(), Instant::from_millis(25));
    assert!(!task.is_finished());
    assert_eq!(task.polls(), 3);
    simulation.run_until_idle();
    assert!(task.is_finished());
    assert_eq!(simulation.clock().now(), Instant::from_millis(30));
}

#[test]
fn a_panic_stays_in_its_task() {
    let simulation = Simulation::new();
    simulation.block_on(async {
        let task = spawn(async { panic!("on purpose") });
        match task.await {
            Err(JoinError::Panicked(payload)) => {
                assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_task_can_be_aborted() {
    let simulation = Simulation::new();
    simulation.block_on(async {
        let guarded = Rc::new(());
        let inside = Rc::clone(&guarded);
        let task = spawn(async move {
            sleep(Duration::MAX).await;
            drop(inside);
        });
        yield_now().await;
        assert_eq!(Rc::strong_count(&guarded), 2);
        task.abort();
        assert!(matches!(task.await, Err(JoinError::Cancelled)));
        assert_eq!(Rc::strong_count(&guarded), 1);
    });
}

#[test]
#[should_panic(expected = "the future can never be done")]
fn a_future_that_can_never_be_done_is_told() {
    Simulation::new().block_on(async {
        let admission = Admission::builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
        let a = admission.provider("a").unwrap();
        let _permit = a.acquire().await.unwrap();
        let _ = a.acquire().await;
    });
}

#[test]
fn simulations_can_be_nested_and_have_names_of_their_own() {
    assert!(Virtual::current().is_none() && Handle::current().is_none());
    let (outer, inner) = (Simulation::new(), Simulation::new());
    outer.block_on(async {
        let here = Virtual::current();
        assert!(here.is_some());
        inner.block_on(async { assert_ne!(Virtual::current(), here) });
        assert_eq!(Virtual::current(), here);
    });
    assert!(Virtual::current().is_none());
}

#[test]
fn a_clock_is_the_simulations_inside_and_a_fresh_one_outside() {
    // rule T5
    let clock = VirtualClock::at(Instant::from_millis(7));
    let simulation = Simulation::with_clock(clock.clone());
    let inside = simulation.block_on(async { Virtual::clock() });
    clock.advance(MS);
    assert_eq!(inside.now(), Instant::from_millis(8));
    assert_eq!(Virtual::clock().now(), Instant::ZERO);
    // Outside there is nobody to wait with, and nothing panics.
    let admission = Admission::builder().provider("a", |p| p.interval(MS)).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    assert!(matches!(a.try_acquire(), Err(Rejected::Exhausted { .. })));
}

#[test]
fn alarms_are_counted_and_can_be_made_to_lie() {
    // rules T3, T6
    let simulation = Simulation::new();
    simulation.set_timer_policy(
        |arming| {
            if arming.nth == 0 { Firing::Early(MS) } else { Firing::Late(MS * 3) }
        },
    );
    let end = simulation.block_on(async {
        let admission = Admission::builder().provider("a", |p| p.interval(MS * 10)).build().unwrap();
        let a = admission.provider("a").unwrap();
        drop(a.acquire().await.unwrap());
        drop(a.acquire().await.unwrap());
        now()
    });
    assert_eq!(end, Instant::from_millis(13));
    let alarms = simulation.alarms();
    assert_eq!((alarms.armed, alarms.arms, alarms.fires), (0, 2, 2));
}

#[test]
fn the_next_timer_is_that_of_an_alarm_or_a_sleep_and_none_that_never_rings() {
    let simulation = Simulation::new();
    assert_eq!(simulation.next_timer(), None);
    let late = simulation.spawn(async { sleep(MS * 9).await });
    simulation.run_ready();
    assert_eq!(simulation.next_timer(), Some(Instant::ZERO + MS * 9));
    let never = simulation.spawn(async { sleep(Duration::MAX).await });
    drop(late);
    simulation.run_for(MS * 9);
    assert_eq!(simulation.next_timer(), None);
    assert!(!never.is_finished());
}

#[test]
fn its_end_takes_the_tasks_along_and_strands_nobody() {
    // rule W5
    let clock = VirtualClock::new();
    let simulation = Simulation::with_clock(clock.clone());
    let (admission, mut outside) = simulation.block_on(async {
        let admission = Admission::builder().provider("a", |p| p.interval(MS)).build().unwrap();
        let a = admission.provider("a").unwrap();
        drop(a.acquire().await.unwrap());
        drop(spawn(a.acquire()));
        yield_now().await;
        (admission, a.acquire())
    });
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    assert!(simulation.block_on(async { outside.poll_acquire(&mut cx).is_pending() }));
    assert_eq!(admission.counts().queued, 2);
    drop(simulation);
    assert_eq!(admission.counts().queued, 1);
    assert!(woken.0.load(Ordering::SeqCst), "it must find another runtime");
    let other = Simulation::with_clock(clock);
    drop(other.block_on(outside).unwrap());
    assert_eq!(admission.counts().queued, 0);
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
