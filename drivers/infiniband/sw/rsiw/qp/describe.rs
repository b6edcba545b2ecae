// SPDX-License-Identifier: GPL-2.0

//! What observers may see of a queue pair: its attributes, a snapshot of its connection, and what
//! `rdma resource show qp -dd` shows beyond what the core knows.
//!
//! Any process may ask for the last of these, and the core does not say who does. So nothing is
//! reported that helps to forge what a peer sends, such as numbers of TCP and of messages. Of what
//! a spin lock protects observers see one word ([`Watch`]). Of what belongs to the queue pair's
//! mutex they see what is `Published`.
//!
//! Context: process; takes no lock of those who post, send, receive or complete.
#![forbid(unsafe_code)]

use super::poller::Poller;
use super::shared::Shared;
use super::sq::Sq;
use super::stream::Stream;
use super::Qp;
use crate::ffi::net::TcpSocket;
use crate::ffi::rdma::attr::{
    IbQpState,
    QpCap,
    QpQuery, //
};
use crate::ffi::rdma::stats::Details;
use crate::ffi::sync::Watch;
use crate::proto::reads::{
    Inbound,
    InboundReads, //
};
use crate::proto::state::QpState;
use crate::proto::transport::is_empty;
use crate::queue::rq::Rq;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

impl Qp {
    /// Writes the details to `to`. Fails as [`Details`] does.
    pub(crate) fn describe(&self, to: &mut Details<'_>) -> Result {
        let shared = &self.shared;
        to.word(c"iwarp_state", shared.state().name())?;
        let under_way = UnderWay::of(shared.sq.word());
        to.hex(c"ended_by", shared.flags.ended().0.into())?;
        let is_empty = !shared.id.consumer.has_posted(shared.published.taken());
        to.flag(c"sq_empty", is_empty)?;
        to.number(c"sends_under_way", under_way.requests)?;
        to.flag(c"sends_stalled", under_way.stalled)?;
        to.number(c"reads_out", under_way.reads)?;
        to.number(c"ord", under_way.ord)?;
        to.number(c"reads_in", shared.inbound.word())?;
        to.number(c"ird", shared.published.ird())?;
        to.number(c"windows", shared.id.binder.count())?;
        let (_, by_number, ..) = shared.by_number.shown();
        to.flag(c"by_number", by_number.is_some())?;
        to.number(c"poll_us", self.poller.as_deref().map_or(0, Poller::us))?;
        // No reference is taken: it might be the last one, and keep the socket.
        match &*self.shown.lock() {
            Some(stream) => stream.describe(to, shared.published.unsent()),
            None => Ok(()),
        }
    }

    /// Sets the connection that is described, or none. Process context.
    pub(super) fn show(&self, shown: Option<Arc<Stream>>) {
        self.shared.published.set_unsent(0);
        let old = core::mem::replace(&mut *self.shown.lock(), shown);
        // The old value may be the last reference to a socket, and is dropped without the lock.
        drop(old);
    }
}

impl Shared {
    /// Returns the attributes. The core also asks on behalf of others.
    pub(crate) fn query(&self) -> QpQuery {
        let (path, step, ord, ird) = self.by_number.shown();
        let state = self.state();
        let own = step.filter(|_| matches!(state, QpState::Idle | QpState::Rts));
        // CAST: at most 128.
        let max_rd_atomic = || UnderWay::of(self.sq.word()).ord as u8;
        QpQuery {
            state: own.unwrap_or_else(|| self.verbs_state()),
            cap: self.current_cap(),
            access: self.flags.access.load(Relaxed),
            max_rd_atomic: ord.unwrap_or_else(max_rd_atomic),
            // CAST: at most 128.
            max_dest_rd_atomic: ird.unwrap_or_else(|| self.published.ird() as u8),
            sig_all: self.id.sig_all,
            mtu: self.id.dev.netdev().map_or(0, |netdev| netdev.mtu()),
            path,
        }
    }

