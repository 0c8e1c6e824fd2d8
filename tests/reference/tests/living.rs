//! A coordinator that changes while it runs, sentence by sentence: limits, costs, providers, and
//! what a snapshot tells of them.
//!
//! Times are written in milliseconds. Owns no randomness.

mod common;

use admission_reference::{
    Admitted, Change, Config, Counts, Event, Hold, Limits, Model, Pacer, PacerView, Reason, Refusal, Request,
    ScopeView, Side, Snapshot, State, Step, Ticket,
};
use common::*;

const C: u32 = 2;

/// A request that starts at once or is refused.
fn now_or_never(provider: u32) -> Request {
    Request { wait: false, ..ask(provider) }
}

fn settled_tokens(limit: u64, window_ms: u64) -> Pacer {
    Pacer::Log { unit: 1, limit, window: window_ms * MS, margin: 0, until_settled: true }
}

/// Two units, no limits, one provider A, and a template.
fn templated(template: Limits) -> Model {
    Model::new(Config { template: Some(template), ..config(&[free(), free()]) })
}

/// A model in which `ticket` of A is granted at 10 ms and not started.
fn granted(client: Limits, provider: Limits) -> (Model, Ticket) {
    let mut model = Model::new(config(&[client, provider, free()]));
    let ticket = queues(&mut model, &Request { deferred: true, ..ask(A) }, 10);
    assert_eq!(model.take_events(), [Event::Granted(ticket)]);
    (model, ticket)
}

#[track_caller]
fn limit(model: &mut Model, scope: Option<u32>, limits: &Limits, at_ms: u64) {
    assert_eq!(model.set_limits(scope, limits, at_ms * MS), Ok(()));
}

#[track_caller]
fn add(model: &mut Model, name: u32, limits: &Limits, at_ms: u64) {
    assert_eq!(model.add_provider(name, limits, at_ms * MS), Ok(()));
}

#[track_caller]
fn take_away(model: &mut Model, name: u32, at_ms: u64) {
    assert_eq!(model.remove_provider(name, at_ms * MS), Ok(()));
}

#[track_caller]
fn settle(model: &mut Model, ticket: Ticket, cost: u64, at_ms: u64) {
    assert_eq!(model.settle_cost(ticket, 1, cost, at_ms * MS), Ok(()));
}

/// That a call that was an error did the same as one in which only time passes.
#[track_caller]
fn changed_nothing(before: &Model, mut after: Model, at_ms: u64) {
    let mut expected = before.clone();
    expected.handle_timeout(at_ms * MS);
    assert_eq!(after.take_events(), expected.take_events());
    assert_eq!(format!("{after:?}"), format!("{expected:?}"));
}

fn view(model: &Model, name: u32) -> ScopeView {
    let snapshot = model.snapshot();
    let found = snapshot.providers.into_iter().find(|one| one.0 == name);
    found.expect("it is there").1
}

// L7.

// rule L7: lowering revokes nothing that runs
#[test]
fn lowering_revokes_nothing_that_runs() {
    let mut model = Model::new(config(&[free(), conc(3)]));
    let running: Vec<Ticket> = (0..3).map(|_| starts(&mut model, &ask(A), 0)).collect();
    let waits = queues(&mut model, &ask(A), 0);
    limit(&mut model, Some(A), &conc(1), 10);
    assert_eq!(model.take_events(), []);
    assert_eq!(model.counts(), counts(3, 1, 0));
    model.handle_release(running[0], 20 * MS);
    model.handle_release(running[1], 20 * MS);
    assert_eq!(model.take_events(), []);
    model.handle_release(running[2], 30 * MS);
    assert_eq!(model.take_events(), [Event::Granted(waits)]);
}

// rule L7: lowering forgets nothing that a window has logged
#[test]
fn lowering_forgets_nothing_that_is_logged() {
    let mut model = Model::new(config(&[free(), paced(&[quota(5, 1_000)])]));
    for at in [0, 0, 0, 100] {
        starts(&mut model, &ask(A), at);
    }
    limit(&mut model, Some(A), &paced(&[quota(2, 1_000)]), 200);
    assert_eq!(view(&model, A).pacers, [PacerView::Log { spent: 4, left: 0 }]);
    let waits = queues(&mut model, &ask(A), 200);
    assert_eq!(wake(&model), Some(1_000));
    assert_eq!(model.step(waits, 1_000 * MS), Step::Start);
    // and raised again it still has them
    limit(&mut model, Some(A), &paced(&[quota(5, 1_000)]), 1_050);
    assert_eq!(model.available(Some(A), 0, 1_050 * MS), 3);
}

// rule L7: raising admits at once what now may start
#[test]
fn raising_admits_at_once() {
    let mut model = Model::new(config(&[conc(1), paced(&[quota(1, 1_000)]), free()]));
    starts(&mut model, &ask(A), 0);
    let a: Vec<Ticket> = (0..3).map(|_| queues(&mut model, &ask(A), 1)).collect();
    let b = queues(&mut model, &ask(B), 2);
    limit(&mut model, None, &conc(4), 10);
    assert_eq!(model.take_events(), [Event::Granted(b)]);
    limit(&mut model, Some(A), &paced(&[quota(3, 1_000)]), 11);
    assert_eq!(model.take_events(), [Event::Granted(a[0]), Event::Granted(a[1])]);
    // no limit at all
    let mut model = Model::new(config(&[free(), conc(1)]));
    starts(&mut model, &ask(A), 0);
    let a2 = queues(&mut model, &ask(A), 1);
    limit(&mut model, Some(A), &free(), 2);
    assert_eq!(model.take_events(), [Event::Granted(a2)]);
}

