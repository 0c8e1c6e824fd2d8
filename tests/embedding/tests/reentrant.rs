//! The async layer under an executor that polls a task from inside its waker.
//!
//! What is promised: no lock is held during a wake, so nothing deadlocks; a call whose turn comes is woken
//! once, so polls nest one level for each call that ends within the poll in which it starts, and no
//! deeper; and an executor that bounds the nesting loses nothing by it.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use admission_rt::runtime::{Clock, SystemClock};
use admission_rt::{AbortHandle, Counts, Rejected};
use admission_testing::{Admission, Simulation};
use embedding::executor::Executor;
use embedding::timer_thread;

/// Runs a body in a simulation, which has the timers; the tasks are the executor's.
fn simulated(body: impl FnOnce(&Simulation)) {
    body(&Simulation::new());
}

/// So many calls behind one slot, each over as soon as it starts: the order in which they ran.
fn chain(executor: &Executor, calls: usize) -> Vec<usize> {
    let ran = Arc::new(Mutex::new(Vec::new()));
    simulated(|simulation| {
        simulation.block_on(async {
            let admission = Admission::builder().provider("p", |p| p.max_concurrent(1)).build().unwrap();
            let provider = admission.provider("p").unwrap();
            let permit = provider.try_acquire().unwrap();
            for number in 0..calls {
                let call = provider.run({
                    let ran = Arc::clone(&ran);
                    async move || ran.lock().unwrap().push(number)
                });
                executor.spawn(async move { call.await.unwrap() });
            }
            assert_eq!(executor.deepest(), 1);
            // All of them run inside this.
            drop(permit);
            assert_eq!(admission.counts(), Counts::default());
        });
        assert_eq!(simulation.alarms().armed, 0);
    });
    let ran = ran.lock().unwrap();
    ran.clone()
}

#[test]
fn a_chain_nests_once_for_each_call_that_ends_at_once() {
    // rules E2, W5, W7
    const CALLS: usize = 300;
    let executor = Executor::unbounded();
    let run = {
        let executor = executor.clone();
        move || chain(&executor, CALLS)
    };
    // Hundreds of levels want more stack than a test has.
    let big = thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap();
    assert_eq!(big.join().unwrap(), (0..CALLS).collect::<Vec<_>>());
    assert_eq!(executor.deepest(), CALLS);
}

#[test]
fn a_bound_on_the_nesting_changes_nothing_else() {
    // rules E2, W5, W7
    for limit in [1, 2, 8] {
        let executor = Executor::nesting(limit);
        assert_eq!(chain(&executor, 800), (0..800).collect::<Vec<_>>());
        assert_eq!(executor.deepest(), limit);
    }
}

/// Operations that end when the test says so.
#[derive(Default)]
struct Gates {
    waiting: Mutex<Vec<(usize, Option<Waker>)>>,
    open: AtomicUsize,
}

