//! `cargo xtask bench` and `cargo xtask instructions`: what admission costs, and whether that became more.
//!
//! Owns: building the programs of `admission-bench` and `admission-hot-paths` as they are to be measured, and where
//! things lie. Lacks all knowledge of what is measured: that is theirs.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use serde_json::{Value, json};

use crate::workspace;

/// Measure admission beside its peers, and write docs/benchmarks.md
#[derive(Args)]
pub(crate) struct Bench {
    /// A quarter of the rounds, and no more than 100,000 of anything
    #[arg(long)]
    quick: bool,
    /// Only the parts whose name contains this text, or `part/case`; the rest of the page stays
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// List the parts and measure nothing
    #[arg(long)]
    list: bool,
    /// Begin anew: forget what was measured before
    #[arg(long)]
    fresh: bool,
}

/// Count the instructions of the hot paths, compare them with those that are noted, and look for what the paths wait for
#[derive(Args)]
pub(crate) struct Instructions {
    /// Write the noted counts anew
    #[arg(long)]
    renew: bool,
}

/// The counts that are noted.
const NOTED: &str = "crates/admission-hot-paths/instructions.json";
const PROFILE: &str = "measured";

impl Bench {
    pub(crate) fn run(&self) -> Result<(), String> {
        let root = workspace::root()?;
        let folder = build(&root, "admission-bench")?;
        let program = || Command::new(folder.join("admission-bench"));
        if self.list {
            return run(program().arg("list"));
        }
        let results = folder.join("benchmarks.json");
        if self.fresh && results.exists() {
            std::fs::remove_file(&results).map_err(|error| format!("{}: {error}", results.display()))?;
        }
        let only = self.only.iter().flat_map(|text| ["--only", text.as_str()]);
        run(program().arg("measure").arg(&results).args(self.quick.then_some("--quick")).args(only))?;
        if self.only.is_none() {
            note_size(&root, &results);
        }
        run(program().arg("page").arg(&results).arg(root.join("docs")))?;
        println!("wrote docs/benchmarks.md");
        Ok(())
    }
}

impl Instructions {
    pub(crate) fn run(&self) -> Result<(), String> {
        let root = workspace::root()?;
        let folder = build(&root, "admission-hot-paths")?;
        let mut command = Command::new(folder.join("admission-hot-paths"));
        run(command.arg("watch").arg(root.join(NOTED)).args(self.renew.then_some("--renew")))
    }
}

/// Builds the programs of a member, and says where they are.
fn build(root: &Path, package: &str) -> Result<PathBuf, String> {
    let mut command = cargo(root);
    run(command.args(["build", "--quiet", "--profile", PROFILE, "--package", package, "--bins"]))?;
    Ok(workspace::target_folder()?.join(PROFILE))
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(workspace::cargo());
    command.current_dir(root);
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name} could not be run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed")) }
}

/// Notes how large the machine is, if the tool that says so is there.
fn note_size(root: &Path, results: &Path) {
    match size_of_core(root, results.with_file_name("core-size")) {
        Ok((own, all)) => {
            let kib = |bytes: u64| bytes as f64 / 1_024.0;
            let row =
                json!({ "case": "admission-core", "values": { "KiB": kib(own), "KiB in all": kib(all) } });
            if let Err(message) = add_table(results, "size", row) {
                eprintln!("the compiled size was not noted: {message}");
            }
        }
        Err(message) => eprintln!("the compiled size was not measured: {message}"),
    }
}

/// Bytes of code: the machine's own, and with what it has of others compiled in.
fn size_of_core(root: &Path, folder: PathBuf) -> Result<(u64, u64), String> {
    let mut command = cargo(root);
    command.args(["rustc", "--quiet", "--profile", PROFILE, "--package", "admission-core", "--lib"]);
    command.args(["--config", "profile.measured.lto=\"off\"", "--target-dir"]).arg(&folder);
    run(command.args(["--", "--emit=obj"]))?;
    let deps = folder.join(PROFILE).join("deps");
    let files = std::fs::read_dir(&deps).map_err(|error| error.to_string())?;
    let objects = files.flatten().map(|file| file.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("admission_core") && name.ends_with(".o")
    });
    let object = objects.max_by_key(|path| path.metadata().and_then(|about| about.modified()).ok());
    let object = object.ok_or("the compiler wrote no object")?;
    let said = Command::new("nm").args(["--print-size", "--demangle"]).arg(object).output();
    let said = said.map_err(|error| format!("nm could not be run: {error}"))?;
    let (mut own, mut all) = (0, 0);
    for (name, bytes) in functions(&String::from_utf8_lossy(&said.stdout)) {
        all += bytes;
        own += if is_own(name) { bytes } else { 0 };
    }
    if all == 0 { Err("nm named no function".to_owned()) } else { Ok((own, all)) }
}

/// Functions and their sizes, as `nm` lists them: address, size, kind, name.
fn functions(listed: &str) -> impl Iterator<Item = (&str, u64)> {
    listed.lines().filter_map(|line| {
        let mut words = line.splitn(4, ' ');
        let (_, size, kind, name) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let size = u64::from_str_radix(size, 16).ok()?;
        matches!(kind, "t" | "T" | "w" | "W").then_some((name, size))
    })
}

/// Whether a function is the machine's: of its crate, and no print-out.
fn is_own(name: &str) -> bool {
    let is_of_core = name.starts_with("admission_core::") || name.starts_with("<admission_core::");
    is_of_core && !name.contains("core::fmt::")
}

fn add_table(results: &Path, table: &str, row: Value) -> Result<(), String> {
    let text = std::fs::read_to_string(results).map_err(|error| error.to_string())?;
    let mut value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let tables = value.as_array_mut().ok_or("it has no tables")?;
    tables.retain(|other| other["table"] != table);
    tables.push(json!({ "table": table, "rows": [row] }));
    std::fs::write(results, format!("{value:#}\n")).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_from_the_list() {
        let listed = "0000000000000000 0000000000000010 T admission_core::a\n\
                      0000000000000010 00000000000000ff t <admission_core::A as core::fmt::Debug>::fmt\n\
                      0000000000000000 0000000000000008 r a constant\n\
                      0000000000000000 0000000000000020 t hashbrown::raw::reserve_rehash\n\
                                       U memcpy\n";
        let functions: Vec<_> = functions(listed).collect();
        assert_eq!(functions.len(), 3);
        assert_eq!(functions[0], ("admission_core::a", 16));
        let own: u64 = functions.iter().filter(|(name, _)| is_own(name)).map(|(_, size)| size).sum();
        assert_eq!(own, 16);
    }
}
