// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues (draft-hilland-rddp-verbs section 6.3).
//!
//! A queue of receives that many QPs take from, each as its messages arrive. What a QP has taken is
//! its own: it completes or flushes it. What is still in the queue when a QP fails stays there for
//! the others (V-SRQ-17).
//!
//! Context: taking in any context, under no lock but the socket's; the rest sleeps.
#![forbid(unsafe_code)]

use crate::{
    abi::{
        CreateSrqResp,
        Rqe,
        MAX_SGE, //
    },
    device::Quota,
    ffi::{
        rdma::{
            attr::{
                EventType,
                SrqAttr, //
            },
            driver::{
                HasSrqHandle,
                SrqChange,
                SrqInit, //
            },
            handle::SrqHandle,
            mmap::MmapEntry,
            udata::Udata, //
        },
        ring::SharedRing,
        shmem::SharedMemory,
    },
    mr::PdId,
    pd::Pd,
    qp::rq::{
        BadRecv,
        Recv,
        Rq, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
};

/// Largest number of entries.
pub(crate) const MAX_SRQ_WR: u32 = 1 << 18;

/// What the queue's lock protects.
struct State {
    rq: Rq,
    /// The consumer wants to be told when fewer receives than this wait; 0 if it does not.
    limit: u32,
}

/// A shared receive queue of a process.
#[pin_data]
pub(crate) struct Srq {
    pd: Arc<Pd>,
    handle: Arc<SrqHandle>,
    depth: u32,
    max_sge: u32,
    entry: MmapEntry,
    #[pin]
    state: SpinLockIrq<State>,
    _quota: Quota,
}

impl HasSrqHandle for Srq {
    fn handle(&self) -> &SrqHandle {
        &self.handle
    }
}

impl Srq {
    /// Makes a queue for the process that makes the call; replaces the sizes in `init` by the real
    /// ones.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for kernel consumers, `EINVAL` for sizes beyond the maxima or a limit above the
    /// depth (V-SRQ-3, V-SRQ-20), `ENOMEM`.
    pub(crate) fn create(
        pd: &Arc<Pd>,
        handle: Arc<SrqHandle>,
        init: &mut SrqInit,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Arc<Self>> {
        let udata = udata.ok_or(EOPNOTSUPP)?;
        // CAST: 6.
        if !(1..=MAX_SRQ_WR).contains(&init.max_wr) || init.max_sge > MAX_SGE as u32 {
            return Err(EINVAL);
        }
        let depth = init.max_wr.checked_next_power_of_two().ok_or(EINVAL)?;
        if init.limit > depth {
            return Err(EINVAL);
        }
        let max_sge = init.max_sge.max(1);
        let quota = Quota::take(pd.device(), |limits| &limits.srqs)?;
        let mem = SharedMemory::new(SharedRing::<Rqe>::bytes(depth)?)?;
        let ring = SharedRing::new(mem.clone(), depth)?;
        let entry = MmapEntry::insert(udata, mem)?;
        let state = State {
            rq: Rq::new(ring, max_sge),
            limit: init.limit,
        };
        let srq = Arc::pin_init(
            pin_init!(Self {
                pd: pd.clone(),
                handle,
                depth,
                max_sge,
                entry,
                state <- new_spinlock_irq!(state, "rsiw::Srq::state"),
                _quota: quota,
            }),
            GFP_KERNEL,
        )?;
        udata.respond(&CreateSrqResp {
            num_rqe: depth,
            pad: 0,
            srq_key: srq.entry.key(),
        })?;
        init.max_wr = depth;
        init.max_sge = max_sge;
        Ok(srq)
    }

    /// Ends the offer to map the queue. No QP uses it any more. Sleeps.
    pub(crate) fn close(&self) {
        self.entry.remove();
    }

    /// The protection domain by which the elements of its receives are checked (T-38).
    pub(crate) fn pd(&self) -> PdId {
        self.pd.id()
    }

    /// Changes the queue, all or nothing.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a limit above the depth. `EOPNOTSUPP` for another depth: the call has no way to
    /// tell the process of a new mapping.
    pub(crate) fn modify(&self, change: &SrqChange) -> Result {
        if change.max_wr.is_some() {
            return Err(EOPNOTSUPP);
        }
        if let Some(limit) = change.limit {
            if limit > self.depth {
                return Err(EINVAL);
            }
            self.state.lock().limit = limit;
        }
        Ok(())
    }

    /// Tells how the queue is. The limit is 0 once it was reached.
    pub(crate) fn query(&self) -> SrqAttr {
        SrqAttr {
            max_wr: self.depth,
            max_sge: self.max_sge,
            limit: self.state.lock().limit,
        }
    }

    /// Takes the oldest receive, if there is one, for a message that begins. Any context.
    pub(crate) fn take(&self) -> Option<Result<Recv, BadRecv>> {
        let mut state = self.state.lock();
        let taken = state.rq.take();
        // Receives are added without a call, so this is where their number can be looked at.
        let reached = state.limit != 0 && !state.rq.holds(state.limit);
        if reached {
            state.limit = 0;
        }
        drop(state);
        if reached {
            self.handle.event(EventType::SrqLimitReached);
        }
        taken
    }
}
