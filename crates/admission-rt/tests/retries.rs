//! Operations that are tried again: what each attempt gets, and what is left between two.

mod common;

use std::cell::Cell;
use std::future::{Future, Ready, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use admission_rt::backon::{ConstantBuilder, FibonacciBuilder};
use admission_rt::{
    AbortHandle, AbortReason, AbortSignal, Attempt, Counts, IntervalLimiter, RateLimiter, Rejected, Retry,
    RetryError, RetryRun, SettleError, Strategy, Window,
};
use common::{Admission, Hand, Provider, Task, World, counts, ms};

const NOTHING: Counts = counts(0, 0, 0);

fn one_at_a_time(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

/// Fails with the number of the attempt, at once.
fn fails(attempt: &Attempt) -> Ready<Result<(), u32>> {
    ready(Err(attempt.number()))
}

/// Polls as long as it wakes itself, as an executor would.
fn run_now<F: Future>(task: &mut Task<F>) -> Poll<F::Output> {
    loop {
        let before = task.wakes();
        match task.poll() {
            Poll::Pending if task.wakes() > before => {}
            answer => return answer,
        }
    }
}

fn answer<F: Future>(task: &mut Task<F>) -> F::Output {
    match run_now(task) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("still waits"),
    }
}

/// The refusal, the last attempt's error, and the number of attempts.
fn refusal<T>(answer: Result<T, RetryError<u32>>) -> (Rejected, Option<u32>, u32) {
    match answer {
        Err(RetryError::Rejected { rejected, last, attempts, .. }) => (rejected, last, attempts),
        Err(RetryError::Operation { error, .. }) => panic!("failed with {error}"),
        Ok(_) => panic!("succeeded"),
    }
}

fn failure<T>(answer: Result<T, RetryError<u32>>) -> (u32, u32) {
    match answer {
        Err(RetryError::Operation { error, attempts, .. }) => (error, attempts),
        Err(RetryError::Rejected { rejected, .. }) => panic!("refused: {rejected}"),
        Ok(_) => panic!("succeeded"),
    }
}

// rule W0, R6
#[test]
fn a_retried_call_is_lazy_and_answers_once() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let calls = Cell::new(0);
    let operation = |attempt: Attempt| {
        calls.set(calls.get() + 1);
        ready(if attempt.number() < 3 { Err(attempt.number()) } else { Ok("third") })
    };
    let unpolled = a.retry(Retry::times(5)).try_run(operation);
    drop(unpolled);
    let mut run = Task::new(a.retry(Retry::times(5)).try_run(operation));
    assert_eq!((calls.get(), admission.counts()), (0, NOTHING));
    assert_eq!(answer(&mut run).unwrap(), "third");
    assert_eq!((calls.get(), admission.counts()), (3, NOTHING));
    assert!(run_now(&mut run).is_pending(), "once");
    assert_eq!(calls.get(), 3);
}

// rule R6
#[test]
fn the_policy_says_how_often() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let attempts = |policy: Retry<u32>| {
        let mut run = Task::new(a.retry(policy).try_run(|attempt| fails(&attempt)));
        let (error, attempts) = failure(answer(&mut run));
        assert_eq!(error, attempts, "the last error");
        attempts
    };
    assert_eq!(attempts(Retry::never()), 1);
    assert_eq!(attempts(Retry::default()), 1);
    assert_eq!(attempts(Retry::never().at_most(5)), 1);
    assert_eq!(attempts(Retry::times(4)), 5);
    assert_eq!(attempts(Retry::times(4).at_most(2)), 3);
    assert_eq!(attempts(Retry::times(2).at_most(4)), 3);
    assert_eq!(attempts(Retry::backoff([Duration::ZERO; 3].into_iter())), 4, "to the builder's end");
    assert_eq!(attempts(Retry::backoff([Duration::ZERO; 3].into_iter()).at_most(1)), 2);
    assert_eq!(attempts(Retry::times(9).when(|error| *error < 3)), 3);
    let constant = ConstantBuilder::default().with_delay(Duration::ZERO).with_max_times(2);
    let policy = Retry::backoff(constant);
    assert_eq!((attempts(policy.clone()), attempts(policy)), (3, 3), "each call begins anew");
}

