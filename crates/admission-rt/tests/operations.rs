//! Operations: when they are called, and what is dropped in which order.

mod common;

use std::future::{Future, pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use admission_rt::{Rejected, RunError};
use common::{Admission, Provider, Task, World, counts, ms};

fn one_at_a_time(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

/// Notes what is running when it is dropped.
struct Witness(Admission, Arc<Mutex<Vec<(&'static str, u32)>>>, &'static str);

impl Drop for Witness {
    fn drop(&mut self) {
        self.1.lock().unwrap().push((self.2, self.0.counts().running));
    }
}

/// An operation that answers when it is told to.
struct Told(Arc<Mutex<Option<u32>>>, #[expect(dead_code, reason = "for its drop")] Witness);

impl Future for Told {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
        match *self.0.lock().unwrap() {
            Some(13) => panic!("the operation's own"),
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        }
    }
}

// rule D1, S1
#[test]
fn the_operation_is_called_in_the_poll_that_starts_it() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let called = Arc::new(Mutex::new(None));
    let mut run = Task::new(a.run(|| {
        *called.lock().unwrap() = Some(admission.counts());
        ready(7)
    }));
    assert!(run.poll().is_pending());
    drop(permit);
    assert_eq!(*called.lock().unwrap(), None);
    assert_eq!(run.ready().unwrap(), 7);
    assert_eq!(*called.lock().unwrap(), Some(counts(1, 0, 0)));
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert!(run.poll().is_pending(), "once");
}

// rule W7
#[test]
fn a_permit_is_released_after_its_operation_is_gone() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let log = Arc::new(Mutex::new(Vec::new()));
    let witness = |what| Witness(admission.clone(), log.clone(), what);
    let told = Arc::new(Mutex::new(None));

    // Dropped while it runs.
    let operation = Told(told.clone(), witness("dropped"));
    let mut run = Task::new(a.run(move || operation));
    assert!(run.poll().is_pending());
    let mut next = Task::waiting(a.acquire());
    drop(run);
    assert!(next.is_woken());
    drop(next.ready().unwrap());

    // Finished.
    let operation = Told(told.clone(), witness("finished"));
    let mut run = Task::waiting(a.run(move || operation));
    *told.lock().unwrap() = Some(1);
    assert_eq!(run.ready().unwrap(), 1);
    assert_eq!(admission.counts(), counts(0, 0, 0));

    // Panics.
    let operation = Told(told.clone(), witness("panicked"));
    *told.lock().unwrap() = Some(13);
    let mut run = Task::new(a.run(move || operation));
    assert!(catch_unwind(AssertUnwindSafe(|| run.poll())).is_err());
    assert_eq!(admission.counts(), counts(1, 0, 0), "held until its future is gone");
    drop(run);

    // The closure panics.
    let captured = witness("closure panicked");
    let mut run = Task::new(a.run(|| -> std::future::Ready<()> {
        let _captured = captured;
        panic!("the closure's own")
    }));
    assert!(catch_unwind(AssertUnwindSafe(|| run.poll())).is_err());
    assert_eq!(admission.counts(), counts(0, 0, 0), "there is no future to wait for");
    drop(run);

    // Never called.
    let captured = witness("never called");
    let run = Task::new(a.run(move || {
        let _captured = &captured;
        pending::<()>()
    }));
    drop(run);

    let expected =
        [("dropped", 1), ("finished", 1), ("panicked", 1), ("closure panicked", 1), ("never called", 0)];
    assert_eq!(*log.lock().unwrap(), expected);
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule R6
#[test]
fn an_operations_own_error_passes_through() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    assert_eq!(Task::new(a.try_run(|| ready(Ok::<_, u8>("fine")))).ready().unwrap(), "fine");
    let error = Task::new(a.try_run(|| ready(Err::<(), _>(404)))).ready().unwrap_err();
    assert!(matches!(error, RunError::Operation(404)));
    assert_eq!(error.to_string(), "404");
    let error = Task::new(a.run(|| ready(Err::<(), _>(404)))).ready().unwrap();
    assert_eq!(error, Err(404));
    admission.close();
    let error = Task::new(a.try_run(|| ready(Ok::<_, u8>(())))).ready().unwrap_err();
    assert!(matches!(error, RunError::Rejected(Rejected::Closed)));
    assert_eq!(error.to_string(), "the coordinator is closed");
}

// rule W3
#[test]
fn a_run_that_is_dropped_while_it_waits_never_calls() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let permit = a.try_acquire().unwrap();
    let never = || -> std::future::Ready<()> { unreachable!("was dropped") };
    let queued = Task::waiting(a.run(never));
    let granted = Task::waiting(a.admission_timeout(ms(300)).run(never));
    drop(queued);
    drop(permit);
    assert!(granted.is_woken());
    drop(granted);
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!(world.armed(), None);
}

// rule W5
#[test]
fn async_closures_serve_as_operations() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let text = String::from("borrowed");
    let length = Task::new(a.key("k").run(async || text.len())).ready().unwrap();
    assert_eq!(length, text.len());
    assert_eq!(admission.counts(), counts(0, 0, 0));
}
