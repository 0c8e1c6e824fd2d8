//! The suite on two of tokio's threads with the precise alarm, in real time: ten times as fast as written, never early.

use std::time::Duration;

use admission_tokio::precise::Precise;
use conformance::mount::{Boxed, Mount};
use tokio::runtime::Builder;

#[derive(Clone, Copy)]
struct TokioPrecise;

impl Mount for TokioPrecise {
    type Runtime = Precise;

    const EXACT: bool = false;
    const ONE_THREAD: bool = false;
    const MILLISECOND: Duration = Duration::from_micros(100);

    fn block_on(body: Boxed<()>) {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all();
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

conformance::mount!(everywhere TokioPrecise);
