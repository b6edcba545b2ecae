// SPDX-License-Identifier: GPL-2.0

//! TCP sockets of the kernel: what they are asked and told, their state, and where their streams
//! are in sequence numbers. No call waits for a peer.
//!
//! Context: process; state and sequence numbers in any. Without the socket's lock these may be
//! outdated at once.

use super::batch::TxBatch;
use super::lock::{
    LockedSock,
    Turn, //
};
use super::netdev::{
    NetDevice,
    Storage, //
};
use crate::ffi::mm::Payer;
use crate::ffi::raw::{
    b,
    h, //
};
use core::net::SocketAddr;
use core::num::NonZero;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::num::casts::IntoSafeCast;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed,
    Release, //
};
use kernel::sync::barrier::{
    smp_mb,
    Read, //
};
use kernel::sync::Arc;

/// The interfaces by which packets of a socket come and go, and those of the sockets that are
/// accepted from it. TCP checks each packet, the first one included.
///
/// What this host sends to an address of its own counts as coming by the interface that has the
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    /// Any interface of the VRF in which the device's interface is now; if that is in none, any
    /// interface in none.
    Vrf,
    /// One interface.
    Interface,
}

impl Ways {
    /// Returns the index by which the kernel knows the interfaces; 0 stands for those in no VRF.
    /// `ndev` is the interface of the device.
    pub(crate) fn index(self, ndev: &NetDevice) -> i32 {
        match self {
            Self::Vrf => ndev.vrf(),
            Self::Interface => ndev.index(),
        }
    }

    /// Lets packets of a socket come and go by these interfaces; `ndev` is the interface of its
    /// device.
    ///
    /// # Safety
    ///
    /// `sk` is a live socket, whose lock is not held.
    pub(super) unsafe fn bind(self, sk: *mut b::sock, ndev: &NetDevice) -> Result {
        let ifindex = self.index(ndev);
        if ifindex == 0 {
            return Ok(());
        }
        // SAFETY: by the caller's promise.
        to_result(unsafe { b::sock_bindtoindex(sk, ifindex, true) })
    }
}

/// How a batch is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendFlags {
    /// More follows at once: TCP may hold back a last, short segment (`MSG_MORE`).
    pub(crate) more: bool,
    /// Nothing that follows shares a segment with the end of this batch (`MSG_EOR`).
    pub(crate) eor: bool,
    /// What TCP was given before this batch, and has not sent yet, shares no segment with it.
    pub(crate) cut: bool,
}

/// A TCP socket in the network namespace of a device, which does not listen.
///
/// Dropping the last reference closes the socket and takes its lock: do it in process context,
/// outside the socket's callbacks. A close sends a FIN, or a RST if received data was not read; see
/// [`TcpSocket::abort`] and [`TcpSocket::shutdown_write`].
///
/// # Invariants
///
/// `sock` is a TCP socket owned by this value as `ownership` says, `sk` its `struct sock`. It
/// listens only as a part of a [`ListenSocket`].
///
/// [`ListenSocket`]: super::ListenSocket
pub(crate) struct TcpSocket {
    sock: NonNull<b::socket>,
    sk: NonNull<b::sock>,
    ownership: Ownership,
    turn: Turn,
    /// Whether there is a [`Claim`].
    is_claimed: Atomic<bool>,
    /// Whether TLS was given the alert that tells the peer of the FIN.
    has_said_end: Atomic<bool>,
    /// Whether the socket may use reserves of memory.
    reclaims: Atomic<bool>,
}

/// The right to exchange a socket's hooks: for callbacks, or for a handshake, during which TLS
/// takes the hooks that it finds for those below its own. There is one such right at a time.
///
/// # Invariants
///
/// `is_claimed` of the socket was set for this value.
pub(crate) struct Claim(Arc<TcpSocket>);

impl Claim {
    pub(super) fn sock(&self) -> &Arc<TcpSocket> {
        &self.0
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Whoever claims the hooks next sees what was done with them.
        self.0.is_claimed.store(false, Release);
    }
}

/// What keeps a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// This side alone.
    Own,
    /// Its file, of which this side has a reference: the socket is for TLS.
    File,
    /// Nothing: making the file has failed.
    Gone,
}

// SAFETY: sockets may be used and closed by any thread.
unsafe impl Send for TcpSocket {}
// SAFETY: the socket calls made here take the locks they need.
unsafe impl Sync for TcpSocket {}

