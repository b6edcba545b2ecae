// SPDX-License-Identifier: GPL-2.0

//! A snapshot of a queue pair's connection, for whoever describes the QP.
//!
//! Context: process; takes no lock of those who send or receive.
#![forbid(unsafe_code)]

use super::stream::Stream;
use crate::{ffi::net::TcpSocket, proto::direct::is_empty};

/// What a connection looked like at one moment.
pub(super) struct Sight {
    pub(super) crc: bool,
    /// It has TLS below MPA.
    pub(super) tls: bool,
    /// This side's FPDUs have markers.
    pub(super) markers: bool,
    /// Whether messages go past TCP at this moment, from this side and to it.
    pub(super) direct: (bool, bool),
    /// The number of the other end's queue pair, if it is on this host.
    pub(super) peer: Option<u32>,
    pub(super) mss: u32,
    /// Octets sent and not acknowledged.
    pub(super) unacked: u32,
    /// Octets written and not sent.
    pub(super) unsent: u32,
    /// Octets received and not read.
    pub(super) unread: u32,
}

impl Stream {
    /// Takes a snapshot. TCP's numbers are read without its lock.
    pub(super) fn sight(&self) -> Sight {
        let past = |from: &TcpSocket, to: &TcpSocket| {
            is_empty(from.numbers().write_seq, to.numbers().copied_seq)
        };
        let peer = self.shown_peer(|other| {
            (
                (past(&self.sock, &other.sock), past(&other.sock, &self.sock)),
                other.base().num().0,
            )
        });
        let (direct, peer) = match peer {
            Some((direct, num)) => (direct, Some(num)),
            None => ((false, false), None),
        };
        let tcp = self.sock.numbers();
        Sight {
            crc: self.has_crc,
            tls: self.sock.is_secure(),
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
