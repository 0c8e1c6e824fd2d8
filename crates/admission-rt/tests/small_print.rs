//! What no other test looks at: whom a crowd of those who wait for different things leaves out, which of several
//! alarms is set for whom, what is left when somebody stops waiting, and names forgotten while a crowd is woken.
//!
//! Owns: one scene for each small change of the code that went unnoticed (`cargo xtask mutants`). Lacks the scenes
//! behind the rules themselves, which stand with their kind, and small questions, which have `small_answers.rs`.

mod common;

use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use admission_rt::Retry;
use common::{Admission, Provider, Task, World, counts, ms};

/// A call that fails at once, and sleeps for so long before it tries again.
fn sleep(provider: &Provider, millis: u64) -> impl Future + use<> {
    provider.retry(Retry::times(1).delay(ms(millis))).try_run(|_| ready(Err::<(), _>(1)))
}

fn one_at_a_time(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

// rule W4
#[test]
fn whoever_waits_is_woken_by_its_latest_waker() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let (mut idle, mut closed) = (Task::waiting(admission.idle()), Task::waiting(admission.closed()));
    let latest = [Arc::<common::Wakes>::default(), Arc::default()];
    assert!(idle.poll_with(&Waker::from(latest[0].clone())).is_pending());
    assert!(closed.poll_with(&Waker::from(latest[1].clone())).is_pending());
    drop(permit);
    admission.close();
    assert_eq!((idle.wakes(), closed.wakes()), (0, 0));
    assert_eq!(latest.map(|wakes| wakes.count()), [1, 1]);
}

// rules E5, W5
#[test]
fn whoever_sleeps_is_woken_by_its_latest_waker() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let mut sleeps = Task::waiting(sleep(&a, 10));
    let latest = Arc::<common::Wakes>::default();
    assert!(sleeps.poll_with(&Waker::from(latest.clone())).is_pending());
    world.advance_to(10);
    assert_eq!((sleeps.wakes(), latest.count()), (0, 1));
}

// rules S4, T6
#[test]
fn once_nobody_waits_for_idle_no_alarm_is_set_for_a_grant_that_is_out() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let _has_an_alarm = Task::waiting(sleep(&a, 1_000));
    let permit = a.try_acquire().unwrap();
    let _granted = Task::waiting(a.acquire());
    drop(Task::waiting(admission.idle()));
    drop(permit);
    assert_eq!((admission.counts(), world.armed()), (counts(0, 0, 1), Some(1_000)));
    let _waits_for_idle = Task::waiting(admission.idle());
    assert_eq!(world.armed(), Some(200), "the hand-off time");
}

// rule W4
#[test]
fn whoever_stops_waiting_for_idle_or_the_close_leaves_no_waker() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let _permit = a.try_acquire().unwrap();
    let mut seen = Arc::<common::Wakes>::default();
    let waker = Waker::from(seen.clone());
    let (mut idle, mut closed) = (Task::new(admission.idle()), Task::new(admission.closed()));
    assert!(idle.poll_with(&waker).is_pending() && closed.poll_with(&waker).is_pending());
    drop((idle, closed, waker));
    assert!(Arc::get_mut(&mut seen).is_some(), "nobody else has it");
}

// rules W4, T5
#[test]
fn one_whose_own_poll_finds_that_the_last_has_gone_need_not_be_woken() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    a.cooldown(ms(1_000)).unwrap();
    let _waits = Task::waiting(a.admission_timeout(ms(50)).acquire());
    let mut idle = Task::waiting(admission.idle());
    world.set(60);
    assert!(idle.poll().is_ready());
}

// rules W4, O2
#[test]
fn one_is_told_of_idle_though_long_waits_are_reported() {
    let world = World::new();
    let _entered = world.enter();
    let builder = world.builder().provider("a", |p| p.max_concurrent(1)).on_long_wait(ms(50), |_| {});
    let admission = builder.build().unwrap();
    let permit = admission.provider("a").unwrap().try_acquire().unwrap();
    let idle = Task::waiting(admission.idle());
    drop(permit);
    assert!(idle.is_woken());
}

