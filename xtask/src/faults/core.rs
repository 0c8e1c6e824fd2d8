//! Faults in the machine: `crates/admission-core`.

use super::{Fault, in_core, in_suite};

pub(super) const FAULTS: &[Fault] = &[Fault {
    rule: "T1",
    what: "time runs back",
    file: "crates/admission-core/src/coordinator.rs",
    right: "self.seen = self.seen.max(now.min(Instant::LAST))",
    wrong: "self.seen = now.min(Instant::LAST)",
    test: in_core("checklist", "readings_that_run_back_mint_no_credit"),
}];
