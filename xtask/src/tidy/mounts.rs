//! Files that nobody compiles.

use std::collections::BTreeSet;

use super::Finding;
use crate::workspace::{File, Workspace};

/// Every Rust file is the root of a crate, or is declared as a module (or included) by a file that is
/// itself part of one. A test in a file that nobody mounts passes for ever.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut mounted = BTreeSet::new();
    let mut waiting: Vec<(String, bool)> = Vec::new();
    for root in workspace.packages.iter().flat_map(|package| &package.roots) {
        waiting.push((root.path.clone(), true));
    }
    waiting.extend(APART.iter().map(|(path, _)| ((*path).to_owned(), true)));
    while let Some((path, is_root)) = waiting.pop() {
        let Some(file) = workspace.file(&path) else { continue };
        if mounted.insert(path) {
            waiting.extend(declared_by(workspace, file, is_root).into_iter().map(|path| (path, false)));
        }
    }
    let dead = workspace.sources().filter(|(file, _)| !mounted.contains(&file.path));
    dead.map(|(file, _)| Finding::new(&file.path, "belongs to no crate; declare it or delete it")).collect()
}

/// The files that this one declares and that are there.
fn declared_by(workspace: &Workspace, file: &File, is_root: bool) -> Vec<String> {
    let Some(source) = &file.source else { return Vec::new() };
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let stem = name.trim_end_matches(".rs");
    let own_folder = if is_root || stem == "mod" { folder.to_owned() } else { join(folder, stem) };
    let mut candidates: Vec<String> = source.includes.iter().map(|name| join(folder, name)).collect();
    for module in &source.modules {
        let within = module.within.iter().fold(own_folder.clone(), |folder, name| join(&folder, name));
        match &module.path {
            // Such a path starts at the file itself, unless inline modules stand around it.
            Some(path) if module.within.is_empty() => candidates.push(join(folder, path)),
            Some(path) => candidates.push(join(&within, path)),
            None => {
                let name = module.name.trim_start_matches("r#");
                candidates.push(join(&within, &format!("{name}.rs")));
                candidates.push(join(&within, &format!("{name}/mod.rs")));
            }
        }
    }
    candidates.retain(|path| workspace.file(path).is_some());
    candidates
}

/// Roots of crates that are no members of the workspace, each with the reason.
const APART: &[(&str, &str)] = &[
    ("tests/no-std/src/main.rs", "aborts where the workspace unwinds; the row `core no_std proof` builds it"),
    ("tests/machines/cortex-m4/build.rs", "as the programs below"),
    ("tests/machines/cortex-m4/src/lib.rs", "for a machine without std; `cargo xtask machines` builds it"),
    ("tests/machines/cortex-m4/src/main.rs", "the same"),
    ("tests/machines/cortex-m4/src/bin/core.rs", "the same"),
    ("tests/machines/cortex-m4/src/bin/empty.rs", "the same"),
    ("tests/machines/wasm/src/lib.rs", "the same, for node"),
    ("tests/embassy-mock/src/lib.rs", "has another time driver; the row `embassy mock clock` runs it"),
    ("tests/embassy-mock/tests/mock_clock.rs", "the same"),
    ("fuzz/src/lib.rs", "a fuzzer wants flags of its own; the row `fuzz seeds` builds it"),
    ("fuzz/tests/seeds.rs", "the same"),
    ("fuzz/fuzz_targets/histories.rs", "the fuzzer itself, which `cargo xtask fuzz` builds"),
];

fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Package, Root};

    fn dead(files: &[(&str, &str)], roots: &[&str]) -> Vec<String> {
        let mut workspace = Workspace::made_up(files);
        let roots = roots.iter().map(|path| Root { kind: "test".to_owned(), path: (*path).to_owned() });
        workspace.packages = vec![Package { roots: roots.collect(), ..Package::default() }];
        check(&workspace).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn declared_files_live() {
        let files = [
            (
                "t/tests/main.rs",
                "mod a; mod inline { mod d; } #[path = \"../far/e.rs\"] mod e; include!(\"f.rs\");",
            ),
            ("t/tests/a.rs", "mod b;"),
            ("t/tests/a/b.rs", ""),
            ("t/tests/inline/d/mod.rs", "mod g;"),
            ("t/tests/inline/d/g.rs", ""),
            ("t/far/e.rs", ""),
            ("t/tests/f.rs", ""),
        ];
        assert_eq!(dead(&files, &["t/tests/main.rs"]), [""; 0]);
    }

    #[test]
    fn forgotten_files_are_dead_and_so_is_what_they_declare() {
        let files = [("t/tests/main.rs", "// mod a;\n"), ("t/tests/a.rs", "mod b;"), ("t/tests/a/b.rs", "")];
        assert_eq!(dead(&files, &["t/tests/main.rs"]), ["t/tests/a.rs", "t/tests/a/b.rs"]);
    }
}
