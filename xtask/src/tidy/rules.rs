//! The rules of the contract, and the tests that name them.

use super::Finding;
use crate::source::{Comment, Source, line_of};
use crate::workspace::{File, Workspace};

/// Every rule has a test that names it, in a comment of the form `// rule E4` or
/// `// rules E4, W1` in the test or right above it. A test is a function with `#[test]` or its like,
/// one inside a macro call in a tests folder, or a body of the conformance suite whose name stands
/// a second time in that package (where it is mounted). Ignored tests show nothing. A comment that names
/// an unknown rule, or one in a folder of tests that belongs neither to a test nor to a helper that
/// is called, is a finding as well.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut shown = Vec::new();
    for (file, source) in workspace.sources() {
        for (comment, ids) in rule_comments(source) {
            let test = test_of(workspace, file, source, comment);
            // Code may cite the rule that it follows, and a helper the one that it helps to show.
            if test.is_none() && (!is_test_place(file, source, comment) || is_in_helper(source, comment)) {
                continue;
            }
            let place = format!("{}:{}", file.path, line_of(&file.text, comment.start));
            if test.is_none() {
                findings.push(Finding::new(&place, "names a rule but belongs to no test that runs"));
            }
            for id in ids {
                if !RULES.iter().any(|rule| rule.id == id) {
                    findings.push(Finding::new(&place, format!("names {id}, which is no rule")));
                } else if test.is_some() {
                    shown.push(id);
                }
            }
        }
    }
    for rule in RULES.iter().filter(|rule| !shown.contains(&rule.id)) {
        findings.push(Finding::new(rule.id, format!("has no test ({})", rule.title)));
    }
    findings
}

/// Each rule together with a test that shows it, in the order of the files.
pub(crate) fn shown_by_tests(workspace: &Workspace) -> Vec<(&str, String)> {
    let mut shown = Vec::new();
    for (file, source) in workspace.sources() {
        for (comment, ids) in rule_comments(source) {
            if let Some(test) = test_of(workspace, file, source, comment) {
                shown.extend(ids.into_iter().map(|id| (id, format!("{}::{test}", file.path))));
            }
        }
    }
    shown
}

/// The comments that name rules, with the rules that they name.
fn rule_comments(source: &Source) -> impl Iterator<Item = (&Comment, Vec<&str>)> {
    source.comments.iter().filter_map(|comment| {
        let list = comment.text.strip_prefix("rule ").or_else(|| comment.text.strip_prefix("rules "))?;
        let words = list.split([' ', ',']).filter(|word| !word.is_empty() && *word != "and");
        let ids: Vec<&str> = words
            .map(|word| (word, word.trim_end_matches([':', '.', ';', ')'])))
            .scan(false, |is_over, (word, id)| {
                let is_id = !*is_over && looks_like_a_rule(id);
                *is_over |= word != id;
                is_id.then_some(id)
            })
            .collect();
        (!ids.is_empty()).then_some((comment, ids))
    })
}

/// `E4`, and also `Z9` or `T1-T6`, so that a slip is told and not overlooked.
fn looks_like_a_rule(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c.is_ascii_uppercase()) && chars.next().is_some_and(|c| c.is_ascii_digit())
}

/// The name of the test that a comment belongs to, if it belongs to one that runs.
fn test_of<'a>(workspace: &Workspace, file: &File, source: &'a Source, comment: &Comment) -> Option<&'a str> {
    let function = source.function_of(comment)?;
    let runs = !function.is_ignored
        && (function.is_test
            || (function.in_macro && is_test_place(file, source, comment))
            || (file.path.starts_with(MOUNTED) && is_mounted(workspace, &function.name)));
    runs.then_some(function.name.as_str())
}

fn is_test_place(file: &File, source: &Source, comment: &Comment) -> bool {
    file.path.contains("/tests/") || file.path.starts_with(MOUNTED) || source.is_test_code(comment.start)
}

/// Whether a comment belongs to a function that is no test, but is called by something in its file.
fn is_in_helper(source: &Source, comment: &Comment) -> bool {
    let function = source.function_of(comment).filter(|function| !function.is_test);
    function.is_some_and(|function| source.count_of_name(&function.name) > 1)
}

/// Whether the conformance package names this body anywhere but at its definition.
fn is_mounted(workspace: &Workspace, name: &str) -> bool {
    let sources = workspace.sources().filter(|(file, _)| file.path.starts_with(MOUNTED));
    sources.map(|(_, source)| source.count_of_name(name)).sum::<usize>() > 1
}

/// Where a body is written once and mounted on every runtime.
const MOUNTED: &str = "tests/conformance/";

