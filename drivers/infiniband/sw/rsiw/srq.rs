// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues (draft-hilland-rddp-verbs section 6.3).
//!
//! A queue of receives that many QPs take from, each as its messages arrive. What a QP has taken is
//! its own, and the QP completes or flushes it. What is still in the queue when a QP fails stays
//! there for the others (V-SRQ-17).
//!
//! Context: taking in any context, under no lock but the socket's; the rest sleeps.
#![forbid(unsafe_code)]

use crate::abi::own::{
    ResizeSrqReq,
    ResizeSrqResp, //
};
use crate::abi::{
    CreateSrqResp,
    Rings, //
};
use crate::device::Pd;
use crate::ffi::mm::ring::SharedRing;
use crate::ffi::rdma::attr::SrqAttr;
use crate::ffi::rdma::driver::{
    SrqChange,
    SrqInit, //
};
use crate::ffi::rdma::handle::SrqHandle;
use crate::ffi::rdma::stats::Details;
use crate::ffi::rdma::udata::{
    MmapEntry,
    Udata, //
};
use crate::ffi::rdma::wr::RecvChain;
use crate::ffi::sync::{
    Watch,
    Watched, //
};
use crate::ffi::task::memory_for;
use crate::limits::{
    Quota,
    KERNEL_MAX_SGE,
    MAX_SRQ_WR, //
};
use crate::mr::PdId;
use crate::proto::receiver::Recv;
use crate::queue::rq::{
    BadRecv,
    KernelRq,
    Rq,
    UserRq, //
};
use crate::queue::shared::{
    new_ring,
    Offer, //
};
use crate::queue::{
    SgList,
    Slots, //
};
use kernel::prelude::*;
use kernel::sync::{
    new_spinlock_irq,
    Arc, //
};

/// What the queue's lock protects.
struct SrqState {
    rq: Rq,
    /// Number of slots.
    depth: u32,
    /// The consumer wants to be told when fewer receives than this wait; 0 if it does not.
    limit: u32,
}

/// What is told of a queue to those who do not have its lock.
struct SrqTold {
    depth: u32,
    limit: u32,
    /// Receives that wait; `None` for a process, which does not tell of those that it posts.
    posted: Option<u32>,
}

const _: () = assert!(MAX_SRQ_WR <= 1 << 20, "see the word of SrqState");

impl Watch for SrqState {
    /// The depth, the limit, and one more than the receives that wait, or 0; each in 21 bits.
    #[inline(always)]
    fn word(&self) -> u64 {
        // CAST: at most the depth.
        let posted = self.rq.posted();
        let posted = posted.map_or(0, |posted| (posted as u64).saturating_add(1));
        u64::from(self.depth) | u64::from(self.limit) << 21 | posted << 42
    }
}

impl SrqTold {
    /// Returns the parts of a word that [`SrqState`] has made.
    fn of(word: u64) -> Self {
        // CAST: 21 bits.
        let part = |shift: u32| (word >> shift) as u32 & ((1 << 21) - 1);
        Self {
            depth: part(0),
            limit: part(21),
            posted: part(42).checked_sub(1),
        }
    }
}

/// A ring that the queue of a process may go on in, and the offer to map it.
type NewRecvRing = (SharedRing, MmapEntry);

/// A shared receive queue. It knows none of the queue pairs that take from it, and forgets what it
/// has given to one.
#[pin_data]
pub(crate) struct Srq {
    pd: Arc<Pd>,
    handle: Arc<SrqHandle>,
    max_sge: u32,
    #[pin]
    offer: Offer<NewRecvRing>,
    #[pin]
    state: Watched<SrqState>,
    _quota: Quota,
}

impl Srq {
    pub(crate) fn describe(&self, to: &mut Details<'_>) -> Result {
        let told = SrqTold::of(self.state.word());
        to.number(c"depth", told.depth)?;
        to.number(c"max_sge", self.max_sge)?;
        to.number(c"limit", told.limit)?;
        match told.posted {
            Some(posted) => to.number(c"posted", posted),
            None => Ok(()),
        }
    }

