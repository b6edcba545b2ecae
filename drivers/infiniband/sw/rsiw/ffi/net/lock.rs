// SPDX-License-Identifier: GPL-2.0

//! The lock of a TCP socket: who gets it, and what may be done with it.
//!
//! A process gets the lock by [`TcpSocket::with_lock`]. A [`HeldSock`] keeps others off for a
//! moment, as softirq does when data arrives. Both give a [`LockedSock`], with which received data
//! is read in place, and which opens a [`LockedBySock`]: data of the driver that this lock guards,
//! as `kernel::sync::LockedBy` has it for locks of the kernel crate.
//!
//! Context: process, with bottom halves off while a socket is held; or softirq and backlog inside
//! the callbacks of a socket. What a socket with TLS has received is read in process context only.

use super::batch::TxBatch;
use super::skb::SkbChunk;
use super::socket::{
    self,
    SendFlags,
    TcpSocket,
    TcpState, //
};
use crate::ffi::raw::{
    b,
    h, //
};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::num::Saturating;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;

/// A socket that is held: its spin lock is taken, and no process has the socket. Dropping this lets
/// go of the socket. Nothing may sleep meanwhile.
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
    /// give it back. Neither this nor whoever it waits for sleeps. A socket with TLS is for
    /// processes only, and `if_taken` is not called.
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
        // What the batch does with its chunks comes when the lock is released.
        socket::send_with(batch, flags, |bvecs, len, raw| {
            let Some(held) = self.hold(|| {}) else {
                return EBUSY.to_errno();
            };
            let (sk, list, nr) = (
                held.sock.sk().as_ptr(),
                bvecs.as_ptr(),
                socket::count(bvecs),
            );
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
        // SAFETY: the lock was just taken and is held until after the last use. The caller has no
        // other proof for this socket: it would have waited for itself.
        let mut locked = unsafe { LockedSock::new(sk, self.turn()) };
        let result = f(&mut locked);
        // SAFETY: the lock is held by this function.
        unsafe { b::release_sock(sk.as_ptr()) };
        result
    }
}

/// How much one call of [`LockedSock::read`] takes in at most from a socket with TLS, as a count of
/// two things: records that have data, however long, and arrivals of packets meanwhile, as these
/// may have records without data.
const TURN: usize = 256;

/// What is left of the [`TURN`] of the process that reads from a socket with TLS.
///
/// # Invariants
///
/// It is accessed with the lock of its socket held. TLS looks at `count` before each record.
pub(super) struct Turn(UnsafeCell<b::read_descriptor_t>);

impl Turn {
    pub(super) fn new() -> Self {
        Self(UnsafeCell::new(pin_init::zeroed()))
    }

    /// Counts what has arrived.
    ///
    /// # Safety
    ///
    /// The lock of the socket is held.
    pub(super) unsafe fn arrived(&self) {
        // SAFETY: valid, and nobody else accesses it, by the invariant.
        unsafe { spend(self.0.get()) };
    }
}

/// # Safety
///
/// `desc` is valid, and nobody else accesses it.
unsafe fn spend(desc: *mut b::read_descriptor_t) {
    // SAFETY: by the caller's promise.
    unsafe { (*desc).count = (*desc).count.saturating_sub(1) };
}

/// Proof that the lock of a TCP socket is held, and access to what the lock protects.
///
/// # Invariants
///
/// `sk` is a live TCP socket whose lock is held during `'a`, by the process or by softirq
/// processing of the socket. No other value for that socket is used meanwhile. `'a` is invariant,
/// and who gets a proof is a function for any `'a`, so that two proofs cannot be exchanged.
///
/// If there is a `turn`, it is the socket's, the socket has TLS, and a process has the lock.
pub(crate) struct LockedSock<'a> {
    sk: NonNull<b::sock>,
    turn: Option<&'a Turn>,
    _lock: PhantomData<fn(&'a ()) -> &'a ()>,
    _not_send: PhantomData<*mut ()>,
}

struct ReadContext<'f, F> {
    take: &'f mut F,
    /// The socket in whose queue the buffers are; `None` if TLS has made them.
    sk: Option<NonNull<b::sock>>,
    stopped: bool,
}

