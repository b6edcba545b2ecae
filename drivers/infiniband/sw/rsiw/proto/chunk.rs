// SPDX-License-Identifier: GPL-2.0

//! Received octets, and where a complete FPDU lies in them. Any context, under the receive lock.
#![forbid(unsafe_code)]

use super::rx::FRONT_LEN;
use crate::wire::fpdu::{
    Crc,
    CRC_LEN,
    LEN_FIELD, //
};
use crate::wire::Short;

/// Octets at the front of an FPDU that are enough for most: see [`FRONT_LEN`].
pub(crate) const FPDU_FRONT: usize = LEN_FIELD + FRONT_LEN;

/// A run of received octets, which need not lie in one piece.
pub(crate) trait Chunk {
    fn len(&self) -> usize;

    /// Returns how many octets there are from `at` on.
    #[inline]
    fn left(&self, at: usize) -> usize {
        self.len().saturating_sub(at)
    }

    /// Fills `to` with the octets from `at` on. Fails if they are too few or cannot be read.
    fn copy_to(&self, at: usize, to: &mut [u8]) -> Result<(), Short>;

    /// Returns the octets from `at` on, as [`Chunk::copy_to`] copies them, if there are as many.
    #[inline]
    fn front(&self, at: usize) -> Option<[u8; FPDU_FRONT]> {
        let mut front = [0; FPDU_FRONT];
        self.copy_to(at, &mut front).ok()?;
        Some(front)
    }

    /// Asks for `len` octets from `at` on, of which only some belong to the chunk; the chunks
    /// behind it begin with the others. After [`Reach::Here`] these can be read as well.
    fn reach(&self, at: usize, len: usize) -> Reach;

    /// Continues `crc` over `len` octets from `at` on. Fails if there are not as many.
    fn crc(&self, at: usize, len: usize, crc: Crc) -> Result<Crc, Short>;

    /// Continues the CRC32c `crc` over octets in one piece.
    fn crc32c(crc: u32, octets: &[u8]) -> u32;
}

/// Where the octets behind a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// They can be read like those of the chunk.
    Here,
    /// They have not come yet, and can come while those in front of them stay where they are.
    Later,
    /// They are in other chunks only, or may not come before those in front of them are taken.
    Apart,
}

/// Where a complete FPDU is.
#[derive(Debug)]
pub(crate) enum Source<'a, C> {
    /// In a chunk, and perhaps the buffers behind it.
    Chunk {
        chunk: &'a C,
        /// Where the FPDU begins in the chunk.
        at: usize,
    },
    /// In the buffer of the deframer.
    Bytes(&'a [u8]),
}

/// The payload of an FPDU.
#[derive(Debug)]
pub(crate) struct Payload<'a, C> {
    pub(crate) source: &'a Source<'a, C>,
    /// Where the payload begins in the FPDU.
    pub(crate) at: usize,
    pub(crate) len: u32,
}

impl<C: Chunk> Source<'_, C> {
    /// Fills `out` with the octets of the FPDU from `at` on. Fails if there are not as many.
    pub(crate) fn copy_to(&self, at: usize, out: &mut [u8]) -> Result<(), Short> {
        match self {
            Source::Chunk { chunk, at: base } => {
                chunk.copy_to(base.checked_add(at).ok_or(Short)?, out)
            }
            Source::Bytes(bytes) => {
                let end = at.checked_add(out.len()).ok_or(Short)?;
                out.copy_from_slice(bytes.get(at..end).ok_or(Short)?);
                Ok(())
            }
        }
    }

    /// Returns whether the CRC behind the first `len` octets is theirs. Fails if there are fewer.
    pub(super) fn has_crc(&self, len: usize) -> Result<bool, Short> {
        let crc = match self {
            Source::Chunk { chunk, at } => chunk.crc(*at, len, Crc::new())?,
            Source::Bytes(bytes) => Crc::new().update(C::crc32c, bytes.get(..len).ok_or(Short)?),
        };
        let mut wire = [0; CRC_LEN];
        self.copy_to(len, &mut wire)?;
        Ok(crc.matches(wire))
    }
}
