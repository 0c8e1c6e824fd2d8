//! Streams by hand: polled one by one, dropped after every step, with hostile wakers and a runtime that
//! ends.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use admission_rt::{AbortHandle, AdmissionStreamExt, Attempt, ItemError, Rejected, Retry, RetryError};
use common::{Admission, IntervalLimiter, Provider, World, counts, ms, panicking_waker, within};
use futures_core::{FusedStream, Stream};
use futures_util::StreamExt;
use futures_util::stream::{iter, pending as no_items, poll_fn as source};

fn provider(world: &World, concurrency: u32) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(concurrency)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

fn poll<S: Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
    stream.poll_next_unpin(&mut Context::from_waker(Waker::noop()))
}

fn value<E: std::fmt::Debug>(polled: Poll<Option<Result<u32, ItemError<E>>>>) -> u32 {
    match polled {
        Poll::Ready(Some(Ok(value))) => value,
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Failed;

type Answer = Result<u32, Failed>;

// rule I4
#[test]
fn operations_that_a_stream_drives_may_borrow_and_stay_on_their_thread() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 2);
    let seen = Rc::new(Cell::new(0));
    let words = ["one".to_owned(), "two".to_owned()];
    let map = iter(words.iter()).map_admitted(&a, |word: &String, _| {
        let seen = Rc::clone(&seen);
        async move {
            seen.set(seen.get() + 1);
            Ok::<_, Failed>(word.as_str())
        }
    });
    let mut stream = map.concurrency(2).driven();
    assert_eq!(stream.size_hint(), (2, Some(2)));
    assert_eq!(poll(&mut stream).map(Option::unwrap).map(Result::unwrap), Poll::Ready("one"));
    assert_eq!(stream.size_hint(), (1, Some(1)));
    assert_eq!((stream.in_flight(), stream.finished()), (0, 1));
    assert_eq!(poll(&mut stream).map(Option::unwrap).map(Result::unwrap), Poll::Ready("two"));
    assert!(!stream.is_terminated());
    assert!(matches!(poll(&mut stream), Poll::Ready(None)));
    assert!(stream.is_terminated());
    assert_eq!((seen.get(), admission.counts()), (2, counts(0, 0, 0)));
}

// rule I4
#[test]
fn a_source_is_not_asked_after_its_end() {
    let world = World::new();
    let _entered = world.enter();
    let (_, a) = provider(&world, 2);
    let dropped = Arc::new(());
    let once = || {
        let (mut left, held) = (1, Arc::clone(&dropped));
        source(move |_| {
            let _held = &held;
            left -= 1;
            assert!(left >= -1, "asked after its end");
            Poll::Ready((left == 0).then_some(7))
        })
    };
    let operation = |item: u32, _: Attempt| poll_fn(move |_| -> Poll<Answer> { Poll::Ready(Ok(item)) });
    let mut driven = once().map_admitted(&a, operation).concurrency(5).driven();
    assert_eq!(value(poll(&mut driven)), 7);
    assert_eq!(Arc::strong_count(&dropped), 1, "it is let go at once");
    assert!(matches!(poll(&mut driven), Poll::Ready(None)));
    let mut spawned = once().map_admitted(&a, operation).concurrency(5).spawned();
    assert!(poll(&mut spawned).is_pending());
    assert!(poll(&mut spawned).is_pending());
    world.poll_tasks();
    assert_eq!(value(poll(&mut spawned)), 7);
    for _ in 0..2 {
        assert!(matches!(poll(&mut spawned), Poll::Ready(None)));
    }
    let mut paced = once().paced(&a);
    assert!(matches!(poll(&mut paced), Poll::Ready(Some(Ok(7)))));
    for _ in 0..2 {
        assert!(matches!(poll(&mut paced), Poll::Ready(None)));
        assert!(paced.is_terminated());
    }
}

// rule I4, W5
#[test]
fn a_panicking_item_of_a_driven_stream_leaves_no_hole() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 1);
    let operation = |item: u32, _: Attempt| {
        assert!(item != 0, "in the call");
        async move {
            assert!(item != 2, "in the future");
            Ok::<_, Failed>(item)
        }
    };
    let mut stream = iter(0..4).map_admitted(&a, operation).concurrency(4).driven();
    let mut read = Vec::new();
    let mut panics = 0;
    // A waker that does nothing is enough: whatever can move does so in a poll or the next.
    for _ in 0..20 {
        match catch_unwind(AssertUnwindSafe(|| poll(&mut stream))) {
            Ok(Poll::Ready(None)) => break,
            Ok(Poll::Ready(item)) => read.push(item.unwrap().unwrap()),
            Ok(Poll::Pending) => {}
            Err(_) => panics += 1,
        }
    }
    assert_eq!((read, panics), (vec![1, 3], 2));
    assert!(stream.is_terminated());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule I4
