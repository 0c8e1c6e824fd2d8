//! Futures on their own, for the runtime of the timer thread: a thread for each.
//!
//! Owns: the least that [`Spawn`] can be. Lacks an executor: a thread parks until its one future is woken.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};

use admission_rt::runtime::Spawn;

use crate::timer_thread::TimerThread;

impl Spawn for TimerThread {
    fn spawn<F>(future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Where no thread can be had the future is dropped, which is how others hear of it.
        drop(thread::Builder::new().name("spawned".to_owned()).spawn(|| run(future)));
    }
}

fn run(future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
