//! The runtimes, as what runs the callers.
//!
//! Owns: how each is started, given tasks, and ended. Lacks any part in admission: that is the adapters'.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use admission_async_std::AsyncStd;
use admission_blocking::{Blocking, block_on};
use admission_rt::runtime::{Runtime, RuntimeId, Spawn};
use admission_smol::Smol;
use admission_tokio::Tokio;
use admission_tokio::precise::Precise;

use crate::ground::Ground;
use crate::{Dice, threads};

/// A future in a box.
pub type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A runtime that callers run on.
pub trait Host: Sized + Send + Sync + 'static {
    /// Where its alarms come from.
    type Runtime: Runtime + Spawn;

    /// What the report calls it.
    const NAME: &'static str;

    /// Starts it.
    fn start() -> Self;

    /// Runs a task on it, from whatever thread.
    fn spawn(&self, task: Boxed);

    /// Waits.
    fn sleep(time: Duration) -> Boxed;

    /// A call by a front that only this runtime has. Whether there is one.
    fn own_call(_: &Arc<Ground>, _: &mut Dice) -> bool {
        false
    }

    /// Which runtime it is, if it can end: to each kind of alarm that it has.
    fn ids(&self) -> Vec<RuntimeId> {
        Vec::new()
    }

    /// How many tasks there are, where it says so.
    fn tasks(&self) -> Option<usize> {
        None
    }
}

/// Tokio on one thread.
#[derive(Debug)]
pub struct CurrentThread {
    handle: tokio::runtime::Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Host for CurrentThread {
    type Runtime = Tokio;

    const NAME: &'static str = "tokio current_thread";

    fn start() -> Self {
        let (send, receive) = mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            send.send(runtime.handle().clone()).expect("somebody listens");
            // An error, too, is the end.
            let _ = runtime.block_on(stopped);
        });
        Self { handle: receive.recv().expect("it starts"), stop: Some(stop), thread: Some(thread) }
    }

    fn spawn(&self, task: Boxed) {
        drop(self.handle.spawn(task));
    }

    fn sleep(time: Duration) -> Boxed {
        Box::pin(tokio::time::sleep(time))
    }

    fn ids(&self) -> Vec<RuntimeId> {
        let _inside = self.handle.enter();
        ids()
    }

    fn tasks(&self) -> Option<usize> {
        Some(self.handle.metrics().num_alive_tasks())
    }
}

impl Drop for CurrentThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // What it panicked with was printed.
            let _ = thread.join();
        }
    }
}

/// Tokio on two threads.
#[derive(Debug)]
pub struct MultiThread(tokio::runtime::Runtime);

impl Host for MultiThread {
    type Runtime = Tokio;

    const NAME: &'static str = "tokio multi_thread";

    fn start() -> Self {
        let builder = &mut tokio::runtime::Builder::new_multi_thread();
        Self(builder.worker_threads(2).enable_all().build().expect("a runtime"))
    }

    fn spawn(&self, task: Boxed) {
        drop(self.0.spawn(task));
    }

    fn sleep(time: Duration) -> Boxed {
        Box::pin(tokio::time::sleep(time))
    }

    fn ids(&self) -> Vec<RuntimeId> {
        let _inside = self.0.enter();
        ids()
    }

    fn tasks(&self) -> Option<usize> {
        Some(self.0.metrics().num_alive_tasks())
    }
}

/// The same, ended in the background.
#[derive(Debug)]
pub struct Abandoned(Option<tokio::runtime::Runtime>);

impl Host for Abandoned {
    type Runtime = Tokio;

    const NAME: &'static str = "tokio multi_thread, ended in the background";

    fn start() -> Self {
        Self(Some(MultiThread::start().0))
    }

    fn spawn(&self, task: Boxed) {
        drop(self.0.as_ref().map(|runtime| runtime.spawn(task)));
    }

    fn sleep(time: Duration) -> Boxed {
        MultiThread::sleep(time)
    }

    fn ids(&self) -> Vec<RuntimeId> {
        let _inside = self.0.as_ref().map(tokio::runtime::Runtime::enter);
        ids()
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Of the tokio runtime that this thread is in.
fn ids() -> Vec<RuntimeId> {
    [Tokio::current(), Precise::current()].into_iter().flatten().collect()
}

/// Tokio on two threads, with the kernel's timers.
#[derive(Debug)]
pub struct PreciseThreads(MultiThread);

impl Host for PreciseThreads {
    type Runtime = Precise;

    const NAME: &'static str = "tokio precise";

    fn start() -> Self {
        Self(MultiThread::start())
    }

    fn spawn(&self, task: Boxed) {
        self.0.spawn(task);
    }

    fn sleep(time: Duration) -> Boxed {
        MultiThread::sleep(time)
    }

    fn tasks(&self) -> Option<usize> {
        self.0.tasks()
    }
}

/// smol's global executor; `SMOL_THREADS` says how many threads it has.
#[derive(Clone, Copy, Debug)]
pub struct OnSmol;

impl Host for OnSmol {
    type Runtime = Smol;

    const NAME: &'static str = "smol";

    fn start() -> Self {
        Self
    }

    fn spawn(&self, task: Boxed) {
        smol::spawn(task).detach();
    }

    fn sleep(time: Duration) -> Boxed {
        Box::pin(async move {
            smol::Timer::after(time).await;
        })
    }
}

/// An executor of smol's that can end: with it go its tasks.
#[derive(Debug)]
pub struct Executor {
    executor: Arc<smol::Executor<'static>>,
    stop: Option<smol::channel::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Host for Executor {
    type Runtime = Smol;

    const NAME: &'static str = "an executor of smol's";

    fn start() -> Self {
        let executor = Arc::new(smol::Executor::new());
        let (stop, stopped) = smol::channel::bounded::<()>(1);
        let runs = Arc::clone(&executor);
        let thread = thread::spawn(move || {
            // Its end is that nobody can send any more.
            let _ = smol::block_on(runs.run(stopped.recv()));
        });
        Self { executor, stop: Some(stop), thread: Some(thread) }
    }

    fn spawn(&self, task: Boxed) {
        self.executor.spawn(task).detach();
    }

    fn sleep(time: Duration) -> Boxed {
        OnSmol::sleep(time)
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // What it panicked with was printed.
            let _ = thread.join();
        }
    }
}

/// async-std; `ASYNC_STD_THREAD_COUNT` says how many threads it has.
#[derive(Clone, Copy, Debug)]
pub struct OnAsyncStd;

impl Host for OnAsyncStd {
    type Runtime = AsyncStd;

    const NAME: &'static str = "async-std";

    fn start() -> Self {
        Self
    }

    fn spawn(&self, task: Boxed) {
        drop(async_std::task::spawn(task));
    }

    fn sleep(time: Duration) -> Boxed {
        Box::pin(async_std::task::sleep(time))
    }
}

/// Threads that park, one for each task.
#[derive(Clone, Copy, Debug)]
pub struct Threads;

impl Host for Threads {
    type Runtime = Blocking;

    const NAME: &'static str = "blocking";

    fn start() -> Self {
        Self
    }

    fn spawn(&self, task: Boxed) {
        let thread = thread::Builder::new().stack_size(512 * 1024).spawn(move || block_on(task));
        drop(thread.expect("a thread"));
    }

    fn sleep(time: Duration) -> Boxed {
        OnSmol::sleep(time)
    }

    fn own_call(ground: &Arc<Ground>, dice: &mut Dice) -> bool {
        threads::call(ground, dice);
        true
    }
}
