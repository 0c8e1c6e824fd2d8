//! The suite on smol's global executor, in real time: ten times as fast as written, never early.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use admission_smol::Smol;
use conformance::mount::{Boxed, Mount};
use smol::future::FutureExt;

#[derive(Clone, Copy)]
struct OnSmol;

impl Mount for OnSmol {
    type Runtime = Smol;

    const EXACT: bool = false;
    // One thread runs the tasks of all bodies, and each body runs on its own.
    const ONE_THREAD: bool = false;
    const MILLISECOND: Duration = Duration::from_micros(100);

    fn block_on(body: Boxed<()>) {
        smol::block_on(body);
    }

    fn spawn<T: Send + 'static>(future: Boxed<T>) -> Boxed<Option<T>> {
        let (answer, answered) = smol::channel::bounded(1);
        // Detached, since the drop of a task would cancel it.
        smol::spawn(async move {
            let output = AssertUnwindSafe(future).catch_unwind().await;
            // Nobody may listen any more.
            let _ = answer.try_send(output.ok());
        })
        .detach();
        Box::pin(async move { answered.recv().await.ok().flatten() })
    }

    fn sleep(time: Duration) -> Boxed<()> {
        Box::pin(async move {
            smol::Timer::after(time).await;
        })
    }
}

conformance::mount!(everywhere OnSmol);
