// SPDX-License-Identifier: GPL-2.0

//! What a receiver is given of the stream.

use super::crc::crc32c;
use crate::num::{Broken, Length};
use crate::proto::deframer::{Chunk, Deframer, Next, Payload, Reach, Source};
use crate::proto::failure::Failure;
use crate::wire::fpdu::{fpdu_len, Crc};
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

    fn get(&self, at: usize, len: usize) -> Result<&[u8], Broken> {
        let end = at.try_add(len)?;
        self.octets[..self.reach.get()].get(at..end).ok_or(Broken)
    }
}

impl Chunk for Piece<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) -> Result<(), Broken> {
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

    fn crc(&self, at: usize, len: usize, crc: Crc) -> Result<Crc, Broken> {
        Ok(crc.update(crc32c, self.get(at, len)?))
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }
}

/// What can be copied of a chunk beside headers.
pub(crate) trait Octets: Chunk {
    /// Fills `to` with the octets from `at` on.
    fn copy(&self, at: usize, to: &mut [u8]);
}

impl Octets for Piece<'_> {
    fn copy(&self, at: usize, to: &mut [u8]) {
        to.copy_from_slice(self.get(at, to.len()).expect("all is there"));
    }
}

/// An FPDU that the other end hands over: headers, and the payload, which is elsewhere.
pub(crate) struct Handed<'a> {
    pub(crate) front: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl Chunk for Handed<'_> {
    const IS_HANDED_OVER: bool = true;

    fn len(&self) -> usize {
        let field = self.front.first_chunk().expect("a length field");
        fpdu_len(u16::from_be_bytes(*field))
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) -> Result<(), Broken> {
        let headers = self.front.get(at..).ok_or(Broken)?;
        to.fill(0);
        for (to, from) in to.iter_mut().zip(headers) {
            *to = *from;
        }
        Ok(())
    }

    fn reach(&self, _: usize, _: usize) -> Reach {
        Reach::Apart
    }

    fn crc(&self, _: usize, _: usize, _: Crc) -> Result<Crc, Broken> {
        panic!("it has none");
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }
}

impl Octets for Handed<'_> {
    fn copy(&self, at: usize, to: &mut [u8]) {
        let at = at.checked_sub(self.front.len()).expect("no header");
        to.copy_from_slice(&self.payload[at..][..to.len()]);
    }
}

/// The octets of a payload.
pub(crate) fn octets<C: Octets>(payload: &Payload<'_, C>) -> Vec<u8> {
    let len = payload.len as usize;
    match payload.source {
        Source::Chunk { chunk, at } => {
            let mut octets = vec![0; len];
            chunk.copy(at + payload.at, &mut octets);
            octets
        }
        Source::Bytes(bytes) => bytes[payload.at..][..len].to_vec(),
    }
}

/// What a deframer finds at octet `at` of a chunk, asked as a receiver asks it.
pub(crate) fn next<'a, C: Chunk>(
    deframer: &mut Deframer<Vec<u8>>,
    chunk: &'a C,
    at: usize,
) -> Result<Next<'a, C>, Failure> {
    match deframer.whole(chunk, at) {
        Some(fpdu) => Ok(Next::Fpdu(fpdu?)),
        None => deframer.apart(chunk, at),
    }
}
