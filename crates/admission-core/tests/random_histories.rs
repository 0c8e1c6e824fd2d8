//! Random histories, each decision compared with the reference model (rules E7, O3).
//!
//! Each history has a seed, which is printed when it fails: `SEED=… cargo test --test
//! random_histories` runs that one alone, and `HISTORIES=…` runs another number of them. Settings
//! are drawn so that some histories lack a feature altogether and others have little else.

mod common;

use admission_reference as model;
use common::{Call, MS, NAMES, Pair};

/// More than most limits. The sum of all that a history can start stays below 2^64, where the core's
/// windows count no further.
const HUGE: u64 = u64::MAX >> 12;

/// A small generator with a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Durations of one history lie on a coarse grid, so that instants often coincide.
fn span(dice: &mut Dice) -> u64 {
    match dice.below(12) {
        0 => dice.below(5) * MS + 1,
        1 => u64::MAX - dice.below(3),
        _ => (1 + dice.below(12)) * 5 * MS,
    }
}

fn limits(dice: &mut Dice, units: u16) -> model::Limits {
    let mut pacers = Vec::new();
    if dice.one_in(3) {
        let margin = if dice.one_in(4) { dice.below(3) * MS } else { 0 };
        pacers.push(model::Pacer::Interval { interval: span(dice), margin });
    }
    for _ in 0..dice.below(3) {
        let unit = dice.below(u64::from(units)) as u16;
        pacers.push(model::Pacer::Log {
            unit,
            limit: match dice.below(16) {
                0 => u64::MAX,
                _ => 1 + dice.below(if unit == 0 { 4 } else { 12 }),
            },
            window: if dice.one_in(12) { 0 } else { span(dice) },
            margin: if dice.one_in(6) { dice.below(3) * 5 * MS } else { 0 },
            until_settled: dice.one_in(3),
        });
    }
    let max_concurrent = (!dice.one_in(3)).then(|| 1 + dice.below(4) as u32);
    model::Limits { max_concurrent, pacers }
}

fn config(dice: &mut Dice) -> model::Config {
    let units = 1 + dice.below(3) as u16;
    let client = if dice.one_in(3) { model::Limits::default() } else { limits(dice, units) };
    model::Config {
        max_queued: dice.below(14) as u32,
        hand_off: (1 + dice.below(40)) * MS,
        max_wait: dice.one_in(4).then(|| dice.below(40) * 5 * MS),
        units,
        client,
        providers: (0..1 + dice.below(4)).map(|_| limits(dice, units)).collect(),
        template: dice.one_in(3).then(|| limits(dice, units)),
    }
}

/// How often each kind of call is made in one history; some not at all.
struct Weights {
    keys: u64,
    keyed: u64,
    timeouts: u64,
    step: u64,
    release: u64,
    abort: u64,
    cooldown: u64,
    reset: u64,
    close: u64,
    change: u64,
    strangers: u64,
}

impl Weights {
    fn draw(dice: &mut Dice) -> Self {
        let mut weight = |most: u64| if dice.one_in(4) { 0 } else { dice.below(most + 1) };
        Self {
            keyed: weight(4),
            timeouts: weight(3),
            step: 4 + weight(8),
            release: 2 + weight(6),
            abort: weight(3),
            cooldown: weight(2),
            reset: weight(1),
            close: weight(1),
            change: weight(3),
            strangers: weight(3),
            keys: 1 + dice.below(5),
        }
    }
}

fn call(dice: &mut Dice, pair: &Pair, config: &model::Config, weights: &Weights) -> Call {
    let Weights { step, release, abort, cooldown, reset, change, .. } = *weights;
    let mut pick = dice.below(10 + step + release + abort + cooldown + reset + change + 3);
    let mut is = |weight: u64| {
        let hit = pick < weight;
        pick = pick.wrapping_sub(weight);
        hit
    };
    let is_stranger = weights.strangers > 0 && dice.below(4) < weights.strangers;
    let provider = match config.providers.len() as u64 {
        _ if is_stranger => dice.below(u64::from(NAMES)) as u32,
        built => dice.below(built) as u32,
    };
    let scope = (!dice.one_in(3)).then_some(provider);
    // Mostly one of the younger tickets, which are still there; sometimes one long gone.
    let tickets = pair.tickets();
    let range = if dice.one_in(8) { tickets.max(1) } else { tickets.clamp(1, 12) };
    let back = dice.below(range);
    let ticket = (tickets > 0).then(|| tickets - 1 - back);
    match ticket {
        Some(ticket) if is(step) => Call::Step(ticket),
        Some(ticket) if is(release) => Call::Release(ticket),
        Some(ticket) if is(abort) => Call::Abort(ticket),
        _ if is(cooldown) => Call::Cooldown(provider, if dice.one_in(10) { 0 } else { span(dice) }),
        _ if is(reset) => Call::Reset(scope),
        _ if is(change) => match (dice.below(6), ticket) {
            (0 | 1, _) => Call::SetLimits(scope, new_limits(dice, config)),
            (2, _) => Call::SetMaxQueued(dice.below(14) as u32),
            (3, _) => Call::AddProvider(provider, new_limits(dice, config)),
            (4, _) => Call::RemoveProvider(provider),
            (_, Some(ticket)) => {
                let unit = dice.below(u64::from(config.units) + 1) as u16;
                let cost = if dice.one_in(20) { HUGE } else { dice.below(14) };
                Call::SettleCost(ticket, unit, cost)
            }
            (_, None) => Call::Timeout,
        },
        _ if is(1) => Call::Available(scope, dice.below(3) as u16),
        _ if is(1) => Call::WatchIdle(dice.one_in(2)),
        _ if is(1) => Call::Timeout,
        _ if weights.close > 0 && dice.one_in(60) => Call::Close,
        _ => Call::Request(request(dice, config, weights, provider)),
    }
}

