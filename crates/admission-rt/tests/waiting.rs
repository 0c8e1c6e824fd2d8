//! How a call waits: laziness, order, two polls, and every way out.

mod common;

use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use admission_rt::{Key, Rejected};
use common::{Acquire, Admission, Hand, Provider, Task, World, counts, ms};

fn one_at_a_time(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

// rule W0
#[test]
fn a_future_that_was_not_polled_holds_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let first = a.acquire();
    let mut second = Task::new(a.acquire());
    assert_eq!(admission.counts(), counts(0, 0, 0));
    let _permit = second.ready().unwrap();
    let mut first = Task::new(first);
    assert!(first.poll().is_pending(), "the order is that of first polls");
    assert_eq!(admission.counts(), counts(1, 1, 0));
}

// rule W0
#[test]
fn enqueue_takes_its_place_at_once() {
    let world = World::new();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let first = a.enqueue();
    let second = a.enqueue();
    assert_eq!(admission.counts(), counts(1, 2, 0));
    let _entered = world.enter();
    let (mut first, mut second) = (Task::new(first), Task::new(second));
    assert!(second.poll().is_pending());
    drop(permit);
    assert!(second.poll().is_pending(), "polled first, but behind");
    let permit = first.ready().unwrap();
    drop(permit);
    assert!(second.is_woken());
    drop(second.ready().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule W0, W1
#[test]
fn a_refusal_of_enqueue_is_told_by_the_first_poll() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().max_queued(0).provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let _permit = a.try_acquire().unwrap();
    let mut refused = Task::new(a.enqueue());
    let error = refused.ready().unwrap_err();
    assert!(error.is_overflow());
    assert_eq!(error.to_string(), "a: queue is full, held back by 1 at once");
    assert!(refused.poll().is_pending());
}

// rule S1, W5
#[test]
fn a_wait_is_two_polls_and_one_wake() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let mut waiting = Task::waiting(a.acquire());
    assert_eq!(waiting.wakers_held(), 1);
    drop(permit);
    assert_eq!((waiting.wakes(), waiting.wakers_held()), (1, 0));
    assert_eq!(admission.counts(), counts(0, 0, 1));
    let permit = waiting.ready().unwrap();
    assert_eq!(admission.counts(), counts(1, 0, 0));
    drop(permit);
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!(waiting.wakes(), 1);
}

// rule S6
#[test]
fn a_start_at_once_needs_neither_a_waker_nor_a_runtime() {
    let world = World::new();
    let (admission, a) = one_at_a_time(&world);
    let mut first = Task::new(a.acquire());
    let _permit = first.ready().unwrap();
    assert_eq!(first.wakers_held(), 0);
    assert_eq!(admission.counts(), counts(1, 0, 0));
}

// rule S6: of a call that goes the long way, too
#[test]
fn a_start_at_length_needs_neither_a_waker_nor_a_runtime() {
    let world = World::new();
    let (admission, a) = one_at_a_time(&world);
    let mut first = Task::new(a.key("text").acquire());
    let _permit = first.ready().unwrap();
    assert_eq!(first.wakers_held(), 0);
    assert_eq!(admission.counts(), counts(1, 0, 0));
}

// rule S6
#[test]
fn a_start_past_a_queue_keeps_no_waker_and_needs_no_runtime() {
    let world = World::new();
    let entered = world.enter();
    let builder = world.builder().provider("a", |p| p.max_concurrent(1)).provider("b", |p| p);
    let admission = builder.build().unwrap();
    let (a, b) = (admission.provider("a").unwrap(), admission.provider("b").unwrap());
    let _permit = a.try_acquire().unwrap();
    let _waiting = Task::waiting(a.acquire());
    let mut inside = Task::new(b.acquire());
    let _inside = inside.ready().unwrap();
    assert_eq!(inside.wakers_held(), 0);
    drop(entered);
    let mut outside = Task::new(b.acquire());
    let _outside = outside.ready().unwrap();
    let mut lost = Task::new(a.acquire());
    assert!(matches!(lost.ready(), Err(Rejected::NoRuntime)));
    assert_eq!(admission.counts(), counts(3, 1, 0));
}

#[test]
fn waiting_outside_a_runtime_is_an_error_of_its_own() {
    let world = World::new();
    let (admission, a) = one_at_a_time(&world);
    let _permit = a.try_acquire().unwrap();
    let mut lost = Task::new(a.acquire());
    assert!(matches!(lost.ready(), Err(Rejected::NoRuntime)));
    assert_eq!(admission.counts(), counts(1, 0, 0), "nothing is left in the queue");
}

