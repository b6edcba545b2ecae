// SPDX-License-Identifier: GPL-2.0

//! Finds FPDUs in the received stream, however it is cut (RFC 5044 sections 4.1 and 5.2). Softirq
//! or process context, under the receive lock.
//!
//! The stream comes in chunks: TCP has what was received in buffers. An FPDU that lies whole in a
//! chunk is used where it is, and so is one that ends in chunks behind, if those can be read. An
//! FPDU of which the rest is still to come stays in TCP until then. Where neither is possible, its
//! octets are collected in a buffer.
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

#[derive(Debug)]
pub(crate) struct Fpdu<'a, C> {
    pub(crate) source: Source<'a, C>,
    pub(crate) front: [u8; FPDU_FRONT],
    pub(crate) ulpdu_len: u16,
    /// Octets of all of it: length field, ULPDU, pad and CRC.
    pub(crate) len: usize,
}

// No FPDU is shorter than the front.
const _: () = assert!(FPDU_FRONT <= LEN_FIELD + ddp::TAGGED_LEN + CRC_LEN);

impl<'a, C: Chunk> Fpdu<'a, C> {
    /// Makes the FPDU at `source`, which begins with `front`. Fails if it is too short for any DDP
    /// header; the stream is of no use after that.
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

    /// Returns whether its CRC is right, which has to be known before anything else is made of the
    /// FPDU (T-8). Fails if there are fewer octets than its length says.
    #[inline]
    pub(super) fn has_crc(&self) -> Result<bool, Short> {
        self.source.has_crc(covered_len(self.ulpdu_len))
    }

    /// Returns the first octets of its ULPDU.
    #[inline(always)]
    pub(super) fn head(&self) -> &[u8] {
        let (_, head) = self
            .front
            .split_first_chunk::<LEN_FIELD>()
            .unwrap_or((&[0; LEN_FIELD], &[]));
        head.get(..self.ulpdu_len.into()).unwrap_or(head)
    }
}

/// Returns the length of an ULPDU from its length field. Fails as [`Fpdu::new`] does.
#[inline(always)]
fn ulpdu_len(field: [u8; LEN_FIELD]) -> Result<u16, TermError> {
    let len = u16::from_be_bytes(field);
    match usize::from(len) < ddp::TAGGED_LEN {
        true => Err(TermError::MpaFpdu),
        false => Ok(len),
    }
}

/// What [`Deframer::next`] finds.
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
    /// Made when the first FPDU needs it.
    buffer: Option<B>,
    wants_buffer: bool,
    /// Octets of an FPDU that are in the buffer.
    have: usize,
    /// Octets that the next chunks begin with and that are used already.
    ahead: Saturating<usize>,
}

impl<B: DerefMut<Target = [u8]>> Deframer<B> {
    pub(crate) const fn new() -> Self {
        Self {
            buffer: None,
            wants_buffer: false,
            have: 0,
            ahead: Saturating(0),
        }
    }

    /// Begins another turn, in which a buffer may no longer be lacking.
    pub(crate) fn begin(&mut self) {
        self.wants_buffer = false;
    }

    /// Returns whether the buffer has an FPDU that is not used yet, or a part of one. If it has
    /// when the peer's FIN arrives, the stream was cut.
    #[inline]
    pub(crate) const fn is_collecting(&self) -> bool {
        self.have != 0
    }

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

    /// Looks for what begins at octet `at` of a chunk. An FPDU that is complete in the buffer is to
    /// be used before: see [`Deframer::take_collected`]. Fails if an FPDU is too short or the
    /// stream cannot be read.
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

    /// As [`Deframer::next`], for an FPDU that begins in the buffer or does not end in the chunk,
    /// of which `left` octets are left.
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
                // The peer is told of a wrong length at once: no more octets may come.
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
            // Softirq cannot allocate a buffer of this size.
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

    /// Marks an FPDU of `len` octets as used. Returns how many of them are the chunk's, which has
    /// `left` at most.
    #[inline]
    pub(crate) fn use_up(&mut self, len: usize, left: usize) -> usize {
        let used = len.min(left);
        self.ahead = Saturating(len) - Saturating(used);
        used
    }

    /// Takes the buffer if the FPDU in it is complete: see [`collected`]. It has to be given back
    /// by [`Deframer::give_back`].
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

/// Returns the FPDU in the buffer of [`Deframer::take_collected`]. Fails if that is too small.
pub(crate) fn collected<C: Chunk>(buffer: &[u8]) -> Result<Fpdu<'_, C>, Failure> {
    let front = buffer.first_chunk().ok_or_else(too_small)?;
    let fpdu = Fpdu::new(Source::Bytes(buffer), *front)?;
    let bytes = buffer.get(..fpdu.len).ok_or_else(too_small)?;
    Ok(Fpdu {
        source: Source::Bytes(bytes),
        ..fpdu
    })
}

/// Returns how many octets to collect in `buffer`, which has `have` of them: the length field, then
/// what that says. Fails as [`Fpdu::new`] does.
fn total(buffer: &[u8], have: usize) -> Result<usize, TermError> {
    match buffer.first_chunk().filter(|_| have >= LEN_FIELD) {
        Some(field) => ulpdu_len(*field).map(fpdu_len),
        None => Ok(LEN_FIELD),
    }
}

fn too_small() -> Failure {
    Failure::defect("an FPDU does not fit its buffer")
}
