//! What happens in a history: the world at its beginning, and every step of it.
//!
//! Owns: the draw of both from a seed, before anything runs, so that a history can be cut short by leaving
//! steps out; and their words. A step names its caller by number, and is no step where that is not there.

use std::fmt;

use crate::dice::Dice;
use crate::limits::{LimitSpec, MS, Ms};

/// The world at its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) client: LimitSpec,
    /// Providers `p0`, `p1`, …: those of the configuration.
    pub(crate) providers: Vec<LimitSpec>,
    /// With a template every name up to [`NAMES`] is a provider.
    pub(crate) template: Option<LimitSpec>,
    pub(crate) max_queued: u32,
    pub(crate) hand_off: u64,
    pub(crate) max_wait: Option<u64>,
    pub(crate) runtimes: usize,
}

/// How many names there are to call providers by.
pub(crate) const NAMES: usize = 4;

/// One caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CallSpec {
    pub(crate) how: How,
    pub(crate) provider: usize,
    pub(crate) key: Option<u64>,
    /// Whether the key is a text.
    pub(crate) is_text: bool,
    pub(crate) tokens: u64,
    pub(crate) has_unknown_unit: bool,
    pub(crate) timeout: Option<u64>,
    pub(crate) signal: Signal,
    /// How long its operation takes.
    pub(crate) takes: u64,
    pub(crate) runtime: usize,
    /// Whether it brings another waker to each poll.
    pub(crate) is_fickle: bool,
    /// Whether it is polled as soon as it is there.
    pub(crate) is_prompt: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    Acquire,
    Enqueue,
    Run,
    /// Like a run, by an operation that fails and is not tried again.
    Retry,
    TryAcquire,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signal {
    None,
    Handle,
    Future,
    /// One that has fired before.
    Fired,
}

/// One step of a history. The first number is the caller's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Call(usize, CallSpec),
    Poll(usize),
    PollOutside(usize),
    /// Everybody who was woken is polled.
    PollWoken,
    /// It is polled no more, until it is attended to again.
    Neglect(usize),
    Attend(usize),
    Drop(usize),
    Forget(usize),
    Abort(usize),
    Finish(usize),
    Settle(usize, u64),
    /// Time passes; with `true` whoever is woken is polled meanwhile, and operations end.
    Pass(u64, bool),
    Cooldown(usize, u64),
    Reset(Option<usize>),
    SetLimits(Option<usize>, LimitSpec),
    SetMaxQueued(u32),
    Add(usize, LimitSpec),
    Remove(usize),
    Close,
    Look,
    WatchIdle,
    LeaveIdle,
    /// Whoever runs is done, nobody is polled any more, somebody waits for idle, and it closes.
    Abandon,
    /// When it is next woken its waker does this.
    InWake(usize, Reentry),
    PanicInWake(usize),
    PanicInOperation(usize),
    PanicInPredicate(usize),
    PanicInDestructor(usize),
    PanicInClosure(Option<usize>),
    Timers(usize, Lie, u32),
    Stall,
    GoOn,
    Jump(i64),
    Kill(usize),
}

/// What a waker does inside `wake`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reentry {
    Poll(usize),
    TryAcquire(usize),
    Drop(usize),
    Abort(usize),
    Cooldown(usize),
    SetMaxQueued(u32),
    Look,
    Close,
}

/// What an alarm does otherwise than it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lie {
    Early(u64),
    Late(u64),
    Lost,
}

impl Setup {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let providers = (0..dice.between(1, 3)).map(|_| LimitSpec::draw(dice)).collect();
        Self {
            client: LimitSpec::draw(dice),
            providers,
            template: dice.percent(30).then(|| LimitSpec::draw(dice)),
            max_queued: dice.pick(&[0, 1, 2, 3, 4, 8, 16]),
            hand_off: dice.pick(&[1, 5, 20, 200]) * MS,
            max_wait: dice.percent(15).then(|| dice.between(0, 80) * MS),
            runtimes: dice.pick(&[1, 1, 2, 3]),
        }
    }
}

/// Draws a whole history.
pub(crate) fn draw(seed: u64) -> (Setup, Vec<Step>) {
    let mut dice = Dice::new(seed);
    let setup = Setup::draw(&mut dice);
    // Half of the worlds are without the faults that leave something behind for ever.
    let may_leak = dice.percent(30);
    let may_close = dice.percent(25);
    let has_faults = dice.percent(85);
    let count = dice.pick(&[12, 30, 60, 120]);
    let mut steps = Vec::new();
    let mut callers = 0;
    for _ in 0..count {
        let step = if callers == 0 || dice.percent(34) {
            callers += 1;
            Step::Call(callers - 1, CallSpec::draw(&mut dice, &setup))
        } else {
            draw_step(&mut dice, &setup, callers, has_faults, may_leak, may_close)
        };
        steps.push(step);
    }
    // The last draw, so that the steps before it are those that a seed has always had.
    if dice.percent(20) {
        steps.push(Step::Abandon);
    }
    (setup, steps)
}

