// SPDX-License-Identifier: GPL-2.0

//! Callbacks of sockets, as calls of a handler's methods.
//!
//! The *hooks* of a socket are what TCP calls when something happens to it (`sk_data_ready` and
//! others). The hooks that a socket had before are kept, and put back when those of a handler go.
//!
//! A socket points to its handler while a guard exists. Callbacks read the pointer, and use the
//! handler, with the socket's `sk_callback_lock` taken for reading. A guard's `drop` takes it for
//! writing, and so waits for those in progress.
//!
//! Handlers of different types follow one another on a connection's socket. TCP fetches and calls a
//! callback with the socket's lock held, so callbacks are exchanged under that lock as well: no
//! callback is called that is for another type than that of the handler it finds. For a listener
//! TCP does this without the lock. So a [`ListenSocket`] has one handler only, and no other socket
//! listens.
//!
//! Context: process, and no call waits for a peer. Callbacks run with bottom halves off: in
//! softirq, or in process context from the backlog.

use super::lock::LockedSock;
use super::socket::{
    Claim,
    TcpSocket,
    TcpState, //
};
use crate::ffi::mm::Payer;
use crate::ffi::raw::{
    b,
    h, //
};
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    ArcBorrow, //
};

/// What happened to a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamEvent {
    Connected,
    /// The peer's FIN arrived; octets in front of it may still be unread. `data_ready` follows.
    PeerFin,
    /// The connection is gone; the socket's error tells why.
    Closed,
}

/// The receiver of a connection's events. Methods must not sleep.
pub(crate) trait StreamHandler: Send + Sync + 'static {
    /// Called when data, or the peer's FIN, has arrived.
    fn data_ready(this: ArcBorrow<'_, Self>, sk: &mut LockedSock<'_>);

    /// Called instead of [`StreamHandler::data_ready`] if the socket has TLS, which decrypts in
    /// process context only: see [`LockedSock::read`]. Also called while that is under way.
    fn records_ready(this: ArcBorrow<'_, Self>);

    /// Called when there is space again after a send that did not take everything, or the peer has
    /// acknowledged something that [`TcpSocket::may_finish`] has waited for.
    fn write_space(this: ArcBorrow<'_, Self>);

    /// Called when the state has changed. The same event may come more than once.
    fn state_change(this: ArcBorrow<'_, Self>, event: StreamEvent);
}

/// Callbacks installed on a socket for a handler; dropping this removes them. Make and drop it in
/// process context, outside the socket's lock and callbacks.
///
/// # Invariants
///
/// `sk_user_data` of the socket is a pointer from `Arc::into_raw` of an `Arc<H>`, owned by this
/// value, and the socket's callbacks are those for `H`.
pub(super) struct Guard<H: 'static> {
    /// Dropped after the hooks were put back.
    claim: Claim,
    /// The hooks that the socket had before.
    originals: Hooks,
    handler: NonNull<H>,
    _handler: PhantomData<Arc<H>>,
}

// SAFETY: the guard owns an `Arc<H>` and a `Claim`.
unsafe impl<H: Send + Sync> Send for Guard<H> {}
// SAFETY: nothing of the handler is accessible through a shared guard.
unsafe impl<H: Send + Sync> Sync for Guard<H> {}

impl<H: Send + Sync + 'static> Guard<H> {
    pub(super) fn install_all(claim: Claim, handler: Arc<H>, hooks: &Hooks) -> Result<Self> {
        // The kernel keeps flags in the low bits of `sk_user_data`.
        const { assert!(align_of::<H>() >= 8) };
        let sk = claim.sock().sk();
        let raw = Arc::into_raw(handler).cast_mut();
        // SAFETY: the socket is live; guards are made in process context, without these locks.
        unsafe { lock(sk) };
        // SAFETY: the locks are held.
        let free = unsafe { h::sk_user_data(sk.as_ptr()) }.is_null();
        // SAFETY: the locks are held.
        let mut originals = unsafe { Hooks::of(sk) };
        if free {
            // SAFETY: the locks are held; the pointer stays good until `drop` takes it back.
            unsafe { h::sk_set_user_data(sk.as_ptr(), raw.cast()) };
            // SAFETY: the locks are held; the functions expect the handler that was just stored.
            originals.record_found = unsafe { hooks.store(sk) };
        }
        // SAFETY: the locks are held.
        unsafe { unlock(sk) };
        match NonNull::new(raw) {
            // INVARIANT: pointer and callbacks were stored above.
            Some(handler) if free => Ok(Self {
                claim,
                originals,
                handler,
                _handler: PhantomData,
            }),
            _ => {
                // SAFETY: `raw` comes from `into_raw` above and was not stored.
                drop(unsafe { Arc::from_raw(raw.cast_const()) });
                Err(EBUSY)
            }
        }
    }
}

