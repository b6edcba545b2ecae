// SPDX-License-Identifier: GPL-2.0

//! TCP sockets that listen. Process context; no call waits for a peer.

use super::{
    super::raw::b,
    callbacks::ListenHandler,
    NetDevice,
    TcpSocket, //
};
use core::{
    marker::PhantomData,
    net::SocketAddr, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

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

    /// The socket, for those who keep its callbacks from others.
    pub(super) fn sock(&self) -> &Arc<TcpSocket> {
        &self.sock
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
