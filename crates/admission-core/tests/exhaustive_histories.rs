//! All histories of three tickets, two providers, two keys and both pacers, up to a depth, each
//! decision compared with the reference model (rules E7, O3).
//!
//! Random histories are long and seldom say why they fail; these are short and miss nothing. The
//! depth is what a minute allows in a release build, one less in a debug build; `DEPTH=…` sets it.

#![allow(clippy::print_stdout, reason = "how many histories there were is what is to be known")]

mod common;

use admission_reference as model;
use common::{Call, MS, Pair};

const TICKETS: u64 = 3;

fn settings() -> Vec<(&'static str, model::Config)> {
    let interval = |ms| model::Pacer::Interval { interval: ms * MS, margin: 0 };
    let log = |limit, ms, until_settled| model::Pacer::Log {
        unit: 0,
        limit,
        window: ms * MS,
        margin: 0,
        until_settled,
    };
    let limits =
        |max_concurrent, pacers: &[model::Pacer]| model::Limits { max_concurrent, pacers: pacers.to_vec() };
    let config = |client, a, b| model::Config {
        max_queued: 2,
        hand_off: 8 * MS,
        max_wait: None,
        units: 1,
        client,
        providers: vec![a, b],
        template: None,
    };
    vec![
        (
            "an interval at one provider, a log at the other",
            config(
                limits(Some(2), &[]),
                limits(None, &[interval(10)]),
                limits(Some(1), &[log(1, 20, false)]),
            ),
        ),
        (
            "a log over all, an interval and a log that waits for settling below",
            config(
                limits(None, &[log(2, 15, false)]),
                limits(Some(1), &[interval(10)]),
                limits(None, &[log(1, 20, true)]),
            ),
        ),
        (
            "an interval over all",
            config(limits(Some(1), &[interval(10)]), limits(None, &[]), limits(None, &[log(1, 30, true)])),
        ),
    ]
}

/// What can be done next: a call, and whether the clock moves first.
fn moves(pair: &Pair, now: u64, depth: usize) -> Vec<(u64, Call)> {
    let mut moves = Vec::new();
    if pair.tickets() < TICKETS {
        let request = |provider, key, timeout, deferred| {
            Call::Request(model::Request {
                provider,
                key,
                timeout,
                deferred,
                wait: true,
                ..Default::default()
            })
        };
        for provider in [0, 1] {
            for key in [None, Some(1), Some(2)] {
                moves.push((now, request(provider, key, None, false)));
            }
        }
        moves.push((now, request(0, None, Some(5 * MS), false)));
        moves.push((now, request(1, Some(1), None, true)));
    }
    for ticket in 0..pair.tickets() {
        match pair.model.state(ticket) {
            Some(model::State::Queued { .. } | model::State::Granted) => {
                moves.push((now, Call::Step(ticket)));
                moves.push((now, Call::Release(ticket)));
                moves.push((now, Call::Abort(ticket)));
            }
            Some(model::State::Running | model::State::Ended(_)) => moves.push((now, Call::Release(ticket))),
            None => {}
        }
    }
    if depth > 0 && pair.tickets() > 0 {
        moves.push((now, Call::Cooldown(0, 12 * MS)));
        moves.push((now, Call::Reset(Some(1))));
        moves.push((now, Call::Close));
    }
    if let Some(alarm) = pair.model.poll_timeout() {
        moves.push((alarm - 1, Call::Timeout));
        moves.push((alarm, Call::Timeout));
        // The timer is late, and somebody else's call is the first to see the time.
        let mut late = Vec::new();
        for (_, call) in &moves {
            if !matches!(call, Call::Timeout) {
                late.push((alarm + MS, call.clone()));
            }
        }
        moves.extend(late);
    }
    moves
}

fn explore(pair: &Pair, now: u64, depth: usize, path: &mut Vec<(u64, Call)>, count: &mut u64) {
    if depth == 0 {
        return;
    }
    for (at, call) in moves(pair, now, path.len()) {
        let mut next = pair.clone();
        path.push((at, call.clone()));
        *count += 1;
        if let Err(what) = next.call(&call, at) {
            panic!("{what}\n{path:#?}");
        }
        explore(&next, at, depth - 1, path, count);
        path.pop();
    }
}

// rules E1, E2, E3, E4, E6, E7, L1, L2, L3, L4, L5, L9, S1, S2, S3, S4, S4a, S5, S6, W1, W2, W3, W4, W6, D2, T6, O3
#[test]
fn every_short_history_is_decided_as_by_the_reference_model() {
    let depth = std::env::var("DEPTH").ok().and_then(|depth| depth.parse().ok());
    let depth = depth.unwrap_or(if cfg!(debug_assertions) { 4 } else { 5 });
    for (name, config) in settings() {
        let mut count = 0;
        explore(&Pair::new(&config), 0, depth, &mut Vec::new(), &mut count);
        println!("{count} histories of up to {depth} calls: {name}");
        assert!(count > 10_u64.pow(depth as u32 - 1), "{name}: only {count} histories");
    }
}
