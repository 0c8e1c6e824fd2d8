//! The conformance suite on embassy: its own executor on a thread, and its time driver for std.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::LazyLock;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use conformance::mount::{Boxed, Mount};
use embassy_executor::{Executor, SendSpawner};
use embassy_time::Timer;
use embedding::embassy::Embassy;
use smol::channel::bounded;
use smol::future::FutureExt;

#[derive(Clone, Copy)]
struct OnEmbassy;

impl Mount for OnEmbassy {
    type Runtime = Embassy;

    const EXACT: bool = false;
    // One thread runs the tasks of all bodies, and what is woken last is polled first.
    const ONE_THREAD: bool = false;
    const MILLISECOND: Duration = Duration::from_micros(100);

    fn block_on(body: Boxed<()>) {
        let (answer, answered) = mpsc::channel();
        start(Box::pin(async move {
            // Nobody listens any more once it was found to hang.
            let _ = answer.send(AssertUnwindSafe(body).catch_unwind().await);
        }));
        if let Err(panic) = answered.recv().expect("the executor runs on") {
            resume_unwind(panic);
        }
    }

    fn spawn<T: Send + 'static>(future: Boxed<T>) -> Boxed<Option<T>> {
        let (answer, answered) = bounded(1);
        start(Box::pin(async move {
            let output = AssertUnwindSafe(future).catch_unwind().await;
            // Nobody may listen any more.
            let _ = answer.try_send(output.ok());
        }));
        Box::pin(async move { answered.recv().await.ok().flatten() })
    }

    /// In a task of its own: embassy's timers wake tasks of embassy only.
    fn sleep(time: Duration) -> Boxed<()> {
        Box::pin(async move {
            let (answer, answered) = bounded::<()>(1);
            start(Box::pin(async move {
                Timer::after_micros(time.as_nanos().div_ceil(1_000) as u64).await;
                drop(answer);
            }));
            // Nothing is sent, and that it ends is told.
            let _ = answered.recv().await;
        })
    }
}

/// Makes a task of a future.
fn start(future: Boxed<()>) {
    EXECUTOR.spawn(any(future).expect("a task that is free"));
}

#[embassy_executor::task(pool_size = 8192)]
async fn any(future: Boxed<()>) {
    future.await;
}

/// The executor of the process, on a thread of its own.
static EXECUTOR: LazyLock<SendSpawner> = LazyLock::new(|| {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let executor = Box::leak(Box::new(Executor::new()));
        executor.run(|spawner| {
            Embassy::start(spawner.make_send());
            tell.send(spawner.make_send()).expect("somebody waits for it");
        });
    });
    told.recv().expect("it has begun")
});

conformance::mount!(everywhere OnEmbassy);
