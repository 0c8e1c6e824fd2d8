//! Same configuration and same inputs, same decisions, byte for byte (rule O3).
//!
//! A trace of inputs is recorded while a first coordinator is driven; its times are offsets from its
//! first. It is then played to other coordinators, at the same origin and at others, and everything
//! that they say is compared as text. With hundreds of keys and providers, a decision that hung on the
//! iteration order of a map, or on an address, would show.

mod dice;
mod transcript;

use std::fmt::Write as _;
use std::time::Duration;

use admission_core::{Admitted, Log};
use dice::Dice;
use transcript::*;

const PROVIDERS: u64 = 300;
const KEYS: u64 = 400;
/// Fewer where every call is audited: too few to see everything.
const CALLS: usize = if cfg!(audit) { 1_000 } else { 30_000 };

/// One input.
#[derive(Clone, Debug)]
enum Call {
    Request(Inquiry),
    Step(TicketId),
    Release(TicketId),
    Abort(TicketId),
    Timeout,
    Cooldown(ProviderId, Duration),
    Reset(ScopeId),
    Available(ScopeId),
    WatchIdle(bool),
    Close,
}

/// A request that owns its costs.
#[derive(Clone, Debug)]
struct Inquiry {
    provider: ProviderId,
    key: Option<Key>,
    costs: Vec<(UnitId, u64)>,
    timeout: Option<Duration>,
    may_wait: bool,
    may_start: bool,
}

/// Inputs, each with its offset from the first.
type Trace = Vec<(Duration, Call)>;

/// Makes one call and writes down everything that can be seen after it, instants as offsets; the
/// ticket, if it made one.
fn play(
    core: &mut Coordinator,
    origin: Instant,
    now: Duration,
    call: &Call,
    told: &mut String,
) -> Option<TicketId> {
    let mut made = None;
    let offset = |instant: Instant| instant.saturating_duration_since(origin);
    let shifted = |mut refusal: Refusal| {
        if let Some(holder) = &mut refusal.key_holder {
            holder.since = Instant::ZERO + offset(holder.since);
        }
        refusal
    };
    let at = origin + now;
    write!(told, "{now:?} {call:?}: ").unwrap();
    match call {
        Call::Request(inquiry) => {
            let mut request = ask(inquiry.provider).costs(&inquiry.costs);
            request.key = inquiry.key;
            request.timeout = inquiry.timeout;
            request.may_wait = inquiry.may_wait;
            request.may_start = inquiry.may_start;
            let outcome = core.request(&request, at);
            if let Ok(Admitted::Started(ticket) | Admitted::Queued(ticket)) = outcome {
                made = Some(ticket);
            }
            write!(told, "{:?}", outcome.map_err(shifted)).unwrap();
        }
        Call::Step(ticket) => {
            let step = match core.step(*ticket, at) {
                Step::GiveUp(refusal) => Step::GiveUp(shifted(refusal)),
                step => step,
            };
            write!(told, "{step:?}").unwrap();
        }
        Call::Release(ticket) => core.handle_release(*ticket, at),
        Call::Abort(ticket) => core.handle_abort(*ticket, at),
        Call::Timeout => core.handle_timeout(at),
        Call::Cooldown(provider, delay) => {
            let outcome = core.cooldown(*provider, *delay, at);
            write!(told, "{outcome:?}, until {:?}", offset(core.not_before(*provider))).unwrap();
        }
        Call::Reset(scope) => write!(told, "{:?}", core.reset(*scope, at)).unwrap(),
        Call::Available(scope) => {
            write!(told, "{:?} {:?}", core.available(*scope, 0, at), core.hand_off_time(*scope)).unwrap();
        }
        Call::WatchIdle(is_watched) => core.watch_idle(*is_watched),
        Call::Close => core.close(at),
    }
    while let Some(event) = core.poll_event() {
        write!(told, " {event:?}").unwrap();
    }
    writeln!(told, " {:?} {:?}", core.counts(), core.poll_timeout().map(offset)).unwrap();
    made
}

