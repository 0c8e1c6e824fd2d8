//! The row that shows that `rust-version` is true: the libraries are checked by that very compiler.
//!
//! Owns: where that compiler is found, and whether it is the one. Lacks the way to get it, which is
//! `.ci/oldest-compiler`, and any test run: what the compiler takes it compiles to the same.

use std::path::Path;
use std::process::Command;

use crate::rows::Row;
use crate::step::Step;
use crate::workspace;

/// What the manifests say, this package's with them.
const VERSION: &str = env!("CARGO_PKG_RUST_VERSION");

/// The row, for the table of the matrix.
pub(crate) fn row() -> Row {
    row_by(find().as_deref())
}

fn row_by(folder: Result<&str, &String>) -> Row {
    let usr = folder.map_or_else(|_| format!("target/rust-{VERSION}/usr"), |folder| format!("{folder}/usr"));
    let step = Step::cargo("check -p admission --all-features -p admission-testing")
        .env("RUSTC", &format!("{usr}/bin/rustc"))
        .env("LD_LIBRARY_PATH", &format!("{usr}/lib/{LIBRARIES}"))
        .target_folder("rust-version");
    let shows = "the oldest compiler that the manifests allow takes every library";
    Row { skip: folder.err().cloned(), ..Row::new("rust-version", shows, [step]) }
}

/// The folder with the compiler, or what is wrong.
fn find() -> Result<String, String> {
    let folder = workspace::target_folder()?.join(format!("rust-{VERSION}"));
    let folder = folder.to_string_lossy().into_owned();
    let rustc = format!("{folder}/usr/bin/rustc");
    if !Path::new(&rustc).is_file() {
        return Err(format!("Rust {VERSION} is not in the target folder; .ci/oldest-compiler puts it there"));
    }
    let libraries = format!("{folder}/usr/lib/{LIBRARIES}");
    let asked = Command::new(&rustc).arg("-vV").env("LD_LIBRARY_PATH", libraries).output();
    let asked = asked.map_err(|error| format!("the oldest compiler could not be run: {error}"))?;
    let said = String::from_utf8_lossy(&asked.stdout);
    match is_the_one(&said) {
        true => Ok(folder),
        false => Err(format!("what is in the target folder is not Rust {VERSION}: {}", said.trim())),
    }
}

fn is_the_one(said: &str) -> bool {
    said.lines().any(|line| line.strip_prefix("release: ").is_some_and(|is| is.starts_with(VERSION)))
}

/// Where Debian puts shared libraries on this machine's kind.
const LIBRARIES: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_is_skipped_without_its_compiler_and_can_be_typed_again_with_it() {
        let why = "it is not there".to_owned();
        assert_eq!(row_by(Err(&why)).skip, Some(why));
        let row = row_by(Ok("found"));
        assert_eq!(row.skip, None);
        assert_eq!(
            row.steps[0].command_line(),
            format!(
                "RUSTC=\"found/usr/bin/rustc\" LD_LIBRARY_PATH=\"found/usr/lib/{LIBRARIES}\" cargo check \
                 --target-dir target/rust-version -p admission --all-features -p admission-testing"
            )
        );
    }

    #[test]
    fn only_the_version_of_the_manifest_will_do() {
        assert!(is_the_one(&format!("rustc\nrelease: {VERSION}.0\n")));
        assert!(!is_the_one("rustc\nrelease: 1.96.0\n"));
        assert!(!is_the_one(""));
    }

    #[test]
    fn the_build_machine_gets_it_where_the_row_looks() {
        assert!(include_str!("../../.ci/oldest-compiler").contains(&format!("/rust-{VERSION}\n")));
        assert!(include_str!("../../.ci/run").contains(".ci/oldest-compiler"));
    }
}