// rules L7, L6: a queued ticket that can no longer fit is rejected in that call
#[test]
fn what_can_no_longer_fit_is_rejected() {
    for scope in [None, Some(A)] {
        let mut model = Model::new(config(&[paced(&[tokens(10, 1_000)]), paced(&[tokens(10, 1_000)])]));
        starts(&mut model, &costing(A, 10), 0);
        let heavy = queues(&mut model, &costing(A, 8), 1);
        let light = queues(&mut model, &costing(A, 5), 2);
        let third = queues(&mut model, &costing(A, 6), 3);
        limit(&mut model, scope, &paced(&[tokens(5, 1_000)]), 10);
        let expected = [heavy, third].map(|ticket| Event::Refused(ticket, Reason::ImpossibleCost));
        assert_eq!(model.take_events(), expected);
        let side = scope.map_or(Side::Client, |_| Side::Provider);
        let told = gives_up(&mut model, heavy, 10);
        let held_by = Some(Hold::Log(side, 0));
        assert_eq!(told, Refusal { held_by, ..plain(Reason::ImpossibleCost) });
        assert_eq!(model.step(light, 1_000 * MS), Step::Start);
    }
}

// rules L7, D2: one that is exempt from its scope's logs still fits, whatever the logs become
#[test]
fn who_is_exempt_stays_so_whatever_the_logs_become() {
    let mut model = Model::new(config(&[conc(1), paced(&[tokens(10, 1_000)])]));
    let first = starts(&mut model, &costing(A, 10), 0);
    let exempt = queues(&mut model, &costing(A, 8), 1);
    assert_eq!(model.reset(Some(A), 2 * MS), Ok(()));
    limit(&mut model, Some(A), &paced(&[tokens(5, 500)]), 3);
    assert_eq!(model.take_events(), []);
    let mut other = model.clone();
    model.handle_release(first, 4 * MS);
    assert_eq!(model.take_events(), [Event::Granted(exempt)]);
    limit(&mut other, Some(A), &paced(&[tokens(5, 500), tokens(7, 500)]), 4);
    other.handle_release(first, 5 * MS);
    assert_eq!(other.take_events(), [Event::Granted(exempt)]);
}

// rule L7: a window that grows counts the starts that were inside the old one at that call
#[test]
fn a_window_that_grows() {
    let mut model = Model::new(config(&[free(), paced(&[quota(5, 100)])]));
    starts(&mut model, &ask(A), 0);
    starts(&mut model, &ask(A), 50);
    starts(&mut model, &ask(A), 60);
    // the first is exactly one window old
    limit(&mut model, Some(A), &paced(&[quota(5, 1_000)]), 100);
    assert_eq!(model.available(Some(A), 0, 100 * MS), 3);
    assert_eq!(model.available(Some(A), 0, 1_049 * MS), 3);
    assert_eq!(model.available(Some(A), 0, 1_050 * MS), 4);
    // one that shrinks has forgotten what is outside it by the time it grows again
    limit(&mut model, Some(A), &paced(&[quota(5, 10)]), 1_055);
    assert_eq!(model.available(Some(A), 0, 1_055 * MS), 5);
    limit(&mut model, Some(A), &paced(&[quota(5, 1_000)]), 1_055);
    assert_eq!(model.available(Some(A), 0, 1_055 * MS), 5);
}

// rules L7, L9: a margin belongs to the window
#[test]
fn a_margin_that_grows() {
    let with = |margin_ms| Pacer::Log {
        unit: 0,
        limit: 1,
        window: 100 * MS,
        margin: margin_ms * MS,
        until_settled: false,
    };
    let mut model = Model::new(config(&[free(), paced(&[with(0)])]));
    starts(&mut model, &ask(A), 0);
    limit(&mut model, Some(A), &paced(&[with(20)]), 99);
    queues(&mut model, &ask(A), 99);
    assert_eq!(wake(&model), Some(120));
}

// rules L7, L6: a window of 0 had nothing inside
#[test]
fn a_window_that_grows_from_nothing() {
    for log in [tokens(10, 0), settled_tokens(10, 0)] {
        let mut model = Model::new(config(&[free(), paced(&[log])]));
        let a = starts(&mut model, &costing(A, 7), 0);
        limit(&mut model, Some(A), &paced(&[settled_tokens(10, 1_000)]), 0);
        assert_eq!(model.available(Some(A), 0, 0), 10);
        model.handle_release(a, 5 * MS);
        assert_eq!(model.available(Some(A), 0, 5 * MS), 10);
    }
}

// rule L7: a pacer keeps what it knows if its kind and unit stay; a new one starts empty
#[test]
fn a_pacer_keeps_what_it_knows() {
    let mut model = Model::new(config(&[free(), paced(&[tokens(10, 1_000), gap(10)])]));
    starts(&mut model, &costing(A, 6), 0);
    limit(&mut model, Some(A), &paced(&[quota(5, 1_000), gap(50), tokens(20, 1_000)]), 5);
    let views = [
        PacerView::Log { spent: 0, left: 5 },
        PacerView::Interval { next: 50 * MS },
        PacerView::Log { spent: 6, left: 14 },
    ];
    assert_eq!(view(&model, A).pacers, views);
    // one that goes is forgotten, and a new one of its kind starts empty
    limit(&mut model, Some(A), &free(), 6);
    limit(&mut model, Some(A), &paced(&[tokens(10, 1_000), gap(50)]), 7);
    let views = [PacerView::Log { spent: 0, left: 10 }, PacerView::Interval { next: 7 * MS }];
    assert_eq!(view(&model, A).pacers, views);
}

// rule L7: of several alike the n-th takes over from the n-th
#[test]
fn the_nth_takes_over_from_the_nth() {
    let mut model = Model::new(config(&[free(), paced(&[quota(10, 100), quota(20, 1_000)])]));
    starts(&mut model, &ask(A), 0);
    starts(&mut model, &ask(A), 100);
    let spent = |model: &Model| -> Vec<u64> {
        let spent = |pacer: &PacerView| match *pacer {
            PacerView::Log { spent, .. } => spent,
            PacerView::Interval { .. } => unreachable!("there are only logs"),
        };
        view(model, A).pacers.iter().map(spent).collect()
    };
    assert_eq!(spent(&model), [1, 2]);
    // by their places, not by their windows; the third is new
    limit(&mut model, Some(A), &paced(&[quota(20, 1_000), gap(1), quota(10, 500), quota(9, 100)]), 150);
    let views = view(&model, A).pacers;
    assert_eq!(views[0], PacerView::Log { spent: 1, left: 19 });
    assert_eq!(views[2], PacerView::Log { spent: 2, left: 8 });
    assert_eq!(views[3], PacerView::Log { spent: 0, left: 9 });
    // the second goes: the first stays
    limit(&mut model, Some(A), &paced(&[quota(10, 1_000)]), 160);
    assert_eq!(spent(&model), [1]);
}

