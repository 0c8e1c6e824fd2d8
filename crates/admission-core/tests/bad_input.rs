//! Input that is wrong, or at the end of its type: an error with a name or a clamp, never a panic.
//!
//! Configurations first, then requests, then times, then calls about tickets that are gone.

mod dice;
mod transcript;

use std::time::Duration;

use admission_core::{ConfigError, Counts, Interval, Log};
use dice::Dice;
use transcript::*;

fn at_a(limits: Limits) -> Config {
    config(free(), &[limits])
}

// rule L1
#[test]
fn a_limit_of_zero_is_an_error() {
    let at_client = |limits| config(limits, &[free()]);
    let at_template = |limits| {
        let mut config = at_a(free());
        config.template = Some(limits);
        config
    };
    type At = fn(Limits) -> Config;
    type Wrong = fn(LimitsError) -> ConfigError;
    let scopes: [(At, Wrong); 3] = [
        (at_client, ConfigError::Client),
        (at_a, |error| ConfigError::Provider(A, error)),
        (at_template, ConfigError::Template),
    ];
    for (with, wrong) in scopes {
        assert_eq!(error(&with(conc(0))), wrong(LimitsError::ZeroConcurrency));
        assert_eq!(error(&with(gap(0))), wrong(LimitsError::ZeroInterval));
        let only_margin = Interval::new(Duration::ZERO).margin(ms(1));
        assert_eq!(
            error(&with(free().pacer(Pacer::Interval(only_margin)))),
            wrong(LimitsError::ZeroInterval)
        );
        assert_eq!(error(&with(quota(0, 1_000))), wrong(LimitsError::ZeroLimit));
        assert_eq!(error(&with(quota(0, 0))), wrong(LimitsError::ZeroLimit));
        // the second pacer is looked at too
        assert_eq!(error(&with(gap(1).window(0, ms(1)))), wrong(LimitsError::ZeroLimit));
    }
    assert_eq!(
        error(&config(free(), &[free(), gap(0)])),
        ConfigError::Provider(B, LimitsError::ZeroInterval)
    );
}

// rule L1
#[test]
fn a_log_counts_a_unit_that_is_there() {
    let mut config = at_a(tokens(10, 1_000));
    config.units = 0;
    assert_eq!(error(&config), ConfigError::NoUnits);
    config.units = 1;
    assert_eq!(error(&config), ConfigError::Provider(A, LimitsError::UnknownUnit(TOKENS)));
    config.units = 2;
    Play::of(&config);
    config.providers[0] = free().pacer(Pacer::Log(Log::new(1, ms(1)).unit(UnitId::new(u16::MAX))));
    config.units = u16::MAX;
    assert_eq!(error(&config), ConfigError::Provider(A, LimitsError::UnknownUnit(UnitId::new(u16::MAX))));
}

// rule S4a
#[test]
fn a_hand_off_below_a_millisecond_is_an_error() {
    let mut config = at_a(free());
    for short in [0, 1, 999_999] {
        config.hand_off = Duration::from_nanos(short);
        assert_eq!(error(&config), ConfigError::HandOffTooShort);
    }
    config.hand_off = ms(1);
    assert_eq!(Play::of(&config).hand_off(ScopeId::Client), ms(1));
    config.hand_off = Duration::MAX;
    assert_eq!(Play::of(&config).hand_off(of(A)), Duration::from_nanos(u64::MAX));
}

// rule L1
#[test]
fn more_pacers_than_can_be_numbered_are_an_error() {
    let mut limits = free();
    limits.pacers = vec![Pacer::Interval(Interval::new(ms(1))); usize::from(u16::MAX)];
    Play::of(&at_a(limits.clone()));
    limits.pacers.push(Pacer::Interval(Interval::new(ms(1))));
    assert_eq!(error(&at_a(limits)), ConfigError::Provider(A, LimitsError::TooManyPacers));
}

#[test]
fn an_error_says_what_is_wrong() {
    let told = [
        (error(&at_a(conc(0))), "provider 0: a concurrency of 0 would admit nothing"),
        (error(&config(gap(0), &[])), "the client: an interval of 0 paces nothing"),
        (error(&at_a(quota(0, 1))), "provider 0: a limit of 0 would admit nothing"),
    ];
    for (error, text) in told {
        assert_eq!(error.to_string(), text);
    }
}

