//! `cargo xtask mutants`: changes the code in every small way that cargo-mutants knows, and sees a test fail.
//!
//! A planted fault (`faults.rs`) shows that the test of a rule can fail; this shows which code no test looks at.
//! The quick tests go first. What survives those is tried again under the slower ones, and what survives all of
//! them is either explained in `mutants/explained.rs`, or an error.
//!
//! Owns: the stages of each package, the reading of what cargo-mutants wrote, and the verdict. Lacks the mutants,
//! which are cargo-mutants' own, what it is to leave alone, which `.cargo/mutants.toml` says, and the explanations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use serde_json::Value;

use self::explained::EXPLAINED;
use crate::proof::has_subcommand;
use crate::workspace;

mod explained;

/// Change the code in small ways, one at a time, and see that a test fails for each
#[derive(Args)]
pub(crate) struct Mutants {
    /// Whose code is changed
    #[arg(long, value_enum, default_value_t = Package::AdmissionCore)]
    package: Package,
    /// Only a part of them: the K-th of N, counted from 0
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
    /// Only those in files with such a name
    #[arg(long, value_name = "GLOB")]
    file: Vec<String>,
    /// How many at a time, each in a copy of the tree
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Package {
    AdmissionCore,
    AdmissionRt,
}

/// Tests that are to notice, and how they are built.
struct Stage {
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    /// For cargo-mutants.
    options: &'static [&'static str],
    /// For the `cargo test` that it runs.
    test: &'static [&'static str],
}

/// A survivor of every stage, and why no test can notice it.
pub(crate) struct Explained {
    pub(crate) why: &'static str,
    /// Their names, as [`names`] gives them.
    pub(crate) mutants: &'static [&'static str],
}

impl Package {
    const fn name(self) -> &'static str {
        match self {
            Self::AdmissionCore => "admission-core",
            Self::AdmissionRt => "admission-rt",
        }
    }

    /// The quickest first.
    const fn stages(self) -> &'static [Stage] {
        match self {
            Self::AdmissionCore => CORE,
            Self::AdmissionRt => RT,
        }
    }
}

const CORE: &[Stage] = &[
    Stage { name: "plain", env: &[("HISTORIES", "200"), ("DEPTH", "3")], options: &[], test: &[] },
    Stage {
        name: "audited",
        env: &[
            ("RUSTFLAGS", "--cfg audit"),
            ("HISTORIES", "2000"),
            ("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true"),
        ],
        options: &["--profile", "release"],
        test: &["--tests"],
    },
    Stage {
        name: "steps",
        env: &[("RUSTFLAGS", "--cfg steps")],
        options: &["--profile", "release"],
        test: &["--test", "flat"],
    },
];

/// `memory.rs`, the attack and the doc tests take long, and add little to what the others notice.
const RT: &[Stage] = &[
    Stage {
        name: "plain",
        env: &[("DEPTH", "4")],
        options: &[],
        test: &[
            "--lib",
            "--test=abort",
            "--test=alarm_for_nobody",
            "--test=alarms",
            "--test=clock",
            "--test=clock_panics",
            "--test=double_panics",
            "--test=edges",
            "--test=exhaustive",
            "--test=explain",
            "--test=hostile",
            "--test=hostile_input",
            "--test=limiters",
            "--test=living",
            "--test=operations",
            "--test=queries",
            "--test=retries",
            "--test=sleep_alarm",
            "--test=small_answers",
            "--test=small_ends",
            "--test=small_print",
            "--test=start_panics",
            "--test=streams",
            "--test=twins",
            "--test=waiting",
            "--test=words",
        ],
    },
    Stage {
        name: "conformance",
        env: &[],
        options: &["--test-package=conformance"],
        test: &["--test=virtual_clock"],
    },
    Stage { name: "all", env: &[], options: &[], test: &[] },
];

impl Mutants {
    pub(crate) fn run(&self) -> Result<(), String> {
        has_subcommand("mutants", "27.1.0")?;
        let names = names(&self.list()?);
        let mut total = Tally::default();
        let mut left: Option<BTreeSet<String>> = None;
        for stage in self.package.stages() {
            if left.as_ref().is_some_and(BTreeSet::is_empty) {
                break;
            }
            let mut tally = self.try_all(stage, left.as_ref())?;
            if let Some(left) = &left {
                tally.keep(left);
            }
            println!("{}: {tally}", stage.name);
            if left.is_none() {
                total = tally.clone();
            }
            left = Some(tally.missed);
        }
        let left = left.unwrap_or_default();
        println!("{} of {}: {} survive every stage", self.package.name(), total.all(), left.len());
        judge(&names, &total, &left)
    }

