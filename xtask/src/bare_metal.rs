//! Rows for the core where there is no operating system.
//!
//! Owns two kinds of proof. One builds the core for machines that have no std to offer, with core and alloc
//! built from their sources: this takes a compiler that has those sources, Debian's `rustc-web`, since the
//! pinned toolchain brings its own machine's libraries alone. The other needs no second compiler: it
//! links and runs a program without std on this machine (`tests/no-std`).
//!
//! Lacks any way to fail for want of a tool: a row that cannot run is skipped, and says what would help.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::rows::Row;
use crate::step::Step;

/// The rows, for the table of the matrix.
pub(crate) fn rows() -> Vec<Row> {
    let compiler = SecondCompiler::find();
    vec![linked_without_std(), built(&compiler), checked(&compiler)]
}

/// Down to machine code for one of them: most of the time goes to core and alloc, which each machine wants
/// for itself.
fn built(compiler: &Result<SecondCompiler, String>) -> Row {
    row(compiler, "core thumbv7em-none-eabihf", "the core builds for a Cortex-M4, without std", |compiler| {
        compiler.step("build", "--target thumbv7em-none-eabihf")
    })
    // The Cortex-M4 that plays the history has it built for it as well.
    .long()
}

/// What a machine lacks is lacking in its core, and found by the check alone. So core and alloc are made
/// without machine code here, and for all machines at once.
fn checked(compiler: &Result<SecondCompiler, String>) -> Row {
    let shows = "a Cortex-M0, which has no compare-and-swap (nothing below the core needs one), a small RISC-V, \
                 and WebAssembly will do, too";
    row(compiler, "core other machines", shows, |compiler| {
        let machines = "--target thumbv6m-none-eabi --target riscv32imac-unknown-none-elf \
                        --target wasm32-unknown-unknown";
        compiler.step("check", machines).env("RUSTFLAGS", "-Zno-codegen")
    })
    .long()
}

fn row(
    compiler: &Result<SecondCompiler, String>,
    name: &str,
    shows: &str,
    step: impl FnOnce(&SecondCompiler) -> Step,
) -> Row {
    let none = SecondCompiler { rustc: "rustc".to_owned(), cargo: "cargo".to_owned() };
    let row = Row::new(name, shows, [step(compiler.as_ref().unwrap_or(&none))]);
    Row { skip: compiler.as_ref().err().cloned(), ..row }
}

/// A compiler that can build core and alloc from their sources.
pub(crate) struct SecondCompiler {
    pub(crate) rustc: String,
    pub(crate) cargo: String,
}

