//! Which crate may name which.

use super::Finding;
use crate::workspace::{Package, Workspace};

/// Arrows between the members point down only: the facade to its adapters, an adapter to the runtime
/// layer, that to the core, and the core to nobody of ours. Of foreign crates the core uses one at
/// most. Tests may look sideways (`dev` dependencies on the tools of testing), since nothing that is
/// published follows from it. A member that the table does not know is a finding too, so that a new
/// crate gets its place on purpose.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    workspace.packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let Some(place) = PLACES.iter().find(|place| place.name == package.name) else {
        return vec![Finding::new(
            &package.name,
            "has no place in the table of arrows (xtask/src/tidy/arrows.rs)",
        )];
    };
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        let name = dependency.name.as_str();
        let is_dev = dependency.kind == "dev";
        let is_allowed = if dependency.is_member {
            let for_tests = is_dev && (FOR_TESTS.contains(&name) || name == package.name);
            for_tests || place.below.contains(&ANY) || place.below.contains(&name)
        } else {
            is_dev || place.foreign.is_none_or(|foreign| foreign.contains(&name))
        };
        if !is_allowed {
            let kind = &dependency.kind;
            findings.push(Finding::new(&package.name, format!("must not name {name} ({kind} dependency)")));
        }
    }
    findings
}

struct Place {
    name: &'static str,
    /// The members that it may name.
    below: &'static [&'static str],
    /// The foreign crates that it may name outside of its tests; any, if there is no list.
    foreign: Option<&'static [&'static str]>,
}

/// Stands for every member.
const ANY: &str = "*";

/// What the tests of any member may name.
const FOR_TESTS: &[&str] = &["admission-testing", "admission-reference"];

const PLACES: &[Place] = &[
    Place {
        name: "admission",
        below: &[
            "admission-tokio",
            "admission-smol",
            "admission-async-std",
            "admission-blocking",
            "admission-rt",
            "admission-core",
        ],
        foreign: Some(&[]),
    },
    Place {
        name: "admission-tokio",
        below: &["admission-rt", "admission-core"],
        foreign: Some(&["async-io", "tokio", "pin-project-lite"]),
    },
    Place { name: "admission-smol", below: &["admission-rt", "admission-core"], foreign: Some(&["smol"]) },
    Place {
        name: "admission-async-std",
        below: &["admission-rt", "admission-core"],
        foreign: Some(&["async-std"]),
    },
    Place {
        name: "admission-blocking",
        below: &["admission-rt", "admission-core"],
        foreign: Some(&["event-listener"]),
    },
    Place { name: "admission-testing", below: &["admission-rt", "admission-core"], foreign: Some(&[]) },
    Place {
        name: "admission-rt",
        below: &["admission-core"],
        // The last two are there only in a build that asks for a model checker.
        foreign: Some(&[
            "async-lock",
            "backon",
            "futures-core",
            "futures-util",
            "hashbrown",
            "pin-project-lite",
            "rustix",
            "loom",
            "shuttle",
        ]),
    },
    Place { name: "admission-core", below: &[], foreign: Some(&["hashbrown"]) },
    // The model shares nothing with what is compared with it, or both could be wrong together.
    Place { name: "admission-reference", below: &[], foreign: Some(&[]) },
    Place { name: "admission-sim", below: &["admission-testing", "admission-rt"], foreign: Some(&[]) },
    Place { name: "admission-examples", below: &[ANY], foreign: None },
    Place { name: "admission-bench", below: &[ANY], foreign: None },
    Place { name: "admission-hot-paths", below: &[ANY], foreign: None },
    // Without std, so that it is linked where there is none.
    Place { name: "scenario", below: &["admission-core"], foreign: Some(&[]) },
    Place { name: "admission-soak", below: &[ANY], foreign: None },
    Place { name: "conformance", below: &[ANY], foreign: None },
    Place { name: "embedding", below: &[ANY], foreign: None },
    Place { name: "xtask", below: &[], foreign: None },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, dependencies: &[(&str, &str, bool)]) -> Package {
        let dependencies = dependencies.iter().map(|&(name, kind, is_member)| Dependency {
            name: name.to_owned(),
            kind: kind.to_owned(),
            is_member,
        });
        Package { name: name.to_owned(), dependencies: dependencies.collect(), ..Package::default() }
    }

    #[test]
    fn downwards_is_fine() {
        let facade = package("admission", &[("admission-tokio", "normal", true)]);
        let core = package("admission-core", &[("hashbrown", "normal", false), ("proptest", "dev", false)]);
        assert_eq!(check_package(&facade), []);
        assert_eq!(check_package(&core), []);
    }

    #[test]
    fn upwards_and_sideways_are_not() {
        let core = package("admission-core", &[("admission-rt", "normal", true), ("log", "normal", false)]);
        assert_eq!(
            check_package(&core),
            [
                Finding::new("admission-core", "must not name admission-rt (normal dependency)"),
                Finding::new("admission-core", "must not name log (normal dependency)"),
            ]
        );
        let adapter = package("admission-tokio", &[("admission-testing", "build", true)]);
        assert_eq!(check_package(&adapter).len(), 1);
    }

    #[test]
    fn tests_may_use_the_tools_of_testing() {
        let core = package("admission-core", &[("admission-testing", "dev", true)]);
        assert_eq!(check_package(&core), []);
        let upwards = package("admission-core", &[("admission-tokio", "dev", true)]);
        assert_eq!(check_package(&upwards).len(), 1);
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        assert_eq!(check_package(&package("admission-moon", &[])).len(), 1);
    }
}
