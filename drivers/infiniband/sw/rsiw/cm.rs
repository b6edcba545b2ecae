// SPDX-License-Identifier: GPL-2.0

//! Connections: set-up by MPA (RFC 5044 section 7, RFC 6581), teardown, and the contract with
//! iw_cm. What follows from what is `proto::connection`'s to say; here it is carried out.
//!
//! Each connection has an endpoint: its state under a mutex, one timer, and one work item that
//! does everything that takes time. Nothing waits for a peer (T-42). Socket callbacks, the timer
//! and the QP leave a note and queue the work, which feeds the connection with what it finds. All
//! events go to iw_cm from the work, one after the other and with no lock held, in the order in
//! which the connection names them.
//!
//! The work of connections runs side by side. Only the first step of each has an order, that of
//! Requests (`turns`). Nothing that acts for more than one connection waits for a process.
//!
//! iw_cm knows endpoints and listeners by number: one that is gone is simply not found.
//!
//! Locks: endpoint mutex > what the QP takes > socket lock. The QP never waits for an endpoint.
//!
//! Context: process context, if nothing else is said.
#![forbid(unsafe_code)]

mod acceptor;
mod active;
mod endpoint;
mod events;
mod listen;
mod outputs;
mod passive;
mod registry;
mod turns;

pub(crate) use self::{
    acceptor::Acceptors,
    endpoint::Endpoint, //
};

use self::{
    listen::Listener,
    registry::Registry,
    turns::Turns, //
};

use crate::{
    device::Device,
    ffi::{
        log::pr_ratelimited,
        net::netdev::NetDevice,
        rdma::{
            attr::Qpn,
            details::Details,
            iwcm::{
                CallId,
                CmId,
                ConnParam,
                ConsumerId, //
            },
        },
        rsiw::params,
    },
    limits::MAX_READS,
    proto::{
        conn::Config,
        counters::Counter,
        negotiate::Depths, //
    },
    qp::{
        Qp,
        QpTable, //
    },
    wire::mpa,
};
use kernel::{
    fmt,
    prelude::*,
    sync::Arc, //
};

/// What the device can do.
const CAP: Depths = Depths {
    ird: MAX_READS,
    ord: MAX_READS,
};

/// How connections are set up.
fn config() -> Config {
    Config {
        rev: mpa::REV_2,
        crc: params::mpa_crc(),
        large_fpdus: params::large_fpdus(),
        peer_to_peer: true,
        rtr: mpa::RtrSet::ALL,
        cap: CAP,
    }
}

/// The depths that a consumer asks for, as far as the device can (T-29, T-30).
fn depths(param: &ConnParam<'_>) -> Depths {
    let field = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    Depths {
        ird: field(param.ird),
        ord: field(param.ord),
    }
    .capped(CAP)
}

/// The QP of that number, if the caller may connect it by `id`. The RDMA CM may have put the
/// identifier of a request on another device than this one, which has QPs of these numbers too.
fn own_qp(cm: &Cm, num: Qpn, id: CallId<'_>) -> Result<Arc<Qp>, Refusal> {
    if !id.is_on(cm.dev.handle()) {
        return Err(Refusal::new(EINVAL, "the identifier is another device's"));
    }
    let qp = cm.qps.lookup(num);
    let qp = qp.ok_or(Refusal::new(EINVAL, "there is no such QP"))?;
    if !qp.is_callers(id) {
        return Err(Refusal::new(EINVAL, "the QP is not the caller's"));
    }
    Ok(qp)
}

/// Why a consumer's call fails.
struct Refusal {
    error: Error,
    /// What the error number does not tell; may be empty.
    cause: &'static str,
}

impl Refusal {
    const fn new(error: Error, cause: &'static str) -> Self {
        Self { error, cause }
    }

    /// Writes a line for the log, which begins with what the call was about, and returns the error.
    fn tell(self, what: fmt::Arguments<'_>) -> Error {
        let Self { error, cause } = self;
        let separator = if cause.is_empty() { "" } else { ": " };
        pr_ratelimited!("{what}: {error:?}{separator}{cause}\n");
        error
    }
}

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::new(error.into(), "")
    }
}

/// The local port of TCP that the port mapper chose for a consumer, if the consumer could have it
/// without a privilege: whoever says that he is the mapper has none.
fn mapped_port(dev: &Device, id: &CmId, netdev: &NetDevice) -> Option<u16> {
    let port = id.mapped_port()?;
    if netdev.is_port_reserved(port) {
        pr_ratelimited!(
            "{}: port mapper: port {port} takes a privilege\n",
            dev.handle()
        );
        return None;
    }
    Some(port)
}

