//! A coordinator that changes while it runs: limits, costs, and who the providers are.
//!
//! Owns: rules L7, L8, L10 and O1, as far as they can be seen from outside. Lacks: what a single
//! decision does with every combination of changes, which the core's own tests compare with the model.

use admission_rt::{Counts, Rejected, Window};

use crate::mount::Mount;
use crate::signal::poll_once;
use crate::transcript::Transcript;

/// Raising a limit admits at once what now may start; lowering it revokes nothing that runs.
pub async fn limits_change_both_ways_while_calls_wait_and_run<M: Mount>() {
    // rule L7
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let a1 = t.call("a1", &a).await;
    let a2 = t.call("a2", &a).await;
    let a3 = t.call("a3", &a).await;
    a.set_limits(|p| p.max_concurrent(3)).expect("it is there");
    a2.started().await;
    a3.started().await;
    a.set_limits(|p| p.max_concurrent(1)).expect("it is there");
    assert_eq!(admission.counts(), Counts { running: 3, granted: 0, queued: 0 });
    let a4 = t.call("a4", &a).await;
    a1.settle().await;
    a2.settle().await;
    assert!(!a4.has_started(), "one still runs, and one is all that is allowed");
    a3.settle().await;
    a4.settle().await;
    assert_eq!(t.names().last().map(String::as_str), Some("a4"));
    assert_eq!(admission.counts(), Counts::default());
}

/// A window that is lowered forgets nothing; a waiter that can no longer fit is told so at once.
pub async fn a_waiter_that_can_no_longer_fit_is_refused_at_once<M: Mount>() {
    // rules L7, L6
    let t = Transcript::<M>::new();
    let hour = t.ms(3_600_000);
    let tokens = |limit| Window::new(limit, hour).unit("tokens");
    let admission = t.build(|b| b.unit("tokens").provider("a", |p| p.log(tokens(10))));
    let a = admission.provider("a").expect("it is there");
    let permit = a.cost("tokens", 6).try_acquire().expect("there is room");
    let mut heavy = a.cost("tokens", 8).acquire();
    let mut light = a.cost("tokens", 2).acquire();
    assert!(poll_once(&mut heavy).await.is_pending());
    assert!(poll_once(&mut light).await.is_pending(), "the heavy one goes first");
    a.set_limits(|p| p.log(tokens(7))).expect("it is there");
    assert!(matches!(heavy.await, Err(Rejected::ImpossibleCost { .. })));
    assert!(poll_once(&mut light).await.is_pending(), "six of seven are spent");
    a.set_limits(|p| p.log(tokens(8))).expect("it is there");
    drop(light.await.expect("there is room"));
    drop(permit);
    assert_eq!(admission.counts(), Counts::default());
}

/// A permit that corrects its cost lets a waiter go, or holds it back.
pub async fn a_cost_is_corrected_while_the_permit_is_held<M: Mount>() {
    // rule L8
    let t = Transcript::<M>::new();
    let hour = t.ms(3_600_000);
    let admission =
        t.build(|b| b.unit("tokens").provider("llm", |p| p.log(Window::new(1_000, hour).unit("tokens"))));
    let llm = admission.provider("llm").expect("it is there");
    let estimated = llm.cost("tokens", 900).try_acquire().expect("there is room");
    let mut waiting = llm.cost("tokens", 500).acquire();
    assert!(poll_once(&mut waiting).await.is_pending());
    estimated.settle("tokens", 350).expect("a unit that is there");
    let second = waiting.await.expect("there is room");
    second.settle("tokens", 650).expect("a unit that is there");
    assert!(llm.cost("tokens", 1).try_acquire().is_err(), "all is spent");
    estimated.settle("tokens", 100).expect("as often as one likes");
    drop(llm.cost("tokens", 250).try_acquire().expect("there is room again"));
    assert!(estimated.settle("bytes", 1).is_err(), "no such unit");
    assert!(estimated.settle("requests", 2).is_err(), "a call is one request");
}

