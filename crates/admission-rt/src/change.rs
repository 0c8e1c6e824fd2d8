//! What can go wrong with a change to a coordinator that is in use.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::rejected::Plain;
use crate::{BuildError, UnknownProvider};

/// A change that was not made; everything is as it was.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is no provider with this name.
    UnknownProvider(UnknownProvider),
    /// There is a provider with this name already.
    ProviderExists {
        /// The name.
        name: Arc<str>,
    },
    /// What is wrong with the limits, in the words of the build.
    Limits(BuildError),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownProvider(error) => error.fmt(f),
            Self::ProviderExists { name } => write!(f, "the provider exists: {}", Plain(name)),
            Self::Limits(error) => error.fmt(f),
        }
    }
}

impl Error for ChangeError {}

impl From<UnknownProvider> for ChangeError {
    fn from(error: UnknownProvider) -> Self {
        Self::UnknownProvider(error)
    }
}

impl From<BuildError> for ChangeError {
    fn from(error: BuildError) -> Self {
        Self::Limits(error)
    }
}

/// A cost that was not corrected.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SettleError {
    /// The coordinator was not built with this unit.
    UnknownUnit(Arc<str>),
    /// Every call costs 1 of `requests`, before and after.
    Requests,
    /// The call has ended, and its last cost stands: told by an [`Attempt`](crate::Attempt), which may
    /// outlive its permit.
    Ended,
}

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownUnit(unit) => write!(f, "unknown unit: {}", Plain(unit)),
            Self::Requests => f.write_str("a call always costs 1 of requests"),
            Self::Ended => f.write_str("the call has ended, and its last cost stands"),
        }
    }
}

impl Error for SettleError {}