impl Gates {
    async fn pass(&self, number: usize) {
        self.waiting.lock().unwrap().push((number, None));
        poll_fn(|cx| {
            let mut waiting = self.waiting.lock().unwrap();
            match waiting.iter_mut().find(|(gate, _)| *gate == number) {
                Some((_, waker)) => {
                    *waker = Some(cx.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Lets the oldest one pass.
    fn open(&self) -> bool {
        let mut waiting = self.waiting.lock().unwrap();
        if waiting.is_empty() {
            return false;
        }
        let (number, waker) = waiting.remove(0);
        drop(waiting);
        assert_eq!(number, self.open.fetch_add(1, Ordering::SeqCst), "in order");
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

#[test]
fn calls_that_take_their_time_nest_twice() {
    // rules E2, L1, W5
    const CALLS: usize = 500;
    let executor = Executor::unbounded();
    let gates = Arc::new(Gates::default());
    simulated(|simulation| {
        simulation.block_on(async {
            let admission = Admission::builder().provider("p", |p| p.max_concurrent(4)).build().unwrap();
            let provider = admission.provider("p").unwrap();
            for number in 0..CALLS {
                let gates = Arc::clone(&gates);
                let call = provider.run(move || async move { gates.pass(number).await });
                executor.spawn(async move { call.await.unwrap() });
            }
            assert_eq!((admission.counts().running, admission.counts().queued), (4, 496));
            // One ends inside the wake of its gate, and the next one starts inside that.
            while gates.open() {
                let Counts { running, granted, queued } = admission.counts();
                assert!(granted == 0 && (running == 4 || queued == 0));
            }
            assert_eq!(admission.counts(), Counts::default());
        });
    });
    assert_eq!(gates.open.load(Ordering::SeqCst), CALLS);
    assert_eq!(executor.deepest(), 2);
}

#[test]
fn an_alarm_may_poll_whom_it_wakes() {
    // rules L2, L3, T3, T6
    const CALLS: u64 = 300;
    let executor = Executor::unbounded();
    let starts = Arc::new(Mutex::new(Vec::new()));
    simulated(|simulation| {
        let clock = simulation.clock();
        simulation.block_on(async {
            let minute = Duration::from_secs(60);
            let pace = Duration::from_millis(50);
            let admission =
                Admission::builder().provider("p", |p| p.window(60, minute).interval(pace)).build().unwrap();
            let provider = admission.provider("p").unwrap();
            for _ in 0..CALLS {
                let (starts, clock) = (Arc::clone(&starts), clock.clone());
                let call = provider.run(async move || starts.lock().unwrap().push(clock.now().as_nanos()));
                executor.spawn(async move { call.await.unwrap() });
            }
        });
        // Nothing is left for the simulation to poll: its alarms do it all.
        simulation.run_until_idle();
        assert_eq!(simulation.alarms().armed, 0);
    });
    let expected = (0..CALLS).map(|n| (n / 60 * 60_000 + n % 60 * 50) * 1_000_000);
    assert_eq!(*starts.lock().unwrap(), expected.collect::<Vec<_>>());
    assert_eq!(executor.deepest(), 1);
}

#[test]
fn a_task_may_submit_and_abort_from_inside_a_wake() {
    // rules W3, W5
    const CALLS: usize = 300;
    let executor = Executor::unbounded();
    let aborted = Arc::new(AtomicUsize::new(0));
    let late = Arc::new(AtomicUsize::new(0));
    simulated(|simulation| {
        simulation.block_on(async {
            let admission = Admission::builder().provider("p", |p| p.max_concurrent(1)).build().unwrap();
            let provider = admission.provider("p").unwrap();
            let permit = provider.try_acquire().unwrap();
            let (handle, signal) = AbortHandle::new();
            // The first, once it runs, aborts all the others, and submits one more.
            executor.spawn({
                let (provider, executor, late) = (provider.clone(), executor.clone(), Arc::clone(&late));
                async move {
                    let operation = async || {
                        handle.abort();
                        let call = provider.run(async move || {
                            late.fetch_add(1, Ordering::SeqCst);
                        });
                        executor.spawn(async move { call.await.unwrap() });
                    };
                    provider.run(operation).await.unwrap();
                }
            });
            for _ in 0..CALLS {
                let call = provider.call().abort_signal(&signal).run(async || ());
                let aborted = Arc::clone(&aborted);
                executor.spawn(async move {
                    let answer = call.await;
                    assert!(answer.is_err_and(|rejected| rejected.is_aborted()));
                    aborted.fetch_add(1, Ordering::SeqCst);
                });
            }
            assert_eq!(admission.counts().queued, CALLS as u32 + 1);
            drop(permit);
            assert_eq!(admission.counts(), Counts::default());
        });
    });
    assert_eq!(aborted.load(Ordering::SeqCst), CALLS);
    assert_eq!(late.load(Ordering::SeqCst), 1);
    assert!(executor.deepest() <= 3, "{} levels", executor.deepest());
}

#[test]
fn on_a_timer_thread_the_tasks_run_in_its_wakes() {
    // rules L2, T3, W5
    const CALLS: u32 = 200;
    let pace = Duration::from_micros(500);
    let clock = SystemClock::new();
    let executor = Executor::nesting(8);
    let admission = timer_thread::Admission::builder().provider("p", |p| p.interval(pace)).build().unwrap();
    let provider = admission.provider("p").unwrap();
    let (tell, starts) = channel();
    let began = clock.now();
    for _ in 0..CALLS {
        let tell = tell.clone();
        let call = provider.run(async move || tell.send(clock.now()).unwrap());
        executor.spawn(async move {
            let answer: Result<(), Rejected> = call.await;
            answer.unwrap();
        });
    }
    drop(tell);
    for count in 0..CALLS {
        let at = starts.recv_timeout(Duration::from_secs(60)).expect("not stuck");
        assert!(at.saturating_duration_since(began) >= pace * count, "start {count} is early");
    }
    // The last one ends a moment after it has told.
    assert!(starts.recv_timeout(Duration::from_secs(60)).is_err());
}
