//! Rules that the checklist does not reach, each named where it is tested.

mod common;

use admission_reference::{
    Admitted, Config, Event, Hold, Limits, Model, Pacer, Reason, Refusal, Request, Side, State, Step, Ticket,
};
use common::*;

/// A model in which `ticket` is granted at 10 ms and not started: one slot, which was in use.
fn granted(client: Limits, provider: Limits) -> (Model, Ticket) {
    let client = Limits { max_concurrent: Some(1), ..client };
    let mut model = Model::new(config(&[client, provider, free()]));
    let first = starts(&mut model, &ask(A), 0);
    let ticket = queues(&mut model, &ask(A), 0);
    model.handle_release(first, 10 * MS);
    assert_eq!(model.take_events(), [Event::Granted(ticket)]);
    (model, ticket)
}

// rule L3: never twice the limit across a boundary; rule L6: more than the limit is impossible
#[test]
fn a_log_slides() {
    let mut model = Model::new(config(&[paced(&[tokens(10, 1_000)]), free()]));
    starts(&mut model, &costing(A, 6), 0);
    starts(&mut model, &costing(A, 4), 900);
    let waits = queues(&mut model, &costing(A, 7), 950);
    // 6 leave at 1000, so 4 are spent and 7 do not fit; at 1900 all do
    assert_eq!(wake(&model), Some(1_900));
    model.handle_timeout(1_899 * MS);
    assert_eq!(model.take_events(), []);
    model.handle_timeout(1_900 * MS);
    assert_eq!(model.take_events(), [Event::Granted(waits)]);
}

// rule E3: nothing younger of that scope goes first, whatever it costs
#[test]
fn a_heavy_ticket_is_not_starved() {
    let mut model = Model::new(config(&[free(), paced(&[tokens(10, 1_000)]), free()]));
    starts(&mut model, &costing(A, 6), 0);
    let heavy = queues(&mut model, &costing(A, 8), 1);
    let light = queues(&mut model, &ask(A), 2);
    // a provider's budget stops that provider only
    starts(&mut model, &costing(B, 1), 3);
    model.handle_timeout(1_000 * MS);
    assert_eq!(model.take_events(), [Event::Granted(heavy), Event::Granted(light)]);
}

// rule E3: the client's budget stops everybody
#[test]
fn a_ticket_that_the_client_holds_back_stops_all() {
    let mut model = Model::new(config(&[paced(&[tokens(10, 1_000)]), free(), free()]));
    starts(&mut model, &costing(A, 6), 0);
    queues(&mut model, &costing(A, 8), 1);
    let refusal = refuses(&mut model, &Request { wait: false, ..costing(B, 1) }, 2);
    let expected = Refusal { held_by: Some(Hold::Order), ..plain(Reason::Exhausted) };
    assert_eq!(refusal, expected);
}

// rule E3: one that something else holds back too stops nobody
#[test]
fn a_ticket_that_is_held_twice_stops_nobody() {
    let mut model = Model::new(config(&[free(), paced(&[tokens(10, 1_000)]), free()]));
    starts(&mut model, &Request { key: Some(1), ..costing(A, 6) }, 0);
    let heavy = queues(&mut model, &Request { key: Some(1), ..costing(A, 8) }, 1);
    starts(&mut model, &costing(A, 1), 2);
    model.handle_timeout(2_000 * MS);
    assert_eq!(model.state(heavy), Some(State::Queued { passed_over: false }));
}

// rules E3, E2: one that waits behind its provider's heavy ticket stops no other provider
#[test]
fn a_ticket_behind_another_stops_nobody() {
    let client = paced(&[tokens(100, 1_000)]);
    let mut model = Model::new(config(&[client, paced(&[quota(1, 60_000)]), free()]));
    starts(&mut model, &costing(A, 90), 0);
    queues(&mut model, &ask(A), 1); // held back by A's log: stops A
    queues(&mut model, &costing(A, 50), 2); // behind it, and held back by both logs
    starts(&mut model, &costing(B, 10), 3);
}

