//! Histories: settings and calls, drawn from dice.
//!
//! Owns: which settings there are, which calls are made at which instants, and how often. Lacks any
//! judgement, which is the pair's, and any source of chance: dice are numbers with a seed, or the bytes of
//! somebody who looks for bytes that break something.

use admission_reference as model;

use super::{Call, MS, NAMES, Pair};

/// More than most limits. The sum of all that a history can start stays below 2^64, where the core's
/// windows count no further.
const HUGE: u64 = u64::MAX >> 12;

/// What decides: each number is as likely as its neighbours, or comes from an input that is tried.
pub(crate) trait Dice {
    /// A number below `n`, which is not 0.
    fn below(&mut self, n: u64) -> u64;

    /// Whether nothing is left to decide with.
    fn is_over(&self) -> bool {
        false
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Bytes, read from the front; after their end every number is 0.
///
/// A number takes as many bytes as it may need, so that a byte that changes changes one decision.
pub(crate) struct Tape<'a>(pub(crate) &'a [u8]);

impl Dice for Tape<'_> {
    fn below(&mut self, n: u64) -> u64 {
        let bytes = if n <= 1 << 8 { 1 } else { 8 };
        let (read, left) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = left;
        read.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)) % n
    }

    fn is_over(&self) -> bool {
        self.0.is_empty()
    }
}

/// Durations of one history lie on a coarse grid, so that instants often coincide.
fn span(dice: &mut impl Dice) -> u64 {
    match dice.below(12) {
        0 => dice.below(5) * MS + 1,
        1 => u64::MAX - dice.below(3),
        _ => (1 + dice.below(12)) * 5 * MS,
    }
}