#[test]
fn after_the_answer_a_future_stays_pending() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let mut call = Task::new(a.acquire());
    let permit = call.ready().unwrap();
    assert!(call.poll().is_pending());
    drop(permit);
    assert!(call.poll().is_pending());
    admission.close();
    let mut refused = Task::new(a.acquire());
    assert!(refused.ready().unwrap_err().is_closed());
    assert!(refused.poll().is_pending());
    assert_eq!((call.wakers_held(), refused.wakers_held()), (0, 0));
}

// rule W3, W5
#[test]
fn a_dropped_waiter_leaves_at_once_and_keeps_the_order() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let first = Task::waiting(a.acquire());
    let dropped = Task::waiting(a.acquire());
    let last = Task::waiting(a.acquire());
    drop(dropped);
    assert_eq!(admission.counts(), counts(1, 2, 0));
    drop(permit);
    assert_eq!((first.wakes(), last.wakes()), (1, 0));
}

// rule S3, W5
#[test]
fn a_grant_that_is_dropped_passes_the_turn_on() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    for _ in 0..10_000 {
        let permit = a.try_acquire().unwrap();
        let granted = Task::waiting(a.acquire());
        drop(permit);
        assert_eq!(admission.counts(), counts(0, 0, 1));
        let mut next = Task::waiting(a.acquire());
        drop(granted);
        assert!(next.is_woken());
        drop(next.ready().unwrap());
        assert_eq!(admission.counts(), counts(0, 0, 0));
    }
}

// rule S3
#[test]
fn a_grant_that_is_dropped_has_spent_its_budget() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let granted = Task::waiting(a.acquire());
    world.advance_to(100);
    assert!(granted.is_woken());
    world.advance_to(150);
    drop(granted);
    let error = a.try_acquire().unwrap_err();
    assert_eq!(error.retry_after(), Some(ms(50)), "as of the grant, at 100");
    assert_eq!(
        error.to_string(),
        "a: may not start at once, held back by 100 ms apart; try again in at least 50 ms"
    );
}

// rule S4
#[test]
fn a_grant_that_nobody_takes_is_passed_on_by_an_alarm() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let mut idler = Task::waiting(a.acquire());
    let mut next = Task::waiting(a.acquire());
    drop(permit);
    assert!(idler.is_woken());
    world.advance_to(199);
    assert_eq!(next.wakes(), 0);
    world.advance_to(200);
    assert_eq!(next.wakes(), 1);
    assert_eq!(admission.counts(), counts(0, 1, 1));
    let permit = next.ready().unwrap();
    assert!(idler.poll().is_pending(), "has its place again");
    drop(permit);
    assert_eq!(idler.wakes(), 2);
    drop(idler.ready().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!(world.armed(), None);
}

// rule S4
#[test]
fn a_poll_that_finds_its_grant_starts_however_late() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let mut late = Task::waiting(a.acquire());
    drop(permit);
    world.set(100_000);
    let _permit = late.ready().unwrap();
    assert_eq!(admission.counts(), counts(1, 0, 0));
}

// rule W5, W6
#[test]
fn a_poll_that_is_before_its_alarm_leaves_nothing_behind() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let mut started = Task::waiting(a.acquire());
    let mut expired = Task::waiting(a.admission_timeout(ms(150)).acquire());
    world.set(160);
    let permit = started.ready().unwrap();
    assert_eq!((started.wakers_held(), world.armed()), (0, None), "it never was woken");
    drop(permit);
    assert!(expired.is_woken(), "its time was over, and this call let time pass");
    assert!(expired.ready().unwrap_err().is_admission_timeout());
    let mut second = Task::waiting(a.admission_timeout(ms(50)).acquire());
    world.set(300);
    assert!(second.ready().unwrap_err().is_admission_timeout());
    for task in [started, expired, second] {
        assert_eq!(task.wakers_held(), 0);
    }
    assert_eq!(world.armed(), None);
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule S5
#[test]
fn a_ticket_whose_grant_is_taken_back_is_served_unpolled() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let mut granted = Task::waiting(a.acquire());
    drop(permit);
    assert_eq!(admission.counts(), counts(0, 0, 1));
    a.cooldown(ms(1_000)).unwrap();
    assert_eq!(admission.counts(), counts(0, 1, 0));
    assert_eq!(world.armed(), Some(1_000), "by the alarm of its last poll");
    world.advance_to(1_000);
    assert_eq!(admission.counts(), counts(0, 0, 1));
    drop(granted.ready().unwrap());
}

