// SPDX-License-Identifier: GPL-2.0

//! Finds FPDUs in the received stream, however it is cut (RFC 5044 sections 4.1 and 5.2). Softirq
//! or process context, under the receive lock.
//!
//! The stream comes in chunks, the buffers in which TCP has received octets. An FPDU that lies
//! whole in a chunk is used where it is. So is an FPDU that ends in a later chunk, if that can be
//! read by now. An FPDU of which the rest is still to come stays in TCP until then. Where neither
//! is possible, the octets of the FPDU are collected in a buffer.
//!
//! A [`Train`] is a row of FPDUs of one message that follow each other in a chunk. Each is as long
//! as the FPDU before it and is not the last of its message, like most FPDUs of a long message (RFC
//! 5041 section 5.2). Their memory is looked up, and its rights are checked, once for a train. Each
//! FPDU is still checked, CRC included, before its payload is placed (T-8). The train ends in front
//! of the first FPDU that is not as expected; the receiver takes in that FPDU by itself, with all
//! checks.
//!
//! A [`Budget`] says how much is received at a time; sizes are in [`tuning`](super::tuning). Octets
//! alone are no measure: an FPDU without payload takes as long as hundreds of octets, and so does
//! each piece of memory that a payload is spread over. What is left when a budget is spent is for
//! the work item. An FPDU that was begun is finished: it is at most 64 KiB long, and has at most as
//! many pieces as a receive has elements and their regions have extents.
#![forbid(unsafe_code)]

use super::failure::Failure;
use super::segment::{
    Run,
    FRONT_LEN, //
};
use crate::num::{
    Broken,
    Length, //
};
use crate::wire::ddp;
use crate::wire::fpdu::{
    covered_len,
    fpdu_len,
    Crc,
    CRC_LEN,
    LEN_FIELD, //
};
use crate::wire::terminate::TermError;
use core::num::{
    Saturating,
    Wrapping, //
};
use core::ops::DerefMut;

#[derive(Debug)]
pub(crate) struct Fpdu<'a, C> {
    pub(crate) source: Source<'a, C>,
    pub(crate) front: [u8; FPDU_FRONT],
    pub(crate) ulpdu_len: u16,
    /// Octets of the whole FPDU: length field, ULPDU, pad and CRC.
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

    /// Returns whether the CRC is right, which has to be known before the FPDU is used for anything
    /// (T-8). Fails if there are fewer octets than its length says.
    #[inline]
    pub(super) fn has_crc(&self) -> Result<bool, Broken> {
        self.source.has_crc(covered_len(self.ulpdu_len))
    }

    /// Returns the first octets of the ULPDU.
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

