// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair for datagrams, its own or a shared one.
//!
//! In a receive the GRH stands in front of the message. A receive that is too short for both stays
//! for the next message: what a stranger sends ends nothing.
//!
//! Context: softirq, which receives, or process; under `UdQp::receiving`.
#![forbid(unsafe_code)]

use super::UdQp;
use crate::cq::Overflow;
use crate::mr::access::Access;
use crate::mr::PdId;
use crate::proto::datagram::{
    Datagram,
    Discard,
    UdState, //
};
use crate::proto::drain::{
    drain,
    Drained, //
};
use crate::proto::failure::Fault;
use crate::proto::receiver::{
    Extra,
    Recv, //
};
use crate::proto::request::OperationType;
use crate::proto::sends::Status;
use crate::queue::rq::{
    BadRecv,
    Rq, //
};
use crate::queue::SgList;
use crate::srq::Srq;
use crate::wire::ddp::Stag;
use core::num::Saturating;
use kernel::num::casts::u32_as_usize;
use kernel::prelude::*;
use kernel::sync::barrier::{
    smp_mb,
    Full, //
};
use kernel::sync::Arc;

/// How many receives are dropped or flushed before others have the lock, which keeps interrupts
/// off.
const AT_A_TIME: usize = 64;

/// What is needed to receive.
pub(super) struct UdRq {
    /// `None` with a shared receive queue.
    rq: Option<Rq>,
    /// The receive that was taken out, whose elements are in `sgl`, and got no message yet.
    held: Option<Recv>,
    sgl: SgList,
}

impl UdRq {
    pub(super) fn new(rq: Option<Rq>, max_sge: u32) -> Result<Self> {
        Ok(Self {
            rq,
            held: None,
            sgl: SgList::new(max_sge, 0)?,
        })
    }

    /// Returns the receive for the next message, which is held from now on; `None` if there is
    /// none.
    fn hold(&mut self, srq: Option<&Srq>) -> Option<Result<Recv, BadRecv>> {
        if let Some(held) = self.held {
            return Some(Ok(held));
        }
        let taken = match (srq, &mut self.rq) {
            (Some(srq), _) => srq.take(&mut self.sgl),
            (None, Some(rq)) => rq.take(&mut self.sgl),
            (None, None) => None,
        };
        if let Some(Ok(recv)) = taken {
            self.held = Some(recv);
        }
        taken
    }

    /// Takes out the oldest receive, for which only a completion is wanted, and returns the
    /// consumer's name for it.
    fn discard(&mut self) -> Option<u64> {
        match self.held.take() {
            Some(held) => Some(held.id),
            None => self.rq.as_mut()?.discard(),
        }
    }

    /// Returns how many receives there can be.
    fn most(&self) -> usize {
        let slots = self.rq.as_ref().map_or(0, Rq::len);
        slots.saturating_add(1)
    }

    /// Drops receives, at most [`AT_A_TIME`] of them. The process need not tell of others any more.
    fn drop_some(&mut self) -> Drained {
        if let Some(rq) = &mut self.rq {
            rq.set_flushes(false);
        }
        drain(AT_A_TIME, || self.discard(), drop)
    }
}

impl UdQp {
    /// Returns the protection domain of receives: a shared queue has its own.
    fn recv_pd(&self) -> PdId {
        match &self.srq {
            Some(srq) => srq.pd(),
            None => self.pd.id(),
        }
    }

