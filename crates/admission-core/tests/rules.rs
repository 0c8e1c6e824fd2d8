//! Rules of the contract as transcripts: who goes when, and who does not.
//!
//! Each is compared with the reference model elsewhere, over many histories; here they can be read.
//! What the checklist shows is not repeated.

mod transcript;

use admission_core::{ConfigError, Log};
use transcript::*;

/// A play in which the second of two tickets is granted at 10 and not started: the client has one
/// slot, and the first has just left it.
fn with_a_grant(client: Limits, provider: Limits) -> (Play, TicketId) {
    let mut play = Play::new(client.max_concurrent(1), &[provider, free()]);
    let first = play.starts(0, &ask(A));
    let granted = play.queues(0, &ask(A));
    play.settle(10, first);
    play.granted(&[granted]);
    (play, granted)
}

// rule L3: never twice the limit across a boundary
#[test]
fn a_window_slides() {
    let mut play = Play::new(free(), &[tokens(10, 1_000)]);
    play.starts(0, &ask(A).costs(&[(TOKENS, 6)]));
    play.starts(900, &ask(A).costs(&[(TOKENS, 4)]));
    let seven = play.queues(950, &ask(A).costs(&[(TOKENS, 7)]));
    // At 1000 six of ten leave, and four are still there.
    assert_eq!(play.wake(), Some(at(1_900)));
    play.time(1_899);
    assert_eq!(play.events(), []);
    play.time(1_900);
    play.start_all(1_900, &[seven]);
}

// rule L3: a log is not asked about a ticket that costs nothing in it
#[test]
fn a_full_window_lets_go_what_costs_nothing() {
    let mut play = Play::new(tokens(10, 1_000), &[tokens(10, 1_000)]);
    play.starts(0, &ask(A).costs(&[(TOKENS, 10)]));
    play.starts(1, &ask(A));
    play.queues(2, &ask(A).costs(&[(TOKENS, 1)]));
}

// rule L4
#[test]
fn all_pacers_of_a_scope_agree() {
    let limits = quota(2, 100).window(3, ms(1_000)).interval(ms(10));
    let mut play = Play::new(free(), &[limits]);
    play.starts(0, &ask(A));
    let waiting: Vec<TicketId> = (0..4).map(|_| play.queues(0, &ask(A))).collect();
    // the interval, the short window, the long window, the short one again
    for (nth, t) in [(0, 10), (1, 100), (2, 1_000), (3, 1_010)] {
        assert_eq!(play.wake(), Some(at(t)));
        play.time(t);
        play.start_all(t, &[waiting[nth]]);
    }
}

// rule L5
#[test]
fn a_cooldown_never_gets_shorter_and_touches_no_running_call() {
    let mut play = Play::new(free(), &[conc(2)]);
    let running = play.starts(0, &ask(A));
    play.cooldown(10, A, 100);
    play.cooldown(20, A, 50);
    assert_eq!(play.core.not_before(A), at(110));
    assert_eq!(play.counts(), (1, 0, 0));
    let waits = play.queues(30, &ask(A));
    play.settle(40, running);
    play.cooldown(50, A, 100);
    assert_eq!(play.wake(), Some(at(150)));
    play.time(150);
    play.start_all(150, &[waits]);
}

// rule L9
#[test]
fn until_settled_a_call_counts_for_as_long_as_it_runs_and_one_window_more() {
    let log = Log::new(1, ms(100)).until_settled().margin(ms(5));
    let mut play = Play::new(free(), &[free().pacer(Pacer::Log(log))]);
    let a = play.starts(0, &ask(A));
    let b = play.queues(1, &ask(A));
    play.time(10_000);
    assert_eq!((play.events(), play.wake()), (vec![], None)); // no time alone opens it
    play.settle(20_000, a);
    assert_eq!(play.wake(), Some(at(20_105)));
    play.core.handle_timeout(nanos(20_104_999_999));
    assert_eq!(play.events(), []);
    play.time(20_105);
    play.start_all(20_105, &[b]);
}

// rule L9: from the start, the second call may begin while the first still runs
#[test]
fn from_the_start_a_call_counts_for_one_window() {
    let mut play = Play::new(free(), &[quota(1, 100)]);
    play.starts(0, &ask(A));
    let b = play.queues(1, &ask(A));
    assert_eq!(play.wake(), Some(at(100)));
    play.time(100);
    play.start_all(100, &[b]);
}

// rules L9, S3: a grant that is abandoned counts for one window from the grant
#[test]
fn until_settled_an_abandoned_grant_counts_from_the_grant() {
    let log = Log::new(2, ms(100)).until_settled();
    let (mut play, granted) = with_a_grant(free(), free().pacer(Pacer::Log(log)));
    play.drop(50, granted);
    assert_eq!(play.available(109, of(A)), 0);
    assert_eq!(play.available(110, of(A)), 2);
}

