//! What changes in the midst of a call: between two turns of one poll, inside a waker's clone or wake, while an
//! alarm is being made. Whoever is polled must see it, and not be left to a wake that never comes.
//!
//! Owns: those moments, one by one. Lacks threads, which `races/` has, and crowds.

mod common;

use std::error::Error;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

use admission_rt::{AbortHandle, Attempt, OnAbort, Query, QueryError, QueryStatus, Rejected, Retry};
use common::{Admission, Provider, RateLimiter, Task, World, counts, ms};

type Act = Box<dyn FnOnce() + Send>;

/// Does something once, inside its first clone. A waker from [`Wake`] could not.
struct AtClone(Mutex<Option<Act>>);

impl AtClone {
    fn act(&self) {
        let act = self.0.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
    }
}

static AT_CLONE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: `data` is from `Arc::into_raw` of an `AtClone`, and this waker owns a count of it.
        let here = unsafe { ManuallyDrop::new(Arc::from_raw(data.cast::<AtClone>())) };
        here.act();
        RawWaker::new(Arc::into_raw(Arc::clone(&here)).cast(), &AT_CLONE)
    },
    |data| {
        // SAFETY: as above, and the count goes with the waker.
        drop(unsafe { Arc::from_raw(data.cast::<AtClone>()) });
    },
    |_| {},
    |data| {
        // SAFETY: as above, and the count goes with the waker.
        drop(unsafe { Arc::from_raw(data.cast::<AtClone>()) });
    },
);

fn at_clone(act: impl FnOnce() + Send + 'static) -> Waker {
    waker_of(Arc::new(AtClone(Mutex::new(Some(Box::new(act))))))
}

fn waker_of(here: Arc<AtClone>) -> Waker {
    // SAFETY: the table's functions keep the count of the `Arc`, and an `AtClone` is `Send + Sync`.
    unsafe { Waker::from_raw(RawWaker::new(Arc::into_raw(here).cast(), &AT_CLONE)) }
}

/// Whether a second poll with the same waker clones it.
fn clones_again<F: Future>(future: F) -> bool {
    let here = Arc::new(AtClone(Mutex::new(None)));
    let waker = waker_of(here.clone());
    let mut task = Task::new(future);
    assert!(task.poll_with(&waker).is_pending());
    let cloned = Arc::new(AtomicBool::new(false));
    let seen = cloned.clone();
    *here.0.lock().unwrap() = Some(Box::new(move || seen.store(true, Ordering::Relaxed)));
    assert!(task.poll_with(&waker).is_pending());
    cloned.load(Ordering::Relaxed)
}

/// Does something once, inside its wake.
struct AtWake(Mutex<Option<Act>>);

impl Wake for AtWake {
    fn wake(self: Arc<Self>) {
        let act = self.0.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
    }
}

fn at_wake(act: impl FnOnce() + Send + 'static) -> Waker {
    Waker::from(Arc::new(AtWake(Mutex::new(Some(Box::new(act))))))
}

fn one_at_a_time(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

// rule W3
#[test]
fn a_signal_that_fires_while_its_call_is_enqueued_takes_it_out() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let (handle, signal) = AbortHandle::new();
    // It is overdue, and the turn of the enqueue says so to its waker.
    let mut overdue = Task::new(a.admission_timeout(ms(1)).acquire());
    assert!(overdue.poll_with(&at_wake(move || handle.abort_with("enough"))).is_pending());
    world.set(2);
    let mut newcomer = Task::new(a.abort_signal(&signal).enqueue());
    assert_eq!(admission.counts(), counts(1, 0, 0), "it is out, although nobody has polled it");
    assert!(matches!(newcomer.ready(), Err(Rejected::Aborted(_))));
    drop(permit);
    assert_eq!(world.armed(), None);
}

// rule W3
#[test]
fn a_signal_that_fires_while_its_call_is_submitted_ends_the_poll() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let (handle, signal) = AbortHandle::new();
    let mut overdue = Task::new(a.admission_timeout(ms(1)).acquire());
    assert!(overdue.poll_with(&at_wake(move || handle.abort_with("enough"))).is_pending());
    world.set(2);
    let mut newcomer = Task::new(a.abort_signal(&signal).acquire());
    assert!(matches!(newcomer.ready(), Err(Rejected::Aborted(_))));
    drop(permit);
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!(world.armed(), None);
}