// rules L7, L9: what a log counts from is not part of its kind; a call that runs counts as the log
// counted when it started
#[test]
fn from_start_becomes_until_settled() {
    let mut model = Model::new(config(&[free(), paced(&[tokens(10, 100)])]));
    let old = starts(&mut model, &costing(A, 3), 0);
    limit(&mut model, Some(A), &paced(&[settled_tokens(10, 100)]), 50);
    assert_eq!(model.available(Some(A), 0, 50 * MS), 7);
    let new = starts(&mut model, &costing(A, 4), 60);
    settle(&mut model, old, 2, 70);
    assert_eq!(model.available(Some(A), 0, 99 * MS), 4);
    assert_eq!(model.available(Some(A), 0, 100 * MS), 6);
    model.handle_release(old, 200 * MS);
    assert_eq!(model.available(Some(A), 0, 200 * MS), 6);
    model.handle_release(new, 300 * MS);
    assert_eq!(model.available(Some(A), 0, 399 * MS), 6);
    assert_eq!(model.available(Some(A), 0, 400 * MS), 10);
}

// rules L7, L9: what a running call holds is not lost
#[test]
fn until_settled_becomes_from_start() {
    let mut model = Model::new(config(&[free(), paced(&[settled_tokens(10, 100)])]));
    let old = starts(&mut model, &costing(A, 3), 0);
    limit(&mut model, Some(A), &paced(&[tokens(10, 100)]), 500);
    let new = starts(&mut model, &costing(A, 4), 500);
    assert_eq!(model.available(Some(A), 0, 500 * MS), 3);
    assert_eq!(model.available(Some(A), 0, 600 * MS), 7);
    settle(&mut model, old, 5, 700);
    assert_eq!(model.available(Some(A), 0, 700 * MS), 5);
    model.handle_release(new, 700 * MS);
    model.handle_release(old, 800 * MS);
    assert_eq!(model.available(Some(A), 0, 899 * MS), 5);
    assert_eq!(model.available(Some(A), 0, 900 * MS), 10);
}

// rules L7, L9: a new log starts empty, and has nothing of the calls that run
#[test]
fn a_new_log_does_not_know_what_runs() {
    let mut model = Model::new(config(&[free(), free()]));
    let a = starts(&mut model, &costing(A, 3), 0);
    limit(&mut model, Some(A), &paced(&[settled_tokens(10, 100), tokens(10, 100)]), 10);
    settle(&mut model, a, 9, 20);
    let empty = PacerView::Log { spent: 0, left: 10 };
    assert_eq!(view(&model, A).pacers, [empty, empty]);
    model.handle_release(a, 30 * MS);
    assert_eq!(view(&model, A).pacers, [empty, empty]);
}

// rules L7, L2: an interval keeps its last start, however old
#[test]
fn an_interval_keeps_its_last_start() {
    let mut model = Model::new(config(&[free(), paced(&[gap(100)])]));
    starts(&mut model, &ask(A), 0);
    starts(&mut model, &ask(A), 100);
    model.handle_timeout(700 * MS);
    limit(&mut model, Some(A), &paced(&[gap(1_000)]), 900);
    let waits = queues(&mut model, &ask(A), 900);
    assert_eq!(wake(&model), Some(1_100));
    // shortened, it lets go at once
    limit(&mut model, Some(A), &paced(&[gap(10)]), 950);
    assert_eq!(model.take_events(), [Event::Granted(waits)]);
}

// rules L7, W1: max_queued can change too; lowering it rejects nobody who waits
#[test]
fn max_queued_changes() {
    let mut model = Model::new(Config { max_queued: 2, ..config(&[free(), conc(1)]) });
    let a = starts(&mut model, &ask(A), 0);
    queues(&mut model, &ask(A), 1);
    queues(&mut model, &ask(A), 1);
    assert_eq!(refuses(&mut model, &ask(A), 1).reason, Reason::Overflow);
    model.set_max_queued(3, 2 * MS);
    let last = queues(&mut model, &ask(A), 2);
    model.set_max_queued(1, 3 * MS);
    assert_eq!(model.take_events(), []);
    assert_eq!(model.counts(), counts(1, 3, 0));
    model.handle_release(last, 4 * MS);
    assert_eq!(refuses(&mut model, &ask(A), 4).reason, Reason::Overflow);
    model.handle_release(a, 5 * MS);
    model.take_events();
    assert_eq!(refuses(&mut model, &ask(A), 5).reason, Reason::Overflow);
    // rule W6: time passes in it
    let mut model = Model::new(config(&[free(), paced(&[gap(10)])]));
    starts(&mut model, &ask(A), 0);
    let due = queues(&mut model, &ask(A), 0);
    model.set_max_queued(0, 10 * MS);
    assert_eq!(model.take_events(), [Event::Granted(due)]);
}

// rules L7, S5: grants of that scope are taken back, not passed over, and halve nothing
#[test]
fn grants_of_that_scope_are_taken_back() {
    for scope in [None, Some(A)] {
        let (mut model, ticket) = granted(conc(2), conc(2));
        limit(&mut model, scope, &conc(1), 20);
        // it still fits: it goes again in the same call, with the hand-off time from then
        assert_eq!(model.take_events(), [Event::TakenBack(ticket), Event::Granted(ticket)]);
        assert_eq!(model.hand_off(Some(A)), 200 * MS);
        assert_eq!(model.hand_off(None), 200 * MS);
        model.watch_idle(true);
        assert_eq!(wake(&model), Some(220));
    }
    // not those of another scope
    let (mut model, _) = granted(conc(2), conc(2));
    limit(&mut model, Some(B), &conc(1), 20);
    assert_eq!(model.take_events(), []);
}