// rule E2
#[test]
fn a_ticket_that_is_held_back_holds_back_no_other_provider() {
    let mut play = Play::new(conc(2), &[conc(1), free()]);
    let a1 = play.starts(0, &ask(A));
    let b1 = play.starts(0, &ask(B));
    let a2 = play.queues(1, &ask(A));
    let b2 = play.queues(2, &ask(B));
    play.settle(10, b1);
    play.start_all(10, &[b2]);
    play.settle(20, a1);
    play.start_all(20, &[a2]);
}

// rule E3: no younger ticket of the scope goes before a heavy one
#[test]
fn a_heavy_ticket_is_not_starved_at_its_provider() {
    let mut play = Play::new(free(), &[tokens(10, 1_000), free()]);
    play.starts(0, &ask(A).costs(&[(TOKENS, 6)]));
    let heavy = play.queues(1, &ask(A).costs(&[(TOKENS, 8)]));
    let light = play.queues(2, &ask(A).costs(&[(TOKENS, 1)])); // it would fit
    let free_of_cost = play.queues(3, &ask(A));
    // A provider's budget stops that provider only.
    play.starts(4, &ask(B).costs(&[(TOKENS, 1)]));
    // Light ones keep coming, and the heavy one goes first all the same.
    for t in 5..900 {
        let refused = play.refuses(t, &ask(A).costs(&[(TOKENS, 1)]).at_once());
        assert_eq!(refused.held_by, Some(Hold::Order));
    }
    play.time(1_000);
    play.start_all(1_000, &[heavy, light, free_of_cost]);
}

// rule E3
#[test]
fn a_heavy_ticket_is_not_starved_by_other_providers_of_the_client() {
    let mut play = Play::new(tokens(10, 1_000), &[free(), free()]);
    play.starts(0, &ask(A).costs(&[(TOKENS, 6)]));
    let heavy = play.queues(1, &ask(A).costs(&[(TOKENS, 8)]));
    let light = play.queues(2, &ask(B).costs(&[(TOKENS, 1)]));
    let refused = play.refuses(3, &ask(B).at_once());
    assert_eq!((refused.reason, refused.held_by), (Reason::Exhausted, Some(Hold::Order)));
    assert_eq!(play.wake(), Some(at(1_000)));
    play.time(1_000);
    play.start_all(1_000, &[heavy, light]);
}

// rule E3: one that something else holds back too stops nobody
#[test]
fn a_heavy_ticket_that_is_held_twice_stops_nobody() {
    let mut play = Play::new(tokens(10, 1_000), &[free(), free()]);
    play.starts(0, &ask(A).key(Key(1)).costs(&[(TOKENS, 6)]));
    let heavy = play.queues(1, &ask(A).key(Key(1)).costs(&[(TOKENS, 8)])); // its key is busy, too
    play.starts(2, &ask(A).costs(&[(TOKENS, 1)]));
    play.cooldown(3, B, 100);
    play.queues(4, &ask(B).costs(&[(TOKENS, 9)])); // its provider cools down, too
    play.starts(5, &ask(A).costs(&[(TOKENS, 1)]));
    play.time(2_000);
    assert_eq!(play.step(2_000, heavy), Step::Wait);
}

// rules E3, E2: held back by its provider's budget and the client's, it stops its own provider only
#[test]
fn a_heavy_ticket_that_both_scopes_hold_stops_its_provider_only() {
    let mut play = Play::new(tokens(10, 1_000), &[tokens(10, 1_000), free()]);
    play.starts(0, &ask(A).costs(&[(TOKENS, 6)]));
    play.queues(1, &ask(A).costs(&[(TOKENS, 8)]));
    play.starts(2, &ask(B).costs(&[(TOKENS, 4)]));
    assert_eq!(play.refuses(3, &ask(A).at_once()).held_by, Some(Hold::Order));
}

// rule E4: its own example
#[test]
fn a_newcomer_does_not_jump_a_ticket_whose_timer_is_late() {
    let mut config = config(conc(2), &[gap(100), free()]);
    config.max_queued = 1;
    let mut play = Play::of(&config);
    play.starts(0, &ask(A));
    let a1 = play.queues(1, &ask(A));
    let mut early = play.clone();

    // The interval has ended 1 ms ago: a1 is eligible, so b1 would have to queue, and the queue is full.
    let b1 = play.refuses(101, &ask(B));
    assert_eq!(b1, Refusal { held_by: Some(Hold::Order), ..Refusal::new(Reason::Overflow) });
    play.start_all(101, &[a1]); // in that call

    // Had a1 still been ineligible, b1 would have started at once.
    early.starts(99, &ask(B));
    assert_eq!(early.events(), []);
}

// rules E4, W2: overdue tickets expire before the newcomer is judged
#[test]
fn an_overdue_ticket_makes_room_for_the_newcomer() {
    let mut config = config(conc(1), &[free()]);
    config.max_queued = 1;
    let mut play = Play::of(&config);
    play.starts(0, &ask(A));
    let a1 = play.queues(1, &ask(A).timeout(ms(50)));
    assert_eq!(play.refuses(51, &ask(A)).reason, Reason::Overflow);
    let a2 = play.queues(52, &ask(A));
    assert_eq!(play.events(), [Event::Refused(a1, Reason::AdmissionTimeout)]);
    assert_eq!(play.step(52, a2), Step::Wait);
}

