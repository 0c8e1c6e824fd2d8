//! Licences, sources and bans of what comes in from outside: `deny.toml`, read without cargo-deny.
//!
//! Owns: the part of that file that needs nothing but cargo's own word, so that it is checked in every run and
//! on every machine. cargo-deny reads more (licence texts, advisories) and takes minutes to build: `cargo xtask
//! deny` asks it where it is. Lacks lists of its own.

use super::Finding;
use crate::workspace::Workspace;

/// Every crate in `Cargo.lock` comes from the registry, has a licence that `deny.toml` allows, and is named by
/// those only whom a ban lets name it.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(file) = workspace.file(LISTS) else { return Vec::new() };
    let lists = Lists::read(&file.text);
    let mut findings = Vec::new();
    for outside in &workspace.outside {
        let name = &outside.name;
        let mut tell = |message: String| findings.push(Finding::new(name, message));
        match &outside.source {
            Some(source)
                if !lists.registries.iter().any(|allowed| source == &format!("registry+{allowed}")) =>
            {
                tell(format!("comes from {source}, which {LISTS} does not allow"));
            }
            _ => {}
        }
        let is_allowed = |licence: &str| {
            let excepted = lists.exceptions.iter().any(|(of, allowed)| of == name && allowed == licence);
            excepted || lists.licences.iter().any(|allowed| allowed == licence)
        };
        if !satisfies(&outside.licence, &is_allowed) {
            tell(format!("has the licence \"{}\", which {LISTS} does not allow", outside.licence));
        }
        for named in &outside.names {
            let ban = lists.bans.iter().find(|(banned, _)| banned == named);
            if ban.is_some_and(|(_, wrappers)| !wrappers.contains(name)) {
                tell(format!("names {named}, which {LISTS} bans"));
            }
        }
    }
    findings
}

const LISTS: &str = "deny.toml";

/// What `deny.toml` says, as far as it is looked at here.
#[derive(Debug, Default, PartialEq)]
struct Lists {
    licences: Vec<String>,
    exceptions: Vec<(String, String)>,
    bans: Vec<(String, Vec<String>)>,
    registries: Vec<String>,
}

impl Lists {
    /// One table or list to a line, as the file is written; what stands in quotes is what counts.
    fn read(text: &str) -> Lists {
        let mut lists = Lists::default();
        let (mut section, mut list) = ("", "");
        for line in text.lines() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            if line.starts_with('[') {
                (section, list) = (line, "");
                continue;
            }
            if let Some((name, _)) = line.split_once(" = [").filter(|_| !line.starts_with('{')) {
                list = name;
            }
            let mut quoted = line.split('"').skip(1).step_by(2).map(str::to_owned);
            match (section, list) {
                ("[licenses]", "allow") => lists.licences.extend(quoted),
                ("[licenses]", "exceptions") => {
                    if let Some(of) = quoted.next() {
                        lists.exceptions.extend(quoted.map(|licence| (of.clone(), licence)));
                    }
                }
                ("[bans]", "deny") => {
                    if let Some(banned) = quoted.next() {
                        let wrappers = line.split_once("wrappers = [").map_or("", |(_, rest)| rest);
                        let wrappers = wrappers.split(']').next().unwrap_or_default();
                        let wrappers = wrappers.split('"').skip(1).step_by(2).map(str::to_owned);
                        lists.bans.push((banned, wrappers.collect()));
                    }
                }
                ("[sources]", "allow-registry") => lists.registries.extend(quoted),
                _ => {}
            }
        }
        lists
    }
}

/// Whether an expression of licences can be had with those that are allowed. `AND` binds closer than `OR`; a
/// slash is an old way to write `OR`.
fn satisfies(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut left = words.as_slice();
    any(&mut left, is_allowed) && left.is_empty()
}

fn any(left: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut is_satisfied = all(left, is_allowed);
    while let ["OR", rest @ ..] = *left {
        *left = rest;
        is_satisfied |= all(left, is_allowed);
    }
    is_satisfied
}

