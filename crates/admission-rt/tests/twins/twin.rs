//! One coordinator with all that is begun there.
//!
//! Owns: what the steps of a history do to it, and what can be seen of it. That a ticket was taken over is told by its
//! name, which the permit's debug text has: nothing else may tell. Lacks the comparison.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use admission_rt::{AbortHandle, Attempt, Closed, Idle, Instant, Permit, Retry};

use super::common::{Acquire, Admission, Provider, Task, World, ms};
use super::history::{Act, How, Name, Plan};

/// In what a coordinator differs from its twins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// In nothing: it lets tickets change hands, and reads its clock only where it must.
    Free,
    /// Somebody waits for a close that never comes: so no ticket changes hands.
    Watched,
    /// There is a turn after each end: so none does either.
    Turned,
    /// It has one provider more, with an interval, that nobody calls: so it reads its clock in every turn.
    Timed,
}

const NAMES: [&str; 3] = ["p", "q", "r"];

type Reports = Arc<Mutex<Vec<String>>>;

pub(super) struct Twin {
    pub(super) kind: Kind,
    /// Two runtimes with one clock, and which of them polls.
    worlds: [Arc<World>; 2],
    place: usize,
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
    /// How many calls started that had to wait.
    pub(super) waited: u64,
    /// How many tickets were seen in two permits.
    pub(super) taken_over: u64,
    _watcher: Option<Task<Closed>>,
}

impl Twin {
    pub(super) fn new(plan: &Plan, kind: Kind) -> Self {
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
        if kind == Kind::Timed {
            builder = builder.provider("nobody's", |limits| limits.interval(ms(1)));
        }
        for (name, bounds) in NAMES.iter().zip(plan.bounds) {
            builder = builder.provider(*name, |limits| bounds.of(limits));
        }
        let admission = builder.build().unwrap();
        let providers = [0, 1].map(|nth| admission.provider(NAMES[nth]).unwrap());
        let watcher = (kind == Kind::Watched).then(|| Task::waiting(admission.closed()));
        Self {
            kind,
            worlds: [world.clone(), world.twin()],
            place: 0,
            admission,
            providers,
            waiting: Vec::new(),
            running: Vec::new(),
            attempts: Arc::default(),
            idle: None,
            watches: Vec::new(),
            reports,
            ended: HashSet::new(),
            waited: 0,
            taken_over: 0,
            _watcher: watcher,
        }
    }

    /// Makes the step, and tells what came of it.
    pub(super) fn act(&mut self, act: Act) -> String {
        let world = self.worlds[self.place].clone();
        let _entered = world.enter();
        self.act_inside(act)
    }

    /// A turn that lets no time pass, where a call has just ended.
    fn turn_if_turned(&self) {
        if self.kind == Kind::Turned {
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
                self.worlds[0].set(self.worlds[0].now_millis() + millis);
                String::new()
            }
            Act::Ring(millis) => {
                self.ring_until(self.worlds[0].now_millis() + millis);
                String::new()
            }
            Act::RingAll => {
                self.worlds.iter().for_each(|world| world.ring_all());
                String::new()
            }
            Act::Forget => {
                self.worlds.iter().for_each(|world| world.forget_alarms());
                String::new()
            }
            Act::Move(place) => {
                self.place = place;
                String::new()
            }
            Act::Die => {
                let next = self.worlds[self.place].twin();
                std::mem::replace(&mut self.worlds[self.place], next).die(true);
                String::new()
            }
            Act::Look(what) => self.look(what),
            Act::Ask => self.admission.is_closed().to_string(),
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
                self.turn_if_turned();
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
                self.turn_if_turned();
                text(polled)
            }
        }
    }

    fn poll(&mut self, nth: usize) -> String {
        let has_waited = self.waiting[nth].0.wakes() > 0;
        match self.waiting[nth].0.poll() {
            Poll::Pending => "waits".to_owned(),
            Poll::Ready(answer) => {
                self.waiting.remove(nth);
                match answer {
                    Ok(permit) => {
                        self.waited += u64::from(has_waited);
                        self.runs(permit)
                    }
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
        self.turn_if_turned();
    }

    /// Time passes, and whatever is due on the way rings in order, that of the first runtime first.
    fn ring_until(&self, millis: u64) {
        let until = Instant::from_nanos(millis * 1_000_000);
        loop {
            let due = self.worlds.iter().filter_map(|world| Some((world.next_due()?, world)));
            match due.min_by_key(|(due, _)| *due) {
                Some((due, world)) if due <= until => world.advance_to(due.as_nanos().div_ceil(1_000_000)),
                _ => break,
            }
        }
        self.worlds[0].set(millis);
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

    /// What can be seen without a turn. An alarm that is late will ring, or is as good as not set: one who is told the
    /// time may take it away, where nothing is due.
    pub(super) fn seen(&self) -> impl PartialEq + Debug + use<> {
        let wakes: Vec<_> = self.waiting.iter().map(|(task, _)| task.wakes()).collect();
        let watches: Vec<_> = self.watches.iter().map(Task::wakes).collect();
        let idle = self.idle.as_ref().map(Task::wakes);
        let now = self.worlds[0].now_millis() * 1_000_000;
        let armed = self.worlds.each_ref().map(|world| world.armed_nanos().filter(|armed| *armed > now));
        (wakes, watches, idle, armed, self.reports.lock().unwrap().clone())
    }

    /// Everything ends, and what is left then.
    pub(super) fn end_all(&mut self) -> String {
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