// rule E6
#[test]
fn a_key_goes_to_the_oldest_that_is_eligible() {
    let mut model = Model::new(config(&[free(), free(), free()]));
    let r = starts(&mut model, &keyed(B, 5), 0);
    model.cooldown(A, 1_000 * MS, 0);
    let a = queues(&mut model, &keyed(A, 5), 1);
    let b = queues(&mut model, &keyed(B, 5), 2);
    let c = queues(&mut model, &keyed(B, 5), 3);
    assert_eq!(model.poll_timeout(), None);
    model.handle_release(r, 10 * MS);
    assert_eq!(model.take_events(), [Event::Granted(b)]);
    model.handle_release(b, 11 * MS);
    assert_eq!(model.take_events(), [Event::Granted(c)]);
    assert_eq!(model.step(a, 100 * MS), Step::Wait);
}

// rules S1, S2: pacers count the start, and one grant at a time is out in an interval's scope
#[test]
fn the_gap_is_between_starts() {
    let mut model = Model::new(config(&[free(), paced(&[gap(100)])]));
    starts(&mut model, &ask(A), 0);
    let a1 = queues(&mut model, &ask(A), 0);
    let a2 = queues(&mut model, &ask(A), 0);
    model.handle_timeout(100 * MS);
    assert_eq!(model.take_events(), [Event::Granted(a1)]);
    let refusal = refuses(&mut model, &Request { wait: false, ..ask(A) }, 150);
    assert_eq!(refusal.held_by, Some(Hold::HandOff(Side::Provider)));
    assert_eq!(model.step(a1, 150 * MS), Step::Start);
    assert_eq!(wake(&model), Some(250));
    assert_eq!(model.step(a2, 249 * MS), Step::Wait);
    assert_eq!(model.step(a2, 250 * MS), Step::Start);
}

// rule S3: an abandoned grant's budget stays spent, as of the grant
#[test]
fn an_abandoned_grant_spends() {
    let (model, ticket) = granted(free(), paced(&[quota(2, 1_000), gap(5)]));
    let mut dropped = model.clone();
    dropped.handle_release(ticket, 12 * MS);
    assert_eq!(dropped.available(Some(A), 0, 12 * MS), 0);
    assert_eq!(dropped.available(Some(A), 0, 1_000 * MS), 1);
    assert_eq!(dropped.available(Some(A), 0, 1_010 * MS), 2);
    // rule W3: overdue or not
    let mut aborted = model;
    aborted.handle_abort(ticket, 500 * MS);
    assert_eq!(aborted.take_events(), [Event::Refused(ticket, Reason::Aborted)]);
    assert_eq!(aborted.available(Some(A), 0, 500 * MS), 0);
    assert_eq!(gives_up(&mut aborted, ticket, 500).reason, Reason::Aborted);
}

// rule S4: taken back by the next call, with its budget, and passed over until it is polled
#[test]
fn a_grant_that_nobody_polls_is_taken_back() {
    let (mut model, stalled) = granted(free(), paced(&[quota(2, 1_000)]));
    let other = queues(&mut model, &ask(A), 20);
    assert_eq!(wake(&model), Some(210));
    let mut late = model.clone();
    assert_eq!(late.step(stalled, 400 * MS), Step::Start); // however late
    model.handle_timeout(210 * MS);
    assert_eq!(model.take_events(), [Event::TakenBack(stalled), Event::Granted(other)]);
    assert_eq!(model.state(stalled), Some(State::Queued { passed_over: true }));
    assert_eq!(model.step(other, 211 * MS), Step::Start);
    model.handle_release(other, 220 * MS);
    assert_eq!(model.take_events(), []);
    assert_eq!(model.step(stalled, 230 * MS), Step::Wait); // two starts are in the window
    assert_eq!(model.step(stalled, 1_000 * MS), Step::Start);
}