// rule E5
#[test]
fn a_retry_takes_its_place_at_the_tail() {
    let mut play = Play::new(conc(1), &[free()]);
    let first = play.starts(0, &ask(A).key(Key(1)));
    let other = play.queues(1, &ask(A).key(Key(2)));
    play.settle(10, first);
    let retry = play.queues(10, &ask(A).key(Key(1)));
    play.start_all(11, &[other]);
    play.settle(20, other);
    play.start_all(20, &[retry]);
}

// rule E6: a key is one name at all providers, and goes to the oldest that is eligible
#[test]
fn a_key_goes_to_the_oldest_that_is_eligible_at_two_providers() {
    let mut play = Play::new(free(), &[free(), free()]);
    let k = |provider| ask(provider).key(Key(5));
    let running = play.starts(0, &k(B));
    play.cooldown(0, A, 1_000);
    let a = play.queues(1, &k(A));
    let b = play.queues(2, &k(B));
    let c = play.queues(3, &k(B));
    let d = play.queues(4, &k(A));
    assert_eq!(play.wake(), None); // the key is held, and no time frees it
    play.settle(10, running);
    play.start_all(10, &[b]); // a is older, and its provider holds it back
    play.settle(20, b);
    play.start_all(20, &[c]);
    play.settle(30, c);
    assert_eq!(play.wake(), Some(at(1_000)));
    let e = play.starts(500, &k(B));
    play.time(1_000);
    assert_eq!(play.events(), []); // A is open, and e has the key
    let f = play.queues(1_001, &k(B));
    play.settle(1_010, e);
    play.start_all(1_010, &[a]); // each at its own place: a, d, f
    play.settle(1_020, a);
    play.start_all(1_020, &[d]);
    play.settle(1_030, d);
    play.start_all(1_030, &[f]);
}

// rules E6, E2: a key that is busy holds back only that key
#[test]
fn a_busy_key_holds_back_nobody_else() {
    let mut play = Play::new(free(), &[conc(2)]);
    let running = play.starts(0, &ask(A).key(Key(1)));
    let same = play.queues(1, &ask(A).key(Key(1)));
    play.starts(2, &ask(A).key(Key(2)));
    assert_eq!(play.refuses(3, &ask(A).key(Key(1)).at_once()).held_by, Some(Hold::Key));
    play.settle(4, running);
    play.start_all(4, &[same]);
}

// rule S1: pacers count the start, not the grant
#[test]
fn the_gap_is_between_starts() {
    let mut play = Play::new(free(), &[gap(100)]);
    play.starts(0, &ask(A));
    let a1 = play.queues(0, &ask(A));
    let a2 = play.queues(0, &ask(A));
    play.time(100);
    play.granted(&[a1]);
    assert_eq!(play.step(150, a1), Step::Start);
    assert_eq!(play.wake(), Some(at(250)));
    assert_eq!(play.step(249, a2), Step::Wait);
    assert_eq!(play.step(250, a2), Step::Start);
}

// rule S2: while a grant of an interval's scope has not started, nobody else in that scope is granted
#[test]
fn one_grant_at_a_time_is_out_in_the_scope_of_an_interval() {
    let mut play = Play::new(free(), &[gap(10), free()]);
    play.starts(0, &ask(A));
    let a1 = play.queues(0, &ask(A));
    play.queues(0, &ask(A));
    play.time(10);
    play.granted(&[a1]);
    play.time(100); // ten gaps later
    assert_eq!(play.events(), []);
    let refused = play.refuses(100, &ask(A).at_once());
    assert_eq!(refused.held_by, Some(Hold::HandOff(Side::Provider)));
    play.starts(100, &ask(B));

    // the same over all
    let mut play = Play::new(gap(10), &[free(), free()]);
    play.starts(0, &ask(A));
    let a1 = play.queues(0, &ask(A));
    play.time(10);
    play.granted(&[a1]);
    let refused = play.refuses(100, &ask(B).at_once());
    assert_eq!(refused.held_by, Some(Hold::HandOff(Side::Client)));
}

// rule S2: in a logged scope a grant that has not started counts as inside the window
#[test]
fn a_grant_counts_in_its_window() {
    let mut play = Play::new(free(), &[quota(2, 100)]);
    play.starts(0, &ask(A));
    play.starts(0, &ask(A));
    let [a1, a2, a3] = [(); 3].map(|()| play.queues(1, &ask(A)));
    play.time(100);
    play.granted(&[a1, a2]);
    assert_eq!(play.available(150, of(A)), 0);
    assert_eq!(play.step(150, a1), Step::Start);
    assert_eq!(play.step(160, a2), Step::Start);
    assert_eq!(play.wake(), Some(at(250))); // one window after a1's start, not after its grant
    play.time(250);
    play.start_all(250, &[a3]);
}

