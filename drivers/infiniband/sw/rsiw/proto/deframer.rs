// SPDX-License-Identifier: GPL-2.0

//! Finds FPDUs in the received stream, however it is cut (RFC 5044 sections 4.1 and 5.2).
//!
//! The stream comes in chunks: TCP has what was received in buffers. An FPDU that lies whole in a
//! chunk is used where it is, and so is one that ends in chunks behind, if those can be read. An
//! FPDU of which the rest is still to come stays in TCP until then. Where neither can be, its octets
//! are collected in a buffer.
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

use super::chunk::{
    Chunk,
    Reach,
    Source,
    FPDU_FRONT, //
};
use super::failure::Failure;
use crate::wire::ddp;
use crate::wire::fpdu::{
    covered_len,
    fpdu_len,
    CRC_LEN,
    LEN_FIELD, //
};
use crate::wire::terminate::TermError;
use crate::wire::Short;
use core::num::Saturating;
use core::ops::DerefMut;

/// A complete FPDU.
#[derive(Debug)]
pub(crate) struct Fpdu<'a, C> {
    /// Where its octets are.
    pub(crate) source: Source<'a, C>,
    /// The first of them.
    pub(crate) front: [u8; FPDU_FRONT],
    /// Its ULPDU_Length. The ULPDU begins 2 octets into the FPDU.
    pub(crate) ulpdu_len: u16,
    /// Octets of all of it: length field, ULPDU, pad and CRC.
    pub(crate) len: usize,
}

// No FPDU is shorter than the front.
const _: () = assert!(FPDU_FRONT <= LEN_FIELD + ddp::TAGGED_LEN + CRC_LEN);

impl<'a, C: Chunk> Fpdu<'a, C> {
    /// The FPDU at `source`, which begins with `front`.
    ///
    /// # Errors
    ///
    /// It is too short for any DDP header. The stream is of no use after that.
    #[inline(always)]
    fn new(source: Source<'a, C>, front: [u8; FPDU_FRONT]) -> Result<Self, TermError> {
        let [hi, lo, ..] = front;
        let ulpdu_len = ulpdu_len([hi, lo])?;
        Ok(Self {
            source,
            front,
            ulpdu_len,
            len: fpdu_len(ulpdu_len),
        })
    }

    /// Returns whether its CRC is right. That is to be known before anything else is made of the
    /// FPDU (T-8).
    ///
    /// # Errors
    ///
    /// There are fewer octets than its length says.
    #[inline]
    pub(super) fn has_crc(&self) -> Result<bool, Short> {
        self.source.has_crc(covered_len(self.ulpdu_len))
    }

    /// The first octets of its ULPDU.
    #[inline(always)]
    pub(super) fn head(&self) -> &[u8] {
        let (_, head) = self
            .front
            .split_first_chunk::<LEN_FIELD>()
            .unwrap_or((&[0; LEN_FIELD], &[]));
        head.get(..self.ulpdu_len.into()).unwrap_or(head)
    }
}

/// The length of the ULPDU behind a length field.
///
/// # Errors
///
/// As [`Fpdu::new`].
#[inline(always)]
fn ulpdu_len(field: [u8; LEN_FIELD]) -> Result<u16, TermError> {
    let len = u16::from_be_bytes(field);
    match usize::from(len) < ddp::TAGGED_LEN {
        true => Err(TermError::MpaFpdu),
        false => Ok(len),
    }
}

/// What there is in the stream.
#[derive(Debug)]
pub(crate) enum Next<'a, C> {
    /// An FPDU that may be used where it is: see [`Deframer::use_up`].
    Fpdu(Fpdu<'a, C>),
    /// So many octets of the chunk, at least one, were collected in the buffer.
    Collected(usize),
    /// Nothing: the chunk is used up, or what is left of it has to wait.
    Nothing,
}

/// The state between chunks; `B` is the buffer.
#[derive(Debug)]
pub(crate) struct Deframer<B> {
    /// Collects an FPDU. It is made when the first one needs it.
    buffer: Option<B>,
    wants_buffer: bool,
    /// Octets of an FPDU that are in the buffer.
    have: usize,
    /// Octets that the next chunks begin with and that were used already.
    ahead: Saturating<usize>,
}

impl<B: DerefMut<Target = [u8]>> Deframer<B> {
    /// Nothing received yet.
    pub(crate) const fn new() -> Self {
        Self {
            buffer: None,
            wants_buffer: false,
            have: 0,
            ahead: Saturating(0),
        }
    }

    /// Begins another turn. What was lacking in the one before may not be lacking any more.
    pub(crate) fn begin(&mut self) {
        self.wants_buffer = false;
    }

    /// Whether an FPDU that is not used yet is in the buffer, or a part of one. If there is when the
    /// peer's FIN arrives, the stream was cut.
    #[inline]
    pub(crate) const fn is_collecting(&self) -> bool {
        self.have != 0
    }

    /// Whether a buffer has to be given.
    pub(crate) const fn wants_buffer(&self) -> bool {
        self.wants_buffer && self.buffer.is_none()
    }

    /// Gives the buffer, of [`MAX_FPDU`](crate::wire::fpdu::MAX_FPDU) octets.
    pub(crate) fn set_buffer(&mut self, buffer: B) {
        self.buffer = Some(buffer);
    }

