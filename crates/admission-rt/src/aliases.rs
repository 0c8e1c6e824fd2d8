//! The names that an adapter gives its users, written once.
//!
//! Owns: the list. An adapter says whose it is, and all adapters have the same names. Lacks the handles of
//! the blocking front, which are types of their own.

/// Declares an alias for every type that names a runtime, so that users of an adapter write no type
/// parameter: `admission_rt::aliases!(MyRuntime);`.
///
/// ```
/// # use admission_rt::runtime::{Alarm, Bell, Clock, Dead, Runtime, RuntimeId, SystemClock};
/// # use std::{sync::Arc, time::Duration};
/// struct MyRuntime;
/// # struct MyAlarm;
/// # impl Alarm for MyAlarm {
/// #     fn arm(&mut self, _: Option<Duration>) -> Result<(), Dead> { Err(Dead) }
/// # }
/// # impl Runtime for MyRuntime {
/// #     type Alarm = MyAlarm;
/// #     fn clock() -> Arc<dyn Clock> { Arc::new(SystemClock::new()) }
/// #     fn current() -> Option<RuntimeId> { None }
/// #     fn alarm(_: Bell) -> MyAlarm { MyAlarm }
/// # }
/// admission_rt::aliases!(MyRuntime);
///
/// let admission: Admission = Admission::builder().provider("api", |p| p).build()?;
/// # Ok::<_, admission_rt::BuildError>(())
/// ```
#[macro_export]
macro_rules! aliases {
    ($runtime:ty) => {
        /// The coordinator's handle.
        pub type Admission = $crate::Admission<$runtime>;
        /// What a coordinator is built with.
        pub type Builder = $crate::Builder<$runtime>;
        /// The handle of one provider.
        pub type Provider = $crate::Provider<$runtime>;
        /// The options of one call.
        pub type Call = $crate::Call<$runtime>;
        /// The future of a permit.
        pub type Acquire = $crate::Acquire<$runtime>;
        /// The future of an admitted operation.
        pub type Run<F, Fut> = $crate::Run<$runtime, F, Fut>;
        /// The future of an admitted operation that may fail.
        pub type TryRun<F, Fut> = $crate::TryRun<$runtime, F, Fut>;
        /// A call that is tried again.
        pub type RetryCall<E> = $crate::RetryCall<$runtime, E>;
        /// The future of such a call.
        pub type RetryRun<E, F, Fut> = $crate::RetryRun<$runtime, E, F, Fut>;
        /// What a query is built with. The query itself knows no runtime.
        pub type QueryBuilder<E> = $crate::QueryBuilder<$runtime, E>;
        /// The sliding log as an object of its own.
        pub type RateLimiter = $crate::RateLimiter<$runtime>;
        /// What a rate limiter is built with.
        pub type RateLimiterBuilder = $crate::RateLimiterBuilder<$runtime>;
        /// The interval pacer as an object of its own.
        pub type IntervalLimiter = $crate::IntervalLimiter<$runtime>;
        /// What an interval limiter is built with.
        pub type IntervalLimiterBuilder = $crate::IntervalLimiterBuilder<$runtime>;
        /// The future of an interval limiter's start.
        pub type Start = $crate::Start<$runtime>;
        /// A stream that is read no faster than a limiter allows.
        pub type Paced<S> = $crate::Paced<S, $runtime>;
    };
}
