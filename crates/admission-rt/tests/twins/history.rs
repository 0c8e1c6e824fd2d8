//! Random histories: what a coordinator is built with, and the steps that are taken with it, one after the other.
//!
//! Owns: how they are drawn, so that all that a step can meet does come up. Lacks what a step does, which is the
//! twin's.

use admission_rt::{Limits, Window};

use super::common::dice::Dice;
use super::common::ms;

/// The limits of one scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    most: Option<u64>,
    pacer: Pacer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pacer {
    None,
    Window,
    UntilSettled,
    Tokens,
    Interval,
}

impl Bounds {
    fn draw(dice: &mut Dice, are_paced: bool, have_tokens: bool) -> Self {
        let most = (!dice.one_in(3)).then(|| 1 + dice.below(3));
        let pacer = match dice.below(5) {
            0 if are_paced => Pacer::Window,
            1 if are_paced => Pacer::UntilSettled,
            2 if are_paced => Pacer::Interval,
            3 if are_paced && have_tokens => Pacer::Tokens,
            _ => Pacer::None,
        };
        Self { most, pacer }
    }

    pub(super) fn of(self, limits: Limits) -> Limits {
        let limits = match self.most {
            Some(most) => limits.max_concurrent(most as u32),
            None => limits,
        };
        match self.pacer {
            Pacer::None => limits,
            Pacer::Window => limits.window(3, ms(10)),
            Pacer::UntilSettled => limits.log(Window::new(3, ms(10)).until_settled()),
            Pacer::Tokens => limits.log(Window::new(20, ms(10)).unit("tokens")),
            Pacer::Interval => limits.interval(ms(2)),
        }
    }
}

/// What a coordinator is built with, and what may happen to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) client: Option<u64>,
    pub(super) bounds: [Bounds; 2],
    pub(super) has_template: bool,
    pub(super) has_tokens: bool,
    pub(super) has_hook: bool,
    pub(super) max_queued: u64,
    pub(super) max_wait: Option<u64>,
    /// Whether limits may be set that count time.
    may_pace: bool,
    /// Whether providers come and go, and it is closed in the end.
    is_restless: bool,
    /// Whether few calls wait, and there is little but calls that begin and end.
    is_calm: bool,
    /// Whether there is little but calls that wait for others, and for cooldowns.
    is_cooling: bool,
}

impl Plan {
    /// Most of them have nothing but concurrency: there tickets are taken over, and the clock need not be read.
    pub(super) fn draw(dice: &mut Dice, is_busy: bool) -> Self {
        let are_paced = dice.one_in(6);
        let has_tokens = dice.one_in(8);
        Self {
            client: (!dice.one_in(3)).then(|| 1 + dice.below(4)),
            bounds: [(); 2].map(|()| Bounds::draw(dice, are_paced, has_tokens)),
            has_template: dice.one_in(12),
            has_tokens,
            has_hook: dice.one_in(12),
            max_queued: dice.below(4),
            max_wait: dice.one_in(6).then(|| dice.below(10)),
            may_pace: dice.one_in(3),
            is_restless: dice.one_in(3),
            is_calm: !dice.one_in(3) && !is_busy,
            is_cooling: dice.one_in(4),
        }
    }
}

/// One step, the same for all.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Submit {
        provider: usize,
        how: How,
        key: Option<Name>,
        timeout: Option<u64>,
        tokens: Option<u64>,
    },
    Poll(u64),
    Drop(u64),
    End(u64),
    EndAll,
    Abort(u64),
    Settle(u64, u64),
    SettleLate(u64, u64),
    Idle,
    DropIdle,
    Watch,
    Cooldown(usize, u64),
    Limits(usize, Bounds),
    Client(Option<u64>),
    MaxQueued(u64),
    Reset(usize),
    Remove(usize),
    Add(usize, Bounds),
    Close,
    Pass(u64),
    Ring(u64),
    /// All alarms ring, whether they are due or not.
    RingAll,
    /// What alarms are set for is lost.
    Forget,
    /// From now on another runtime polls.
    Move(usize),
    /// The runtime ends that polls, and another takes its place.
    Die,
    Look(u64),
    /// The clock is read, and no time passes.
    Ask,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    AtOnce,
    Acquire,
    Enqueue,
    /// It listens to a signal.
    Abortable,
    /// It is over in the poll in which it begins.
    Run,
    /// The same, and its operation keeps its attempt.
    Retry,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    Number(u64),
    Text(u64),
}

