//! `cargo xtask check`: formatting, lints, documentation and the tree's own rules.
//!
//! Lints run member by member, because one invocation for the whole workspace would give every crate
//! the features that any crate asks for. A member with features is looked at twice, without and with
//! all of them.

use clap::Args;

use crate::rows::{self, Row};
use crate::step::Step;
use crate::tidy::Tidy;
use crate::workspace;

/// Check formatting, lints (member by member), documentation and `tidy`.
#[derive(Args, Default)]
pub(crate) struct Check {
    /// Run only the rows whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

impl Check {
    pub(crate) fn run(&self) -> Result<(), String> {
        let mut rows = check_rows()?;
        if let Some(text) = &self.only {
            rows.retain(|row| row.name.contains(text.as_str()));
            if rows.is_empty() {
                return Err(format!("no check has \"{text}\" in its name"));
            }
        }
        let tidied = if self.only.is_none() { Tidy::default().run() } else { Ok(()) };
        if let Err(message) = &tidied {
            eprintln!("{message}");
        }
        let report = rows::run(&rows, false)?;
        report.print_table();
        if report.failed() > 0 {
            return Err(format!("{} of {} checks failed", report.failed(), rows.len()));
        }
        tidied.map_err(|_| "tidy failed; see above".to_owned())
    }
}

fn check_rows() -> Result<Vec<Row>, String> {
    let packages = workspace::packages(&workspace::root()?)?;
    let mut rows = vec![Row::new("fmt", "the formatting is rustfmt's", [Step::cargo("fmt --all --check")])];
    for package in &packages {
        let clippy = |features: &str| {
            let name = &package.name;
            Step::cargo(&format!("clippy --no-deps -p {name} --all-targets {features} -- -D warnings"))
        };
        let mut steps = vec![clippy("")];
        if package.has_features {
            steps.extend([clippy("--no-default-features"), clippy("--all-features")]);
        }
        rows.push(Row::new(&format!("clippy {}", package.name), "no lint fires in this member", steps));
    }
    // What the core compiles for its tests only is code as well.
    let counted = Step::cargo("clippy --no-deps -p admission-core --all-targets -- -D warnings")
        .env("RUSTFLAGS", "--cfg audit --cfg steps")
        .target_folder("audit-steps");
    rows.push(Row::new("clippy core audited", "nor in what checks and counts", [counted]));
    let doc = Step::cargo("doc --no-deps --workspace --all-features").env("RUSTDOCFLAGS", "-D warnings");
    rows.push(Row::new("docs", "every page builds and every link in it resolves", [doc]));
    Ok(rows)
}
