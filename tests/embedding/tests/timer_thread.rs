//! The whole conformance suite on the runtime that `docs/runtimes.md` writes out: alarms from its thread,
//! futures polled by smol, which knows nothing of that.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use conformance::mount::{Boxed, Mount};
use embedding::timer_thread::TimerThread;
use smol::future::FutureExt;

#[derive(Clone, Copy)]
struct OnATimerThread;

impl Mount for OnATimerThread {
    type Runtime = TimerThread;

    const EXACT: bool = false;
    const ONE_THREAD: bool = false;
    const MILLISECOND: Duration = Duration::from_micros(100);

    fn block_on(body: Boxed<()>) {
        smol::block_on(body);
    }

    fn spawn<T: Send + 'static>(future: Boxed<T>) -> Boxed<Option<T>> {
        let task = smol::spawn(AssertUnwindSafe(future).catch_unwind());
        Box::pin(async move { task.await.ok() })
    }

    fn sleep(time: Duration) -> Boxed<()> {
        Box::pin(async move {
            smol::Timer::after(time).await;
        })
    }
}

conformance::mount!(everywhere OnATimerThread);
