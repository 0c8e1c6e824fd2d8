//! Who reads clocks, and who knows std.

use super::Finding;
use crate::workspace::Workspace;

/// The standard library's clocks are read in the few files that are clocks or measure real time, and
/// nowhere else: everything else is given `now`. Clippy's `disallowed_methods` says the same with the
/// compiler's knowledge of names, but can be silenced where it fires; this one can only be told here.
/// And the core names `std` in its tests only, so that it builds where there is none.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in workspace.sources() {
        let is_allowed = READS_CLOCKS.iter().any(|(prefix, _)| file.path.starts_with(prefix));
        // A runtime's own `Instant` follows that runtime's clock, paused or not.
        let has_tokios = source.code.contains("use tokio::time::");
        for needle in ["Instant::now", "SystemTime::now"] {
            for at in source.code_places(needle) {
                let before = &source.code[..at];
                let is_tokios =
                    before.ends_with("tokio::time::") || (has_tokios && !before.ends_with("std::time::"));
                let is_fine = is_allowed || (needle.starts_with('I') && is_tokios);
                if !is_fine {
                    findings.push(Finding::at(
                        file,
                        at,
                        format!("reads a clock (`{needle}`); take `now` instead"),
                    ));
                }
            }
        }
        if !file.path.starts_with(CORE) || is_test_file(workspace, &file.path) {
            continue;
        }
        for needle in ["std::", "crate std;", "crate std "] {
            for at in source.code_places(needle).filter(|&at| !source.is_test_code(at)) {
                findings.push(Finding::at(file, at, "names std in the core; use core or alloc"));
            }
        }
    }
    findings
}

/// Whether the file is the text of a module that is declared for tests only.
fn is_test_file(workspace: &Workspace, path: &str) -> bool {
    let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let folder = &stem[..stem.len() - name.len()];
    let siblings = workspace.sources().filter(|(file, _)| {
        let parent = file.path.trim_end_matches(".rs");
        file.path.starts_with(folder) || folder.trim_end_matches('/') == parent
    });
    let mut declared = siblings.flat_map(|(_, source)| &source.modules).filter(|module| module.name == name);
    declared.any(|module| module.only_in_tests)
}

const CORE: &str = "crates/admission-core/src/";

/// The files that may read a clock of the standard library, each with its reason.
const READS_CLOCKS: &[(&str, &str)] = &[
    (
        "crates/admission-core/tests/checklist.rs",
        "one test hands the core the readings of several real threads",
    ),
    ("crates/admission-rt/src/clock.rs", "the clock of adapters whose runtime has none of its own"),
    ("crates/admission-tokio/src/", "an adapter"),
    ("crates/admission-bench/src/clocks.rs", "what takes time is measured with it"),
    ("crates/admission-sim/src/main.rs", "measures how long many histories take, all in virtual time"),
    ("crates/admission-examples/", "its programs run in real time and draw what happened"),
    ("tests/embedding/src/embassy.rs", "embassy's own clock, which follows its driver"),
    ("xtask/src/faults.rs", "ends a test that hangs"),
    ("xtask/src/rows.rs", "measures how long a row takes"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn places(files: &[(&str, &str)]) -> Vec<String> {
        check(&Workspace::made_up(files)).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn only_clocks_read_clocks() {
        let reads =
            "use std::time::Instant;\nfn f() { Instant::now(); }\nfn g() { std::time::SystemTime::now(); }\n";
        assert_eq!(places(&[("crates/admission-tokio/src/lib.rs", reads)]), [""; 0]);
        assert_eq!(
            places(&[("crates/admission/src/lib.rs", reads)]),
            ["crates/admission/src/lib.rs:2", "crates/admission/src/lib.rs:3"]
        );
        assert_eq!(
            places(&[("a.rs", "// Instant::now\nlet x = \"Instant::now\"; MyInstant::now();")]),
            [""; 0]
        );
    }

    #[test]
    fn the_paused_clock_is_not_the_real_one() {
        assert_eq!(places(&[("a.rs", "f(tokio::time::Instant::now())")]), [""; 0]);
        assert_eq!(places(&[("a.rs", "use tokio::time::{Instant, sleep};\nf(Instant::now())")]), [""; 0]);
        assert_eq!(places(&[("a.rs", "use tokio::time::sleep;\nf(std::time::Instant::now())")]), ["a.rs:2"]);
    }

    #[test]
    fn the_core_knows_no_std() {
        let text = "use std::vec::Vec;\nextern crate std;\n#[cfg(test)]\nmod tests { use std::vec; }\n";
        assert_eq!(
            places(&[("crates/admission-core/src/a.rs", text)]),
            ["crates/admission-core/src/a.rs:1", "crates/admission-core/src/a.rs:2"]
        );
        assert_eq!(places(&[("crates/admission-rt/src/a.rs", text)]), [""; 0]);
    }

    #[test]
    fn a_file_of_tests_is_no_part_of_the_core() {
        let declared = |text| ("crates/admission-core/src/lib.rs", text);
        let tests = ("crates/admission-core/src/tests.rs", "use std::vec::Vec;");
        assert_eq!(places(&[declared("#[cfg(test)] mod tests;"), tests]), [""; 0]);
        assert_eq!(places(&[declared("mod tests;"), tests]), ["crates/admission-core/src/tests.rs:1"]);
    }
}
