// SPDX-License-Identifier: GPL-2.0

//! Creation of queue pairs.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    consumer::{
        Consumer,
        OfKernel,
        OfProcess,
        Offers,
        Rings, //
    },
    direct::LocalPeers,
    identity::QpIdentity,
    inner::Inner,
    polling::Poller,
    shared::Shared,
    sq::{
        kernel::KernelSq,
        records,
        user::UserSq,
        SqRing, //
    },
    Qp,
    QpTable, //
};
use crate::{
    abi::{
        own::{
            self,
            Features, //
        },
        CreateQpResp, //
    },
    cq::{
        Cq,
        Spare, //
    },
    device::Pd,
    ffi::{
        mm::Payer,
        rdma::{
            attr::{
                QpCap,
                Qpn, //
            },
            handle::QpHandle,
            udata::Udata, //
        },
        rsiw::queues::Queues,
        task::{
            memory_for,
            Identity, //
        },
        time::{
            hrtimer::ShortTimer,
            Timer, //
        },
    },
    limits::{
        Quota,
        KERNEL_MAX_INLINE,
        KERNEL_MAX_SGE,
        MAX_READS,
        MAX_WR, //
    },
    mr::window::Binder,
    proto::sends::Sends,
    queue::{
        rq::{
            KernelRq,
            Rq,
            UserRq, //
        },
        shared::{
            new_recv_ring,
            new_ring, //
        },
    },
    srq::Srq, //
};
use kernel::{
    new_mutex, new_spinlock, new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// The existing objects that a QP is made of.
pub(crate) struct QpParts {
    pub(crate) pd: Arc<Pd>,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) srq: Option<Arc<Srq>>,
    pub(crate) peers: Arc<LocalPeers>,
    /// What was agreed on with a process.
    pub(crate) features: Features,
}

/// What a process asks of its queues.
struct Wanted<'a, 'b> {
    has_srq: bool,
    sig_all: bool,
    features: Features,
    udata: &'a Udata<'b>,
    queues: &'a Arc<Queues>,
}

/// The queues of a new QP, and its consumer.
struct NewQueues {
    ring: SqRing,
    /// None with a shared receive queue.
    rq: Option<Rq>,
    consumer: Consumer,
}

impl NewQueues {
    /// Makes the queues of a process; replaces the sizes in `cap` by those given.
    fn of_process(cap: &mut QpCap, asked: &Wanted<'_, '_>) -> Result<Self> {
        let (udata, loaded) = (asked.udata, asked.queues.loaded());
        let layout = asked.features.rings().layout();
        check(cap, asked.has_srq, layout.max_sge, layout.max_inline)?;
        let (sq, send) = new_ring(layout.sqe, cap.max_send_wr, udata, loaded)?;
        let (rq, recv) = if asked.has_srq {
            (None, None)
        } else {
            let tells = asked.features.tells_of_flushes();
            let (ring, word, entry) =
                new_recv_ring(layout.rqe, cap.max_recv_wr, tells, udata, loaded)?;
            cap.max_recv_wr = ring.len();
            let rq = UserRq::new(ring, layout, word, cap.max_recv_sge);
            (Some(Rq::User(rq)), Some(entry))
        };
        cap.max_send_wr = sq.len();
        let rings = Rings::new(Offers { send, recv }, sq.clone())?;
        cap.max_inline_data = layout.max_inline;
        let sq = UserSq::new(sq, layout, asked.sig_all, cap.max_send_sge);
        Ok(Self {
            ring: SqRing::User(sq),
            rq,
            consumer: Consumer::Process(OfProcess {
                owner: Identity::current()?,
                rings,
                takes_immediate: asked.features.has_immediate(),
            }),
        })
    }

    /// Makes the queues of a kernel consumer, whose sends complete in `send_cq`.
    fn of_kernel(
        cap: &mut QpCap,
        srq: Option<&Arc<Srq>>,
        sig_all: bool,
        send_cq: &Arc<Cq>,
    ) -> Result<Self> {
        check(cap, srq.is_some(), KERNEL_MAX_SGE, KERNEL_MAX_INLINE)?;
        let posted = KernelSq::new(
            cap.max_send_wr,
            sig_all,
            cap.max_send_sge,
            cap.max_inline_data,
        )?;
        let spare = Spare::new(send_cq.clone());
        spare.extend(posted.spare())?;
        let (rq, recv_slots) = match srq {
            Some(srq) => (None, srq.slots()),
            None => {
                let rq = Rq::Kernel(KernelRq::new(cap.max_recv_wr, cap.max_recv_sge)?);
                let slots = rq.slots();
                (Some(rq), slots)
            }
        };
        Ok(Self {
            ring: SqRing::Kernel(posted.clone()),
            rq,
            consumer: Consumer::Kernel(OfKernel {
                maker: Identity::current()?,
                send_slots: posted.slots(),
                posted,
                recv_slots,
                spare,
            }),
        })
    }
}

