//! A program that does nothing: what is taken off the size of the others, to see what the core adds.
//!
//! Owns: a heap that is used once, a word to the host, and the end. Lacks the core.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::hint::black_box;

use cortex_m4::{HEAP, Host, end};

#[cortex_m_rt::entry]
fn main() -> ! {
    HEAP.begin();
    end(nothing())
}

fn nothing() -> fmt::Result {
    let mut bytes: Vec<u8> = Vec::new();
    bytes.push(black_box(1));
    let mut host = Host::output()?;
    writeln!(host, "nothing: heap {} bytes, {} pushed", HEAP.used(), bytes.len())?;
    host.flush()
}
