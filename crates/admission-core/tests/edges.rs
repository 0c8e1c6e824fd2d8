//! Both sides of a bound, and what is looked at only where two rules meet.
//!
//! Each of these is a small change of the core that the other tests would have let pass. Times are milliseconds;
//! counts are (running, queued, granted but not started).

mod transcript;

use std::time::Duration;

use admission_core::{Admitted, Log};
use transcript::*;

/// So many, or a few under the audit, which looks at all of them after every call.
const fn many(many: u64) -> u64 {
    if cfg!(audit) { many / 100 } else { many }
}

/// A play in which a ticket of A is granted at 10 and not started.
fn granted(provider: Limits, request: &Request<'_>) -> (Play, TicketId) {
    let mut play = Play::new(free(), &[provider, free()]);
    let ticket = play.queues(10, &request.deferred());
    play.granted(&[ticket]);
    (play, ticket)
}

// rule S5: one of no length, and one that ends with this very instant
#[test]
fn a_cooldown_that_is_over_as_it_comes_takes_no_grant_back() {
    let (mut play, ticket) = granted(free(), &ask(A));
    play.cooldown(20, A, 0);
    assert_eq!((play.events(), play.counts()), (vec![], (0, 0, 1)));
    assert_eq!(play.step(20, ticket), Step::Start);
}

// rules L7, W2: a grant that is taken back past its deadline expires in that call
#[test]
fn new_limits_expire_a_grant_whose_deadline_has_passed() {
    let (mut play, ticket) = granted(free(), &ask(A).timeout(ms(50)));
    play.core.set_limits(of(A), &conc(9), at(61)).expect("limits that are in order");
    let expired = Event::Refused(ticket, Reason::AdmissionTimeout);
    assert_eq!(play.events(), [Event::TakenBack(ticket), expired]);
    // and one whose deadline is now is granted anew
    let (mut play, ticket) = granted(free(), &ask(A).timeout(ms(50)));
    play.core.set_limits(of(A), &conc(9), at(60)).expect("limits that are in order");
    assert_eq!(play.events(), [Event::TakenBack(ticket), Event::Granted(ticket)]);
}

// rule W4
#[test]
fn a_coordinator_is_closed_once_it_was_and_not_before() {
    let mut play = Play::new(free(), &[free()]);
    assert!(!play.core.is_closed() && !play.core.snapshot().is_closed);
    play.close(1);
    assert!(play.core.is_closed() && play.core.snapshot().is_closed);
}

// rule L8: of several units, and of the ticket that it is about
#[test]
fn a_correction_is_of_one_ticket_and_one_unit() {
    let bytes = UnitId::new(2);
    let log = |unit| Pacer::Log(Log::new(100, ms(1_000)).unit(unit).until_settled());
    let mut config = config(free(), &[free().pacer(log(TOKENS)).pacer(log(bytes))]);
    config.units = 3;
    let mut play = Play::of(&config);
    let costs = [(TOKENS, 10), (bytes, 20)];
    let calls: Vec<TicketId> = (0..3).map(|_| play.starts(0, &ask(A).costs(&costs))).collect();
    play.core.settle_cost(calls[1], bytes, 25, at(1)).expect("a call that runs");
    play.core.settle_cost(calls[0], TOKENS, 7, at(1)).expect("a call that runs");
    let left = |play: &mut Play, pacer, at_ms| play.core.available(of(A), pacer, at(at_ms)).expect("a log");
    assert_eq!((left(&mut play, 0, 1), left(&mut play, 1, 1)), (100 - 27, 100 - 65));
    // Each is settled with what it cost last, and that leaves the window a window later.
    for (call, then) in calls.into_iter().zip([2, 102, 202]) {
        play.settle(then, call);
    }
    let both = [1_001, 1_002, 1_102, 1_202].map(|then| (left(&mut play, 0, then), left(&mut play, 1, then)));
    assert_eq!(both, [(73, 35), (80, 55), (90, 80), (100, 100)]);
}

