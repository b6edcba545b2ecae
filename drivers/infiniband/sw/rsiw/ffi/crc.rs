// SPDX-License-Identifier: GPL-2.0

//! CRC32c.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h). Any context.

use super::{
    page::PageSlice,
    raw::b, //
};

/// Continues the checksum `crc` over `bytes`: all ones to begin with, inverted once at the end.
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    // SAFETY: `bytes` is readable for its length.
    unsafe { b::crc32c(crc, bytes.as_ptr().cast(), bytes.len()) }
}

/// The same over memory that others may change meanwhile; the sum is then that of some mixture.
pub(crate) fn crc32c_pages(crc: u32, pages: &PageSlice<'_>) -> u32 {
    // SAFETY: the slice is readable for its length; C code bears concurrent writes.
    // CAST: 32 bits fit.
    unsafe {
        b::crc32c(
            crc,
            pages.as_mut_ptr().cast_const().cast(),
            pages.len() as usize,
        )
    }
}