impl<H> Guard<H> {
    pub(super) fn sock(&self) -> &TcpSocket {
        self.claim.sock()
    }

    pub(super) fn originals(&self) -> &Hooks {
        &self.originals
    }
}

impl<H: 'static> Drop for Guard<H> {
    fn drop(&mut self) {
        let sk = self.claim.sock().sk();
        // SAFETY: the socket is live; guards are dropped in process context, without its locks.
        unsafe { lock(sk) };
        // SAFETY: the locks are held.
        unsafe { self.originals.store(sk) };
        // SAFETY: the locks are held; the pointer is this guard's.
        unsafe { h::sk_set_user_data(sk.as_ptr(), core::ptr::null_mut()) };
        // SAFETY: the locks are held.
        unsafe { unlock(sk) };
        // SAFETY: from `into_raw` and owned by this value, by the invariants; no callback uses it.
        drop(unsafe { Arc::from_raw(self.handler.as_ptr().cast_const()) });
    }
}

/// Calls `f` with the handler of `sk`, if it has one.
///
/// # Safety
///
/// Called from a callback of `sk` that is installed for handlers of type `H` only: by TCP with the
/// socket's lock held, or on a listener, which has handlers of that type only.
pub(super) unsafe fn with_handler<H: 'static>(sk: *mut b::sock, f: impl FnOnce(ArcBorrow<'_, H>)) {
    // SAFETY: `sk` is live during its callbacks.
    unsafe { h::sk_callback_read_lock(sk) };
    // SAFETY: the lock is held.
    let handler = unsafe { h::sk_user_data(sk) }.cast::<H>();
    if let Some(handler) = NonNull::new(handler) {
        // SAFETY: from `into_raw` of an `Arc<H>` that the guard keeps until it has the write lock.
        f(unsafe { ArcBorrow::from_raw(handler.as_ptr()) });
    }
    // SAFETY: the lock is held.
    unsafe { h::sk_callback_read_unlock(sk) };
}

/// Directs the events of a connection to a handler until it is dropped, which waits for callbacks
/// in progress. Drop it in process context, outside the socket's lock and callbacks.
pub(crate) struct Callbacks<H: StreamHandler>(
    #[allow(dead_code, reason = "it is there to be dropped")] Installed<H>,
);

#[allow(dead_code, reason = "these are there to be dropped")]
enum Installed<H: StreamHandler> {
    OnTcp(Guard<H>),
    OnTls(Guard<OnTls<H>>),
}

impl<H: StreamHandler> Callbacks<H> {
    const TRAMPOLINES: Hooks = Hooks {
        state_change: Some(Self::state_change),
        data_ready: Some(Self::data_ready),
        write_space: Some(Self::write_space),
        error_report: Some(Self::state_change),
        record_found: None,
    };

    /// Directs the events of a socket to `handler`, or fails with `EBUSY` if others have claimed
    /// the socket's user data.
    ///
    /// Earlier events are not reported: look at the state and drain the socket once, with
    /// [`TcpSocket::with_lock`].
    pub(crate) fn install(claim: Claim, handler: Arc<H>) -> Result<Self> {
        Ok(Self(if claim.sock().is_secure() {
            let handler = OnTls::new(claim.sock().clone(), handler)?;
            let hooks = &OnTls::<H>::TRAMPOLINES;
            Installed::OnTls(Guard::install_all(claim, handler, hooks)?)
        } else {
            Installed::OnTcp(Guard::install_all(claim, handler, &Self::TRAMPOLINES)?)
        }))
    }

