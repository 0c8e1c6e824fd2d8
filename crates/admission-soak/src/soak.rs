//! Rounds of traffic on one runtime, and what must be true after each.
//!
//! Owns: how a round begins, who visits it from a runtime that ends in its midst, how long it may take to come to
//! rest, and the comparison of the heap. Lacks the traffic.
//!
//! A *round* is so many calls, after which everybody is gone and everything must be back at zero. Some rounds are an
//! *era*: they have one coordinator, which is then dropped. The heap is compared between the rounds of an era, and
//! between the ends of eras.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use admission_rt::Counts;

use crate::alarms::{alarms, ended, forget_ended};
use crate::changes::are_guests_forgotten;
use crate::ground::Ground;
use crate::guarded::is_boom;
use crate::host::{Abandoned, CurrentThread, Executor, Host, MultiThread};
use crate::observer::{Observer, PLACES};
use crate::tally::{Event, grouped};
use crate::{Dice, callers, heap};

/// How much.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// No further round begins after so many calls.
    pub calls: u64,
    /// No further era begins after this time, if there is one.
    pub time: Option<Duration>,
    /// Calls in each round.
    pub round: u64,
    /// Rounds that one coordinator lives through.
    pub era: usize,
    /// What is drawn follows from it; what the threads make of that does not.
    pub seed: u64,
}

/// Soaks one runtime, and gives the report, and what was wrong.
pub fn soak<H: Host>(options: Options) -> (String, Vec<String>) {
    let observer = Observer::new(options.seed);
    let mut dice = Dice::new(options.seed);
    let began = observer.now();
    let before = heap::current();
    heap::begin();
    // After each round of the last era, and after each era.
    let mut looks: [Vec<usize>; 2] = [Vec::with_capacity(options.era), Vec::with_capacity(1 << 12)];
    let (mut faults, mut calls, mut starts, mut rounds) = (Vec::new(), 0, 0, 0_u32);
    let host = H::start();
    while faults.is_empty()
        && calls < options.calls
        && options.time.is_none_or(|time| observer.now() - began < time)
    {
        let ground = match Ground::new::<H>(&observer) {
            Ok(ground) => ground,
            Err(error) => return (String::new(), vec![error.to_string()]),
        };
        looks[0].clear();
        for _ in 0..options.era {
            rounds += 1;
            let hangs = round(&host, &ground, options.round, &mut dice);
            calls += options.round;
            starts += observer.check_starts();
            if hangs {
                faults.extend(observer.faults());
                // Whatever hangs keeps its coordinator.
                std::mem::forget(ground);
                return (report::<H>(&observer, calls, rounds, starts, before, &looks), faults);
            }
            looks[0].push(heap::current());
        }
        if Arc::try_unwrap(ground).map(drop).is_err() {
            observer.fault("somebody keeps the ground");
        }
        until(&observer, || (alarms().0 > 0).then(|| format!("{} alarms are left", alarms().0)));
        forget_ended();
        until(&observer, || {
            host.tasks().filter(|tasks| *tasks > 0).map(|left| format!("{left} tasks are left"))
        });
        looks[1].push(heap::current());
        grown(&observer, "over an era", &looks[0]);
        faults.extend(observer.faults());
    }
    drop(host);
    grown(&observer, "over the eras", &looks[1]);
    faults.extend(observer.faults());
    (report::<H>(&observer, calls, rounds, starts, before, &looks), faults)
}

fn grown(observer: &Observer, when: &str, looks: &[usize]) {
    if let Some(growth) = heap::growth(looks).filter(|growth| *growth > SLACK) {
        observer.fault(format!("the heap has grown by {growth} bytes {when}: {looks:?}"));
    }
}

/// One round. Whether it hangs.
fn round<H: Host>(host: &H, ground: &Arc<Ground>, calls: u64, dice: &mut Dice) -> bool {
    let observer = &ground.observer;
    ground.begin::<H>(calls, dice);
    let (done, wait) = channel::<()>();
    for _ in 0..CALLERS {
        host.spawn(caller::<H>(ground, dice, &done));
    }
    let visitors = {
        let (ground, mut dice, done) = (Arc::clone(ground), dice.fork(), done.clone());
        thread::spawn(move || {
            // Each ends at some time before the round does.
            let mut left = calls;
            while left > calls / 4 {
                left -= calls / 8 + dice.below(calls / 8);
                match dice.below(4) {
                    0 => visit::<CurrentThread>(&ground, &mut dice, &done, left),
                    1 => visit::<MultiThread>(&ground, &mut dice, &done, left),
                    2 => visit::<Abandoned>(&ground, &mut dice, &done, left),
                    _ => visit::<Executor>(&ground, &mut dice, &done, left),
                }
            }
        })
    };
    drop(done);
    let mut left = ground.left();
    loop {
        match wait.recv_timeout(HANGS) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if ground.left() < left => left = ground.left(),
            Err(RecvTimeoutError::Timeout) => {
                let snapshot = ground.admission.snapshot();
                observer.fault(format!("a round hangs with {left} calls left:\n{snapshot}"));
                for waiting in ground.admission.waiting() {
                    observer.fault(waiting.to_string());
                }
                return true;
            }
        }
    }
    if visitors.join().is_err() {
        observer.fault("a visitor panicked");
    }
    rest(host, ground)
}

