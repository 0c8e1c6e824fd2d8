//! Wakers and values that come back into the coordinator from wherever they are called.

mod common;

use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

use admission_rt::{AbortHandle, AbortReason, AbortSignal, Permit, Rejected};
use common::{Acquire, Admission, Provider, Task, World, counts, ms, while_it_moves, within};

/// Uses the coordinator in every way that a waker might.
fn meddle(admission: &Admission) {
    let a = admission.provider("a").unwrap();
    let _ = admission.counts();
    let _ = a.try_acquire();
    drop(a.enqueue());
    let (handle, signal) = AbortHandle::new();
    let waiting = a.abort_signal(&signal).enqueue();
    handle.abort();
    drop(waiting);
    let _ = format!("{admission:?}");
    let passing = admission.add_provider("passing", |p| p.window(1, ms(1)));
    let _ = passing.map(|passing| passing.try_acquire());
    let _ = admission.remove_provider("passing");
    let _ = admission.snapshot().to_string();
}

/// What a waker knows whose clone, wake and drop all come back into the coordinator. A waker from
/// [`Wake`] could not do so in its clone.
struct Meddler {
    admission: Admission,
    wakes: Arc<AtomicUsize>,
}

static MEDDLER: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: `data` is from `Arc::into_raw` of a `Meddler`, and this waker owns a count of it.
        let meddler = unsafe { ManuallyDrop::new(Arc::from_raw(data.cast::<Meddler>())) };
        meddle(&meddler.admission);
        RawWaker::new(Arc::into_raw(Arc::clone(&meddler)).cast(), &MEDDLER)
    },
    |data| {
        // SAFETY: as above, and the count goes with the waker.
        let meddler = unsafe { Arc::from_raw(data.cast::<Meddler>()) };
        meddler.wakes.fetch_add(1, Ordering::SeqCst);
        meddle(&meddler.admission);
    },
    |data| {
        // SAFETY: as for the clone.
        let meddler = unsafe { ManuallyDrop::new(Arc::from_raw(data.cast::<Meddler>())) };
        meddler.wakes.fetch_add(1, Ordering::SeqCst);
        meddle(&meddler.admission);
    },
    |data| {
        // SAFETY: as above, and the count goes with the waker.
        let meddler = unsafe { Arc::from_raw(data.cast::<Meddler>()) };
        meddle(&meddler.admission);
    },
);

fn meddler(admission: &Admission, wakes: &Arc<AtomicUsize>) -> Waker {
    let meddler = Arc::new(Meddler { admission: admission.clone(), wakes: wakes.clone() });
    // SAFETY: the table's functions keep the count of the `Arc`, and a `Meddler` is `Send + Sync`.
    unsafe { Waker::from_raw(RawWaker::new(Arc::into_raw(meddler).cast(), &MEDDLER)) }
}

fn poll<F: Future>(future: &mut Pin<Box<F>>, waker: Waker) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(&waker))
}

// rule W5, W6
#[test]
fn wakers_may_come_back_from_clone_wake_and_drop() {
    within(5, || {
        let world = World::new();
        let _entered = world.enter();
        let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
        let a = admission.provider("a").unwrap();
        let wakes = Arc::default();
        let new = || meddler(&admission, &wakes);
        let waiting = |call: Acquire| {
            // Two different wakers: the first is replaced, and dropped, by the second poll.
            let mut future = Box::pin(call);
            assert!(poll(&mut future, new()).is_pending());
            assert!(poll(&mut future, new()).is_pending());
            future
        };

        let permit = a.try_acquire().unwrap();
        let mut granted = waiting(a.acquire());
        drop(permit);
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        let Poll::Ready(Ok(permit)) = poll(&mut granted, new()) else { panic!("was granted") };

        let (handle, signal) = AbortHandle::new();
        let mut aborted = waiting(a.abort_signal(&signal).acquire());
        handle.abort();
        assert!(poll(&mut aborted, new()).is_ready());
        assert_eq!(wakes.load(Ordering::SeqCst), 2);

        let mut timed = waiting(a.admission_timeout(ms(50)).acquire());
        world.advance_to(51);
        assert!(poll(&mut timed, new()).is_ready());
        assert_eq!(wakes.load(Ordering::SeqCst), 3);

        drop(waiting(a.acquire()));
        assert_eq!(admission.counts(), counts(1, 0, 0));

        let mut idle = Box::pin(admission.idle());
        assert!(poll(&mut idle, new()).is_pending());
        assert!(poll(&mut idle, new()).is_pending());
        let mut closed = Box::pin(admission.closed());
        assert!(poll(&mut closed, new()).is_pending());
        assert!(poll(&mut closed, new()).is_pending());
        let mut refused = waiting(a.acquire());
        admission.close();
        assert!(poll(&mut closed, new()).is_ready());
        assert!(poll(&mut refused, new()).is_ready());
        drop(permit);
        assert!(poll(&mut idle, new()).is_ready());
        assert_eq!(admission.counts(), counts(0, 0, 0));
        assert_eq!(wakes.load(Ordering::SeqCst), 6);
        assert_eq!(world.armed(), None);
    });
}

