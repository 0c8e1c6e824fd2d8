//! How files begin.

use super::Finding;
use crate::workspace::Workspace;

/// Every Rust file begins with a `//!` paragraph that says what it owns, and every root of a library, a
/// program or an example forbids unsafe code. Roots of tests are free to go without, since a test
/// may have to replace the allocator.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in workspace.sources() {
        let first = file.text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!/"));
        let says_something =
            first.and_then(|line| line.strip_prefix("//!")).is_some_and(|said| !said.trim().is_empty());
        if !says_something {
            findings.push(Finding::new(&file.path, "does not begin with a `//!` paragraph"));
        }
    }
    for root in workspace.packages.iter().flat_map(|package| &package.roots) {
        let is_free = matches!(root.kind.as_str(), "test" | "bench" | "custom-build");
        let source = workspace.file(&root.path).and_then(|file| file.source.as_ref());
        let forbids = source.is_some_and(|source| source.code.contains("#![forbid(unsafe_code)]"));
        if !is_free && !forbids {
            findings.push(Finding::new(&root.path, "is a crate root without `#![forbid(unsafe_code)]`"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Package, Root};

    #[test]
    fn a_file_opens_with_its_paragraph() {
        let workspace = Workspace::made_up(&[
            ("a.rs", "//! What it owns.\n"),
            ("b.rs", "\n//! Late, but first.\n"),
            ("c.rs", "use x;\n//! Too late.\n"),
            ("d.rs", "//!\n"),
            ("e.rs", ""),
            ("f.md", "no Rust"),
        ]);
        let places: Vec<_> = check(&workspace).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["c.rs", "d.rs", "e.rs"]);
    }

    #[test]
    fn crate_roots_forbid_unsafe_code() {
        let root = |kind: &str, path: &str| Root { kind: kind.to_owned(), path: path.to_owned() };
        let mut workspace = Workspace::made_up(&[
            ("good.rs", "//! x\n#![forbid(unsafe_code)]\n"),
            ("said.rs", "//! x\n// #![forbid(unsafe_code)]\n"),
            ("test.rs", "//! x\n"),
        ]);
        let roots = vec![root("lib", "good.rs"), root("bin", "said.rs"), root("test", "test.rs")];
        workspace.packages = vec![Package { roots, ..Package::default() }];
        let places: Vec<_> = check(&workspace).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["said.rs"]);
    }
}
