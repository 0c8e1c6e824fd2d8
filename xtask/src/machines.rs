//! `cargo xtask machines`: one history of the core on several machines, compared byte for byte.
//!
//! Owns: which machines there are, how the program is built and run on each, and the comparison with what this
//! machine says. The history is `tests/scenario`; the programs of machines without std are `tests/machines`.
//!
//! Lacks any way to fail for want of a tool: a machine that cannot be had is skipped, and says what would
//! help. What gets the tools is `.ci/other-machines`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use clap::Args;

use crate::bare_metal::{SecondCompiler, files_of};
use crate::rows::Row;
use crate::step::Step;
use crate::workspace;

/// Play one history on every machine that can be had, and compare what they say byte for byte.
#[derive(Args, Default)]
pub(crate) struct Machines {
    /// Only the machines whose name contains this text, besides this one
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Build without optimising: sooner there, and sizes say nothing
    #[arg(long)]
    quick: bool,
}

/// Where the history is played, besides here.
struct Machine {
    name: &'static str,
    about: &'static str,
    /// Why it cannot be had.
    lacks: Option<String>,
    build: Step,
    run: Step,
    /// Programs that only tell how large they are.
    sizes: Vec<Step>,
}

/// Whether to optimise, and where things are.
struct Shop {
    is_quick: bool,
    target: PathBuf,
    compiler: Result<SecondCompiler, String>,
}

/// The rows of the test matrix: the machines that are there sooner than others.
pub(crate) fn rows() -> Vec<Row> {
    let Ok(shop) = Shop::open(true) else { return Vec::new() };
    vec![row(cortex_m4(&shop)), row(wasm(&shop)).long()]
}

fn row(machine: Machine) -> Row {
    let step = Step::chore(&format!("machines --quick --only {}", machine.name));
    let shows = format!("{} decides like this machine, byte for byte", machine.about);
    // No members, so nobody else looks at their formatting.
    let format = Step::cargo("fmt --manifest-path tests/machines/Cargo.toml --all --check");
    Row { skip: machine.lacks, ..Row::new(&format!("machine {}", machine.name), &shows, [step, format]) }
}

impl Machines {
    pub(crate) fn run(&self) -> Result<(), String> {
        let shop = Shop::open(self.quick)?;
        let mut machines = vec![cortex_m4(&shop), wasm(&shop), s390x(&shop), i686(&shop)];
        if let Some(text) = &self.only {
            let names: Vec<_> = machines.iter().map(|machine| machine.name).collect();
            machines.retain(|machine| machine.name.contains(text.as_str()));
            if machines.is_empty() {
                return Err(format!(
                    "no machine has \"{text}\" in its name; there are: {}",
                    names.join(", ")
                ));
            }
        }
        let here = host(&shop)?;
        println!("{:<10} {}", "host", told_by(&here.stdout));
        let (mut same, mut differ, mut skipped) = (1, 0, 0);
        for machine in machines {
            if let Some(why) = &machine.lacks {
                println!("{:<10} skipped: {why}", machine.name);
                skipped += 1;
                continue;
            }
            machine.build.output()?;
            let there = machine.run.output()?;
            match first_difference(&here.stdout, &there.stdout) {
                None => {
                    println!(
                        "{:<10} the same {} bytes ({})",
                        machine.name,
                        there.stdout.len(),
                        machine.about
                    );
                    same += 1;
                }
                Some(difference) => {
                    println!("{:<10} DIFFERS: {difference}", machine.name);
                    differ += 1;
                }
            }
            print_notes(&there);
            if !self.quick {
                for program in &machine.sizes {
                    let said = program.output()?;
                    println!("{:<10}   {}", "", String::from_utf8_lossy(&said.stdout).trim());
                    print_notes(&said);
                }
            }
        }
        println!("{same} the same, {differ} differ, {skipped} skipped");
        if differ > 0 { Err("not all machines decide alike".to_owned()) } else { Ok(()) }
    }
}

/// What a program said of itself: sizes, and memory.
fn print_notes(said: &Output) {
    for note in String::from_utf8_lossy(&said.stderr).lines() {
        println!("{:<10}   {note}", "");
    }
}

/// The last line of the history: digest, length, number of decisions.
fn told_by(text: &[u8]) -> String {
    String::from_utf8_lossy(text).lines().last().unwrap_or("nothing").to_owned()
}

