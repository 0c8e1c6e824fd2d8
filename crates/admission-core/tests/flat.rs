//! A decision costs O(log providers), never O(queued) (rule E7): shown by counting what the core
//! looks at, not by a clock, so that it holds on any machine.
//!
//! `RUSTFLAGS="--cfg steps" cargo test -p admission-core --test flat`
//!
//! A step is one access to a ticket's slot or to the record of a shared key, one comparison or swap
//! in a heap, one entry of a log that is looked at. Each scene is built with 1,000, 10,000 and 100,000
//! waiting tickets and makes the same calls; what a call costs on average and at most is compared.
//! From 1,000 to 100,000 a logarithm grows by a factor of 1.67.

#![cfg(steps)]

mod dice;
mod transcript;

use std::collections::BTreeMap;

use admission_core::Admitted;
use dice::Dice;
use transcript::*;

const SIZES: [u64; 3] = [1_000, 10_000, 100_000];
/// How often each call of a scene is made.
const ROUNDS: u64 = 200;

/// A coordinator, and what its calls have cost.
struct Meter {
    core: Coordinator,
    now: Instant,
    dice: Dice,
    costs: BTreeMap<&'static str, Cost>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Cost {
    most: u64,
    total: u64,
    calls: u64,
}

impl Cost {
    fn mean(self) -> f64 {
        self.total as f64 / self.calls as f64
    }
}

impl Meter {
    fn new(queued: u64, client: Limits, providers: &[Limits]) -> Self {
        let mut config = config(client, providers);
        config.units = 1;
        config.max_queued = queued as u32 + 1_000;
        let core = Coordinator::new(&config).expect("a configuration that is in order");
        Self { core, now: at(1), dice: Dice(queued), costs: BTreeMap::new() }
    }

    /// Makes one call and counts its steps.
    fn call<T>(&mut self, name: &'static str, call: impl FnOnce(&mut Coordinator, Instant) -> T) -> T {
        let before = self.core.steps();
        let answer = call(&mut self.core, self.now);
        let steps = self.core.steps() - before;
        let cost = self.costs.entry(name).or_default();
        cost.most = cost.most.max(steps);
        cost.total += steps;
        cost.calls += 1;
        answer
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.core.poll_event()).collect()
    }

    fn submit(&mut self, request: &Request<'_>) -> TicketId {
        match self.call("submit", |core, now| core.request(request, now)) {
            Ok(Admitted::Started(ticket) | Admitted::Queued(ticket)) => ticket,
            Err(refusal) => panic!("{refusal}"),
        }
    }

    fn release(&mut self, name: &'static str, ticket: TicketId) -> Vec<Event> {
        self.call(name, |core, now| core.handle_release(ticket, now));
        let alarm = self.call("alarm", |core, _| core.poll_timeout());
        assert!(alarm.is_none_or(|alarm| alarm > self.now));
        self.events()
    }

    /// The running call ends; the ticket that is granted by that.
    fn release_and_grant(&mut self, running: TicketId) -> TicketId {
        match self.release("release and grant", running)[..] {
            [Event::Granted(ticket)] => ticket,
            ref other => panic!("not one grant: {other:?}"),
        }
    }

    fn start(&mut self, ticket: TicketId) {
        assert_eq!(self.call("start", |core, now| core.step(ticket, now)), Step::Start);
    }
}