    /// # Safety
    ///
    /// To be called as `sk_data_ready`, with the socket's lock held.
    unsafe extern "C" fn data_ready(sk: *mut b::sock) {
        let Some(locked) = NonNull::new(sk) else {
            return;
        };
        // SAFETY: TCP calls this with the lock of the connected socket held, and not while a
        // `LockedSock` is used: while a process has one, TCP puts data into the backlog.
        let mut locked = unsafe { LockedSock::new(locked, None) };
        // SAFETY: this function is installed for `H` only.
        unsafe { with_handler::<H>(sk, |handler| H::data_ready(handler, &mut locked)) };
    }

    /// # Safety
    ///
    /// To be called as `sk_write_space`.
    unsafe extern "C" fn write_space(sk: *mut b::sock) {
        // SAFETY: `sk` is live during its callbacks.
        if unsafe { h::sk_space_again(sk) } {
            // SAFETY: this function is installed for `H` only.
            unsafe { with_handler::<H>(sk, H::write_space) };
        }
    }

    /// # Safety
    ///
    /// To be called as `sk_state_change` or `sk_error_report`.
    unsafe extern "C" fn state_change(sk: *mut b::sock) {
        // SAFETY: `sk` is live during its callbacks.
        let state = TcpState::from_raw(unsafe { h::sk_state(sk) });
        let event = match state {
            TcpState::Established => StreamEvent::Connected,
            TcpState::Closed => StreamEvent::Closed,
            TcpState::CloseWait => StreamEvent::PeerFin,
            // SAFETY: as above.
            TcpState::Closing if unsafe { h::tcp_has_fin(sk) } => StreamEvent::PeerFin,
            _ => return,
        };
        // SAFETY: this function is installed for `H` only.
        unsafe { with_handler::<H>(sk, |handler| H::state_change(handler, event)) };
    }
}

/// A handler of a socket that has TLS. When there is space again, it first calls the hook of TLS:
/// TLS sends in the background what TCP had no space for.
struct OnTls<H> {
    handler: Arc<H>,
    sock: Arc<TcpSocket>,
    /// The hooks of TLS.
    below: Hooks,
}

impl<H: StreamHandler> OnTls<H> {
    const TRAMPOLINES: Hooks = Hooks {
        data_ready: Some(Self::data_ready),
        write_space: Some(Self::write_space),
        record_found: Some(Self::record_found),
        ..Callbacks::<Self>::TRAMPOLINES
    };

    fn new(sock: Arc<TcpSocket>, handler: Arc<H>) -> Result<Arc<Self>> {
        // SAFETY: the socket is live; its hooks are exchanged by who has the claim only, which is
        // the caller.
        let below = unsafe { Hooks::of(sock.sk()) };
        let this = Self {
            handler,
            sock,
            below,
        };
        Ok(Arc::new(this, GFP_KERNEL_ACCOUNT)?)
    }

    /// # Safety
    ///
    /// To be called as `sk_data_ready`, with the socket's lock held.
    unsafe extern "C" fn data_ready(sk: *mut b::sock) {
        let heed = |this: ArcBorrow<'_, Self>| {
            if let Some(turn) = this.sock.turn() {
                // SAFETY: the lock is held.
                unsafe { turn.arrived() };
            }
            Self::records_ready(this);
        };
        // SAFETY: this function is installed for `Self` only.
        unsafe { with_handler::<Self>(sk, heed) };
    }

    /// TLS looks for a record by itself if it had no memory for it when it was asked to read. It
    /// also calls this as a read ends in front of one; nothing has arrived.
    ///
    /// # Safety
    ///
    /// To be called by TLS, with the socket's lock held.
    unsafe extern "C" fn record_found(sk: *mut b::sock) {
        // SAFETY: this function is installed for `Self` only.
        unsafe { with_handler::<Self>(sk, Self::records_ready) };
    }

    /// # Safety
    ///
    /// To be called as `sk_write_space`.
    unsafe extern "C" fn write_space(sk: *mut b::sock) {
        let call_below = |this: ArcBorrow<'_, Self>| {
            if let Some(below) = this.below.write_space {
                // SAFETY: the hook of this socket, called as it would be without the handler.
                unsafe { below(sk) };
            }
        };
        // SAFETY: this function is installed for `Self` only.
        unsafe { with_handler::<Self>(sk, call_below) };
        // SAFETY: in the same way as this function is called.
        unsafe { Callbacks::<Self>::write_space(sk) };
    }
}