/// One promise of the contract.
pub(crate) struct Rule {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
}

const fn rule(id: &'static str, title: &'static str) -> Rule {
    Rule { id, title }
}

/// The title of a section of the contract.
pub(crate) fn section_title(section: char) -> &'static str {
    match section {
        'T' => "Time",
        'L' => "Limits",
        'E' => "Eligibility and order",
        'S' => "Grant, then start",
        'W' => "Waiting, and leaving the queue",
        'R' => "The rate limiter",
        'I' => "The shared interval limiter",
        'Q' => "Queries and cycles",
        'O' => "Being observed",
        _ => "Details that are the same everywhere",
    }
}

/// Every rule, in the order of the contract.
pub(crate) const RULES: &[Rule] = &[
    rule("T1", "the core reads no clock, and time handed to it never runs back"),
    rule("T2", "time saturates; no duration panics, wraps or overflows a timer"),
    rule("T3", "an early timer changes nothing, a late one causes no burst"),
    rule("T4", "the wall clock releases no cooldown, interval or window"),
    rule("T5", "clock and timer are one seam, and a virtual one runs the whole suite"),
    rule("T6", "no timer without somebody who waits, and none that is due already"),
    rule("L1", "concurrency of the client, of a provider, and one call per key"),
    rule("L2", "an interval keeps actual starts apart and saves up no credit"),
    rule("L3", "a sliding log never lets more than its limit into any window"),
    rule("L4", "all pacers of a scope must agree"),
    rule("L5", "a cooldown only ever lengthens, and touches no running call"),
    rule("L6", "a cost that can never fit is refused at once"),
    rule("L7", "limits change while calls wait and run"),
    rule("L8", "a held permit corrects its cost"),
    rule("L9", "a log counts from the start or until settled, with a margin"),
    rule("L10", "providers come and go, by name or from a template"),
    rule("E1", "a ticket is eligible when nothing in its scopes holds it back"),
    rule("E2", "the eligible go in order of submission; others hold back only their own"),
    rule("E3", "light tickets never starve a heavy one"),
    rule("E4", "a newcomer starts at once only if nobody queued is eligible"),
    rule("E5", "a retry goes to the tail, and refusals are not retried unasked"),
    rule("E6", "a key is one name in the whole coordinator"),
    rule("E7", "a decision costs no more when more is queued"),
    rule("S1", "pacers count the actual start"),
    rule("S2", "a grant that has not started blocks its interval and counts in its log"),
    rule("S3", "cancelled between grant and start: slot and key return, budget stays spent"),
    rule("S4", "a grant that nobody picks up is taken back after the hand-off time"),
    rule("S4a", "repeated take-backs halve the hand-off time, a start restores it"),
    rule("S5", "a cooldown takes back grants that have not started"),
    rule("S6", "an immediate admission is granted and started in one step"),
    rule("W0", "a future that was never polled holds nothing"),
    rule("W1", "the queue is finite, and one more is an overflow"),
    rule("W2", "the admission timeout expires late tickets; at the deadline a grant wins"),
    rule("W3", "an abort removes a queued ticket at once and spends nothing"),
    rule("W4", "close ends all who wait and lets running calls finish"),
    rule("W5", "however a ticket ends, nothing is leaked"),
    rule("W6", "every call lets time pass, in a fixed order of effects"),
    rule("W7", "a permit is released when its operation is over, never before"),
    rule("R1", "wait or reject; a refusal that time can mend says when"),
    rule("R2", "a call whose estimated wait is too long is refused at submit"),
    rule("R3", "what is available can be asked, and reset admits who waits"),
    rule("R4", "a permit is spent on admission, whatever becomes of the call"),
    rule("R5", "configuration out of range is clamped"),
    rule("R6", "errors of the operation pass through in their own type"),
    rule("I1", "one shared instance hands out starts an interval apart, in order"),
    rule("I2", "an interval of zero is a configuration error"),
    rule("I3", "the operation is called as soon as granted, then the next may go"),
    rule("I4", "the stream form: bounded concurrency, buffer and retries"),
    rule("Q1", "a query with an unknown provider fails when it is created"),
    rule("Q2", "the attempt timeout starts when the source is called"),
    rule("Q3", "refusals end a cycle and are no attempts"),
    rule("Q4", "each invocation has an abort signal of its own"),
    rule("Q5", "each retry asks for admission again"),
    rule("Q6", "an aborted source holds its slots until it is over"),
    rule("Q7", "a source that never ends holds its slots, unless it asked to be dropped"),
    rule("Q8", "pause ends a cycle, dispose is final"),
    rule("Q9", "results are stamped with the wall clock"),
    rule("Q10", "subscribers see snapshots, and refreshes join a running cycle"),
    rule("O1", "a snapshot tells everything about every scope"),
    rule("O2", "a queued ticket can be explained"),
    rule("O3", "same inputs, same decisions: a trace replays exactly"),
    rule("D1", "what counts as the start, for run and for acquire"),
    rule("D2", "reset forgets one scope's logs and exempts who is queued"),
    rule("D3", "keys are compared exactly and forgotten when unused"),
    rule("D4", "which settings have defaults and which have none"),
    rule("D5", "of several reasons to refuse, the first in a fixed order is told"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let findings = check(&Workspace::made_up(files)).into_iter();
        let findings = findings.filter(|finding| !finding.message.starts_with("has no test"));
        findings.map(|finding| format!("{} {}", finding.place, finding.message)).collect()
    }

    fn shown(files: &[(&str, &str)]) -> Vec<String> {
        let workspace = Workspace::made_up(files);
        shown_by_tests(&workspace).into_iter().map(|(id, test)| format!("{id} {test}")).collect()
    }

    #[test]
    fn every_rule_without_a_test_is_listed() {
        let workspace = Workspace::made_up(&[("crates/x/tests/a.rs", "// rule E4\n#[test]\nfn a() {}\n")]);
        let places: Vec<_> = check(&workspace).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places.len(), RULES.len() - 1);
        assert!(places.contains(&"E3".to_owned()) && places.contains(&"S4a".to_owned()));
        assert!(!places.contains(&"E4".to_owned()));
    }

    #[test]
    fn no_rule_stands_twice() {
        for (at, rule) in RULES.iter().enumerate() {
            assert!(RULES[..at].iter().all(|other| other.id != rule.id), "{}", rule.id);
        }
    }

    #[test]
    fn comments_name_one_rule_or_several() {
        let test = |comment: &str| {
            let text = format!("#[test]\nfn a() {{\n    {comment}\n}}\n");
            let all = shown(&[("crates/x/src/a.rs", &text)]);
            all.iter().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(test("// rule E4"), ["E4"]);
        assert_eq!(test("// rules E4, W1 and S4a"), ["E4", "W1", "S4a"]);
        assert_eq!(test("// rule E4: the newcomer of W1"), ["E4"]);
        assert_eq!(test("// rule E4, the newcomer of W1"), ["E4"]);
        assert_eq!(test("// rule of thumb"), [""; 0]);
        assert_eq!(test("// the rule E4"), [""; 0]);
    }

    #[test]
    fn bodies_count_where_they_are_mounted() {
        let body = ("tests/conformance/src/order.rs", "// rule E2\npub async fn in_order() {}\n");
        let mount = ("tests/conformance/tests/virtual_clock.rs", "mount!(order::in_order);\n");
        assert_eq!(shown(&[body, mount]), ["E2 tests/conformance/src/order.rs::in_order"]);
        assert_eq!(findings(&[body, mount]), [""; 0]);
        assert_eq!(shown(&[body]), [""; 0]);
        assert_eq!(
            findings(&[body]),
            ["tests/conformance/src/order.rs:1 names a rule but belongs to no test that runs"]
        );
    }

    #[test]
    fn code_may_cite_a_rule_and_shows_nothing_by_it() {
        let code = ("crates/x/src/judge.rs", "fn judge() {\n    // rule E4\n}\n");
        let model = ("tests/reference/src/judge.rs", "fn judge() {\n    // rule E4\n}\n");
        assert_eq!(shown(&[code, model]), [""; 0]);
        assert_eq!(findings(&[code, model]), [""; 0]);
    }

    #[test]
    fn ignored_tests_and_slips_show_nothing() {
        let ignored = "// rule E4\n#[test]\n#[ignore = \"slow\"]\nfn a() {}\n";
        assert_eq!(shown(&[("crates/x/tests/a.rs", ignored)]), [""; 0]);
        let helper = "// rule E4\nfn check() {}\n#[test]\nfn a() { check(); }\n";
        assert_eq!(shown(&[("crates/x/tests/a.rs", helper)]), [""; 0]);
        assert_eq!(findings(&[("crates/x/tests/a.rs", helper)]), [""; 0]);
        let slip = "// rules E9, T1-T6\n#[test]\nfn a() {}\n";
        assert_eq!(
            findings(&[("crates/x/tests/a.rs", slip)]),
            [
                "crates/x/tests/a.rs:1 names E9, which is no rule",
                "crates/x/tests/a.rs:1 names T1-T6, which is no rule"
            ]
        );
    }
}