/// What [`Deframer::apart`] finds.
#[derive(Debug)]
pub(crate) enum Next<'a, C> {
    /// An FPDU that may be used where it is: see [`Deframer::use_up`].
    Fpdu(Fpdu<'a, C>),
    /// This many octets of the chunk, at least one, were collected in the buffer.
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
    /// Octets at the beginning of the next chunks that are used already.
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

    /// Begins another turn, in which nothing has asked for a buffer yet.
    pub(crate) fn begin(&mut self) {
        self.wants_buffer = false;
    }

    /// Returns whether the buffer has an FPDU that is not used yet, or a part of one. If so when
    /// the peer's FIN arrives, the stream was cut.
    #[inline]
    pub(crate) const fn is_collecting(&self) -> bool {
        self.have != 0
    }

    pub(crate) const fn wants_buffer(&self) -> bool {
        self.wants_buffer && self.buffer.is_none()
    }

    /// Sets the buffer for octets that are collected, of [`MAX_FPDU`](crate::wire::fpdu::MAX_FPDU)
    /// octets.
    pub(crate) fn set_buffer(&mut self, buffer: B) {
        self.buffer = Some(buffer);
    }

    /// Returns how many of the `len` octets of a chunk were used already, together with the chunks
    /// before it.
    #[inline]
    pub(crate) fn skip(&mut self, len: usize) -> usize {
        let skip = self.ahead.0.min(len);
        self.ahead -= skip;
        skip
    }

    /// Returns the FPDU that begins at octet `at` of a chunk, if all of it is there. An FPDU that
    /// is complete in the buffer has to be used first: see [`Deframer::collected`]. Fails if it is
    /// too short.
    #[inline(always)]
    pub(crate) fn whole<'a, C: Chunk>(
        &self,
        chunk: &'a C,
        at: usize,
    ) -> Option<Result<Fpdu<'a, C>, TermError>> {
        let left = chunk.left(at);
        if self.have != 0 || left < FPDU_FRONT {
            return None;
        }
        match Fpdu::new(Source::Chunk { chunk, at }, chunk.front(at)?) {
            Ok(fpdu) if fpdu.len > left => None,
            fpdu => Some(fpdu),
        }
    }

    /// Looks for what begins at octet `at` of a chunk where [`Deframer::whole`] finds nothing: an
    /// FPDU that begins in the buffer, or does not end in the chunk. Fails if it is too short, or
    /// the stream cannot be read.
    #[inline(never)]
    pub(crate) fn apart<'a, C: Chunk>(
        &mut self,
        chunk: &'a C,
        at: usize,
    ) -> Result<Next<'a, C>, Failure> {
        let fault = || Failure::defect("the stream cannot be read");
        let left = chunk.left(at);
        if left == 0 {
            return Ok(Next::Nothing);
        }
        if self.have == 0 {
            let mut reach = chunk.reach(at, LEN_FIELD);
            if reach == Reach::Here {
                // A wrong length is found before the rest is there: perhaps no more octets come.
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
        self.have = self.have.try_add(n)?;
        total(buffer, self.have)?;
        Ok(Next::Collected(n))
    }

    /// Marks an FPDU of `len` octets as used. It begins in the chunk, which has `left` octets from
    /// there on. Returns how many octets of the FPDU are in the chunk.
    #[inline]
    pub(crate) fn use_up(&mut self, len: usize, left: usize) -> usize {
        let used = len.min(left);
        self.ahead = Saturating(len) - Saturating(used);
        used
    }

    /// Returns the FPDU in the buffer, if it is complete. Fails if the buffer is too small.
    pub(crate) fn collected<C: Chunk>(&self) -> Result<Option<Fpdu<'_, C>>, Failure> {
        let is_complete = |buffer: &&B| total(buffer, self.have) == Ok(self.have);
        let Some(buffer) = self.buffer.as_ref().filter(is_complete) else {
            return Ok(None);
        };
        let front = buffer.first_chunk().ok_or_else(too_small)?;
        let fpdu = Fpdu::new(Source::Bytes(buffer), *front)?;
        let bytes = buffer.get(..fpdu.len).ok_or_else(too_small)?;
        Ok(Some(Fpdu {
            source: Source::Bytes(bytes),
            ..fpdu
        }))
    }

    /// Marks the FPDU in the buffer as used. Its octets stay there until others are collected.
    pub(crate) fn use_up_collected(&mut self) {
        self.have = 0;
    }

    /// Returns the octets of the buffer.
    pub(crate) fn buffer(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or(&[])
    }
}

/// Returns how many octets to collect in `buffer`, which has `have` of them: those of the length
/// field, then as many as the field says. Fails as [`Fpdu::new`] does.
fn total(buffer: &[u8], have: usize) -> Result<usize, TermError> {
    match buffer.first_chunk().filter(|_| have >= LEN_FIELD) {
        Some(field) => ulpdu_len(*field).map(fpdu_len),
        None => Ok(LEN_FIELD),
    }
}

fn too_small() -> Failure {
    Failure::defect("an FPDU does not fit its buffer")
}

/// A train of which some FPDUs may be taken in already.
pub(crate) struct Train<'a, C> {
    chunk: &'a C,
    run: &'a mut Run,
    budget: &'a mut Budget,
    crc: bool,
    /// Where the next FPDU begins in the chunk.
    at: Wrapping<usize>,
    /// Octets of each FPDU.
    len: usize,
    /// Octets of an FPDU in front of its CRC.
    covered: usize,
    /// Octets of an FPDU in front of its payload.
    header: usize,
    payload: u32,
    /// FPDUs that may still follow.
    left: u32,
    taken: Wrapping<u32>,
}