#[test]
fn a_closure_that_panics_over_its_item_loses_that_item_alone() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 4);
    let map =
        iter(0..3).map_admitted(&a, |item: u32, _| ready(Ok::<_, Failed>(item))).per_item(|item, call| {
            assert!(*item != 1, "of its own");
            call.key(u64::from(*item))
        });
    let mut stream = map.driven();
    assert_eq!(value(poll(&mut stream)), 0);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut stream))).is_err());
    assert_eq!(value(poll(&mut stream)), 2);
    assert!(matches!(poll(&mut stream), Poll::Ready(None)));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

/// Notes how many run when it is dropped, and whether its operation was told.
struct Witness(Admission, Attempt, Arc<Mutex<Vec<(u32, bool)>>>);

impl Drop for Witness {
    fn drop(&mut self) {
        let note = (self.0.counts().running, self.1.signal().is_aborted());
        self.2.lock().unwrap().push(note);
    }
}

// rule I4, W7
#[test]
fn a_driven_stream_that_is_dropped_tells_first_and_releases_last() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 1);
    let seen = Arc::default();
    let operation = |_: u32, attempt: Attempt| {
        let witness = Witness(admission.clone(), attempt, Arc::clone(&seen));
        async move {
            let _witness = witness;
            pending::<Answer>().await
        }
    };
    let mut stream = iter(0..3).map_admitted(&a, operation).concurrency(2).driven();
    assert!(poll(&mut stream).is_pending());
    assert_eq!(admission.counts(), counts(1, 1, 0));
    drop(stream);
    assert_eq!(*seen.lock().unwrap(), [(1, true)]);
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!(world.armed(), None);
}

// rule I4
#[test]
fn a_stream_that_has_ended_aborts_nobody() {
    let world = World::new();
    let _entered = world.enter();
    let (_, a) = provider(&world, 1);
    let kept = RefCell::new(Vec::new());
    let map = iter(0..2).map_admitted(&a, |item, attempt: Attempt| {
        kept.borrow_mut().push(attempt);
        ready(Ok::<u32, Failed>(item))
    });
    let mut stream = map.driven();
    assert_eq!((value(poll(&mut stream)), value(poll(&mut stream))), (0, 1));
    assert!(matches!(poll(&mut stream), Poll::Ready(None)));
    drop(stream);
    assert_eq!(kept.borrow().len(), 2);
    assert!(kept.borrow().iter().all(|attempt| !attempt.signal().is_aborted()));
}

// rule I4, W5
#[test]
fn a_spawned_stream_whose_runtime_ends_hears_of_every_item() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 1);
    let operation = |_: u32, _: Attempt| async { pending::<Answer>().await };
    let mut stream = iter(0..3).map_admitted(&a, operation).concurrency(2).spawned();
    assert!(poll(&mut stream).is_pending());
    assert_eq!(world.poll_tasks(), 2);
    assert_eq!(admission.counts(), counts(1, 1, 0));
    world.end_tasks();
    assert_eq!(admission.counts(), counts(0, 0, 0));
    // The third finds no runtime at all.
    for _ in 0..3 {
        assert!(matches!(poll(&mut stream), Poll::Ready(Some(Err(ItemError::Lost)))));
    }
    assert!(matches!(poll(&mut stream), Poll::Ready(None)));
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!(world.armed(), None);
}

// rule I4
#[test]
fn what_is_finished_after_a_stream_is_gone_is_dropped_at_once() {
    let world = World::new();
    let _entered = world.enter();
    let (_, a) = provider(&world, 2);
    let value = Arc::new(());
    let open = Arc::new(AtomicUsize::new(0));
    let operation = {
        let (value, open) = (Arc::clone(&value), Arc::clone(&open));
        move |_: u32, _: Attempt| {
            let (value, open) = (Arc::clone(&value), Arc::clone(&open));
            poll_fn(move |_| match open.load(Ordering::SeqCst) {
                0 => Poll::Pending,
                _ => Poll::Ready(Ok::<_, Failed>(Arc::clone(&value))),
            })
        }
    };
    let mut stream = iter(0..2).map_admitted(&a, operation).concurrency(2).spawned();
    assert!(poll(&mut stream).is_pending());
    assert_eq!(world.poll_tasks(), 2);
    drop(stream);
    open.store(1, Ordering::SeqCst);
    assert_eq!(world.poll_tasks(), 0);
    assert_eq!(Arc::strong_count(&value), 1);
}

