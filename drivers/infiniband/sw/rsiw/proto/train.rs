// SPDX-License-Identifier: GPL-2.0

//! Trains: FPDUs of one message that follow each other in a chunk, as long as the one before and
//! not the last, as most FPDUs of a long message do (RFC 5041 section 5.2, RFC 5044 section 5.2).
//!
//! Their memory is looked up, and its rights are checked, once for a train. Each FPDU is still
//! checked before its payload is placed, CRC included (T-8). The train ends in front of the first
//! FPDU that is not as expected, which the receiver takes in by itself, with all checks. Softirq or
//! process context, under the receive lock.
#![forbid(unsafe_code)]

use super::budget::Budget;
use super::chunk::{
    Chunk,
    Source,
    FPDU_FRONT, //
};
use super::rx::Run;
use crate::wire::fpdu::{
    covered_len,
    fpdu_len, //
};
use core::num::Wrapping;

/// A train, some FPDUs of which are taken in.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) fpdus: u32,
    pub(super) octets: usize,
    pub(super) payload: u32,
    /// Where the last one begins in the chunk.
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
        self.left.wrapping_mul(self.payload)
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

    /// Takes in the next FPDU, if it is as expected. Returns where its payload begins in the chunk;
    /// it is to be placed behind those before.
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
        // The chunk has that many FPDUs.
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
    pub(super) fn end(self) -> Taken {
        Taken {
            fpdus: self.taken.0,
            // CAST: no more than the chunk has.
            octets: (self.taken.0 as usize).wrapping_mul(self.len),
            payload: (self.taken * Wrapping(self.payload)).0,
            last_at: self.last_at(),
        }
    }
}