// rule E5, T5
#[test]
fn delays_are_the_builders_by_the_coordinators_clock() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    // 100, 100, 200 and 300, but not less than 150.
    let backoff = FibonacciBuilder::default().with_min_delay(ms(100)).with_max_times(4);
    let policy = Retry::backoff(backoff).delay(ms(150));
    let (starts, mut wakes) = (Arc::new(Mutex::new(Vec::new())), 0);
    let mut run = {
        let (clock, starts) = (world.clock(), starts.clone());
        Task::new(a.retry(policy).try_run(move |attempt| {
            starts.lock().unwrap().push(clock.now().as_nanos() / 1_000_000);
            fails(&attempt)
        }))
    };
    for at in [0, 150, 300, 500, 800] {
        world.advance_to(at);
        assert!(at == 0 || run.wakes() > wakes, "at {at}");
        wakes = run.wakes();
        if at < 800 {
            assert!(run.poll().is_pending());
            assert_eq!(admission.counts(), NOTHING);
        }
    }
    assert_eq!(failure(run.ready()), (5, 5));
    assert_eq!(*starts.lock().unwrap(), [0, 150, 300, 500, 800]);
    assert_eq!(world.armed(), None, "no timer is left (rule T6)");
}

// rules E5, T2
#[test]
fn a_delay_may_be_longer_than_any_timer() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let policy = Retry::backoff([Duration::MAX].into_iter()).cooldown(|_| Some(Duration::MAX));
    let mut run = Task::waiting(a.retry(policy).try_run(|attempt| fails(&attempt)));
    world.set_nanos(u64::MAX / 2);
    assert!(run.poll().is_pending());
    drop(run);
    assert_eq!(admission.counts(), NOTHING);
}

// rules E5, L1
#[test]
fn between_two_attempts_nothing_is_held() {
    let world = World::new();
    let _entered = world.enter();
    let build = world.builder().max_queued(0).provider("a", |p| p.max_concurrent(1)).build();
    let admission = build.unwrap();
    let a = admission.provider("a").unwrap();
    let policy = Retry::times(1).delay(ms(100));
    let mut run = Task::waiting(a.key("k").retry(policy).try_run(|attempt| fails(&attempt)));
    assert_eq!(admission.counts(), NOTHING);
    let other = a.key("k").try_acquire().expect("slot and key are free");
    world.advance_to(100);
    let (rejected, last, attempts) = refusal(run.ready());
    assert!(rejected.is_overflow(), "{rejected}");
    assert_eq!((last, attempts), (Some(1), 1));
    drop(other);
}

// rules E5, W7
#[test]
fn a_retry_stands_behind_those_who_wait() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let fail = Arc::new(Mutex::new(false));
    let operation = {
        let fail = fail.clone();
        move |attempt: Attempt| {
            let fail = fail.clone();
            std::future::poll_fn(move |_| match *fail.lock().unwrap() {
                true => Poll::Ready(Err::<(), _>(attempt.number())),
                false => Poll::Pending,
            })
        }
    };
    let mut run = Task::waiting(a.retry(Retry::times(1)).try_run(operation));
    let mut first = Task::waiting(a.acquire());
    let mut second = Task::waiting(a.acquire());
    *fail.lock().unwrap() = true;
    assert!(run_now(&mut run).is_pending());
    assert!(first.is_woken() && !second.is_woken());
    assert_eq!(admission.counts(), counts(0, 2, 1));
    drop(first.ready().unwrap());
    drop(second.ready().unwrap());
    assert_eq!(failure(run.ready()), (2, 2));
}

// rule E5
#[test]
fn retries_without_delay_let_others_run() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let policy = Retry::backoff(std::iter::repeat(Duration::ZERO));
    let calls = Arc::new(AtomicU32::new(0));
    let mut run = Task::new(a.retry(policy).try_run(|attempt| {
        calls.fetch_add(1, Ordering::SeqCst);
        fails(&attempt)
    }));
    for poll in 1..100 {
        assert!(run.poll().is_pending());
        assert_eq!((calls.load(Ordering::SeqCst), run.wakes()), (poll, poll as usize));
    }
}

