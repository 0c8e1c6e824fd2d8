//! The reference model: the rules of admission as plainly as they can be written in code.
//!
//! This crate owns one thing, [`Model`]: the decisions of a coordinator, each recomputed from
//! scratch by scanning a list of tickets in the order of their submission. A test drives it and
//! the real core with the same calls and compares every answer (rule E7).
//!
//! What it deliberately lacks: any index, cache or running total; any dependency; any clock (each
//! call is given `now`, rule T1); wakers, timers and tasks.
//!
//! Where to find a rule:
//!
//! | file | rules |
//! |---|---|
//! | `types.rs` | the plain types of the interface |
//! | `model.rs` | the calls and the order of what happens in them: W6, E4, S3 to S6, W2 to W4, D2, D5 |
//! | `living.rs` | what changes while it runs: L7, L8, L10 |
//! | `judge.rs` | who may start: E1, E2, E3, E6, S2, and what is told of a hold |
//! | `estimate.rs` | how long it may take: R1, R2, R3, L6 |
//! | `explain.rs` | why a ticket waits, and who has its key: O2 |
//! | `scope.rs` | limits and what they remember: L1 to L9, S4a |
//! | `ticket.rs` | one ticket |
//! | `alarm.rs` | when time alone changes something: T6 |
//! | `snapshot.rs` | how everything stands: O1 |

#![forbid(unsafe_code)]

mod alarm;
mod estimate;
mod explain;
mod judge;
mod living;
mod model;
mod scope;
mod snapshot;
mod ticket;
mod types;

pub use model::Model;
pub use types::{
    Admitted, Change, Config, Counts, Event, Explanation, HeldBack, Hold, KeyHolder, Limits, Pacer,
    PacerView, Reason, Refusal, Request, ScopeView, Side, Snapshot, State, Step, Ticket,
};
