//! A runtime by hand: a clock that is set, alarms that are looked into, futures that are polled one
//! by one.

#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod dice;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, Spawn};
use admission_rt::{Builder, Counts, Instant};

pub(crate) type Admission = admission_rt::Admission<Hand>;
pub(crate) type Provider = admission_rt::Provider<Hand>;
pub(crate) type Acquire = admission_rt::Acquire<Hand>;
pub(crate) type RateLimiter = admission_rt::RateLimiter<Hand>;
pub(crate) type IntervalLimiter = admission_rt::IntervalLimiter<Hand>;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn counts(running: u32, queued: u32, granted: u32) -> Counts {
    Counts { running, granted, queued }
}

/// Panics when it is dropped, come what may.
#[derive(Clone, Debug)]
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

/// The runtime, by type.
pub(crate) struct Hand;

impl Runtime for Hand {
    type Alarm = HandAlarm;

    fn clock() -> Arc<dyn Clock> {
        match world() {
            Some(world) => world.clock.clone(),
            None => Arc::new(HandClock::default()),
        }
    }

    fn current() -> Option<RuntimeId> {
        let world = world()?;
        let when_asked = world.when_asked.lock().unwrap().take();
        if let Some(when_asked) = when_asked {
            when_asked();
        }
        Some(RuntimeId::new::<Self>(world.number))
    }

    fn alarm(bell: Bell) -> HandAlarm {
        let world = world().expect("asked for inside a world only");
        assert!(!world.breaks.load(Ordering::Relaxed), "no timers here");
        if world.dead.load(Ordering::SeqCst) {
            bell.lost();
        }
        let face = Arc::new(Face { bell, state: Mutex::default() });
        world.faces.lock().unwrap().push(face.clone());
        HandAlarm { face, world }
    }
}

impl Spawn for Hand {
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if let Some(world) = world().filter(|world| !world.over.load(Ordering::SeqCst)) {
            let task = Spawned { future: Box::pin(future), wakes: Arc::default(), seen: None };
            world.tasks.lock().unwrap().push(task);
        }
    }
}

/// A task that runs on its own, when the world lets it.
struct Spawned {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    wakes: Arc<Wakes>,
    /// How often it had been woken when it was last polled.
    seen: Option<usize>,
}

#[derive(Default)]
pub(crate) struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

/// One runtime.
pub(crate) struct World {
    number: u64,
    clock: Arc<HandClock>,
    faces: Mutex<Vec<Arc<Face>>>,
    dead: AtomicBool,
    /// Whether making an alarm panics.
    pub(crate) breaks: AtomicBool,
    /// Whether dropping an alarm panics.
    pub(crate) bursts: AtomicBool,
    /// Whether alarms ring from inside `arm` when they are due at once.
    pub(crate) rings_inside: AtomicUsize,
    /// Alarms for less than so many nanoseconds ring from inside `arm`.
    pub(crate) rings_below: AtomicU64,
    /// What happens inside the next `arm`.
    pub(crate) inside: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What happens when the runtime is next asked for: between the two turns of a first poll.
    pub(crate) when_asked: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    tasks: Mutex<Vec<Spawned>>,
    /// Whether no more tasks can be spawned.
    over: AtomicBool,
}

/// An alarm, seen from the world's side.
pub(crate) struct Face {
    pub(crate) bell: Bell,
    state: Mutex<FaceState>,
}

#[derive(Default)]
struct FaceState {
    due: Option<Instant>,
    /// Every `arm`, as the instant in milliseconds; `None` for a disarm.
    arms: Vec<Option<u64>>,
}

pub(crate) struct HandAlarm {
    face: Arc<Face>,
    world: Arc<World>,
}

impl Alarm for HandAlarm {
    fn arm(&mut self, delay: Option<Duration>) -> Result<(), Dead> {
        if self.world.dead.load(Ordering::SeqCst) {
            return Err(Dead);
        }
        let due = delay.map(|delay| self.world.clock.now() + delay);
        let mut state = self.face.state.lock().unwrap();
        state.due = due;
        state.arms.push(due.map(|due| due.as_nanos() / 1_000_000));
        drop(state);
        let inside = self.world.inside.lock().unwrap().take();
        if let Some(inside) = inside {
            inside();
        }
        if due.is_some() && self.world.rings_inside.load(Ordering::SeqCst) > 0 {
            self.world.rings_inside.fetch_sub(1, Ordering::SeqCst);
            self.face.state.lock().unwrap().due = None;
            self.face.bell.ring();
        }
        let least = Duration::from_nanos(self.world.rings_below.load(Ordering::SeqCst));
        if delay.is_some_and(|delay| delay < least) {
            self.face.state.lock().unwrap().due = None;
            self.face.bell.ring();
        }
        Ok(())
    }
}

impl Drop for HandAlarm {
    fn drop(&mut self) {
        self.face.state.lock().unwrap().due = None;
        self.world.faces.lock().unwrap().retain(|face| !Arc::ptr_eq(face, &self.face));
        assert!(!self.world.bursts.load(Ordering::SeqCst), "the alarm's own");
    }
}