fn all(left: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut is_satisfied = one(left, is_allowed);
    while let ["AND", rest @ ..] = *left {
        *left = rest;
        is_satisfied &= one(left, is_allowed);
    }
    is_satisfied
}

fn one(left: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    match *left {
        ["(", rest @ ..] => {
            *left = rest;
            let is_satisfied = any(left, is_allowed);
            *left = left.strip_prefix(&[")"]).unwrap_or_default();
            is_satisfied
        }
        [licence, "WITH", exception, rest @ ..] => {
            *left = rest;
            is_allowed(&format!("{licence} WITH {exception}")) || is_allowed(licence)
        }
        [licence, rest @ ..] => {
            *left = rest;
            is_allowed(licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Outside;

    const FILE: &str = "[licenses]\nallow = [\n    \"MIT\", # \"GPL\"\n    \"A WITH B\",\n]\nexceptions = [\n    \
                        { crate = \"odd\", allow = [\"Zlib\"] },\n]\n[bans]\nwildcards = \"deny\"\ndeny = [\n    \
                        { crate = \"old\", wrappers = [\"one\", \"two\"], reason = \"it is \" },\n]\n[sources]\n\
                        allow-registry = [\"https://r\"]\nallow-git = []\n";

    fn outside(name: &str, licence: &str, source: Option<&str>, names: &[&str]) -> Outside {
        Outside {
            name: name.to_owned(),
            licence: licence.to_owned(),
            source: source.map(str::to_owned),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn found(crates: Vec<Outside>) -> Vec<String> {
        let mut workspace = Workspace::made_up(&[(LISTS, FILE)]);
        workspace.outside = crates;
        check(&workspace).into_iter().map(|found| format!("{} {}", found.place, found.message)).collect()
    }

    #[test]
    fn what_the_file_says_is_read() {
        let lists = Lists::read(FILE);
        assert_eq!(lists.licences, ["MIT", "A WITH B"]);
        assert_eq!(lists.exceptions, [("odd".to_owned(), "Zlib".to_owned())]);
        assert_eq!(lists.bans, [("old".to_owned(), vec!["one".to_owned(), "two".to_owned()])]);
        assert_eq!(lists.registries, ["https://r"]);
    }

    #[test]
    fn what_is_in_order_is_not_told() {
        let registry = Some("registry+https://r");
        let crates = vec![
            outside("ours", "MIT OR Apache-2.0", None, &["fine"]),
            outside("odd", "Zlib", registry, &[]),
            outside("one", "MIT", registry, &["old"]),
        ];
        assert_eq!(found(crates), [""; 0]);
    }

    #[test]
    fn the_rest_is() {
        let crates = vec![
            outside("a", "GPL-3.0", Some("registry+https://r"), &[]),
            outside("b", "MIT", Some("git+https://g"), &[]),
            outside("c", "MIT", None, &["old"]),
            outside("d", "", None, &[]),
        ];
        assert_eq!(
            found(crates),
            [
                "a has the licence \"GPL-3.0\", which deny.toml does not allow",
                "b comes from git+https://g, which deny.toml does not allow",
                "c names old, which deny.toml bans",
                "d has the licence \"\", which deny.toml does not allow",
            ]
        );
    }

    #[test]
    fn expressions_are_understood() {
        let mit = |licence: &str| licence == "MIT" || licence == "X";
        for fine in
            ["MIT", "MIT/Apache-2.0", "GPL OR MIT", "(GPL OR MIT) AND X", "MIT WITH E", "GPL AND Y OR X"]
        {
            assert!(satisfies(fine, &mit), "{fine}");
        }
        for not in ["GPL", "MIT AND GPL", "(GPL OR Y) AND X", "GPL WITH E", "MIT MIT", ""] {
            assert!(!satisfies(not, &mit), "{not}");
        }
    }
}
