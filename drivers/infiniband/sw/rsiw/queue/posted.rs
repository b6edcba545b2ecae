// SPDX-License-Identifier: GPL-2.0

//! A queue of requests that kernel consumers post: private memory of a fixed size, whose taken
//! slots are counted.
//!
//! A send queue has more slots than the consumer asked for ([`send_slots`]), a receive queue has as
//! many as that.
//!
//! Context: any, under the lock of whoever has the queue; creation sleeps.
#![forbid(unsafe_code)]

use super::slots;
use crate::{
    abi::Sge,
    ffi::rdma::wr::{
        Element,
        Elements, //
    },
    limits::MAX_WR,
    proto::ring::{
        Full,
        Ring, //
    },
};
use core::num::Saturating;
use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Returns the number of slots of a send queue for which a kernel consumer has asked for `asked`.
///
/// Services count their transfers. One of these may take any number of requests, of which only the
/// last makes a completion. Adapters have slots to spare, as their queues are a power of two long,
/// so a rough estimate is enough for services. A receive queue needs nothing to spare: each receive
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
    /// Those that wait, each with its number of elements.
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

    /// Returns where the elements of the `n`th request are, counted from the oldest one, or those
    /// of the one that is added next.
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

    /// As [`Posted::push`], for a request that has a slot.
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

    /// Moves all requests, and the slots, to the new queue `to`, which takes lists as long as this.
    /// Returns `EINVAL` if it has less room than is taken (V-SRQ-5); then nothing has changed.
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
            // Bound: the octets of one list. All of it: there may be octets in the place of elements.
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
