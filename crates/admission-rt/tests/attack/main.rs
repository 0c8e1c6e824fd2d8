//! An attack on everything that is built around calls: queries, retried calls, streams, with every fault that
//! a program can bring about, drawn from a seed.
//!
//! Owns: the order of things, and what must be true when the faults are over. Lacks plain calls' own rules,
//! which the simulator looks after. A failure prints its seed and the command to replay it:
//!
//! ```text
//! ATTACK_SEED=7 cargo test -p admission-rt --test attack
//! ATTACK_HISTORIES=100000 cargo test --release -p admission-rt --test attack -- --nocapture
//! ```
//!
//! With `ATTACK_RUDE` values panic when they are dropped while another panic goes on, too; with `ATTACK_LOUD`
//! all panics tell where they come from.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a failure says how to replay it")]

#[path = "../common/mod.rs"]
mod common;

mod actors;
mod ground;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use actors::{Actor, is_at_rest};
use common::{Entered, World, counts, within};
use ground::{Flag, Ground, set_ground};

type Tally = BTreeMap<&'static str, u64>;

struct Attack {
    ground: Rc<Ground>,
    world: Arc<World>,
    entered: Option<Entered>,
    actors: Vec<Actor>,
    flags: Vec<Weak<Flag>>,
    now: u64,
    may_end_runtime: bool,
}

impl Attack {
    fn new(seed: u64, is_endless: bool) -> Self {
        let world = World::new();
        let entered = Some(world.enter());
        let ground = Ground::new(seed, !is_endless, &world);
        set_ground(Some(ground.clone()));
        Self { ground, world, entered, actors: Vec::new(), flags: Vec::new(), now: 0, may_end_runtime: true }
    }

    fn actor(&mut self, is_woken: bool) -> Option<&mut Actor> {
        let fits = |actor: &&mut Actor| if is_woken { actor.is_woken() } else { actor.is_there() };
        let among = self.actors.iter_mut().filter(|actor| fits(actor)).count();
        let nth = self.ground.below(among.max(1) as u64) as usize;
        self.actors.iter_mut().filter(|actor| fits(actor)).nth(nth)
    }

    fn run_task(&self, is_woken: bool) {
        let (all, woken) = self.world.task_counts();
        let among = if is_woken { woken } else { all };
        let nth = self.ground.below(among.max(1) as u64) as usize;
        if let Err(panic) = self.world.run_nth(nth, is_woken) {
            self.ground.count("panic out of a task");
            self.ground.expect(panic);
        }
    }

    fn advance(&mut self, micros: u64) {
        self.now += micros * 1_000;
        self.world.set_nanos(self.now);
    }

    fn step(&mut self) {
        let ground = self.ground.clone();
        ground.begin_step();
        match ground.below(100) {
            0..14 => {
                let actor = ground.guard(|| Actor::any(&ground)).flatten();
                if let Some(actor) = actor {
                    ground.count(actor.kind);
                    self.flags.push(Arc::downgrade(&actor.flag));
                    self.actors.push(actor);
                }
            }
            14..40 => {
                if let Some(actor) = self.actor(true) {
                    actor.poll(&ground);
                }
            }
            40..44 => {
                if let Some(actor) = self.actor(false) {
                    actor.poll(&ground);
                }
            }
            44..47 => {
                if let Some(actor) = self.actor(false) {
                    ground.count("dropped");
                    actor.drop(&ground);
                }
            }
            47 if ground.roll(30) && self.may_end_runtime => {
                if let Some(actor) = self.actor(false) {
                    ground.count("forgotten");
                    ground.forgot.set(true);
                    actor.forget();
                }
            }
            48..65 => self.run_task(true),
            65..67 => self.run_task(false),
            67..75 => {
                let mut wells = ground.wells.borrow_mut();
                let nth = ground.below(wells.len().max(1) as u64) as usize;
                let waker = (nth < wells.len()).then(|| wells.swap_remove(nth));
                drop(wells);
                ground.guard(|| waker.map(std::task::Waker::wake));
            }
            75..83 => {
                self.advance(ground.below(3_000));
                ground.guard(|| self.world.ring());
            }
            83 => {
                ground.count("alarm late");
                self.advance(ground.below(3_000));
            }
            84 => {
                ground.count("alarm early");
                ground.guard(|| self.world.ring_all());
            }
            85 => {
                ground.count("alarm lost");
                self.world.forget_alarms();
            }
            86 if ground.roll(3) => {
                ground.count("clock jumped");
                self.advance(ground.below(10_000_000));
            }
            87 if ground.roll(3) => {
                ground.count("clock ran back");
                self.now -= ground.below(self.now.min(20_000_000) + 1);
                self.world.set_nanos(self.now);
            }
            88 if ground.roll(10) => {
                ground.count("runtime ended");
                self.end_runtime();
            }
            89 if ground.roll(20) && self.may_end_runtime => {
                ground.count("cooled down for ever");
                ground.frozen.set(true);
                ground.guard(|| ground.admission.cooldown("a", std::time::Duration::MAX));
            }
            _ => ground.meddle(),
        }
    }