/// The first line in which two texts differ, if they do.
fn first_difference(here: &[u8], there: &[u8]) -> Option<String> {
    if here == there {
        return None;
    }
    let [here, there] = [here, there].map(|text| String::from_utf8_lossy(text).into_owned());
    let (mut mine, mut theirs) = (here.split('\n'), there.split('\n'));
    for number in 1.. {
        match (mine.next(), theirs.next()) {
            (None, None) => break,
            (mine, theirs) if mine == theirs => {}
            (mine, theirs) => {
                let [mine, theirs] = [mine, theirs].map(|line| line.unwrap_or("(nothing more)"));
                return Some(format!("in line {number}\n    here:  {mine}\n    there: {theirs}"));
            }
        }
    }
    Some("in bytes that are no text".to_owned())
}

/// This machine: what the others are compared with.
fn host(shop: &Shop) -> Result<Output, String> {
    Step::cargo("build --quiet --release --package scenario").output()?;
    let output = Step::program(&path(&workspace::target_folder()?.join("release/scenario")), "").output()?;
    if output.stdout.is_empty() {
        return Err(format!("this machine says nothing ({})", shop.target.display()));
    }
    Ok(output)
}

/// No operating system, no atomic 64-bit words, QEMU speaks for it through semihosting.
fn cortex_m4(shop: &Shop) -> Machine {
    let triple = "thumbv7em-none-eabihf";
    let qemu = shop.tool("qemu-system-arm");
    let run = |program: &str| {
        let words = "-cpu cortex-m4 -machine mps2-an386 -nographic -semihosting-config enable=on,target=native \
                     -kernel";
        let libraries = ["usr/lib", "lib"].map(|folder| path(&shop.tools().join(folder).join(LIBRARIES)));
        Step::program(&path(&qemu), words)
            .word(&shop.program(triple, program))
            .env("LD_LIBRARY_PATH", &libraries.join(":"))
    };
    Machine {
        name: "cortex-m4",
        about: "32 bits without an operating system, in QEMU",
        lacks: shop.lacks().or_else(|| lacks_file(&qemu, ".ci/other-machines")),
        build: shop.build(triple, "core,alloc", BARE, "cortex-m4"),
        run: run("cortex-m4"),
        sizes: vec![run("core"), run("empty")],
    }
}

fn wasm(shop: &Shop) -> Machine {
    let triple = "wasm32-unknown-unknown";
    let has_node = Command::new("node").arg("--version").stdout(Stdio::null()).status().is_ok();
    Machine {
        name: "wasm",
        about: "WebAssembly, in node",
        lacks: shop.lacks().or_else(|| (!has_node).then(|| "node is not installed".to_owned())),
        build: shop.build(triple, "core,alloc", BARE, "wasm"),
        run: Step::program("node", "tests/machines/wasm/run.mjs").word(&shop.program(triple, "wasm.wasm")),
        sizes: Vec::new(),
    }
}

/// Big-endian: the first byte of a number is the largest.
fn s390x(shop: &Shop) -> Machine {
    let triple = "s390x-unknown-linux-gnu";
    let qemu = shop.tool("qemu-s390x-static");
    Machine {
        name: "s390x",
        about: "big-endian, in QEMU",
        lacks: shop
            .lacks()
            .or_else(|| lacks_file(&qemu, ".ci/other-machines all"))
            .or_else(|| lacks_package("gcc-s390x-linux-gnu")),
        build: shop
            .build(triple, "std,panic_abort", "", "scenario")
            .env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER", "s390x-linux-gnu-gcc"),
        run: Step::program(&path(&qemu), "-L /usr/s390x-linux-gnu").word(&shop.program(triple, "scenario")),
        sizes: Vec::new(),
    }
}

fn i686(shop: &Shop) -> Machine {
    let triple = "i686-unknown-linux-gnu";
    // Its own loader, so that nothing of it is installed where this machine would look.
    let loader = "/usr/i686-linux-gnu/lib/ld-linux.so.2";
    let is_kin = cfg!(target_arch = "x86_64");
    Machine {
        name: "i686",
        about: "32 bits with an operating system",
        lacks: shop
            .lacks()
            .or_else(|| (!is_kin).then(|| "this processor does not run its programs".to_owned()))
            .or_else(|| lacks_package("gcc-i686-linux-gnu")),
        build: shop
            .build(triple, "std,panic_abort", "", "scenario")
            .env("CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER", "i686-linux-gnu-gcc"),
        run: Step::program(loader, "--library-path /usr/i686-linux-gnu/lib")
            .word(&shop.program(triple, "scenario")),
        sizes: Vec::new(),
    }
}

