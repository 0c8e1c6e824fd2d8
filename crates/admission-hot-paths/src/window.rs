//! The exact window alone: a check that records, given time. The least that a limit over time can cost.

use std::hint::black_box;
use std::time::Duration;

use admission_core::{Instant, SlidingWindow};

use crate::{Case, Group, each};

/// It is full all the time: one start leaves the window as another comes.
pub const FULL: &str = "admission: SlidingWindow, 60 a minute, given time";
/// It has room beside all that is in it.
pub const WITH_ROOM: &str = "admission: SlidingWindow, 100,000 a minute, given time";

/// A start a second.
#[must_use]
pub fn group() -> Group {
    Group { name: "window", cases: cases(), against: vec![] }
}

/// The same, for other tables.
#[must_use]
pub fn cases() -> Vec<Case> {
    vec![window(FULL, 60), window(WITH_ROOM, 100_000)]
}

fn window(name: &'static str, limit: u64) -> Case {
    each(name, move || {
        let minute = Duration::from_secs(60);
        let mut window = SlidingWindow::new(limit, minute).expect("the configuration is right");
        let mut now = 60_000_000_000;
        move || {
            now += 1_000_000_001;
            assert!(black_box(&mut window).try_start(Instant::from_nanos(now)).is_ok());
        }
    })
}