// rules E5, Q3
#[test]
fn the_predicate_is_asked_about_errors_alone_and_not_in_vain() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let policy = {
        let (when, cooldown) = (asked.clone(), asked.clone());
        Retry::times(1)
            .when(move |error| {
                when.lock().unwrap().push(("when", *error));
                true
            })
            .cooldown(move |error| {
                cooldown.lock().unwrap().push(("cooldown", *error));
                None
            })
    };
    let mut run = Task::new(a.retry(policy.clone()).try_run(|attempt| fails(&attempt)));
    assert_eq!(failure(answer(&mut run)), (2, 2));
    let expected = [("cooldown", 1), ("when", 1), ("cooldown", 2)];
    assert_eq!(*asked.lock().unwrap(), expected);
    admission.close();
    let mut refused = Task::new(a.retry(policy).try_run(|attempt| fails(&attempt)));
    let (rejected, last, attempts) = refusal(answer(&mut refused));
    assert!(rejected.is_closed());
    assert_eq!((last, attempts), (None, 0));
    assert_eq!(asked.lock().unwrap().len(), 3);
}

// rules E5, L5
#[test]
fn a_cooldown_is_set_before_the_permit_is_released() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let told = Arc::new(Mutex::new(false));
    let operation = {
        let told = told.clone();
        move |attempt: Attempt| {
            let told = told.clone();
            std::future::poll_fn(move |_| match *told.lock().unwrap() {
                true => Poll::Ready(Err::<(), _>(attempt.number())),
                false => Poll::Pending,
            })
        }
    };
    let policy = Retry::times(1).delay(ms(10)).when(|_| false).cooldown(|_| Some(ms(100)));
    let mut run = Task::waiting(a.retry(policy.clone()).try_run(operation.clone()));
    let mut waiting = Task::waiting(a.acquire());
    *told.lock().unwrap() = true;
    assert_eq!(failure(run.ready()), (1, 1));
    assert!(!waiting.is_woken(), "not retried, and a cooldown all the same");
    assert_eq!(admission.counts(), counts(0, 1, 0));
    world.advance_to(100);
    drop(waiting.ready().unwrap());

    // One that is retried comes back no earlier than the cooldown's end, and waits for it outside.
    let mut run = Task::waiting(a.retry(policy.when(|_| true)).try_run(operation));
    assert_eq!(admission.counts(), NOTHING);
    world.advance_to(199);
    assert!(run.poll().is_pending());
    assert_eq!(admission.counts(), NOTHING);
    world.advance_to(200);
    assert_eq!(failure(run.ready()), (2, 2));
    assert_eq!(a.try_acquire().unwrap_err().retry_after(), Some(ms(100)), "the last one's");
}

// rules E5, R1
#[test]
fn refusals_are_retried_where_a_policy_says_so() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = RateLimiter::<Hand>::builder(1, ms(1_000)).clock(world.clock()).strategy(Strategy::Reject);
    let limiter = limiter.build().unwrap();
    drop(limiter.try_acquire().unwrap());
    let asked = Arc::new(AtomicU32::new(0));
    let policy = {
        let asked = asked.clone();
        Retry::times(2).delay(ms(10)).when_refused(move |rejected| {
            asked.fetch_add(1, Ordering::SeqCst);
            matches!(rejected, Rejected::Exhausted { .. })
        })
    };
    let mut run = Task::waiting(limiter.retry(policy).try_run(|attempt| fails(&attempt)));
    world.advance_to(999);
    assert!(run.poll().is_pending(), "at least as long as the refusal says");
    world.advance_to(1_000);
    assert!(run.poll().is_pending(), "it failed, which is the second retry");
    world.advance_to(1_010);
    let (rejected, last, attempts) = refusal(run.ready());
    assert!(matches!(rejected, Rejected::Exhausted { retry_after: Some(after), .. } if after == ms(990)));
    assert_eq!((last, attempts), (Some(1), 1));
    assert_eq!(asked.load(Ordering::SeqCst), 1, "none is left, so it is not asked");

    let mut run = Task::new(limiter.retry(Retry::times(9)).try_run(|attempt| fails(&attempt)));
    assert!(matches!(refusal(answer(&mut run)), (Rejected::Exhausted { .. }, None, 0)), "not by default");
}