/// The programs without std are a workspace of their own.
const BARE: &str = "--locked --manifest-path tests/machines/Cargo.toml";

/// Where Debian puts shared libraries on this machine's kind.
const LIBRARIES: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };

fn lacks_file(file: &Path, gets_it: &str) -> Option<String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    (!file.is_file()).then(|| format!("{name} is not in the target folder; {gets_it} puts it there"))
}

fn lacks_package(package: &str) -> Option<String> {
    files_of(package).is_none().then(|| format!("{package} is not installed; .ci/other-machines all does"))
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl Shop {
    fn open(is_quick: bool) -> Result<Shop, String> {
        let target = workspace::target_folder()?;
        Ok(Shop { is_quick, target, compiler: SecondCompiler::find() })
    }

    fn lacks(&self) -> Option<String> {
        self.compiler.as_ref().err().cloned()
    }

    fn tools(&self) -> PathBuf {
        self.target.join("other-machines")
    }

    fn tool(&self, name: &str) -> PathBuf {
        self.tools().join("usr/bin").join(name)
    }

    fn build(&self, triple: &str, std: &str, manifest: &str, package: &str) -> Step {
        let Ok(compiler) = &self.compiler else { return Step::cargo("") };
        let profile = if self.is_quick { "dev" } else { "release" };
        let words = format!(
            "build --quiet {manifest} --package {package} --profile {profile} -Zbuild-std={std} --target {triple}"
        );
        Step::program(&compiler.cargo, &words)
            .env("RUSTC", &compiler.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_DIR", &path(&self.target.join("machines")))
    }

    fn program(&self, triple: &str, name: &str) -> String {
        let profile = if self.is_quick { "debug" } else { "release" };
        path(&self.target.join("machines").join(triple).join(profile).join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop(compiler: Result<SecondCompiler, String>) -> Shop {
        Shop { is_quick: true, target: PathBuf::from("nowhere"), compiler }
    }

    fn compiler() -> SecondCompiler {
        SecondCompiler { rustc: "bin/rustc".to_owned(), cargo: "bin/cargo".to_owned() }
    }

    #[test]
    fn a_machine_that_cannot_be_had_is_skipped_and_says_what_helps() {
        let why = "no compiler".to_owned();
        for machine in [cortex_m4, wasm, s390x, i686] {
            assert_eq!(row(machine(&shop(Err(why.clone())))).skip, Some(why.clone()));
        }
        assert_eq!(
            cortex_m4(&shop(Ok(compiler()))).lacks.as_deref(),
            Some("qemu-system-arm is not in the target folder; .ci/other-machines puts it there")
        );
    }

    #[test]
    fn a_build_can_be_typed_again() {
        assert_eq!(
            wasm(&shop(Ok(compiler()))).build.command_line(),
            "RUSTC=\"bin/rustc\" RUSTC_BOOTSTRAP=\"1\" CARGO_TARGET_DIR=\"nowhere/machines\" bin/cargo build --quiet \
             --locked --manifest-path tests/machines/Cargo.toml --package wasm --profile dev -Zbuild-std=core,alloc \
             --target wasm32-unknown-unknown"
        );
    }

    #[test]
    fn the_first_line_that_differs_is_told() {
        assert_eq!(first_difference(b"a\nb\n", b"a\nb\n"), None);
        let said = first_difference(b"a\nb\n", b"a\nc\n");
        assert_eq!(said.as_deref(), Some("in line 2\n    here:  b\n    there: c"));
        let said = first_difference(b"a\nb\n", b"a\n");
        assert_eq!(said.as_deref(), Some("in line 2\n    here:  b\n    there: "));
        let said = first_difference(b"a\nb", b"a");
        assert_eq!(said.as_deref(), Some("in line 2\n    here:  b\n    there: (nothing more)"));
    }

    #[test]
    fn the_build_machine_gets_what_the_rows_want() {
        assert!(include_str!("../../.ci/run").contains(".ci/other-machines"));
        let script = include_str!("../../.ci/other-machines");
        for name in ["/other-machines\n", "qemu-system-arm", "qemu-s390x-static", "gcc-i686-linux-gnu"] {
            assert!(script.contains(name), "{name}");
        }
    }
}