// rules L10, W6: a provider that takes the place of one that is forgotten is remembered by the clock
#[test]
fn who_waits_for_an_instant_still_does_when_its_provider_moves() {
    let [gone, waits] = [5, 6].map(ProviderId::new);
    for others in [false, true] {
        let mut config = config(free(), &[gap(200)]);
        config.template = Some(gap(100));
        let mut play = Play::of(&config);
        let call = play.starts(0, &ask(gone));
        play.settle(0, call);
        play.starts(50, &ask(waits));
        let ticket = play.queues(51, &ask(waits));
        if others {
            // Somebody else is the last who began to wait.
            play.starts(52, &ask(A));
            play.queues(53, &ask(A));
        }
        play.time(120);
        assert_eq!(play.events(), [Event::Forgotten(gone)]);
        assert_eq!(play.wake(), Some(at(150)));
        play.time(150);
        play.start_all(150, &[ticket]);
        assert_eq!(play.wake(), others.then_some(at(252)));
    }
}

// rules O2, R1: of several that open at one instant the first is named: the cooldown, then the pacers in their order
#[test]
fn the_first_of_those_that_open_at_one_instant_is_named() {
    for counts in [UnitId::REQUESTS, TOKENS] {
        let log = Pacer::Log(Log::new(1, ms(100)).unit(counts));
        for (limits, first) in [
            (gap(100).pacer(log), Hold::Interval(Side::Provider, 0)),
            (gap(100).interval(ms(100)), Hold::Interval(Side::Provider, 0)),
            (free().pacer(log).interval(ms(100)), Hold::Log(Side::Provider, 0)),
        ] {
            let mut play = Play::new(free(), &[limits]);
            let request = ask(A).costs(&[(TOKENS, 1)]);
            play.starts(0, &request);
            assert_eq!(play.refuses(50, &request.at_once()).held_by, Some(first));
            play.cooldown(50, A, 50);
            assert_eq!(play.refuses(50, &request.at_once()).held_by, Some(Hold::Cooldown));
        }
    }
}

// rules L3, R1: a log is not asked about a call that costs nothing in it, however much is spent
#[test]
fn a_call_that_costs_nothing_does_not_wait_for_a_log_that_is_overdrawn() {
    let limits = |limit| tokens(limit, 1_000).max_concurrent(1);
    let mut play = Play::new(free(), &[limits(10)]);
    let call = play.starts(0, &ask(A).costs(&[(TOKENS, 10)]));
    play.core.set_limits(of(A), &limits(5), at(1)).expect("limits that are in order");
    let refusal = play.refuses(2, &ask(A).at_once());
    assert_eq!((refusal.held_by, refusal.retry_after), (Some(Hold::Concurrency(Side::Provider)), None));
    play.settle(3, call);
    play.starts(4, &ask(A));
}

// rule T2: now stays below never, whatever a clock says
#[test]
fn a_clock_that_says_never_has_not_got_there() {
    let mut play = Play::new(free(), &[free().interval(std::time::Duration::MAX)]);
    play.starts(0, &ask(A));
    let waits = play.queues(0, &ask(A));
    play.core.handle_timeout(Instant::NEVER);
    assert_eq!(play.core.snapshot().at, nanos(u64::MAX - 1));
    assert_eq!((play.events(), play.wake()), (vec![], None));
    assert_eq!(play.core.step(waits, Instant::NEVER), Step::Wait);
}

// rules T2, O1: an instant that never comes is not told
#[test]
fn a_window_without_end_has_no_next_instant() {
    let forever = std::time::Duration::MAX;
    let mut play = Play::new(free(), &[free().window(2, forever).interval(forever)]);
    play.starts(1, &ask(A));
    let view = play.core.snapshot().providers.remove(0).1;
    assert_eq!(view.next, None);
    let PacerSnapshot::Log { next, left, .. } = view.pacers[0] else { panic!("{view:?}") };
    assert_eq!((next, left), (None, 1));
}