// rule W5
#[test]
fn values_may_come_back_from_their_drop() {
    struct Meddles(Admission);
    impl Drop for Meddles {
        fn drop(&mut self) {
            meddle(&self.0);
        }
    }
    impl std::fmt::Debug for Meddles {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Meddles")
        }
    }
    impl std::fmt::Display for Meddles {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("meddles")
        }
    }
    impl std::error::Error for Meddles {}

    within(5, || {
        let world = World::new();
        let _entered = world.enter();
        let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
        let a = admission.provider("a").unwrap();
        let value = || Meddles(admission.clone());

        // An operation, and what it captured.
        let (in_closure, in_future) = (value(), value());
        let mut run = Task::new(a.run(move || {
            let _in_closure = in_closure;
            async move {
                let _in_future = in_future;
                std::future::pending::<()>().await;
            }
        }));
        assert!(run.poll().is_pending());
        let captured = value();
        let waiting = Task::waiting(a.run(move || {
            drop(captured);
            std::future::pending::<()>()
        }));
        drop(waiting);
        drop(run);

        // A reason to abort, and the future behind a signal.
        let _permit = a.try_acquire().unwrap();
        let (handle, signal) = AbortHandle::new();
        let mut aborted = Task::waiting(a.abort_signal(&signal).acquire());
        handle.abort_with(AbortReason::custom(value()));
        handle.abort_with(AbortReason::custom(value()));
        drop(aborted.ready().unwrap_err());
        drop((handle, signal));
        let held = value();
        let signal = AbortSignal::from_future(async move {
            let _held = held;
        });
        assert!(Task::new(a.abort_signal(&signal).acquire()).ready().unwrap_err().is_aborted());
        assert_eq!(admission.counts(), counts(1, 0, 0));
    });
}

/// Polls its own task from inside `wake`, as some executors do.
struct Inline {
    task: Mutex<Option<Acquire>>,
    got: Mutex<Vec<Permit>>,
    me: Weak<Inline>,
}

impl Inline {
    fn start(call: Acquire) -> Arc<Self> {
        let task = Arc::new_cyclic(|me| Self {
            task: Mutex::new(Some(call)),
            got: Mutex::default(),
            me: me.clone(),
        });
        task.clone().wake();
        task
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let Some(mut call) = self.task.lock().unwrap().take() else { return };
        let waker = Waker::from(self.me.upgrade().unwrap());
        match call.poll_acquire(&mut Context::from_waker(&waker)) {
            Poll::Ready(permit) => self.got.lock().unwrap().push(permit.unwrap()),
            Poll::Pending => *self.task.lock().unwrap() = Some(call),
        }
    }
}

// rule S1
#[test]
fn a_waker_may_poll_from_inside_wake() {
    within(5, || {
        let world = World::new();
        let _entered = world.enter();
        let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
        let a = admission.provider("a").unwrap();
        let first = Inline::start(a.acquire());
        let second = Inline::start(a.acquire());
        let third = Inline::start(a.acquire());
        assert_eq!(admission.counts(), counts(1, 2, 0));
        let permits = std::mem::take(&mut *first.got.lock().unwrap());
        drop(permits);
        assert_eq!(second.got.lock().unwrap().len(), 1, "started from inside the release");
        assert_eq!(admission.counts(), counts(1, 1, 0));
        let permits = std::mem::take(&mut *second.got.lock().unwrap());
        drop(permits);
        assert_eq!(third.got.lock().unwrap().len(), 1);
    });
}

