//! Admission timeouts in three bytes.
//!
//! Owns: which of them fit. Lacks those that do not, which are kept in a box.

use std::time::Duration;

/// An admission timeout in 24 bits, where it fits: whole milliseconds below 4 h 39 min. So the
/// usual ones need no box.
///
/// Two fields, the lower bits first: three bytes are moved as two and one, and to load them otherwise than they were
/// stored costs a stall.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, packed)]
pub(crate) struct Millis(u16, u8);

impl Millis {
    const NONE: Self = Self(0xffff, 0xff);
    /// There is one, and it did not fit.
    pub(crate) const ELSEWHERE: Self = Self(0xfffe, 0xff);

    #[inline]
    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        let Some(timeout) = timeout else { return Self::NONE };
        let millis = timeout.as_millis();
        if millis >= 0xff_fffe || timeout.subsec_nanos() % 1_000_000 != 0 {
            return Self::ELSEWHERE;
        }
        Self(millis as u16, (millis >> 16) as u8)
    }

    #[inline]
    pub(crate) fn get(self) -> Option<Duration> {
        let Self(lower, upper) = self;
        let millis = u32::from(lower) | u32::from(upper) << 16;
        (millis < 0xff_fffe).then(|| Duration::from_millis(u64::from(millis)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_timeouts_need_no_box() {
        let fits = |timeout| Millis::new(Some(timeout)).get() == Some(timeout);
        for millis in [0, 1, 300, 65_536, 0xff_fffd] {
            assert!(fits(Duration::from_millis(millis)));
        }
        for timeout in [Duration::from_nanos(1), Duration::from_millis(0xff_fffe), Duration::MAX] {
            assert!(Millis::new(Some(timeout)) == Millis::ELSEWHERE);
            assert_eq!(Millis::ELSEWHERE.get(), None);
        }
        assert!(Millis::new(None) == Millis::NONE);
        assert_eq!(Millis::NONE.get(), None);
    }
}