impl<'a> LockedSock<'a> {
    /// # Safety
    ///
    /// `sk` is a live TCP socket whose lock is held for as long as the value is used. The caller
    /// uses no other value for it meanwhile, and shows the value to one function that takes it for
    /// any `'a`. If there is a `turn`, it is the socket's, the socket has TLS, and a process has
    /// the lock.
    pub(super) unsafe fn new(sk: NonNull<b::sock>, turn: Option<&'a Turn>) -> Self {
        // INVARIANT: the caller vouches for it.
        Self {
            sk,
            turn,
            _lock: PhantomData,
            _not_send: PhantomData,
        }
    }

    pub(super) fn as_ptr(&self) -> *mut b::sock {
        self.sk.as_ptr()
    }

    pub(crate) fn state(&self) -> TcpState {
        // SAFETY: `sk` is live by the type invariants.
        TcpState::from_raw(unsafe { h::sk_state(self.sk.as_ptr()) })
    }

    /// Returns whether the peer's FIN was received. Octets in front of it may still be unread.
    pub(crate) fn peer_fin(&self) -> bool {
        // SAFETY: `sk` is live by the type invariants.
        unsafe { h::tcp_has_fin(self.sk.as_ptr()) }
    }

    /// Returns the error that ended the connection, if one did.
    pub(crate) fn error(&self) -> Option<Error> {
        // SAFETY: `sk` is live by the type invariants.
        socket::error_of(unsafe { h::sk_err(self.sk.as_ptr()) })
    }

    /// Makes TCP acknowledge at once what is read next, instead of together with an answer.
    pub(crate) fn acknowledge(&mut self) {
        // SAFETY: the socket is live and locked by the type invariants.
        unsafe { h::tcp_acknowledge(self.sk.as_ptr()) };
    }