impl TcpSocket {
    /// Creates a socket for addresses like `addr`, in the namespace of `ndev`, with these ways.
    pub(crate) fn new(ndev: &NetDevice, addr: &SocketAddr, ways: Ways) -> Result<Arc<Self>> {
        let family = if addr.is_ipv4() {
            b::AF_INET
        } else {
            b::AF_INET6
        };
        let net = ndev.net()?;
        let mut sock = core::ptr::null_mut();
        // SAFETY: `net` is a live namespace; `sock` is a place for the result.
        to_result(unsafe {
            b::sock_create_kern(
                net.as_raw(),
                // CAST: small constants.
                family as c_int,
                b::sock_type_SOCK_STREAM as c_int,
                b::IPPROTO_TCP as c_int,
                &mut sock,
            )
        })?;
        // SAFETY: the call above returned a new socket that nobody else knows.
        let this = unsafe { Self::from_raw(sock)? };
        let sk = this.sk.as_ptr();
        // SAFETY: the socket is new: not locked and not visible to anyone else.
        unsafe { h::sock_reclassify(sk) };
        // SAFETY: `net` keeps the namespace alive; the socket holds no reference to it yet. Without
        // a reference, closing a kernel socket stops its timers, so a FIN that is lost on the way
        // would not be sent again.
        unsafe { b::sk_net_refcnt_upgrade(sk) };
        // SAFETY: the socket is live and unlocked.
        unsafe { h::sock_prepare(sk) };
        // SAFETY: the socket is live and unlocked.
        unsafe { ways.bind(sk, ndev) }?;
        Arc::new(this, GFP_KERNEL_ACCOUNT).map_err(Error::from)
    }

    /// Takes over a socket, which has its own hooks.
    ///
    /// # Safety
    ///
    /// `sock` is a TCP socket that the caller owns.
    pub(super) unsafe fn from_raw(sock: *mut b::socket) -> Result<Self> {
        let sock = NonNull::new(sock).ok_or(EINVAL)?;
        // SAFETY: the caller owns the socket.
        let sk = unsafe { (*sock.as_ptr()).sk };
        // The kernel crate knows `struct sock` by name only: the cast is to the same C type.
        let sk = NonNull::new(sk.cast::<b::sock>()).ok_or(EINVAL)?;
        // INVARIANT: the caller hands over the socket.
        Ok(Self {
            sock,
            sk,
            ownership: Ownership::Own,
            turn: Turn::new(),
            is_claimed: Atomic::new(false),
            has_said_end: Atomic::new(false),
            reclaims: Atomic::new(false),
        })
    }

    /// Claims the socket's hooks, or returns `EBUSY` while somebody has them.
    pub(crate) fn claim(self: &Arc<Self>) -> Result<Claim> {
        if self.is_claimed.xchg(true, Full) {
            return Err(EBUSY);
        }
        // INVARIANT: just set.
        Ok(Claim(self.clone()))
    }

    /// Makes a file for the socket, which a handshake of TLS with `peer` needs. After an error the
    /// socket can only be dropped.
    pub(super) fn add_file(&mut self, peer: &SocketAddr) -> Result {
        if self.ownership != Ownership::Own {
            return Err(EINVAL);
        }
        let (mut peer, _) = Storage::new(peer);
        // SAFETY: the socket is live, has no file, and nobody else uses it.
        let added = to_result(unsafe { h::sock_add_file(self.sock.as_ptr(), peer.as_mut_ptr()) });
        // INVARIANT: the file has the socket now; without a file it is released.
        self.ownership = match added {
            Ok(()) => Ownership::File,
            Err(_) => Ownership::Gone,
        };
        added
    }

    /// Returns whether the socket is for TLS, through which all goes after the handshake.
    #[inline]
    pub(crate) fn is_secure(&self) -> bool {
        self.ownership == Ownership::File
    }

    /// Returns the turn of the process that reads, if the socket is for TLS.
    #[inline]
    pub(super) fn turn(&self) -> Option<&Turn> {
        self.is_secure().then_some(&self.turn)
    }

    pub(super) fn sock(&self) -> NonNull<b::socket> {
        self.sock
    }

    pub(in crate::ffi) fn sk(&self) -> NonNull<b::sock> {
        self.sk
    }

