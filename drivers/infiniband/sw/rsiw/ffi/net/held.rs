// SPDX-License-Identifier: GPL-2.0

//! A TCP socket kept from others for a moment, as softirq does when data arrives, and what tells
//! whether two sockets are the ends of one connection.
//!
//! Context: process. Bottom halves are off while a socket is held.

use super::{
    super::raw::h,
    LockedSock,
    TcpSocket, //
};
use kernel::types::NotThreadSafe;

/// Sequence numbers of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequences {
    /// Of the oldest octet that was sent and not acknowledged (`snd_una`).
    pub(crate) acknowledged: u32,
    /// Of the octet behind the last that was written, which may not be sent yet (`write_seq`).
    pub(crate) written: u32,
    /// Of the octet that is expected next (`rcv_nxt`).
    pub(crate) received: u32,
}

/// A socket that is held: its spin lock is taken, and no process has it. It is let go of when this
/// is dropped. Nothing may sleep meanwhile.
///
/// # Invariants
///
/// The spin lock of `sock` is held by this value, bottom halves are off, and no process owns the
/// socket.
pub(crate) struct HeldSock<'a> {
    sock: &'a TcpSocket,
    _thread: NotThreadSafe,
}

impl HeldSock<'_> {
    /// Runs `f` with the proof that the socket is held, which is of use to that call only: proofs
    /// of two sockets have different types there, so that they cannot be exchanged.
    #[inline(always)]
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut LockedSock<'_>) -> R) -> R {
        // SAFETY: by the invariant no process has the socket, and none gets it before the spin lock
        // is given back, which is when this value, borrowed here, is dropped. TCP calls back in the
        // same state, and not from within what is done with a `LockedSock`.
        f(&mut unsafe { LockedSock::new(self.sock.sk()) })
    }
}

impl Drop for HeldSock<'_> {
    fn drop(&mut self) {
        // SAFETY: by the invariant the lock is held by this value, in this thread, which it does
        // not leave.
        unsafe { h::sock_let_go(self.sock.sk().as_ptr()) };
    }
}

impl TcpSocket {
    /// Holds the socket, unless a process has it: then calls `if_taken`, before that process can
    /// give it back. Never sleeps; what it waits for does not sleep either.
    #[inline]
    pub(crate) fn hold(&self, if_taken: impl FnOnce()) -> Option<HeldSock<'_>> {
        let sk = self.sk();
        // SAFETY: the socket is live.
        let is_free = unsafe { h::sock_hold(sk.as_ptr()) };
        if !is_free {
            if_taken();
            // SAFETY: the spin lock was just taken.
            unsafe { h::sock_let_go(sk.as_ptr()) };
            return None;
        }
        // INVARIANT: the lock was just taken, and no process has the socket.
        Some(HeldSock {
            sock: self,
            _thread: NotThreadSafe,
        })
    }

    /// Returns the sequence number of the octet that is written next. Any context; only the sender
    /// of this socket changes it.
    #[inline]
    pub(crate) fn written(&self) -> u32 {
        // SAFETY: the socket is live.
        unsafe { h::tcp_written(self.sk().as_ptr()) }
    }

    /// Returns the number of the network namespace that the socket is in. No two have the same.
    pub(crate) fn namespace(&self) -> u64 {
        // SAFETY: the socket is live, and keeps its namespace.
        unsafe { h::sock_net_cookie(self.sk().as_ptr()) }
    }

    /// Reads the sequence numbers of two sockets: of both what is acknowledged, then of both what
    /// was received, then what was written.
    pub(crate) fn sequences(a: &Self, b: &Self) -> (Sequences, Sequences) {
        let (mut of_a, mut of_b) = ([0; 3], [0; 3]);
        // SAFETY: both sockets are live, and there is room for three numbers each.
        unsafe {
            h::tcp_sequences(
                a.sk().as_ptr(),
                b.sk().as_ptr(),
                of_a.as_mut_ptr(),
                of_b.as_mut_ptr(),
            )
        };
        let numbers = |[acknowledged, received, written]: [u32; 3]| Sequences {
            acknowledged,
            written,
            received,
        };
        (numbers(of_a), numbers(of_b))
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