// rule T6: no alarm for a grant while nothing is queued, unless somebody waits for idle
#[test]
fn no_alarm_without_a_queue() {
    let (mut model, _) = granted(free(), free());
    assert_eq!(model.poll_timeout(), None);
    model.watch_idle(true);
    assert_eq!(wake(&model), Some(210));
    model.watch_idle(false);
    assert_eq!(model.poll_timeout(), None);
}

// rule S4a
#[test]
fn stalled_futures_do_not_add_up() {
    let mut model = Model::new(config(&[conc(1), free(), free()]));
    let first = starts(&mut model, &ask(A), 0);
    let stalled: Vec<Ticket> = (0..12).map(|_| queues(&mut model, &ask(A), 0)).collect();
    model.handle_release(first, 0);
    let mut at = 0;
    for time in [200_000, 100_000, 50_000, 25_000, 12_500, 6_250, 3_125, 1_562, 1_000, 1_000] {
        let due = model.poll_timeout().unwrap();
        assert_eq!((due - at) / 1_000, time);
        at = due;
        model.handle_timeout(at);
    }
    assert_eq!(model.hand_off(None), MS);
    assert_eq!(model.hand_off(Some(A)), MS);
    assert_eq!(model.hand_off(Some(B)), 200 * MS);
    model.take_events();
    // the eleventh is granted; the first, polled now, gets the full time at its next grant
    assert_eq!(model.step(stalled[0], at), Step::Wait);
    model.handle_timeout(at + MS);
    assert_eq!(model.take_events(), [Event::TakenBack(stalled[10]), Event::Granted(stalled[0])]);
    assert_eq!(model.poll_timeout(), Some(at + MS + 200 * MS));
    // a start restores the time in both scopes
    assert_eq!(model.step(stalled[0], at + 2 * MS), Step::Start);
    assert_eq!(model.hand_off(None), 200 * MS);
    assert_eq!(model.hand_off(Some(A)), 200 * MS);
}

// rule S5
#[test]
fn a_cooldown_takes_the_grant_back() {
    let (mut model, ticket) = granted(free(), paced(&[quota(2, 1_000)]));
    model.cooldown(A, 0, 11 * MS); // already over
    assert_eq!(model.take_events(), []);
    model.cooldown(A, 50 * MS, 12 * MS);
    assert_eq!(model.take_events(), [Event::TakenBack(ticket)]);
    assert_eq!(model.state(ticket), Some(State::Queued { passed_over: false }));
    assert_eq!(model.hand_off(Some(A)), 200 * MS);
    assert_eq!(model.available(Some(A), 0, 12 * MS), 1);
    model.cooldown(A, 10 * MS, 13 * MS); // never shorter, rule L5
    assert_eq!(model.not_before(A), 62 * MS);
    model.handle_timeout(62 * MS);
    assert_eq!(model.take_events(), [Event::Granted(ticket)]);
}

// rules S5, W2: taken back past its deadline, it expires in that call
#[test]
fn a_cooldown_past_the_deadline_expires() {
    let mut model = Model::new(config(&[conc(1), free()]));
    let a = starts(&mut model, &ask(A), 0);
    let b = queues(&mut model, &within(A, 10), 0);
    model.handle_release(a, 10 * MS);
    model.cooldown(A, 30 * MS, 20 * MS);
    let expected = [Event::Granted(b), Event::TakenBack(b), Event::Refused(b, Reason::AdmissionTimeout)];
    assert_eq!(model.take_events(), expected);
    let told = gives_up(&mut model, b, 20);
    assert_eq!((told.held_by, told.retry_after), (Some(Hold::Cooldown), Some(30 * MS)));
}

