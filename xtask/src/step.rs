//! One command that a chore runs: as data, as a line to be typed, and as a process.
//!
//! Owns: how it is run from the workspace's folder, by which program, with which flags, and where it builds. Lacks
//! any judgement of what it prints, which is its row's or its chore's.

use std::env;
use std::process::{Command, Output, Stdio};

use crate::workspace;

/// One command: nearly always cargo.
#[derive(Clone)]
pub(crate) struct Step {
    /// Another program than the cargo that runs this chore.
    program: Option<String>,
    /// Another of these chores: its first word says so to whoever types it, and this program runs it.
    is_chore: bool,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
    target_folder: Option<String>,
    pub(crate) runs_tests: bool,
    pub(crate) check: Option<OutputCheck>,
}

/// Judges what a step wrote to standard output.
pub(crate) type OutputCheck = fn(&str) -> Result<(), String>;

impl Step {
    /// `cargo` with these words.
    pub(crate) fn cargo(words: &str) -> Step {
        Step {
            program: None,
            is_chore: false,
            arguments: words.split_whitespace().map(str::to_owned).collect(),
            env: Vec::new(),
            target_folder: None,
            runs_tests: false,
            check: None,
        }
    }

    /// `cargo test` with these words. It fails if no test ran, since that would show nothing.
    pub(crate) fn test(words: &str) -> Step {
        Step { runs_tests: true, ..Step::cargo(&format!("test {words}")) }
    }

    /// `cargo xtask` with these words, but without cargo, which would wait for whoever builds just now.
    pub(crate) fn chore(words: &str) -> Step {
        Step { is_chore: true, ..Step::cargo(&format!("xtask {words}")) }
    }

    /// Another program with these words.
    pub(crate) fn program(program: &str, words: &str) -> Step {
        Step::cargo(words).by(program)
    }

    /// One more word, which may have spaces.
    pub(crate) fn word(mut self, word: &str) -> Step {
        self.arguments.push(word.to_owned());
        self
    }

    /// Let another program run it, such as the cargo of another compiler.
    pub(crate) fn by(self, cargo: &str) -> Step {
        Step { program: Some(cargo.to_owned()), ..self }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Step {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Build into a folder of this name inside the target folder, so that other flags do not rebuild
    /// everything in each other's way.
    pub(crate) fn target_folder(self, name: &str) -> Step {
        Step { target_folder: Some(name.to_owned()), ..self }
    }

    /// Whether it builds in another folder than most, so that neither waits for the other.
    pub(crate) fn is_apart(&self) -> bool {
        self.target_folder.is_some() || self.is_chore
    }

    /// Look at what it printed, too.
    pub(crate) fn and(self, check: OutputCheck) -> Step {
        Step { check: Some(check), ..self }
    }

    /// The command as somebody would type it.
    pub(crate) fn command_line(&self) -> String {
        let env = self.env.iter().map(|(name, value)| format!("{name}=\"{value}\" "));
        let mut words = vec![self.program.clone().unwrap_or_else(|| "cargo".to_owned())];
        let quoted = |word: &String| if word.contains(' ') { format!("\"{word}\"") } else { word.clone() };
        words.extend(self.arguments.iter().map(quoted));
        if let Some(name) = &self.target_folder {
            // After the subcommand.
            words.insert(words.len().min(2), format!("--target-dir target/{name}"));
        }
        env.collect::<String>() + &words.join(" ")
    }

    /// Runs it by itself, with what it prints on the terminal.
    pub(crate) fn run_here(&self) -> Result<(), String> {
        let failed = |why: String| format!("`{}` {why}", self.command_line());
        let status =
            self.command()?.status().map_err(|error| failed(format!("could not be run: {error}")))?;
        if status.success() { Ok(()) } else { Err(failed("failed".to_owned())) }
    }

    /// Runs it by itself, and keeps what it prints.
    pub(crate) fn output(&self) -> Result<Output, String> {
        let said = self
            .command()?
            .output()
            .map_err(|error| format!("`{}` could not be run: {error}", self.command_line()))?;
        if said.status.success() {
            return Ok(said);
        }
        let errors = String::from_utf8_lossy(&said.stderr);
        Err(format!("`{}` failed:\n{}", self.command_line(), errors.trim_end()))
    }

    pub(crate) fn command(&self) -> Result<Command, String> {
        let mut command = if self.is_chore {
            Command::new(
                env::current_exe().map_err(|error| format!("this program is not to be found: {error}"))?,
            )
        } else {
            Command::new(self.program.clone().unwrap_or_else(workspace::cargo))
        };
        command
            .args(&self.arguments[usize::from(self.is_chore)..])
            .current_dir(workspace::root()?)
            .env("CARGO_TERM_COLOR", "never")
            .stdin(Stdio::null());
        for (name, value) in &self.env {
            // Flags of the caller stay in force beside the row's own.
            let own =
                if name.ends_with("FLAGS") { env::var(name).unwrap_or_default() } else { String::new() };
            command.env(name, format!("{own} {value}").trim());
        }
        if let Some(name) = &self.target_folder {
            command.env("CARGO_TARGET_DIR", workspace::target_folder()?.join(name));
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_typed_again() {
        let step = Step::test("-p admission-core -- --nocapture")
            .env("RUSTFLAGS", "--cfg audit")
            .target_folder("audit");
        assert_eq!(
            step.command_line(),
            "RUSTFLAGS=\"--cfg audit\" cargo test --target-dir target/audit -p admission-core -- --nocapture"
        );
        assert!(step.is_apart() && !Step::test("-p admission-core").is_apart());
    }

    #[test]
    fn a_chore_is_run_by_this_program_and_typed_as_always() {
        let step = Step::chore("faults --list");
        assert_eq!(step.command_line(), "cargo xtask faults --list");
        let command = step.command().unwrap();
        assert_eq!(command.get_program(), env::current_exe().unwrap());
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["faults", "--list"]);
        assert!(step.is_apart());
    }
}
