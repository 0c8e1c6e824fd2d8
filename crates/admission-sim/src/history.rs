//! One history: its steps, and then the time without faults in which everybody must come to an end.
//!
//! Owns: the passing of time, the order of polls, and what must be true at the end. Lacks the single deeds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use admission_rt::{Idle, Instant};

use crate::caller::Slot;
use crate::faults::{Fault, Faults};
use crate::limits::Ms;
use crate::observer::{Phase, Violation};
use crate::plan::{How, Setup, Step};
use crate::world::{World, set_world};

/// What came of a history.
pub(crate) struct Outcome {
    pub(crate) violation: Option<Violation>,
    pub(crate) faults: Faults,
    pub(crate) transcript: Vec<String>,
}

/// Lives through a history; `is_told` says whether anybody will read the transcript.
pub(crate) fn live(setup: &Setup, steps: &[Step], is_told: bool) -> Outcome {
    let world = World::new(setup, is_told);
    set_world(Some(world.clone()));
    let mut history = History { world: world.clone(), idle: None, has_lied: false };
    let lived = catch_unwind(AssertUnwindSafe(|| history.run(steps)));
    if lived.is_err() {
        world.violate("no panics", "the world itself");
    }
    for fault in world.lock_timers().take_told() {
        world.note(fault);
    }
    let violation = world.observer.borrow().violation.clone();
    if let Some(Violation { rule, what }) = &violation {
        world.say(|| format!("WRONG ({rule}): {what}"));
    }
    let (faults, transcript) = (world.faults.borrow().clone(), world.take_transcript());
    if violation.is_some() {
        // What is broken may not be fit to be dropped.
        std::mem::forget((history, world));
    } else {
        drop((history, world));
    }
    set_world(None);
    Outcome { violation, faults, transcript }
}

pub(crate) struct History {
    pub(crate) world: Rc<World>,
    /// Who waits for the coordinator to be idle.
    pub(crate) idle: Option<(Idle, Arc<Flag>)>,
    /// Whether any timer or clock has lied, so that alarms may be set for wrong times.
    pub(crate) has_lied: bool,
}

#[derive(Default)]
pub(crate) struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Calls into the coordinator that one call may lead to: a poll takes three turns, and each turn may arm an
/// alarm or two, which takes a reading of the clock.
const TURNS: u64 = 12;

