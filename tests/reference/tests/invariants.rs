//! Random calls: after each, what must hold of any coordinator holds of the model.
//!
//! Checked from the outside: the log of starts is kept here, by hand.

mod common;

use admission_reference::{
    Admitted, Config, Hold, Limits, Model, Pacer, Reason, Request, State, Step, Ticket,
};
use common::{MS, counts};

/// A small generator: the same seed gives the same calls (rule O3).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn limits(&mut self) -> Limits {
        let max_concurrent = (self.roll(2) == 0).then(|| 1 + self.roll(3) as u32);
        let pacers = (0..self.roll(3)).map(|_| self.pacer()).collect();
        Limits { max_concurrent, pacers }
    }

    fn pacer(&mut self) -> Pacer {
        let margin = self.roll(2) * MS;
        if self.roll(3) == 0 {
            return Pacer::Interval { interval: (1 + self.roll(10)) * MS, margin };
        }
        let window = self.roll(30) * MS;
        let (unit, limit) = (self.roll(2) as u16, 2 + self.roll(6));
        Pacer::Log { unit, limit, window, margin, until_settled: self.roll(3) == 0 }
    }

    fn request(&mut self) -> Request {
        Request {
            provider: self.roll(3) as u32,
            key: (self.roll(3) == 0).then(|| self.roll(3)),
            costs: vec![(1, self.roll(7))],
            timeout: (self.roll(3) == 0).then(|| self.roll(60) * MS),
            wait: self.roll(6) > 0,
            deferred: self.roll(8) == 0,
        }
    }
}

/// A start, for checking: the instant, the provider and the costs.
type Start = (u64, u32, [u64; 2]);

// rules L2, L3
fn check_starts(limits: &Limits, starts: &[Start], scope: Option<u32>) {
    let its: Vec<&Start> = starts.iter().filter(|one| scope.is_none() || scope == Some(one.1)).collect();
    for pacer in &limits.pacers {
        match *pacer {
            Pacer::Interval { interval, margin } => {
                for pair in its.windows(2) {
                    assert!(pair[1].0 - pair[0].0 >= interval + margin, "{pair:?}");
                }
            }
            Pacer::Log { unit, limit, window, margin, .. } => {
                for end in &its {
                    let inside = its.iter().filter(|one| one.0 <= end.0 && one.0 + window + margin > end.0);
                    let sum: u64 = inside.map(|one| one.2[usize::from(unit)]).sum();
                    assert!(window + margin == 0 || sum <= limit, "{sum} of {limit}");
                }
            }
        }
    }
}

/// Whether the alarm is exact: one nanosecond before it nothing happens, and at it something does.
// rule T6
fn check_alarm(model: &Model, now: u64) {
    let Some(at) = model.poll_timeout() else {
        let mut later = model.clone();
        later.handle_timeout(now + 1_000_000 * MS);
        // with nothing queued, a grant that is out has no alarm
        assert!(model.counts().queued == 0 || later.take_events().is_empty());
        return;
    };
    assert!(at > now);
    let (mut early, mut due) = (model.clone(), model.clone());
    early.handle_timeout(at - 1);
    assert_eq!(early.take_events(), []);
    due.handle_timeout(at);
    assert_ne!(due.take_events(), []);
}

fn run(seed: u64) {
    let dice = &mut Dice(seed);
    let config = Config {
        max_queued: dice.roll(8) as u32,
        hand_off: (1 + dice.roll(20)) * MS,
        max_wait: (dice.roll(3) == 0).then(|| dice.roll(40) * MS),
        units: 2,
        client: dice.limits(),
        providers: (0..3).map(|_| dice.limits()).collect(),
    };
    let mut model = Model::new(config.clone());
    let mut now = 0;
    let mut live: Vec<(Ticket, Request)> = Vec::new();
    let mut starts: Vec<Start> = Vec::new();
    // exempt starts may pass the limit, so that a run with resets does not check it
    let resets = dice.roll(4) == 0;
    let of = |request: &Request| [1, request.costs[0].1];
    for _ in 0..120 {
        now += [0, 0, MS, 3 * MS, 25 * MS][dice.roll(5) as usize];
        let chosen = (!live.is_empty()).then(|| dice.roll(live.len() as u64) as usize);
        match (dice.roll(12), chosen) {
            (0..=3, _) => {
                let request = dice.request();
                match model.request(&request, now) {
                    Ok(Admitted::Started(ticket)) => {
                        starts.push((now, request.provider, of(&request)));
                        live.push((ticket, request));
                    }
                    Ok(Admitted::Queued(ticket)) => live.push((ticket, request)),
                    Err(refusal) => {
                        assert_ne!(refusal.reason, Reason::AdmissionTimeout);
                        assert_ne!(refusal.held_by, Some(Hold::Unpolled));
                        assert!(refusal.held_by.is_some());
                    }
                }
            }
            (4..=7, Some(index)) => {
                let (ticket, request) = live[index].clone();
                match model.step(ticket, now) {
                    Step::Start => starts.push((now, request.provider, of(&request))),
                    Step::GiveUp(_) => {
                        live.remove(index);
                    }
                    Step::Gone => panic!("{ticket} was lost"),
                    Step::Wait | Step::Running => {}
                }
            }
            (8 | 9, Some(index)) => model.handle_release(live.remove(index).0, now),
            (10, Some(index)) => match dice.roll(3) {
                0 => model.handle_abort(live[index].0, now),
                1 => model.cooldown(dice.roll(3) as u32, dice.roll(30) * MS, now),
                _ if resets => model.reset(dice.roll(4).checked_sub(1).map(|id| id as u32), now),
                _ => {
                    model.watch_idle(dice.roll(2) == 0); // the one call without an instant
                    model.handle_timeout(now);
                }
            },
            _ => model.handle_timeout(now),
        }
        model.take_events();
        check_alarm(&model, now);

        // rules L1, S2
        let state_of = |one: &(Ticket, Request)| model.state(one.0);
        for (scope, limits) in [None, Some(0), Some(1), Some(2)]
            .into_iter()
            .zip([&config.client].into_iter().chain(&config.providers))
        {
            let its = || live.iter().filter(|one| scope.is_none() || scope == Some(one.1.provider));
            let granted = its().filter(|one| state_of(one) == Some(State::Granted)).count();
            let running = its().filter(|one| state_of(one) == Some(State::Running)).count();
            assert!(limits.max_concurrent.is_none_or(|max| granted + running <= max as usize));
            let is_paced = limits.pacers.iter().any(|one| matches!(one, Pacer::Interval { .. }));
            assert!(!is_paced || granted <= 1);
        }
        let is_active =
            |one: &&(Ticket, Request)| matches!(state_of(one), Some(State::Granted | State::Running));
        let mut keys: Vec<u64> = live.iter().filter(is_active).filter_map(|one| one.1.key).collect();
        let all = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }
    if !resets {
        check_starts(&config.client, &starts, None);
        for (id, limits) in config.providers.iter().enumerate() {
            check_starts(limits, &starts, Some(id as u32));
        }
    }
    // rule W5: nothing is left behind
    for (ticket, _) in live {
        model.handle_release(ticket, now);
    }
    assert_eq!(model.counts(), counts(0, 0, 0));
}

// rules T6, L1, L2, L3, S2, W5
#[test]
fn random_calls_keep_the_promises() {
    for seed in 0..300 {
        run(seed);
    }
}
