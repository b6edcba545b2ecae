// SPDX-License-Identifier: GPL-2.0

//! Trains: FPDUs of one message that follow each other in a chunk. Most FPDUs of a long message are
//! in one (RFC 5041 section 5.2, RFC 5044 section 5.2).
//!
//! The memory that they go to is looked up, and its rights are checked, once for a train. Each FPDU
//! is still checked before its payload is placed, CRC included (T-8). The train ends in front of the
//! first FPDU that is not as expected; the receiver takes that one in by itself, with all checks.
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
    CRC_LEN,
    LEN_FIELD, //
};

/// How many octets of payload the rest of a message may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// At most this many.
    UpTo(u32),
    /// Exactly this many: the segment that completes them has the Last flag, and no other.
    Exactly(u32),
}

/// FPDUs that are as long as the one before them and not the last. What they have in common is
/// checked once, so that only the front and the CRC of each are left to be checked.
struct Alike {
    /// How many more there may be.
    left: u32,
    /// How many were taken in and are not counted yet.
    taken: u32,
    /// Octets of each.
    len: usize,
    /// Octets of its payload.
    payload: u32,
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
    /// Where the payload begins in an FPDU.
    header: usize,
    alike: Alike,
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
            Room::Exactly(octets) => (octets, Some(octets)),
        };
        // There cannot be more in the chunk.
        let rest = u32::try_from(chunk.len().saturating_sub(at)).unwrap_or(u32::MAX);
        Self {
            chunk,
            budget,
            crc32c,
            begin: at,
            at,
            header: LEN_FIELD.wrapping_add(run.header_len().into()),
            run,
            alike: Alike {
                left: 0,
                taken: 0,
                len: 0,
                payload: 0,
            },
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
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<(usize, u32)> {
        if self.budget.is_spent() {
            return None;
        }
        match self.take_alike() {
            None => self.take_other(),
            taken => taken,
        }
    }

    /// As [`Train::take`], for an FPDU that is like the one before it.
    #[inline(always)]
    fn take_alike(&mut self) -> Option<(usize, u32)> {
        let left = self.alike.left.checked_sub(1)?;
        let at = self.at;
        let front = self.chunk.front(at)?;
        if !self.run.is_expected(&front) || !self.is_right(self.alike.len) {
            return None;
        }
        if !self.run.advance(self.alike.payload) {
            return None;
        }
        self.alike.left = left;
        self.alike.taken = self.alike.taken.wrapping_add(1);
        // `expect` has seen to it that the chunk has as many octets.
        self.at = at.wrapping_add(self.alike.len);
        self.last_at = at;
        self.budget.fpdu();
        self.budget.octets(self.alike.len);
        Some((at.wrapping_add(self.header), self.alike.payload))
    }

    /// As [`Train::take`], for any other FPDU.
    #[inline(never)]
    fn take_other(&mut self) -> Option<(usize, u32)> {
        self.count_alike();
        if self.is_complete || self.is_over {
            return None;
        }
        let Some((next, len)) = self.look() else {
            // The receiver takes this one in, with all checks.
            self.limit = 0;
            return None;
        };
        let payload_len = u32::from(next.payload_len);
        let payload = self.at.checked_add(self.header)?;
        self.count(1, payload_len);
        self.last_at = self.at;
        self.at = self.at.wrapping_add(len);
        self.budget.fpdu();
        self.budget.octets(len);
        self.is_complete = next.last;
        self.is_over = !self.run.advance(payload_len);
        if !next.last {
            self.expect(&next, len);
        }
        Some((payload, payload_len))
    }

    /// Works out how many FPDUs like `next`, which has `len` octets, there may be behind it.
    #[inline]
    fn expect(&mut self, next: &Next, len: usize) {
        let payload = u32::from(next.payload_len);
        // The FPDU that completes the message has the Last flag, and is not like `next`.
        let limit = self
            .left
            .map_or(self.limit, |left| self.limit.min(left.saturating_sub(1)));
        if limit < payload || self.is_over {
            return;
        }
        let rest = self.chunk.len().saturating_sub(self.at);
        let fpdus = u32::try_from(rest.checked_div(len).unwrap_or(0)).unwrap_or(u32::MAX);
        self.alike = Alike {
            left: fpdus.min(limit.checked_div(payload).unwrap_or(0)),
            taken: 0,
            len,
            payload,
        };
        self.run.expect(next);
    }

    /// Counts the alike FPDUs that were taken in.
    #[inline]
    fn count_alike(&mut self) {
        self.alike.left = 0;
        let fpdus = core::mem::take(&mut self.alike.taken);
        self.count(fpdus, fpdus.wrapping_mul(self.alike.payload));
    }

    /// Counts FPDUs with `payload` octets of payload in all, which the limits allow.
    #[inline]
    fn count(&mut self, fpdus: u32, payload: u32) {
        self.limit = self.limit.wrapping_sub(payload);
        self.left = self.left.map(|left| left.wrapping_sub(payload));
        self.fpdus = self.fpdus.wrapping_add(fpdus);
        self.taken = self.taken.wrapping_add(payload);
    }

    /// Returns whether the next FPDU, which has `len` octets in the chunk, has the right CRC or
    /// needs none.
    #[inline]
    fn is_right(&self, len: usize) -> bool {
        let Some(crc32c) = self.crc32c else {
            return true;
        };
        let source = Source::Chunk {
            chunk: self.chunk,
            at: self.at,
        };
        let covered = len.checked_sub(CRC_LEN);
        covered.is_some_and(|covered| source.has_crc(covered, crc32c).unwrap_or(false))
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
        self.is_right(len).then_some((next, len))
    }

    /// The front of the FPDU that was taken in last.
    pub(crate) fn front(&self) -> Option<[u8; FPDU_FRONT]> {
        self.chunk.front(self.last_at)
    }

    /// Ends the train.
    #[inline]
    pub(super) fn end(mut self) -> Taken {
        self.count_alike();
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