// rules L1, L3, W1
#[test]
fn the_largest_limits_admit_and_are_not_reserved() {
    let most = conc(u32::MAX).window(u64::MAX, Duration::MAX).interval(Duration::MAX);
    let most = most.pacer(Pacer::Log(Log::new(u64::MAX, Duration::MAX).unit(TOKENS).until_settled()));
    let mut config = config(most.clone(), &[most]);
    config.max_queued = u32::MAX;
    config.max_wait = Some(Duration::MAX);
    config.hand_off = Duration::MAX;
    let mut play = Play::of(&config);
    let a = play.starts(0, &ask(A));
    assert_eq!(play.available(0, ScopeId::Client), u64::MAX - 1);
    let b = play.queues(0, &ask(A).timeout(Duration::MAX));
    play.settle(1, a);
    assert_eq!((play.counts(), play.wake()), ((0, 1, 0), None));
    play.close(1);
    assert_eq!(play.gives_up(1, b).reason, Reason::Closed);
}

// rule W1
#[test]
fn room_for_more_units_than_memory_is_an_error_or_there() {
    let mut config = at_a(free());
    config.max_queued = u32::MAX;
    config.units = u16::MAX;
    match Coordinator::new(&config) {
        Ok(mut core) => assert!(core.request(&ask(A), at(0)).is_ok()),
        Err(error) => assert_eq!(error, ConfigError::OutOfMemory),
    }
}

// rule W1
#[test]
fn without_a_queue_a_request_starts_or_is_refused() {
    let mut config = at_a(conc(1));
    config.max_queued = 0;
    let mut play = Play::of(&config);
    let a = play.starts(0, &ask(A));
    assert_eq!(play.refuses(0, &ask(A)).reason, Reason::Overflow);
    play.settle(1, a);
    play.starts(1, &ask(A));
}

#[test]
fn without_a_provider_every_request_is_unknown() {
    let mut play = Play::new(conc(1), &[]);
    assert_eq!(play.refuses(0, &ask(A)).reason, Reason::UnknownProvider);
    assert_eq!(play.core.cooldown(A, ms(100), at(1)), Err(ChangeError::UnknownProvider));
    play.reset(2, ScopeId::Client);
    play.close(3);
    assert_eq!((play.counts(), play.wake()), ((0, 0, 0), None));
}

// rule D5
#[test]
fn an_unknown_provider_is_an_error() {
    let mut play = Play::new(free(), &[free(), gap(100)]);
    for unknown in [ProviderId::new(2), ProviderId::new(u32::MAX)] {
        let refused = play.refuses(0, &ask(unknown));
        assert_eq!(refused, Refusal::new(Reason::UnknownProvider));
        let error = Err(ChangeError::UnknownProvider);
        assert_eq!(play.core.cooldown(unknown, ms(1_000), at(0)), error);
        assert_eq!(play.core.reset(of(unknown), at(0)), error);
        assert_eq!(play.core.set_limits(of(unknown), &free(), at(0)), error);
        assert_eq!(play.core.remove_provider(unknown, at(0)), error);
        assert_eq!(play.core.presence(unknown), Presence::Unknown);
        assert_eq!(play.core.not_before(unknown), Instant::ZERO);
        assert_eq!(play.core.hand_off_time(of(unknown)), None);
        assert_eq!(play.core.available(of(unknown), 0, at(0)), None);
    }
    assert_eq!(play.core.available(of(B), 0, at(0)), None); // an interval, no log
    assert_eq!(play.core.available(of(B), 1, at(0)), None);
    assert_eq!(play.core.available(ScopeId::Client, u16::MAX, at(0)), None);
    play.starts(0, &ask(A));
}

// rule D5
#[test]
fn an_unknown_unit_is_refused() {
    let mut play = Play::new(free(), &[tokens(10, 1_000)]);
    for unit in [2, u16::MAX] {
        let costs = [(TOKENS, 1), (UnitId::new(unit), 0)];
        assert_eq!(play.refuses(0, &ask(A).costs(&costs)).reason, Reason::UnknownUnit);
    }
    assert_eq!(play.available(0, of(A)), 10);
}

// rule L6
#[test]
fn a_cost_over_a_limit_is_refused_at_once() {
    for (client, provider, side) in [
        (tokens(10, 1_000), free(), Side::Client),
        (free(), tokens(10, 1_000), Side::Provider),
        (tokens(10, 1_000), tokens(10, 1_000), Side::Client),
    ] {
        let mut play = Play::new(client, &[provider]);
        let impossible =
            Refusal { held_by: Some(Hold::Log(side, 0)), ..Refusal::new(Reason::ImpossibleCost) };
        for costs in [vec![(TOKENS, 11)], vec![(TOKENS, 6), (TOKENS, 5)], vec![(TOKENS, u64::MAX); 2]] {
            assert_eq!(play.refuses(0, &ask(A).costs(&costs)), impossible);
        }
        assert_eq!(play.counts(), (0, 0, 0));
        play.starts(0, &ask(A).costs(&[(TOKENS, 10)]));
    }
    // A window of 0 forgets at once and refuses no cost.
    let mut play = Play::new(free(), &[tokens(10, 0)]);
    play.starts(0, &ask(A).costs(&[(TOKENS, u64::MAX)]));
    // What is stated in requests is not asked: each ticket costs one.
    let mut play = Play::new(free(), &[quota(1, 1_000)]);
    play.starts(0, &ask(A).costs(&[(UnitId::REQUESTS, u64::MAX)]));
}

