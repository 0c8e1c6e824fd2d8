//! How often the core asks for memory, and how much a waiting ticket takes (rules W5, E7).
//!
//! Counted by an allocator that counts, on this thread and during the calls alone. The core allocates
//! when it is built, and later only to hold more than it ever held. Not compiled under `--cfg audit`,
//! whose checks allocate.

#![cfg(not(audit))]

mod dice;
mod transcript;

use std::collections::BTreeMap;
use std::time::Duration;

use admission_core::{Admitted, Log, SlidingWindow};
use allocation_counter::measure;
use dice::Dice;
use transcript::*;

/// Makes calls of every kind, keeps what it knows in memory of its own that is there beforehand, and
/// counts what has happened.
struct Mix {
    core: Coordinator,
    dice: Dice,
    now: Instant,
    /// Tickets that are somewhere in the core, or gone without our having noticed.
    live: Vec<TicketId>,
    happened: BTreeMap<&'static str, u64>,
}

impl Mix {
    fn new() -> Self {
        let limits = [free(), conc(2), gap(3), quota(20, 40), tokens(500, 100).interval(ms(1)), conc(4)];
        let mut config = config(conc(32), &limits);
        config.max_queued = 128;
        config.hand_off = ms(20);
        let core = Coordinator::new(&config).expect("a configuration that is in order");
        let kinds =
            ["started", "queued", "granted", "refused", "taken back", "timeout", "cooldown", "called"];
        Self {
            core,
            dice: Dice(1),
            now: at(0),
            live: Vec::with_capacity(192),
            happened: kinds.map(|kind| (kind, 0)).into(),
        }
    }

    fn note(&mut self, what: &'static str) {
        *self.happened.get_mut(what).expect("a kind that is counted") += 1;
    }

    fn calls(&mut self, calls: u64) {
        let enough = self.happened["called"] + calls;
        while self.happened["called"] < enough {
            self.call();
            self.note("called");
            while let Some(event) = self.core.poll_event() {
                match event {
                    Event::Granted(ticket) => {
                        self.note("granted");
                        // One in eight does not run.
                        if self.dice.below(8) > 0 {
                            self.core.step(ticket, self.now);
                            self.note("called");
                        }
                    }
                    Event::Refused(ticket, _) => {
                        self.note("refused");
                        self.core.step(ticket, self.now);
                        self.note("called");
                    }
                    Event::TakenBack(_) => self.note("taken back"),
                    _ => {}
                }
            }
        }
    }

    fn call(&mut self) {
        let now = self.now + Duration::from_micros(self.dice.below(800));
        self.now = now;
        let index = self.dice.below(self.live.len().max(1) as u64) as usize;
        let ticket = self.live.get(index).copied();
        // Rush hours, and hours between in which newcomers start at once.
        let is_rush = self.happened["called"] / 2_000 % 2 == 0;
        let room = self.live.capacity();
        match (self.dice.below(32), ticket) {
            (0, _) => {
                self.now = self.core.poll_timeout().unwrap_or(now);
                self.core.handle_timeout(self.now);
                self.note("timeout");
            }
            (1, _) => {
                let provider = ProviderId::new(self.dice.below(6) as u32);
                let delay = ms(self.dice.below(30));
                self.core.cooldown(provider, delay, now).expect("a provider that is there");
                self.note("cooldown");
            }
            (2..=5, Some(ticket)) => {
                self.core.step(ticket, now);
            }
            (6..=8, Some(ticket)) => self.core.handle_abort(ticket, now),
            (9..=16, Some(ticket)) => {
                self.live.swap_remove(index);
                self.core.handle_release(ticket, now);
            }
            (pick, _) if self.live.len() < room && (is_rush || pick < 24) => self.request(now),
            (_, Some(ticket)) => {
                self.live.swap_remove(index);
                self.core.handle_release(ticket, now);
            }
            (_, None) => {}
        }
    }

