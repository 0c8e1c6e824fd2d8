//! `cargo xtask faults`: plants one fault after the other, and sees that the test of its rule fails.
//!
//! A test that has never failed may be one that cannot. For every rule there is a fault of one line, the sort of
//! slip that somebody could make in a change, and a test of that rule that must notice it. They are planted in
//! a copy of the tree, inside the target folder, never in the tree itself.
//!
//! Owns: the copy, the planting, and the verdict. Lacks the faults, which stand in `faults/`, and the page
//! that names them, which `cargo xtask conformance` writes.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::tidy::rules::RULES;
use crate::workspace;

mod async_layer;
mod core;
mod races;

/// Plant a fault for each rule in turn, and see the rule's test fail
#[derive(Args)]
pub(crate) struct Faults {
    /// Only the faults of this rule, or of these
    #[arg(long, value_name = "RULE")]
    rule: Vec<String>,
    /// Only those that a test of this package must notice; those of admission-core are the quickest
    #[arg(long, value_name = "PACKAGE")]
    package: Option<String>,
    /// Only those that this test program must notice: `loom` and `shuttle` are the checkers of races
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// Only every N-th fault: a sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: usize,
    /// List them and plant none
    #[arg(long)]
    list: bool,
}

/// One line that somebody could get wrong.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    /// The rule that it breaks.
    pub(crate) rule: &'static str,
    /// What is wrong then, in words.
    pub(crate) what: &'static str,
    pub(crate) file: &'static str,
    /// Stands once in that file.
    pub(crate) right: &'static str,
    pub(crate) wrong: &'static str,
    pub(crate) test: Test,
}

/// The test that must notice.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    package: &'static str,
    /// A file in the package's `tests` folder.
    target: &'static str,
    /// Its whole name.
    pub(crate) name: &'static str,
    /// What the compiler is told besides, if anything: such tests are built in a folder of their own.
    flags: &'static str,
    /// The one race that a model checker is to run, if it is one that must notice.
    pub(crate) race: &'static str,
}

/// Its package, its target, the flags that it is built with, and the race.
type Place = (&'static str, &'static str, &'static str, &'static str);

impl Test {
    /// Its name, and the race if it is one of several that the test runs.
    pub(crate) fn told(self) -> String {
        let Self { name, target, race, .. } = self;
        if race.is_empty() { name.to_owned() } else { format!("{name} ({target}: {race})") }
    }

    const fn place(self) -> Place {
        (self.package, self.target, self.flags, self.race)
    }
}

/// A test of the core's, in `crates/admission-core/tests`.
const fn in_core(target: &'static str, name: &'static str) -> Test {
    Test { package: "admission-core", target, name, flags: "", race: "" }
}

/// A test of the core's that counts steps.
const fn in_steps(name: &'static str) -> Test {
    Test { package: "admission-core", target: "flat", name, flags: "--cfg steps", race: "" }
}

/// A test of the async layer's, in `crates/admission-rt/tests`.
const fn in_rt(target: &'static str, name: &'static str) -> Test {
    Test { package: "admission-rt", target, name, flags: "", race: "" }
}

/// A body of the conformance suite, on the virtual clock.
const fn in_suite(name: &'static str) -> Test {
    Test { package: "conformance", target: "virtual_clock", name, flags: "", race: "" }
}

/// A race of the async layer's, every order of whose steps loom tries.
const fn in_loom(race: &'static str) -> Test {
    let name = "every_order_of_steps_keeps_the_rules";
    Test { package: "admission-rt", target: "loom", name, flags: "--cfg admission_loom", race }
}

/// The same race, of which shuttle draws many orders.
const fn in_shuttle(race: &'static str) -> Test {
    let name = "random_orders_of_steps_keep_the_rules";
    Test { package: "admission-rt", target: "shuttle", name, flags: "--cfg admission_shuttle", race }
}

/// Every fault, in the order of the rules.
pub(crate) fn all() -> Vec<Fault> {
    let mut all: Vec<Fault> =
        core::FAULTS.iter().chain(async_layer::FAULTS).chain(races::FAULTS).copied().collect();
    all.sort_by_key(place_of);
    all
}

/// Where its rule stands among the rules.
fn place_of(fault: &Fault) -> Option<usize> {
    RULES.iter().position(|rule| rule.id == fault.rule)
}

/// How long a test may take to notice. One that hangs has noticed, too.
const PATIENCE: Duration = Duration::from_secs(60);

