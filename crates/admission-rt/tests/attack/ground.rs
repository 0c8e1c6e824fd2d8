//! What an attack is fought on: one coordinator with few slots, the dice, and the observer of physical calls.
//!
//! Owns: the operations, values and wakers that panic and meddle, and what is counted inside them. Lacks the
//! order of things, which is the attack's.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use admission_rt::{AbortHandle, Aborted, Attempt, Query, Refresh, Retry};

use super::common::dice::Dice;
use super::common::{Admission, IntervalLimiter, RateLimiter, ms};

pub(crate) const PROVIDERS: [&str; 2] = ["a", "b"];

/// What the values of one attack count.
pub(crate) type Token = Arc<()>;

pub(crate) struct Ground {
    pub(crate) dice: RefCell<Dice>,
    /// Whether anything may go wrong.
    pub(crate) is_hostile: Cell<bool>,
    /// Whether every operation ends with its next poll.
    pub(crate) ends: Cell<bool>,
    /// Something was leaked on purpose.
    pub(crate) forgot: Cell<bool>,
    /// Something was told to wait for ever.
    pub(crate) frozen: Cell<bool>,
    may_close: bool,
    is_rude: bool,
    pub(crate) running: Cell<u32>,
    pub(crate) running_at: [Cell<u32>; 2],
    limit: Limit,
    limit_at: [Limit; 2],
    changes: Cell<u64>,
    keys: RefCell<BTreeSet<u64>>,
    pub(crate) wells: RefCell<Vec<Waker>>,
    pub(crate) admission: Admission,
    pub(crate) rate: RateLimiter,
    pub(crate) interval: IntervalLimiter,
    pub(crate) queries: RefCell<Vec<Query<Val, Val>>>,
    pub(crate) handles: RefCell<Vec<AbortHandle>>,
    pub(crate) victims: RefCell<Vec<Refresh<Val, Val>>>,
    pub(crate) faults: RefCell<Vec<String>>,
    pub(crate) tally: RefCell<BTreeMap<&'static str, u64>>,
    depth: Cell<u32>,
    pub(crate) token: Token,
}

/// A limit, and the highest that it was within one step: a call that has started by it is called after those
/// whom its start woke, and they may lower it.
struct Limit {
    now: Cell<u32>,
    peak: Cell<u32>,
}

impl Limit {
    const fn new(limit: u32) -> Self {
        Self { now: Cell::new(limit), peak: Cell::new(limit) }
    }
}

thread_local! {
    static GROUND: RefCell<Option<Rc<Ground>>> = const { RefCell::new(None) };
}

pub(crate) fn ground() -> Option<Rc<Ground>> {
    GROUND.try_with(|ground| ground.borrow().clone()).ok().flatten()
}

pub(crate) fn set_ground(ground: Option<Rc<Ground>>) {
    let old = GROUND.with(|place| std::mem::replace(&mut *place.borrow_mut(), ground));
    drop(old);
}

/// Perhaps panics.
fn boom(what: &'static str, one_in: u64) {
    if std::thread::panicking() {
        return;
    }
    if let Some(ground) = ground().filter(|ground| ground.is_hostile.get() && ground.roll(one_in)) {
        ground.count(what);
        panic!("boom: {what}");
    }
}

fn meddle(one_in: u64) {
    if let Some(ground) = ground().filter(|ground| ground.is_hostile.get() && ground.roll(one_in)) {
        ground.meddle();
    }
}

