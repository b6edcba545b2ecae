// SPDX-License-Identifier: GPL-2.0

//! Runs: segments that continue a message, each as long as the one before and not the last. Their
//! headers are those of the segment before, except for the offset (RFC 5041 section 5.2). So a
//! header is compared as a whole with the one expected; the rights, which may have changed, are the
//! receiver's to check again. Context as in `proto::rx`.
#![forbid(unsafe_code)]

use super::{
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

/// The front of an FPDU, up to the end of most headers.
type FpduFront = [u8; FPDU_FRONT];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Memory that the peer writes to.
    Write(Stag, TaggedOffset),
    /// The sink of a Read of ours.
    Response(Stag, TaggedOffset),
    /// An offset in the receive in progress.
    Receive(u32),
}

impl Target {
    /// Returns what lies `octets` behind it, if the offset does not wrap.
    #[inline(always)]
    fn behind(self, octets: u32) -> Option<Self> {
        Some(match self {
            Self::Write(stag, to) => Self::Write(stag, to.checked_add(octets)?),
            Self::Response(stag, to) => Self::Response(stag, to.checked_add(octets)?),
            Self::Receive(offset) => Self::Receive(offset.checked_add(octets)?),
        })
    }
}

/// The segment that is expected behind the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Its FPDU up to the end of the headers, which end with the offset.
    front: FpduFront,
    ulpdu_len: u16,
    /// At least one octet.
    payload_len: u16,
    target: Target,
}

impl Run {
    /// Returns what may follow `segment`, which is `ulpdu_len` octets that begin with `head`.
    #[inline]
    pub(super) fn after(head: &[u8], ulpdu_len: u16, segment: &Segment) -> Option<Self> {
        let (target, last) = match segment.action {
            Action::Write { stag, to, last } => (Target::Write(stag, to), last),
            Action::ReadResponse { stag, to, last } => (Target::Response(stag, to), last),
            Action::Send { mo, last, .. } => (Target::Receive(mo), last),
            _ => return None,
        };
        if last || segment.payload_len == 0 {
            return None;
        }
        let mut front = [0; FPDU_FRONT];
        let (len, headers) = front.split_first_chunk_mut::<LEN_FIELD>()?;
        *len = ulpdu_len.to_be_bytes();
        match target {
            Target::Receive(_) => {
                *headers.first_chunk_mut()? = *head.first_chunk::<{ ddp::UNTAGGED_LEN }>()?;
            }
            Target::Write(..) | Target::Response(..) => {
                *headers.first_chunk_mut()? = *head.first_chunk::<{ ddp::TAGGED_LEN }>()?;
            }
        }
        let mut run = Self {
            front,
            ulpdu_len,
            payload_len: segment.payload_len,
            target,
        };
        run.advance().then_some(run)
    }

    /// Expects the segment behind the next one. Returns whether there may be one: not if its offset
    /// would wrap.
    #[inline(always)]
    #[must_use]
    pub(crate) fn advance(&mut self) -> bool {
        let Some(next) = self.target.behind(self.payload_len.into()) else {
            return false;
        };
        self.target = next;
        match next {
            Target::Write(_, to) | Target::Response(_, to) => {
                let headers = self.front.first_chunk_mut();
                let headers: Option<&mut [u8; LEN_FIELD + ddp::TAGGED_LEN]> = headers;
                if let Some(field) = headers.and_then(|headers| headers.last_chunk_mut()) {
                    *field = to.0.to_be_bytes();
                }
            }
            Target::Receive(offset) => {
                if let Some(field) = self.front.last_chunk_mut() {
                    *field = offset.to_be_bytes();
                }
            }
        }
        true
    }

    /// Returns whether an FPDU that begins with `front` is the one that is expected.
    #[inline(always)]
    pub(crate) fn is_next(&self, front: &FpduFront) -> bool {
        let ((a, b, c), (x, y, z)) = (words(front), words(&self.front));
        a == x && b == y && (c == z || !matches!(self.target, Target::Receive(_)))
    }

    #[inline]
    pub(crate) fn target(&self) -> Target {
        self.target
    }

    #[inline]
    pub(crate) fn ulpdu_len(&self) -> u16 {
        self.ulpdu_len
    }

    #[inline]
    pub(crate) fn front_len(&self) -> usize {
        let header_len = self.ulpdu_len.wrapping_sub(self.payload_len);
        LEN_FIELD.wrapping_add(header_len.into())
    }

    #[inline]
    pub(crate) fn payload_len(&self) -> u16 {
        self.payload_len
    }
}

/// Returns the octets in words, which are compared faster.
#[inline]
fn words(front: &FpduFront) -> (u64, u64, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = *front;
    (
        u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
        u32::from_ne_bytes([q, r, s, t]),
    )
}