// rule S3: an abandoned grant's budget stays spent, as of the grant
#[test]
fn an_abandoned_grant_has_spent_its_budget() {
    let (play, granted) = with_a_grant(free(), quota(2, 1_000).interval(ms(5)));
    let mut dropped = play.clone();
    dropped.drop(12, granted);
    assert_eq!(dropped.available(12, of(A)), 0);
    assert_eq!(dropped.refuses(14, &ask(A).at_once()).held_by, Some(Hold::Log(Side::Provider, 0)));
    assert_eq!(dropped.available(1_000, of(A)), 1);
    assert_eq!(dropped.available(1_010, of(A)), 2);

    let mut aborted = play;
    aborted.abort(500, granted); // rule W3: overdue or not
    assert_eq!(aborted.events(), [Event::Refused(granted, Reason::Aborted)]);
    assert_eq!(aborted.available(500, of(A)), 0);
    assert_eq!(aborted.gives_up(500, granted).reason, Reason::Aborted);
    assert_eq!(aborted.counts(), (0, 0, 0));
}

// rule S4
#[test]
fn a_grant_that_nobody_polls_is_taken_back_with_its_budget() {
    let (mut play, stalled) = with_a_grant(free(), quota(2, 1_000));
    let other = play.queues(20, &ask(A));
    assert_eq!(play.wake(), Some(at(210)));
    let mut late = play.clone();
    assert_eq!(late.step(400, stalled), Step::Start); // not taken back yet: it starts, however late

    play.time(210);
    assert_eq!(play.events(), [Event::TakenBack(stalled), Event::Granted(other)]);
    assert_eq!(play.step(211, other), Step::Start);
    play.settle(220, other);
    assert_eq!(play.events(), []); // passed over until its future is polled
    assert_eq!(play.step(230, stalled), Step::Wait); // polled, and two starts are in the window
    play.time(1_000);
    play.start_all(1_000, &[stalled]);
}

// rule S4: taken back by the next call that comes, whatever it is
#[test]
fn the_next_call_takes_an_overdue_grant_back() {
    let (play, stalled) = with_a_grant(free(), free());
    let calls: [fn(&mut Play); 6] = [
        |play| play.time(300),
        |play| {
            play.starts(300, &ask(B));
        },
        |play| play.cooldown(300, B, 10),
        |play| play.reset(300, ScopeId::Client),
        |play| assert_eq!(play.core.available(ScopeId::Client, 0, at(300)), None),
        |play| play.close(300),
    ];
    for call in calls {
        let mut play = play.clone();
        call(&mut play);
        assert_eq!(play.events().first(), Some(&Event::TakenBack(stalled)));
    }
}

// rules S4, W1: the ticket keeps its place, and the queue may hold one more than it may
#[test]
fn a_ticket_whose_grant_is_taken_back_keeps_its_place() {
    let mut config = config(conc(1), &[free()]);
    config.max_queued = 2;
    let mut play = Play::of(&config);
    let first = play.starts(0, &ask(A));
    let stalled = play.queues(0, &ask(A));
    play.settle(10, first);
    play.granted(&[stalled]);
    let [a2, a3] = [(); 2].map(|()| play.queues(20, &ask(A)));
    play.time(210);
    assert_eq!(play.events(), [Event::TakenBack(stalled), Event::Granted(a2)]);
    assert_eq!(play.step(211, a2), Step::Start);
    let a4 = play.refuses(212, &ask(A));
    assert_eq!((a4.reason, play.counts()), (Reason::Overflow, (1, 2, 0)));
    assert_eq!(play.step(213, stalled), Step::Wait); // polled: before a3 again
    play.settle(214, a2);
    play.start_all(214, &[stalled]);
    play.settle(215, stalled);
    play.start_all(215, &[a3]);
}

// rule S4: a poll of a ticket that was passed over starts it when its turn comes in that call
#[test]
fn a_poll_of_a_ticket_that_was_passed_over_starts_it() {
    let (mut play, stalled) = with_a_grant(free(), free());
    play.time(210);
    assert_eq!(play.events(), [Event::TakenBack(stalled)]);
    assert_eq!(play.counts(), (0, 1, 0));
    assert_eq!(play.step(220, stalled), Step::Start);
    assert_eq!(play.events(), []);
}

// rule S4a
#[test]
fn stalled_futures_do_not_add_up() {
    let mut play = Play::new(conc(1), &[free(), free()]);
    let first = play.starts(0, &ask(A));
    let stalled: Vec<TicketId> = (0..12).map(|_| play.queues(0, &ask(A))).collect();
    play.settle(0, first);
    let mut now = at(0);
    // Each take-back halves the time, and 1 ms is the floor.
    for micros in [200_000, 100_000, 50_000, 25_000, 12_500, 6_250, 3_125, 1_562, 1_000, 1_000] {
        let due = play.wake().expect("a grant is out");
        assert_eq!(due.saturating_duration_since(now).as_micros(), micros);
        now = due;
        play.core.handle_timeout(now);
    }
    assert_eq!([play.hand_off(ScopeId::Client), play.hand_off(of(A))], [ms(1), ms(1)]);
    assert_eq!(play.hand_off(of(B)), ms(200)); // no grant of its own was taken back
    // The eleventh is granted now. The first is polled, and gets the full time at its next grant.
    play.events();
    assert_eq!(play.core.step(stalled[0], now), Step::Wait);
    now = now + ms(1);
    play.core.handle_timeout(now);
    assert_eq!(play.events(), [Event::TakenBack(stalled[10]), Event::Granted(stalled[0])]);
    assert_eq!(play.wake(), Some(now + ms(200)));
    // A start restores the time in both scopes.
    assert_eq!(play.core.step(stalled[0], now + ms(2)), Step::Start);
    assert_eq!([play.hand_off(ScopeId::Client), play.hand_off(of(A))], [ms(200), ms(200)]);
}

