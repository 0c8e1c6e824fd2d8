//! The timers of the precise alarm as the kernel sees them: how many there are, and for when they are set. They are
//! the whole process's, so these tests have one to themselves, and take turns in it.

#![cfg(all(feature = "precise", any(target_os = "linux", target_os = "android")))]

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use admission_rt::{Counts, Rejected};
use admission_tokio::precise::{Acquire, Admission, Provider};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

const KINDS: [fn() -> Runtime; 2] = [current_thread, multi_thread];

fn paced(gap: Duration) -> (Admission, Provider) {
    let admission = Admission::builder().provider("a", |p| p.interval(gap)).build();
    let admission = admission.expect("a sound configuration");
    let a = admission.provider("a").expect("it is there");
    (admission, a)
}

fn is_pending(acquire: &mut Acquire) -> bool {
    acquire.poll_acquire(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// One timer for a coordinator and a runtime, however many wait; set for nothing when nobody does, for a year at
/// most while somebody does, and gone with the coordinator.
#[test]
fn a_coordinator_has_one_timer_and_none_is_set_for_nobody() {
    // rules T6, T2, W5
    let _alone = alone();
    const CENTURIES: Duration = Duration::from_secs(300 * 365 * 24 * 60 * 60);
    for kind in KINDS {
        let runtime = kind();
        let (admission, a) = paced(CENTURIES);
        runtime.block_on(async {
            drop(a.acquire().await.expect("the first is immediate"));
            assert_eq!(timers(), [], "who need not wait needs no timer");
            let mut waiting: Vec<_> = (0..100).map(|_| a.acquire()).collect();
            assert!(waiting.iter_mut().all(is_pending));
            let [seconds] = timers()[..] else { panic!("{:?}", timers()) };
            assert!((1..=365 * 24 * 60 * 60).contains(&seconds), "{seconds}");
            drop(waiting);
            assert_eq!(timers(), [0], "nobody waits");
            let mut waiting = a.acquire();
            assert!(is_pending(&mut waiting));
            assert!(timers()[0] > 0);
        });
        drop((admission, a));
        assert_eq!(timers(), []);
    }
}

/// It goes with its runtime, too.
#[test]
fn a_timer_is_gone_with_its_runtime() {
    // rule W5
    let _alone = alone();
    for kind in KINDS {
        let runtime = kind();
        let (_admission, a) = paced(Duration::from_secs(3_600));
        runtime.block_on(async {
            drop(a.acquire().await.expect("the first is immediate"));
            tokio::spawn(a.acquire());
            let mut waiting = a.acquire();
            assert!(is_pending(&mut waiting));
        });
        assert_eq!(timers().len(), 1);
        drop(runtime);
        assert_eq!(timers(), []);
    }
}

/// Where the system gives no more files, tokio's own timers serve, and later alarms are precise again.
#[test]
fn without_a_file_left_callers_are_woken_all_the_same() {
    // rule W5
    let _alone = alone();
    for kind in KINDS {
        let runtime = kind();
        runtime.block_on(async {
            let limit = getrlimit(Resource::Nofile);
            setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).expect("less is allowed");
            let (admission, waiting) = begins_to_wait();
            setrlimit(Resource::Nofile, limit).expect("as it was");
            assert_eq!(timers(), []);
            drop(waiting.await.expect("its turn"));
            assert_eq!(admission.counts(), Counts::default());
            let (_admission, _waiting) = begins_to_wait();
            assert_eq!(timers().len(), 1);
        });
    }
}

/// Where the runtime has ended, who has to wait is refused: tokio's own timers are not asked for, which this runtime
/// never had.
#[test]
fn a_runtime_that_has_ended_is_not_taken_for_a_lack_of_files() {
    // rule W5
    let _alone = alone();
    let mut io_alone = Builder::new_current_thread();
    let runtime = io_alone.enable_io().build().expect("a runtime");
    let (_admission, a) = paced(Duration::from_secs(3_600));
    drop(a.try_acquire().expect("the first is immediate"));
    let handle = runtime.handle().clone();
    drop(runtime);
    let _inside = handle.enter();
    match a.acquire().poll_acquire(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Err(Rejected::NoRuntime)) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(timers(), []);
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

/// For how many seconds each timer of the process is set, as the kernel says.
fn timers() -> Vec<u64> {
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
    timers.into_values().collect()
}

/// The tests that count the timers of the process take turns with each other.
fn alone() -> impl Drop {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
