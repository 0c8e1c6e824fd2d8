//! A coordinator that changes while it runs: limits, costs, providers, and what a snapshot tells of
//! them.
//!
//! Each is compared with the reference model elsewhere, over many histories; here they can be read.
//! Times are milliseconds; counts are (running, queued, granted but not started).

mod transcript;

use admission_core::{Interval, Log, ScopeSnapshot};
use transcript::*;

/// A name that no configuration here has.
const NEW: ProviderId = ProviderId::new(7);

/// One provider, A, and a template for the others.
fn templated(template: Limits) -> Play {
    let mut config = config(free(), &[free()]);
    config.template = Some(template);
    Play::of(&config)
}

/// A play in which a ticket of A is granted at 10 and not started.
fn granted(client: Limits, provider: Limits) -> (Play, TicketId) {
    let mut play = Play::new(client, &[provider, free()]);
    let ticket = play.queues(10, &ask(A).deferred());
    play.granted(&[ticket]);
    (play, ticket)
}

fn settled_tokens(limit: u64, window_ms: u64) -> Log {
    Log::new(limit, ms(window_ms)).unit(TOKENS).until_settled()
}

impl Play {
    #[track_caller]
    fn limit(&mut self, at_ms: u64, scope: ScopeId, limits: &Limits) {
        self.core.set_limits(scope, limits, at(at_ms)).expect("limits that are in order");
    }

    #[track_caller]
    fn add(&mut self, at_ms: u64, provider: ProviderId, limits: &Limits) {
        self.core.add_provider(provider, limits, at(at_ms)).expect("a provider that is new");
    }

    #[track_caller]
    fn remove(&mut self, at_ms: u64, provider: ProviderId) {
        self.core.remove_provider(provider, at(at_ms)).expect("a provider that is there");
    }

    #[track_caller]
    fn correct(&mut self, at_ms: u64, ticket: TicketId, cost: u64) {
        self.core.settle_cost(ticket, TOKENS, cost, at(at_ms)).expect("a call that runs");
    }

    #[track_caller]
    fn view(&self, provider: ProviderId) -> ScopeSnapshot {
        let snapshot = self.core.snapshot();
        let found = snapshot.providers.into_iter().find(|(id, _)| *id == provider);
        found.expect("a provider that is there").1
    }

    /// Spent and left, of each log of a provider.
    #[track_caller]
    fn logs(&self, provider: ProviderId) -> Vec<(u128, u64)> {
        let log = |pacer| match pacer {
            PacerSnapshot::Log { spent, left, .. } => Some((spent, left)),
            _ => None,
        };
        self.view(provider).pacers.into_iter().filter_map(log).collect()
    }

    fn is_here(&self, provider: ProviderId) -> bool {
        self.core.presence(provider) == Presence::Here
    }
}

// rule L7: lowering revokes nothing that runs
#[test]
fn lowering_revokes_nothing_that_runs() {
    let mut play = Play::new(free(), &[conc(3)]);
    let running: Vec<TicketId> = (0..3).map(|_| play.starts(0, &ask(A))).collect();
    let waits = play.queues(0, &ask(A));
    play.limit(10, of(A), &conc(1));
    assert_eq!((play.events(), play.counts()), (vec![], (3, 1, 0)));
    play.settle(20, running[0]);
    play.settle(20, running[1]);
    assert_eq!(play.events(), []);
    play.settle(30, running[2]);
    play.granted(&[waits]);
}

// rule L7: lowering forgets nothing that a window has logged
#[test]
fn lowering_forgets_nothing_that_is_logged() {
    let mut play = Play::new(free(), &[quota(5, 1_000)]);
    for t in [0, 0, 0, 100] {
        play.starts(t, &ask(A));
    }
    play.limit(200, of(A), &quota(2, 1_000));
    assert_eq!(play.logs(A), [(4, 0)]);
    let waits = play.queues(200, &ask(A));
    assert_eq!(play.wake(), Some(at(1_000))); // then one of four is left
    assert_eq!(play.step(1_000, waits), Step::Start);
    // and raised again it still has them
    play.limit(1_050, of(A), &quota(5, 1_000));
    assert_eq!(play.available(1_050, of(A)), 3);
}

// rule L7: raising admits at once what now may start
#[test]
fn raising_admits_at_once() {
    let mut play = Play::new(conc(1), &[quota(1, 1_000), free()]);
    play.starts(0, &ask(A));
    let a: Vec<TicketId> = (0..3).map(|_| play.queues(1, &ask(A))).collect();
    let b = play.queues(2, &ask(B));
    play.limit(10, ScopeId::Client, &conc(4));
    play.granted(&[b]);
    play.limit(11, of(A), &quota(3, 1_000));
    play.granted(&a[..2]);
}

