//! What unfinished work looks like.

use super::Finding;
use crate::workspace::Workspace;

/// No code that only promises to be written, no mark that something is to be fixed later, and no test
/// that is ignored without a word: an `#[ignore]` says why, as `#[ignore = "…"]`. Marks are looked for
/// in the comments of Rust files and in the whole of every other file.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mark = ["FIX", "ME"].concat();
    let mut findings = Vec::new();
    for file in &workspace.files {
        let Some(source) = &file.source else {
            let marks = file.text.match_indices(&mark).map(|(at, _)| at);
            findings.extend(marks.map(|at| Finding::at(file, at, format!("has the mark {mark}"))));
            continue;
        };
        for comment in source.comments.iter().filter(|comment| comment.text.contains(&mark)) {
            findings.push(Finding::at(file, comment.start, format!("has the mark {mark}")));
        }
        for needle in ["todo!", "unimplemented!"] {
            for at in source.code_places(needle) {
                findings.push(Finding::at(file, at, format!("is unfinished (`{needle}`)")));
            }
        }
        for (at, _) in source.code.match_indices("#[ignore]") {
            findings.push(Finding::at(file, at, "ignores a test without saying why"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_work_is_found_in_code_and_not_in_strings() {
        let text = "fn a() { todo!() }\nlet s = \"todo!\";\n// todo!() stays a word here\nunimplemented!(\"x\");\n\
                    #[test]\n#[ignore]\nfn t() {}\n#[ignore = \"slow\"]\nfn u() {}\n";
        let findings = check(&Workspace::made_up(&[("a.rs", text)]));
        let places: Vec<_> = findings.into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["a.rs:1", "a.rs:4", "a.rs:6"]);
    }

    #[test]
    fn marks_are_found_everywhere() {
        let mark = ["FIX", "ME"].concat();
        let rust = format!("// {mark}: later\nlet s = \"{mark}\";\n");
        let findings = check(&Workspace::made_up(&[("a.rs", &rust), ("b.md", &format!("\n{mark}\n"))]));
        let places: Vec<_> = findings.into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["a.rs:1", "b.md:2"]);
    }
}
