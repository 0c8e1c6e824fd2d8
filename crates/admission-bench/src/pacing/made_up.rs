//! Pacing in virtual time: millions of starts, with alarms that are late, callers that dawdle, and waits that are
//! given up. Every window and every gap is looked at. And what becomes of alarms.

use std::collections::VecDeque;
use std::time::Duration;

use admission_core::{
    Admitted, Config, Coordinator, Event, Instant, Limits, ProviderId, Request, Step, TicketId,
};
use admission_hot_paths::Dice;
use admission_rt::Admission;
use admission_testing::{Simulation, Virtual};

use crate::results::Results;
use crate::runner::Effort;

const WAITING: usize = 120;

/// Starts of one provider, of which no more than `limit` may lie within `window`.
struct Watch {
    limit: usize,
    window: Duration,
    last: VecDeque<Instant>,
    starts: u64,
    over: u64,
    first: Instant,
    now: Instant,
}

impl Watch {
    fn new(limit: usize, window: Duration) -> Self {
        let last = VecDeque::with_capacity(limit + 1);
        Self { limit, window, last, starts: 0, over: 0, first: Instant::ZERO, now: Instant::ZERO }
    }

    fn started(&mut self) {
        let now = self.now;
        if self.starts == 0 {
            self.first = now;
        }
        self.starts += 1;
        self.last.push_back(now);
        if self.last.len() > self.limit {
            let before = self.last.pop_front().unwrap_or(now);
            self.over += u64::from(now.saturating_duration_since(before) < self.window);
        }
    }
}

/// Runs so many starts. `is_rough`: alarms are late, callers come late, some give up, and calls come in bursts.
fn run(limits: Limits, watch: &mut Watch, count: u64, is_rough: bool) {
    let mut config = Config::new();
    config.providers.push(limits);
    let mut machine = Coordinator::new(&config).expect("the configuration is right");
    let request = Request::new(ProviderId::new(0));
    let mut dice = Dice::new(31);
    let mut waiting: VecDeque<TicketId> = VecDeque::new();
    while watch.starts < count {
        let wanted = if is_rough && dice.below(50) == 0 { 0 } else { WAITING };
        while waiting.len() < wanted {
            match machine.request(&request, watch.now) {
                Ok(Admitted::Queued(ticket)) => waiting.push_back(ticket),
                Ok(Admitted::Started(ticket)) => {
                    watch.started();
                    machine.handle_release(ticket, watch.now);
                    if watch.starts >= count {
                        return;
                    }
                }
                Err(refusal) => panic!("refused: {refusal:?}"),
            }
        }
        if is_rough && dice.below(4) == 0 {
            let at = dice.below(waiting.len().max(1));
            if let Some(ticket) = waiting.remove(at) {
                machine.handle_release(ticket, watch.now);
            }
        }
        let late = |dice: &mut Dice| match is_rough {
            true => Duration::from_nanos(dice.below(3_000_000) as u64),
            false => Duration::ZERO,
        };
        let next = machine.poll_timeout().unwrap_or(watch.now + watch.window);
        watch.now = next + late(&mut dice);
        machine.handle_timeout(watch.now);
        while let Some(event) = machine.poll_event() {
            let Event::Granted(ticket) = event else { continue };
            if is_rough && dice.below(8) == 0 {
                watch.now = watch.now + late(&mut dice);
            }
            if machine.step(ticket, watch.now) == Step::Start {
                watch.started();
                machine.handle_release(ticket, watch.now);
            }
            waiting.retain(|other| *other != ticket);
        }
    }
}

/// How often an alarm is armed and rings for one grant, how many are armed at once, and how many once nobody waits.
fn alarms(results: &mut Results) {
    const CALLS: u64 = 1_000;
    let simulation = Simulation::new();
    simulation.block_on(async {
        let builder = Admission::<Virtual>::builder();
        let gap = Duration::from_millis(1);
        let admission = builder
            .provider("paced", |limits| limits.interval(gap))
            .build()
            .expect("the configuration is right");
        let paced = admission.provider("paced").expect("it was named");
        for _ in 0..CALLS {
            let acquire = paced.acquire();
            drop(admission_testing::spawn(async move { drop(acquire.await) }));
        }
        admission_testing::sleep(gap / 2).await;
        let armed = admission_testing::Handle::current().map_or(0, |handle| handle.alarms().armed);
        results.set("alarms", "admission", "armed while they wait", armed as f64);
        admission.idle().await;
    });
    let alarms = simulation.alarms();
    results.set("alarms", "admission", "arms for one grant", alarms.arms as f64 / CALLS as f64);
    results.set("alarms", "admission", "rings for one grant", alarms.fires as f64 / CALLS as f64);
    results.set("alarms", "admission", "armed when nobody waits", alarms.armed as f64);
}

/// Measures them.
pub fn measure(effort: &Effort, results: &mut Results) {
    let count = if effort.is_quick { 1_000_000 } else { 10_000_000 };
    let window = Duration::from_millis(100);
    let mut rough = Watch::new(50, window);
    run(Limits::new().window(50, window), &mut rough, count, true);
    results.set("made up", "50 in 100 ms, rough", "starts", rough.starts as f64);
    results.set("made up", "50 in 100 ms, rough", "over", rough.over as f64);

    let mut even = Watch::new(50, window);
    run(Limits::new().window(50, window), &mut even, 2_000, false);
    let took = even.now.saturating_duration_since(even.first).as_secs_f64();
    results.set("made up", "50 in 100 ms, saturated", "finish", took / (window.as_secs_f64() * 39.0));
    results.set("made up", "50 in 100 ms, saturated", "over", even.over as f64);

    let gap = Duration::from_millis(5);
    let mut gaps = Watch::new(1, gap);
    run(Limits::new().interval(gap), &mut gaps, count / 10, true);
    results.set("made up", "5 ms apart, rough", "starts", gaps.starts as f64);
    results.set("made up", "5 ms apart, rough", "over", gaps.over as f64);
    alarms(results);
}
