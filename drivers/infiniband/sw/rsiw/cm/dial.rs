// SPDX-License-Identifier: GPL-2.0

//! What a consumer asked to connect to, and connecting TCP there.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::calls::mapped_port;
use crate::{
    device::Device,
    ffi::{
        net::{
            netdev::NetDevice,
            Callbacks,
            StreamHandler,
            TcpSocket,
            Ways, //
        },
        rdma::iwcm::{
            CallId,
            ConnParam, //
        },
    },
};
use core::net::SocketAddr;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// First port that is not reserved for privileged users.
const FIRST_USER_PORT: u16 = 1024;

pub(super) struct Dial {
    local: SocketAddr,
    /// The local TCP port that the port mapper chose.
    mapped_port: Option<u16>,
    remote: SocketAddr,
    ways: Ways,
    tos: Option<u8>,
    pub(super) private_data: KVec<u8>,
}

impl Dial {
    /// Takes the request from `id` and `param`. Returns `EAFNOSUPPORT` or `ENOMEM` on error.
    pub(super) fn new(
        dev: &Device,
        id: CallId<'_>,
        netdev: &NetDevice,
        param: &ConnParam<'_>,
    ) -> Result<KBox<Self>> {
        let mut private_data = KVec::with_capacity(param.private_data.len(), GFP_KERNEL_ACCOUNT)?;
        private_data.extend_from_slice(param.private_data, GFP_KERNEL_ACCOUNT)?;
        let mut remote = id.remote_addr().ok_or(EAFNOSUPPORT)?;
        if let Some(port) = id.mapped_remote_port() {
            remote.set_port(port);
        }
        let dial = Dial {
            local: id.local_addr().ok_or(EAFNOSUPPORT)?,
            mapped_port: mapped_port(dev, id, netdev),
            remote,
            ways: dev.ways(),
            tos: id.tos(),
            private_data,
        };
        if dial.local.is_ipv4() != dial.remote.is_ipv4() {
            return Err(EAFNOSUPPORT);
        }
        Ok(KBox::new(dial, GFP_KERNEL_ACCOUNT)?)
    }

    /// Starts to connect TCP, which reports to `handler`. With `is_secure` the socket is made for
    /// TLS.
    ///
    /// Ports of RDMA consumers have a number space of their own, so TCP may be using one that is
    /// free there. Then another is taken, unless the consumer wanted a privileged one.
    pub(super) fn connect<H: StreamHandler>(
        &self,
        over: &NetDevice,
        handler: &Arc<H>,
        is_secure: bool,
    ) -> Result<(Arc<TcpSocket>, Callbacks<H>)> {
        let port = self.mapped_port.unwrap_or(self.local.port());
        match self.connect_from(port, over, handler, is_secure) {
            Err(e) if (e == EADDRINUSE || e == EADDRNOTAVAIL) && port >= FIRST_USER_PORT => {
                self.connect_from(0, over, handler, is_secure)
            }
            other => other,
        }
    }

    /// Connects from local port `port`; zero is any.
    fn connect_from<H: StreamHandler>(
        &self,
        port: u16,
        over: &NetDevice,
        handler: &Arc<H>,
        is_secure: bool,
    ) -> Result<(Arc<TcpSocket>, Callbacks<H>)> {
        let sock = TcpSocket::new(over, &self.local, self.ways)?;
        let sock = if is_secure {
            sock.with_file(&self.remote)?
        } else {
            sock
        };
        if let Some(tos) = self.tos {
            sock.set_tos(tos);
        }
        let mut local = self.local;
        local.set_port(port);
        if self.mapped_port == Some(port) {
            sock.bind_beside(&local)?;
        } else {
            sock.bind(&local)?;
        }
        let callbacks = Callbacks::install(sock.claim()?, handler.clone())?;
        match sock.connect(&self.remote) {
            // The peer has refused already; the consumer learns of it in the usual way.
            Err(e) if e == ECONNREFUSED || e == ECONNRESET => {}
            other => other?,
        }
        Ok((sock, callbacks))
    }
}