    fn end_runtime(&mut self) {
        let twin = self.world.twin();
        let old = std::mem::replace(&mut self.world, twin);
        self.ground.guard(|| old.end_tasks());
        self.ground.guard(|| old.die(true));
        self.entered = None;
        self.entered = Some(self.world.enter());
    }

    fn wake_wells(&self) {
        let wells = std::mem::take(&mut *self.ground.wells.borrow_mut());
        wells.into_iter().for_each(std::task::Waker::wake);
    }

    /// Everything comes to its end.
    fn settle(&mut self) {
        let ground = self.ground.clone();
        ground.is_hostile.set(false);
        ground.ends.set(true);
        ground.begin_step();
        self.world.ring_all();
        let polls: u64 = self.actors.iter().map(|actor| actor.polls).sum();
        let mut turns = 0;
        loop {
            turns += 1;
            self.wake_wells();
            let mut has_acted = false;
            for nth in 0..self.actors.len() {
                if self.actors[nth].is_woken() {
                    has_acted = true;
                    self.actors[nth].poll(&ground);
                }
            }
            while self.world.task_counts().1 > 0 {
                has_acted = true;
                turns += 1;
                self.run_task(true);
                if turns > 20_000 {
                    break;
                }
            }
            has_acted |= !ground.wells.borrow().is_empty();
            if !has_acted {
                match self.world.next_due() {
                    Some(due) => {
                        self.now = self.now.max(due.as_nanos());
                        self.world.set_nanos(self.now);
                        self.world.ring();
                    }
                    None => break,
                }
            }
            if turns > 20_000 {
                ground.fault("does not come to rest");
                break;
            }
        }
        let polls = self.actors.iter().map(|actor| actor.polls).sum::<u64>() - polls;
        if polls > 200 * self.actors.len() as u64 + 2_000 {
            ground.fault(format!("{polls} polls until rest"));
        }
        if !ground.forgot.get() && !ground.frozen.get() {
            for actor in self.actors.iter().filter(|actor| actor.must_end && actor.is_there()) {
                ground.fault(format!("a {} does not end", actor.kind));
            }
            for query in ground.queries.borrow().iter() {
                let snapshot = query.snapshot();
                if !is_at_rest(&snapshot.status) {
                    ground.fault(format!("a query is {:?} for ever", snapshot.status));
                }
            }
        }
        self.actors.iter_mut().for_each(|actor| actor.drop(&ground));
        drop(std::mem::take(&mut *ground.victims.borrow_mut()));
        drop(std::mem::take(&mut *ground.handles.borrow_mut()));
        for _ in 0..1_000 {
            self.wake_wells();
            if self.world.task_counts().1 == 0 && ground.wells.borrow().is_empty() {
                break;
            }
            self.run_task(true);
        }
        if ground.forgot.get() {
            return;
        }
        let (tasks, _) = self.world.task_counts();
        if tasks > 0 {
            ground.fault(format!("{tasks} tasks are left"));
        }
        let nothing = counts(0, 0, 0);
        for (who, left) in [
            ("coordinator", ground.admission.counts()),
            ("rate limiter", ground.rate.counts()),
            ("interval limiter", ground.interval.counts()),
        ] {
            if left != nothing {
                ground.fault(format!("{who}: {left:?}"));
            }
        }
        if self.world.next_due().is_some() {
            ground.fault("an alarm is armed");
        }
        if ground.running.get() > 0 {
            ground.fault("an operation was not dropped");
        }
        let held = self.actors.iter().filter(|actor| Arc::strong_count(&actor.flag) > 1);
        for kind in held.map(|actor| actor.kind) {
            ground.fault(format!("the waker of a {kind} is held"));
        }
        self.actors.clear();
        if self.flags.drain(..).any(|flag| flag.strong_count() > 0) {
            ground.fault("a waker is held");
        }
    }

