//! Limits and configurations, drawn.
//!
//! Owns: what a round may be built from, and the configurations that nothing can be built from. Lacks the
//! calls, which are the round's.

use core::fmt;
use core::time::Duration;

use admission_core::{Config, Coordinator, Interval, Limits, Log, Pacer, UnitId};

use crate::dice::Dice;
use crate::tally::{Digesting, STRANGE_UNIT};

/// Nanoseconds in a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// Units there are at most, requests included.
const MOST_UNITS: u64 = 3;

/// Mostly on a coarse grid, so that instants often coincide; sometimes odd, and sometimes beyond every clock.
pub(crate) fn span(dice: &mut Dice) -> Duration {
    match dice.below(16) {
        0 => Duration::from_nanos(dice.below(5) * MS + 1),
        1 => Duration::from_nanos(u64::MAX - dice.below(3)),
        2 => Duration::MAX,
        _ => Duration::from_nanos((1 + dice.below(12)) * 5 * MS),
    }
}

/// Like [`span`], but one that comes to an end.
pub(crate) fn short(dice: &mut Dice) -> Duration {
    Duration::from_nanos((1 + dice.below(60)) * MS + dice.below(2) * dice.below(MS))
}

pub(crate) fn limits(dice: &mut Dice, units: u16) -> Limits {
    let mut limits = Limits::new();
    if !dice.one_in(3) {
        limits = limits.max_concurrent(1 + dice.small(4));
    }
    if dice.one_in(3) {
        let mut interval = Interval::new(short(dice));
        if dice.one_in(4) {
            interval = interval.margin(Duration::from_millis(dice.below(3)));
        }
        limits = limits.pacer(Pacer::Interval(interval));
    }
    for _ in 0..dice.below(3) {
        let unit = dice.small(u32::from(units));
        let limit = match dice.below(16) {
            0 => u64::MAX,
            _ if unit == 0 => 1 + dice.below(4),
            // More than 32 bits hold, so that a machine that counts in those is found out.
            _ => (1 + dice.below(12)) << if dice.one_in(4) { 34 } else { 0 },
        };
        let window = if dice.one_in(12) { Duration::ZERO } else { span(dice) };
        // Units are few.
        let mut log = Log::new(limit, window).unit(UnitId::new(unit as u16));
        if dice.one_in(6) {
            log = log.margin(Duration::from_millis(5 * dice.below(3)));
        }
        if dice.one_in(3) {
            log = log.until_settled();
        }
        limits = limits.pacer(Pacer::Log(log));
    }
    limits
}

/// Limits for a change; some of them are none.
pub(crate) fn new_limits(dice: &mut Dice, units: u16) -> Limits {
    match dice.below(12) {
        0 => Limits::new().max_concurrent(0),
        1 => Limits::new().interval(Duration::ZERO),
        2 => Limits::new().window(0, Duration::from_secs(1)),
        3 => Limits::new().pacer(Pacer::Log(Log::new(1, Duration::from_secs(1)).unit(STRANGE_UNIT))),
        _ => limits(dice, units),
    }
}

pub(crate) fn config(dice: &mut Dice) -> Config {
    let mut config = Config::new();
    // Units are few.
    config.units = 1 + dice.below(MOST_UNITS) as u16;
    config.max_queued = if dice.one_in(4) { dice.small(4) } else { 6 + dice.small(18) };
    config.hand_off = Duration::from_millis(1 + dice.below(40));
    config.max_wait = dice.one_in(4).then(|| Duration::from_millis(5 * dice.below(40)));
    if !dice.one_in(3) {
        config.client = limits(dice, config.units).max_concurrent(2 + dice.small(6));
    }
    for _ in 0..1 + dice.below(4) {
        config.providers.push(limits(dice, config.units));
    }
    if dice.one_in(3) {
        config.template = Some(limits(dice, config.units));
    }
    config
}

/// What cannot be built is refused in the same words.
pub(crate) fn refused_configurations(out: &mut Digesting<'_>) -> fmt::Result {
    let wrong: [fn(&mut Config); 5] = [
        |config| config.units = 0,
        |config| config.hand_off = Duration::from_micros(999),
        |config| config.client = Limits::new().max_concurrent(0),
        |config| config.providers.push(Limits::new().interval(Duration::ZERO)),
        |config| {
            let log = Log::new(1, Duration::MAX).unit(STRANGE_UNIT);
            config.template = Some(Limits::new().pacer(Pacer::Log(log)));
        },
    ];
    for spoil in wrong {
        let mut config = Config::new();
        spoil(&mut config);
        match Coordinator::new(&config) {
            Ok(_) => out.line(format_args!("built"))?,
            Err(error) => out.line(format_args!("not built: {error}"))?,
        }
    }
    Ok(())
}
