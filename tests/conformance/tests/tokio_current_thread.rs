//! The suite on tokio's single thread, in real time: ten times as fast as written, and never early.

use std::time::Duration;

use admission_tokio::Tokio;
use conformance::mount::{Boxed, Mount};
use tokio::runtime::Builder;

#[derive(Clone, Copy)]
struct TokioCurrentThread;

impl Mount for TokioCurrentThread {
    type Runtime = Tokio;

    const EXACT: bool = false;
    const ONE_THREAD: bool = true;
    const MILLISECOND: Duration = Duration::from_micros(100);

    fn block_on(body: Boxed<()>) {
        let mut runtime = Builder::new_current_thread();
        runtime.enable_time();
        runtime.build().expect("a runtime").block_on(body);
    }

    fn spawn<T: Send + 'static>(future: Boxed<T>) -> Boxed<Option<T>> {
        let task = tokio::spawn(future);
        Box::pin(async move { task.await.ok() })
    }

    fn sleep(time: Duration) -> Boxed<()> {
        Box::pin(tokio::time::sleep(time))
    }
}

conformance::mount!(everywhere TokioCurrentThread);