    /// Returns the state that the consumer sees, unless it connects by number.
    fn verbs_state(&self) -> IbQpState {
        match self.state().in_verbs() {
            QpState::Idle if self.flags.is_reset.load(Relaxed) => IbQpState::Reset,
            QpState::Idle => IbQpState::Init,
            QpState::Rts => IbQpState::Rts,
            QpState::Draining | QpState::Closing => IbQpState::Sqd,
            QpState::Terminate => IbQpState::Sqe,
            QpState::Error => IbQpState::Err,
        }
    }

    /// Returns the QP's own [`QpCap`] with the depths at this moment.
    fn current_cap(&self) -> QpCap {
        let mut cap = self.id.cap;
        cap.max_send_wr = self.id.consumer.send_depth();
        // CAST: at most [`MAX_WR`].
        cap.max_recv_wr = self.rq.word() as u32;
        cap
    }
}

/// What is told of the requests under way to those who do not have their lock.
struct UnderWay {
    requests: u32,
    /// Reads and Atomic Operations among them that wait for a response.
    reads: u32,
    ord: u32,
    /// Transmission waits until fewer requests are under way.
    stalled: bool,
}

impl Watch for Sq {
    /// The number of requests, 32 bits; then Reads, 16; ORD, 15; and whether transmission waits.
    #[inline(always)]
    fn word(&self) -> u64 {
        let requests = self.len() as u64; // CAST: at most the depth, 32 bits.
        let reads = self.outbound.outstanding() as u64; // CAST: ORD and one, at most.
        let ord = self.ord as u64; // CAST: at most 128.
        requests | reads << 32 | ord << 48 | u64::from(self.is_stalled()) << 63
    }
}

impl UnderWay {
    /// Returns the parts of a word that [`Sq`] has made.
    fn of(word: u64) -> Self {
        Self {
            // CAST: the lower half.
            requests: word as u32,
            reads: u32::from((word >> 32) as u16), // CAST: 16 bits, as above.
            ord: u32::from((word >> 48) as u16 & 0x7fff), // CAST: as above.
            stalled: word >> 63 != 0,
        }
    }
}

impl Watch for InboundReads<KVec<Inbound>> {
    /// How many Reads and Atomic Operations there are.
    #[inline(always)]
    fn word(&self) -> u64 {
        self.len() as u64 // CAST: IRD at most.
    }
}

impl Watch for Option<Rq> {
    /// The number of slots.
    #[inline(always)]
    fn word(&self) -> u64 {
        self.as_ref().map_or(0, |rq| rq.len() as u64) // CAST: at most [`MAX_WR`].
    }
}

impl Stream {
    /// Writes the details of the connection to `to`; TCP has no room for `unsent` octets of FPDUs.
    /// TCP's numbers are read without its lock. Fails as [`Details`] does.
    fn describe(&self, to: &mut Details<'_>, unsent: usize) -> Result {
        let goes_past = |from: &TcpSocket, to: &TcpSocket| {
            is_empty(from.numbers().write_seq, to.numbers().copied_seq)
        };
        // Whether messages go past TCP at this moment, from this side and to this side; and the QP
        // at the other end.
        let direct = self.shown_peer(|other| {
            let tx = goes_past(&self.sock, &other.sock);
            let rx = goes_past(&other.sock, &self.sock);
            (tx, rx, other.shared().id.num().0)
        });
        let tcp = self.sock.numbers();
        to.flag(c"crc", self.has_crc)?;
        to.flag(c"tls", self.sock.is_secure())?;
        to.flag(c"markers", self.has_markers)?;
        to.flag(c"large_fpdus", self.has_large_fpdus)?;
        to.count(c"batch_bytes", unsent)?;
        to.flag(c"direct_tx", direct.is_some_and(|(tx, ..)| tx))?;
        to.flag(c"direct_rx", direct.is_some_and(|(_, rx, _)| rx))?;
        if let Some((.., peer)) = direct {
            to.number(c"direct_peer", peer)?;
        }
        to.number(c"mss", self.sock.mss())?;
        to.number(c"tcp_unacked", tcp.snd_nxt.wrapping_sub(tcp.snd_una))?;
        to.number(c"tcp_unsent", tcp.write_seq.wrapping_sub(tcp.snd_nxt))?;
        to.number(c"tcp_unread", tcp.rcv_nxt.wrapping_sub(tcp.copied_seq))
    }
}
