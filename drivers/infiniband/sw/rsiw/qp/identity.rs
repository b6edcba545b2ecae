// SPDX-License-Identifier: GPL-2.0

//! Which queue pair it is: what never changes, and is read without a lock. Whoever needs no more
//! than that asks this: how the QP is called in the log, who its caller may be; in `memory.rs`,
//! access to memory; in `trace.rs`, trace events.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

use super::consumer::Consumer;
use crate::{
    cq::Cq,
    device::{
        Device,
        Pd, //
    },
    ffi::{
        mm::Payer,
        rdma::{
            attr::{
                QpCap,
                Qpn, //
            },
            handle::QpHandle,
            iwcm::CallId, //
        },
    },
    log::Author,
    mr::{
        window::{
            Binder,
            Party, //
        },
        PdId, //
    },
    proto::failure::Failure,
    srq::Srq,
    wire::terminate::TermError, //
};
use kernel::{
    fmt,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// What never changes about a queue pair.
pub(crate) struct QpIdentity {
    /// Set once, when the QP is entered in the device's table.
    pub(super) num: Atomic<Qpn>,
    pub(super) dev: Arc<Device>,
    pub(super) pd: Arc<Pd>,
    pub(crate) handle: Arc<QpHandle>,
    /// The sizes that the QP was made with.
    pub(super) cap: QpCap,
    /// Whether all requests are signalled.
    pub(super) sig_all: bool,
    pub(super) consumer: Consumer,
    /// Who pays for what a connection needs: the process that made the QP.
    pub(crate) payer: Payer,
    pub(super) send_cq: Arc<Cq>,
    pub(super) recv_cq: Arc<Cq>,
    pub(super) srq: Option<Arc<Srq>>,
    /// Identifies the QP to windows.
    pub(super) binder: Arc<Binder>,
}

impl QpIdentity {
    pub(crate) fn num(&self) -> Qpn {
        self.num.load(Relaxed)
    }

    /// Returns whether a consumer in the kernel made the QP.
    pub(crate) fn is_of_kernel(&self) -> bool {
        matches!(self.consumer, Consumer::Kernel(_))
    }

    /// Returns whether the QP cannot be one of the caller's. Process context.
    pub(crate) fn is_of_others(&self) -> bool {
        self.consumer.is_not_the_caller()
    }

    /// Returns whether the caller may connect the QP by `id`. Others must not get hold of the QP by
    /// its number. A QP of a process belongs to that process. A QP of the kernel has no owner to
    /// compare with: it belongs to the identifier that it was made for.
    pub(crate) fn is_callers(&self, id: CallId<'_>) -> bool {
        match (&self.consumer, id.made(&self.handle)) {
            (Consumer::Process(process), None) => process.owner.is_current(),
            (Consumer::Kernel(_), Some(made)) => made,
            _ => false,
        }
    }

    /// Returns the queue pair as memory windows know it.
    pub(super) fn party(&self) -> Party<'_> {
        Party {
            binder: &self.binder,
            pd: self.pd.id(),
        }
    }

    /// Returns the protection domain of the memory of receives: that of their queue (V-PD-7).
    pub(super) fn recv_pd(&self) -> PdId {
        match &self.srq {
            Some(srq) => srq.pd(),
            None => self.pd.id(),
        }
    }

    pub(super) fn max_recv_sge(&self) -> u32 {
        match &self.srq {
            Some(srq) => srq.max_sge(),
            None => self.cap.max_recv_sge,
        }
    }

    /// Logs why this side ends the stream: an error of its consumer, or of the peer.
    pub(super) fn log_failure(&self, failure: &Failure) {
        let author = match failure.error {
            TermError::LocalCatastrophic => self.own_author(),
            _ => self.peer_author(),
        };
        let detail = failure.detail.unwrap_or("");
        let separator = failure.detail.map_or("", |_| ": ");
        let (num, error, code) = (self.num(), failure.error, failure.error.code());
        self.dev.log(
            author,
            fmt!("QP {num}: ends the stream: {detail}{separator}{error:?} (Terminate {code:#06x})"),
        );
    }

    /// Logs that the peer has ended the stream.
    pub(super) fn log_terminate(&self, code: u16) {
        self.log_peer(fmt!("the peer ends the stream (Terminate {code:#06x})"));
    }

    /// Logs what the peer of this queue pair can cause.
    pub(super) fn log_peer(&self, line: fmt::Arguments<'_>) {
        let num = self.num();
        self.dev.log(self.peer_author(), fmt!("QP {num}: {line}"));
    }

    /// Returns who can cause lines about what this side does.
    fn own_author(&self) -> Author {
        match self.consumer {
            Consumer::Process(_) => Author::Process,
            Consumer::Kernel(_) => Author::Kernel,
        }
    }

    /// Returns who can cause lines about what the peer does.
    pub(crate) fn peer_author(&self) -> Author {
        match self.consumer {
            Consumer::Process(_) => Author::PeerOfProcess,
            Consumer::Kernel(_) => Author::PeerOfKernel,
        }
    }
}
