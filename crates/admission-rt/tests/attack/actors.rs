//! Those who use the coordinator: calls, retried calls, refreshes, subscriptions, streams.
//!
//! Owns: how each is begun, and what is checked of what it gives. Lacks any say in when it is polled.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use admission_rt::{AbortHandle, AdmissionStreamExt, Attempt, ItemError, OnAbort, Query, QueryStatus};
use futures_core::Stream;

use super::common::{Hand, Provider};
use super::ground::{Flag, Ground, Op, PROVIDERS, Token, Val, ground};

type Call = admission_rt::Call<Hand>;

type Act = Box<dyn FnMut(&mut Context<'_>) -> Poll<()>>;

pub(crate) struct Actor {
    pub(crate) kind: &'static str,
    /// Whether it ends by itself once everything else does.
    pub(crate) must_end: bool,
    /// Whether it goes on after a panic.
    goes_on: bool,
    poll: Option<Act>,
    pub(crate) flag: Arc<Flag>,
    pub(crate) polls: u64,
}

impl Actor {
    fn new(kind: &'static str, poll: impl FnMut(&mut Context<'_>) -> Poll<()> + 'static) -> Self {
        let flag = Arc::new(Flag::default());
        flag.0.store(true, Ordering::SeqCst);
        Self { kind, must_end: true, goes_on: false, poll: Some(Box::new(poll)), flag, polls: 0 }
    }

    fn of<F: Future + 'static>(kind: &'static str, future: F) -> Self {
        let mut future = Box::pin(future);
        Self::new(kind, move |cx| {
            let polled = future.as_mut().poll(cx);
            let is_pending = polled.is_pending();
            drop(polled);
            if is_pending { Poll::Pending } else { Poll::Ready(()) }
        })
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.poll.is_some() && self.flag.0.load(Ordering::SeqCst)
    }

    pub(crate) const fn is_there(&self) -> bool {
        self.poll.is_some()
    }

    pub(crate) fn poll(&mut self, ground: &Ground) {
        self.flag.0.store(false, Ordering::SeqCst);
        self.polls += 1;
        let waker = Waker::from(self.flag.clone());
        let Some(poll) = &mut self.poll else { return };
        match ground.guard(|| poll(&mut Context::from_waker(&waker))) {
            Some(Poll::Pending) => {}
            None if self.goes_on && !ground.roll(3) => self.flag.0.store(true, Ordering::SeqCst),
            Some(Poll::Ready(())) | None => self.drop(ground),
        }
    }

    pub(crate) fn drop(&mut self, ground: &Ground) {
        let poll = self.poll.take();
        ground.guard(|| drop(poll));
    }

    pub(crate) fn forget(&mut self) {
        std::mem::forget(self.poll.take());
    }

    /// Somebody new.
    pub(crate) fn any(ground: &Rc<Ground>) -> Option<Self> {
        let at = ground.below(2) as usize;
        let provider = ground.admission.provider(PROVIDERS[at]).ok()?;
        match ground.below(20) {
            0..3 => {
                let (call, key) = call(ground, &provider);
                let begin = move || Op::begin(0, Some((at, key)), None);
                Some(match ground.below(3) {
                    0 => Self::of("run", call.try_run(begin)),
                    1 => Self::of("run", call.run(begin)),
                    _ => Self::of("enqueued", call.enqueue()),
                })
            }
            3..6 => {
                let (call, key) = call(ground, &provider);
                let begin = move |attempt: Attempt| Op::begin(0, Some((at, key)), Some(attempt));
                Some(Self::of("retried", call.retry(ground.policy(true)).try_run(begin)))
            }
            6 => {
                let begin = |attempt: Attempt| Op::begin(0, None, Some(attempt));
                let policy = ground.policy(true);
                let signal = signal(ground);
                Some(match ground.below(2) {
                    0 => Self::of("retried", ground.interval.retry(&signal, policy).try_run(begin)),
                    _ => Self::of("retried", ground.rate.retry(policy).try_run(begin)),
                })
            }
            7..11 => {
                let query = ground.queries.borrow();
                let nth = ground.below(query.len().max(1) as u64) as usize;
                Some(Self::of("refresh", query.get(nth)?.refresh()))
            }
            11 => {
                let query = ground.queries.borrow();
                let nth = ground.below(query.len().max(1) as u64) as usize;
                Some(subscriber(query.get(nth)?))
            }
            12 if ground.queries.borrow().len() < 6 => {
                let query = query(ground, &provider, at);
                ground.queries.borrow_mut().push(query);
                None
            }
            13..18 => Some(stream(ground, &provider, at)),
            18 => Some(Self { must_end: false, ..Self::of("closed", ground.admission.closed()) }),
            _ => Some(Self::of("idle", ground.admission.idle())),
        }
    }
}

