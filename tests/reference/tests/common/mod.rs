//! Short words for settings, requests and answers, shared by the suites of this crate.
//!
//! Owns no tests. Times are in milliseconds where a name ends in `ms` or a parameter is called `at`.

// each suite uses its own part of these
#![allow(dead_code)]

use admission_reference::{
    Admitted, Config, Counts, Limits, Model, Pacer, Reason, Refusal, Request, Step, Ticket,
};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const MINUTE: u64 = 60_000;
pub(crate) const A: u32 = 0;
pub(crate) const B: u32 = 1;

pub(crate) fn gap(interval_ms: u64) -> Pacer {
    Pacer::Interval { interval: interval_ms * MS, margin: 0 }
}

pub(crate) fn quota(limit: u64, window_ms: u64) -> Pacer {
    Pacer::Log { unit: 0, limit, window: window_ms * MS, margin: 0, until_settled: false }
}

pub(crate) fn tokens(limit: u64, window_ms: u64) -> Pacer {
    Pacer::Log { unit: 1, limit, window: window_ms * MS, margin: 0, until_settled: false }
}

pub(crate) fn settled_quota(limit: u64, window_ms: u64) -> Pacer {
    Pacer::Log { unit: 0, limit, window: window_ms * MS, margin: 0, until_settled: true }
}

pub(crate) fn conc(max: u32) -> Limits {
    Limits { max_concurrent: Some(max), pacers: Vec::new() }
}

pub(crate) fn paced(pacers: &[Pacer]) -> Limits {
    Limits { max_concurrent: None, pacers: pacers.to_vec() }
}

/// Two units; the first limits are the client's, then those of A, B and so on.
pub(crate) fn config(limits: &[Limits]) -> Config {
    Config {
        max_queued: 10_000,
        hand_off: 200 * MS,
        max_wait: None,
        units: 2,
        client: limits[0].clone(),
        providers: limits[1..].to_vec(),
        template: None,
    }
}

pub(crate) fn free() -> Limits {
    Limits::default()
}

pub(crate) fn ask(provider: u32) -> Request {
    Request { provider, wait: true, ..Request::default() }
}

pub(crate) fn keyed(provider: u32, key: u64) -> Request {
    Request { key: Some(key), ..ask(provider) }
}

pub(crate) fn within(provider: u32, timeout_ms: u64) -> Request {
    Request { timeout: Some(timeout_ms * MS), ..ask(provider) }
}

pub(crate) fn costing(provider: u32, cost: u64) -> Request {
    Request { costs: vec![(1, cost)], ..ask(provider) }
}

#[track_caller]
pub(crate) fn starts(model: &mut Model, request: &Request, at_ms: u64) -> Ticket {
    match model.request(request, at_ms * MS) {
        Ok(Admitted::Started(ticket)) => ticket,
        other => panic!("not started: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn queues(model: &mut Model, request: &Request, at_ms: u64) -> Ticket {
    match model.request(request, at_ms * MS) {
        Ok(Admitted::Queued(ticket)) => ticket,
        other => panic!("not queued: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn refuses(model: &mut Model, request: &Request, at_ms: u64) -> Refusal {
    match model.request(request, at_ms * MS) {
        Err(refusal) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn gives_up(model: &mut Model, ticket: Ticket, at_ms: u64) -> Refusal {
    match model.step(ticket, at_ms * MS) {
        Step::GiveUp(refusal) => refusal,
        other => panic!("did not give up: {other:?}"),
    }
}

pub(crate) fn counts(running: u32, queued: u32, granted: u32) -> Counts {
    Counts { running, granted, queued }
}

pub(crate) fn wake(model: &Model) -> Option<u64> {
    model.poll_timeout().map(|at| at / MS)
}

/// A refusal of which nothing more is told.
pub(crate) fn plain(reason: Reason) -> Refusal {
    Refusal { reason, held_by: None, retry_after: None, key_holder: None, limits_changed: false }
}