// rules L7, D2: a window of zero forgets at once, those that run included, and for good
#[test]
fn a_window_that_was_zero_has_forgotten_those_that_run() {
    let limits = |window| free().pacer(Pacer::Log(Log::new(1, ms(window)).until_settled()));
    let mut play = Play::new(free(), &[limits(1_000)]);
    let call = play.starts(0, &ask(A));
    for (then, window) in [(1, 0), (2, 1_000)] {
        play.core.set_limits(of(A), &limits(window), at(then)).expect("limits that are in order");
    }
    assert_eq!(play.available(3, of(A)), 1);
    play.settle(4, call);
    assert_eq!(play.available(5, of(A)), 1);
    // nor is it known of those that started while it was zero
    play.core.set_limits(of(A), &limits(0), at(6)).expect("limits that are in order");
    let call = play.starts(7, &ask(A));
    play.core.set_limits(of(A), &limits(1_000), at(8)).expect("limits that are in order");
    play.settle(9, call);
    assert_eq!(play.available(10, of(A)), 1);
}

// rules L7, L8: what had left the window when it grew stays outside, whatever it turns out to have cost
#[test]
fn a_correction_brings_nothing_back_that_had_left_the_window() {
    for (grown_at, spent) in [(99, 8), (100, 0), (150, 0)] {
        let mut play = Play::new(free(), &[tokens(10, 100)]);
        let call = play.starts(0, &ask(A).costs(&[(TOKENS, 5)]));
        play.core.set_limits(of(A), &tokens(10, 1_000), at(grown_at)).expect("limits that are in order");
        play.core.settle_cost(call, TOKENS, 8, at(160)).expect("a call that runs");
        assert_eq!(play.available(160, of(A)), 10 - spent, "grown at {grown_at}");
    }
}

// rules L3, L8: starts of one instant share an entry, and what one of them gives back is its own
#[test]
fn a_call_that_cost_nothing_leaves_the_others_of_its_instant() {
    let mut play = Play::new(free(), &[tokens(10, 1_000)]);
    let five = [(TOKENS, 5)];
    let [call, _] = [(); 2].map(|()| play.starts(0, &ask(A).costs(&five)));
    play.core.settle_cost(call, TOKENS, 0, at(1)).expect("a call that runs");
    assert_eq!(play.available(1, of(A)), 5);
    play.starts(2, &ask(A).costs(&[(TOKENS, 1)]));
    assert_eq!(play.available(3, of(A)), 4);
    assert_eq!(play.available(1_000, of(A)), 9);
}

// rule L8: the first start of a window, one within, and the last
#[test]
fn any_start_of_a_window_can_be_corrected() {
    let five = [(TOKENS, 5)];
    for nth in 0..5 {
        let mut play = Play::new(free(), &[tokens(100, 1_000)]);
        let calls: Vec<TicketId> = (0..5).map(|then| play.starts(10 * then, &ask(A).costs(&five))).collect();
        play.core.settle_cost(calls[nth], TOKENS, 1, at(50)).expect("a call that runs");
        assert_eq!(play.available(50, of(A)), 79);
        // It leaves the window at its own time, and with what it cost.
        let left = |then| if then as usize == nth { 1 } else { 5 };
        let mut available = 79;
        for then in 0..5 {
            assert_eq!(play.available(1_000 + 10 * then - 1, of(A)), available);
            available += left(then);
            assert_eq!(play.available(1_000 + 10 * then, of(A)), available);
        }
    }
}

// rules S3, L3: a grant that is abandoned after a younger one has started counts as of its own instant
#[test]
fn an_abandoned_grant_counts_before_a_start_that_came_later() {
    let mut play = Play::new(free(), &[quota(4, 1_000)]);
    play.starts(0, &ask(A));
    play.starts(10, &ask(A)); // at the same instant, so they share an entry
    let [older, younger] = [10, 20].map(|then| play.queues(then, &ask(A).deferred()));
    play.granted(&[older, younger]);
    assert_eq!(play.step(30, younger), Step::Start);
    play.drop(40, older);
    let left = [999, 1_000, 1_009, 1_010, 1_029, 1_030].map(|then| play.available(then, of(A)));
    assert_eq!(left, [0, 1, 1, 3, 3, 4]);
}