fn signal(ground: &Ground) -> admission_rt::AbortSignal {
    let (handle, signal) = AbortHandle::new();
    ground.handles.borrow_mut().push(handle);
    signal
}

fn call(ground: &Ground, provider: &Provider) -> (Call, Option<u64>) {
    let key = Some(ground.below(4)).filter(|key| *key < 3);
    let mut call = match key {
        Some(key) => provider.key(key),
        None => provider.call(),
    };
    if ground.roll(3) {
        call = call.admission_timeout(ground.deadline());
    }
    if ground.roll(3) {
        call = call.abort_signal(&signal(ground));
    }
    (call, key)
}

fn query(ground: &Ground, provider: &Provider, at: usize) -> Query<Val, Val> {
    ground.count("queries");
    let key = ground.below(3);
    // Attempts that have no time at all, and are tried again for ever, never end.
    let (mut policy, timeout) = (ground.policy(false), ground.roll(2).then(|| ground.deadline()));
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        policy = policy.at_most(5);
    }
    let mut builder = provider.query(key).retry(policy);
    if let Some(timeout) = timeout {
        builder = builder.attempt_timeout(timeout);
    }
    if ground.roll(2) {
        builder = builder.admission_timeout(ground.deadline());
    }
    if ground.roll(2) {
        builder = builder.on_abort(OnAbort::Drop);
    }
    builder = builder.retry_timeouts(ground.roll(2));
    let val = ground.val(0);
    builder.build(move |attempt| {
        let _ = &val;
        Op::begin(0, Some((at, Some(key))), Some(attempt))
    })
}

