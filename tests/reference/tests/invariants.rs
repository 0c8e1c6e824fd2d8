//! Random calls: after each, what must hold of any coordinator holds of the model.
//!
//! Checked from the outside: the log of starts is kept here, by hand.

mod common;

use admission_reference::{
    Admitted, Change, Config, Counts, Hold, Limits, Model, Pacer, PacerView, Reason, Request, ScopeView,
    State, Step, Ticket,
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
        template: None,
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
                _ if resets => {
                    let scope = dice.roll(4).checked_sub(1).map(|id| id as u32);
                    assert_eq!(model.reset(scope, now), Ok(()));
                }
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

/// Random calls that change the coordinator too, with what is known of it from the outside.
struct Living {
    model: Model,
    now: u64,
    template: Option<Limits>,
    client: Limits,
    /// The name and limits of each provider that is there, and whether it was made on demand.
    providers: Vec<(u32, Limits, bool)>,
    live: Vec<(Ticket, Request)>,
    /// Starts, each with the scope for which it is remembered, and its ticket.
    starts: Vec<(Option<u32>, Ticket, Start)>,
    is_closed: bool,
    /// Whether starts may pass a limit: after a reset, or after a cost was raised with a grant out.
    is_loose: bool,
}

impl Living {
    fn new(dice: &mut Dice) -> Living {
        let template = (dice.roll(2) == 0).then(|| dice.limits());
        let config = Config {
            max_queued: dice.roll(8) as u32,
            hand_off: (1 + dice.roll(20)) * MS,
            max_wait: (dice.roll(3) == 0).then(|| dice.roll(40) * MS),
            units: 2,
            client: dice.limits(),
            providers: (0..2).map(|_| dice.limits()).collect(),
            template: template.clone(),
        };
        let providers = (0..).zip(config.providers.clone()).map(|(name, limits)| (name, limits, false));
        Living {
            now: 0,
            template,
            client: config.client.clone(),
            providers: providers.collect(),
            live: Vec::new(),
            starts: Vec::new(),
            is_closed: false,
            is_loose: dice.roll(4) == 0,
            model: Model::new(config),
        }
    }

    fn limits_of(&self, scope: Option<u32>) -> Option<&Limits> {
        match scope {
            None => Some(&self.client),
            Some(name) => self.providers.iter().find(|one| one.0 == name).map(|one| &one.1),
        }
    }

    fn is_there(&self, name: u32) -> bool {
        self.providers.iter().any(|one| one.0 == name)
    }

    /// A start, checked against the starts since the limits of its scopes last changed.
    // rules L2, L3, L7
    fn started(&mut self, ticket: Ticket, request: &Request) {
        self.meet_providers();
        let start = (self.now, request.provider, [1, request.costs[0].1]);
        for scope in [None, Some(request.provider)] {
            self.starts.push((scope, ticket, start));
            let its = self.starts.iter().filter(|one| one.0 == scope).map(|one| one.2);
            let its: Vec<Start> = its.collect();
            let limits = self.limits_of(scope).expect("it started");
            if !self.is_loose {
                check_last(limits, &its);
            }
            let max = limits.max_concurrent.unwrap_or(u32::MAX);
            let states = self.counts_of(scope);
            assert!(states.running + states.granted <= max);
        }
    }

    fn counts_of(&self, scope: Option<u32>) -> Counts {
        let its = || self.live.iter().filter(|one| scope.is_none() || scope == Some(one.1.provider));
        let count = |is: fn(State) -> bool| {
            its().filter(|one| self.model.state(one.0).is_some_and(is)).count() as u32
        };
        Counts {
            running: count(|state| state == State::Running),
            granted: count(|state| state == State::Granted),
            queued: count(|state| matches!(state, State::Queued { .. })),
        }
    }

    /// Learns of those that were made on demand, and unlearns those that were forgotten.
    // rule L10
    fn meet_providers(&mut self) {
        let names = self.model.providers();
        for &name in &names {
            if !self.is_there(name) {
                let template = self.template.clone().expect("only a template makes one");
                assert!(!self.is_closed);
                self.providers.push((name, template, true));
            }
        }
        for (name, limits, on_demand) in &self.providers {
            let is_the_templates = *on_demand && self.template.as_ref() == Some(limits);
            assert!(names.contains(name) || is_the_templates, "{name} was forgotten");
        }
        self.providers.retain(|one| names.contains(&one.0));
    }

    /// The limits of a scope are others now, so that its starts are counted afresh.
    fn changed(&mut self, scope: Option<u32>, limits: &Limits) {
        self.starts.retain(|one| one.0 != scope);
        match scope {
            None => self.client = limits.clone(),
            Some(name) => {
                self.meet_providers();
                let known = self.providers.iter_mut().find(|one| one.0 == name);
                known.expect("it is there").1 = limits.clone();
            }
        }
    }

    fn call(&mut self, dice: &mut Dice) {
        let now = self.now;
        let chosen = (!self.live.is_empty()).then(|| dice.roll(self.live.len() as u64) as usize);
        match (dice.roll(11), chosen) {
            (0..=3, _) => {
                let request = Request { provider: dice.roll(4) as u32, ..dice.request() };
                match self.model.request(&request, now) {
                    Ok(Admitted::Started(ticket)) => {
                        self.live.push((ticket, request.clone()));
                        self.started(ticket, &request);
                    }
                    Ok(Admitted::Queued(ticket)) => self.live.push((ticket, request)),
                    Err(refusal) => assert_ne!(refusal.reason, Reason::Removed),
                }
            }
            (4..=6, Some(index)) => {
                let (ticket, request) = self.live[index].clone();
                match self.model.step(ticket, now) {
                    Step::Start => self.started(ticket, &request),
                    Step::GiveUp(_) => {
                        self.live.remove(index);
                    }
                    Step::Gone => panic!("{ticket} was lost"),
                    Step::Wait | Step::Running => {}
                }
            }
            (7, Some(index)) => self.model.handle_release(self.live.remove(index).0, now),
            (8, Some(index)) => self.correct(dice, index),
            (9 | 10, _) => self.change(dice),
            _ => self.model.handle_timeout(now),
        }
    }

    // rule L8
    fn correct(&mut self, dice: &mut Dice, index: usize) {
        let (ticket, mut cost) = (self.live[index].0, dice.roll(9));
        if !self.is_loose {
            cost = cost.min(self.live[index].1.costs[0].1);
        }
        let unit = if dice.roll(6) == 0 { dice.roll(3) as u16 } else { 1 };
        let is_running = self.model.state(ticket) == Some(State::Running);
        let answer = self.model.settle_cost(ticket, unit, cost, self.now);
        let expected = match unit {
            _ if !is_running => Err(Change::NotRunning),
            0 => Err(Change::Requests),
            1 => Ok(()),
            _ => Err(Change::UnknownUnit),
        };
        assert_eq!(answer, expected);
        if answer.is_ok() {
            self.live[index].1.costs[0].1 = cost;
            for one in self.starts.iter_mut().filter(|one| one.1 == ticket) {
                one.2.2[1] = cost;
            }
        }
    }

    // rules L7, L10
    fn change(&mut self, dice: &mut Dice) {
        let (before, now) = (self.model.clone(), self.now);
        let (name, limits) = (dice.roll(4) as u32, dice.limits());
        let limits = self.template.clone().filter(|_| dice.roll(3) == 0).unwrap_or(limits);
        let scope = (dice.roll(3) > 0).then_some(name);
        let answer = match dice.roll(9) {
            0..=2 => {
                let broken = Limits { max_concurrent: Some(0), pacers: Vec::new() };
                let is_broken = dice.roll(8) == 0;
                let limits = if is_broken { &broken } else { &limits };
                let answer = self.model.set_limits(scope, limits, now);
                if answer.is_ok() {
                    self.changed(scope, limits);
                }
                assert!(!is_broken || answer.is_err());
                answer
            }
            3 => {
                self.model.set_max_queued(dice.roll(8) as u32, now);
                Ok(())
            }
            4 => {
                let answer = self.model.add_provider(name, &limits, now);
                if answer.is_ok() {
                    self.providers.retain(|one| one.0 != name); // it may have been forgotten in this call
                    self.providers.push((name, limits.clone(), false));
                    self.changed(Some(name), &limits);
                }
                answer
            }
            5 => {
                let answer = self.model.remove_provider(name, now);
                if answer.is_ok() {
                    self.providers.retain(|one| one.0 != name);
                    self.starts.retain(|one| one.0 != Some(name));
                    let states = self.counts_of(Some(name));
                    assert_eq!((states.granted, states.queued), (0, 0));
                    assert!(states.running == 0 || self.model.remembered().contains(&name));
                }
                answer
            }
            6 => {
                self.model.cooldown(name, dice.roll(30) * MS, now);
                Ok(())
            }
            7 if self.is_loose => self.model.reset(scope, now),
            8 if dice.roll(20) == 0 => {
                self.model.close(now);
                self.is_closed = true;
                Ok(())
            }
            _ => {
                self.model.watch_idle(dice.roll(2) == 0); // the one call without an instant
                self.model.handle_timeout(now);
                Ok(())
            }
        };
        // rule L10: an error changes nothing
        if answer.is_err() {
            let mut expected = before;
            expected.handle_timeout(now);
            assert_eq!(format!("{:?}", self.model), format!("{expected:?}"));
        }
    }

    fn check(&mut self) {
        self.model.take_events();
        self.meet_providers();
        check_alarm(&self.model, self.now);

        // rule W6: nothing is left undone
        let mut again = self.model.clone();
        again.handle_timeout(self.now);
        assert_eq!(again.take_events(), []);

        // rule O1
        let snapshot = self.model.snapshot();
        assert_eq!(snapshot.next, self.model.poll_timeout());
        assert_eq!(snapshot.client.counts, self.model.counts());
        let names: Vec<u32> = snapshot.providers.iter().map(|one| one.0).collect();
        assert_eq!(names, self.model.providers());
        self.check_view(None, &snapshot.client);
        for (name, view) in &snapshot.providers {
            self.check_view(Some(*name), view);
            assert_eq!(view.not_before, self.model.not_before(*name));
        }

        // rule L10: those on demand that are idle were forgotten, now that time has passed
        let snapshot = again.snapshot();
        for (name, view) in snapshot.providers {
            let known = self.providers.iter().find(|one| one.0 == name).expect("it was there");
            let may_go = known.2 && self.template.as_ref() == Some(&known.1);
            let is_over = |pacer: &PacerView| match *pacer {
                PacerView::Interval { next } => next <= self.now,
                PacerView::Log { spent, .. } => spent == 0,
            };
            let is_idle = view.counts == counts(0, 0, 0) && view.not_before <= self.now;
            assert!(!(may_go && is_idle && view.pacers.iter().all(is_over)), "{name} is kept");
        }
    }

    fn check_view(&self, scope: Option<u32>, view: &ScopeView) {
        assert_eq!(view.counts, self.counts_of(scope));
        let limits = self.limits_of(scope).expect("it is there");
        // rules L1, L7: there may be more than the bound only while none of them is a grant
        let active = view.counts.running + view.counts.granted;
        assert!(view.counts.granted == 0 || active <= limits.max_concurrent.unwrap_or(u32::MAX));
        // rule S2
        let is_paced = limits.pacers.iter().any(|one| matches!(one, Pacer::Interval { .. }));
        assert!(!is_paced || view.counts.granted <= 1);
        assert_eq!(view.pacers.len(), limits.pacers.len());
        for (pacer, view) in limits.pacers.iter().zip(&view.pacers) {
            match (pacer, view) {
                (Pacer::Interval { .. }, PacerView::Interval { next }) => assert!(*next >= self.now),
                (Pacer::Log { limit, .. }, PacerView::Log { spent, left }) => {
                    assert_eq!(*left, limit.saturating_sub(*spent));
                }
                _ => panic!("{view:?} of {pacer:?}"),
            }
        }
        // rule L6: nobody waits who can never fit
        if !self.is_loose {
            for pacer in &limits.pacers {
                if let Pacer::Log { unit: 1, limit, window, margin, .. } = *pacer {
                    let waits = |one: &&(Ticket, Request)| {
                        matches!(self.model.state(one.0), Some(State::Queued { .. } | State::Granted))
                    };
                    let its = self.live.iter().filter(|one| scope.is_none_or(|name| name == one.1.provider));
                    let fits = its.filter(waits).all(|one| one.1.costs[0].1 <= limit);
                    assert!(fits || window + margin == 0);
                }
            }
        }
    }

    /// Lets everything go: what is left is what was built or added.
    // rules W5, L10
    fn drain(mut self) {
        for (ticket, _) in std::mem::take(&mut self.live) {
            self.model.handle_release(ticket, self.now);
        }
        assert_eq!(self.model.counts(), counts(0, 0, 0));
        self.model.handle_timeout(self.now + 1_000 * MS);
        self.meet_providers();
        assert_eq!(self.model.remembered(), []);
        let is_the_templates = |one: &(u32, Limits, bool)| one.2 && self.template.as_ref() == Some(&one.1);
        assert!(!self.providers.iter().any(is_the_templates));
    }
}

/// Checks the last of some starts against those before it.
// rules L2, L3
fn check_last(limits: &Limits, starts: &[Start]) {
    let Some((last, before)) = starts.split_last() else {
        return;
    };
    for pacer in &limits.pacers {
        match *pacer {
            Pacer::Interval { interval, margin } => {
                let gap = before.last().map_or(u64::MAX, |one| last.0 - one.0);
                assert!(gap >= interval + margin, "{gap}");
            }
            Pacer::Log { unit, limit, window, margin, .. } => {
                let inside = starts.iter().filter(|one| one.0 + window + margin > last.0);
                let sum: u64 = inside.map(|one| one.2[usize::from(unit)]).sum();
                let is_asked = last.2[usize::from(unit)] > 0 && window + margin > 0;
                assert!(!is_asked || sum <= limit, "{sum} of {limit}");
            }
        }
    }
}

// rules L7, L8, L10, O1, W5
#[test]
fn random_changes_keep_the_promises() {
    for seed in 0..400 {
        let dice = &mut Dice(seed);
        let mut living = Living::new(dice);
        for _ in 0..120 {
            living.now += [0, 0, MS, 3 * MS, 25 * MS][dice.roll(5) as usize];
            living.call(dice);
            living.check();
        }
        living.drain();
    }
}