// rules L7, L6: a queued ticket that can no longer fit is rejected in that call
#[test]
fn what_can_no_longer_fit_is_rejected() {
    for (scope, side) in [(ScopeId::Client, Side::Client), (of(A), Side::Provider)] {
        let mut play = Play::new(tokens(10, 1_000), &[tokens(10, 1_000)]);
        play.starts(0, &ask(A).costs(&[(TOKENS, 10)]));
        let heavy = play.queues(1, &ask(A).costs(&[(TOKENS, 8)]));
        let light = play.queues(2, &ask(A).costs(&[(TOKENS, 5)]));
        play.limit(10, scope, &tokens(5, 1_000));
        assert_eq!(play.events(), [Event::Refused(heavy, Reason::ImpossibleCost)]);
        let told = play.gives_up(10, heavy);
        let held_by = Some(Hold::Log(side, 0));
        assert_eq!(told, Refusal { held_by, ..Refusal::new(Reason::ImpossibleCost) });
        assert_eq!(play.step(1_000, light), Step::Start);
    }
}

// rule L7: a window that grows counts the starts that were inside the old one at that call
#[test]
fn a_window_that_grows() {
    let mut play = Play::new(free(), &[quota(5, 100)]);
    for t in [0, 50, 60] {
        play.starts(t, &ask(A));
    }
    play.limit(100, of(A), &quota(5, 1_000)); // the first is exactly one window old
    assert_eq!(play.available(1_049, of(A)), 3);
    assert_eq!(play.available(1_050, of(A)), 4);
    // One that shrinks has forgotten what is outside it by the time it grows again.
    play.limit(1_055, of(A), &quota(5, 10));
    play.limit(1_055, of(A), &quota(5, 1_000));
    assert_eq!(play.available(1_055, of(A)), 5);
}

// rule L7: a pacer keeps what it knows if its kind and unit stay; a new one starts empty
#[test]
fn a_pacer_keeps_what_it_knows() {
    let mut play = Play::new(free(), &[tokens(10, 1_000).interval(ms(10))]);
    play.starts(0, &ask(A).costs(&[(TOKENS, 6)]));
    let more = quota(5, 1_000).interval(ms(50));
    play.limit(5, of(A), &more.pacer(tokens(20, 1_000).pacers[0]));
    assert_eq!(play.logs(A), [(0, 5), (6, 14)]);
    let PacerSnapshot::Interval { next, .. } = play.view(A).pacers[1] else { panic!("an interval") };
    assert_eq!(next, Some(at(50))); // from its last start
    // One that goes is forgotten.
    play.limit(6, of(A), &free());
    play.limit(7, of(A), &tokens(10, 1_000));
    assert_eq!(play.logs(A), [(0, 10)]);
}

// rule L7: of several alike the n-th takes over from the n-th
#[test]
fn the_nth_takes_over_from_the_nth() {
    let mut play = Play::new(free(), &[quota(10, 100).window(20, ms(1_000))]);
    play.starts(0, &ask(A));
    play.starts(100, &ask(A));
    assert_eq!(play.logs(A), [(1, 9), (2, 18)]);
    // By their places, not by their windows; the third is new.
    play.limit(150, of(A), &quota(20, 1_000).interval(ms(1)).window(10, ms(500)).window(9, ms(100)));
    assert_eq!(play.logs(A), [(1, 19), (2, 8), (0, 9)]);
}

// rules L7, L9: what a log counts from is not part of its kind
#[test]
fn a_log_may_begin_to_count_until_settled() {
    let mut play = Play::new(free(), &[tokens(10, 100)]);
    let old = play.starts(0, &ask(A).costs(&[(TOKENS, 3)]));
    play.limit(50, of(A), &free().pacer(Pacer::Log(settled_tokens(10, 100))));
    let new = play.starts(60, &ask(A).costs(&[(TOKENS, 4)]));
    assert_eq!(play.available(99, of(A)), 3);
    assert_eq!(play.available(100, of(A)), 6); // the old one counted from its start
    play.settle(200, old);
    play.settle(300, new);
    assert_eq!(play.available(399, of(A)), 6);
    assert_eq!(play.available(400, of(A)), 10);
}

// rules L7, W1: lowering `max_queued` rejects nobody who waits
#[test]
fn max_queued_changes() {
    let mut config = config(free(), &[conc(1)]);
    config.max_queued = 1;
    let mut play = Play::of(&config);
    play.starts(0, &ask(A));
    play.queues(1, &ask(A));
    assert_eq!(play.refuses(1, &ask(A)).reason, Reason::Overflow);
    play.core.set_max_queued(2, at(2));
    play.queues(2, &ask(A));
    play.core.set_max_queued(0, at(3));
    assert_eq!((play.events(), play.counts()), (vec![], (1, 2, 0)));
    assert_eq!(play.refuses(4, &ask(A)).reason, Reason::Overflow);
}

