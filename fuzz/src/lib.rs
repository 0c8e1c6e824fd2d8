//! A history made of bytes, lived through by the core and by the reference model.
//!
//! Owns: how bytes become a history. What a history is and how it is compared stands with the core's
//! tests, and is mounted from there, so that seeds and bytes draw from one generator. Lacks the fuzzer,
//! which is a program of its own behind a feature.

#![forbid(unsafe_code)]

#[path = "../../crates/admission-core/tests/common/mod.rs"]
mod common;

use common::histories::{Difference, Setting, Tape, Totals};

/// So many bytes decide about the settings, so that a byte more or less in the calls leaves them alone.
const SETTINGS: usize = 96;

/// What came of a history: how often something was granted, refused and taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Grants.
    pub grants: u64,
    /// Refusals, of newcomers and of those who waited.
    pub refusals: u64,
    /// Grants that were taken back.
    pub take_backs: u64,
}

/// Lives through the history that these bytes are.
///
/// # Errors
///
/// What the core decided otherwise than the model, with the settings and every call before it.
pub fn live(bytes: &[u8]) -> Result<Outcome, String> {
    let (settings, calls) = bytes.split_at(SETTINGS.min(bytes.len()));
    let mut totals = Totals::default();
    let setting = Setting::draw(&mut Tape(settings));
    match setting.live(&mut Tape(calls), &mut totals) {
        Ok(()) => {
            let Totals([grants, refusals, take_backs, _]) = totals;
            Ok(Outcome { grants, refusals, take_backs })
        }
        Err(Difference(what)) => Err(what),
    }
}