/// How much of a train was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(super) fpdus: u32,
    pub(super) octets: usize,
    pub(super) payload: u32,
    /// Where the last of these FPDUs begins in the chunk.
    pub(super) last_at: usize,
}

impl<'a, C: Chunk> Train<'a, C> {
    /// Begins a train with the FPDUs from octet `at` of `chunk` on that go on as `run` says, with
    /// at most `room` octets of payload.
    #[inline]
    pub(super) fn new(
        chunk: &'a C,
        at: usize,
        run: &'a mut Run,
        room: u32,
        budget: &'a mut Budget,
        crc: bool,
    ) -> Self {
        let (len, payload) = (fpdu_len(run.ulpdu_len()), run.payload_len().into());
        let rest = chunk.left(at);
        let there = u32::try_from(rest.checked_div(len).unwrap_or(0)).unwrap_or(u32::MAX);
        Self {
            chunk,
            budget,
            crc,
            at: Wrapping(at),
            len,
            covered: covered_len(run.ulpdu_len()),
            header: run.front_len(),
            payload,
            left: there.min(room.checked_div(payload).unwrap_or(0)),
            taken: Wrapping(0),
            run,
        }
    }

    pub(crate) fn chunk(&self) -> &'a C {
        self.chunk
    }

    pub(crate) fn payload_len(&self) -> u32 {
        self.payload
    }

    /// Returns how many octets of payload may still follow.
    pub(crate) fn limit(&self) -> u32 {
        // `left` is some room divided by `payload`, so this is no more than that room.
        (Wrapping(self.left) * Wrapping(self.payload)).0
    }

    /// Lets at most `limit` octets of payload follow.
    #[inline]
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.left = self.left.min(limit.checked_div(self.payload).unwrap_or(0));
    }

    /// Counts a piece of memory that payload is placed in.
    #[inline]
    pub(crate) fn count_piece(&mut self) {
        self.budget.piece();
    }

    /// Takes in the next FPDU, if it is as expected. Returns where its payload begins in the chunk.
    /// The payload is to be placed behind that of the FPDU before.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<usize> {
        let left = self.left.checked_sub(1)?;
        let at = self.at;
        let is_next = self.run.is_next(&self.chunk.front(at.0)?);
        if self.budget.is_spent() || !is_next || !self.is_right() || !self.run.advance() {
            return None;
        }
        self.left = left;
        self.taken += 1;
        // No overflow: `left` counts FPDUs that are in the chunk.
        self.at += self.len;
        self.budget.fpdu();
        self.budget.octets(self.len);
        Some((at + Wrapping(self.header)).0)
    }

    /// Returns whether the next FPDU has the right CRC or needs none.
    #[inline]
    fn is_right(&self) -> bool {
        let source = Source::Chunk {
            chunk: self.chunk,
            at: self.at.0,
        };
        !self.crc || source.has_crc(self.covered).unwrap_or(false)
    }

    #[inline]
    fn last_at(&self) -> usize {
        (self.at - Wrapping(self.len)).0
    }

    pub(crate) fn front(&self) -> Option<[u8; FPDU_FRONT]> {
        self.chunk.front(self.last_at())
    }

    #[inline]
    pub(crate) fn end(self) -> Taken {
        Taken {
            fpdus: self.taken.0,
            // CAST: no more than the chunk has.
            octets: (Wrapping(self.taken.0 as usize) * Wrapping(self.len)).0,
            payload: (self.taken * Wrapping(self.payload)).0,
            last_at: self.last_at(),
        }
    }
}

/// Octets at the front of an FPDU that are enough for most FPDUs: see [`FRONT_LEN`].
pub(crate) const FPDU_FRONT: usize = LEN_FIELD + FRONT_LEN;

/// Received octets, which need not lie in one piece.
pub(crate) trait Chunk {
    /// Whether a chunk is an FPDU that the other end of the connection, on this host, hands over.
    /// Nobody has to check the CRC of such an FPDU.
    const IS_HANDED_OVER: bool = false;

    fn len(&self) -> usize;