// rule E6: of very many providers at which a key waits, each has a line of its own
#[test]
fn a_key_that_waits_at_many_providers_goes_to_whoever_is_free_first() {
    const PROVIDERS: u32 = if cfg!(audit) { 40 } else { 400 };
    let mut play = Play::new(free(), &vec![free(); PROVIDERS as usize]);
    let one = |number| ask(ProviderId::new(number)).key(Key(1));
    let mut holder = play.starts(0, &one(0));
    let waiting: Vec<(u64, TicketId)> = (1..PROVIDERS)
        .map(|number| {
            // The last to come is the first whose provider has rested.
            let rest = 10 * u64::from(PROVIDERS - number);
            play.cooldown(0, ProviderId::new(number), rest);
            (rest, play.queues(0, &one(number)))
        })
        .collect();
    for &(then, ticket) in waiting.iter().rev() {
        play.settle(then - 1, holder);
        play.granted(&[]);
        play.time(then);
        play.start_all(then, &[ticket]);
        holder = ticket;
    }
}

// rules S4, O2: since when a ticket is granted or runs is known to the nanosecond, years from the origin
#[test]
fn since_when_is_known_far_from_the_origin() {
    let year = 365 * 24 * 60 * MINUTE;
    let (mut play, then) = (Play::new(free(), &[free()]), nanos(3 * year * 1_000_000 + 7));
    let Ok(Admitted::Started(runs)) = play.core.request(&ask(A), then) else { panic!("not started") };
    let Ok(Admitted::Queued(waits)) = play.core.request(&ask(A).deferred(), then) else {
        panic!("not queued")
    };
    let since = |play: &Play, ticket| play.core.explain(ticket).and_then(|told| told.since);
    assert_eq!([runs, waits].map(|ticket| since(&play, ticket)), [Some(then); 2]);
    assert_eq!(play.wake(), None); // nobody waits, nor waits for idle
    play.core.watch_idle(true);
    assert_eq!(play.wake(), Some(then + ms(200)));
}

// rule S4a: the full time is for the next grant only
#[test]
fn a_ticket_that_was_polled_gets_the_full_time_once() {
    let mut play = Play::new(conc(1), &[free(), free()]);
    let ticket = play.queues(0, &ask(A).deferred());
    play.granted(&[ticket]);
    play.core.watch_idle(true);
    play.time(200);
    assert_eq!(play.events(), [Event::TakenBack(ticket)]);
    assert_eq!(play.hand_off(of(A)), ms(100));
    // Somebody has the slot as it is polled, so that it is granted later. (A start restores the time, and a grant
    // that nobody takes halves it again.)
    let other = play.queues(210, &ask(B).deferred());
    play.granted(&[other]);
    assert_eq!(play.step(211, ticket), Step::Wait);
    play.drop(212, other);
    play.granted(&[ticket]);
    assert_eq!((play.hand_off(of(A)), play.wake()), (ms(100), Some(at(412))));
    // It comes back unpolled, and is granted anew.
    play.cooldown(213, A, 7);
    assert_eq!(play.events(), [Event::TakenBack(ticket)]);
    play.time(220);
    play.granted(&[ticket]);
    assert_eq!(play.wake(), Some(at(320)));
}

// rule L1: whoever has a key is found, however many have one, and however often the table has grown
#[test]
fn a_key_that_is_held_is_found_among_very_many() {
    let mut play = Play::new(free(), &[free()]);
    for key in 0..many(20_000) {
        play.starts(0, &ask(A).key(Key(key)));
    }
    for key in 0..many(20_000) {
        assert_eq!(play.refuses(1, &ask(A).key(Key(key)).at_once()).held_by, Some(Hold::Key));
    }
    // Some of them shared, so that it grows with those in it.
    let waiting: Vec<TicketId> =
        (0..many(5_000)).map(|key| play.queues(2, &ask(A).key(Key(4 * key)))).collect();
    for key in many(20_000)..many(60_000) {
        play.starts(3, &ask(A).key(Key(key)));
    }
    for key in 0..many(60_000) {
        assert_eq!(play.refuses(4, &ask(A).key(Key(key)).at_once()).held_by, Some(Hold::Key));
    }
    for ticket in waiting {
        play.drop(5, ticket);
    }
    assert_eq!(u64::from(play.counts().0), many(60_000));
}