fn caller<H: Host>(ground: &Arc<Ground>, dice: &mut Dice, done: &Sender<()>) -> crate::host::Boxed {
    let (ground, dice, done) = (Arc::clone(ground), dice.fork(), done.clone());
    Box::pin(async move {
        // Gone with the caller, however that ends.
        let _done = done;
        callers::caller::<H>(ground, dice).await;
    })
}

/// Some callers in a runtime of their own, which is ended with them when the round has so many calls left.
fn visit<G: Host>(ground: &Arc<Ground>, dice: &mut Dice, done: &Sender<()>, until: u64) {
    let guest = G::start();
    for _ in 0..VISITORS {
        guest.spawn(caller::<G>(ground, dice, done));
    }
    while ground.left() > until {
        thread::sleep(Duration::from_micros(500));
    }
    let ids = guest.ids();
    drop(guest);
    for id in ids {
        ended(id);
    }
    ground.observer.tally.count(Event::RuntimeEnded);
}

/// Everybody is gone. Whether it does not come to rest.
fn rest<H: Host>(host: &H, ground: &Arc<Ground>) -> bool {
    let observer = &ground.observer;
    ground.end();
    let (idle, wait) = channel();
    let (admission, rate, interval) = (ground.admission.on(), ground.rate.clone(), ground.interval.clone());
    let admission: admission_rt::Admission<crate::alarms::Watched<H::Runtime>> = admission;
    host.spawn(Box::pin(async move {
        admission.idle().await;
        rate.idle().await;
        interval.idle().await;
        drop((admission, rate, interval));
        // If it came too late nobody listens.
        let _ = idle.send(());
    }));
    if wait.recv_timeout(HANGS).is_err() {
        observer.fault(format!("is never idle:\n{}", ground.admission.snapshot()));
        return true;
    }
    until(observer, || {
        let counts = [ground.admission.counts(), ground.rate.counts(), ground.interval.counts()];
        let (all, set) = alarms();
        let values = observer.values.load(Ordering::SeqCst);
        let wakers = observer.wakers.load(Ordering::SeqCst);
        if counts.iter().any(|counts| *counts != Counts::default()) {
            Some(format!("{counts:?} are left"))
        } else if !observer.is_empty() {
            Some("an operation or a key is left".to_owned())
        } else if values != 0 || wakers != 0 {
            Some(format!("{values} values and {wakers} wakers are left"))
        } else if set > 0 {
            Some(format!("{set} of {all} alarms are set"))
        } else if !are_guests_forgotten(ground) {
            Some(format!("a provider is not forgotten:\n{}", ground.admission.snapshot()))
        } else if Arc::strong_count(ground) > 1 {
            Some(format!("{} others keep the ground", Arc::strong_count(ground) - 1))
        } else {
            None
        }
    })
}

/// Waits until nothing is left, and says what is if that never comes: what ends elsewhere ends in its own time.
/// Whether it never came.
fn until(observer: &Arc<Observer>, left: impl Fn() -> Option<String>) -> bool {
    let began = observer.now();
    while let Some(what) = left() {
        if observer.now() - began > HANGS {
            observer.fault(what);
            return true;
        }
        thread::sleep(Duration::from_micros(500));
    }
    false
}

fn report<H: Host>(
    observer: &Observer,
    calls: u64,
    rounds: u32,
    starts: usize,
    before: usize,
    looks: &[Vec<usize>],
) -> String {
    let ends = |looks: &Vec<usize>| match (looks.get(1), looks.last()) {
        (Some(first), Some(last)) => format!("{} → {}", kib(*first), kib(*last)),
        _ => "-".to_owned(),
    };
    let points: Vec<_> = looks.iter().map(ends).collect();
    format!(
        "{}: {} calls in {rounds} rounds, {:.1} s\n{}  {:<10}{} starts in {} logs\n  {:<10}before {}, peak {}, at the \
         end of each round of the last era (second → last) and of each era {}, KiB\n",
        H::NAME,
        grouped(calls),
        observer.now().as_secs_f64(),
        observer.tally.lines(),
        "checked",
        grouped(starts as u64),
        PLACES.iter().filter(|place| place.log.is_some()).count() + 2,
        "heap",
        kib(before),
        kib(heap::peak()),
        points.join(", "),
    )
}

fn kib(bytes: usize) -> String {
    grouped(bytes as u64 / 1_024)
}

/// Panics that were made here say nothing; any other is told, and counted.
pub fn quiet_about_booms() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let payload = info.payload();
        if payload.downcast_ref::<&str>() != Some(&"boom") {
            hook(info);
        }
    }));
    debug_assert!(!is_boom(&()));
}

/// Callers of the runtime itself, more than there is room for in the queue.
const CALLERS: u32 = 240;
/// Callers of one that ends.
const VISITORS: u32 = 24;
/// So long nothing takes, on however slow a machine.
const HANGS: Duration = Duration::from_secs(20);
/// What the runtimes themselves keep or not, as it happens.
const SLACK: usize = 32 * 1_024;