// rule L7: so that no start breaks the new limit
#[test]
fn no_start_breaks_the_new_limit() {
    let (mut model, ticket) = granted(free(), free());
    starts(&mut model, &ask(A), 15);
    limit(&mut model, Some(A), &conc(1), 20);
    assert_eq!(model.take_events(), [Event::TakenBack(ticket)]);
    assert_eq!(model.state(ticket), Some(State::Queued { passed_over: false }));
    assert_eq!(model.step(ticket, 30 * MS), Step::Wait);

    // rules L2, S2: a new interval has no last start, and the grant starts before it is used
    let (mut model, ticket) = granted(free(), free());
    let second = queues(&mut model, &Request { deferred: true, ..ask(A) }, 10);
    limit(&mut model, Some(A), &paced(&[gap(100)]), 20);
    let events = model.take_events();
    let expected = [Event::Granted(second), Event::TakenBack(ticket), Event::TakenBack(second)];
    assert_eq!(events[..3], expected);
    assert_eq!(events[3..], [Event::Granted(ticket)]);
    assert_eq!(model.step(ticket, 30 * MS), Step::Start);
    assert_eq!(wake(&model), Some(130));
}

// rules L7, S5, W2: its deadline goes on; taken back past it, it expires in that call
#[test]
fn a_grant_taken_back_past_its_deadline() {
    let mut model = Model::new(config(&[free(), free()]));
    let late = queues(&mut model, &Request { deferred: true, ..within(A, 30) }, 0);
    let early = queues(&mut model, &Request { deferred: true, ..ask(A) }, 0);
    model.take_events();
    limit(&mut model, Some(A), &conc(1), 31);
    let expected = [
        Event::TakenBack(late),
        Event::Refused(late, Reason::AdmissionTimeout),
        Event::TakenBack(early),
        Event::Granted(early),
    ];
    assert_eq!(model.take_events(), expected);
}

// rules L7, D5: a grant that can no longer fit; an impossible cost is told before a deadline
#[test]
fn a_grant_that_can_no_longer_fit() {
    let mut model = Model::new(config(&[free(), paced(&[tokens(10, 1_000)])]));
    let request = Request { deferred: true, timeout: Some(30 * MS), ..costing(A, 8) };
    let ticket = queues(&mut model, &request, 0);
    model.take_events();
    limit(&mut model, Some(A), &paced(&[tokens(5, 1_000)]), 40);
    let refused = Event::Refused(ticket, Reason::ImpossibleCost);
    assert_eq!(model.take_events(), [Event::TakenBack(ticket), refused]);
    // everything came back
    assert_eq!(model.available(Some(A), 0, 40 * MS), 5);
}

// rules L7, W4: on a closed coordinator it ends as closed
#[test]
fn limits_change_after_the_close() {
    let (mut model, ticket) = granted(free(), free());
    model.close(15 * MS);
    limit(&mut model, Some(A), &conc(1), 20);
    assert_eq!(model.take_events(), [Event::TakenBack(ticket), Event::Refused(ticket, Reason::Closed)]);
}

// rules L1, L7, L10: what is a configuration error is one live too, and changes nothing
#[test]
fn limits_that_are_out_of_order() {
    let (before, _) = granted(free(), paced(&[quota(9, 100)]));
    let unknown = Pacer::Log { unit: 2, limit: 1, window: MS, margin: 0, until_settled: false };
    let zero_gap = Pacer::Interval { interval: 0, margin: MS };
    for limits in [conc(0), paced(&[zero_gap]), paced(&[quota(0, 100)]), paced(&[unknown])] {
        for scope in [None, Some(A)] {
            let mut model = before.clone();
            assert_eq!(model.set_limits(scope, &limits, 20 * MS), Err(Change::InvalidLimits));
            changed_nothing(&before, model, 20);
        }
        let mut model = before.clone();
        assert_eq!(model.add_provider(7, &limits, 20 * MS), Err(Change::InvalidLimits));
        changed_nothing(&before, model, 20);
        // what is not there, or is, is told first
        let mut model = before.clone();
        assert_eq!(model.set_limits(Some(7), &limits, 20 * MS), Err(Change::UnknownProvider));
        assert_eq!(model.add_provider(A, &limits, 20 * MS), Err(Change::ProviderExists));
        changed_nothing(&before, model, 20);
    }
    // with a template too, nothing is made
    let mut model = templated(free());
    assert_eq!(model.set_limits(Some(7), &conc(0), 0), Err(Change::InvalidLimits));
    assert_eq!(model.providers(), [A]);
    // a window of 0 is in order
    limit(&mut model, Some(A), &paced(&[quota(1, 0)]), 0);
}

// L8.

// rule L8: the log's entry is changed while it is in the window; queued tickets are looked at again
#[test]
fn a_correction_changes_the_entry() {
    let mut model = Model::new(config(&[free(), paced(&[tokens(1_000, 1_000)])]));
    let a = starts(&mut model, &costing(A, 1_000), 0);
    let b = queues(&mut model, &costing(A, 600), 100);
    settle(&mut model, a, 350, 200);
    assert_eq!(model.take_events(), [Event::Granted(b)]);
    assert_eq!(model.step(b, 250 * MS), Step::Start);
    assert_eq!(model.available(Some(A), 0, 250 * MS), 50);
    // it stays at its instant
    assert_eq!(model.available(Some(A), 0, 999 * MS), 50);
    assert_eq!(model.available(Some(A), 0, 1_000 * MS), 400);
    // out of the window there is nothing left to change
    settle(&mut model, a, 4_000, 1_100);
    assert_eq!(model.available(Some(A), 0, 1_100 * MS), 400);
}

// rule L8: it may pass the limit, the client's too
#[test]
fn a_correction_may_pass_the_limit() {
    let mut model =
        Model::new(config(&[paced(&[tokens(2_000, 1_000)]), paced(&[tokens(1_000, 1_000)]), free()]));
    let a = starts(&mut model, &costing(A, 1_000), 0);
    settle(&mut model, a, 4_000, 10);
    assert_eq!(view(&model, A).pacers, [PacerView::Log { spent: 4_000, left: 0 }]);
    assert_eq!(model.snapshot().client.pacers, [PacerView::Log { spent: 4_000, left: 0 }]);
    let b = queues(&mut model, &costing(B, 1), 20);
    assert_eq!(wake(&model), Some(1_000));
    model.handle_timeout(1_000 * MS);
    assert_eq!(model.take_events(), [Event::Granted(b)]);
    settle(&mut model, a, u64::MAX, 1_000);
}