// rules L7, S5: grants of that scope are taken back, are not passed over, and halve nothing
#[test]
fn grants_of_that_scope_are_taken_back() {
    for scope in [ScopeId::Client, of(A)] {
        let (mut play, ticket) = granted(conc(2), conc(2));
        play.limit(20, scope, &conc(1));
        // It still fits, and goes again in the same call.
        assert_eq!(play.events(), [Event::TakenBack(ticket), Event::Granted(ticket)]);
        assert_eq!((play.hand_off(of(A)), play.hand_off(ScopeId::Client)), (ms(200), ms(200)));
    }
    let (mut play, _) = granted(conc(2), conc(2));
    play.limit(20, of(B), &conc(1));
    assert_eq!(play.events(), []);
}

// rule L7: so that no start breaks the new limit
#[test]
fn no_start_breaks_the_new_limit() {
    let (mut play, ticket) = granted(free(), free());
    let running = play.starts(15, &ask(A));
    play.limit(20, of(A), &conc(1));
    assert_eq!(play.events(), [Event::TakenBack(ticket)]);
    assert_eq!(play.step(30, ticket), Step::Wait);
    play.settle(40, running);
    play.start_all(40, &[ticket]);
}

// rules L7, L6, D5: a grant that can no longer fit gives everything back; that is told before its
// deadline
#[test]
fn a_grant_that_can_no_longer_fit_is_rejected() {
    let mut play = Play::new(free(), &[tokens(10, 1_000)]);
    let ticket = play.queues(0, &ask(A).costs(&[(TOKENS, 8)]).timeout(ms(30)).deferred());
    play.granted(&[ticket]);
    play.limit(40, of(A), &tokens(5, 1_000));
    assert_eq!(play.events(), [Event::TakenBack(ticket), Event::Refused(ticket, Reason::ImpossibleCost)]);
    assert_eq!(play.available(40, of(A)), 5);
}

// rules L7, W4: on a closed coordinator a grant that is taken back ends as closed
#[test]
fn limits_may_change_after_the_close() {
    let (mut play, ticket) = granted(free(), free());
    play.close(15);
    play.limit(20, of(A), &conc(1));
    assert_eq!(play.events(), [Event::TakenBack(ticket), Event::Refused(ticket, Reason::Closed)]);
}

// rules L1, L7, L10: what is a configuration error is one live too, and changes nothing
#[test]
fn limits_that_are_out_of_order_change_nothing() {
    let zero = Pacer::Interval(Interval::new(ms(0)).margin(ms(1)));
    let unknown = UnitId::new(2);
    let wrong = [
        (conc(0), LimitsError::ZeroConcurrency),
        (free().pacer(zero), LimitsError::ZeroInterval),
        (quota(0, 100), LimitsError::ZeroLimit),
        (free().pacer(Pacer::Log(Log::new(1, ms(1)).unit(unknown))), LimitsError::UnknownUnit(unknown)),
    ];
    let (mut play, _) = granted(free(), quota(9, 100));
    for (limits, error) in wrong {
        let error = Err(ChangeError::Limits(error));
        assert_eq!(play.core.set_limits(ScopeId::Client, &limits, at(20)), error);
        assert_eq!(play.core.set_limits(of(A), &limits, at(20)), error);
        assert_eq!(play.core.add_provider(NEW, &limits, at(20)), error);
        // What is not there, or is, is told first.
        assert_eq!(play.core.set_limits(of(NEW), &limits, at(20)), Err(ChangeError::UnknownProvider));
        assert_eq!(play.core.add_provider(A, &limits, at(20)), Err(ChangeError::ProviderExists));
    }
    assert_eq!((play.events(), play.counts(), play.is_here(NEW)), (vec![], (0, 0, 1), false));
}

// rule L8: an estimate corrected down admits who waits, at once
#[test]
fn a_correction_changes_the_entry() {
    let mut play = Play::new(free(), &[tokens(1_000, 1_000)]);
    let a = play.starts(0, &ask(A).costs(&[(TOKENS, 1_000)]));
    let b = play.queues(100, &ask(A).costs(&[(TOKENS, 600)]));
    play.correct(200, a, 350);
    play.start_all(250, &[b]);
    // It stays at its instant.
    assert_eq!(play.available(999, of(A)), 50);
    assert_eq!(play.available(1_000, of(A)), 400);
    // Out of the window there is nothing left to change.
    play.correct(1_100, a, 4_000);
    assert_eq!(play.available(1_100, of(A)), 400);
}

// rule L8: it may pass the limit, as often as one likes, and from a cost of 0 too
#[test]
fn a_correction_may_pass_the_limit() {
    let mut play = Play::new(tokens(2_000, 1_000), &[tokens(1_000, 1_000)]);
    let a = play.starts(0, &ask(A));
    play.correct(10, a, 4_000);
    assert_eq!(play.logs(A), [(4_000, 0)]);
    assert_eq!(play.available(10, ScopeId::Client), 0);
    let waits = play.queues(20, &ask(A).costs(&[(TOKENS, 1)]));
    assert_eq!(play.wake(), Some(at(1_000)));
    play.correct(30, a, 999);
    play.granted(&[waits]);
}

