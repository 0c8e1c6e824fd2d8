//! Embassy's executor driven by hand, under a clock that is advanced by hand: time passes only while no task
//! can run.
//!
//! Owns: one executor for the process, which one body at a time may have, and the mount of the conformance suite
//! on it. Lacks the adapter, which is `tests/embedding/src/embassy.rs`, and any waiting: an hour takes as long as
//! it takes to advance the clock by an hour.
//!
//! Embassy's clock is the process's, so bodies run one after the other, and it never goes back between them.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, mpsc};
use std::time::Duration;

use async_lock::OnceCell;
use conformance::mount::{Boxed, Mount};
use embassy_executor::SendSpawner;
use embassy_executor::raw::Executor;
use embassy_time::{MockDriver, Timer};
use embedding::embassy::Embassy;
use futures_util::FutureExt as _;

/// The mount.
#[derive(Clone, Copy, Debug)]
pub struct EmbassyMock;

impl Mount for EmbassyMock {
    type Runtime = Embassy;

    const EXACT: bool = true;
    // What is woken last is polled first.
    const ONE_THREAD: bool = false;
    const MILLISECOND: Duration = Duration::from_millis(1);

    fn block_on(body: Boxed<()>) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, answered) = mpsc::channel();
        start(Box::pin(async move {
            // Nobody listens any more once it was found to hang.
            let _ = answer.send(AssertUnwindSafe(body).catch_unwind().await);
        }));
        loop {
            while IS_PENDING.swap(false, Ordering::SeqCst) {
                // SAFETY: polls do not overlap, for whoever polls has the lock, and no task does; and every
                // task may be polled on any thread, since only a `SendSpawner` spawns.
                unsafe { EXECUTOR.0.poll() };
            }
            match answered.try_recv() {
                Ok(Ok(())) => return,
                Ok(Err(panic)) => {
                    drop(_alone);
                    resume_unwind(panic);
                }
                // Nobody can run until time passes.
                Err(_) => MockDriver::get().advance(STEP),
            }
        }
    }

    fn spawn<T: Send + 'static>(future: Boxed<T>) -> Boxed<Option<T>> {
        let answer = Arc::new(OnceCell::new());
        let answered = Arc::clone(&answer);
        start(Box::pin(async move {
            let output = AssertUnwindSafe(future).catch_unwind().await;
            // It is set once, here.
            let _ = answer.set(Mutex::new(output.ok())).await;
        }));
        Box::pin(async move { answered.wait().await.lock().unwrap_or_else(PoisonError::into_inner).take() })
    }

    /// In a task of its own: embassy's timers wake tasks of embassy only.
    fn sleep(time: Duration) -> Boxed<()> {
        Box::pin(async move {
            let slept = Self::spawn(Box::pin(async move {
                Timer::after_micros(time.as_nanos().div_ceil(1_000) as u64).await;
            }));
            slept.await;
        })
    }
}

/// Makes a task of a future.
fn start(future: Boxed<()>) {
    SPAWNER.spawn(any(future).expect("a task that is free"));
}

#[embassy_executor::task(pool_size = 8192)]
async fn any(future: Boxed<()>) {
    future.await;
}

/// Embassy's word that a task is ready.
// SAFETY: no other function of this name is linked, since the executor is built without a platform; it takes what
// embassy hands it and touches nothing of that.
#[unsafe(export_name = "__pender")]
fn pender(_context: *mut ()) {
    IS_PENDING.store(true, Ordering::SeqCst);
}

static IS_PENDING: AtomicBool = AtomicBool::new(false);

/// Who has it runs a body.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Shared(&'static Executor);

// SAFETY: it is polled by whoever has the lock, and spawned on through a `SendSpawner`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// The executor of the process: tasks lie in statics, and so must it.
static EXECUTOR: LazyLock<Shared> =
    LazyLock::new(|| Shared(Box::leak(Box::new(Executor::new(ptr::null_mut())))));

/// The first use has it keep the time.
static SPAWNER: LazyLock<SendSpawner> = LazyLock::new(|| {
    let spawner = EXECUTOR.0.spawner().make_send();
    Embassy::start(spawner);
    spawner
});

/// How far the clock is advanced where nobody can run: transcripts are written in milliseconds.
const STEP: embassy_time::Duration = embassy_time::Duration::from_millis(1);
