// SPDX-License-Identifier: GPL-2.0

//! What a receiver is given of the stream.

use super::crc::crc32c;
use crate::proto::deframer::{Chunk, Payload, Reach, Source};
use crate::wire::fpdu::Crc;
use crate::wire::Short;
use std::cell::Cell;

/// A piece of the stream.
pub(crate) struct Piece<'a> {
    /// Its octets, and those behind it.
    octets: &'a [u8],
    len: usize,
    /// Octets that can be read.
    reach: Cell<usize>,
    /// What those that are not there come to.
    missing: Reach,
}

impl<'a> Piece<'a> {
    /// All of `octets`.
    pub(crate) fn all(octets: &'a [u8]) -> Self {
        Self::front(octets, octets.len(), Reach::Apart)
    }

    /// The first `len` of `octets`, of which the others are behind it. Those that are not there are
    /// `missing`.
    pub(crate) fn front(octets: &'a [u8], len: usize, missing: Reach) -> Self {
        let reach = Cell::new(len);
        Self {
            octets,
            len,
            reach,
            missing,
        }
    }

    fn get(&self, at: usize, len: usize) -> Result<&[u8], Short> {
        let end = at.checked_add(len).ok_or(Short)?;
        self.octets[..self.reach.get()].get(at..end).ok_or(Short)
    }
}

impl Chunk for Piece<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) -> Result<(), Short> {
        to.copy_from_slice(self.get(at, to.len())?);
        Ok(())
    }

    fn reach(&self, at: usize, len: usize) -> Reach {
        if at + len > self.octets.len() {
            return self.missing;
        }
        self.reach.set(self.reach.get().max(at + len));
        Reach::Here
    }

    fn crc(&self, at: usize, len: usize, crc: Crc) -> Result<Crc, Short> {
        Ok(crc.update(crc32c, self.get(at, len)?))
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }
}

/// The octets of a payload.
pub(crate) fn octets<'a>(payload: &'a Payload<'_, Piece<'_>>) -> &'a [u8] {
    let len = payload.len as usize;
    match payload.source {
        Source::Chunk { chunk, at } => chunk.get(at + payload.at, len).unwrap(),
        Source::Bytes(bytes) => &bytes[payload.at..][..len],
    }
}
