//! The heap of the whole process, whichever thread it is that allocates.
//!
//! Owns: the counting allocator, and what counts as growth. Lacks any idea of whose the bytes are.

use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Bytes that are allocated now.
#[must_use]
pub fn current() -> usize {
    HEAP.current_usage()
}

/// The most there were since the last [`begin`].
#[must_use]
pub fn peak() -> usize {
    HEAP.peak_usage()
}

/// Forgets the peak.
pub fn begin() {
    HEAP.reset_peak_usage();
}

/// How much the heap has grown over a series of looks at the same point of equal rounds: from the most that the
/// first third of them saw to the least of the last third, so that what comes and goes is no growth. The first look
/// is left out: it was before everything that is made once.
#[must_use]
pub fn growth(looks: &[usize]) -> Option<usize> {
    let looks = looks.get(1..)?;
    let third = looks.len().div_ceil(3);
    let (earlier, later) = (&looks[..third], looks.get(third..)?);
    let most = earlier.iter().max()?;
    let least = later.iter().rev().take(third).min()?;
    Some(least.saturating_sub(*most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_growth_and_what_comes_and_goes_is_not() {
        assert_eq!(growth(&[1, 50, 40, 50, 45]), Some(0));
        assert_eq!(growth(&[1, 10, 20, 30, 40, 50, 60]), Some(30));
        assert_eq!(growth(&[1, 10]), None);
        assert_eq!(growth(&[]), None);
    }
}
