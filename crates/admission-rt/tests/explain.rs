//! Explanations and reports, from inside: who is told, when, by which alarm, and what a hostile hook can do.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use admission_rt::LimitKind;
use common::{Admission, Bomb, Task, World, counts, ms};

/// A coordinator that reports after 50 ms, and the keys of those that it reported.
fn reporting(
    world: &World,
    also: impl Fn() + Send + Sync + 'static,
) -> (Admission, Arc<Mutex<Vec<Option<admission_rt::Key>>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = told.clone();
    let report = move |waiting: &admission_rt::Waiting| {
        seen.lock().unwrap().push(waiting.key.clone());
        also();
    };
    let builder = world.builder().max_concurrent(1).provider("a", |p| p).on_long_wait(ms(50), report);
    (builder.build().unwrap(), told)
}

// rules O2, T6
#[test]
fn the_alarm_is_set_for_the_report_and_for_nothing_when_nobody_waits() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, told) = reporting(&world, || {});
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let first = Task::waiting(a.key(1).acquire());
    world.advance_to(20);
    let second = Task::waiting(a.key(2).acquire());
    assert_eq!(world.armed(), Some(50));
    world.advance_to(60);
    assert_eq!(*told.lock().unwrap(), [Some(1.into())]);
    assert_eq!(world.armed(), Some(70));
    drop(second);
    world.advance_to(70);
    assert_eq!(world.armed(), None, "nobody is left to be reported");
    world.advance_to(1_000);
    assert_eq!(told.lock().unwrap().len(), 1, "once per call");
    assert_eq!(first.wakes(), 0, "a report wakes nobody");
    drop((permit, first));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rules O2, S4
#[test]
fn a_grant_that_is_not_taken_is_explained_and_not_reported() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, told) = reporting(&world, || {});
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let waits = Task::waiting(a.acquire());
    world.advance_to(40);
    drop(permit);
    world.advance_to(60);
    let granted = waits.future.explain().unwrap();
    assert_eq!(granted.to_string(), "a: granted after 60 ms, and has yet to be polled");
    assert_eq!((granted.is_granted, granted.not_before), (true, None), "nothing is ahead of it");
    assert_eq!(*told.lock().unwrap(), []);
    world.advance_to(300);
    let passed_over = waits.future.explain().unwrap();
    assert_eq!(passed_over.held_by[0].limit.kind, LimitKind::Unpolled);
}

// rules O2, W5
#[test]
fn a_hook_that_panics_or_calls_back_costs_nobody_anything() {
    let world = World::new();
    let _entered = world.enter();
    let handle = Arc::new(Mutex::new(None::<Admission>));
    let inside = handle.clone();
    let (admission, told) = reporting(&world, move || {
        let admission = inside.lock().unwrap().clone().unwrap();
        assert_eq!(admission.waiting().len(), 2);
        admission.provider("a").unwrap().cooldown(ms(1)).unwrap();
        panic!("the hook's own");
    });
    *handle.lock().unwrap() = Some(admission.clone());
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let (mut first, second) = (Task::waiting(a.key(1).acquire()), Task::waiting(a.key(2).acquire()));
    world.set(60);
    let call = catch_unwind(AssertUnwindSafe(|| a.cooldown(ms(1))));
    assert_eq!(*call.unwrap_err().downcast::<&str>().unwrap(), "the hook's own");
    assert_eq!(told.lock().unwrap().len(), 2, "the second is reported all the same");
    world.advance_to(100);
    drop(permit);
    drop(first.ready().unwrap());
    assert!(second.is_woken());
    handle.lock().unwrap().take();
}

// rules O2, W5
#[test]
fn those_who_do_not_wait_long_leave_nothing_behind() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, told) = reporting(&world, || {});
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let oldest = Task::waiting(a.acquire());
    let rounds = |count: u64| {
        for key in 0..count {
            drop(Task::waiting(a.key(key).acquire()));
        }
    };
    rounds(1_000);
    let kept = allocation_counter::measure(|| rounds(100_000)).bytes_current;
    assert!(kept.abs() < 4_096, "{kept} bytes");
    world.advance_to(100);
    assert_eq!(told.lock().unwrap().len(), 1);
    drop((oldest, permit));
}

// rules O2, D3
#[test]
fn keys_have_their_names_while_somebody_has_them() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, _) = reporting(&world, || {});
    let a = admission.provider("a").unwrap();
    let _permit = a.try_acquire().unwrap();
    let odd = "line\nbreak";
    let _waits = [a.key(odd), a.key(u64::MAX), a.key(3), a.call()].map(|call| Task::waiting(call.acquire()));
    let waiting = admission.waiting();
    let keys: Vec<_> = waiting.iter().map(|waiting| waiting.key.clone()).collect();
    assert_eq!(keys, [Some(odd.into()), Some(u64::MAX.into()), Some(3.into()), None]);
    let words = waiting[0].to_string();
    assert_eq!(words, "a, key line\\nbreak: has waited 0 s; held back by the client's 1 at once");
}

// rules O2, L10
#[test]
fn whoever_is_gone_before_it_is_told_of_keeps_its_name() {
    struct Drops(Mutex<Option<std::pin::Pin<Box<common::Acquire>>>>);

    impl std::task::Wake for Drops {
        fn wake(self: Arc<Self>) {
            drop(self.0.lock().unwrap().take());
        }
    }

    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().max_concurrent(1).template(|p| p).build().unwrap();
    let permit = admission.provider("first").unwrap().try_acquire().unwrap();
    let waits = Task::waiting(admission.provider("gone").unwrap().key("late").acquire());
    let expires = admission.provider("first").unwrap().call().admission_timeout(ms(10)).acquire();
    // Dropped by the wake that the look itself brings about.
    let waker = Arc::new(Drops(Mutex::new(Some(waits.future)))).into();
    let mut expires = Box::pin(expires);
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(std::future::Future::poll(expires.as_mut(), &mut cx).is_pending());
    world.set(20);
    let waiting = admission.waiting();
    assert_eq!((waiting.len(), &*waiting[0].provider), (1, "gone"));
    assert_eq!(waiting[0].key, None, "a key that nobody has any more, and no number in its place");
    assert_eq!(admission.counts(), counts(1, 0, 0));
    drop(permit);
}

// rules O2, W5
#[test]
fn a_hook_whose_destructor_panics_costs_nobody_anything() {
    let world = World::new();
    let _entered = world.enter();
    let bomb = Bomb;
    let (admission, _) = reporting(&world, move || {
        let _ = &bomb;
    });
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    drop((a, admission));
    // The permit is the last that has the coordinator.
    drop(permit);
}

// rule O2
#[test]
fn a_crowd_that_has_waited_long_is_reported_a_few_at_a_time() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, told) = reporting(&world, || {});
    let a = admission.provider("a").unwrap();
    let _permit = a.try_acquire().unwrap();
    let _crowd: Vec<_> = (0..100u64).map(|key| Task::waiting(a.key(key).acquire())).collect();
    world.set(50);
    assert!(admission.counts().queued == 100 && told.lock().unwrap().len() < 100, "not all under one lock");
    world.advance_to(51);
    let keys: Vec<_> = (0..100u64).map(|key| Some(key.into())).collect();
    assert_eq!(*told.lock().unwrap(), keys, "each once, the oldest first");
    assert_eq!(world.armed(), None);
}
