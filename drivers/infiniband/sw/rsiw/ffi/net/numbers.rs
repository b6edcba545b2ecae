// SPDX-License-Identifier: GPL-2.0

//! Where the streams of a TCP socket are, in its sequence numbers.
//!
//! Context: any. Without the socket's lock, numbers may be outdated at once.

use super::{
    locked::LockedSock,
    socket::TcpSocket, //
};
use crate::ffi::raw::h;
use kernel::sync::barrier::{
    smp_mb,
    Read, //
};

/// Where a stream is, in sequence numbers of TCP, read one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TcpNumbers {
    /// The oldest that the peer has not acknowledged.
    pub(crate) snd_una: u32,
    /// The next to be sent.
    pub(crate) snd_nxt: u32,
    /// Behind the last that TCP was given.
    pub(crate) write_seq: u32,
    /// The next to be read.
    pub(crate) copied_seq: u32,
    /// The next that is awaited of the peer.
    pub(crate) rcv_nxt: u32,
}

impl TcpNumbers {
    /// Reads where the streams of two sockets are: of both what the peer has acknowledged, then of
    /// both what was received, then what was written. Each number is as old as those read before
    /// it, or newer.
    pub(crate) fn of_both(a: &TcpSocket, b: &TcpSocket) -> (Self, Self) {
        let read = || (a.numbers(), b.numbers());
        let acknowledged = read();
        // What is acknowledged was received before: so this is read later.
        smp_mb(Read);
        let received = read();
        // What is received was written before.
        smp_mb(Read);
        let written = read();
        let both = |acknowledged: Self, received: Self, written: Self| Self {
            rcv_nxt: received.rcv_nxt,
            write_seq: written.write_seq,
            ..acknowledged
        };
        (
            both(acknowledged.0, received.0, written.0),
            both(acknowledged.1, received.1, written.1),
        )
    }
}

impl TcpSocket {
    pub(crate) fn numbers(&self) -> TcpNumbers {
        let mut n = TcpNumbers::default();
        // SAFETY: the socket is live as long as `self`; the rest is ours.
        unsafe {
            h::tcp_numbers(
                self.sk().as_ptr(),
                &mut n.snd_una,
                &mut n.snd_nxt,
                &mut n.write_seq,
                &mut n.copied_seq,
                &mut n.rcv_nxt,
            );
        }
        n
    }

    /// Returns the sequence number of the octet that is written next, which only the sender of this
    /// socket changes.
    #[inline]
    pub(crate) fn written(&self) -> u32 {
        // SAFETY: the socket is live.
        unsafe { h::tcp_written(self.sk().as_ptr()) }
    }
}

impl LockedSock<'_> {
    /// Returns the sequence number of the octet that is read next.
    #[inline]
    pub(crate) fn read_up_to(&self) -> u32 {
        // SAFETY: the socket is live by the type invariants.
        unsafe { h::tcp_read_up_to(self.as_ptr()) }
    }
}
