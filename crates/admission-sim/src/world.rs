//! The world of one history: the coordinator, its callers, their runtimes, and who watches.
//!
//! Owns: everything that a caller does. No borrow of it is held while the library runs, since any call may
//! wake somebody who comes back in. Lacks the script, which is the history's, and judgement.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use admission_rt::{AbortHandle, Permit, Rejected, Retry, RetryError};
use admission_testing::{Admission, Call, Handle, Provider, Simulation, VirtualClock};

use crate::caller::{Awaited, Caller, Operation, Planned, Slot, Source};
use crate::clock::SkewedClock;
use crate::faults::{Fault, Faults};
use crate::limits::{Built, Ms, TOKENS};
use crate::observer::{Observer, Phase, reason_of};
use crate::plan::{CallSpec, How, Setup, Signal};
use crate::timers::Timers;

pub(crate) struct World {
    pub(crate) admission: RefCell<Option<Admission>>,
    /// A handle of each provider of the configuration; the others are asked for each time.
    pub(crate) providers: RefCell<Vec<Provider>>,
    pub(crate) clock: Arc<SkewedClock>,
    pub(crate) host: VirtualClock,
    pub(crate) runtimes: RefCell<Vec<Rc<Simulation>>>,
    pub(crate) timers: Arc<Mutex<Timers>>,
    callers: RefCell<Vec<Rc<Caller>>>,
    /// The callers by their numbers in the script.
    pub(crate) numbers: RefCell<BTreeMap<usize, usize>>,
    pub(crate) observer: RefCell<Observer>,
    pub(crate) faults: RefCell<Faults>,
    /// What happens, in words, if anybody wants to read it.
    transcript: RefCell<Option<Vec<String>>>,
    /// How often the coordinator was called, by anybody.
    pub(crate) calls: Cell<u64>,
    /// The latest time that the coordinator let pass for certain.
    pub(crate) passed: Cell<u64>,
}

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// The world of this thread, if one is going on.
pub(crate) fn with_world<T>(act: impl FnOnce(&World) -> T) -> Option<T> {
    let world = WORLD.try_with(|world| world.borrow().clone()).ok().flatten();
    world.map(|world| act(&world))
}

pub(crate) fn set_world(world: Option<Rc<World>>) {
    let old = WORLD.with(|place| place.replace(world));
    drop(old);
}

impl World {
    pub(crate) fn new(setup: &Setup, is_told: bool) -> Rc<Self> {
        let host = VirtualClock::new();
        let clock = Arc::new(SkewedClock::new(host.clone()));
        let mut builder = Admission::builder()
            .clock(clock.clone())
            .unit(TOKENS)
            .max_queued(setup.max_queued)
            .hand_off(Duration::from_nanos(setup.hand_off));
        if let Some(calls) = setup.client.max_concurrent {
            builder = builder.max_concurrent(calls);
        }
        for pacer in &setup.client.pacers {
            builder = match pacer.built() {
                Built::Interval(interval) => builder.paced(interval),
                Built::Window(window) => builder.log(window),
            };
        }
        for (n, limits) in setup.providers.iter().enumerate() {
            builder = builder.provider(format!("p{n}"), |p| limits.build(p));
        }
        if let Some(template) = &setup.template {
            builder = builder.template(|p| template.build(p));
        }
        if let Some(wait) = setup.max_wait {
            builder = builder.max_wait(Duration::from_nanos(wait));
        }
        let admission = builder.build().expect("the limits that are drawn are in order");
        let providers = (0..setup.providers.len()).filter_map(|n| admission.provider(&format!("p{n}")).ok());
        let providers = providers.collect();
        let world = Rc::new(Self {
            admission: RefCell::new(Some(admission)),
            providers: RefCell::new(providers),
            clock,
            host,
            runtimes: RefCell::default(),
            timers: Arc::new(Mutex::new(Timers::new(setup.runtimes))),
            callers: RefCell::default(),
            numbers: RefCell::default(),
            observer: RefCell::new(Observer::new(setup)),
            faults: RefCell::default(),
            transcript: RefCell::new(is_told.then(Vec::new)),
            calls: Cell::new(0),
            passed: Cell::new(0),
        });
        let runtimes = (0..setup.runtimes).map(|n| world.runtime(n)).collect();
        *world.runtimes.borrow_mut() = runtimes;
        world
    }

