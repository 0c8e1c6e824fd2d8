//! The page on driving the core.

use super::Finding;
use crate::workspace::Workspace;

/// Every public function of the coordinator is named on the page that teaches how to drive it.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let page = workspace.file(PAGE).map_or("", |file| file.text.as_str());
    let is_named = |name: &str| {
        page.match_indices(name).any(|(at, _)| {
            let (before, after) = (&page[..at], &page[at + name.len()..]);
            before.ends_with(['`', ':']) && after.starts_with(['`', '('])
        })
    };
    let files = workspace.sources().filter(|(file, _)| file.path.starts_with(COORDINATOR));
    let names = files.flat_map(|(file, _)| functions(&file.text));
    let missing = names.filter(|name| !is_named(name));
    missing.map(|name| Finding::new(PAGE, format!("does not name Coordinator::{name}"))).collect()
}

/// The public functions of the coordinator in a file, but for those that are hidden.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let blocks = text.split("\nimpl Coordinator {\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("\n}\n").next().unwrap_or(rest));
    let lines = blocks.flat_map(|block| block.lines().zip(std::iter::once("").chain(block.lines())));
    lines.filter(|(_, before)| before.trim() != "#[doc(hidden)]").filter_map(|(line, _)| {
        let rest = line.strip_prefix("    pub ")?;
        let rest = rest.strip_prefix("const ").unwrap_or(rest).strip_prefix("fn ")?;
        rest.split(['(', '<']).next()
    })
}

const PAGE: &str = "docs/embedding.md";

/// The file, and those below it.
const COORDINATOR: &str = "crates/admission-core/src/coordinator";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_the_page_does_not_name_is_found() {
        let code = "//! x\nimpl Coordinator {\n    pub fn step(&self) {}\n    pub const fn look<T>() {\n    }\n    \
                    pub(crate) fn own() {}\n    #[doc(hidden)]\n    pub fn hidden() {}\n    fn private() {}\n    \
                    pub fn new() {}\n}\n\nimpl Other {\n    pub fn other() {}\n}\n";
        let told = |page: &str| {
            let files = [(PAGE, page), ("crates/admission-core/src/coordinator/look.rs", code)];
            check(&Workspace::made_up(&files)).into_iter().map(|finding| finding.message).collect::<Vec<_>>()
        };
        assert_eq!(told("`Coordinator::new`, `step(ticket)`, `look()`"), Vec::<String>::new());
        let missing = ["does not name Coordinator::look", "does not name Coordinator::new"];
        assert_eq!(told("a `step`, a look, and `looks()`, `new_one`"), missing);
    }
}