impl<H: StreamHandler> StreamHandler for OnTls<H> {
    fn data_ready(this: ArcBorrow<'_, Self>, _sk: &mut LockedSock<'_>) {
        Self::records_ready(this);
    }

    fn records_ready(this: ArcBorrow<'_, Self>) {
        H::records_ready(this.handler.as_arc_borrow());
    }

    fn write_space(this: ArcBorrow<'_, Self>) {
        H::write_space(this.handler.as_arc_borrow());
    }

    fn state_change(this: ArcBorrow<'_, Self>, event: StreamEvent) {
        H::state_change(this.handler.as_arc_borrow(), event);
    }
}

type Hook = Option<unsafe extern "C" fn(*mut b::sock)>;

#[derive(Clone, Copy)]
pub(super) struct Hooks {
    pub(super) state_change: Hook,
    pub(super) data_ready: Hook,
    pub(super) write_space: Hook,
    pub(super) error_report: Hook,
    /// What TLS calls; `None` without TLS, or if that is left alone.
    pub(super) record_found: Hook,
}

impl Hooks {
    /// Returns the hooks that a socket has now, without that of TLS.
    ///
    /// # Safety
    ///
    /// `sk` is a live socket whose hooks nobody changes.
    pub(super) unsafe fn of(sk: NonNull<b::sock>) -> Self {
        let sk = sk.as_ptr();
        Self {
            // SAFETY: the caller vouches for `sk`.
            state_change: unsafe { (*sk).sk_state_change },
            // SAFETY: as above.
            data_ready: unsafe { (*sk).sk_data_ready },
            // SAFETY: as above.
            write_space: unsafe { (*sk).sk_write_space },
            // SAFETY: as above.
            error_report: unsafe { (*sk).sk_error_report },
            record_found: None,
        }
    }

    /// Makes a socket call these hooks. If one of them is TLS's, returns what TLS called before.
    ///
    /// # Safety
    ///
    /// `sk` is a live socket for which the functions are made, and its locks are held by [`lock`].
    pub(super) unsafe fn store(&self, sk: NonNull<b::sock>) -> Hook {
        let sk = sk.as_ptr();
        // SAFETY: the caller vouches for `sk` and holds the lock that guards the fields.
        unsafe { (*sk).sk_state_change = self.state_change };
        // SAFETY: as above.
        unsafe { (*sk).sk_data_ready = self.data_ready };
        // SAFETY: as above.
        unsafe { (*sk).sk_write_space = self.write_space };
        // SAFETY: as above.
        unsafe { (*sk).sk_error_report = self.error_report };
        let mut found = self.record_found;
        if found.is_some() {
            // SAFETY: as above. With such a hook, it is a TCP socket that is to have TLS.
            unsafe { h::tls_exchange_found(sk, &mut found) };
        }
        found
    }

    /// Makes a socket call these hooks again, which it had before.
    ///
    /// # Safety
    ///
    /// `sk` is a live socket for which the functions are made; this is process context, with
    /// neither of its locks held.
    pub(super) unsafe fn restore(&self, sk: NonNull<b::sock>) {
        // SAFETY: by the caller's promise.
        unsafe { lock(sk) };
        // SAFETY: the locks were just taken.
        unsafe { self.store(sk) };
        // SAFETY: as above.
        unsafe { unlock(sk) };
    }
}

/// Takes the locks under which hooks and handler of a socket are exchanged.
///
/// # Safety
///
/// `sk` is a live socket; this is process context, with neither of its locks held.
pub(super) unsafe fn lock(sk: NonNull<b::sock>) {
    // SAFETY: by the caller's promise.
    unsafe { h::lock_sock(sk.as_ptr()) };
    // SAFETY: as above.
    unsafe { h::sk_callback_write_lock(sk.as_ptr()) };
}

/// Drops the locks; what arrived meanwhile is taken in, and hooks are called in this context.
///
/// # Safety
///
/// The locks are held by [`lock`].
pub(super) unsafe fn unlock(sk: NonNull<b::sock>) {
    // SAFETY: by the caller's promise.
    unsafe { h::sk_callback_write_unlock(sk.as_ptr()) };
    // SAFETY: as above.
    unsafe { b::release_sock(sk.as_ptr()) };
}