impl History {
    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            self.world.say(|| step.to_string());
            let (reads, calls) = (self.world.clock.reads(), self.world.calls.get());
            let fires = self.fires();
            self.step(step);
            // No call turns round and round.
            let reads = self.world.clock.reads() - reads;
            let calls = self.world.calls.get() - calls + self.fires().saturating_sub(fires) + 2;
            if reads > TURNS * calls {
                self.world.violate("no spin", format!("{reads} readings of the clock for {calls} calls"));
            }
            if self.check() {
                return;
            }
        }
        self.settle_down();
    }

    fn fires(&self) -> u64 {
        self.world.runtimes.borrow().iter().map(|runtime| runtime.alarms().fires).sum()
    }

    /// Says whether something is wrong.
    pub(crate) fn check(&self) -> bool {
        let world = &self.world;
        if let Some(wrong) = world.lock_timers().wrong.take() {
            world.violate("T6", wrong);
        }
        world.observer.borrow_mut().check_rest(world.passed.get());
        // rule T6: nobody waits, so no alarm is armed.
        let is_anybody = world.observer.borrow().is_anybody_waiting() || self.idle.is_some();
        if !is_anybody && self.armed() > 0 {
            world.violate("T6", "an alarm is armed, and nobody waits");
        }
        // With honest timers and clocks an alarm has seen to it; otherwise only the latest call has.
        let passed = world.passed.get();
        self.check_idle(if self.has_lied { passed } else { passed.max(world.now()) });
        world.observer.borrow().violation.is_some()
    }

    /// rules W4, T6: whoever waits for idle has been woken once nobody can be in any more, be it that the last
    /// grant was taken back by an alarm that was set for those who wait for idle alone.
    pub(crate) fn check_idle(&self, now: u64) {
        if self.waits_for_idle() && self.world.observer.borrow().is_surely_empty(now) {
            let what = format!("at {} everybody is out, and whoever waits for idle is not told", Ms(now));
            self.world.violate("W4", what);
        }
    }

    /// Whether somebody waits for idle, and has not been woken since it was last polled. Its alarm is that of
    /// the first runtime, whose end would have woken it.
    fn waits_for_idle(&self) -> bool {
        self.idle.as_ref().is_some_and(|(_, flag)| !flag.0.load(Ordering::SeqCst))
    }

    /// rule T6: what alarms are set for, beside what the coordinator says of itself. To be asked after it has
    /// just let time pass. With calls in the queue whose runtime died there need be no alarm, so one that comes
    /// too late is looked for only where somebody waits for idle.
    fn check_alarms(&self) {
        let world = &self.world;
        let Some(admission) = world.admission() else { return };
        let nested = world.observer.borrow().nested;
        let Some(snapshot) = world.guarded(|| admission.snapshot()) else { return };
        if world.observer.borrow().nested != nested {
            return;
        }
        let (granted, queued) = (snapshot.client.granted, snapshot.client.queued);
        if queued == 0 && (granted == 0 || self.idle.is_none()) && self.armed() > 0 {
            world.violate("T6", format!("an alarm is armed, {granted} are granted, and nobody is queued"));
        }
        if self.has_lied || !self.waits_for_idle() {
            return;
        }
        let taken_back = (granted > 0).then(|| snapshot.at.as_nanos() + world.observer.borrow().hand_off);
        let next = [taken_back, snapshot.next.map(Instant::as_nanos)].into_iter().flatten().min();
        if let Some(next) = next.filter(|next| self.next_timer().is_none_or(|at| at > *next)) {
            world.violate("T6", format!("somebody waits for idle, and no alarm is set for {}", Ms(next)));
        }
    }

    pub(crate) fn armed(&self) -> usize {
        self.world.runtimes.borrow().iter().map(|runtime| runtime.alarms().armed).sum()
    }

    fn step(&mut self, step: &Step) {
        let world = self.world.clone();
        let find = |number: &usize| world.numbers.borrow().get(number).copied();
        let poll = |n: usize| world.within(world.caller(n).spec.runtime, || world.poll(n));
        match step {
            Step::Call(number, spec) => {
                let Some(n) = world.call(spec.clone()) else { return };
                world.numbers.borrow_mut().insert(*number, n);
                if spec.is_prompt && spec.how != How::Enqueue {
                    poll(n);
                }
            }
            Step::Poll(who) => {
                let Some(n) = find(who) else { return };
                if world.phase(n) == Phase::Waiting && world.observer.borrow().calls[n].woken.is_none() {
                    world.note(Fault::SpuriousPoll);
                }
                poll(n);
            }
            Step::PollOutside(who) => {
                if let Some(n) = find(who) {
                    world.note(Fault::PolledOutside);
                    world.poll(n);
                }
            }
            Step::PollWoken => self.poll_woken(),
            Step::Neglect(who) => {
                if let Some(n) = find(who) {
                    if matches!(*world.caller(n).slot.borrow(), Slot::Acquire(_) | Slot::Run(_)) {
                        world.note(Fault::Neglected);
                    }
                    world.caller(n).is_neglected.set(true);
                }
            }
            Step::Attend(who) => {
                if let Some(n) = find(who) {
                    world.caller(n).is_neglected.set(false);
                    poll(n);
                }
            }
            Step::Drop(who) => {
                let Some(n) = find(who) else { return };
                if !matches!(*world.caller(n).slot.borrow(), Slot::Nothing) {
                    world.note(match world.phase(n) {
                        Phase::New => Fault::DroppedBeforePoll,
                        Phase::Waiting if world.observer.borrow().calls[n].woken.is_some() => {
                            Fault::DroppedWoken
                        }
                        Phase::Waiting => Fault::DroppedWaiting,
                        Phase::Running | Phase::Over => Fault::DroppedRunning,
                    });
                }
                world.drop_slot(n);
            }
            Step::Forget(who) => {
                if let Some(n) = find(who) {
                    world.forget(n);
                }
            }
            Step::Abort(who) => {
                if let Some(n) = find(who) {
                    world.abort(n);
                }
            }
            Step::Finish(who) => {
                if let Some(n) = find(who) {
                    world.finish(n);
                }
            }
            Step::Settle(who, cost) => {
                if let Some(n) = find(who) {
                    world.settle(n, *cost);
                }
            }
            Step::Pass(time, is_attentive) => self.pass(*time, *is_attentive),
            Step::Cooldown(name, time) => world.cooldown(*name, *time),
            Step::Reset(scope) => world.reset(*scope),
            Step::SetLimits(scope, limits) => world.set_limits(*scope, limits),
            Step::SetMaxQueued(calls) => world.set_max_queued(*calls),
            Step::Add(name, limits) => world.add(*name, limits),
            Step::Remove(name) => world.remove(*name),
            Step::Close => {
                world.note(Fault::Closed);
                world.close();
            }
            Step::Look => {
                world.look();
                self.check_alarms();
            }
            Step::WatchIdle => self.watch_idle(),
            Step::LeaveIdle => self.idle = None,
            Step::Abandon => self.abandon(),
            Step::InWake(who, what) => {
                if let Some(n) = find(who) {
                    world.caller(n).reentries.borrow_mut().push(*what);
                }
            }
            Step::PanicInWake(who) => self.mark(who, |world, n| world.caller(n).panics_in_wake.set(true)),
            Step::PanicInOperation(who) => self.mark(who, |world, n| world.caller(n).panics.set(true)),
            Step::PanicInPredicate(who) => {
                self.mark(who, |world, n| world.caller(n).panics_in_predicate.set(true))
            }
            Step::PanicInDestructor(who) => {
                self.mark(who, |world, n| world.caller(n).panics_in_drop.set(true))
            }
            Step::PanicInClosure(scope) => world.closure_panics(*scope),
            Step::Timers(runtime, lie, count) => {
                self.has_lied = true;
                world.lock_timers().lies[*runtime] = Some((*lie, *count));
            }
            Step::Stall => {
                self.has_lied = true;
                world.note(Fault::ClockStalled);
                world.clock.stall();
            }
            Step::GoOn => world.clock.go_on(),
            Step::Jump(by) => {
                self.has_lied = true;
                if *by < 0 {
                    // What it has read it must have gone by, or nobody knows what it takes the time to be.
                    world.look();
                }
                world.note(if *by < 0 { Fault::ClockBack } else { Fault::ClockAhead });
                world.clock.jump(*by);
            }
            Step::Kill(runtime) => {
                let waits =
                    |n: usize| world.phase(n) == Phase::Waiting && world.caller(n).spec.runtime == *runtime;
                if (0..world.count()).any(waits) {
                    world.note(Fault::RuntimeDied);
                }
                let new = world.runtime(*runtime);
                let old = std::mem::replace(&mut world.runtimes.borrow_mut()[*runtime], new);
                let _ = world.guarded(|| drop(old));
                // Who was woken by that may be granted later, without a word.
                world.observer.borrow_mut().disturb();
            }
        }
    }

    fn mark(&self, who: &usize, act: impl Fn(&World, usize)) {
        let n = self.world.numbers.borrow().get(who).copied();
        if let Some(n) =
            n.filter(|n| matches!(self.world.phase(*n), Phase::New | Phase::Waiting | Phase::Running))
        {
            act(&self.world, n);
        }
    }

    pub(crate) fn watch_idle(&mut self) {
        let Some(admission) = self.world.admission() else { return };
        self.idle = Some((admission.idle(), Arc::default()));
        self.poll_idle();
    }

    /// Operations end, it closes, and nobody is polled for a hand-off time: only alarms can tell whoever waits for
    /// idle that nobody is in.
    fn abandon(&mut self) {
        let world = self.world.clone();
        for n in 0..world.count() {
            world.caller(n).is_neglected.set(true);
        }
        for n in 0..world.count() {
            if !world.observer.borrow().calls[n].leaked {
                world.finish(n);
            }
        }
        if self.idle.is_none() {
            self.watch_idle();
        } else {
            self.poll_idle();
        }
        self.check_alarms();
        world.note(Fault::Closed);
        world.close();
        self.check_alarms();
        let hand_off = world.observer.borrow().hand_off;
        self.pass(hand_off, false);
    }

    fn poll_idle(&mut self) {
        let Some((idle, flag)) = &mut self.idle else { return };
        let waker = Waker::from(flag.clone());
        // A waker of somebody else's may panic in it, and then it is polled again.
        let poll = || self.world.guarded(|| Pin::new(&mut *idle).poll(&mut Context::from_waker(&waker)));
        let polled = self.world.within(0, || std::iter::repeat_with(poll).take(50).flatten().next());
        if polled == Some(Poll::Ready(())) {
            self.world.say(|| "the coordinator is idle".to_owned());
            self.idle = None;
        }
    }

    /// Polls whoever was woken and is not neglected, in the order in which they were woken, until nobody is.
    pub(crate) fn poll_woken(&mut self) {
        let world = self.world.clone();
        for _ in 0..10_000 {
            if self.idle.as_ref().is_some_and(|(_, flag)| flag.0.swap(false, Ordering::SeqCst)) {
                self.poll_idle();
            }
            let next = {
                let observer = world.observer.borrow();
                let calls = observer.calls.iter().enumerate();
                let woken = calls.filter(|(n, record)| {
                    record.phase == Phase::Waiting
                        && !record.leaked
                        && !world.caller(*n).is_neglected.get()
                        && matches!(*world.caller(*n).slot.borrow(), Slot::Acquire(_) | Slot::Run(_))
                });
                woken.filter_map(|(n, record)| Some((record.woken?.0, n))).min()
            };
            let Some((_, n)) = next else { return };
            world.within(world.caller(n).spec.runtime, || world.poll(n));
        }
        world.violate("no spin", "somebody is woken again and again at one instant");
    }

    /// Whoever has run for long enough is done; says when the next one is.
    fn finish_due(&self) -> Option<u64> {
        let now = self.world.host.now().as_nanos();
        let mut next = None;
        for n in 0..self.world.count() {
            if self.world.phase(n) != Phase::Running || self.world.observer.borrow().calls[n].leaked {
                continue;
            }
            let caller = self.world.caller(n);
            let end = caller.started.get().unwrap_or(now) + caller.spec.takes;
            if end <= now {
                self.world.finish(n);
            } else {
                next = Some(next.map_or(end, |next: u64| next.min(end)));
            }
        }
        next
    }

    /// Polls and ends whoever is to be polled or ended at this instant, and those who follow from that; says
    /// when the next operation ends.
    pub(crate) fn attend(&mut self) -> Option<u64> {
        loop {
            self.poll_woken();
            let (next, polls) = (self.finish_due(), self.world.calls.get());
            self.poll_woken();
            if self.world.calls.get() == polls {
                return next;
            }
        }
    }

    /// The next timer of any runtime.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        let runtimes = self.world.runtimes.borrow().clone();
        runtimes.iter().filter_map(|runtime| runtime.next_timer()).min().map(Instant::as_nanos)
    }

    /// Moves the runtimes' time, and has whatever is due by then ring.
    pub(crate) fn advance_to(&self, now: u64) {
        self.world.host.advance_to(Instant::from_nanos(now));
        let runtimes = self.world.runtimes.borrow().clone();
        let fires = self.fires();
        for runtime in runtimes {
            runtime.run_for(Duration::ZERO);
        }
        if self.fires() > fires {
            self.world.time_passed();
        }
    }

    /// Lets time pass. If somebody attends to it, whoever is woken is polled, and operations end.
    fn pass(&mut self, time: u64, is_attentive: bool) {
        let end = self.world.host.now().as_nanos() + time;
        // While the coordinator's clock stalls a nanosecond before something, an alarm rings every nanosecond.
        for _ in 0..200 {
            let mut next = self.next_timer().unwrap_or(u64::MAX);
            if is_attentive {
                next = self.attend().unwrap_or(u64::MAX);
                next = next.min(self.next_timer().unwrap_or(u64::MAX));
            }
            if next > end || self.check() {
                break;
            }
            self.advance_to(next);
        }
        self.advance_to(end);
    }
}