// rules E5, W4
#[test]
fn a_refusal_that_no_waiting_mends_is_final() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let always = || Retry::times(9).when_refused(|_| panic!("not asked"));
    let (handle, signal) = AbortHandle::new();
    handle.abort();
    let mut run = Task::new(a.abort_signal(&signal).retry(always()).try_run(|attempt| fails(&attempt)));
    assert!(matches!(refusal(answer(&mut run)), (Rejected::Aborted(_), None, 0)));
    let mut run = Task::new(a.cost("dollars", 1).retry(always()).try_run(|attempt| fails(&attempt)));
    assert!(matches!(refusal(answer(&mut run)), (Rejected::UnknownUnit(_), None, 0)));
    admission.close();
    let mut run = Task::new(a.retry(always()).try_run(|attempt| fails(&attempt)));
    assert!(matches!(refusal(answer(&mut run)), (Rejected::Closed, None, 0)));
}

// rules E5, W3
#[test]
fn the_signal_ends_the_wait_between_attempts() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let (handle, signal) = AbortHandle::new();
    let policy = Retry::times(1).delay(ms(100));
    let operation = |attempt: Attempt| fails(&attempt);
    let mut run = Task::waiting(a.abort_signal(&signal).retry(policy.clone()).try_run(operation));
    let before = run.wakes();
    handle.abort_with("enough");
    assert!(run.wakes() > before);
    let (rejected, last, attempts) = refusal(run.ready());
    assert!(matches!(rejected, Rejected::Aborted(AbortReason::Custom(why)) if why.to_string() == "enough"));
    assert_eq!((last, attempts), (Some(1), 1));
    assert_eq!(run.wakers_held(), 0);

    // In the queue for the second attempt.
    let (handle, signal) = AbortHandle::new();
    let mut run = Task::waiting(a.abort_signal(&signal).retry(policy.clone()).try_run(operation));
    let other = a.try_acquire().unwrap();
    world.advance_to(100);
    assert!(run.poll().is_pending());
    assert_eq!(admission.counts(), counts(1, 1, 0));
    handle.abort();
    assert_eq!(admission.counts(), counts(1, 0, 0));
    assert!(matches!(refusal(run.ready()), (Rejected::Aborted(AbortReason::Requested), Some(1), 1)));
    drop(other);

    // While the operation runs: it is told, and may go on.
    let (handle, signal) = AbortHandle::new();
    let mut run = Task::waiting(a.abort_signal(&signal).retry(policy).try_run(async |attempt: Attempt| {
        let reason = attempt.signal().aborted().await;
        assert_eq!(reason.to_string(), "on request");
        Err::<(), _>(attempt.number())
    }));
    handle.abort();
    assert!(matches!(refusal(run.ready()), (Rejected::Aborted(_), Some(1), 1)));
    assert_eq!(admission.counts(), NOTHING);
}

#[test]
fn without_a_signal_an_attempt_has_one_that_never_fires() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let kept = Mutex::new(None);
    let mut run = Task::new(a.retry(Retry::<u32>::never()).try_run(|attempt| {
        *kept.lock().unwrap() = Some(attempt.clone());
        ready(Ok(()))
    }));
    run.ready().unwrap();
    let attempt = kept.lock().unwrap().take().unwrap();
    assert!(Task::new(attempt.signal().aborted()).poll().is_pending());
    assert_eq!(format!("{attempt:?}"), "Attempt { number: 1, .. }");
}