// rule L8: as often as one likes, from a cost of 0 too
#[test]
fn corrections_repeat() {
    let mut model = Model::new(config(&[free(), paced(&[tokens(100, 1_000)])]));
    let a = starts(&mut model, &ask(A), 0);
    for (cost, at) in [(40, 10), (0, 20), (100, 30), (60, 40)] {
        settle(&mut model, a, cost, at);
        assert_eq!(model.available(Some(A), 0, at * MS), 100 - cost);
    }
    assert_eq!(model.available(Some(A), 0, 1_000 * MS), 100);
}

// rules L8, L9: what is held changes, and the corrected cost is what is logged
#[test]
fn a_correction_until_settled() {
    for first in [0, 30] {
        let mut model = Model::new(config(&[free(), paced(&[settled_tokens(100, 1_000)])]));
        let a = starts(&mut model, &costing(A, first), 0);
        settle(&mut model, a, 70, 5_000);
        assert_eq!(model.available(Some(A), 0, 5_000 * MS), 30);
        settle(&mut model, a, 50, 6_000);
        model.handle_release(a, 7_000 * MS);
        assert_eq!(model.available(Some(A), 0, 7_999 * MS), 50);
        assert_eq!(model.available(Some(A), 0, 8_000 * MS), 100);
    }
}

// rule L8: a correction takes no grant back
#[test]
fn a_correction_takes_no_grant_back() {
    let mut model = Model::new(config(&[free(), paced(&[tokens(100, 1_000)])]));
    let a = starts(&mut model, &costing(A, 50), 0);
    let b = queues(&mut model, &Request { deferred: true, ..costing(A, 50) }, 10);
    assert_eq!(model.take_events(), [Event::Granted(b)]);
    settle(&mut model, a, 90, 20);
    assert_eq!(model.take_events(), []);
    assert_eq!(model.step(b, 30 * MS), Step::Start);
    assert_eq!(view(&model, A).pacers, [PacerView::Log { spent: 140, left: 0 }]);
}

// rule L8: while the permit is held, and not for requests
#[test]
fn who_may_not_correct() {
    let mut before = Model::new(config(&[conc(2), free()]));
    let runs = starts(&mut before, &ask(A), 0);
    let is_granted = queues(&mut before, &Request { deferred: true, ..ask(A) }, 0);
    let waits = queues(&mut before, &ask(A), 0);
    let mut model = before.clone();
    for ticket in [is_granted, waits, 77] {
        assert_eq!(model.settle_cost(ticket, 1, 5, MS), Err(Change::NotRunning));
        assert_eq!(model.settle_cost(ticket, 0, 5, MS), Err(Change::NotRunning));
    }
    assert_eq!(model.settle_cost(runs, 0, 5, MS), Err(Change::Requests));
    assert_eq!(model.settle_cost(runs, 2, 5, MS), Err(Change::UnknownUnit));
    changed_nothing(&before, model.clone(), 1);
    model.handle_release(runs, 2 * MS);
    assert_eq!(model.settle_cost(runs, 1, 5, 2 * MS), Err(Change::NotRunning));
}

// rules L8, D2: what a reset forgot stays forgotten in that scope
#[test]
fn a_correction_after_a_reset() {
    for log in [tokens(100, 1_000), settled_tokens(100, 1_000)] {
        let mut model = Model::new(config(&[paced(&[tokens(100, 1_000)]), paced(&[log])]));
        let a = starts(&mut model, &costing(A, 50), 0);
        assert_eq!(model.reset(Some(A), 10 * MS), Ok(()));
        settle(&mut model, a, 80, 20);
        assert_eq!(model.available(Some(A), 0, 20 * MS), 100);
        assert_eq!(model.available(None, 0, 20 * MS), 20);
        model.handle_release(a, 30 * MS);
        assert_eq!(model.available(Some(A), 0, 30 * MS), 100);
    }
}

// L10.

// rule L10: providers may be added while the coordinator lives
#[test]
fn a_provider_is_added() {
    let mut model = Model::new(config(&[free(), free()]));
    assert_eq!(refuses(&mut model, &ask(7), 0).reason, Reason::UnknownProvider);
    add(&mut model, 7, &conc(1), 1);
    assert_eq!(model.providers(), [A, 7]);
    starts(&mut model, &ask(7), 2);
    queues(&mut model, &ask(7), 2);
    add(&mut model, 3, &free(), 3);
    assert_eq!(model.providers(), [A, 3, 7]);
    assert_eq!(model.hand_off(Some(3)), 200 * MS);
    assert_eq!(model.hand_off(Some(4)), 0);
    // rule W6: its time passes, and it does no harm to a closed coordinator
    model.close(4 * MS);
    add(&mut model, 5, &free(), 5);
    assert_eq!(refuses(&mut model, &ask(5), 5).reason, Reason::Closed);
}

// rule L10: a template makes one on demand for each new name, by a request
#[test]
fn a_request_makes_a_provider() {
    let mut model = templated(Limits { max_concurrent: Some(1), pacers: vec![tokens(5, 1_000)] });
    starts(&mut model, &ask(9), 0);
    let waits = queues(&mut model, &ask(9), 0);
    assert_eq!(model.providers(), [A, 9]);
    // those of the build are not the template's
    starts(&mut model, &ask(A), 0);
    starts(&mut model, &ask(A), 0);
    // not one that is out of order
    let unknown = Request { costs: vec![(9, 1)], ..ask(5) };
    assert_eq!(refuses(&mut model, &unknown, 1).reason, Reason::UnknownUnit);
    assert_eq!(model.providers(), [A, 9]);
    // also one that is refused by its limits, until the next call
    assert_eq!(refuses(&mut model, &costing(5, 6), 1).reason, Reason::ImpossibleCost);
    assert_eq!(model.providers(), [A, 5, 9]);
    model.handle_timeout(MS);
    assert_eq!(model.providers(), [A, 9]);
    assert_eq!(model.state(waits), Some(State::Queued { passed_over: false }));
    // rule D5: closed comes first
    model.close(2 * MS);
    assert_eq!(refuses(&mut model, &ask(6), 2).reason, Reason::Closed);
    model.cooldown(6, 10 * MS, 2 * MS);
    assert_eq!(model.set_limits(Some(6), &free(), 2 * MS), Err(Change::UnknownProvider));
    assert_eq!(model.providers(), [A, 9]);
}

