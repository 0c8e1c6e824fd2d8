//! Fifteen ways in which this kind of software fails in public, on the bare core under numbers.
//!
//! Each is a fault that users of limiters, semaphores and request queues have met, turned round into
//! what must happen. Times are milliseconds; counts are (running, queued, granted but not started).
//! The fourteenth, a destructor or a waker that runs under the lock, has no part here: the core has no
//! lock, wakes nobody, and is given no code of its callers.

mod transcript;

use std::sync::Mutex;
use std::time::Duration;

use admission_core::{Admitted, Interval, Log};
use transcript::*;

// item 1
// rules S3, W5
#[test]
fn a_grant_that_is_dropped_passes_the_turn_on() {
    let mut play = Play::new(conc(1), &[free()]);
    for round in 0..10_000 {
        let t = round * 100;
        let a = play.starts(t, &ask(A));
        let b = play.queues(t, &ask(A));
        play.settle(t + 10, a);
        play.granted(&[b]);
        assert_eq!(play.counts(), (0, 0, 1));
        play.drop(t + 10, b);
        let c = play.starts(t + 10, &ask(A));
        assert_eq!(play.step(t + 10, b), Step::Gone); // never called
        play.settle(t + 20, c);
        assert_eq!(play.counts(), (0, 0, 0));
        assert_eq!(play.events(), []);
    }
    // The capacity is what it was: one.
    play.starts(1_000_000, &ask(A));
    play.queues(1_000_000, &ask(A));
}

// rules S3, W5
#[test]
fn a_grant_that_is_dropped_passes_the_turn_on_to_who_waits() {
    let mut play = Play::new(conc(1), &[free(), conc(1)]);
    let a = play.starts(0, &ask(A));
    let b = play.queues(1, &ask(A).key(Key(1)));
    let c = play.queues(2, &ask(B).key(Key(1)));
    let d = play.queues(3, &ask(B));
    play.settle(10, a);
    play.granted(&[b]);
    play.drop(10, b); // the key, the client's slot
    play.granted(&[c]);
    play.abort(11, c); // the provider's slot too
    assert_eq!(play.events(), [Event::Refused(c, Reason::Aborted), Event::Granted(d)]);
    assert_eq!(play.step(12, d), Step::Start);
    assert_eq!(play.gives_up(12, c).reason, Reason::Aborted);
    play.settle(13, d);
    assert_eq!(play.counts(), (0, 0, 0));
}

// item 2
// rules T6, W3
#[test]
fn the_head_leaves_and_the_next_one_wakes_in_its_place() {
    let mut play = Play::new(free(), &[gap(100)]);
    play.starts(0, &ask(A));
    let a2 = play.queues(1, &ask(A));
    let a3 = play.queues(2, &ask(A));
    play.drop(50, a2);
    assert_eq!(play.wake(), Some(at(100)));
    play.time(100);
    play.start_all(100, &[a3]);
    assert_eq!(play.wake(), None);
}

// item 3
// rules T6, L5
#[test]
fn an_earlier_wake_arrives_later() {
    let mut play = Play::new(free(), &[free(), gap(500)]);
    play.cooldown(0, A, 10_000);
    let a1 = play.queues(0, &ask(A));
    assert_eq!(play.wake(), Some(at(10_000)));
    play.starts(50, &ask(B));
    let b1 = play.queues(100, &ask(B));
    assert_eq!(play.wake(), Some(at(550)));
    play.time(550);
    play.start_all(550, &[b1]);
    // and in the other direction
    assert_eq!(play.wake(), Some(at(10_000)));
    play.time(10_000);
    play.start_all(10_000, &[a1]);
    assert_eq!(play.wake(), None);
}

// item 4
// rules E4, S6
#[test]
fn a_newcomer_does_not_snatch_the_slot() {
    let mut config = config(conc(1), &[free()]);
    config.max_queued = 4;
    let mut play = Play::of(&config);
    let mut running = play.starts(0, &ask(A));
    let mut b = play.queues(1, &ask(A));
    for round in 1..=1_000 {
        let t = round * 10;
        play.settle(t, running);
        let c = play.queues(t, &ask(A)); // in the same turn, before b is polled; and again and again
        play.granted(&[b]);
        assert_eq!(play.step(t, c), Step::Wait);
        assert_eq!(play.step(t, b), Step::Start);
        assert_eq!(play.counts(), (1, 1, 0));
        (running, b) = (b, c);
    }
}

