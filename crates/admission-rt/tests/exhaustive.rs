//! Every history of three calls at one provider, up to a depth, through the real futures and a virtual clock:
//! grant, start, cancellation, expiry, abort, take-back, cooldown and close in every order.
//!
//! Owns: the acts, and what must hold after each. Each act is one turn or a few, and a turn is atomic, so
//! these are all the orders there are at that grain; what happens inside a turn is `loom.rs`'s. Lacks an
//! opinion about durations, which the core's histories compare with the model. `DEPTH=8` goes deeper.

#![allow(clippy::print_stdout, reason = "how many histories there were is what is to be known")]
#![cfg(not(any(admission_loom, admission_shuttle)))]

mod common;

use std::sync::Arc;
use std::task::Poll;

use admission_rt::{AbortHandle, Limits, Permit, Rejected};
use common::{Acquire, Admission, Entered, Provider, Task, World, counts, ms};

const CALLS: usize = 3;
/// The admission timeout of the second call; the third has a signal.
const TIMEOUT: u64 = 5;
const COOLDOWN: u64 = 12;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Poll(usize),
    Drop(usize),
    End(usize),
    Abort,
    Cooldown,
    Close,
    /// Time passes until the alarm's instant, and it rings.
    Ring,
    /// The same, but it does not.
    Late,
}

enum Call {
    /// Not polled yet, so it has no place.
    Lazy(Task<Acquire>),
    /// Waits; how often it had been woken when it was last polled, and when and as the how manieth it came.
    Waits {
        task: Task<Acquire>,
        seen: usize,
        since: u64,
        place: usize,
        /// While it is granted: the places of those who had been told to come by then, and had not.
        passes: Option<Vec<usize>>,
    },
    Runs(Permit),
    Over,
}

struct Scene {
    world: Arc<World>,
    admission: Admission,
    p: Provider,
    abort: AbortHandle,
    calls: [Call; CALLS],
    now: u64,
    came: usize,
    is_aborted: bool,
    is_closed: bool,
    cooled: bool,
    /// Whether nothing counts time, so that who is granted may start beside the lock. Then nobody looks in between, who
    /// would take the lock, nor notes whom a grant has passed.
    is_beside: bool,
    _entered: Entered,
}

impl Scene {
    fn new(is_beside: bool) -> Self {
        let world = World::new();
        let entered = world.enter();
        let admission = world.builder().max_queued(2).hand_off(ms(8));
        let limits = |p: Limits| {
            let p = p.max_concurrent(1);
            if is_beside { p } else { p.interval(ms(3)) }
        };
        let admission = admission.provider("p", limits).build().expect("in order");
        let p = admission.provider("p").expect("it is configured");
        let (abort, signal) = AbortHandle::new();
        let second = if is_beside { p.call() } else { p.admission_timeout(ms(TIMEOUT)) };
        let calls = [p.call(), second, p.abort_signal(&signal)];
        let calls = calls.map(|call| Call::Lazy(Task::new(call.acquire())));
        Self {
            world,
            admission,
            p,
            abort,
            calls,
            now: 0,
            came: 0,
            is_aborted: false,
            is_closed: false,
            cooled: false,
            is_beside,
            _entered: entered,
        }
    }

    /// And an alarm is set, that will do for the next grant.
    fn one_runs_and_the_others_wait(&mut self) {
        let permit = self.p.try_acquire().expect("nobody is there");
        (0..CALLS).for_each(|nth| self.poll(nth));
        drop(permit);
        self.poll(0);
        assert!(matches!(self.calls[0], Call::Runs(_)) && self.world.armed().is_some());
    }

