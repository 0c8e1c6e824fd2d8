//! Why something was aborted.
//!
//! Owns: the reason, with room for the caller's own. Lacks the signal that carries it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Why something was aborted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AbortReason {
    /// Because somebody said so.
    Requested,
    /// Because its time was over.
    Timeout,
    /// Because its query was paused (rule Q8).
    Paused,
    /// Because its query was disposed of (rule Q8).
    Disposed,
    /// Because nobody is there any more who waits for its query's cycle, or subscribes (rule Q4).
    Unsubscribed,
    /// For a reason of the caller's own.
    Custom(Arc<dyn Error + Send + Sync>),
}

impl AbortReason {
    /// A reason of the caller's own.
    pub fn custom(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Custom(error.into().into())
    }
}

impl fmt::Display for AbortReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => f.write_str("on request"),
            Self::Timeout => f.write_str("timed out"),
            Self::Paused => f.write_str("paused"),
            Self::Disposed => f.write_str("disposed of"),
            Self::Unsubscribed => f.write_str("nobody is there any more"),
            Self::Custom(error) => error.fmt(f),
        }
    }
}

impl Error for AbortReason {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // What it says is said already; the chain goes on behind it.
            Self::Custom(error) => error.source(),
            _ => None,
        }
    }
}

impl From<()> for AbortReason {
    fn from((): ()) -> Self {
        Self::Requested
    }
}

impl From<Arc<dyn Error + Send + Sync>> for AbortReason {
    fn from(error: Arc<dyn Error + Send + Sync>) -> Self {
        Self::Custom(error)
    }
}

impl From<Box<dyn Error + Send + Sync>> for AbortReason {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        Self::Custom(error.into())
    }
}

impl From<&str> for AbortReason {
    fn from(text: &str) -> Self {
        Self::custom(text)
    }
}

impl From<String> for AbortReason {
    fn from(text: String) -> Self {
        Self::custom(text)
    }
}