    /// Returns how many octets there are from `at` on.
    #[inline]
    fn left(&self, at: usize) -> usize {
        self.len().saturating_sub(at)
    }

    /// Fills `to` with the octets from `at` on. Fails if they are too few or cannot be read. Of an
    /// FPDU that is handed over only the headers are copied; what `to` has behind them means
    /// nothing.
    fn copy_to(&self, at: usize, to: &mut [u8]) -> Result<(), Broken>;

    /// Returns the octets from `at` on, as [`Chunk::copy_to`] copies them, if there are enough.
    #[inline]
    fn front(&self, at: usize) -> Option<[u8; FPDU_FRONT]> {
        let mut front = [0; FPDU_FRONT];
        self.copy_to(at, &mut front).ok()?;
        Some(front)
    }

    /// Asks for `len` octets from `at` on. The chunk has only some of them; the others are the
    /// first ones of the chunks behind it. After [`Reach::Here`] the others can be read as well.
    fn reach(&self, at: usize, len: usize) -> Reach;

    /// Continues `crc` over `len` octets from `at` on. Fails if there are fewer.
    fn crc(&self, at: usize, len: usize, crc: Crc) -> Result<Crc, Broken>;

    /// Continues the CRC32c `crc` over octets in one piece.
    fn crc32c(crc: u32, octets: &[u8]) -> u32;
}

/// Where the octets behind a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// They are there, and can be read like those of the chunk.
    Here,
    /// They have not come yet. They can still come if the octets of the chunk are left with TCP.
    Later,
    /// They cannot be read together with the chunk: they are in chunks that come later, or may not
    /// come at all as long as the octets of the chunk are left with TCP.
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
    pub(crate) source: Source<'a, C>,
    /// Where the payload begins in the FPDU.
    pub(crate) at: usize,
    pub(crate) len: u32,
    pub(super) budget: &'a mut Budget,
}

impl<C> Payload<'_, C> {
    /// Counts a piece of memory that payload is placed in.
    #[inline]
    pub(crate) fn count_piece(&mut self) {
        self.budget.piece();
    }
}

impl<C: Chunk> Source<'_, C> {
    /// Fills `out` with the octets of the FPDU from `at` on. Fails if there are too few.
    pub(crate) fn copy_to(&self, at: usize, out: &mut [u8]) -> Result<(), Broken> {
        match self {
            Source::Chunk { chunk, at: base } => chunk.copy_to(base.try_add(at)?, out),
            Source::Bytes(bytes) => {
                let end = at.try_add(out.len())?;
                out.copy_from_slice(bytes.get(at..end).ok_or(Broken)?);
                Ok(())
            }
        }
    }

    /// Returns whether the CRC behind the first `len` octets is right for them. Fails if there are
    /// fewer.
    pub(super) fn has_crc(&self, len: usize) -> Result<bool, Broken> {
        let crc = match self {
            Source::Chunk { chunk, at } => chunk.crc(*at, len, Crc::new())?,
            Source::Bytes(bytes) => Crc::new().update(C::crc32c, bytes.get(..len).ok_or(Broken)?),
        };
        let mut wire = [0; CRC_LEN];
        self.copy_to(len, &mut wire)?;
        Ok(crc.matches(wire))
    }
}

/// What an FPDU costs beside its octets.
const FPDU: usize = 512;
/// What a piece of memory costs beside its octets.
const PIECE: usize = 256;

/// How much may still be done: a number of octets, or other work that takes as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget(Saturating<usize>);

impl Budget {
    pub(crate) const NONE: Self = Self(Saturating(0));

    pub(crate) const fn new(octets: u32) -> Self {
        // CAST: 32 bits fit.
        Self(Saturating(octets as usize))
    }

    /// Returns whether nothing more may be begun.
    pub(crate) fn is_spent(self) -> bool {
        self.0 .0 == 0
    }

    /// Counts octets that are copied or dropped.
    pub(crate) fn octets(&mut self, n: usize) {
        self.0 -= n;
    }

    pub(crate) fn fpdu(&mut self) {
        self.octets(FPDU);
    }

    pub(crate) fn piece(&mut self) {
        self.octets(PIECE);
    }
}
