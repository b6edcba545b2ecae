// SPDX-License-Identifier: GPL-2.0

//! TCP sockets that listen. Process context; no call waits for a peer.

use super::{
    callbacks::{
        with_handler,
        Guard, //
    },
    hooks::Hooks,
    socket::TcpSocket,
    state::TcpState, //
};
use crate::ffi::{
    mm::payer::Payer,
    raw::{
        b,
        h, //
    },
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// The receiver of a listener's events. Methods must not sleep.
pub(crate) trait ListenHandler: Send + Sync + 'static {
    /// Called when a connection may be waiting to be accepted.
    fn incoming(this: ArcBorrow<'_, Self>);
}

/// A TCP socket that listens, and tells a handler of connections. Dropping it closes it.
///
/// It has this handler only: TCP may call a listener's callback that it fetched before a handler
/// went away. Make and drop it in process context, outside the callbacks.
///
/// # Invariants
///
/// Nobody else has a reference to the socket.
pub(crate) struct ListenSocket<H: ListenHandler>(Guard<H>);

impl<H: ListenHandler> ListenSocket<H> {
    /// Has `sock`, which is bound, listen. Fails with `EBUSY` if somebody else has a reference to
    /// it, or with `EADDRINUSE` if another socket listens there.
    pub(crate) fn listen(sock: Arc<TcpSocket>, handler: Arc<H>, backlog: u32) -> Result<Self> {
        let this = Self::listen_below(sock, handler, backlog)?;
        // TCP does not look where the bind was forced, and somebody else may have begun since.
        if this.0.sock().is_contended() {
            return Err(EADDRINUSE);
        }
        Ok(this)
    }

    /// As [`ListenSocket::listen`], after [`TcpSocket::bind_below`].
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

    /// Takes a connection from the queue, `None` if there is none. `payer` pays for its buffers. In
    /// a thread of the kernel.
    pub(crate) fn accept(&self, payer: &Payer) -> Result<Option<Arc<TcpSocket>>> {
        let mut sock = core::ptr::null_mut();
        let listener = self.0.sock().sock().as_ptr();
        // SAFETY: the socket listens and is live, as is the payer's group; `sock` is a place for the
        // result.
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
