//! How a cycle fails.
//!
//! Owns: the errors of queries, which are shared by all who hear of them and so are cheap to clone.
//! Lacks the errors of earlier attempts: only the last one goes with a refusal (rule Q5).

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Rejected;
use crate::rejected::Brief;

/// Why a cycle, or a [`refresh`](super::Query::refresh), gave no data.
///
/// Clones share the source's error. Displayed as what it holds, so its
/// [`source`](Error::source) is what lies behind that.
#[derive(Debug)]
#[non_exhaustive]
pub enum QueryError<E> {
    /// An attempt was not admitted: overflow, admission timeout, close and the like. It is no attempt
    /// of the source, and the retry policy is not asked about it (rule Q3).
    #[non_exhaustive]
    Rejected {
        /// Why.
        rejected: Rejected,
        /// How the attempt before it failed, if this was a retry (rule Q5). It is the error's
        /// [`source`](Error::source).
        last: Option<AttemptError<E>>,
    },
    /// The source failed, and was not tried once more.
    Source(Arc<E>),
    /// The source took longer than the attempt timeout, and was not tried once more. It was told to
    /// stop; unless the query drops what it aborts, it may still run (rule Q6).
    #[non_exhaustive]
    AttemptTimeout {
        /// The attempt timeout.
        limit: Duration,
    },
    /// The query is paused, or was paused while the cycle went on (rule Q8).
    Paused,
    /// The query is disposed of (rule Q8).
    Disposed,
    /// The source panicked, or the retry policy did, or a destructor of theirs.
    Panicked,
    /// The runtime that ran the cycle went away before its end. Another one can refresh the query.
    Lost,
}

/// How one attempt of a source failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum AttemptError<E> {
    /// With the source's own error.
    Source(Arc<E>),
    /// It took longer than the attempt timeout.
    #[non_exhaustive]
    Timeout {
        /// The attempt timeout.
        limit: Duration,
    },
}

impl<E> QueryError<E> {
    pub(super) const fn refused(rejected: Rejected, last: Option<AttemptError<E>>) -> Self {
        Self::Rejected { rejected, last }
    }

    /// The refusal, if admission ended the cycle.
    #[must_use]
    pub const fn rejected(&self) -> Option<&Rejected> {
        match self {
            Self::Rejected { rejected, .. } => Some(rejected),
            _ => None,
        }
    }

    /// The source's own error: that of the last attempt, whether or not a refusal came after it.
    #[must_use]
    pub fn error(&self) -> Option<&Arc<E>> {
        match self {
            Self::Source(error) | Self::Rejected { last: Some(AttemptError::Source(error)), .. } => {
                Some(error)
            }
            _ => None,
        }
    }
}

impl<E> Clone for QueryError<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Rejected { rejected, last } => {
                Self::Rejected { rejected: rejected.clone(), last: last.clone() }
            }
            Self::Source(error) => Self::Source(error.clone()),
            Self::AttemptTimeout { limit } => Self::AttemptTimeout { limit: *limit },
            Self::Paused => Self::Paused,
            Self::Disposed => Self::Disposed,
            Self::Panicked => Self::Panicked,
            Self::Lost => Self::Lost,
        }
    }
}

impl<E> Clone for AttemptError<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Source(error) => Self::Source(error.clone()),
            Self::Timeout { limit } => Self::Timeout { limit: *limit },
        }
    }
}

impl<E> From<AttemptError<E>> for QueryError<E> {
    fn from(error: AttemptError<E>) -> Self {
        match error {
            AttemptError::Source(error) => Self::Source(error),
            AttemptError::Timeout { limit } => Self::AttemptTimeout { limit },
        }
    }
}

impl<E: fmt::Display> fmt::Display for QueryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rejected { rejected, .. } => rejected.fmt(f),
            Self::Source(error) => error.fmt(f),
            Self::AttemptTimeout { limit } => late(*limit, f),
            Self::Paused => f.write_str("the query is paused"),
            Self::Disposed => f.write_str("the query is disposed of"),
            Self::Panicked => f.write_str("the query's source panicked"),
            Self::Lost => f.write_str("the runtime that ran the query is gone"),
        }
    }
}

impl<E: fmt::Display> fmt::Display for AttemptError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Timeout { limit } => late(*limit, f),
        }
    }
}

fn late(limit: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "no answer within {}", Brief(limit))
}

impl<E: Error + 'static> Error for QueryError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Rejected { last: Some(last), .. } => Some(last),
            Self::Rejected { rejected, last: None } => rejected.source(),
            Self::Source(error) => error.source(),
            Self::AttemptTimeout { .. } | Self::Paused | Self::Disposed | Self::Panicked | Self::Lost => None,
        }
    }
}

impl<E: Error + 'static> Error for AttemptError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Source(error) => error.source(),
            Self::Timeout { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    // rule Q5
    #[test]
    fn a_refusal_leads_to_the_error_before_it() {
        let rejected = Rejected::Overflow { held_by: None, retry_after: None };
        let last = AttemptError::Source(Arc::new(io::Error::other("503")));
        let error = QueryError::refused(rejected.clone(), Some(last));
        assert_eq!(error.to_string(), "queue is full");
        assert_eq!(error.source().unwrap().to_string(), "503");
        assert_eq!(error.error().unwrap().to_string(), "503");
        assert!(error.clone().rejected().unwrap().is_overflow());

        let never = QueryError::<io::Error>::refused(rejected, None);
        assert!(never.source().is_none());
        let late = QueryError::<io::Error>::AttemptTimeout { limit: Duration::from_millis(1_500) };
        assert_eq!(late.to_string(), "no answer within 1.5 s");
    }

    #[test]
    fn an_error_is_shared_whatever_it_is() {
        struct Bare;
        let error = QueryError::Source(Arc::new(Bare));
        let other = error.clone();
        assert!(Arc::ptr_eq(error.error().unwrap(), other.error().unwrap()));
    }
}