/// The network namespace of the consumer is not the device's, whose addresses are others than those
/// that it means.
const NOT_IN_NAMESPACE: Refusal =
    Refusal::new(EADDRNOTAVAIL, "used from another network namespace");

/// The connections and listeners of a device.
#[pin_data]
pub(crate) struct Cm {
    dev: Arc<Device>,
    qps: Arc<QpTable>,
    #[pin]
    endpoints: Registry<Endpoint>,
    #[pin]
    listeners: Registry<Listener>,
    /// Endpoints that connect and have not sent their Request.
    initiators: Arc<Turns<Endpoint>>,
}

impl Cm {
    /// For a new device, whose queue pairs are in `qps`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(dev: &Arc<Device>, qps: &Arc<QpTable>) -> Result<Arc<Self>> {
        let initiators = Turns::new(dev.queues(), Endpoint::request)?;
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.clone(),
                qps: qps.clone(),
                endpoints <- Registry::new(),
                listeners <- Registry::new(),
                initiators,
            }),
            GFP_KERNEL,
        )
    }

    /// How many listeners their consumers have not given up.
    pub(crate) fn listeners(&self) -> usize {
        self.listeners.len()
    }

    /// Takes no more connections, neither from consumers nor from peers.
    pub(crate) fn close(&self) {
        self.endpoints.close();
        self.listeners.close();
        self.listeners.for_each(Listener::close);
    }

    /// Ends all connections, and waits until they are over, but not longer than `ms` milliseconds.
    pub(crate) fn end_all(&self, ms: u32) {
        self.endpoints.for_each(Endpoint::shut);
        self.endpoints.wait_empty_for(ms);
    }

    /// Ends everything, forgets all listeners, and waits until no connection is left.
    pub(crate) fn close_all(&self) {
        self.close();
        self.listeners.for_each(|listener| {
            self.listeners.remove(listener);
        });
        self.endpoints.for_each(Endpoint::shut);
        self.endpoints.wait_empty();
    }
}

/// Starts to connect. If it returns without an error, a reply event follows in bounded time.
pub(crate) fn connect(cm: &Arc<Cm>, id: CallId<'_>, param: &ConnParam<'_>) -> Result {
    let dev = cm.dev.handle();
    active::connect(cm, id, param)
        .map_err(|refusal| refusal.tell(fmt!("{dev}: QP {}: cannot connect", param.qpn)))?;
    cm.dev.count(Some(Counter::ConnAsked));
    Ok(())
}

/// Accepts a connection that an event told of. If it returns without an error, an established
/// event follows in bounded time.
pub(crate) fn accept(cm: &Cm, id: CallId<'_>, param: &ConnParam<'_>) -> Result {
    let dev = cm.dev.handle();
    passive::accept(cm, id, param)
        .map_err(|refusal| refusal.tell(fmt!("{dev}: QP {}: cannot accept", param.qpn)))?;
    cm.dev.count(Some(Counter::ConnAccepted));
    Ok(())
}

/// Rejects a connection that an event told of. No event follows.
pub(crate) fn reject(cm: &Cm, id: &CmId, private_data: &[u8]) -> Result {
    passive::reject(cm, id, private_data)?;
    cm.dev.count(Some(Counter::ConnRejected));
    Ok(())
}

/// Tells how the connection or the listener of a consumer's identifier is, if there is one.
///
/// # Errors
///
/// Those of [`Details`].
pub(crate) fn describe(cm: &Cm, id: ConsumerId, to: &mut Details<'_>) -> Result {
    if let Some(listener) = cm.listeners.find(id) {
        return listener.describe(to);
    }
    if let Some(endpoint) = cm.endpoints.find(id) {
        return endpoint.describe(id, to);
    }
    Ok(())
}

/// Starts to listen on the address of `id`; each connection request makes an event.
pub(crate) fn create_listen(cm: &Arc<Cm>, id: CallId<'_>, backlog: u32) -> Result {
    let dev = cm.dev.handle();
    listen::create(cm, id, backlog).map_err(|refusal| refusal.tell(fmt!("{dev}: cannot listen")))
}

/// Stops to listen. Connections that an event told of stay.
pub(crate) fn destroy_listen(cm: &Cm, id: &CmId) -> Result {
    listen::destroy(cm, id)
}
