// SPDX-License-Identifier: GPL-2.0

//! Creation of queue pairs.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    control::Inner,
    published::Published,
    rq::{
        KernelRq,
        Rq,
        UserRq, //
    },
    sq::{
        kernel::KernelSq,
        under_way,
        user::UserSq,
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
    cq::Spare,
    device::{
        Quota,
        KERNEL_MAX_INLINE,
        KERNEL_MAX_SGE,
        MAX_WR, //
    },
    ffi::{
        module::Loaded,
        process::memory_for,
        rdma::{
            attr::{
                AccessFlags,
                QpCap,
                Qpn, //
            },
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
    mr::window::Binder,
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
fn ring<T: RingEntry>(
    depth: u32,
    udata: &Udata<'_>,
    loaded: Loaded,
) -> Result<(SharedRing<T>, MmapEntry)> {
    // The library maps each ring, so that there has to be something to map.
    let entries = depth.max(1).checked_next_power_of_two().ok_or(EINVAL)?;
    let mem = SharedMemory::new(SharedRing::<T>::bytes(entries)?, loaded)?;
    let ring = SharedRing::new(mem.clone(), entries)?;
    Ok((ring, MmapEntry::insert(udata, mem)?))
}

/// The queues of a new QP.
struct Queues {
    ring: SqRing,
    /// None with a shared receive queue.
    rq: Option<Rq>,
    sq_entry: Option<MmapEntry>,
    rq_entry: Option<MmapEntry>,
    posted: Option<Arc<KernelSq>>,
}

impl Queues {
    /// Makes the queues of a process; replaces what was asked by what is given.
    fn of_process(
        cap: &mut QpCap,
        has_srq: bool,
        sig_all: bool,
        udata: &Udata<'_>,
        loaded: Loaded,
    ) -> Result<Self> {
        // CAST: 6 and 80.
        check(cap, has_srq, MAX_SGE as u32, MAX_INLINE as u32)?;
        let (sq, sq_entry) = ring::<Sqe>(cap.max_send_wr, udata, loaded)?;
        let (rq, rq_entry) = if has_srq {
            (None, None)
        } else {
            let (ring, entry) = ring::<Rqe>(cap.max_recv_wr, udata, loaded)?;
            cap.max_recv_wr = ring.len();
            let rq = UserRq::new(ring, cap.max_recv_sge);
            (Some(Rq::User(rq)), Some(entry))
        };
        cap.max_send_wr = sq.len();
        // CAST: 80.
        cap.max_inline_data = MAX_INLINE as u32;
        Ok(Self {
            ring: SqRing::User(UserSq::new(sq, sig_all, cap.max_send_sge)),
            rq,
            sq_entry: Some(sq_entry),
            rq_entry,
            posted: None,
        })
    }

    /// Makes the queues of a kernel consumer.
    fn of_kernel(cap: &mut QpCap, has_srq: bool, sig_all: bool) -> Result<Self> {
        check(cap, has_srq, KERNEL_MAX_SGE, KERNEL_MAX_INLINE)?;
        let posted = KernelSq::new(
            cap.max_send_wr,
            sig_all,
            cap.max_send_sge,
            cap.max_inline_data,
        )?;
        let rq = if has_srq {
            None
        } else {
            let rq = KernelRq::new(cap.max_recv_wr, cap.max_recv_sge)?;
            Some(Rq::Kernel(rq))
        };
        Ok(Self {
            ring: SqRing::Kernel(posted.clone()),
            rq,
            sq_entry: None,
            rq_entry: None,
            posted: Some(posted),
        })
    }
}

/// Checks sizes against the maxima; each request may have an element.
fn check(cap: &mut QpCap, has_srq: bool, max_sge: u32, max_inline: u32) -> Result {
    if has_srq {
        // Whatever was asked of a queue that there will not be (V-QP-3).
        cap.max_recv_wr = 0;
        cap.max_recv_sge = 0;
    } else {
        cap.max_recv_sge = cap.max_recv_sge.max(1);
    }
    if cap.max_send_wr > MAX_WR
        || cap.max_recv_wr > MAX_WR
        || cap.max_send_sge > max_sge
        || cap.max_recv_sge > max_sge
        || cap.max_inline_data > max_inline
    {
        return Err(EINVAL);
    }
    cap.max_send_sge = cap.max_send_sge.max(1);
    Ok(())
}

impl Qp {
    /// Creates a queue pair for the process that makes the call, or for a kernel consumer.
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
    ) -> Result<(Arc<Self>, Qpn)> {
        if init.flags != 0 {
            return Err(EOPNOTSUPP);
        }
        let send_cq = init.send_cq.as_ref().ok_or(EINVAL)?.cq().clone();
        let recv_cq = init.recv_cq.as_ref().ok_or(EINVAL)?.cq().clone();
        let quota = Quota::take(pd.device(), |limits| &limits.qps)?;
        let srq = init.srq.clone();
        let queues = match &udata {
            Some(udata) => {
                let loaded = pd.device().queues().loaded();
                Queues::of_process(&mut init.cap, srq.is_some(), init.sig_all, udata, loaded)?
            }
            None => Queues::of_kernel(&mut init.cap, srq.is_some(), init.sig_all)?,
        };
        let owner = udata.as_ref().map(|_| current!().tgid());
        let Queues {
            ring,
            rq,
            sq_entry,
            rq_entry,
            posted,
        } = queues;
        let (cap, sig_all) = (init.cap, init.sig_all);
        let key = |entry: &Option<MmapEntry>| entry.as_ref().map_or(0, MmapEntry::key);
        let mut resp = CreateQpResp {
            qp_id: 0,
            num_sqe: cap.max_send_wr,
            num_rqe: cap.max_recv_wr,
            pad: 0,
            sq_key: key(&sq_entry),
            rq_key: key(&rq_entry),
        };

        let spare = Spare::new(send_cq.clone());
        if let Some(posted) = &posted {
            spare.extend(posted.asked_and_spare().1)?;
        }
        let flags = memory_for(udata.is_some());
        let binder = Binder::new(flags)?;
        let send_slots = posted.as_ref().map(|sq| sq.slots());
        let recv_slots = match &srq {
            Some(srq) => srq.slots(),
            None => rq.as_ref().and_then(Rq::slots),
        };
        // CAST: at most [`MAX_WR`].
        let sends = under_way((ring.len() as u32).max(1), flags)?;
        let qp = Arc::pin_init(
            pin_init!(Self {
                num: Atomic::new(Qpn(0)),
                dev: pd.device().clone(),
                pd: pd.clone(),
                handle,
                send_cq,
                recv_cq,
                cap,
                sig_all,
                owner,
                binder,
                access: Atomic::new(AccessFlags::NONE),
                state: Published::new(),
                heard: Atomic::new(0),
                answered: AtomicFlag::new(false),
                failed: AtomicFlag::new(false),
                destroyed: AtomicFlag::new(false),
                sq_entry,
                rq_entry,
                srq,
                posted,
                send_slots,
                recv_slots,
                spare,
                inner <- new_mutex!(Inner::new(ring), "rsiw::Qp::inner"),
                sq <- new_spinlock_irq!(sends, "rsiw::Qp::sq"),
                irq <- new_spinlock_irq!(Irq::new(KVec::new()), "rsiw::Qp::irq"),
                rq <- new_spinlock_irq!(rq, "rsiw::Qp::rq"),
                pending <- new_spinlock_irq!(Pending::default(), "rsiw::Qp::pending"),
                endpoint <- new_spinlock_irq!(None, "rsiw::Qp::endpoint"),
                work <- new_work!("rsiw::Qp::work"),
                posts <- new_work!("rsiw::Qp::posts"),
                timer <- Timer::new(),
                _quota: quota,
            }),
            flags,
        )?;
        pd.join();
        let num = match qp.dev.qps.insert_free(NUMBERS, qp.clone(), flags) {
            Ok(num) => Qpn(num),
            Err(e) => {
                qp.discard();
                return Err(e);
            }
        };
        qp.num.store(num, Relaxed);
        resp.qp_id = num.0;
        if let Some(Err(e)) = udata.map(|udata| udata.respond(&resp)) {
            qp.destroy()?;
            return Err(e);
        }
        Ok((qp, num))
    }

    /// Ends the offers to map the rings.
    pub(super) fn forget_rings(&self) {
        for entry in [&self.sq_entry, &self.rq_entry].into_iter().flatten() {
            entry.remove();
        }
    }

    /// Undoes what creation did outside the object itself.
    fn discard(&self) {
        self.forget_rings();
        self.pd.leave();
    }
}
