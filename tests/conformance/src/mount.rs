//! What a runtime must be able to do to carry the suite.
//!
//! Owns: the contract of a mount, and the guard against a body that hangs. Lacks: any runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use admission_rt::runtime::{Runtime, Spawn};

/// A future in a box.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A runtime under test.
pub trait Mount: Copy + Send + Sync + 'static {
    /// Where its alarms come from, and what runs queries.
    type Runtime: Runtime + Spawn;

    /// Whether time passes only while nothing can run, so that every start has one right time. If
    /// not, a start is never early, and that is all.
    const EXACT: bool;

    /// Whether tasks run one at a time, in the order in which they were woken.
    const ONE_THREAD: bool;

    /// How long one millisecond of a transcript lasts.
    const MILLISECOND: Duration;

    /// Runs one body in a fresh runtime.
    fn block_on(body: Boxed<()>);

    /// Runs a future beside its caller. The answer is its output, or nothing if it panicked.
    fn spawn<T: Send + 'static>(future: Boxed<T>) -> Boxed<Option<T>>;

    /// Waits.
    fn sleep(time: Duration) -> Boxed<()>;

    /// How many alarms are armed, where the mount can see that.
    fn armed() -> Option<usize> {
        None
    }
}

/// Runs a body on a mount, and complains if it hangs.
///
/// # Panics
///
/// When the body does, or hangs.
pub fn run<M: Mount>(body: impl FnOnce() -> Boxed<()> + Send + 'static) {
    let (done, wait) = channel();
    let name = thread::current().name().unwrap_or("a body").to_owned();
    let runner = thread::Builder::new().name(name.clone()).spawn(move || {
        M::block_on(body());
        // Nobody listens any more once it was found to hang.
        let _ = done.send(());
    });
    let runner = runner.expect("a thread");
    match wait.recv_timeout(HANGS) {
        Err(RecvTimeoutError::Timeout) => panic!("{name} hangs"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {
            if let Err(panic) = runner.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// No body takes nearly so long, on however slow a machine; one that does is deadlocked.
const HANGS: Duration = Duration::from_secs(300);
