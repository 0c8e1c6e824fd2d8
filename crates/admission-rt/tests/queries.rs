//! Queries whose sources, data and wakers come back into them from wherever they are called.

mod common;

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use admission_rt::{Attempt, OnAbort, Query, QueryError, QueryStatus, Refresh, Retry};
use common::{Admission, Bomb, Provider, Task, World, counts, ms, panicking_waker, within};

const BOTH: [OnAbort; 2] = [OnAbort::Finish, OnAbort::Drop];

fn one_at_a_time(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

/// A way back into a query that is made later.
struct Way<T>(Arc<Mutex<Option<Query<T, T>>>>);

impl<T> Clone for Way<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Send + Sync + 'static> Way<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn leads_to(&self, query: &Query<T, T>) {
        *self.0.lock().unwrap() = Some(query.clone());
    }

    /// Leads nowhere any more: a query that has a way to itself would never go.
    fn ends(&self) {
        let query = self.0.lock().unwrap().take();
        drop(query);
    }

    fn query(&self) -> Option<Query<T, T>> {
        self.0.lock().unwrap().clone()
    }

    /// Uses the query in every way that ends nothing for others.
    fn meddle(&self) {
        let Some(query) = self.query() else { return };
        let _ = query.snapshot().status;
        let _ = format!("{query:?}");
        let mut looks = query.subscribe();
        let mut cx = Context::from_waker(Waker::noop());
        let _ = looks.poll_snapshot(&mut cx);
        let _ = looks.poll_snapshot(&mut cx);
        let mut joins = query.refresh();
        let _ = Pin::new(&mut joins).poll(&mut cx);
        drop((joins, looks));
        query.resume();
    }
}

/// What a waker knows whose clone, wake and drop all come back into the query.
struct Meddler {
    way: Way<u32>,
    wakes: Arc<AtomicUsize>,
    /// Dropped by the wake.
    others: Arc<Mutex<Vec<Refresh<u32, u32>>>>,
}

impl Meddler {
    fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        let others = std::mem::take(&mut *self.others.lock().unwrap());
        drop(others);
        self.way.meddle();
    }
}

static MEDDLER: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: `data` is from `Arc::into_raw` of a `Meddler`, and this waker owns a count of it.
        let meddler = unsafe { ManuallyDrop::new(Arc::from_raw(data.cast::<Meddler>())) };
        meddler.way.meddle();
        RawWaker::new(Arc::into_raw(Arc::clone(&meddler)).cast(), &MEDDLER)
    },
    |data| {
        // SAFETY: as above, and the count goes with the waker.
        let meddler = unsafe { Arc::from_raw(data.cast::<Meddler>()) };
        meddler.wake();
    },
    |data| {
        // SAFETY: as for the clone.
        let meddler = unsafe { ManuallyDrop::new(Arc::from_raw(data.cast::<Meddler>())) };
        meddler.wake();
    },
    |data| {
        // SAFETY: as above, and the count goes with the waker.
        let meddler = unsafe { Arc::from_raw(data.cast::<Meddler>()) };
        meddler.way.meddle();
    },
);

fn waker(meddler: Meddler) -> Waker {
    // SAFETY: the table's functions keep the count of the `Arc`, and a `Meddler` is `Send + Sync`.
    unsafe { Waker::from_raw(RawWaker::new(Arc::into_raw(Arc::new(meddler)).cast(), &MEDDLER)) }
}

/// A source that answers with what is in a list, and never when there is nothing.
type Answers = Arc<Mutex<VecDeque<Result<u32, u32>>>>;

fn listed(answers: &Answers) -> impl Fn(Attempt) -> Listed + Send + Sync + use<> {
    let answers = answers.clone();
    move |_| Listed(answers.clone())
}

struct Listed(Answers);

