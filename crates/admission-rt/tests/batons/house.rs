//! One coordinator with all that is begun there, and the steps of a history.
//!
//! Owns: what may be done, and what can be seen of it. Two things keep calls from the places where tickets are
//! left, and change nothing else: somebody who waits for a close that never comes, and a turn after each end.
//! What tells that a ticket was taken over is its name, which the permit's debug text has: nothing else may.
//! Lacks the comparison.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use admission_rt::{AbortHandle, Attempt, Closed, Idle, Limits, Permit, Retry, Window};

use super::common::dice::Dice;
use super::common::{Acquire, Admission, Provider, Task, World, ms};

/// The limits of one scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    most: Option<u64>,
    pacer: Pacer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pacer {
    None,
    Window,
    UntilSettled,
    Tokens,
    Interval,
}

impl Bounds {
    fn draw(dice: &mut Dice, are_paced: bool, have_tokens: bool) -> Self {
        let most = (!dice.one_in(3)).then(|| 1 + dice.below(3));
        let pacer = match dice.below(5) {
            0 if are_paced => Pacer::Window,
            1 if are_paced => Pacer::UntilSettled,
            2 if are_paced => Pacer::Interval,
            3 if are_paced && have_tokens => Pacer::Tokens,
            _ => Pacer::None,
        };
        Self { most, pacer }
    }

    fn of(self, limits: Limits) -> Limits {
        let limits = match self.most {
            Some(most) => limits.max_concurrent(most as u32),
            None => limits,
        };
        match self.pacer {
            Pacer::None => limits,
            Pacer::Window => limits.window(3, ms(10)),
            Pacer::UntilSettled => limits.log(Window::new(3, ms(10)).until_settled()),
            Pacer::Tokens => limits.log(Window::new(20, ms(10)).unit("tokens")),
            Pacer::Interval => limits.interval(ms(2)),
        }
    }
}

/// What a coordinator is built with, and what may happen to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    client: Option<u64>,
    bounds: [Bounds; 2],
    has_template: bool,
    has_tokens: bool,
    pub(crate) has_hook: bool,
    max_queued: u64,
    max_wait: Option<u64>,
    /// Whether limits may be set that count time.
    may_pace: bool,
    /// Whether providers come and go, and it is closed in the end.
    is_restless: bool,
    /// Whether few calls wait, and there is little but calls that begin and end.
    is_calm: bool,
}

impl Plan {
    /// Most of them have nothing but concurrency: there tickets are taken over.
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let are_paced = dice.one_in(6);
        let has_tokens = dice.one_in(8);
        Self {
            client: (!dice.one_in(3)).then(|| 1 + dice.below(4)),
            bounds: [(); 2].map(|()| Bounds::draw(dice, are_paced, has_tokens)),
            has_template: dice.one_in(12),
            has_tokens,
            has_hook: dice.one_in(12),
            max_queued: dice.below(4),
            max_wait: dice.one_in(6).then(|| dice.below(10)),
            may_pace: dice.one_in(3),
            is_restless: dice.one_in(3),
            is_calm: !dice.one_in(3),
        }
    }
}