// rules L8, L3: one that started as of an earlier call counts from there, whatever is known or noted of it later
#[test]
fn a_correction_of_an_undated_start_changes_the_entry_of_its_start() {
    let mut play = Play::new(free(), &[tokens(100, 1_000)]);
    play.time(10);
    let a = play.core.start_at_once(A, Some(Key(7)), None).expect("nobody is there");
    play.correct(300, a, 60);
    play.correct(310, a, 50);
    assert_eq!(play.available(310, of(A)), 50, "the second in place of the first");
    // Somebody comes upon it.
    play.queues(320, &ask(A).key(Key(7)));
    play.correct(330, a, 20);
    assert_eq!(play.available(1_009, of(A)), 80);
    assert_eq!(play.available(1_010, of(A)), 100, "no longer than for a window from its start");
}

// rules L8, L9: until settled the cost holds for as long as the call counts
#[test]
fn a_correction_until_settled() {
    let mut play = Play::new(free(), &[free().pacer(Pacer::Log(settled_tokens(10, 100)))]);
    let a = play.starts(0, &ask(A).costs(&[(TOKENS, 9)]));
    play.correct(5_000, a, 3);
    assert_eq!(play.available(5_000, of(A)), 7);
    play.settle(6_000, a);
    assert_eq!(play.available(6_099, of(A)), 7);
    assert_eq!(play.available(6_100, of(A)), 10);
}

// rule L8: a correction takes no grant back
#[test]
fn a_correction_takes_no_grant_back() {
    let mut play = Play::new(free(), &[tokens(10, 1_000)]);
    let a = play.starts(0, &ask(A).costs(&[(TOKENS, 2)]));
    let b = play.queues(10, &ask(A).costs(&[(TOKENS, 8)]).deferred());
    play.granted(&[b]);
    play.correct(20, a, 9);
    assert_eq!(play.events(), []);
    assert_eq!(play.step(30, b), Step::Start);
}

// rule L8: only while the permit is held, and for any unit but requests
#[test]
fn who_may_not_correct() {
    let mut play = Play::new(free(), &[tokens(10, 1_000).max_concurrent(1)]);
    let a = play.starts(0, &ask(A).costs(&[(TOKENS, 4)]));
    let waits = play.queues(0, &ask(A));
    assert_eq!(play.core.settle_cost(a, UnitId::REQUESTS, 5, at(1)), Err(ChangeError::Requests));
    assert_eq!(play.core.settle_cost(a, UnitId::new(2), 5, at(1)), Err(ChangeError::UnknownUnit));
    assert_eq!(play.core.settle_cost(waits, TOKENS, 5, at(1)), Err(ChangeError::NotRunning));
    play.settle(2, a);
    assert_eq!(play.core.settle_cost(a, TOKENS, 5, at(3)), Err(ChangeError::NotRunning));
    assert_eq!(play.available(3, of(A)), 6);
}

// rules L8, D2: a reset has forgotten the entry, and a correction brings nothing back
#[test]
fn a_correction_after_a_reset() {
    let mut play = Play::new(free(), &[tokens(10, 1_000)]);
    let a = play.starts(0, &ask(A).costs(&[(TOKENS, 4)]));
    play.reset(10, of(A));
    play.correct(20, a, 9);
    assert_eq!(play.available(20, of(A)), 10);
}

// rule L10: a template makes one on demand, by a request, a cooldown, or other limits
#[test]
fn a_template_makes_a_provider_on_demand() {
    let mut play = templated(conc(1));
    play.starts(0, &ask(NEW));
    play.queues(0, &ask(NEW));
    play.cooldown(0, ProviderId::new(8), 100);
    play.limit(0, of(ProviderId::new(9)), &conc(2));
    assert!([7, 8, 9].into_iter().all(|number| play.is_here(ProviderId::new(number))));
    // A reset has nothing to forget there.
    assert_eq!(play.core.reset(of(ProviderId::new(10)), at(1)), Err(ChangeError::UnknownProvider));
    assert!(!play.is_here(ProviderId::new(10)));
    // Nobody is made for one that is refused as closed.
    play.close(2);
    assert_eq!(play.refuses(2, &ask(ProviderId::new(10))).reason, Reason::Closed);
    assert!(!play.is_here(ProviderId::new(10)));
}

// rule L10: forgotten when it is idle, its logs are empty, its intervals and cooldown are over
#[test]
fn an_idle_provider_is_forgotten() {
    let ends = [(quota(5, 100), 0, 100), (gap(70), 0, 70), (free(), 50, 50)];
    for (limits, delay, end) in ends {
        let mut play = templated(limits);
        let a = play.starts(0, &ask(NEW));
        play.cooldown(0, NEW, delay);
        play.settle(1, a);
        play.time(end - 1);
        assert!(play.is_here(NEW));
        assert_eq!(play.wake(), None); // rule T6: no alarm is set for it
        play.time(end);
        assert_eq!(play.events(), [Event::Forgotten(NEW)]);
        assert_eq!(play.core.presence(NEW), Presence::Unknown);
    }
    // In the first call, once time has passed, that finds it so: not in the one that makes it so.
    let mut play = templated(free());
    let a = play.starts(0, &ask(NEW));
    play.settle(1, a);
    assert_eq!(play.events(), []);
    play.time(1);
    assert_eq!(play.events(), [Event::Forgotten(NEW)]);
}