impl Faults {
    pub(crate) fn run(&self) -> Result<(), String> {
        let faults = self.chosen();
        if faults.is_empty() {
            return Err("there is no such fault; --list names all of them".to_owned());
        }
        if self.list {
            for fault in &faults {
                let Fault { rule, what, file, test, .. } = fault;
                println!("{rule:<4} {what} ({file}): {}", test.told());
            }
            return Ok(());
        }
        let copy = Copy::make()?;
        copy.see_all_pass(&faults)?;
        let mut missed = 0;
        for (at, fault) in faults.iter().enumerate() {
            let verdict = copy.plant(fault)?;
            let word = match &verdict {
                Verdict::Noticed => "noticed",
                Verdict::Hung => "noticed: it hung",
                Verdict::Missed => "MISSED",
                Verdict::NotBuilt(said) => {
                    println!("{said}");
                    "DID NOT BUILD"
                }
            };
            println!("[{:>3}/{}] {:<4} {}: {word}", at + 1, faults.len(), fault.rule, fault.what);
            missed += usize::from(matches!(verdict, Verdict::Missed | Verdict::NotBuilt(_)));
        }
        println!("{} faults planted, {} noticed", faults.len(), faults.len() - missed);
        if missed > 0 { Err(format!("{missed} faults were not noticed")) } else { Ok(()) }
    }
}

impl Faults {
    /// Those that were asked for.
    fn chosen(&self) -> Vec<Fault> {
        let is_asked_for = |fault: &Fault| {
            (self.rule.is_empty() || self.rule.iter().any(|rule| rule == fault.rule))
                && self.package.as_ref().is_none_or(|package| fault.test.package == package)
                && self.test.as_ref().is_none_or(|test| fault.test.target == test)
        };
        all().into_iter().filter(is_asked_for).step_by(self.every.max(1)).collect()
    }
}

enum Verdict {
    Noticed,
    /// It did not end in time.
    Hung,
    Missed,
    NotBuilt(String),
}

/// A copy of the tree.
struct Copy {
    tree: PathBuf,
    build: PathBuf,
}