// rules L3, L9, T2
#[test]
fn the_largest_costs_add_up_without_overflow() {
    let most = Log::new(u64::MAX, ms(1_000)).unit(TOKENS);
    for log in [most, most.until_settled()] {
        let mut play = Play::new(free().pacer(Pacer::Log(log)), &[free().pacer(Pacer::Log(log))]);
        let all = [(TOKENS, u64::MAX)];
        let first = play.starts(0, &ask(A).costs(&all));
        let next = play.queues(1, &ask(A).costs(&all));
        let last = play.queues(1, &ask(A).costs(&[(TOKENS, 1)]));
        // Both start although the window is full, and it holds three times what it may, and a bit.
        play.reset(2, of(A));
        play.reset(2, ScopeId::Client);
        play.start_all(2, &[next, last]);
        assert_eq!(play.available(3, of(A)), 0);
        play.settle(3, first);
        play.settle(4, next);
        play.settle(5, last);
        assert_eq!(play.available(1_001, ScopeId::Client), 0);
        assert_eq!(play.available(1_005, ScopeId::Client), u64::MAX);
        play.starts(1_005, &ask(A).costs(&all));
    }
}

// rules T1, T2
#[test]
fn the_end_of_time_is_not_reached() {
    let limits = [gap(100), quota(1, 100), free(), conc(1)];
    for limits in limits {
        for now in [Instant::NEVER, nanos(u64::MAX - 1)] {
            let mut play = Play::new(free(), &[limits.clone(), free()]);
            let a = play.core.request(&ask(A), now);
            assert!(a.is_ok());
            play.core.cooldown(A, Duration::MAX, now).expect("a provider that is there");
            let waits = play.core.request(&ask(A).timeout(Duration::MAX), now).is_ok();
            assert!(waits);
            // Nothing is left that time could open, so no timer is asked for.
            assert_eq!(play.wake(), None);
            play.core.handle_timeout(now);
            assert_eq!(play.events(), []);
            play.core.reset(of(A), now).expect("a provider that is there");
            play.core.close(now);
            assert_eq!(play.events().len(), 1);
            // Time does not run back from there.
            play.time(0);
            assert_eq!(play.core.available(of(A), 0, at(0)).is_some(), limits == quota(1, 100));
        }
    }
}

// rule T2
#[test]
fn a_timeout_of_nothing_expires_in_the_next_instant() {
    let mut play = Play::new(free(), &[gap(100)]);
    play.starts(0, &ask(A));
    let a = play.queues(5, &ask(A).timeout(Duration::ZERO));
    assert_eq!(play.wake(), Some(nanos(5_000_001)));
    play.time(5);
    assert_eq!(play.events(), []);
    play.core.handle_timeout(nanos(5_000_001));
    assert_eq!(play.events(), [Event::Refused(a, Reason::AdmissionTimeout)]);
}

/// Makes every call that there is about a ticket.
fn every_call(play: &mut Play, at_ms: u64, ticket: TicketId) {
    play.abort(at_ms, ticket);
    assert_eq!(play.step(at_ms, ticket), Step::Gone);
    play.settle(at_ms, ticket);
}

// rule W6
#[test]
fn calls_about_a_ticket_that_is_gone_only_let_time_pass() {
    let mut play = Play::new(conc(1), &[free()]);
    let gone = play.starts(0, &ask(A).key(Key(1)));
    play.settle(1, gone);
    every_call(&mut play, 2, gone);
    assert_eq!((play.counts(), play.events()), ((0, 0, 0), vec![]));

    // Another ticket has its slot now: running, then waiting, then granted, then refused.
    let running = play.starts(3, &ask(A).key(Key(1)));
    assert_eq!(running.index(), gone.index());
    assert_ne!(running, gone);
    every_call(&mut play, 4, gone);
    assert_eq!(play.counts(), (1, 0, 0));

    let waits = play.queues(5, &ask(A).timeout(ms(100)));
    play.drop(6, waits);
    let heir = play.queues(7, &ask(A).timeout(ms(100)));
    assert_eq!(heir.index(), waits.index());
    every_call(&mut play, 8, waits);
    assert_eq!((play.counts(), play.events()), ((1, 1, 0), vec![]));
    play.settle(9, running);
    play.granted(&[heir]);
    every_call(&mut play, 10, waits);
    assert_eq!(play.counts(), (0, 0, 1));

    // But time passes in each of them: the grant is taken back, and expires.
    play.abort(300, gone);
    assert_eq!(play.events(), [Event::TakenBack(heir), Event::Refused(heir, Reason::AdmissionTimeout)]);
    every_call(&mut play, 301, waits);
    play.abort(301, heir); // it has ended already
    assert_eq!(play.gives_up(301, heir).reason, Reason::AdmissionTimeout);
    every_call(&mut play, 302, heir);
    assert_eq!((play.counts(), play.events()), ((0, 0, 0), vec![]));
}

