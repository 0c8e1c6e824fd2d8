//! How an example ends: a table, and a verdict that is its exit code.

use std::error::Error;
use std::process::ExitCode;

/// How many complaints are printed.
const SHOWN: usize = 20;

/// What did not come out as it must.
pub type Complaints = Vec<String>;

/// Complains unless it holds.
pub fn check(complaints: &mut Complaints, holds: bool, otherwise: impl FnOnce() -> String) {
    if !holds {
        complaints.push(otherwise());
    }
}

/// The exit code of an example, and why, if it is not zero.
#[must_use]
#[expect(clippy::print_stderr, reason = "a program that is run by hand talks to its terminal")]
pub fn exit(outcome: Result<Complaints, Box<dyn Error>>) -> ExitCode {
    match outcome {
        Ok(complaints) if complaints.is_empty() => ExitCode::SUCCESS,
        Ok(complaints) => {
            for complaint in complaints.iter().take(SHOWN) {
                eprintln!("not as promised: {complaint}");
            }
            if complaints.len() > SHOWN {
                eprintln!("and {} more", complaints.len() - SHOWN);
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A table: so many columns to the left, the others to the right. There is a rule above each row whose
/// first cell says something.
#[must_use]
pub fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]], to_the_left: usize) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        if number > 0 && !row[0].is_empty() {
            let rule: usize = widths.iter().sum::<usize>() + 2 * COLUMNS.saturating_sub(1);
            text += &"─".repeat(rule);
            text.push('\n');
        }
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            line += &match column < to_the_left {
                true => format!("{gap}{cell:<width$}"),
                false => format!("{gap}{cell:>width$}"),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_laid_out() {
        let row = |cells: [&str; 2]| cells.map(String::from);
        let text = table(&[row(["name", "n"]), row(["a", "10"]), row(["", "7"])], 1);
        assert_eq!(text, "name   n\n────────\na     10\n       7\n");
    }
}
