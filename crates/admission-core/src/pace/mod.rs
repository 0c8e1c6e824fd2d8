//! Rules about start times: the interval and the sliding log.
//!
//! A pacer answers one question, when the next start of a given cost could be, and is told what
//! happens: granted, started, settled, taken back, abandoned. It lacks a clock, a queue and any
//! say in who comes next.

mod interval;
mod ring;
mod sliding_log;

pub(crate) use interval::IntervalPacer;
pub(crate) use sliding_log::SlidingLog;

/// When a pacer has room for a start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// Now.
    Now,
    /// At this instant, if nothing else starts before.
    At(crate::Instant),
    /// Not before a call that holds its budget has started or settled: if it did so now, at this
    /// instant.
    Held(crate::Instant),
}
