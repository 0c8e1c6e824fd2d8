//! What is written about a scope, a ticket or a coordinator that is looked at.
//!
//! Owns: the words. Lacks calls that change anything.

use core::fmt::{self, Write};

use admission_core::{
    Coordinator, Instant, Limits, Pacer, PacerSnapshot, ProviderId, ScopeId, ScopeSnapshot, TicketId,
};

use crate::tally::{Digesting, Tally};

/// Its number, and the slot that it lies in, which is the same on every machine, too.
pub(crate) fn ticket(ticket: TicketId, number: Option<u32>, out: &mut Digesting<'_>) -> fmt::Result {
    match number {
        Some(number) => write!(out, "#{number}/{}", ticket.index() as u64),
        None => write!(out, "#-/{}", ticket.index() as u64),
    }
}

pub(crate) fn limits(limits: &Limits, out: &mut Digesting<'_>) -> fmt::Result {
    write!(out, " [{}", limits.max_concurrent.unwrap_or(0))?;
    for pacer in &limits.pacers {
        match pacer {
            Pacer::Interval(p) => write!(out, " every {}+{}", p.interval.as_nanos(), p.margin.as_nanos())?,
            Pacer::Log(p) => {
                let (unit, counts) = (p.unit.index() as u64, p.counts);
                let (window, margin) = (p.window.as_nanos(), p.margin.as_nanos());
                write!(out, " {} of u{unit} in {window}+{margin} {counts:?}", p.limit)?;
            }
        }
    }
    out.write_str("]")
}

pub(crate) fn scope(
    core: &Coordinator,
    scope: ScopeId,
    provider: ProviderId,
    available: Option<u64>,
    out: &mut Digesting<'_>,
) -> fmt::Result {
    out.write_str(" available")?;
    number(available, out)?;
    out.write_str(" hand-off")?;
    match core.hand_off_time(scope) {
        Some(time) => write!(out, " {}", time.as_nanos())?,
        None => out.write_str(" -")?,
    }
    let not_before = core.not_before(provider).as_nanos();
    write!(out, " p{} {:?} not before {not_before}", provider.number(), core.presence(provider))
}

pub(crate) fn explanation(
    core: &Coordinator,
    about: TicketId,
    tally: &mut Tally,
    out: &mut Digesting<'_>,
    number_of: &dyn Fn(TicketId) -> Option<u32>,
) -> fmt::Result {
    let Some(told) = core.explain(about) else { return out.write_str(" nothing") };
    write!(out, " {} p{} submitted {}", told.state, told.provider.number(), told.submitted.as_nanos())?;
    out.write_str(" deadline")?;
    instant(told.deadline, out)?;
    out.write_str(" earliest")?;
    instant(told.earliest, out)?;
    for held in &told.holds {
        tally.hold(held.hold);
        write!(out, " {:?}", held.hold)?;
        instant(held.until, out)?;
        if let Some(by) = held.by {
            out.write_str(" by ")?;
            ticket(by, number_of(by), out)?;
        }
    }
    Ok(())
}

pub(crate) fn snapshot(core: &Coordinator, out: &mut Digesting<'_>) -> fmt::Result {
    let seen = core.snapshot();
    write!(out, "  at {} closed {} room {} next", seen.at.as_nanos(), seen.is_closed, seen.max_queued)?;
    instant(seen.next, out)?;
    out.write_str("\n  client")?;
    scope_snapshot(&seen.client, out)?;
    for (provider, scope) in &seen.providers {
        write!(out, "  p{}", provider.number())?;
        scope_snapshot(scope, out)?;
    }
    Ok(())
}

fn scope_snapshot(scope: &ScopeSnapshot, out: &mut Digesting<'_>) -> fmt::Result {
    write!(out, " {} {} {} of", scope.running, scope.granted, scope.queued)?;
    number(scope.max_concurrent.map(u64::from), out)?;
    out.write_str(" not before")?;
    instant(scope.not_before, out)?;
    write!(out, " hand-off {} next", scope.hand_off.as_nanos())?;
    instant(scope.next, out)?;
    for pacer in &scope.pacers {
        match pacer {
            PacerSnapshot::Interval { next } => {
                out.write_str(" interval")?;
                instant(*next, out)?;
            }
            PacerSnapshot::Log { unit, limit, spent, left, next } => {
                let unit = unit.index() as u64;
                write!(out, " log u{unit} {spent} of {limit} leaves {left} next")?;
                instant(*next, out)?;
            }
            pacer => write!(out, " {pacer:?}")?,
        }
    }
    out.write_str("\n")
}

fn number(number: Option<u64>, out: &mut Digesting<'_>) -> fmt::Result {
    match number {
        Some(number) => write!(out, " {number}"),
        None => out.write_str(" -"),
    }
}

fn instant(at: Option<Instant>, out: &mut Digesting<'_>) -> fmt::Result {
    number(at.map(Instant::as_nanos), out)
}
