//! One scope as it looks from outside: its limits, and the starts and ends that they count.
//!
//! Owns: what a pacer must have counted, by the starts that were seen. Lacks what cannot be seen: budgets
//! that a grant spent which was abandoned. Those may hold others back, but allow nobody more, so that the
//! checks of safety do without them; where it matters they are *phantoms*, supposed at the worst time.

use crate::limits::{LimitSpec, PacerSpec};

/// A grant that may have been abandoned, with its budget spent (rule S3), or another start that a pacer
/// may or may not remember.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phantom {
    pub(crate) at: u64,
    pub(crate) provider: usize,
    pub(crate) tokens: u64,
}

/// The limits of one scope, and what they have seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    pub(crate) max_concurrent: Option<u32>,
    pacers: Vec<Paced>,
}

#[derive(Clone, Debug)]
struct Paced {
    spec: PacerSpec,
    /// When a call began to fade from the window, and which one; for an interval the last start only.
    entries: Vec<(u64, usize)>,
    /// Calls that count until they have settled.
    held: Vec<usize>,
}

impl Watch {
    pub(crate) fn new(limits: &LimitSpec) -> Self {
        let mut watch = Self::default();
        watch.change(limits, 0);
        watch
    }

    /// Other limits: the n-th of a kind takes over from the n-th (rule L7).
    pub(crate) fn change(&mut self, limits: &LimitSpec, now: u64) {
        for pacer in &mut self.pacers {
            pacer.prune(now);
        }
        let mut changed: Vec<Paced> = Vec::new();
        for &spec in &limits.pacers {
            let nth = changed.iter().filter(|pacer| pacer.spec.is_like(spec)).count();
            let old = self.pacers.iter().filter(|pacer| pacer.spec.is_like(spec)).nth(nth);
            let mut pacer = match old {
                Some(old) => Paced { spec, ..old.clone() },
                None => Paced { spec, entries: Vec::new(), held: Vec::new() },
            };
            pacer.prune(now);
            changed.push(pacer);
        }
        self.max_concurrent = limits.max_concurrent;
        self.pacers = changed;
    }

    /// A provider that was at rest may have been forgotten (rule L10): its intervals that are over are
    /// forgotten here, and what they knew is handed back as something that may be remembered.
    pub(crate) fn forget_over(&mut self, now: u64) -> Vec<u64> {
        let mut unsure = Vec::new();
        for pacer in self.pacers.iter_mut().filter(|pacer| !pacer.is_log()) {
            let span = pacer.spec.span();
            let (over, kept): (Vec<_>, Vec<_>) = pacer.entries.iter().partition(|(at, _)| at + span <= now);
            unsure.extend(over.into_iter().map(|(at, _)| at));
            pacer.entries = kept;
        }
        unsure
    }

    pub(crate) fn reset(&mut self) {
        for pacer in self.pacers.iter_mut().filter(|pacer| pacer.is_log()) {
            pacer.entries.clear();
            pacer.held.clear();
        }
    }

    pub(crate) fn start(&mut self, call: usize, now: u64) {
        for pacer in &mut self.pacers {
            match pacer.spec {
                PacerSpec::Interval { .. } => pacer.entries = vec![(now, call)],
                PacerSpec::Window { until_settled: true, .. } => pacer.held.push(call),
                PacerSpec::Window { .. } => pacer.entries.push((now, call)),
            }
            pacer.prune(now);
        }
    }

    pub(crate) fn end(&mut self, call: usize, now: u64) {
        for pacer in &mut self.pacers {
            if pacer.held.contains(&call) {
                pacer.held.retain(|held| *held != call);
                pacer.entries.push((now, call));
            }
        }
    }

    pub(crate) fn has_logs(&self) -> bool {
        self.pacers.iter().any(Paced::is_log)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.max_concurrent.is_none() && self.pacers.is_empty()
    }

    /// Whether a cost in tokens can never fit (rule L6).
    pub(crate) fn is_impossible(&self, tokens: u64) -> bool {
        self.pacers.iter().any(|pacer| match pacer.spec {
            PacerSpec::Window { limit, in_tokens: true, .. } => pacer.spec.span() > 0 && tokens > limit,
            _ => false,
        })
    }

    /// The pacer that forbids a start now, in words. `tokens_of` says what a call costs; logs are not
    /// asked with `ask_logs` false, and phantoms are counted where they are given.
    pub(crate) fn forbids(
        &self,
        tokens: u64,
        now: u64,
        ask_logs: bool,
        tokens_of: &dyn Fn(usize) -> u64,
        phantoms: &[Phantom],
    ) -> Option<String> {
        self.pacers.iter().find_map(|pacer| {
            let span = pacer.spec.span();
            match pacer.spec {
                PacerSpec::Interval { .. } => {
                    let starts = pacer.entries.iter().map(|(at, _)| *at).chain(phantoms.iter().map(|p| p.at));
                    let last = starts.max()?;
                    (last.saturating_add(span) > now).then(|| {
                        format!("{} after the last start, not {}", Ms(now.saturating_sub(last)), Ms(span))
                    })
                }
                PacerSpec::Window { limit, in_tokens, .. } => {
                    let cost = if in_tokens { tokens } else { 1 };
                    if !ask_logs || span == 0 || cost == 0 {
                        return None;
                    }
                    let cost_of = |call: usize| if in_tokens { tokens_of(call) } else { 1 };
                    let inside = pacer.entries.iter().filter(|(at, _)| at.saturating_add(span) > now);
                    let logged: u64 = inside.map(|(_, call)| cost_of(*call)).sum();
                    let held: u64 = pacer.held.iter().map(|call| cost_of(*call)).sum();
                    let supposed = phantoms.iter().filter(|p| p.at.saturating_add(span) > now);
                    let supposed: u64 = supposed.map(|p| if in_tokens { p.tokens } else { 1 }).sum();
                    let spent = logged + held + supposed;
                    let unit = if in_tokens { " tokens" } else { "" };
                    (spent + cost > limit)
                        .then(|| format!("{spent} + {cost}{unit} in {}, where {limit} are allowed", Ms(span)))
                }
            }
        })
    }

    /// The instants at which time opens something.
    pub(crate) fn openings<'a>(&'a self, phantoms: &'a [Phantom]) -> impl Iterator<Item = u64> + 'a {
        self.pacers.iter().flat_map(move |pacer| {
            let span = pacer.spec.span();
            let starts = pacer.entries.iter().map(|(at, _)| *at).chain(phantoms.iter().map(|p| p.at));
            starts.map(move |at| at.saturating_add(span))
        })
    }

    /// The longest time for which one start matters.
    pub(crate) fn longest(&self) -> u64 {
        self.pacers.iter().map(|pacer| pacer.spec.span()).max().unwrap_or(0)
    }
}

impl Paced {
    fn is_log(&self) -> bool {
        matches!(self.spec, PacerSpec::Window { .. })
    }

    /// What is not in the window at this call is never counted again, though the window may grow.
    fn prune(&mut self, now: u64) {
        if self.is_log() {
            let span = self.spec.span();
            self.entries.retain(|(at, _)| at.saturating_add(span) > now);
            if span == 0 {
                self.held.clear();
            }
        }
    }
}

use crate::limits::Ms;
