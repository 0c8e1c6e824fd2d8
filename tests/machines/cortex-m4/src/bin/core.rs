//! A program that uses most of the core and prints next to nothing: how much flash and heap that takes.
//!
//! Owns: one small coordinator and most of the calls that a driver makes. Lacks any proof that the answers
//! are right, which is the history's.
#![no_std]
#![no_main]

use core::fmt::{self, Write};
use core::hint::black_box;
use core::time::Duration;

use admission_core::{Admitted, Config, Coordinator, Instant, Key, Limits, ProviderId, Request, ScopeId};
use cortex_m4::{HEAP, Host, end};

#[cortex_m_rt::entry]
fn main() -> ! {
    HEAP.begin();
    end(drive())
}

/// Two providers, a queue of 16: a device that speaks to two services.
fn drive() -> fmt::Result {
    let mut config = Config::new();
    config.max_queued = 16;
    config.client = Limits::new().max_concurrent(2);
    config.providers.push(Limits::new().interval(Duration::from_millis(100)));
    config.providers.push(Limits::new().window(10, Duration::from_secs(60)));
    let mut coordinator = Coordinator::new(black_box(&config)).map_err(|_| fmt::Error)?;
    drop(config);
    let built = HEAP.used();
    let mut now = Instant::ZERO;
    let mut taken = 0_u32;
    for number in 0..black_box(200_u32) {
        now = coordinator.poll_timeout().unwrap_or(now + Duration::from_millis(20));
        let request = Request::new(ProviderId::new(number % 2)).key(Key(u64::from(number % 3)));
        let request = request.timeout(Duration::from_millis(500));
        if let Ok(Admitted::Started(ticket) | Admitted::Queued(ticket)) = coordinator.request(&request, now) {
            taken += 1;
            match number % 4 {
                0 => coordinator.handle_abort(ticket, now),
                _ => drop(black_box(coordinator.step(ticket, now))),
            }
            coordinator.handle_release(ticket, now);
        }
        coordinator.handle_timeout(now);
        while black_box(coordinator.poll_event()).is_some() {}
    }
    let scope = ScopeId::Provider(ProviderId::new(1));
    coordinator.set_limits(scope, &Limits::new().max_concurrent(1), now).map_err(|_| fmt::Error)?;
    coordinator.cooldown(ProviderId::new(0), Duration::from_secs(1), now).map_err(|_| fmt::Error)?;
    coordinator.close(now);
    let mut host = Host::output()?;
    writeln!(host, "a coordinator of 2 providers and a queue of 16: heap {built} bytes, {taken} requests")?;
    host.flush()
}
