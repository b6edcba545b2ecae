// SPDX-License-Identifier: GPL-2.0

//! TCP sockets that listen. Process context; no call waits for a peer.

use super::{
    callbacks::{
        with_handler,
        Guard, //
    },
    hooks::Hooks,
    netdev::NetDevice,
    socket::TcpSocket,
    state::TcpState, //
};
use crate::ffi::raw::{
    b,
    h, //
};
use core::{
    marker::PhantomData,
    net::SocketAddr, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

/// Receiver of the events of a listener. Methods must not sleep.
pub(crate) trait ListenHandler: Send + Sync + 'static {
    /// A connection may be waiting to be accepted.
    fn incoming(this: ArcBorrow<'_, Self>);
}

/// A TCP socket that listens, or is to listen, for a handler of type `H`.
///
/// It is for handlers of that type only, as what TCP calls for a listener may be a callback that it
/// fetched before the last handler went away.
///
/// # Invariants
///
/// Nobody else has a reference to `sock` but who has the callbacks for `H`.
pub(crate) struct ListenSocket<H: ListenHandler> {
    sock: Arc<TcpSocket>,
    _handler: PhantomData<fn(H)>,
}

impl<H: ListenHandler> ListenSocket<H> {
    /// As [`TcpSocket::new`].
    pub(crate) fn new(ndev: &NetDevice, addr: &SocketAddr) -> Result<Self> {
        // INVARIANT: it was just made.
        Ok(Self {
            sock: TcpSocket::new(ndev, addr)?,
            _handler: PhantomData,
        })
    }

    /// As [`TcpSocket::bind`].
    pub(crate) fn bind(&self, addr: &SocketAddr) -> Result {
        self.sock.bind(addr)
    }

    /// As [`TcpSocket::bind_beside`].
    pub(crate) fn bind_beside(&self, addr: &SocketAddr) -> Result {
        self.sock.bind_beside(addr)
    }

    /// As [`TcpSocket::set_v6only`].
    pub(crate) fn set_v6only(&self) -> Result {
        self.sock.set_v6only()
    }

    /// As [`TcpSocket::set_tos`].
    pub(crate) fn set_tos(&self, tos: u8) {
        self.sock.set_tos(tos);
    }

    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if somebody else listens there; the socket is of no use then.
    pub(crate) fn listen(&self, backlog: u32) -> Result {
        let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
        // SAFETY: the socket is live.
        to_result(unsafe { b::kernel_listen(self.sock.sock().as_ptr(), backlog) })?;
        // TCP does not look where the bind was forced, and somebody else may have begun since.
        if self.sock.is_contended() {
            return Err(EADDRINUSE);
        }
        Ok(())
    }

    /// Takes a connection from the queue, `None` if there is none.
    pub(crate) fn accept(&self) -> Result<Option<Arc<TcpSocket>>> {
        let mut sock = core::ptr::null_mut();
        // SAFETY: the socket is live; `sock` is a place for the result.
        let ret = unsafe {
            // CAST: a small flag.
            b::kernel_accept(self.sock.sock().as_ptr(), &mut sock, b::O_NONBLOCK as c_int)
        };
        match to_result(ret) {
            Ok(()) => {}
            Err(e) if e == EAGAIN => return Ok(None),
            Err(e) => return Err(e),
        }
        // The new socket inherited the listener's callbacks, though not the handler.
        //
        // SAFETY: the call above returned a new socket that nobody else knows.
        let child = unsafe { TcpSocket::from_raw(sock, Some(*self.sock.originals())) }?;
        Ok(Some(Arc::new(child, GFP_KERNEL)?))
    }
}

/// Callbacks of a listener.
pub(crate) struct ListenCallbacks<H: ListenHandler>(#[expect(dead_code)] Guard<H>);

impl<H: ListenHandler> ListenCallbacks<H> {
    /// Directs the events of the listener `sock` to `handler`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the socket has a handler already.
    pub(crate) fn install(sock: &ListenSocket<H>, handler: Arc<H>) -> Result<Self> {
        let sock = sock.sock.clone();
        let hooks = Hooks {
            data_ready: Some(Self::data_ready),
            ..*sock.originals()
        };
        Ok(Self(Guard::install_all(sock, handler, &hooks)?))
    }

    /// # Safety
    ///
    /// To be called as `sk_data_ready`, of the listener or of a socket it gave birth to.
    unsafe extern "C" fn data_ready(sk: *mut b::sock) {
        // A child may have got user data from others, such as a BPF program.
        //
        // SAFETY: `sk` is live during its callbacks.
        if TcpState::from_raw(unsafe { h::sk_state(sk) }) != TcpState::Listen {
            return;
        }
        // SAFETY: this function is installed for `H` only, and what listens is the
        // `ListenSocket<H>`.
        unsafe { with_handler::<H>(sk, H::incoming) };
    }
}