/// The receiver of a listener's events. Methods must not sleep.
pub(crate) trait ListenHandler: Send + Sync + 'static {
    /// Called when a connection may be waiting to be accepted.
    fn incoming(this: ArcBorrow<'_, Self>);
}

/// A TCP socket that listens, and tells a handler of connections. Dropping it closes it.
///
/// A listener keeps its handler for as long as it exists. If it could get another one, TCP might
/// call a callback that it has fetched before, which belongs to the old handler. Make and drop this
/// in process context, outside the callbacks.
///
/// # Invariants
///
/// Nobody else has a reference to the socket.
pub(crate) struct ListenSocket<H: ListenHandler>(Guard<H>);

impl<H: ListenHandler> ListenSocket<H> {
    /// Makes `sock`, which is bound, listen. Fails with `EBUSY` if somebody else has a reference to
    /// it, or with `EADDRINUSE` if another socket listens there.
    pub(crate) fn listen(sock: Arc<TcpSocket>, handler: Arc<H>, backlog: u32) -> Result<Self> {
        let this = Self::listen_below(sock, handler, backlog)?;
        // TCP does not look for other listeners if the bind was forced, and one may have begun
        // since.
        if this.0.sock().is_contended() {
            return Err(EADDRINUSE);
        }
        Ok(this)
    }

    /// Makes a socket listen that was bound by [`TcpSocket::bind_below`]. Otherwise as
    /// [`ListenSocket::listen`].
    pub(crate) fn listen_below(
        sock: Arc<TcpSocket>,
        handler: Arc<H>,
        backlog: u32,
    ) -> Result<Self> {
        let sock: Arc<TcpSocket> = Arc::from(Arc::into_unique_or_drop(sock).ok_or(EBUSY)?);
        // SAFETY: the socket is live and nobody else uses it.
        let originals = unsafe { Hooks::of(sock.sk()) };
        let hooks = Hooks {
            data_ready: Some(Self::data_ready),
            ..originals
        };
        // INVARIANT: it was the only reference.
        let this = Self(Guard::install_all(sock.claim()?, handler, &hooks)?);
        let sock = this.0.sock();
        let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
        // SAFETY: the socket is live.
        to_result(unsafe { b::kernel_listen(sock.sock().as_ptr(), backlog) })?;
        Ok(this)
    }

    /// Takes a connection from the queue, `None` if there is none. `payer` pays for its buffers.
    /// Context: a thread of the kernel.
    pub(crate) fn accept(&self, payer: &Payer) -> Result<Option<Arc<TcpSocket>>> {
        let mut sock = core::ptr::null_mut();
        let listener = self.0.sock().sock().as_ptr();
        // SAFETY: the socket listens and is live, as is the payer's group; `sock` is a place for
        // the result.
        let ret = unsafe { h::accept_for(listener, payer.as_ptr(), &mut sock) };
        match to_result(ret) {
            Ok(()) => {}
            Err(e) if e == EAGAIN => return Ok(None),
            Err(e) => return Err(e),
        }
        // SAFETY: the call above returned a new socket that nobody else knows.
        let child = unsafe { TcpSocket::from_raw(sock) }?;
        // It has inherited the listener's callbacks, though not the handler.
        //
        // SAFETY: the socket is live, and this is process context, without its locks.
        unsafe { self.0.originals().restore(child.sk()) };
        Ok(Some(Arc::new(child, GFP_KERNEL_ACCOUNT)?))
    }

    /// # Safety
    ///
    /// To be called as `sk_data_ready`, of the listener or of a socket made from it.
    unsafe extern "C" fn data_ready(sk: *mut b::sock) {
        // A child of the listener is left alone: its user data may be that of others, such as a BPF
        // program.
        //
        // SAFETY: `sk` is live during its callbacks.
        if TcpState::from_raw(unsafe { h::sk_state(sk) }) != TcpState::Listen {
            return;
        }
        // SAFETY: this function is installed for `H` only, and what listens is the
        // `ListenSocket<H>`, which has no other handler.
        unsafe { with_handler::<H>(sk, H::incoming) };
    }
}
