//! What is printed of errors, reasons, limits, handles and futures, and what their small questions answer.
//!
//! Owns: the texts, and the chains of sources behind them. Lacks what leads to each, which has tests of its own.

mod common;

use std::error::Error;
use std::fmt::{Debug, Display};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use admission_rt::{
    AbortHandle, AbortReason, AdmissionStreamExt, AttemptError, BuildError, ChangeError, Interval, ItemError,
    Key, Limit, LimitKind, Query, QueryError, QueryStatus, Rejected, Retry, RunError, Scope, SettleError,
    Window,
};
use common::{Admission, Hand, IntervalLimiter, Provider, RateLimiter, Task, World, counts, ms};
use futures_util::stream::{self, FusedStream, Stream, StreamExt};

/// An error, and what is behind it.
#[derive(Clone, Debug)]
struct Failed(Option<std::num::ParseIntError>);

impl Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it failed")
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.as_ref().map(|error| error as _)
    }
}

fn failed() -> Failed {
    Failed("x".parse::<u8>().err())
}

/// What is displayed, and what is said to be behind it.
fn chain(error: &dyn Error) -> Vec<String> {
    let mut chain = vec![error.to_string()];
    let mut behind = error.source();
    while let Some(error) = behind {
        chain.push(error.to_string());
        behind = error.source();
    }
    chain
}

const BEHIND: &str = "invalid digit found in string";

fn told<T: Display>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    all.into_iter().map(|one| one.to_string()).collect()
}

fn one_at_a_time(world: &World) -> (Admission, Provider) {
    let admission = world.builder().provider("a", |p| p.max_concurrent(1)).build().unwrap();
    let a = admission.provider("a").unwrap();
    (admission, a)
}

// rules L1, S4a
#[test]
fn a_builder_says_what_is_wrong() {
    let world = World::new();
    let wrong = |builder: admission_rt::Builder<Hand>| builder.build().unwrap_err().to_string();
    let at_p = |window: Window| world.builder().provider("p", |p| p.log(window));
    let unknown = wrong(at_p(Window::new(1, ms(1)).unit("gold")));
    assert_eq!(unknown, "provider p: a window counts gold, which is not declared");
    assert_eq!(wrong(world.builder().unit("gold").unit("gold")), "two units are named gold");
    assert_eq!(wrong(world.builder().hand_off(ms(0))), "the hand-off time is at least 1 ms");
    let crowd = |limits: admission_rt::Limits| {
        (0..=u16::MAX).fold(limits, |limits, _| limits.paced(Interval::new(ms(1))))
    };
    let crowded = wrong(world.builder().template(crowd));
    assert_eq!(crowded, "template: more than 65,535 intervals and windows");
    let units = (0..=u16::MAX).fold(world.builder(), |builder, n| builder.unit(n.to_string()));
    assert_eq!(wrong(units), "too many units");
    let others = [BuildError::TooManyProviders, BuildError::OutOfMemory];
    assert_eq!(told(others), ["too many providers", "out of memory"]);
    let client = Scope::Client;
    assert_eq!(told([client, Scope::Template]), ["client", "template"]);
    assert!(format!("{:?}", world.builder()).contains("max_queued"));
}

// rules L7, L8
#[test]
fn a_change_says_why_it_was_not_made() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let unknown = admission.set_limits(|limits| limits.log(Window::new(1, ms(1)).unit("gold")));
    assert_eq!(unknown.unwrap_err().to_string(), "client: a window counts gold, which is not declared");
    let wrong: ChangeError = BuildError::HandOffTooShort.into();
    assert_eq!(wrong.to_string(), "the hand-off time is at least 1 ms");
    let permit = a.try_acquire().unwrap();
    let requests = permit.settle("requests", 2).unwrap_err();
    let unit = permit.settle("gold", 2).unwrap_err();
    let words = [
        "a call always costs 1 of requests",
        "unknown unit: gold",
        "the call has ended, and its last cost stands",
    ];
    assert_eq!(told([requests, unit, SettleError::Ended]), words);
}

// rules D5, R6
#[test]
fn a_refusal_says_why_and_what_is_behind_it() {
    let reasons = [
        AbortReason::Requested,
        AbortReason::Timeout,
        AbortReason::Paused,
        AbortReason::Disposed,
        AbortReason::Unsubscribed,
        AbortReason::from(String::from("enough")),
    ];
    let words = ["on request", "timed out", "paused", "disposed of", "nobody is there any more", "enough"];
    assert_eq!(told(reasons), words);
    let custom: Box<dyn Error + Send + Sync> = failed().into();
    let aborted = Rejected::Aborted(AbortReason::from(custom));
    assert_eq!(chain(&aborted), ["aborted: it failed", BEHIND]);
    assert!(Rejected::Aborted(AbortReason::Timeout).source().is_none());
    let others = [
        Rejected::UnknownUnit("requests".into()),
        Rejected::UnknownUnit("gold".into()),
        Rejected::NoRuntime,
        Rejected::Closed,
    ];
    let words = [
        "a call always costs 1 of requests",
        "unknown unit: gold",
        "has to wait, but the runtime of its handle is not running here",
        "the coordinator is closed",
    ];
    assert_eq!(told(others), words);
    let kinds = [LimitKind::Key(None), LimitKind::HandOff, LimitKind::Order(None), LimitKind::Unpolled];
    let words = [
        "its key, which is busy",
        "a grant that has not started",
        "an older call",
        "its own future, which was not polled",
    ];
    assert_eq!(told(kinds), words);
    let limit = Limit { scope: Scope::Provider("p".into()), kind: LimitKind::Concurrency(2) };
    assert_eq!(limit.to_string(), "provider p: 2 at once");
}