// rule L10: its limits are still the template's
#[test]
fn other_limits_keep_a_provider() {
    let mut play = templated(conc(2));
    play.limit(0, of(NEW), &conc(1));
    play.time(1);
    assert!(play.is_here(NEW));
    play.limit(2, of(NEW), &conc(2));
    play.time(3);
    assert_eq!(play.events(), [Event::Forgotten(NEW)]);
}

// rules L10, S4a: forgotten, and its hand-off time starts full again
#[test]
fn a_forgotten_hand_off_time() {
    let mut play = templated(free());
    let ticket = play.queues(0, &ask(NEW).deferred());
    play.time(200);
    assert_eq!(play.hand_off(of(NEW)), ms(100));
    play.drop(201, ticket);
    play.queues(201, &ask(NEW).deferred());
    assert_eq!((play.hand_off(of(NEW)), play.hand_off(ScopeId::Client)), (ms(200), ms(100)));
}

// rules L10, S3: queued tickets and grants are rejected, the grants give everything back
#[test]
fn a_removed_providers_tickets_are_rejected() {
    let mut play = Play::new(conc(4).window(4, ms(1_000)), &[conc(2), free()]);
    let runs = play.starts(0, &ask(A));
    let is_granted = play.queues(1, &ask(A).key(Key(1)).deferred());
    let waits = play.queues(2, &ask(A));
    let same_key = play.queues(3, &ask(B).key(Key(1)));
    play.granted(&[is_granted]);
    play.remove(5, A);
    let expected = [
        Event::Refused(is_granted, Reason::Removed),
        Event::Refused(waits, Reason::Removed),
        Event::Granted(same_key),
    ];
    assert_eq!(play.events(), expected);
    let told = Refusal::new(Reason::Removed);
    assert_eq!(play.gives_up(6, is_granted), told);
    assert_eq!(play.available(6, ScopeId::Client), 2); // the call that runs, and the other grant
    assert_eq!(play.step(6, runs), Step::Running);
    assert_eq!(play.refuses(7, &ask(A)).reason, Reason::UnknownProvider);
}

// rules W4, L10
#[test]
fn a_grant_that_is_removed_after_close_ends_as_closed() {
    let mut play = Play::new(free(), &[conc(1)]);
    let first = play.starts(0, &ask(A));
    let second = play.queues(0, &ask(A));
    play.settle(1, first);
    play.granted(&[second]);
    play.close(2);
    assert_eq!(play.counts(), (0, 0, 1), "it may still start");
    play.remove(3, A);
    assert_eq!(play.counts(), (0, 0, 0));
    assert_eq!(play.gives_up(3, second).reason, Reason::Closed);
}

// rules L10, L8, W7: its running calls go on, and hold the client's slot and their key
#[test]
fn a_removed_providers_calls_go_on() {
    let mut play = Play::new(conc(2), &[free(), free()]);
    let a = play.starts(0, &ask(A).key(Key(1)));
    play.remove(1, A);
    assert_eq!(play.core.presence(A), Presence::Removed);
    let b = play.queues(2, &ask(B).key(Key(1)));
    play.correct(3, a, 5);
    play.settle(4, a);
    play.granted(&[b]);
    play.time(5);
    assert_eq!(play.events(), [Event::Forgotten(A)]);
}

// rule L10: its name keeps its logs, intervals, cooldown and running calls, should it be added again
#[test]
fn what_is_kept_of_a_removed_name() {
    let limits = tokens(10, 100).interval(ms(30)).max_concurrent(2);
    let mut play = Play::new(free(), std::slice::from_ref(&limits));
    let a = play.starts(0, &ask(A).costs(&[(TOKENS, 4)]));
    play.cooldown(0, A, 50);
    play.remove(10, A);
    assert!(play.core.snapshot().providers.is_empty());
    play.add(20, A, &limits);
    let view = play.view(A);
    assert_eq!((view.running, view.not_before), (1, Some(at(50))));
    assert_eq!(play.logs(A), [(4, 6)]);
    play.starts(50, &ask(A));
    let waits = play.queues(90, &ask(A)); // as many run as may
    play.settle(99, a);
    play.granted(&[waits]);
}

