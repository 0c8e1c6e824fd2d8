//! What is wrong, and what holds a ticket back, is told in words that differ and name what they are about.
//!
//! Owns the texts as a reader meets them in a log. Lacks when each is told, which the other tests show.

mod transcript;

use std::collections::BTreeSet;

use admission_core::{ConfigError, TicketState};
use transcript::*;

/// Texts, none of which says what another says.
#[track_caller]
fn all_differ(texts: &[String]) {
    let different: BTreeSet<&String> = texts.iter().collect();
    assert_eq!(different.len(), texts.len(), "{texts:?}");
    assert!(texts.iter().all(|text| text.len() > 3), "{texts:?}");
}

// rule L1: a configuration that is not in order says what is wrong, and where
#[test]
fn a_configuration_error_names_its_scope_and_what_is_wrong() {
    let limits = [
        LimitsError::ZeroConcurrency,
        LimitsError::ZeroInterval,
        LimitsError::ZeroLimit,
        LimitsError::UnknownUnit(TOKENS),
        LimitsError::TooManyPacers,
        LimitsError::OutOfMemory,
    ];
    all_differ(&limits.map(|error| error.to_string()));
    assert_eq!(limits[0].to_string(), "a concurrency of 0 would admit nothing");
    assert_eq!(limits[3].to_string(), "a log counts unit 1, which is not there");
    let wrong = LimitsError::ZeroLimit;
    let errors = [
        ConfigError::Client(wrong),
        ConfigError::Provider(B, wrong),
        ConfigError::Template(wrong),
        ConfigError::NoUnits,
        ConfigError::HandOffTooShort,
        ConfigError::TooManyProviders,
        ConfigError::OutOfMemory,
    ];
    all_differ(&errors.map(|error| error.to_string()));
    assert_eq!(errors[0].to_string(), "the client: a limit of 0 would admit nothing");
    assert_eq!(errors[1].to_string(), "provider 1: a limit of 0 would admit nothing");
}

// rules L7, L8, L10: a change that was not made says why
#[test]
fn a_change_that_was_not_made_says_why() {
    let errors = [
        ChangeError::UnknownProvider,
        ChangeError::ProviderExists,
        ChangeError::Limits(LimitsError::ZeroInterval),
        ChangeError::UnknownUnit,
        ChangeError::NotRunning,
        ChangeError::Requests,
    ];
    all_differ(&errors.map(|error| error.to_string()));
    assert_eq!(errors[0].to_string(), "unknown provider");
    assert_eq!(errors[2].to_string(), LimitsError::ZeroInterval.to_string());
}

// rules D5, R1: a refusal says its reason, what held the ticket back, and when to come again
#[test]
fn a_refusal_says_why_by_what_and_when_to_come_again() {
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
    all_differ(&reasons.map(|reason| reason.to_string()));
    let mut refusal = Refusal::new(Reason::Overflow);
    assert_eq!(refusal.to_string(), "the queue is full");
    refusal.held_by = Some(Hold::Concurrency(Side::Provider));
    assert_eq!(refusal.to_string(), "the queue is full: held back by the provider's concurrency");
    refusal.retry_after = Some(ms(20));
    let told = "the queue is full: held back by the provider's concurrency; try again in 20ms";
    assert_eq!(refusal.to_string(), told);
}

// rule O2: whatever holds a ticket back has a name of its own, and says whose it is
#[test]
fn what_holds_a_ticket_back_says_whose_it_is() {
    let mut holds = vec![Hold::Unpolled, Hold::Key, Hold::Cooldown, Hold::Order];
    for side in [Side::Client, Side::Provider] {
        holds.extend([Hold::Concurrency(side), Hold::HandOff(side)]);
        holds.extend([0, 1].map(|pacer| Hold::Interval(side, pacer)));
        holds.extend([0, 1].map(|pacer| Hold::Log(side, pacer)));
    }
    all_differ(&holds.iter().map(Hold::to_string).collect::<Vec<_>>());
    assert_eq!(Hold::Log(Side::Client, 2).to_string(), "the client's window (pacer 2)");
    let states = [TicketState::Queued, TicketState::PassedOver, TicketState::Granted, TicketState::Running];
    all_differ(&states.map(|state| state.to_string()));
    assert_eq!(states[1].to_string(), "passed over");
}
