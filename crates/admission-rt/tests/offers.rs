//! Granted calls that start without a turn of the lock.
//!
//! Owns: what is said of them, and when the place is closed to them. Lacks the races (`races/offers.rs`), and the count of
//! readings where time matters (`clock.rs`).

mod common;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use admission_rt::Rejected;
use common::dice::Dice;
use common::{Acquire, Admission, Provider, Task, World, counts, ms, within};

/// A coordinator that takes one call at a time, and whose grants last five milliseconds.
fn one_at_a_time(world: &World) -> (Admission, Provider) {
    let admission = world.builder().hand_off(ms(5)).max_concurrent(1).provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

/// The same, and four that wait, the first of which is granted and offered.
fn offered(world: &World) -> (Admission, Provider, [Task<Acquire>; 3]) {
    let (admission, a) = one_at_a_time(world);
    let permit = a.try_acquire().unwrap();
    let mut before = Task::waiting(a.acquire());
    let waiting = [(); 3].map(|()| Task::waiting(a.acquire()));
    drop(permit);
    drop(before.ready().unwrap());
    assert!(waiting[0].is_woken());
    (admission, a, waiting)
}

// rules S1, L1, W7
#[test]
fn who_has_started_without_a_turn_runs_and_no_look_says_otherwise() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let [mut first, mut second] = [1, 2].map(|key| Task::waiting(a.key(key).acquire()));
    let mut third = Task::waiting(a.acquire());
    drop(permit);
    let first = first.ready().unwrap();
    assert_eq!(admission.counts(), counts(1, 2, 0));
    drop(first);
    // Nobody looks between the start and the end.
    drop(second.ready().unwrap());
    assert_eq!(admission.counts(), counts(0, 0, 1));
    let permit = third.ready().unwrap();
    assert!(a.try_acquire().is_err(), "one runs");
    drop(permit);
    assert_eq!((admission.counts(), world.armed()), (counts(0, 0, 0), None));
}

// rules S4, L1: it has started in time, and keeps what it has
#[test]
fn who_has_started_without_a_turn_is_not_taken_back() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let [mut first, second] = [(); 2].map(|()| Task::waiting(a.acquire()));
    drop(permit);
    let permit = first.ready().unwrap();
    world.advance_to(20);
    assert!(!second.is_woken());
    assert_eq!(admission.counts(), counts(1, 1, 0));
    drop(permit);
    assert!(second.is_woken());
}

// rules S4, S5: what takes a grant back takes the offer back first
#[test]
fn who_comes_too_late_does_not_start() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let [mut first, mut second] = [(); 2].map(|()| Task::waiting(a.acquire()));
    drop(permit);
    world.advance_to(5);
    assert!(first.poll().is_pending(), "its grant is another's");
    let permit = second.ready().unwrap();
    drop(permit);
    drop(first.ready().unwrap());
    let permit = a.try_acquire().unwrap();
    let [mut first, mut second] = [(); 2].map(|()| Task::waiting(a.acquire()));
    drop(permit);
    a.cooldown(ms(10)).unwrap();
    assert!(first.poll().is_pending(), "it cools down");
    world.advance_to(15);
    drop(first.ready().unwrap());
    drop(second.ready().unwrap());
    assert_eq!((admission.counts(), world.armed()), (counts(0, 0, 0), None));
}

// rules T6, S4
#[test]
fn an_alarm_that_is_set_for_a_grant_while_somebody_waits_for_idle_goes_with_its_start() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let [mut first, mut last] = [(); 2].map(|()| Task::waiting(a.acquire()));
    let mut idle = Task::waiting(admission.idle());
    drop(permit);
    let permit = first.ready().unwrap();
    world.set(1);
    drop(permit);
    assert_eq!(world.armed(), Some(5), "it is early enough, and stays");
    let permit = last.ready().unwrap();
    assert_eq!(world.armed(), None);
    drop(permit);
    idle.ready();
}

// rule W3: the signal is asked right before the start
#[test]
fn who_was_aborted_after_its_grant_does_not_start() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let (handle, signal) = admission_rt::AbortHandle::new();
    let mut first = Task::waiting(a.abort_signal(&signal).acquire());
    let second = Task::waiting(a.acquire());
    drop(permit);
    handle.abort_with("enough");
    assert!(first.ready().is_err());
    assert!(second.is_woken(), "the next one has its turn");
}

