//! Short words for settings, calls and answers of the core, so that a test reads as a transcript.
//!
//! Owns no tests and no randomness. Times are milliseconds and come first; counts are written as
//! (running, queued, granted but not started).

#![allow(dead_code, unused_imports)] // each test that mounts this uses a part of it

use std::time::Duration;

use admission_core::{Admitted, ConfigError, Log};
pub(crate) use admission_core::{
    ChangeError, Config, Coordinator, Event, Hold, Instant, Key, Limits, LimitsError, Pacer, PacerSnapshot,
    Presence, ProviderId, Reason, Refusal, Request, ScopeId, Side, Step, TicketId, UnitId,
};

pub(crate) const A: ProviderId = ProviderId::new(0);
pub(crate) const B: ProviderId = ProviderId::new(1);
pub(crate) const C: ProviderId = ProviderId::new(2);
/// What costs are stated in, beside requests.
pub(crate) const TOKENS: UnitId = UnitId::new(1);
pub(crate) const MINUTE: u64 = 60_000;

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

pub(crate) fn nanos(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// No limits.
pub(crate) fn free() -> Limits {
    Limits::new()
}

pub(crate) fn conc(calls: u32) -> Limits {
    Limits::new().max_concurrent(calls)
}

pub(crate) fn gap(interval_ms: u64) -> Limits {
    Limits::new().interval(ms(interval_ms))
}

pub(crate) fn quota(limit: u64, window_ms: u64) -> Limits {
    Limits::new().window(limit, ms(window_ms))
}

pub(crate) fn tokens(limit: u64, window_ms: u64) -> Limits {
    Limits::new().pacer(Pacer::Log(Log::new(limit, ms(window_ms)).unit(TOKENS)))
}

pub(crate) fn ask(provider: ProviderId) -> Request<'static> {
    Request::new(provider)
}

/// A configuration with two units and a queue that is large enough not to matter.
pub(crate) fn config(client: Limits, providers: &[Limits]) -> Config {
    let mut config = Config::new();
    config.max_queued = 10_000;
    config.units = 2;
    config.client = client;
    config.providers = providers.to_vec();
    config
}

/// A coordinator that is played, one line a call.
#[derive(Clone)]
pub(crate) struct Play {
    pub(crate) core: Coordinator,
}

impl Play {
    pub(crate) fn new(client: Limits, providers: &[Limits]) -> Self {
        Self::of(&config(client, providers))
    }

    pub(crate) fn of(config: &Config) -> Self {
        Self { core: Coordinator::new(config).expect("a configuration that is in order") }
    }

    #[track_caller]
    pub(crate) fn starts(&mut self, at_ms: u64, request: &Request<'_>) -> TicketId {
        match self.core.request(request, at(at_ms)) {
            Ok(Admitted::Started(ticket)) => ticket,
            other => panic!("not started: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn queues(&mut self, at_ms: u64, request: &Request<'_>) -> TicketId {
        match self.core.request(request, at(at_ms)) {
            Ok(Admitted::Queued(ticket)) => ticket,
            other => panic!("not queued: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn refuses(&mut self, at_ms: u64, request: &Request<'_>) -> Refusal {
        match self.core.request(request, at(at_ms)) {
            Err(refusal) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }

    pub(crate) fn step(&mut self, at_ms: u64, ticket: TicketId) -> Step {
        self.core.step(ticket, at(at_ms))
    }

    #[track_caller]
    pub(crate) fn gives_up(&mut self, at_ms: u64, ticket: TicketId) -> Refusal {
        match self.step(at_ms, ticket) {
            Step::GiveUp(refusal) => refusal,
            other => panic!("does not give up: {other:?}"),
        }
    }

    /// Time comes, and nothing else.
    pub(crate) fn time(&mut self, at_ms: u64) {
        self.core.handle_timeout(at(at_ms));
    }

    /// The operation ends.
    pub(crate) fn settle(&mut self, at_ms: u64, ticket: TicketId) {
        self.core.handle_release(ticket, at(at_ms));
    }

    /// The submission's future is dropped.
    pub(crate) fn drop(&mut self, at_ms: u64, ticket: TicketId) {
        self.core.handle_release(ticket, at(at_ms));
    }

    pub(crate) fn abort(&mut self, at_ms: u64, ticket: TicketId) {
        self.core.handle_abort(ticket, at(at_ms));
    }

    pub(crate) fn cooldown(&mut self, at_ms: u64, provider: ProviderId, delay_ms: u64) {
        self.core.cooldown(provider, ms(delay_ms), at(at_ms)).expect("a provider that is there");
    }

    pub(crate) fn reset(&mut self, at_ms: u64, scope: ScopeId) {
        self.core.reset(scope, at(at_ms)).expect("a scope that is there");
    }

    pub(crate) fn close(&mut self, at_ms: u64) {
        self.core.close(at(at_ms));
    }

    /// What is free in the first pacer of a scope, which is a log.
    pub(crate) fn available(&mut self, at_ms: u64, scope: ScopeId) -> u64 {
        self.core.available(scope, 0, at(at_ms)).expect("a log")
    }

    /// What has happened since this was last asked.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.core.poll_event()).collect()
    }

    /// Nothing has happened but these grants, in this order.
    #[track_caller]
    pub(crate) fn granted(&mut self, tickets: &[TicketId]) {
        let expected: Vec<Event> = tickets.iter().map(|&ticket| Event::Granted(ticket)).collect();
        assert_eq!(self.events(), expected);
    }

    /// These grants have happened, and each of them starts.
    #[track_caller]
    pub(crate) fn start_all(&mut self, at_ms: u64, tickets: &[TicketId]) {
        self.granted(tickets);
        for &ticket in tickets {
            assert_eq!(self.step(at_ms, ticket), Step::Start);
        }
    }

    pub(crate) fn wake(&self) -> Option<Instant> {
        self.core.poll_timeout()
    }

    /// (running, queued, granted but not started).
    pub(crate) fn counts(&self) -> (u32, u32, u32) {
        let counts = self.core.counts();
        (counts.running, counts.queued, counts.granted)
    }

    pub(crate) fn hand_off(&self, scope: ScopeId) -> Duration {
        self.core.hand_off_time(scope).expect("a provider that is there")
    }
}

pub(crate) fn of(provider: ProviderId) -> ScopeId {
    ScopeId::Provider(provider)
}

/// What is wrong with a configuration.
#[track_caller]
pub(crate) fn error(config: &Config) -> ConfigError {
    Coordinator::new(config).map(drop).expect_err("a configuration that is not in order")
}