// rule W6
#[test]
fn a_ticket_of_another_coordinator_is_gone() {
    let mut other = Play::new(free(), &[free()]);
    let strangers: Vec<TicketId> = (0..10).map(|_| other.starts(0, &ask(A))).collect();
    let mut play = Play::new(free(), &[free()]);
    for ticket in strangers {
        every_call(&mut play, 1, ticket);
    }
    assert_eq!(play.core.counts(), Counts::default());
}

// rules T1, T2, W6
#[test]
fn anything_at_all_is_answered() {
    let ends = |dice: &mut Dice| match dice.below(4) {
        0 => 0,
        1 => u64::MAX - dice.below(3),
        2 => u64::MAX / 2,
        _ => dice.below(1_000),
    };
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let limits = |dice: &mut Dice| {
            let mut limits = conc((1 + dice.below(3)) as u32 * (u32::MAX / 3));
            limits = limits.window(1 + ends(dice) / 2, Duration::from_nanos(ends(dice)));
            let log = Log::new(1 + ends(dice) / 2, Duration::from_nanos(ends(dice))).unit(TOKENS);
            let log = log.margin(Duration::from_nanos(ends(dice)));
            limits = limits.pacer(Pacer::Log(if dice.below(2) == 0 { log } else { log.until_settled() }));
            match dice.below(3) {
                0 => limits.interval(Duration::from_nanos(1 + ends(dice) / 2)),
                _ => limits,
            }
        };
        let mut config = config(limits(&mut dice), &[limits(&mut dice), limits(&mut dice)]);
        config.hand_off = ms(1) + Duration::from_nanos(ends(&mut dice));
        config.max_wait = (dice.below(2) == 0).then(|| Duration::from_nanos(ends(&mut dice)));
        config.max_queued = [0, 5, 1_000][dice.below(3) as usize];
        let mut play = Play::of(&config);
        let mut tickets = Vec::new();
        for _ in 0..200 {
            let now = nanos(if dice.below(20) == 0 { ends(&mut dice) } else { dice.below(10_000) });
            let some = tickets.get(dice.below(tickets.len() as u64 + 1) as usize).copied();
            let provider = ProviderId::new(dice.below(3) as u32);
            match (dice.below(11), some) {
                (0, Some(ticket)) => play.core.handle_release(ticket, now),
                (1, Some(ticket)) => play.core.handle_abort(ticket, now),
                (2 | 3, Some(ticket)) => drop(play.core.step(ticket, now)),
                // Two of the three are there.
                (4, _) => drop(play.core.cooldown(provider, Duration::from_nanos(ends(&mut dice)), now)),
                (5, _) => drop(play.core.reset(of(provider), now)),
                (6, Some(ticket)) => drop(play.core.settle_cost(ticket, TOKENS, ends(&mut dice), now)),
                (7, _) if dice.below(4) == 0 => match dice.below(4) {
                    0 => drop(play.core.remove_provider(provider, now)),
                    1 => drop(play.core.add_provider(provider, &limits(&mut dice), now)),
                    2 => drop(play.core.set_limits(of(provider), &limits(&mut dice), now)),
                    _ => drop(play.core.set_limits(ScopeId::Client, &limits(&mut dice), now)),
                },
                _ => {
                    let costs = [(TOKENS, ends(&mut dice)), (TOKENS, ends(&mut dice))];
                    let mut request = ask(provider).costs(&costs[..dice.below(3) as usize]);
                    request = request.timeout(Duration::from_nanos(ends(&mut dice)));
                    if dice.below(2) == 0 {
                        request = request.key(Key(ends(&mut dice)));
                    }
                    if let Ok(
                        admission_core::Admitted::Started(ticket) | admission_core::Admitted::Queued(ticket),
                    ) = play.core.request(&request, now)
                    {
                        tickets.push(ticket);
                    }
                }
            }
            play.events();
            // A driver adds nothing to it, so it has to be an instant that a clock can show.
            assert!(play.wake().is_none_or(|wake| wake < Instant::NEVER));
        }
        play.core.close(at(0));
        for ticket in tickets {
            play.core.handle_release(ticket, at(0));
        }
        assert_eq!((play.counts(), play.wake()), ((0, 0, 0), None));
    }
}
