// SPDX-License-Identifier: GPL-2.0

//! What `rdma resource show qp -dd` tells of a queue pair beyond what the core knows.
//!
//! Context: process; takes the QP's mutex, and the socket's lock.
#![forbid(unsafe_code)]

use super::{
    control::Conn,
    look::Look,
    Qp, //
};
use crate::{
    ffi::{
        net::TcpSocket,
        rdma::details::Details, //
    },
    proto::direct::is_empty,
};
use kernel::prelude::*;

impl Qp {
    /// Tells how it is.
    ///
    /// # Errors
    ///
    /// Those of [`Details`].
    pub(crate) fn describe(&self, to: &mut Details<'_>) -> Result {
        let inner = self.inner.lock();
        to.word(c"iwarp_state", inner.state.name())?;
        let (under_way, reads, ord, stalled) = {
            let sq = self.sq.lock();
            let reads = sq.outbound.outstanding();
            (sq.order.len(), reads, sq.ord, sq.stalled)
        };
        to.hex(c"ended_by", self.ended().0.into())?;
        to.flag(c"sq_empty", inner.ring.is_empty())?;
        to.count(c"sends_under_way", under_way)?;
        to.flag(c"sends_stalled", stalled)?;
        to.count(c"reads_out", reads)?;
        to.count(c"ord", ord)?;
        let inbound = self.inbound.lock().len();
        to.count(c"reads_in", inbound)?;
        to.number(c"ird", inner.ird)?;
        to.number(c"windows", self.binder.count())?;
        to.number(c"look_us", self.consumer.look().map_or(0, Look::us))?;
        match &inner.conn {
            Some(conn) => conn.describe(to),
            None => Ok(()),
        }
    }
}

impl Conn {
    fn describe(&self, to: &mut Details<'_>) -> Result {
        // There are none of a socket that has just been closed.
        if let Some(local) = self.sock.local_addr().ok().and_then(|addr| addr.get()) {
            to.text(c"local", format_args!("{local}"))?;
        }
        if let Some(peer) = self.sock.peer_addr().ok().and_then(|addr| addr.get()) {
            to.text(c"peer", format_args!("{peer}"))?;
        }
        let ((send_msn, read_msn, crc, markers), unsent) = self.tx.progress();
        to.flag(c"crc", crc)?;
        to.flag(c"markers", markers)?;
        to.number(c"tx_send_msn", send_msn.0)?;
        to.number(c"tx_read_msn", read_msn.0)?;
        let next = self.sock.with_lock(|sk| self.stream.next(sk));
        if let Some((send_msn, read_msn)) = next {
            to.number(c"rx_send_msn", send_msn.0)?;
            to.number(c"rx_read_msn", read_msn.0)?;
        }
        to.count(c"batch_bytes", unsent)?;
        self.describe_direct(to)?;
        let tcp = self.sock.numbers();
        to.number(c"mss", self.sock.mss())?;
        to.number(c"tcp_snd_nxt", tcp.snd_nxt)?;
        to.number(c"tcp_rcv_nxt", tcp.rcv_nxt)?;
        to.number(c"tcp_unacked", tcp.snd_nxt.wrapping_sub(tcp.snd_una))?;
        to.number(c"tcp_unsent", tcp.write_seq.wrapping_sub(tcp.snd_nxt))?;
        to.number(c"tcp_unread", tcp.rcv_nxt.wrapping_sub(tcp.copied_seq))
    }

    /// Tells in which directions segments go without TCP at the moment, and the other end's QP.
    fn describe_direct(&self, to: &mut Details<'_>) -> Result {
        let peer = self.stream.peer();
        let past = |from: &TcpSocket, to: &TcpSocket| {
            is_empty(from.numbers().write_seq, to.numbers().copied_seq)
        };
        let (tx, rx) = peer.as_ref().map_or((false, false), |end| {
            (past(&self.sock, &end.sock), past(&end.sock, &self.sock))
        });
        to.flag(c"direct_tx", tx)?;
        to.flag(c"direct_rx", rx)?;
        match &peer {
            Some(end) => to.number(c"direct_peer", end.stream.qp.num().0),
            None => Ok(()),
        }
    }
}
