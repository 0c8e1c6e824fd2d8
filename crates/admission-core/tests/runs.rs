//! A granted ticket that has started and is over, told in one call or in two.
//!
//! Owns: that it is all the same (`handle_run`), whatever the limits and whoever else waits, and the grant that is told
//! alone (`poll_only_grant`). A failure prints its seed.

mod dice;

use std::time::Duration;

use admission_core::{
    Admitted, Config, Coordinator, Event, Instant, Key, Limits, ProviderId, Request, TicketId,
};
use dice::Dice;

/// One of a few kinds of limits.
fn limits(dice: &mut Dice) -> Limits {
    let ms = Duration::from_millis;
    match dice.below(6) {
        0 => Limits::new().max_concurrent(1),
        1 => Limits::new().interval(ms(1 + dice.below(20))),
        2 => Limits::new().window(1 + dice.below(3), ms(10)),
        3 => Limits::new().max_concurrent(2).interval(ms(3)),
        _ => Limits::new(),
    }
}

fn events(coordinator: &mut Coordinator, by_itself: bool) -> Vec<Event> {
    let mut events = Vec::new();
    if by_itself {
        if let Some((ticket, due)) = coordinator.poll_only_grant() {
            assert!(due > Instant::ZERO && coordinator.counts().granted == 1);
            assert_eq!(coordinator.due_of_only_grant(ticket), Some(due));
            events.push(Event::Granted(ticket));
        }
    }
    events.extend(std::iter::from_fn(|| coordinator.poll_event()));
    events
}

// rules W6, S1, W7, T1, L2
#[test]
fn a_run_that_is_told_in_one_call_is_a_start_and_a_release() {
    let mut runs = 0;
    for seed in 0..if cfg!(debug_assertions) { 300 } else { 3_000 } {
        let mut dice = Dice(seed);
        let mut config = Config::new();
        config.hand_off = Duration::from_millis(30);
        config.client = if dice.below(2) == 0 { Limits::new().max_concurrent(1) } else { limits(&mut dice) };
        config.providers = (0..3).map(|_| limits(&mut dice)).collect();
        let mut two = Coordinator::new(&config).expect("it is in order");
        let mut one = two.clone();
        let (mut now, mut alive) = (1_000_000_u64, Vec::<TicketId>::new());
        let mut granted = Vec::<TicketId>::new();
        for _ in 0..60 {
            now += dice.below(4) * 1_000_000;
            let at = Instant::from_nanos(now);
            if !granted.is_empty() && dice.below(2) == 0 {
                let ticket = dice.draw(&mut granted);
                let end = Instant::from_nanos(now + dice.below(40) * 1_000_000);
                two.step(ticket, at);
                two.handle_release(ticket, end);
                one.handle_run(ticket, at, end);
                now = now.max(end.as_nanos());
                runs += 1;
            } else if !alive.is_empty() && dice.below(3) == 0 {
                let ticket = dice.draw(&mut alive);
                granted.retain(|&other| other != ticket);
                two.handle_release(ticket, at);
                one.handle_release(ticket, at);
            } else {
                let mut request = Request::new(ProviderId::new(dice.below(3) as u32));
                if dice.below(2) == 0 {
                    request = request.key(Key(dice.below(4)));
                }
                if dice.below(6) == 0 {
                    request = request.timeout(Duration::from_millis(dice.below(30)));
                }
                let answer = two.request(&request, at);
                assert_eq!(format!("{answer:?}"), format!("{:?}", one.request(&request, at)), "seed {seed}");
                if let Ok(Admitted::Started(ticket) | Admitted::Queued(ticket)) = answer {
                    alive.push(ticket);
                }
            }
            let (in_two, in_one) = (events(&mut two, false), events(&mut one, true));
            assert_eq!(in_two, in_one, "seed {seed}");
            for event in in_two {
                match event {
                    Event::Granted(ticket) => granted.push(ticket),
                    Event::TakenBack(ticket) | Event::Refused(ticket, _) => {
                        granted.retain(|&other| other != ticket);
                    }
                    _ => {}
                }
            }
            assert_eq!(two.snapshot(), one.snapshot(), "seed {seed}");
            assert_eq!(two.poll_timeout(), one.poll_timeout(), "seed {seed}");
        }
    }
    assert!(runs > 1_000, "only {runs}");
}