    fn acts(&self) -> Vec<Act> {
        let mut acts = Vec::new();
        for (nth, call) in self.calls.iter().enumerate() {
            match call {
                Call::Lazy(_) => acts.push(Act::Poll(nth)),
                Call::Waits { .. } => acts.extend([Act::Poll(nth), Act::Drop(nth)]),
                Call::Runs(_) => acts.push(Act::End(nth)),
                Call::Over => {}
            }
        }
        if self.world.armed().is_some() {
            acts.extend([Act::Ring, Act::Late]);
        }
        let may =
            [(!self.is_aborted, Act::Abort), (!self.cooled, Act::Cooldown), (!self.is_closed, Act::Close)];
        acts.extend(may.into_iter().filter(|(may, _)| *may && self.came > 0).map(|(_, act)| act));
        acts
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Poll(nth) => self.poll(nth),
            Act::Drop(nth) | Act::End(nth) => match std::mem::replace(&mut self.calls[nth], Call::Over) {
                Call::Runs(permit) => drop(permit),
                call => drop(call),
            },
            Act::Abort => {
                self.is_aborted = true;
                self.abort.abort();
            }
            Act::Cooldown => {
                self.cooled = true;
                self.p.cooldown(ms(COOLDOWN)).expect("it is there");
            }
            Act::Close => {
                self.is_closed = true;
                self.admission.close();
            }
            Act::Ring | Act::Late => {
                let due = self.world.armed_nanos().expect("an alarm");
                self.now = self.now.max(due);
                self.world.set_nanos(self.now);
                if act == Act::Ring {
                    self.world.ring();
                }
            }
        }
    }

    fn poll(&mut self, nth: usize) {
        let (mut task, since, place, passes) = match std::mem::replace(&mut self.calls[nth], Call::Over) {
            Call::Lazy(task) => {
                self.came += 1;
                (task, self.now, self.came, None)
            }
            Call::Waits { task, since, place, passes, .. } => (task, since, place, passes),
            other => {
                self.calls[nth] = other;
                return;
            }
        };
        let seen = task.wakes();
        self.calls[nth] = match task.poll() {
            Poll::Pending => {
                assert!(!self.is_closed, "rule W4: it waits, although all is closed");
                assert!(!(nth == 2 && self.is_aborted), "rule W3: it waits, although it is aborted");
                let over = since + TIMEOUT * 1_000_000;
                assert!(
                    nth != 1 || self.is_beside || self.now <= over,
                    "rule W2: it waits past its deadline"
                );
                Call::Waits { task, seen, since, place, passes: None }
            }
            Poll::Ready(Ok(permit)) => {
                self.may_start(place, &passes.unwrap_or_default());
                Call::Runs(permit)
            }
            Poll::Ready(Err(rejected)) => {
                self.may_refuse(nth, since, &rejected);
                Call::Over
            }
        };
    }

    /// Rules L1, E2: nobody runs, and whoever is older and waits was passed over, now or when this one was granted.
    fn may_start(&self, place: usize, passes: &[usize]) {
        for call in &self.calls {
            match call {
                Call::Runs(_) => panic!("rule L1: two run at once"),
                Call::Waits { task, seen, place: older, .. } if *older < place => {
                    let is_passed = self.is_beside || task.wakes() > *seen || passes.contains(older);
                    assert!(is_passed, "rule E2: an older one waits, and was not told to come");
                }
                _ => {}
            }
        }
    }

    fn may_refuse(&self, nth: usize, since: u64, why: &Rejected) {
        let fits = match why {
            Rejected::Closed => self.is_closed,
            Rejected::Aborted(_) => nth == 2 && self.is_aborted,
            Rejected::AdmissionTimeout { .. } => nth == 1 && self.now > since + TIMEOUT * 1_000_000,
            Rejected::Overflow { .. } => since == self.now,
            _ => false,
        };
        assert!(fits, "refused without cause: {why:?}");
    }

    /// What is true at any moment; notes whom a grant has passed.
    fn check(&mut self) {
        let here = |is: fn(&Call) -> bool| self.calls.iter().filter(|call| is(call)).count() as u32;
        let waiting = here(|call| matches!(call, Call::Waits { .. }));
        let woken = here(|call| matches!(call, Call::Waits { task, seen, .. } if task.wakes() > *seen));
        let before = self.world.armed_nanos();
        // Asking lets time pass as any call does (rule W6), so it is asked before what follows is looked at.
        let is = self.admission.counts();
        assert_eq!(is.running, here(|call| matches!(call, Call::Runs(_))), "rule W5");
        assert!(is.running + is.granted <= 1, "rule L1");
        let woken_now = here(|call| matches!(call, Call::Waits { task, seen, .. } if task.wakes() > *seen));
        // Those who were refused and have yet to hear it are woken, and have left.
        assert!(is.queued + is.granted + woken_now >= waiting, "rule W5: somebody was forgotten");
        assert!(woken_now >= woken);
        assert!(is.granted <= woken_now, "rule S1: a grant, and nobody was told");
        let armed = self.world.armed_nanos();
        if is.queued > 0 && is.running == 0 {
            // Nobody is in the way but time, or those who have been told to come.
            assert!(armed.is_some() || woken_now > 0, "rule E2: nobody will come ({before:?})");
        }
        if is.queued > 0 && is.granted > 0 {
            assert!(armed.is_some(), "rule S4: a grant that is not started holds up the others for ever");
        }
        if is.queued + is.granted == 0 {
            assert_eq!(armed, None, "rule T6");
        }
        assert!(armed.is_none_or(|at| at > self.now), "rule T6: an alarm that is not in the future");
        let told = self.calls.iter().filter_map(|call| match call {
            Call::Waits { task, seen, place, .. } if task.wakes() > *seen => Some(*place),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        for call in &mut self.calls {
            let Call::Waits { task, passes, .. } = call else { continue };
            let is_granted = task.future.explain().is_some_and(|waiting| waiting.is_granted);
            *passes = is_granted.then(|| passes.take().unwrap_or_else(|| told.clone()));
        }
    }

    /// From here on everybody does as they should: all end, and nothing is left.
    fn drain(&mut self) {
        for _ in 0..40 {
            for nth in 0..CALLS {
                match &self.calls[nth] {
                    Call::Runs(_) => self.act(Act::End(nth)),
                    Call::Waits { task, seen, .. } if task.wakes() > *seen => self.act(Act::Poll(nth)),
                    _ => {}
                }
                self.check();
            }
            let is_over = |call: &Call| matches!(call, Call::Over | Call::Lazy(_));
            if self.calls.iter().all(is_over) {
                assert_eq!(self.admission.counts(), counts(0, 0, 0), "rule W5");
                assert_eq!(self.world.armed(), None, "rule T6");
                return;
            }
            if self.world.armed().is_some() {
                self.act(Act::Ring);
                self.check();
            }
        }
        panic!("somebody never ends");
    }
}

/// Lives through these acts, and says which can follow; checks all ends, too.
fn live(is_beside: bool, path: &[Act]) -> Vec<Act> {
    let mut scene = Scene::new(is_beside);
    if is_beside {
        scene.one_runs_and_the_others_wait();
    }
    for (nth, act) in path.iter().enumerate() {
        scene.act(*act);
        // (Each shorter path is lived through as well, and looked at where it ends.)
        if !is_beside || nth + 1 == path.len() {
            scene.check();
        }
    }
    let acts = scene.acts();
    scene.drain();
    acts
}

fn explore(is_beside: bool, path: &mut Vec<Act>, depth: usize, count: &mut u64) {
    *count += 1;
    let lived = std::panic::catch_unwind(|| live(is_beside, path));
    let acts = lived.unwrap_or_else(|panic| {
        println!("after {path:?}");
        std::panic::resume_unwind(panic)
    });
    if path.len() < depth {
        for act in acts {
            path.push(act);
            explore(is_beside, path, depth, count);
            path.pop();
        }
    }
}

// rules E2, L1, L5, S1, S3, S4, S5, T6, W2, W3, W4, W5, W6
#[test]
fn every_short_history_of_futures_keeps_the_rules() {
    explore_all(false);
}

// rules L1, L5, S1, S3, S4, S5, T6, W3, W4, W5, W6
#[test]
fn so_does_every_one_of_futures_that_start_beside_the_lock() {
    explore_all(true);
}

fn explore_all(is_beside: bool) {
    let depth = std::env::var("DEPTH").ok().and_then(|depth| depth.parse().ok());
    let depth = depth.unwrap_or(if cfg!(debug_assertions) { 5 } else { 7 });
    let mut count = 0;
    explore(is_beside, &mut Vec::new(), depth, &mut count);
    println!("{count} histories of up to {depth} acts, each lived to its end");
    assert!(count > 3_u64.pow(depth as u32), "only {count} histories");
}
