// SPDX-License-Identifier: GPL-2.0

//! What the calls of consumers have in common: what they may ask for, why they fail, and what they
//! ask to connect to.
//!
//! Context: process.
#![forbid(unsafe_code)]

use crate::device::Device;
use crate::ffi::mm::Payer;
use crate::ffi::net::netdev::NetDevice;
use crate::ffi::net::{
    Callbacks,
    StreamHandler,
    TcpSocket,
    Ways, //
};
use crate::ffi::rdma::attr::Qpn;
use crate::ffi::rdma::handle::QpHandle;
use crate::ffi::rdma::iwcm::{
    CallId,
    ConnParam, //
};
use crate::ffi::rsiw::params;
use crate::limits::MAX_READS;
use crate::log::Author;
use crate::proto::negotiate::Depths;
use crate::proto::setup::Config;
use crate::qp::{
    Qp,
    QpTable, //
};
use crate::wire::mpa;
use core::net::SocketAddr;
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::Arc;

const CAP: Depths = Depths {
    ird: MAX_READS,
    ord: MAX_READS,
};

pub(super) fn config(dev: &Device) -> Config {
    let has_tls = dev.tls().is_some();
    Config {
        rev: mpa::REV_2,
        // TLS detects every change itself.
        crc: params::mpa_crc() && !has_tls,
        // With TLS a large FPDU would lie in several records, and would have to be copied twice.
        large_fpdus: params::large_fpdus() && !has_tls,
        peer_to_peer: true,
        rtr: mpa::RtrSet::ALL,
        cap: CAP,
    }
}

/// Returns the depths that a consumer asks for, limited to the device's (T-29, T-30).
pub(super) fn depths(param: &ConnParam<'_>) -> Depths {
    let field = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    // With `wait_placed` at least one: a Read asks the other end what it has placed.
    let least = u16::from(params::wait_placed());
    Depths {
        ird: field(param.ird).max(least),
        ord: field(param.ord).max(least),
    }
    .capped(CAP)
}

/// Returns QP `num`, if the caller may connect it by `id`. The RDMA CM may have put the identifier
/// of a Request on another device, which has QPs of the same numbers.
pub(super) fn own_qp(
    dev: &Device,
    qps: &QpTable,
    num: Qpn,
    id: CallId<'_>,
) -> Result<Arc<Qp>, Refusal> {
    if !id.is_on(dev.handle()) {
        return Err(Refusal::new(EINVAL, "the identifier is another device's"));
    }
    let qp = qps.find(num);
    let qp = qp.ok_or(Refusal::new(EINVAL, "there is no such QP"))?;
    if !qp.shared.id.is_callers(id) {
        return Err(NOT_THE_CALLERS);
    }
    Ok(qp)
}

/// Returns the handle of QP `num` for iw_cm, which keeps the handle while it asks the port mapper.
/// The mapper may be silent for long, and meanwhile nobody may hold a QP of somebody else. Context:
/// a thread's call to connect or accept, with interrupts off.
pub(crate) fn handle_for_caller(dev: &Device, qps: &QpTable, num: Qpn) -> Option<Arc<QpHandle>> {
    let qp = qps.find(num)?;
    if qp.shared.id.is_of_others() {
        let caller = Author::Process;
        let _ = NOT_THE_CALLERS.log(dev, caller, fmt!("QP {num}: cannot connect"));
        return None;
    }
    Some(qp.shared.id.handle.clone())
}

const NOT_THE_CALLERS: Refusal = Refusal::new(EINVAL, "the QP is not the caller's");

/// Returns who calls by `id`. A listener does not show whether a consumer in the kernel made it, so
/// it counts as a process's.
pub(super) fn caller(id: CallId<'_>) -> Author {
    if id.has_qp() {
        Author::Kernel
    } else {
        Author::Process
    }
}

/// Why a consumer's call fails.
pub(super) struct Refusal {
    error: Error,
    /// What the error number does not tell; may be empty.
    cause: &'static str,
}

impl Refusal {
    pub(super) const fn new(error: Error, cause: &'static str) -> Self {
        Self { error, cause }
    }

