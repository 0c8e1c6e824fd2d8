//! What a service grants, checked by the service: a sliding log of its own stamps, a count of what runs,
//! and the exact measures of stamps. Nothing here is shared with what is being checked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// At most `limit` in any half-open interval of length `window`, by stamps that are in order.
#[derive(Debug)]
pub struct SlidingLog {
    limit: u64,
    window: Duration,
    /// What was let in and is less than one window old.
    recent: VecDeque<(Duration, u64)>,
    spent: u64,
    most: u64,
}

impl SlidingLog {
    /// With nothing in its window.
    #[must_use]
    pub const fn new(limit: u64, window: Duration) -> Self {
        Self { limit, window, recent: VecDeque::new(), spent: 0, most: 0 }
    }

    /// Lets so much in at `now`, or says how long to stay away. What is refused uses up nothing.
    ///
    /// # Errors
    ///
    /// The time until there is room.
    pub fn admit(&mut self, now: Duration, amount: u64) -> Result<(), Duration> {
        match self.wait(now, amount) {
            Duration::ZERO => {
                self.book(now, amount);
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// How long until there is room for so much; nothing if there is. What can never fit has to wait
    /// for one window at least.
    pub fn wait(&mut self, now: Duration, amount: u64) -> Duration {
        self.forget(now);
        let mut over = (self.spent + amount).saturating_sub(self.limit);
        let mut wait = Duration::ZERO;
        for (at, amount) in &self.recent {
            if over == 0 {
                return wait;
            }
            over = over.saturating_sub(*amount);
            wait = *at + self.window - now;
        }
        if over == 0 { wait } else { wait.max(self.window) }
    }

    /// Counts so much, whether or not there is room for it.
    pub fn book(&mut self, now: Duration, amount: u64) {
        self.forget(now);
        self.recent.push_back((now, amount));
        self.spent += amount;
        self.most = self.most.max(self.spent);
    }

    /// The most that any window held.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most
    }

    fn forget(&mut self, now: Duration) {
        while let Some((at, amount)) = self.recent.front().copied() {
            if now - at < self.window {
                break;
            }
            self.spent -= amount;
            self.recent.pop_front();
        }
    }
}

/// How many requests a service works on. Clones are the same count.
#[derive(Clone, Debug, Default)]
pub struct InFlight(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl InFlight {
    /// One more, until the slot is dropped.
    #[must_use]
    pub fn enter(&self) -> Slot {
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        Slot(self.clone())
    }

    /// So many now.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.now.load(Ordering::SeqCst)
    }

    /// The most that there ever were.
    #[must_use]
    pub fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }
}

/// A request that is worked on; ends with the handler, also when the client hangs up.
#[derive(Debug)]
pub struct Slot(InFlight);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The most stamps in any half-open interval of length `window`, wherever it begins. The stamps are
/// in order. (It is enough to look at the intervals that begin with a stamp.)
#[must_use]
pub fn most_in_any_window(stamps: &[Duration], window: Duration) -> usize {
    let mut end = 0;
    let mut most = 0;
    for (begin, first) in stamps.iter().enumerate() {
        while end < stamps.len() && stamps[end] - *first < window {
            end += 1;
        }
        most = most.max(end.saturating_sub(begin));
    }
    most
}

/// The gaps between these stamps, once they are in order.
#[must_use]
pub fn gaps(stamps: &[Duration]) -> Vec<Duration> {
    let mut stamps = stamps.to_vec();
    stamps.sort_unstable();
    stamps.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scramble;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn most(stamps: &[u64], window: u64) -> usize {
        let stamps: Vec<_> = stamps.iter().copied().map(ms).collect();
        most_in_any_window(&stamps, ms(window))
    }

    #[test]
    fn a_log_counts_what_it_let_in_in_the_half_open_window() {
        let mut log = SlidingLog::new(2, ms(10));
        assert_eq!(log.admit(ms(0), 1), Ok(()));
        assert_eq!(log.admit(ms(4), 1), Ok(()));
        // Full until the first is exactly one window old; refusals use up nothing.
        assert_eq!(log.admit(ms(4), 1), Err(ms(6)));
        let just_before = ms(10) - Duration::from_nanos(1);
        assert_eq!(log.admit(just_before, 1), Err(Duration::from_nanos(1)));
        assert_eq!(log.admit(ms(10), 1), Ok(()));
        assert_eq!(log.admit(ms(13), 1), Err(ms(1)));
        assert_eq!(log.admit(ms(14), 1), Ok(()));
        assert_eq!(log.most(), 2);
    }

    #[test]
    fn a_log_waits_for_as_much_as_is_asked_for() {
        let mut log = SlidingLog::new(10, ms(10));
        assert_eq!(log.wait(ms(0), 11), ms(10), "it never fits");
        log.book(ms(0), 3);
        log.book(ms(2), 5);
        assert_eq!(log.wait(ms(4), 2), ms(0));
        assert_eq!(log.wait(ms(4), 5), ms(6), "when the first is forgotten");
        assert_eq!(log.wait(ms(4), 6), ms(8), "when the second is, too");
        log.book(ms(4), 9);
        assert_eq!(log.most(), 17);
    }

    #[test]
    fn no_window_of_what_a_log_let_in_passes_its_limit() {
        let mut log = SlidingLog::new(5, ms(20));
        let mut accepted = Vec::new();
        let mut now = 0;
        for step in 0..2_000 {
            now += scramble(step) % 7;
            if log.admit(ms(now), 1).is_ok() {
                accepted.push(ms(now));
            }
        }
        assert_eq!(most_in_any_window(&accepted, ms(20)), 5);
        assert_eq!(log.most(), 5);
    }

    #[test]
    fn what_is_worked_on_is_counted() {
        let in_flight = InFlight::default();
        let (first, second) = (in_flight.enter(), in_flight.enter());
        drop(first);
        assert_eq!((in_flight.now(), in_flight.most()), (1, 2));
        drop(second);
        assert_eq!((in_flight.now(), in_flight.most()), (0, 2));
    }

    #[test]
    fn a_stamp_exactly_one_window_later_is_in_another() {
        assert_eq!(most(&[], 10), 0);
        assert_eq!(most(&[5], 10), 1);
        assert_eq!(most(&[0, 10], 10), 1);
        assert_eq!(most(&[0, 9], 10), 2);
        assert_eq!(most(&[3, 3, 3], 1), 3);
    }

    #[test]
    fn a_burst_across_a_boundary_is_seen() {
        // Three at the end of one window and three at the start of the next.
        assert_eq!(most(&[7, 8, 9, 10, 11, 12], 10), 6);
        assert_eq!(most(&[0, 1, 2, 10, 11, 12], 10), 3);
        assert_eq!(most(&[0, 1, 2, 9, 11, 12], 10), 4);
    }

    #[test]
    fn gaps_are_between_stamps_in_order() {
        assert_eq!(gaps(&[ms(5), ms(1), ms(12)]), [ms(4), ms(7)]);
        assert!(gaps(&[ms(5)]).is_empty());
    }
}
