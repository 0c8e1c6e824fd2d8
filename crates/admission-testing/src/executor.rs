//! The executor: one thread, one queue, and a clock that moves when the queue is empty.
//!
//! Owns: tasks, the order in which they run (the order in which they were woken), and the rule that
//! time jumps to the earliest timer only when nothing can run. Lacks: fairness, priorities, threads.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use admission_rt::Instant;

use crate::timers::Timers;
use crate::{Alarms, Arming, Firing, VirtualClock};

/// A world of its own: tasks, timers and a clock, on the thread that made it.
///
/// Tasks run one at a time, in the order in which they were woken. When none can run, the clock
/// jumps to the earliest timer. So every run of the same program is the same run.
///
/// Dropping it is the end of its runtime: tasks are dropped first, then every alarm is lost.
#[derive(Debug)]
pub struct Simulation {
    world: Rc<World>,
}

struct World {
    timers: Arc<Timers>,
    ready: Arc<Ready>,
    tasks: RefCell<BTreeMap<u64, Box<dyn Task>>>,
    next: Cell<u64>,
    running: Cell<bool>,
}

impl Simulation {
    /// An empty world whose clock reads zero.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(VirtualClock::new())
    }

    /// An empty world with this clock.
    #[must_use]
    pub fn with_clock(clock: VirtualClock) -> Self {
        let world = World {
            timers: Arc::new(Timers::new(clock)),
            ready: Arc::default(),
            tasks: RefCell::default(),
            next: Cell::new(0),
            running: Cell::new(false),
        };
        Self { world: Rc::new(world) }
    }

    /// Its clock.
    #[must_use]
    pub fn clock(&self) -> VirtualClock {
        self.world.timers.clock.clone()
    }

    /// What its alarms did so far.
    #[must_use]
    pub fn alarms(&self) -> Alarms {
        self.world.timers.alarms()
    }

    /// When its earliest timer rings, alarms and sleeps alike, faults included; `None` if none is armed
    /// or none ever rings. For a driver of one's own that moves the clock of several simulations.
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.world.timers.next()
    }

    /// A handle that can be sent elsewhere.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { timers: Arc::clone(&self.world.timers) }
    }

    /// Asks `policy` about every alarm that is armed from now on; the answer says when it rings.
    /// Sleeps are not asked about.
    pub fn set_timer_policy(&self, policy: impl FnMut(Arming) -> Firing + Send + 'static) {
        self.handle().set_timer_policy(policy);
    }

    /// Adds a task. Dropping its handle lets it run on.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.world.spawn(future)
    }

    /// Runs everything until `future` is done.
    ///
    /// # Panics
    ///
    /// When `future` can never be done, because nothing can run and no timer is armed; when it is
    /// called from inside this simulation; and when `future` panics.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _running = self.world.run();
        let mut future = pin!(future);
        let id = self.world.fresh();
        let pulse = Pulse::new(id, &self.world.ready);
        let waker = Waker::from(Arc::clone(&pulse));
        waker.wake_by_ref();
        loop {
            match self.world.ready.pop() {
                Some(next) if next == id => {
                    pulse.begin();
                    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                        return output;
                    }
                }
                Some(next) => self.world.poll(next),
                None => {
                    let fired = self.world.timers.fire(Instant::NEVER);
                    assert!(fired, "nothing can run and no timer is armed: the future can never be done");
                }
            }
        }
    }

    /// Runs what can run now. No time passes.
    pub fn run_ready(&self) {
        let _running = self.world.run();
        while let Some(next) = self.world.ready.pop() {
            self.world.poll(next);
        }
    }

    /// Runs everything until nothing can run and no timer is armed, through as much time as it takes.
    pub fn run_until_idle(&self) {
        loop {
            self.run_ready();
            let _running = self.world.run();
            if !self.world.timers.fire(Instant::NEVER) {
                return;
            }
        }
    }

    /// Runs everything through so much time, and leaves the clock at its end.
    pub fn run_for(&self, time: Duration) {
        let end = self.clock().now() + time;
        loop {
            self.run_ready();
            let _running = self.world.run();
            if !self.world.timers.fire(end) {
                self.clock().advance_to(end);
                return;
            }
        }
    }
}

impl Default for Simulation {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        let entered = Entered::new(&self.world);
        // A task that is dropped may spawn another.
        loop {
            let tasks = self.world.tasks.take();
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
        }
        self.world.ready.clear();
        drop(entered);
        self.world.timers.die();
    }
}