// rule W2: a passed-over ticket that expires says that nobody polled it
#[test]
fn a_passed_over_ticket_expires_unpolled() {
    let mut model = Model::new(config(&[conc(1), free()]));
    let a = starts(&mut model, &ask(A), 0);
    let b = queues(&mut model, &within(A, 100), 0);
    model.handle_release(a, 50 * MS);
    model.handle_timeout(250 * MS);
    let expected = [Event::Granted(b), Event::TakenBack(b), Event::Refused(b, Reason::AdmissionTimeout)];
    assert_eq!(model.take_events(), expected);
    assert_eq!(gives_up(&mut model, b, 260).held_by, Some(Hold::Unpolled));
    assert_eq!(model.counts(), counts(0, 0, 0));
}

// rule W3: leaving comes before anything else, so that it costs nothing even if it was due
#[test]
fn leaving_the_queue_costs_nothing() {
    let mut model = Model::new(config(&[free(), paced(&[gap(100), quota(2, 1_000)])]));
    starts(&mut model, &ask(A), 0);
    let a1 = queues(&mut model, &ask(A), 1);
    let a2 = queues(&mut model, &ask(A), 2);
    model.handle_abort(a1, 150 * MS);
    assert_eq!(model.take_events(), [Event::Refused(a1, Reason::Aborted), Event::Granted(a2)]);
    assert_eq!(model.available(Some(A), 1, 150 * MS), 0);
    model.handle_abort(a1, 151 * MS); // ended: nothing
    assert_eq!(model.take_events(), []);
}

// rule W6: within a call come take-backs, expiries, the call's own effect, then grants
#[test]
fn the_order_within_a_call() {
    let (mut model, stalled) = granted(free(), free());
    let short = queues(&mut model, &within(A, 50), 10);
    let next = queues(&mut model, &ask(A), 10);
    model.close(500 * MS);
    let expected = [
        Event::TakenBack(stalled),
        Event::Refused(short, Reason::AdmissionTimeout),
        Event::Refused(stalled, Reason::Closed),
        Event::Refused(next, Reason::Closed),
    ];
    assert_eq!(model.take_events(), expected);
}

// rule L9: until it settled, and one window more
#[test]
fn until_settled_counts_the_whole_call() {
    let margin = 5 * MS;
    let log = Pacer::Log { unit: 0, limit: 1, window: 100 * MS, margin, until_settled: true };
    let mut model = Model::new(config(&[free(), paced(&[log])]));
    let a = starts(&mut model, &ask(A), 0);
    let b = queues(&mut model, &ask(A), 1);
    model.handle_timeout(10_000 * MS);
    assert_eq!(model.poll_timeout(), None);
    model.handle_release(a, 20_000 * MS);
    assert_eq!(wake(&model), Some(20_105));
    assert_eq!(model.step(b, 20_105 * MS), Step::Start);
    // rule D2: a reset forgets what the running call holds
    assert_eq!(model.reset(Some(A), 20_106 * MS), Ok(()));
    starts(&mut model, &ask(A), 20_106);
    model.handle_release(b, 20_107 * MS);
    assert_eq!(model.available(Some(A), 0, 20_107 * MS), 0);
}

// rules L9, S3: a grant abandoned before its start counts for one window from the grant
#[test]
fn until_settled_and_an_abandoned_grant() {
    let (mut model, ticket) = granted(free(), paced(&[settled_quota(2, 100)]));
    model.handle_release(ticket, 50 * MS);
    assert_eq!(model.available(Some(A), 0, 109 * MS), 0);
    assert_eq!(model.available(Some(A), 0, 110 * MS), 2);
}