    pub(crate) fn bind(&self, addr: &SocketAddr) -> Result {
        let (mut storage, len) = Storage::new(addr);
        // SAFETY: the socket is live; `storage` holds an address of `len` octets.
        to_result(unsafe {
            // CAST: addresses are short.
            b::kernel_bind(
                self.sock.as_ptr(),
                storage.as_mut_ptr().cast(),
                len as c_int,
            )
        })
    }

    /// Binds a socket, even to a port to which another socket is bound, shared or not, if that
    /// socket does not listen: the port mapper's daemon binds a socket to each port that it
    /// chooses. Fails with `EADDRINUSE` if somebody listens there, but does not see who begins to
    /// listen at the same time: see [`TcpSocket::is_contended`]. Otherwise as [`TcpSocket::bind`].
    pub(crate) fn bind_beside(&self, addr: &SocketAddr) -> Result {
        // SAFETY: the socket is live and unlocked.
        unsafe { h::sock_force_reuse(self.sk.as_ptr()) };
        self.bind(addr)?;
        if self.is_contended() {
            return Err(EADDRINUSE);
        }
        Ok(())
    }

    /// Binds a socket of one interface to a port at which a socket of the caller listens with
    /// [`Ways::Vrf`]. That socket keeps others from the port. Otherwise as [`TcpSocket::bind`].
    pub(crate) fn bind_below(&self, addr: &SocketAddr) -> Result {
        // SAFETY: the socket is live and unlocked.
        unsafe { h::sock_force_reuse(self.sk.as_ptr()) };
        self.bind(addr)
    }

    /// Returns whether another socket listens for connections that this bound one would get.
    pub(super) fn is_contended(&self) -> bool {
        // SAFETY: the socket is live.
        unsafe { h::sock_is_contended(self.sk.as_ptr()) }
    }

    /// Keeps an IPv6 socket from taking IPv4 connections. Call it before the bind.
    pub(crate) fn set_v6only(&self) -> Result {
        // SAFETY: the socket is live and unlocked.
        to_result(unsafe { h::ip6_sock_set_v6only(self.sk.as_ptr()) })
    }

    /// Sets the type of service, or traffic class, of what is sent.
    pub(crate) fn set_tos(&self, tos: u8) {
        // SAFETY: the socket is live and unlocked.
        unsafe { h::sock_set_tos(self.sk.as_ptr(), c_int::from(tos)) };
    }

    /// Lets the socket use the kernel's reserves of memory, as long as it lives: the kernel may need
    /// what is sent and received here in order to free memory. Process context.
    pub(crate) fn set_reclaims(&self) {
        if !self.reclaims.xchg(true, Relaxed) {
            // SAFETY: the socket is live and unlocked.
            unsafe { h::sock_set_reclaims(self.sk.as_ptr(), true) };
        }
    }

    /// Has `payer` pay for the buffers of a socket that was accepted or made by a work item, which
    /// nobody pays for, from now on. If something is in them already, nobody goes on to pay. Does
    /// nothing if somebody pays already. Process context.
    pub(crate) fn charge_to(&self, payer: &Payer) {
        // SAFETY: the socket is live and unlocked, and the group is live as long as the payer.
        unsafe { h::sock_charge_later(self.sk.as_ptr(), payer.as_ptr()) };
    }

    /// Starts to connect; the socket's callbacks tell how it ends.
    pub(crate) fn connect(&self, addr: &SocketAddr) -> Result {
        let (mut storage, len) = Storage::new(addr);
        // SAFETY: the socket is live; `storage` holds an address of `len` octets.
        let ret = unsafe {
            b::kernel_connect(
                self.sock.as_ptr(),
                storage.as_mut_ptr().cast(),
                // CAST: addresses are short, flags small.
                len as c_int,
                b::O_NONBLOCK as c_int,
            )
        };
        match to_result(ret) {
            Err(e) if e == EINPROGRESS => Ok(()),
            other => other,
        }
    }

    /// Sends as much of `data` as there is space for.
    pub(crate) fn send(&self, data: &[u8]) -> Result<usize> {
        let (octets, len) = (data.as_ptr().cast_mut().cast(), data.len());
        accepted(if self.is_secure() {
            // SAFETY: the socket is live; the kernel only reads from `data`.
            unsafe { h::tls_send(self.sock.as_ptr(), octets, len) }
        } else {
            // SAFETY: as above.
            unsafe { h::tcp_send(self.sk.as_ptr(), octets, len) }
        })
    }

