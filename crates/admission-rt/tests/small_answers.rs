//! Small questions that no other test asks: what a coordinator, a refusal, a stream and a query say of themselves.
//!
//! Owns: one scene for each small change of the code that went unnoticed (`cargo xtask mutants`). Lacks turns, wakes
//! and alarms, which have `small_print.rs`.

mod common;

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use admission_rt::runtime::{Clock, SystemClock};
use admission_rt::{
    AbortReason, AdmissionStreamExt, Attempt, BuildError, Counts, Instant, Interval, LimitKind, Query,
    Rejected, Retry,
};
use common::{Admission, Provider, RateLimiter, Task, World, counts, ms};
use futures_util::StreamExt;
use futures_util::stream::{FusedStream, Stream, iter};

fn one_at_a_time(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

// rule D2
#[test]
fn a_reset_forgets_what_the_clients_window_has_counted() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().window(1, ms(1_000)).provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    assert!(a.try_acquire().is_err());
    admission.reset();
    drop(a.try_acquire().unwrap());
}

// rule W4
#[test]
fn a_coordinator_says_whether_it_is_closed() {
    let world = World::new();
    let (admission, _) = one_at_a_time(&world);
    assert!(!admission.is_closed());
    admission.close();
    assert!(admission.is_closed());
}

// rule R1
#[test]
fn a_refusal_is_of_one_kind() {
    let provider = Arc::<str>::from("p");
    let all = [
        Rejected::Aborted(AbortReason::Requested),
        Rejected::Closed,
        Rejected::Removed { provider: provider.clone() },
        Rejected::UnknownProvider { provider },
        Rejected::Overflow { held_by: None, retry_after: None },
        Rejected::AdmissionTimeout { held_by: None, retry_after: None },
        Rejected::NoRuntime,
    ];
    let kinds = all.map(|rejected| {
        let asked = [
            rejected.is_aborted(),
            rejected.is_closed(),
            rejected.is_removed(),
            rejected.is_overflow(),
            rejected.is_admission_timeout(),
        ];
        asked.map(u8::from)
    });
    let [one, two, three, four, five] = std::array::from_fn(|nth| {
        let mut kind = [0; 5];
        kind[nth] = 1;
        kind
    });
    assert_eq!(kinds, [one, two, three, three, four, five, [0; 5]]);
}

// rule O2
#[test]
fn what_holds_a_call_back_is_named_with_whose_it_is_and_for_how_long() {
    let world = World::new();
    let _entered = world.enter();
    let builder = world.builder().max_concurrent(1).provider("a", |p| p).provider("b", |p| p);
    let admission = builder.build().unwrap();
    let (a, b) = (admission.provider("a").unwrap(), admission.provider("b").unwrap());
    let permit = a.key(1).acquire();
    let permit = Task::new(permit).ready().unwrap();
    world.set(10);
    let older = Task::waiting(b.acquire());
    world.set(30);
    let waits = Task::waiting(a.key(1).acquire());
    b.cooldown(ms(500)).unwrap();
    world.set(60);
    let waiting = waits.future.explain().unwrap();
    assert_eq!((waiting.time_left, waiting.not_before), (None, None));
    let kinds: Vec<_> = waiting.held_by.iter().map(|held| held.limit.kind.clone()).collect();
    let key = kinds.iter().find_map(|kind| match kind {
        LimitKind::Key(Some(other)) => Some((&*other.provider, other.runs, other.time)),
        _ => None,
    });
    assert_eq!(key, Some(("a", true, ms(30))), "nobody knew of it before the other came");
    assert!(waiting.held_by.iter().all(|held| held.time_left.is_none()), "time ends none of it");
    let cold = older.future.explain().unwrap();
    assert_eq!(cold.not_before, Some(ms(470)));
    world.set(530);
    assert_eq!(older.future.explain().unwrap().not_before, None, "it is over");
    b.cooldown(std::time::Duration::MAX).unwrap();
    assert_eq!(older.future.explain().unwrap().not_before, None, "it never is");
    let words = cold.to_string();
    assert!(words.contains("held back by") && !words.contains("the client's cooldown"), "{words}");
    drop((permit, waits, older));
}

// rule T4
#[test]
fn the_systems_clock_moves() {
    let clock = SystemClock::new();
    assert!((0..1_000_000).any(|_| clock.now() > Instant::ZERO));
}

// rule O1
#[test]
fn a_snapshot_tells_of_the_clients_pacers() {
    let world = World::new();
    let builder = world.builder().max_concurrent(3).paced(Interval::new(ms(20))).provider("a", |p| p);
    let admission = builder.build().unwrap();
    let client = admission.snapshot().client;
    assert_eq!((client.max_concurrent, client.pacers.len()), (Some(3), 1));
}

// rules L7, O2
#[test]
fn a_limit_that_has_changed_since_is_not_named_as_it_is_now() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let _permit = a.try_acquire().unwrap();
    let mut waits = Task::waiting(a.admission_timeout(ms(100)).acquire());
    world.set(150);
    a.set_limits(|p| p.max_concurrent(7)).unwrap();
    let refused = waits.ready().unwrap_err();
    assert!(refused.is_admission_timeout());
    assert_eq!(refused.held_by().map(|limit| &limit.kind), Some(&LimitKind::Changed));
}

// rule L1
#[test]
fn the_last_number_of_a_unit_stays_free() {
    let world = World::new();
    // Beside them there are the requests.
    let with =
        |units: u16| (1..units).fold(world.builder(), |builder, n| builder.unit(n.to_string())).build();
    assert!(with(u16::MAX - 1).is_ok());
    assert_eq!(with(u16::MAX).err(), Some(BuildError::TooManyUnits));
}