// rules D2, R3
#[test]
fn a_reset_admits_who_is_queued_past_the_limit() {
    let mut model = Model::new(config(&[conc(4), paced(&[quota(1, 1_000)]), free()]));
    starts(&mut model, &ask(A), 0);
    let waiting: Vec<Ticket> = (0..4).map(|_| queues(&mut model, &ask(A), 1)).collect();
    assert_eq!(model.reset(Some(B), 2 * MS), Ok(())); // of that scope only
    assert_eq!(model.reset(None, 2 * MS), Ok(()));
    assert_eq!(model.take_events(), []);
    assert_eq!(model.reset(Some(A), 2 * MS), Ok(()));
    // exempt from the logs, not from the client's concurrency
    let expected: Vec<Event> = waiting[..3].iter().map(|&t| Event::Granted(t)).collect();
    assert_eq!(model.take_events(), expected);
    for &ticket in &waiting[..3] {
        assert_eq!(model.step(ticket, 3 * MS), Step::Start);
    }
    // those starts are logged, and the last is still exempt
    assert_eq!(model.available(Some(A), 0, 4 * MS), 0);
    model.handle_release(waiting[0], 5 * MS);
    assert_eq!(model.take_events(), [Event::Granted(waiting[3])]);
    model.handle_release(waiting[1], 6 * MS);
    model.handle_release(waiting[2], 6 * MS);
    let refusal = refuses(&mut model, &Request { wait: false, ..ask(A) }, 6);
    assert_eq!(refusal.held_by, Some(Hold::Log(Side::Provider, 0)));
}

// rule D2: a ticket that was already granted stays counted and is not exempt
#[test]
fn a_reset_does_not_exempt_a_grant() {
    let (mut model, ticket) = granted(free(), paced(&[quota(2, 1_000)]));
    assert_eq!(model.reset(Some(A), 20 * MS), Ok(()));
    assert_eq!(model.available(Some(A), 0, 20 * MS), 1);
    assert_eq!(model.step(ticket, 30 * MS), Step::Start);
    assert_eq!(model.available(Some(A), 0, 1_029 * MS), 1);
    assert_eq!(model.available(Some(A), 0, 1_030 * MS), 2);
}

// rule R2: 60 per minute and 15 s: of 200 calls at once 60 start and 140 are refused at once
#[test]
fn max_wait_refuses_at_once() {
    let setting = config(&[free(), paced(&[quota(60, MINUTE)])]);
    let mut model = Model::new(Config { max_wait: Some(15_000 * MS), ..setting });
    for _ in 0..60 {
        starts(&mut model, &ask(A), 0);
    }
    for _ in 0..140 {
        let refusal = refuses(&mut model, &ask(A), 0);
        assert_eq!(refusal.reason, Reason::MaxWait);
        assert_eq!(refusal.retry_after, Some(MINUTE * MS));
    }
    // 45 s later the wait is 15 s and allowed; the window has 60 places, then it is too long again
    for _ in 0..60 {
        queues(&mut model, &ask(A), 45_000);
    }
    assert_eq!(refuses(&mut model, &ask(A), 45_000).retry_after, Some(75_000 * MS));
    model.handle_timeout(MINUTE * MS);
    assert_eq!(model.take_events().len(), 60);
}

// rule R2: a max_wait of 0 rejects whatever would wait, also where no estimate says so
#[test]
fn max_wait_of_zero() {
    let mut model = Model::new(Config { max_wait: Some(0), ..config(&[conc(1), free()]) });
    starts(&mut model, &ask(A), 0);
    let refusal = refuses(&mut model, &ask(A), 1);
    let held_by = Some(Hold::Concurrency(Side::Client));
    assert_eq!(refusal, Refusal { held_by, ..plain(Reason::MaxWait) });
}

// rule R2: one that waits longer all the same is never granted; a fresh estimate is told
#[test]
fn max_wait_passes() {
    let setting = config(&[free(), paced(&[quota(1, 100)])]);
    let mut model = Model::new(Config { max_wait: Some(150 * MS), ..setting });
    starts(&mut model, &ask(A), 0);
    let waits = queues(&mut model, &within(A, 150), 0);
    model.cooldown(A, 500 * MS, 50 * MS);
    model.handle_timeout(200 * MS);
    // at equality with the timeout the reason is max-wait
    assert_eq!(model.take_events(), [Event::Refused(waits, Reason::MaxWait)]);
    let told = gives_up(&mut model, waits, 200);
    assert_eq!((told.held_by, told.retry_after), (Some(Hold::Cooldown), Some(350 * MS)));
}

