// SPDX-License-Identifier: GPL-2.0

//! The receive queue: requests of a kernel consumer, or a ring of a process in shared memory.
//!
//! Context: any, under the lock of the QP's receive queue or the shared one.
#![forbid(unsafe_code)]

use super::shared::Moving;
use super::{
    copy_elements,
    Posted,
    SgList,
    Slots, //
};
use crate::abi::{
    wqe,
    Layout,
    RqeFront,
    RECV_ELEMENTS, //
};
use crate::ffi::mm::ring::{
    Position,
    SharedRing,
    SharedWord, //
};
use crate::ffi::rdma::wr::RecvChain;
use crate::proto::receiver::Recv;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A receive whose list of elements makes no sense.
pub(crate) struct BadRecv {
    /// The consumer's name for the receive.
    pub(crate) id: u64,
}

/// Where receives come from.
pub(crate) enum Rq {
    User(UserRq),
    Kernel(KernelRq),
}

/// Receives of a kernel consumer.
pub(crate) struct KernelRq {
    posted: Posted<Recv>,
    max_sge: u32,
}

impl KernelRq {
    /// Makes a queue of `depth` receives.
    pub(crate) fn new(depth: u32, max_sge: u32) -> Result<Self> {
        Ok(Self {
            posted: Posted::new(depth, max_sge, 0)?,
            max_sge,
        })
    }

    fn post(&mut self, chain: &mut RecvChain<'_>) -> Result {
        // Bound: as many as a consumer in the kernel posts at a time, up to the depth.
        for wr in chain {
            let room = self.posted.room()?;
            let (used, len) = copy_elements(wr.elements()?, room, self.max_sge)?;
            self.posted.push(Recv { id: wr.id(), len }, used)?;
        }
        Ok(())
    }

    fn take(&mut self, sgl: &mut SgList) -> Option<Result<Recv, BadRecv>> {
        let (_, elements, _) = self.posted.front()?;
        let fits = sgl.set(elements);
        let recv = self.posted.pop()?;
        Some(if fits {
            Ok(recv)
        } else {
            Err(BadRecv { id: recv.id })
        })
    }
}

impl Rq {
    /// Puts the new queue `to` of a kernel consumer in the place of this one, with all receives.
    /// The old one is in `to` afterwards, to be dropped without a lock. Returns `EINVAL` if `to`
    /// has less room than is taken, `EOPNOTSUPP` for a process; then nothing has changed.
    pub(crate) fn replace(&mut self, to: &mut KernelRq) -> Result {
        match self {
            Self::User(_) => Err(EOPNOTSUPP),
            Self::Kernel(queue) => {
                queue.posted.move_to(&mut to.posted)?;
                core::mem::swap(queue, to);
                Ok(())
            }
        }
    }

    /// Returns the queue of a process with own rings, or `EOPNOTSUPP` for any other queue.
    pub(crate) fn own(&mut self) -> Result<&mut UserRq> {
        match self {
            Self::User(queue) if queue.layout.is_own() => Ok(queue),
            Self::User(_) | Self::Kernel(_) => Err(EOPNOTSUPP),
        }
    }

    /// Tells a process whether its receives are flushed from now on. If so, it makes a call after
    /// it has posted. Whoever flushes needs a full barrier after this.
    pub(crate) fn set_flushes(&mut self, flushes: bool) {
        match self {
            Self::User(ring) => ring.set_flushes(flushes),
            Self::Kernel(_) => {}
        }
    }

    /// Returns whether the consumer tells of the receives that it posts while receives are flushed.
    pub(crate) fn is_told_of_posts(&self) -> bool {
        match self {
            Self::User(ring) => ring.is_told_of_posts(),
            Self::Kernel(_) => true,
        }
    }

    /// Returns the number of slots.
    pub(crate) fn len(&self) -> usize {
        match self {
            // CAST: 32 bits fit.
            Self::User(ring) => ring.len() as usize,
            Self::Kernel(ring) => ring.posted.depth(),
        }
    }

    /// Returns the slots of a kernel consumer's queue.
    pub(crate) fn slots(&self) -> Option<Arc<Slots>> {
        match self {
            Self::User(_) => None,
            Self::Kernel(ring) => Some(ring.posted.slots().clone()),
        }
    }

    /// Returns how many receives wait in a kernel consumer's queue; a process does not tell.
    pub(crate) fn posted(&self) -> Option<usize> {
        match self {
            Self::User(_) => None,
            Self::Kernel(ring) => Some(ring.posted.len()),
        }
    }

    /// Returns whether at least `count` receives wait; `count` is not 0.
    pub(crate) fn holds(&self, count: u32) -> bool {
        match self {
            Self::User(ring) => ring.holds(count),
            // CAST: 32 bits fit.
            Self::Kernel(ring) => ring.posted.len() >= count as usize,
        }
    }

