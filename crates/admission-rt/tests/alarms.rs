//! Alarms: when they are armed, who arms them, and what becomes of dead ones.

mod common;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use admission_rt::Rejected;
use common::{Hand, Task, World, counts, ms, within};

// rule T6
#[test]
fn an_alarm_moves_in_both_directions_and_only_if_it_must() {
    let world = World::new();
    let _entered = world.enter();
    let admission =
        world.builder().provider("a", |p| p).provider("b", |p| p.interval(ms(500))).build().unwrap();
    let (a, b) = (admission.provider("a").unwrap(), admission.provider("b").unwrap());
    a.cooldown(ms(10_000)).unwrap();
    let mut a1 = Task::waiting(a.acquire());
    world.advance_to(50);
    let b0 = b.try_acquire().unwrap();
    world.advance_to(100);
    let mut b1 = Task::waiting(b.acquire());
    let b2 = Task::waiting(b.acquire());
    let a2 = Task::waiting(a.acquire());
    drop(b0);
    assert_eq!(world.arms(), [Some(10_000), Some(550)], "neither b2, a2 nor the release moved it");
    world.advance_to(550);
    assert!(b1.is_woken());
    drop(b1.ready().unwrap());
    drop(b2);
    drop(a2);
    world.advance_to(10_000);
    drop(a1.ready().unwrap());
    // At 550 the grant of b1 is out for 200 ms. What was wanted after its start was later (the next of b,
    // then a alone), so the alarm stayed, and rang once for nothing.
    let expected = [Some(10_000), Some(550), Some(750), Some(10_000)];
    assert_eq!(world.arms(), expected, "what has rung need not be disarmed");
    assert_eq!(world.armed(), None);
}

// rules T3, T6
#[test]
fn an_alarm_that_is_too_early_stays_until_it_rings_or_its_time_has_passed() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let mut waiting = Task::waiting(a.acquire());
    a.cooldown(ms(500)).unwrap();
    assert_eq!(world.armed(), Some(100), "too early is not worth a move");
    world.advance_to(100);
    assert_eq!((world.armed(), waiting.wakes()), (Some(500), 0), "it rang for nothing, once");
    a.cooldown(ms(900)).unwrap();
    assert_eq!(world.armed(), Some(500));
    // It never rings: whoever comes first once its time has passed sets it for what is wanted.
    world.set(499);
    assert_eq!((admission.counts(), world.armed()), (counts(0, 1, 0), Some(500)));
    world.set(500);
    assert_eq!((admission.counts(), world.armed()), (counts(0, 1, 0), Some(1_000)));
    world.advance_to(1_000);
    drop(waiting.ready().unwrap());
    assert_eq!(world.arms(), [Some(100), Some(500), Some(1_000)]);
}

// rule T6
#[test]
fn an_alarm_whose_time_has_passed_is_not_left_where_time_changes_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().max_concurrent(1).provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let mut first = Task::waiting(a.acquire());
    let second = Task::waiting(a.acquire());
    drop(permit);
    assert_eq!(world.armed(), Some(200), "the grant may have to be taken back");
    let permit = first.ready().unwrap();
    assert_eq!(world.armed(), Some(200));
    world.set(200);
    assert_eq!((admission.counts(), world.armed()), (counts(1, 1, 0), None));
    drop((permit, second));
}

// rule T6
#[test]
fn no_alarm_is_armed_while_nothing_is_queued() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    assert_eq!(world.faces(), 0, "and none is made before somebody waits");
    let waiting = Task::waiting(a.acquire());
    assert_eq!(world.armed(), Some(100));
    drop(waiting);
    assert_eq!(world.arms(), [Some(100), None]);
    let _waiting = Task::waiting(a.acquire());
    assert_eq!(world.arms(), [Some(100), None, Some(100)]);
    assert_eq!(world.faces(), 1, "an idle alarm is kept");
}

// rule W5
#[test]
fn the_next_in_line_does_not_need_the_dropped_head() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let head = Task::waiting(a.acquire());
    let next = Task::waiting(a.acquire());
    drop(head);
    assert_eq!(world.armed(), Some(100));
    world.advance_to(100);
    assert!(next.is_woken());
}

