//! What a call costs in memory: bytes while it waits, and allocations in the steady state. Not under
//! the audit, which allocates for itself.

#![cfg(not(audit))]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use admission_rt::{AbortHandle, Key};
use allocation_counter::measure;
use common::{Acquire, Admission, World, ms};

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

/// How many bytes more there are after `act` than before it, on this thread.
fn kept(act: impl FnOnce()) -> i64 {
    measure(act).bytes_current
}

// rules L10, W5
#[test]
fn a_hundred_thousand_providers_leave_nothing_behind() {
    let world = World::new();
    let _entered = world.enter();
    let admission =
        world.builder().template(|p| p.max_concurrent(2).window(5, ms(800)).interval(ms(1))).build().unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut now = 0;
    let mut name = String::with_capacity(64);
    let mut hosts = |admission: &Admission, count: u32| {
        for nth in 0..count {
            use std::fmt::Write;
            name.clear();
            write!(name, "host-{nth:09}-{now:09}").unwrap();
            let host = admission.provider(&name).unwrap();
            let permit = Pin::new(&mut host.acquire()).poll(&mut cx);
            assert!(permit.is_ready());
            drop(permit);
            now += 1;
            world.set(now);
        }
    };
    // Eight hundred of them are remembered at any time.
    hosts(&admission, 20_000);
    let kept = kept(|| hosts(&admission, 100_000));
    assert!(kept.abs() < 4_096, "{kept} bytes");
    world.set(1_000_000);
    assert_eq!(admission.snapshot().providers, []);
}

// rules L10, W5
#[test]
fn a_crowd_of_providers_leaves_nothing_behind() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().template(|p| p.window(5_000, ms(1_000))).build().unwrap();
    let names: Vec<String> = (0..100_000).map(|nth| format!("host-{nth}")).collect();
    let mut now = 0;
    let mut crowd = || {
        for name in &names {
            drop(admission.provider(name).unwrap().try_acquire().unwrap());
        }
        now += 1_000;
        world.set(now);
        // No call forgets more than a few of them.
        for _ in 0..names.len() / 2 {
            assert_eq!(admission.counts(), admission_rt::Counts::default());
        }
        drop(admission.provider("next").unwrap().try_acquire().unwrap());
    };
    let first = measure(&mut crowd);
    assert!(first.bytes_max < 100_000 * 1_000, "{} bytes at the most", first.bytes_max);
    assert!(first.bytes_current < 64 * 1_024, "{} bytes", first.bytes_current);
    let again = kept(&mut crowd);
    assert!(again.abs() < 1_024, "{again} bytes");
}

// rules D3, W5
#[test]
fn a_million_keys_leave_nothing_behind() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    let keys = |from: u64, to: u64| {
        for key in from..to {
            drop(a.key(format!("call {key}")).try_acquire().unwrap());
        }
    };
    keys(0, 1_000);
    let kept = kept(|| keys(1_000, 1_000_000));
    assert!(kept.abs() < 1_024, "{kept} bytes");
}

// rules L10, W5
#[test]
fn a_kept_handle_of_a_made_provider_costs_a_box_per_call() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().template(|p| p.max_concurrent(1)).build().unwrap();
    let host = admission.provider("host").unwrap();
    // Limits of its own, so that it is not forgotten and made again between two calls.
    host.set_limits(|p| p.max_concurrent(2)).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut calls = |count: u64| {
        for _ in 0..count {
            drop(Pin::new(&mut host.acquire()).poll(&mut cx));
        }
    };
    calls(100);
    assert_eq!(measure(|| calls(1_000)).count_total, 1_000);
}

// rules L7, L10
#[test]
fn limits_of_a_crowd_of_providers_leave_nothing_behind() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().template(|p| p.max_concurrent(2)).build().unwrap();
    let names: Vec<String> = (0..10_000).map(|nth| format!("host-{nth}")).collect();
    let change = |names: &[String], limit: u32| {
        for name in names {
            admission.provider(name).unwrap().set_limits(|p| p.max_concurrent(limit)).unwrap();
        }
    };
    let some = kept(|| {
        change(&names, 1);
        // With the template's limits again they are as any other, and forgotten.
        change(&names[20..], 2);
    });
    assert!(some < 64 * 1_024, "{some} bytes for twenty");
    let more = kept(|| {
        change(&names[20..], 1);
        change(&names, 2);
    });
    let all = some + more;
    assert!(all < 32 * 1_024, "{all} bytes for none");
}