impl Future for Listed {
    type Output = Result<u32, u32>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.lock().unwrap().pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

// rules W5, Q10
#[test]
fn wakers_may_come_back_and_drop_those_who_wait_with_them() {
    within(10, || {
        for on_abort in BOTH {
            let world = World::new();
            let _entered = world.enter();
            let (admission, a) = one_at_a_time(&world);
            let answers = Answers::default();
            let query = a.query(1).on_abort(on_abort).build(listed(&answers));
            let way = Way::new();
            way.leads_to(&query);
            let (wakes, others) = (Arc::default(), Arc::default());
            let knows = |others: &Arc<Mutex<Vec<_>>>| {
                waker(Meddler { way: way.clone(), wakes: Arc::clone(&wakes), others: others.clone() })
            };
            let new = || knows(&others);
            let mut looks = query.subscribe();
            // It is woken first, and shall not drop those who are to be dropped by one of their own.
            while looks.poll_snapshot(&mut Context::from_waker(&knows(&Arc::default()))).is_ready() {}
            let mut waiting = Task::new(query.refresh());
            // Two different wakers: the first is replaced, and dropped.
            assert!(waiting.poll_with(&new()).is_pending());
            assert!(waiting.poll_with(&new()).is_pending());
            for _ in 0..10 {
                let mut other = query.refresh();
                assert!(Pin::new(&mut other).poll(&mut Context::from_waker(&new())).is_pending());
                others.lock().unwrap().push(other);
            }
            answers.lock().unwrap().push_back(Ok(7));
            world.run();
            assert!(others.lock().unwrap().is_empty());
            assert!(wakes.load(Ordering::SeqCst) > 0);
            assert_eq!(*waiting.ready().unwrap().data, 7);
            drop(looks);
            query.pause();
            query.dispose();
            answers.lock().unwrap().extend([Ok(1), Ok(1), Ok(1)]);
            world.drop_tasks();
            assert_eq!(admission.counts(), counts(0, 0, 0));
        }
    });
}

// rule W5
#[test]
fn a_waker_that_panics_costs_the_others_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let answers = Answers::default();
    let query = a.query(1).build(listed(&answers));
    let panics = panicking_waker();
    let subscribe = |waker: &Waker| {
        let mut looks = query.subscribe();
        while looks.poll_snapshot(&mut Context::from_waker(waker)).is_ready() {}
        looks
    };
    let mut bad = Task::new(query.refresh());
    assert!(bad.poll_with(&panics).is_pending());
    let mut good = Task::waiting(query.refresh());
    let looks = [subscribe(&panics), subscribe(&panics)];
    answers.lock().unwrap().push_back(Ok(7));
    world.run();
    assert!(good.is_woken());
    assert_eq!(*good.ready().unwrap().data, 7);
    assert_eq!(*bad.ready().unwrap().data, 7);

    // From a pause the panic goes on, after everybody was served.
    let mut good = Task::waiting(query.refresh());
    world.run();
    assert_eq!(admission.counts(), counts(1, 0, 0));
    let looks = [looks, [subscribe(&panics), subscribe(&panics)]];
    assert!(catch_unwind(AssertUnwindSafe(|| query.pause())).is_err());
    assert!(matches!(good.ready(), Err(QueryError::Paused)));
    assert_eq!(query.snapshot().status, QueryStatus::Paused);
    drop(looks);
}

// rules W5, Q4
#[test]
fn no_waker_is_kept() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let query: Query<u32, u32> = a.query(1).on_abort(OnAbort::Drop).build(|_| pending());
    let mut waiting = Task::waiting(query.refresh());
    world.run();
    assert!(waiting.poll().is_pending());
    assert!(waiting.wakers_held() > 0);
    waiting.future.set(query.refresh());
    assert_eq!(waiting.wakers_held(), 0, "left, and there is nobody else");
    assert_eq!(admission.counts(), counts(0, 0, 0));
    world.run();
    assert_eq!(world.drop_tasks(), 0);
}

/// Where a source does something to its own query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    Call,
    Poll,
    Drop,
}

/// A future that does something when it is polled or dropped.
struct Does {
    place: Where,
    what: Arc<dyn Fn() + Send + Sync>,
}

impl Future for Does {
    type Output = Result<u32, u32>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.place == Where::Poll {
            (self.what)();
        }
        Poll::Ready(Ok(1))
    }
}

impl Drop for Does {
    fn drop(&mut self) {
        if self.place == Where::Drop {
            (self.what)();
        }
    }
}

fn does(place: Where, what: impl Fn() + Send + Sync + 'static) -> impl Fn(Attempt) -> Does + Send + Sync {
    let what: Arc<dyn Fn() + Send + Sync> = Arc::new(what);
    move |_| {
        if place == Where::Call {
            what();
        }
        Does { place, what: what.clone() }
    }
}

// rules Q8, W5
#[test]
fn a_source_may_end_its_own_query() {
    within(10, || {
        for on_abort in BOTH {
            for place in [Where::Call, Where::Poll, Where::Drop] {
                for end in [Query::pause, Query::dispose, |query: &Query<u32, u32>| drop(query.refresh())] {
                    let world = World::new();
                    let _entered = world.enter();
                    let (admission, a) = one_at_a_time(&world);
                    let way = Way::new();
                    let back = way.clone();
                    let source = does(place, move || {
                        if let Some(query) = back.query() {
                            end(&query);
                            back.meddle();
                        }
                    });
                    let query = a.query(1).on_abort(on_abort).build(source);
                    way.leads_to(&query);
                    let mut waiting = Task::waiting(query.refresh());
                    world.run();
                    let _ = waiting.ready();
                    query.dispose();
                    world.run();
                    assert_eq!(admission.counts(), counts(0, 0, 0), "{on_abort:?} {place:?}");
                    assert_eq!(world.drop_tasks(), 0);
                    way.ends();
                }
            }
        }
    });
}

