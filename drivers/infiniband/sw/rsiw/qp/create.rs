// SPDX-License-Identifier: GPL-2.0

//! Creation of queue pairs.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    control::Inner,
    rq::Rq,
    sq::{
        Sq,
        SqRing, //
    },
    Pending,
    Qp, //
};
use crate::{
    abi::{
        CreateQpResp,
        Rqe,
        Sqe,
        MAX_INLINE,
        MAX_SGE, //
    },
    device::{
        Quota,
        MAX_WR, //
    },
    ffi::{
        rdma::{
            driver::QpInit,
            handle::QpHandle,
            mmap::MmapEntry,
            udata::Udata, //
        },
        ring::{
            RingEntry,
            SharedRing, //
        },
        shmem::SharedMemory,
        timer::Timer,
    },
    pd::Pd,
    proto::reads::Irq,
    verbs::Rsiw,
};
use kernel::{
    new_mutex, new_spinlock_irq, new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Relaxed, //
        },
        Arc, //
    },
};

/// Numbers that a QP may have: as many as 24 bits hold, without 0 and 1, which are special elsewhere.
const NUMBERS: core::ops::RangeInclusive<u32> = 2..=0xff_ffff;

/// Makes the memory of a ring for at least `depth` entries, and the key to map it.
fn ring<T: RingEntry>(depth: u32, udata: &Udata<'_>) -> Result<(SharedRing<T>, MmapEntry)> {
    // The library maps each ring, so that there has to be something to map.
    let entries = depth.max(1).checked_next_power_of_two().ok_or(EINVAL)?;
    let mem = SharedMemory::new(SharedRing::<T>::bytes(entries)?)?;
    let ring = SharedRing::new(mem.clone(), entries)?;
    Ok((ring, MmapEntry::insert(udata, mem)?))
}

impl Qp {
    /// Creates a queue pair for the process that makes the call.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for what this driver does not have, `EINVAL` for sizes beyond the maxima,
    /// `ENOMEM`.
    pub(crate) fn create(
        pd: &Arc<Pd>,
        handle: Arc<QpHandle>,
        init: &mut QpInit<Rsiw>,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Self>, u32)> {
        if init.flags != 0 {
            return Err(EOPNOTSUPP);
        }
        let udata = udata.ok_or(EOPNOTSUPP)?;
        let cap = &mut init.cap;
        // CAST: 6 and 80.
        let (max_sge, max_inline) = (MAX_SGE as u32, MAX_INLINE as u32);
        if cap.max_send_wr > MAX_WR
            || cap.max_send_sge > max_sge
            || cap.max_inline_data > max_inline
        {
            return Err(EINVAL);
        }
        let srq = init.srq.clone();
        if srq.is_some() {
            // Whatever was asked of a queue that there will not be (V-QP-3).
            cap.max_recv_wr = 0;
            cap.max_recv_sge = 0;
        } else if cap.max_recv_wr > MAX_WR || cap.max_recv_sge > max_sge {
            return Err(EINVAL);
        }
        let send_cq = init.send_cq.as_ref().ok_or(EINVAL)?.cq().clone();
        let recv_cq = init.recv_cq.as_ref().ok_or(EINVAL)?.cq().clone();
        let quota = Quota::take(pd.device(), |limits| &limits.qps)?;

        let (sq, sq_entry) = ring::<Sqe>(cap.max_send_wr, udata)?;
        let (rq, rq_entry) = match srq {
            Some(_) => (None, None),
            None => {
                let (ring, entry) = ring::<Rqe>(cap.max_recv_wr, udata)?;
                cap.max_recv_wr = ring.len();
                cap.max_recv_sge = cap.max_recv_sge.max(1);
                (Some(Rq::new(ring, cap.max_recv_sge)), Some(entry))
            }
        };
        cap.max_send_wr = sq.len();
        cap.max_send_sge = cap.max_send_sge.max(1);
        cap.max_inline_data = max_inline;
        let mut resp = CreateQpResp {
            qp_id: 0,
            num_sqe: sq.len(),
            num_rqe: cap.max_recv_wr,
            pad: 0,
            sq_key: sq_entry.key(),
            rq_key: rq_entry.as_ref().map_or(0, MmapEntry::key),
        };

        let under_way = Sq::new(sq.len())?;
        let inner = Inner::new(SqRing::new(sq, init.sig_all, cap.max_send_sge));
        let (cap, sig_all) = (*cap, init.sig_all);
        let qp = Arc::pin_init(
            pin_init!(Self {
                num: Atomic::new(0),
                dev: pd.device().clone(),
                pd: pd.clone(),
                handle,
                send_cq,
                recv_cq,
                cap,
                sig_all,
                owner: Some(current!().tgid()),
                access: Atomic::new(0),
                state: Atomic::new(0),
                heard: Atomic::new(0),
                answered: AtomicFlag::new(false),
                destroyed: AtomicFlag::new(false),
                sq_entry,
                rq_entry,
                srq,
                inner <- new_mutex!(inner, "rsiw::Qp::inner"),
                sq <- new_spinlock_irq!(under_way, "rsiw::Qp::sq"),
                irq <- new_spinlock_irq!(Irq::new(KVec::new()), "rsiw::Qp::irq"),
                rq <- new_spinlock_irq!(rq, "rsiw::Qp::rq"),
                pending <- new_spinlock_irq!(Pending::default(), "rsiw::Qp::pending"),
                endpoint <- new_spinlock_irq!(None, "rsiw::Qp::endpoint"),
                work <- new_work!("rsiw::Qp::work"),
                timer <- Timer::new(),
                _quota: quota,
            }),
            GFP_KERNEL,
        )?;
        pd.join();
        let num = match qp.dev.qps.insert_free(NUMBERS, qp.clone()) {
            Ok(num) => num,
            Err(e) => {
                qp.discard();
                return Err(e);
            }
        };
        qp.num.store(num, Relaxed);
        resp.qp_id = num;
        if let Err(e) = udata.respond(&resp) {
            qp.destroy();
            return Err(e);
        }
        Ok((qp, num))
    }

    /// Ends the offers to map the rings.
    pub(super) fn forget_rings(&self) {
        self.sq_entry.remove();
        if let Some(entry) = &self.rq_entry {
            entry.remove();
        }
    }

    /// Undoes what creation did outside the object itself.
    fn discard(&self) {
        self.forget_rings();
        self.pd.leave();
    }
}
