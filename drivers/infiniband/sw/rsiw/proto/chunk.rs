// SPDX-License-Identifier: GPL-2.0

//! Received octets, and where a complete FPDU lies in them.
//!
//! Any context, under the receive lock.
#![forbid(unsafe_code)]

use super::deframer::ByteSource;
use super::rx::FRONT_LEN;
use crate::wire::fpdu::{
    Crc,
    CRC_LEN,
    LEN_FIELD, //
};
use crate::wire::Short;

/// Octets at the front of an FPDU, up to those of its ULPDU that mostly are enough.
pub(crate) const FPDU_FRONT: usize = LEN_FIELD + FRONT_LEN;

/// A run of received octets, which need not lie in one piece.
pub(crate) trait Chunk {
    /// Octets.
    fn len(&self) -> usize;

    /// Copies octets from `at` on into `to`.
    ///
    /// # Errors
    ///
    /// There are not that many, or they cannot be read.
    fn copy_to(&self, at: usize, to: &mut [u8]) -> Result<(), Short>;

    /// The octets from `at` on as [`Chunk::copy_to`] copies them, if there are as many.
    #[inline]
    fn front(&self, at: usize) -> Option<[u8; FPDU_FRONT]> {
        let mut front = [0; FPDU_FRONT];
        self.copy_to(at, &mut front).ok()?;
        Some(front)
    }

    /// Asks for `len` octets from `at` on of which only some belong to the chunk. With
    /// [`Reach::Here`] the others can be read as well from now on. They are those that the chunks
    /// behind this one begin with.
    fn reach(&self, at: usize, len: usize) -> Reach;

    /// Continues `crc` over `len` octets from `at` on.
    ///
    /// # Errors
    ///
    /// There are not that many.
    fn crc(&self, at: usize, len: usize, crc: Crc) -> Result<Crc, Short>;
}

/// Where octets are that lie behind those of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// They can be read as those of the chunk can.
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
        /// The chunk.
        chunk: &'a C,
        /// Where the FPDU begins there.
        at: usize,
    },
    /// In the staging buffer.
    Bytes(&'a [u8]),
}

/// The payload of an FPDU.
#[derive(Debug)]
pub(crate) struct Payload<'a, C> {
    /// Where the FPDU is.
    pub(crate) source: &'a Source<'a, C>,
    /// Where the payload begins in the FPDU.
    pub(crate) at: usize,
    /// Octets.
    pub(crate) len: u32,
}

impl<C: Chunk> Source<'_, C> {
    /// Copies octets of the FPDU from `at` on.
    ///
    /// # Errors
    ///
    /// There are not that many.
    pub(crate) fn copy_to(&self, at: usize, out: &mut [u8]) -> Result<(), Short> {
        match self {
            Source::Chunk { chunk, at: base } => {
                chunk.copy_to(base.checked_add(at).ok_or(Short)?, out)
            }
            Source::Bytes(bytes) => bytes.copy_to(at, out),
        }
    }

    /// Returns whether the field behind the first `len` octets is their CRC. `crc32c` computes it
    /// over octets in one piece.
    ///
    /// # Errors
    ///
    /// There are not that many.
    pub(super) fn has_crc(
        &self,
        len: usize,
        crc32c: impl Fn(u32, &[u8]) -> u32,
    ) -> Result<bool, Short> {
        let crc = self.crc(len, crc32c)?;
        let mut wire = [0; CRC_LEN];
        self.copy_to(len, &mut wire)?;
        Ok(crc.matches(wire))
    }

    fn crc(&self, len: usize, crc32c: impl Fn(u32, &[u8]) -> u32) -> Result<Crc, Short> {
        match self {
            Source::Chunk { chunk, at } => chunk.crc(*at, len, Crc::new()),
            Source::Bytes(bytes) => Ok(Crc::new().update(crc32c, bytes.get(..len).ok_or(Short)?)),
        }
    }
}

/// The rest of a chunk.
pub(super) struct Rest<'a, C> {
    chunk: &'a C,
    at: usize,
    len: usize,
    /// Its first octets, which are looked at more than once.
    front: [u8; FPDU_FRONT],
}

impl<'a, C: Chunk> Rest<'a, C> {
    /// What is behind octet `at` of `chunk`.
    ///
    /// # Errors
    ///
    /// The chunk ends in front of `at`, or cannot be read.
    pub(super) fn new(chunk: &'a C, at: usize) -> Result<Self, Short> {
        let mut rest = Self {
            chunk,
            at,
            len: chunk.len().checked_sub(at).ok_or(Short)?,
            front: [0; FPDU_FRONT],
        };
        let len = rest.len.min(FPDU_FRONT);
        if len == FPDU_FRONT {
            rest.front = chunk.front(at).ok_or(Short)?;
        } else if let Some(front) = rest.front.get_mut(..len).filter(|front| !front.is_empty()) {
            chunk.copy_to(at, front)?;
        }
        Ok(rest)
    }

    /// The first octets of the FPDU that begins here.
    pub(super) fn front(&self) -> &[u8] {
        &self.front
    }
}

impl<C: Chunk> ByteSource for Rest<'_, C> {
    fn len(&self) -> usize {
        self.len
    }

    fn copy_to(&self, offset: usize, out: &mut [u8]) -> Result<(), Short> {
        let end = offset.checked_add(out.len()).ok_or(Short)?;
        if end > self.len() {
            return Err(Short);
        }
        if let Some(front) = self.front.get(offset..end) {
            out.copy_from_slice(front);
            return Ok(());
        }
        let at = self.at.checked_add(offset).ok_or(Short)?;
        self.chunk.copy_to(at, out)
    }
}