// rule W4, E2
#[test]
fn more_are_woken_than_fit_into_one_batch() {
    within(20, wakes_many);
}

fn wakes_many() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    for (many, meddles) in [31, 32, 33, 64, 100].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        a.cooldown(ms(100)).unwrap();
        let mut waiting: Vec<_> = (0..many).map(|_| Task::waiting(a.acquire())).collect();
        let order = Arc::new(Mutex::new(Vec::new()));
        for (n, task) in waiting.iter_mut().enumerate() {
            let waker = Waker::from(Arc::new(Note(n, order.clone(), meddles.then(|| admission.clone()))));
            assert!(task.poll_with(&waker).is_pending());
        }
        let now = world.clock().now().as_nanos() / 1_000_000;
        world.advance_to(now + 100);
        let expected: Vec<_> = (0..many).collect();
        if meddles {
            // A turn inside a wake takes along whoever is left.
            order.lock().unwrap().sort_unstable();
        }
        assert_eq!(*order.lock().unwrap(), expected, "in the order of submission");
        waiting.iter_mut().for_each(|task| drop(task.ready().unwrap()));
        assert_eq!(admission.counts(), counts(0, 0, 0));
        assert_eq!(world.armed(), None);
    }
    let permit = a.key("k").try_acquire().unwrap();
    let mut waiting: Vec<_> = (0..100).map(|_| Task::waiting(a.key("k").acquire())).collect();
    let mut idle: Vec<_> = (0..100).map(|_| Task::waiting(admission.idle())).collect();
    let mut closed: Vec<_> = (0..100).map(|_| Task::waiting(admission.closed())).collect();
    admission.close();
    assert!(waiting.iter_mut().all(|task| task.wakes() == 1 && task.ready().unwrap_err().is_closed()));
    closed.iter_mut().for_each(Task::ready);
    drop(permit);
    idle.iter_mut().for_each(Task::ready);
    assert!(idle.iter().all(|task| task.wakes() == 1));
}

struct Note(usize, Arc<Mutex<Vec<usize>>>, Option<Admission>);

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
        if let Some(admission) = &self.2 {
            meddle(admission);
        }
    }
}

/// Panics when it is woken.
struct Panics(AtomicBool);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        panic!("the waker's own");
    }
}

fn panicking(task: &mut Task<Acquire>) -> Arc<Panics> {
    let panics = Arc::new(Panics(AtomicBool::new(false)));
    assert!(task.poll_with(&Waker::from(panics.clone())).is_pending());
    panics
}

fn cooled(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    (admission, a)
}

// rule W5
#[test]
fn a_waker_that_panics_does_not_cost_the_others_their_wakes() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = cooled(&world);
    let first = Task::waiting(a.acquire());
    let mut second = Task::waiting(a.acquire());
    let mut third = Task::waiting(a.acquire());
    let last = Task::waiting(a.acquire());
    let panics = [panicking(&mut second), panicking(&mut third)];
    let closing = catch_unwind(AssertUnwindSafe(|| admission.close()));
    let words = *closing.unwrap_err().downcast::<&str>().unwrap();
    assert_eq!(words, "the waker's own", "the panic goes on when all is done");
    assert!(panics.iter().all(|panics| panics.0.load(Ordering::SeqCst)));
    assert_eq!((first.wakes(), last.wakes()), (1, 1));
    assert_eq!(world.armed(), None);
    assert!(second.ready().unwrap_err().is_closed());
}

// rule W5
#[test]
fn a_waker_that_panics_while_its_thread_unwinds_does_not_abort() {
    struct Closes(Admission);
    impl Drop for Closes {
        fn drop(&mut self) {
            self.0.close();
        }
    }
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = cooled(&world);
    let mut waiting = Task::waiting(a.acquire());
    let panics = panicking(&mut waiting);
    let unwinding = catch_unwind(AssertUnwindSafe(move || {
        let _closes = Closes(admission);
        panic!("the caller's own");
    }));
    assert_eq!(*unwinding.unwrap_err().downcast::<&str>().unwrap(), "the caller's own");
    assert!(panics.0.load(Ordering::SeqCst));
}