fn draw_step(
    dice: &mut Dice,
    setup: &Setup,
    callers: usize,
    has_faults: bool,
    may_leak: bool,
    may_close: bool,
) -> Step {
    // Mostly somebody recent.
    let back = if dice.percent(70) { 6 } else { callers as u64 };
    let who = callers - 1 - dice.below(back.min(callers as u64)) as usize;
    let name = dice.below(setup.providers.len() as u64 + u64::from(setup.template.is_some())) as usize;
    let runtime = dice.below(setup.runtimes as u64) as usize;
    let time = dice.pick(&[0, 1, 2, 5, 10, 20, 50, 100]) * MS + dice.pick(&[0, 0, 0, 0, 1, MS - 1]);
    let die = dice.below(if has_faults { 100 } else { 52 });
    match die {
        0..=9 => Step::PollWoken,
        10..=14 => Step::Poll(who),
        15..=32 => Step::Pass(time, dice.percent(75)),
        33..=38 => Step::Finish(who),
        39..=41 => Step::Settle(who, dice.below(14)),
        42..=43 => Step::Abort(who),
        44..=45 => Step::Drop(who),
        46..=47 => Step::Look,
        48..=49 => Step::Cooldown(name, time),
        50..=51 => dice.pick_step(name, setup),
        // From here on: faults.
        52..=56 => Step::Drop(who),
        57..=60 => Step::Neglect(who),
        61..=63 => Step::Attend(who),
        64..=65 if may_leak => Step::Forget(who),
        65 => Step::PanicInPredicate(who),
        66 => Step::PollOutside(who),
        67..=73 => Step::InWake(who, Reentry::draw(dice, callers, name, may_close)),
        74..=75 => Step::PanicInWake(who),
        76 => Step::PanicInOperation(who),
        77 => Step::PanicInDestructor(who),
        78 => Step::PanicInClosure(dice.percent(70).then_some(name)),
        79..=82 => {
            let by = dice.between(0, 30) * MS;
            let lie = dice.pick(&[Lie::Early(by), Lie::Late(by), Lie::Lost]);
            Step::Timers(runtime, lie, dice.between(1, 3) as u32)
        }
        83 => Step::Stall,
        84..=85 => Step::GoOn,
        86 => Step::Jump((dice.between(1, 200) * MS) as i64),
        87 => Step::Jump(-((dice.between(1, 100) * MS) as i64)),
        88..=89 => Step::Kill(runtime),
        90..=91 => Step::WatchIdle,
        92 => Step::LeaveIdle,
        93 if may_close && dice.percent(40) => Step::Close,
        94..=99 => dice.pick_step(name, setup),
        _ => Step::PollWoken,
    }
}

impl Dice {
    /// A change of the coordinator.
    fn pick_step(&mut self, name: usize, setup: &Setup) -> Step {
        let scope = self.percent(65).then_some(name);
        match self.below(10) {
            0..=4 => {
                let mut limits = LimitSpec::draw(self);
                if self.percent(5) {
                    limits.max_concurrent = Some(0);
                }
                if self.percent(10) && setup.template.is_some() {
                    limits = setup.template.clone().unwrap_or_default();
                }
                Step::SetLimits(scope, limits)
            }
            5 => Step::SetMaxQueued(self.below(5) as u32),
            6 => Step::Reset(scope),
            7 => Step::Remove(name),
            _ => Step::Add(name, LimitSpec::draw(self)),
        }
    }
}

impl Reentry {
    fn draw(dice: &mut Dice, callers: usize, name: usize, may_close: bool) -> Self {
        let other = dice.below(callers as u64) as usize;
        match dice.below(13) {
            0..=3 => Self::Poll(other),
            4..=5 => Self::TryAcquire(name),
            6..=7 => Self::Drop(other),
            8 => Self::Abort(other),
            9 => Self::Cooldown(name),
            10 => Self::SetMaxQueued(dice.below(5) as u32),
            11 if may_close && dice.percent(30) => Self::Close,
            _ => Self::Look,
        }
    }
}

impl CallSpec {
    fn draw(dice: &mut Dice, setup: &Setup) -> Self {
        let mut how = dice.pick(&[How::Acquire, How::Acquire, How::Run, How::Run, How::Retry, How::Enqueue]);
        if dice.percent(10) {
            how = How::TryAcquire;
        }
        let names = if setup.template.is_some() { NAMES } else { setup.providers.len() };
        let signal = match dice.below(20) {
            0..=2 => Signal::Handle,
            3..=4 => Signal::Future,
            5 if dice.percent(30) => Signal::Fired,
            _ => Signal::None,
        };
        Self {
            how,
            provider: dice.below(names as u64) as usize,
            key: dice.percent(30).then(|| dice.below(3)),
            is_text: dice.percent(50),
            tokens: if dice.percent(50) { dice.below(9) } else { 0 },
            has_unknown_unit: dice.percent(1),
            timeout: dice.percent(30).then(|| dice.pick(&[0, 1, 5, 20, 60, 200]) * MS + dice.below(2)),
            signal,
            takes: dice.pick(&[0, 1, 5, 10, 30, 100]) * MS,
            runtime: dice.below(setup.runtimes as u64) as usize,
            is_fickle: dice.percent(25),
            is_prompt: dice.percent(90),
        }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  client: {}", self.client)?;
        for (n, limits) in self.providers.iter().enumerate() {
            writeln!(f, "  p{n}: {limits}")?;
        }
        if let Some(template) = &self.template {
            writeln!(f, "  any other: {template}")?;
        }
        write!(f, "  queue of {}, hand-off {}", self.max_queued, Ms(self.hand_off))?;
        if let Some(wait) = self.max_wait {
            write!(f, ", max wait {}", Ms(wait))?;
        }
        match self.runtimes {
            1 => Ok(()),
            n => write!(f, ", {n} runtimes"),
        }
    }
}

