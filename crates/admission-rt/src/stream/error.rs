//! How an item of a stream fails.
//!
//! Owns: the error that stands in the place of an item's value. Lacks the end of the stream, which an
//! error is only in the `try_` form.

use std::any::Any;
use std::error::Error;
use std::fmt;

use crate::{Rejected, RetryError};

/// Why an item of a [`map_admitted`](super::AdmissionStreamExt::map_admitted) has no value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ItemError<E> {
    /// Its operation failed, or it was not admitted; after all its retries.
    Call(RetryError<E>),
    /// Its operation panicked. Told by spawned items only: where the stream drives the operations, a
    /// panic passes through whoever polls the stream.
    #[non_exhaustive]
    Panicked {
        /// What the panic said, if it was text.
        message: Option<Box<str>>,
        /// How often the operation was called.
        attempts: u32,
    },
    /// Its task was dropped before it was finished: the runtime that it was spawned on has ended, or
    /// there was none.
    Lost,
}

impl<E> ItemError<E> {
    /// How often the operation was called, as far as that is known.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        match self {
            Self::Call(error) => error.attempts(),
            Self::Panicked { attempts, .. } => *attempts,
            Self::Lost => 0,
        }
    }

    /// The last attempt's own error, whether or not a refusal came after it.
    #[must_use]
    pub const fn error(&self) -> Option<&E> {
        match self {
            Self::Call(error) => error.error(),
            Self::Panicked { .. } | Self::Lost => None,
        }
    }

    /// The same, by value.
    #[must_use]
    pub fn into_error(self) -> Option<E> {
        match self {
            Self::Call(error) => error.into_error(),
            Self::Panicked { .. } | Self::Lost => None,
        }
    }

    /// The refusal, if that ended the item.
    #[must_use]
    pub const fn rejected(&self) -> Option<&Rejected> {
        match self {
            Self::Call(error) => error.rejected(),
            Self::Panicked { .. } | Self::Lost => None,
        }
    }

    /// A panic, from what it left.
    pub(super) fn panicked(panic: &(dyn Any + Send), attempts: u32) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Panicked { message: text.map(Into::into), attempts }
    }
}

impl<E> From<RetryError<E>> for ItemError<E> {
    fn from(error: RetryError<E>) -> Self {
        Self::Call(error)
    }
}

impl<E: fmt::Display> fmt::Display for ItemError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Panicked { message: Some(message), .. } => write!(f, "the operation panicked: {message}"),
            Self::Panicked { message: None, .. } => f.write_str("the operation panicked"),
            Self::Lost => f.write_str("its task was dropped with its runtime"),
        }
    }
}

impl<E: Error + 'static> Error for ItemError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Displayed as that error, so the chain goes on behind it.
            Self::Call(error) => error.source(),
            Self::Panicked { .. } | Self::Lost => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn an_item_error_reads_like_its_cause() {
        let refused =
            RetryError::<io::Error>::Rejected { rejected: Rejected::Closed, last: None, attempts: 0 };
        assert_eq!(ItemError::from(refused).to_string(), "the coordinator is closed");
        let failed = ItemError::from(RetryError::Operation { error: io::Error::other("503"), attempts: 3 });
        assert_eq!(failed.to_string(), "503 (after 3 attempts)");
        assert_eq!((failed.attempts(), failed.into_error().unwrap().to_string()), (3, "503".to_owned()));
        let words = |panic: &(dyn Any + Send)| ItemError::<io::Error>::panicked(panic, 1).to_string();
        assert_eq!(words(&"oh"), "the operation panicked: oh");
        assert_eq!(words(&"no".to_owned()), "the operation panicked: no");
        assert_eq!(words(&7), "the operation panicked");
    }
}
