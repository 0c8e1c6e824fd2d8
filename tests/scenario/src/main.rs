//! The history on standard output, for every machine that has std.
//!
//! Owns: nothing but the way out. Lacks options: all machines play the same.

#![forbid(unsafe_code)]

use std::fmt;
use std::io::{self, BufWriter, Write as _};

use scenario::{Plan, play};

fn main() -> io::Result<()> {
    let mut out = Stdout(BufWriter::new(io::stdout().lock()));
    play(&Plan::default(), &mut out).map_err(io::Error::other)?;
    out.0.flush()
}

struct Stdout(BufWriter<io::StdoutLock<'static>>);

impl fmt::Write for Stdout {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}
