//! What the handles are built with: the builders of [`admission_rt`], ending in the handles of this
//! crate.
//!
//! Owns: the list of their settings, which is the whole list of theirs. Lacks any meaning of its own for
//! one of them.

use std::sync::Arc;
use std::time::Duration;

use admission_rt::runtime::Clock;
use admission_rt::{BuildError, Interval, Limits, Strategy, Waiting, Window};

use crate::{Admission, Blocking, IntervalLimiter, RateLimiter};

macro_rules! builder {
    (
        $(#[$of:meta])* $name:ident builds $handle:ident;
        $($(#[$doc:meta])* fn $setting:ident($($argument:ident: $type:ty),*);)*
    ) => {
        $(#[$of])*
        #[derive(Debug)]
        #[must_use = "a builder builds nothing until `build`"]
        pub struct $name {
            inner: admission_rt::$name<Blocking>,
        }

        impl $name {
            $(
                $(#[$doc])*
                pub fn $setting(self, $($argument: $type),*) -> Self {
                    Self { inner: self.inner.$setting($($argument),*) }
                }
            )*

            /// What it was all for.
            ///
            /// # Errors
            ///
            /// [`BuildError`] says what is wrong with the settings.
            pub fn build(self) -> Result<$handle, BuildError> {
                self.inner.build().map($handle::from)
            }
        }

        impl From<admission_rt::$name<Blocking>> for $name {
            fn from(inner: admission_rt::$name<Blocking>) -> Self {
                Self { inner }
            }
        }
    };
}

builder! {
    /// Builds an [`Admission`]; see [`admission_rt::Builder`] for what the settings mean.
    Builder builds Admission;

    /// At most so many calls granted or running at once, over all providers.
    fn max_concurrent(calls: u32);
    /// At most so many calls waiting; 1,024 unless stated.
    fn max_queued(calls: u32);
    /// How long a granted call may be left alone before its grant is passed on (rule S4).
    fn hand_off(time: Duration);
    /// The longest wait that is worth its while (rule R2).
    fn max_wait(wait: Duration);
    /// Declares a unit beside `requests`.
    fn unit(name: impl Into<Arc<str>>);
    /// At least so long between any two starts, whichever provider they go to (rule L2).
    fn interval(interval: Duration);
    /// At most `limit` starts in any `window`, over all providers (rule L3).
    fn window(limit: u64, window: Duration);
    /// A window over all providers, with options.
    fn log(window: Window);
    /// An interval over all providers, with options.
    fn paced(interval: Interval);
    /// Registers an upstream under a name, with limits of its own.
    fn provider(name: impl Into<Arc<str>>, limits: impl FnOnce(Limits) -> Limits);
    /// The limits of each provider that is not registered: any name is one then, made on demand
    /// (rule L10).
    fn template(limits: impl FnOnce(Limits) -> Limits);
    /// Calls `report` about each call that has waited for so long and still waits, once per call.
    fn on_long_wait(after: Duration, report: impl Fn(&Waiting) + Send + Sync + 'static);
    /// Takes time from another clock than the machine's (rule T5).
    fn clock(clock: Arc<dyn Clock>);
}

builder! {
    /// Builds a [`RateLimiter`]; see [`admission_rt::RateLimiterBuilder`] for what the settings mean.
    RateLimiterBuilder builds RateLimiter;

    /// What its errors call it; `rate limiter` unless stated. Name each if there are several.
    fn name(name: impl Into<Arc<str>>);
    /// What becomes of a call that may not start at once (rule R1).
    fn strategy(strategy: Strategy);
    /// The longest wait that is worth its while (rule R2).
    fn max_wait(wait: Duration);
    /// The same from a number (rule R5).
    fn max_wait_secs(wait: f64);
    /// At most so many calls waiting; 65,536 unless stated.
    fn max_queued(calls: u32);
    /// Counts a call until one window after it ended (rule L9).
    fn until_settled();
    /// Adds to the window.
    fn margin(margin: Duration);
    /// How long a granted call may be left alone before its grant is passed on (rule S4).
    fn hand_off(time: Duration);
    /// Takes time from another clock than the machine's (rule T5).
    fn clock(clock: Arc<dyn Clock>);
}

builder! {
    /// Builds an [`IntervalLimiter`]; see [`admission_rt::IntervalLimiterBuilder`] for what the settings
    /// mean.
    IntervalLimiterBuilder builds IntervalLimiter;

    /// What its errors call it; `interval limiter` unless stated. Name each if there are several.
    fn name(name: impl Into<Arc<str>>);
    /// At most so many callers waiting, the granted one not counted; 1,024 unless stated.
    fn max_waiting(callers: u32);
    /// Adds to the interval.
    fn margin(margin: Duration);
    /// How long a granted call may be left alone before its grant is passed on (rule S4).
    fn hand_off(time: Duration);
    /// Takes time from another clock than the machine's (rule T5).
    fn clock(clock: Arc<dyn Clock>);
}
