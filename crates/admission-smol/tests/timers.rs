//! The adapter's timers as the kernel sees them: how many there are, for when they are set, and what is done where there
//! is none to be had. They are the whole process's, so these tests have one to themselves, and take turns in it.

#![cfg(any(target_os = "linux", target_os = "android"))]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use admission_smol::{Acquire, Admission, Provider};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use smol::Timer;

fn paced(gap: Duration) -> (Admission, Provider) {
    let admission = Admission::builder().provider("a", |p| p.interval(gap)).build();
    let admission = admission.expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    (admission, a)
}

fn is_pending(acquire: &mut Acquire) -> bool {
    acquire.poll_acquire(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// One timer for a coordinator, however many wait; set for nothing when nobody does, for a year at most while somebody
/// does, and gone with the coordinator.
#[test]
fn a_coordinator_has_one_timer_and_none_is_set_for_nobody() {
    // rules T6, T2, W5
    let timers = Timers::alone();
    let (admission, a) = paced(CENTURIES);
    drop(a.try_acquire().expect("the first is immediate"));
    assert_eq!(timers.set(), [], "who need not wait needs no timer");
    let mut waiting: Vec<_> = (0..100).map(|_| a.acquire()).collect();
    assert!(waiting.iter_mut().all(is_pending));
    let [seconds] = timers.set()[..] else { panic!("{:?}", timers.set()) };
    assert!((1..=365 * 24 * 60 * 60).contains(&seconds), "{seconds}");
    drop(waiting);
    assert_eq!(timers.set(), [0], "nobody waits");
    let mut waiting = a.acquire();
    assert!(is_pending(&mut waiting));
    assert!(timers.set()[0] > 0);
    drop((waiting, admission, a));
    assert_eq!(timers.set(), []);
}

/// A program with a limiter for each of its users keeps its files for its sockets.
#[test]
fn many_coordinators_take_few_files_and_each_wakes_its_callers() {
    // rules W5, T3
    let timers = Timers::alone();
    for _ in 0..2 {
        let many: Vec<_> = (0..200)
            .map(|_| {
                let (admission, a) = paced(CENTURIES);
                drop(a.try_acquire().expect("the first is immediate"));
                let mut waiting = a.acquire();
                assert!(is_pending(&mut waiting));
                (admission, waiting)
            })
            .collect();
        assert_eq!(timers.set().len(), 64);
        waits_its_turn();
        drop(many);
        assert_eq!(timers.set(), []);
    }
}

/// Where the system gives no more files, the reactor's own timers serve.
#[test]
fn without_a_file_left_callers_are_woken_all_the_same() {
    // rule W5
    let timers = Timers::alone();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).expect("less is allowed");
    let (_admission, waiting) = begins_to_wait();
    setrlimit(Resource::Nofile, limit).expect("as it was");
    assert_eq!(timers.set(), []);
    drop(smol::block_on(waiting).expect("its turn"));
}

/// A call of a coordinator of its own that waits some milliseconds.
fn begins_to_wait() -> (Admission, Acquire) {
    let (admission, a) = paced(Duration::from_millis(1));
    drop(a.try_acquire().expect("the first is immediate"));
    loop {
        a.cooldown(Duration::from_millis(20)).expect("it is there");
        let mut waiting = a.acquire();
        match waiting.poll_acquire(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => return (admission, waiting),
            // On a slow machine the cooldown may be over already.
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(refused)) => panic!("{refused}"),
        }
    }
}

fn waits_its_turn() {
    let (_admission, waiting) = begins_to_wait();
    drop(smol::block_on(waiting).expect("its turn"));
}

const CENTURIES: Duration = Duration::from_secs(300 * 365 * 24 * 60 * 60);

/// The process's timers, all but the reactor's, while no other test counts them.
struct Timers {
    of_the_reactor: BTreeMap<OsString, u64>,
    _alone: MutexGuard<'static, ()>,
}

impl Timers {
    fn alone() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // The reactor has a timer of its own.
        smol::block_on(Timer::after(Duration::from_millis(1)));
        Self { of_the_reactor: timers(), _alone: alone }
    }

    /// For how many seconds each is set.
    fn set(&self) -> Vec<u64> {
        let ours = |(file, set)| (!self.of_the_reactor.contains_key(&file)).then_some(set);
        timers().into_iter().filter_map(ours).collect()
    }
}

/// For how many seconds each timer of the process is set, as the kernel says.
fn timers() -> BTreeMap<OsString, u64> {
    let mut timers = BTreeMap::new();
    for file in fs::read_dir("/proc/self/fdinfo").expect("the kernel tells") {
        let file = file.expect("the kernel tells");
        // The one that lists them is gone by now.
        let info = fs::read_to_string(file.path()).unwrap_or_default();
        if let Some(value) = info.lines().find_map(|line| line.strip_prefix("it_value: (")) {
            let (seconds, _) = value.split_once(',').expect("seconds and nanoseconds");
            timers.insert(file.file_name(), seconds.parse().expect("a number"));
        }
    }
    timers
}
