//! What a call costs in memory: bytes while it waits, and allocations in the steady state. Not under
//! the audit, which allocates for itself.

#![cfg(not(audit))]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use allocation_counter::measure;
use common::{Acquire, World};

const WAITING: u32 = 100_000;

// rule W1
#[test]
fn a_waiting_call_costs_at_most_128_bytes_its_future_included() {
    let world = World::new();
    let _entered = world.enter();
    let mut cx = Context::from_waker(Waker::noop());
    let mut kept = None;
    let live = measure(|| {
        let admission =
            world.builder().max_queued(WAITING).provider("a", |p| p.max_concurrent(1)).build().unwrap();
        let a = admission.provider("a").unwrap();
        let mut futures: Vec<Acquire> = Vec::with_capacity(WAITING as usize + 1);
        for key in 0..=u64::from(WAITING) {
            futures.push(a.key(key).acquire());
        }
        let running = Pin::new(&mut futures[0]).poll(&mut cx);
        for future in &mut futures[1..] {
            assert!(Pin::new(future).poll(&mut cx).is_pending());
        }
        assert_eq!(admission.counts().queued, WAITING);
        kept = Some((running, futures, admission));
    });
    let each = live.bytes_current / i64::from(WAITING);
    assert!(each > size_of::<Acquire>() as i64, "the futures are counted");
    assert!(each <= 128, "{each} bytes");
}

// rule W5
#[test]
fn in_the_steady_state_a_call_allocates_nothing() {
    let world = World::new();
    let _entered = world.enter();
    let mut cx = Context::from_waker(Waker::noop());
    let admission = world
        .builder()
        .max_concurrent(8)
        .provider("a", |p| p.max_concurrent(1))
        .provider("b", |p| p.window(1_000_000, std::time::Duration::from_secs(1)))
        .build()
        .unwrap();
    let (a, b) = (admission.provider("a").unwrap(), admission.provider("b").unwrap());
    let mut round = |key: u64| {
        let at_once = Pin::new(&mut b.key(u64::from(u32::MAX) + key).acquire()).poll(&mut cx);
        let first = Pin::new(&mut a.acquire()).poll(&mut cx);
        let mut waits = a.key(key).acquire();
        let mut leaves = a.key(key).acquire();
        assert!(Pin::new(&mut waits).poll(&mut cx).is_pending());
        assert!(Pin::new(&mut leaves).poll(&mut cx).is_pending());
        drop(leaves);
        drop(first);
        assert!(Pin::new(&mut waits).poll(&mut cx).is_ready());
        drop(at_once);
    };
    (0..1_000).for_each(&mut round);
    let steady = measure(|| (1_000..101_000).for_each(&mut round));
    assert_eq!(steady.count_total, 0);
    assert_eq!(admission.counts(), admission_rt::Counts::default());
}