thread_local! {
    static WORLD: RefCell<Option<Arc<World>>> = const { RefCell::new(None) };
}

fn world() -> Option<Arc<World>> {
    WORLD.with(|world| world.borrow().clone())
}

/// Leaves the world when dropped.
pub(crate) struct Entered(Option<Arc<World>>);

impl Drop for Entered {
    fn drop(&mut self) {
        WORLD.with(|world| *world.borrow_mut() = self.0.take());
    }
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Self::beside(Arc::default())
    }

    /// Another runtime with the same clock.
    pub(crate) fn twin(&self) -> Arc<Self> {
        Self::beside(self.clock.clone())
    }

    fn beside(clock: Arc<HandClock>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            clock,
            faces: Mutex::default(),
            dead: AtomicBool::new(false),
            breaks: AtomicBool::new(false),
            bursts: AtomicBool::new(false),
            rings_inside: AtomicUsize::new(0),
            rings_below: AtomicU64::new(0),
            inside: Mutex::default(),
            when_asked: Mutex::default(),
            tasks: Mutex::default(),
            over: AtomicBool::new(false),
        })
    }

    /// From here on, this thread is run by this runtime.
    pub(crate) fn enter(self: &Arc<Self>) -> Entered {
        Entered(WORLD.with(|world| world.borrow_mut().replace(self.clone())))
    }

    pub(crate) fn builder(&self) -> Builder<Hand> {
        Admission::builder().clock(self.clock.clone())
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    pub(crate) fn now_millis(&self) -> u64 {
        self.clock.now().as_nanos() / 1_000_000
    }

    /// Moves the clock, and rings nothing.
    pub(crate) fn set(&self, millis: u64) {
        self.set_nanos(millis * 1_000_000);
    }

    pub(crate) fn set_nanos(&self, nanos: u64) {
        self.clock.0.store(nanos, Ordering::SeqCst);
    }

    /// Moves the clock, and rings what is due on the way, in order.
    pub(crate) fn advance_to(&self, millis: u64) {
        let until = Instant::from_millis(millis);
        loop {
            let due = self.faces.lock().unwrap().iter().filter_map(|face| face.due()).min();
            match due {
                Some(due) if due <= until => {
                    self.set_nanos(due.as_nanos().max(self.clock.now().as_nanos()));
                    self.ring();
                }
                _ => break,
            }
        }
        self.set(millis);
    }

    /// Rings what is due now; says how many alarms that were.
    pub(crate) fn ring(&self) -> usize {
        let faces = self.faces.lock().unwrap().clone();
        let due = faces.into_iter().filter(|face| face.take_due(self.clock.now()));
        due.map(|face| face.bell.ring()).count()
    }

    /// The one alarm's ring, whenever it was due.
    pub(crate) fn ring_early(&self) {
        let face = self.face();
        face.state.lock().unwrap().due = None;
        face.bell.ring();
    }

    /// When the one alarm rings, in milliseconds; `None` if it is not armed.
    pub(crate) fn armed(&self) -> Option<u64> {
        self.armed_nanos().map(|nanos| nanos / 1_000_000)
    }

    pub(crate) fn armed_nanos(&self) -> Option<u64> {
        let faces = self.faces.lock().unwrap();
        assert!(faces.len() <= 1, "one alarm per coordinator");
        faces.first()?.due().map(Instant::as_nanos)
    }

    /// Everything that the one alarm was told.
    pub(crate) fn arms(&self) -> Vec<Option<u64>> {
        self.face().state.lock().unwrap().arms.clone()
    }

    pub(crate) fn face(&self) -> Arc<Face> {
        self.faces.lock().unwrap().first().expect("an alarm").clone()
    }

    pub(crate) fn faces(&self) -> usize {
        self.faces.lock().unwrap().len()
    }

    /// Polls the tasks that run on their own until none has anything to do.
    pub(crate) fn run(&self) {
        loop {
            let mut tasks = self.tasks.lock().unwrap();
            let Some(next) = tasks.iter().position(|task| task.seen != Some(task.wakes.count())) else {
                return;
            };
            let mut task = tasks.remove(next);
            drop(tasks);
            task.seen = Some(task.wakes.count());
            let waker = Waker::from(task.wakes.clone());
            if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                self.tasks.lock().unwrap().push(task);
            }
        }
    }

    /// How many of these tasks there are, and how many of them were woken.
    pub(crate) fn task_counts(&self) -> (usize, usize) {
        let tasks = self.tasks.lock().unwrap();
        let woken = tasks.iter().filter(|task| task.seen != Some(task.wakes.count()));
        (tasks.len(), woken.count())
    }

    /// Polls one of these tasks, as a runtime does that survives its panics: the first that was woken after
    /// so many others, or one that was not. The panic of one that is gone by it.
    pub(crate) fn run_nth(&self, nth: usize, is_woken: bool) -> Result<(), Box<dyn std::any::Any + Send>> {
        let mut tasks = self.tasks.lock().unwrap();
        let fits = |task: &Spawned| !is_woken || task.seen != Some(task.wakes.count());
        let place = tasks.iter().enumerate().filter(|(_, task)| fits(task)).nth(nth);
        let Some((place, _)) = place else { return Ok(()) };
        let mut task = tasks.remove(place);
        drop(tasks);
        task.seen = Some(task.wakes.count());
        let waker = Waker::from(task.wakes.clone());
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            task.future.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        if let Ok(Poll::Pending) = polled {
            self.tasks.lock().unwrap().push(task);
            return Ok(());
        }
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(task)));
        polled.map(|_| ()).and(dropped)
    }

    /// Rings every alarm, due or not.
    pub(crate) fn ring_all(&self) {
        let faces = self.faces.lock().unwrap().clone();
        for face in faces {
            face.state.lock().unwrap().due = None;
            face.bell.ring();
        }
    }

    /// Loses what is armed: it will not ring.
    pub(crate) fn forget_alarms(&self) {
        for face in self.faces.lock().unwrap().iter() {
            face.state.lock().unwrap().due = None;
        }
    }

    /// When the first alarm rings.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.faces.lock().unwrap().iter().filter_map(|face| face.due()).min()
    }

    /// Polls every one of these tasks once, woken or not; says how many are left.
    pub(crate) fn poll_tasks(&self) -> usize {
        let mut left = std::mem::take(&mut *self.tasks.lock().unwrap());
        left.retain_mut(|task| {
            let mut cx = Context::from_waker(Waker::noop());
            task.future.as_mut().poll(&mut cx).is_pending()
        });
        let mut tasks = self.tasks.lock().unwrap();
        tasks.splice(0..0, left);
        tasks.len()
    }

    /// No more tasks can be spawned, and those that are there are dropped.
    pub(crate) fn end_tasks(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.drop_tasks();
    }

    /// Drops one of these tasks, as a runtime does that gives it up.
    pub(crate) fn drop_nth(&self, nth: usize) {
        let task = self.tasks.lock().unwrap().remove(nth);
        drop(task);
    }

    /// Drops the tasks that run on their own; says how many there were.
    pub(crate) fn drop_tasks(&self) -> usize {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap());
        tasks.len()
    }

    /// The runtime is gone: its alarms answer `Dead`, and say so first if `aloud`.
    pub(crate) fn die(&self, aloud: bool) {
        self.dead.store(true, Ordering::SeqCst);
        let faces = self.faces.lock().unwrap().clone();
        for face in faces {
            face.state.lock().unwrap().due = None;
            if aloud {
                face.bell.lost();
            }
        }
    }
}