// rule L10: by a cooldown or a change of limits too, but not by asking or by a reset
#[test]
fn other_calls_make_a_provider() {
    let mut model = templated(free());
    model.cooldown(3, 10 * MS, 0);
    assert_eq!(model.providers(), [A, 3]);
    assert_eq!(refuses(&mut model, &now_or_never(3), 1).held_by, Some(Hold::Cooldown));
    limit(&mut model, Some(4), &conc(1), 2);
    starts(&mut model, &ask(4), 2);
    queues(&mut model, &ask(4), 2);
    assert_eq!(model.available(Some(5), 0, 2 * MS), 0);
    assert_eq!(model.not_before(5), 0);
    assert_eq!(model.reset(Some(5), 2 * MS), Err(Change::UnknownProvider));
    assert_eq!(model.remove_provider(5, 2 * MS), Err(Change::UnknownProvider));
    assert_eq!(model.providers(), [A, 3, 4]);
}

// rule L10: without a template an unknown name is an error
#[test]
fn without_a_template() {
    let before = Model::new(config(&[free(), free()]));
    let mut model = before.clone();
    model.cooldown(7, 10 * MS, MS);
    assert_eq!(model.set_limits(Some(7), &free(), MS), Err(Change::UnknownProvider));
    assert_eq!(refuses(&mut model, &ask(7), 1).reason, Reason::UnknownProvider);
    changed_nothing(&before, model, 1);
}

// rule L10: forgotten when it is idle, its logs are empty, its intervals and cooldown are over
#[test]
fn an_idle_provider_is_forgotten() {
    // nothing but a call that runs
    let mut model = templated(free());
    let a = starts(&mut model, &ask(9), 0);
    model.handle_timeout(1_000 * MS);
    assert_eq!(model.providers(), [A, 9]);
    model.handle_release(a, 1_001 * MS);
    assert_eq!(model.providers(), [A, 9]); // the first call, once time has passed, that finds it so
    model.handle_timeout(1_001 * MS);
    assert_eq!(model.providers(), [A]);

    // a log, an interval and a cooldown, each with its own end
    let ends = [(paced(&[quota(5, 100)]), 0, 100), (paced(&[gap(70)]), 0, 70), (free(), 50, 50)];
    for (limits, delay, end) in ends {
        let mut model = templated(limits);
        let a = starts(&mut model, &ask(9), 0);
        model.cooldown(9, delay * MS, 0);
        model.handle_release(a, MS);
        model.handle_timeout(end * MS - 1);
        assert_eq!(model.providers(), [A, 9]);
        // rule T6: no alarm is set for it
        assert_eq!(model.poll_timeout(), None);
        model.handle_timeout(end * MS);
        assert_eq!(model.providers(), [A]);
        assert_eq!(model.remembered(), []);
    }

    // rule L9: a log until settled
    let mut model = templated(paced(&[settled_quota(5, 100)]));
    let a = starts(&mut model, &ask(9), 0);
    model.handle_release(a, 500 * MS);
    model.handle_timeout(599 * MS);
    assert_eq!(model.providers(), [A, 9]);
    model.handle_timeout(600 * MS);
    assert_eq!(model.providers(), [A]);
}

// rule L10: those that wait or are granted keep it; one that ended does not
#[test]
fn a_ticket_keeps_its_provider() {
    let mut model = templated(free());
    let ticket = queues(&mut model, &Request { deferred: true, ..within(9, 50) }, 0);
    model.handle_timeout(150 * MS);
    assert_eq!(model.providers(), [A, 9]);
    // taken back and expired: idle in that very call
    model.handle_timeout(200 * MS);
    assert_eq!(model.providers(), [A]);
    assert_eq!(gives_up(&mut model, ticket, 201).reason, Reason::AdmissionTimeout);
    // rule W3: one that leaves does so before time passes
    let ticket = queues(&mut model, &Request { deferred: true, ..ask(9) }, 300);
    model.handle_release(ticket, 310 * MS);
    assert_eq!(model.providers(), [A]);
}

// rule L10: its limits are still the template's
#[test]
fn other_limits_keep_a_provider() {
    let mut model = templated(conc(2));
    limit(&mut model, Some(9), &conc(1), 0);
    limit(&mut model, Some(8), &conc(2), 0);
    add(&mut model, 7, &conc(2), 0);
    model.handle_timeout(MS);
    // neither the one that was changed, nor those that were added or built
    assert_eq!(model.providers(), [A, 7, 9]);
    limit(&mut model, Some(9), &conc(2), 2);
    limit(&mut model, Some(7), &conc(2), 2);
    model.handle_timeout(3 * MS);
    assert_eq!(model.providers(), [A, 7]);
}

// rules L10, S4a: the hand-off time starts full again
#[test]
fn a_forgotten_hand_off_time() {
    let mut model = templated(free());
    let ticket = queues(&mut model, &Request { deferred: true, ..ask(9) }, 0);
    model.handle_timeout(200 * MS);
    assert_eq!(model.hand_off(Some(9)), 100 * MS);
    model.handle_release(ticket, 201 * MS);
    queues(&mut model, &Request { deferred: true, ..ask(9) }, 201);
    assert_eq!(model.hand_off(Some(9)), 200 * MS);
    assert_eq!(model.hand_off(None), 100 * MS);
}

// rules L10, L7: other limits for a removed name go on with what it remembers
#[test]
fn other_limits_for_a_removed_name() {
    let mut model = templated(paced(&[gap(100)]));
    add(&mut model, 9, &paced(&[quota(5, 1_000)]), 0);
    starts(&mut model, &ask(9), 0);
    starts(&mut model, &ask(9), 0);
    take_away(&mut model, 9, 1);
    // not by way of the template, which has no log
    limit(&mut model, Some(9), &paced(&[quota(5, 1_000)]), 2);
    assert_eq!(model.available(Some(9), 0, 3 * MS), 3);
}