// rules W5, T6: an alarm that the granted call was the last to count on goes with its wait
#[test]
fn a_grant_leaves_no_alarm_set_in_a_runtime_where_nobody_waits() {
    let world = World::new();
    let there = world.twin();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let mut first = Task::waiting(a.acquire());
    let second = {
        let _entered = there.enter();
        Task::waiting(a.acquire())
    };
    let third = Task::waiting(a.acquire());
    drop(permit);
    let permit = first.ready().unwrap();
    assert_eq!((world.armed(), there.armed()), (Some(5), Some(5)));
    drop(permit);
    assert!(second.is_woken());
    assert_eq!((world.armed(), there.armed()), (Some(5), None), "it is set for those who wait");
    drop((second, third));
    assert_eq!((admission.counts(), world.armed(), there.armed()), (counts(0, 0, 0), None, None));
}

// rules W4, L7, L10, S5: what comes between a grant and its start finds a grant, offered or not
#[test]
fn an_offer_is_a_grant_to_whatever_comes_before_its_start() {
    type Act = fn(&Admission, &Provider);
    let acts: [(&str, Act); 6] = [
        ("close", |admission, _| admission.close()),
        ("removal", |admission, _| admission.remove_provider("a").unwrap()),
        ("limits", |_, a| a.set_limits(|p| p.max_concurrent(1)).unwrap()),
        ("the client's limits", |admission, _| admission.set_limits(|p| p.max_concurrent(1)).unwrap()),
        ("reset", |_, a| a.reset().unwrap()),
        ("a cooldown of no length", |_, a| a.cooldown(ms(0)).unwrap()),
    ];
    for (what, act, is_again) in
        acts.into_iter().flat_map(|(what, act)| [(what, act, false), (what, act, true)])
    {
        let world = World::new();
        let _entered = world.enter();
        let (admission, a, mut waiting) = offered(&world);
        if is_again {
            // A turn comes before it, and one after it.
            drop(Task::waiting(a.acquire()));
        }
        act(&admission, &a);
        if is_again {
            assert!(a.try_acquire().is_err());
        }
        for (nth, task) in waiting.iter_mut().enumerate() {
            match (what, task.poll()) {
                ("removal", Poll::Ready(Err(Rejected::Removed { .. }))) => {}
                ("close", Poll::Ready(Err(Rejected::Closed))) => assert_ne!(nth, 0, "it may still start"),
                (_, Poll::Ready(Ok(permit))) => drop(permit),
                (_, answer) => panic!("{what}, {nth}: {answer:?}"),
            }
        }
        assert_eq!((admission.counts(), world.armed()), (counts(0, 0, 0), None), "{what}");
    }
}

// rules E1, L1, S4, W7: tasks that loop ask again before whoever they have let go is polled, some of them late
#[test]
fn tasks_that_ask_again_at_once_have_their_turns_in_order() {
    for dawdles in [0, 3, 7] {
        let world = World::new();
        let _entered = world.enter();
        let (admission, a) = one_at_a_time(&world);
        let mut permit = a.try_acquire().unwrap();
        let mut waiting: VecDeque<_> = [(); 3].map(|()| Task::waiting(a.acquire())).into();
        for round in 1..20 {
            drop(permit);
            waiting.push_back(Task::waiting(a.acquire()));
            assert_eq!(admission.counts(), counts(0, 3, 1), "round {round}");
            let mut first = waiting.pop_front().unwrap();
            assert!(first.is_woken() && !waiting[0].is_woken(), "round {round}");
            let is_late = round % 4 == 0;
            if is_late {
                world.set(world.now_millis() + dawdles);
                drop(Task::waiting(a.acquire()));
            }
            permit = if is_late && dawdles > 5 {
                // That turn has taken its grant back, and it is the first again when it is polled.
                assert!(first.poll().is_pending());
                let permit = waiting.pop_front().unwrap().ready().unwrap();
                waiting.push_front(first);
                permit
            } else {
                first.ready().unwrap()
            };
            assert_eq!(admission.counts(), counts(1, 3, 0), "round {round}");
        }
        drop((permit, waiting));
        assert_eq!((admission.counts(), world.armed()), (counts(0, 0, 0), None));
    }
}

