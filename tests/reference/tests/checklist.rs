//! The ways in which this kind of software fails in public, on the model under numbers.
//!
//! Times are written in milliseconds. Owns no randomness: comparing the model with the core over
//! random calls is another suite's work.

mod common;

use admission_reference::{
    Admitted, Config, Event, Hold, Limits, Model, Pacer, Reason, Request, Side, State, Step, Ticket,
};
use common::*;

const HUGE: [u64; 4] = [u64::MAX, u64::MAX - 1, u64::MAX / 10, 3_155_760_000_000_000_000];

// rules S3, W5
#[test]
fn a_grant_that_is_dropped_passes_the_turn_on() {
    let mut model = Model::new(config(&[conc(1), free()]));
    for round in 0..1_000 {
        let start = round * 100;
        let a = starts(&mut model, &ask(A), start);
        let b = queues(&mut model, &ask(A), start);
        model.handle_release(a, (start + 10) * MS);
        assert_eq!(model.take_events(), [Event::Granted(b)]);
        model.handle_release(b, (start + 10) * MS);
        let c = starts(&mut model, &ask(A), start + 10);
        model.handle_release(c, (start + 20) * MS);
        assert_eq!(model.counts(), counts(0, 0, 0));
    }
}

// rules T6, W3
#[test]
fn the_head_leaves_and_the_next_wakes() {
    let mut model = Model::new(config(&[free(), paced(&[gap(100)])]));
    starts(&mut model, &ask(A), 0);
    let a2 = queues(&mut model, &ask(A), 1);
    let a3 = queues(&mut model, &ask(A), 2);
    model.handle_release(a2, 50 * MS);
    assert_eq!(wake(&model), Some(100));
    model.handle_timeout(100 * MS);
    assert_eq!(model.take_events(), [Event::Granted(a3)]);
    assert_eq!(model.step(a3, 100 * MS), Step::Start);
}

// rules T6, L5
#[test]
fn an_earlier_wake_arrives_later() {
    let mut model = Model::new(config(&[free(), free(), paced(&[gap(500)])]));
    model.cooldown(A, 10_000 * MS, 0);
    let a1 = queues(&mut model, &ask(A), 0);
    assert_eq!(wake(&model), Some(10_000));
    starts(&mut model, &ask(B), 50);
    let b1 = queues(&mut model, &ask(B), 100);
    assert_eq!(wake(&model), Some(550));
    assert_eq!(model.step(b1, 550 * MS), Step::Start);
    assert_eq!(wake(&model), Some(10_000));
    assert_eq!(model.step(a1, 10_000 * MS), Step::Start);
    assert_eq!(wake(&model), None);
}

// rule E4
#[test]
fn a_newcomer_does_not_snatch_the_slot() {
    let mut model = Model::new(Config { max_queued: 4, ..config(&[conc(1), free()]) });
    let r = starts(&mut model, &ask(A), 0);
    let b = queues(&mut model, &ask(A), 1);
    model.handle_release(r, 10 * MS);
    let c = queues(&mut model, &ask(A), 10);
    assert_eq!(model.take_events(), [Event::Granted(b)]);
    assert_eq!(model.step(b, 10 * MS), Step::Start);
    assert_eq!(model.step(c, 10 * MS), Step::Wait);
}

// rule E4: the example
#[test]
fn a_newcomer_does_not_jump_who_is_due() {
    let setting = config(&[conc(2), paced(&[gap(100)]), free()]);
    let mut model = Model::new(Config { max_queued: 1, ..setting });
    let a0 = starts(&mut model, &ask(A), 0);
    let a1 = queues(&mut model, &ask(A), 1);
    let mut early = model.clone();
    starts(&mut early, &ask(B), 99);

    let refusal = refuses(&mut model, &ask(B), 101);
    assert_eq!(refusal.reason, Reason::Overflow);
    assert_eq!(refusal.held_by, Some(Hold::Order));
    assert_eq!(refusal.retry_after, None);
    assert_eq!(model.take_events(), [Event::Granted(a1)]);
    assert_eq!(model.state(a0), Some(State::Running));
}

