// SPDX-License-Identifier: GPL-2.0

//! A TCP socket under its lock: reading received data in place.
//!
//! Context: process (the lock taken by [`TcpSocket::with_lock`]) or softirq and backlog (inside
//! the callbacks of a socket).

use super::{
    super::raw::{
        b,
        h, //
    },
    SkbChunk,
    TcpSocket, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// State of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpState {
    /// Set-up in progress.
    Connecting,
    /// Both directions open.
    Established,
    /// The peer sent its FIN, this side did not.
    CloseWait,
    /// This side sent its FIN (FIN-WAIT, CLOSING, LAST-ACK).
    Closing,
    /// Gone, or never set up.
    Closed,
    /// A listener.
    Listen,
}

impl TcpState {
    pub(super) fn from_raw(state: c_int) -> Self {
        let Ok(state) = u32::try_from(state) else {
            return Self::Closed;
        };
        match state {
            b::BPF_TCP_ESTABLISHED => Self::Established,
            b::BPF_TCP_SYN_SENT | b::BPF_TCP_SYN_RECV | b::BPF_TCP_NEW_SYN_RECV => Self::Connecting,
            b::BPF_TCP_CLOSE_WAIT => Self::CloseWait,
            b::BPF_TCP_FIN_WAIT1
            | b::BPF_TCP_FIN_WAIT2
            | b::BPF_TCP_CLOSING
            | b::BPF_TCP_LAST_ACK => Self::Closing,
            b::BPF_TCP_LISTEN => Self::Listen,
            _ => Self::Closed,
        }
    }
}

/// Proof that the lock of a TCP socket is held, and access to what the lock protects.
///
/// # Invariants
///
/// `sk` is a live TCP socket whose lock is held during `'a`, by the process or by softirq
/// processing of the socket. No other value for that socket is used meanwhile. `'a` is invariant, and
/// who gets a proof is a function for any `'a`, so that two proofs cannot be exchanged.
pub(crate) struct LockedSock<'a> {
    sk: NonNull<b::sock>,
    _lock: PhantomData<fn(&'a ()) -> &'a ()>,
    _not_send: PhantomData<*mut ()>,
}

struct ReadContext<'f, F> {
    take: &'f mut F,
    sk: NonNull<b::sock>,
    stopped: bool,
}

impl LockedSock<'_> {
    /// # Safety
    ///
    /// `sk` is a live TCP socket whose lock is held for as long as the value is used, by who uses no
    /// other value for it meanwhile, and shows the value to one function that takes it for any `'a`.
    pub(super) unsafe fn new(sk: NonNull<b::sock>) -> Self {
        // INVARIANT: the caller vouches for it.
        Self {
            sk,
            _lock: PhantomData,
            _not_send: PhantomData,
        }
    }

    pub(super) fn as_ptr(&self) -> *mut b::sock {
        self.sk.as_ptr()
    }

    /// State of the connection.
    pub(crate) fn state(&self) -> TcpState {
        // SAFETY: `sk` is live by the type invariants.
        TcpState::from_raw(unsafe { h::sk_state(self.sk.as_ptr()) })
    }

    /// Whether the peer's FIN was received. Octets in front of it may still be unread.
    pub(crate) fn peer_fin(&self) -> bool {
        // SAFETY: `sk` is live by the type invariants.
        unsafe { h::sk_rcv_shutdown(self.sk.as_ptr()) }
    }

    /// The error that ended the connection, if one did.
    pub(crate) fn error(&self) -> Option<Error> {
        // SAFETY: `sk` is live by the type invariants.
        error_of(unsafe { h::sk_err(self.sk.as_ptr()) })
    }

    /// Hands received octets to `take`, in order. Returns how many it took.
    ///
    /// `take` returns how many it took of a chunk; with less than all of them the reading stops and
    /// the rest stays in the socket. The reading also stops behind the peer's FIN.
    ///
    /// # Errors
    ///
    /// Those of `tcp_read_sock()`.
    pub(crate) fn read<F>(&mut self, mut take: F) -> Result<usize>
    where
        F: FnMut(&SkbChunk<'_>) -> usize,
    {
        let mut context = ReadContext {
            take: &mut take,
            sk: self.sk,
            stopped: false,
        };
        let mut desc = b::read_descriptor_t {
            count: 1,
            ..pin_init::zeroed()
        };
        desc.arg.data = (&raw mut context).cast();
        // SAFETY: the socket is live and locked by the type invariants; `actor::<F>` gets the
        // context it expects, which outlives the call.
        let n = unsafe { b::tcp_read_sock(self.sk.as_ptr(), &mut desc, Some(actor::<F>)) };
        usize::try_from(n).or_else(|_| to_result(n).map(|()| 0))
    }
}

/// The actor of `tcp_read_sock`.
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
    // SAFETY: the buffer holds the octets, and it is the first of the queue of the socket that
    // `read` has, which is locked. Its total length is a `c_uint` that TCP keeps far below
    // `c_int::MAX`.
    let chunk = unsafe { SkbChunk::new(context.sk, skb, offset, chunk_len) };
    let taken = (context.take)(&chunk).min(len);
    context.stopped = taken < len;
    c_int::try_from(taken).unwrap_or(0)
}

/// The error of a socket whose `sk_err` is `err`.
pub(super) fn error_of(err: c_int) -> Option<Error> {
    match err.checked_neg() {
        Some(errno) if errno < 0 => Some(Error::from_errno(errno)),
        _ => None,
    }
}

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

impl TcpSocket {
    /// Where the stream is. Any context.
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

    /// Runs `f` with the socket's lock held. Process context.
    ///
    /// Data that arrives meanwhile is taken in when the lock is dropped: callbacks then run in
    /// this context.
    pub(crate) fn with_lock<R>(&self, f: impl FnOnce(&mut LockedSock<'_>) -> R) -> R {
        let sk = self.sk();
        // SAFETY: the socket is live as long as `self`.
        unsafe { h::lock_sock(sk.as_ptr()) };
        // SAFETY: the lock was just taken and is held until after the last use. Who takes it has
        // none yet: it would wait for itself.
        let mut locked = unsafe { LockedSock::new(sk) };
        let result = f(&mut locked);
        // SAFETY: the lock is held by this function.
        unsafe { b::release_sock(sk.as_ptr()) };
        result
    }
}
