//! Paths that exist on one machine only.

use super::Finding;
use crate::source::is_name_char;
use crate::workspace::Workspace;

/// No file names an absolute path of the machine that it was written on: neither somebody's home nor
/// the folder in which the tree happened to be.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &workspace.files {
        for folder in FOLDERS {
            let path = format!("/{folder}");
            let text = &file.text;
            let places = text.match_indices(&path).map(|(at, _)| at).filter(|&at| {
                let inside =
                    |c: char| is_name_char(c) || matches!(c, '.' | '/' | '-' | '}' | ')' | ']' | '*' | '~');
                // A web address may have such a folder; what stands before the slash tells.
                !text[..at].ends_with(inside)
                    && !text[at + path.len()..].starts_with(|c| is_name_char(c) || c == '-')
            });
            findings
                .extend(places.map(|at| Finding::at(file, at, format!("names an absolute path ({path}…)"))));
        }
    }
    findings
}

/// The first folder of such a path, without its slash so that this file passes its own check.
const FOLDERS: &[&str] = &["work", "root", "home", "Users", "mnt"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found_and_others_are_not() {
        let found = |text: String| check(&Workspace::made_up(&[("a.md", &text)])).len();
        for folder in FOLDERS {
            assert_eq!(found(format!("see /{folder}/x")), 1);
            assert_eq!(found(format!("path = \"/{folder}\"")), 1);
            assert_eq!(found(format!("(/{folder}/x)")), 1);
            assert_eq!(found(format!("https://example.org/{folder}/x")), 0);
            assert_eq!(found(format!("docs/{folder}/x and ./{folder}")), 0);
            assert_eq!(found(format!("/{folder}s and /{folder}-alike")), 0);
        }
    }
}