// rule I4, W3
#[test]
fn a_spawned_item_that_waits_to_retry_leaves_with_its_stream() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 1);
    let operation = |_: u32, _: Attempt| async { Err::<u32, _>(Failed) };
    let map = iter(0..1).map_admitted(&a, operation).retry(Retry::times(1).delay(ms(1_000)));
    let mut stream = map.spawned();
    assert!(poll(&mut stream).is_pending());
    assert_eq!(world.poll_tasks(), 1);
    assert_eq!((world.armed(), admission.counts()), (Some(1_000), counts(0, 0, 0)));
    drop(stream);
    assert_eq!(world.poll_tasks(), 0);
    assert_eq!(world.armed(), None);
}

// rule I4, W3
#[test]
fn a_signal_that_has_fired_begins_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 1);
    let (handle, signal) = AbortHandle::new();
    handle.abort();
    let operation = |_: u32, _: Attempt| ready(Ok::<u32, Failed>(0));
    let mut stream = iter(0..3).map_admitted(&a, operation).abort_signal(&signal).driven();
    assert_eq!(stream.size_hint(), (0, Some(3)));
    assert!(matches!(poll(&mut stream), Poll::Ready(None)));
    let mut waits = no_items::<u32>().map_admitted(a.abort_signal(&signal), operation).driven();
    assert!(matches!(poll(&mut waits), Poll::Ready(None)));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule I4, W5
#[test]
fn a_try_stream_has_one_item_at_least_and_one_error_at_most() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 4);
    let operation = |item: u32, _: Attempt| ready(if item == 1 { Err(Failed) } else { Ok(item) });
    let mut stream = iter(0..4).try_map_admitted(&a, operation).concurrency(2).driven();
    assert_eq!(stream.size_hint(), (1, Some(4)));
    assert_eq!(value(poll(&mut stream)), 0);
    let Poll::Ready(Some(Err(error))) = poll(&mut stream) else { panic!("it failed") };
    assert!(matches!(error, ItemError::Call(RetryError::Operation { error: Failed, attempts: 1, .. })));
    assert!(stream.is_terminated());
    assert_eq!(stream.size_hint(), (0, Some(0)));
    assert!(matches!(poll(&mut stream), Poll::Ready(None)));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule I4, W1
#[test]
fn without_a_runtime_only_waiting_is_refused() {
    let world = World::new();
    let (admission, a) = provider(&world, 1);
    let operation = |item: u32, _: Attempt| {
        let mut polls = 0;
        poll_fn(move |_| {
            polls += 1;
            if polls > 1 { Poll::Ready(Ok::<_, Failed>(item)) } else { Poll::Pending }
        })
    };
    let mut stream = iter(0..2).map_admitted(&a, operation).concurrency(2).as_completed().driven();
    let Poll::Ready(Some(Err(error))) = poll(&mut stream) else { panic!("it has to wait") };
    assert!(matches!(error.rejected(), Some(Rejected::NoRuntime)));
    assert_eq!(admission.counts(), counts(1, 0, 0));
    drop(stream);
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

/// Comes back into the coordinator and the stream's signal when it is woken, and when it is dropped.
struct Meddler(Admission, AbortHandle);

impl Meddler {
    fn meddle(&self) {
        let a = self.0.provider("a").unwrap();
        let _ = a.try_acquire();
        drop(a.abort_signal(&self.1.signal()).enqueue());
        let _ = self.0.snapshot().to_string();
    }
}

impl Wake for Meddler {
    fn wake(self: Arc<Self>) {
        self.meddle();
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.meddle();
    }
}

// rule W5, W6
#[test]
fn wakers_of_a_streams_reader_may_come_back() {
    within(10, || {
        for spawned in [false, true] {
            let world = World::new();
            let _entered = world.enter();
            let (admission, a) = provider(&world, 1);
            let (handle, signal) = AbortHandle::new();
            let map = iter(0..6)
                .map_admitted(&a, |item: u32, _| {
                    let mut polls = 0;
                    poll_fn(move |cx: &mut Context<'_>| {
                        polls += 1;
                        cx.waker().wake_by_ref();
                        if polls > 2 { Poll::Ready(Ok::<_, Failed>(item)) } else { Poll::Pending }
                    })
                })
                .concurrency(3)
                .abort_signal(&signal);
            type Outputs = Pin<Box<dyn Stream<Item = Result<u32, ItemError<Failed>>>>>;
            let mut stream: Outputs = if spawned { Box::pin(map.spawned()) } else { Box::pin(map.driven()) };
            let mut read = 0;
            for round in 0..60 {
                // A new waker each time: the one before is replaced, and dropped.
                let waker = Waker::from(Arc::new(Meddler(admission.clone(), handle.clone())));
                if let Poll::Ready(Some(_)) = stream.as_mut().poll_next(&mut Context::from_waker(&waker)) {
                    read += 1;
                }
                world.poll_tasks();
                if round == 25 {
                    handle.abort();
                }
            }
            assert!(read >= 3, "{read}");
            drop(stream);
            assert_eq!(world.poll_tasks(), 0);
            assert_eq!(admission.counts(), counts(0, 0, 0));
            assert_eq!(world.armed(), None);
        }
    });
}

