// SPDX-License-Identifier: GPL-2.0

//! What remains to be done of the segment that a receiver has at hand, and where its FPDU lies.
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

use super::step::{
    Extra,
    Step, //
};
use crate::{
    proto::deframer::Fpdu,
    wire::{
        atomic::AtomicResponse,
        ddp::{
            Stag,
            TaggedOffset, //
        }, //
    },
};

/// The FPDU that is taken in, or was taken in last.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtHand {
    pub(super) lies: Lies,
    pub(super) ulpdu_len: u16,
    /// Octets of the whole FPDU.
    pub(super) len: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Lies {
    /// In the chunk, from octet `at` on. The chunk has `left` octets from there; if the FPDU is
    /// longer, the rest is in the buffers behind the chunk.
    InChunk {
        at: usize,
        left: usize,
    },
    InBuffer,
}

/// A payload in the FPDU at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) at: u32,
    pub(super) len: u32,
}

/// A segment of a Send, or Immediate Data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) mo: u32,
    pub(super) payload: Stretch,
    /// Whether the message begins here.
    pub(super) first: bool,
    pub(super) last: Option<End>,
}

/// The end of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) solicited: bool,
    pub(super) extra: Extra,
}

/// What completes once nobody uses an invalidated region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Receive,
    Read,
}

/// What remains to be done of the segment at hand.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Rest {
    /// Nothing: the next FPDU is looked for.
    Nothing,
    /// The next FPDU, and those behind it that continue its message, are being placed. If none of
    /// them was placed, the next one is taken in by itself.
    Train,
    /// All of it: only the CRC was checked.
    Ulpdu,
    /// All of it, but first a receive is looked for. If there is none, the segment may wait.
    Look,
    /// All of it, in another turn: there is no receive now, and the segment waits for one.
    Wait,
    Write {
        stag: Stag,
        to: TaggedOffset,
        payload: Stretch,
        last: bool,
    },
    /// The payload of a Write is being placed. Or there is nothing to do.
    Written {
        last: bool,
    },
    Send(Part),
    /// The payload of a Send is being placed. If it is the last one, the receive is completed next.
    Sent {
        last: bool,
    },
    Response {
        stag: Stag,
        to: TaggedOffset,
        payload: Stretch,
        last: bool,
    },
    /// An Atomic Response: the Atomic Operation that it answers is to be found.
    AskAtomic(AtomicResponse),
    /// An Atomic Response: the Atomic Operation that it answers has been asked for.
    Atomic(AtomicResponse),
    /// The payload of a response is being placed.
    Responded {
        last: bool,
    },
    /// An STag is being invalidated. Next it is asked whether somebody uses its memory.
    Invalidated(Pending),
    /// Somebody still uses the memory of the invalidated region, so the completion waits for
    /// another turn. The FPDU is used up.
    Waits(Pending),
    /// Nobody uses the memory of the invalidated region any more.
    Ended(Pending),
    /// Only this step.
    Tell(Step),
}

impl AtHand {
    #[inline]
    pub(super) fn new<C>(fpdu: &Fpdu<'_, C>, lies: Lies) -> Self {
        Self {
            lies,
            ulpdu_len: fpdu.ulpdu_len,
            len: fpdu.len,
        }
    }
}