    fn request(&mut self, now: Instant) {
        let dice = &mut self.dice;
        let costs = [(TOKENS, dice.below(40))];
        let mut request = ask(ProviderId::new(dice.below(6) as u32)).costs(&costs);
        match dice.below(4) {
            0 => {}
            // few, so that they are shared
            1 => request = request.key(Key(dice.below(12))),
            _ => request = request.key(Key(dice.next())),
        }
        if dice.below(3) == 0 {
            request = request.timeout(ms(dice.below(60)));
        }
        request.may_wait = dice.below(16) > 0;
        request.may_start = dice.below(16) > 0;
        match self.core.request(&request, now) {
            Ok(Admitted::Started(ticket)) => {
                self.live.push(ticket);
                self.note("started");
            }
            Ok(Admitted::Queued(ticket)) => {
                self.live.push(ticket);
                self.note("queued");
            }
            Err(_) => self.note("refused"),
        }
    }
}

// rules W5, E7
#[test]
fn nothing_is_allocated_in_the_steady_state() {
    let mut mix = Mix::new();
    mix.calls(100_000);
    let warm = mix.happened.clone();
    let counted = measure(|| mix.calls(100_000));
    assert_eq!(counted.count_total, 0, "{counted:?}");
    for (what, times) in &mix.happened {
        let times = times - warm[what];
        assert!(times >= 500, "too seldom {what}: {times}");
    }
}

/// 16 providers, each with an interval and a window, and at most 64 calls in flight.
fn sixteen() -> Config {
    let mut config = Config::new();
    config.client = conc(64);
    config.providers = vec![gap(10).window(20, ms(1_000)); 16];
    config
}

fn at_sixteen(nth: u64) -> Request<'static> {
    ask(ProviderId::new(nth as u32 % 16)).key(Key(nth))
}

/// As many tickets as there may be: 16 start, the others wait.
fn fill(core: &mut Coordinator) {
    for nth in 0..16 {
        assert!(matches!(core.request(&at_sixteen(nth), at(0)), Ok(Admitted::Started(_))));
    }
    for nth in 16..16 + 1_024 {
        assert!(matches!(core.request(&at_sixteen(nth), at(0)), Ok(Admitted::Queued(_))));
    }
    assert_eq!(core.request(&at_sixteen(2_000), at(0)).unwrap_err().reason, Reason::Overflow);
}

/// Everybody starts in turn, and ends at once; those 16 run on.
fn drain(core: &mut Coordinator) {
    let mut started = 0;
    while let Some(now) = core.poll_timeout() {
        core.handle_timeout(now);
        while let Some(event) = core.poll_event() {
            let Event::Granted(ticket) = event else { panic!("{event:?}") };
            assert_eq!(core.step(ticket, now), Step::Start);
            core.handle_release(ticket, now);
            started += 1;
        }
    }
    assert_eq!((core.counts().queued, started), (0, 1_024));
}