// rule W5
#[test]
fn a_reader_whose_waker_panics_harms_no_task() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 2);
    let operation = |item: u32, _: Attempt| ready(Ok::<_, Failed>(item));
    let mut stream = iter(0..2).map_admitted(&a, operation).concurrency(2).spawned();
    let bomb = panicking_waker();
    assert!(stream.poll_next_unpin(&mut Context::from_waker(&bomb)).is_pending());
    assert_eq!(world.poll_tasks(), 0, "nothing passes through the tasks");
    assert_eq!((value(poll(&mut stream)), value(poll(&mut stream))), (0, 1));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule I4, W5
#[test]
fn a_paced_read_can_be_dropped_in_every_state() {
    let world = World::new();
    let _entered = world.enter();
    let limiter = IntervalLimiter::builder(ms(100)).clock(world.clock()).build().unwrap();
    let mut reading = no_items::<u32>().paced(&limiter);
    assert_eq!(reading.size_hint(), (0, Some(1)));
    assert!(poll(&mut reading).is_pending());
    assert_eq!(limiter.counts(), counts(0, 0, 0), "an interval lets go once the source was asked");
    let mut waiting = iter(0..2).paced(&limiter);
    assert_eq!(waiting.size_hint(), (1, Some(3)));
    assert!(poll(&mut waiting).is_pending());
    assert_eq!((limiter.counts(), world.armed()), (counts(0, 1, 0), Some(100)));
    drop((waiting, reading));
    assert_eq!((limiter.counts(), world.armed()), (counts(0, 0, 0), None));

    let (admission, a) = provider(&world, 1);
    let mut reading = no_items::<u32>().paced(&a);
    assert!(poll(&mut reading).is_pending());
    assert_eq!(admission.counts(), counts(1, 0, 0));
    drop(reading);
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule I4
#[test]
fn streams_go_where_their_parts_go() {
    fn goes_anywhere<T: Send + 'static>(_: &T) {}
    let world = World::new();
    let (_, a) = provider(&world, 1);
    let map = || iter(0..2).map_admitted(&a, |item: u32, _| async move { Ok::<_, Failed>(item) });
    goes_anywhere(&map().driven());
    goes_anywhere(&map().spawned());
    goes_anywhere(&map().retry(Retry::times(3)).spawned());
    goes_anywhere(&iter(0..2).paced(&a));
    let debug = format!("{:?} {:?} {:?}", map(), map().driven(), map().concurrency(0).capacity(0).spawned());
    assert!(debug.contains("concurrency: 1, capacity: 1"), "{debug}");
}

/// Panics when it is dropped, if it is the first.
struct Bursts<'a>(&'a AtomicUsize);

