// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair for datagrams: a ring of the process.
//!
//! A request completes when the host has its datagram, or has lost it: nobody tells either way.
//!
//! Context: process, under `UdQp::sending`.
#![forbid(unsafe_code)]

use super::ports::UdUser;
use super::UdQp;
use crate::abi::own::DatagramRequest;
use crate::abi::{
    wqe,
    Front,
    Layout,
    Rings, //
};
use crate::cq::Overflow;
use crate::device::Pd;
use crate::ffi::hash::crc32;
use crate::ffi::mm::ring::{
    Position,
    SharedRing, //
};
use crate::ffi::net::udp::Readiness;
use crate::ffi::rdma::attr;
use crate::mr::access::Access;
use crate::proto::counters::Counter;
use crate::proto::datagram::{
    self,
    UdState, //
};
use crate::proto::drain::{
    drain,
    Drained, //
};
use crate::proto::failure::Fault;
use crate::proto::receiver::Extra;
use crate::proto::request::OperationType;
use crate::proto::sends::Status;
use crate::queue::SgList;
use crate::wire::ddp::Stag;
use crate::wire::roce::Headers;
use core::num::Wrapping;
use kernel::num::casts::u32_as_usize;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::barrier::{
    smp_mb,
    Full, //
};
use kernel::sync::Arc;

// Programs learn from the attributes of the port how much they can send. Both numbers must agree.
const _: () = assert!(datagram::MOST_HEADERS == attr::MOST_HEADERS);

/// How many requests are sent before somebody else has the processor.
const AT_A_TIME: u32 = 256;

/// By what a queue pair sends. To be dropped in process context.
pub(super) struct UdSender {
    /// A socket of its own. What is under way counts for this queue pair alone, so that nobody else
    /// waits for a neighbour that does not answer.
    pub(super) readiness: Readiness<UdQp>,
    pub(super) user: UdUser,
}

/// What is needed to send.
pub(super) struct UdSq {
    /// `None` before the queue pair is known, and once it is destroyed. An RCU callback may drop what
    /// is left then.
    pub(super) sender: Option<UdSender>,
    ring: SharedRing,
    layout: &'static Layout,
    /// The next entry to be taken out.
    get: Position,
    max_sge: u32,
    /// The elements or octets of the request that is being sent.
    sgl: SgList,
    /// The message of that request, with room for what stands around it.
    room: KVVec<u8>,
    psn: Wrapping<u32>,
}

/// A request that was taken out.
struct UdWqe {
    id: u64,
    signalled: bool,
    /// Octets, or what failed.
    result: Result<u32, Fault>,
}

/// There is no room in the socket. The request stays.
struct NoRoom;

/// Why a request was not sent.
enum NotSent {
    NoRoom,
    Failed(Fault),
}

impl From<Fault> for NotSent {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

impl UdSq {
    pub(super) fn new(ring: SharedRing, max_sge: u32) -> Result<Self> {
        let layout = Rings::Own.layout();
        let len = u32_as_usize(datagram::LONGEST_MESSAGE)
            .checked_add(datagram::ROOM_IN_FRONT + datagram::ROOM_BEHIND)
            .ok_or(EINVAL)?;
        Ok(Self {
            sender: None,
            ring,
            layout,
            get: Position::FIRST,
            max_sge,
            sgl: SgList::new(max_sge, layout.max_inline)?,
            room: KVVec::from_elem(0, len, GFP_KERNEL_ACCOUNT)?,
            psn: Wrapping(0),
        })
    }

    /// Sets the PSN of the next datagram.
    pub(super) fn begin_at(&mut self, psn: u32) {
        self.psn.0 = psn;
    }

