//! The suite in virtual time: exact, and with timers that can be made to lie.

use std::time::Duration;

use admission_testing::{Handle, Simulation, Virtual};
use conformance::mount::{Boxed, Mount};

#[derive(Clone, Copy)]
struct VirtualClock;

impl Mount for VirtualClock {
    type Runtime = Virtual;

    const EXACT: bool = true;
    const ONE_THREAD: bool = true;
    const MILLISECOND: Duration = Duration::from_millis(1);

    fn block_on(body: Boxed<()>) {
        Simulation::new().block_on(body);
    }

    fn spawn<T: Send + 'static>(future: Boxed<T>) -> Boxed<Option<T>> {
        let task = admission_testing::spawn(future);
        Box::pin(async move { task.await.ok() })
    }

    fn sleep(time: Duration) -> Boxed<()> {
        Box::pin(admission_testing::sleep(time))
    }

    fn armed() -> Option<usize> {
        Handle::current().map(|simulation| simulation.alarms().armed)
    }
}

conformance::mount!(virtual_time VirtualClock);