// rules E2, O3
#[test]
fn ties_go_in_the_order_of_submission() {
    let mut model = Model::new(config(&[free(), paced(&[quota(50, 1_000)]), free()]));
    for _ in 0..50 {
        starts(&mut model, &ask(A), 0);
    }
    let waiting: Vec<Ticket> = (0..100).map(|_| queues(&mut model, &ask(A), 1)).collect();
    model.handle_timeout(999 * MS);
    assert_eq!(model.take_events(), []);
    model.handle_timeout(1_000 * MS);
    let expected: Vec<Event> = waiting[..50].iter().map(|&t| Event::Granted(t)).collect();
    assert_eq!(model.take_events(), expected);

    model.cooldown(B, 100 * MS, 1_000 * MS);
    let waiting: Vec<Ticket> = (0..50).map(|_| queues(&mut model, &ask(B), 1_000)).collect();
    model.handle_timeout(1_100 * MS);
    let expected: Vec<Event> = waiting.iter().map(|&t| Event::Granted(t)).collect();
    assert_eq!(model.take_events(), expected);
}

// rules L3, T6, W2
#[test]
fn the_edge_is_exact() {
    let mut model = Model::new(config(&[free(), paced(&[quota(1, 1_000)])]));
    starts(&mut model, &ask(A), 0);
    let mut empty = model.clone();
    let a2 = queues(&mut model, &ask(A), 999);
    assert_eq!(model.poll_timeout(), Some(1_000 * MS));
    model.handle_timeout(1_000 * MS - 1);
    assert_eq!(model.take_events(), []);
    assert_eq!(model.poll_timeout(), Some(1_000 * MS));
    assert_eq!(model.step(a2, 1_000 * MS), Step::Start);
    starts(&mut empty, &ask(A), 1_000);

    // at the deadline itself the grant wins; one later it has expired
    let mut model = Model::new(config(&[free(), paced(&[gap(100)])]));
    starts(&mut model, &ask(A), 0);
    let a2 = queues(&mut model, &within(A, 100), 0);
    let mut late = model.clone();
    assert_eq!(model.step(a2, 100 * MS), Step::Start);
    late.handle_timeout(100 * MS + 1);
    assert_eq!(late.take_events(), [Event::Refused(a2, Reason::AdmissionTimeout)]);

    // cooldown, with no queue at all
    let mut model = Model::new(Config { max_queued: 0, ..config(&[free(), free()]) });
    model.cooldown(A, 10 * MS, 0);
    let refusal = refuses(&mut model, &ask(A), 9);
    assert_eq!(refusal.held_by, Some(Hold::Cooldown));
    assert_eq!(refusal.retry_after, Some(MS));
    starts(&mut model, &ask(A), 10);
}

// rules L4, R4: what is refused spends nothing
#[test]
fn refusals_consume_nothing() {
    let limits = Limits { max_concurrent: Some(1), pacers: vec![gap(10), quota(10, MINUTE)] };
    let mut model = Model::new(Config { max_queued: 0, ..config(&[free(), limits]) });
    let mut running = starts(&mut model, &ask(A), 0);
    for at in 1..=20 {
        assert_eq!(refuses(&mut model, &ask(A), at).reason, Reason::Overflow);
    }
    assert_eq!(model.available(Some(A), 1, 30 * MS), 9);
    for nth in 0..9 {
        model.handle_release(running, (30 + 10 * nth) * MS);
        running = starts(&mut model, &ask(A), 30 + 10 * nth);
    }
    model.handle_release(running, 120 * MS);
    let refusal = refuses(&mut model, &ask(A), 120);
    assert_eq!(refusal.held_by, Some(Hold::Log(Side::Provider, 1)));
    assert_eq!(refusal.retry_after, Some((MINUTE - 120) * MS));
    starts(&mut model, &ask(A), MINUTE);
}