    /// Takes the oldest request out, if there is one, unless there is no room for it; `send` gets
    /// its front and its flags, and sends it.
    fn take(
        &mut self,
        sig_all: bool,
        send: impl FnOnce(&mut Self, &Front, u16) -> Result<u32, NotSent>,
    ) -> Result<Option<UdWqe>, NoRoom> {
        let entry = self.ring.entry(self.get);
        let flags = entry.flags();
        if flags & wqe::VALID == 0 {
            return Ok(None);
        }
        let front = Front::of(entry, self.layout.rest);
        let result = match send(self, &front, flags) {
            Ok(len) => Ok(len),
            Err(NotSent::Failed(fault)) => Err(fault),
            Err(NotSent::NoRoom) => return Err(NoRoom),
        };
        self.ring.entry(self.get).set_flags(0);
        self.get.advance();
        // The library rings the doorbell only if it finds the slot before its own cleared. So
        // clear, then look at the next slot: one of the two sees the other.
        smp_mb(Full);
        Ok(Some(UdWqe {
            id: front.base.id,
            signalled: sig_all || flags & wqe::SIGNALLED != 0,
            result,
        }))
    }

    /// Takes the oldest request out, if there is one, and sends nothing.
    fn take_unsent(&mut self) -> Option<UdWqe> {
        self.take(true, |_, _, _| Ok(0)).ok().flatten()
    }

    /// Drops all requests, as many as the ring has slots.
    pub(super) fn drop_posted(&mut self) -> Drained {
        let most = u32_as_usize(self.ring.len());
        drain(most, || self.take_unsent(), drop)
    }

    /// Copies the message of the oldest request to the room for it, and returns its length: `most`
    /// at most.
    fn fetch(&mut self, pd: &Pd, front: &Front, flags: u16, most: u32) -> Result<u32, Fault> {
        let entry = self.ring.entry(self.get);
        let mut rest = self
            .room
            .get_mut(datagram::ROOM_IN_FRONT..)
            .unwrap_or(&mut []);
        if flags & wqe::INLINE != 0 {
            let len = front.inline_length(entry, self.layout);
            let len = len.filter(|len| *len <= self.layout.max_inline.min(most));
            let len = len.ok_or(Fault::LocalLength)?;
            let count = u32_as_usize(len);
            let copied = self.sgl.replace_by_octets(count);
            let copied = copied.is_some_and(|room| entry.copy(self.layout.octets, room));
            let octets = self.sgl.octets(0, count).filter(|_| copied);
            let part = rest.get_mut(..count).ok_or(Fault::LocalLength)?;
            // Bound: the inline data of one request.
            part.copy_from_slice(octets.ok_or(Fault::LocalLength)?);
            return Ok(len);
        }
        let count = front.base.num_sge.into();
        let len = self
            .sgl
            .copy_from_ring(entry, self.layout.elements, count, self.max_sge)
            .ok_or(Fault::LocalOperation)?;
        let len = u32::try_from(len).map_err(|_| Fault::LocalLength)?;
        if len > most {
            return Err(Fault::LocalLength);
        }
        let stags = &pd.device().stags;
        // Bound: the elements of one request.
        for sge in self.sgl.elements() {
            if sge.length == 0 {
                continue;
            }
            let (stag, want) = (Stag(sge.lkey), Access::LOCAL_READ);
            let access = stags.access(stag, pd.id(), want, sge.laddr, sge.length);
            let access = access.map_err(|_| Fault::LocalProtection)?;
            let slices = access.slices(0, sge.length);
            for slice in slices.map_err(|_| Fault::LocalProtection)? {
                let split = rest.split_at_mut_checked(u32_as_usize(slice.len()));
                let (part, behind) = split.ok_or(Fault::LocalLength)?;
                slice.copy_out(part).map_err(|_| Fault::LocalProtection)?;
                rest = behind;
            }
        }
        Ok(len)
    }
}

impl UdQp {
    /// Sends what is posted, some at a time. If there is no room in the socket, its callback goes
    /// on.
    pub(super) fn send_all(self: &Arc<Self>) -> Drained {
        let (mut notify, mut failed) = (false, false);
        let mut from = None;
        let mut sending = self.sending.lock();
        let mut left = AT_A_TIME;
        let drained = loop {
            // The consumer may take a step meanwhile.
            if self.attrs().state != UdState::Rts {
                break Drained::Empty;
            }
            left = match left.checked_sub(1) {
                Some(left) => left,
                None => break Drained::Again,
            };
            let send = |sending: &mut UdSq, front: &Front, flags| {
                self.send(sending, front, flags) //
            };
            let taken = match sending.take(self.sig_all, send) {
                Ok(Some(taken)) => taken,
                Ok(None) => break Drained::Empty,
                Err(NoRoom) if self.waits.load(Relaxed) => break Drained::Empty,
                Err(NoRoom) => {
                    // There may have been room since then, of which nobody was told.
                    self.waits.store(true, Relaxed);
                    smp_mb(Full);
                    continue;
                }
            };
            failed = taken.result.is_err();
            match self.complete_send(&taken) {
                Ok(told) => notify |= told,
                Err(Overflow) => failed = true,
            }
            if failed {
                from = self.fail();
                break Drained::Empty;
            }
        };
        drop(sending);
        if notify {
            self.send_cq.notify();
        }
        if failed {
            self.send_cq.report();
        }
        if let Some(from) = from {
            self.enter_error(from);
        }
        drained
    }

