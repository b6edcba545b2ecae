// SPDX-License-Identifier: GPL-2.0

//! Lengths.

use crate::num::{Broken, Length};

/// Each operation is right up to the end of the range, and says what is beyond it, whatever the
/// width of what is added.
#[test]
fn a_length_that_does_not_fit_is_broken() {
    assert_eq!(250u16.try_add(5u8), Ok(255));
    assert_eq!(u16::MAX.try_add(0), Ok(u16::MAX));
    assert_eq!(u16::MAX.try_add(1), Err(Broken));
    assert_eq!(1u16.try_add(65_536u32), Err(Broken));
    assert_eq!(1u32.try_add(-1), Err(Broken));
    assert_eq!((u64::MAX - 5).try_add(5usize), Ok(u64::MAX));
    assert_eq!((u64::MAX - 5).try_add(6usize), Err(Broken));

    assert_eq!(7u32.try_sub(7u64), Ok(0));
    assert_eq!(7u32.try_sub(8u64), Err(Broken));
    assert_eq!(7usize.try_sub(u64::MAX), Err(Broken));

    assert_eq!(0x1_0000u32.try_mul(0xffffu16), Ok(0xffff_0000));
    assert_eq!(0x1_0000u32.try_mul(0x1_0000u32), Err(Broken));
}

/// A range may end where the other one does, and not behind that.
#[test]
fn a_range_ends_within_its_limit() {
    assert_eq!(3u32.end_within(4usize, 7), Some(7));
    assert_eq!(7u32.end_within(0, 7), Some(7));
    assert_eq!(3u32.end_within(5, 7), None);
    assert_eq!(8u32.end_within(0, 7), None);
    assert_eq!(u32::MAX.end_within(1, u32::MAX), None);
    assert_eq!(u64::MAX.end_within(u64::MAX, u64::MAX), None);
    assert_eq!(1u32.end_within(u64::MAX, u32::MAX), None);
}