/// Checks sizes against the maxima, and lets each request have at least one element.
fn check(cap: &mut QpCap, has_srq: bool, max_sge: u32, max_inline: u32) -> Result {
    if has_srq {
        // The sizes of a queue that there will not be do not matter (V-QP-3).
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

/// Returns for how many microseconds the calling process wants its send queue to be polled.
fn poll_us(features: Features, udata: Option<&mut Udata<'_>>) -> Result<u32> {
    let Some(udata) = udata.filter(|_| features.may_ask_to_poll()) else {
        return Ok(0);
    };
    let req = udata.read_if_there::<own::CreateQpReq>()?;
    req.map_or(Ok(0), |req| req.poll_us())
}

impl Qp {
    /// Creates a queue pair for the calling process, or for a kernel consumer; replaces the sizes
    /// that are asked for in `cap` by those given.
    ///
    /// # Errors
    ///
    /// `EINVAL` for sizes beyond the maxima, `ENOMEM`.
    pub(crate) fn create(
        table: &Arc<QpTable>,
        handle: Arc<QpHandle>,
        parts: QpParts,
        cap: &mut QpCap,
        sig_all: bool,
        mut udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Self>, Qpn)> {
        let QpParts {
            pd,
            send_cq,
            recv_cq,
            srq,
            peers,
            features,
        } = parts;
        let dev = pd.device().clone();
        let quota = Quota::take(dev.limits(), |limits| &limits.qps)?;
        let poll_us = poll_us(features, udata.as_deref_mut())?;
        let queues = match &udata {
            Some(udata) => {
                let asked = Wanted {
                    has_srq: srq.is_some(),
                    sig_all,
                    features,
                    udata,
                    queues: dev.queues(),
                };
                NewQueues::of_process(cap, &asked)?
            }
            None => NewQueues::of_kernel(cap, srq.as_ref(), sig_all, &send_cq)?,
        };
        let NewQueues { ring, rq, consumer } = queues;
        let poller = match &udata {
            Some(udata) => Poller::new(poll_us, udata, dev.queues())?,
            None => None,
        };
        let cap = *cap;

        let payer = match &udata {
            Some(_) => Payer::of_caller(),
            None => Payer::nobody(),
        };
        let flags = memory_for(udata.is_some());
        let binder = Binder::new(flags)?;
        // CAST: at most [`MAX_WR`].
        let mut sends = Sends::new(records(ring.len() as u32, flags)?, KVec::new());
        sends.ord = MAX_READS.into();
        let id = QpIdentity {
            num: Atomic::new(Qpn(0)),
            dev,
            pd,
            handle,
            cap,
            sig_all,
            consumer,
            payer,
            send_cq,
            recv_cq,
            srq,
            binder,
        };
        let qp = Arc::pin_init(
            pin_init!(Self {
                shared <- Shared::new(id, sends, rq),
                table: table.clone(),
                peers,
                poller,
                shown <- new_spinlock!(None, "rsiw::Qp::shown"),
                inner <- new_mutex!(Inner::new(ring), "rsiw::Qp::inner"),
                work <- new_work!("rsiw::Qp::work"),
                posts <- new_work!("rsiw::Qp::posts"),
                timer <- Timer::new(),
                gathers <- ShortTimer::new(),
                _quota: quota,
            }),
            flags,
        )?;
        qp.shared.id.pd.join();
        let num = match table.insert(qp.clone(), flags) {
            Ok(num) => num,
            Err(e) => {
                qp.forget_offers();
                qp.shared.id.pd.leave();
                return Err(e);
            }
        };
        qp.shared.id.num.store(num, Relaxed);
        if let Some(Err(e)) = udata.map(|udata| qp.finish(features, udata)) {
            qp.destroy()?;
            return Err(e);
        }
        Ok((qp, num))
    }

    /// Prepares polling for the process if it asked for that, and answers the process.
    fn finish(self: &Arc<Self>, features: Features, udata: &mut Udata<'_>) -> Result {
        if let Some(poller) = &self.poller {
            poller.prepare(self.clone())?;
        }
        let id = &self.shared.id;
        let (sq_key, rq_key) = id.consumer.keys();
        let base = CreateQpResp {
            qp_id: id.num().0,
            num_sqe: id.cap.max_send_wr,
            num_rqe: id.cap.max_recv_wr,
            pad: 0,
            sq_key,
            rq_key,
        };
        if !features.may_ask_to_poll() {
            return udata.respond(&base);
        }
        let mut resp = own::CreateQpResp {
            base,
            ..Default::default()
        };
        if let Some(poller) = self.active_poller() {
            poller.describe(&mut resp);
        }
        udata.respond(&resp)
    }
}
