//! Counts what the machine looks at, under `--cfg steps`: slots of tickets, records of shared keys,
//! entries of heaps and of logs. So a test can show that a decision does not grow with what is
//! queued, on any machine (rule E7). Without the cfg it is not compiled.

use core::cell::Cell;

#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(Cell<u64>);

impl Steps {
    pub(crate) const fn new() -> Self {
        Self(Cell::new(0))
    }

    pub(crate) fn count(&self) {
        self.0.set(self.0.get() + 1);
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.get()
    }
}
