//! The words of errors, reasons and states: each its own, fit to stand in another's sentence.
//!
//! Owns: every text that the core displays. Lacks decisions, and the async layer's words, which are its own.

mod transcript;

use admission_core::TicketState;
use transcript::*;

/// What is displayed of each.
fn told<T: ToString>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| one.to_string()).collect()
}

#[test]
fn a_configuration_says_what_is_wrong_with_it() {
    use admission_core::ConfigError as Wrong;
    let unit = LimitsError::UnknownUnit(TOKENS);
    let all = [
        Wrong::Client(LimitsError::ZeroConcurrency),
        Wrong::Provider(B, unit),
        Wrong::Template(LimitsError::TooManyPacers),
        Wrong::Template(LimitsError::OutOfMemory),
        Wrong::NoUnits,
        Wrong::HandOffTooShort,
        Wrong::TooManyProviders,
        Wrong::OutOfMemory,
    ];
    let words = [
        "the client: a concurrency of 0 would admit nothing",
        "provider 1: a log counts unit 1, which is not there",
        "the template: more than 65,535 pacers",
        "the template: out of memory",
        "there is at least the unit of requests",
        "the hand-off time is at least 1 ms",
        "too many providers",
        "out of memory",
    ];
    assert_eq!(told(all), words);
    assert_eq!(Config::default().max_queued, Config::new().max_queued);
}

#[test]
fn a_change_says_why_it_was_not_made() {
    let all = [
        ChangeError::UnknownProvider,
        ChangeError::ProviderExists,
        ChangeError::Limits(LimitsError::ZeroInterval),
        ChangeError::UnknownUnit,
        ChangeError::NotRunning,
        ChangeError::Requests,
    ];
    let words = [
        "unknown provider",
        "the provider exists",
        "an interval of 0 paces nothing",
        "unknown unit",
        "the call is not running",
        "a call always costs 1 request",
    ];
    assert_eq!(told(all), words);
}

// rule R1
#[test]
fn a_refusal_says_why_what_held_it_back_and_when_to_try_again() {
    let mut play = Play::new(free(), &[quota(1, 1_000), free()]);
    play.starts(0, &ask(A));
    let words =
        "may not start at once: held back by the provider's window (pacer 0); try again in at least 600ms";
    assert_eq!(play.refuses(400, &ask(A).at_once()).to_string(), words);
    play.close(400);
    assert_eq!(play.refuses(400, &ask(B)).to_string(), "the coordinator is closed");
}

#[test]
fn each_reason_and_hold_has_words_of_its_own() {
    let reasons = [
        Reason::Aborted,
        Reason::Closed,
        Reason::UnknownProvider,
        Reason::Removed,
        Reason::UnknownUnit,
        Reason::ImpossibleCost,
        Reason::Exhausted,
        Reason::MaxWait,
        Reason::Overflow,
        Reason::AdmissionTimeout,
    ];
    let words = [
        "aborted",
        "the coordinator is closed",
        "unknown provider",
        "the provider was removed",
        "unknown unit",
        "the cost is above a limit",
        "may not start at once",
        "the wait would be too long",
        "the queue is full",
        "not admitted in time",
    ];
    assert_eq!(told(reasons), words);
    let holds = [
        Hold::Unpolled,
        Hold::Key,
        Hold::Concurrency(Side::Client),
        Hold::HandOff(Side::Provider),
        Hold::Cooldown,
        Hold::Interval(Side::Client, 2),
        Hold::Log(Side::Provider, 1),
        Hold::Order,
    ];
    let words = [
        "its caller, which did not take its last grant",
        "its key, which is busy",
        "the client's concurrency",
        "a grant of the provider that has not started",
        "the provider's cooldown",
        "the client's interval (pacer 2)",
        "the provider's window (pacer 1)",
        "an older ticket",
    ];
    assert_eq!(told(holds), words);
}

// rule O2
#[test]
fn each_state_of_a_ticket_has_a_word() {
    let all = [TicketState::Queued, TicketState::PassedOver, TicketState::Granted, TicketState::Running];
    assert_eq!(told(all), ["queued", "passed over", "granted", "running"]);
}

// rule T1
#[test]
fn an_instant_is_so_long_after_the_origin() {
    assert_eq!(at(1_500).since_origin(), ms(1_500));
    assert_eq!(Instant::ZERO.since_origin(), ms(0));
}
