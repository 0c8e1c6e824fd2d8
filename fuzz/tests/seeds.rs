//! The committed inputs, replayed without a fuzzer: what was once found stays found.
//!
//! Owns: the replay, and the check that the inputs are worth it. Lacks any search for new ones.

use std::fs;
use std::path::Path;

// rules E7, O3
#[test]
fn the_core_decides_each_seed_as_the_reference_model_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let mut seeds = 0;
    let mut totals = fuzz::Outcome::default();
    for entry in fs::read_dir(folder).expect("the folder with the seeds") {
        let path = entry.expect("an entry").path();
        let bytes = fs::read(&path).expect("a seed");
        let outcome = fuzz::live(&bytes).unwrap_or_else(|what| panic!("{}: {what}", path.display()));
        seeds += 1;
        totals.grants += outcome.grants;
        totals.refusals += outcome.refusals;
        totals.take_backs += outcome.take_backs;
    }
    // Seeds that never grant, refuse or take back would compare nothing.
    assert!(totals.grants > seeds && totals.refusals > seeds && totals.take_backs > seeds / 4, "{totals:?}");
    assert!(seeds >= 32, "only {seeds} seeds");
}