    /// A new runtime, the n-th.
    pub(crate) fn runtime(&self, n: usize) -> Rc<Simulation> {
        let simulation = Simulation::with_clock(self.host.clone());
        let (timers, clock) = (self.timers.clone(), Arc::downgrade(&self.clock));
        simulation.set_timer_policy(move |arming| {
            let mut timers = timers.lock().unwrap_or_else(PoisonError::into_inner);
            let reading = clock.upgrade().map_or(0, |clock| clock.reading());
            timers.armed(n, arming.now.as_nanos(), arming.due.as_nanos(), reading)
        });
        Rc::new(simulation)
    }

    pub(crate) fn lock_timers(&self) -> std::sync::MutexGuard<'_, Timers> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn caller(&self, n: usize) -> Rc<Caller> {
        self.callers.borrow()[n].clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.callers.borrow().len()
    }

    pub(crate) fn admission(&self) -> Option<Admission> {
        self.admission.borrow().clone()
    }

    pub(crate) fn phase(&self, n: usize) -> Phase {
        self.observer.borrow().calls[n].phase
    }

    pub(crate) fn note(&self, fault: Fault) {
        self.faults.borrow_mut().note(fault);
    }

    pub(crate) fn violate(&self, rule: &'static str, what: impl Into<String>) {
        self.observer.borrow_mut().violate(rule, what);
    }

    /// One line of the transcript.
    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        let now = self.host.now().as_nanos();
        let depth = self.observer.borrow().depth as usize;
        if let Some(lines) = &mut *self.transcript.borrow_mut() {
            lines.push(format!("{:>12}  {}{}", Ms(now).to_string(), "    ".repeat(depth), what()));
        }
    }

    pub(crate) fn take_transcript(&self) -> Vec<String> {
        self.transcript.take().unwrap_or_default()
    }

    /// The time that a call which is made now goes by.
    pub(crate) fn now(&self) -> u64 {
        self.clock.reading().max(self.clock.seen())
    }

    /// Runs something where a runtime polls, unless one does already.
    pub(crate) fn within<T>(&self, runtime: usize, act: impl FnOnce() -> T) -> T {
        if Handle::current().is_some() || self.observer.borrow().depth > 0 {
            return act();
        }
        let simulation = self.runtimes.borrow()[runtime].clone();
        simulation.block_on(async { act() })
    }

    /// A call was made for certain in which the coordinator let time pass. Reading its clock does not tell: it
    /// does so, too, where somebody only looks or leaves.
    pub(crate) fn time_passed(&self) {
        self.passed.set(self.passed.get().max(self.clock.reading()));
    }

    /// Calls the coordinator; a panic of a waker's is its own affair, any other is not.
    pub(crate) fn guarded<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        self.calls.set(self.calls.get() + 1);
        match catch_unwind(AssertUnwindSafe(act)) {
            Ok(value) => Some(value),
            Err(payload) => {
                self.caught(&*payload);
                None
            }
        }
    }

    /// Says whether a panic was planned, and which one.
    fn caught(&self, payload: &(dyn Any + Send)) -> Option<Planned> {
        let planned = payload.downcast_ref::<Planned>().copied();
        if planned.is_none() {
            let word = payload.downcast_ref::<&str>().map(|word| (*word).to_owned());
            let word = word.or_else(|| payload.downcast_ref::<String>().cloned());
            self.violate("no panics", word.unwrap_or_default());
        }
        planned
    }
}

