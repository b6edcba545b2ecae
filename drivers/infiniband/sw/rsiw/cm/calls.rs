// SPDX-License-Identifier: GPL-2.0

//! What the calls of consumers have in common: what they may ask for, and why they fail.
//!
//! Context: process.
#![forbid(unsafe_code)]

use crate::{
    device::Device,
    ffi::{
        net::netdev::NetDevice,
        rdma::{
            attr::Qpn,
            handle::QpHandle,
            iwcm::{
                CallId,
                ConnParam, //
            },
        },
        rsiw::params,
    },
    limits::MAX_READS,
    log::Author,
    proto::{
        negotiate::Depths, //
        setup::Config,
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

const CAP: Depths = Depths {
    ird: MAX_READS,
    ord: MAX_READS,
};

pub(super) fn config(dev: &Device) -> Config {
    Config {
        rev: mpa::REV_2,
        // TLS finds every change by itself.
        crc: params::mpa_crc() && dev.tls().is_none(),
        large_fpdus: params::large_fpdus(),
        peer_to_peer: true,
        rtr: mpa::RtrSet::ALL,
        cap: CAP,
    }
}

/// Returns the depths that a consumer asks for, limited to the device's (T-29, T-30).
pub(super) fn depths(param: &ConnParam<'_>) -> Depths {
    let field = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
    Depths {
        ird: field(param.ird),
        ord: field(param.ord),
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
    let qp = qps.lookup(num);
    let qp = qp.ok_or(Refusal::new(EINVAL, "there is no such QP"))?;
    if !qp.is_callers(id) {
        return Err(NOT_THE_CALLERS);
    }
    Ok(qp)
}

/// Returns the handle of QP `num` for iw_cm, which keeps it while it asks the port mapper. That may
/// be silent for long, and nobody must hold another's QP meanwhile. In a thread's call to connect or
/// accept, with interrupts off.
pub(crate) fn handle_for_caller(dev: &Device, qps: &QpTable, num: Qpn) -> Option<Arc<QpHandle>> {
    let qp = qps.lookup(num)?;
    if qp.is_of_others() {
        let caller = Author::Process;
        let _ = NOT_THE_CALLERS.log(dev, caller, fmt!("QP {num}: cannot connect"));
        return None;
    }
    Some(qp.handle.clone())
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

    /// Logs the refusal behind `what`, which the call of `author` was about, and returns the error.
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

/// The consumer's network namespace is not the device's, whose addresses are not those that the
/// consumer means.
pub(super) const NOT_IN_NAMESPACE: Refusal =
    Refusal::new(EADDRNOTAVAIL, "used from another network namespace");
