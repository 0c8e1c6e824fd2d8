//! The mutants that no test can notice, each with the reason: nothing that can be seen differs.
//!
//! Owns the explanations and nothing else. A mutant that *could* be noticed has no place here: it wants a test. Names
//! are without lines; where a file has several of one name, they are counted from its top.

use super::Explained;

pub(crate) const EXPLAINED: &[Explained] = &[Explained {
    why: "A fingerprint tells limits from others by chance alone, and by a worse hash still does in every test.",
    mutants: &["crates/admission-core/src/config.rs: replace ^ with | in Limits::fingerprint"],
}];