/// One step, the same for all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Submit { provider: usize, how: How, key: Option<Name>, timeout: Option<u64>, tokens: Option<u64> },
    Poll(u64),
    Drop(u64),
    End(u64),
    EndAll,
    Abort(u64),
    Settle(u64, u64),
    SettleLate(u64, u64),
    Idle,
    DropIdle,
    Watch,
    Cooldown(usize, u64),
    Limits(usize, Bounds),
    Client(Option<u64>),
    MaxQueued(u64),
    Reset(usize),
    Remove(usize),
    Add(usize, Bounds),
    Close,
    Pass(u64),
    Ring(u64),
    Look(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    AtOnce,
    Acquire,
    Enqueue,
    /// It listens to a signal.
    Abortable,
    /// It is over in the poll in which it begins.
    Run,
    /// The same, and its operation keeps its attempt.
    Retry,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Name {
    Number(u64),
    Text(u64),
}

impl Act {
    pub(crate) fn draw(dice: &mut Dice, plan: &Plan) -> Self {
        let provider = if dice.one_in(12) { 2 } else { dice.below(2) as usize };
        if plan.is_calm && !dice.one_in(8) {
            let how = if dice.one_in(12) { How::Acquire } else { How::AtOnce };
            let key = dice.one_in(16).then(|| Name::Number(dice.below(2)));
            let provider = if dice.one_in(2) { 0 } else { provider };
            return match dice.below(16) {
                0..6 => Self::Submit { provider, how, key, timeout: None, tokens: None },
                6 => Self::Submit { provider, how: How::Run, key, timeout: None, tokens: None },
                7 => Self::Drop(0),
                _ => Self::End(dice.below(2)),
            };
        }
        match dice.below(100) {
            0..30 => {
                let how = if dice.one_in(2) { How::AtOnce } else { How::Acquire };
                Self::Submit { provider, how, key: None, timeout: dice.maybe(12), tokens: None }
            }
            30..43 => {
                let how = match dice.below(5) {
                    0 => How::Enqueue,
                    1 => How::Abortable,
                    2 => How::Run,
                    3 => How::Retry,
                    _ => How::Acquire,
                };
                let key = match dice.below(4) {
                    0 => Some(Name::Number(dice.below(2))),
                    1 => Some(Name::Text(dice.below(2))),
                    _ => None,
                };
                let tokens = dice.maybe(9).filter(|_| plan.has_tokens);
                Self::Submit { provider, how, key, timeout: dice.maybe(12), tokens }
            }
            43..65 => Self::End(dice.below(4)),
            65 => Self::EndAll,
            66..74 => Self::Poll(dice.below(4)),
            74..76 => Self::Drop(dice.below(4)),
            76 => Self::Abort(dice.below(4)),
            77 => Self::Settle(dice.below(4), dice.below(25)),
            78 => Self::SettleLate(dice.below(4), dice.below(25)),
            79 => Self::Idle,
            80 => Self::DropIdle,
            81 => Self::Watch,
            82 => Self::Cooldown(provider, dice.below(8)),
            83 | 84 => Self::Limits(provider, Bounds::draw(dice, plan.may_pace, plan.has_tokens)),
            85 => Self::Client(dice.maybe(3).map(|most| most + 1)),
            86 => Self::MaxQueued(dice.below(4)),
            87 => Self::Reset(provider),
            88 if plan.is_restless => Self::Remove(provider),
            89 if plan.is_restless => Self::Add(provider, Bounds::draw(dice, false, false)),
            90 if plan.is_restless && dice.one_in(8) => Self::Close,
            88..93 => Self::Pass(dice.below(7)),
            93..95 => Self::Ring(dice.below(7)),
            _ => Self::Look(dice.below(5)),
        }
    }
}

/// What keeps tickets from being taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Prevented {
    No,
    ByWatcher,
    ByTurns,
}

pub(crate) const NAMES: [&str; 3] = ["p", "q", "r"];

type Reports = Arc<Mutex<Vec<String>>>;

pub(crate) struct House {
    pub(crate) prevented: Prevented,
    world: Arc<World>,
    admission: Admission,
    providers: [Provider; 2],
    waiting: Vec<(Task<Acquire>, AbortHandle)>,
    running: Vec<Permit>,
    attempts: Arc<Mutex<Vec<Attempt>>>,
    idle: Option<Task<Idle>>,
    watches: Vec<Task<Closed>>,
    reports: Reports,
    /// Of permits that are gone.
    ended: HashSet<String>,
    /// How many tickets were seen in two permits.
    pub(crate) taken_over: u64,
    _watcher: Option<Task<Closed>>,
}

impl House {
    pub(crate) fn new(plan: &Plan, prevented: Prevented) -> Self {
        let world = World::new();
        let _entered = world.enter();
        let reports = Reports::default();
        let mut builder = world.builder().max_queued(plan.max_queued as u32).hand_off(ms(5));
        if let Some(most) = plan.client {
            builder = builder.max_concurrent(most as u32);
        }
        if let Some(wait) = plan.max_wait {
            builder = builder.max_wait(ms(wait));
        }
        if plan.has_tokens {
            builder = builder.unit("tokens");
        }
        if plan.has_template {
            builder = builder.template(|r| r.max_concurrent(1));
        }
        if plan.has_hook {
            let reports = reports.clone();
            builder = builder
                .on_long_wait(ms(3), move |waiting| reports.lock().unwrap().push(format!("{waiting:?}")));
        }
        for (name, bounds) in NAMES.iter().zip(plan.bounds) {
            builder = builder.provider(*name, |limits| bounds.of(limits));
        }
        let admission = builder.build().unwrap();
        let providers = [0, 1].map(|nth| admission.provider(NAMES[nth]).unwrap());
        let watcher = (prevented == Prevented::ByWatcher).then(|| Task::waiting(admission.closed()));
        Self {
            prevented,
            world: world.clone(),
            admission,
            providers,
            waiting: Vec::new(),
            running: Vec::new(),
            attempts: Arc::default(),
            idle: None,
            watches: Vec::new(),
            reports,
            ended: HashSet::new(),
            taken_over: 0,
            _watcher: watcher,
        }
    }