// rule Q5
#[test]
fn a_retry_that_is_refused_tells_of_the_timeout_before_it() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let query = a.query::<std::fmt::Error>("k").attempt_timeout(ms(5)).on_abort(OnAbort::Drop);
    let query = query.retry(Retry::times(1).delay(ms(5)));
    let query = query.build(|_| std::future::pending::<Result<(), _>>());
    let mut waits = Task::waiting(query.refresh());
    world.run();
    world.advance_to(5);
    world.run();
    admission.close();
    world.advance_to(10);
    world.run();
    let error = waits.ready().unwrap_err();
    assert_eq!(error.to_string(), "the coordinator is closed");
    let before = error.source().expect("the attempt before it");
    assert!(before.to_string().contains("5 ms") && before.source().is_none(), "{before}");
}

// rules L7, L9
#[test]
fn a_limiter_that_counts_until_settled_does_so_when_its_limit_has_changed() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = RateLimiter::builder(5, ms(1_000)).until_settled().clock(world.clock()).build().unwrap();
    limiter.set_limit(1, ms(1_000)).unwrap();
    let permit = limiter.try_acquire().unwrap();
    world.set(1_500);
    assert!(limiter.try_acquire().is_err(), "the call counts for as long as it runs");
    drop(permit);
    world.set(2_499);
    assert!(limiter.try_acquire().is_err(), "and for a window more");
    world.set(2_500);
    drop(limiter.try_acquire().unwrap());
}

// rule W3
#[test]
fn a_signal_that_fires_in_a_wakers_clone_is_heard() {
    let (handle, signal) = AbortHandle::new();
    let mut waits = Task::new(signal.aborted());
    assert!(waits.poll_with(&at_clone(move || handle.abort_with("now"))).is_ready());
}

// rule W4
#[test]
fn what_is_idle_or_closed_in_a_wakers_clone_is_seen() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let mut idle = Task::new(admission.idle());
    assert!(idle.poll_with(&at_clone(move || drop(permit))).is_ready());
    let mut closed = Task::new(admission.closed());
    let closes = admission.clone();
    assert!(closed.poll_with(&at_clone(move || closes.close())).is_ready());
    assert_eq!(world.armed(), None);
}

// rule E5
#[test]
fn a_pause_that_is_over_in_a_wakers_clone_is_over() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let attempts = |attempt: Attempt| async move {
        if attempt.number() == 1 { Err("not yet") } else { Ok(attempt.number()) }
    };
    let mut run = Task::new(a.retry(Retry::times(1).delay(ms(10))).try_run(attempts));
    let later = world.clone();
    let polled = run.poll_with(&at_clone(move || later.set(10)));
    assert!(matches!(polled, Poll::Ready(Ok(2))), "{polled:?}");
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!(world.armed(), None);
}

// rule Q10
#[test]
fn a_snapshot_that_comes_in_a_wakers_clone_is_seen() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let query: Query<u32, u32> = a.query("k").build(|_| async { Ok(1) });
    let mut looks = query.subscribe();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(looks.poll_snapshot(&mut cx).is_ready());
    let pauses = query.clone();
    let here = Arc::new(AtClone(Mutex::new(Some(Box::new(move || pauses.pause())))));
    let waker = waker_of(here.clone());
    let polled = looks.poll_snapshot(&mut Context::from_waker(&waker));
    let Poll::Ready(Some(snapshot)) = polled else { panic!("it is newer") };
    assert_eq!(snapshot.status, QueryStatus::Paused);
    drop(waker);
    assert_eq!(Arc::strong_count(&here), 1, "whoever has its answer is woken for nothing else");
}