    /// Creates a queue for the calling process, which uses `rings`, or for a kernel consumer.
    /// Replaces the sizes in `init` by the real ones. Returns `EINVAL` for sizes beyond the maxima
    /// or a limit above the depth (V-SRQ-3, V-SRQ-20), or `ENOMEM`.
    pub(crate) fn create(
        pd: &Arc<Pd>,
        handle: Arc<SrqHandle>,
        init: &mut SrqInit,
        rings: Rings,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Arc<Self>> {
        let layout = rings.layout();
        let limit = match &udata {
            Some(_) => layout.max_sge,
            None => KERNEL_MAX_SGE,
        };
        if !(1..=MAX_SRQ_WR).contains(&init.max_wr) || init.max_sge > limit {
            return Err(EINVAL);
        }
        init.max_sge = init.max_sge.max(1);
        let max_sge = init.max_sge;
        let quota = Quota::take(pd.device().limits(), |limits| &limits.srqs)?;
        let (rq, entry) = match &udata {
            Some(udata) => {
                let loaded = pd.device().queues().loaded();
                let (ring, entry) = new_ring(layout.rqe, init.max_wr, udata, loaded)?;
                init.max_wr = ring.len();
                let rq = UserRq::new(ring, layout, None, max_sge);
                (Rq::User(rq), Some(entry))
            }
            None => (Rq::Kernel(KernelRq::new(init.max_wr, max_sge)?), None),
        };
        let depth = init.max_wr;
        if init.limit > depth {
            return Err(EINVAL);
        }
        let state = SrqState {
            rq,
            depth,
            limit: init.limit,
        };
        let srq = Arc::pin_init(
            pin_init!(Self {
                pd: pd.clone(),
                handle,
                max_sge,
                offer <- Offer::new(entry),
                state <- Watched::new(new_spinlock_irq!(state, "rsiw::Srq::state")),
                _quota: quota,
            }),
            memory_for(udata.is_some()),
        )?;
        if let Some(udata) = udata {
            udata.respond(&CreateSrqResp {
                num_rqe: depth,
                pad: 0,
                srq_key: srq.offer.key(),
            })?;
        }
        Ok(srq)
    }

    /// Ends the offer to map the queue, which no QP uses any more. Sleeps.
    pub(crate) fn close(&self) {
        self.offer.close();
    }

    pub(crate) fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Posts the receives of a kernel consumer, up to the first bad one. Fails as [`Rq::post`].
    /// Any context.
    pub(crate) fn post(&self, chain: &mut RecvChain<'_>) -> Result {
        self.state.lock().rq.post(chain)
    }

    /// Returns the slots of a kernel consumer's queue.
    pub(crate) fn slots(&self) -> Option<Arc<Slots>> {
        self.state.lock().rq.slots()
    }

    /// Returns the protection domain by which the elements of its receives are checked (T-38).
    pub(crate) fn pd(&self) -> PdId {
        self.pd.id()
    }

    /// Changes the queue, all or nothing. The depth of a kernel consumer's queue can be changed
    /// with receives in it (V-SRQ-5). Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a limit above the depth, more receives than the new depth, or a depth beyond
    /// the maximum; `ENOMEM`; `EOPNOTSUPP` for another depth of a process's queue, as the call has
    /// no way to tell the process of a new mapping (see [`Srq::resize_ring`]).
    pub(crate) fn modify(&self, change: &SrqChange) -> Result {
        let mut new = match change.max_wr {
            None => None,
            Some(_) if self.offer.offered().entry.is_some() => return Err(EOPNOTSUPP),
            Some(depth) if !(1..=MAX_SRQ_WR).contains(&depth) => return Err(EINVAL),
            Some(depth) => Some((KernelRq::new(depth, self.max_sge)?, depth)),
        };
        let mut state = self.state.lock();
        let depth = new.as_ref().map_or(state.depth, |(_, depth)| *depth);
        let limit = change.limit.unwrap_or(state.limit);
        if limit > depth {
            return Err(EINVAL);
        }
        if let Some((queue, _)) = &mut new {
            state.rq.replace(queue)?;
        }
        state.depth = depth;
        state.limit = limit;
        drop(state);
        // The old queue is freed without the lock.
        drop(new);
        Ok(())
    }

    /// Gives the queue of a process with own rings the depth, and the limit, that its request asks
    /// for, all or nothing. The request may also ask for one step of that only. What was posted and
    /// not taken moves to a new ring, under the numbers that it has (V-SRQ-5). The old ring stays
    /// in memory for as long as it is mapped, but nobody looks there any more. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a limit above the depth, more receives than the new depth, a depth of 0 or
    /// beyond the maximum, if the process has no room for the answer, or if it moves to a ring that
    /// was not made; `ENOMEM`; `EFAULT`; `EOPNOTSUPP` for a queue without own rings.
    pub(crate) fn resize_ring(&self, udata: &mut Udata<'_>) -> Result {
        let asked: ResizeSrqReq = udata.read()?;
        let (step, limit) = (asked.step()?, asked.limit());
        let mut offered = self.offer.offered();
        let made = &mut offered.made;
        let Some((ring, entry)) = made.take_step(step, || self.make_ring(&asked, udata))? else {
            return Ok(());
        };
        let depth = ring.len();
        let mut moving = self.state.lock().rq.own()?.moving_to(ring);
        // Without the lock, which keeps interrupts off, as there may be many.
        moving.copy(|| Ok(self.state.lock().rq.own()?.taken()))?;
        loop {
            let mut state = self.state.lock();
            let limit = limit.unwrap_or(state.limit);
            if limit > depth {
                return Err(EINVAL);
            }
            let queue = state.rq.own()?;
            if queue.go_on_in(&mut moving) {
                state.depth = depth;
                state.limit = limit;
                break;
            }
            let taken = queue.taken();
            drop(state);
            moving.forget(taken);
        }
        let old = offered.entry.replace(entry);
        // Memory is freed without a lock held.
        drop(offered);
        drop((old, moving));
        Ok(())
    }

    /// Makes the ring that a process asks for, and tells it how to map it.
    fn make_ring(&self, asked: &ResizeSrqReq, udata: &mut Udata<'_>) -> Result<NewRecvRing> {
        if !(1..=MAX_SRQ_WR).contains(&asked.num_rqe) {
            return Err(EINVAL);
        }
        let loaded = self.pd.device().queues().loaded();
        let len = Rings::Own.layout().rqe;
        let (ring, entry) = new_ring(len, asked.num_rqe, udata, loaded)?;
        udata.respond(&ResizeSrqResp {
            num_rqe: ring.len(),
            pad: 0,
            srq_key: entry.key(),
        })?;
        Ok((ring, entry))
    }

    /// Returns the attributes. The limit is 0 once it was reached.
    pub(crate) fn query(&self) -> SrqAttr {
        let told = SrqTold::of(self.state.word());
        SrqAttr {
            max_wr: told.depth,
            max_sge: self.max_sge,
            limit: told.limit,
        }
    }

    /// Takes the oldest receive, if there is one, for a message that begins. Any context.
    pub(crate) fn take(&self, sgl: &mut SgList) -> Option<Result<Recv, BadRecv>> {
        let mut state = self.state.lock();
        let taken = state.rq.take(sgl);
        // Processes add receives without a call, so only here their number can be looked at.
        let reached = state.limit != 0 && !state.rq.holds(state.limit);
        if reached {
            state.limit = 0;
        }
        drop(state);
        if reached {
            self.handle.limit_reached();
        }
        taken
    }
}