// rules R6, Q5
#[test]
fn an_outcome_says_what_it_holds() {
    let rejected: RunError<Failed> = Rejected::Closed.into();
    assert!(rejected.rejected().is_some() && rejected.error().is_none());
    assert_eq!(chain(&rejected), ["the coordinator is closed"]);
    let own = RunError::Operation(failed());
    assert!(own.rejected().is_none() && own.error().is_some());
    assert_eq!(chain(&own), ["it failed", BEHIND]);

    let own = QueryError::Source(Arc::new(failed()));
    assert!(own.rejected().is_none() && own.error().is_some());
    assert_eq!(chain(&own), ["it failed", BEHIND]);
    assert_eq!(chain(&AttemptError::Source(Arc::new(failed()))), ["it failed", BEHIND]);
    let others = [QueryError::<Failed>::Paused, QueryError::Disposed, QueryError::Panicked, QueryError::Lost];
    assert!(others.iter().all(|error| error.source().is_none() && error.error().is_none()));
    let words = [
        "the query is paused",
        "the query is disposed of",
        "the query's source panicked",
        "the runtime that ran the query is gone",
    ];
    assert_eq!(told(others), words);

    let lost = ItemError::<Failed>::Lost;
    assert_eq!(chain(&lost), ["its task was dropped with its runtime"]);
    assert!(lost.attempts() == 0 && lost.error().is_none() && lost.rejected().is_none());
    assert!(lost.into_error().is_none());
}

// rules R6, Q5
#[test]
fn a_retried_call_says_how_it_ended() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let fails = |_| std::future::ready(Err::<(), _>(failed()));
    let mut run = Task::new(a.retry(Retry::never()).try_run(fails));
    let error = run.ready().unwrap_err();
    assert!(error.rejected().is_none());
    assert_eq!(chain(&error), ["it failed", BEHIND]);
    assert!(format!("{:?}", run.future).contains("done"));
    // The second attempt is refused.
    let mut run = Task::waiting(a.retry(Retry::times(1).delay(ms(1))).try_run(fails));
    admission.close();
    world.advance_to(1);
    let error = run.ready().unwrap_err();
    assert_eq!(chain(&error), ["the coordinator is closed (after 1 attempt)", "it failed", BEHIND]);
    let item = ItemError::from(error);
    assert_eq!((item.attempts(), item.rejected().is_some()), (1, true));
    assert_eq!(chain(&item), ["the coordinator is closed (after 1 attempt)", "it failed", BEHIND]);
}

// rule O2
#[test]
fn a_future_says_where_it_is() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let is = |it: &dyn Debug, word: &str| assert!(format!("{it:?}").contains(word), "{it:?}, not {word}");
    let permit = a.try_acquire().unwrap();
    is(&permit, "Permit");
    let mut acquire = Task::new(a.acquire());
    is(&acquire.future, "not submitted");
    assert!(acquire.future.explain().is_none());
    assert!(acquire.poll().is_pending());
    is(&acquire.future, "waiting");
    is(&a.admission_timeout(ms(0)).key(1).enqueue(), "waiting");
    drop(acquire);

    let mut run = Task::new(a.run(std::future::pending::<()>));
    assert!(run.poll().is_pending());
    is(&run.future, "waiting");
    let why = run.future.explain().expect("it waits");
    assert_eq!(why.to_string(), "a: has waited 0 s; held back by 1 at once");
    drop(permit);
    assert!(run.poll().is_pending());
    is(&run.future, "running");
    assert!(run.future.explain().is_none());
    drop(run);
    let mut run = Task::new(a.try_run(|| std::future::ready(Ok::<_, ()>(()))));
    is(&run.future, "waiting");
    assert!(run.ready().is_ok());
    is(&run.future, "done");

    is(&Task::new(admission.idle()).future, "Idle");
    is(&Task::new(admission.closed()).future, "Closed");
    admission.close();
    let mut refused = Task::new(a.enqueue());
    is(&refused.future, "refused");
    assert!(matches!(refused.ready(), Err(Rejected::Closed)));
    is(&refused.future, "done");
    let (handle, signal) = AbortHandle::new();
    handle.abort();
    is(&signal, "Requested");
}