// item 5
// rules E2, O3
#[test]
fn ties_in_time_go_in_the_order_of_submission() {
    let mut play = Play::new(free(), &[quota(200, 1_000), free()]);
    for _ in 0..200 {
        play.starts(0, &ask(A));
    }
    let waiting: Vec<TicketId> = (0..200).map(|_| play.queues(1, &ask(A))).collect();
    play.time(999);
    assert_eq!(play.events(), []);
    play.time(1_000);
    play.start_all(1_000, &waiting);

    play.cooldown(1_000, B, 100);
    let waiting: Vec<TicketId> = (0..200).map(|_| play.queues(1_001, &ask(B))).collect();
    play.time(1_100);
    play.start_all(1_100, &waiting);
}

// rules E2, O3
#[test]
fn ties_between_providers_go_in_the_order_of_submission() {
    // Submitted against the order of the providers, and all open at once.
    let mut play = Play::new(free(), &vec![free(); 50]);
    for provider in 0..50 {
        play.cooldown(0, ProviderId::new(provider), 100);
    }
    let ask_nth = |nth: u32| ask(ProviderId::new((nth * 37 + 11) % 50));
    let waiting: Vec<TicketId> = (0..200).map(|nth| play.queues(1, &ask_nth(nth))).collect();
    play.time(100);
    play.start_all(100, &waiting);
}

// item 6
// rules L3, T6
#[test]
fn the_edge_of_a_window_is_exact() {
    let mut play = Play::new(free(), &[quota(1, 1_000)]);
    play.starts(0, &ask(A));
    let mut with_empty_queue = play.clone();
    let a2 = play.queues(999, &ask(A));
    assert_eq!(play.wake(), Some(at(1_000)));
    play.core.handle_timeout(nanos(999_999_999));
    assert_eq!(play.events(), []);
    assert_eq!(play.wake(), Some(at(1_000)));
    play.time(1_000);
    play.start_all(1_000, &[a2]);

    with_empty_queue.starts(1_000, &ask(A));
}

// rules L2, L3, L5, W1
#[test]
fn at_the_edge_nobody_needs_a_queue() {
    for limits in [quota(1, 1_000), gap(1_000), free()] {
        let mut config = config(free(), &[limits]);
        config.max_queued = 0;
        let mut play = Play::of(&config);
        play.starts(0, &ask(A));
        play.cooldown(0, A, 1_000);
        let refused = play.core.request(&ask(A), nanos(999_999_999)).unwrap_err();
        assert_eq!((refused.reason, refused.retry_after), (Reason::Overflow, Some(Duration::from_nanos(1))));
        play.starts(1_000, &ask(A));
    }
}

// rules L2, T6
#[test]
fn the_edge_of_an_interval_and_of_a_cooldown_is_exact() {
    let mut play = Play::new(free(), &[gap(1_000), free()]);
    play.starts(0, &ask(A));
    play.cooldown(0, B, 1_000);
    let a2 = play.queues(999, &ask(A));
    let b1 = play.queues(999, &ask(B));
    assert_eq!(play.wake(), Some(at(1_000)));
    play.core.handle_timeout(nanos(999_999_999));
    assert_eq!(play.events(), []);
    assert_eq!(play.wake(), Some(at(1_000)));
    play.time(1_000);
    play.start_all(1_000, &[a2, b1]);
}

// rule W2
#[test]
fn at_the_deadline_itself_a_grant_wins() {
    let mut play = Play::new(free(), &[gap(100)]);
    play.starts(0, &ask(A));
    let a2 = play.queues(0, &ask(A).timeout(ms(100)));
    let mut late = play.clone();
    play.time(100);
    play.start_all(100, &[a2]);

    late.core.handle_timeout(nanos(100_000_001));
    assert_eq!(late.events(), [Event::Refused(a2, Reason::AdmissionTimeout)]);
}

