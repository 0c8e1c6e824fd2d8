//! Why a ticket waits, until when, and who is in its way, as transcripts (rule O2).
//!
//! Each explanation is compared with the reference model elsewhere, over many histories; here they can
//! be read.

mod transcript;

use admission_core::{Explanation, TicketState};
use transcript::*;

impl Play {
    #[track_caller]
    fn explains(&self, ticket: TicketId) -> Explanation {
        self.core.explain(ticket).expect("a ticket that has not ended")
    }

    /// What holds a ticket back, and until when.
    #[track_caller]
    fn holds(&self, ticket: TicketId) -> Vec<(Hold, Option<Instant>)> {
        self.explains(ticket).holds.iter().map(|held| (held.hold, held.until)).collect()
    }

    /// The older tickets that go before this one.
    #[track_caller]
    fn older(&self, ticket: TicketId) -> Vec<TicketId> {
        let holds = self.explains(ticket).holds;
        let order = holds.iter().filter(|held| held.hold == Hold::Order);
        order.map(|held| held.by.expect("an older ticket")).collect()
    }
}

const BY_PROVIDER: Side = Side::Provider;
const BY_CLIENT: Side = Side::Client;

// rules O2, E1: all of it, the provider's before the client's
#[test]
fn everything_that_holds_a_ticket_back_is_listed() {
    let limits = quota(1, 400).interval(ms(100)).max_concurrent(1);
    let mut play = Play::new(conc(1).interval(ms(50)), &[limits]);
    play.starts(10, &ask(A).key(Key(7)));
    play.cooldown(10, A, 200);
    let waits = play.queues(20, &ask(A).key(Key(7)).timeout(ms(1_000)));
    let expected = [
        (Hold::Key, None),
        (Hold::Concurrency(BY_PROVIDER), None),
        (Hold::Cooldown, Some(at(210))),
        (Hold::Log(BY_PROVIDER, 0), Some(at(410))),
        (Hold::Interval(BY_PROVIDER, 1), Some(at(110))),
        (Hold::Concurrency(BY_CLIENT), None),
        (Hold::Interval(BY_CLIENT, 0), Some(at(60))),
    ];
    assert_eq!(play.holds(waits), expected);
    let told = play.explains(waits);
    assert_eq!((told.at, told.state, told.provider), (at(20), TicketState::Queued, A));
    assert_eq!((told.key, told.submitted, told.since), (Some(Key(7)), at(20), None));
    assert_eq!((told.deadline, told.earliest), (Some(at(1_020)), Some(at(410))));
}

// rules O2, E3: an older ticket is told only where it goes first by its precedence
#[test]
fn who_is_merely_ahead_is_no_reason() {
    let mut play = Play::new(free(), &[conc(1), tokens(10, 100)]);
    play.starts(0, &ask(A));
    let (older, younger) = (play.queues(1, &ask(A)), play.queues(2, &ask(A)));
    let slots = [(Hold::Concurrency(BY_PROVIDER), None)];
    assert_eq!((play.holds(older), play.holds(younger)), (slots.to_vec(), slots.to_vec()));

    play.starts(3, &ask(B).costs(&[(TOKENS, 6)]).key(Key(7)));
    let heavy = play.queues(4, &ask(B).costs(&[(TOKENS, 5)]));
    let light = play.queues(5, &ask(B).costs(&[(TOKENS, 1)]).key(Key(7)));
    assert_eq!(play.holds(light), [(Hold::Key, None), (Hold::Order, None)], "beside its key");
    assert_eq!(play.older(light), [heavy]);
}

// rule O2: of one that started as of an earlier call it is not known when that was
#[test]
fn who_started_undated_has_its_key_since_the_first_other_call_came_upon_it() {
    let mut play = Play::new(conc(2), &[conc(2)]);
    play.time(5);
    let runs = play.core.start_at_once(A, Some(Key(7)), None).expect("nobody is there");
    assert_eq!((play.explains(runs).submitted, play.explains(runs).since), (at(5), None));
    let waits = play.queues(60, &ask(A).key(Key(7)));
    play.time(90);
    let holder = play.explains(waits).key_holder.expect("it has the key");
    assert_eq!((holder.ticket, holder.is_running, holder.since), (runs, true, at(60)));
    assert_eq!(play.explains(runs).since, Some(at(60)));
}

// rule O2: who is refused has come upon it as well
#[test]
fn who_started_undated_has_its_key_since_a_call_was_refused_for_it() {
    let mut play = Play::new(conc(1), &[conc(1)]);
    let runs = play.core.start_at_once(A, Some(Key(7)), None).expect("nobody is there");
    for now in [60, 90] {
        let refused = play.core.request(&ask(A).key(Key(7)).at_once(), at(now)).unwrap_err();
        let holder = refused.key_holder.expect("it has the key");
        assert_eq!((holder.ticket, holder.since), (runs, at(60)));
    }
}

