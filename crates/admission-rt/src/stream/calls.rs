//! Which call an item of a stream makes.
//!
//! Owns: the ways to say it: one template for all, or a closure that adds what depends on the item.
//! Lacks any call: each item's begins when its item is read.

use std::fmt;

use crate::runtime::Runtime;
use crate::{AbortSignal, Call, IntervalLimiter, Provider, RateLimiter};

impl<R: Runtime> From<&Provider<R>> for Call<R> {
    fn from(provider: &Provider<R>) -> Self {
        provider.call()
    }
}

impl<R: Runtime> From<&RateLimiter<R>> for Call<R> {
    fn from(limiter: &RateLimiter<R>) -> Self {
        limiter.call()
    }
}

impl<R: Runtime> From<&IntervalLimiter<R>> for Call<R> {
    fn from(limiter: &IntervalLimiter<R>) -> Self {
        limiter.call()
    }
}

/// What makes a call for each item of a stream: a [`Call`], which is the same for all, or
/// [`PerItem`]. Nobody else can implement it.
pub trait Calls<T>: sealed::Sealed {
    /// The runtime of the calls.
    type Runtime: Runtime;

    /// The call of one item.
    #[doc(hidden)]
    fn call(&mut self, item: &T) -> Call<Self::Runtime>;

    /// The signal that all of them have.
    #[doc(hidden)]
    fn signal(&self) -> AbortSignal;
}

impl<T, R: Runtime> Calls<T> for Call<R> {
    type Runtime = R;

    fn call(&mut self, _: &T) -> Self {
        self.clone()
    }

    fn signal(&self) -> AbortSignal {
        Self::signal(self)
    }
}

/// Calls that depend on their items; made by [`MapAdmitted::per_item`](super::MapAdmitted::per_item).
pub struct PerItem<R, G> {
    template: Call<R>,
    with: G,
}

impl<R: Runtime, G> PerItem<R, G> {
    pub(super) const fn new(template: Call<R>, with: G) -> Self {
        Self { template, with }
    }
}

impl<T, R, G> Calls<T> for PerItem<R, G>
where
    R: Runtime,
    G: FnMut(&T, Call<R>) -> Call<R>,
{
    type Runtime = R;

    fn call(&mut self, item: &T) -> Call<R> {
        (self.with)(item, self.template.clone())
    }

    fn signal(&self) -> AbortSignal {
        self.template.signal()
    }
}

impl<R, G> fmt::Debug for PerItem<R, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerItem").field("template", &self.template).finish_non_exhaustive()
    }
}

mod sealed {
    pub trait Sealed {}

    impl<R> Sealed for crate::Call<R> {}

    impl<R, G> Sealed for super::PerItem<R, G> {}
}
