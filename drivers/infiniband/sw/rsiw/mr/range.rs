// SPDX-License-Identifier: GPL-2.0

//! Bounds of a region (draft-hilland-rddp-verbs section 7.6.3). Pure.
#![forbid(unsafe_code)]

use crate::num::Length;

/// Why a range of tagged offsets is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeError {
    /// It goes beyond the end of the address space.
    Wrap,
    /// It is not inside the region.
    Outside,
}

/// The octets of a region, by tagged offset.
#[derive(Clone, Copy)]
pub(super) struct Range {
    base: u64,
    len: u64,
}

impl Range {
    /// All addresses but the last.
    pub(super) const ALL: Self = Self {
        base: 0,
        len: u64::MAX,
    };

    /// Returns the `len` octets from tagged offset `base` on, or `None` if there are none, or if
    /// they go beyond the end of the address space.
    pub(super) fn new(base: u64, len: u64) -> Option<Self> {
        base.checked_add(len.checked_sub(1)?)?;
        Some(Self { base, len })
    }

    /// Returns the tagged offset of the first octet.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Returns where in the region the `len` octets at `addr` start, if all of them are inside.
    pub(super) fn locate(&self, addr: u64, len: u32) -> Result<u64, RangeError> {
        self.locate_long(addr, len.into())
    }

    /// Returns how many octets there are from `offset` in the region on.
    pub(super) fn behind(&self, offset: u64) -> u64 {
        self.len.saturating_sub(offset)
    }

    /// Returns where in the region `len` octets at `addr` start, if all are inside. Unlike with
    /// [`Range::locate`], there may be more of them than in any message.
    pub(super) fn locate_long(&self, addr: u64, len: u64) -> Result<u64, RangeError> {
        // The last octet may have the highest address there is.
        if addr.checked_add(len.saturating_sub(1)).is_none() {
            return Err(RangeError::Wrap);
        }
        let offset = addr.checked_sub(self.base).ok_or(RangeError::Outside)?;
        let end = offset.end_within(len, self.len);
        end.map(|_| offset).ok_or(RangeError::Outside)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Range,
        RangeError::{
            Outside,
            Wrap, //
        },
    };

    #[test]
    fn regions_have_octets_and_do_not_wrap() {
        assert!(Range::new(4, 0).is_none());
        assert!(Range::new(u64::MAX, 1).is_some());
        assert!(Range::new(u64::MAX, 2).is_none());
        assert!(Range::new(0, u64::MAX).is_some());
    }

    #[test]
    fn all_addresses_but_the_last() {
        assert_eq!(Range::ALL.base(), 0);
        assert_eq!(Range::ALL.locate(0, 0), Ok(0));
        assert_eq!(Range::ALL.locate(u64::MAX - 1, 1), Ok(u64::MAX - 1));
        assert_eq!(Range::ALL.locate(u64::MAX, 1), Err(Outside));
    }

    #[test]
    fn every_octet_counts() {
        let r = Range::new(1000, 100).unwrap();
        assert_eq!(r.locate(1000, 100), Ok(0));
        assert_eq!(r.locate(1099, 1), Ok(99));
        assert_eq!(r.locate(1099, 2), Err(Outside));
        assert_eq!(r.locate(1100, 1), Err(Outside));
        assert_eq!(r.locate(999, 1), Err(Outside));
        assert_eq!(r.locate(999, 2), Err(Outside));
        assert_eq!(r.locate(0, u32::MAX), Err(Outside));
        for (offset, behind) in [(0, 100), (99, 1), (100, 0), (101, 0)] {
            assert_eq!(r.behind(offset), behind);
        }
    }

    #[test]
    fn the_end_of_the_address_space() {
        let r = Range::new(u64::MAX - 9, 10).unwrap();
        assert_eq!(r.locate(u64::MAX, 1), Ok(9));
        assert_eq!(r.locate(u64::MAX - 9, 10), Ok(0));
        assert_eq!(r.locate(u64::MAX, 2), Err(Wrap));
        assert_eq!(r.locate(u64::MAX - 9, 11), Err(Wrap));
        let r = Range::new(0, 10).unwrap();
        assert_eq!(r.locate(u64::MAX, 2), Err(Wrap));
        assert_eq!(r.locate(u64::MAX, 1), Err(Outside));
    }
}
