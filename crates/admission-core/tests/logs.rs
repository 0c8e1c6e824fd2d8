//! What a log knows of the starts in its window, where they are not what its limit lets in: more of them than
//! that, of one instant, or counted in another way than those that come.
//!
//! Times are milliseconds; counts are (running, queued, granted but not started).

mod transcript;

use admission_core::Log;
use transcript::*;

/// A play whose only limit is one start within so long, and three tickets of A, granted at 2: queued as the log
/// was reset, they were not asked about it.
fn exempt(window_ms: u64) -> (Play, [TicketId; 3]) {
    let mut play = Play::new(free(), &[quota(1, window_ms)]);
    play.starts(0, &ask(A));
    let tickets = [(); 3].map(|()| play.queues(1, &ask(A).deferred()));
    play.reset(2, of(A));
    play.granted(&tickets);
    (play, tickets)
}

// rules D2, L3: those that were exempt fill the window, each from its own start
#[test]
fn a_log_that_is_overdrawn_opens_when_enough_has_left() {
    let (mut play, tickets) = exempt(1_000);
    for (ticket, then) in tickets.into_iter().zip([10, 20, 30]) {
        assert_eq!(play.step(then, ticket), Step::Start);
    }
    let refusal = play.refuses(40, &ask(A).at_once());
    assert_eq!(refusal.held_by, Some(Hold::Log(Side::Provider, 0)));
    assert_eq!(refusal.retry_after, Some(ms(990)));
    let ticket = play.queues(41, &ask(A));
    assert_eq!(play.wake(), Some(at(1_030)));
    for then in [1_010, 1_020] {
        play.time(then);
        assert_eq!(play.events(), []);
        assert_eq!(play.refuses(then, &ask(A).at_once()).held_by, Some(Hold::Log(Side::Provider, 0)));
    }
    play.time(1_030);
    play.start_all(1_030, &[ticket]);
}

// rules D2, S2: a grant that was exempt holds its budget, though it is above the limit
#[test]
fn grants_above_the_limit_keep_a_newcomer_out() {
    let held = Some(Hold::Log(Side::Provider, 0));
    let (mut play, [first, second, third]) = exempt(10);
    assert_eq!(play.step(3, first), Step::Start);
    // Two grants are out where the limit is one: nobody comes in while that start is in the window, nor from 13
    // on, when it has left.
    for then in [4, 13, 14] {
        assert_eq!(play.refuses(then, &ask(A).at_once()).held_by, held, "at {then}");
    }
    assert_eq!(play.step(15, second), Step::Start);
    // The last grant is as much as the limit: the same, and this start leaves at 25.
    for then in [16, 25, 26] {
        assert_eq!(play.refuses(then, &ask(A).at_once()).held_by, held, "at {then}");
    }
    play.drop(27, third); // which counts as of its grant
    play.starts(27, &ask(A));
}

// rule L7: calls that counted until they settle hold their budget, though the log counts from the start by now
#[test]
fn a_call_that_has_not_settled_is_counted_with_those_that_count_from_the_start() {
    let log = Log::new(2, ms(1_000));
    let mut play = Play::new(free(), &[free().pacer(Pacer::Log(log.until_settled()))]);
    let call = play.starts(0, &ask(A));
    play.core.set_limits(of(A), &free().pacer(Pacer::Log(log)), at(1)).expect("limits that are in order");
    play.starts(2, &ask(A));
    assert_eq!(play.refuses(3, &ask(A).at_once()).held_by, Some(Hold::Log(Side::Provider, 0)));
    play.settle(4, call);
    assert_eq!(play.refuses(1_001, &ask(A).at_once()).retry_after, Some(ms(1)));
    play.starts(1_002, &ask(A));
    assert_eq!(play.refuses(1_003, &ask(A).at_once()).retry_after, Some(ms(1)));
    play.starts(1_004, &ask(A));
}

// rule L3: what has left the window takes no room, however much it was
#[test]
fn a_window_holds_as_much_as_can_be_counted_again_and_again() {
    let most = u64::MAX;
    let mut play = Play::new(free(), &[tokens(most, 100)]);
    let cost = |play: &mut Play, then, cost| {
        play.starts(then, &ask(A).costs(&[(TOKENS, cost)]));
    };
    for round in 0..5 {
        let then = 1_000 * round;
        // As one, or in parts at instants of their own; the last time as one again.
        let parts = 1 + 3 * (round % 2);
        for part in 0..parts {
            cost(&mut play, then + part, most / parts);
        }
        assert_eq!(play.available(then + parts, of(A)), most % parts);
    }
}

// rules L3, L8: starts of one instant are one sum, and each gives back what it costs
#[test]
fn calls_of_one_instant_are_corrected_each_by_its_own_cost() {
    for others_come_later in [false, true] {
        let mut play = Play::new(free(), &[tokens(100, 1_000)]);
        let [small, large] = [3, 5].map(|cost| play.starts(0, &ask(A).costs(&[(TOKENS, cost)])));
        if others_come_later {
            play.starts(1, &ask(A).costs(&[(TOKENS, 1)]));
        }
        let others = u64::from(others_come_later);
        let mut left = |call, cost| {
            play.core.settle_cost(call, TOKENS, cost, at(10)).expect("a call that runs");
            play.available(10, of(A)) + others
        };
        assert_eq!([left(large, 4), left(large, 0), left(small, 1), left(small, 0)], [93, 97, 99, 100]);
    }
}

// rules S3, L3: a full log whose first start has left long ago, and whose last is of this instant
#[test]
fn a_start_in_the_instant_of_one_that_was_abandoned_counts_beside_it() {
    let mut play = Play::new(free(), &[quota(2, 10)]);
    play.starts(0, &ask(A));
    let ticket = play.queues(20, &ask(A).deferred());
    play.granted(&[ticket]);
    play.drop(20, ticket);
    play.starts(20, &ask(A));
    assert_eq!(play.refuses(21, &ask(A).at_once()).retry_after, Some(ms(9)));
    for _ in 0..2 {
        play.starts(30, &ask(A));
    }
    assert_eq!(play.refuses(30, &ask(A).at_once()).retry_after, Some(ms(10)));
}