// rule W5: the number of a ticket's slot is its own while it is there, and another's after it
#[test]
fn the_slots_of_tickets_are_dense_and_used_again() {
    let mut play = Play::new(free(), &[free()]);
    let tickets = [(); 4].map(|()| play.starts(0, &ask(A)));
    let mut slots = tickets.map(TicketId::index);
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2, 3]);
    play.settle(1, tickets[2]);
    let next = play.starts(2, &ask(A));
    assert!(next.index() == tickets[2].index() && next != tickets[2]);
}

// rules W1, W5: room for those that may wait, and for those that may be in flight
#[test]
fn there_is_room_for_all_that_the_configuration_bounds() {
    let mut config = config(conc(8), &[conc(3), conc(4)]);
    config.max_queued = 100;
    assert_eq!(Play::of(&config).core.capacity(), 107);
    config.client = conc(5);
    assert_eq!(Play::of(&config).core.capacity(), 105);
    config.providers[0] = free();
    assert_eq!(Play::of(&config).core.capacity(), 105);
    config.client = free();
    let mut play = Play::of(&config);
    assert_eq!(play.core.capacity(), 100);
    // Beyond that it grows by a quarter, and not before.
    for calls in 1..=many(10_000) as usize {
        let before = play.core.capacity();
        play.starts(0, &ask(A));
        let grown = if calls > before { before + before / 4 + 4 } else { before };
        assert_eq!(play.core.capacity(), grown, "with {calls}");
    }
}

// rules L2, T2: however they come to be looked at
#[test]
fn of_two_intervals_that_never_end_the_first_is_told_of() {
    for (limits, first) in [(free(), 0), (quota(9, 1_000), 1)] {
        let limits = limits.interval(Duration::from_nanos(u64::MAX - 10)).interval(Duration::MAX);
        let mut play = Play::new(free(), &[limits]);
        play.starts(1, &ask(A));
        let started = play.refuses(2, &ask(A).at_once());
        assert_eq!(started.held_by, Some(Hold::Interval(Side::Provider, first)));
        play.reset(2, of(A));
        assert_eq!(play.refuses(2, &ask(A).at_once()).held_by, started.held_by);
    }
}

// rules S2, S4, T2: grants that are never taken back are out like others
#[test]
fn one_grant_beside_another_is_not_the_only_one_though_neither_is_ever_due() {
    let mut config = config(conc(2), &[free()]);
    config.hand_off = Duration::MAX;
    let mut play = Play::of(&config);
    let running = [0, 0].map(|now| play.starts(now, &ask(A)));
    let [first, second] = [1, 1].map(|now| play.queues(now, &ask(A)));
    play.settle(2, running[0]);
    assert_eq!(play.core.poll_only_grant(), Some((first, Instant::NEVER)));
    play.settle(3, running[1]);
    assert_eq!(play.core.poll_only_grant(), None, "there are two");
    play.granted(&[second]);
    [second, first].into_iter().for_each(|ticket| assert_eq!(play.step(4, ticket), Step::Start));
    // Each of them had a place of its own, and gives that back.
    [first, second].into_iter().for_each(|ticket| play.settle(5, ticket));
    let again = [6, 6].map(|now| play.starts(now, &ask(A)));
    let behind = [7, 7, 7].map(|now| play.queues(now, &ask(A)));
    let places: std::collections::BTreeSet<_> =
        again.iter().chain(&behind).map(|ticket| ticket.index()).collect();
    assert_eq!((places.len(), play.counts()), (5, (2, 3, 0)));
}