    /// Takes in a datagram for this queue pair. Softirq, or process context.
    pub(super) fn receive(self: &Arc<Self>, datagram: &Datagram<'_>) -> Result<(), Discard> {
        let mut receiving = self.receiving.lock();
        let attrs = self.attrs();
        if !attrs.state.receives() {
            return Err(Discard::NoQp);
        }
        if attrs.qkey != datagram.headers.qkey {
            return Err(Discard::Qkey);
        }
        let len = datagram.len();
        let (id, status) = match receiving.hold(self.srq.as_deref()) {
            None => return Err(Discard::NoReceive),
            Some(Ok(recv)) if recv.len < len.into() => return Err(Discard::NoReceive),
            Some(Ok(recv)) => match self.place(&receiving.sgl, datagram) {
                Ok(()) => (recv.id, Status::Success),
                Err(_) => (recv.id, Status::Failed(Fault::LocalProtection)),
            },
            Some(Err(BadRecv { id })) => (id, Status::Failed(Fault::LocalOperation)),
        };
        receiving.held = None;
        let headers = &datagram.headers;
        let extra = match headers.immediate {
            Some(data) => Extra::FromQpWithImmediate(headers.src_qpn, data),
            None => Extra::FromQp(headers.src_qpn),
        };
        let rest = match status {
            Status::Success => (len, extra, headers.solicited),
            _ => (0, Extra::Nothing, false),
        };
        let added = self.complete(&self.recv_cq, (id, OperationType::Receive), status, rest);
        let failed = added.is_err() || status != Status::Success;
        let from = failed.then(|| self.fail()).flatten();
        drop(receiving);
        if added == Ok(true) {
            self.recv_cq.notify();
        }
        if added == Err(Overflow) {
            self.recv_cq.report();
        }
        if let Some(from) = from {
            self.tell_of_last(from);
            // The work item completes what is posted: it may wait for the send queue's lock.
            self.leave_to_work();
        }
        Ok(())
    }

    /// Drops all receives, as many as there can be.
    pub(super) fn drop_recvs(&self) {
        let most = self.receiving.lock().most();
        for _ in 0..most.div_ceil(AT_A_TIME) {
            if self.receiving.lock().drop_some() == Drained::Empty {
                return;
            }
        }
    }

    /// Writes GRH and message to the elements of a receive, which has room for them.
    fn place(&self, sgl: &SgList, datagram: &Datagram<'_>) -> Result {
        let (mut octets, rest) = (&datagram.grh[..], datagram.message);
        let mut parts = [rest].into_iter();
        let stags = &self.ports.dev.stags;
        // Bound: the elements of one receive.
        for piece in sgl.pieces(0, datagram.len()) {
            let addr = piece.sge.laddr.checked_add(piece.at.into()).ok_or(EACCES)?;
            let (stag, want) = (Stag(piece.sge.lkey), Access::LOCAL_WRITE);
            let access = stags.access(stag, self.recv_pd(), want, addr, piece.len);
            let access = access.map_err(|_| EACCES)?;
            // Bound: the pages of the longest message.
            for slice in access.slices(0, piece.len).map_err(|_| EACCES)? {
                let mut at = Saturating(0);
                // Bound: two parts, of GRH and message.
                while at.0 < slice.len() {
                    if octets.is_empty() {
                        octets = parts.next().ok_or(EINVAL)?;
                    }
                    let room = u32_as_usize((Saturating(slice.len()) - at).0);
                    let split = octets.split_at_checked(octets.len().min(room));
                    let (part, behind) = split.ok_or(EINVAL)?;
                    slice.copy_in(at.0, part)?;
                    octets = behind;
                    at += u32::try_from(part.len())?;
                }
            }
        }
        Ok(())
    }

    /// Completes receives of the queue pair's own queue as flushed, at most [`AT_A_TIME`], and
    /// makes the process tell of those that it posts from now on.
    pub(super) fn flush_recvs(&self) -> Drained {
        let mut notify = false;
        let mut receiving = self.receiving.lock();
        if self.attrs().state != UdState::Error {
            return Drained::Empty;
        }
        if let Some(rq) = &mut receiving.rq {
            rq.set_flushes(true);
        }
        // The process posts, then looks at what was set here; one of the two sees the other.
        smp_mb(Full);
        let flush = |id| {
            let what = (id, OperationType::Receive);
            let rest = (0, Extra::Nothing, false);
            let added = self.complete(&self.recv_cq, what, Status::Flushed, rest);
            notify |= added == Ok(true);
        };
        let drained = drain(AT_A_TIME, || receiving.discard(), flush);
        drop(receiving);
        if notify {
            self.recv_cq.notify();
        }
        self.recv_cq.report();
        drained
    }
}