    /// Makes the step, and tells what came of it.
    pub(crate) fn act(&mut self, act: Act) -> String {
        let world = self.world.clone();
        let _entered = world.enter();
        self.act_inside(act)
    }

    /// A turn that lets no time pass, where a call has just ended.
    fn turn_if_prevented(&self) {
        if self.prevented == Prevented::ByTurns {
            let _ = self.admission.is_closed();
        }
    }

    fn act_inside(&mut self, act: Act) -> String {
        match act {
            Act::Submit { .. } => self.submit(act),
            Act::Poll(nth) if (nth as usize) < self.waiting.len() => self.poll(nth as usize),
            Act::Drop(nth) if (nth as usize) < self.waiting.len() => {
                drop(self.waiting.remove(nth as usize));
                String::new()
            }
            Act::End(nth) if (nth as usize) < self.running.len() => {
                self.end(nth as usize);
                String::new()
            }
            Act::EndAll => {
                while !self.running.is_empty() {
                    self.end(0);
                }
                String::new()
            }
            Act::Abort(nth) if (nth as usize) < self.waiting.len() => {
                self.waiting[nth as usize].1.abort();
                String::new()
            }
            Act::Settle(nth, cost) => {
                let permit = self.running.get(nth as usize);
                text(permit.map(|permit| permit.settle("tokens", cost)))
            }
            Act::SettleLate(nth, cost) => {
                let attempts = self.attempts.lock().unwrap();
                text(attempts.get(nth as usize).map(|attempt| attempt.settle("tokens", cost)))
            }
            Act::Idle if self.idle.is_none() || self.waiting.len() > 1 => {
                let admission = &self.admission;
                let polled = self.idle.get_or_insert_with(|| Task::new(admission.idle())).poll().is_ready();
                if polled {
                    self.idle = None;
                }
                polled.to_string()
            }
            Act::Idle | Act::DropIdle => {
                self.idle = None;
                String::new()
            }
            Act::Watch if self.watches.is_empty() => {
                let mut task = Task::new(self.admission.closed());
                let polled = task.poll().is_ready();
                self.watches.push(task);
                polled.to_string()
            }
            Act::Watch => {
                self.watches.clear();
                String::new()
            }
            Act::Cooldown(provider, delay) => text(self.admission.cooldown(NAMES[provider], ms(delay))),
            Act::Limits(provider, bounds) => match self.admission.provider(NAMES[provider]) {
                Ok(provider) => text(provider.set_limits(|limits| bounds.of(limits))),
                Err(unknown) => text(unknown),
            },
            Act::Client(most) => text(self.admission.set_limits(|limits| match most {
                Some(most) => limits.max_concurrent(most as u32),
                None => limits,
            })),
            Act::MaxQueued(most) => {
                self.admission.set_max_queued(most as u32);
                String::new()
            }
            Act::Reset(provider) => match self.admission.provider(NAMES[provider]) {
                Ok(provider) => text(provider.reset()),
                Err(unknown) => text(unknown),
            },
            Act::Remove(provider) => text(self.admission.remove_provider(NAMES[provider])),
            Act::Add(provider, bounds) => {
                text(self.admission.add_provider(NAMES[provider], |limits| bounds.of(limits)).map(|_| ()))
            }
            Act::Close => {
                self.admission.close();
                String::new()
            }
            Act::Pass(millis) => {
                self.world.set(self.world.now_millis() + millis);
                String::new()
            }
            Act::Ring(millis) => {
                self.world.advance_to(self.world.now_millis() + millis);
                String::new()
            }
            Act::Look(what) => self.look(what),
            Act::Poll(_) | Act::Drop(_) | Act::End(_) | Act::Abort(_) => String::new(),
        }
    }