impl Act {
    pub(super) fn draw(dice: &mut Dice, plan: &Plan) -> Self {
        let provider = if dice.one_in(12) { 2 } else { dice.below(2) as usize };
        if plan.is_calm && !dice.one_in(8) {
            let how = if dice.one_in(12) { How::Acquire } else { How::AtOnce };
            let key = dice.one_in(16).then(|| Name::Number(dice.below(2)));
            let provider = if dice.one_in(2) { 0 } else { provider };
            return match dice.below(16) {
                0..6 => Self::Submit { provider, how, key, timeout: None, tokens: None },
                6 => Self::Submit { provider, how: How::Run, key, timeout: None, tokens: None },
                7 => Self::Drop(0),
                _ => Self::End(dice.below(2)),
            };
        }
        if plan.is_cooling && !dice.one_in(8) {
            let timeout = dice.one_in(8).then(|| dice.below(12));
            return match dice.below(16) {
                0..5 => Self::Submit { provider, how: How::Acquire, key: None, timeout, tokens: None },
                5 => Self::End(0),
                6..8 => Self::Poll(dice.below(4)),
                8 => Self::Drop(dice.below(4)),
                9 => Self::Cooldown(provider, dice.below(5)),
                10..13 => Self::Ask,
                _ => Self::Pass(dice.below(4)),
            };
        }
        match dice.below(110) {
            0..30 => {
                let how = if dice.one_in(2) { How::AtOnce } else { How::Acquire };
                Self::Submit { provider, how, key: None, timeout: dice.maybe(12), tokens: None }
            }
            30..43 => {
                let how = match dice.below(5) {
                    0 => How::Enqueue,
                    1 => How::Abortable,
                    2 => How::Run,
                    3 => How::Retry,
                    _ => How::Acquire,
                };
                let key = match dice.below(4) {
                    0 => Some(Name::Number(dice.below(2))),
                    1 => Some(Name::Text(dice.below(2))),
                    _ => None,
                };
                let tokens = dice.maybe(9).filter(|_| plan.has_tokens);
                Self::Submit { provider, how, key, timeout: dice.maybe(12), tokens }
            }
            43..65 => Self::End(dice.below(4)),
            65 => Self::EndAll,
            66..74 => Self::Poll(dice.below(4)),
            74..76 => Self::Drop(dice.below(4)),
            76 => Self::Abort(dice.below(4)),
            77 => Self::Settle(dice.below(4), dice.below(25)),
            78 => Self::SettleLate(dice.below(4), dice.below(25)),
            79 => Self::Idle,
            80 => Self::DropIdle,
            81 => Self::Watch,
            82 => Self::Cooldown(provider, dice.below(8)),
            83 | 84 => Self::Limits(provider, Bounds::draw(dice, plan.may_pace, plan.has_tokens)),
            85 => Self::Client(dice.maybe(3).map(|most| most + 1)),
            86 => Self::MaxQueued(dice.below(4)),
            87 => Self::Reset(provider),
            88 if plan.is_restless => Self::Remove(provider),
            89 if plan.is_restless => Self::Add(provider, Bounds::draw(dice, false, false)),
            90 if plan.is_restless && dice.one_in(8) => Self::Close,
            88..93 => Self::Pass(dice.below(7)),
            93..95 => Self::Ring(dice.below(7)),
            95 => Self::RingAll,
            96 => Self::Forget,
            97..99 => Self::Move(dice.below(2) as usize),
            99 => Self::Die,
            100..103 => Self::Ask,
            103 | 104 => Self::Cooldown(provider, dice.below(8)),
            _ => Self::Look(dice.below(5)),
        }
    }
}