/// What can be asked of a simulation from inside it, or from another thread.
#[derive(Clone, Debug)]
pub struct Handle {
    timers: Arc<Timers>,
}

impl Handle {
    /// The simulation that runs the caller, if there is one.
    #[must_use]
    pub fn current() -> Option<Self> {
        current().map(|timers| Self { timers })
    }

    /// Its clock.
    #[must_use]
    pub fn clock(&self) -> VirtualClock {
        self.timers.clock.clone()
    }

    /// What its alarms did so far.
    #[must_use]
    pub fn alarms(&self) -> Alarms {
        self.timers.alarms()
    }

    /// Asks `policy` about every alarm that is armed from now on; the answer says when it rings.
    pub fn set_timer_policy(&self, policy: impl FnMut(Arming) -> Firing + Send + 'static) {
        self.timers.set_policy(Some(Box::new(policy)));
    }
}

/// Adds a task to the simulation that runs the caller.
///
/// # Panics
///
/// Outside a simulation.
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    try_spawn(future).expect("spawn is called inside a simulation")
}

/// Like [`spawn`]; outside a simulation the future is dropped.
pub(crate) fn try_spawn<F>(future: F) -> Option<JoinHandle<F::Output>>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let world = CURRENT.try_with(|stack| stack.borrow().last().cloned()).ok().flatten();
    world.map(|world| world.spawn(future))
}

/// Waits for so much virtual time.
///
/// # Panics
///
/// Outside a simulation.
pub fn sleep(time: Duration) -> Sleep {
    let timers = current().expect("sleep is called inside a simulation");
    let at = timers.clock.now() + time;
    Sleep { timers, at, place: None }
}

/// What the clock of the simulation that runs the caller reads; zero outside one.
#[must_use]
pub fn now() -> Instant {
    current().map_or(Instant::ZERO, |timers| timers.clock.now())
}

/// Lets every task that can run now run once before the caller goes on.
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`sleep`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    timers: Arc<Timers>,
    at: Instant,
    place: Option<(Instant, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.timers.clock.now() >= self.at {
            return Poll::Ready(());
        }
        let place = self.timers.sleep(self.at, self.place, cx.waker());
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.timers.wake_up(place);
        }
    }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A task that was spawned: a future of its output.
pub struct JoinHandle<T> {
    pulse: Arc<Pulse>,
    outcome: Arc<Mutex<Outcome<T>>>,
}

impl<T> JoinHandle<T> {
    /// How often its future has been polled.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.pulse.polls.load(Ordering::Relaxed)
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        !matches!(lock(&self.outcome).state, State::Running)
    }

    /// Has its future dropped when the simulation next comes to it, unless it ends before.
    pub fn abort(&self) {
        self.pulse.aborted.store(true, Ordering::Relaxed);
        self.pulse.wake_by_ref();
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    ///
    /// When it is polled again after it was done.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut outcome = lock(&self.outcome);
        match std::mem::replace(&mut outcome.state, State::Taken) {
            State::Running => {
                outcome.state = State::Running;
                let old = outcome.waker.replace(cx.waker().clone());
                drop(outcome);
                drop(old);
                Poll::Pending
            }
            State::Ended(result) => Poll::Ready(result),
            State::Taken => panic!("a join handle is polled again after it was done"),
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("polls", &self.polls()).finish_non_exhaustive()
    }
}

/// Why a task has no output.
#[non_exhaustive]
pub enum JoinError {
    /// It panicked, with this.
    Panicked(Box<dyn Any + Send>),
    /// Its future was dropped before it was done.
    Cancelled,
}

impl JoinError {
    /// Goes on with the panic of the task, if it was one.
    ///
    /// # Panics
    ///
    /// Always; that is what it is for.
    pub fn resume(self) -> ! {
        match self {
            Self::Panicked(payload) => resume_unwind(payload),
            Self::Cancelled => panic!("the task was cancelled"),
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked(_) => "the task panicked",
            Self::Cancelled => "the task was cancelled",
        })
    }
}

impl std::error::Error for JoinError {}

struct Outcome<T> {
    state: State<T>,
    waker: Option<Waker>,
}

enum State<T> {
    Running,
    Ended(Result<T, JoinError>),
    Taken,
}