// rules Q4, W5
#[test]
fn a_source_may_drop_the_last_handle_and_whoever_waits() {
    within(10, || {
        for on_abort in BOTH {
            for place in [Where::Call, Where::Poll, Where::Drop] {
                let world = World::new();
                let _entered = world.enter();
                let (admission, a) = one_at_a_time(&world);
                let held = Arc::<Mutex<Option<_>>>::default();
                let inside = held.clone();
                let source = does(place, move || {
                    let all = inside.lock().unwrap().take();
                    drop(all);
                });
                let query = a.query("key").on_abort(on_abort).build(source);
                let mut waiting = query.refresh();
                assert!(Pin::new(&mut waiting).poll(&mut Context::from_waker(Waker::noop())).is_pending());
                *held.lock().unwrap() = Some((query.subscribe(), waiting, query));
                world.run();
                assert!(held.lock().unwrap().is_none());
                assert_eq!(admission.counts(), counts(0, 0, 0), "{on_abort:?} {place:?}");
                assert_eq!(world.drop_tasks(), 0);
                assert_eq!(Arc::strong_count(&held), 1, "nothing is left of the query");
            }
        }
    });
}

/// Data, or an error, that comes back into its query when it is dropped.
struct Homing(Way<Homing>, Arc<AtomicUsize>);

impl Drop for Homing {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.meddle();
    }
}

// rule W5
#[test]
fn data_and_errors_may_come_back_when_they_are_dropped() {
    within(10, || {
        let world = World::new();
        let _entered = world.enter();
        let (_admission, a) = one_at_a_time(&world);
        let (way, drops) = (Way::new(), Arc::new(AtomicUsize::new(0)));
        let (back, counted) = (way.clone(), drops.clone());
        let calls = AtomicUsize::new(0);
        let query = a.query(1).retry(Retry::times(1)).build(move |_| {
            let homing = Homing(back.clone(), counted.clone());
            let is_data = calls.fetch_add(1, Ordering::SeqCst) % 3 == 0;
            async move { if is_data { Ok(homing) } else { Err(homing) } }
        });
        way.leads_to(&query);
        for _ in 0..6 {
            let mut waiting = Task::waiting(query.refresh());
            world.run();
            drop(waiting.ready());
        }
        assert!(drops.load(Ordering::SeqCst) > 0);
        query.dispose();
        world.drop_tasks();
        way.ends();
    });
}

// rules Q6, W5
#[test]
fn what_comes_too_late_is_dropped_where_it_came() {
    #[derive(Default)]
    struct Door {
        is_open: bool,
        waker: Option<Waker>,
    }

    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let door = Arc::<Mutex<Door>>::default();
    let inside = door.clone();
    let query: Query<Bomb, u32> = a.query(1).attempt_timeout(ms(10)).build(move |_| {
        let door = inside.clone();
        std::future::poll_fn(move |cx| {
            let mut door = door.lock().unwrap();
            door.waker = Some(cx.waker().clone());
            if door.is_open { Poll::Ready(Ok(Bomb)) } else { Poll::Pending }
        })
    });
    let mut waiting = Task::waiting(query.refresh());
    world.run();
    world.advance_to(10);
    world.run();
    assert!(matches!(waiting.ready(), Err(QueryError::AttemptTimeout { .. })));
    assert_eq!(admission.counts(), counts(1, 0, 0), "the call goes on");
    drop(query);
    let waker = {
        let mut door = door.lock().unwrap();
        door.is_open = true;
        door.waker.take()
    };
    waker.unwrap().wake();
    world.run();
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rules Q3, W5
#[test]
fn a_cycle_is_not_to_blame_for_a_strangers_waker() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    let panics = panicking_waker();
    let answers = Answers::default();
    let query = a
        .query(1)
        .attempt_timeout(ms(1_000))
        .retry(Retry::times(1).delay(ms(1_000)))
        .on_abort(OnAbort::Drop)
        .build(listed(&answers));
    // Whoever sleeps between two attempts is woken by the next turn, whosever that is.
    let sleeps = || {
        let fails = |_| std::future::ready(Err::<(), _>(()));
        let mut task = Task::new(a.retry(Retry::times(1).delay(ms(10))).try_run(fails));
        while task.poll_with(&panics).is_ready() {}
        task
    };
    let mut refresh = Task::waiting(query.refresh());
    let status = || query.snapshot().status;

    let mut strangers = vec![sleeps()];
    world.set(20);
    world.poll_tasks();
    assert!(matches!(status(), QueryStatus::Running { attempt: 1, .. }), "it asked for admission");
    strangers.push(sleeps());
    world.set(40);
    world.poll_tasks();
    assert!(matches!(status(), QueryStatus::Running { attempt: 1, .. }), "it looked at its timer");
    answers.lock().unwrap().push_back(Err(7));
    world.poll_tasks();
    strangers.push(sleeps());
    world.set(60);
    world.poll_tasks();
    assert!(matches!(status(), QueryStatus::WaitingToRetry { attempt: 1, .. }), "it waits");
    world.set(2_000);
    answers.lock().unwrap().push_back(Ok(8));
    world.poll_tasks();
    assert_eq!(*refresh.ready().unwrap().data, 8);
    drop(strangers);
    assert_eq!((admission.counts(), world.armed()), (counts(0, 0, 0), None));
}