// rule S4a: a grant gets the shorter of its scopes' times, fixed when it is granted
#[test]
fn a_grant_gets_the_shorter_time_of_its_scopes() {
    let mut play = Play::new(free(), &[conc(1), free()]);
    let a = play.starts(0, &ask(A));
    let a1 = play.queues(0, &ask(A));
    let a2 = play.queues(0, &ask(A));
    play.settle(0, a);
    play.time(200);
    assert_eq!(play.events(), [Event::Granted(a1), Event::TakenBack(a1), Event::Granted(a2)]);
    play.starts(201, &ask(B)); // restores the client's time, and a2's is fixed
    assert_eq!([play.hand_off(ScopeId::Client), play.hand_off(of(A))], [ms(200), ms(100)]);
    assert_eq!(play.wake(), Some(at(300)));
    play.time(300);
    assert_eq!(play.events(), [Event::TakenBack(a2)]);
    let a3 = play.queues(301, &ask(A).deferred());
    play.granted(&[a3]);
    assert_eq!(play.wake(), Some(at(351))); // A's time is the shorter: 50
}

// rule S5
#[test]
fn a_cooldown_takes_a_grant_back() {
    let (mut play, granted) = with_a_grant(free(), quota(2, 1_000));
    play.cooldown(11, A, 0); // already over
    play.cooldown(11, B, 50); // somebody else's
    assert_eq!(play.events(), []);
    play.cooldown(12, A, 50);
    assert_eq!(play.events(), [Event::TakenBack(granted)]);
    assert_eq!(play.counts(), (0, 1, 0));
    assert_eq!(play.available(12, of(A)), 1); // with its budget
    assert_eq!(play.hand_off(of(A)), ms(200)); // and nothing is halved
    // It is not passed over: it goes as soon as it may, before who came later.
    let later = play.queues(13, &ask(A));
    assert_eq!(play.wake(), Some(at(62)));
    play.time(62);
    play.start_all(62, &[granted]);
    play.drop(63, later);
}

// rules S5, W2: its deadline goes on
#[test]
fn a_grant_that_a_cooldown_takes_back_past_its_deadline_expires() {
    let mut play = Play::new(conc(1), &[free()]);
    let a = play.starts(0, &ask(A));
    let b = play.queues(0, &ask(A).timeout(ms(10)));
    play.settle(10, a);
    play.granted(&[b]);
    let mut before = play.clone();

    play.cooldown(20, A, 30);
    assert_eq!(play.events(), [Event::TakenBack(b), Event::Refused(b, Reason::AdmissionTimeout)]);
    let told = play.gives_up(20, b);
    assert_eq!((told.held_by, told.retry_after), (Some(Hold::Cooldown), Some(ms(30))));

    before.cooldown(10, A, 30); // at the deadline itself it waits
    assert_eq!(before.events(), [Event::TakenBack(b)]);
    before.core.handle_timeout(nanos(10_000_001));
    assert_eq!(before.events(), [Event::Refused(b, Reason::AdmissionTimeout)]);
}

// rule S6
#[test]
fn a_newcomer_that_is_queued_and_granted_in_one_call_is_started_by_its_own_poll() {
    let mut play = Play::new(free(), &[gap(100), free()]);
    play.starts(0, &ask(A));
    let a1 = play.queues(1, &ask(A));
    let b1 = play.queues(100, &ask(B)); // a1 is due and goes first
    play.start_all(100, &[a1, b1]);
}

// rule W1: the tickets that wait are counted, not those granted or running
#[test]
fn the_queue_counts_those_who_wait() {
    let mut config = config(conc(1), &[free()]);
    config.max_queued = 2;
    let mut play = Play::of(&config);
    let a = play.starts(0, &ask(A));
    let b = play.queues(1, &ask(A));
    let c = play.queues(2, &ask(A));
    assert_eq!(play.refuses(3, &ask(A)).reason, Reason::Overflow);
    play.drop(4, c); // its place is free at once
    play.queues(4, &ask(A));
    play.settle(5, a);
    play.granted(&[b]);
    play.queues(6, &ask(A));
    assert_eq!(play.refuses(7, &ask(A)).reason, Reason::Overflow);
}

