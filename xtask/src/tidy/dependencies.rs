//! The page that argues for each foreign crate.

use std::collections::BTreeSet;

use super::Finding;
use crate::workspace::Workspace;

/// Every foreign crate that the workspace lists or a member names has a section in
/// `docs/dependencies.md` (`## name`), which says what it is for and what it replaced; and every
/// section is about such a crate.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let dependencies = workspace.packages.iter().flat_map(|package| &package.dependencies);
    let named = dependencies.filter(|dependency| !dependency.is_member);
    let mut foreign: BTreeSet<&str> = named.map(|dependency| dependency.name.as_str()).collect();
    foreign.extend(listed(workspace, "Cargo.toml", "[workspace.dependencies]"));
    foreign.extend(APART.iter().flat_map(|manifest| listed(workspace, manifest, "[dependencies]")));
    let page = workspace.file(PAGE).map_or("", |file| file.text.as_str());
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let argued: BTreeSet<&str> = headings.map(str::trim).collect();

    let missing = foreign.difference(&argued).map(|name| format!("has no section about {name}"));
    let left_over = argued.difference(&foreign);
    let left_over = left_over.map(|name| format!("argues for {name}, which nobody names"));
    missing.chain(left_over).map(|message| Finding::new(PAGE, message)).collect()
}

/// The foreign crates of a section of a manifest, each on a line of its own.
fn listed<'a>(workspace: &'a Workspace, path: &str, section: &str) -> impl Iterator<Item = &'a str> {
    let manifest = workspace.file(path).map_or("", |file| file.text.as_str());
    let lines = manifest.lines().skip_while(move |line| *line != section).skip(1);
    let entries = lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    let foreign = entries.filter(|line| !line.contains("path = "));
    foreign.filter_map(|line| Some(line.split_once('=')?.0.trim()))
}

const PAGE: &str = "docs/dependencies.md";

/// Programs that are no members.
const APART: &[&str] = &[
    "tests/no-std/Cargo.toml",
    "tests/machines/cortex-m4/Cargo.toml",
    "tests/machines/wasm/Cargo.toml",
    "tests/embassy-mock/Cargo.toml",
    "fuzz/Cargo.toml",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Package};

    #[test]
    fn each_has_its_section() {
        let mut workspace = Workspace::made_up(&[
            (PAGE, "# Dependencies\n\n## tokio\n\nWhy.\n\n## gone\n"),
            (
                "Cargo.toml",
                "[workspace.dependencies]\n# Ours.\nadmission = { path = \"x\" }\n\n\
                 tokio = \"1\"\naxum = { version = \"1\" }\n\n[lints]\nx = 1\n",
            ),
            (APART[0], "[dependencies]\nours = { path = \"x\" }\nlibc = \"1\"\n"),
        ]);
        let dependency = |name: &str, is_member| Dependency {
            name: name.to_owned(),
            kind: "normal".to_owned(),
            is_member,
        };
        let dependencies =
            vec![dependency("tokio", false), dependency("clap", false), dependency("admission", true)];
        workspace.packages = vec![Package { dependencies, ..Package::default() }];
        let messages: Vec<_> = check(&workspace).into_iter().map(|finding| finding.message).collect();
        assert_eq!(
            messages,
            [
                "has no section about axum",
                "has no section about clap",
                "has no section about libc",
                "argues for gone, which nobody names"
            ]
        );
    }
}
