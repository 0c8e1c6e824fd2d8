//! The history as a WebAssembly module: `run` plays it, and hands the host each piece of text.
//!
//! Owns: the two names between module and host. Lacks the host, which is `run.mjs`.
//!
//! What crosses the border is unsafe by nature; each place says why it is sound.
#![no_std]

use core::fmt;

use dlmalloc::GlobalDlmalloc;
use scenario::{Plan, play};

#[global_allocator]
static MEMORY: GlobalDlmalloc = GlobalDlmalloc;

// SAFETY: the host has a function of this name that reads so many bytes and keeps no address.
#[link(wasm_import_module = "host")]
unsafe extern "C" {
    safe fn write(text: *const u8, length: usize);
}

/// Plays the history; 0 if all of it was told.
// SAFETY: no other symbol of this name is linked.
#[unsafe(no_mangle)]
pub extern "C" fn run() -> u32 {
    u32::from(play(&Plan::default(), &mut Host).is_err())
}

struct Host;

impl fmt::Write for Host {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write(text.as_ptr(), text.len());
        Ok(())
    }
}

#[panic_handler]
fn panic(_what: &core::panic::PanicInfo<'_>) -> ! {
    // A trap, which node throws.
    core::arch::wasm32::unreachable()
}
