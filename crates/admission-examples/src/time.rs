//! Time, as the examples measure it, read it from the command line, and print it.

use std::time::{Duration, Instant};

/// A monotonic clock that began when it was made. Copies are the same clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    begun: Instant,
}

impl Stopwatch {
    /// A clock that reads zero now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "what the examples measure is real time")]
    pub fn start() -> Self {
        Self { begun: Instant::now() }
    }

    /// What it reads.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// `3s`, `1.5s`, `500ms`, `1m`: a time for the command line.
///
/// # Errors
///
/// A sentence that says what is wrong with the text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err("a time like 3s, 1.5s, 500ms or 1m".into()),
    };
    let number: f64 = digits.parse().map_err(|_| "not a number")?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| "not a time".into())
}

/// `9.02 s`.
#[must_use]
pub fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// `3 s`, `1.5 s`, `0.333 s`: as few digits as do.
#[must_use]
pub fn short(duration: Duration) -> String {
    let text = format!("{:.3}", duration.as_secs_f64());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}

/// `100.4 ms`.
#[must_use]
pub fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(parse_duration("3s"), Ok(Duration::from_secs(3)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1m"), Ok(Duration::from_secs(60)));
        for bad in ["", "3", "s", "-1s", "NaNs", "2h", "1e400s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_printed() {
        let time = Duration::from_micros(1_500_400);
        assert_eq!(seconds(time), "1.50 s");
        assert_eq!(short(time), "1.5 s");
        assert_eq!(milliseconds(time), "1500.4 ms");
    }
}
