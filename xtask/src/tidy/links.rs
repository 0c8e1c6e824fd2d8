//! Links between the pages.

use super::Finding;
use crate::workspace::{File, Workspace};

/// Every relative link of a Markdown file leads to a file or a folder that is there, and if it goes on to a
/// heading, that page has it. Addresses with a scheme are not looked at: a check must not need a
/// network. Code, fenced or not, has no links.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let pages = workspace.files.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| check_page(workspace, page)).collect()
}

fn check_page(workspace: &Workspace, page: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut at = 0;
    for line in prose_lines(&page.text) {
        for target in targets(&line) {
            if let Err(why) = resolve(workspace, page, target) {
                findings.push(Finding::at(page, at, format!("links to {target}, {why}")));
            }
        }
        at += line.len() + 1;
    }
    findings
}

fn resolve(workspace: &Workspace, page: &File, target: &str) -> Result<(), &'static str> {
    let has_scheme = target.split(['/', '#']).next().is_some_and(|head| head.contains(':'));
    if has_scheme || target.is_empty() {
        return Ok(());
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let linked = if path.is_empty() {
        Some(page)
    } else {
        let path = join(&page.path, path).ok_or("which is outside of the tree")?;
        let file = workspace.file(&path);
        let folder = format!("{}/", path.trim_end_matches('/'));
        let is_folder = path.is_empty() || workspace.files.iter().any(|file| file.path.starts_with(&folder));
        if file.is_none() && !is_folder {
            return Err("which is not there");
        }
        file
    };
    match linked {
        Some(file) if !heading.is_empty() && file.path.ends_with(".md") => {
            let found = prose_lines(&file.text).any(|line| line.starts_with('#') && slug(&line) == heading);
            if found { Ok(()) } else { Err("which has no such heading") }
        }
        _ => Ok(()),
    }
}

/// The path that a link on the page at `from` leads to; none if it leaves the tree.
fn join(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The lines of a page, as long as they are, with fenced blocks emptied.
fn prose_lines(text: &str) -> impl Iterator<Item = String> {
    let mut in_fence = false;
    text.split('\n').map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        if in_fence || is_fence { " ".repeat(line.len()) } else { line.to_owned() }
    })
}

/// What the links of a line lead to, inline (`[x](y)`) or defined (`[x]: y`).
fn targets(line: &str) -> Vec<&str> {
    let is_code = |at: usize| line[..at].matches('`').count() % 2 == 1;
    let inline = line.match_indices("](").filter(|&(at, _)| !is_code(at)).filter_map(|(at, _)| {
        let rest = &line[at + 2..];
        rest.split([')', ' ']).next()
    });
    let defined = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    inline.chain(defined.map(|(_, target)| target.trim())).collect()
}

/// The anchor that a heading gets on the usual hosts.
fn slug(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(page: &str) -> Vec<String> {
        let workspace = Workspace::made_up(&[
            ("README.md", "# Top\n\n## Why `this`, then?\n"),
            ("docs/page.md", page),
            ("docs/other.md", "# Other"),
            ("crates/x/src/lib.rs", ""),
        ]);
        check(&workspace)
            .into_iter()
            .map(|finding| format!("{} {}", finding.place, finding.message))
            .collect()
    }

    #[test]
    fn good_links_pass() {
        assert_eq!(
            findings(
                "# Here\n[a](other.md) [b](../README.md) [c](../crates/x) [d](../crates/x/src/lib.rs)\n\
                 [e](https://example.org/none.md) [f](mailto:x@example.org) [g](#here) `[h](none.md)`\n\
                 [i](../README.md#why-this-then)\n```\n[j](none.md)\n```\n[k]: ../README.md\n"
            ),
            [""; 0]
        );
    }

    #[test]
    fn bad_links_are_named_with_their_line() {
        assert_eq!(
            findings("\n[a](none.md)\n[b](#none) [c](../../x.md)\n[d]: gone.md\n"),
            [
                "docs/page.md:2 links to none.md, which is not there",
                "docs/page.md:3 links to #none, which has no such heading",
                "docs/page.md:3 links to ../../x.md, which is outside of the tree",
                "docs/page.md:4 links to gone.md, which is not there",
            ]
        );
    }
}
