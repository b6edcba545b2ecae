// SPDX-License-Identifier: GPL-2.0

//! Received data as it lies in socket buffers. Any context with the socket lock held.

use crate::ffi::{
    page::PageSlice,
    raw::b, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// A stretch of received octets, in one socket buffer with all its fragments.
///
/// # Invariants
///
/// `skb` holds at least `offset + len` octets, `offset + len` fits a `c_int`, and nothing takes
/// octets from the buffer during `'a`.
pub(crate) struct SkbChunk<'a> {
    skb: NonNull<b::sk_buff>,
    offset: u32,
    len: u32,
    _skb: PhantomData<&'a b::sk_buff>,
}

impl SkbChunk<'_> {
    /// # Safety
    ///
    /// The type invariants must hold for as long as the value is used.
    pub(super) unsafe fn new(skb: NonNull<b::sk_buff>, offset: u32, len: u32) -> Self {
        // INVARIANT: the caller vouches for them.
        Self {
            skb,
            offset,
            len,
            _skb: PhantomData,
        }
    }

    /// Number of octets.
    pub(crate) fn len(&self) -> usize {
        // CAST: 32 bits fit.
        self.len as usize
    }

    /// The place in the buffer of `len` octets from `at` on, as C's arguments.
    fn range(&self, at: usize, len: usize) -> Result<(c_int, c_int)> {
        let at = u32::try_from(at)?;
        let len = u32::try_from(len)?;
        if at.checked_add(len).ok_or(EINVAL)? > self.len {
            return Err(EINVAL);
        }
        let offset = self.offset.checked_add(at).ok_or(EINVAL)?;
        Ok((c_int::try_from(offset)?, c_int::try_from(len)?))
    }

    /// Copies octets from `at` on into `to`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the chunk is too short, `EFAULT` if its memory is not readable.
    #[inline]
    pub(crate) fn copy_to(&self, at: usize, to: &mut [u8]) -> Result {
        let (offset, len) = self.range(at, to.len())?;
        // SAFETY: by the type invariants the range lies in the buffer; `to` has room for it.
        to_result(unsafe {
            b::skb_copy_bits(self.skb.as_ptr(), offset, to.as_mut_ptr().cast(), len)
        })
    }

    /// Fills `to` with octets from `at` on.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the chunk is too short, `EFAULT` if its memory is not readable, `EACCES` if `to`
    /// is not to be written.
    #[inline]
    pub(crate) fn copy_to_page(&self, at: usize, to: &PageSlice<'_>) -> Result {
        // CAST: 32 bits fit.
        let (offset, len) = self.range(at, to.len() as usize)?;
        let to = to.as_mut_ptr()?;
        // SAFETY: by the type invariants the range lies in the buffer; the slice's address is
        // good for raw copies of its length.
        to_result(unsafe { b::skb_copy_bits(self.skb.as_ptr(), offset, to.cast(), len) })
    }

    /// Continues the CRC32C `crc` over `len` octets from `at` on.
    ///
    /// The register is as `crc32c()` takes it: `!0` to start, inverted once at the end.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the chunk is too short.
    #[inline]
    pub(crate) fn crc32c(&self, at: usize, len: usize, crc: u32) -> Result<u32> {
        let (offset, len) = self.range(at, len)?;
        // SAFETY: by the type invariants the range lies in the buffer.
        Ok(unsafe { b::skb_crc32c(self.skb.as_ptr(), offset, len, crc) })
    }
}