impl Copy {
    /// Files that have not changed stay as they are, so that little is built anew; those that are no more go.
    fn make() -> Result<Copy, String> {
        let folder = workspace::target_folder()?.join("faults");
        let tree = folder.join("tree");
        let files = workspace::files(&workspace::root()?)?;
        for file in &files {
            write(&tree.join(&file.path), &file.text)?;
        }
        for file in workspace::files(&tree)? {
            if files.iter().all(|own| own.path != file.path) {
                let path = tree.join(&file.path);
                fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        Ok(Copy { tree, build: folder.join("build") })
    }

    /// Every test passes as long as nothing is planted: otherwise its failure shows nothing.
    fn see_all_pass(&self, faults: &[Fault]) -> Result<(), String> {
        let mut targets: Vec<_> = faults.iter().map(|fault| fault.test.place()).collect();
        targets.sort_unstable();
        targets.dedup();
        for place in targets {
            let (package, target, _, race) = place;
            println!("without any fault: {package}, {target} {race}");
            let tests = faults.iter().map(|fault| fault.test).filter(|test| test.place() == place);
            let mut names: Vec<_> = tests.map(|test| test.name).collect();
            names.sort_unstable();
            names.dedup();
            let (status, said) = self.test(place, &names, PATIENCE * 10)?;
            let passed =
                said.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ... ok")).count();
            if status != Some(true) || passed != names.len() {
                return Err(format!("of {} tests {passed} passed without a fault:\n{said}", names.len()));
            }
        }
        Ok(())
    }

    fn plant(&self, fault: &Fault) -> Result<Verdict, String> {
        let path = self.tree.join(fault.file);
        let right = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if right.matches(fault.right).count() != 1 {
            return Err(format!(
                "{}: what is to be wrong stands there not once: {}",
                fault.file, fault.right
            ));
        }
        write(&path, &right.replace(fault.right, fault.wrong))?;
        let outcome = self.test(fault.test.place(), &[fault.test.name], PATIENCE);
        write(&path, &right)?;
        let (status, said) = outcome?;
        Ok(match status {
            None => Verdict::Hung,
            Some(true) => Verdict::Missed,
            Some(false) if said.contains("could not compile") => Verdict::NotBuilt(said),
            Some(false) => Verdict::Noticed,
        })
    }

    /// Builds a target, then runs these tests of it; whether they passed, or nothing if they did not end.
    fn test(
        &self,
        (package, target, flags, race): Place,
        names: &[&str],
        patience: Duration,
    ) -> Result<(Option<bool>, String), String> {
        let build = if flags.is_empty() { "plain" } else { flags.trim_start_matches("--cfg ") };
        // A fault may leave something unused.
        let flags = format!("--cap-lints=allow {flags}");
        let cargo = |more: &[&str]| {
            let mut command = Command::new(workspace::cargo());
            command.args(["test", "--package", package, "--test", target]).args(more);
            command
                .current_dir(&self.tree)
                .env("CARGO_TARGET_DIR", self.build.join(build))
                .env("CARGO_TERM_COLOR", "never")
                // Nobody debugs them, and they link sooner.
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                // Each differs from the last by a line.
                .env("CARGO_INCREMENTAL", "1")
                .env("RACE", race)
                .env("RUSTFLAGS", &flags);
            command
        };
        let built = cargo(&["--quiet", "--no-run"]).output();
        let built = built.map_err(|error| format!("cargo could not be run: {error}"))?;
        if !built.status.success() {
            return Ok((
                Some(false),
                format!("could not compile\n{}", String::from_utf8_lossy(&built.stderr)),
            ));
        }
        let mut command = cargo(&["--", "--exact", "--format=pretty", "--color=never"]);
        command.args(names);
        let output = self.build.join("said.log");
        let file = fs::File::create(&output).map_err(|error| format!("{}: {error}", output.display()))?;
        let twin = file.try_clone().map_err(|error| error.to_string())?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(twin)
            .spawn()
            .map_err(|error| format!("cargo could not be run: {error}"))?;
        let began = now();
        let status = loop {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break Some(status.success()),
                None if began.elapsed() > patience => {
                    end(child.id());
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
                None => thread::sleep(Duration::from_millis(50)),
            }
        };
        let mut said = String::new();
        let _ = fs::File::open(&output).and_then(|mut file| file.read_to_string(&mut said));
        Ok((status, said))
    }
}

/// Ends what cargo has started: the test program itself, which would go on without it.
fn end(cargo: u32) {
    let _ = Command::new("pkill").args(["-KILL", "-P", &cargo.to_string()]).status();
}

/// Writes a file unless it says that already.
fn write(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder.and_then(|()| fs::write(path, text)).map_err(|error| format!("{}: {error}", path.display()))
}

#[expect(clippy::disallowed_methods, reason = "a test that hangs is not waited for for ever")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(rules: &[&str], package: Option<&str>, every: usize) -> Vec<Fault> {
        let rule = rules.iter().map(|&rule| rule.to_owned()).collect();
        Faults { rule, package: package.map(str::to_owned), test: None, every, list: false }.chosen()
    }

    #[test]
    fn faults_stand_in_the_order_of_the_rules() {
        let places: Vec<_> = all().iter().map(place_of).collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some));
    }

    #[test]
    fn a_fault_changes_what_it_names_and_differs_from_every_other() {
        let faults = all();
        for (at, fault) in faults.iter().enumerate() {
            assert!(fault.right != fault.wrong && !fault.right.is_empty(), "{}", fault.what);
            assert!(!fault.what.ends_with('.'), "it reads on: {}", fault.what);
            let is_twin = |other: &Fault| (other.file, other.wrong) == (fault.file, fault.wrong);
            let twins = faults[..at].iter().filter(|other| other.right == fault.right);
            assert!(!twins.into_iter().any(is_twin), "{}", fault.what);
        }
    }

    #[test]
    fn faults_are_chosen_by_rule_and_package_or_as_a_sample() {
        assert_eq!(chosen(&[], None, 1).len(), all().len());
        assert_eq!(chosen(&[], None, 0).len(), all().len());
        let of_two = chosen(&["E4", "S5"], None, 1);
        assert!(of_two.iter().all(|fault| ["E4", "S5"].contains(&fault.rule)) && of_two.len() > 2);
        assert!(chosen(&["Z1"], None, 1).is_empty());
        let of_core = chosen(&[], Some("admission-core"), 1);
        assert!(of_core.iter().all(|fault| fault.file.starts_with("crates/admission-core/")));
        assert_eq!(chosen(&[], Some("admission-core"), 6).len(), of_core.len().div_ceil(6));
    }

    #[test]
    fn a_file_that_says_so_already_is_left_alone() {
        let path = std::env::temp_dir().join(format!("admission-faults-{}/a/b.rs", std::process::id()));
        write(&path, "one").unwrap();
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        write(&path, "one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), written);
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        fs::remove_dir_all(path.parent().unwrap().parent().unwrap()).unwrap();
    }
}
