//! The plain types of the interface: what goes into a call and what comes out.
//!
//! Owns no behaviour. All instants and durations are nanoseconds in a `u64`; `u64::MAX` as an
//! instant means never (rule T2).

/// How a coordinator is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many tickets may wait (rule W1).
    pub max_queued: u32,
    /// How long a granted ticket may take to start (rule S4); at least 1 ms.
    pub hand_off: u64,
    /// The longest wait that any ticket may have (rule R2).
    pub max_wait: Option<u64>,
    /// How many units there are, at least 1; unit 0 is requests.
    pub units: u16,
    /// The limits of the client.
    pub client: Limits,
    /// The limits of each provider; they are named from 0 on, and are not the template's.
    pub providers: Vec<Limits>,
    /// The limits of those providers that are made on demand (rule L10); without it, none are.
    pub template: Option<Limits>,
}

impl Default for Config {
    /// No limits, no providers, and what rule D4 gives a default.
    fn default() -> Config {
        Config {
            max_queued: 1_024,
            hand_off: 200_000_000,
            max_wait: None,
            units: 1,
            client: Limits::default(),
            providers: Vec::new(),
            template: None,
        }
    }
}

/// The limits of one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How many calls may be granted or running at a time (rule L1).
    pub max_concurrent: Option<u32>,
    /// The rules about start times; all must agree (rule L4).
    pub pacers: Vec<Pacer>,
}

/// A rule about start times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacer {
    /// A minimum gap between two starts (rule L2).
    Interval {
        /// The gap.
        interval: u64,
        /// Added to the gap (rule L9).
        margin: u64,
    },
    /// At most `limit` of a unit in any window (rule L3).
    Log {
        /// The unit that is counted.
        unit: u16,
        /// How much of it fits into one window.
        limit: u64,
        /// The length of the window.
        window: u64,
        /// Added to the window (rule L9).
        margin: u64,
        /// Whether a call counts until one window after it settled (rule L9).
        until_settled: bool,
    },
}

/// One request to start.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The name of its provider.
    pub provider: u32,
    /// The logical call that it belongs to, if any.
    pub key: Option<u64>,
    /// Its costs in units other than 0; in unit 0 each request costs 1.
    pub costs: Vec<(u16, u64)>,
    /// Its admission timeout (rule W2).
    pub timeout: Option<u64>,
    /// Whether it may wait; if not, it starts at once or is refused as exhausted (rule R1).
    pub wait: bool,
    /// Whether its caller is not running now: then it is granted at most, and its own step starts
    /// it (rules S1, W0).
    pub deferred: bool,
}

/// The number of an accepted request, counted from 0 in the order of submission.
pub type Ticket = u64;

/// A request that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It started at once (rule S6).
    Started(Ticket),
    /// It is in the queue, or was granted from there in the same call.
    Queued(Ticket),
}

/// Why a request was refused, in the order of rule D5 and then those of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its signal fired (rule W3).
    Aborted,
    /// The coordinator is closed (rule W4).
    Closed,
    /// There is no such provider.
    UnknownProvider,
    /// Its provider was removed before it started (rule L10).
    Removed,
    /// There is no such unit.
    UnknownUnit,
    /// Its cost is above a limit (rule L6).
    ImpossibleCost,
    /// It may not start at once and would not wait (rule R1).
    Exhausted,
    /// It would wait too long, or did (rule R2).
    MaxWait,
    /// The queue is full (rule W1).
    Overflow,
    /// It was not granted by its deadline (rule W2).
    AdmissionTimeout,
}

/// A refusal and what is told with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// What held it back when it was refused.
    pub held_by: Option<Hold>,
    /// The estimate of rule R2, counted from the call that refused it.
    pub retry_after: Option<u64>,
    /// Who had its key, if that is what held it back.
    pub key_holder: Option<KeyHolder>,
    /// Whether the scope of the limit that held it back has other limits when this is told.
    pub limits_changed: bool,
}

/// The ticket that has a key (rule L1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHolder {
    /// Which one.
    pub ticket: Ticket,
    /// Its provider.
    pub provider: u32,
    /// Whether it has started; if not, it is granted.
    pub is_running: bool,
    /// When it was granted or, if it runs, started.
    pub since: u64,
}

