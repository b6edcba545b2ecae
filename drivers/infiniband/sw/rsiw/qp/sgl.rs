// SPDX-License-Identifier: GPL-2.0

//! The elements of one request, taken out of its queue.
//!
//! Each side of a connection has one list, as only one request at a time is being sent and only one
//! receive being filled.
//!
//! Context: any, under the lock of whoever has the list.
#![forbid(unsafe_code)]

use crate::abi::Sge;
use core::mem::size_of;
use kernel::prelude::*;
use zerocopy::IntoBytes;

/// A list of elements, or of octets in their place.
pub(crate) struct SgList {
    room: KVec<Sge>,
    count: usize,
}

impl SgList {
    /// Makes a list with room for `max_sge` elements and for `max_inline` octets.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(max_sge: u32, max_inline: u32) -> Result<Self> {
        Ok(Self {
            room: KVec::from_elem(Sge::default(), slots(max_sge, max_inline), GFP_KERNEL)?,
            count: 0,
        })
    }

    /// The elements.
    pub(super) fn elements(&self) -> &[Sge] {
        self.room.get(..self.count).unwrap_or(&[])
    }

    /// Replaces the elements. What does not fit is left out: queues have as much room as they said.
    pub(super) fn set(&mut self, elements: &[Sge]) {
        self.count = 0;
        for (to, from) in self.room.iter_mut().zip(elements) {
            *to = *from;
            self.count = self.count.saturating_add(1);
        }
    }

    /// Replaces the elements by octets.
    pub(super) fn set_octets(&mut self, octets: &[u8]) {
        self.count = 0;
        let room = self.room.as_mut_bytes();
        if let Some(room) = room.get_mut(..octets.len()) {
            room.copy_from_slice(octets);
        }
    }

    /// The `len` octets from `at` on, if that is what the list holds.
    pub(super) fn octets(&self, at: usize, len: usize) -> Option<&[u8]> {
        self.room.as_bytes().get(at..at.checked_add(len)?)
    }

    /// The pieces of `len` octets from `offset` of the message on: an element, an offset in it, and
    /// a length.
    pub(super) fn pieces(&self, offset: u32, len: u32) -> Pieces<'_> {
        Pieces {
            sges: self.elements().iter(),
            index: 0,
            skip: offset,
            left: len,
        }
    }
}

/// Elements that hold `max_sge` elements or `max_inline` octets.
pub(super) fn slots(max_sge: u32, max_inline: u32) -> usize {
    // CAST: 32 bits fit.
    let octets = (max_inline as usize).div_ceil(size_of::<Sge>());
    octets.max(max_sge as usize)
}

/// Octets of all elements (T-18).
pub(super) fn total_len(sges: &[Sge]) -> u64 {
    sges.iter()
        .fold(0, |sum, sge| sum.saturating_add(sge.length.into()))
}

/// Iterator over the pieces of a message.
#[derive(Clone)]
pub(super) struct Pieces<'a> {
    sges: core::slice::Iter<'a, Sge>,
    /// Which element comes next.
    index: usize,
    /// Octets in front of the range that are still to be passed over.
    skip: u32,
    /// Octets of the range to come.
    left: u32,
}

/// A part of an element.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// Which element.
    pub(super) index: usize,
    /// The element.
    pub(super) sge: Sge,
    /// Where in the element.
    pub(super) at: u32,
    /// Octets, at least one.
    pub(super) len: u32,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        while self.left > 0 {
            let sge = self.sges.next()?;
            let index = self.index;
            self.index = index.saturating_add(1);
            let Some(rest) = sge.length.checked_sub(self.skip).filter(|rest| *rest > 0) else {
                self.skip = self.skip.saturating_sub(sge.length);
                continue;
            };
            let piece = Piece {
                index,
                sge: *sge,
                at: self.skip,
                len: rest.min(self.left),
            };
            self.skip = 0;
            self.left = self.left.saturating_sub(piece.len);
            return Some(piece);
        }
        None
    }
}