// rule T3
#[test]
fn an_alarm_that_rings_early_changes_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let mut waiting = Task::waiting(a.acquire());
    for nanos in [99_600_000, 99_950_000] {
        world.set_nanos(nanos);
        world.ring_early();
        assert_eq!(waiting.wakes(), 0);
        assert_eq!(world.armed_nanos(), Some(100_000_000));
    }
    world.set_nanos(100_100_000);
    world.ring();
    assert_eq!(waiting.wakes(), 1);
    drop(waiting.ready().unwrap());
    assert_eq!(world.arms(), [Some(100); 3]);
    world.face().bell.ring();
    assert_eq!(world.arms(), [Some(100); 3], "a ring for nothing");
}

// rule T3, L2
#[test]
fn an_alarm_that_rings_late_brings_no_burst() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let mut first = Task::waiting(a.acquire());
    let second = Task::waiting(a.acquire());
    world.set(1_150);
    world.ring();
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first.ready().unwrap());
    assert_eq!(world.armed(), Some(1_250));
}

#[test]
fn an_alarm_may_ring_from_inside_arm() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    world.rings_inside.store(2, Ordering::SeqCst);
    let mut waiting = Task::waiting(a.acquire());
    assert_eq!(world.arms(), [Some(100); 3], "twice too early, and set again by the turn that arms");
    world.advance_to(100);
    drop(waiting.ready().unwrap());

    let second = Task::waiting(a.acquire());
    let third = Task::waiting(a.acquire());
    let arms = world.arms().len();
    world.set(200);
    world.rings_inside.store(1, Ordering::SeqCst);
    world.ring();
    assert!(second.is_woken());
    assert_eq!(world.arms().len(), arms + 2, "for the hand-off, inside which it rang");
    assert_eq!((world.armed(), third.wakes()), (Some(400), 0));
}

// rule T3
#[test]
fn an_alarm_that_rings_as_it_is_set_keeps_nobody_by_a_clock_that_stands() {
    within(30, || {
        let world = World::new();
        let other = world.twin();
        let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
        let a = admission.provider("a").unwrap();
        drop(a.try_acquire().unwrap());
        // What the alarms measure time by is a little ahead: with a nanosecond to go they ring at once.
        for world in [&world, &other] {
            world.rings_below.store(10, Ordering::SeqCst);
        }
        world.set_nanos(99_999_999);
        let here = world.enter();
        let mut waiting = Task::waiting(a.acquire());
        drop(here);
        let there = other.enter();
        let second = Task::waiting(a.acquire());
        drop(there);
        assert_eq!((waiting.wakes(), second.wakes()), (0, 0));
        world.advance_to(101);
        drop(waiting.ready().unwrap());
        drop(second);
    });
}

#[test]
fn a_dead_alarm_sends_its_callers_to_another() {
    for aloud in [true, false] {
        let world = World::new();
        let other = world.twin();
        let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
        let a = admission.provider("a").unwrap();
        drop(a.try_acquire().unwrap());
        let mut waiting: Vec<_> = {
            let _entered = world.enter();
            (0..100).map(|_| Task::waiting(a.acquire())).collect()
        };
        let mut idle = {
            let _entered = world.enter();
            Task::waiting(admission.idle())
        };
        world.die(aloud);
        if !aloud {
            // It is found out when it is to be armed.
            world.set(100);
            world.face().bell.ring();
        }
        let of_first = if aloud { 1 } else { 2 };
        assert!(waiting.iter().skip(1).all(|task| task.wakes() == 1), "everybody is told, once");
        assert!((1..=of_first).contains(&waiting[0].wakes()));
        assert_eq!(idle.wakes(), 1);

        let _entered = other.enter();
        assert!(idle.poll().is_pending());
        let mut first = waiting.remove(0);
        let permit = match first.poll() {
            std::task::Poll::Ready(permit) => permit.unwrap(),
            std::task::Poll::Pending => {
                world.set(0);
                other.advance_to(100);
                first.ready().unwrap()
            }
        };
        assert!(waiting.iter_mut().all(|task| task.poll().is_pending()));
        drop(permit);
        assert_eq!(world.faces(), 0, "dead ones are reaped when a new one is made");
        for (n, task) in waiting.iter_mut().enumerate() {
            other.advance_to(200 + 100 * n as u64);
            drop(task.ready().unwrap());
        }
        idle.ready();
        assert_eq!(admission.counts(), counts(0, 0, 0));
        assert_eq!(other.armed(), None);
    }
}

