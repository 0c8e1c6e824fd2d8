//! Why a ticket stands where it stands (rule O2): plain values, to be printed or exported. They decide
//! nothing, and nothing reads them back.

use alloc::vec::Vec;
use core::fmt;

use crate::{Hold, Instant, Key, KeyHolder, ProviderId, TicketId};

/// Everything that can be said of one ticket at one instant: from
/// [`Coordinator::explain`](crate::Coordinator::explain).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The instant.
    pub at: Instant,
    /// Where the ticket is.
    pub state: TicketState,
    /// Whom the call goes to.
    pub provider: ProviderId,
    /// What the call is, if that was said.
    pub key: Option<Key>,
    /// When it was submitted.
    pub submitted: Instant,
    /// When it was granted or, if it runs, started; `None` while it waits, and where nobody knows (see
    /// [`Coordinator::start_at_once`](crate::Coordinator::start_at_once)).
    pub since: Option<Instant>,
    /// It may be granted up to this instant; the first call with a later one refuses it (rules W2, R2). A
    /// grant that is taken back later ends with it, too. `None` if it may wait for ever, or has started.
    pub deadline: Option<Instant>,
    /// All that holds it back, each by itself: being passed over, its key, then what its provider has,
    /// then what the client has (in each: concurrency, hand-off, cooldown, pacers), then older tickets.
    /// Never empty while it waits; empty once it is granted.
    ///
    /// An older ticket is among them only if it goes first by rule E3: nothing but windows hold it back,
    /// of the provider that both have or of the client, in which too little is left for it. One that is
    /// merely ahead is not: of two that wait for one slot, each is held back by the concurrency. And while the
    /// client's concurrency, hand-off or interval lets nobody go, none is.
    pub holds: Vec<Held>,
    /// Who has its key, if that is one of [`holds`](Self::holds).
    pub key_holder: Option<KeyHolder>,
    /// By its own pacers and cooldown alone it does not start before this instant (rules O2, R1): a
    /// lower bound, for others may go first, and other things may hold it back for longer. Counted as
    /// if every grant started now and every running call settled now. [`Instant::NEVER`] if they never
    /// let it start. `None` if they would let it start now and something else does not, or if it has
    /// started.
    pub earliest: Option<Instant>,
}

/// Where a ticket is that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TicketState {
    /// It waits.
    Queued,
    /// It waits, and is passed over until its caller is running (rule S4).
    PassedOver,
    /// It may start, and has not.
    Granted,
    /// It has started.
    Running,
}

/// One thing that holds a ticket back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Held {
    /// What.
    pub hold: Hold,
    /// Until when, if time alone ends it: the end of a cooldown or interval, the instant at which enough
    /// of a window is free. Calls that come or end may change it.
    pub until: Option<Instant>,
    /// The other ticket that is in the way: for [`Hold::Key`] the one that has the key, for
    /// [`Hold::Order`] the older one that goes first.
    pub by: Option<TicketId>,
}

impl fmt::Display for TicketState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queued => "queued",
            Self::PassedOver => "passed over",
            Self::Granted => "granted",
            Self::Running => "running",
        })
    }
}