// rule W2: a grant at the deadline wins, and the first call past it expires the ticket
#[test]
fn a_deadline_has_passed_one_nanosecond_later() {
    let mut play = Play::new(conc(1), &[free()]);
    let a = play.starts(0, &ask(A));
    let b = play.queues(0, &ask(A).timeout(ms(100)));
    assert_eq!(play.wake(), Some(nanos(100_000_001)));
    play.time(100);
    assert_eq!(play.events(), []);
    let mut late = play.clone();
    play.settle(100, a); // at the deadline itself
    play.start_all(101, &[b]);

    late.core.handle_release(a, nanos(100_000_001));
    assert_eq!(late.events(), [Event::Refused(b, Reason::AdmissionTimeout)]);
    assert_eq!(late.counts(), (0, 0, 0));
}

// rule W2: a grant that nobody takes, past its deadline
#[test]
fn a_grant_that_is_taken_back_past_its_deadline_expires_in_that_call() {
    let mut play = Play::new(conc(1), &[free()]);
    let a = play.starts(0, &ask(A));
    let b = play.queues(0, &ask(A).timeout(ms(100)));
    play.settle(50, a);
    play.time(250);
    let expected = [Event::Granted(b), Event::TakenBack(b), Event::Refused(b, Reason::AdmissionTimeout)];
    assert_eq!(play.events(), expected);
    assert_eq!(play.gives_up(260, b).held_by, Some(Hold::Unpolled));
}

// rule W3: leaving comes before anything else, so that it costs nothing even if it was due
#[test]
fn to_leave_the_queue_costs_nothing() {
    let mut play = Play::new(free(), &[quota(2, 1_000).interval(ms(100))]);
    play.starts(0, &ask(A));
    let a1 = play.queues(1, &ask(A));
    let a2 = play.queues(2, &ask(A));
    play.abort(150, a1); // it was due at 100
    assert_eq!(play.events(), [Event::Refused(a1, Reason::Aborted), Event::Granted(a2)]);
    assert_eq!(play.available(150, of(A)), 0); // a1 has spent nothing, or a2 could not go
    play.abort(151, a1); // ended
    assert_eq!(play.events(), []);
}

// rule W6: take-backs, expiries, the call's own effect, then grants
#[test]
fn within_a_call_everything_has_its_order() {
    let (mut play, stalled) = with_a_grant(free(), free());
    let short = play.queues(10, &ask(A).timeout(ms(50)));
    let next = play.queues(10, &ask(A));
    let mut closed = play.clone();
    play.time(500);
    let expected =
        [Event::TakenBack(stalled), Event::Refused(short, Reason::AdmissionTimeout), Event::Granted(next)];
    assert_eq!(play.events(), expected);

    closed.close(500); // next was due, and not yet granted
    let expected = [
        Event::TakenBack(stalled),
        Event::Refused(short, Reason::AdmissionTimeout),
        Event::Refused(stalled, Reason::Closed),
        Event::Refused(next, Reason::Closed),
    ];
    assert_eq!(closed.events(), expected);
}

// rules T6, S4
#[test]
fn no_alarm_without_somebody_who_waits() {
    let (mut play, granted) = with_a_grant(free(), quota(5, 1_000));
    assert_eq!(play.wake(), None); // a grant is out, and nobody waits for it
    play.core.watch_idle(true);
    assert_eq!(play.wake(), Some(at(210)));
    play.core.watch_idle(false);
    let waits = play.queues(150, &ask(A));
    assert_eq!(play.wake(), Some(at(210)));
    play.drop(151, waits);
    assert_eq!(play.wake(), None);
    assert_eq!(play.step(152, granted), Step::Start);
    play.cooldown(153, A, 1_000);
    assert_eq!(play.wake(), None); // nor for an interval, a window or a cooldown
}

// rule R1
#[test]
fn a_refusal_that_time_can_mend_says_when() {
    let mut config = config(quota(3, 400), &[gap(100), conc(1)]);
    config.max_queued = 0;
    let mut play = Play::of(&config);
    play.starts(0, &ask(A));
    play.starts(10, &ask(B));
    let refused = play.refuses(20, &ask(A).at_once());
    let held_by = Some(Hold::Interval(Side::Provider, 0));
    assert_eq!(refused, Refusal { held_by, retry_after: Some(ms(80)), ..Refusal::new(Reason::Exhausted) });
    assert_eq!(play.refuses(20, &ask(A)).reason, Reason::Overflow);
    // Nobody knows when a call ends.
    let refused = play.refuses(20, &ask(B).at_once());
    let held_by = Some(Hold::Concurrency(Side::Provider));
    assert_eq!(refused, Refusal { held_by, ..Refusal::new(Reason::Exhausted) });
    // The latest of several: the client's window, then the cooldown.
    play.starts(100, &ask(A));
    assert_eq!(play.refuses(150, &ask(A)).retry_after, Some(ms(250)));
    play.cooldown(150, A, 300);
    assert_eq!(play.refuses(150, &ask(A)).retry_after, Some(ms(300)));
}

