//! What is the precise alarm's own, where its timer is the kernel's in tokio's reactor: its neighbour in the same
//! runtime, and runtimes without I/O or without time.

#![cfg(all(feature = "precise", any(target_os = "linux", target_os = "android")))]

mod either;

use std::time::Duration;

use admission_rt::runtime::Runtime;
use admission_rt::{Counts, Rejected};
use admission_tokio::precise::{Acquire, Admission, Provider};
use either::{KINDS, paced};
use tokio::runtime::Builder;

/// One coordinator serves callers of both alarms, in one runtime, and each wakes its own.
#[test]
fn callers_of_both_alarms_share_a_coordinator() {
    // rules T5, L2
    async fn start<R: Runtime>(acquire: admission_rt::Acquire<R>) {
        drop(acquire.await.expect("its turn"));
    }
    for kind in KINDS {
        kind().block_on(async {
            let (admission, precise) = paced(Duration::from_millis(1));
            let default = admission.on::<admission_tokio::Tokio>().provider("a").expect("it is there");
            let tasks: Vec<_> = (0..10)
                .flat_map(|_| {
                    [tokio::spawn(start(precise.acquire())), tokio::spawn(start(default.acquire()))]
                })
                .collect();
            for task in tasks {
                task.await.expect("no panic");
            }
        });
    }
}

/// A runtime without I/O panics where somebody waits, in that caller's own poll, and nowhere else.
#[test]
fn without_io_a_wait_panics_in_its_own_poll() {
    // rule W5
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (admission, a) = paced(Duration::from_secs(3_600));
    runtime.block_on(async {
        drop(a.acquire().await.expect("what need not wait needs no I/O"));
        for _ in 0..2 {
            let waiting = tokio::spawn(a.acquire());
            assert!(waiting.await.expect_err("it panics").is_panic());
        }
    });
    assert_eq!(admission.counts(), Counts::default());
    // The coordinator is as good as before.
    admission.close();
    assert!(matches!(a.try_acquire(), Err(Rejected::Closed)));
}

/// A runtime without time will do: nothing here is tokio's clock's.
#[test]
fn without_time_a_wait_is_as_good_as_ever() {
    // rule T2
    let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
    let (_admission, a) = paced(Duration::from_millis(1));
    runtime.block_on(async {
        for _ in 0..3 {
            drop(a.acquire().await.expect("its turn"));
        }
    });
}