// rule W2
#[test]
fn a_deadline_ends_the_wait_by_an_alarm() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let _permit = a.try_acquire().unwrap();
    // One that fits into the future, and two that need its box.
    for (timeout, nanos) in [
        (ms(300), 300_000_001),
        (Duration::from_nanos(1_500_000), 1_500_001),
        (Duration::from_secs(20_000), 20_000_000_000_001),
    ] {
        world.set(0);
        let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
        let a = admission.provider("a").unwrap();
        let _permit = a.try_acquire().unwrap();
        let mut waiting = Task::waiting(a.admission_timeout(timeout).key(1).acquire());
        let face = world.faces() - 1;
        assert_eq!(face, 0, "one world, one alarm at a time");
        assert_eq!(world.armed_nanos(), Some(nanos));
        world.set_nanos(nanos - 1);
        world.ring_early();
        assert!(waiting.poll().is_pending(), "at the deadline itself a grant would win");
        world.set_nanos(nanos);
        world.ring();
        assert!(waiting.is_woken());
        let error = waiting.ready().unwrap_err();
        assert!(error.is_admission_timeout());
        assert_eq!(error.to_string(), "a: not admitted in time, held back by 1 at once");
        assert_eq!(world.armed(), None);
    }
    assert_eq!(admission.counts(), counts(1, 0, 0));
}

// rule W4
#[test]
fn close_resolves_every_waiter_in_that_call() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world
        .builder()
        .max_concurrent(2)
        .provider("a", |p| p.max_concurrent(1))
        .provider("b", |p| p)
        .build()
        .unwrap();
    let (a, b) = (admission.provider("a").unwrap(), admission.provider("b").unwrap());
    let running = a.key("k").try_acquire().unwrap();
    b.cooldown(ms(60_000)).unwrap();
    let mut waiting = vec![
        Task::waiting(a.acquire()),
        Task::waiting(a.acquire()),
        Task::waiting(b.acquire()),
        Task::waiting(a.key("k").acquire()),
        Task::waiting(a.admission_timeout(ms(500)).acquire()),
    ];
    world.advance_to(100);
    let mut closed = Task::waiting(admission.closed());
    admission.close();
    assert_eq!(admission.counts(), counts(1, 0, 0));
    closed.ready();
    for waiting in &mut waiting {
        assert_eq!(waiting.wakes(), 1);
        assert!(waiting.ready().unwrap_err().is_closed());
    }
    assert_eq!(world.armed(), None);
    assert!(b.try_acquire().unwrap_err().is_closed());
    world.advance_to(200);
    drop(running);
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!(world.armed(), None);
}

// rule W4
#[test]
fn one_can_wait_until_it_is_idle() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    Task::new(admission.idle()).ready();
    let permit = a.try_acquire().unwrap();
    let waiting = Task::waiting(a.acquire());
    let mut idle = Task::waiting(admission.idle());
    let dropped = Task::waiting(admission.idle());
    drop(permit);
    assert_eq!(idle.wakes(), 0);
    drop(waiting);
    assert_eq!((idle.wakes(), idle.wakers_held()), (1, 0));
    // It was idle, if only for a moment.
    let _permit = a.try_acquire().unwrap();
    idle.ready();
    assert!(idle.poll().is_pending(), "and if asked again, it is not");
    drop((idle, dropped));
}

// rule S4, T6
#[test]
fn an_unclaimed_grant_does_not_keep_idle_waiting() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let idler = Task::waiting(a.admission_timeout(ms(1_000)).acquire());
    drop(permit);
    assert_eq!(world.armed(), None, "nothing is queued, and nobody waits for idle");
    let mut idle = Task::waiting(admission.idle());
    assert_eq!(world.armed(), Some(200), "somebody does");
    world.advance_to(200);
    assert_eq!(world.armed(), Some(1_000), "the ticket is back in the queue, passed over");
    world.advance_to(1_001);
    assert_eq!(idle.wakes(), 1);
    idle.ready();
    assert_eq!(world.armed(), None);
    drop(idler);
}

// rule W6
#[test]
fn calls_are_served_when_all_handles_are_gone() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    let permit = a.try_acquire().unwrap();
    let mut waiting = Task::waiting(a.acquire());
    drop((admission, a));
    world.advance_to(100);
    assert!(waiting.is_woken());
    drop(permit);
    drop(waiting.ready().unwrap());
    drop(waiting);
    assert_eq!(world.faces(), 0, "the last to go takes the alarm with it");
}