    /// Posts the receives of a kernel consumer, up to the first bad one. Returns `ENOMEM` if the
    /// queue is full, `EINVAL` for too many elements or the queue of a process.
    pub(crate) fn post(&mut self, chain: &mut RecvChain<'_>) -> Result {
        match self {
            Self::User(_) => {
                let _ = chain.next();
                Err(EINVAL)
            }
            Self::Kernel(ring) => ring.post(chain),
        }
    }

    /// Takes the oldest receive out, if there is one; `sgl` gets its elements.
    #[inline(always)]
    pub(crate) fn take(&mut self, sgl: &mut SgList) -> Option<Result<Recv, BadRecv>> {
        match self {
            Self::User(ring) => ring.take(sgl),
            Self::Kernel(ring) => ring.take(sgl),
        }
    }

    /// Takes the oldest receive out, for which only a completion is wanted, and returns the
    /// consumer's name for it.
    pub(crate) fn discard(&mut self) -> Option<u64> {
        match self {
            Self::User(ring) => ring.discard(),
            Self::Kernel(ring) => ring.posted.pop().map(|recv| recv.id),
        }
    }
}

/// The consuming end of a process's ring.
pub(crate) struct UserRq {
    ring: SharedRing,
    layout: &'static Layout,
    /// The next entry to be taken out.
    get: Position,
    max_sge: u32,
    /// Says whether the process has to tell of what it posts; `None` if it does not know this word.
    word: Option<SharedWord>,
    /// What the word is to say. The process can write to the word itself.
    flushes: bool,
}

impl UserRq {
    /// Takes over the consuming end of a ring.
    pub(crate) fn new(
        ring: SharedRing,
        layout: &'static Layout,
        word: Option<SharedWord>,
        max_sge: u32,
    ) -> Self {
        Self {
            ring,
            layout,
            get: Position::FIRST,
            max_sge,
            word,
            flushes: false,
        }
    }

    /// [`Rq::set_flushes`] for a process.
    pub(crate) fn set_flushes(&mut self, flushes: bool) {
        self.flushes = flushes;
        if let Some(word) = &self.word {
            word.store(flushes.into());
        }
    }

    /// From now on tells the process by the new `word`; the old word is in `word` afterwards.
    pub(crate) fn tell_by(&mut self, word: &mut Option<SharedWord>) {
        core::mem::swap(&mut self.word, word);
        self.set_flushes(self.flushes);
    }

    /// [`Rq::is_told_of_posts`] for a process.
    pub(crate) fn is_told_of_posts(&self) -> bool {
        self.word.is_some()
    }

    pub(crate) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// Returns the position of the receive that is taken next.
    pub(crate) fn taken(&self) -> Position {
        self.get
    }

    /// Begins to move to the empty ring `to`.
    pub(crate) fn moving_to(&self, to: SharedRing) -> Moving {
        Moving::new(self.ring.clone(), to, self.get)
    }

    /// Goes on in the new ring. Returns whether that was done: see [`Moving::finish`].
    pub(crate) fn go_on_in(&mut self, moving: &mut Moving) -> bool {
        moving.finish(&mut self.ring, self.get)
    }

    /// [`Rq::holds`] for a process.
    pub(crate) fn holds(&self, count: u32) -> bool {
        // Receives are added in order: all are there if the last one is.
        let last = self.get + count - 1;
        count <= self.len() && self.ring.entry(last).flags() & wqe::VALID != 0
    }

    /// [`Rq::take`] for a process.
    #[inline(always)]
    pub(crate) fn take(&mut self, sgl: &mut SgList) -> Option<Result<Recv, BadRecv>> {
        let entry = self.ring.entry(self.get);
        if entry.flags() & wqe::VALID == 0 {
            return None;
        }
        let front = entry.front();
        let RqeFront { id, num_sge, .. } = front;
        let len = match self.layout.is_clean(&front) {
            true => sgl.copy_from_ring(entry, RECV_ELEMENTS, num_sge.into(), self.max_sge),
            false => None,
        };
        // Gives the slot back to the process.
        entry.set_flags(0);
        self.get.advance();
        Some(len.map_or(Err(BadRecv { id }), |len| Ok(Recv { id, len })))
    }

    /// [`Rq::discard`] for a process.
    pub(crate) fn discard(&mut self) -> Option<u64> {
        let entry = self.ring.entry(self.get);
        if entry.flags() & wqe::VALID == 0 {
            return None;
        }
        let RqeFront { id, .. } = entry.front();
        entry.set_flags(0);
        self.get.advance();
        Some(id)
    }
}
