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
use crate::wire::ddp;

/// The next segment, if it goes on as the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    front: Front,
    ulpdu_len: u16,
    segment: Segment,
}

/// Its headers, which end with the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    Tagged([u8; ddp::TAGGED_LEN]),
    Untagged([u8; ddp::UNTAGGED_LEN]),
}

impl Run {
    /// What may follow `segment`, an ULPDU of `ulpdu_len` octets that begins with `head`. `None` if
    /// nothing may, or nothing that is so easy to tell.
    #[inline]
    pub(super) fn after(head: &[u8], ulpdu_len: u16, segment: &Segment) -> Option<Self> {
        if segment.payload_len == 0 {
            return None;
        }
        let front = match segment.action {
            Action::Write { last: false, .. } | Action::ReadResponse { last: false, .. } => {
                Front::Tagged(*head.first_chunk()?)
            }
            Action::Send { last: false, .. } => Front::Untagged(*head.first_chunk()?),
            _ => return None,
        };
        let mut run = Self {
            front,
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
        match (&mut self.segment.action, &mut self.front) {
            (Action::Write { to, .. } | Action::ReadResponse { to, .. }, Front::Tagged(front)) => {
                let next = to.checked_add(len).filter(|next| !wraps(*next, len));
                let (Some(next), Some(field)) = (next, front.last_chunk_mut()) else {
                    return false;
                };
                *to = next;
                *field = next.0.to_be_bytes();
            }
            (Action::Send { mo, first, .. }, Front::Untagged(front)) => {
                let next = mo.checked_add(len);
                let next = next.filter(|next| next.checked_add(len).is_some());
                let (Some(next), Some(field)) = (next, front.last_chunk_mut()) else {
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

    /// Whether an ULPDU of `ulpdu_len` octets that begins with `head` is the one.
    #[inline]
    pub(crate) fn is(&self, head: &[u8], ulpdu_len: u16) -> bool {
        ulpdu_len == self.ulpdu_len
            && match &self.front {
                Front::Tagged(front) => head.first_chunk() == Some(front),
                Front::Untagged(front) => head.first_chunk() == Some(front),
            }
    }

    /// What it means.
    #[inline]
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// The first octets of its ULPDU: all of its headers.
    pub(crate) fn head(&self) -> &[u8] {
        match &self.front {
            Front::Tagged(front) => front,
            Front::Untagged(front) => front,
        }
    }

    /// The length of its ULPDU.
    #[inline]
    pub(crate) fn ulpdu_len(&self) -> u16 {
        self.ulpdu_len
    }
}