// rule W4
#[test]
fn one_is_told_of_idle_though_another_waits_for_the_close() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let (idle, closed) = (Task::waiting(admission.idle()), Task::waiting(admission.closed()));
    drop(permit);
    assert_eq!((idle.is_woken(), closed.is_woken()), (true, false));
    let permit = a.try_acquire().unwrap();
    let idle = Task::waiting(admission.idle());
    admission.close();
    assert_eq!((idle.is_woken(), closed.is_woken()), (false, true));
    drop(permit);
    assert!(idle.is_woken());
}

// rules E5, W4, O2: those who sleep between two attempts, and others
#[test]
fn who_sleeps_and_who_waits_for_idle_are_both_told_in_the_turn_in_which_both_are_due() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let sleeps = Task::waiting(sleep(&a, 10));
    let permit = a.try_acquire().unwrap();
    let idle = Task::waiting(admission.idle());
    assert!(!sleeps.is_woken());
    world.set(10);
    drop(permit);
    assert_eq!((sleeps.is_woken(), idle.is_woken()), (true, true));
}

// rules E5, O2
#[test]
fn who_sleeps_is_woken_though_long_waits_are_reported_in_the_same_turn() {
    let world = World::new();
    let _entered = world.enter();
    let told = Arc::new(Mutex::new(0));
    let count = told.clone();
    let builder = world.builder().provider("a", |p| p.max_concurrent(1));
    let admission = builder.on_long_wait(ms(50), move |_| *count.lock().unwrap() += 1).build().unwrap();
    let a = admission.provider("a").unwrap();
    let sleeps = Task::waiting(sleep(&a, 50));
    world.advance_to(50);
    assert!(sleeps.is_woken());
    drop(sleeps);
    let sleeps = Task::waiting(sleep(&a, 50));
    let permit = a.try_acquire().unwrap();
    let waits = Task::waiting(a.acquire());
    world.set(100);
    assert_eq!(admission.counts(), counts(1, 1, 0));
    assert_eq!((sleeps.is_woken(), *told.lock().unwrap()), (true, 1));
    drop((permit, waits));
}

// rule T6
#[test]
fn a_call_that_leaves_a_queue_without_alarms_leaves_nothing_to_see_to() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    for _ in 0..3 {
        drop(Task::waiting(a.acquire()));
    }
    assert_eq!(world.armed(), None);
    drop(permit);
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule T6
#[test]
fn an_alarm_is_set_for_nothing_once_its_last_caller_has_gone_and_others_wait_elsewhere() {
    let here = World::new();
    let there = here.twin();
    let entered = here.enter();
    let (admission, a) = one_at_a_time(&here);
    let permit = a.try_acquire().unwrap();
    let goes = Task::waiting(a.admission_timeout(ms(100)).acquire());
    drop(entered);
    let _entered = there.enter();
    let mut stays = Task::waiting(a.acquire());
    assert_eq!(here.armed(), Some(100));
    drop(goes);
    assert_eq!(here.armed(), None);
    drop(permit);
    drop(stays.ready().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule W5
#[test]
fn a_runtime_that_nobody_waits_in_keeps_its_alarm_when_another_comes() {
    let here = World::new();
    let there = here.twin();
    let entered = here.enter();
    let (_admission, a) = one_at_a_time(&here);
    let _permit = a.try_acquire().unwrap();
    drop(Task::waiting(a.acquire()));
    assert_eq!(here.faces(), 1);
    drop(entered);
    let _entered = there.enter();
    let _waits = Task::waiting(a.acquire());
    assert_eq!((here.faces(), there.faces()), (1, 1));
}

// rules W5, S4
#[test]
fn one_whose_grant_is_taken_back_after_its_runtime_ended_counts_on_another() {
    let here = World::new();
    let there = here.twin();
    let entered = here.enter();
    let (_admission, a) = one_at_a_time(&here);
    let permit = a.try_acquire().unwrap();
    let _first = Task::waiting(a.acquire());
    drop(entered);
    let _entered = there.enter();
    let _second = Task::waiting(a.acquire());
    drop(permit);
    let hand_off = there.armed().unwrap();
    here.die(true);
    there.advance_to(hand_off);
    let next = there.armed();
    assert!(
        next.is_some_and(|at| at > hand_off),
        "the second has the grant, and the first waits for its end"
    );
}

/// Looks how often two alarms have been set, inside its wake.
struct Looks {
    faces: [Arc<World>; 2],
    seen: Mutex<Option<usize>>,
}

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        let set = self.faces.iter().map(|world| world.arms().len()).sum();
        *self.seen.lock().unwrap() = Some(set);
    }
}