impl Drop for Bursts<'_> {
    fn drop(&mut self) {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 && !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

// rules I4, W5, W7
#[test]
fn an_operation_that_panics_when_it_is_dropped_costs_the_others_nothing() {
    for ends_early in [false, true] {
        let world = World::new();
        let _entered = world.enter();
        let (admission, a) = provider(&world, 4);
        let dropped = AtomicUsize::new(0);
        let operation = |item: u32, _| {
            let bursts = (item > 0).then(|| Bursts(&dropped));
            async move {
                let _bursts = bursts;
                if item > 0 {
                    pending::<()>().await;
                } else if ends_early {
                    return Err(Failed);
                }
                Ok(item)
            }
        };
        let mut stream = iter(0..4).try_map_admitted(&a, operation).concurrency(4).driven();
        let first = catch_unwind(AssertUnwindSafe(|| poll(&mut stream)));
        if ends_early {
            assert!(matches!(first, Ok(Poll::Ready(Some(Err(_))))), "the error that ended it is told");
        } else {
            assert_eq!(admission.counts(), counts(3, 0, 0));
        }
        let _ = catch_unwind(AssertUnwindSafe(|| drop(stream)));
        assert_eq!(dropped.load(Ordering::SeqCst), 3, "each operation");
        assert_eq!(admission.counts(), counts(0, 0, 0));
    }
}

/// Panics when it is dropped, unless that would end the process.
struct Explosive;

impl Drop for Explosive {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

// rules W5, W7
#[test]
fn operations_whose_destructors_panic_leave_the_others_of_a_driven_stream_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 3);
    let held = Arc::new(());
    let operation = |item: u32, _: Attempt| {
        let (bomb, held) = ((item != 9).then(|| Explosive), Arc::clone(&held));
        poll_fn(move |_| {
            let _ = (&bomb, &held);
            if item == 9 { Poll::Ready(Err::<u32, _>(Failed)) } else { Poll::Pending }
        })
    };
    // Dropped.
    let mut stream = iter(0..3).map_admitted(&a, operation).concurrency(3).driven();
    assert!(poll(&mut stream).is_pending());
    assert_eq!(admission.counts(), counts(3, 0, 0));
    drop(stream);
    assert_eq!((admission.counts(), Arc::strong_count(&held)), (counts(0, 0, 0), 1));
    // Ended early.
    let mut stream = iter([0, 1, 9]).try_map_admitted(&a, operation).concurrency(3).as_completed().driven();
    assert!(matches!(poll(&mut stream), Poll::Ready(Some(Err(_)))), "and nothing panics");
    assert_eq!((admission.counts(), Arc::strong_count(&held)), (counts(0, 0, 0), 1));
}

// rules I4, W5
#[test]
fn an_item_whose_destructor_panics_takes_no_output_along() {
    #[derive(Clone)]
    struct Item(Arc<Mutex<u32>>);
    impl Drop for Item {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
            // The one that the stream keeps for other attempts.
            assert!(*self.0.lock().unwrap() != 2, "dropped");
        }
    }
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = provider(&world, 1);
    let items = || iter([Item(Arc::default())]);
    let operation = |item: Item, _: Attempt| {
        drop(item);
        ready(Ok::<_, Failed>(7))
    };
    let mut driven = items().map_admitted(&a, operation).retry(Retry::times(1)).driven();
    assert_eq!(value(poll(&mut driven)), 7);
    let mut spawned = items().map_admitted(&a, operation).retry(Retry::times(1)).spawned();
    assert!(poll(&mut spawned).is_pending());
    world.run();
    assert_eq!(value(poll(&mut spawned)), 7);
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rules I4, W5
#[test]
fn no_item_is_lost_to_a_strangers_waker() {
    for is_spawned in [false, true] {
        let world = World::new();
        let _entered = world.enter();
        let admission = world.builder().provider("a", |p| p).build().unwrap();
        let a = admission.provider("a").unwrap();
        let panics = panicking_waker();
        // Whoever sleeps between two attempts is woken by the next turn, whosever that is.
        let fails = |_| ready(Err::<(), _>(()));
        let mut sleeps = Box::pin(a.retry(Retry::times(1).delay(ms(10))).try_run(fails));
        assert!(sleeps.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
        let tried = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&tried);
        let operation = move |item: u32, _: Attempt| {
            ready(if count.fetch_add(1, Ordering::SeqCst) == 0 { Err(Failed) } else { Ok(item) })
        };
        world.set(20);
        let map = iter([7]).map_admitted(&a, operation).retry(Retry::times(1).delay(ms(10)));
        let mut stream: Pin<Box<dyn Stream<Item = Result<u32, ItemError<Failed>>>>> =
            if is_spawned { Box::pin(map.spawned()) } else { Box::pin(map.driven()) };
        assert!(poll(&mut stream).is_pending());
        world.poll_tasks();
        assert_eq!(tried.load(Ordering::SeqCst), 1, "it was begun, and failed");
        world.advance_to(100);
        world.poll_tasks();
        assert_eq!(value(poll(&mut stream)), 7);
        assert!(matches!(poll(&mut stream), Poll::Ready(None)));
        assert_eq!(admission.counts().running, 0);
    }
}