// rule W5
#[test]
fn neither_destructors_nor_bells_panic() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let mut waiting = Task::waiting(a.acquire());
    let panics = panicking(&mut waiting);
    drop(permit);
    assert!(panics.0.load(Ordering::SeqCst));
    let permit = waiting.ready().unwrap();

    let mut waiting = Task::waiting(a.acquire());
    let panics = panicking(&mut waiting);
    let unwinding = catch_unwind(AssertUnwindSafe(move || {
        let _permit = permit;
        panic!("the caller's own");
    }));
    assert_eq!(*unwinding.unwrap_err().downcast::<&str>().unwrap(), "the caller's own");
    assert!(panics.0.load(Ordering::SeqCst));
    drop(waiting.ready().unwrap());

    let (_admission, a) = cooled(&world.twin());
    let mut waiting = Task::waiting(a.acquire());
    let panics = panicking(&mut waiting);
    world.advance_to(100);
    assert!(panics.0.load(Ordering::SeqCst), "the alarm's thread survives");
    drop(waiting.ready().unwrap());
}

// rule W5
#[test]
fn whoever_lets_go_last_is_not_to_blame_for_an_alarm_that_panics() {
    let world = World::new();
    let _entered = world.enter();
    for kind in 0..3 {
        let (admission, a) = cooled(&world);
        let mut waiting = Task::waiting(a.acquire());
        world.advance_to(world.clock().now().as_nanos() / 1_000_000 + 1_000);
        let permit = waiting.ready().unwrap();
        drop((admission, waiting));
        world.bursts.store(true, Ordering::SeqCst);
        match kind {
            // While its thread unwinds a second panic would abort the process.
            0 => {
                let unwinding = catch_unwind(AssertUnwindSafe(move || {
                    let _last = (a, permit);
                    panic!("the caller's own");
                }));
                assert_eq!(*unwinding.unwrap_err().downcast::<&str>().unwrap(), "the caller's own");
            }
            1 => drop((permit, a)),
            _ => drop((a, permit)),
        }
        assert_eq!(world.faces(), 0, "the alarm is gone");
        world.bursts.store(false, Ordering::SeqCst);
    }
}

// rule W5
#[test]
fn a_call_that_starts_while_another_waker_panics_is_not_lost() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p).provider("b", |p| p).build().unwrap();
    let (a, b) = (admission.provider("a").unwrap(), admission.provider("b").unwrap());
    a.cooldown(ms(100)).unwrap();
    let mut waiting = Task::waiting(a.acquire());
    let _panics = panicking(&mut waiting);
    world.set(100);
    // The first poll of a call to b lets time pass, and wakes the one of a.
    let mut unlucky = Task::new(b.acquire());
    assert!(catch_unwind(AssertUnwindSafe(|| unlucky.poll())).is_err());
    assert_eq!(admission.counts(), counts(0, 0, 2), "it does not jump a, and is granted after it");
    drop(unlucky);
    drop(waiting);
    assert_eq!(admission.counts(), counts(0, 0, 0), "dropped for good");

    let permit = b.key(1).try_acquire().unwrap();
    let mut unlucky = Task::waiting(b.key(1).acquire());
    drop(permit);
    a.cooldown(ms(100)).unwrap();
    let mut waiting = Task::waiting(a.acquire());
    let _panics = panicking(&mut waiting);
    world.set(200);
    assert!(catch_unwind(AssertUnwindSafe(|| unlucky.poll())).is_err());
    assert_eq!(admission.counts(), counts(1, 0, 1), "b runs already");
    let permit = unlucky.ready().unwrap();
    drop(permit);
    drop((waiting, unlucky));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rules W2, W5