    /// Sends as much of `batch` as there is space for, in one call, and advances it. If some
    /// remains, the handler's `write_space` is called once there is space.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if TCP has no memory now and `write_space` will not tell when it has; the rest of
    /// the batch can be sent later. After any other error neither the stream nor the batch can go
    /// on.
    pub(crate) fn send_batch(&self, batch: &mut TxBatch, flags: SendFlags) -> Result<usize> {
        send_with(batch, flags, |bvecs, len, raw| {
            let (list, nr) = (bvecs.as_ptr(), count(bvecs));
            if self.is_secure() {
                // With TLS the records decide where segments begin.
                //
                // SAFETY: the socket is live; the list is as `send_with` says.
                return unsafe { h::tls_send_bvec(self.sock.as_ptr(), list, nr, len) };
            }
            // SAFETY: as above.
            unsafe { h::tcp_send_bvec(self.sk.as_ptr(), list, nr, len, raw, flags.cut) }
        })
    }

    /// Copies the first octets that were received and not read, which stay where they are. Returns
    /// how many these are, zero at the end of the stream, or `EAGAIN` if there are none.
    pub(crate) fn peek(&self, to: &mut [u8]) -> Result<usize> {
        // SAFETY: the socket is live; there is room for that many octets.
        let ret = unsafe { h::tcp_peek(self.sock.as_ptr(), to.as_mut_ptr().cast(), to.len()) };
        usize::try_from(ret).map_err(|_| Error::from_errno(ret))
    }

    /// Returns how many octets were received and not read; a FIN counts as one.
    pub(crate) fn unread(&self) -> usize {
        // SAFETY: the socket is live.
        unsafe { h::tcp_unread(self.sk.as_ptr()) }.into_safe_cast()
    }

    pub(crate) fn local_addr(&self) -> Result<Storage> {
        let mut storage = Storage::zeroed();
        // SAFETY: the socket is live; `storage` has room for any address.
        let ret = unsafe { b::kernel_getsockname(self.sock.as_ptr(), storage.as_mut_ptr().cast()) };
        usize::try_from(ret).map_err(|_| Error::from_errno(ret))?;
        Ok(storage)
    }

    /// Returns the address of the peer, also if the connection has ended.
    pub(crate) fn peer_addr(&self) -> Result<Storage> {
        let mut storage = Storage::zeroed();
        // SAFETY: the socket is live; `storage` has room for any address.
        let ret = unsafe { h::sock_peer_name(self.sock.as_ptr(), storage.as_mut_ptr()) };
        usize::try_from(ret).map_err(|_| Error::from_errno(ret))?;
        Ok(storage)
    }

    /// Returns the state of the connection, which may be outdated at once. Any context.
    pub(crate) fn state(&self) -> TcpState {
        // SAFETY: the socket is live.
        TcpState::from_raw(unsafe { h::sk_state(self.sk.as_ptr()) })
    }

    /// Returns the error that ended the connection, if one did. Any context.
    pub(crate) fn error(&self) -> Option<Error> {
        // SAFETY: the socket is live.
        error_of(unsafe { h::sk_err(self.sk.as_ptr()) })
    }

    /// Returns the number of the socket's network namespace, which no other namespace has.
    pub(crate) fn namespace(&self) -> u64 {
        // SAFETY: the socket is live, and keeps its namespace.
        unsafe { h::sock_net_cookie(self.sk().as_ptr()) }
    }

    /// Returns how many octets of data fit a segment now. Any context.
    pub(crate) fn mss(&self) -> u32 {
        // SAFETY: the socket is live.
        unsafe { h::tcp_mss(self.sk.as_ptr()) }
    }

    /// Returns for how many octets there is space in the send queue. Any context.
    pub(crate) fn send_space(&self) -> usize {
        // SAFETY: the socket is live.
        usize::try_from(unsafe { h::sk_stream_wspace(self.sk.as_ptr()) }).unwrap_or(0)
    }