// rule L10: until they are over
#[test]
fn what_is_kept_vanishes() {
    for (limits, delay, end) in [(quota(5, 100), 0, 100), (gap(70), 0, 70), (free(), 50, 50)] {
        let mut play = Play::new(free(), &[limits]);
        let a = play.starts(0, &ask(A));
        play.cooldown(0, A, delay);
        play.settle(1, a);
        play.remove(2, A);
        play.time(end - 1);
        assert_eq!(play.core.presence(A), Presence::Removed);
        play.time(end);
        assert_eq!(play.events(), [Event::Forgotten(A)]);
        // Added again it starts with nothing, also in a longer window.
        play.add(end, A, &quota(5, 10_000));
        assert_eq!(play.logs(A), [(0, 5)]);
    }
}

// rule L10: with a template a removed name is made again on demand
#[test]
fn a_removed_name_is_made_again() {
    let mut play = templated(conc(1));
    play.remove(0, A);
    assert!(!play.is_here(A));
    play.starts(1, &ask(A));
    play.queues(1, &ask(A)); // the template's limits now
    assert!(play.is_here(A));
}

// rules L10, W3: and forgotten again in the very call in which its last wait is given up
#[test]
fn a_removed_name_whose_last_wait_is_given_up_is_forgotten() {
    let mut config = config(conc(1), &[free(), free()]);
    config.template = Some(free());
    let mut play = Play::of(&config);
    play.remove(0, A);
    play.starts(1, &ask(B));
    assert_eq!(play.events(), [Event::Forgotten(A)]);
    let waits = play.queues(1, &ask(A));
    assert!(play.is_here(A));
    play.time(2); // what is due is done: so the next call finds that time does nothing by itself
    play.drop(3, waits);
    assert_eq!(play.events(), [Event::Forgotten(A)]);
    assert_eq!(play.core.presence(A), Presence::Unknown);
}

// rules L10, L7: other limits for a removed name go on with what it remembers
#[test]
fn other_limits_for_a_removed_name() {
    let mut play = templated(gap(100));
    let window = || free().window(2, ms(1_000));
    assert_eq!(play.core.set_limits(of(A), &window(), at(0)), Ok(()));
    play.starts(0, &ask(A));
    play.starts(0, &ask(A));
    play.remove(1, A);
    // Not by way of the template, which has no window.
    assert_eq!(play.core.set_limits(of(A), &window(), at(2)), Ok(()));
    play.queues(3, &ask(A));
}

// rule L10: adding a name that is there, or removing or resetting one that is not
#[test]
fn what_is_there_or_not_is_an_error() {
    let mut play = Play::new(free(), &[free(), free()]);
    play.remove(0, A);
    assert_eq!(play.core.add_provider(B, &conc(3), at(1)), Err(ChangeError::ProviderExists));
    assert_eq!(play.core.remove_provider(A, at(1)), Err(ChangeError::UnknownProvider));
    assert_eq!(play.core.reset(of(A), at(1)), Err(ChangeError::UnknownProvider));
    assert_eq!(play.core.cooldown(A, ms(5), at(1)), Err(ChangeError::UnknownProvider));
    assert_eq!(play.core.set_limits(of(A), &free(), at(1)), Err(ChangeError::UnknownProvider));
    assert_eq!(play.view(B).max_concurrent, None);
}

// rules O1, S2: a grant that has not started is spent
#[test]
fn a_snapshot_tells_of_every_scope() {
    let limits = gap(100).pacer(tokens(10, 1_000).pacers[0]).pacer(Pacer::Log(settled_tokens(20, 500)));
    let mut play = Play::new(conc(3).window(10, ms(1_000)), &[limits, free()]);
    play.starts(10, &ask(A).costs(&[(TOKENS, 4)]));
    let a2 = play.queues(20, &ask(A).costs(&[(TOKENS, 3)]));
    play.queues(20, &ask(A).costs(&[(TOKENS, 2)]));
    play.cooldown(20, B, 300);
    play.queues(20, &ask(B));

    let seen = play.core.snapshot();
    assert_eq!((seen.at, seen.next, seen.max_queued), (at(20), Some(at(110)), 10_000));
    let counts = |scope: &ScopeSnapshot| (scope.running, scope.queued, scope.granted);
    assert_eq!((counts(&seen.client), seen.client.max_concurrent), ((1, 3, 0), Some(3)));
    let ids: Vec<ProviderId> = seen.providers.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [A, B]);
    assert_eq!((counts(&play.view(A)), counts(&play.view(B))), ((1, 2, 0), (0, 1, 0)));
    assert_eq!((play.view(A).not_before, play.view(B).not_before), (None, Some(at(320))));
    let PacerSnapshot::Interval { next, .. } = play.view(A).pacers[0] else { panic!("an interval") };
    assert_eq!(next, Some(at(110)));
    let PacerSnapshot::Log { unit, limit, spent, left, next, .. } = play.view(A).pacers[1] else {
        panic!("a log")
    };
    assert_eq!((unit, limit, spent, left, next), (TOKENS, 10, 4, 6, Some(at(1_010))));
    // Time alone frees nothing of a call that runs.
    let PacerSnapshot::Log { next, .. } = play.view(A).pacers[2] else { panic!("a log") };
    assert_eq!(next, None);

    // The interval is over first; the client has no such thing, and a log of its own.
    assert_eq!((play.view(A).next, play.view(B).next), (Some(at(110)), Some(at(320))));
    assert_eq!(seen.client.next, Some(at(1_010)));

    play.time(200);
    play.granted(&[a2]);
    // The grant will be taken back.
    assert_eq!((play.view(A).next, play.core.snapshot().client.next), (Some(at(400)), Some(at(400))));
    assert_eq!(counts(&play.view(A)), (1, 1, 1));
    assert_eq!(play.logs(A), [(7, 3), (7, 13)]);
    assert_eq!(play.core.snapshot(), play.core.snapshot(), "looking changes nothing");
}