// rules D3, W5
#[test]
fn a_crowd_of_keys_leaves_nothing_behind() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    let crowd = |key: fn(u64) -> Key| {
        let permits = (0..10_000).map(|nth| a.key(key(nth)).try_acquire().unwrap());
        drop(permits.collect::<Vec<_>>());
    };
    // Numbers need no name. What room there is for so many calls stays there.
    crowd(Key::from);
    let all = kept(|| crowd(|nth| format!("call {nth}").into()));
    assert!(all < 64 * 1_024, "{all} bytes");
}

// rules I3, W3
#[test]
fn a_running_call_keeps_nothing_of_its_wait() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("a", |p| p).build().unwrap();
    let a = admission.provider("a").unwrap();
    let (_handle, signal) = AbortHandle::new();
    let mut cx = Context::from_waker(Waker::noop());
    let mut running = |has_signal: bool| {
        let mut permits = Vec::with_capacity(1_000);
        let bytes = kept(|| {
            for _ in 0..1_000 {
                let call = a.admission_timeout(ms(5));
                let call = if has_signal { call.abort_signal(&signal) } else { call };
                permits.push(Pin::new(&mut call.acquire()).poll(&mut cx));
            }
        });
        assert_eq!(admission.counts().running, 1_000);
        bytes
    };
    running(false);
    assert_eq!(running(true), running(false));
}

// rules O2, W5
#[test]
fn calls_that_leave_while_one_waits_leave_nothing_to_report() {
    let world = World::new();
    let _entered = world.enter();
    let builder = world.builder().provider("a", |p| p.max_concurrent(1));
    let admission = builder.on_long_wait(ms(3_600_000), |_| {}).build().unwrap();
    let a = admission.provider("a").unwrap();
    let _permit = a.try_acquire().unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    let mut waiting = || {
        let mut waits = a.acquire();
        assert!(Pin::new(&mut waits).poll(&mut cx).is_pending());
        waits
    };
    let _stays = waiting();
    drop((0..1_000).map(|_| waiting()).collect::<Vec<_>>());
    let all = kept(|| (0..100_000).for_each(|_| drop(waiting())));
    assert!(all < 1_024, "{all} bytes");
}

// rules W5, W7
#[test]
fn calls_that_end_when_the_last_handle_is_gone_leave_nothing_behind() {
    let world = World::new();
    let _entered = world.enter();
    let clock = world.clock();
    let whole_lives = |has_template: bool, calls: usize| {
        kept(|| {
            let builder = world.builder().provider("a", |p| p);
            let builder = if has_template { builder.template(|p| p.max_concurrent(1)) } else { builder };
            let admission = builder.build().unwrap();
            let a = admission.provider("a").unwrap();
            let mut permits: Vec<_> = (0..calls).map(|_| a.try_acquire().unwrap()).collect();
            permits.extend((0..calls).map(|nth| a.key(format!("call {nth}")).try_acquire().unwrap()));
            if has_template {
                permits.push(admission.provider("host").unwrap().try_acquire().unwrap());
            } else {
                permits.push(admission.add_provider("b", |b| b).unwrap().try_acquire().unwrap());
            }
            // So that the last start is a plain one, which opens places.
            permits.push(a.try_acquire().unwrap());
            drop((admission, a));
            drop(permits);
        })
    };
    for has_template in [false, true] {
        for calls in [0, 1, 3, 100] {
            assert_eq!(whole_lives(has_template, calls), 0, "bytes of {calls} calls");
            assert_eq!(std::sync::Arc::strong_count(&clock), 2, "the world's and this one");
        }
    }
    assert_eq!(world.faces(), 0);
}