// rules E4, E6, W4, W6: the short way starts nobody whom the long one would not
#[test]
fn nobody_starts_the_short_way_who_would_not_start_at_once() {
    let mut play = Play::new(conc(3), &[conc(1), conc(3).interval(ms(100))]);
    let short =
        |play: &mut Play, provider, key, now| play.core.start_at_once(provider, key, Some(at(now))).is_some();
    let first = play.starts(0, &ask(A));
    assert!(!short(&mut play, A, None, 0), "full");
    let waits = play.queues(0, &ask(A));
    play.settle(0, first);
    assert!(!short(&mut play, B, None, 0), "somebody is to be told");
    play.granted(&[waits]);
    assert!(!short(&mut play, A, None, 0), "a grant is out");
    assert!(play.step(0, waits) == Step::Start);
    assert!(short(&mut play, B, Some(Key(1)), 0));
    assert!(!short(&mut play, B, None, 99), "an interval");
    assert!(!short(&mut play, B, Some(Key(1)), 100), "a key");
    assert!(short(&mut play, B, Some(Key(2)), 100));
    play.settle(100, waits);
    assert!(!short(&mut play, ProviderId::new(9), None, 200), "no such provider");
    play.core.close(at(200));
    assert!(!short(&mut play, A, None, 200), "closed");
}

// rules O2, T6: as of the latest call
#[test]
fn what_is_over_is_not_listed() {
    let mut play = Play::new(free(), &[gap(100).max_concurrent(1)]);
    play.starts(0, &ask(A));
    let waits = play.queues(10, &ask(A));
    let slot = (Hold::Concurrency(BY_PROVIDER), None);
    assert_eq!(play.holds(waits), [slot, (Hold::Interval(BY_PROVIDER, 0), Some(at(100)))]);
    play.time(100);
    assert_eq!((play.holds(waits), play.explains(waits).earliest), (vec![slot], None));
    assert_eq!(play.core.explain(waits), play.core.explain(waits), "looking changes nothing");
}

// rules O2, E6: a key and who has it, here or at another provider
#[test]
fn the_holder_of_a_key_is_named() {
    let mut play = Play::new(free(), &[free(), free()]);
    let holder = play.queues(5, &ask(B).key(Key(1)).deferred());
    let waits = play.queues(10, &ask(A).key(Key(1)));
    let held = play.explains(waits).holds;
    assert_eq!((held.len(), held[0].hold, held[0].by), (1, Hold::Key, Some(holder)));
    let told = play.explains(waits).key_holder.expect("somebody has it");
    assert_eq!((told.ticket, told.provider, told.is_running, told.since), (holder, B, false, at(5)));
    assert_eq!(play.step(30, holder), Step::Start);
    let told = play.explains(waits).key_holder.expect("somebody has it");
    assert_eq!((told.is_running, told.since), (true, at(30)));
    play.settle(40, holder);
    let told = play.explains(waits);
    assert_eq!((told.state, told.since, told.key_holder), (TicketState::Granted, Some(at(40)), None));
}

// rules O2, E3: an older one that its provider's budgets hold back, and one that the client's do
#[test]
fn the_older_tickets_that_go_first_are_named() {
    let costs = |cost| [(TOKENS, cost)];
    let mut play = Play::new(tokens(20, 1_000), &[tokens(10, 500), free()]);
    play.starts(0, &ask(A).costs(&costs(8)));
    play.starts(0, &ask(B).costs(&costs(10)));
    let a = play.queues(1, &ask(A).costs(&costs(5)));
    let b = play.queues(1, &ask(B).costs(&costs(3)));
    let (a2, b2) = (play.queues(1, &ask(A)), play.queues(1, &ask(B)));
    assert_eq!((play.older(a), play.older(b)), (vec![], vec![]));
    assert_eq!((play.older(a2), play.older(b2)), (vec![a, b], vec![b]));
    // By nothing else, for they cost nothing there.
    assert_eq!(play.holds(b2), [(Hold::Order, None)]);
    assert_eq!(play.explains(b2).earliest, None);
    // Whoever something else holds back, too, stops nobody.
    play.cooldown(2, A, 300);
    assert_eq!(play.older(a2), [b]);
    assert_eq!(play.older(b2), [b]);
}