    /// Makes TLS tell the peer of the FIN, once. Returns false if there is no memory for that now.
    fn say_end(&self) -> bool {
        if !self.has_said_end.load(Relaxed) {
            // SAFETY: the socket is live.
            let has_said = unsafe { h::tls_close(self.sock.as_ptr()) };
            self.has_said_end.store(has_said, Relaxed);
        }
        self.has_said_end.load(Relaxed)
    }

    /// Sends a FIN behind what was sent before, if TCP has all of that. Receiving goes on. Returns
    /// whether the FIN was sent. If not, TLS has no memory, or gets none from TCP, for what has to
    /// come before the FIN: call this again some time later, or [`Self::shutdown_write`]. Calls
    /// must not overlap.
    #[must_use]
    pub(crate) fn try_shutdown_write(&self) -> bool {
        // SAFETY: the socket is live; this context does not have its lock.
        let is_through = || unsafe { h::tls_is_through(self.sk.as_ptr()) };
        let may_send = !self.is_secure() || self.say_end() && is_through();
        if may_send {
            self.send_fin();
        }
        may_send
    }

    /// Sends a FIN even if TLS still has something to send; the peer may then take the stream for
    /// one that was cut. Otherwise as [`Self::try_shutdown_write`].
    pub(crate) fn shutdown_write(&self) {
        if self.is_secure() {
            let _ = self.say_end();
        }
        self.send_fin();
    }

    fn send_fin(&self) {
        // SAFETY: the socket is live. An error means that the connection is gone already.
        let _ =
            unsafe { b::kernel_sock_shutdown(self.sock.as_ptr(), b::sock_shutdown_cmd_SHUT_WR) };
    }

    /// Returns whether the peer has acknowledged all that was sent, the FIN included. Any context.
    pub(crate) fn is_acknowledged(&self) -> bool {
        // SAFETY: the socket is live.
        unsafe { h::tcp_all_acked(self.sk.as_ptr()) }
    }

    /// Returns whether a FIN may be sent now: the peer has acknowledged all that was sent, or has
    /// ended its own direction, or a FIN was sent before. If not, the handler's `write_space` is
    /// called when the peer acknowledges more.
    pub(crate) fn may_finish(&self) -> bool {
        self.state() != TcpState::Established || {
            // SAFETY: the socket is live.
            unsafe { h::tcp_all_acked_or_tell(self.sk.as_ptr()) }
        }
    }

    /// Ends the connection with a RST; what was not sent yet is lost.
    pub(crate) fn abort(&self) {
        // SAFETY: the socket is live and not locked by this context. An error means that the
        // connection is gone already.
        let _ = unsafe { b::tcp_abort(self.sk.as_ptr(), ECONNABORTED.to_errno().wrapping_neg()) };
    }
}

impl Drop for TcpSocket {
    fn drop(&mut self) {
        if self.reclaims.load(Relaxed) {
            // SAFETY: the socket is owned until it is released below, and nobody locks it any more.
            unsafe { h::sock_set_reclaims(self.sk.as_ptr(), false) };
        }
        match self.ownership {
            // SAFETY: the socket is owned by the type invariants and nobody refers to it any more.
            Ownership::Own => unsafe { b::sock_release(self.sock.as_ptr()) },
            // SAFETY: as above; this is the reference of this side.
            Ownership::File => unsafe { h::sock_put_file(self.sock.as_ptr()) },
            Ownership::Gone => {}
        }
    }
}

/// Returns the length of a batch's list, as C wants it.
pub(super) fn count(bvecs: &[b::bio_vec]) -> c_uint {
    // CAST: the capacity of a batch is small.
    bvecs.len() as c_uint
}

/// Calls `send` to send the stretches of pages that are left of `batch`. `send` is given their
/// list, the number of octets in them, and flags for C. Advances the batch by what TCP took. The
/// pages are initialised, and nobody writes to these octets as long as TCP has references to them.
#[inline(always)]
pub(super) fn send_with(
    batch: &mut TxBatch,
    flags: SendFlags,
    send: impl FnOnce(&[b::bio_vec], usize, c_int) -> c_int,
) -> Result<usize> {
    if batch.is_empty() {
        return Ok(0);
    }
    let mut raw = 0;
    if flags.more {
        raw |= b::MSG_MORE;
    }
    if flags.eor {
        raw |= b::MSG_EOR;
    }
    let (bvecs, len) = batch.as_raw()?;
    // CAST: the flags are small.
    let sent = accepted(send(bvecs, len, raw as c_int))?;
    batch.advance(sent)?;
    Ok(sent)
}