#[test]
fn a_call_that_is_refused_while_another_waker_panics_is_told_so_by_its_next_poll() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let mut first = Task::new(a.admission_timeout(ms(10)).acquire());
    let _panics = panicking(&mut first);
    let mut second = Task::waiting(a.admission_timeout(ms(10)).acquire());

    // The second's own poll expires both, and wakes the first, who panics in it.
    world.set(11);
    assert!(catch_unwind(AssertUnwindSafe(|| second.poll())).is_err());
    assert!(second.ready().unwrap_err().is_admission_timeout());
    assert!(first.ready().unwrap_err().is_admission_timeout());

    // The same where the turn that gives a call its waker and its alarm finds its time over. It has one of its
    // own where there is a signal to be listened to.
    let (_handle, signal) = AbortHandle::new();
    let mut first = Task::new(a.admission_timeout(ms(10)).acquire());
    let _panics = panicking(&mut first);
    let mut second = Task::new(a.admission_timeout(ms(5)).abort_signal(&signal).acquire());
    let clock = world.clone();
    *world.when_asked.lock().unwrap() = Some(Box::new(move || clock.set(22)));
    assert!(catch_unwind(AssertUnwindSafe(|| second.poll())).is_err());
    assert!(second.ready().unwrap_err().is_admission_timeout());
    assert!(first.ready().unwrap_err().is_admission_timeout());

    // And a newcomer, who has no ticket, does not ask a second time: by then there is room.
    drop(permit);
    a.cooldown(ms(100)).unwrap();
    let mut first = Task::waiting(a.acquire());
    let _panics = panicking(&mut first);
    admission.set_max_queued(0);
    world.set(122);
    let mut newcomer = Task::new(a.acquire());
    assert!(catch_unwind(AssertUnwindSafe(|| newcomer.poll())).is_err());
    drop(first);
    assert!(matches!(newcomer.ready(), Err(Rejected::Overflow { .. })));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

/// A waker that is no loss.
struct Sore;

impl Wake for Sore {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Sore {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the waker's own");
    }
}

// rules W2, W5
#[test]
fn a_call_that_is_refused_while_its_old_waker_panics_is_told_so_by_its_next_poll() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let _permit = a.try_acquire().unwrap();
    let mut waiting = Task::new(a.admission_timeout(ms(50)).acquire());
    let sore = Waker::from(Arc::new(Sore));
    assert!(waiting.poll_with(&sore).is_pending());
    drop(sore);
    world.set(60);
    assert!(catch_unwind(AssertUnwindSafe(|| waiting.poll())).is_err());
    assert!(waiting.ready().unwrap_err().is_admission_timeout());
}

// rule S6
#[test]
fn a_call_that_nobody_disturbs_has_no_waker_cloned_long_after_others_waited() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let queued = a.enqueue();
    drop(Task::waiting(a.acquire()));
    drop((queued, permit));
    let asked = Arc::new(AtomicBool::new(false));
    let note = asked.clone();
    *world.when_asked.lock().unwrap() = Some(Box::new(move || note.store(true, Ordering::SeqCst)));
    drop(Task::new(a.acquire()).ready().unwrap());
    assert!(!asked.load(Ordering::SeqCst), "it asks for no runtime, and clones no waker");
    // The same where the last that waited was granted, and nobody was to be told.
    let permit = a.try_acquire().unwrap();
    let queued = a.enqueue();
    *world.when_asked.lock().unwrap() = None;
    drop(Task::waiting(a.acquire()));
    drop(permit);
    drop(Task::new(queued).ready().unwrap());
    let note = asked.clone();
    *world.when_asked.lock().unwrap() = Some(Box::new(move || note.store(true, Ordering::SeqCst)));
    drop(Task::new(a.acquire()).ready().unwrap());
    assert!(!asked.load(Ordering::SeqCst), "nobody waits any more");
}

// rule T5, W5
#[test]
fn a_clock_that_panics_poisons_nothing() {
    use admission_rt::Instant;
    use admission_rt::runtime::Clock;
    struct Broken(AtomicBool);
    impl Clock for Broken {
        fn now(&self) -> Instant {
            assert!(!self.0.load(Ordering::SeqCst), "no time");
            Instant::ZERO
        }
        fn wall(&self) -> std::time::SystemTime {
            std::time::SystemTime::UNIX_EPOCH
        }
    }
    within(5, || {
        let clock = Arc::new(Broken(AtomicBool::new(false)));
        let admission =
            Admission::builder().clock(clock.clone()).provider("a", |p| p.max_concurrent(1)).build().unwrap();
        let a = admission.provider("a").unwrap();
        let permit = a.try_acquire().unwrap();
        clock.0.store(true, Ordering::SeqCst);
        assert!(catch_unwind(AssertUnwindSafe(|| admission.counts())).is_err());
        clock.0.store(false, Ordering::SeqCst);
        assert_eq!(admission.counts(), counts(1, 0, 0));
        drop(permit);
        assert_eq!(admission.counts(), counts(0, 0, 0));
    });
}