// rules L10, W6: forgotten once time has passed, before the call's own effect
#[test]
fn forgotten_before_the_effect() {
    let mut model = templated(paced(&[gap(100)]));
    let a = starts(&mut model, &ask(9), 0);
    model.handle_release(a, MS);
    // the request itself finds it idle, and makes it again
    let a = starts(&mut model, &ask(9), 100);
    assert_eq!(model.providers(), [A, 9]);
    model.handle_release(a, 101 * MS);
    // so does an error
    assert_eq!(model.remove_provider(9, 200 * MS), Err(Change::UnknownProvider));
    assert_eq!(model.providers(), [A]);
    // rules O1, T1: no time passes in what is only looked at
    let mut model = templated(free());
    model.cooldown(9, 0, 0);
    model.watch_idle(true);
    assert_eq!(view(&model, 9).counts, Counts::default());
    assert_eq!(model.providers(), [A, 9]);
}

// rule L10: with a template a removed name is made again on demand; without one it is unknown
#[test]
fn a_removed_name_is_made_again() {
    let mut model = templated(conc(1));
    take_away(&mut model, A, 0);
    assert_eq!(model.providers(), []);
    starts(&mut model, &ask(A), 1);
    queues(&mut model, &ask(A), 1); // the template's limits now
    assert_eq!(model.providers(), [A]);
    let mut model = Model::new(config(&[free(), free()]));
    take_away(&mut model, A, 0);
    assert_eq!(refuses(&mut model, &ask(A), 1).reason, Reason::UnknownProvider);
}

// rules L10, S3: queued tickets and grants are rejected, the grants give everything back
#[test]
fn a_provider_is_removed() {
    let client = Limits { max_concurrent: Some(4), pacers: vec![quota(4, 1_000)] };
    let mut model = Model::new(config(&[client, conc(2), free()]));
    let runs = starts(&mut model, &ask(A), 0);
    let is_granted = queues(&mut model, &Request { deferred: true, ..keyed(A, 1) }, 1);
    let waits = queues(&mut model, &ask(A), 2);
    let same_key = queues(&mut model, &keyed(B, 1), 3);
    let last = queues(&mut model, &within(A, 5), 4);
    model.take_events();
    take_away(&mut model, A, 5);
    let expected = [
        Event::Refused(is_granted, Reason::Removed),
        Event::Refused(waits, Reason::Removed),
        Event::Refused(last, Reason::Removed),
        Event::Granted(same_key),
    ];
    assert_eq!(model.take_events(), expected);
    let told = gives_up(&mut model, is_granted, 6);
    assert_eq!(told, plain(Reason::Removed));
    assert_eq!(model.step(is_granted, 6 * MS), Step::Gone);
    // the call that runs, and the other grant
    assert_eq!(model.available(None, 0, 6 * MS), 2);
    assert_eq!(model.state(runs), Some(State::Running));
    // rule D5: closed comes first
    let (mut model, ticket) = granted(free(), free());
    model.close(15 * MS);
    take_away(&mut model, A, 16);
    assert_eq!(model.take_events(), [Event::Refused(ticket, Reason::Closed)]);
}

// rules L10, L1: its running calls go on, and hold the client's slot and their key
#[test]
fn what_runs_goes_on() {
    let mut model = Model::new(config(&[conc(2), free(), free()]));
    let a = starts(&mut model, &keyed(A, 1), 0);
    take_away(&mut model, A, 1);
    assert_eq!((model.providers(), model.remembered()), (vec![B], vec![A]));
    let mut other = model.clone();
    let b = queues(&mut model, &keyed(B, 1), 2);
    assert_eq!(refuses(&mut model, &Request { wait: false, ..keyed(B, 1) }, 2).held_by, Some(Hold::Key));
    // rule L8: the permit is still held
    settle(&mut model, a, 5, 3);
    model.handle_release(a, 4 * MS);
    assert_eq!(model.take_events(), [Event::Granted(b)]);
    assert_eq!(model.remembered(), []);

    starts(&mut other, &ask(B), 2);
    let refusal = refuses(&mut other, &now_or_never(B), 2);
    assert_eq!(refusal.held_by, Some(Hold::Concurrency(Side::Client)));
}

// rule L10: its name keeps its logs, intervals, cooldown and running calls, should it be added again
#[test]
fn what_is_kept_of_a_removed_name() {
    let limits = Limits { max_concurrent: Some(2), pacers: vec![tokens(10, 100), gap(30)] };
    let mut model = Model::new(config(&[free(), limits.clone()]));
    let a = starts(&mut model, &costing(A, 4), 0);
    model.cooldown(A, 50 * MS, 0);
    take_away(&mut model, A, 10);
    // it is not there
    assert_eq!(model.hand_off(Some(A)), 0);
    assert_eq!(model.not_before(A), 0);
    assert_eq!(model.available(Some(A), 0, 10 * MS), 0);
    assert_eq!(model.remembered(), [A]);
    assert_eq!(model.snapshot().providers, []);
    add(&mut model, A, &limits, 20);
    assert_eq!(model.remembered(), []);
    let expected = ScopeView {
        counts: counts(1, 0, 0),
        pacers: vec![PacerView::Log { spent: 4, left: 6 }, PacerView::Interval { next: 30 * MS }],
        not_before: 50 * MS,
        next: Some(30 * MS),
    };
    assert_eq!(view(&model, A), expected);
    // rule L1: the running call counts in its concurrency; rule L8: and can be corrected
    starts(&mut model, &ask(A), 50);
    let waits = queues(&mut model, &ask(A), 90);
    settle(&mut model, a, 7, 95);
    assert_eq!(model.available(Some(A), 0, 95 * MS), 3);
    model.handle_release(a, 99 * MS);
    assert_eq!(model.take_events(), [Event::Granted(waits)]);
}

