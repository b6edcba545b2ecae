// SPDX-License-Identifier: GPL-2.0

//! What the connection of a queue pair looks like at a moment, for who describes the QP.
//!
//! Context: process; takes no mutex and no socket's lock, but the spin lock around the link to the
//! other end of the connection.
#![forbid(unsafe_code)]

use super::stream::Stream;
use crate::{ffi::net::TcpSocket, proto::direct::is_empty};

/// What a connection looks like at a moment.
pub(super) struct Sight {
    /// FPDUs have CRCs,
    pub(super) crc: bool,
    /// and markers.
    pub(super) markers: bool,
    /// Messages go past TCP at this moment, from this side and to it.
    pub(super) direct: (bool, bool),
    /// The number of the other end's queue pair, if it is on this host.
    pub(super) peer: Option<u32>,
    /// Octets of data that fit a segment of TCP.
    pub(super) mss: u32,
    /// Octets that the peer has not acknowledged,
    pub(super) unacked: u32,
    /// that TCP has not sent,
    pub(super) unsent: u32,
    /// and that were not read.
    pub(super) unread: u32,
}

impl Stream {
    /// Returns what it looks like now. What belongs to TCP is read as it is.
    pub(super) fn sight(&self) -> Sight {
        let past = |from: &TcpSocket, to: &TcpSocket| {
            is_empty(from.numbers().write_seq, to.numbers().copied_seq)
        };
        let (direct, peer) = match &*self.peer.lock() {
            Some(other) => (
                (past(&self.sock, &other.sock), past(&other.sock, &self.sock)),
                Some(other.base().num().0),
            ),
            None => ((false, false), None),
        };
        let tcp = self.sock.numbers();
        Sight {
            crc: self.has_crc,
            markers: self.has_markers,
            direct,
            peer,
            mss: self.sock.mss(),
            unacked: tcp.snd_nxt.wrapping_sub(tcp.snd_una),
            unsent: tcp.write_seq.wrapping_sub(tcp.snd_nxt),
            unread: tcp.rcv_nxt.wrapping_sub(tcp.copied_seq),
        }
    }
}
