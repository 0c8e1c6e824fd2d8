//! Queries of threads: a refresh blocks, a subscription is an iterator, a source may block.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use admission_blocking::{Admission, Query};
use admission_rt::{Counts, QueryError, QueryStatus, Retry};

fn one_at_a_time() -> Admission {
    Admission::builder().provider("a", |p| p.max_concurrent(1)).build().expect("a sound configuration")
}

// rules Q1, Q5
#[test]
fn a_refresh_blocks_until_there_is_data() {
    let admission = one_at_a_time();
    assert!(admission.query::<u32>("b", 1).is_err());
    let calls = AtomicU32::new(0);
    let policy = Retry::times(1);
    let query = admission.query("a", 1).expect("it is there").retry(policy).build(move |_| {
        match calls.fetch_add(1, Ordering::SeqCst) {
            0 => Err(503),
            calls => Ok(calls),
        }
    });
    let fetched = query.refresh().expect("the second time");
    assert_eq!((*fetched.data, fetched.times.attempts), (1, 2));
    assert_eq!(admission.counts(), Counts::default());
}

// rules Q6, Q8, Q10
#[test]
fn a_subscription_is_an_iterator_and_a_source_may_block() {
    let admission = one_at_a_time();
    let (answer, answers) = mpsc::channel::<u32>();
    let answers = std::sync::Mutex::new(answers);
    let called = Arc::new(Barrier::new(2));
    let calls = called.clone();
    let query: Query<u32, ()> = admission.query("a", 1).expect("it is there").build(move |_| {
        calls.wait();
        answers.lock().map_err(|_| ())?.recv().map_err(|_| ())
    });
    let mut seen = query.subscribe();
    assert_eq!(seen.next().expect("the first").status, QueryStatus::Idle);
    assert!(seen.latest().is_none());
    let waiting = {
        let query = query.clone();
        thread::spawn(move || query.refresh())
    };
    called.wait();
    answer.send(7).expect("it is called");
    assert_eq!(*waiting.join().expect("no panic").expect("data").data, 7);
    let newest = seen.by_ref().find(|snapshot| snapshot.status == QueryStatus::Data);
    assert_eq!(newest.expect("it has come").data.as_deref(), Some(&7));

    let waiting = {
        let query = query.clone();
        thread::spawn(move || query.refresh())
    };
    called.wait();
    query.pause();
    assert!(matches!(waiting.join().expect("no panic"), Err(QueryError::Paused)));
    assert_eq!(admission.counts().running, 1, "it cannot be cut short");
    query.dispose();
    answer.send(8).expect("it is called");
    admission.close();
    admission.idle();
    assert_eq!(seen.last().expect("the last").status, QueryStatus::Disposed);
}

#[test]
fn a_query_can_be_printed_and_built_twice_whatever_it_gives() {
    struct Bare;
    let admission = one_at_a_time();
    let builder = admission.query::<Bare>("a", 1).expect("it is there");
    let query = builder.clone().build(|_| Ok(Bare));
    assert_eq!(format!("{query:?}"), r#"Query { status: Idle, version: 1, .. }"#);
    assert!(format!("{builder:?}").starts_with("QueryBuilder {"));
    assert!(format!("{:?}", query.subscribe()).starts_with("Subscription {"));
}
