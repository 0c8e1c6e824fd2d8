//! The reasons that the model gives for a ticket that waits (rule O2).

mod common;

use admission_reference::{Hold, Limits, Model, Side, State, Ticket};
use common::*;

fn holds(model: &Model, ticket: Ticket) -> Vec<(Hold, Option<u64>, Option<Ticket>)> {
    let told = model.explain(ticket).expect("a ticket that is there");
    let held = told.holds.iter();
    held.map(|held| (held.hold, held.until.map(|at| at / MS), held.by)).collect()
}

// rules O2, E1
#[test]
fn everything_that_holds_a_ticket_back() {
    let provider = Limits { max_concurrent: Some(1), pacers: vec![quota(1, 400), gap(100)] };
    let mut model = Model::new(config(&[conc(1), provider]));
    let runs = starts(&mut model, &keyed(A, 7), 10);
    model.cooldown(A, 200 * MS, 10 * MS);
    let waits = queues(&mut model, &keyed(A, 7), 20);
    let expected = [
        (Hold::Key, None, Some(runs)),
        (Hold::Concurrency(Side::Provider), None, None),
        (Hold::Cooldown, Some(210), None),
        (Hold::Log(Side::Provider, 0), Some(410), None),
        (Hold::Interval(Side::Provider, 1), Some(110), None),
        (Hold::Concurrency(Side::Client), None, None),
    ];
    assert_eq!(holds(&model, waits), expected);
    let told = model.explain(waits).unwrap();
    assert_eq!((told.submitted, told.earliest), (20 * MS, Some(410 * MS)));
    let holder = told.key_holder.unwrap();
    assert_eq!((holder.ticket, holder.provider, holder.is_running, holder.since), (runs, A, true, 10 * MS));
}

// rules O2, E3
#[test]
fn the_older_tickets_that_go_first() {
    let mut model = Model::new(config(&[paced(&[tokens(20, 1_000)]), paced(&[tokens(10, 500)]), free()]));
    starts(&mut model, &costing(A, 8), 0);
    starts(&mut model, &costing(B, 10), 0);
    let a = queues(&mut model, &costing(A, 5), 1);
    let b = queues(&mut model, &costing(B, 3), 1);
    let a2 = queues(&mut model, &ask(A), 1);
    assert_eq!(holds(&model, a2), [(Hold::Order, None, Some(a)), (Hold::Order, None, Some(b))]);
    assert_eq!(holds(&model, b), [(Hold::Log(Side::Client, 0), Some(1_000), None)]);
    assert_eq!(model.explain_queued().iter().map(|told| told.ticket).collect::<Vec<_>>(), [a, b, a2]);
}

// rules O2, L9, S4
#[test]
fn what_time_alone_does_not_end() {
    let mut model = Model::new(config(&[free(), paced(&[settled_quota(1, 100)])]));
    let runs = starts(&mut model, &ask(A), 0);
    let waits = queues(&mut model, &ask(A), 10);
    assert_eq!(holds(&model, waits), [(Hold::Log(Side::Provider, 0), None, None)]);
    assert_eq!(model.explain(waits).unwrap().earliest, Some(110 * MS));
    model.handle_release(runs, 20 * MS);
    model.handle_timeout(120 * MS);
    let told = model.explain(waits).unwrap();
    assert_eq!((told.state, told.since, told.holds.len()), (State::Granted, Some(120 * MS), 0));
    model.handle_timeout(320 * MS);
    assert_eq!(holds(&model, waits), [(Hold::Unpolled, None, None)]);
}