// rule W5
#[test]
fn no_panic_gets_out_of_a_cycles_task() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("the error's own");
            }
        }
    }

    for ends in [false, true] {
        let world = World::new();
        let _entered = world.enter();
        let (admission, a) = one_at_a_time(&world);
        let query: Query<(), Bomb> = a
            .query(1)
            .retry(Retry::times(1).delay(ms(10)))
            .build(|attempt| std::future::ready(if attempt.number() == 1 { Err(Bomb) } else { Ok(()) }));
        let mut waiting = Task::waiting(query.refresh());
        world.run();
        assert!(matches!(query.snapshot().status, QueryStatus::WaitingToRetry { .. }));
        if ends {
            query.pause();
        }
        world.advance_to(10);
        world.run();
        assert_eq!(waiting.ready().is_err(), ends, "what was fetched is not lost by it");
        assert_eq!(world.drop_tasks(), 0);
        assert_eq!((admission.counts(), world.armed()), (counts(0, 0, 0), None));
    }
}

// rules Q5, W5
#[test]
fn an_old_error_whose_destructor_panics_takes_no_data_along() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    for on_abort in BOTH {
        let held = Arc::new(());
        let inside = held.clone();
        let calls = AtomicUsize::new(0);
        let policy = Retry::times(2).delay(ms(1));
        let query: Query<Arc<()>, Bomb> = a.query(1).on_abort(on_abort).retry(policy).build(move |_| {
            let is_late = calls.fetch_add(1, Ordering::SeqCst) == 2;
            std::future::ready(if is_late { Ok(inside.clone()) } else { Err(Bomb) })
        });
        let mut waiting = Task::waiting(query.refresh());
        for _ in 0..3 {
            world.run();
            let now = world.now_millis();
            world.advance_to(now + 1);
        }
        assert!(waiting.ready().is_ok());
        assert_eq!(query.snapshot().status, QueryStatus::Data);
        assert_eq!(admission.counts(), counts(0, 0, 0));
        drop((query, waiting));
        assert_eq!(Arc::strong_count(&held), 1);
    }
}

// rules Q4, W5
#[test]
fn a_cycle_that_is_dropped_with_its_runtime_says_so_whatever_its_error_does() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let policy = Retry::times(2).delay(ms(1));
    let query: Query<u32, Bomb> = a.query(1).retry(policy).build(|_| std::future::ready(Err(Bomb)));
    let mut waiting = Task::waiting(query.refresh());
    world.run();
    world.end_tasks();
    assert!(matches!(waiting.ready(), Err(QueryError::Lost)));
    assert_eq!((admission.counts(), world.armed()), (counts(0, 0, 0), None));
}

// rules Q2, Q4
#[test]
fn a_source_whose_time_can_no_longer_be_measured_is_told_to_stop() {
    for on_abort in BOTH {
        let world = World::new();
        let _entered = world.enter();
        let (admission, a) = one_at_a_time(&world);
        let seen = Arc::new(std::sync::Mutex::new(None));
        let inside = seen.clone();
        let query: Query<(), ()> =
            a.query(1).attempt_timeout(ms(100)).on_abort(on_abort).build(move |attempt| {
                *inside.lock().unwrap() = Some(attempt.signal().clone());
                std::future::pending()
            });
        let mut waiting = Task::waiting(query.refresh());
        world.run();
        world.die(true);
        world.run();
        assert!(matches!(waiting.ready(), Err(QueryError::Lost)));
        assert!(seen.lock().unwrap().as_ref().is_some_and(|signal| signal.is_aborted()));
        let held = u32::from(on_abort == OnAbort::Finish);
        assert_eq!(admission.counts(), counts(held, 0, 0), "what is not dropped still runs");
        world.drop_tasks();
        assert_eq!(admission.counts(), counts(0, 0, 0));
    }
}