    /// All mutants there are, as cargo-mutants lists them: in the order of files and lines.
    fn list(&self) -> Result<Vec<Value>, String> {
        let output = self
            .cargo_mutants()?
            .args(["--list", "--json"])
            .output()
            .map_err(|error| format!("cargo mutants: {error}"))?;
        if !output.status.success() {
            return Err(format!("cargo mutants failed:\n{}", String::from_utf8_lossy(&output.stderr)));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("the list of mutants: {error}"))
    }

    /// Runs one stage, over those that are left or, at the first, over all that were asked for.
    fn try_all(&self, stage: &Stage, left: Option<&BTreeSet<String>>) -> Result<Tally, String> {
        let folder = self.folder(stage)?;
        let mut command = self.cargo_mutants()?;
        command.arg("--no-shuffle").arg("--jobs").arg(self.jobs.to_string()).arg("--output").arg(&folder);
        match left {
            None => {
                if let Some(shard) = &self.shard {
                    command.arg("--shard").arg(shard).args(["--sharding", "round-robin"]);
                }
                for file in &self.file {
                    command.arg("--file").arg(file);
                }
            }
            Some(left) => {
                for file in files(left) {
                    command.arg("--file").arg(file);
                }
                for name in left {
                    command.arg("--re").arg(format!("^{}$", escaped(name)));
                }
            }
        }
        command.args(stage.options).arg("--").args(stage.test);
        // Nobody debugs them, and they link sooner.
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_TEST_DEBUG", "0");
        for (name, value) in stage.env {
            command.env(name, value);
        }
        let status = command.status().map_err(|error| format!("cargo mutants: {error}"))?;
        // 2 and 3: some were missed, or did not end.
        if !matches!(status.code(), Some(0 | 2 | 3)) {
            return Err(format!("cargo mutants did not come to its end; see {}", folder.display()));
        }
        Tally::read(&folder.join("mutants.out"))
    }

    fn cargo_mutants(&self) -> Result<Command, String> {
        let mut command = Command::new(workspace::cargo());
        command.args(["mutants", "--package", self.package.name(), "--colors", "never"]);
        // Each copy of the tree has a target folder of its own.
        command.current_dir(workspace::root()?).env_remove("CARGO_TARGET_DIR");
        Ok(command)
    }

    /// Where a stage writes what came of it.
    fn folder(&self, stage: &Stage) -> Result<PathBuf, String> {
        let part = self.shard.as_ref().map(|shard| format!("-{}", shard.replace('/', "-of-")));
        let part = format!("{}{}", self.package.name(), part.unwrap_or_default());
        let folder = workspace::target_folder()?.join("mutants").join(part).join(stage.name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }
}

/// What came of one stage: the names with their lines, as cargo-mutants writes them.
#[derive(Clone, Default)]
struct Tally {
    caught: BTreeSet<String>,
    /// Tests that do not end have noticed, too.
    timeout: BTreeSet<String>,
    /// Those that do not build.
    unviable: BTreeSet<String>,
    missed: BTreeSet<String>,
}

impl Tally {
    fn read(folder: &Path) -> Result<Tally, String> {
        let read = |name: &str| {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, String>(text.lines().map(str::to_owned).collect())
        };
        Ok(Tally {
            caught: read("caught.txt")?,
            timeout: read("timeout.txt")?,
            unviable: read("unviable.txt")?,
            missed: read("missed.txt")?,
        })
    }

    /// Leaves out whatever was not asked for: cargo-mutants heeds no name where a field is left out of a literal.
    fn keep(&mut self, asked: &BTreeSet<String>) {
        for set in [&mut self.caught, &mut self.timeout, &mut self.unviable, &mut self.missed] {
            set.retain(|name| asked.contains(name));
        }
    }