// rule L1, E6, D3
#[test]
fn one_call_per_key_runs_at_a_time() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p).provider("b", |p| p).build().unwrap();
    let (a, b) = (admission.provider("a").unwrap(), admission.provider("b").unwrap());
    let text = String::from("repo");
    let permit = a.key("repo").try_acquire().unwrap();
    assert!(b.key(text).try_acquire().is_err(), "one name in the whole coordinator");
    let error = a.key("repo").try_acquire().unwrap_err();
    let words = "a: may not start at once, held back by its key, which a call to a has";
    assert_eq!(error.to_string(), words);
    let _other = a.key("Repo").try_acquire().unwrap();
    let mut next = Task::waiting(b.key("repo").acquire());
    drop(permit);
    let permit = next.ready().unwrap();
    drop(next);
    assert!(a.key("repo").try_acquire().is_err(), "the permit keeps the key, the future need not");
    drop(permit);
    for number in [7, u64::MAX, 1 << 63, (1 << 63) + 1] {
        let _permit = a.key(number).try_acquire().unwrap();
        assert!(a.key(number).try_acquire().is_err());
        let _text = a.key("repo").try_acquire().unwrap();
    }
    assert_eq!(Key::from("repo").to_string(), "repo");
}

// rule L3, L6, D5
#[test]
fn costs_are_stated_by_unit() {
    let world = World::new();
    let _entered = world.enter();
    let window = admission_rt::Window::new(1_000, ms(60_000)).unit("tokens");
    let admission = world.builder().provider("llm", |p| p.log(window)).unit("tokens").build().unwrap();
    let llm = admission.provider("llm").unwrap();
    drop(llm.cost("tokens", 600).try_acquire().unwrap());
    let error = llm.cost("tokens", 600).try_acquire().unwrap_err();
    let words = "llm: may not start at once, held back by 1000 tokens per 60 s; try again in at least 60 s";
    assert_eq!(error.to_string(), words);
    drop(llm.cost("tokens", 400).try_acquire().unwrap());
    drop(llm.try_acquire().unwrap());

    let error = llm.cost("tokens", 1_001).try_acquire().unwrap_err();
    assert!(matches!(error, Rejected::ImpossibleCost { cost: 1_001, allowed: 1_000, .. }), "{error}");
    let error = llm.cost("bytes", 1).cost("tokens", 2_000).try_acquire().unwrap_err();
    assert!(matches!(&error, Rejected::UnknownUnit(unit) if **unit == *"bytes"), "{error}");
    assert!(matches!(llm.cost("requests", 1).try_acquire(), Err(Rejected::UnknownUnit(_))));
    admission.close();
    assert!(llm.cost("bytes", 1).try_acquire().unwrap_err().is_closed(), "closed comes first");
}

// rule E5, W6
#[test]
fn two_runtimes_share_one_coordinator() {
    let (world, other) = {
        let world = World::new();
        let other = world.twin();
        (world, other)
    };
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let here = {
        let _entered = world.enter();
        Task::waiting(a.acquire())
    };
    let mut there = {
        let _entered = other.enter();
        Task::waiting(a.on::<Hand>().acquire())
    };
    assert_eq!((world.armed(), other.armed()), (Some(100), Some(100)));
    // The first runtime is stuck; the second serves both.
    other.advance_to(100);
    assert!(here.is_woken());
    drop(here);
    assert_eq!((world.armed(), other.armed()), (None, Some(200)), "nobody waits in the first");
    other.advance_to(200);
    drop(there.ready().unwrap());
    assert_eq!((world.armed(), other.armed()), (None, None));
}

#[test]
fn names_are_checked_when_they_are_given() {
    use admission_rt::{BuildError, Interval, Scope, Window};
    let world = World::new();
    let a = || Scope::Provider("a".into());
    let wrong = |build: fn(admission_rt::Builder<Hand>) -> admission_rt::Builder<Hand>| {
        build(world.builder()).build().err()
    };
    assert_eq!(
        wrong(|b| b.provider("a", |p| p).provider("a", |p| p)),
        Some(BuildError::DuplicateProvider("a".into()))
    );
    assert_eq!(wrong(|b| b.unit("x").unit("x")), Some(BuildError::DuplicateUnit("x".into())));
    assert_eq!(wrong(|b| b.unit("requests")), Some(BuildError::DuplicateUnit("requests".into())));
    assert_eq!(
        wrong(|b| b.provider("a", |p| p.log(Window::new(1, ms(1)).unit("x")))),
        Some(BuildError::UnknownUnit { scope: a(), unit: "x".into() })
    );
    assert_eq!(
        wrong(|b| b.provider("a", |p| p.max_concurrent(0))),
        Some(BuildError::ZeroConcurrency { scope: a() })
    );
    assert_eq!(wrong(|b| b.interval(ms(0))), Some(BuildError::ZeroInterval { scope: Scope::Client }));
    assert_eq!(
        wrong(|b| b.provider("a", |p| p.paced(Interval::new(ms(0)).margin(ms(5))))),
        Some(BuildError::ZeroInterval { scope: a() })
    );
    assert_eq!(wrong(|b| b.window(0, ms(1))), Some(BuildError::ZeroLimit { scope: Scope::Client }));
    assert_eq!(wrong(|b| b.hand_off(Duration::ZERO)), Some(BuildError::HandOffTooShort));
    assert_eq!(
        BuildError::ZeroLimit { scope: a() }.to_string(),
        "provider a: a limit of 0 would admit nothing"
    );

    let admission = world.builder().provider("a", |p| p).build().unwrap();
    assert_eq!(admission.provider("b").unwrap_err().to_string(), "unknown provider: b");
    assert!(admission.cooldown("b", ms(1)).is_err());
    assert_eq!(admission.provider("a").unwrap().name(), "a");
}

