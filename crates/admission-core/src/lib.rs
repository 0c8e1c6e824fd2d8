//! The admission coordinator as a pure state machine.
//!
//! A client that calls other people's services must stay inside their quotas, keep a bounded number
//! of calls in flight, and never run the same call twice at once. [`Coordinator`] decides all of
//! that in one step, in a fair and bounded queue. It does no I/O, reads no clock, starts no timer,
//! wakes nobody and has no lock: whoever drives it brings those. The async layer, `admission-rt`, is
//! one driver; an event loop of your own can be another.
//!
//! ```text
//!            request, step, handle_release,                 poll_event
//!  caller ── handle_abort, cooldown, reset, ──▶ Coordinator ──────────▶ whom to wake: granted,
//!            close (each with `now`)            │     ▲                 refused, taken back
//!                                               │     │
//!                              poll_timeout ────┘     └──── handle_timeout
//!                        when to call again, if at all      time has come
//! ```
//!
//! > **The driving rule.** After every call, drain [`Coordinator::poll_event`], then have
//! > [`Coordinator::handle_timeout`] called at [`Coordinator::poll_timeout`]. A timer that is early
//! > does no harm, and one that is late costs only its lateness: what is decided is decided by `now`.
//!
//! Of all that, [`SlidingWindow`] is the quota alone, for those who have nothing to queue.
//!
//! What holds a ticket back, and in which order they go, is said once: in `verdict.rs` and in
//! `queue/`. The rules have names (L3, E4), which comments refer to; the book of rules lists the
//! tests of each.
//!
//! The crate is `no_std` with `alloc`, has no unsafe code, and depends on a hash table alone. After
//! construction it allocates only to hold more than it ever held before, to make a provider, and to
//! change limits; of a crowd of providers that is gone it keeps nothing.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod config;
mod coordinator;
mod event;
mod explanation;
mod handoff;
mod heap;
mod ids;
mod pace;
mod providers;
mod queue;
mod ready;
mod refusal;
mod scope;
mod sliding_window;
mod snapshot;
#[cfg(steps)]
mod steps;
mod time;
mod timed;
mod tournament;
mod verdict;

pub use config::{Config, ConfigError, CountsFrom, Interval, Limits, LimitsError, Log, Pacer};
pub use coordinator::{Admitted, ChangeError, Coordinator, Counts, Presence, Request, Step};
pub use event::Event;
pub use explanation::{Explanation, Held, TicketState};
pub use ids::{Key, ProviderId, ScopeId, Side, TicketId, UnitId};
pub use refusal::{Hold, KeyHolder, Reason, Refusal};
pub use sliding_window::SlidingWindow;
pub use snapshot::{PacerSnapshot, ScopeSnapshot, Snapshot};
pub use time::Instant;