// rules L7, R1: a refusal that is told after its limits have changed says so
#[test]
fn a_refusal_knows_whether_its_limits_are_still_the_same() {
    let mut config = config(conc(5), &[conc(1)]);
    config.template = Some(conc(2));
    let mut play = Play::of(&config);
    play.starts(0, &ask(A));
    let late: Vec<TicketId> = (0..5).map(|_| play.queues(0, &ask(A).timeout(ms(10)))).collect();
    play.time(11);
    let by_a = Some(Hold::Concurrency(Side::Provider));
    let told = |play: &mut Play, nth: usize| {
        let refusal = play.gives_up(20, late[nth]);
        assert_eq!(refusal.held_by, by_a);
        refusal.limits_changed
    };
    assert!(!told(&mut play, 0));
    play.limit(12, ScopeId::Client, &conc(6));
    assert!(!told(&mut play, 1), "the limits of the other scope");
    play.limit(12, of(A), &conc(3));
    assert!(told(&mut play, 2));
    play.limit(13, of(A), &conc(1));
    assert!(!told(&mut play, 3), "changed back");
    play.remove(14, A);
    assert!(told(&mut play, 4), "it would be made with the template's limits");

    // Limits that differ in a number alone are others too.
    let mut play = Play::new(free(), &[quota(1, MINUTE)]);
    play.starts(0, &ask(A));
    let late = play.queues(0, &ask(A).timeout(ms(10)));
    play.time(11);
    play.limit(12, of(A), &quota(8, MINUTE));
    let refusal = play.gives_up(12, late);
    assert_eq!(refusal.held_by, Some(Hold::Log(Side::Provider, 0)));
    assert!(refusal.limits_changed);
}

// rule L10: nobody is left, and whoever comes next is made again
#[test]
fn the_only_provider_is_forgotten() {
    let mut config = config(free(), &[]);
    config.template = Some(conc(1));
    let mut play = Play::of(&config);
    for round in 0..3 {
        let then = 10 * round;
        let call = play.starts(then, &ask(NEW));
        play.settle(then + 1, call);
        play.time(then + 2);
        assert_eq!(play.events(), [Event::Forgotten(NEW)]);
        assert!(!play.is_here(NEW));
    }
}

// rules L7, L10, R1: what the template made is described by it, forgotten or not
#[test]
fn a_refusal_by_the_templates_limits() {
    let mut play = templated(conc(1));
    let a = play.starts(0, &ask(NEW));
    let late: Vec<TicketId> = (0..3).map(|_| play.queues(0, &ask(NEW).timeout(ms(10)))).collect();
    play.time(11);
    play.settle(12, a);
    assert!(!play.gives_up(12, late[0]).limits_changed);
    play.time(13);
    assert!(!play.is_here(NEW));
    assert!(!play.gives_up(14, late[1]).limits_changed);
    play.add(15, NEW, &conc(2));
    assert!(play.gives_up(15, late[2]).limits_changed);
}

// rules L6, L7, R1: refused by limits that are gone again when that is told
#[test]
fn an_impossible_cost_that_would_be_possible_again() {
    let mut play = Play::new(tokens(10, 1_000), &[free()]);
    play.starts(0, &ask(A).costs(&[(TOKENS, 10)]));
    let heavy: Vec<TicketId> = (0..2).map(|_| play.queues(1, &ask(A).costs(&[(TOKENS, 8)]))).collect();
    play.limit(2, ScopeId::Client, &tokens(5, 1_000));
    assert!(!play.gives_up(2, heavy[0]).limits_changed);
    play.limit(3, ScopeId::Client, &tokens(50, 1_000));
    let told = play.gives_up(3, heavy[1]);
    assert_eq!((told.reason, told.held_by), (Reason::ImpossibleCost, Some(Hold::Log(Side::Client, 0))));
    assert!(told.limits_changed);
}

