//! `cargo xtask tidy`: what holds for the whole tree and no compiler checks.
//!
//! Each check is a function from the workspace to what it found wrong, in a file of its own, with its
//! tests on made-up trees. A check that knows exceptions keeps them as data with a reason beside each.

use clap::Args;

use crate::conformance;
use crate::source::line_of;
use crate::workspace::{self, File, Workspace};

mod arrows;
mod clocks;
mod dependencies;
mod embedding;
mod faults;
mod headers;
mod links;
mod mounts;
mod outside;
mod paths;
pub(crate) mod rules;
mod words;

/// Check the tree: what no compiler looks at; `--list` names the checks
#[derive(Args, Default)]
pub(crate) struct Tidy {
    /// Run only the checks whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// List the checks and run none
    #[arg(long)]
    list: bool,
}

/// Something wrong, and where.
#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    /// `path`, `path:line`, or the name of a package or a rule.
    place: String,
    message: String,
}

struct Check {
    name: &'static str,
    about: &'static str,
    run: fn(&Workspace) -> Vec<Finding>,
}

impl Tidy {
    pub(crate) fn run(&self) -> Result<(), String> {
        let wanted =
            |check: &&Check| self.only.as_ref().is_none_or(|text| check.name.contains(text.as_str()));
        let checks: Vec<&Check> = CHECKS.iter().filter(wanted).collect();
        if checks.is_empty() {
            return Err("no check has that in its name; `cargo xtask tidy --list` names them".to_owned());
        }
        if self.list {
            for check in checks {
                println!("{:<13} {}", check.name, check.about);
            }
            return Ok(());
        }
        let workspace = Workspace::read(&workspace::root()?)?;
        let mut wrong = 0;
        for check in &checks {
            let findings = (check.run)(&workspace);
            let verdict = if findings.is_empty() { "ok" } else { "WRONG" };
            println!("tidy: {:<13} {verdict}", check.name);
            for finding in &findings {
                println!("  {}: {}", finding.place, finding.message);
            }
            wrong += findings.len();
        }
        if wrong > 0 {
            return Err(format!("tidy found {wrong} {}", if wrong == 1 { "thing" } else { "things" }));
        }
        Ok(())
    }
}

impl Finding {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding { place: place.into(), message: message.into() }
    }

    fn at(file: &File, at: usize, message: impl Into<String>) -> Finding {
        Finding::new(format!("{}:{}", file.path, line_of(&file.text, at)), message)
    }
}

/// The committed conformance page is what `cargo xtask conformance` would write now.
fn page_is_fresh(workspace: &Workspace) -> Vec<Finding> {
    let committed = workspace.file(conformance::PAGE).map(|file| file.text.as_str());
    if committed == Some(conformance::page(workspace).as_str()) {
        return Vec::new();
    }
    vec![Finding::new(conformance::PAGE, "is stale; write it anew with `cargo xtask conformance`")]
}

const CHECKS: &[Check] = &[
    Check { name: "arrows", about: "crates name only crates below them", run: arrows::check },
    Check { name: "rules", about: "every rule has a test that names it", run: rules::check },
    Check {
        name: "faults",
        about: "every rule has a fault that is planted, and noticed",
        run: faults::check,
    },
    Check { name: "page", about: "docs/conformance.md is fresh", run: page_is_fresh },
    Check {
        name: "headers",
        about: "files open with a paragraph, crates forbid unsafe code",
        run: headers::check,
    },
    Check {
        name: "clocks",
        about: "clocks are read in adapters only, the core uses no std",
        run: clocks::check,
    },
    Check { name: "words", about: "no unfinished code, no silent ignore", run: words::check },
    Check { name: "paths", about: "no absolute paths of somebody's machine", run: paths::check },
    Check { name: "links", about: "relative links in Markdown resolve", run: links::check },
    Check { name: "mounts", about: "every Rust file is part of some crate", run: mounts::check },
    Check { name: "dependencies", about: "docs/dependencies.md argues each one", run: dependencies::check },
    Check {
        name: "embedding",
        about: "docs/embedding.md names every call of the coordinator",
        run: embedding::check,
    },
    Check { name: "outside", about: "licences, sources and bans are as deny.toml says", run: outside::check },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_page_is_found() {
        let fresh = conformance::page(&Workspace::default());
        assert_eq!(page_is_fresh(&Workspace::made_up(&[(conformance::PAGE, &fresh)])), []);
        assert_eq!(page_is_fresh(&Workspace::made_up(&[(conformance::PAGE, "old")])).len(), 1);
        assert_eq!(page_is_fresh(&Workspace::default()).len(), 1);
    }
}
