//! A program without std: it drives the core through a short scenario and answers with its exit code.
//!
//! It is a proof by linking. Its own panic handler is one; were std anywhere in what it uses, there would
//! be two, and the compiler would refuse (E0152) and name the crate that brought std in. The core's own
//! `#![no_std]` cannot show that, for a crate below it may still ask for std.
//!
//! Lacks, on purpose: any function of std, and anything about admission that the core's tests do not show
//! better. The exit code is 0, or the number of the step that went wrong; a panic aborts.
//!
//! There is `unsafe` code here, as in the other programs without std, and not in any library: without std
//! somebody has to bring an allocator and a `main`, and neither can be had without. Each block says why
//! it is sound.
#![no_std]
#![no_main]

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_char, c_int, c_void};
use core::panic::PanicInfo;
use core::time::Duration;

use admission_core::{
    Admitted, Config, Coordinator, Event, Instant, Key, Limits, ProviderId, Reason, Request, Step,
};

/// What the host calls.
// SAFETY: no other symbol of this name is linked; std, which has one, is what must not be here.
#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _words: *const *const c_char) -> c_int {
    match scenario() {
        Ok(()) => 0,
        Err(Wrong(step)) => step,
    }
}

/// The number of the step that went wrong.
struct Wrong(c_int);

/// Waiting for an interval, for a key and in vain; a grant that nobody picks up; many tickets, so that
/// the tables grow; the end.
fn scenario() -> Result<(), Wrong> {
    let mut config = Config::new();
    config.max_queued = 1_000;
    config.client = Limits::new().max_concurrent(600);
    config.providers.push(Limits::new().interval(Duration::from_millis(100)));
    config.providers.push(Limits::new().window(500, Duration::from_secs(60)));
    let mut coordinator = Coordinator::new(&config).map_err(|_| Wrong(1))?;
    let paced = Request::new(ProviderId::new(0));
    let counted = Request::new(ProviderId::new(1));
    let at = Instant::from_millis;

    // The second call waits out the interval, and the third has not the time.
    let Ok(Admitted::Started(first)) = coordinator.request(&paced, at(0)) else { return Err(Wrong(2)) };
    let Ok(Admitted::Queued(second)) = coordinator.request(&paced, at(10)) else { return Err(Wrong(3)) };
    let hasty = paced.timeout(Duration::from_millis(30));
    let Ok(Admitted::Queued(third)) = coordinator.request(&hasty, at(20)) else { return Err(Wrong(4)) };
    check(5, coordinator.poll_event().is_none())?;
    check(6, coordinator.poll_timeout() == Some(at(50) + Duration::from_nanos(1)))?;
    coordinator.handle_timeout(at(51));
    check(7, coordinator.poll_event() == Some(Event::Refused(third, Reason::AdmissionTimeout)))?;
    check(8, matches!(coordinator.step(third, at(51)), Step::GiveUp(_)))?;
    check(9, coordinator.poll_timeout() == Some(at(100)))?;
    coordinator.handle_timeout(at(100));
    check(10, coordinator.poll_event() == Some(Event::Granted(second)))?;

    // Nobody comes for the grant; later somebody does.
    let Ok(Admitted::Queued(fourth)) = coordinator.request(&paced, at(110)) else { return Err(Wrong(11)) };
    coordinator.handle_timeout(at(300));
    check(12, coordinator.poll_event() == Some(Event::TakenBack(second)))?;
    check(13, coordinator.poll_event() == Some(Event::Granted(fourth)))?;
    check(14, coordinator.step(fourth, at(300)) == Step::Start)?;
    check(15, coordinator.step(second, at(310)) == Step::Wait)?;
    coordinator.handle_timeout(at(400));
    check(16, coordinator.poll_event() == Some(Event::Granted(second)))?;
    check(17, coordinator.step(second, at(400)) == Step::Start)?;
    for ticket in [first, second, fourth] {
        coordinator.handle_release(ticket, at(410));
    }
    check(18, coordinator.is_idle())?;

    // Two at a time share each key, and the window has an end.
    let mut tickets = [None; 1_000];
    let mut started = 0;
    for (place, number) in tickets.iter_mut().zip(0_u64..) {
        let key = Key(number / 2);
        *place = match coordinator.request(&counted.key(key), at(500)) {
            Ok(Admitted::Started(ticket)) => {
                started += 1;
                Some(ticket)
            }
            Ok(Admitted::Queued(ticket)) => Some(ticket),
            Err(_) => return Err(Wrong(19)),
        };
    }
    check(20, started == 500 && coordinator.counts().queued == 500)?;
    for ticket in tickets.iter().step_by(2).flatten() {
        coordinator.handle_release(*ticket, at(510));
    }
    check(21, coordinator.poll_event().is_none())?;
    check(22, coordinator.poll_timeout() == Some(at(60_500)))?;
    coordinator.handle_timeout(at(60_500));
    let mut granted = 0;
    while let Some(Event::Granted(ticket)) = coordinator.poll_event() {
        check(23, coordinator.step(ticket, at(60_500)) == Step::Start)?;
        coordinator.handle_release(ticket, at(60_500));
        granted += 1;
    }
    check(24, granted == 500)?;
    coordinator.close(at(60_600));
    check(25, coordinator.is_idle() && coordinator.poll_timeout().is_none())
}

fn check(step: c_int, holds: bool) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(Wrong(step)) }
}

/// The host's allocator.
struct Host;

#[global_allocator]
static HOST: Host = Host;

// SAFETY: what `alloc` hands out comes from `aligned_alloc`, so it is aligned as asked, at least as long as
// asked, and nobody else's until `dealloc`, which gives it to the `free` that belongs to it. Neither
// unwinds. What is not defined here (zeroed memory, growing) is made of these two by the trait.
unsafe impl GlobalAlloc for Host {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The standard asks for an alignment that the host knows and for a multiple of it as length. A
        // layout's length rounded up fits, by what `Layout` promises.
        let align = layout.align().max(size_of::<*mut c_void>());
        let size = layout.size().next_multiple_of(align);
        // SAFETY: any two numbers may be handed over; what does not suit is answered with null, which is
        // what a failure looks like here, too.
        unsafe { libc::aligned_alloc(align, size).cast() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: the caller promises that `memory` came from `alloc` and is not used any more.
        unsafe { libc::free(memory.cast()) }
    }
}

#[panic_handler]
fn panic(_what: &PanicInfo<'_>) -> ! {
    // SAFETY: `abort` may be called from anywhere and at any time.
    unsafe { libc::abort() }
}

/// The alloc that comes with the toolchain was built to unwind and names what that takes. Nothing
/// unwinds here, so these two are linked and never called.
// SAFETY: no other symbol of this name is linked; std has it.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

// SAFETY: no other symbol of this name is linked; the library that has it comes with std.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    // SAFETY: `abort` may be called from anywhere and at any time.
    unsafe { libc::abort() }
}