impl fmt::Display for CallSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.how {
            How::Acquire => "acquire",
            How::Enqueue => "enqueue",
            How::Run => "run",
            How::Retry => "retry and run",
            How::TryAcquire => "try_acquire",
        };
        write!(f, "{how} p{}", self.provider)?;
        if let Some(key) = self.key {
            write!(f, " key {key}{}", if self.is_text { " (text)" } else { "" })?;
        }
        if self.tokens > 0 {
            write!(f, " {} tokens", self.tokens)?;
        }
        if self.has_unknown_unit {
            f.write_str(" 1 of an unknown unit")?;
        }
        if let Some(timeout) = self.timeout {
            write!(f, " timeout {}", Ms(timeout))?;
        }
        match self.signal {
            Signal::None => {}
            Signal::Handle => f.write_str(" with a signal")?,
            Signal::Future => f.write_str(" with a signal from a future")?,
            Signal::Fired => f.write_str(" with a signal that has fired")?,
        }
        if self.runtime > 0 {
            write!(f, " in runtime {}", self.runtime)?;
        }
        Ok(())
    }
}

/// A scope by its number.
pub(crate) fn scope_name(scope: Option<usize>) -> String {
    scope.map_or("client".to_owned(), |name| format!("p{name}"))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(who, spec) => write!(f, "caller {who}: {spec}"),
            Self::Poll(who) => write!(f, "caller {who}: is polled"),
            Self::PollOutside(who) => write!(f, "caller {who}: is polled outside any runtime"),
            Self::PollWoken => f.write_str("everybody who was woken is polled"),
            Self::Neglect(who) => write!(f, "caller {who}: is held and not polled from here on"),
            Self::Attend(who) => write!(f, "caller {who}: is polled again from here on"),
            Self::Drop(who) => write!(f, "caller {who}: is dropped"),
            Self::Forget(who) => write!(f, "caller {who}: is leaked"),
            Self::Abort(who) => write!(f, "caller {who}: its signal fires"),
            Self::Finish(who) => write!(f, "caller {who}: finishes"),
            Self::Settle(who, cost) => write!(f, "caller {who}: settles {cost} tokens"),
            Self::Pass(time, true) => write!(f, "{} pass", Ms(*time)),
            Self::Pass(time, false) => write!(f, "{} pass, and nobody is polled", Ms(*time)),
            Self::Cooldown(name, time) => write!(f, "p{name} cools down for {}", Ms(*time)),
            Self::Reset(scope) => write!(f, "{} is reset", scope_name(*scope)),
            Self::SetLimits(scope, limits) => write!(f, "{} has {limits} from here on", scope_name(*scope)),
            Self::SetMaxQueued(n) => write!(f, "a queue of {n} from here on"),
            Self::Add(name, limits) => write!(f, "p{name} is added, with {limits}"),
            Self::Remove(name) => write!(f, "p{name} is removed"),
            Self::Close => f.write_str("close"),
            Self::Look => f.write_str("somebody looks"),
            Self::WatchIdle => f.write_str("somebody waits for idle"),
            Self::LeaveIdle => f.write_str("whoever waited for idle leaves"),
            Self::Abandon => f.write_str("everybody is left alone, somebody waits for idle, and it closes"),
            Self::InWake(who, what) => write!(f, "caller {who}: its waker will {what:?}"),
            Self::PanicInWake(who) => write!(f, "caller {who}: its waker will panic"),
            Self::PanicInOperation(who) => write!(f, "caller {who}: its operation will panic"),
            Self::PanicInPredicate(who) => write!(f, "caller {who}: its retry predicate will panic"),
            Self::PanicInDestructor(who) => write!(f, "caller {who}: its operation's destructor will panic"),
            Self::PanicInClosure(scope) => {
                write!(f, "{}: a closure panics that should say limits", scope_name(*scope))
            }
            Self::Timers(runtime, lie, n) => write!(f, "the next {n} alarms of runtime {runtime}: {lie:?}"),
            Self::Stall => f.write_str("the coordinator's clock stalls"),
            Self::GoOn => f.write_str("the coordinator's clock goes on"),
            Self::Jump(by) if *by < 0 => {
                write!(f, "the coordinator's clock goes back by {}", Ms(by.unsigned_abs()))
            }
            Self::Jump(by) => write!(f, "the coordinator's clock jumps by {}", Ms(by.unsigned_abs())),
            Self::Kill(runtime) => write!(f, "runtime {runtime} shuts down, and another takes its place"),
        }
    }
}