    fn all(&self) -> usize {
        self.caught.len() + self.timeout.len() + self.unviable.len() + self.missed.len()
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { caught, timeout, unviable, missed } = self;
        let (caught, timeout, unviable) = (caught.len(), timeout.len(), unviable.len());
        write!(f, "{} mutants, {caught} caught, {timeout} did not end, ", self.all())?;
        write!(f, "{unviable} do not build, {} missed", missed.len())
    }
}

/// Names that outlive an edit further up: without line and column, and with a number where a file has several of
/// one name: `crates/a/src/b.rs: replace < with <= in f #2`.
fn names(list: &[Value]) -> BTreeMap<String, String> {
    let plain = |name: &str| {
        let (place, what) = name.split_once(": ").unwrap_or((name, ""));
        let file = place.split(':').next().unwrap_or_default();
        format!("{file}: {what}")
    };
    let lined = || list.iter().filter_map(|mutant| mutant["name"].as_str());
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    for name in lined() {
        *alike.entry(plain(name)).or_default() += 1;
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for name in lined() {
        let plain = plain(name);
        let nth = seen.entry(plain.clone()).or_default();
        *nth += 1;
        let own = if alike[&plain] > 1 { format!("{plain} #{nth}") } else { plain };
        names.insert(name.to_owned(), own);
    }
    names
}

/// Tells of survivors that nobody has explained, and of explanations that are not needed.
fn judge<'a>(
    names: &'a BTreeMap<String, String>,
    total: &'a Tally,
    left: &'a BTreeSet<String>,
) -> Result<(), String> {
    let explained: BTreeSet<&str> = EXPLAINED.iter().flat_map(|group| group.mutants).copied().collect();
    let own = |lined: &'a String| own_name(names, lined);
    let there: BTreeSet<&str> = names.values().map(String::as_str).collect();
    let noticed: BTreeSet<&str> = total.caught.iter().chain(&total.timeout).map(own).collect();
    for &name in &explained {
        let package = |name: &str| name.split('/').nth(1).map(str::to_owned);
        let is_asked_for = there.first().is_some_and(|first| package(first) == package(name));
        if is_asked_for && !there.contains(name) {
            println!("explained, and not there any more: {name}");
        } else if noticed.contains(name) {
            println!("explained, and noticed all the same: {name}");
        }
    }
    let unknown: Vec<_> = left.iter().filter(|lined| !explained.contains(own(lined))).collect();
    for lined in &unknown {
        println!("SURVIVES  {lined}\n          as {}", own(lined));
    }
    for group in EXPLAINED {
        let of_group = left.iter().filter(|lined| group.mutants.contains(&own(lined))).count();
        if of_group > 0 {
            println!("{of_group} explained: {}", group.why);
        }
    }
    match unknown.len() {
        0 => Ok(()),
        n => Err(format!(
            "{n} mutants survive; write a test, or explain them in xtask/src/mutants/explained.rs"
        )),
    }
}

fn own_name<'a>(names: &'a BTreeMap<String, String>, lined: &'a str) -> &'a str {
    names.get(lined).map_or(lined, String::as_str)
}

/// The files that these are in.
fn files(lined: &BTreeSet<String>) -> BTreeSet<&str> {
    lined.iter().filter_map(|name| name.split(':').next()).collect()
}

/// A regular expression for this very text.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_have_no_lines_and_are_told_apart() {
        let list = [
            json!({"name": "crates/a/src/b.rs:1:2: replace < with <= in f"}),
            json!({"name": "crates/a/src/b.rs:9:2: replace < with <= in f"}),
            json!({"name": "crates/a/src/b.rs:9:7: delete ! in <impl c::D for E>::f"}),
        ];
        let names: Vec<String> = names(&list).into_values().collect();
        assert_eq!(
            names,
            [
                "crates/a/src/b.rs: replace < with <= in f #1",
                "crates/a/src/b.rs: replace < with <= in f #2",
                "crates/a/src/b.rs: delete ! in <impl c::D for E>::f",
            ]
        );
    }

    #[test]
    fn survivors_that_nobody_has_explained_are_an_error() {
        let lined = "crates/a/src/b.rs:1:2: replace < with <= in f".to_owned();
        let names = BTreeMap::from([(lined.clone(), "crates/a/src/b.rs: replace < with <= in f".to_owned())]);
        let left = BTreeSet::from([lined]);
        assert!(judge(&names, &Tally::default(), &left).is_err());
        assert!(judge(&names, &Tally::default(), &BTreeSet::new()).is_ok());
    }

    #[test]
    fn only_those_that_were_left_are_counted_again() {
        let [left, other] =
            ["a.rs:1:2: replace < with > in f", "b.rs:1:2: delete field g"].map(str::to_owned);
        let asked = BTreeSet::from([left.clone()]);
        let mut tally = Tally { missed: BTreeSet::from([left, other]), ..Tally::default() };
        tally.keep(&asked);
        assert_eq!((tally.all(), tally.missed), (1, asked.clone()));
        assert_eq!(files(&asked), BTreeSet::from(["a.rs"]));
    }

    #[test]
    fn an_expression_is_for_one_name_only() {
        assert_eq!(escaped("replace + with -"), "replace \\+ with \\-");
        assert_eq!(escaped("a.rs:1:2: delete ! in f -> (u8)"), "a\\.rs:1:2: delete ! in f \\-> \\(u8\\)");
    }

    #[test]
    fn explanations_are_told_once_and_say_why() {
        let mut seen = BTreeSet::new();
        for group in EXPLAINED {
            assert!(group.why.ends_with('.') && !group.mutants.is_empty(), "{}", group.why);
            for name in group.mutants {
                assert!(name.starts_with("crates/") && seen.insert(name), "{name}");
            }
        }
    }
}