fn lock<T>(outcome: &Mutex<T>) -> MutexGuard<'_, T> {
    outcome.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let id = self.fresh();
        let pulse = Pulse::new(id, &self.ready);
        let outcome = Arc::new(Mutex::new(Outcome { state: State::Running, waker: None }));
        let task = Spawned {
            future: Some(Box::pin(future)),
            pulse: Arc::clone(&pulse),
            outcome: Arc::clone(&outcome),
        };
        self.tasks.borrow_mut().insert(id, Box::new(task));
        pulse.wake_by_ref();
        JoinHandle { pulse, outcome }
    }

    /// Polls one task, which is out of the table meanwhile so that it may spawn others.
    fn poll(&self, id: u64) {
        let task = self.tasks.borrow_mut().remove(&id);
        if let Some(mut task) = task {
            if task.poll() {
                self.tasks.borrow_mut().insert(id, task);
            }
        }
    }

    fn fresh(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    fn run(self: &Rc<Self>) -> Running<'_> {
        assert!(!self.running.replace(true), "a simulation is run by one caller at a time");
        Running { world: self, _entered: Entered::new(self) }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = self.tasks.try_borrow().map_or(0, |tasks| tasks.len());
        f.debug_struct("World").field("tasks", &tasks).field("timers", &self.timers).finish_non_exhaustive()
    }
}

trait Task {
    /// Whether it should be kept.
    fn poll(&mut self) -> bool;
}

/// A future, and where its output goes. Dropped before it is done, it says so there.
struct Spawned<F: Future> {
    future: Option<Pin<Box<F>>>,
    pulse: Arc<Pulse>,
    outcome: Arc<Mutex<Outcome<F::Output>>>,
}

impl<F: Future> Spawned<F> {
    fn end(&self, result: Result<F::Output, JoinError>) {
        let mut outcome = lock(&self.outcome);
        if !matches!(outcome.state, State::Running) {
            return;
        }
        outcome.state = State::Ended(result);
        let waker = outcome.waker.take();
        drop(outcome);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<F: Future> Task for Spawned<F> {
    fn poll(&mut self) -> bool {
        self.pulse.begin();
        let Some(future) = &mut self.future else { return false };
        if self.pulse.aborted.load(Ordering::Relaxed) {
            return false;
        }
        let waker = Waker::from(Arc::clone(&self.pulse));
        let polled =
            catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
        let result = match polled {
            Ok(Poll::Pending) => return true,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(JoinError::Panicked(payload)),
        };
        // The future goes before anybody hears of its end, and may panic on its way.
        let future = self.future.take();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(future)));
        self.end(result.and_then(|output| dropped.map(|()| output).map_err(JoinError::Panicked)));
        false
    }
}

impl<F: Future> Drop for Spawned<F> {
    fn drop(&mut self) {
        self.future = None;
        self.end(Err(JoinError::Cancelled));
    }
}

/// Who can run, in the order in which they were woken.
#[derive(Default)]
struct Ready {
    queue: Mutex<VecDeque<u64>>,
}

impl Ready {
    fn push(&self, id: u64) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(id);
    }

    fn pop(&self) -> Option<u64> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn clear(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The waker of one task. Woken twice before it runs, it runs once.
struct Pulse {
    id: u64,
    ready: Arc<Ready>,
    woken: AtomicBool,
    aborted: AtomicBool,
    polls: AtomicU64,
}

impl Pulse {
    fn new(id: u64, ready: &Arc<Ready>) -> Arc<Self> {
        Arc::new(Self {
            id,
            ready: Arc::clone(ready),
            woken: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            polls: AtomicU64::new(0),
        })
    }

    /// From here on a wake counts again.
    fn begin(&self) {
        self.woken.store(false, Ordering::SeqCst);
        self.polls.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wake for Pulse {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.ready.push(self.id);
        }
    }
}

thread_local! {
    /// The simulations that are running on this thread, one inside the other.
    static CURRENT: RefCell<Vec<Rc<World>>> = const { RefCell::new(Vec::new()) };
}

/// The timers of the innermost simulation. Nothing, rather than a panic, on a thread that is ending.
pub(crate) fn current() -> Option<Arc<Timers>> {
    CURRENT.try_with(|stack| stack.borrow().last().map(|world| Arc::clone(&world.timers))).ok().flatten()
}

/// While it lives, a simulation is the current one of its thread.
struct Entered {
    entered: bool,
}

impl Entered {
    fn new(world: &Rc<World>) -> Self {
        let entered = CURRENT.try_with(|stack| stack.borrow_mut().push(Rc::clone(world))).is_ok();
        Self { entered }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.entered {
            let world = CURRENT.try_with(|stack| stack.borrow_mut().pop());
            drop(world);
        }
    }
}

/// While it lives, nobody else runs the simulation.
struct Running<'a> {
    world: &'a World,
    _entered: Entered,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.world.running.set(false);
    }
}
