// SPDX-License-Identifier: GPL-2.0

//! Connections: set-up by MPA (RFC 5044 section 7, RFC 6581), teardown, and the contract with
//! iw_cm. `proto::connection` decides what follows from what; this module carries it out.
//!
//! Each connection has an endpoint: its state under a mutex, one timer, and one work item that does
//! everything that takes time. Nothing waits for a peer (T-42). Socket callbacks, the timer and the
//! QP leave a note and queue the work, which feeds the connection with what it finds. The work
//! delivers all events to iw_cm, one after the other and with no lock held, in the order in which
//! the connection names them.
//!
//! The work of different connections runs concurrently; only the first step of each, its Request,
//! has an order ([`Turns`]). Nothing that acts for more than one connection waits for a process.
//!
//! iw_cm knows endpoints and listeners by number, so one that is gone is not found.
//!
//! The files, from the lowest to the highest: `calls`, `registry`; `endpoint` and `listener`, which
//! refer to each other; `secure`, `connection`; `request`; `acceptor`. Each uses only those in
//! front of it. `by_number` and `pairing` are beside these, for queue pairs without a consumer of
//! iw_cm: they use these files, and are told of what happens in the place of a consumer.
//!
//! Locks: endpoint mutex > what the QP takes > socket lock. The QP never waits for an endpoint.
//!
//! Context: process context, unless a function says otherwise.
#![forbid(unsafe_code)]

mod acceptor;
pub(crate) mod by_number;
mod calls;
mod connection;
mod endpoint;
mod listener;
mod pairing;
mod registry;
mod request;
mod secure;

use self::acceptor::Listening;
use self::by_number::MeetingPlace;
use self::calls::caller;
use self::endpoint::{
    Endpoint,
    Endpoints, //
};
use self::registry::{
    Registry,
    Turns, //
};
use crate::device::Device;
use crate::ffi::rdma::iwcm::{
    AcceptRef,
    CallId,
    CmId,
    ConnParam,
    ConsumerId, //
};
use crate::ffi::rdma::stats::Details;
use crate::proto::counters::Counter;
use crate::qp::QpTable;
use kernel::prelude::*;
use kernel::sync::atomic::{
    AtomicFlag,
    Relaxed, //
};
use kernel::sync::Arc;

pub(crate) use self::acceptor::Acceptors;
pub(crate) use self::calls::handle_for_caller;

/// The connections and listeners of a device.
#[pin_data]
pub(crate) struct Cm {
    endpoints: Arc<Endpoints>,
    qps: Arc<QpTable>,
    acceptors: Arc<Acceptors>,
    #[pin]
    listeners: Registry<Listening>,
    pub(crate) meeting_place: Arc<MeetingPlace>,
    /// Whether the device serves consumers: not while it is being made or removed.
    serves: AtomicFlag,
}

