// SPDX-License-Identifier: GPL-2.0

//! What all parts of a queue pair use: which one it is, what its peer may do, what has ended its
//! stream, and where it counts.
//!
//! The parts know this and not [`Qp`](super::Qp), which they make up.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::count::CountsOf;
use crate::{
    device::Device,
    ffi::rdma::{
        attr::{
            AccessFlags,
            Qpn, //
        },
        handle::QpHandle,
    },
    mr::{
        access::Access,
        window::{
            Binder,
            Party, //
        },
        PdId,
    },
    pd::Pd,
    srq::Srq,
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
};

/// What the parts of a queue pair have in common.
#[pin_data]
pub(crate) struct Base {
    /// Set once, when the QP gets into the device's table.
    num: Atomic<Qpn>,
    pub(crate) dev: Arc<Device>,
    pub(super) pd: Arc<Pd>,
    /// The core's QP.
    pub(crate) handle: Arc<QpHandle>,
    /// The shared receive queue, if receives come from one.
    pub(super) srq: Option<Arc<Srq>>,
    /// By which windows know the QP.
    pub(super) binder: Arc<Binder>,
    /// Rights of the peer.
    pub(super) access: Atomic<AccessFlags>,
    /// What has ended the stream: a [`Cause`](crate::proto::failure::Cause).
    pub(super) ended_by: Atomic<u32>,
    /// The peer has sent an FPDU.
    heard: Atomic<u32>,
    #[pin]
    pub(super) counts_of: CountsOf,
}

impl Base {
    /// Of a QP that has no number yet.
    pub(super) fn new(
        pd: Arc<Pd>,
        handle: Arc<QpHandle>,
        srq: Option<Arc<Srq>>,
        binder: Arc<Binder>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            num: Atomic::new(Qpn(0)),
            dev: pd.device().clone(),
            pd,
            handle,
            srq,
            binder,
            access: Atomic::new(AccessFlags::NONE),
            ended_by: Atomic::new(0),
            heard: Atomic::new(0),
            counts_of <- CountsOf::device(),
        })
    }

    /// Returns the QP's number.
    pub(crate) fn num(&self) -> Qpn {
        self.num.load(Relaxed)
    }

    /// Sets the QP's number, by which it is in the device's table.
    pub(super) fn set_num(&self, num: Qpn) {
        self.num.store(num, Relaxed);
    }

    /// Returns as whom windows know the QP.
    pub(super) fn party(&self) -> Party<'_> {
        Party {
            binder: &self.binder,
            pd: self.pd.id(),
        }
    }

    /// Returns the protection domain of the memory that receives name: that of the queue they come
    /// from (V-PD-7).
    pub(super) fn recv_pd(&self) -> PdId {
        match &self.srq {
            Some(srq) => srq.pd(),
            None => self.pd.id(),
        }
    }

    /// Returns what the peer may do.
    pub(super) fn rights(&self) -> Access {
        Access::from_verbs(self.access.load(Relaxed))
    }

    /// Returns whether the peer may ask for Atomic Operations at all. The connection manager knows
    /// no right for that: who may read and write may do both at once. The regions decide, of which
    /// few have the right.
    pub(super) fn may_atomic(&self) -> bool {
        let rights = self.rights();
        rights.contains(Access::REMOTE_ATOMIC)
            || rights.contains(Access::REMOTE_READ | Access::REMOTE_WRITE)
    }

    /// Returns whether the peer has sent an FPDU.
    pub(super) fn heard_of_peer(&self) -> bool {
        self.heard.load(Acquire) != 0
    }

    /// Notes that an FPDU came in whose CRC is right.
    pub(super) fn fpdu_received(&self) {
        if self.heard.load(Relaxed) == 0 {
            self.heard.store(1, Release);
        }
    }

    /// Forgets the peer of an earlier connection.
    pub(super) fn forget_peer(&self) {
        self.heard.store(0, Release);
    }
}