// rule T6
#[test]
fn whoever_is_woken_waits_for_one_alarm_to_be_set_and_not_for_all() {
    let here = World::new();
    let there = here.twin();
    let entered = here.enter();
    let (_admission, a) = one_at_a_time(&here);
    let permit = a.try_acquire().unwrap();
    let mut first = Task::new(a.acquire());
    let looks = Arc::new(Looks { faces: [here.clone(), there.clone()], seen: Mutex::default() });
    assert!(first.poll_with(&Waker::from(looks.clone())).is_pending());
    let _second = Task::waiting(a.acquire());
    drop(entered);
    let _entered = there.enter();
    let _third = Task::waiting(a.acquire());
    assert_eq!(here.arms().len() + there.arms().len(), 0, "nothing is due");
    drop(permit);
    assert_eq!(*looks.seen.lock().unwrap(), Some(1));
    assert_eq!(here.arms().len() + there.arms().len(), 2);
}

// rule W5
#[test]
fn an_alarm_that_could_not_be_made_is_made_for_the_next() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    world.breaks.store(true, Ordering::Relaxed);
    let mut unlucky = Task::new(a.acquire());
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unlucky.poll()));
    assert!(panic.is_err());
    assert!(unlucky.is_woken(), "it counted on the alarm");
    world.breaks.store(false, Ordering::Relaxed);
    drop(unlucky);
    let _next = Task::waiting(a.acquire());
    assert_eq!(world.armed(), Some(100));
}

// rules O2, S4
#[test]
fn a_call_may_begin_to_wait_behind_more_grants_than_calls() {
    let world = World::new();
    let _entered = world.enter();
    let builder = world.builder().provider("a", |p| p.max_concurrent(2)).on_long_wait(ms(50), |_| {});
    let admission = builder.build().unwrap();
    let a = admission.provider("a").unwrap();
    let permits = [a.try_acquire().unwrap(), a.try_acquire().unwrap()];
    let granted = [Task::waiting(a.acquire()), Task::waiting(a.acquire())];
    drop(permits);
    assert_eq!(admission.counts(), counts(0, 0, 2));
    let waits = Task::waiting(a.acquire());
    assert_eq!(admission.counts(), counts(0, 1, 2));
    drop((granted, waits));
}

// rules E5, O2, W5: while one turn sets an alarm, and takes its time
#[test]
fn who_sleeps_is_woken_by_a_turn_that_also_reports_and_may_set_no_alarm() {
    let world = World::new();
    let _entered = world.enter();
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let builder = world.builder().provider("a", |p| p.max_concurrent(1)).provider("b", |p| p);
    let builder = builder.on_long_wait(ms(50), move |_| _ = count.fetch_add(1, Ordering::SeqCst));
    let admission = builder.build().unwrap();
    let (a, b) = (admission.provider("a").unwrap(), admission.provider("b").unwrap());
    let woken = Arc::<common::Wakes>::default();
    let mut sleeps = Task::new(sleep(&b, 50));
    assert!(sleeps.poll_with(&Waker::from(woken.clone())).is_pending());
    let _permit = a.try_acquire().unwrap();
    let _waits = Task::waiting(a.acquire());
    assert_eq!(world.armed(), Some(50), "for both");
    let (later, in_time) = (world.clone(), Arc::new(Mutex::new(None)));
    let (seen, reader) = (in_time.clone(), admission.clone());
    *world.inside.lock().unwrap() = Some(Box::new(move || {
        later.set(50);
        assert_eq!(reader.counts(), counts(1, 1, 0));
        *seen.lock().unwrap() = Some((woken.count(), told.load(Ordering::SeqCst)));
    }));
    let _sets_the_alarm = Task::waiting(sleep(&b, 20));
    assert_eq!(*in_time.lock().unwrap(), Some((1, 1)));
}

