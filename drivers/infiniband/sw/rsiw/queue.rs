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

pub(crate) mod rq;
pub(crate) mod shared;

use crate::abi::Sge;
use crate::ffi::mm::ring::{
    Entry,
    Place, //
};
use crate::ffi::rdma::wr::{
    Element,
    Elements, //
};
use crate::limits::MAX_WR;
use crate::proto::ring::{
    Full,
    Ring, //
};
use core::mem::size_of;
use core::num::Saturating;
use kernel::num::casts::u32_as_usize;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
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
        // There are `count` elements. If not, their octets are too few, and the user of the list
        // notices.
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

    /// Like [`SgList::replace`], but for `len` octets.
    #[inline]
    pub(crate) fn replace_by_octets(&mut self, len: usize) -> Option<&mut [Sge]> {
        self.count = 0;
        self.room.get_mut(..len.div_ceil(size_of::<Sge>()))
    }

    /// Replaces the elements by the first `count` of `entry`, which are from `place` on. Returns
    /// the sum of their octets, or `None` if they are more than `limit`.
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
        // Most requests have one element, which needs no loop.
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

    /// Returns the pieces of elements in which the `len` octets from `offset` of the message on
    /// lie. The pieces have fewer octets if the elements do.
    pub(crate) fn pieces(&self, offset: u32, len: u32) -> SgPieces<'_> {
        SgPieces {
            sges: self.elements().iter(),
            index: 0,
            skip: offset,
            left: len,
        }
    }
}

/// Returns how many elements there must be for `max_sge` elements, or for `max_inline` octets.
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
    /// The index of the next element.
    index: usize,
    /// Octets in front of the range that are still to be passed over.
    skip: u32,
    /// Octets of the range that are still to come.
    left: u32,
}

/// A part of an element.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// The index of the element in its list.
    pub(crate) index: usize,
    pub(crate) sge: Sge,
    /// Where the part begins in the element.
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

/// Returns the number of slots of a send queue for which a kernel consumer has asked for `asked`.
///
/// Services count transfers. A transfer may take any number of requests, of which only the last
/// makes a completion. Adapters have slots to spare, as their queues are a power of two long, so a
/// rough estimate is enough for services. A receive queue needs nothing to spare: each receive
/// makes a completion, so they are counted one by one.
pub(crate) fn send_slots(asked: u32) -> u32 {
    match asked {
        0 => 0,
        _ => asked
            .checked_mul(2)
            .and_then(u32::checked_next_power_of_two)
            .map_or(MAX_WR, |slots| slots.min(MAX_WR)),
    }
}

/// Requests, each with its list of elements.
pub(crate) struct Posted<T> {
    /// The requests that wait, each with its number of elements.
    requests: Ring<KVVec<Option<(T, usize)>>>,
    /// `width` for each request.
    elements: KVVec<Sge>,
    width: usize,
    slots: Arc<Slots>,
}

impl<T> Posted<T> {
    /// Makes a queue of `depth` requests of at most `max_sge` elements or `max_inline` octets each.
    pub(crate) fn new(depth: u32, max_sge: u32, max_inline: u32) -> Result<Self> {
        let depth = u32_as_usize(depth);
        let width = slots(max_sge, max_inline);
        let all = depth.checked_mul(width).ok_or(ENOMEM)?;
        let mut requests = KVVec::with_capacity(depth, GFP_KERNEL)?;
        for _ in 0..depth {
            requests.push_within_capacity(None).map_err(|_| ENOMEM)?;
        }
        Ok(Self {
            requests: Ring::new(requests),
            elements: KVVec::from_elem(Sge::default(), all, GFP_KERNEL)?,
            width,
            slots: Slots::new()?,
        })
    }

    /// Returns the number of slots.
    pub(crate) fn depth(&self) -> usize {
        self.requests.capacity()
    }

    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// Returns how many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns where the elements of the `n`th request are, counted from the oldest one. If only
    /// `n` requests wait, those are the elements of the request that is added next.
    fn row(&self, n: usize) -> Option<core::ops::Range<usize>> {
        let start = self.requests.slot(n).checked_mul(self.width)?;
        Some(start..start.checked_add(self.width)?)
    }