impl Face {
    fn due(&self) -> Option<Instant> {
        self.state.lock().unwrap().due
    }

    fn take_due(&self, now: Instant) -> bool {
        let mut state = self.state.lock().unwrap();
        let is_due = state.due.is_some_and(|due| due <= now);
        if is_due {
            state.due = None;
        }
        is_due
    }
}

/// A task: a future, and how often it was woken.
pub(crate) struct Task<F> {
    pub(crate) future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
pub(crate) struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wakes {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl<F: Future> Task<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: Box::pin(future), wakes: Arc::default() }
    }

    /// A task that has been polled once, and waits.
    pub(crate) fn waiting(future: F) -> Self {
        let mut task = Self::new(future);
        assert!(task.poll().is_pending());
        task
    }

    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(self.wakes.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    pub(crate) fn poll_with(&mut self, waker: &Waker) -> Poll<F::Output> {
        self.future.as_mut().poll(&mut Context::from_waker(waker))
    }

    /// The answer; panics if there is none yet.
    pub(crate) fn ready(&mut self) -> F::Output {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("still waits"),
        }
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.count()
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.wakes() > 0
    }

    /// How many references there are to the task's waker besides the task's own.
    pub(crate) fn wakers_held(&self) -> usize {
        Arc::strong_count(&self.wakes) - 1
    }
}

/// Fails the test instead of hanging it.
pub(crate) fn within(secs: u64, test: impl FnOnce() + Send + 'static) {
    while_it_moves(secs, |_| test());
}

/// Fails the test once it has counted nothing for so long. For many steps of many threads: a busy machine
/// takes what time it likes over all of them.
pub(crate) fn while_it_moves(secs: u64, test: impl FnOnce(&AtomicUsize) + Send + 'static) {
    let counter = Arc::new(AtomicUsize::new(0));
    let (done, waits) = std::sync::mpsc::channel();
    let counts = counter.clone();
    let thread = std::thread::spawn(move || {
        test(&counts);
        let _ = done.send(());
    });
    let mut seen = 0;
    while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = waits.recv_timeout(Duration::from_secs(secs))
    {
        let counted = counter.load(Ordering::SeqCst);
        assert!(counted > seen, "hangs, having counted {counted}");
        seen = counted;
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A waker that panics: a stranger's.
pub(crate) fn panicking_waker() -> Waker {
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a stranger's");
        }
    }

    Waker::from(Arc::new(Panics))
}