// rule L8
#[test]
fn an_attempt_settles_its_own_cost_and_only_while_it_runs() {
    let world = World::new();
    let _entered = world.enter();
    let build = world
        .builder()
        .unit("tokens")
        .provider("a", |p| p.log(Window::new(100, ms(1_000)).unit("tokens")))
        .build();
    let admission = build.unwrap();
    let a = admission.provider("a").unwrap();
    let kept = Mutex::new(Vec::<Attempt>::new());
    let mut run = Task::waiting(a.cost("tokens", 90).retry(Retry::times(1)).try_run(|attempt| {
        let mut kept = kept.lock().unwrap();
        for older in kept.iter() {
            assert_eq!(older.settle("tokens", 99), Err(SettleError::Ended), "its slot is another's now");
        }
        assert_eq!(attempt.settle("requests", 2), Err(SettleError::Requests));
        assert_eq!(attempt.settle("dollars", 2), Err(SettleError::UnknownUnit("dollars".into())));
        attempt.settle("tokens", 10).unwrap();
        attempt.settle("tokens", 5).unwrap();
        let answer = fails(&attempt);
        kept.push(attempt);
        answer
    }));
    assert_eq!(failure(answer(&mut run)), (2, 2));
    assert_eq!(kept.lock().unwrap().len(), 2);
    drop(a.cost("tokens", 90).try_acquire().expect("each attempt settled for 5"));
    assert!(a.cost("tokens", 1).try_acquire().is_err());
    for attempt in kept.lock().unwrap().iter() {
        assert_eq!(attempt.settle("tokens", 0), Err(SettleError::Ended));
        assert_eq!(attempt.settle("dollars", 0), Err(SettleError::UnknownUnit("dollars".into())));
    }
    assert!(a.cost("tokens", 1).try_acquire().is_err());
}

// rules I1, I3
#[test]
fn a_paced_retry_lets_go_once_it_was_called() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = IntervalLimiter::<Hand>::builder(ms(100)).clock(world.clock()).build().unwrap();
    let seen = Mutex::new(Vec::new());
    let policy = Retry::times(1).cooldown(|_| Some(ms(250)));
    let mut run = Task::new(limiter.retry(&AbortSignal::never(), policy).try_run(|attempt| {
        let (seen, limiter) = (&seen, &limiter);
        async move {
            seen.lock().unwrap().push(limiter.counts());
            assert_eq!(attempt.settle("dollars", 0), Err(SettleError::UnknownUnit("dollars".into())));
            Err::<(), _>(attempt.number())
        }
    }));
    assert!(run_now(&mut run).is_pending());
    let mut other = Task::waiting(limiter.acquire());
    world.advance_to(249);
    assert!(run.poll().is_pending() && other.poll().is_pending());
    world.advance_to(250);
    other.ready().unwrap();
    assert!(run.poll().is_pending(), "the other came first");
    world.advance_to(350);
    assert_eq!(failure(run.ready()), (2, 2));
    assert_eq!(*seen.lock().unwrap(), [NOTHING, NOTHING], "the operation's I/O may overlap");
}

// rule W5
#[test]
fn a_retried_call_can_be_dropped_in_every_state() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let (_handle, signal) = AbortHandle::new();
    let fail_first = |attempt: Attempt| -> Pin<Box<dyn Future<Output = Result<(), u32>> + Send>> {
        match attempt.number() {
            1 => Box::pin(fails(&attempt)),
            _ => Box::pin(pending()),
        }
    };
    let begin = || {
        let policy = Retry::times(1).delay(ms(100));
        Task::new(a.key("k").abort_signal(&signal).retry(policy).try_run(fail_first))
    };
    let mut now = 0;
    for state in 0..6 {
        let mut run = begin();
        let mut held = None;
        if state == 1 {
            // Waiting for the first attempt.
            held = Some(a.try_acquire().unwrap());
        }
        if state > 0 {
            assert!(run.poll().is_pending());
        }
        if state >= 3 {
            if state != 5 {
                held = Some(a.try_acquire().unwrap());
            }
            now += 100;
            world.advance_to(now);
            assert!(run.poll().is_pending());
        }
        let expected = match state {
            0 | 2 => NOTHING,
            1 | 3 => counts(1, 1, 0),
            4 => {
                held = None;
                counts(0, 0, 1)
            }
            _ => counts(1, 0, 0),
        };
        assert_eq!(admission.counts(), expected, "state {state}");
        let words = ["waiting", "waiting", "waiting to retry", "waiting", "waiting", "running"][state];
        assert!(format!("{:?}", run.future).contains(&format!("{words:?}")), "{:?}", run.future);
        let before = run.wakers_held();
        assert_eq!(before > 0, (1..=3).contains(&state), "state {state}: {before} wakers");
        let Task { future, .. } = run;
        drop(future);
        drop(held);
        assert_eq!(admission.counts(), NOTHING, "state {state}");
        drop(a.key("k").try_acquire().expect("slot and key are free"));
        assert_eq!(world.armed(), None, "state {state}");
    }
}

