//! What is tokio's own about the adapter: its paused clock, its two kinds of runtime, their ends, and
//! what happens where there is none. The rules themselves are tested by the conformance suite.

mod either;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use admission_rt::runtime::Clock;
use admission_rt::{Counts, Rejected};
use admission_tokio::{Acquire, Admission, Provider, TokioClock};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::Instant;

use either::{KINDS, is_pending, paced};

#[tokio::test(start_paused = true)]
async fn an_hours_wait_takes_no_real_time() {
    // rules T5, L2
    let hour = Duration::from_secs(3_600);
    let (_admission, a) = paced(hour);
    let began = Instant::now();
    for n in 0..100 {
        a.run(async || assert_eq!(began.elapsed(), hour * n)).await.expect("its turn");
    }
}

/// Longer than tokio's timer holds, and than the adapter asks of it at once.
#[tokio::test(start_paused = true)]
async fn a_wait_of_many_years_is_waited_for_in_pieces() {
    // rule T2
    let years = Duration::from_secs(5 * 365 * 24 * 60 * 60);
    let (_admission, a) = paced(years);
    let began = Instant::now();
    for n in 0..3 {
        a.run(async || assert_eq!(began.elapsed(), years * n)).await.expect("its turn");
    }
}

/// tokio itself would wait for centuries at once; the adapter does not rely on that, and looks once a year.
#[tokio::test(start_paused = true)]
async fn nothing_longer_than_a_year_is_asked_of_tokio() {
    // rules T2, T3
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    let looks = Arc::new(Looks { clock: TokioClock::new(), at: Mutex::new(Vec::new()) });
    let builder = Admission::builder().provider("a", |p| p.interval(YEAR * 5)).clock(looks.clone());
    let a = builder.build().expect("a sound configuration").provider("a").expect("it is there");
    drop(a.acquire().await.expect("the first is immediate"));
    drop(a.acquire().await.expect("its turn"));
    let looks = looks.at.lock().expect("no panic");
    for year in 1..5 {
        // tokio counts in milliseconds.
        let year = YEAR * year..YEAR * year + Duration::from_secs(1);
        assert!(looks.iter().any(|at| year.contains(at)), "{looks:?}");
    }
}

/// Notes when it is looked at, since the beginning.
struct Looks {
    clock: TokioClock,
    at: Mutex<Vec<Duration>>,
}

impl Clock for Looks {
    fn now(&self) -> admission_rt::Instant {
        let now = self.clock.now();
        let since = now.saturating_duration_since(admission_rt::Instant::ZERO);
        self.at.lock().expect("no panic").push(since);
        now
    }

    fn wall(&self) -> SystemTime {
        self.clock.wall()
    }
}

/// An alarm that is no longer wanted does not move a paused clock.
#[tokio::test(start_paused = true)]
async fn an_idle_alarm_costs_no_timer() {
    // rule T6
    let (_admission, a) = paced(Duration::from_secs(1));
    let permit = a.acquire().await.expect("the first is immediate");
    let mut waiting = a.acquire();
    assert!(is_pending(&mut waiting));
    tokio::task::yield_now().await;
    drop((waiting, permit));
    let (send, receive) = oneshot::channel();
    let began = Instant::now();
    let other = thread::spawn(move || {
        // The clock of a paused runtime jumps whenever it has a timer and nothing to do.
        thread::sleep(Duration::from_millis(50));
        send.send(()).expect("somebody listens");
    });
    receive.await.expect("it is sent");
    assert_eq!(began.elapsed(), Duration::ZERO);
    other.join().expect("no panic");
}

/// When the coordinator is gone, its task is gone.
#[test]
fn the_task_ends_with_its_coordinator() {
    // rule W5
    for kind in KINDS {
        let runtime = kind();
        let alive = || runtime.metrics().num_alive_tasks();
        let before = alive();
        let (admission, a) = paced(Duration::from_secs(3_600));
        runtime.block_on(async {
            drop(a.acquire().await.expect("the first is immediate"));
            let mut waiting = a.acquire();
            assert!(is_pending(&mut waiting));
        });
        assert_eq!(alive(), before + 1, "one task for the coordinator");
        drop((admission, a));
        while alive() > before {
            runtime.block_on(tokio::task::yield_now());
        }
    }
}

/// One task serves everybody.
#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_share_one_task() {
    // rule T6
    let (_admission, a) = paced(Duration::from_secs(1));
    let before = Handle::current().metrics().num_alive_tasks();
    let mut waiting: Vec<_> = (0..1_000).map(|_| a.acquire()).collect();
    assert!(!is_pending(&mut waiting[0]));
    assert!(waiting[1..].iter_mut().all(is_pending));
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before + 1);
}

/// A runtime without time panics where somebody waits, in that caller's own poll, and nowhere else.
#[test]
fn without_time_a_wait_panics_in_its_own_poll() {
    // rule W5
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let (admission, a) = paced(Duration::from_secs(3_600));
    runtime.block_on(async {
        drop(a.acquire().await.expect("what need not wait needs no time"));
        let waiting = tokio::spawn(a.acquire());
        assert!(waiting.await.expect_err("it panics").is_panic());
    });
    assert_eq!(admission.counts(), Counts::default());
    // The coordinator is as good as before.
    admission.close();
    assert!(matches!(a.try_acquire(), Err(Rejected::Closed)));
}
