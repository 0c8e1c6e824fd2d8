//! What the server's stamps say: the count in the window that ends now, as it went up and down.

use std::time::Duration;

/// The most that the window `(t - window, t]` held at any `t` in each of `slices` equal slices of
/// the time from 0 to `span`. The stamps are in order.
pub(crate) fn rolling(stamps: &[Duration], window: Duration, span: Duration, slices: usize) -> Vec<usize> {
    let mut most = Vec::with_capacity(slices);
    let (mut entered, mut left) = (0, 0);
    for slice in 1..=slices {
        let end = span.mul_f64(slice as f64 / slices as f64);
        let mut peak: usize = entered - left;
        // In order of time; what is one window old leaves before what arrives at that instant.
        loop {
            let leaves = (left < entered).then(|| stamps[left] + window);
            let enters = stamps.get(entered).copied();
            match (leaves, enters) {
                (Some(at), next) if at <= end && next.is_none_or(|next| at <= next) => left += 1,
                (_, Some(at)) if at < end => {
                    entered += 1;
                    peak = peak.max(entered - left);
                }
                _ => break,
            }
        }
        most.push(peak);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use admission_examples::quota::most_in_any_window;

    fn ms(stamps: &[u64]) -> Vec<Duration> {
        stamps.iter().copied().map(Duration::from_millis).collect()
    }

    fn most(stamps: &[u64], window: u64) -> usize {
        most_in_any_window(&ms(stamps), Duration::from_millis(window))
    }

    #[test]
    fn it_agrees_with_a_count_at_every_instant() {
        let mut state = 1_u64;
        for _ in 0..200 {
            let mut stamps: Vec<u64> = (0..30)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005) + 1;
                    (state >> 33) % 60
                })
                .collect();
            stamps.sort_unstable();
            for window in 1..15 {
                let by_hand =
                    (0..60).map(|t| stamps.iter().filter(|s| (t..t + window).contains(*s)).count()).max();
                assert_eq!(Some(most(&stamps, window)), by_hand);
                let peak =
                    rolling(&ms(&stamps), Duration::from_millis(window), Duration::from_millis(100), 7);
                assert_eq!(peak.into_iter().max(), by_hand);
            }
        }
    }

    #[test]
    fn the_rolling_count_falls_when_stamps_leave() {
        let counts = rolling(&ms(&[0, 0, 5, 25]), Duration::from_millis(10), Duration::from_millis(40), 4);
        // 0..10: all three; 10..20: that of 5, until 15; then that of 25, until 35.
        assert_eq!(counts, [3, 1, 1, 1]);
    }
}