/// Returns how many octets a non-blocking send took.
fn accepted(ret: c_int) -> Result<usize> {
    match usize::try_from(ret) {
        Ok(n) => Ok(n),
        Err(_) => match Error::from_errno(ret) {
            e if e == EAGAIN => Ok(0),
            e => Err(e),
        },
    }
}

/// The state of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpState {
    Connecting,
    Established,
    /// The peer sent its FIN, this side did not.
    CloseWait,
    /// This side sent its FIN (FIN-WAIT, CLOSING, LAST-ACK).
    Closing,
    /// Gone, or never set up.
    Closed,
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

/// Returns the error of a socket whose `sk_err` is `err`.
pub(super) fn error_of(err: c_int) -> Option<Error> {
    match err.checked_neg() {
        Some(errno) if errno < 0 => Some(Error::from_errno(errno)),
        _ => None,
    }
}

/// Where a stream is, in sequence numbers of TCP, read one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TcpNumbers {
    /// The number of the oldest octet that the peer has not acknowledged.
    pub(crate) snd_una: u32,
    /// The number of the next octet to be sent.
    pub(crate) snd_nxt: u32,
    /// The number behind the last octet that TCP was given.
    pub(crate) write_seq: u32,
    /// The number of the next octet to be read.
    pub(crate) copied_seq: u32,
    /// The number of the next octet that is awaited of the peer.
    pub(crate) rcv_nxt: u32,
}

impl TcpNumbers {
    /// Reads where the streams of two sockets are: of both what the peer has acknowledged, then of
    /// both what was received, then what was written. Each number is as old as those read before
    /// it, or newer.
    pub(crate) fn of_both(a: &TcpSocket, b: &TcpSocket) -> (Self, Self) {
        let read = || (a.numbers(), b.numbers());
        let acknowledged = read();
        // What the peer has acknowledged, the other socket has received before. So what was
        // received is read later.
        smp_mb(Read);
        let received = read();
        // What was received was written before, so what was written is read last.
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
        // SAFETY: the socket is live as long as `self`; the other pointers lead to local variables.
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

    /// Returns how many milliseconds ago the peer last acknowledged anything, if TCP waits for an
    /// acknowledgement. TCP also waits for one from a peer without room for more, which it asks
    /// again and again. Process context.
    pub(crate) fn unanswered_ms(&self) -> Option<u32> {
        let mut ms = 0;
        // SAFETY: the socket is live as long as `self`; the number is a local variable.
        let is_unanswered = unsafe { h::tcp_is_unanswered(self.sk().as_ptr(), &raw mut ms) };
        is_unanswered.then_some(ms)
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

/// What arrives for one socket, as Receive Flow Steering (RFS) knows it. May outlive the socket.
///
/// Where RFS is on, the network stack processes what arrives for a socket on the processor of
/// whoever reads from it. The stack learns from `recvmsg` which processor that is. If received data
/// is taken in softirq, nobody calls `recvmsg`: then [`Flow::record_here`] is called on that
/// processor. The stack takes this as a hint, and keeps the order of what arrives. Any context.
#[derive(Clone, Copy)]
pub(crate) struct Flow(NonZero<u32>);

impl Flow {
    /// Returns the flow of what arrives for `sock`; `None` if RFS is off, or nothing has arrived.
    #[inline(always)]
    pub(crate) fn of(sock: &TcpSocket) -> Option<Self> {
        // SAFETY: the socket is live as long as `sock`; the function reads one word of it.
        let hash = unsafe { h::sock_flow(sock.sk().as_ptr()) };
        Self::from_hash(hash)
    }

    /// Returns the flow of which this is the [`Flow::hash`]; `None` for 0.
    pub(crate) fn from_hash(hash: u32) -> Option<Self> {
        NonZero::new(hash).map(Self)
    }

    /// Returns the number by which RFS knows the flow. Others may have the same.
    pub(crate) fn hash(self) -> u32 {
        self.0.get()
    }

    /// Says that the flow is read on this processor. If the thread is moved to another one
    /// meanwhile, it may be either of the two.
    pub(crate) fn record_here(self) {
        // SAFETY: no requirements.
        unsafe { h::flow_record_here(self.0.get()) };
    }
}
