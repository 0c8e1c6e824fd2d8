//! The faults that `cargo xtask faults` plants: that each has its place, its rule and its test.

use super::Finding;
use super::rules::RULES;
use crate::faults;
use crate::workspace::Workspace;

/// Every rule has a fault; what a fault makes wrong stands once in its file; and its test is one that names the
/// rule.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let faults = faults::all();
    let shown = super::rules::shown_by_tests(workspace);
    let mut findings = Vec::new();
    for fault in &faults {
        let times = workspace.file(fault.file).map_or(0, |file| file.text.matches(fault.right).count());
        if times != 1 {
            let message = format!(
                "a fault of {} is to stand there once, not {times} times: {}",
                fault.rule, fault.right
            );
            findings.push(Finding::new(fault.file, message));
        }
        let name = fault.test.name.rsplit("::").next().unwrap_or_default();
        let is_shown =
            |(id, test): &(&str, String)| *id == fault.rule && test.rsplit("::").next() == Some(name);
        if !shown.iter().any(is_shown) {
            findings.push(Finding::new(
                fault.test.name,
                format!("is no test of {}, but of its fault", fault.rule),
            ));
        }
    }
    let without = RULES.iter().filter(|rule| faults.iter().all(|fault| fault.rule != rule.id));
    findings.extend(without.map(|rule| Finding::new(rule.id, "has no fault that is planted")));
    findings
}