#[test]
fn futures_are_small_and_go_anywhere() {
    fn goes_anywhere<T: Send + Unpin + 'static>() {}
    fn is_shared<T: Send + Sync + 'static>() {}
    assert!(size_of::<Acquire>() <= 32);
    assert!(size_of::<admission_rt::Permit>() <= 32);
    goes_anywhere::<Acquire>();
    goes_anywhere::<admission_rt::Idle>();
    goes_anywhere::<admission_rt::Closed>();
    goes_anywhere::<admission_rt::Aborted>();
    goes_anywhere::<admission_rt::Start<Hand>>();
    goes_anywhere::<admission_rt::Run<Hand, fn() -> std::future::Ready<()>, std::future::Ready<()>>>();
    goes_anywhere::<admission_rt::TryRun<Hand, fn() -> std::future::Ready<()>, std::future::Ready<()>>>();
    is_shared::<Acquire>();
    is_shared::<Admission>();
    is_shared::<Provider>();
    is_shared::<admission_rt::Call<Hand>>();
    is_shared::<admission_rt::Permit>();
    is_shared::<admission_rt::AbortSignal>();
    is_shared::<admission_rt::AbortHandle>();
    is_shared::<admission_rt::runtime::Bell>();
    is_shared::<common::RateLimiter>();
    is_shared::<common::IntervalLimiter>();
    is_shared::<Rejected>();
}

#[test]
fn a_coordinator_can_be_a_static() {
    static ADMISSION: std::sync::LazyLock<Admission> = std::sync::LazyLock::new(|| {
        Admission::builder().provider("a", |p| p.max_concurrent(1)).build().unwrap()
    });
    let _permit = ADMISSION.provider("a").unwrap().try_acquire().unwrap();
    assert_eq!(ADMISSION.counts(), counts(1, 0, 0));
    let words = format!("{:?}", *ADMISSION);
    assert!(words.starts_with("Admission { counts: "), "{words}");
}

/// Takes a permit when it is woken, and keeps it.
struct Takes {
    provider: Provider,
    permits: Mutex<Vec<admission_rt::Permit>>,
}

impl Wake for Takes {
    fn wake(self: Arc<Self>) {
        let permit = self.provider.try_acquire().unwrap();
        self.permits.lock().unwrap().push(permit);
    }
}

// rule W4
#[test]
fn an_idle_moment_is_not_missed_though_many_are_woken_before() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p).provider("b", |p| p).build().unwrap();
    let (a, b) = (admission.provider("a").unwrap(), admission.provider("b").unwrap());
    a.cooldown(ms(10_000)).unwrap();
    let takes = Arc::new(Takes { provider: b, permits: Mutex::default() });
    let waker = Waker::from(takes.clone());
    let mut waiting: Vec<_> = (0..40).map(|_| Task::new(a.admission_timeout(ms(5)).acquire())).collect();
    for task in &mut waiting {
        assert!(task.poll_with(&waker).is_pending());
    }
    let mut idle = Task::waiting(admission.idle());
    world.advance_to(6);
    assert!(admission.counts().running > 0, "whoever was woken keeps it busy");
    assert!(idle.is_woken(), "all 40 expired in one call, and then there was nobody");
    idle.ready();
}

// rule W4
#[test]
fn all_who_wait_for_idle_are_told_though_the_first_makes_it_busy() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let takes = Arc::new(Takes { provider: a, permits: Mutex::default() });
    let mut first = Task::new(admission.idle());
    assert!(first.poll_with(&Waker::from(takes.clone())).is_pending());
    let mut others: Vec<_> = (0..40).map(|_| Task::waiting(admission.idle())).collect();
    drop(permit);
    assert_eq!(admission.counts(), counts(1, 0, 0));
    for task in &mut others {
        assert!(task.is_woken());
        task.ready();
    }
}