// item 7
// rules L4, R4
#[test]
fn what_is_refused_spends_nothing() {
    let limits = quota(10, MINUTE).interval(ms(10)).max_concurrent(1);
    let mut config = config(free(), &[limits]);
    config.max_queued = 0;
    let mut play = Play::of(&config);
    let mut running = play.starts(0, &ask(A));
    for t in 1..=20 {
        assert_eq!(play.refuses(t, &ask(A)).reason, Reason::Overflow);
    }
    assert_eq!(play.available(30, of(A)), 9);
    for nth in 0..9 {
        play.settle(30 + 10 * nth, running);
        running = play.starts(30 + 10 * nth, &ask(A));
    }
    play.settle(120, running);
    let refused = play.refuses(120, &ask(A));
    assert_eq!(refused.held_by, Some(Hold::Log(Side::Provider, 0)));
    assert_eq!(refused.retry_after, Some(ms(MINUTE - 120)));
    play.refuses(MINUTE - 1, &ask(A));
    play.starts(MINUTE, &ask(A));
}

// item 8
// rules L2, T3
#[test]
fn a_stall_is_not_caught_up() {
    let mut play = Play::new(free(), &[gap(100)]);
    play.starts(0, &ask(A));
    let waiting: Vec<TicketId> = (0..9).map(|_| play.queues(0, &ask(A))).collect();
    // Nobody looks from 150 to 1150.
    for (nth, t) in [(0, 100), (1, 1_150), (2, 1_250), (3, 1_350)] {
        play.time(t);
        play.start_all(t, &[waiting[nth]]);
        assert_eq!(play.wake(), Some(at(t + 100)));
    }
}

/// Durations that mean never: the longest there is, two that overflow a count of nanoseconds or of
/// ticks somewhere, and one that a person would write.
fn huge_durations() -> [Duration; 4] {
    let a_hundred_years = Duration::from_secs(100 * 365 * 86_400);
    [Duration::MAX, ms(u64::MAX), Duration::from_secs(u64::MAX / 10), a_hundred_years]
}

// item 9
// rules T2, L2, L3, L5, W2, W3, W4
#[test]
fn a_huge_duration_means_never() {
    let long_after = 50 * 365 * 86_400_000;
    for huge in huge_durations() {
        let interval = free().interval(huge);
        let with_margin = free().pacer(Pacer::Interval(Interval::new(huge).margin(huge)));
        let window = free().window(1, huge);
        let settled = free().pacer(Pacer::Log(Log::new(1, huge).until_settled().margin(huge)));
        for limits in [interval, with_margin, window, settled, free()] {
            let is_free = limits == free();
            let mut play = Play::new(free(), &[limits, free()]);
            let patient = ask(A).timeout(huge); // as admission timeout
            let a1 = play.starts(5, &patient);
            if is_free {
                play.cooldown(5, A, 0);
                play.core.cooldown(A, huge, at(5)).expect("a provider that is there"); // as cooldown
            }
            let a2 = play.queues(6, &patient);
            let a3 = play.queues(6, &patient);
            play.settle(6, a1);
            // Other providers are unaffected, and nothing starts early.
            let b1 = play.starts(7, &ask(B));
            play.settle(8, b1);
            play.time(long_after);
            assert_eq!(play.events(), []);
            assert!(play.wake().is_none_or(|wake| wake > at(long_after)));
            // A timer of a driver's has to bear it.
            play.abort(long_after + 1, a2);
            assert_eq!(play.gives_up(long_after + 1, a2).reason, Reason::Aborted);
            play.close(long_after + 2);
            assert_eq!(play.gives_up(long_after + 2, a3).reason, Reason::Closed);
            assert_eq!((play.counts(), play.wake()), ((0, 0, 0), None));
        }
    }
}

