//! The hot paths of admission as programs: what `cargo xtask instructions` counts, and what `cargo xtask bench`
//! times beside its peers.
//!
//! Owns: the jobs that are admission's own, how one is run many times, the count of instructions with the file
//! that notes it, and the look for what a path waits for. Lacks the peers and the clock, which are
//! `admission-bench`'s: so this builds in seconds, and a change that makes a path longer is seen in every run of the
//! checks.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks to the terminal")]

pub mod combined;
pub mod instructions;
pub mod machine;
pub mod permit;
pub mod queue;
pub mod stalls;
pub mod window;

use std::future::Future;
use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};

/// Does so many operations; making one does all that is to be set up.
pub type Run = Box<dyn FnMut(u64)>;

/// One way to do a job.
pub struct Case {
    /// What the tables call it.
    pub name: String,
    /// Sets it up.
    pub make: Box<dyn Fn() -> Run>,
    /// Too large for the caches: timed beside the reference alone, in longer slices.
    pub is_large: bool,
}

/// A job, and the ways to do it.
pub struct Group {
    /// The table's name.
    pub name: &'static str,
    /// Its cases; the first is the reference.
    pub cases: Vec<Case>,
    /// Which case is compared with which other, beside the reference.
    pub against: Vec<(&'static str, &'static str)>,
}

/// A case.
pub fn case(name: impl Into<String>, make: impl Fn() -> Run + 'static) -> Case {
    Case { name: name.into(), make: Box::new(make), is_large: false }
}

/// A case whose data does not fit into the caches.
pub fn large(name: impl Into<String>, make: impl Fn() -> Run + 'static) -> Case {
    Case { is_large: true, ..case(name, make) }
}

/// A case of operations that need not know their number.
pub fn each<F: FnMut() + 'static>(name: impl Into<String>, make: impl Fn() -> F + 'static) -> Case {
    case(name, move || {
        let mut operation = make();
        Box::new(move |n| {
            for _ in 0..n {
                operation();
            }
        })
    })
}

/// Sets up the case with a name.
fn find(groups: &[Group], group: &str, case: &str) -> Result<Run, String> {
    let mut cases = groups.iter().filter(|other| other.name == group).flat_map(|group| &group.cases);
    let case = cases.find(|other| other.name == case).ok_or("there is no such case")?;
    Ok((case.make)())
}

/// What regressions are looked for in, in instructions.
#[must_use]
pub fn watched() -> Vec<Group> {
    let keep = |name, mut cases: Vec<Case>, names: &[&str]| {
        cases.retain(|case| names.contains(&case.name.as_str()));
        Group { name, cases, against: vec![] }
    };
    vec![
        keep("permit", permit::cases(), &["admission: acquire().await"]),
        keep("combined", combined::cases(), &["admission: all limits", "admission: caps and keys only"]),
        keep(
            "machine",
            machine::group().cases,
            &[
                "P=16, N=0, caps and keys",
                "P=16, N=0, all limits",
                "P=1, N=1000, caps and keys",
                "P=16, N=1000, caps and keys",
                "P=1024, N=1000, caps and keys",
                "P=16, N=1000, all limits",
                "P=16, N=1000, submit and cancel",
            ],
        ),
        queue::drained(),
        queue::left(),
        window::group(),
    ]
}

/// A tokio runtime of one thread.
///
/// # Panics
///
/// If the system has no more descriptors.
#[must_use]
pub fn tokio_runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime of one thread can be built")
}

/// Awaits one future after the other on a tokio runtime of one thread.
pub fn on_tokio<F: Future>(mut call: impl FnMut() -> F + 'static) -> Run {
    let runtime = tokio_runtime();
    Box::new(move |n| {
        runtime.block_on(async {
            for _ in 0..n {
                drop(black_box(call().await));
            }
        });
    })
}

/// A value that lives as long as the process. Cases are built a few times, so it is a few.
pub fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// A counter behind a lock: the least that one permit can cost with std alone, and the reference.
#[derive(Debug)]
pub struct Counter(Mutex<usize>);

impl Counter {
    /// So many permits.
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        Self(Mutex::new(permits))
    }

    /// Takes one and gives it back.
    #[inline]
    pub fn pair(&self) {
        let mut permits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(*permits > 0);
        *permits -= 1;
        drop(permits);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

/// What the reference is called.
pub const REFERENCE: &str = "std Mutex and a counter";

/// The reference of most tables.
#[must_use]
pub fn reference() -> Case {
    each(REFERENCE, || {
        let counter = Counter::new(64);
        move || black_box(&counter).pair()
    })
}

/// A sequence of numbers without any pattern that matters here, the same each time.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// One sequence for each seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        // A multiplicative generator's high bits.
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        ((u128::from(self.0 >> 16) * bound as u128) >> 48) as usize
    }

    /// The numbers below `count`, in some order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            order.swap(at, self.below(at + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_number_once() {
        let mut order = Dice::new(7).order(1_000);
        assert_ne!(order[..4], [0, 1, 2, 3]);
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1_000));
    }
}