// rules W1, W5
#[test]
fn nothing_is_allocated_after_construction_for_what_the_configuration_bounds() {
    let mut core = Coordinator::new(&sixteen()).unwrap();
    let counted = measure(|| {
        fill(&mut core);
        drain(&mut core);
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");

    // The same if each of them has a deadline, because the configuration says so.
    let mut config = sixteen();
    config.max_wait = Some(ms(MINUTE));
    let mut core = Coordinator::new(&config).unwrap();
    let counted = measure(|| {
        fill(&mut core);
        drain(&mut core);
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

// rules W4, W5
#[test]
fn a_close_of_a_full_queue_allocates_nothing() {
    let mut core = Coordinator::new(&sixteen()).unwrap();
    fill(&mut core);
    let counted = measure(|| {
        core.close(at(1));
        let mut closed = 0;
        while let Some(event) = core.poll_event() {
            let Event::Refused(ticket, Reason::Closed) = event else { panic!("{event:?}") };
            assert!(matches!(core.step(ticket, at(2)), Step::GiveUp(_)));
            closed += 1;
        }
        assert_eq!(closed, 1_024);
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

// rules D3, W5
#[test]
fn ever_new_keys_in_a_full_queue_allocate_nothing() {
    for queued in [1_024, 1_792] {
        let mut config = config(conc(1), &[free()]);
        config.max_queued = queued - 1;
        let mut core = Coordinator::new(&config).unwrap();
        let mut waiting = Vec::with_capacity(queued as usize);
        let mut dice = Dice(1);
        let counted = measure(|| {
            for key in 0..300_000 {
                if waiting.len() as u32 == queued {
                    core.handle_release(dice.draw(&mut waiting), at(0));
                }
                let request = ask(A).key(Key(key)).deferred();
                match core.request(&request, at(0)) {
                    Ok(Admitted::Queued(ticket)) => waiting.push(ticket),
                    other => panic!("{other:?}"),
                }
                while core.poll_event().is_some() {}
            }
        });
        assert_eq!(counted.count_total, 0, "{queued}: {counted:?}");
    }
}

// rules L1, W5: a key that several tickets shared leaves nothing behind
#[test]
fn ever_new_keys_that_are_shared_allocate_nothing() {
    let mut core = Coordinator::new(&sixteen()).unwrap();
    let mut share = |keys: core::ops::Range<u64>| {
        for key in keys {
            let tickets = [0, 1, 2].map(|_| match core.request(&ask(A).key(Key(key)), at(0)) {
                Ok(Admitted::Started(ticket) | Admitted::Queued(ticket)) => ticket,
                Err(refusal) => panic!("{refusal}"),
            });
            for ticket in tickets {
                core.handle_release(ticket, at(0));
                while core.poll_event().is_some() {}
            }
        }
    };
    share(0..10);
    assert_eq!(measure(|| share(10..10_000)).count_total, 0);
}

// rules L9, L10, W5: what a log has counted from is forgotten with the calls that it counted so
#[test]
fn limits_that_change_to_and_fro_leave_nothing_behind() {
    let log = Log::new(1_000, ms(100));
    let limits = [log, log.until_settled()].map(|log| free().pacer(Pacer::Log(log)));
    let mut core = Coordinator::new(&config(free(), &[free()])).unwrap();
    // Two calls at once leave a slot that no later call comes to, with the number of the start that was in it:
    // an old call's that runs no more.
    let overlap = [0, 1].map(|_| core.request(&ask(A), at(0)));
    for outcome in overlap {
        let Ok(Admitted::Started(ticket)) = outcome else { panic!("{outcome:?}") };
        core.handle_release(ticket, at(0));
    }
    let mut turn = 0;
    let mut change = |times: u64, is_removed: bool| {
        let first = turn;
        turn += times;
        for nth in first..turn {
            let now = at(nth);
            let limits = &limits[nth as usize % 2];
            if is_removed {
                core.remove_provider(A, now).unwrap();
                core.add_provider(A, limits, now).unwrap();
            } else {
                core.set_limits(of(A), limits, now).unwrap();
            }
            let Ok(Admitted::Started(ticket)) = core.request(&ask(A), now) else { panic!("not started") };
            core.handle_release(ticket, now);
            while core.poll_event().is_some() {}
        }
    };
    for is_removed in [false, true] {
        change(10, is_removed);
        let counted = measure(|| change(5_000, is_removed));
        assert!(counted.bytes_current < 8_192, "{} bytes are left", counted.bytes_current);
    }
}

// rules L3, W5: a log needs room for the starts in its window, and not for all that its limit would let in
#[test]
fn what_has_left_a_window_makes_room_for_what_comes() {
    for (limits, costs) in [(quota(1_000_000, 100), &[][..]), (tokens(1_000_000, 100), &[(TOKENS, 1)])] {
        let mut play = Play::new(free(), &[free()]);
        // (A log that comes later has no room beforehand.)
        play.core.set_limits(of(A), &limits, at(0)).expect("limits that are in order");
        let mut run = |from, to| {
            for then in from..to {
                let call = play.starts(then, &ask(A).costs(costs));
                play.settle(then, call);
            }
        };
        run(0, 1_000);
        let counted = measure(|| run(1_000, 10_000));
        assert_eq!(counted.count_total, 0, "{limits:?}");
    }
}

// rules L3, W5: nor more than it had beforehand, if what has left makes room for what comes in the nick of time
#[test]
fn a_start_as_the_first_of_a_full_log_leaves_allocates_nothing() {
    const ROOM: u64 = 4_096;
    for (limits, costs) in [(quota(1_000_000, ROOM), &[][..]), (tokens(1_000_000, ROOM), &[(TOKENS, 1)])] {
        let mut play = Play::new(free(), std::slice::from_ref(&limits));
        let counted = measure(|| {
            for then in 0..=2 * ROOM {
                let call = play.starts(then, &ask(A).costs(costs));
                play.settle(then, call);
            }
        });
        assert_eq!(counted.count_total, 0, "{limits:?}");
    }
}

// rules L3, W5: a window of zero forgets at once, and takes no room
#[test]
fn a_window_of_zero_allocates_nothing() {
    let mut play = Play::new(quota(1_000, 0), &[quota(1_000, 0)]);
    let counted = measure(|| {
        for then in 0..10 {
            let call = play.starts(then, &ask(A));
            play.settle(then, call);
        }
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
}

// rules L3, W5
#[test]
fn a_window_by_itself_allocates_nothing_after_construction() {
    for limit in [1, 60, 100_000] {
        let mut window = SlidingWindow::new(limit, ms(1_000)).expect("limits that are in order");
        let counted = measure(|| {
            for then in 0..10_000 {
                let _ = window.try_start(at(then));
            }
        });
        assert_eq!(counted.count_total, 0, "{limit}");
    }
}

// rule W1
#[test]
fn a_waiting_ticket_takes_eighty_bytes_at_most() {
    const WAITING: u32 = 100_000;
    let mut config = config(conc(1), &[free()]);
    config.units = 1;
    config.max_queued = WAITING;
    let mut kept = None;
    let counted = measure(|| {
        let mut core = Coordinator::new(&config).unwrap();
        for key in 0..=u64::from(WAITING) {
            assert!(core.request(&ask(A).key(Key(key)), at(0)).is_ok());
        }
        kept = Some(core);
    });
    assert_eq!(kept.map(|core| core.counts().queued), Some(WAITING));
    // measured: 77.3, of which 64 are the ticket's own and 13 are its key's
    let each = counted.bytes_max as f64 / f64::from(WAITING);
    assert!(each <= 80.0, "{each} bytes");
    assert!(each >= 64.0, "{each} bytes: not all of it was counted");
}

// rule E7: to hold more than ever before takes the fewer steps the more there is room for
#[test]
fn room_that_nothing_bounds_grows_by_a_part_of_itself() {
    let mut core = Coordinator::new(&config(free(), &[free()])).unwrap();
    let counted = measure(|| {
        for nth in 0..50_000 {
            let outcome = core.request(&ask(A).key(Key(nth)), at(0));
            assert!(matches!(outcome, Ok(Admitted::Started(_))));
        }
    });
    // measured: 15, and 7.3 MB at the most
    assert!(counted.count_total < 32, "{counted:?}");
    assert!(counted.bytes_max < 16_000_000, "{counted:?}");
}

// rules L10, W5: whoever of a crowd stays does not keep the room for all of it
#[test]
fn a_crowd_of_providers_leaves_no_room_behind() {
    let mut config = config(free(), &[free()]);
    config.template = Some(quota(5, 1_000));
    let mut core = Coordinator::new(&config).unwrap();
    let crowd = |core: &mut Coordinator, now: Instant, stays: u32| {
        for nth in 0..100_000 {
            let outcome = core.request(&ask(ProviderId::new(1 + nth)), now);
            let Ok(Admitted::Started(ticket)) = outcome else { panic!("{outcome:?}") };
            if nth != stays {
                core.handle_release(ticket, now);
            }
            while core.poll_event().is_some() {}
        }
    };
    let gone = |core: &mut Coordinator, now: Instant| {
        for _ in 0..50_000 {
            core.handle_timeout(now);
            while core.poll_event().is_some() {}
        }
    };
    let mut most = 0;
    let counted = measure(|| {
        let counted = measure(|| crowd(&mut core, at(0), 77_777));
        most = counted.bytes_max;
        gone(&mut core, at(1_000));
    });
    assert_eq!(core.snapshot().providers.len(), 2);
    // measured: 37 MB and 8 KB
    assert!(most > 10_000_000, "{most} bytes at the most");
    assert!(counted.bytes_current < 64 * 1_024, "{} bytes are left", counted.bytes_current);

    // Those who come and go in the room that is there ask for none but their own.
    for nth in 0..200 {
        let now = at(2_000 + 20 * nth); // fifty of them at a time
        let counted = measure(|| {
            let outcome = core.request(&ask(ProviderId::new(1 + nth as u32)), now);
            let Ok(Admitted::Started(ticket)) = outcome else { panic!("{outcome:?}") };
            core.handle_release(ticket, now);
            while core.poll_event().is_some() {}
        });
        // its pacers, and its log
        assert!(nth < 64 || counted.count_total <= 2, "{nth}: {counted:?}");
    }
}

// rules L10, W5: nor do those of whom a crowd waited, for the client or for an instant, until it was closed or not
#[test]
fn a_crowd_of_providers_that_waited_leaves_no_room_behind() {
    const CROWD: u32 = 20_000;
    for (client, template, is_closed) in
        [(conc(1), gap(1), false), (free(), gap(100), false), (free(), gap(100), true)]
    {
        let mut config = config(client, &[gap(100)]);
        config.template = Some(template);
        config.max_queued = 2 * CROWD;
        let mut core = Coordinator::new(&config).unwrap();
        let counted = measure(|| {
            let mut tickets = Vec::new();
            for _ in 0..2 {
                for number in 1..=CROWD {
                    match core.request(&ask(ProviderId::new(number)), at(0)) {
                        Ok(Admitted::Started(ticket) | Admitted::Queued(ticket)) => tickets.push(ticket),
                        Err(refusal) => panic!("{refusal}"),
                    }
                    while core.poll_event().is_some() {}
                }
            }
            assert!(core.counts().queued >= CROWD);
            if is_closed {
                core.close(at(0));
            }
            // From the tail, so that nobody is granted in the place of one that goes.
            for ticket in tickets.into_iter().rev() {
                core.handle_release(ticket, at(0));
                while core.poll_event().is_some() {}
            }
            for _ in 0..CROWD {
                core.handle_timeout(at(1_000));
                while core.poll_event().is_some() {}
            }
            // Nor does room for it come back with the next one that waits for an instant.
            if !is_closed {
                let [first, next] = [0, 1].map(|_| core.request(&ask(A), at(1_000)));
                let (Ok(Admitted::Started(first)), Ok(Admitted::Queued(next))) = (first, next) else {
                    panic!("{first:?}, {next:?}")
                };
                core.handle_release(next, at(1_000));
                core.handle_release(first, at(1_000));
            }
        });
        assert_eq!(core.snapshot().providers.len(), 1);
        // measured: 11 KB; a close puts everybody in order, in room that is kept for the next one.
        let in_order = if is_closed { 4 * 2 * i64::from(CROWD) } else { 0 };
        assert!(counted.bytes_current < in_order + 64 * 1_024, "{} bytes are left", counted.bytes_current);
    }
}