// rules O2, S2, S4: a grant that has not started, and one that nobody took
#[test]
fn a_hand_off_and_a_ticket_that_is_passed_over() {
    let mut play = Play::new(free(), &[gap(100)]);
    let a = play.queues(0, &ask(A).deferred());
    let b = play.queues(1, &ask(A));
    assert_eq!(play.holds(b), [(Hold::HandOff(BY_PROVIDER), None)]);
    let told = play.explains(a);
    assert_eq!((told.state, told.submitted, told.since), (TicketState::Granted, at(0), Some(at(0))));
    assert_eq!((told.holds, told.earliest), (vec![], Some(at(1))));
    play.time(200);
    let told = play.explains(a);
    assert_eq!((told.state, told.submitted, told.since), (TicketState::PassedOver, at(0), None));
    assert_eq!(play.holds(a), [(Hold::Unpolled, None), (Hold::HandOff(BY_PROVIDER), None)]);
    assert_eq!(play.step(210, b), Step::Start);
    let expected = [(Hold::Unpolled, None), (Hold::Interval(BY_PROVIDER, 0), Some(at(310)))];
    assert_eq!((play.holds(a).as_slice(), play.explains(a).earliest), (&expected[..], Some(at(310))));
    let told = play.explains(b);
    assert_eq!((told.state, told.submitted, told.since), (TicketState::Running, at(1), Some(at(210))));
    assert_eq!((told.holds, told.earliest, told.deadline), (vec![], None, None));
}

// rules O2, L9: what time alone does not free has no instant, but no start is earlier than this
#[test]
fn a_window_that_waits_for_a_call_to_settle() {
    let log = admission_core::Log::new(1, ms(100)).until_settled();
    let mut play = Play::new(free(), &[free().pacer(Pacer::Log(log))]);
    let a = play.starts(0, &ask(A));
    let b = play.queues(10, &ask(A));
    assert_eq!(play.holds(b), [(Hold::Log(BY_PROVIDER, 0), None)]);
    assert_eq!(play.explains(b).earliest, Some(at(110)));
    play.settle(50, a);
    assert_eq!(play.holds(b), [(Hold::Log(BY_PROVIDER, 0), Some(at(150)))]);
}

// rules O2, L5, T2: for ever
#[test]
fn what_never_ends_has_no_instant() {
    let mut play = Play::new(free(), &[free()]);
    play.core.cooldown(A, std::time::Duration::MAX, at(0)).unwrap();
    let waits = play.queues(1, &ask(A));
    assert_eq!(play.holds(waits), [(Hold::Cooldown, None)]);
    assert_eq!(play.explains(waits).earliest, Some(Instant::NEVER));
}

// rules O2, W1: those who wait, in the order of submission
#[test]
fn who_waits_is_listed_in_order() {
    let mut play = Play::new(conc(1), &[free(), free()]);
    let running = play.starts(0, &ask(A));
    let b = play.queues(1, &ask(B).key(Key(1)));
    let b2 = play.queues(1, &ask(B).key(Key(1)));
    play.settle(2, running);
    let a = play.queues(3, &ask(A).deferred());
    assert_eq!(play.core.queued_tickets(), [b2, a]);
    // The grant is taken back: that ticket is still the oldest, and passed over.
    play.time(202);
    assert_eq!(play.core.queued_tickets(), [b, a]);
    assert_eq!(play.explains(b).state, TicketState::PassedOver);
    assert_eq!(play.explains(b2).state, TicketState::Granted);
    play.abort(203, a);
    assert_eq!((play.core.queued_tickets(), play.core.explain(a)), (vec![b], None));
    assert_eq!(play.core.explain(running), None);
}

// rules O2, R1: a refusal by a key says who has it, at once or told later
#[test]
fn a_refusal_names_the_holder_of_the_key() {
    let mut play = Play::new(free(), &[free(), conc(1)]);
    let holder = play.starts(5, &ask(A).key(Key(1)));
    let refused = play.refuses(10, &ask(B).key(Key(1)).at_once());
    let told = refused.key_holder.expect("somebody has it");
    assert_eq!(refused.held_by, Some(Hold::Key));
    assert_eq!((told.ticket, told.provider, told.is_running, told.since), (holder, A, true, at(5)));
    // Kept for one that expires, though the key is free when its caller hears of it.
    let late = play.queues(10, &ask(B).key(Key(1)).timeout(ms(20)));
    play.time(31);
    play.settle(40, holder);
    play.starts(50, &ask(B).key(Key(1)));
    let refused = play.gives_up(60, late);
    assert_eq!((refused.reason, refused.held_by), (Reason::AdmissionTimeout, Some(Hold::Key)));
    assert_eq!(refused.key_holder, Some(told));
    // Nothing of it is told where something else held the ticket back.
    let refused = play.refuses(70, &ask(B).at_once());
    assert_eq!((refused.held_by, refused.key_holder), (Some(Hold::Concurrency(BY_PROVIDER)), None));
}