/// Notes what is running when it is dropped.
struct Witness(Admission, Arc<Mutex<Vec<u32>>>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.counts().running);
    }
}

/// Fails at once, and is dropped loudly.
struct Failing(#[expect(dead_code, reason = "for its drop")] Witness, u32);

impl Future for Failing {
    type Output = Result<(), u32>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Err(self.1))
    }
}

// rule W7
#[test]
fn each_attempt_is_gone_before_its_permit() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let dropped = Arc::new(Mutex::new(Vec::new()));
    let running = Arc::new(Mutex::new(Vec::new()));
    let policy = {
        let (admission, running) = (admission.clone(), running.clone());
        Retry::times(2).when(move |_| {
            running.lock().unwrap().push(admission.counts().running);
            true
        })
    };
    let mut run = Task::new(
        a.retry(policy)
            .try_run(|attempt| Failing(Witness(admission.clone(), dropped.clone()), attempt.number())),
    );
    assert_eq!(failure(answer(&mut run)), (3, 3));
    assert_eq!(*dropped.lock().unwrap(), [1, 1, 1]);
    assert_eq!(*running.lock().unwrap(), [1, 1], "the policy is asked while the permit is held");

    // Dropped while it runs.
    let run = Task::waiting(a.retry(Retry::times(2)).try_run(|_| {
        let witness = Witness(admission.clone(), dropped.clone());
        async move {
            let _witness = witness;
            pending::<Result<(), u32>>().await
        }
    }));
    drop(run);
    assert_eq!(*dropped.lock().unwrap(), [1, 1, 1, 1]);
    assert_eq!(admission.counts(), NOTHING);
}

/// Panics in its first poll, or in a closure of the policy's, and leaves nothing behind.
fn leaves_nothing<F, Fut>(admission: &Admission, a: &Provider, run: RetryRun<Hand, u32, F, Fut>)
where
    F: FnMut(Attempt) -> Fut,
    Fut: Future<Output = Result<(), u32>>,
{
    let mut run = Task::new(run);
    assert!(catch_unwind(AssertUnwindSafe(|| run_now(&mut run))).is_err());
    assert_eq!(admission.counts(), NOTHING);
    assert!(run_now(&mut run).is_pending(), "it is over");
    let mut next = Task::new(a.acquire());
    drop(next.ready().unwrap());
}

// rule W5
#[test]
fn a_panic_of_the_callers_own_leaves_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let check = |policy: Retry<u32>| {
        leaves_nothing(&admission, &a, a.key("k").retry(policy).try_run(|attempt| fails(&attempt)));
    };
    check(Retry::times(1).when(|_| panic!("predicate")));
    check(Retry::times(1).cooldown(|_| panic!("hook")));
    check(Retry::times(1).when(|error| if *error == 1 { true } else { panic!() }).at_most(9).cooldown(
        |error| {
            assert_eq!(*error, 1, "the second time");
            None
        },
    ));
    check(Retry::backoff(std::iter::repeat_with(|| panic!("delays"))));
    leaves_nothing(
        &admission,
        &a,
        a.retry(Retry::times(1)).try_run(|_| -> Ready<Result<(), u32>> { panic!("closure") }),
    );
    let held = a.try_acquire().unwrap();
    let policy = Retry::times(1).when_refused(|_| panic!("refusal"));
    let call = a.admission_timeout(Duration::ZERO).retry(policy);
    let mut run = Task::new(call.try_run(|attempt| fails(&attempt)));
    assert!(run.poll().is_pending());
    world.advance_to(1);
    assert!(catch_unwind(AssertUnwindSafe(|| run.poll())).is_err());
    assert!(run.poll().is_pending(), "it is over");
    assert_eq!(admission.counts(), counts(1, 0, 0));
    drop(held);

    // The operation's future: its permit is held until it is gone.
    let mut run = Task::new(a.retry(Retry::times(1)).try_run(async |attempt: Attempt| {
        assert_eq!(attempt.number(), 0, "the operation's own");
        Err::<(), u32>(1)
    }));
    assert!(catch_unwind(AssertUnwindSafe(|| run.poll())).is_err());
    assert_eq!(admission.counts(), counts(1, 0, 0));
    drop(run);
    assert_eq!(admission.counts(), NOTHING);
}