impl SecondCompiler {
    fn step(&self, how: &str, machines: &str) -> Step {
        Step::cargo(&format!("{how} -p admission-core -Zbuild-std=core,alloc {machines}"))
            .by(&self.cargo)
            .env("RUSTC", &self.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            // Nobody debugs what is thrown away.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .target_folder("bare-metal")
    }

    /// What makes its documentation, and runs the examples in it: it comes in one package with the compiler.
    pub(crate) fn rustdoc(&self) -> String {
        self.rustc.replace("bin/rustc", "bin/rustdoc")
    }

    /// Asks the package manager where Debian's compiler is, so that the one of rustup, which has the
    /// same name and may come first in the path, is not taken for it.
    pub(crate) fn find() -> Result<SecondCompiler, String> {
        let mut lists = Vec::new();
        let mut lacks = Vec::new();
        for package in PACKAGES {
            match files_of(package) {
                Some(files) => lists.push(files),
                None => lacks.push(*package),
            }
        }
        if !lacks.is_empty() {
            return Err(format!("{} not installed; {}", lacks.join(", "), how_to_get(&lacks)));
        }
        let program = |name: &str| {
            let files = lists.iter().flat_map(|files| files.lines());
            let mut programs = files.filter(|file| file.ends_with(&format!("bin/{name}")));
            let found = programs.find(|file| Path::new(file).is_file());
            found.map(str::to_owned).ok_or_else(|| format!("Debian's {name} is not where its package says"))
        };
        Ok(SecondCompiler { rustc: program("rustc")?, cargo: program("cargo")? })
    }
}

fn how_to_get(packages: &[&str]) -> String {
    format!("apt-get install --no-install-recommends {}", packages.join(" "))
}

/// What an installed package of Debian's has put where; nothing if it is not installed, or nobody can say.
pub(crate) fn files_of(package: &str) -> Option<String> {
    let output = Command::new("dpkg").args(["-L", package]).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The compiler, its cargo, the sources of core and alloc, and what links the build scripts of those.
const PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm", "lld-22"];

/// The program without std: it links, runs, and has no symbol of std. It is no member of the workspace, so
/// the row looks at its formatting and its lints as well.
fn linked_without_std() -> Row {
    let cargo = |words: &str| Step::cargo(words).target_folder("no-std");
    let manifest = "--locked --manifest-path tests/no-std/Cargo.toml";
    Row::new(
        "core no_std proof",
        "a program without std links around the core, runs, and has no symbol of std",
        [
            cargo(&format!("run {manifest}")),
            cargo(&format!("build {manifest} --message-format json")).and(has_no_symbol_of_std),
            cargo(&format!("run --release {manifest}")),
            cargo(&format!("build --release {manifest} --message-format json")).and(has_no_symbol_of_std),
            Step::cargo("fmt --manifest-path tests/no-std/Cargo.toml --check"),
            cargo(&format!("clippy {manifest} -- -D warnings")),
        ],
    )
    .quick()
}

/// Finds the program in what cargo said about its build, and looks at its symbols. Without `nm` there is
/// nothing to look with; that it links has shown the same.
fn has_no_symbol_of_std(said: &str) -> Result<(), String> {
    let program = executable(said).ok_or("cargo did not say where it put the program")?;
    let nm = match Command::new("nm").arg(&program).output() {
        Ok(nm) if nm.status.success() => nm,
        _ => return Ok(()),
    };
    judge_symbols(&String::from_utf8_lossy(&nm.stdout))
}

fn executable(said: &str) -> Option<String> {
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| Some(message["executable"].as_str()?.to_owned())).next_back()
}

/// In a mangled name a crate stands with the length of its name before it, in the old manner and in the
/// new.
fn judge_symbols(symbols: &str) -> Result<(), String> {
    let names = || symbols.lines().filter_map(|line| line.split_whitespace().last());
    if let Some(name) = names().find(|name| name.starts_with("_ZN3std") || name.contains("_3std")) {
        return Err(format!("the program has a symbol of std: {name}"));
    }
    if !names().any(|name| name.contains("14admission_core")) {
        return Err("the program has no symbol of the core, so nothing was shown".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_its_compiler_is_skipped_and_says_what_helps() {
        let lacks = Err("rustc-web not installed; apt-get install rustc-web".to_owned());
        for row in [built(&lacks), checked(&lacks)] {
            assert_eq!(row.skip.as_deref(), Some("rustc-web not installed; apt-get install rustc-web"));
        }
        assert_eq!(how_to_get(&["a", "b"]), "apt-get install --no-install-recommends a b");
    }

    #[test]
    fn a_row_with_its_compiler_can_be_typed_again() {
        let found = SecondCompiler { rustc: "bin/rustc".to_owned(), cargo: "bin/cargo".to_owned() };
        let row = built(&Ok(found));
        assert_eq!(row.skip, None);
        assert_eq!(
            row.steps[0].command_line(),
            "RUSTC=\"bin/rustc\" RUSTC_BOOTSTRAP=\"1\" CARGO_PROFILE_DEV_DEBUG=\"0\" bin/cargo build \
             --target-dir target/bare-metal -p admission-core -Zbuild-std=core,alloc \
             --target thumbv7em-none-eabihf"
        );
    }

    #[test]
    fn the_build_machine_installs_what_the_rows_want() {
        let script = include_str!("../../.ci/run");
        assert!(PACKAGES.iter().all(|package| script.contains(package)));
    }

    #[test]
    fn a_symbol_of_std_is_told() {
        let core = "0000 t _RNvMNtCs9_14admission_core11coordinator3new\n";
        assert_eq!(judge_symbols(core), Ok(()));
        assert!(judge_symbols("0000 T main\n").is_err());
        for name in
            ["_ZN3std9panicking20rust_panic_with_hook17h1E", "_RNvNtCslk3_3std9panicking10panic_count"]
        {
            let message = judge_symbols(&format!("{core}0000 t {name}\n")).err().unwrap();
            assert_eq!(message, format!("the program has a symbol of std: {name}"));
        }
    }

    #[test]
    fn the_program_is_where_cargo_says() {
        let said = "{\"executable\":null}\nnoise\n{\"executable\":\"out/no-std\"}\n{\"success\":true}\n";
        assert_eq!(executable(said).as_deref(), Some("out/no-std"));
        assert_eq!(executable("noise"), None);
    }
}