// What callers do.
impl World {
    /// A new caller, who makes its call; says its number.
    pub(crate) fn call(&self, spec: CallSpec) -> Option<usize> {
        let admission = self.admission()?;
        let provider = match self.providers.borrow().get(spec.provider) {
            Some(provider) => provider.clone(),
            None => admission.provider(&format!("p{}", spec.provider)).ok()?,
        };
        let n = self.observer.borrow_mut().call(&spec);
        let mut call = provider.call();
        if let Some(key) = spec.key {
            call = if spec.is_text { call.key(format!("key {key}")) } else { call.key(key) };
        }
        if spec.tokens > 0 {
            call = call.cost(TOKENS, spec.tokens);
        }
        if spec.has_unknown_unit {
            call = call.cost("gold", 1);
        }
        if let Some(timeout) = spec.timeout {
            call = call.admission_timeout(Duration::from_nanos(timeout));
        }
        let (mut handle, mut source) = (None, None);
        match spec.signal {
            Signal::None => {}
            Signal::Handle | Signal::Fired => {
                let (new, signal) = AbortHandle::new();
                call = call.abort_signal(&signal);
                handle = Some(new);
            }
            Signal::Future => {
                let new = Arc::new(Source::default());
                let awaited = Awaited { caller: n, source: new.clone() };
                call = call.abort_signal(&admission_rt::AbortSignal::from_future(awaited));
                source = Some(new);
            }
        }
        let caller = Rc::new(Caller::new(n, spec.clone(), handle, source));
        self.callers.borrow_mut().push(caller.clone());
        if spec.signal == Signal::Fired {
            self.abort(n);
        }
        match spec.how {
            How::Acquire => caller.slot.replace(Slot::Acquire(call.acquire())),
            How::Run => caller.slot.replace(Slot::Run(Box::pin(call.run(move || Operation::begin(n))))),
            How::Retry => caller.slot.replace(Slot::Run(Box::pin(retried(call, n)))),
            How::Enqueue => {
                self.observer.borrow_mut().begins(n, self.now());
                let acquire = self.within(spec.runtime, || self.guarded(|| call.enqueue()));
                match acquire {
                    Some(acquire) => {
                        self.observer.borrow_mut().enqueued(n);
                        caller.slot.replace(Slot::Acquire(acquire))
                    }
                    None => {
                        self.observer.borrow_mut().dropped(n, self.now());
                        Slot::Nothing
                    }
                }
            }
            How::TryAcquire => {
                self.observer.borrow_mut().begins(n, self.now());
                let answer = self.within(spec.runtime, || self.guarded(|| call.try_acquire()));
                match answer {
                    Some(answer) => self.answered(n, answer, false),
                    // It may have started, and is over already.
                    None => self.observer.borrow_mut().dropped(n, self.now()),
                }
                Slot::Nothing
            }
        };
        Some(n)
    }

    fn answered(&self, n: usize, answer: Result<Permit, Rejected>, was_outside: bool) {
        let caller = self.caller(n);
        match answer {
            Ok(permit) => {
                self.starts(n);
                drop(caller.slot.replace(Slot::Permit(permit)));
            }
            Err(rejected) => {
                self.say(|| format!("caller {n} → {rejected}"));
                self.faults.borrow_mut().refused += 1;
                self.observer.borrow_mut().told(n, &rejected, was_outside, self.now());
            }
        }
    }

    /// Called where the call starts: in its operation, or where its permit came out.
    pub(crate) fn starts(&self, n: usize) {
        self.say(|| format!("caller {n} → starts"));
        self.faults.borrow_mut().started += 1;
        let caller = self.caller(n);
        caller.started.set(Some(self.host.now().as_nanos()));
        self.observer.borrow_mut().starts(n, self.now());
        // rule I3: only a call that may be tried again has its signal for longer than it waits.
        if caller.spec.how != How::Retry && caller.is_signal_held() {
            self.violate("I3", format!("caller {n} starts, and its signal's future is kept"));
        }
        self.time_passed();
    }

    /// Called right before the coordinator hears that the call is over.
    pub(crate) fn ends(&self, n: usize) {
        self.say(|| format!("caller {n} → is over"));
        self.observer.borrow_mut().ends(n, self.now());
    }

    /// A waker of the call is woken.
    pub(crate) fn woken(&self, n: usize, is_latest: bool) {
        let caller = self.caller(n);
        {
            let mut observer = self.observer.borrow_mut();
            if is_latest {
                observer.woken(n, self.clock.seen());
            }
            if observer.depth > 3 {
                return;
            }
            observer.depth += 1;
        }
        if is_latest && self.phase(n) == Phase::Waiting {
            self.say(|| format!("caller {n} is woken"));
        }
        let reentries = caller.reentries.take();
        for reentry in reentries {
            self.observer.borrow_mut().nested += 1;
            self.reenter(reentry);
        }
        self.observer.borrow_mut().depth -= 1;
        if caller.panics_in_wake.take() {
            self.observer.borrow_mut().nested += 1;
            self.note(Fault::PanicInWaker);
            self.say(|| format!("caller {n}: its waker panics"));
            Planned::Waker.panic();
        }
    }

