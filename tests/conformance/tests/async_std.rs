//! The suite on async-std, in real time: ten times as fast as written, never early.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use admission_async_std::AsyncStd;
use conformance::mount::{Boxed, Mount};
use smol::future::FutureExt;

#[derive(Clone, Copy)]
struct OnAsyncStd;

impl Mount for OnAsyncStd {
    type Runtime = AsyncStd;

    const EXACT: bool = false;
    const ONE_THREAD: bool = false;
    const MILLISECOND: Duration = Duration::from_micros(100);

    fn block_on(body: Boxed<()>) {
        async_std::task::block_on(body);
    }

    fn spawn<T: Send + 'static>(future: Boxed<T>) -> Boxed<Option<T>> {
        let task = async_std::task::spawn(AssertUnwindSafe(future).catch_unwind());
        Box::pin(async move { task.await.ok() })
    }

    fn sleep(time: Duration) -> Boxed<()> {
        Box::pin(async_std::task::sleep(time))
    }
}

conformance::mount!(everywhere OnAsyncStd);