    /// Hands received octets to `take`, in order. Returns how many it took, or an error of TCP's.
    ///
    /// `take` returns how many octets of a chunk it took. If those are not all, reading stops and
    /// the rest stays in the socket. Reading also stops behind the peer's FIN.
    ///
    /// With TLS, what arrives meanwhile is taken in between records, and callbacks run for it. This
    /// returns why it stopped: zero if `take` stopped it, or behind the FIN; `EAGAIN` if there is
    /// no whole record; `EINTR` after as much as one call may take: the caller has to come back
    /// without being told; `EINVAL` in front of a record that is no data (see
    /// [`TcpSocket::take_notice`]); other errors if nothing more will come.
    ///
    /// [`TcpSocket::take_notice`]: super::TcpSocket::take_notice
    pub(crate) fn read<F>(&mut self, take: F) -> Result<usize>
    where
        F: FnMut(&SkbChunk<'_>) -> usize,
    {
        self.read_in_turn(TURN, take)
    }

    /// Reads as [`LockedSock::read`], with `most` in the place of [`TURN`].
    #[inline(always)]
    fn read_in_turn<F>(&mut self, most: usize, mut take: F) -> Result<usize>
    where
        F: FnMut(&SkbChunk<'_>) -> usize,
    {
        let mut context = ReadContext {
            take: &mut take,
            sk: self.turn.is_none().then_some(self.sk),
            stopped: false,
        };
        let mut desc = b::read_descriptor_t {
            count: 1,
            ..pin_init::zeroed()
        };
        desc.arg.data = (&raw mut context).cast();
        let sk = self.sk.as_ptr();
        let Some(turn) = self.turn else {
            // SAFETY: the socket is live and locked by the type invariants.
            unsafe { h::tcp_expect(sk, 1) };
            // SAFETY: as above; `actor::<F>` gets the context it expects, which outlives the call.
            let n = unsafe { b::tcp_read_sock(sk, &mut desc, Some(actor::<F>)) };
            return usize::try_from(n).or_else(|_| to_result(n).map(|()| 0));
        };
        desc.count = most;
        // SAFETY: the lock is held by the type invariants.
        unsafe { *turn.0.get() = desc };
        loop {
            // SAFETY: as above, and a process has the socket.
            let n = unsafe { h::tls_read_sock(sk, turn.0.get(), Some(actor::<F>)) };
            to_result(n.min(0))?;
            // If octets were taken, the next call returns the reason for the stop.
            if n == 0 {
                break;
            }
        }
        // SAFETY: as above.
        let is_turn_over = unsafe { (*turn.0.get()).count } == 0 && !context.stopped;
        if is_turn_over {
            Err(EINTR)
        } else {
            Ok(0)
        }
    }

    /// Copies received octets to `data`. Returns how many, zero for the peer's FIN or at the end of
    /// the connection, or `EAGAIN` if nothing is there; with TLS, other errors of
    /// [`LockedSock::read`] as well.
    pub(crate) fn recv(&mut self, data: &mut [u8]) -> Result<usize> {
        let mut copied = Saturating(0);
        // One record, so that an error behind it is left for the next call.
        let read = self.read_in_turn(1, |chunk| {
            let room = data.get_mut(copied.0..).unwrap_or_default();
            let len = chunk.len().min(room.len());
            let to = room.get_mut(..len).unwrap_or_default();
            let taken = chunk.copy_to(0, to).map_or(0, |()| len);
            copied += taken;
            taken
        });
        if copied.0 > 0 {
            return Ok(copied.0);
        }
        read?;
        if self.peer_fin() || self.state() == TcpState::Closed {
            Ok(0)
        } else {
            Err(EAGAIN)
        }
    }
}

/// The actor of `tcp_read_sock`, and of its counterpart for TLS.
///
/// # Safety
///
/// `desc.arg.data` is a `ReadContext<F>` that nobody else uses; `skb` holds `offset + len` octets.
unsafe extern "C" fn actor<F>(
    desc: *mut b::read_descriptor_t,
    skb: *mut b::sk_buff,
    offset: c_uint,
    len: usize,
) -> c_int
where
    F: FnMut(&SkbChunk<'_>) -> usize,
{
    // SAFETY: the descriptor is the one `read` passed, where `data` is the active member.
    let data = unsafe { (*desc).arg.data };
    // SAFETY: `data` is the context of `read`, borrowed there for nothing else meanwhile.
    let context = unsafe { &mut *data.cast::<ReadContext<'_, F>>() };
    let (false, Ok(chunk_len), Some(skb)) =
        (context.stopped, u32::try_from(len), NonNull::new(skb))
    else {
        return 0;
    };
    if chunk_len == 0 {
        return 0;
    }
    // SAFETY: the buffer holds the octets, and is the first of the queue of the socket that `read`
    // has, which is locked, or this call's own. Its total length is a `c_uint` that TCP and TLS
    // keep far below `c_int::MAX`.
    let chunk = unsafe { SkbChunk::new(context.sk, skb, offset, chunk_len) };
    if context.sk.is_none() {
        // SAFETY: TLS has passed the descriptor on, and does not access it meanwhile.
        unsafe { spend(desc) };
    }
    let taken = (context.take)(&chunk).min(len);
    context.stopped = taken < len;
    c_int::try_from(taken).unwrap_or(0)
}

/// A value that only the holder of one socket's lock can access.
///
/// # Invariants
///
/// A reference to `value` is only made from a borrowed [`LockedSock`] of the socket at `sk`, for as
/// long as that is borrowed.
pub(crate) struct LockedBySock<T> {
    /// Used only to compare.
    sk: NonNull<b::sock>,
    value: UnsafeCell<T>,
}

// SAFETY: `sk` is only compared, and whoever has the whole value has the only reference to it.
unsafe impl<T: Send> Send for LockedBySock<T> {}
// SAFETY: by the invariant one thread at a time gets at `value`: the holder of a socket's lock.
unsafe impl<T: Send> Sync for LockedBySock<T> {}

impl<T> LockedBySock<T> {
    pub(crate) fn new(sock: &TcpSocket, value: T) -> Self {
        // INVARIANT: there is no reference yet.
        Self {
            sk: sock.sk(),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value; `None` if `sk` is another socket.
    #[inline]
    pub(crate) fn get<'a>(&'a self, sk: &'a mut LockedSock<'_>) -> Option<&'a mut T> {
        if sk.as_ptr() != self.sk.as_ptr() {
            return None;
        }
        // INVARIANT: `sk` is borrowed for as long as the reference lives.
        // SAFETY: by the invariants of `LockedSock` nobody else has one of the same socket, and the
        // lock orders what was done before. If the socket is another one at the address of the
        // first, the first is gone, and so are all references that were made from it.
        Some(unsafe { &mut *self.value.get() })
    }
}
