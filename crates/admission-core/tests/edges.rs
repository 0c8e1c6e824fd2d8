//! Both sides of a bound, and what is looked at only where two rules meet.
//!
//! Each of these is a small change of the core that the other tests would have let pass. Times are milliseconds;
//! counts are (running, queued, granted but not started).

mod transcript;

use transcript::*;

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