// rule W5
#[test]
fn a_policy_may_call_the_coordinator() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let policy = {
        let (mine, hook, refused) = (admission.clone(), a.clone(), a.clone());
        Retry::times(2)
            .when(move |_: &u32| mine.snapshot().provider("a").is_some())
            .cooldown(move |_| {
                hook.cooldown(ms(5)).unwrap();
                assert!(hook.try_acquire().is_err());
                drop(hook.enqueue());
                Some(ms(10))
            })
            .when_refused(move |_| refused.try_acquire().is_ok())
    };
    let held = a.try_acquire().unwrap();
    let call = a.admission_timeout(ms(10)).retry(policy);
    let mut run = Task::waiting(call.try_run(|attempt| fails(&attempt)));
    world.set(11);
    drop(held);
    assert!(run_now(&mut run).is_pending(), "expired, and retried at once; failed, and cools down");
    assert_eq!(admission.counts(), NOTHING);
    world.advance_to(21);
    assert_eq!(failure(run.ready()), (2, 2));
}

// rules L10, Q5
#[test]
fn a_provider_that_is_removed_refuses_the_retry() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let policy = Retry::times(1).delay(ms(100)).cooldown(|_| Some(ms(50)));
    let mut run = Task::new(a.retry(policy.clone()).try_run(|attempt| {
        admission.remove_provider("a").unwrap();
        fails(&attempt)
    }));
    assert!(run.poll().is_pending());
    world.advance_to(100);
    assert!(matches!(refusal(run.ready()), (Rejected::UnknownProvider { .. }, Some(1), 1)));
}

// rule Q5
#[test]
fn without_a_runtime_there_is_no_waiting_to_retry() {
    let world = World::new();
    let (admission, a) = {
        let _entered = world.enter();
        one_at_a_time(&world)
    };
    let policy = Retry::times(1).delay(ms(100));
    let mut run = Task::new(a.retry(policy).try_run(|attempt| fails(&attempt)));
    assert!(matches!(refusal(run.ready()), (Rejected::NoRuntime, Some(1), 1)));
    let mut run = Task::new(a.retry(Retry::times(1)).try_run(|attempt| fails(&attempt)));
    assert_eq!(failure(answer(&mut run)), (2, 2), "without a delay none is needed");
    assert_eq!(admission.counts(), NOTHING);
}

// rule L1
#[test]
fn a_clone_of_a_call_is_another_call() {
    let world = World::new();
    let _entered = world.enter();
    let admission =
        world.builder().unit("tokens").template(|p| p.log(Window::new(9, ms(1_000)).unit("tokens"))).build();
    let admission = admission.unwrap();
    let (handle, signal) = AbortHandle::new();
    let a = admission.provider("made on demand").unwrap();
    let call = a.key("k").cost("tokens", 4).admission_timeout(ms(100)).abort_signal(&signal);
    let clones = [call.clone(), call.clone(), call.clone()];
    drop((a, call));
    let [first, second, third] = clones.map(|call| call.enqueue());
    let (mut first, mut second, mut third) = (Task::new(first), Task::new(second), Task::new(third));
    let permit = first.ready().unwrap();
    assert!(second.poll().is_pending() && third.poll().is_pending(), "the key is busy");
    drop(permit);
    drop(second.ready().unwrap());
    assert!(third.poll().is_pending(), "each costs 4 of 9");
    handle.abort();
    assert!(matches!(third.ready(), Err(Rejected::Aborted(_))), "the same signal");
    assert_eq!(admission.counts(), NOTHING);
}

#[test]
fn policies_and_futures_cross_threads() {
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    fn sent<T: Send + 'static>(_: &T) {}
    let world = World::new();
    let (_admission, a) = one_at_a_time(&world);
    let policy = Retry::<Cell<u32>>::times(3);
    shared(&policy);
    let call = a.retry(policy);
    shared(&call);
    let run = call.clone().try_run(|attempt| async move {
        shared(&attempt);
        Err::<Cell<u32>, _>(Cell::new(attempt.number()))
    });
    sent(&run);
    let words = "RetryCall { call: Call { provider: \"a\"";
    assert!(format!("{call:?}").starts_with(words), "{call:?}");
}