// rules L2, T3: no credit from a stall
#[test]
fn nothing_is_caught_up() {
    let mut model = Model::new(config(&[free(), paced(&[gap(100)])]));
    starts(&mut model, &ask(A), 0);
    let waiting: Vec<Ticket> = (0..5).map(|_| queues(&mut model, &ask(A), 0)).collect();
    for (nth, at) in [(0, 100), (1, 1_150), (2, 1_250), (3, 1_350)] {
        model.handle_timeout(at * MS);
        assert_eq!(model.take_events(), [Event::Granted(waiting[nth])]);
        assert_eq!(model.step(waiting[nth], at * MS), Step::Start);
        assert_eq!(wake(&model), Some(at + 100));
    }
}

// rules T2, W3, W4
#[test]
fn huge_durations_mean_never() {
    for huge in HUGE {
        let pacer = Pacer::Interval { interval: huge, margin: huge };
        let log = Pacer::Log { unit: 0, limit: 1, window: huge, margin: huge, until_settled: false };
        for limits in [paced(&[pacer]), paced(&[log]), free()] {
            let mut model = Model::new(config(&[free(), limits, free()]));
            let forever = Request { timeout: Some(huge), ..ask(A) };
            starts(&mut model, &forever, 5);
            model.cooldown(A, huge, 5 * MS);
            let a2 = queues(&mut model, &forever, 6);
            let a3 = queues(&mut model, &forever, 6);
            starts(&mut model, &ask(B), 7);
            model.handle_timeout(1_000_000_000_000 * MS);
            assert_eq!(model.take_events(), []);
            model.handle_abort(a2, 8 * MS);
            assert_eq!(gives_up(&mut model, a2, 8).reason, Reason::Aborted);
            model.close(9 * MS);
            assert_eq!(gives_up(&mut model, a3, 9).reason, Reason::Closed);
            assert_eq!(model.poll_timeout(), None);
        }
    }
    // rule T2: never is not reached
    let mut model = Model::new(config(&[free(), free()]));
    model.cooldown(A, u64::MAX, 0);
    let a1 = model.request(&ask(A), u64::MAX).unwrap();
    assert_eq!(a1, Admitted::Queued(0));
    assert_eq!(model.poll_timeout(), None);
}

// rule L3: a window that is longer than the clock has run
#[test]
fn a_window_longer_than_uptime() {
    for origin in [0, 27_000] {
        let pacers = [quota(5, MINUTE), gap(10_000)];
        let mut model = Model::new(config(&[free(), paced(&pacers)]));
        starts(&mut model, &ask(A), origin);
        for nth in 1..5 {
            let a = queues(&mut model, &ask(A), origin + 10_000 * nth - 1);
            assert_eq!(wake(&model), Some(origin + 10_000 * nth));
            assert_eq!(model.step(a, (origin + 10_000 * nth) * MS), Step::Start);
        }
        queues(&mut model, &ask(A), origin + 50_000);
        assert_eq!(wake(&model), Some(origin + MINUTE));
    }
}

// rule T1
#[test]
fn time_never_runs_back() {
    let mut model = Model::new(Config { max_queued: 0, ..config(&[free(), paced(&[gap(100)])]) });
    starts(&mut model, &ask(A), 1_000);
    for _ in 0..50 {
        assert_eq!(refuses(&mut model, &ask(A), 400).retry_after, Some(100 * MS));
        assert_eq!(refuses(&mut model, &ask(A), 1_000).reason, Reason::Overflow);
    }
    starts(&mut model, &ask(A), 1_100);
}

