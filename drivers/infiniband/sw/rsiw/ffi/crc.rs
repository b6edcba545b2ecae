// SPDX-License-Identifier: GPL-2.0

//! CRC32c.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h). Any context.

use super::raw::b;

/// Continues the checksum `crc` over `bytes`: all ones to begin with, inverted once at the end.
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    // SAFETY: `bytes` is readable for its length.
    unsafe { b::crc32c(crc, bytes.as_ptr().cast(), bytes.len()) }
}