/// A scene with one call running and the others waiting behind it: every way to get in and out.
///
/// `waiting` holds the tickets that may be cancelled, in the order of their submission.
fn exercise(meter: &mut Meter, mut running: TicketId, mut waiting: Vec<TicketId>, requests: &[Request<'_>]) {
    // From the middle: what the rounds cancel is drawn from what the grants do not reach.
    let mut middle = waiting.split_off(waiting.len() / 2);
    for round in 0..ROUNDS {
        let request = &requests[round as usize % requests.len()];
        meter.submit(request);
        let cancelled = meter.dice.draw(&mut middle);
        assert_eq!(meter.release("cancel", cancelled), []);
        let cancelled = meter.dice.draw(&mut middle);
        meter.call("abort", |core, now| core.handle_abort(cancelled, now));
        assert_eq!(meter.events(), [Event::Refused(cancelled, Reason::Aborted)]);
        assert!(matches!(meter.call("give up", |core, now| core.step(cancelled, now)), Step::GiveUp(_)));
        let granted = meter.release_and_grant(running);
        meter.start(granted);
        running = granted;
        let busy = meter.call("refuse", |core, now| core.request(&request.at_once(), now));
        assert_eq!(busy.unwrap_err().reason, Reason::Exhausted);
    }
    // Grants that nobody takes: each is taken back by the alarm, and the next is granted.
    let mut stalled = vec![meter.release_and_grant(running)];
    for _ in 1..ROUNDS {
        meter.now = meter.core.poll_timeout().expect("a grant is out");
        meter.call("take back and grant", |core, now| core.handle_timeout(now));
        match meter.events()[..] {
            [Event::TakenBack(back), Event::Granted(next)] => {
                assert_eq!(Some(&back), stalled.last());
                stalled.push(next);
            }
            ref other => panic!("not taken back: {other:?}"),
        }
    }
    let granted = stalled.pop().expect("the last grant");
    meter.start(granted);
    // Each of them returns to its own place, before and between those that have returned.
    meter.dice.shuffle(&mut stalled);
    for &ticket in &stalled {
        assert_eq!(meter.call("return", |core, now| core.step(ticket, now)), Step::Wait);
    }
    // A cooldown takes a grant back, which returns to its place at once.
    let mut running = granted;
    for _ in 0..ROUNDS / 4 {
        let granted = meter.release_and_grant(running);
        let provider = requests[0].provider;
        for provider in requests.iter().map(|request| request.provider) {
            meter.call("cooldown", |core, now| core.cooldown(provider, ms(1), now));
        }
        meter.events();
        meter.now = meter.now + ms(1);
        meter.call("cooldown is over", |core, now| core.handle_timeout(now));
        let again = meter.events();
        assert_eq!(again.last(), Some(&Event::Granted(granted)), "{provider:?}");
        meter.start(granted);
        running = granted;
    }
}

/// Builds a scene in each size and compares what its calls cost: on average no more than by a third
/// from the smallest to the largest, and at most no more than by a logarithm.
#[track_caller]
fn is_flat(name: &str, most: u64, scene: impl Fn(u64) -> Meter) {
    let meters = SIZES.map(&scene);
    let [small, _, large] = &meters;
    let mut told = String::new();
    for (call, cost) in &large.costs {
        for meter in &meters {
            let cost = meter.costs[call];
            told += &format!("  {call:20} mean {:7.1}, most {:4}\n", cost.mean(), cost.most);
        }
        let few = small.costs[call];
        let is_flat = cost.mean() <= few.mean() * 1.34 + 2.0 && cost.most <= few.most * 2 + 4;
        assert!(is_flat, "{name}: {call} grows with what is queued\n{told}");
    }
    let found = large.costs.values().map(|cost| cost.most).max().expect("calls");
    eprintln!("{name}: most {found}\n{told}");
    assert!(found <= most, "{name}: a call costs {found} steps\n{told}");
}

/// `queued` tickets wait behind one running call.
fn behind_one(queued: u64, client: Limits, providers: &[Limits], requests: &[Request<'_>]) -> Meter {
    let mut meter = Meter::new(queued, client, providers);
    let running = meter.submit(&requests[0]);
    let waiting: Vec<TicketId> =
        (0..queued).map(|nth| meter.submit(&requests[nth as usize % requests.len()])).collect();
    assert_eq!(meter.core.counts().queued, queued as u32);
    exercise(&mut meter, running, waiting, requests);
    meter
}

fn over(providers: u32) -> Vec<Request<'static>> {
    (0..providers).map(|provider| ask(ProviderId::new(provider))).collect()
}

// rule E7
#[test]
fn a_line_of_one_provider_is_flat() {
    is_flat("one line", 1_000, |queued| behind_one(queued, free(), &[conc(1)], &[ask(A)]));
}

// rule E7
#[test]
fn lines_of_many_providers_behind_the_client_are_flat() {
    let providers = vec![free(); 1_024];
    is_flat("1,024 lines", 1_000, |queued| behind_one(queued, conc(1), &providers, &over(1_024)));
}

// rules E6, E7
#[test]
fn a_hot_key_at_one_provider_is_flat() {
    is_flat("hot key", 1_000, |queued| behind_one(queued, free(), &[free()], &[ask(A).key(Key(7))]));
}

// rules E6, E7
#[test]
fn a_hot_key_over_sixteen_providers_is_flat() {
    let requests: Vec<Request<'_>> = over(16).iter().map(|request| request.key(Key(7))).collect();
    let providers = vec![free(); 16];
    is_flat("hot key at 16", 1_000, |queued| behind_one(queued, free(), &providers, &requests));
}
