//! The end of a history: no more faults, everybody is polled, and timers are honest.
//!
//! Owns: the time in which whoever waits must come to an end, and what must be true when all are out. Lacks
//! mercy: only who waits for something that was leaked may still wait, until the close.

use std::sync::Arc;

use admission_rt::Instant;

use crate::history::History;
use crate::limits::Ms;
use crate::observer::Phase;

impl History {
    pub(crate) fn settle_down(&mut self) {
        let world = self.world.clone();
        world.say(|| "no more faults from here on".to_owned());
        world.clock.mend();
        let host = || world.host.now().as_nanos();
        let mut unreliable_until = {
            let mut timers = world.lock_timers();
            timers.lies.fill(None);
            timers.late_until.max(host() + timers.lost_until.saturating_sub(world.now()))
        };
        if self.has_lied {
            unreliable_until = unreliable_until.max(self.next_timers_end());
        }
        for n in 0..world.count() {
            let caller = world.caller(n);
            caller.is_neglected.set(false);
            caller.reentries.borrow_mut().clear();
            caller.panics_in_wake.set(false);
            world.within(caller.spec.runtime, || world.poll(n));
        }
        world.look();
        self.poll_woken();
        let takes = (0..world.count()).map(|n| world.caller(n).spec.takes).max().unwrap_or(0);
        let longest = world.observer.borrow().longest_wait(takes, world.now());
        let end = host() + longest + unreliable_until.saturating_sub(host());
        loop {
            if host() <= unreliable_until {
                world.look();
            }
            let next_end = self.attend();
            if self.check() {
                return;
            }
            // Timers are honest and nobody is late, so that this holds by the clock, too, not only at the latest
            // call: an alarm has seen to it.
            if host() > unreliable_until {
                let now = world.now();
                world.observer.borrow_mut().check_rest(now);
                self.check_idle(now);
            }
            if !self.is_anybody_left() || world.observer.borrow().violation.is_some() {
                break;
            }
            let ahead = world.observer.borrow().next_change(world.now());
            let ahead = ahead.map(|at| host().saturating_add(at - world.now()));
            let rests = [next_end, self.next_timer(), ahead, Some(unreliable_until)];
            match rests.into_iter().flatten().filter(|at| *at > host()).min() {
                Some(next) if next <= end => self.advance_to(next),
                _ => break,
            }
        }
        self.check_liveness(end);
        if !self.check() {
            self.close_down();
        }
    }

    /// When the last timer that is armed rings.
    fn next_timers_end(&self) -> u64 {
        let runtimes = self.world.runtimes.borrow().clone();
        runtimes.iter().filter_map(|runtime| runtime.next_timer()).max().map_or(0, Instant::as_nanos)
    }

    fn is_anybody_left(&self) -> bool {
        let observer = self.world.observer.borrow();
        let mut left = observer
            .calls
            .iter()
            .filter(|record| !record.leaked && matches!(record.phase, Phase::Waiting | Phase::Running));
        left.next().is_some()
    }

    /// Everybody has come to an end, but those who wait for what was leaked.
    fn check_liveness(&self, end: u64) {
        let mut observer = self.world.observer.borrow_mut();
        let left = (0..observer.calls.len()).find(|&n| {
            let record = &observer.calls[n];
            record.phase == Phase::Waiting && !record.leaked && !observer.is_held_by_leaks(n)
        });
        if let Some(n) = left {
            observer.violate("liveness", format!("caller {n} still waits at {}", Ms(end)));
        }
    }

    /// The close ends whoever is left, and then nothing is left of anybody.
    fn close_down(&mut self) {
        let world = self.world.clone();
        world.say(|| "close, and the end".to_owned());
        if self.idle.is_none() {
            self.watch_idle();
        }
        world.close();
        if self.check() {
            return;
        }
        self.poll_woken();
        for n in 0..world.count() {
            if !world.observer.borrow().calls[n].leaked {
                world.finish(n);
                world.drop_slot(n);
            }
        }
        self.poll_woken();
        if self.check() {
            return;
        }
        let leaks = world.observer.borrow().calls.iter().any(|record| record.leaked);
        if !leaks {
            if self.idle.is_some() {
                world.violate("W4", "everybody is out, and the coordinator is not idle");
            }
            self.check_nothing_left();
        }
        self.idle = None;
        if self.check() || leaks {
            return;
        }
        world.admission.take();
        world.providers.take();
        if Arc::strong_count(&world.clock) > 1 {
            world.violate("W5", "the coordinator is still there when all its handles are gone");
        }
    }

    fn check_nothing_left(&self) {
        let world = &self.world;
        let Some(admission) = world.admission() else { return };
        let counts = admission.counts();
        if (counts.running, counts.granted, counts.queued) != (0, 0, 0) {
            world.violate("W5", format!("everybody is out, and it has {counts:?}"));
        }
        let snapshot = admission.snapshot();
        let scopes = std::iter::once(&snapshot.client).chain(&snapshot.providers);
        for scope in scopes.filter(|scope| (scope.running, scope.granted, scope.queued) != (0, 0, 0)) {
            world.violate("W5", format!("everybody is out, and the snapshot has {scope:?}"));
        }
        if self.armed() > 0 {
            world.violate("T6", "everybody is out, and an alarm is armed");
        }
        for n in 0..world.count() {
            let caller = world.caller(n);
            if caller.is_waker_held() {
                world.violate("W5", format!("caller {n} is out, and its waker is kept"));
            }
            if caller.is_signal_held() {
                world.violate("W5", format!("caller {n} is out, and its signal's future is kept"));
            }
        }
    }
}
