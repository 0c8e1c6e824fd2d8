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
    /// Whose each ticket is, by the number of its slot.
    providers: BTreeMap<usize, ProviderId>,
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
        config.max_queued = queued as u32 + 1_000;
        Self::of(&config)
    }

    fn of(config: &Config) -> Self {
        let core = Coordinator::new(config).expect("a configuration that is in order");
        Self { core, now: at(1), dice: Dice(1), providers: BTreeMap::new(), costs: BTreeMap::new() }
    }

    /// Makes one call, asks for the next alarm, and counts the steps of each.
    fn call<T>(&mut self, name: &'static str, call: impl FnOnce(&mut Coordinator, Instant) -> T) -> T {
        let before = self.core.steps();
        let answer = call(&mut self.core, self.now);
        let between = self.core.steps();
        let alarm = self.core.poll_timeout();
        assert!(alarm.is_none_or(|alarm| alarm > self.now));
        self.note(name, between - before);
        self.note("alarm", self.core.steps() - between);
        answer
    }

    fn note(&mut self, name: &'static str, steps: u64) {
        let cost = self.costs.entry(name).or_default();
        cost.most = cost.most.max(steps);
        cost.total += steps;
        cost.calls += 1;
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.core.poll_event()).collect()
    }

    fn submit(&mut self, request: &Request<'_>) -> TicketId {
        match self.call("submit", |core, now| core.request(request, now)) {
            Ok(Admitted::Started(ticket) | Admitted::Queued(ticket)) => {
                self.providers.insert(ticket.index(), request.provider);
                ticket
            }
            Err(refusal) => panic!("{refusal}"),
        }
    }

    fn release(&mut self, name: &'static str, ticket: TicketId) -> Vec<Event> {
        self.call(name, |core, now| core.handle_release(ticket, now));
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
/// `middle` holds tickets that may be cancelled, and that no grant of the scene reaches.
fn exercise(meter: &mut Meter, mut running: TicketId, mut middle: Vec<TicketId>, requests: &[Request<'_>]) {
    for round in 0..ROUNDS {
        let request = &requests[requests.len() - 1 - round as usize % requests.len()];
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
        let provider = meter.providers[&granted.index()];
        meter.call("cooldown", |core, now| core.cooldown(provider, ms(1), now).unwrap());
        let events = meter.events();
        assert_eq!(events[0], Event::TakenBack(granted));
        meter.now = meter.now + ms(1);
        running = match events[1..] {
            // somebody else goes meanwhile
            [Event::Granted(next)] => next,
            _ => granted,
        };
        meter.call("cooldown is over", |core, now| core.handle_timeout(now));
        let is_granted_again = meter.events() == [Event::Granted(running)];
        assert_eq!(is_granted_again, running == granted);
        meter.start(running);
    }
}

/// How much more a call may cost on average with a hundred times as many tickets.
const FLAT: f64 = 1.34;
const LOGARITHM: f64 = 1.67;

/// Builds a scene in each size and compares what its calls cost. On average that is the same, or a
/// logarithm where `growth` says so. The worst of many calls is a matter of luck, since a balanced tree
/// has a few long paths: it may be three times as much, where a look at all would be a hundred times,
/// and is below `most`.
#[track_caller]
fn is_flat(name: &str, growth: f64, most: u64, scene: impl Fn(u64) -> Meter) {
    let meters = SIZES.map(&scene);
    let [small, _, large] = &meters;
    let mut told = String::new();
    for call in large.costs.keys() {
        for meter in &meters {
            let cost = meter.costs[call];
            told += &format!("  {call:20} mean {:7.1}, most {:4}\n", cost.mean(), cost.most);
        }
    }
    for (call, cost) in &large.costs {
        let few = small.costs[call];
        let is_flat = cost.mean() <= few.mean() * growth + 2.0 && cost.most <= few.most * 3;
        assert!(is_flat, "{name}: {call} grows with what is queued\n{told}");
    }
    let found = large.costs.values().map(|cost| cost.most).max().expect("calls");
    assert!(found <= most, "{name}: a call costs {found} steps\n{told}");
}

/// `queued` tickets wait behind one running call.
fn behind_one(queued: u64, client: Limits, providers: &[Limits], requests: &[Request<'_>]) -> Meter {
    let mut meter = Meter::new(queued, client, providers);
    let running = meter.submit(&requests[0]);
    let mut waiting = submit_all(&mut meter, queued, requests);
    let middle = waiting.split_off(waiting.len() / 2);
    exercise(&mut meter, running, middle, requests);
    meter
}

/// `queued` tickets that have to wait, in turn by each of the requests.
fn submit_all(meter: &mut Meter, queued: u64, requests: &[Request<'_>]) -> Vec<TicketId> {
    let before = meter.core.counts().queued;
    let all = (0..queued).map(|nth| meter.submit(&requests[nth as usize % requests.len()])).collect();
    assert_eq!(meter.core.counts().queued - before, queued as u32);
    all
}

fn over(providers: std::ops::Range<u32>) -> Vec<Request<'static>> {
    providers.map(|provider| ask(ProviderId::new(provider))).collect()
}

fn hot(providers: std::ops::Range<u32>) -> Vec<Request<'static>> {
    over(providers).iter().map(|request| request.key(Key(7))).collect()
}

// rule E7
#[test]
fn a_line_of_one_provider_is_flat() {
    // measured: at most 250 (submit), on average 8 to 73
    is_flat("one line", FLAT, 300, |queued| behind_one(queued, free(), &[conc(1)], &[ask(A)]));
}

// rule E7
#[test]
fn lines_of_sixteen_providers_behind_the_client_are_flat() {
    // measured: at most 268 (cancel), on average 10 to 78
    let providers = vec![free(); 16];
    is_flat("16 lines", FLAT, 300, |queued| behind_one(queued, conc(1), &providers, &over(0..16)));
}

// rules D3, E7
#[test]
fn a_key_of_its_own_for_each_ticket_is_flat() {
    // measured: at most 251 (submit), on average 8 to 74
    is_flat("own keys", FLAT, 300, |queued| {
        let keyed = |key| ask(A).key(Key(key << 20));
        let requests: Vec<Request<'_>> = (0..queued + 1 + ROUNDS).map(keyed).collect();
        behind_one(queued, free(), &[conc(1)], &requests)
    });
}

// rules D3, E7
#[test]
fn new_keys_in_a_full_queue_are_flat() {
    // measured: at most 465 (the worst of 229,376 cancels), on average 30
    // Not flat, but seldom: the key table is put in order in place, which looks at all of it, once in some
    // forty turnovers of a queue that fills it by half (0.03 steps for each call). It allocates nothing.
    is_flat("new keys", FLAT, 600, |queued| {
        // A power of two, less an eighth: a table of so many keys would be as full as it gets.
        let queued = (queued.next_power_of_two() / 8 * 7) as u32;
        let mut config = config(conc(1), &[free()]);
        config.max_queued = queued - 1;
        let mut meter = Meter::of(&config);
        let mut requests = (0..).map(|key| ask(A).key(Key(key)));
        let mut waiting: Vec<TicketId> =
            requests.by_ref().take(queued as usize).map(|request| meter.submit(&request)).collect();
        let _running = waiting.swap_remove(0);
        for request in requests.take(2 * queued as usize) {
            let cancelled = meter.dice.draw(&mut waiting);
            assert_eq!(meter.release("cancel", cancelled), []);
            waiting.push(meter.submit(&request));
        }
        meter
    });
}

// rules E6, E7
#[test]
fn keys_that_a_few_tickets_share_are_flat() {
    // measured: at most 225 (return), on average 2 to 62
    is_flat("shared keys", FLAT, 300, |queued| {
        let keyed = |nth| ask(A).key(Key((nth / 4) << 20));
        let requests: Vec<Request<'_>> = (0..queued + 1 + ROUNDS).map(keyed).collect();
        let mut meter = Meter::new(queued, free(), &[conc(1)]);
        let running = meter.submit(&requests[0]);
        let mut waiting = submit_all(&mut meter, queued, &requests);
        // The table of those who share grows as they come, and looks at all of it when it does.
        meter.costs.clear();
        let middle = waiting.split_off(waiting.len() / 2);
        exercise(&mut meter, running, middle, &requests);
        meter
    });
}

// rules E6, E7
#[test]
fn a_hot_key_at_one_provider_is_flat() {
    // measured: at most 260 (submit), on average 7 to 84
    is_flat("hot key", FLAT, 300, |queued| behind_one(queued, free(), &[free()], &hot(0..1)));
}

// rules E6, E7
#[test]
fn a_hot_key_over_sixteen_providers_is_flat() {
    // measured: at most 1,260 (release and grant), which is 79 for each provider; on average 64 for each
    let providers = vec![free(); 16];
    is_flat("hot key at 16", FLAT, 1_400, |queued| behind_one(queued, free(), &providers, &hot(0..16)));
}

// rules E2, E7
#[test]
fn a_thousand_blocked_providers_cost_nothing() {
    // measured: at most 222 (return), on average 8 to 63
    let blocked = |queued, requests: &[Request<'_>]| {
        let mut meter = Meter::new(queued + 1_000, free(), &vec![conc(1); 1_024]);
        let running = meter.submit(&ask(A));
        submit_all(&mut meter, 1_000, &[ask(A)]);
        // Half of the others wait for their own call, half for a cooldown.
        for provider in 1..1_024 {
            let provider = ProviderId::new(provider);
            if provider.number() % 2 == 0 {
                meter.submit(&ask(provider));
            } else {
                meter
                    .core
                    .cooldown(provider, ms(1_000_000_000 + provider.number() as u64), meter.now)
                    .unwrap();
            }
        }
        let waiting = submit_all(&mut meter, queued, requests);
        exercise(&mut meter, running, waiting, &[ask(A)]);
        meter
    };
    // Those who wait elsewhere do so in a few lines, so that these have some length in every size.
    is_flat("1,023 blocked", FLAT, 300, |queued| blocked(queued, &over(1..65)));
}

// rules W2, E7
#[test]
fn deadlines_cost_a_logarithm() {
    // measured: at most 275 (cancel); to expire costs 60, 73 and 82 on average in a line
    for (name, requests, providers) in [
        ("deadlines in a line", over(0..1), vec![conc(1)]),
        ("deadlines behind a key", hot(0..1), vec![free()]),
    ] {
        is_flat(name, LOGARITHM, 300, |queued| {
            let mut meter = Meter::new(queued, free(), &providers);
            meter.submit(&requests[0]);
            let mut waits: Vec<u64> = (1_000..1_000 + queued).collect();
            let mut dice = Dice(queued);
            dice.shuffle(&mut waits);
            let mut waiting: Vec<TicketId> =
                waits.iter().map(|&wait| meter.submit(&requests[0].timeout(ms(wait)))).collect();
            for nth in 0..ROUNDS {
                let cancelled = dice.draw(&mut waiting);
                assert_eq!(meter.release("cancel", cancelled), []);
                meter.submit(&requests[0].timeout(ms(1_000_000_000 + nth)));
            }
            for _ in 0..ROUNDS {
                meter.now = meter.core.poll_timeout().expect("a deadline");
                meter.call("expire", |core, now| core.handle_timeout(now));
                assert!(matches!(meter.events()[..], [Event::Refused(_, Reason::AdmissionTimeout)]));
            }
            meter
        });
    }
}

// rules L3, E7
#[test]
fn a_full_window_costs_a_logarithm() {
    // measured: at most 29, 32 and 35 (grant)
    is_flat("a window with as many starts", LOGARITHM, 100, |starts| {
        let mut meter = Meter::new(10, free(), &[quota(starts, 1_000_000_000)]);
        for nth in 0..starts {
            meter.now = at(1 + nth);
            let ticket = meter.submit(&ask(A));
            meter.release("settle", ticket);
        }
        for _ in 0..ROUNDS {
            let refused = meter.call("refuse", |core, now| core.request(&ask(A).at_once(), now));
            assert_eq!(refused.unwrap_err().reason, Reason::Exhausted);
        }
        // One start leaves the window at a time, and one takes its place.
        for _ in 0..ROUNDS {
            let ticket = meter.submit(&ask(A));
            meter.now = meter.core.poll_timeout().expect("a start leaves the window");
            meter.call("grant", |core, now| core.handle_timeout(now));
            assert_eq!(meter.events(), [Event::Granted(ticket)]);
            meter.start(ticket);
            meter.release("settle", ticket);
        }
        meter
    });
}

/// Steps per ticket, in all, to take `queued` of them out in some way.
fn per_ticket(queued: u64, scene: &Scene, way_out: &WayOut) -> f64 {
    let mut meter = Meter::new(queued, scene.client.clone(), &scene.providers);
    for &provider in &scene.cooling {
        meter.core.cooldown(provider, ms(1_000_000_000), meter.now).unwrap();
    }
    if scene.is_busy {
        meter.submit(&scene.requests[0]);
    }
    let mut waiting = submit_all(&mut meter, queued, &scene.requests);
    let before = meter.core.steps();
    match way_out {
        WayOut::Cancel(order) => {
            order(&mut meter.dice, &mut waiting);
            for ticket in waiting {
                meter.core.handle_release(ticket, meter.now);
                assert_eq!(meter.core.poll_event(), None);
            }
        }
        WayOut::Close => {
            meter.core.close(meter.now);
            assert_eq!(meter.events().len() as u64, queued);
        }
        WayOut::Expire => {
            meter.core.handle_timeout(at(10_000_000));
            assert_eq!(meter.events().len() as u64, queued);
        }
    }
    assert_eq!(meter.core.counts().queued, 0);
    (meter.core.steps() - before) as f64 / queued as f64
}

struct Scene {
    name: &'static str,
    client: Limits,
    providers: Vec<Limits>,
    requests: Vec<Request<'static>>,
    /// Whether the first request runs.
    is_busy: bool,
    cooling: Vec<ProviderId>,
}

enum WayOut {
    Cancel(fn(&mut Dice, &mut Vec<TicketId>)),
    Close,
    Expire,
}

// rules E7, W2, W3, W4
#[test]
fn to_take_all_out_costs_the_same_for_each() {
    // measured: 16 to 40 steps per ticket in both sizes; with deadlines up to 59 and 69, to expire
    let sixteen = || vec![free(); 16];
    let all_cool = || (0..16).map(ProviderId::new).collect();
    let line = Scene {
        name: "one line",
        client: free(),
        providers: vec![conc(1)],
        requests: over(0..1),
        is_busy: true,
        cooling: vec![],
    };
    let lines = Scene {
        name: "16 lines",
        client: conc(1),
        providers: sixteen(),
        requests: over(0..16),
        is_busy: true,
        cooling: vec![],
    };
    let held_key = Scene {
        name: "a key that is held",
        client: free(),
        providers: sixteen(),
        requests: hot(0..16),
        is_busy: true,
        cooling: vec![],
    };
    // Its oldest ticket stands in each line, and the next takes its place when it goes.
    let free_key = Scene {
        name: "a key that is free",
        client: free(),
        providers: sixteen(),
        requests: hot(0..16),
        is_busy: false,
        cooling: all_cool(),
    };
    let deadlines = Scene {
        name: "with deadlines",
        client: free(),
        providers: sixteen(),
        requests: over(0..16).iter().map(|request| request.timeout(ms(1_000_000))).collect(),
        is_busy: false,
        cooling: all_cool(),
    };
    let ways = [
        ("cancel forward", WayOut::Cancel(|_, _| {})),
        ("cancel backward", WayOut::Cancel(|_, waiting| waiting.reverse())),
        ("cancel at random", WayOut::Cancel(|dice, waiting| dice.shuffle(waiting))),
        ("close", WayOut::Close),
        ("expire", WayOut::Expire),
    ];
    for scene in [line, lines, held_key, free_key, deadlines] {
        for (name, way_out) in &ways {
            if matches!(way_out, WayOut::Expire) && scene.requests[0].timeout.is_none() {
                continue;
            }
            let [few, many] = [10_000, 100_000].map(|queued| per_ticket(queued, &scene, way_out));
            assert!(many <= few * 1.6, "{}, {name}: {few} and {many} steps per ticket", scene.name);
            assert!(many <= 100.0, "{}, {name}: {many} steps per ticket", scene.name);
        }
    }
}

// rules E6, E7
#[test]
fn a_key_costs_in_proportion_to_the_providers_at_which_it_waits() {
    // measured: 60 steps per provider at 4, 67 at 256, of which a logarithm is the heap of those ready
    let scene = |providers: u32| {
        let limits = vec![free(); providers as usize];
        behind_one(5_000, free(), &limits, &hot(0..providers))
    };
    let [few, many] = [4, 256].map(scene);
    for call in ["release and grant", "take back and grant"] {
        let [few, many] = [(&few, 4.0), (&many, 256.0)].map(|(meter, n)| meter.costs[call].mean() / n);
        assert!(many <= few * LOGARITHM, "{call}: {few} and {many} steps per provider");
    }
    for call in ["submit", "cancel", "abort", "return", "start", "refuse", "alarm"] {
        let [few, many] = [&few, &many].map(|meter| meter.costs[call].mean());
        assert!(many <= few * FLAT + 4.0, "{call}: {few} and {many} steps");
    }
}

// rule E7
#[test]
fn a_decision_costs_the_logarithm_of_providers() {
    // measured: release and grant 42 on average at 32 providers, 59 at 1,024
    let scene = |providers: u32| {
        let limits = vec![free(); providers as usize];
        behind_one(20_480, conc(1), &limits, &over(0..providers))
    };
    let [few, many] = [32, 1_024].map(scene);
    for (call, many) in &many.costs {
        let few = few.costs[call];
        // log 1,024 = 2 log 32
        assert!(many.mean() <= few.mean() * 2.0 + 2.0, "{call}: {few:?} and {many:?}");
        assert!(many.most <= few.most * 3, "{call}: {few:?} and {many:?}");
    }
}

/// A provider of which the configuration knows nothing.
fn guest(number: u64) -> ProviderId {
    ProviderId::new(1_000 + number as u32)
}

// rules L10, E7
#[test]
fn a_removed_name_is_made_again_without_a_look_at_all() {
    // measured: 13 to make one again, at most 251 to submit
    is_flat("made again", FLAT, 300, |queued| {
        let settled = Pacer::Log(admission_core::Log::new(1_000, ms(500)).until_settled());
        let mut config = config(free(), &[conc(1)]);
        config.max_queued = queued as u32;
        config.template = Some(quota(1_000, 1_000));
        let mut meter = Meter::of(&config);
        meter.submit(&ask(A));
        submit_all(&mut meter, queued, &[ask(A)]);
        // A call of it runs, and its log counts from something else than the template's.
        for nth in 0..4 {
            meter.core.set_limits(of(guest(nth)), &free().pacer(settled), meter.now).unwrap();
            assert!(meter.core.request(&ask(guest(nth)), meter.now).is_ok());
            meter.core.remove_provider(guest(nth), meter.now).unwrap();
            let made = meter.call("make again", |core, now| core.request(&ask(guest(nth)), now));
            assert!(matches!(made, Ok(Admitted::Started(_))));
        }
        meter
    });
}

// rules L10, E7
#[test]
fn a_crowd_of_providers_is_forgotten_a_few_at_a_time() {
    // measured: 196, 276 and 336 to find them over, which is a heap's whole depth, twice, for each that is
    // forgotten
    is_flat("a crowd is over", 1.75, 500, |crowd| {
        let mut config = config(free(), &[free()]);
        config.template = Some(quota(5, 1_000));
        let mut meter = Meter::of(&config);
        for nth in 0..crowd {
            let Ok(Admitted::Started(ticket)) = meter.core.request(&ask(guest(nth)), meter.now) else {
                panic!("not started");
            };
            meter.core.handle_release(ticket, meter.now);
        }
        assert_eq!(meter.core.snapshot().providers.len() as u64, crowd + 1);
        meter.now = meter.now + ms(1_000);
        meter.call("find them over", |core, now| core.handle_timeout(now));
        let told = meter.events().len();
        assert!((1..=8).contains(&told), "{told} at once");
        // They are gone all the same, whether or not that has been told.
        assert_eq!(meter.core.snapshot().providers.len(), 1);
        let any = guest(crowd / 2);
        assert_eq!(meter.core.presence(any), Presence::Unknown);
        // One of them may come again, and remembers nothing.
        for _ in 0..5 {
            assert!(meter.call("come again", |core, now| core.request(&ask(any), now)).is_ok());
        }
        meter
    });
}
