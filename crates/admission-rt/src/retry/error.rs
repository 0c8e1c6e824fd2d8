//! How a retried call fails.
//!
//! Owns: the error that says which of two things happened last, and what had happened before. Lacks
//! the errors of all earlier attempts: whoever wants those sees each in the policy's closures.

use std::error::Error;
use std::fmt;

use crate::Rejected;

/// Why a retried call gave no value. There are no other ways than these two.
///
/// Displayed as the error or refusal that ended the call, with the number of attempts if there was
/// more than one. The [`source`](Error::source) of a refusal is the error of the attempt before it,
/// if there was one.
#[derive(Clone, Debug)]
pub enum RetryError<E> {
    /// The operation failed and was not retried, or not once more.
    #[non_exhaustive]
    Operation {
        /// The last attempt's own error, as it is (rule R6).
        error: E,
        /// How often the operation was called.
        attempts: u32,
    },
    /// An attempt was not admitted, or the wait for the next one was ended by the call's signal
    /// ([`Rejected::Aborted`]).
    #[non_exhaustive]
    Rejected {
        /// Why.
        rejected: Rejected,
        /// The error of the last attempt, which was to be retried; `None` if the operation was never
        /// called (rule Q5).
        last: Option<E>,
        /// How often the operation was called.
        attempts: u32,
    },
}

impl<E> RetryError<E> {
    /// How often the operation was called.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        match self {
            Self::Operation { attempts, .. } | Self::Rejected { attempts, .. } => *attempts,
        }
    }

    /// The last attempt's own error, whether or not a refusal came after it.
    #[must_use]
    pub const fn error(&self) -> Option<&E> {
        match self {
            Self::Operation { error, .. } => Some(error),
            Self::Rejected { last, .. } => last.as_ref(),
        }
    }

    /// The same, by value.
    #[must_use]
    pub fn into_error(self) -> Option<E> {
        match self {
            Self::Operation { error, .. } => Some(error),
            Self::Rejected { last, .. } => last,
        }
    }

    /// The refusal, if that ended the call.
    #[must_use]
    pub const fn rejected(&self) -> Option<&Rejected> {
        match self {
            Self::Operation { .. } => None,
            Self::Rejected { rejected, .. } => Some(rejected),
        }
    }
}

impl<E: fmt::Display> fmt::Display for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation { error, .. } => error.fmt(f)?,
            Self::Rejected { rejected, .. } => rejected.fmt(f)?,
        }
        match (self, self.attempts()) {
            (Self::Operation { .. }, 1) | (_, 0) => Ok(()),
            (_, 1) => f.write_str(" (after 1 attempt)"),
            (_, attempts) => write!(f, " (after {attempts} attempts)"),
        }
    }
}

impl<E: Error + 'static> Error for RetryError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // Displayed as what ended the call, so the chain goes on behind that.
        match self {
            Self::Operation { error, .. } => error.source(),
            Self::Rejected { last: Some(error), .. } => Some(error),
            Self::Rejected { rejected, last: None, .. } => rejected.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    // rule Q5
    #[test]
    fn a_refusal_after_an_attempt_tells_of_both() {
        let rejected = Rejected::Overflow { held_by: None, retry_after: None };
        let last = Some(io::Error::other("503"));
        let error = RetryError::Rejected { rejected: rejected.clone(), last, attempts: 2 };
        assert_eq!(error.to_string(), "queue is full (after 2 attempts)");
        assert_eq!(error.source().unwrap().to_string(), "503");
        assert_eq!(error.error().unwrap().to_string(), "503");
        assert!(error.rejected().unwrap().is_overflow());

        let never = RetryError::<io::Error>::Rejected { rejected, last: None, attempts: 0 };
        assert_eq!(never.to_string(), "queue is full");
        assert!(never.source().is_none());
        assert!(never.into_error().is_none());
    }

    // rule R6
    #[test]
    fn the_operations_own_error_is_displayed_as_it_is() {
        let after = |attempts| RetryError::Operation { error: io::Error::other("503"), attempts };
        assert_eq!(after(1).to_string(), "503");
        assert_eq!(after(3).to_string(), "503 (after 3 attempts)");
        assert!(after(3).source().is_none());
        assert_eq!(after(3).attempts(), 3);
        assert_eq!(after(3).into_error().unwrap().to_string(), "503");
    }
}