// rules W5, S1: a call is polled in another runtime than it waited in, and more often than it need be
#[test]
fn whoever_polls_takes_the_offer_up_once() {
    let world = World::new();
    let there = world.twin();
    let _entered = world.enter();
    let (admission, _a, [mut first, mut second, third]) = offered(&world);
    let permit = {
        let _entered = there.enter();
        assert!(second.poll().is_pending());
        first.ready().unwrap()
    };
    assert!(first.poll().is_pending() && first.poll().is_pending(), "it has answered");
    assert!(second.poll().is_pending());
    drop((first, permit));
    drop(second.ready().unwrap());
    assert!(third.is_woken());
    drop(third);
    assert_eq!((admission.counts(), world.armed(), there.armed()), (counts(0, 0, 0), None, None));
}

/// Wakes by unparking.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A thread's calls: one at a time, while others come and go.
fn calls(admission: &Admission, limit: u32, dice: &mut Dice, inside: &AtomicU32, with_key: &AtomicU32) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let [a, b] = ["a", "b"].map(|name| admission.provider(name).unwrap());
    for _ in 0..1_500 {
        let provider = if dice.below(2) == 0 { &a } else { &b };
        let has_key = dice.below(4) == 0;
        let mut call = Task::new(if has_key { provider.key(9).acquire() } else { provider.acquire() });
        let mut others: Vec<_> = (0..dice.below(3)).map(|_| Task::new(a.acquire())).collect();
        let permit = loop {
            others.iter_mut().for_each(|other| drop(other.poll_with(&waker)));
            if let Poll::Ready(answer) = call.poll_with(&waker) {
                break answer.unwrap();
            }
            others.truncate(others.len() - others.len().min(dice.below(2) as usize));
            std::thread::park_timeout(Duration::from_micros(100));
        };
        assert!(inside.fetch_add(1, Ordering::SeqCst) < limit, "rule L1");
        assert!(!has_key || with_key.fetch_add(1, Ordering::SeqCst) == 0, "rule L1: one with this key");
        match dice.below(200) {
            0 => a.cooldown(ms(0)).unwrap(),
            1 => admission.set_limits(|all| all.max_concurrent(limit)).unwrap(),
            2 => assert!(admission.counts().running <= limit),
            _ => {}
        }
        with_key.fetch_sub(u32::from(has_key), Ordering::SeqCst);
        inside.fetch_sub(1, Ordering::SeqCst);
        drop(permit);
    }
}

// rules L1, S4, W5: with hand-off times that are over all the time, and with one that never is
#[test]
fn threads_that_start_beside_the_lock_keep_the_limits() {
    within(60, || {
        for seed in 0..24_u64 {
            let world = World::new();
            let limit = 1 + (seed % 3) as u32;
            let hand_off = if seed % 4 == 3 { Duration::MAX } else { ms(2) };
            let builder = world.builder().hand_off(hand_off).max_concurrent(limit).max_queued(10_000);
            let admission = builder.provider("a", |p| p).provider("b", |p| p).build().unwrap();
            let (inside, with_key, is_over) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for now in 1.. {
                        world.set(now);
                        world.ring();
                        if is_over.load(Ordering::SeqCst) {
                            return;
                        }
                        std::thread::yield_now();
                    }
                });
                let threads = [0, 1, 2, 3].map(|thread| {
                    let (world, admission, inside, with_key) = (&world, &admission, &inside, &with_key);
                    scope.spawn(move || {
                        let _entered = world.enter();
                        calls(admission, limit, &mut Dice::new(seed * 4 + thread), inside, with_key);
                    })
                });
                let ends = threads.map(|thread| thread.join());
                is_over.store(true, Ordering::SeqCst);
                assert!(ends.iter().all(Result::is_ok), "seed {seed}");
            });
            world.set(u64::from(u32::MAX));
            world.ring();
            assert_eq!((admission.counts(), world.armed()), (counts(0, 0, 0), None), "seed {seed}");
        }
    });
}