// rules Q7, W5
#[test]
fn a_source_that_is_dropped_from_its_own_poll_goes_when_the_poll_returns() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let place = Arc::<Mutex<Option<Query<u32, u32>>>>::default();
    let (inside, held) = (place.clone(), Arc::new(()));
    let witness = Arc::downgrade(&held);
    let source = move |_| {
        let (inside, held) = (inside.clone(), held.clone());
        std::future::poll_fn(move |_| {
            let _held = &held;
            let query = inside.lock().unwrap().take();
            if let Some(query) = query {
                query.dispose();
            }
            Poll::<Result<u32, u32>>::Pending
        })
    };
    let query = a.query("k").on_abort(OnAbort::Drop).build(source);
    *place.lock().unwrap() = Some(query.clone());
    let mut waits = Task::waiting(query.refresh());
    world.run();
    assert!(waits.ready().is_err());
    assert_eq!(admission.counts(), counts(0, 0, 0), "its slot is free");
    drop((query, waits));
    assert_eq!(witness.strong_count(), 0, "and nothing is left of it");
    assert_eq!(world.drop_tasks(), 0);
}

// rule W5
#[test]
fn a_backoff_that_panics_after_a_timeout_ends_its_cycle_and_nothing_else() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let policy = Retry::backoff(std::iter::from_fn(|| panic!("the backoff")).take(1));
    let query = a.query::<()>("k").attempt_timeout(ms(5)).on_abort(OnAbort::Drop).retry(policy);
    let query = query.build(|_| std::future::pending::<Result<(), ()>>());
    let mut waits = Task::waiting(query.refresh());
    world.run();
    world.advance_to(5);
    world.run();
    assert!(matches!(waits.ready(), Err(QueryError::Panicked)));
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!((world.armed(), world.drop_tasks()), (None, 0));
}

// rule W5
#[test]
fn an_alarm_whose_place_was_given_away_while_it_was_made_is_dropped() {
    let world = World::new();
    let _entered = world.enter();
    let twin = world.twin();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    // The first runtime's alarm says that it is dead while it is being made; the caller is woken by that, and
    // in that wake another caller comes, in another runtime, which has the place.
    world.die(false);
    let other = Arc::new(Mutex::new(Task::new(a.admission_timeout(ms(5)).acquire())));
    let (comes, elsewhere) = (other.clone(), twin.clone());
    let mut first = Task::new(a.acquire());
    let polled = first.poll_with(&at_wake(move || {
        let _entered = elsewhere.enter();
        assert!(comes.lock().unwrap().poll().is_pending());
    }));
    assert!(matches!(polled, Poll::Ready(Err(Rejected::NoRuntime))), "{polled:?}");
    assert_eq!((world.faces(), twin.faces()), (0, 1), "the dead alarm is gone, and the other is there");
    twin.advance_to(6);
    let answer = other.lock().unwrap().ready();
    assert!(matches!(answer, Err(Rejected::AdmissionTimeout { .. })), "{answer:?}");
    drop(permit);
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule W5
#[test]
fn all_who_sleep_in_a_runtime_that_ends_are_told() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    let policy = Retry::times(1).delay(ms(10));
    let fails = |_: Attempt| std::future::ready(Err::<(), _>(()));
    // More than are woken in one batch.
    let runs = (0..100).map(|_| Task::waiting(a.retry(policy.clone()).try_run(fails)));
    let mut runs: Vec<_> = runs.collect();
    let mut idle: Vec<_> = (0..100).map(|_| admission.idle()).collect();
    let permit = a.try_acquire().unwrap();
    let mut idle: Vec<_> = idle.drain(..).map(Task::waiting).collect();
    world.die(true);
    assert!(runs.iter().all(Task::is_woken) && idle.iter().all(Task::is_woken));
    let twin = world.twin();
    let _entered = twin.enter();
    assert!(runs.iter_mut().all(|run| run.poll().is_pending()));
    assert!(idle.iter_mut().all(|idle| idle.poll().is_pending()));
    twin.advance_to(10);
    assert!(runs.iter_mut().all(|run| run.poll().is_ready()));
    drop(permit);
    assert!(idle.iter_mut().all(|idle| idle.poll().is_ready()));
    assert_eq!(twin.armed(), None);
}

