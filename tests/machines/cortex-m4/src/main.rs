//! The history on a Cortex-M4: the same text as everywhere, on the host's standard output.
//!
//! Owns: the order of things. Lacks whatever another program here would need, too (`lib.rs`).
#![no_std]
#![no_main]

use core::fmt;

use cortex_m4::{HEAP, Host, end};
use scenario::{Plan, play};

#[cortex_m_rt::entry]
fn main() -> ! {
    HEAP.begin();
    end(history())
}

fn history() -> fmt::Result {
    let mut host = Host::output()?;
    play(&Plan::default(), &mut host)?;
    host.flush()
}
