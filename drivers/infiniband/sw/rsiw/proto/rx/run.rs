// SPDX-License-Identifier: GPL-2.0

//! Runs: segments that continue a message. Their headers are those of the segment before, except
//! for the offset, the length and the Last flag (RFC 5041 section 5.2).
//!
//! The offset, the length and the flag are checked here; everything else was checked for the segment
//! before, and must be the same octets. Rights may have changed since: the receiver asks again.
//!
//! Context as in `proto::rx`.
#![forbid(unsafe_code)]

use super::{
    wraps,
    Action,
    Segment, //
};
use crate::proto::chunk::FPDU_FRONT;
use crate::wire::ddp::{
    self,
    Stag,
    TaggedOffset, //
};
use crate::wire::fpdu::LEN_FIELD;

/// The front of an FPDU, up to the end of the headers of most.
type FpduFront = [u8; FPDU_FRONT];

/// The message that a segment may go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Going {
    /// An RDMA Write, with an offset and those behind.
    Write(Stag, TaggedOffset),
    /// The response to a Read of ours.
    Response(Stag, TaggedOffset),
    /// A Send.
    Send {
        /// Offset in the message.
        mo: u32,
        /// The peer asks for an event.
        solicited: bool,
        /// What to invalidate at the end.
        invalidate: Option<Stag>,
    },
}

/// A segment that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// Octets of its ULPDU.
    pub(crate) ulpdu_len: u16,
    /// Octets of its payload, at least one.
    pub(crate) payload_len: u16,
    /// It is the last of the message.
    pub(crate) last: bool,
}

/// The next segment, if it goes on with the message of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Its FPDU up to the end of the headers, which end with the offset.
    front: FpduFront,
    header_len: u16,
    going: Going,
}

impl Run {
    /// What may follow `segment`, which begins with `head`. `None` if nothing may.
    #[inline]
    pub(super) fn after(head: &[u8], segment: &Segment) -> Option<Self> {
        let mut front = [0; FPDU_FRONT];
        let (_, headers) = front.split_first_chunk_mut::<LEN_FIELD>()?;
        let going = match segment.action {
            Action::Write {
                stag,
                to,
                last: false,
            } => Going::Write(stag, to),
            Action::ReadResponse {
                stag,
                to,
                last: false,
            } => Going::Response(stag, to),
            Action::Send {
                mo,
                last: false,
                solicited,
                invalidate,
                ..
            } => Going::Send {
                mo,
                solicited,
                invalidate,
            },
            _ => return None,
        };
        match going {
            Going::Send { .. } => {
                *headers.first_chunk_mut()? = *head.first_chunk::<{ ddp::UNTAGGED_LEN }>()?;
            }
            Going::Write(..) | Going::Response(..) => {
                *headers.first_chunk_mut()? = *head.first_chunk::<{ ddp::TAGGED_LEN }>()?;
            }
        }
        let mut run = Self {
            front,
            header_len: segment.header_len,
            going,
        };
        run.advance(segment.payload_len.into()).then_some(run)
    }

    /// Goes on behind `payload_len` octets. Returns whether there may be more.
    #[inline(always)]
    #[must_use]
    pub(crate) fn advance(&mut self, payload_len: u32) -> bool {
        match &mut self.going {
            Going::Write(_, to) | Going::Response(_, to) => {
                let headers = self
                    .front
                    .first_chunk_mut::<{ LEN_FIELD + ddp::TAGGED_LEN }>();
                let field = headers.and_then(|headers| headers.last_chunk_mut());
                let (Some(next), Some(field)) = (to.checked_add(payload_len), field) else {
                    return false;
                };
                *to = next;
                *field = next.0.to_be_bytes();
            }
            Going::Send { mo, .. } => {
                let next = mo.checked_add(payload_len);
                let (Some(next), Some(field)) = (next, self.front.last_chunk_mut()) else {
                    return false;
                };
                *mo = next;
                *field = next.to_be_bytes();
            }
        }
        true
    }

    /// The segment of an FPDU that begins like this, if it goes on.
    #[inline]
    pub(crate) fn next(&self, front: &FpduFront) -> Option<Next> {
        let ((a, b, c), (x, y, z)) = (words(front), words(&self.front));
        if (a ^ x) & FIXED != 0 || b != y || self.is_untagged() && c != z {
            return None;
        }
        let [hi, lo, control, ..] = *front;
        let ulpdu_len = u16::from_be_bytes([hi, lo]);
        let payload_len = ulpdu_len.checked_sub(self.header_len);
        let payload_len = payload_len.filter(|len| *len > 0)?;
        let does_wrap = match self.going {
            Going::Write(_, to) | Going::Response(_, to) => wraps(to, payload_len.into()),
            Going::Send { mo, .. } => mo.checked_add(payload_len.into()).is_none(),
        };
        (!does_wrap).then_some(Next {
            ulpdu_len,
            payload_len,
            last: control & ddp::LAST != 0,
        })
    }

    /// Makes [`Run::is_expected`] expect segments that are as long as `segment` and, like it, not
    /// the last of the message.
    #[inline]
    pub(crate) fn expect(&mut self, segment: &Next) {
        if let Some((len, _)) = self.front.split_first_chunk_mut() {
            *len = segment.ulpdu_len.to_be_bytes();
        }
    }

    /// Returns whether the FPDU that begins with `front` continues the run as [`Run::expect`] was
    /// told. It does not look whether the offset wraps: [`Run::advance`] does.
    #[inline(always)]
    pub(crate) fn is_expected(&self, front: &FpduFront) -> bool {
        let ((a, b, c), (x, y, z)) = (words(front), words(&self.front));
        a == x && b == y && (c == z || !self.is_untagged())
    }

    #[inline(always)]
    fn is_untagged(&self) -> bool {
        matches!(self.going, Going::Send { .. })
    }

    /// What it goes on with, and from where.
    #[inline]
    pub(crate) fn going(&self) -> Going {
        self.going
    }

    /// Octets of headers at the front of its ULPDU.
    #[inline]
    pub(crate) fn header_len(&self) -> u16 {
        self.header_len
    }
}

/// The octets of the first word that do not change from segment to segment: not those of the length,
/// nor the flag of the last one.
const FIXED: u64 = u64::from_ne_bytes([0, 0, !ddp::LAST, 0xff, 0xff, 0xff, 0xff, 0xff]);

/// The octets in words, which are compared sooner.
#[inline]
fn words(front: &FpduFront) -> (u64, u64, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = *front;
    (
        u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
        u32::from_ne_bytes([q, r, s, t]),
    )
}