// rule R1: who must not wait hears the same as who may not
#[test]
fn a_refusal_at_once_that_time_can_mend_says_when() {
    let mut config = config(free(), &[quota(2, 400), gap(100)]);
    config.units = 1;
    let mut play = Play::of(&config);
    play.starts(0, &ask(A));
    play.starts(300, &ask(A));
    let held_by = Some(Hold::Log(Side::Provider, 0));
    let refused = Refusal { held_by, retry_after: Some(ms(90)), ..Refusal::new(Reason::Exhausted) };
    assert_eq!(play.refuses(310, &ask(A).at_once()), refused);
    play.starts(400, &ask(A).at_once());
    // The client has no limits, and a provider without a window is told by its interval.
    play.starts(450, &ask(B).at_once());
    let held_by = Some(Hold::Interval(Side::Provider, 0));
    let refused = Refusal { held_by, retry_after: Some(ms(50)), ..Refusal::new(Reason::Exhausted) };
    assert_eq!(play.refuses(500, &ask(B).at_once()), refused);
}

/// 60 calls a minute, for which nobody waits more than 15 s.
fn sixty_a_minute() -> Play {
    let mut config = config(free(), &[quota(60, MINUTE)]);
    config.max_wait = Some(ms(15_000));
    Play::of(&config)
}

// rule R2: of 200 calls at once 60 start and 140 are refused at once
#[test]
fn a_wait_that_would_be_too_long_is_refused_at_once() {
    let mut play = sixty_a_minute();
    for _ in 0..60 {
        play.starts(0, &ask(A));
    }
    for _ in 0..140 {
        let refused = play.refuses(0, &ask(A));
        assert_eq!((refused.reason, refused.retry_after), (Reason::MaxWait, Some(ms(MINUTE))));
    }
    assert_eq!((play.counts(), play.wake()), ((60, 0, 0), None));
    assert_eq!(play.core.request(&ask(A), nanos(44_999_999_999)).unwrap_err().reason, Reason::MaxWait);
    // From 45 s on the wait is 15 s, for as many as the next window holds.
    let waiting: Vec<TicketId> = (0..60).map(|_| play.queues(45_000, &ask(A))).collect();
    assert_eq!(play.refuses(45_000, &ask(A)).retry_after, Some(ms(75_000)));
    play.time(MINUTE);
    play.start_all(MINUTE, &waiting);
}

// rule R2: one that waits longer all the same is never granted, and hears a fresh estimate
#[test]
fn a_wait_that_gets_too_long_ends() {
    let mut config = config(free(), &[quota(1, 100)]);
    config.max_wait = Some(ms(150));
    let mut play = Play::of(&config);
    play.starts(0, &ask(A));
    let waits = play.queues(0, &ask(A));
    play.cooldown(50, A, 500);
    play.time(200);
    assert_eq!(play.events(), [Event::Refused(waits, Reason::MaxWait)]);
    let told = play.gives_up(200, waits);
    assert_eq!((told.held_by, told.retry_after), (Some(Hold::Cooldown), Some(ms(350))));
}

// rules R2, R5: a longest wait of 0 refuses whatever would wait, also where no estimate says so
#[test]
fn nobody_waits_where_the_longest_wait_is_zero() {
    let mut config = config(conc(1), &[free()]);
    config.max_wait = Some(ms(0));
    let mut play = Play::of(&config);
    play.starts(0, &ask(A));
    let refused = play.refuses(1, &ask(A));
    let held_by = Some(Hold::Concurrency(Side::Client));
    assert_eq!(refused, Refusal { held_by, ..Refusal::new(Reason::MaxWait) });
}

// rule R2: which of those who wait are ahead
#[test]
fn an_estimate_counts_the_calls_ahead() {
    let mut play = Play::new(free(), &[quota(1, 100)]);
    play.starts(0, &ask(A).key(Key(1)));
    play.queues(0, &ask(A).key(Key(1))); // waits for a busy key: not ahead
    play.queues(0, &ask(A).key(Key(2)));
    play.queues(0, &ask(A).key(Key(2))); // behind an older one of its key: not ahead
    play.queues(0, &ask(A));
    assert_eq!(play.refuses(0, &ask(A).at_once()).retry_after, Some(ms(300)));
}

// rule R3
#[test]
fn available_is_what_is_free_right_now() {
    let mut play = Play::new(free(), &[quota(3, 100)]);
    assert_eq!(play.available(0, of(A)), 3);
    play.starts(0, &ask(A));
    play.starts(50, &ask(A));
    assert_eq!(play.available(50, of(A)), 1);
    play.starts(60, &ask(A));
    play.queues(60, &ask(A));
    assert_eq!(play.available(99, of(A)), 0);
    assert_eq!(play.available(100, of(A)), 0); // one is free, and granted to who waits
    assert_eq!(play.available(150, of(A)), 1);

    // A window that ends just now is over.
    let mut play = Play::new(free(), &[quota(1, 100)]);
    play.starts(0, &ask(A));
    assert_eq!([99, 100].map(|t| play.available(t, of(A))), [0, 1]);
}