    /// Sends a request's datagram. Returns the octets of its message.
    fn send(&self, sending: &mut UdSq, front: &Front, flags: u16) -> Result<u32, NotSent> {
        let DatagramRequest {
            dest,
            path,
            immediate,
        } = front.datagram().ok_or(Fault::LocalOperation)?;
        let dev = &self.ports.dev;
        let netdev = dev.netdev();
        let most = datagram::longest_message(netdev.as_ref().map_or(0, |netdev| netdev.mtu()));
        let len = sending.fetch(&self.pd, front, flags, most)?;
        let way = self.ports.way(path.sgid_index.into(), dest.dgid);
        let (Some(netdev), Some((own, to)), Some(sender)) = (netdev, way, &sending.sender) else {
            // The address was there when the address handle was made, and is gone.
            dev.count(Some(Counter::DatagramsDropped));
            return Ok(len);
        };
        let Wrapping(psn) = sending.psn;
        let own_qkey = self.attrs().qkey;
        let headers = Headers {
            solicited: flags & wqe::SOLICITED != 0,
            pad: 0,
            dest_qpn: dest.qpn,
            psn,
            qkey: datagram::qkey(dest.qkey, own_qkey),
            src_qpn: self.num().0,
            immediate,
        };
        let number = sender.user.number;
        let message_len = u32_as_usize(len);
        let gids = (&own, &to);
        let packet = datagram::seal(&mut sending.room, message_len, headers, gids, number, crc32);
        let packet = packet.ok_or(Fault::LocalOperation)?;
        let ends = (&netdev.address(own, number), &netdev.address(to, number));
        let sock = sender.readiness.sock();
        let by = dev.ways().index(&netdev);
        let sent = sock.send(ends, by, packet, path.traffic_class, path.hop_limit);
        if sent == Err(EAGAIN) {
            return Err(NotSent::NoRoom);
        }
        sending.psn += 1;
        dev.count(Some(match sent {
            Ok(()) => Counter::TxDatagrams,
            Err(_) => Counter::DatagramsDropped,
        }));
        if sent == Err(EMSGSIZE) {
            self.log("a datagram is too long for its way");
        }
        Ok(len)
    }

    fn complete_send(&self, taken: &UdWqe) -> Result<bool, Overflow> {
        let (status, len) = match taken.result {
            Ok(_) if !taken.signalled => return Ok(false),
            Ok(len) => (Status::Success, len),
            Err(fault) => (Status::Failed(fault), 0),
        };
        let what = (taken.id, OperationType::Send);
        self.complete(&self.send_cq, what, status, (len, Extra::Nothing, false))
    }

    /// Completes all requests as flushed, at most as many as there are slots.
    pub(super) fn flush_sends(&self) -> Drained {
        let mut notify = false;
        let mut sending = self.sending.lock();
        if self.attrs().state != UdState::Error {
            return Drained::Empty;
        }
        let most = u32_as_usize(sending.ring.len());
        let take = || sending.take_unsent();
        let flush = |taken: UdWqe| {
            let what = (taken.id, OperationType::Send);
            let rest = (0, Extra::Nothing, false);
            let added = self.complete(&self.send_cq, what, Status::Flushed, rest);
            notify |= added == Ok(true);
        };
        let drained = drain(most, take, flush);
        drop(sending);
        if notify {
            self.send_cq.notify();
        }
        self.send_cq.report();
        drained
    }
}