/// Limits for a scope that is there already; sometimes the template's, sometimes out of order.
fn new_limits(dice: &mut Dice, config: &model::Config) -> model::Limits {
    match (dice.below(12), &config.template) {
        (0..=3, Some(template)) => template.clone(),
        (4, _) => model::Limits { max_concurrent: Some(0), ..limits(dice, config.units) },
        (5, _) => limits(dice, config.units + 1),
        _ => limits(dice, config.units),
    }
}

fn request(dice: &mut Dice, config: &model::Config, weights: &Weights, provider: u32) -> model::Request {
    let mut costs = Vec::new();
    for _ in 0..dice.below(3) {
        let known = u64::from(config.units) + u64::from(dice.one_in(40));
        let unit = dice.below(known) as u16;
        costs.push((unit, if dice.one_in(30) { HUGE } else { dice.below(8) }));
    }
    model::Request {
        provider: if dice.one_in(60) { NAMES - 1 } else { provider },
        key: (dice.below(4) < weights.keyed).then(|| dice.below(weights.keys)),
        costs,
        timeout: (dice.below(4) < weights.timeouts).then(|| match dice.below(10) {
            0 => u64::MAX,
            1 => 0,
            _ => span(dice),
        }),
        wait: !dice.one_in(10),
        deferred: dice.one_in(6),
    }
}

fn history(seed: u64, totals: &mut [u64; 3]) {
    let mut dice = Dice(seed);
    let config = config(&mut dice);
    let weights = Weights::draw(&mut dice);
    let mut pair = Pair::new(&config);
    let mut now = if dice.one_in(3) { 0 } else { dice.below(1_000) * MS };
    let mut calls = Vec::new();
    let steps = 40 + dice.below(160);
    for _ in 0..steps {
        now = match dice.below(12) {
            0..=3 => now,
            4 | 5 => now.saturating_add(dice.below(10) * MS),
            6 => now.saturating_add(1),
            // rule T1: a clock that runs back
            7 => now.saturating_sub(dice.below(50) * MS),
            // a stall
            8 if dice.one_in(4) => now.saturating_add(dice.below(400) * MS),
            _ => pair.model.poll_timeout().map_or(now, |at| match dice.below(4) {
                0 => at - 1,
                _ => at,
            }),
        };
        let call = call(&mut dice, &pair, &config, &weights);
        calls.push((now, call.clone()));
        if let Err(what) = pair.call(&call, now) {
            panic!("SEED={seed}: {what}\n{config:#?}\n{calls:#?}");
        }
    }
    if let Err(what) = pair.drain(pair.model.now()) {
        panic!("SEED={seed}: while draining: {what}\n{config:#?}\n{calls:#?}");
    }
    totals[0] += pair.grants;
    totals[1] += pair.refusals;
    totals[2] += pair.take_backs;
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

// rules L7, L8, L10, O1
// rules E1, E2, E3, E4, E6, E7, L1, L2, L3, L4, L5, L6, L9, S1, S2, S3, S4, S4a, S5, S6, W1, W2, W3, W4, W6, R1, R2, R3, D2, D5, T1, T2, T6, O3
#[test]
fn the_core_decides_as_the_reference_model_does() {
    if let Some(seed) = number("SEED") {
        return history(seed, &mut [0; 3]);
    }
    let histories = number("HISTORIES").unwrap_or(if cfg!(debug_assertions) { 2_000 } else { 30_000 });
    let first = number("FIRST").unwrap_or(1);
    let mut totals = [0; 3];
    for seed in first..first + histories {
        history(seed, &mut totals);
    }
    // A generator that never grants, refuses or takes back would compare nothing.
    assert!(totals.iter().all(|&total| total > histories / 4), "too few of something: {totals:?}");
}
