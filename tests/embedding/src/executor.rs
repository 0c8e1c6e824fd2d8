//! An executor without a queue: whoever wakes a task polls it, from inside the waker.
//!
//! Such executors exist (in callbacks of graphical programs, on top of C libraries, in tests), and they ask
//! most of whoever wakes: a lock that is held during a wake is a deadlock, and a state that is half changed
//! is seen. Owns: tasks, how deep polls may nest on one thread, and a gauge of how deep they did.
//!
//! Lacks threads and timers: a task runs on whichever thread wakes it.
//!
//! A poll may release a permit, which wakes the next in turn, whose poll may release a permit, and so on:
//! one level for each call that ends within the poll in which it starts. The coordinator adds no level of its
//! own, but it cannot take these away. So an executor of this kind needs a bound, and beyond it a queue:
//! [`Executor::nesting`].

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

/// Where tasks are made.
#[derive(Clone, Debug)]
pub struct Executor {
    limit: usize,
    deepest: Arc<AtomicUsize>,
}

impl Executor {
    /// An executor whose polls nest as deep as it happens.
    #[must_use]
    pub fn unbounded() -> Self {
        Self::nesting(usize::MAX)
    }

    /// An executor whose polls nest so deep on one thread at most. What is woken beyond that is polled
    /// when the outermost poll of the thread is over.
    #[must_use]
    pub fn nesting(limit: usize) -> Self {
        Self { limit: limit.max(1), deepest: Arc::default() }
    }

    /// Adds a task and polls it.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let task = Task {
            future: Mutex::new(Some(Box::pin(future))),
            wakes: AtomicUsize::new(0),
            executor: self.clone(),
        };
        Arc::new(task).wake();
    }

    /// How deep polls have nested on any thread.
    #[must_use]
    pub fn deepest(&self) -> usize {
        self.deepest.load(Ordering::SeqCst)
    }
}

struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// Wakes that no poll has answered yet. Whoever raises it from zero polls; others leave it at that.
    wakes: AtomicUsize,
    executor: Executor,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("wakes", &self.wakes).finish_non_exhaustive()
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::SeqCst) > 0 {
            return;
        }
        if DEPTH.get() < self.executor.limit {
            self.poll();
        } else {
            LATER.with_borrow_mut(|later| later.push_back(self));
        }
        if DEPTH.get() == 0 {
            while let Some(task) = LATER.with_borrow_mut(VecDeque::pop_front) {
                task.poll();
            }
        }
    }
}

impl Task {
    fn poll(self: Arc<Self>) {
        let level = Level::enter();
        self.executor.deepest.fetch_max(level.depth, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self));
        loop {
            let wakes = self.wakes.load(Ordering::SeqCst);
            let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(running) = future.as_mut() else { return };
            if running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                // It stays woken, so nobody polls it again. Its destructor may wake others.
                let done = future.take();
                drop(future);
                drop(done);
                return;
            }
            drop(future);
            // A wake during the poll is answered by another, from here and not from inside the wake.
            if self.wakes.fetch_sub(wakes, Ordering::SeqCst) == wakes {
                return;
            }
        }
    }
}

/// One poll inside another.
struct Level {
    depth: usize,
}

impl Level {
    fn enter() -> Self {
        let depth = DEPTH.get() + 1;
        DEPTH.set(depth);
        Self { depth }
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(self.depth - 1);
    }
}

thread_local! {
    /// How many polls are going on, one inside the other.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// What was woken beyond the limit.
    static LATER: RefCell<VecDeque<Arc<Task>>> = const { RefCell::new(VecDeque::new()) };
}
