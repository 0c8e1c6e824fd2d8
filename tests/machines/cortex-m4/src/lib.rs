//! What the programs on the Cortex-M4 share: memory, a way to speak to the host, and an end.
//!
//! Owns: a heap of a fixed size that remembers how full it ever was, buffered output through
//! semihosting, the report on sizes, and what happens when a program cannot go on. Lacks admission.
//!
//! There is `unsafe` here, and not in any library: an allocator cannot be had without. Each block says why it
//! is sound.
#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cortex_m_semihosting::debug::{EXIT_FAILURE, EXIT_SUCCESS, exit};
use cortex_m_semihosting::hio::{self, HostStream};
use embedded_alloc::LlffHeap;

/// How much memory the programs have for all that they allocate. A window whose limit is in the thousands makes
/// room for 4,096 starts when it is built, and a history may draw several; 64 KiB are too few for that, and the core
/// then answers that there is no memory.
pub const HEAP_SIZE: usize = 512 * 1024;

/// The heap, and the most that was ever used of it.
pub struct Heap {
    memory: LlffHeap,
    is_there: AtomicBool,
    peak: AtomicUsize,
}

/// Everybody's heap.
#[global_allocator]
pub static HEAP: Heap =
    Heap { memory: LlffHeap::empty(), is_there: AtomicBool::new(false), peak: AtomicUsize::new(0) };

impl Heap {
    /// Gives the heap its memory: before anything is allocated. A second time does nothing.
    pub fn begin(&self) {
        if self.is_there.swap(true, Ordering::Relaxed) {
            return;
        }
        let memory = &self.memory;
        // SAFETY: this is the one place that does it, and the flag lets nobody pass twice; the memory is a
        // static of that very size, which the macro makes and nothing else can name.
        unsafe {
            embedded_alloc::init!(memory, HEAP_SIZE);
        }
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.memory.used()
    }

    /// The most bytes that were ever in use.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }
}

// SAFETY: memory comes from the inner heap and goes back to it with the layout that it came with; that it counts
// what is used changes nothing of that. Neither unwinds.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of the inner heap.
        let memory = unsafe { GlobalAlloc::alloc(&self.memory, layout) };
        self.peak.fetch_max(self.memory.used(), Ordering::Relaxed);
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those of the inner heap.
        unsafe { GlobalAlloc::dealloc(&self.memory, memory, layout) }
    }
}

/// Standard output of the host, half a kilobyte at a time: each word to the host stops the machine.
pub struct Host {
    stream: HostStream,
    waiting: [u8; 512],
    length: usize,
}

impl Host {
    /// Output that goes on after what was said before.
    ///
    /// # Errors
    ///
    /// When the host has none.
    pub fn output() -> Result<Self, fmt::Error> {
        Ok(Self { stream: hio::hstdout().map_err(|()| fmt::Error)?, waiting: [0; 512], length: 0 })
    }

    /// Says what waits.
    ///
    /// # Errors
    ///
    /// When the host does not take it.
    pub fn flush(&mut self) -> fmt::Result {
        let said = self.waiting.get(..self.length).unwrap_or(&[]);
        self.length = 0;
        self.stream.write_all(said).map_err(|()| fmt::Error)
    }
}

impl Write for Host {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.length == self.waiting.len() {
                self.flush()?;
            }
            if let Some(place) = self.waiting.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}

/// Says on standard error how large the program is and how much of the heap it took, and ends it.
pub fn end(outcome: Result<(), fmt::Error>) -> ! {
    let told = report(outcome.is_ok());
    exit(if outcome.is_ok() && told.is_ok() { EXIT_SUCCESS } else { EXIT_FAILURE });
    loop {
        cortex_m::asm::wfi();
    }
}

fn report(is_well: bool) -> fmt::Result {
    unsafe extern "C" {
        static __vector_table: u32;
        static __erodata: u32;
        static __sdata: u32;
        static __edata: u32;
    }
    // Only where they lie: the linker sets them at the ends of its sections.
    let [first, constants_end, data, data_end] =
        [&raw const __vector_table, &raw const __erodata, &raw const __sdata, &raw const __edata]
            .map(|place| place as usize);
    let image = (constants_end - first) + (data_end - data);
    let mut host = hio::hstderr().map_err(|()| fmt::Error)?;
    let word = if is_well { "" } else { "it failed; " };
    writeln!(host, "{word}image {image} bytes; heap {} of {HEAP_SIZE} bytes at most", HEAP.peak())
}

#[panic_handler]
fn panic(what: &core::panic::PanicInfo<'_>) -> ! {
    if let Ok(mut host) = hio::hstderr() {
        // Nobody is left to tell if this fails, too.
        let _ = writeln!(host, "{what}");
    }
    exit(EXIT_FAILURE);
    loop {
        cortex_m::asm::wfi();
    }
}