#[test]
fn where_there_is_no_other_runtime_the_callers_get_an_error() {
    let world = World::new();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let mut waiting = {
        let _entered = world.enter();
        Task::waiting(a.acquire())
    };
    world.die(true);
    assert!(waiting.is_woken());
    assert!(matches!(waiting.ready(), Err(Rejected::NoRuntime)));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

#[test]
fn late_news_of_an_old_alarm_does_not_concern_a_new_one() {
    let world = World::new();
    let other = world.twin();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let mut waiting = {
        let _entered = world.enter();
        Task::waiting(a.acquire())
    };
    let old = world.face();
    world.die(true);
    let _entered = other.enter();
    assert!(waiting.poll().is_pending());
    let wakes = waiting.wakes();
    old.bell.lost();
    old.bell.ring();
    assert_eq!((waiting.wakes(), other.arms()), (wakes, vec![Some(100)]));
    let waker = other.face().bell.waker();
    drop(admission);
    other.set(100);
    waker.wake_by_ref();
    assert_eq!(waiting.wakes(), wakes + 1);
    drop(waiting.ready().unwrap());
    drop((waiting, a));
    waker.wake();
    old.bell.ring();
}

// rule W5
#[test]
fn an_alarm_that_dies_while_it_is_armed_does_not_come_back() {
    let world = World::new();
    let other = world.twin();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let mut first = Task::waiting(a.acquire());
    drop(first);
    first = Task::new(a.acquire());
    let (face, second) = (world.face(), Arc::new(Mutex::new(Task::new(a.acquire()))));
    let (in_arm, twin) = (second.clone(), other.clone());
    *world.inside.lock().unwrap() = Some(Box::new(move || {
        face.bell.lost();
        let _entered = twin.enter();
        assert!(in_arm.lock().unwrap().poll().is_pending());
    }));
    assert!(first.poll().is_pending());
    assert_eq!((world.faces(), other.armed()), (0, Some(100)), "the new one has its place");
    assert!(first.is_woken());
    drop(first);
    other.advance_to(100);
    drop(second.lock().unwrap().ready().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule W5
#[test]
fn an_alarm_that_cannot_be_made_leaves_nothing_behind() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    world.breaks.store(true, Ordering::Relaxed);
    let mut unlucky = Task::new(a.acquire());
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unlucky.poll()));
    assert!(panic.is_err(), "in the caller's poll");
    assert_eq!(admission.counts(), counts(0, 1, 0));
    world.breaks.store(false, Ordering::Relaxed);
    let mut waiting = Task::waiting(a.acquire());
    drop(unlucky);
    world.advance_to(100);
    drop(waiting.ready().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule T2
#[test]
fn no_delay_is_too_long() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world
        .builder()
        .provider("a", |p| p.interval(std::time::Duration::MAX))
        .provider("b", |p| p.window(1, ms(u64::MAX)))
        .build()
        .unwrap();
    for name in ["a", "b"] {
        let call = admission.provider(name).unwrap();
        drop(call.try_acquire().unwrap());
        let mut waiting = Task::waiting(call.admission_timeout(std::time::Duration::MAX).acquire());
        world.advance_to(1_000_000_000);
        assert!(waiting.poll().is_pending());
    }
    admission.cooldown("a", std::time::Duration::MAX).unwrap();
    let mut waiting = Task::waiting(admission.on::<Hand>().provider("a").unwrap().acquire());
    admission.close();
    assert!(waiting.ready().unwrap_err().is_closed());
}

// rule W5
#[test]
fn a_runtime_that_is_gone_already_is_an_error_and_not_a_spin() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    world.die(true);
    let mut call = Task::new(a.acquire());
    assert!(matches!(call.ready(), Err(Rejected::NoRuntime)));
    // Who waits for idle has no error to tell: it waits without an alarm, and is not woken for that
    // again and again.
    let mut idle = Task::new(admission.idle());
    let mut polls = 0;
    loop {
        let woken = idle.wakes();
        assert!(idle.poll().is_pending());
        polls += 1;
        if idle.wakes() == woken {
            break;
        }
        assert!(polls < 10, "a spin");
    }
    drop(permit);
    idle.ready();
}
