// SPDX-License-Identifier: GPL-2.0

//! A queue of requests that kernel consumers post: private memory of a fixed size.
//!
//! A send queue has more slots than the consumer asked for ([`send_slots`]), a receive queue has as
//! many as that.
//!
//! Context: any, under the lock of whoever has the queue; creation sleeps.
#![forbid(unsafe_code)]

use super::{
    sgl::slots,
    slots::Slots, //
};
use crate::{
    abi::Sge,
    ffi::rdma::wr::{
        Element,
        Elements, //
    },
    limits::MAX_WR,
};
use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::Arc, //
};

/// Slots of a send queue for which a kernel consumer has asked for `asked`.
///
/// What services count are their transfers, one of which may take any number of requests of which
/// only the last makes a completion. Adapters have slots to spare, as their queues are a power of
/// two long; so services get along with a rough estimate. A receive queue needs no such thing: each
/// receive makes a completion, so they count them one by one.
pub(crate) fn send_slots(asked: u32) -> u32 {
    match asked {
        0 => 0,
        _ => asked
            .saturating_mul(2)
            .checked_next_power_of_two()
            .map_or(MAX_WR, |slots| slots.min(MAX_WR)),
    }
}

/// Requests, each with its list of elements.
pub(crate) struct Posted<T> {
    requests: KVVec<Option<(T, usize)>>,
    /// `width` for each request.
    elements: KVVec<Sge>,
    width: usize,
    /// Slot of the oldest request.
    head: usize,
    /// Requests that wait.
    len: usize,
    /// Those, and what became of others.
    slots: Arc<Slots>,
}

impl<T: Copy> Posted<T> {
    /// Makes a queue of `depth` requests with room for `max_sge` elements or `max_inline` octets
    /// each.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(depth: u32, max_sge: u32, max_inline: u32) -> Result<Self> {
        let depth = u32_as_usize(depth);
        let width = slots(max_sge, max_inline);
        let all = depth.checked_mul(width).ok_or(ENOMEM)?;
        Ok(Self {
            requests: KVVec::from_elem(None, depth, GFP_KERNEL)?,
            elements: KVVec::from_elem(Sge::default(), all, GFP_KERNEL)?,
            width,
            head: 0,
            len: 0,
            slots: Slots::new()?,
        })
    }

    /// Number of slots.
    pub(crate) fn depth(&self) -> usize {
        self.requests.len()
    }

    /// The slots, to be freed one by one.
    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn row(&self, slot: usize) -> core::ops::Range<usize> {
        // The queue was made with this many elements.
        let start = slot.wrapping_mul(self.width);
        start..start.wrapping_add(self.width)
    }

    fn tail(&self) -> usize {
        let at = self.head.wrapping_add(self.len);
        at.checked_sub(self.requests.len()).unwrap_or(at)
    }

    /// The room for the elements of the next request.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the queue is full (V-WR-5).
    pub(crate) fn room(&mut self) -> Result<&mut [Sge]> {
        if self.len.max(self.slots.taken()) >= self.requests.len() {
            return Err(ENOMEM);
        }
        let row = self.row(self.tail());
        self.elements.get_mut(row).ok_or(ENOMEM)
    }

    /// Adds a request, of whose room `used` elements are filled.
    ///
    /// # Errors
    ///
    /// As [`Posted::room`], which was asked before.
    pub(crate) fn push(&mut self, request: T, used: usize) -> Result {
        self.put(request, used)?;
        self.slots.take();
        Ok(())
    }

    /// Adds a request that has a slot.
    fn put(&mut self, request: T, used: usize) -> Result {
        let tail = self.tail();
        let len = self.len.checked_add(1).ok_or(ENOMEM)?;
        let slot = self.requests.get_mut(tail).filter(|slot| slot.is_none());
        *slot.ok_or(ENOMEM)? = Some((request, used));
        self.len = len;
        Ok(())
    }

    /// The oldest request, and the room of its elements with those used in front.
    pub(crate) fn front(&self) -> Option<(&T, &[Sge], &[Sge])> {
        if self.len == 0 {
            return None;
        }
        let (request, used) = self.requests.get(self.head)?.as_ref()?;
        let room = self.elements.get(self.row(self.head))?;
        Some((request, room.get(..*used)?, room))
    }

    /// Whether the new queue `to` has room for all that is taken here; slots may become free
    /// meanwhile, but none is taken without the lock.
    ///
    /// # Errors
    ///
    /// `EINVAL` if not.
    pub(crate) fn check_fits(&self, to: &Self) -> Result {
        if self.len.max(self.slots.taken()) > to.requests.len() || self.width != to.width {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Moves all requests, and the slots, to the new queue `to`, which takes lists as long as this.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has less room than is taken (V-SRQ-5); nothing has changed then.
    pub(crate) fn move_to(&mut self, to: &mut Self) -> Result {
        self.check_fits(to)?;
        to.slots = self.slots.clone();
        // As many as a consumer in the kernel has posted, at most its depth: [`MAX_WR`], or that of a
        // shared receive queue.
        while let Some((request, elements, octets)) = self.front() {
            let (request, used) = (*request, elements.len());
            let row = to.row(to.tail());
            let room = to.elements.get_mut(row).ok_or(EINVAL)?;
            let room = room.get_mut(..octets.len()).ok_or(EINVAL)?;
            // All of it: there may be octets in the place of elements.
            room.copy_from_slice(octets);
            to.put(request, used)?;
            self.pop();
        }
        Ok(())
    }

    /// Takes the oldest request out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let len = self.len.checked_sub(1)?;
        let (request, _) = self.requests.get_mut(self.head)?.take()?;
        self.len = len;
        self.head = match self.head.wrapping_add(1) {
            next if next == self.requests.len() => 0,
            next => next,
        };
        Some(request)
    }
}

/// Copies the elements of a request. Returns how many there are and the octets of all.
///
/// # Errors
///
/// `EINVAL` if there are more than `max` (V-IMM-13).
pub(crate) fn copy_elements(
    from: Elements<'_>,
    room: &mut [Sge],
    max: u32,
) -> Result<(usize, u64)> {
    let count = from.len();
    if count > u32_as_usize(max).min(room.len()) {
        return Err(EINVAL);
    }
    let mut total = 0u64;
    for (to, Element { addr, len, lkey }) in room.iter_mut().zip(from) {
        *to = Sge {
            laddr: addr,
            length: len,
            lkey,
        };
        total = total.saturating_add(len.into());
    }
    Ok((count, total))
}