// rule R2: which calls are ahead
#[test]
fn the_calls_ahead() {
    let mut model = Model::new(config(&[free(), paced(&[quota(1, 100)])]));
    starts(&mut model, &keyed(A, 1), 0);
    queues(&mut model, &keyed(A, 1), 0); // waits for a busy key: not ahead
    queues(&mut model, &keyed(A, 2), 0);
    queues(&mut model, &keyed(A, 2), 0); // behind an older one of its key: not ahead
    queues(&mut model, &ask(A), 0);
    let refusal = refuses(&mut model, &Request { wait: false, ..ask(A) }, 0);
    assert_eq!(refusal.retry_after, Some(300 * MS));
}

// rule D5
#[test]
fn the_first_reason_is_told() {
    let setting = config(&[conc(1), paced(&[tokens(10, 1_000)]), paced(&[tokens(10, 0)])]);
    let mut model = Model::new(Config { max_wait: Some(0), max_queued: 0, ..setting });
    starts(&mut model, &ask(A), 0);
    let unknown = Request { provider: 9, costs: vec![(9, 1)], ..ask(A) };
    assert_eq!(refuses(&mut model, &unknown, 0).reason, Reason::UnknownProvider);
    let unknown = Request { costs: vec![(1, 11), (2, 0)], ..ask(A) };
    assert_eq!(refuses(&mut model, &unknown, 0).reason, Reason::UnknownUnit);
    let impossible = refuses(&mut model, &costing(A, 11), 0);
    assert_eq!(impossible.reason, Reason::ImpossibleCost);
    assert_eq!(impossible.held_by, Some(Hold::Log(Side::Provider, 0)));
    assert_eq!(impossible.retry_after, None);
    // rule L6: a window of 0 refuses no cost
    assert_eq!(refuses(&mut model, &costing(B, 11), 0).reason, Reason::MaxWait);
    let reject = Request { wait: false, ..ask(A) };
    assert_eq!(refuses(&mut model, &reject, 0).reason, Reason::Exhausted);
    model.close(0);
    assert_eq!(refuses(&mut model, &unknown, 0).reason, Reason::Closed);
}

// rule S6: a newcomer that is queued and granted in the same call is granted, and polled to start
#[test]
fn a_newcomer_granted_from_the_queue() {
    let mut model = Model::new(config(&[free(), paced(&[gap(100)]), free()]));
    starts(&mut model, &ask(A), 0);
    let due = queues(&mut model, &ask(A), 1);
    let Ok(Admitted::Queued(b)) = model.request(&ask(B), 100 * MS) else {
        panic!("it does not jump the one that is due");
    };
    assert_eq!(model.take_events(), [Event::Granted(due), Event::Granted(b)]);
    assert_eq!(model.step(b, 100 * MS), Step::Start);
}

// rule W6: calls about tickets that are gone only let time pass
#[test]
fn a_gone_ticket_does_nothing() {
    let mut model = Model::new(config(&[free(), paced(&[gap(100)])]));
    let a = starts(&mut model, &ask(A), 0);
    let b = queues(&mut model, &ask(A), 0);
    model.handle_release(a, 10 * MS);
    assert_eq!(model.state(a), None);
    model.handle_release(a, 99 * MS);
    model.handle_abort(77, 99 * MS);
    assert_eq!(model.take_events(), []);
    assert_eq!(model.step(a, 100 * MS), Step::Gone);
    assert_eq!(model.take_events(), [Event::Granted(b)]);
    assert_eq!(model.step(b, 100 * MS), Step::Start);
    assert_eq!(model.step(b, 100 * MS), Step::Running);
}