// rules T2, R2, S4
#[test]
fn a_huge_hand_off_and_a_huge_wait_mean_never() {
    for huge in huge_durations() {
        let mut config = config(conc(1), &[free()]);
        config.hand_off = huge;
        config.max_wait = Some(huge);
        let mut play = Play::of(&config);
        let a1 = play.starts(0, &ask(A));
        let a2 = play.queues(0, &ask(A));
        let a3 = play.queues(0, &ask(A));
        play.settle(1, a1);
        play.granted(&[a2]);
        play.time(50 * 365 * 86_400_000);
        assert_eq!(play.events(), []);
        assert_eq!(play.counts(), (0, 1, 1));
        play.drop(50 * 365 * 86_400_000, a2);
        play.granted(&[a3]);
    }
}

// item 10
// rules L2, L3, T1
#[test]
fn a_window_may_be_longer_than_the_clock_has_run() {
    for origin in [0, 27_000] {
        let mut play = Play::new(free(), &[quota(5, MINUTE).interval(ms(10_000))]);
        play.starts(origin, &ask(A));
        for nth in 1..5 {
            let a = play.queues(origin + 10_000 * nth - 1, &ask(A));
            assert_eq!(play.wake(), Some(at(origin + 10_000 * nth)));
            play.time(origin + 10_000 * nth);
            play.start_all(origin + 10_000 * nth, &[a]);
        }
        play.queues(origin + 50_000, &ask(A));
        assert_eq!(play.wake(), Some(at(origin + MINUTE)));
    }
}

// item 11
// rule T1
#[test]
fn readings_that_run_back_mint_no_credit() {
    let mut config = config(free(), &[gap(100)]);
    config.max_queued = 0;
    let mut play = Play::of(&config);
    play.starts(1_000, &ask(A));
    for _ in 0..100 {
        assert_eq!(play.refuses(400, &ask(A)).retry_after, Some(ms(100)));
        assert_eq!(play.refuses(1_000, &ask(A)).reason, Reason::Overflow);
    }
    play.starts(1_100, &ask(A));
}

// rules T1, L2
#[test]
fn readings_taken_before_the_lock_mint_no_credit() {
    const GAP_MICROS: u64 = 100;
    let limits = free().interval(Duration::from_micros(GAP_MICROS));
    let core = Mutex::new(Play::new(free(), &[limits]).core);
    #[expect(clippy::disallowed_methods, reason = "the readings of several threads are what is tested")]
    let origin = std::time::Instant::now();
    let submit = || {
        let mut starts = 0_u64;
        for _ in 0..10_000 {
            // Sampled first: by the time the lock is ours, another thread has shown it a later one.
            let now = Instant::ZERO + origin.elapsed();
            let mut core = core.lock().unwrap();
            if let Ok(Admitted::Started(ticket)) = core.request(&ask(A).at_once(), now) {
                core.handle_release(ticket, now);
                starts += 1;
            }
        }
        starts
    };
    let starts: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(submit)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let elapsed = u64::try_from(origin.elapsed().as_micros()).unwrap();
    assert!(starts >= 1 && starts <= elapsed / GAP_MICROS + 1, "{starts} starts in {elapsed} us");
}

// item 12
// rules T3, T6
#[test]
fn a_timer_that_is_early_changes_nothing() {
    let mut play = Play::new(free(), &[gap(100)]);
    play.starts(0, &ask(A));
    let a2 = play.queues(1, &ask(A));
    let mut arms = 0;
    for fires in [99_600_000, 99_950_000, 100_100_000] {
        assert_eq!(play.wake(), Some(at(100)));
        arms += 1;
        assert_eq!(play.events(), []);
        play.core.handle_timeout(nanos(fires));
    }
    play.granted(&[a2]);
    assert_eq!(play.core.step(a2, nanos(100_100_000)), Step::Start);
    assert_eq!((arms, play.wake()), (3, None));
}