// rules O1, T6: when a scope changes by itself is told with an empty queue too, where no alarm is set
#[test]
fn a_scope_changes_with_nobody_waiting() {
    let mut play = Play::new(quota(3, 1_000), &[quota(3, 500).interval(ms(100)), free()]);
    play.starts(0, &ask(A));
    play.starts(100, &ask(A));
    let next = |play: &Play| (play.view(A).next, play.view(B).next, play.core.snapshot().client.next);
    assert_eq!(next(&play), (Some(at(200)), None, Some(at(1_000))));
    play.time(200);
    assert_eq!(next(&play).0, Some(at(500)));
    play.cooldown(200, B, 40);
    let granted = play.queues(210, &ask(B).deferred());
    assert_eq!((next(&play).1, play.core.snapshot().next), (Some(at(240)), Some(at(240))));
    play.time(240);
    assert_eq!(play.counts(), (2, 0, 1));
    assert_eq!(next(&play), (Some(at(500)), Some(at(440)), Some(at(440))));
    assert_eq!(play.step(300, granted), Step::Start);
    assert_eq!((next(&play).1, play.core.snapshot().next), (None, None));
    play.time(5_000);
    assert_eq!(next(&play), (None, None, None));
}

// rules D5, L10: nobody is made for a request that is out of order; an unknown provider is told first
#[test]
fn an_unknown_unit_makes_no_provider() {
    let costs = [(UnitId::new(9), 1)];
    let mut play = templated(free());
    assert_eq!(play.refuses(0, &ask(NEW).costs(&costs)).reason, Reason::UnknownUnit);
    assert!(!play.is_here(NEW));
    let mut play = Play::new(free(), &[free()]);
    assert_eq!(play.refuses(0, &ask(NEW).costs(&costs)).reason, Reason::UnknownProvider);
    assert_eq!(play.refuses(0, &ask(A).costs(&costs)).reason, Reason::UnknownUnit);
}

// rule L10: no call forgets more than a few, but who is over is gone at once for all who ask
#[test]
fn who_is_over_is_gone_before_that_is_told() {
    let mut play = templated(gap(70).max_concurrent(1));
    let numbers: Vec<ProviderId> = (10..30).map(ProviderId::new).collect();
    for &number in &numbers {
        let ticket = play.starts(0, &ask(number));
        play.settle(0, ticket);
    }
    play.time(70);
    let told = play.events();
    assert!(!told.is_empty() && told.len() < numbers.len());
    let mut untold = numbers.iter().copied().filter(|&number| !told.contains(&Event::Forgotten(number)));
    let (last, other) = (untold.next().unwrap(), untold.next().unwrap());
    assert_eq!(play.core.presence(last), Presence::Unknown);
    assert_eq!(play.core.snapshot().providers.len(), 1);
    assert_eq!(play.core.hand_off_time(of(last)), None);
    assert_eq!(play.core.remove_provider(last, at(70)), Err(ChangeError::UnknownProvider));
    assert_eq!(play.core.reset(of(last), at(70)), Err(ChangeError::UnknownProvider));
    // Added or made again they remember nothing, not even by a gap that would not be over.
    play.add(70, last, &gap(1_000));
    play.limit(70, of(other), &gap(1_000));
    play.starts(70, &ask(last));
    play.starts(70, &ask(other));
    // In the end each has been forgotten once.
    let mut told = told;
    for _ in 0..numbers.len() {
        play.time(70);
        told.extend(play.events());
    }
    let mut forgotten: Vec<ProviderId> = Vec::new();
    for event in told {
        let Event::Forgotten(number) = event else { panic!("{event:?}") };
        forgotten.push(number);
    }
    forgotten.sort_unstable();
    assert_eq!(forgotten, numbers);
    assert!(play.is_here(last) && play.is_here(other));
}

// rules L10, O1: after a crowd is gone nothing is left of it, though one of it stays
#[test]
fn one_of_a_crowd_stays_in_its_place() {
    let mut play = templated(quota(5, 100).max_concurrent(1));
    let number = |nth: u32| ProviderId::new(100 + nth);
    let stays = number(1_500);
    let mut running = Vec::new();
    for nth in 0..2_000 {
        let ticket = play.starts(0, &ask(number(nth)).key(Key(u64::from(nth))));
        match number(nth) {
            same if same == stays => running.push(ticket),
            _ => play.settle(0, ticket),
        }
    }
    let waits = play.queues(1, &ask(stays).key(Key(7)));
    let aside = play.queues(1, &ask(A).key(Key(1_500)));
    for _ in 0..2_000 {
        play.time(100);
    }
    assert_eq!(play.events().len(), 1_999);
    let seen = play.core.snapshot();
    assert_eq!(seen.providers.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [A, stays]);
    assert_eq!((play.view(stays).running, play.view(stays).queued, play.counts()), (1, 1, (1, 2, 0)));
    let told = play.core.explain(aside).unwrap();
    assert_eq!(told.key_holder.map(|holder| (holder.ticket, holder.provider)), Some((running[0], stays)));
    play.settle(101, running[0]);
    play.granted(&[waits, aside]);
    assert_eq!(play.step(102, waits), Step::Start);
    assert_eq!(play.logs(stays), [(1, 4)]);
}
