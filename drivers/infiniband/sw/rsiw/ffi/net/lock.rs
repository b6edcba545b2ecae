// SPDX-License-Identifier: GPL-2.0

//! Who gets the lock of a TCP socket: a process ([`TcpSocket::with_lock`]), or one that keeps
//! others off for a moment, as softirq does when data arrives ([`HeldSock`]).
//!
//! Context: process. Bottom halves are off while a socket is held.

use super::{
    batch::TxBatch,
    locked::LockedSock,
    socket::{
        count,
        send_with,
        SendFlags,
        TcpSocket, //
    },
};
use crate::ffi::raw::{
    b,
    h, //
};
use kernel::{
    prelude::*,
    types::NotThreadSafe, //
};

/// A socket that is held: its spin lock is taken, and no process has it. Dropping this lets go of
/// it. Nothing may sleep meanwhile.
///
/// # Invariants
///
/// This value holds the spin lock of `sock`, bottom halves are off, and no process owns the socket,
/// which has no TLS.
pub(crate) struct HeldSock<'a> {
    sock: &'a TcpSocket,
    _thread: NotThreadSafe,
}

impl HeldSock<'_> {
    /// Runs `f` with the proof that the socket is held. Proofs of two sockets have different types
    /// in there, so that they cannot be exchanged.
    #[inline(always)]
    pub(crate) fn with<R>(&mut self, f: impl FnOnce(&mut LockedSock<'_>) -> R) -> R {
        // SAFETY: by the invariant no process has the socket, and none gets it before the spin lock
        // is given back, which is when this value, borrowed here, is dropped. TCP calls back in the
        // same state, and not from within what is done with a `LockedSock`.
        f(&mut unsafe { LockedSock::new(self.sock.sk(), None) })
    }
}

impl Drop for HeldSock<'_> {
    fn drop(&mut self) {
        // SAFETY: by the invariant this value holds the lock, in this thread, to which it is bound.
        unsafe { h::sock_let_go(self.sock.sk().as_ptr()) };
    }
}

impl TcpSocket {
    /// Holds the socket, unless a process has it: then calls `if_taken`, before that process can
    /// give it back. Never sleeps; nor does what it waits for. A socket with TLS is for processes
    /// only, and `if_taken` is not called.
    #[inline]
    pub(crate) fn hold(&self, if_taken: impl FnOnce()) -> Option<HeldSock<'_>> {
        if self.is_secure() {
            return None;
        }
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

    /// As [`TcpSocket::send_batch`], without sleeping. Returns `EBUSY` if a process has the socket,
    /// or it has TLS.
    pub(crate) fn send_batch_at_once(
        &self,
        batch: &mut TxBatch,
        flags: SendFlags,
    ) -> Result<usize> {
        // What the batch does with its chunks comes after the lock.
        send_with(batch, flags, |bvecs, len, raw| {
            let Some(held) = self.hold(|| {}) else {
                return EBUSY.to_errno();
            };
            let (sk, list, nr) = (held.sock.sk().as_ptr(), bvecs.as_ptr(), count(bvecs));
            // SAFETY: by the invariant of `held` the spin lock is held and no process has the
            // socket; the list is as `send_with` says.
            unsafe { h::tcp_send_bvec_held(sk, list, nr, len, raw, flags.cut) }
        })
    }

    /// Runs `f` with the socket's lock held. Data that arrives meanwhile is taken in when the lock
    /// is dropped: callbacks then run in this context. Process context.
    pub(crate) fn with_lock<R>(&self, f: impl FnOnce(&mut LockedSock<'_>) -> R) -> R {
        let sk = self.sk();
        // SAFETY: the socket is live as long as `self`.
        unsafe { h::lock_sock(sk.as_ptr()) };
        // SAFETY: the lock was just taken and is held until after the last use. Whoever takes it
        // has no other proof: it would have waited for itself.
        let mut locked = unsafe { LockedSock::new(sk, self.turn()) };
        let result = f(&mut locked);
        // SAFETY: the lock is held by this function.
        unsafe { b::release_sock(sk.as_ptr()) };
        result
    }
}