    fn submit(&mut self, act: Act) -> String {
        let Act::Submit { provider, how, key, timeout, tokens } = act else { return String::new() };
        let provider = match self.providers.get(provider) {
            Some(provider) => provider.clone(),
            None => match self.admission.provider(NAMES[provider]) {
                Ok(provider) => provider,
                Err(unknown) => return text(unknown),
            },
        };
        let mut call = provider.call();
        call = match key {
            Some(Name::Number(key)) => call.key(key),
            Some(Name::Text(key)) => call.key(key.to_string()),
            None => call,
        };
        if let Some(timeout) = timeout {
            call = call.admission_timeout(ms(timeout));
        }
        if let Some(tokens) = tokens {
            call = call.cost("tokens", tokens);
        }
        let (handle, signal) = AbortHandle::new();
        match how {
            How::AtOnce => match call.try_acquire() {
                Ok(permit) => self.runs(permit),
                Err(refused) => format!("{refused:?}"),
            },
            How::Enqueue => {
                self.waiting.push((Task::new(call.enqueue()), handle));
                String::new()
            }
            How::Abortable | How::Acquire => {
                call = if matches!(how, How::Abortable) { call.abort_signal(&signal) } else { call };
                self.waiting.push((Task::new(call.acquire()), handle));
                self.poll(self.waiting.len() - 1)
            }
            How::Run => {
                let polled = Task::new(call.run(|| std::future::ready(7))).poll();
                self.turn_if_prevented();
                text(polled)
            }
            How::Retry => {
                let attempts = self.attempts.clone();
                let operation = move |attempt| {
                    let mut attempts = attempts.lock().unwrap();
                    attempts.insert(0, attempt);
                    std::future::ready(if attempts.len() % 2 == 0 { Ok(7) } else { Err("no") })
                };
                let polled = Task::new(call.retry(Retry::times(1)).try_run(operation)).poll();
                self.turn_if_prevented();
                text(polled)
            }
        }
    }

    fn poll(&mut self, nth: usize) -> String {
        match self.waiting[nth].0.poll() {
            Poll::Pending => "waits".to_owned(),
            Poll::Ready(answer) => {
                self.waiting.remove(nth);
                match answer {
                    Ok(permit) => self.runs(permit),
                    Err(refused) => format!("{refused:?}"),
                }
            }
        }
    }

    fn runs(&mut self, permit: Permit) -> String {
        self.taken_over += u64::from(self.ended.contains(&format!("{permit:?}")));
        self.running.push(permit);
        "starts".to_owned()
    }

    fn end(&mut self, nth: usize) {
        let permit = self.running.remove(nth);
        self.ended.insert(format!("{permit:?}"));
        drop(permit);
        self.turn_if_prevented();
    }

    /// All of it is turns, so that it is not done after each step.
    fn look(&self, what: u64) -> String {
        match what {
            0 => text(self.admission.counts()),
            1 => text(self.admission.waiting()),
            2 => format!("{:?}", self.admission),
            3 => text(self.waiting.iter().map(|(task, _)| task.future.explain()).collect::<Vec<_>>()),
            _ => format!("{:#?}\n{}", self.admission.snapshot(), self.admission.snapshot()),
        }
    }

    /// What can be seen without a turn.
    pub(crate) fn seen(&self) -> impl PartialEq + Debug + use<> {
        let wakes: Vec<_> = self.waiting.iter().map(|(task, _)| task.wakes()).collect();
        let watches: Vec<_> = self.watches.iter().map(Task::wakes).collect();
        let idle = self.idle.as_ref().map(Task::wakes);
        (wakes, watches, idle, self.world.armed_nanos(), self.reports.lock().unwrap().clone())
    }

    /// Everything ends, and what is left then.
    pub(crate) fn end_all(&mut self) -> String {
        let at_last = [Act::Look(4), Act::EndAll, Act::Pass(0), Act::Idle, Act::Look(4)];
        let told: Vec<String> = at_last.into_iter().map(|act| self.act(act)).collect();
        self.waiting.clear();
        self.act(Act::EndAll);
        told.concat() + &self.act(Act::Look(0)) + &self.act(Act::Look(4))
    }
}

fn text(what: impl Debug) -> String {
    format!("{what:?}")
}