// rule T3
#[test]
fn an_early_timer_changes_nothing() {
    let mut model = Model::new(config(&[free(), paced(&[gap(100)])]));
    starts(&mut model, &ask(A), 0);
    let a2 = queues(&mut model, &ask(A), 1);
    for early in [99_600_000, 99_950_000] {
        model.handle_timeout(early);
        assert_eq!(model.take_events(), []);
        assert_eq!(model.poll_timeout(), Some(100 * MS));
    }
    assert_eq!(model.step(a2, 100_100_000), Step::Start);
}

// rules W4, W6
#[test]
fn close_ends_everyone_who_waits() {
    let mut model = Model::new(config(&[conc(2), free(), free()]));
    let r = starts(&mut model, &keyed(A, 7), 0);
    model.cooldown(B, 1_000 * MS, 0);
    let held = [queues(&mut model, &ask(B), 0), queues(&mut model, &keyed(A, 7), 0)];
    let s = starts(&mut model, &ask(A), 0);
    let others: Vec<Ticket> = (0..3).map(|_| queues(&mut model, &ask(A), 0)).collect();
    model.close(100 * MS);
    let all = held.iter().chain(&others);
    let expected: Vec<Event> = all.map(|&t| Event::Refused(t, Reason::Closed)).collect();
    assert_eq!(model.take_events(), expected);
    assert_eq!(model.counts(), counts(2, 0, 0));
    assert_eq!(model.poll_timeout(), None);
    assert_eq!(refuses(&mut model, &ask(A), 100).reason, Reason::Closed);
    model.handle_release(r, 200 * MS);
    model.handle_release(s, 200 * MS);
    assert_eq!(model.take_events(), []);
    let told = gives_up(&mut model, held[0], 200);
    assert_eq!(told, plain(Reason::Closed));
    assert_eq!(model.step(held[0], 200 * MS), Step::Gone);
}

// rule W4: a grant that is out may start; taken back it ends as closed, before expired
#[test]
fn a_grant_outlives_the_close() {
    let mut model = Model::new(config(&[conc(1), free()]));
    let a = starts(&mut model, &ask(A), 0);
    let b = queues(&mut model, &within(A, 20), 0);
    model.handle_release(a, 10 * MS);
    model.close(11 * MS);
    assert_eq!(model.take_events(), [Event::Granted(b)]);
    let mut late = model.clone();
    assert_eq!(model.step(b, 300 * MS), Step::Start);
    assert_eq!(late.poll_timeout(), None);
    late.watch_idle(true);
    assert_eq!(wake(&late), Some(210));
    late.handle_timeout(210 * MS);
    assert_eq!(late.take_events(), [Event::TakenBack(b), Event::Refused(b, Reason::Closed)]);
}

// rules L1, Q6, W2
#[test]
fn an_abort_does_not_free_what_runs() {
    let mut model = Model::new(config(&[conc(2), conc(1), free()]));
    let a1 = starts(&mut model, &keyed(A, 1), 0);
    model.handle_abort(a1, 10 * MS);
    let mut stuck = model.clone();
    let a2 = queues(&mut model, &Request { timeout: Some(300 * MS), ..keyed(A, 1) }, 20);
    let b1 = starts(&mut model, &ask(B), 30);
    model.handle_release(b1, 40 * MS);
    assert_eq!(model.poll_timeout(), Some(320 * MS + 1));
    model.handle_timeout(320 * MS + 1);
    assert_eq!(model.take_events(), [Event::Refused(a2, Reason::AdmissionTimeout)]);
    assert_eq!(gives_up(&mut model, a2, 321).held_by, Some(Hold::Key));
    let a3 = queues(&mut model, &Request { timeout: Some(300 * MS), ..keyed(A, 2) }, 450);
    model.handle_release(a1, 500 * MS);
    assert_eq!(model.step(a3, 500 * MS), Step::Start);

    let a4 = queues(&mut stuck, &ask(A), 1_000);
    starts(&mut stuck, &ask(B), 1_000);
    stuck.close(2_000 * MS);
    assert_eq!(gives_up(&mut stuck, a4, 2_000).reason, Reason::Closed);
}