    /// Returns how many of the `len` octets of a chunk were used with those before it.
    #[inline]
    pub(crate) fn skip(&mut self, len: usize) -> usize {
        let skip = self.ahead.0.min(len);
        self.ahead -= skip;
        skip
    }

    /// Looks for what begins at octet `at` of a chunk. The FPDU in the buffer is to be used before,
    /// if it is complete: see [`Deframer::take_collected`].
    ///
    /// # Errors
    ///
    /// An FPDU is too short, or the stream cannot be read.
    #[inline]
    pub(crate) fn next<'a, C: Chunk>(
        &mut self,
        chunk: &'a C,
        at: usize,
    ) -> Result<Next<'a, C>, Failure> {
        let left = chunk.left(at);
        if self.have == 0 && left >= FPDU_FRONT {
            if let Some(front) = chunk.front(at) {
                let fpdu = Fpdu::new(Source::Chunk { chunk, at }, front)?;
                if fpdu.len <= left {
                    return Ok(Next::Fpdu(fpdu));
                }
            }
        }
        self.next_apart(chunk, at, left)
    }

    /// As [`Deframer::next`], for an FPDU that does not end in the `left` octets of the chunk, or
    /// that begins in the buffer.
    #[inline(never)]
    fn next_apart<'a, C: Chunk>(
        &mut self,
        chunk: &'a C,
        at: usize,
        left: usize,
    ) -> Result<Next<'a, C>, Failure> {
        let fault = || Failure::defect("the stream cannot be read");
        if left == 0 {
            return Ok(Next::Nothing);
        }
        if self.have == 0 {
            let mut reach = chunk.reach(at, LEN_FIELD);
            if reach == Reach::Here {
                // The peer is told at once of a length that no FPDU has: no more octets may come.
                let mut field = [0; LEN_FIELD];
                chunk.copy_to(at, &mut field).map_err(|_| fault())?;
                reach = chunk.reach(at, fpdu_len(ulpdu_len(field)?));
            }
            match reach {
                Reach::Here => {
                    let front = chunk.front(at).ok_or_else(fault)?;
                    let fpdu = Fpdu::new(Source::Chunk { chunk, at }, front)?;
                    return Ok(Next::Fpdu(fpdu));
                }
                Reach::Later => return Ok(Next::Nothing),
                Reach::Apart => {}
            }
        }
        let Some(buffer) = &mut self.buffer else {
            // A buffer of this size is not to be had in softirq.
            self.wants_buffer = true;
            return Ok(Next::Nothing);
        };
        let end = total(buffer, self.have)?;
        let to = buffer.get_mut(self.have..end).ok_or_else(too_small)?;
        let n = to.len().min(left);
        let to = to.get_mut(..n).ok_or_else(too_small)?;
        chunk.copy_to(at, to).map_err(|_| fault())?;
        self.have = self.have.checked_add(n).ok_or_else(too_small)?;
        total(buffer, self.have)?;
        Ok(Next::Collected(n))
    }

    /// Notes that an FPDU of `len` octets is used, of which the chunk has `left` at most. Returns
    /// how many of them are the chunk's.
    #[inline]
    pub(crate) fn use_up(&mut self, len: usize, left: usize) -> usize {
        let used = len.min(left);
        self.ahead = Saturating(len) - Saturating(used);
        used
    }

    /// Takes the buffer, if there is a complete FPDU in it: see [`collected`]. It has to be given
    /// back by [`Deframer::give_back`].
    pub(crate) fn take_collected(&mut self) -> Option<B> {
        let have = self.have;
        let is_complete = |buffer: &mut B| total(buffer, have) == Ok(have);
        self.buffer.take_if(is_complete)
    }

    /// Gives back the buffer. Its FPDU stays there unless it `is_used`.
    pub(crate) fn give_back(&mut self, buffer: B, is_used: bool) {
        self.buffer = Some(buffer);
        if is_used {
            self.have = 0;
        }
    }
}

/// The FPDU in the buffer that [`Deframer::take_collected`] has returned.
///
/// # Errors
///
/// The buffer has become too small.
pub(crate) fn collected<C: Chunk>(buffer: &[u8]) -> Result<Fpdu<'_, C>, Failure> {
    let front = buffer.first_chunk().ok_or_else(too_small)?;
    let fpdu = Fpdu::new(Source::Bytes(buffer), *front)?;
    let bytes = buffer.get(..fpdu.len).ok_or_else(too_small)?;
    Ok(Fpdu {
        source: Source::Bytes(bytes),
        ..fpdu
    })
}

/// Octets to collect in `buffer`, which has `have` of them: the length field, then what that says.
///
/// # Errors
///
/// As [`Fpdu::new`].
fn total(buffer: &[u8], have: usize) -> Result<usize, TermError> {
    match buffer.first_chunk().filter(|_| have >= LEN_FIELD) {
        Some(field) => ulpdu_len(*field).map(fpdu_len),
        None => Ok(LEN_FIELD),
    }
}

/// A buffer is smaller than an FPDU may be.
fn too_small() -> Failure {
    Failure::defect("an FPDU does not fit its buffer")
}
