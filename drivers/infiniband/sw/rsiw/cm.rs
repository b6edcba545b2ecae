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

mod active;
mod endpoint;
mod events;
mod listen;
mod outputs;
mod passive;
mod registry;
mod turns;

pub(crate) use self::{
    endpoint::Endpoint,
    registry::Registry,
    turns::Initiators, //
};

use crate::{
    device::{
        Device,
        MAX_READS, //
    },
    ffi::{
        iwcm::{
            CallId,
            CmId,
            ConnParam, //
        },
        log::pr_ratelimited,
        rdma::attr::Qpn,
    },
    params,
    proto::{
        conn::Config,
        negotiate::Depths, //
    },
    qp::Qp,
    wire::mpa, //
};
use kernel::{
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

/// The QP of that number, if the caller may connect it by `id`.
fn own_qp(dev: &Device, num: Qpn, id: CallId<'_>) -> Result<Arc<Qp>> {
    let qp = dev.qp_by_num(num).ok_or(EINVAL)?;
    if !qp.is_callers(id) {
        pr_ratelimited!("{}: QP {num}: not the caller's to connect\n", dev.handle());
        return Err(EINVAL);
    }
    Ok(qp)
}

/// The error of a consumer whose network namespace is not the device's: the device's addresses are
/// others than those that it means.
fn not_in_namespace(dev: &Device) -> Error {
    pr_ratelimited!("{}: used from another network namespace\n", dev.handle());
    EADDRNOTAVAIL
}

/// Starts to connect. If it returns without an error, a reply event follows in bounded time.
pub(crate) fn connect(dev: &Arc<Device>, id: CallId<'_>, param: &ConnParam<'_>) -> Result {
    active::connect(dev, id, param)
}

/// Accepts a connection that an event told of. If it returns without an error, an established
/// event follows in bounded time.
pub(crate) fn accept(dev: &Arc<Device>, id: CallId<'_>, param: &ConnParam<'_>) -> Result {
    passive::accept(dev, id, param)
}

/// Rejects a connection that an event told of. No event follows.
pub(crate) fn reject(dev: &Device, id: &CmId, private_data: &[u8]) -> Result {
    passive::reject(dev, id, private_data)
}

/// Starts to listen on the address of `id`; each connection request makes an event.
pub(crate) fn create_listen(dev: &Arc<Device>, id: CallId<'_>, backlog: u32) -> Result {
    listen::create(dev, id, backlog)
}

/// Stops to listen. Connections that an event told of stay.
pub(crate) fn destroy_listen(dev: &Device, id: &CmId) -> Result {
    listen::destroy(dev, id)
}
