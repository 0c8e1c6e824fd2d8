//! Embassy's executor driven by hand, under a clock that is advanced by hand: time passes only while no task
//! can run.
//!
//! Owns: one executor for the process, which one body at a time may have, and the mount of the conformance suite
//! on it. What a body spawns is polled by the body's own task, in the order in which it was woken: embassy polls last
//! what was woken first, and the suite's transcripts tell the order within an instant. Lacks the adapter, which
//! is `tests/embedding/src/embassy.rs`, and any waiting: an hour takes as long as it takes to advance the clock by
//! an hour.
//!
//! Embassy's clock is the process's, so bodies run one after the other, and it never goes back between them.

use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use async_lock::OnceCell;
use conformance::mount::{Boxed, Mount};
use embassy_executor::SendSpawner;
use embassy_executor::raw::Executor;
use embassy_time::{MockDriver, Timer};
use embedding::embassy::Embassy;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};

/// The mount.
#[derive(Clone, Copy, Debug)]
pub struct EmbassyMock;

impl Mount for EmbassyMock {
    type Runtime = Embassy;

    const EXACT: bool = true;
    const ONE_THREAD: bool = true;
    const MILLISECOND: Duration = Duration::from_millis(1);

    fn block_on(body: Boxed<()>) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, answered) = mpsc::channel();
        start(Box::pin(async move {
            // Nobody listens any more once it was found to hang.
            let _ = answer.send(AssertUnwindSafe(with_its_own(body)).catch_unwind().await);
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
        let mut own = own();
        own.newcomers.push(Box::pin(async move {
            let output = AssertUnwindSafe(future).catch_unwind().await;
            // It is set once, here.
            let _ = answer.set(Mutex::new(output.ok())).await;
        }));
        let body = own.body.clone();
        drop(own);
        body.iter().for_each(Waker::wake_by_ref);
        Box::pin(async move { answered.wait().await.lock().unwrap_or_else(PoisonError::into_inner).take() })
    }

    /// In a task of its own: embassy's timers wake tasks of embassy only.
    fn sleep(time: Duration) -> Boxed<()> {
        Box::pin(async move {
            let slept = Arc::new(OnceCell::new());
            let tell = Arc::clone(&slept);
            start(Box::pin(async move {
                Timer::after_micros(time.as_nanos().div_ceil(1_000) as u64).await;
                // It is set once, here.
                let _ = tell.set(()).await;
            }));
            slept.wait().await;
        })
    }
}

/// Polls a body, and beside it what it spawns, until the body is done.
async fn with_its_own(mut body: Boxed<()>) {
    let mut spawned = FuturesUnordered::new();
    drop(mem::take(&mut own().newcomers));
    let together = poll_fn(|context| {
        own().body = Some(context.waker().clone());
        loop {
            if let Poll::Ready(()) = body.as_mut().poll(context) {
                return Poll::Ready(());
            }
            while let Poll::Ready(Some(())) = spawned.poll_next_unpin(context) {}
            // Whoever was spawned meanwhile has not been polled.
            let newcomers = mem::take(&mut own().newcomers);
            if newcomers.is_empty() {
                return Poll::Pending;
            }
            spawned.extend(newcomers);
        }
    });
    together.await;
}

/// What belongs to the body that runs.
struct Own {
    /// Spawned, and not polled yet.
    newcomers: Vec<Boxed<()>>,
    /// Wakes the body's task.
    body: Option<Waker>,
}

static OWN: Mutex<Own> = Mutex::new(Own { newcomers: Vec::new(), body: None });

fn own() -> MutexGuard<'static, Own> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
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