    /// Returns the room for the next request's elements, or `ENOMEM` if the queue is full (V-WR-5).
    pub(crate) fn room(&mut self) -> Result<&mut [Sge]> {
        if self.len().max(self.slots.taken()) >= self.depth() {
            return Err(ENOMEM);
        }
        let row = self.row(self.len()).ok_or(ENOMEM)?;
        self.elements.get_mut(row).ok_or(ENOMEM)
    }

    /// Adds a request that fills `used` elements of the room. Fails as [`Posted::room`], which was
    /// called before.
    pub(crate) fn push(&mut self, request: T, used: usize) -> Result {
        self.put(request, used)?;
        self.slots.take();
        Ok(())
    }

    /// Like [`Posted::push`], for a request that has a slot already.
    fn put(&mut self, request: T, used: usize) -> Result {
        let put = self.requests.push(Some((request, used)));
        put.map_err(|Full| ENOMEM)
    }

    /// Returns the oldest request, its elements, and the whole room of which they fill the front.
    pub(crate) fn front(&mut self) -> Option<(&mut T, &[Sge], &[Sge])> {
        let row = self.row(0)?;
        let (request, used) = self.requests.get_mut(0)?.as_mut()?;
        let room = self.elements.get(row)?;
        Some((request, room.get(..*used)?, room))
    }

    /// Checks that the new queue `to` has room for all that is taken here, or returns `EINVAL`.
    /// Slots may become free meanwhile, but none is taken without the lock.
    pub(crate) fn check_fits(&self, to: &Self) -> Result {
        if self.len().max(self.slots.taken()) > to.depth() || self.width != to.width {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Moves all requests, and the slots, to the new queue `to`, whose lists are as long. Returns
    /// `EINVAL` if `to` has less room than is taken (V-SRQ-5); then nothing has changed.
    pub(crate) fn move_to(&mut self, to: &mut Self) -> Result {
        self.check_fits(to)?;
        to.slots = self.slots.clone();
        // Bound: as many as a consumer in the kernel has posted, at most its depth: [`MAX_WR`], or
        // that of a shared receive queue.
        while let Some((_, elements, octets)) = self.front() {
            let used = elements.len();
            let row = to.row(to.len()).ok_or(EINVAL)?;
            let room = to.elements.get_mut(row).ok_or(EINVAL)?;
            let room = room.get_mut(..octets.len()).ok_or(EINVAL)?;
            // Bound: the octets of one list. All of it: there may be octets in the place of
            // elements.
            room.copy_from_slice(octets);
            let request = self.pop().ok_or(EINVAL)?;
            to.put(request, used)?;
        }
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let (request, _) = self.requests.get_mut(0)?.take()?;
        self.requests.drop_oldest();
        Some(request)
    }
}

/// Copies the elements of a request. Returns how many there are and the octets of all, or `EINVAL`
/// if there are more than `max` (V-IMM-13).
pub(crate) fn copy_elements(
    from: Elements<'_>,
    room: &mut [Sge],
    max: u32,
) -> Result<(usize, u64)> {
    let count = from.len();
    if count > u32_as_usize(max).min(room.len()) {
        return Err(EINVAL);
    }
    let mut total = Saturating(0);
    for (to, Element { addr, len, lkey }) in room.iter_mut().zip(from) {
        *to = Sge {
            laddr: addr,
            length: len,
            lkey,
        };
        total += u64::from(len);
    }
    Ok((count, total.0))
}

/// Slots of a queue that are taken. A request has one until the consumer has polled its completion,
/// or until it succeeded if it makes none (V-WR-6 to 8, V-SRQ-10).
pub(crate) struct Slots(Atomic<u32>);

impl Slots {
    pub(super) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Atomic::new(0)), GFP_KERNEL)?)
    }

    pub(super) fn taken(&self) -> usize {
        u32_as_usize(self.0.load(Relaxed))
    }

    pub(super) fn take(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Frees a slot.
    pub(crate) fn free(&self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
