//! Names, keys, costs and times that somebody chose to do harm: what they cannot do. docs/security.md lists them.
//!
//! Owns: what comes in as a value. Lacks code that does harm (wakers, closures, destructors, clocks), which is
//! `hostile.rs`'s and the attack's.

#![cfg(not(any(admission_loom, admission_shuttle)))]

mod common;

use std::task::Poll;
use std::time::Duration;

use admission_rt::{Key, Rejected, SettleError};
use common::{Acquire, Task, World, counts};

/// A line break, a forged line, a bell, colours, and a mark that turns the text around.
const FORGED: &str = "a\r\n2026-01-01 ERROR pwned\u{7}\u{1b}[31m\u{202e}\u{2028}\u{85}";

#[track_caller]
fn stays_on_its_line(printed: &str) {
    let turns = |c: char| matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!printed.chars().any(|c| c.is_control() || turns(c)), "{printed:?}");
    assert!(printed.contains("pwned"), "{printed:?}");
}

// rules O1, O2, L10
#[test]
fn no_name_forges_a_line_in_a_log() {
    let world = World::new();
    let _entered = world.enter();
    let strict = world.builder().provider(FORGED, |p| p.max_concurrent(1)).max_queued(1).build().unwrap();
    let p = strict.provider(FORGED).unwrap();
    let running = Task::new(p.key(FORGED).acquire()).ready().unwrap();
    let waiting = Task::waiting(p.key(FORGED).acquire());
    let told = strict.waiting().pop().expect("one waits");
    let overflow = p.try_acquire().err().unwrap();
    let unknown = strict.provider(&format!("{FORGED}?")).err().unwrap();
    let twice = world.builder().provider(FORGED, |p| p).provider(FORGED, |p| p).build().err().unwrap();
    let zero = world.builder().provider(FORGED, |p| p.max_concurrent(0)).build().err().unwrap();
    let there = strict.add_provider(FORGED, |p| p).err().unwrap();
    for printed in [
        told.to_string(),
        format!("{told:?}"),
        overflow.to_string(),
        format!("{overflow:?}"),
        unknown.to_string(),
        format!("{unknown:?}"),
        twice.to_string(),
        zero.to_string(),
        there.to_string(),
        Key::from(FORGED).to_string(),
        format!("{:?}", Key::from(FORGED)),
        format!("{p:?}{}", p.name().escape_debug()),
    ] {
        stays_on_its_line(&printed);
    }
    // A snapshot is a table of several lines, but as many as there are scopes.
    let table = strict.snapshot().to_string();
    assert_eq!(table.lines().count(), 4, "{table:?}");
    table.lines().skip(3).for_each(stays_on_its_line);
    drop((running, waiting));
}

// rules D3, L1
#[test]
fn keys_that_look_alike_are_not_the_same() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world.builder().provider("p", |p| p).build().unwrap();
    let p = admission.provider("p").unwrap();
    let long = "x".repeat(1 << 20);
    // Case, normal forms, spaces, what cannot be seen, numbers as texts, numbers of names.
    let texts = ["", " ", "\0", "a", "A", "é", "e\u{301}", "a\u{200b}", "7", "07", long.as_str()];
    let numbers = [0, 7, 1 << 62, 1 << 63, (1 << 63) + 1, u64::MAX];
    let keys = texts.iter().map(|text| Key::from(*text)).chain(numbers.map(Key::from));
    let permits: Vec<_> = keys.clone().map(|key| p.key(key).try_acquire().expect("free")).collect();
    for key in keys.clone() {
        assert!(matches!(
            p.key(key).try_acquire(),
            Err(Rejected::Exhausted { .. } | Rejected::Overflow { .. })
        ));
    }
    drop(permits);
    for key in keys {
        drop(p.key(key).try_acquire().expect("free again"));
    }
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rules W1, L10
#[test]
fn a_flood_of_names_and_keys_is_bounded_by_the_queue() {
    let world = World::new();
    let _entered = world.enter();
    let admission =
        world.builder().max_concurrent(1).max_queued(100).template(|p| p.max_concurrent(1)).build().unwrap();
    let running = admission.provider("first").unwrap().try_acquire().unwrap();
    let mut kept: Vec<Task<Acquire>> = Vec::new();
    let mut refused = 0;
    for n in 0..10_000_u64 {
        let p = admission.provider(&format!("host-{n}")).unwrap();
        let key = if n % 2 == 0 { Key::from(n) } else { Key::from(format!("key-{n}")) };
        let mut task = Task::new(p.key(key).acquire());
        match task.poll() {
            Poll::Pending => kept.push(task),
            Poll::Ready(Err(Rejected::Overflow { .. })) => refused += 1,
            Poll::Ready(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((kept.len(), refused), (100, 9_900));
    // Those who were refused leave nothing behind.
    assert_eq!(admission.snapshot().providers.len(), 101);
    drop(running);
    drop(kept);
    assert_eq!(admission.counts(), counts(0, 0, 0));
    assert_eq!(admission.snapshot().providers.len(), 0);
    assert_eq!(world.armed(), None);
}

// rules T2, L3, L6, L8
#[test]
fn no_number_wraps() {
    let world = World::new();
    let _entered = world.enter();
    let admission = world
        .builder()
        .unit("tokens")
        .provider("p", |p| p.window(u64::MAX, Duration::MAX))
        .provider("q", |p| p.interval(Duration::MAX))
        .build()
        .unwrap();
    let (p, q) = (admission.provider("p").unwrap(), admission.provider("q").unwrap());
    world.set_nanos(u64::MAX - 2);
    let permits: Vec<_> = (0..3).map(|_| p.cost("tokens", u64::MAX).try_acquire().unwrap()).collect();
    for permit in &permits {
        assert_eq!(permit.settle("tokens", u64::MAX), Ok(()));
        assert_eq!(permit.settle("requests", 1), Err(SettleError::Requests));
    }
    drop(q.try_acquire().unwrap());
    let late = Task::waiting(q.admission_timeout(Duration::MAX).acquire());
    p.cooldown(Duration::MAX).unwrap();
    let refused = p.try_acquire().err().unwrap();
    assert!(!refused.to_string().is_empty() && !admission.snapshot().to_string().is_empty());
    assert!(!admission.waiting()[0].to_string().is_empty());
    world.set_nanos(u64::MAX);
    assert_eq!(admission.counts().queued, 1);
    drop((late, permits));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}