// item 13
// rules W4, W6, T6
#[test]
fn close_ends_everyone_who_waits() {
    let mut play = Play::new(conc(2), &[conc(1), free(), free()]);
    play.cooldown(0, B, 1_000);
    let r = play.starts(0, &ask(A).key(Key(7)));
    let waiting = [
        play.queues(1, &ask(A)),
        play.queues(2, &ask(B)),             // nothing but its cooldown
        play.queues(3, &ask(C).key(Key(7))), // nothing but its key
        play.queues(4, &ask(A).key(Key(7))),
        play.queues(5, &ask(B).key(Key(8))),
    ];
    play.close(100);
    assert_eq!(play.events(), waiting.map(|ticket| Event::Refused(ticket, Reason::Closed)));
    assert_eq!(play.counts(), (1, 0, 0));
    assert_eq!(play.wake(), None);
    assert_eq!(play.refuses(150, &ask(B)).reason, Reason::Closed);
    play.settle(200, r);
    assert_eq!((play.events(), play.wake()), (vec![], None));
    for ticket in waiting {
        let told = play.gives_up(200, ticket);
        assert_eq!(told, Refusal::new(Reason::Closed));
        assert_eq!(play.step(201, ticket), Step::Gone);
    }
    assert!(play.core.is_idle() && play.core.is_closed());
}

// rules W4, S4
#[test]
fn a_grant_that_is_out_at_the_close_may_start_or_ends_as_closed() {
    let mut play = Play::new(conc(1), &[free()]);
    let a = play.starts(0, &ask(A));
    let b = play.queues(0, &ask(A).timeout(ms(20)));
    play.settle(10, a);
    play.close(11);
    play.granted(&[b]);
    let mut late = play.clone();
    assert_eq!(play.step(300, b), Step::Start);

    assert_eq!(late.wake(), None);
    late.core.watch_idle(true);
    assert_eq!(late.wake(), Some(at(210)));
    late.time(210);
    // closed comes before expired
    assert_eq!(late.events(), [Event::TakenBack(b), Event::Refused(b, Reason::Closed)]);
}

// item 15
// rules L1, Q6, W2
#[test]
fn an_abort_frees_nothing_of_what_runs() {
    let mut play = Play::new(conc(2), &[conc(1), free()]);
    let a1 = play.starts(0, &ask(A).key(Key(1)));
    play.abort(10, a1);
    assert_eq!((play.events(), play.counts()), (vec![], (1, 0, 0)));
    let a2 = play.queues(20, &ask(A).key(Key(1)).timeout(ms(300)));
    let b1 = play.starts(30, &ask(B));
    play.settle(40, b1);
    assert_eq!(play.wake(), Some(nanos(320_000_001)));
    play.core.handle_timeout(nanos(320_000_001));
    assert_eq!(play.events(), [Event::Refused(a2, Reason::AdmissionTimeout)]);
    assert_eq!(play.gives_up(321, a2).held_by, Some(Hold::Key));
    let a3 = play.queues(450, &ask(A).key(Key(2)).timeout(ms(300)));
    play.settle(500, a1);
    play.start_all(500, &[a3]);
}

// rules L1, Q7, W4
#[test]
fn a_call_that_never_settles_holds_its_own_and_nothing_else() {
    let mut play = Play::new(conc(2), &[conc(1), free()]);
    let a1 = play.starts(0, &ask(A).key(Key(1)));
    play.abort(10, a1);
    for round in 0..100 {
        let t = 1_000 * round;
        let a = play.queues(t, &ask(A).key(Key(2)).timeout(ms(300)));
        let k = play.queues(t, &ask(B).key(Key(1)).timeout(ms(300)));
        let b = play.starts(t, &ask(B));
        play.settle(t + 100, b);
        play.time(t + 500);
        let expected = [a, k].map(|ticket| Event::Refused(ticket, Reason::AdmissionTimeout));
        assert_eq!(play.events(), expected);
        assert_eq!(play.gives_up(t + 500, a).held_by, Some(Hold::Concurrency(Side::Provider)));
        assert_eq!(play.gives_up(t + 500, k).held_by, Some(Hold::Key));
    }
    let a = play.queues(200_000, &ask(A));
    play.close(200_001);
    assert_eq!(play.gives_up(200_001, a).reason, Reason::Closed);
    assert_eq!(play.counts(), (1, 0, 0));
}
