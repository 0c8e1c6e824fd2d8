//! Why a ticket does not start: for the moment ([`Hold`]) or for good ([`Refusal`]).

use core::fmt;
use core::time::Duration;

use crate::{Instant, ProviderId, Side, TicketId};

/// A ticket that will not start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Why. Of several reasons the first in the order of [`Reason`] is told (rule D5).
    pub reason: Reason,
    /// What held the ticket back when it was refused, where something did.
    pub held_by: Option<Hold>,
    /// From now, no start is possible for at least so long (rule R1). `None` where time alone
    /// mends nothing.
    pub retry_after: Option<Duration>,
    /// Who had its key when it was refused, if [`Hold::Key`] held it back.
    pub key_holder: Option<KeyHolder>,
    /// Whether the scope of [`held_by`](Self::held_by) has other limits now, as the caller hears of it, than
    /// when it was refused, so that a pacer's number, or what a limit is now, says nothing about that
    /// one. Limits that have been changed and changed back are the same. A name that is not here has the
    /// template's, if there is one. Always false where no limit held it back, and for a newcomer.
    pub limits_changed: bool,
}

impl Refusal {
    /// A refusal of which nothing more is to be told.
    #[must_use]
    pub const fn new(reason: Reason) -> Self {
        Self { reason, held_by: None, retry_after: None, key_holder: None, limits_changed: false }
    }
}

/// The ticket that keeps others with its key from starting (rule L1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct KeyHolder {
    /// Which one.
    pub ticket: TicketId,
    /// The provider it goes to: a key is one name in the whole coordinator (rule E6).
    pub provider: ProviderId,
    /// Whether it runs; if not, it is granted and has not started.
    pub is_running: bool,
    /// When it was granted or, if it runs, started. Of one that started as of an earlier call (see
    /// [`Coordinator::start_at_once`](crate::Coordinator::start_at_once)): when the first other call came upon it.
    pub since: Instant,
}

/// The ways for a ticket to end without a start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// Its signal fired (rule W3).
    Aborted,
    /// The coordinator is closed (rule W4).
    Closed,
    /// The coordinator has no such provider.
    UnknownProvider,
    /// Its provider was removed while it waited (rule L10).
    Removed,
    /// The coordinator has no such unit.
    UnknownUnit,
    /// It costs more than a log ever allows; [`Refusal::held_by`] names the log (rule L6).
    ImpossibleCost,
    /// It may not start at once, and was told not to wait (rule R1).
    Exhausted,
    /// Its wait would be, or was, longer than the coordinator allows (rule R2).
    MaxWait,
    /// The queue is full (rule W1).
    Overflow,
    /// Its own deadline has passed (rule W2).
    AdmissionTimeout,
}

/// What holds a ticket back. Pacers are named by their place among their scope's pacers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Hold {
    /// It was granted once and its caller did not run; it is passed over until it is polled (S4).
    Unpolled,
    /// Another ticket with its key is granted or running.
    Key,
    /// As many calls as the scope allows are granted or running.
    Concurrency(Side),
    /// A grant of the scope has not started, and the scope has an interval (rule S2).
    HandOff(Side),
    /// Its provider is cooling down (rule L5).
    Cooldown,
    /// The last start was less than an interval ago.
    Interval(Side, u16),
    /// Too little is left in a window.
    Log(Side, u16),
    /// An older ticket goes first (rules E3, E4). Told only where the ticket's own limits and key would let
    /// it go; [`Explanation::holds`](crate::Explanation::holds) has it beside others.
    Order,
}

impl Hold {
    /// Whose limit it is, if it is one that can be changed.
    #[must_use]
    pub const fn limit_of(self) -> Option<Side> {
        match self {
            Self::Concurrency(side) | Self::Interval(side, _) | Self::Log(side, _) => Some(side),
            Self::Unpolled | Self::Key | Self::HandOff(_) | Self::Cooldown | Self::Order => None,
        }
    }
}

/// The codes of those that need no more than a number; with a side, the client's and then the provider's,
/// and above them, with a pacer.
const CODES: [Hold; 8] = [
    Hold::Unpolled,
    Hold::Key,
    Hold::Cooldown,
    Hold::Order,
    Hold::Concurrency(Side::Client),
    Hold::Concurrency(Side::Provider),
    Hold::HandOff(Side::Client),
    Hold::HandOff(Side::Provider),
];

impl Hold {
    /// What held a ticket back, if anything did, in four bytes.
    pub(crate) fn to_code(hold: Option<Self>) -> u32 {
        let paced =
            |kind: u32, side, pacer| kind << 17 | u32::from(side == Side::Provider) << 16 | u32::from(pacer);
        match hold {
            None => 0,
            Some(Self::Interval(side, pacer)) => paced(1, side, pacer),
            Some(Self::Log(side, pacer)) => paced(2, side, pacer),
            Some(plain) => CODES.iter().position(|&code| code == plain).map_or(0, |place| place as u32 + 1),
        }
    }

    /// The same back again.
    pub(crate) fn from_code(code: u32) -> Option<Self> {
        let side = if code >> 16 & 1 == 0 { Side::Client } else { Side::Provider };
        match code >> 17 {
            0 => CODES.get((code as usize).checked_sub(1)?).copied(),
            1 => Some(Self::Interval(side, code as u16)),
            _ => Some(Self::Log(side, code as u16)),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Provider => "provider",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aborted => "aborted",
            Self::Closed => "the coordinator is closed",
            Self::UnknownProvider => "unknown provider",
            Self::Removed => "the provider was removed",
            Self::UnknownUnit => "unknown unit",
            Self::ImpossibleCost => "the cost is above a limit",
            Self::Exhausted => "may not start at once",
            Self::MaxWait => "the wait would be too long",
            Self::Overflow => "the queue is full",
            Self::AdmissionTimeout => "not admitted in time",
        })
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unpolled => f.write_str("its caller, which did not take its last grant"),
            Self::Key => f.write_str("its key, which is busy"),
            Self::Concurrency(side) => write!(f, "the {side}'s concurrency"),
            Self::HandOff(side) => write!(f, "a grant of the {side} that has not started"),
            Self::Cooldown => f.write_str("the provider's cooldown"),
            Self::Interval(side, n) => write!(f, "the {side}'s interval (pacer {n})"),
            Self::Log(side, n) => write!(f, "the {side}'s window (pacer {n})"),
            Self::Order => f.write_str("an older ticket"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if let Some(hold) = self.held_by {
            write!(f, ": held back by {hold}")?;
        }
        if let Some(after) = self.retry_after {
            write!(f, "; try again in at least {after:?}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_held_a_ticket_back_is_the_same_from_its_code() {
        let sides = [Side::Client, Side::Provider];
        let pacers = sides.into_iter().flat_map(|side| [0, 1, u16::MAX].map(|pacer| (side, pacer)));
        let paced = pacers.flat_map(|(side, pacer)| [Hold::Interval(side, pacer), Hold::Log(side, pacer)]);
        for hold in CODES.into_iter().chain(paced).map(Some).chain([None]) {
            assert_eq!(Hold::from_code(Hold::to_code(hold)), hold);
        }
    }
}
