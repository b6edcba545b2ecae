// SPDX-License-Identifier: GPL-2.0

//! Segments that go on as the one before: with the same header but for the offset, which is the
//! next, and as many octets (RFC 5041 section 5.2).
//!
//! All that is checked of such a segment was checked of the one before, or is what makes it such a
//! one. What the QP allows may have changed; whoever takes it in asks again.
//!
//! Context as in `proto::rx`.
#![forbid(unsafe_code)]

use super::{
    wraps,
    Action,
    Segment, //
};
use crate::proto::chunk::FPDU_FRONT;
use crate::wire::ddp;
use crate::wire::fpdu::LEN_FIELD;

/// The front of an FPDU, up to the end of the headers of most.
pub(crate) type FpduFront = [u8; FPDU_FRONT];

/// The next segment, if it goes on as the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Its FPDU, up to the end of the headers, which end with the offset.
    front: FpduFront,
    /// There is nothing behind the headers in that.
    is_untagged: bool,
    ulpdu_len: u16,
    segment: Segment,
}

impl Run {
    /// What may follow `segment`, an ULPDU of `ulpdu_len` octets that begins with `head`. `None` if
    /// nothing may, or nothing that is so easy to tell.
    #[inline]
    pub(super) fn after(head: &[u8], ulpdu_len: u16, segment: &Segment) -> Option<Self> {
        if segment.payload_len == 0 {
            return None;
        }
        let mut front = [0; FPDU_FRONT];
        let (len, headers) = front.split_first_chunk_mut::<LEN_FIELD>()?;
        *len = ulpdu_len.to_be_bytes();
        let is_untagged = match segment.action {
            Action::Write { last: false, .. } | Action::ReadResponse { last: false, .. } => {
                *headers.first_chunk_mut()? = *head.first_chunk::<{ ddp::TAGGED_LEN }>()?;
                false
            }
            Action::Send { last: false, .. } => {
                *headers.first_chunk_mut()? = *head.first_chunk::<{ ddp::UNTAGGED_LEN }>()?;
                true
            }
            _ => return None,
        };
        let mut run = Self {
            front,
            is_untagged,
            ulpdu_len,
            segment: Segment {
                first: false,
                ..*segment
            },
        };
        run.advance().then_some(run)
    }

    /// Goes on to the one behind it. Returns whether there may be one.
    #[inline]
    #[must_use]
    pub(crate) fn advance(&mut self) -> bool {
        let len = u32::from(self.segment.payload_len);
        match &mut self.segment.action {
            Action::Write { to, .. } | Action::ReadResponse { to, .. } => {
                let next = to.checked_add(len).filter(|next| !wraps(*next, len));
                let headers = self
                    .front
                    .first_chunk_mut::<{ LEN_FIELD + ddp::TAGGED_LEN }>();
                let field = headers.and_then(|headers| headers.last_chunk_mut());
                let (Some(next), Some(field)) = (next, field) else {
                    return false;
                };
                *to = next;
                *field = next.0.to_be_bytes();
            }
            Action::Send { mo, first, .. } => {
                let next = mo.checked_add(len);
                let next = next.filter(|next| next.checked_add(len).is_some());
                let (Some(next), Some(field)) = (next, self.front.last_chunk_mut()) else {
                    return false;
                };
                *mo = next;
                *first = false;
                *field = next.to_be_bytes();
            }
            _ => return false,
        }
        true
    }

    /// Whether an FPDU that begins like this is the one.
    #[inline]
    pub(crate) fn is(&self, front: &FpduFront) -> bool {
        let ((a, b, c), (x, y, z)) = (words(front), words(&self.front));
        a == x && b == y && (c == z || !self.is_untagged)
    }

    /// What it means.
    #[inline]
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The first octets of its ULPDU: all of its headers.
    pub(crate) fn head(&self) -> &[u8] {
        let len = usize::from(self.segment.header_len);
        let headers = self.front.get(LEN_FIELD..).unwrap_or(&[]);
        headers.get(..len).unwrap_or(headers)
    }

    /// The length of its ULPDU.
    #[inline]
    pub(crate) fn ulpdu_len(&self) -> u16 {
        self.ulpdu_len
    }
}

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