// rule Q10
#[test]
fn a_subscription_is_a_stream_and_a_builder_can_be_cloned() {
    let world = World::new();
    let _entered = world.enter();
    let (admission, a) = one_at_a_time(&world);
    let builder = a.query::<u32>("k").admission_timeout(ms(5)).attempt_timeout(ms(7)).cost("requests", 1);
    let text = format!("{:?}", builder.clone());
    assert!(["\"a\"", "5ms", "7ms", "Finish"].iter().all(|word| text.contains(word)), "{text}");
    let query: Query<u32, u32> = a.query("k").build(|_| std::future::ready(Ok(1)));
    let mut looks = query.subscribe();
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut next = std::pin::pin!(looks.next());
        assert!(
            matches!(next.as_mut().poll(&mut cx), Poll::Ready(Some(first)) if first.status == QueryStatus::Idle)
        );
    }
    let mut refresh = Task::new(query.refresh());
    assert!(format!("{:?}", refresh.future).contains("not begun"));
    assert!(refresh.poll().is_pending());
    assert!(format!("{:?}", refresh.future).contains("waiting"));
    world.run();
    assert_eq!(*refresh.ready().unwrap(), 1, "it can be used as its data");
    assert!(format!("{:?}", refresh.future).contains("done"));
    assert_eq!(looks.snapshot().status.to_string(), "data");
    let Poll::Ready(Some(snapshot)) = looks.poll_next_unpin(&mut cx) else { panic!("it is newer") };
    assert_eq!(snapshot.data.as_deref(), Some(&1));
    assert!(!looks.is_terminated());
    query.dispose();
    assert!(looks.poll_next_unpin(&mut cx).is_ready());
    assert!(matches!(looks.poll_next_unpin(&mut cx), Poll::Ready(None)));
    assert!(looks.is_terminated() && format!("{looks:?}").contains("Subscription"));
    let words = [
        (QueryStatus::Idle, "idle"),
        (QueryStatus::Error, "error"),
        (QueryStatus::Paused, "paused"),
        (QueryStatus::Disposed, "disposed"),
    ];
    assert!(words.iter().all(|(status, word)| status.to_string() == *word));
    assert_eq!(admission.counts(), counts(0, 0, 0));
}

// rule R1
#[test]
fn a_limiter_is_closed_named_and_shared_like_a_coordinator() {
    let world = World::new();
    let _entered = world.enter();
    let rate = RateLimiter::builder(1, ms(1_000)).name("web").clock(world.clock());
    assert!(format!("{rate:?}").starts_with("RateLimiterBuilder"));
    let rate = rate.build().unwrap();
    let paced = IntervalLimiter::builder(ms(10)).name("disk").clock(world.clock());
    assert!(format!("{paced:?}").starts_with("IntervalLimiterBuilder"));
    let paced = paced.build().unwrap();
    let same = (rate.on::<Hand>(), paced.on::<Hand>());
    drop(same.0.clone().try_acquire().unwrap());
    assert!(rate.try_acquire().unwrap_err().to_string().starts_with("web: "), "it is the same limiter");
    assert!(format!("{rate:?} {paced:?}").contains("name: \"disk\""));
    let never = admission_rt::AbortSignal::never();
    let mut run = Task::new(same.1.try_run(&never, || std::future::ready(Err::<(), _>(1))));
    assert!(matches!(run.ready(), Err(RunError::Operation(1))));
    let mut start = Task::new(paced.acquire());
    assert!(format!("{:?}", start.future).contains("not submitted"));
    assert!(start.poll().is_pending());
    let mut closed = (Task::waiting(rate.closed()), Task::waiting(paced.closed()));
    assert!(!rate.is_closed() && !paced.is_closed());
    rate.close();
    paced.close();
    assert!(rate.is_closed() && same.1.is_closed());
    assert!(closed.0.poll().is_ready() && closed.1.poll().is_ready());
    assert!(matches!(start.ready(), Err(Rejected::Closed)));
}

// rule I4
#[test]
fn a_stream_says_how_far_it_is() {
    let world = World::new();
    let _entered = world.enter();
    let (_admission, a) = one_at_a_time(&world);
    let mut cx = Context::from_waker(Waker::noop());
    let numbers = || stream::iter([1_u32, 2]);
    let mut mapped = numbers().map_admitted(a.call(), |n, _| std::future::ready(Ok::<_, ()>(n))).spawned();
    assert!(mapped.poll_next_unpin(&mut cx).is_pending());
    assert!(mapped.in_flight() > 0 && mapped.finished() == 0 && !mapped.is_terminated());
    let mut read = Vec::new();
    for _ in 0..8 {
        world.run();
        match mapped.poll_next_unpin(&mut cx) {
            Poll::Ready(Some(item)) => read.push(item.unwrap()),
            Poll::Ready(None) => break,
            Poll::Pending => {}
        }
    }
    assert_eq!(read, [1, 2]);
    assert!(mapped.is_terminated());
    let mut paced = numbers().paced(a.call());
    assert!(format!("{paced:?}").contains("idle") && paced.size_hint() == (1, Some(3)));
    while let Poll::Ready(Some(_)) = paced.poll_next_unpin(&mut cx) {}
    assert!(format!("{paced:?}").contains("ended") && paced.size_hint() == (0, Some(0)));
}

// rule D3
#[test]
fn a_key_may_be_made_of_a_borrowed_text() {
    let text = String::from("repo");
    assert_eq!(Key::from(&text), Key::from("repo"));
}
