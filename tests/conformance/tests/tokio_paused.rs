//! The suite on tokio with its clock paused: exact, and an hour takes no time.

use std::time::Duration;

use admission_tokio::Tokio;
use conformance::mount::{Boxed, Mount};
use tokio::runtime::Builder;

#[derive(Clone, Copy)]
struct TokioPaused;

impl Mount for TokioPaused {
    type Runtime = Tokio;

    const EXACT: bool = true;
    const ONE_THREAD: bool = true;
    const MILLISECOND: Duration = Duration::from_millis(1);

    fn block_on(body: Boxed<()>) {
        let mut runtime = Builder::new_current_thread();
        runtime.enable_time().start_paused(true);
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

conformance::mount!(exact TokioPaused);