impl Cm {
    /// Creates the connection manager of a new device, or returns `ENOMEM`. All devices share
    /// `acceptors`.
    pub(crate) fn new(
        dev: &Arc<Device>,
        qps: &Arc<QpTable>,
        acceptors: &Arc<Acceptors>,
    ) -> Result<Arc<Self>> {
        let initiators = Turns::new(dev.queues(), request::request)?;
        let endpoints = Endpoints::new(dev, initiators)?;
        let meeting_place = MeetingPlace::new(&endpoints, qps, acceptors)?;
        Arc::pin_init(
            pin_init!(Self {
                endpoints,
                qps: qps.clone(),
                acceptors: acceptors.clone(),
                listeners <- Registry::new(),
                meeting_place,
                serves: AtomicFlag::new(false),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns how many listeners there are that consumers have not given up.
    pub(crate) fn listeners(&self) -> usize {
        self.listeners.len()
    }

    /// Has the device serve consumers: the core knows the device, and has told it of those who
    /// listen on all devices.
    pub(crate) fn open(&self) {
        self.serves.store(true, Relaxed);
    }

    /// Refuses new connections, of consumers and of peers.
    pub(crate) fn close(&self) {
        self.serves.store(false, Relaxed);
        self.endpoints.all.close();
        self.listeners.close();
        self.listeners.for_each(Listening::close);
        self.meeting_place.close();
    }

    /// Ends all connections, and waits at most `ms` milliseconds until they are over.
    pub(crate) fn end_all(&self, ms: u32) {
        self.endpoints.all.for_each(Endpoint::shut);
        self.endpoints.all.wait_empty_for(ms);
    }

    /// Ends everything, forgets all listeners, and waits until no connection is left.
    pub(crate) fn close_all(&self) {
        self.close();
        self.listeners.for_each(|listener| {
            self.listeners.remove(listener);
        });
        self.endpoints.all.for_each(Endpoint::shut);
        self.endpoints.all.wait_empty();
        self.meeting_place.wait_for_pairings();
    }
}

/// Starts to connect. Unless it fails, a reply event follows in bounded time.
pub(crate) fn connect(cm: &Cm, id: CallId<'_>, param: &ConnParam<'_>) -> Result {
    let dev = &cm.endpoints.dev;
    request::connect(&cm.endpoints, &cm.qps, id, param).map_err(|refusal| {
        refusal.log(dev, caller(id), fmt!("QP {}: cannot connect", param.qpn))
    })?;
    dev.count(Some(Counter::ConnAsked));
    Ok(())
}

/// Accepts a connection that an event told of. Unless it fails, an established event follows in
/// bounded time.
pub(crate) fn accept(
    cm: &Cm,
    id: CallId<'_>,
    param: &ConnParam<'_>,
    reference: AcceptRef,
) -> Result {
    let dev = &cm.endpoints.dev;
    request::accept(&cm.endpoints, &cm.qps, id, param, reference)
        .map_err(|refusal| refusal.log(dev, caller(id), fmt!("QP {}: cannot accept", param.qpn)))?;
    dev.count(Some(Counter::ConnAccepted));
    Ok(())
}

/// Rejects a connection that an event told of. No event follows.
pub(crate) fn reject(cm: &Cm, id: &CmId, private_data: &[u8]) -> Result {
    request::reject(&cm.endpoints, id, private_data)?;
    cm.endpoints.dev.count(Some(Counter::ConnRejected));
    Ok(())
}

/// Describes the connection or the listener of a consumer's identifier, if there is one.
pub(crate) fn describe(cm: &Cm, id: ConsumerId, to: &mut Details<'_>) -> Result {
    if let Some(listening) = cm.listeners.find(id) {
        return listening.listener.describe(to);
    }
    if let Some(endpoint) = cm.endpoints.all.find(id) {
        return endpoint.describe(id, to);
    }
    Ok(())
}

/// Starts to listen on the address of `id`; each connection request makes an event.
///
/// For a consumer that listens on all devices, a device that comes or goes may fail: this returns
/// no error then. With an error the RDMA CM would not use a new device at all, only because
/// somebody else has one port of it; and no such consumer could start while a device leaves. A
/// device that moves to another namespace leaves and comes back, unknown to the rest of the driver.
pub(crate) fn create_listen(cm: &Cm, id: CallId<'_>, backlog: u32) -> Result {
    let dev = &cm.endpoints.dev;
    acceptor::create(&cm.listeners, &cm.acceptors, &cm.endpoints, id, backlog)
        .map_err(|refusal| refusal.log(dev, caller(id), fmt!("cannot listen")))
        .or_else(|error| {
            let is_settled = cm.serves.load(Relaxed) && !dev.handle().is_moving();
            let does_without = acceptor::is_on_all(id) && !is_settled;
            does_without.then_some(()).ok_or(error)
        })
}

/// Stops listening. Connections that an event told of stay.
pub(crate) fn destroy_listen(cm: &Cm, id: &CmId) -> Result {
    acceptor::destroy(&cm.listeners, id)
}
