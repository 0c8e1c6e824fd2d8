//! Faults in the async layer: `crates/admission-rt`.

use super::{Fault, in_rt, in_suite};

pub(super) const FAULTS: &[Fault] = &[];
