// SPDX-License-Identifier: GPL-2.0

//! FPDUs that lie one behind the other in a chunk, and go on with the same message: most of those of
//! a long one (RFC 5041 section 5.2, RFC 5044 section 5.2).
//!
//! What is done per message is done once for all of them: asking whether the memory may be written,
//! and finding it. Each FPDU is checked before its payload is placed, CRC included (T-8); with the
//! first that is not what was expected the train ends, and that one is taken in by itself.
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

use super::budget::Budget;
use super::chunk::{
    Chunk,
    Source,
    FPDU_FRONT, //
};
use super::rx::{
    Next,
    Run, //
};
use crate::wire::fpdu::{
    fpdu_len,
    Crc,
    CRC_LEN,
    LEN_FIELD, //
};

/// How much of a message there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Up to so many octets.
    UpTo(u32),
    /// So many octets, of which the last are in the segment that says so.
    Just(u32),
}

/// A train, of which some FPDUs are taken in.
pub(crate) struct Train<'a, C> {
    chunk: &'a C,
    run: &'a mut Run,
    budget: &'a mut Budget,
    /// The function that computes CRCs, if they are to be checked.
    crc32c: Option<fn(u32, &[u8]) -> u32>,
    /// Where the first FPDU begins in the chunk.
    begin: usize,
    /// Where the next FPDU begins there.
    at: usize,
    /// Octets of payload that may still be placed.
    limit: u32,
    /// Octets of payload that the message is still to have, if that is known.
    left: Option<u32>,
    /// FPDUs that were taken in.
    fpdus: u32,
    /// Octets of payload in them.
    taken: u32,
    /// Where the FPDU begins that was taken in last.
    last_at: usize,
    /// That one is the last of its message.
    is_complete: bool,
    /// Nothing is known of what may follow.
    is_over: bool,
}

/// What was taken in of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Octets of FPDUs.
    pub(super) octets: usize,
    /// How many those are.
    pub(super) fpdus: u32,
    /// Where the last of them begins in the chunk.
    pub(super) last_at: usize,
    /// Octets of payload in them.
    pub(super) payload: u32,
    /// The message is complete.
    pub(super) is_complete: bool,
    /// Nothing is known of what may follow.
    pub(super) is_over: bool,
}

impl<'a, C: Chunk> Train<'a, C> {
    /// The FPDUs from octet `at` of `chunk` on that go on as `run` says.
    #[inline]
    pub(super) fn new(
        chunk: &'a C,
        at: usize,
        run: &'a mut Run,
        room: Room,
        budget: &'a mut Budget,
        crc32c: Option<fn(u32, &[u8]) -> u32>,
    ) -> Self {
        let (limit, left) = match room {
            Room::UpTo(octets) => (octets, None),
            Room::Just(octets) => (octets, Some(octets)),
        };
        // There cannot be more in the chunk.
        let rest = u32::try_from(chunk.len().saturating_sub(at)).unwrap_or(u32::MAX);
        Self {
            chunk,
            run,
            budget,
            crc32c,
            begin: at,
            at,
            limit: limit.min(rest),
            left,
            fpdus: 0,
            taken: 0,
            last_at: at,
            is_complete: false,
            is_over: false,
        }
    }

    /// The chunk that the FPDUs lie in.
    pub(crate) fn chunk(&self) -> &'a C {
        self.chunk
    }

    /// Octets of payload that there may be in all.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Allows for `limit` octets of payload at most from here on.
    #[inline]
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = self.limit.min(limit);
    }

    /// Counts a piece of memory that payload is placed in.
    #[inline]
    pub(crate) fn count_piece(&mut self) {
        self.budget.piece();
    }

    /// Takes in the next FPDU, if it is as expected. Returns where its payload begins in the chunk
    /// and how many octets that has, at least one: they are to be placed behind those before.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(usize, u32)> {
        if self.is_complete || self.is_over || self.budget.is_spent() {
            return None;
        }
        let Some((next, len)) = self.look() else {
            // It is for another way in to find out what it is.
            self.limit = 0;
            return None;
        };
        let payload_len = u32::from(next.payload_len);
        let payload = self.at.checked_add(LEN_FIELD)?;
        let payload = payload.checked_add(self.run.header_len().into())?;
        // Neither is less.
        self.limit = self.limit.wrapping_sub(payload_len);
        self.left = self.left.map(|left| left.wrapping_sub(payload_len));
        self.fpdus = self.fpdus.wrapping_add(1);
        self.taken = self.taken.wrapping_add(payload_len);
        self.last_at = self.at;
        self.at = self.at.wrapping_add(len);
        self.budget.fpdu();
        self.budget.octets(len);
        self.is_complete = next.last;
        self.is_over = !self.run.advance(next.payload_len);
        Some((payload, payload_len))
    }

    /// The next FPDU, if it is as expected, with its octets.
    #[inline]
    fn look(&self) -> Option<(Next, usize)> {
        let next = self.run.next(&self.chunk.front(self.at)?)?;
        let payload_len = u32::from(next.payload_len);
        let len = fpdu_len(next.ulpdu_len);
        let end = self.at.checked_add(len)?;
        if payload_len > self.limit || end > self.chunk.len() {
            return None;
        }
        if self
            .left
            .is_some_and(|left| next.last != (payload_len == left))
        {
            return None;
        }
        if let Some(crc32c) = self.crc32c {
            let source = Source::Chunk {
                chunk: self.chunk,
                at: self.at,
            };
            let covers = len.checked_sub(CRC_LEN)?;
            let crc: Crc = source.crc(covers, crc32c).ok()?;
            let mut wire = [0; CRC_LEN];
            source.copy_to(covers, &mut wire).ok()?;
            if !crc.matches(wire) {
                return None;
            }
        }
        Some((next, len))
    }

    /// The front of the FPDU that was taken in last.
    pub(crate) fn front(&self) -> Option<[u8; FPDU_FRONT]> {
        self.chunk.front(self.last_at)
    }

    /// Ends the train.
    #[inline]
    pub(super) fn end(self) -> Taken {
        Taken {
            octets: self.at.wrapping_sub(self.begin),
            last_at: self.last_at,
            fpdus: self.fpdus,
            payload: self.taken,
            is_complete: self.is_complete,
            is_over: self.is_over,
        }
    }
}
