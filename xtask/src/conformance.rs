//! `cargo xtask conformance`: writes `docs/conformance.md`, the map from each rule to its tests.
//!
//! The page is generated so that it cannot promise a test that is not there. `tidy` compares it with
//! what this would write.

use std::fs;

use clap::Args;

use crate::faults;
use crate::tidy::rules::{self, RULES, Rule};
use crate::workspace::{self, Workspace};

/// Write docs/conformance.md: each rule, and the tests that show it.
#[derive(Args)]
pub(crate) struct Conformance {}

/// Where the page is.
pub(crate) const PAGE: &str = "docs/conformance.md";

impl Conformance {
    pub(crate) fn run(&self) -> Result<(), String> {
        let root = workspace::root()?;
        let page = page(&Workspace::read(&root)?);
        fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE} could not be written: {error}"))?;
        println!("wrote {PAGE}");
        Ok(())
    }
}

/// What the page says of this workspace.
pub(crate) fn page(workspace: &Workspace) -> String {
    let shown = rules::shown_by_tests(workspace);
    let tests_of = |rule: &Rule| -> Vec<&str> {
        let tests = shown.iter().filter(|(id, _)| *id == rule.id);
        tests.map(|(_, test)| test.as_str()).collect()
    };
    let faults = faults::all();
    let kept = RULES.iter().filter(|rule| !tests_of(rule).is_empty()).count();

    let mut page = String::from(HEAD);
    page += &format!("\n{kept} of {} rules have a test.\n", RULES.len());
    let mut section = ' ';
    for rule in RULES {
        let first = rule.id.chars().next().unwrap_or(' ');
        if first != section {
            section = first;
            page += &format!("\n## {section}. {}\n", rules::section_title(section));
        }
        page += &format!("\n### {}: {}\n\n", rule.id, rule.title);
        let mut tests = tests_of(rule);
        tests.sort_unstable();
        tests.dedup();
        for test in &tests {
            page += &format!("- `{test}`\n");
        }
        if !tests.is_empty() && tests.iter().all(|test| test.starts_with(MODEL)) {
            page += "\nShown on the model only, with which the core's decisions are compared.\n";
        }
        if tests.is_empty() {
            page += "No test yet.\n";
        }
        for fault in faults.iter().filter(|fault| fault.rule == rule.id) {
            page += &format!(
                "\nIf {} (in `{}`, {} for {}), `{}`{} fails.\n",
                fault.what,
                fault.file,
                code(fault.wrong),
                code(fault.right),
                fault.test.name,
                match fault.test.race {
                    "" => String::new(),
                    race => format!(" ({race})"),
                }
            );
        }
    }
    page
}

/// A line of code in a page's line. Nothing at all is a deletion.
fn code(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words.is_empty() { "nothing".to_owned() } else { format!("`` {} ``", words.join(" ")) }
}

/// Tests in here show what the naive model does.
const MODEL: &str = "tests/reference/";

const HEAD: &str = "\
# What is promised, and what shows it

<!-- Written by `cargo xtask conformance`; edit the tests, not this page. -->

Every promise has a short name. A test that shows one says so with a comment (`// rule E4`), and this
page collects them. A test of the conformance suite is listed once, although it runs on every runtime.

Below each rule stands a fault, the sort of slip that somebody could make. `cargo xtask faults` plants each of them
in a copy of the tree, and sees the test fail.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_each_test_and_fault_below_its_rule() {
        let workspace = Workspace::made_up(&[(
            "crates/x/tests/order.rs",
            "//! x\n// rules E2, E4\n#[test]\nfn in_order() {}\n// rule E2\n#[test]\nfn again() {}\n",
        )]);
        let page = page(&workspace);
        let e2 = page.split("### ").find(|part| part.starts_with("E2")).unwrap();
        let tests = "\n\n- `crates/x/tests/order.rs::again`\n- `crates/x/tests/order.rs::in_order`\n\nIf ";
        assert!(e2.contains(tests) && e2.ends_with("` fails.\n\n"), "then its fault: {e2}");
        let model = ("tests/reference/tests/a.rs", "// rule E2\n#[test]\nfn a() {}\n");
        let on_the_model = super::page(&Workspace::made_up(&[model]));
        assert!(on_the_model.contains("a.rs::a`\n\nShown on the model only, "));
        let e3 = page.split("### ").find(|part| part.starts_with("E3")).unwrap();
        assert!(e3.contains("\n\nNo test yet.\n\nIf "), "{e3}");
        assert!(page.contains(&format!("\n2 of {} rules have a test.\n", RULES.len())));
    }
}
