//! The suite on threads that park, one for each task, in real time: ten times as fast as written, never
//! early. Sleeping is not this runtime's affair, so the bodies sleep by smol's timers.

use std::thread;
use std::time::Duration;

use admission_blocking::{Blocking, block_on};
use conformance::mount::{Boxed, Mount};

#[derive(Clone, Copy)]
struct Threads;

impl Mount for Threads {
    type Runtime = Blocking;

    const EXACT: bool = false;
    const ONE_THREAD: bool = false;
    const MILLISECOND: Duration = Duration::from_micros(100);

    fn block_on(body: Boxed<()>) {
        block_on(body);
    }

    fn spawn<T: Send + 'static>(future: Boxed<T>) -> Boxed<Option<T>> {
        let (answer, answered) = smol::channel::bounded(1);
        let thread = thread::Builder::new().stack_size(256 * 1024).spawn(move || {
            // A panic ends the thread, and drops the sender.
            let output = block_on(future);
            // Nobody may listen any more.
            let _ = answer.try_send(output);
        });
        drop(thread.expect("a thread"));
        Box::pin(async move { answered.recv().await.ok() })
    }

    fn sleep(time: Duration) -> Boxed<()> {
        Box::pin(async move {
            smol::Timer::after(time).await;
        })
    }
}

conformance::mount!(everywhere Threads);