    fn round(&mut self, steps: u64) {
        let ground = self.ground.clone();
        ground.is_hostile.set(true);
        ground.ends.set(false);
        for _ in 0..steps {
            self.step();
        }
        self.settle();
    }

    fn verdict(&self) -> Result<(), Vec<String>> {
        let faults = std::mem::take(&mut *self.ground.faults.borrow_mut());
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// Takes everything down.
    fn end(mut self) -> Result<Tally, Vec<String>> {
        let ground = self.ground.clone();
        ground.is_hostile.set(false);
        drop(std::mem::take(&mut *ground.queries.borrow_mut()));
        let has_forgotten = ground.forgot.get();
        if has_forgotten {
            self.world.end_tasks();
        }
        let values = Arc::strong_count(&ground.token) - 1;
        if values > 0 && !has_forgotten {
            ground.fault(format!("{values} values or sources are left"));
        }
        let verdict = self.verdict();
        let tally = std::mem::take(&mut *ground.tally.borrow_mut());
        set_ground(None);
        self.actors.clear();
        let world = self.world.clone();
        drop((ground, self));
        verdict?;
        match world.faces() {
            0 => Ok(tally),
            _ if has_forgotten => Ok(tally),
            left => Err(vec![format!("{left} alarms are left")]),
        }
    }
}

fn history(seed: u64) -> Tally {
    let mut attack = Attack::new(seed, false);
    for _ in 0..1 + attack.ground.below(3) {
        let steps = 20 + attack.ground.below(200);
        attack.round(steps);
        if attack.ground.forgot.get() || attack.ground.frozen.get() {
            break;
        }
    }
    match attack.end() {
        Ok(tally) => tally,
        Err(faults) => fail(seed, &faults),
    }
}

fn fail(seed: u64, faults: &[String]) -> ! {
    let replay = format!("ATTACK_SEED={seed} cargo test -p admission-rt --test attack");
    panic!("seed {seed}: {faults:#?}\nreplay: {replay}");
}

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Panics that were made say nothing.
fn quiet_about_booms() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or_default();
        if !text.starts_with("boom") || std::env::var_os("ATTACK_LOUD").is_some() {
            hook(info);
        }
    }));
}

// rules L1, Q3, Q4, Q5, Q6, Q8, Q10, I3, I4, E5, E6, S3, S4, T3, T6, W4, W5, W6, W7
#[test]
fn queries_retries_and_streams_withstand_every_fault() {
    within(100_000, || {
        quiet_about_booms();
        let seeds = match env("ATTACK_SEED") {
            Some(seed) => seed..seed + 1,
            None => 0..env("ATTACK_HISTORIES").unwrap_or(1_000),
        };
        let mut tally = Tally::new();
        for seed in seeds.clone() {
            for (what, times) in history(seed) {
                *tally.entry(what).or_default() += times;
            }
        }
        #[allow(clippy::print_stdout, reason = "for whoever runs many")]
        let tell = |tally: &Tally| println!("{} histories: {tally:#?}", seeds.end - seeds.start);
        tell(&tally);
    });
}

// rules W5, D3, O1
#[cfg(not(audit))]
#[test]
fn a_coordinator_that_is_attacked_for_ever_keeps_nothing() {
    within(100_000, || {
        quiet_about_booms();
        let seed = env("ATTACK_SEED").unwrap_or(1);
        let rounds = env("ATTACK_ROUNDS").unwrap_or(1_000);
        let mut attack = Attack::new(seed, true);
        attack.may_end_runtime = false;
        let mut some = |rounds: u64| {
            for _ in 0..rounds {
                attack.round(60);
                if let Err(faults) = attack.verdict() {
                    fail(seed, &faults);
                }
                // Whatever is kept for good was disposed of, or may be.
                drop(std::mem::take(&mut *attack.ground.queries.borrow_mut()));
                attack.ground.frozen.set(false);
            }
        };
        some(rounds / 4);
        let kept = allocation_counter::measure(|| some(rounds)).bytes_current;
        assert!(kept.abs() < 4_096, "{kept} bytes after {rounds} rounds with seed {seed}");
    });
}