impl Ground {
    pub(crate) fn new(seed: u64, may_close: bool, world: &super::common::World) -> Rc<Self> {
        // Another history than other tests draw from this seed.
        let mut dice = Dice::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x0061_7474_6163_6b21);
        let limit = 1 + dice.below(3) as u32;
        let limit_at = [1 + dice.below(2) as u32, 1 + dice.below(3) as u32];
        let mut builder = world
            .builder()
            .max_concurrent(limit)
            .max_queued(2 + dice.below(12) as u32)
            .hand_off(ms(1 + dice.below(5)))
            .provider("a", |p| p.max_concurrent(limit_at[0]))
            .provider("b", |p| p.max_concurrent(limit_at[1]).window(4, ms(10)));
        if dice.below(2) == 0 {
            builder = builder.on_long_wait(ms(3), |waiting| {
                let _ = waiting.to_string();
                meddle(4);
                boom("panic in hook", 6);
            });
        }
        let rate = RateLimiter::builder(3, ms(5)).clock(world.clock()).max_queued(5).build().unwrap();
        let interval = IntervalLimiter::builder(ms(2)).clock(world.clock()).max_waiting(5).build().unwrap();
        Rc::new(Self {
            dice: RefCell::new(dice),
            is_hostile: Cell::new(true),
            ends: Cell::new(false),
            forgot: Cell::new(false),
            frozen: Cell::new(false),
            may_close,
            is_rude: std::env::var_os("ATTACK_RUDE").is_some(),
            running: Cell::new(0),
            running_at: Default::default(),
            limit: Limit::new(limit),
            limit_at: limit_at.map(Limit::new),
            changes: Cell::new(0),
            keys: RefCell::default(),
            wells: RefCell::default(),
            admission: builder.build().unwrap(),
            rate,
            interval,
            queries: RefCell::default(),
            handles: RefCell::default(),
            victims: RefCell::default(),
            faults: RefCell::default(),
            tally: RefCell::default(),
            depth: Cell::new(0),
            token: Arc::new(()),
        })
    }

    pub(crate) fn below(&self, n: u64) -> u64 {
        self.dice.borrow_mut().below(n)
    }

    pub(crate) fn roll(&self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    pub(crate) fn count(&self, what: &'static str) {
        *self.tally.borrow_mut().entry(what).or_default() += 1;
    }

    pub(crate) fn fault(&self, what: impl Into<String>) {
        self.faults.borrow_mut().push(what.into());
    }

    pub(crate) fn val(&self, n: u64) -> Val {
        Val { n, _token: self.token.clone() }
    }

    /// Runs what may panic, which only what was made to may.
    pub(crate) fn guard<A>(&self, act: impl FnOnce() -> A) -> Option<A> {
        match catch_unwind(AssertUnwindSafe(act)) {
            Ok(value) => Some(value),
            Err(panic) => {
                self.expect(panic);
                None
            }
        }
    }

    pub(crate) fn expect(&self, panic: Box<dyn Any + Send>) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
        if !text.starts_with("boom") {
            self.fault(format!("a panic of its own: {text}"));
        }
    }

    pub(crate) fn time(&self) -> Duration {
        match self.below(40) {
            0..8 => Duration::ZERO,
            8 => {
                self.frozen.set(true);
                self.count("for ever");
                Duration::MAX
            }
            n => Duration::from_micros(n * 200),
        }
    }

    /// A time that nothing waits for in vain.
    pub(crate) fn deadline(&self) -> Duration {
        match self.below(20) {
            0..2 => Duration::ZERO,
            2 => Duration::MAX,
            n => Duration::from_micros(n * 300),
        }
    }

    pub(crate) fn policy(&self, may_refuse: bool) -> Retry<Val> {
        let times = [0, 1, 2, 3, u32::MAX][self.below(5) as usize];
        let mut policy = match self.below(3) {
            0 => Retry::backoff(Backoff { left: self.below(4) as u32, token: self.token.clone() }),
            _ => Retry::times(times),
        };
        if self.roll(2) {
            policy = policy.delay(self.time());
        }
        if self.roll(2) {
            policy = policy.when(|_| {
                meddle(12);
                boom("panic in predicate", 12);
                ground().is_some_and(|ground| !ground.roll(5))
            });
        }
        if self.roll(3) {
            policy = policy.cooldown(|_| {
                meddle(12);
                boom("panic in predicate", 12);
                let ground = ground().filter(|ground| ground.is_hostile.get())?;
                ground.roll(2).then(|| Duration::from_micros(ground.below(5_000)))
            });
        }
        let token = self.token.clone();
        policy.when_refused(move |_| {
            let _ = &token;
            let Some(ground) = ground() else { return false };
            if !may_refuse {
                ground.fault("a query's predicate was asked about a refusal");
            }
            boom("panic in predicate", 12);
            ground.is_hostile.get() && ground.roll(2)
        })
    }

    /// Something begins that is one act to those outside.
    pub(crate) fn begin_step(&self) {
        self.limit.peak.set(self.limit.now.get());
        self.limit_at.iter().for_each(|at| at.peak.set(at.now.get()));
    }

    fn set_limit(&self, place: &Limit, limit: u32, set: impl FnOnce() -> bool) {
        let before = place.now.get();
        place.now.set(place.now.get().max(limit));
        place.peak.set(place.peak.get().max(limit));
        let changes = self.changes.get() + 1;
        self.changes.set(changes);
        let has_set = set();
        // Those whom it wakes may set another, which is then the last.
        if self.changes.get() == changes {
            place.now.set(if has_set { limit } else { before });
        }
    }

    /// Comes back into everything, from wherever it is called.
    pub(crate) fn meddle(&self) {
        if self.depth.get() >= 2 {
            return;
        }
        self.depth.set(self.depth.get() + 1);
        self.count("meddled");
        self.guard(|| self.meddle_once());
        self.depth.set(self.depth.get() - 1);
    }

    fn query(&self) -> Option<Query<Val, Val>> {
        let queries = self.queries.borrow();
        let nth = self.below(queries.len().max(1) as u64) as usize;
        queries.get(nth).cloned()
    }

    fn meddle_once(&self) {
        let name = PROVIDERS[self.below(2) as usize];
        let at = usize::from(name == "b");
        match self.below(24) {
            0..4 => {
                let Some(query) = self.query() else { return };
                let mut refresh = query.refresh();
                let _ = Pin::new(&mut refresh).poll(&mut Context::from_waker(Waker::noop()));
                if self.roll(2) {
                    self.victims.borrow_mut().push(refresh);
                }
            }
            4 | 5 => {
                let Some(query) = self.query() else { return };
                let mut looks = query.subscribe();
                let _ = looks.poll_snapshot(&mut Context::from_waker(Waker::noop()));
            }
            6 | 7 => {
                self.count("paused");
                self.query().inspect(Query::pause);
            }
            8..10 => {
                self.query().inspect(Query::resume);
            }
            10 => {
                if self.roll(3) {
                    self.count("disposed");
                    self.query().inspect(Query::dispose);
                }
            }
            11..14 => {
                let victim = self.victims.borrow_mut().pop();
                drop(victim);
            }
            14 => {
                self.count("cooled down");
                let _ = self.admission.cooldown(name, Duration::from_micros(self.below(9_000)));
            }
            15 | 16 => {
                self.count("limits set");
                let limit = 1 + self.below(3) as u32;
                if self.roll(2) {
                    self.set_limit(&self.limit, limit, || {
                        self.admission.set_limits(|l| l.max_concurrent(limit)).is_ok()
                    });
                } else if let Ok(provider) = self.admission.provider(name) {
                    self.set_limit(&self.limit_at[at], limit, || {
                        provider.set_limits(|l| l.max_concurrent(limit)).is_ok()
                    });
                }
            }
            17 | 18 => {
                self.count("aborted");
                let handle = self.handles.borrow_mut().pop();
                if let Some(handle) = handle {
                    handle.abort_with("attacked");
                }
            }
            19 => {
                let _ = (self.admission.snapshot(), self.admission.waiting().len(), self.rate.available());
            }
            20 => {
                self.count("reset");
                self.admission.reset();
                self.rate.reset();
            }
            21 => {
                self.count("provider removed");
                let _ = self.admission.remove_provider(name);
                self.add_provider(at);
            }
            22 => {
                if self.may_close && self.roll(12) {
                    self.count("closed");
                    self.admission.close();
                }
            }
            _ => {
                let wells = std::mem::take(&mut *self.wells.borrow_mut());
                wells.into_iter().for_each(|waker| {
                    self.guard(|| waker.wake());
                });
            }
        }
    }

    fn add_provider(&self, at: usize) {
        let limit = 1 + self.below(3) as u32;
        self.set_limit(&self.limit_at[at], limit, || {
            self.admission.add_provider(PROVIDERS[at], |l| l.max_concurrent(limit)).is_ok()
        });
    }
}