// rules R3, D2: a reset admits who is queued at that moment, even past the limit
#[test]
fn a_reset_admits_everybody_who_is_queued() {
    let mut play = Play::new(free(), &[quota(2, 1_000)]);
    play.starts(0, &ask(A));
    play.starts(0, &ask(A));
    let waiting: Vec<TicketId> = (0..5).map(|_| play.queues(1, &ask(A))).collect();
    play.reset(2, of(A));
    play.start_all(3, &waiting);
    // Those starts are logged.
    assert_eq!(play.available(3, of(A)), 0);
    let next = play.queues(4, &ask(A));
    assert_eq!(play.wake(), Some(at(1_003)));
    play.time(1_003);
    play.start_all(1_003, &[next]);
}

// rules R3, S4: one that is passed over is admitted when it is polled again
#[test]
fn a_reset_admits_who_is_passed_over_when_polled() {
    let (mut play, stalled) = with_a_grant(free(), quota(2, 1_000));
    play.time(210);
    assert_eq!(play.events(), [Event::TakenBack(stalled)]);
    let other = play.starts(211, &ask(A));
    play.settle(212, other);
    play.reset(213, of(A));
    assert_eq!(play.events(), []);
    for _ in 0..2 {
        let other = play.starts(214, &ask(A));
        play.settle(214, other);
    }
    assert_eq!(play.available(215, of(A)), 0);
    assert_eq!(play.step(216, stalled), Step::Start);
}

// rule D2: the logs of that scope only, and those tickets are exempt from nothing else
#[test]
fn a_reset_is_of_one_scope() {
    let mut play = Play::new(conc(3), &[quota(1, 1_000), quota(1, 1_000)]);
    play.starts(0, &ask(A));
    play.starts(0, &ask(B));
    let [a1, a2] = [(); 2].map(|()| play.queues(1, &ask(A)));
    play.queues(1, &ask(B));
    play.reset(2, ScopeId::Client); // it has no logs
    assert_eq!(play.events(), []);
    play.reset(3, of(A));
    play.start_all(3, &[a1]); // not a2: the client's concurrency
    assert_eq!(play.available(4, of(B)), 0);
    play.settle(5, a1);
    play.start_all(5, &[a2]); // still exempt
}

// rule D2: a running call's entry is forgotten too, and does not come back when it settles
#[test]
fn a_reset_forgets_running_calls() {
    let log = Log::new(1, ms(100)).until_settled();
    let mut play = Play::new(free(), &[free().pacer(Pacer::Log(log))]);
    let a = play.starts(0, &ask(A));
    play.reset(10, of(A));
    assert_eq!(play.available(10, of(A)), 1);
    let b = play.starts(11, &ask(A));
    play.settle(12, a);
    assert_eq!(play.available(12, of(A)), 0); // b's alone
    play.settle(20, b);
    assert_eq!(play.available(119, of(A)), 0);
    assert_eq!(play.available(120, of(A)), 1);
}

// rule D2: a ticket that was already granted is not exempt
#[test]
fn a_reset_exempts_no_grant() {
    let (mut play, granted) = with_a_grant(free(), quota(2, 1_000));
    play.reset(20, of(A));
    assert_eq!(play.available(20, of(A)), 1);
    assert_eq!(play.step(30, granted), Step::Start);
    assert_eq!(play.available(1_029, of(A)), 1);
    assert_eq!(play.available(1_030, of(A)), 2);
}

// rule D5: the first of several reasons is told
#[test]
fn the_first_reason_is_told() {
    let mut config = config(conc(1), &[tokens(10, 1_000)]);
    config.max_queued = 0;
    let mut overflows = Play::of(&config);
    config.max_wait = Some(ms(0));
    let mut play = Play::of(&config);
    let nowhere = ProviderId::new(9);
    let unknown = [(TOKENS, 11), (UnitId::new(9), 1)];
    let too_much = [(TOKENS, 11)];
    play.starts(0, &ask(A));
    overflows.starts(0, &ask(A));
    for (request, reason) in [
        (ask(nowhere).costs(&unknown).at_once(), Reason::UnknownProvider),
        (ask(A).costs(&unknown).at_once(), Reason::UnknownUnit),
        (ask(A).costs(&too_much).at_once(), Reason::ImpossibleCost),
        (ask(A).at_once(), Reason::Exhausted),
        (ask(A), Reason::MaxWait),
    ] {
        assert_eq!(play.refuses(1, &request).reason, reason);
    }
    assert_eq!(overflows.refuses(1, &ask(A)).reason, Reason::Overflow);
    play.close(2);
    assert_eq!(play.refuses(2, &ask(nowhere).costs(&unknown)).reason, Reason::Closed);
}

// rule L1: both bounds are optional
#[test]
fn without_limits_everybody_starts() {
    let mut play = Play::new(free(), &[free()]);
    for t in 0..10_000 {
        play.starts(t / 100, &ask(A));
    }
    assert_eq!(play.counts(), (10_000, 0, 0));
    assert_eq!(error(&config(conc(0), &[])), ConfigError::Client(LimitsError::ZeroConcurrency));
}