/// Why a ticket stands where it stands (rule O2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Which ticket.
    pub ticket: Ticket,
    /// Where it is.
    pub state: State,
    /// Its provider.
    pub provider: u32,
    /// The logical call that it belongs to, if any.
    pub key: Option<u64>,
    /// When it was submitted.
    pub submitted: u64,
    /// When it was granted or, if it runs, started.
    pub since: Option<u64>,
    /// Its deadline, if it has one and has not started.
    pub deadline: Option<u64>,
    /// All that holds it back by itself, while it waits.
    pub holds: Vec<HeldBack>,
    /// Who has its key, if that is one of them.
    pub key_holder: Option<KeyHolder>,
    /// It does not start before, by its own pacers and cooldown; none if they do not hold it back.
    pub earliest: Option<u64>,
}

/// One thing that holds a ticket back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// What.
    pub hold: Hold,
    /// The instant at which time ends it, if time alone does.
    pub until: Option<u64>,
    /// The other ticket that is in the way, for a key and for an older ticket.
    pub by: Option<Ticket>,
}

/// One of a ticket's own two scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The ticket's provider.
    Provider,
}

/// What holds a ticket back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The concurrency of that scope (rule L1).
    Concurrency(Side),
    /// A grant of that interval-paced scope that has not started (rule S2).
    HandOff(Side),
    /// The not-before time of its provider (rule L5).
    Cooldown,
    /// An interval, by its place among the scope's pacers (rule L2).
    Interval(Side, u16),
    /// A log, by its place among the scope's pacers (rule L3).
    Log(Side, u16),
    /// Its key is granted or running (rule L1).
    Key,
    /// An older ticket goes first (rules E3 and E4).
    Order,
    /// It is passed over until it is polled (rule S4).
    Unpolled,
}

/// What happened to a ticket other than in answer to its own call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It may start; its next step starts it (rule S1).
    Granted(Ticket),
    /// It ended; its next step tells the refusal.
    Refused(Ticket, Reason),
    /// Its grant was taken back (rules S4, S5 and L7).
    TakenBack(Ticket),
}

/// What a polled waiter should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It started in this call.
    Start,
    /// It waits.
    Wait,
    /// It was refused, and the ticket is gone now.
    GiveUp(Refusal),
    /// It started in an earlier call.
    Running,
    /// There is no such ticket.
    Gone,
}

/// Where a ticket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits.
    Queued {
        /// Whether it is passed over until it is polled (rule S4).
        passed_over: bool,
    },
    /// It may start and has not.
    Granted,
    /// It started and has not settled.
    Running,
    /// It was refused, and its caller has not been told.
    Ended(Reason),
}

/// How many tickets are where; those that ended count nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Started and not settled.
    pub running: u32,
    /// Granted and not started.
    pub granted: u32,
    /// Waiting, those that are passed over included.
    pub queued: u32,
}

/// Why a change was not made; it changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// There is no such provider (rule L10).
    UnknownProvider,
    /// There is such a provider already (rule L10).
    ProviderExists,
    /// A concurrency, interval or limit is 0, or a log counts a unit that there is not (rule L1).
    InvalidLimits,
    /// There is no such unit.
    UnknownUnit,
    /// The ticket is not running (rule L8).
    NotRunning,
    /// What a ticket costs in requests cannot be corrected (rule L8).
    Requests,
}

/// How everything stands at the latest instant that was seen (rule O1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The client.
    pub client: ScopeView,
    /// Each provider that is there, by its name, in the order of the names.
    pub providers: Vec<(u32, ScopeView)>,
    /// The next instant at which something can change by itself for those who wait, as the alarm tells it.
    pub next: Option<u64>,
}

/// How one scope stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeView {
    /// How many of its tickets are where.
    pub counts: Counts,
    /// Its pacers, in the order of its limits.
    pub pacers: Vec<PacerView>,
    /// The instant before which nothing of it starts; 0 for the client (rule L5).
    pub not_before: u64,
    /// The next instant at which something of its own changes by itself, whether or not anybody waits:
    /// cooldown, interval, window, hand-off.
    pub next: Option<u64>,
}

/// How one pacer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacerView {
    /// An interval.
    Interval {
        /// The first instant, not before the latest seen, at which it allows a start.
        next: u64,
    },
    /// A log.
    Log {
        /// What it counts now; it may be more than the limit.
        spent: u64,
        /// What is left of its limit.
        left: u64,
    },
}