// rules E5, W4, W5: while one turn sets an alarm, and takes its time
#[test]
fn who_sleeps_and_who_waits_for_the_close_are_both_told_by_a_turn_that_may_set_no_alarm() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let wakes = [Arc::<common::Wakes>::default(), Arc::default()];
    let [sleeper, closer] = wakes.clone().map(Waker::from);
    let (mut sleeps, mut closed) = (Task::new(sleep(&a, 50)), Task::new(admission.closed()));
    assert!(sleeps.poll_with(&sleeper).is_pending() && closed.poll_with(&closer).is_pending());
    let (later, in_time) = (world.clone(), Arc::new(Mutex::new(None)));
    let (seen, closes) = (in_time.clone(), admission.clone());
    *world.inside.lock().unwrap() = Some(Box::new(move || {
        later.set(50);
        closes.close();
        *seen.lock().unwrap() = Some(wakes.map(|wakes| wakes.count()));
    }));
    let _sets_the_alarm = Task::waiting(sleep(&a, 20));
    assert_eq!(*in_time.lock().unwrap(), Some([1, 1]));
}

/// Does something once, inside its wake.
struct AtWake(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for AtWake {
    fn wake(self: Arc<Self>) {
        let act = self.0.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
    }
}

// rule W4
#[test]
fn who_waits_for_the_close_is_told_while_others_are_still_to_hear_of_idle() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let woken = Arc::<common::Wakes>::default();
    let mut closed = Task::new(admission.closed());
    assert!(closed.poll_with(&Waker::from(woken.clone())).is_pending());
    let (in_time, closes) = (Arc::new(Mutex::new(None)), admission.clone());
    let seen = in_time.clone();
    let act: Box<dyn FnOnce() + Send> = Box::new(move || {
        closes.close();
        *seen.lock().unwrap() = Some(woken.count());
    });
    let mut first = Task::new(admission.idle());
    assert!(first.poll_with(&Waker::from(Arc::new(AtWake(Mutex::new(Some(act)))))).is_pending());
    // More than are woken at once.
    let others: Vec<_> = (0..50).map(|_| Task::waiting(admission.idle())).collect();
    drop(permit);
    assert_eq!(*in_time.lock().unwrap(), Some(1));
    assert!(others.iter().all(|idle| idle.wakes() == 1));
}

// rules E5, W5
#[test]
fn who_sleeps_is_woken_by_the_turn_that_hears_of_its_runtimes_end() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let (is_over, is_not) = (Task::waiting(sleep(&a, 10)), Task::waiting(sleep(&a, 1_000)));
    world.set(10);
    world.die(true);
    assert_eq!((is_over.is_woken(), is_not.is_woken()), (true, true));
}

// rules W5, L10
#[test]
fn all_of_a_crowd_are_woken_though_more_names_are_forgotten_meanwhile_than_a_batch_holds() {
    let world = World::new();
    let _entered = world.enter();
    let builder = world.builder().provider("a", |p| p.max_concurrent(1));
    let admission = builder.template(|p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let hosts: Vec<_> = (0..40).map(|n| n.to_string()).collect();
    for host in &hosts {
        drop(admission.provider(host.as_str()).unwrap().try_acquire().unwrap());
    }
    assert_eq!(admission.snapshot().providers.len(), 41, "each is remembered for its interval");
    let mut waiting: Vec<_> = (0..200).map(|_| Task::new(a.acquire())).collect();
    let woken = Arc::new(AtomicUsize::new(0));
    for call in &mut waiting {
        let (looks, count) = (admission.clone(), woken.clone());
        // A turn inside the wake: it forgets a few more names, and wakes the next batch.
        let act: Box<dyn FnOnce() + Send> = Box::new(move || {
            let _ = looks.counts();
            count.fetch_add(1, Ordering::SeqCst);
        });
        assert!(call.poll_with(&Waker::from(Arc::new(AtWake(Mutex::new(Some(act)))))).is_pending());
    }
    world.set(100);
    // Word of the forgotten stands behind the refusals. The turn that wakes the last of the crowd hears of all those
    // whom the turns before it forgot, one after the other.
    admission.close();
    assert_eq!(woken.load(Ordering::SeqCst), 200);
    assert_eq!((admission.counts(), admission.snapshot().providers.len()), (counts(1, 0, 0), 1));
    drop(permit);
}
