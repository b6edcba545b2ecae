// SPDX-License-Identifier: GPL-2.0

//! FPDUs that lie one behind the other in a chunk, and each of which goes on as the one before: most
//! of those of a long message (RFC 5041 section 5.2, RFC 5044 section 5.2).
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
    Source, //
};
use super::rx::Run;
use crate::wire::ddp::{
    Stag,
    TaggedOffset, //
};
use crate::wire::fpdu::{
    fpdu_len,
    Crc,
    CRC_LEN,
    LEN_FIELD, //
};

/// Where the payloads of a train belong, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Memory that the peer may write, from an offset on.
    Write(Stag, TaggedOffset),
    /// The sink of a Read of ours, from an offset on.
    Response(Stag, TaggedOffset),
    /// The receive that was taken last, from an offset on.
    Receive(u32),
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
    /// Octets of each FPDU.
    fpdu_len: usize,
    /// Where the payload begins in each FPDU.
    header_len: usize,
    /// Octets of payload in each FPDU.
    payload_len: u32,
    /// FPDUs that may still be taken in.
    left: u32,
    /// FPDUs that were taken in.
    taken: u32,
    /// `run` is the FPDU behind the last that was taken in, not that one.
    is_ahead: bool,
}

/// What was taken in of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Octets of FPDUs.
    pub(super) octets: usize,
    /// Octets of payload in them.
    pub(super) payload: u32,
    /// Nothing is known of what may follow.
    pub(super) is_over: bool,
}

impl<'a, C: Chunk> Train<'a, C> {
    /// The FPDUs from octet `at` of `chunk` on that go on as `run` says, with together at most
    /// `room` octets of payload. `None` if there is no whole one.
    #[inline]
    pub(super) fn new(
        chunk: &'a C,
        at: usize,
        run: &'a mut Run,
        room: u32,
        budget: &'a mut Budget,
        crc32c: Option<fn(u32, &[u8]) -> u32>,
    ) -> Option<Self> {
        let fpdu_len = fpdu_len(run.ulpdu_len());
        let payload_len = u32::from(run.segment().payload_len);
        let whole = chunk.len().checked_sub(at)?.checked_div(fpdu_len)?;
        let left = room.checked_div(payload_len)?;
        let left = u32::try_from(whole).map_or(left, |whole| left.min(whole));
        let header_len = LEN_FIELD.checked_add(run.segment().header_len.into())?;
        (left > 0).then_some(Self {
            chunk,
            run,
            budget,
            crc32c,
            begin: at,
            at,
            fpdu_len,
            header_len,
            payload_len,
            left,
            taken: 0,
            is_ahead: true,
        })
    }

    /// The chunk that the FPDUs lie in.
    pub(crate) fn chunk(&self) -> &'a C {
        self.chunk
    }

    /// Octets of payload in each FPDU, at least one.
    pub(crate) fn payload_len(&self) -> u32 {
        self.payload_len
    }

    /// Octets of payload that there may be in all.
    pub(crate) fn room(&self) -> u32 {
        self.payload_len.saturating_mul(self.left)
    }

    /// Allows for `room` octets of payload at most from here on.
    #[inline]
    pub(crate) fn limit(&mut self, room: u32) {
        let most = room.checked_div(self.payload_len).unwrap_or(0);
        self.left = self.left.min(most);
    }

    /// Counts a piece of memory that payload is placed in.
    #[inline]
    pub(crate) fn count_piece(&mut self) {
        self.budget.piece();
    }

    /// Takes in the next FPDU, if it is as expected. Returns where its payload begins in the chunk:
    /// that is to be placed behind the one before.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<usize> {
        if self.left == 0 || self.budget.is_spent() {
            return None;
        }
        if !self.is_ahead && !self.run.advance() {
            self.left = 0;
            return None;
        }
        self.is_ahead = true;
        let Some(payload) = self.look() else {
            self.left = 0;
            return None;
        };
        self.is_ahead = false;
        self.left = self.left.wrapping_sub(1);
        self.taken = self.taken.wrapping_add(1);
        self.at = self.at.wrapping_add(self.fpdu_len);
        self.budget.fpdu();
        self.budget.octets(self.fpdu_len);
        Some(payload)
    }

    /// Whether the next FPDU is as expected, and if so where its payload begins.
    #[inline]
    fn look(&self) -> Option<usize> {
        if !self.run.is(&self.chunk.front(self.at)?) {
            return None;
        }
        if let Some(crc32c) = self.crc32c {
            let source = Source::Chunk {
                chunk: self.chunk,
                at: self.at,
            };
            let covers = self.fpdu_len.checked_sub(CRC_LEN)?;
            let crc: Crc = source.crc(covers, crc32c).ok()?;
            let mut wire = [0; CRC_LEN];
            source.copy_to(covers, &mut wire).ok()?;
            if !crc.matches(wire) {
                return None;
            }
        }
        self.at.checked_add(self.header_len)
    }

    /// The first octets of the ULPDU that was taken in last, and its length.
    pub(super) fn last(&self) -> (&[u8], u16) {
        (self.run.head(), self.run.ulpdu_len())
    }

    /// Ends the train.
    #[inline]
    pub(super) fn end(self) -> Taken {
        Taken {
            octets: self.at.wrapping_sub(self.begin),
            payload: self.payload_len.wrapping_mul(self.taken),
            is_over: !self.is_ahead && !self.run.advance(),
        }
    }
}