/// A value whose clone and destructor may panic, and come back.
pub(crate) struct Val {
    pub(crate) n: u64,
    _token: Token,
}

impl Clone for Val {
    fn clone(&self) -> Self {
        boom("panic in clone", 60);
        Self { n: self.n, _token: self._token.clone() }
    }
}

impl Drop for Val {
    fn drop(&mut self) {
        meddle(60);
        boom("panic in value's drop", 60);
        // Two panics at once end the process, unless whoever drops several of a user's values minds each.
        if let Some(ground) = ground().filter(|ground| ground.is_rude && std::thread::panicking()) {
            if ground.is_hostile.get() && ground.roll(3) {
                ground.count("panic in value's drop while unwinding");
                panic!("boom: value's drop while unwinding");
            }
        }
    }
}

#[derive(Clone)]
struct Backoff {
    left: u32,
    token: Token,
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        boom("panic in backoff", 12);
        let _ = &self.token;
        self.left = self.left.checked_sub(1)?;
        Some(Duration::from_micros(u64::from(self.left) * 500))
    }
}

/// A physical call: counted from here until it is dropped.
pub(crate) struct Op {
    left: u64,
    number: u64,
    counted: Option<(usize, Option<u64>)>,
    aborted: Option<Aborted>,
}

impl Op {
    pub(crate) fn begin(
        number: u64,
        counted: Option<(usize, Option<u64>)>,
        attempt: Option<Attempt>,
    ) -> Self {
        let Some(ground) = ground() else { return Self { left: 0, number, counted: None, aborted: None } };
        ground.count("calls");
        boom("panic in call", 25);
        let left = if ground.roll(8) { 1_000_000 } else { ground.below(4) };
        let aborted = attempt.filter(|_| ground.roll(2)).map(|attempt| attempt.signal().aborted());
        if let Some((at, key)) = counted {
            ground.running.set(ground.running.get() + 1);
            ground.running_at[at].set(ground.running_at[at].get() + 1);
            if !ground.forgot.get() {
                let (run, limit) = (ground.running.get(), ground.limit.peak.get());
                if run > limit {
                    ground.fault(format!("{run} run, at most {limit}"));
                }
                let (run, limit) = (ground.running_at[at].get(), ground.limit_at[at].peak.get());
                if run > limit {
                    ground.fault(format!("{run} run at {}, at most {limit}", PROVIDERS[at]));
                }
            }
            if key.is_some_and(|key| !ground.keys.borrow_mut().insert(key)) {
                ground.fault("two calls of one key");
            }
        }
        let op = Self { left, number, counted, aborted };
        meddle(15);
        op
    }
}

impl Future for Op {
    type Output = Result<Val, Val>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(ground) = ground() else { return Poll::Pending };
        meddle(15);
        boom("panic in operation", 25);
        if ground.ends.get() {
            return Poll::Ready(Ok(ground.val(this.number)));
        }
        let told = this.aborted.as_mut().is_some_and(|aborted| Pin::new(aborted).poll(cx).is_ready());
        if this.left == 0 || told {
            let val = ground.val(this.number);
            return Poll::Ready(if ground.roll(2) { Ok(val) } else { Err(val) });
        }
        this.left -= 1;
        ground.wells.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        let (Some((at, key)), Some(ground)) = (self.counted, ground()) else { return };
        meddle(25);
        ground.running.set(ground.running.get() - 1);
        ground.running_at[at].set(ground.running_at[at].get() - 1);
        if let Some(key) = key {
            ground.keys.borrow_mut().remove(&key);
        }
        boom("panic in operation's drop", 25);
    }
}

/// A waker that panics and comes back.
#[derive(Default)]
pub(crate) struct Flag(pub(crate) AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        meddle(20);
        boom("panic in waker", 40);
    }
}
