// SPDX-License-Identifier: GPL-2.0

//! Hashes, keyed (SipHash) and not (CRC32c), and random numbers. Any context.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

use super::raw::b;

pub(crate) struct SipKey(b::siphash_key_t);

impl SipKey {
    pub(crate) fn random() -> Self {
        let mut key = b::siphash_key_t { key: [0; 2] };
        // SAFETY: the pointer and the length are those of a local array of integers.
        unsafe {
            b::get_random_bytes(
                (&raw mut key.key).cast(),
                core::mem::size_of_val(&key.key), //
            )
        };
        Self(key)
    }

    /// Hashes a number; without the key the result cannot be told from a random number.
    pub(crate) fn hash(&self, value: u64) -> u64 {
        // SAFETY: the key is a live object of the expected type.
        unsafe { b::siphash_1u64(value, &raw const self.0) }
    }
}

pub(crate) fn random_u32() -> u32 {
    // SAFETY: the function has no preconditions.
    unsafe { b::get_random_u32() }
}

/// Continues the checksum `crc` over `bytes`: all ones to begin with, inverted once at the end.
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    // SAFETY: `bytes` is readable for its length.
    unsafe { b::crc32c(crc, bytes.as_ptr().cast(), bytes.len()) }
}

/// Continues a CRC-32, as Ethernet has it, over `bytes`: all ones to begin with, inverted at the
/// end.
pub(crate) fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    // SAFETY: `bytes` is readable for its length.
    unsafe { b::crc32_le(crc, bytes.as_ptr().cast(), bytes.len()) }
}