fn subscriber(query: &Query<Val, Val>) -> Actor {
    let mut looks = query.subscribe();
    let mut version = 0;
    let mut actor = Actor::new("subscription", move |cx| {
        for _ in 0..100 {
            match looks.poll_snapshot(cx) {
                Poll::Ready(Some(snapshot)) => {
                    if snapshot.version <= version {
                        ground().inspect(|ground| ground.fault("an older snapshot"));
                    }
                    version = snapshot.version;
                }
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
        ground().inspect(|ground| ground.fault("a subscription that spins"));
        Poll::Ready(())
    });
    actor.must_end = false;
    actor
}

pub(crate) const fn is_at_rest(status: &QueryStatus) -> bool {
    matches!(
        status,
        QueryStatus::Idle
            | QueryStatus::Data
            | QueryStatus::Error
            | QueryStatus::Paused
            | QueryStatus::Disposed
    )
}

/// What is read: it waits, panics, and ends.
struct Source {
    left: u64,
    next: u64,
    read: Arc<AtomicU64>,
    has_ended: bool,
    _token: Token,
}

impl Stream for Source {
    type Item = Val;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Val>> {
        let Some(ground) = ground() else { return Poll::Ready(None) };
        if self.has_ended {
            ground.fault("a source was asked after its end");
        }
        if ground.is_hostile.get() && ground.roll(30) {
            ground.count("panic in source");
            panic!("boom: source");
        }
        if self.left == 0 || ground.ends.get() {
            self.has_ended = true;
            return Poll::Ready(None);
        }
        if ground.roll(3) {
            ground.wells.borrow_mut().push(cx.waker().clone());
            return Poll::Pending;
        }
        self.left -= 1;
        self.next += 1;
        self.read.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(Some(ground.val(self.next)))
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(ground) = ground().filter(|ground| ground.is_hostile.get() && !std::thread::panicking()) {
            if ground.roll(30) {
                ground.count("panic in source's drop");
                panic!("boom: source's drop");
            }
        }
    }
}

fn stream(ground: &Rc<Ground>, provider: &Provider, at: usize) -> Actor {
    let read = Arc::new(AtomicU64::new(0));
    let left = if ground.roll(6) { 1_000 } else { ground.below(7) };
    let source = Source { left, next: 0, read: read.clone(), has_ended: false, _token: ground.token.clone() };
    let kind = ground.below(5);
    if kind == 0 {
        return match ground.below(3) {
            0 => reader("paced", source.paced(provider), None, |_| None),
            1 => reader("paced", source.paced(&ground.interval), None, |_| None),
            _ => reader("paced", source.paced(&ground.rate), None, |_| None),
        };
    }
    let (template, key) = call(ground, provider);
    let operation = move |item: Val, attempt: Attempt| {
        let number = item.n;
        // Before there is an operation: compilers leak what is returned past a destructor that panics.
        drop(item);
        Op::begin(number, Some((at, key)), Some(attempt))
    };
    let stops = ground.roll(3);
    let map = if stops {
        source.try_map_admitted(template, operation)
    } else {
        source.map_admitted(template, operation)
    };
    let mut map = map.concurrency(ground.below(4) as usize);
    if ground.roll(2) {
        map = map.capacity(ground.below(6) as usize);
    }
    let is_ordered = ground.roll(2);
    if !is_ordered {
        map = map.as_completed();
    }
    if ground.roll(2) {
        map = map.retry(ground.policy(true));
    }
    if ground.roll(4) {
        map = map.abort_signal(&signal(ground));
    }
    let number = move |output: &Result<Val, ItemError<Val>>| {
        output.as_ref().ok().map(|val| val.n).filter(|_| is_ordered)
    };
    let expect = Some(read).filter(|_| !stops);
    match kind {
        1 | 2 => reader("driven", map.driven(), expect, number),
        _ => reader("spawned", map.spawned(), expect, number),
    }
}

/// Reads a stream to its end: each item once, in order.
fn reader<S: Stream + 'static>(
    kind: &'static str,
    stream: S,
    read: Option<Arc<AtomicU64>>,
    number: impl Fn(&S::Item) -> Option<u64> + 'static,
) -> Actor {
    let mut stream = Box::pin(stream);
    let (mut outputs, mut last) = (0, 0);
    let panics = Rc::new(Cell::new(0_u64));
    let mut actor = Actor::new(kind, move |cx| {
        for _ in 0..100 {
            // Counted as a panic until it is none: one that passes through may have taken an item along.
            panics.set(panics.get() + 1);
            let polled = stream.as_mut().poll_next(cx);
            panics.set(panics.get() - 1);
            match polled {
                Poll::Ready(Some(output)) => {
                    outputs += 1;
                    let ground = ground();
                    if number(&output).is_some_and(|number| std::mem::replace(&mut last, number) >= number) {
                        ground.inspect(|ground| ground.fault("out of order"));
                    }
                    drop(output);
                }
                Poll::Ready(None) => {
                    let read = read.as_ref().map_or(outputs, |read| read.load(Ordering::SeqCst));
                    if outputs > read || outputs + panics.get() < read {
                        let panics = panics.get();
                        let what = format!("{kind}: {read} read, {outputs} given, {panics} panics");
                        ground().inspect(|ground| ground.fault(what));
                    }
                    return Poll::Ready(());
                }
                Poll::Pending => return Poll::Pending,
            }
            if ground().is_some_and(|ground| ground.is_hostile.get() && ground.roll(4)) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    });
    actor.goes_on = true;
    actor
}