    /// Polls the call's future, wherever the thread is.
    pub(crate) fn poll(&self, n: usize) {
        let caller = self.caller(n);
        let mut slot = caller.take();
        if !matches!(slot, Slot::Acquire(_) | Slot::Run(_)) {
            // One that is being polled already stays so.
            if !matches!(slot, Slot::Busy) {
                caller.put(slot);
            }
            return;
        }
        let was_outside = Handle::current().is_none();
        self.faults.borrow_mut().polls += 1;
        let is_running = self.phase(n) == Phase::Running;
        if !is_running {
            self.observer.borrow_mut().begins(n, self.now());
        }
        let waker = caller.waker();
        let mut cx = Context::from_waker(&waker);
        for _ in 0..50 {
            self.calls.set(self.calls.get() + 1);
            let polled = catch_unwind(AssertUnwindSafe(|| match &mut slot {
                Slot::Acquire(acquire) => Pin::new(acquire).poll(&mut cx).map(|answer| answer.map(Some)),
                Slot::Run(run) => run.as_mut().poll(&mut cx).map(|answer| answer.map(|()| None)),
                _ => Poll::Pending,
            }));
            match polled {
                Ok(Poll::Pending) => {
                    caller.put(slot);
                    if self.phase(n) == Phase::Waiting {
                        self.say(|| format!("caller {n} → waits"));
                    }
                    if !is_running {
                        self.observer.borrow_mut().waits(n, self.now());
                        self.time_passed();
                    }
                    return;
                }
                Ok(Poll::Ready(answer)) => {
                    caller.put(Slot::Nothing);
                    match answer.transpose() {
                        Some(answer) => self.answered(n, answer, was_outside),
                        None if self.phase(n) == Phase::Over => {}
                        None => self.violate("D1", format!("caller {n} has an output and never ran")),
                    }
                    drop(slot);
                    return;
                }
                // Somebody else's waker panicked: the call goes on where it was.
                Err(payload) => match self.caught(&*payload) {
                    Some(Planned::Waker) => self.observer.borrow_mut().nested += 1,
                    planned => {
                        match planned {
                            Some(Planned::Operation) => self.note(Fault::PanicInOperation),
                            Some(Planned::Predicate) => self.note(Fault::PanicInPredicate),
                            _ => {}
                        }
                        caller.put(Slot::Nothing);
                        let _ = self.guarded(|| drop(slot));
                        if self.phase(n) != Phase::Over {
                            self.violate("W5", format!("caller {n}: a panic left its call as it was"));
                        }
                        return;
                    }
                },
            }
        }
        self.violate("no panics", "a waker's panic comes again and again");
    }

    /// Drops whatever the caller has.
    pub(crate) fn drop_slot(&self, n: usize) {
        let caller = self.caller(n);
        let slot = caller.take();
        if matches!(slot, Slot::Busy) {
            return;
        }
        caller.put(Slot::Nothing);
        if matches!(slot, Slot::Nothing) {
            return;
        }
        if let Slot::Permit(_) = &slot {
            self.ends(n);
        }
        // One that took a place may have been refused there and then.
        let has_ticket = matches!(slot, Slot::Permit(_)) || self.observer.borrow().has_ticket(n);
        let _ = self.guarded(|| drop(slot));
        self.observer.borrow_mut().dropped(n, self.now());
        if has_ticket {
            self.time_passed();
        }
    }

    /// The call's work is done.
    pub(crate) fn finish(&self, n: usize) {
        if self.phase(n) != Phase::Running {
            return;
        }
        let caller = self.caller(n);
        caller.is_done.set(true);
        let is_permit = matches!(*caller.slot.borrow(), Slot::Permit(_));
        if is_permit {
            self.drop_slot(n);
        } else {
            self.within(caller.spec.runtime, || self.poll(n));
        }
    }

    /// The call's signal fires.
    pub(crate) fn abort(&self, n: usize) {
        let caller = self.caller(n);
        if caller.handle.is_none() && caller.source.is_none() || self.observer.borrow().calls[n].fired {
            return;
        }
        if self.phase(n) == Phase::Waiting {
            self.note(Fault::AbortedWaiting);
        }
        if matches!(self.phase(n), Phase::New | Phase::Waiting) {
            self.observer.borrow_mut().fires(n, caller.handle.is_some(), self.now());
        }
        let _ = self.guarded(|| {
            if let Some(handle) = &caller.handle {
                handle.abort_with(reason_of(n).as_str());
            }
            if let Some(source) = &caller.source {
                source.fire();
            }
        });
    }
}

/// An operation that fails, of which a policy says that it is not tried again; or panics instead.
fn retried(call: Call, n: usize) -> impl Future<Output = Result<(), Rejected>> {
    struct Failed;
    let policy = Retry::times(1).when(move |_: &Failed| {
        if with_world(|world| world.caller(n).panics_in_predicate.take()) == Some(true) {
            Planned::Predicate.panic();
        }
        false
    });
    let mut run = Box::pin(call.retry(policy).try_run(move |_| {
        let operation = Operation::begin(n);
        async move {
            operation.await;
            Err::<(), _>(Failed)
        }
    }));
    // No `async` block: it would not be polled again after the panic of somebody else's waker.
    poll_fn(move |cx| {
        run.as_mut().poll(cx).map(|answer| match answer {
            Err(RetryError::Rejected { rejected, .. }) => Err(rejected),
            _ => Ok(()),
        })
    })
}