fn limits(dice: &mut impl Dice, units: u16) -> model::Limits {
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

fn config(dice: &mut impl Dice) -> model::Config {
    let units = 1 + dice.below(3) as u16;
    let client = if dice.one_in(3) { model::Limits::default() } else { limits(dice, units) };
    model::Config {
        max_queued: dice.below(14) as u32,
        hand_off: hand_off(dice),
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
    /// How many of the youngest tickets are mostly called about.
    reach: u64,
    /// Whether no call names a cost.
    is_free: bool,
    /// Whether all keys have one place in the core's table.
    are_keys_crowded: bool,
}

impl Weights {
    fn draw(dice: &mut impl Dice) -> Self {
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
            reach: 12,
            is_free: false,
            are_keys_crowded: false,
        }
    }

    /// Hardly any of what is rare, so that most calls are such as nearly all are.
    fn usual(dice: &mut impl Dice) -> Self {
        let mut seldom = |most: u64| if dice.one_in(3) { 1 + dice.below(most) } else { 0 };
        Self {
            timeouts: seldom(1),
            abort: seldom(2),
            cooldown: seldom(1),
            reset: seldom(1),
            close: seldom(1),
            change: seldom(2),
            strangers: seldom(1),
            keyed: dice.below(5),
            step: 4 + dice.below(10),
            release: 4 + dice.below(10),
            keys: 1 + dice.below(60),
            reach: 4 + dice.below(40),
            is_free: true,
            are_keys_crowded: dice.one_in(2),
        }
    }
}

/// A hand-off time; seldom one after which nothing is ever taken back.
fn hand_off(dice: &mut impl Dice) -> u64 {
    match dice.below(42) {
        41 => u64::MAX,
        times => (1 + times) * MS,
    }
}

/// A configuration in which little is rare: no costs, no longest wait, few pacers, and a queue.
fn usual_config(dice: &mut impl Dice) -> model::Config {
    let mut scope = |most: u64| {
        let pacers = if dice.one_in(3) { limits(dice, 1).pacers } else { Vec::new() };
        let max_concurrent = (!dice.one_in(4)).then(|| 1 + dice.below(most) as u32);
        model::Limits { max_concurrent, pacers }
    };
    let client = scope(5);
    let providers = vec![scope(3), scope(8), scope(3), scope(1), scope(2)];
    model::Config {
        max_queued: dice.below(40) as u32,
        hand_off: hand_off(dice),
        max_wait: None,
        units: 1,
        client,
        providers: providers.into_iter().take(1 + dice.below(5) as usize).collect(),
        template: dice.one_in(8).then(|| limits(dice, 1)),
    }
}

/// The n-th of those keys that the core's table has in its first place, whatever its size: what somebody would choose
/// who has read how it scatters them.
fn crowded(n: u64) -> u64 {
    let mixed = n.wrapping_mul(0xf1de_83e1_9937_733d);
    mixed ^ mixed >> 32
}

fn call(dice: &mut impl Dice, pair: &Pair, config: &model::Config, weights: &Weights) -> Call {
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
    let range = if dice.one_in(8) { tickets.max(1) } else { tickets.clamp(1, weights.reach) };
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
fn new_limits(dice: &mut impl Dice, config: &model::Config) -> model::Limits {
    match (dice.below(12), &config.template) {
        (0..=3, Some(template)) => template.clone(),
        (4, _) => model::Limits { max_concurrent: Some(0), ..limits(dice, config.units) },
        (5, _) => limits(dice, config.units + 1),
        _ => limits(dice, config.units),
    }
}

fn request(dice: &mut impl Dice, config: &model::Config, weights: &Weights, provider: u32) -> model::Request {
    let mut costs = Vec::new();
    for _ in 0..if weights.is_free { 0 } else { dice.below(3) } {
        let known = u64::from(config.units) + u64::from(dice.one_in(40));
        let unit = dice.below(known) as u16;
        costs.push((unit, if dice.one_in(30) { HUGE } else { dice.below(8) }));
    }
    model::Request {
        provider: if dice.one_in(60) { NAMES - 1 } else { provider },
        key: (dice.below(4) < weights.keyed).then(|| {
            let key = dice.below(weights.keys);
            if weights.are_keys_crowded { crowded(key) } else { key }
        }),
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

/// What a history begins with.
pub(crate) struct Setting {
    config: model::Config,
    weights: Weights,
}

/// A history that was decided differently: its configuration, its calls, and what differed.
pub(crate) struct Difference(pub(crate) String);

/// How often something was granted, refused and taken back, and started the short way.
#[derive(Default)]
pub(crate) struct Totals(pub(crate) [u64; 4]);

impl Setting {
    pub(crate) fn draw(dice: &mut impl Dice) -> Self {
        Self { config: config(dice), weights: Weights::draw(dice) }
    }

    /// One of those in which most calls are usual ones, with a queue that they go through.
    pub(crate) fn usual(dice: &mut impl Dice) -> Self {
        Self { config: usual_config(dice), weights: Weights::usual(dice) }
    }

    /// Makes one call after the other, compares everything after each, and lets all go in the end.
    pub(crate) fn live(&self, dice: &mut impl Dice, totals: &mut Totals) -> Result<(), Difference> {
        let Self { config, weights } = self;
        let mut pair = Pair::new(config);
        let mut now = if dice.one_in(3) { 0 } else { dice.below(1_000) * MS };
        let mut calls = Vec::new();
        let told = |what, calls: &[(u64, Call)]| Difference(format!("{what}\n{config:#?}\n{calls:#?}"));
        for _ in 0..40 + dice.below(160) {
            if dice.is_over() {
                break;
            }
            now = instant(dice, &pair, now);
            let call = call(dice, &pair, config, weights);
            calls.push((now, call.clone()));
            pair.call(&call, now).map_err(|what| told(what, &calls))?;
        }
        pair.drain(pair.model.now()).map_err(|what| told(format!("while draining: {what}"), &calls))?;
        for (total, more) in
            totals.0.iter_mut().zip([pair.grants, pair.refusals, pair.take_backs, pair.short])
        {
            *total += more;
        }
        Ok(())
    }
}

fn instant(dice: &mut impl Dice, pair: &Pair, now: u64) -> u64 {
    match dice.below(12) {
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
    }
}
