//! One coordinator with a million tickets over a hundred thousand providers and a million keys: how long it takes
//! to fill, to drain, to cancel all of it from anywhere, and to close; and how much memory that is. Beside it a
//! thousand tickets over a hundred providers, to see what the size alone costs.

use std::time::Duration;

use admission_core::{
    Admitted, Config, Coordinator, Event, Instant, Key, Limits, ProviderId, Request, Step, TicketId,
};
use admission_hot_paths::Dice;

use crate::clocks::thread_cpu;
use crate::results::Results;
use crate::runner::{Effort, median};

/// Tickets and providers.
pub const SCALES: [(usize, usize); 3] = [(1_000, 100), (100_000, 10_000), (1_000_000, 100_000)];

/// What a scale is called.
#[must_use]
pub fn name((tickets, providers): (usize, usize)) -> String {
    format!("{tickets} tickets, {providers} providers")
}

/// A coordinator with so many providers, two of whose calls run at once, and a client that runs sixty-four.
///
/// # Panics
///
/// Never: the configuration is right.
#[must_use]
pub fn empty((tickets, providers): (usize, usize)) -> Coordinator {
    let mut config = Config::new();
    config.max_queued = tickets as u32;
    config.client = Limits::new().max_concurrent(64);
    config.providers = vec![Limits::new().max_concurrent(2).window(60, Duration::from_secs(60)); providers];
    Coordinator::new(&config).expect("the configuration is right")
}

/// So many requests: sixty-four run, and the others wait.
///
/// # Panics
///
/// If one is refused.
pub fn fill(
    machine: &mut Coordinator,
    (tickets, providers): (usize, usize),
) -> (Vec<TicketId>, Vec<TicketId>) {
    let mut dice = Dice::new(11);
    let (mut running, mut waiting) = (Vec::with_capacity(64), Vec::with_capacity(tickets));
    for number in 0..tickets {
        let provider = ProviderId::new(dice.below(providers) as u32);
        let request = Request::new(provider).key(Key(number as u64));
        match machine.request(&request, Instant::from_nanos(number as u64)) {
            Ok(Admitted::Started(ticket)) => running.push(ticket),
            Ok(Admitted::Queued(ticket)) => waiting.push(ticket),
            Err(refusal) => panic!("refused: {refusal:?}"),
        }
    }
    (running, waiting)
}

/// Nanoseconds for each ticket.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    fill: f64,
    drain: f64,
    cancel: f64,
    close: f64,
}

fn sample(scale: (usize, usize)) -> Sample {
    let mut sample = Sample::default();
    let cost = |began: f64| (thread_cpu() - began) / scale.0 as f64;
    let later = |number: usize| Instant::from_millis(60_000) + Duration::from_nanos(number as u64);

    let mut machine = empty(scale);
    let began = thread_cpu();
    let (mut running, _) = fill(&mut machine, scale);
    sample.fill = cost(began);
    let began = thread_cpu();
    let mut number = 0;
    while let Some(ticket) = running.pop() {
        number += 1;
        machine.handle_release(ticket, later(number));
        while let Some(event) = machine.poll_event() {
            if let Event::Granted(ticket) = event {
                assert_eq!(machine.step(ticket, later(number)), Step::Start);
                running.push(ticket);
            }
        }
    }
    sample.drain = cost(began);
    assert!(machine.is_idle());
    drop(machine);

    let mut machine = empty(scale);
    let (_running, waiting) = fill(&mut machine, scale);
    let order = Dice::new(12).order(waiting.len());
    let began = thread_cpu();
    for at in order {
        machine.handle_release(waiting[at], later(0));
    }
    sample.cancel = cost(began);
    assert_eq!(machine.counts().queued, 0);
    drop(machine);

    let mut machine = empty(scale);
    let (_running, waiting) = fill(&mut machine, scale);
    let began = thread_cpu();
    machine.close(later(0));
    while machine.poll_event().is_some() {}
    for ticket in waiting {
        assert!(matches!(machine.step(ticket, later(0)), Step::GiveUp(_)));
    }
    sample.close = cost(began);
    sample
}

/// Measures them.
pub fn measure(effort: &Effort, results: &mut Results) {
    for scale in SCALES {
        if effort.is_quick && scale.0 > 100_000 {
            continue;
        }
        let repeats = if scale.0 > 100_000 { 3 } else { effort.rounds(21) };
        let samples: Vec<Sample> = (0..repeats).map(|_| sample(scale)).collect();
        let of = |part: fn(&Sample) -> f64| median(&samples.iter().map(part).collect::<Vec<_>>());
        let name = name(scale);
        results.set("scale", &name, "fill", of(|sample| sample.fill));
        results.set("scale", &name, "drain", of(|sample| sample.drain));
        results.set("scale", &name, "cancel", of(|sample| sample.cancel));
        results.set("scale", &name, "close", of(|sample| sample.close));
    }
}