/// What waits at a provider that is removed is told so; what runs goes on, and its window is kept.
pub async fn a_provider_can_be_removed_and_come_back<M: Mount>() {
    // rule L10
    let t = Transcript::<M>::new();
    let hour = t.ms(3_600_000);
    let (admission, a) = t.provider(|p| p.max_concurrent(1).window(2, hour));
    let running = t.call("running", &a).await;
    let mut waiting = a.acquire();
    assert!(poll_once(&mut waiting).await.is_pending());
    admission.remove_provider("a").expect("it is there");
    assert!(waiting.await.expect_err("it is gone").is_removed());
    assert!(admission.provider("a").is_err());
    assert!(a.try_acquire().is_err());
    assert!(admission.remove_provider("a").is_err(), "it is not there");
    assert_eq!(admission.counts(), Counts { running: 1, granted: 0, queued: 0 });
    let a = admission.add_provider("a", |p| p.window(2, hour)).expect("it is not there");
    assert!(admission.add_provider("a", |p| p).is_err(), "it is there");
    drop(a.try_acquire().expect("the second of two"));
    assert!(a.try_acquire().is_err(), "the window remembers the first");
    running.settle().await;
    assert_eq!(admission.counts(), Counts::default());
}

/// With a template every name is a provider of its own, and is forgotten when nothing is left of it.
pub async fn a_template_makes_providers_on_demand<M: Mount>() {
    // rule L10
    let t = Transcript::<M>::new();
    let admission = t.build(|b| b.template(|p| p.max_concurrent(1)));
    let mut permits = Vec::new();
    for host in 0..100 {
        let host = admission.provider(&format!("host-{host}")).expect("there is a template");
        permits.push(host.try_acquire().expect("each has limits of its own"));
        assert!(host.try_acquire().is_err(), "one at a time");
    }
    assert_eq!(admission.snapshot().providers.len(), 100);
    drop(permits);
    assert_eq!(admission.counts(), Counts::default());
    assert_eq!(admission.snapshot().providers.len(), 0, "nothing is left of them");
    let again = admission.provider("host-7").expect("there is a template");
    drop(again.try_acquire().expect("it is made anew"));
}

/// Fewer may wait from now on; who waits already stays.
pub async fn the_queue_can_be_shortened_without_refusing_who_waits<M: Mount>() {
    // rule L7
    let t = Transcript::<M>::new();
    let (admission, a) = t.provider(|p| p.max_concurrent(1));
    let a1 = t.call("a1", &a).await;
    let a2 = t.call("a2", &a).await;
    let a3 = t.call("a3", &a).await;
    admission.set_max_queued(1);
    let mut refused = a.acquire();
    let answer = poll_once(&mut refused).await;
    assert!(matches!(answer, std::task::Poll::Ready(Err(Rejected::Overflow { .. }))));
    a1.settle().await;
    a2.settle().await;
    a3.settle().await;
    assert_eq!(t.names(), ["a1", "a2", "a3"]);
}

/// A snapshot tells for every scope what runs, waits and is spent, and prints as a table.
pub async fn a_snapshot_tells_everything<M: Mount>() {
    // rule O1
    let t = Transcript::<M>::new();
    let hour = t.ms(3_600_000);
    let (admission, a) = t.provider(|p| p.max_concurrent(1).window(60, hour));
    let running = t.call("running", &a).await;
    let waiting = t.call("waiting", &a).await;
    let snapshot = admission.snapshot();
    let of_a = snapshot.provider("a").expect("it is there");
    assert_eq!((of_a.running, of_a.granted, of_a.queued), (1, 0, 1));
    let table = snapshot.to_string();
    assert!(table.contains("1/60"), "{table}");
    assert!(of_a.next.is_some_and(|next| next > snapshot.at), "the window forgets the start in an hour");
    running.settle().await;
    waiting.settle().await;
}