    /// Logs the refusal, behind `what`: what the call of `author` was about. Returns the error.
    pub(super) fn log(self, dev: &Device, author: Author, what: fmt::Arguments<'_>) -> Error {
        let Self { error, cause } = self;
        let separator = if cause.is_empty() { "" } else { ": " };
        dev.log(author, fmt!("{what}: {error:?}{separator}{cause}"));
        error
    }
}

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::new(error.into(), "")
    }
}

/// Returns the local TCP port that the port mapper chose for a consumer, unless it is a privileged
/// one: any process may claim to be the mapper.
pub(super) fn mapped_port(dev: &Device, id: CallId<'_>, netdev: &NetDevice) -> Option<u16> {
    let port = id.mapped_port()?;
    if netdev.is_port_reserved(port) {
        dev.log(
            Author::Process,
            fmt!("port mapper: port {port} takes a privilege"),
        );
        return None;
    }
    Some(port)
}

/// The consumer is not in the network namespace of the device, where its addresses mean something
/// else.
pub(super) const NOT_IN_NAMESPACE: Refusal =
    Refusal::new(EADDRNOTAVAIL, "used from another network namespace");

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

/// Returns a copy of `data`.
fn owned(data: &[u8]) -> Result<KVec<u8>> {
    let mut to = KVec::with_capacity(data.len(), GFP_KERNEL_ACCOUNT)?;
    to.extend_from_slice(data, GFP_KERNEL_ACCOUNT)?;
    Ok(to)
}

/// Makes a socket at `at`, an address with port 0, and begins to connect it to itself. `payer` pays
/// for what TCP has for it.
pub(super) fn connect_to_itself(
    dev: &Device,
    netdev: &NetDevice,
    at: &SocketAddr,
    tos: u8,
    payer: &Payer,
) -> Result<Arc<TcpSocket>> {
    let sock = TcpSocket::new(netdev, at, dev.ways())?;
    sock.charge_to(payer);
    sock.set_tos(tos);
    sock.bind(at)?;
    let at = sock.local_addr()?.get().ok_or(EINVAL)?;
    sock.connect(&at)?;
    Ok(sock)
}

impl Dial {
    /// Takes the request from `id` and `param`. Returns `EAFNOSUPPORT` or `ENOMEM` on error.
    pub(super) fn new(
        dev: &Device,
        id: CallId<'_>,
        netdev: &NetDevice,
        param: &ConnParam<'_>,
    ) -> Result<KBox<Self>> {
        let private_data = owned(param.private_data)?;
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

    /// Makes the request of a queue pair that is connected by number. Both addresses are of one
    /// family; `hello` is what the queue pair says to its peer.
    pub(super) fn by_number(
        dev: &Device,
        (local, remote): (SocketAddr, SocketAddr),
        tos: u8,
        hello: &[u8],
    ) -> Result<KBox<Self>> {
        let private_data = owned(hello)?;
        let dial = Dial {
            local,
            mapped_port: None,
            remote,
            ways: dev.ways(),
            tos: Some(tos),
            private_data,
        };
        Ok(KBox::new(dial, GFP_KERNEL_ACCOUNT)?)
    }

    /// Starts to connect TCP, which reports to `handler`. With `is_secure` the socket is made for
    /// TLS. `payer` pays for what TCP has for it, also where a work item calls this.
    ///
    /// The RDMA CM gives out ports of its own, apart from those of TCP. So the consumer's port may
    /// be in use by TCP. Then another port is taken, unless the consumer wanted a privileged one.
    pub(super) fn connect<H: StreamHandler>(
        &self,
        over: &NetDevice,
        handler: &Arc<H>,
        is_secure: bool,
        payer: &Payer,
    ) -> Result<(Arc<TcpSocket>, Callbacks<H>)> {
        let port = self.mapped_port.unwrap_or(self.local.port());
        match self.connect_from(port, over, handler, is_secure, payer) {
            Err(e) if (e == EADDRINUSE || e == EADDRNOTAVAIL) && port >= FIRST_USER_PORT => {
                self.connect_from(0, over, handler, is_secure, payer)
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
        payer: &Payer,
    ) -> Result<(Arc<TcpSocket>, Callbacks<H>)> {
        let sock = TcpSocket::new(over, &self.local, self.ways)?;
        sock.charge_to(payer);
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
