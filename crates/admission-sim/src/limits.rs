//! Limits as plain numbers: to be drawn, printed, watched and handed to a builder.
//!
//! Owns: the words between the simulator and the library's builders. Lacks judgement.

use std::fmt;
use std::time::Duration;

use admission_rt::{Interval, Limits, Window};

use crate::dice::Dice;

pub(crate) const MS: u64 = 1_000_000;

/// The limits of one scope; times in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LimitSpec {
    pub(crate) max_concurrent: Option<u32>,
    pub(crate) pacers: Vec<PacerSpec>,
}

/// One pacer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacerSpec {
    Interval { gap: u64, margin: u64 },
    Window { limit: u64, window: u64, margin: u64, in_tokens: bool, until_settled: bool },
}

impl PacerSpec {
    pub(crate) fn span(self) -> u64 {
        match self {
            Self::Interval { gap, margin } => gap + margin,
            Self::Window { window, margin, .. } => window + margin,
        }
    }

    /// Whether another takes over what this one knows (rule L7).
    pub(crate) fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Interval { .. }, Self::Interval { .. }) => true,
            (Self::Window { in_tokens: a, .. }, Self::Window { in_tokens: b, .. }) => a == b,
            _ => false,
        }
    }
}

impl LimitSpec {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let max_concurrent = dice.percent(60).then(|| dice.between(1, 3) as u32);
        let count = dice.pick(&[0, 0, 1, 1, 1, 2, 3]);
        let pacers = (0..count).map(|_| PacerSpec::draw(dice)).collect();
        Self { max_concurrent, pacers }
    }

    /// Whether a coordinator takes them (rule L1).
    pub(crate) fn is_valid(&self) -> bool {
        self.max_concurrent != Some(0)
            && self.pacers.iter().all(|pacer| match *pacer {
                PacerSpec::Interval { gap, .. } => gap > 0,
                PacerSpec::Window { limit, .. } => limit > 0,
            })
    }

    pub(crate) fn build(&self, mut limits: Limits) -> Limits {
        if let Some(calls) = self.max_concurrent {
            limits = limits.max_concurrent(calls);
        }
        for pacer in &self.pacers {
            limits = match pacer.built() {
                Built::Interval(interval) => limits.paced(interval),
                Built::Window(window) => limits.log(window),
            };
        }
        limits
    }
}

/// A pacer in the library's words.
pub(crate) enum Built {
    Interval(Interval),
    Window(Window),
}

impl PacerSpec {
    fn draw(dice: &mut Dice) -> Self {
        let margin = if dice.percent(20) { dice.between(1, 10) * MS } else { 0 };
        if dice.percent(35) {
            return Self::Interval { gap: dice.pick(&[1, 5, 10, 20, 50]) * MS, margin };
        }
        let in_tokens = dice.percent(35);
        let limit = if in_tokens { dice.between(3, 12) } else { dice.between(1, 4) };
        let window = dice.pick(&[0, 10, 20, 50, 100, 200, 200]) * MS;
        Self::Window { limit, window, margin, in_tokens, until_settled: dice.percent(40) }
    }

    pub(crate) fn built(self) -> Built {
        let nanos = Duration::from_nanos;
        match self {
            Self::Interval { gap, margin } => {
                Built::Interval(Interval::new(nanos(gap)).margin(nanos(margin)))
            }
            Self::Window { limit, window, margin, in_tokens, until_settled } => {
                let built = Window::new(limit, nanos(window)).margin(nanos(margin));
                let built = if in_tokens { built.unit(TOKENS) } else { built };
                Built::Window(if until_settled { built.until_settled() } else { built })
            }
        }
    }
}

/// The one unit beside requests.
pub(crate) const TOKENS: &str = "tokens";

/// Nanoseconds as people say them.
pub(crate) struct Ms(pub(crate) u64);

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % MS {
            0 => write!(f, "{} ms", self.0 / MS),
            rest => write!(f, "{}.{rest:06} ms", self.0 / MS),
        }
    }
}

impl fmt::Display for LimitSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = self.max_concurrent.iter().map(|n| format!("{n} at once")).collect();
        for pacer in &self.pacers {
            words.push(match *pacer {
                PacerSpec::Interval { gap, margin: 0 } => format!("{} apart", Ms(gap)),
                PacerSpec::Interval { gap, margin } => format!("{} + {} apart", Ms(gap), Ms(margin)),
                PacerSpec::Window { limit, window, margin, in_tokens, until_settled } => {
                    let unit = if in_tokens { " tokens" } else { "" };
                    let margin = if margin > 0 { format!(" + {}", Ms(margin)) } else { String::new() };
                    let settled = if until_settled { " until settled" } else { "" };
                    format!("{limit}{unit} per {}{margin}{settled}", Ms(window))
                }
            });
        }
        if words.is_empty() { f.write_str("no limits") } else { f.write_str(&words.join(", ")) }
    }
}