// rule O2
#[test]
fn what_is_made_of_a_coordinator_can_be_printed() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let is = |it: &dyn std::fmt::Debug, name: &str| assert!(format!("{it:?}").starts_with(name), "{it:?}");
    let rate = RateLimiter::builder(1, ms(1_000)).clock(world.clock()).build().unwrap();
    is(&rate, "RateLimiter {");
    let permit = rate.try_acquire().unwrap();
    assert_eq!(rate.counts(), counts(1, 0, 0));
    drop(permit);
    assert_eq!(rate.counts(), Counts::default());
    is(&Retry::<u32>::times(1), "Retry");
    let query: Query<u32, ()> = a.query("k").build(|_| std::future::ready(Ok(1)));
    is(&query, "Query {");
    let map = || iter([1_u32, 2]).map_admitted(a.call(), |n, _| std::future::ready(Ok::<_, ()>(n)));
    is(&map(), "MapAdmitted");
    assert!(format!("{:?}", map().per_item(|_, call| call)).contains("PerItem"));
    is(&map().driven(), "DrivenMap");
    is(&map().spawned(), "SpawnedMap");
}

// rule I4
#[test]
fn a_spawned_stream_counts_what_is_under_way_and_what_is_finished() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let map = iter([1_u32, 2, 3]).map_admitted(a.call(), |n, _| std::future::ready(Ok::<_, ()>(n)));
    let mut stream = map.concurrency(3).spawned();
    assert_eq!(stream.size_hint(), (3, Some(3)));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(stream.poll_next_unpin(&mut cx).is_pending());
    assert_eq!((stream.in_flight(), stream.finished()), (3, 0));
    world.run();
    assert!(stream.poll_next_unpin(&mut cx).is_ready());
    assert_eq!((stream.in_flight(), stream.finished()), (0, 2));
    assert_eq!(stream.size_hint(), (2, Some(2)));
}

// rule I4
#[test]
fn a_driven_stream_counts_what_is_under_way() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let map = iter([1_u32, 2]).map_admitted(a.call(), |_, _| std::future::pending::<Result<u32, ()>>());
    let mut stream = map.concurrency(2).driven();
    assert!(stream.poll_next_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!((stream.in_flight(), stream.finished()), (2, 0));
}

// rules I4, W0
#[test]
fn a_spawned_item_has_its_place_before_its_task_runs() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let map = iter([1_u32, 2]).map_admitted(a.call(), |n, _| std::future::ready(Ok::<_, ()>(n)));
    let mut stream = map.concurrency(2).spawned();
    assert!(stream.poll_next_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(admission.counts(), counts(1, 2, 0));
    drop((stream, permit));
}

// rule I4
#[test]
fn a_paced_stream_says_whether_it_has_ended() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let mut cx = Context::from_waker(Waker::noop());
    let mut paced = iter([1_u32]).paced(a.call());
    assert!(!paced.is_terminated());
    while !paced.is_terminated() {
        assert!(paced.poll_next_unpin(&mut cx).is_ready());
    }
    assert!(matches!(paced.poll_next_unpin(&mut cx), Poll::Ready(None)));
}

// rules I4, W3
#[test]
fn a_spawned_try_stream_takes_out_who_waits_when_an_item_fails() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let operation = |n: u32, _: Attempt| async move {
        if n > 0 {
            std::future::pending::<()>().await;
        }
        Err::<u32, _>(n)
    };
    let mut stream = iter([0_u32, 1, 2]).try_map_admitted(a.call(), operation).concurrency(3).spawned();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(stream.poll_next_unpin(&mut cx).is_pending());
    world.run();
    assert_eq!(admission.counts(), counts(1, 1, 0));
    assert!(matches!(stream.poll_next_unpin(&mut cx), Poll::Ready(Some(Err(_)))));
    assert_eq!(admission.counts(), counts(1, 0, 0), "what runs is told, and has to end by itself");
    drop(stream);
}

// rule Q10
#[test]
fn a_query_that_is_paused_or_disposed_of_twice_says_so_once() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let query: Query<u32, ()> = a.query("k").build(|_| std::future::ready(Ok(1)));
    query.pause();
    let paused = query.snapshot();
    query.pause();
    assert_eq!(query.snapshot().version, paused.version);
    query.dispose();
    let disposed = query.snapshot();
    query.pause();
    assert_eq!((query.snapshot().version, query.snapshot().status), (disposed.version, disposed.status));
}

// rules S2, O2
#[test]
fn who_waits_for_a_grant_to_start_its_gap_is_held_back_by_the_hand_off() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.interval(ms(100))).build().unwrap();
    let a = admission.provider("a").unwrap();
    drop(a.try_acquire().unwrap());
    let (_granted, waits) = (Task::waiting(a.acquire()), Task::waiting(a.acquire()));
    world.advance_to(100);
    assert_eq!(admission.counts(), counts(0, 1, 1));
    let why = waits.future.explain().unwrap();
    assert!(why.held_by.iter().any(|held| held.limit.kind == LimitKind::HandOff), "{why}");
}

// rule W1
#[test]
fn so_many_wait_for_a_rate_limiter_unless_it_is_told_otherwise() {
    let world = World::new();
    let _entered = world.enter();
    let rate = RateLimiter::builder(1, ms(1_000)).clock(world.clock()).build().unwrap();
    drop(rate.try_acquire().unwrap());
    let mut cx = Context::from_waker(Waker::noop());
    let mut waiting: Vec<_> = (0..=65_536).map(|_| rate.acquire()).collect();
    let mut last = waiting.pop().unwrap();
    assert!(waiting.iter_mut().all(|waits| waits.poll_acquire(&mut cx).is_pending()));
    let Poll::Ready(Err(refused)) = last.poll_acquire(&mut cx) else { panic!("there is no room for it") };
    assert!(refused.is_overflow());
}