// rules T3, W5
#[test]
fn a_bell_whose_coordinator_is_gone_does_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let waiting = Task::waiting(a.admission_timeout(ms(5)).acquire());
    let face = world.face();
    assert!(format!("{:?}", face.bell).starts_with("Bell"));
    drop((waiting, permit, a, admission));
    assert_eq!(world.faces(), 0);
    face.bell.ring();
    face.bell.lost();
    face.bell.waker().wake_by_ref();
    face.bell.waker().wake();
}

// rules L7, L10
#[test]
fn limits_of_a_crowd_of_providers_go_with_it() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().build().unwrap();
    let names: Vec<_> = (0..500).map(|n| format!("p{n}")).collect();
    for name in &names {
        admission.add_provider(name, |p| p.max_concurrent(1)).unwrap();
    }
    for name in &names[1..] {
        admission.remove_provider(name).unwrap();
    }
    let left = admission.provider("p0").unwrap();
    let permit = left.try_acquire().unwrap();
    let Err(refused) = left.try_acquire() else { panic!("one at a time") };
    assert_eq!(refused.to_string(), "p0: may not start at once, held back by 1 at once");
    drop(permit);
}

/// Polls a future once.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

// rules L3, L4
#[test]
fn a_call_has_a_cost_in_each_of_several_units() {
    let world = World::new();
    let _entered = world.enter();
    let units = ["tokens", "bytes", "images", "pages"];
    let mut builder = world.builder();
    for unit in units {
        builder = builder.unit(unit);
    }
    let log = |unit: &str| admission_rt::Window::new(5, ms(1_000)).unit(unit);
    let builder = builder.provider("a", |p| units.into_iter().fold(p, |p, unit| p.log(log(unit))));
    let a = builder.build().unwrap().provider("a").unwrap();
    let call = |amounts: [u64; 4]| {
        let mut call = a.call();
        for (unit, amount) in units.into_iter().zip(amounts) {
            call = call.cost(unit, amount);
        }
        call
    };
    drop(call([5, 4, 3, 2]).try_acquire().unwrap());
    drop(call([0, 1, 2, 3]).try_acquire().unwrap());
    for too_much in [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]] {
        let mut waits = call(too_much).acquire();
        assert!(poll_once(&mut waits).is_pending(), "{too_much:?}");
    }
    drop(call([0; 4]).try_acquire().unwrap());
}

// rule W1
#[test]
fn a_poll_with_the_waker_that_is_kept_clones_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    assert!(!clones_again(a.acquire()));
    assert!(!clones_again(admission.idle()));
    assert!(!clones_again(admission.closed()));
    drop(permit);
    let retry = a.retry(Retry::times(1).delay(ms(10)));
    assert!(!clones_again(retry.try_run(|_| std::future::ready(Err::<(), _>(1)))));
    let query: Query<u32, u32> = a.query("k").build(|_| async { Ok(1) });
    let mut looks = query.subscribe();
    assert!(looks.poll_snapshot(&mut Context::from_waker(Waker::noop())).is_ready());
    assert!(!clones_again(std::future::poll_fn(move |cx| looks.poll_snapshot(cx))));
}

// rules O2, L10
#[test]
fn a_call_that_is_reported_once_its_provider_is_gone_is_nobodys() {
    let world = World::new();
    let _entered = world.enter();
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = told.clone();
    let builder = world.builder().provider("a", |p| p.max_concurrent(1)).template(|p| p.max_concurrent(1));
    let builder =
        builder.on_long_wait(ms(50), move |waits| seen.lock().unwrap().push(waits.provider.clone()));
    let admission = builder.build().unwrap();
    let (a, host) = (admission.provider("a").unwrap(), admission.provider("host").unwrap());
    let permit = a.try_acquire().unwrap();
    let all = (host.try_acquire().unwrap(), Task::waiting(host.acquire()), host);
    // The same turn finds that the host's call has waited long, and wakes somebody who takes it out.
    let mut wakes_first = Task::new(a.acquire());
    assert!(wakes_first.poll_with(&at_wake(move || drop(all))).is_pending());
    world.set(50);
    drop(permit);
    assert_eq!(*told.lock().unwrap(), ["?".into()]);
}
