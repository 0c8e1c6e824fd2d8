//! `cargo xtask ci`: all that a change must pass, in one command.
//!
//! First the checks that read (`check`), then the tests that run (`test-matrix`). Both run even if the
//! first fails, so that one look shows everything.

use clap::Args;

use crate::check::Check;
use crate::test_matrix::TestMatrix;

/// Run the checks, then the test matrix but its long rows.
#[derive(Args)]
pub(crate) struct Ci {}

impl Ci {
    pub(crate) fn run(&self) -> Result<(), String> {
        let checked = Check::default().run();
        if let Err(message) = &checked {
            eprintln!("{message}");
        }
        TestMatrix::default().run()?;
        checked.map_err(|_| "the checks before the matrix failed".to_owned())
    }
}