/// Draws a trace that fits what the coordinator says, as drivers would, and records it.
fn record(seed: u64, config: &Config, origin: Instant) -> (Trace, String, Coordinator) {
    let mut dice = Dice(seed);
    let mut core = Coordinator::new(config).expect("a configuration that is in order");
    let (mut trace, mut told) = (Trace::new(), String::new());
    let mut tickets: Vec<TicketId> = Vec::new();
    let mut now = Duration::ZERO;
    while trace.len() < CALLS {
        now = match dice.below(8) {
            0..=3 => now + Duration::from_micros(dice.below(300)),
            4 => now.saturating_sub(Duration::from_micros(dice.below(300))), // rule T1
            5 => core.poll_timeout().map_or(now, |alarm| alarm.saturating_duration_since(origin)),
            _ => now,
        };
        let provider = ProviderId::new(dice.below(PROVIDERS) as u32);
        let scope = if dice.below(4) == 0 { ScopeId::Client } else { of(provider) };
        let place = dice.below(tickets.len().max(1) as u64) as usize;
        let call =
            match (if trace.len() == CALLS - 500 { 99 } else { dice.below(48) }, tickets.get(place).copied())
            {
                (99, _) => Call::Close,
                (0..=11, Some(ticket)) => Call::Step(ticket),
                (12..=19, Some(ticket)) => {
                    tickets.swap_remove(place);
                    Call::Release(ticket)
                }
                (20 | 21, Some(ticket)) => Call::Abort(ticket),
                (22, _) => Call::Timeout,
                (23, _) => Call::Cooldown(provider, ms(dice.below(40))),
                (24, _) => Call::Available(scope),
                (25, _) if dice.below(20) == 0 => Call::Reset(scope),
                (25, _) => Call::WatchIdle(dice.below(2) == 0),
                _ => Call::Request(Inquiry {
                    provider,
                    key: (dice.below(3) > 0).then(|| Key(dice.below(KEYS))),
                    costs: (0..dice.below(3)).map(|_| (TOKENS, dice.below(40))).collect(),
                    timeout: (dice.below(3) == 0).then(|| ms(dice.below(100))),
                    may_wait: dice.below(12) > 0,
                    may_start: dice.below(8) > 0,
                }),
            };
        tickets.extend(play(&mut core, origin, now, &call, &mut told));
        trace.push((now, call));
    }
    (trace, told, core)
}

fn replay(trace: &Trace, config: &Config, origin: Instant) -> (String, Coordinator) {
    let mut core = Coordinator::new(config).expect("a configuration that is in order");
    let mut told = String::new();
    for (now, call) in trace {
        play(&mut core, origin, *now, call, &mut told);
    }
    (told, core)
}

/// Fails at the first line that differs; two megabytes of text say little.
#[track_caller]
fn same(recorded: &str, replayed: &str) {
    for (nth, (recorded, replayed)) in recorded.lines().zip(replayed.lines()).enumerate() {
        assert_eq!(recorded, replayed, "call {nth}");
    }
    assert_eq!(recorded.len(), replayed.len());
}

/// Providers of every kind, and a client with limits of its own.
fn settings() -> Config {
    let settled = |limit, window| Pacer::Log(Log::new(limit, ms(window)).until_settled());
    let kinds = [
        free(),
        conc(1),
        conc(3),
        gap(2),
        quota(3, 20),
        tokens(60, 15).max_concurrent(4),
        quota(2, 10).interval(ms(1)),
        free().pacer(settled(2, 5)),
    ];
    let providers: Vec<Limits> =
        (0..PROVIDERS as usize).map(|nth| kinds[nth % kinds.len()].clone()).collect();
    let mut config = config(tokens(2_000, 20).max_concurrent(150), &providers);
    config.max_queued = 150;
    config.hand_off = ms(8);
    config
}

// rule O3
#[test]
fn a_recorded_trace_replays_at_any_origin() {
    let config = settings();
    let origin = at(500);
    for seed in 1..=3 {
        let (trace, recorded, first) = record(seed, &config, origin);
        for what in ["Granted(", "TakenBack(", "Overflow", "AdmissionTimeout", "Exhausted", "Closed", "Start"]
        {
            assert!(cfg!(audit) || recorded.matches(what).count() > CALLS / 1_000, "too seldom {what}");
        }

        let (replayed, second) = replay(&trace, &config, origin);
        same(&recorded, &replayed);
        // Not only what they say: what they are.
        assert!(format!("{first:?}") == format!("{second:?}"), "two coordinators differ inside");

        for other in [Instant::ZERO, at(27_000), nanos(u64::MAX / 2 + 1)] {
            let (replayed, _) = replay(&trace, &config, other);
            same(&recorded, &replayed);
        }
    }
}

// rule O3
#[test]
fn two_coordinators_in_turn_do_not_touch_each_other() {
    let config = settings();
    let (trace, recorded, _) = record(9, &config, Instant::ZERO);
    let mut cores = [Instant::ZERO, at(1_000_000)].map(|origin| {
        let core = Coordinator::new(&config).expect("a configuration that is in order");
        (core, origin, String::new())
    });
    for (now, call) in &trace {
        for (core, origin, told) in &mut cores {
            play(core, *origin, *now, call, told);
        }
    }
    for (_, _, told) in &cores {
        same(&recorded, told);
    }
}

// rule O3
#[test]
fn a_copy_goes_on_as_the_original_does() {
    let config = settings();
    let (trace, recorded, _) = record(5, &config, Instant::ZERO);
    let mut core = Coordinator::new(&config).expect("a configuration that is in order");
    let mut told = String::new();
    for (nth, (now, call)) in trace.iter().enumerate() {
        if nth % 1_000 == 0 {
            core = core.clone();
        }
        play(&mut core, Instant::ZERO, *now, call, &mut told);
    }
    same(&recorded, &told);
}