// rule W5, O3
#[test]
fn threads_leave_nothing_behind() {
    within(60, || {
        let world = World::new();
        let admission = world
            .builder()
            .max_concurrent(3)
            .max_queued(10_000)
            .provider("a", |p| p.max_concurrent(2))
            .provider("b", |p| p)
            .build()
            .unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (admission, world) = (&admission, &world);
                scope.spawn(move || {
                    let _entered = world.enter();
                    let mut random = thread + 1;
                    let mut held: Vec<(Option<Acquire>, Option<Permit>)> = Vec::new();
                    for _ in 0..5_000 {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let pick = (random >> 33) as usize;
                        let provider = admission.provider(["a", "b"][pick % 2]).unwrap();
                        // Few enough for a core that audits all of them in every call.
                        let room = held.len() < 40;
                        match pick / 2 % 5 {
                            0 if room => {
                                held.push((Some(provider.key((pick / 10 % 3) as u64).enqueue()), None))
                            }
                            1 if room => held.push((Some(provider.acquire()), None)),
                            2 if !held.is_empty() => drop(held.swap_remove(pick / 10 % held.len())),
                            _ if !held.is_empty() => {
                                let at = pick / 10 % held.len();
                                let (future, permit) = &mut held[at];
                                if let Some(waiting) = future {
                                    let mut cx = Context::from_waker(Waker::noop());
                                    if let Poll::Ready(answer) = waiting.poll_acquire(&mut cx) {
                                        *future = None;
                                        *permit = answer.ok();
                                    }
                                }
                            }
                            _ => {}
                        }
                        let now = admission.counts();
                        assert!(now.running + now.granted <= 3, "{now:?}");
                    }
                });
            }
        });
        assert_eq!(admission.counts(), counts(0, 0, 0));
        assert_eq!(world.armed(), None);
        assert!(world.faces() <= 1);
    });
}

/// Wakes by unparking.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

// rule T6, W5
#[test]
fn no_wake_is_lost_between_threads_and_alarms() {
    while_it_moves(60, |answered| {
        let worlds = {
            let world = World::new();
            let twin = world.twin();
            [world, twin]
        };
        let admission = worlds[0]
            .builder()
            .hand_off(ms(1))
            .provider("paced", |p| p.interval(ms(1)).max_concurrent(2))
            .provider("quota", |p| p.window(3, ms(5)))
            .build()
            .unwrap();
        let finished = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (admission, world, finished) = (&admission, &worlds[thread % 2], &finished);
                scope.spawn(move || {
                    let _entered = world.enter();
                    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
                    let mut cx = Context::from_waker(&waker);
                    for n in 0..400 {
                        let provider = admission.provider(["paced", "quota"][n % 2]).unwrap();
                        let mut call = match n % 5 {
                            0 => provider.admission_timeout(ms(3)).acquire(),
                            1 => provider.key("same").acquire(),
                            _ => provider.acquire(),
                        };
                        let mut other = provider.acquire();
                        loop {
                            let answer = call.poll_acquire(&mut cx);
                            if n % 7 == 0 {
                                // Held, and polled no more: the others go on after the hand-off time.
                                let _ = other.poll_acquire(&mut cx);
                            }
                            if answer.is_ready() {
                                break;
                            }
                            std::thread::park();
                        }
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                    finished.fetch_add(1, Ordering::SeqCst);
                });
            }
            // Time goes on, and alarms ring, in a thread of their own.
            let mut micros = 0;
            while finished.load(Ordering::SeqCst) < 4 {
                micros += 50;
                worlds[0].set_nanos(micros * 1_000);
                for world in &worlds {
                    world.ring();
                }
                std::thread::yield_now();
            }
        });
        assert_eq!(admission.counts(), counts(0, 0, 0));
        assert!(worlds.iter().all(|world| world.armed().is_none()));
    });
}
