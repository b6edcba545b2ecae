// SPDX-License-Identifier: GPL-2.0

//! What queues of requests are made of: requests of kernel consumers and their slots, rings of
//! processes and the offers to map them, receive queues; and the elements of one request, taken out
//! of its queue ([`SgList`]).
//!
//! None of this knows queue pairs, shared receive queues or completion queues, which use it.
//!
//! Each side of a connection has one list of elements, as only one request at a time is being sent
//! and only one receive being filled. Context of a list: any, under the lock of whoever has it.
#![forbid(unsafe_code)]

pub(crate) mod posted;
pub(crate) mod rq;
pub(crate) mod shared;

use crate::{
    abi::Sge,
    ffi::mm::ring::{
        Entry,
        Place, //
    },
};
use core::{
    mem::size_of,
    num::Saturating, //
};
use kernel::{
    num::casts::u32_as_usize,
    prelude::*, //
};
use zerocopy::IntoBytes;

/// A list of elements, or of octets in their place.
pub(crate) struct SgList {
    room: KVec<Sge>,
    count: usize,
}

impl SgList {
    /// Makes a list with room for `max_sge` elements or `max_inline` octets.
    pub(crate) fn new(max_sge: u32, max_inline: u32) -> Result<Self> {
        Ok(Self {
            room: KVec::from_elem(
                Sge::default(),
                slots(max_sge, max_inline),
                GFP_KERNEL_ACCOUNT,
            )?,
            count: 0,
        })
    }

    pub(crate) fn elements(&self) -> &[Sge] {
        // There are `count` of them. Whoever uses them counts their octets.
        self.room.get(..self.count).unwrap_or(&[])
    }

    /// Returns room for `count` elements in place of those that are there. Without that much
    /// room, which the limits of a queue rule out, returns `None` and leaves no elements.
    #[inline]
    fn replace(&mut self, count: usize) -> Option<&mut [Sge]> {
        self.count = 0;
        let room = self.room.get_mut(..count)?;
        self.count = count;
        Some(room)
    }

    /// As [`SgList::replace`], for `len` octets.
    #[inline]
    pub(crate) fn replace_by_octets(&mut self, len: usize) -> Option<&mut [Sge]> {
        self.count = 0;
        self.room.get_mut(..len.div_ceil(size_of::<Sge>()))
    }

    /// Replaces the elements by the first `count` of `entry`, which are from `place` on. Returns the
    /// sum of their octets, or `None` if they are more than `limit`.
    #[inline(always)]
    pub(crate) fn copy_from_ring(
        &mut self,
        entry: Entry<'_>,
        place: Place,
        count: u32,
        limit: u32,
    ) -> Option<u64> {
        if count > limit {
            return None;
        }
        let sges = self.replace(u32_as_usize(count))?;
        // Most requests have one: that takes no loop.
        if let [sge] = sges {
            let has = entry.copy(place, core::slice::from_mut(sge));
            return has.then_some(sge.length.into());
        }
        let has = entry.copy(place, sges);
        has.then(|| total_len(sges))
    }

    /// Replaces the elements. Returns whether the new ones fit.
    #[must_use]
    pub(crate) fn set(&mut self, elements: &[Sge]) -> bool {
        let Some(room) = self.replace(elements.len()) else {
            return false;
        };
        // Bound: the elements of one request.
        room.copy_from_slice(elements);
        true
    }

    /// Replaces the elements by octets. Returns whether these fit.
    #[must_use]
    pub(crate) fn set_octets(&mut self, octets: &[u8]) -> bool {
        let room = self.replace_by_octets(octets.len());
        let Some(room) = room.and_then(|room| room.as_mut_bytes().get_mut(..octets.len())) else {
            return false;
        };
        // Bound: the inline data of one request.
        room.copy_from_slice(octets);
        true
    }

    /// Returns the `len` octets from `at` on of a list that holds octets.
    pub(crate) fn octets(&self, at: usize, len: usize) -> Option<&[u8]> {
        self.room.as_bytes().get(at..at.checked_add(len)?)
    }

    /// Returns the pieces of elements that are the `len` octets from `offset` of the message on.
    /// They have fewer octets if the elements do.
    pub(crate) fn pieces(&self, offset: u32, len: u32) -> SgPieces<'_> {
        SgPieces {
            sges: self.elements().iter(),
            index: 0,
            skip: offset,
            left: len,
        }
    }
}

/// Returns the number of elements that have room for `max_sge` elements or `max_inline` octets.
pub(crate) fn slots(max_sge: u32, max_inline: u32) -> usize {
    let octets = u32_as_usize(max_inline).div_ceil(size_of::<Sge>());
    octets.max(u32_as_usize(max_sge))
}

/// Returns the octets of all elements (T-18).
fn total_len(sges: &[Sge]) -> u64 {
    let octets = sges.iter().map(|sge| Saturating(u64::from(sge.length)));
    octets.fold(Saturating(0), |sum, len| sum + len).0
}

#[derive(Clone)]
pub(crate) struct SgPieces<'a> {
    sges: core::slice::Iter<'a, Sge>,
    /// Of the next element.
    index: usize,
    /// Octets in front of the range that are still to be passed over.
    skip: u32,
    /// Octets of the range that are still to come.
    left: u32,
}

/// A part of an element.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// Of the element in its list.
    pub(crate) index: usize,
    pub(crate) sge: Sge,
    /// Where it begins in the element.
    pub(crate) at: u32,
    /// Octets, at least one.
    pub(crate) len: u32,
}

impl Iterator for SgPieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        while self.left > 0 {
            let sge = self.sges.next()?;
            let index = self.index;
            self.index = index.checked_add(1)?;
            if let Some(skip) = self.skip.checked_sub(sge.length) {
                self.skip = skip;
                continue;
            }
            let rest = sge.length.checked_sub(self.skip)?;
            let piece = Piece {
                index,
                sge: *sge,
                at: self.skip,
                len: rest.min(self.left),
            };
            self.skip = 0;
            self.left = self.left.checked_sub(piece.len)?;
            return Some(piece);
        }
        None
    }
}