// rules L10, L7: its pacers take over as when limits change
#[test]
fn other_limits_for_a_name_that_is_kept() {
    let mut model = Model::new(config(&[free(), paced(&[settled_tokens(10, 100), tokens(9, 10)])]));
    let a = starts(&mut model, &costing(A, 4), 0);
    take_away(&mut model, A, 20);
    add(&mut model, A, &paced(&[quota(3, 100), tokens(20, 1_000), tokens(30, 1_000)]), 30);
    let views = [
        PacerView::Log { spent: 0, left: 3 },
        PacerView::Log { spent: 4, left: 16 },
        PacerView::Log { spent: 0, left: 30 },
    ];
    assert_eq!(view(&model, A).pacers, views);
    model.handle_release(a, 40 * MS);
    assert_eq!(view(&model, A).pacers, views);
    assert_eq!(model.available(Some(A), 1, 1_040 * MS), 20);
    // one that was made by the template takes over too, and starts with a full hand-off time
    let mut model = templated(paced(&[quota(5, 1_000)]));
    starts(&mut model, &ask(9), 0);
    queues(&mut model, &Request { deferred: true, ..ask(9) }, 0);
    model.handle_timeout(200 * MS);
    take_away(&mut model, 9, 200);
    model.cooldown(9, 0, 200 * MS);
    assert_eq!(view(&model, 9).pacers, [PacerView::Log { spent: 1, left: 4 }]);
    assert_eq!(model.hand_off(Some(9)), 200 * MS);
}

// rule L10: until they are over
#[test]
fn what_is_kept_vanishes() {
    let ends = [(paced(&[quota(5, 100)]), 0, 100), (paced(&[gap(70)]), 0, 70), (free(), 50, 50)];
    for (limits, delay, end) in ends {
        let mut model = Model::new(config(&[free(), limits]));
        let a = starts(&mut model, &ask(A), 0);
        model.cooldown(A, delay * MS, 0);
        model.handle_release(a, MS);
        take_away(&mut model, A, 2);
        model.handle_timeout(end * MS - 1);
        assert_eq!(model.remembered(), [A]);
        model.handle_timeout(end * MS);
        assert_eq!(model.remembered(), []);
        // added again, it starts with nothing, also in a longer window
        add(&mut model, A, &paced(&[quota(5, 10_000), gap(10_000)]), end);
        let nothing = [PacerView::Log { spent: 0, left: 5 }, PacerView::Interval { next: end * MS }];
        assert_eq!(view(&model, A).pacers, nothing);
    }
    // one of which nothing is to be kept
    let mut model = Model::new(config(&[free(), free()]));
    take_away(&mut model, A, 0);
    assert_eq!(model.remembered(), []);
}

// rule L10: adding a name that is there, or removing or resetting one that is not
#[test]
fn errors_change_nothing() {
    let mut before = Model::new(config(&[free(), conc(1), free()]));
    let a = starts(&mut before, &ask(A), 0);
    before.cooldown(B, 5 * MS, 0);
    queues(&mut before, &ask(B), 0);
    take_away(&mut before, A, 1);
    // time passes: the queued ticket is due
    for at in [2, 5] {
        let mut model = before.clone();
        assert_eq!(model.add_provider(B, &conc(3), at * MS), Err(Change::ProviderExists));
        assert_eq!(model.remove_provider(A, at * MS), Err(Change::UnknownProvider));
        assert_eq!(model.reset(Some(A), at * MS), Err(Change::UnknownProvider));
        assert_eq!(model.reset(Some(C), at * MS), Err(Change::UnknownProvider));
        assert_eq!(model.set_limits(Some(A), &free(), at * MS), Err(Change::UnknownProvider));
        changed_nothing(&before, model, at);
    }
    assert_eq!(before.reset(None, 6 * MS), Ok(()));
    assert_eq!(before.state(a), Some(State::Running));
}

// O1.

// rule O1
#[test]
fn a_snapshot_tells_of_every_scope() {
    let client = Limits { max_concurrent: Some(3), pacers: vec![quota(10, 1_000)] };
    let limits = paced(&[gap(100), tokens(10, 1_000), settled_tokens(20, 500)]);
    let mut model = Model::new(config(&[client, limits, free()]));
    starts(&mut model, &costing(A, 4), 10);
    queues(&mut model, &costing(A, 3), 20);
    queues(&mut model, &costing(A, 2), 20);
    model.cooldown(B, 300 * MS, 20 * MS);
    queues(&mut model, &ask(B), 20);
    let expected = Snapshot {
        client: ScopeView {
            counts: counts(1, 3, 0),
            pacers: vec![PacerView::Log { spent: 1, left: 9 }],
            not_before: 0,
            next: Some(1_010 * MS),
        },
        providers: vec![
            (
                A,
                ScopeView {
                    counts: counts(1, 2, 0),
                    pacers: vec![
                        PacerView::Interval { next: 110 * MS },
                        PacerView::Log { spent: 4, left: 6 },
                        PacerView::Log { spent: 4, left: 16 },
                    ],
                    not_before: 0,
                    next: Some(110 * MS),
                },
            ),
            (
                B,
                ScopeView {
                    counts: counts(0, 1, 0),
                    pacers: Vec::new(),
                    not_before: 320 * MS,
                    next: Some(320 * MS),
                },
            ),
        ],
        next: Some(110 * MS),
    };
    assert_eq!(model.snapshot(), expected);

    // rule S2: a grant that has not started is spent
    model.handle_timeout(200 * MS);
    let views = [
        PacerView::Interval { next: 200 * MS },
        PacerView::Log { spent: 7, left: 3 },
        PacerView::Log { spent: 7, left: 13 },
    ];
    assert_eq!(view(&model, A).pacers, views);
    assert_eq!(view(&model, A).counts, counts(1, 1, 1));
    assert_eq!(model.snapshot().client.pacers, [PacerView::Log { spent: 2, left: 8 }]);
    assert_eq!(model.snapshot().next, model.poll_timeout());
}

// rules O1, T1: no time passes in it
#[test]
fn no_time_passes_in_a_snapshot() {
    let mut model = Model::new(config(&[free(), paced(&[quota(2, 100)])]));
    starts(&mut model, &ask(A), 0);
    model.handle_timeout(60 * MS);
    let before = format!("{model:?}");
    let first = model.snapshot();
    assert_eq!(first, model.snapshot());
    assert_eq!(format!("{model:?}"), before);
    // rule L6: a window of 0 has nothing spent
    limit(&mut model, Some(A), &paced(&[quota(2, 0)]), 60);
    let Ok(Admitted::Started(_)) = model.request(&ask(A), 60 * MS) else {
        panic!("a window of 0 admits everything");
    };
    assert_eq!(view(&model, A).pacers, [PacerView::Log { spent: 0, left: 2 }]);
}
