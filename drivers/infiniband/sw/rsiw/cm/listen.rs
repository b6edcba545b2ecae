// SPDX-License-Identifier: GPL-2.0

//! Consumers' calls that start and stop listening.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    acceptor::{
        self,
        Acceptor,
        Place, //
    },
    calls::{
        Refusal,
        NOT_IN_NAMESPACE, //
    },
    endpoint::Endpoints,
    listener::Listener,
    passive,
    registry::{
        Entry,
        Registry, //
    },
    turns::Turns,
};
use crate::ffi::rdma::iwcm::{
    CallId,
    CmId,
    ConsumerId,
    Mapping, //
};
use kernel::{
    prelude::*,
    sync::{
        new_spinlock,
        Arc,
        SpinLock, //
    },
};

/// One listening identifier of a consumer.
#[pin_data]
pub(super) struct Listening {
    number: usize,
    consumer: ConsumerId,
    /// What the core needs back when the consumer stops listening.
    mapping: Option<Mapping>,
    pub(super) listener: Arc<Listener>,
    /// Where its connections come from, until it is closed.
    #[pin]
    acceptor: SpinLock<Option<Arc<Acceptor>>>,
}

/// Returns whether a consumer listens on the wildcard, or on a loopback address. It does so on the
/// devices of all namespaces, including those added later.
pub(super) fn is_on_all(id: CallId<'_>) -> bool {
    id.local_addr()
        .is_some_and(|addr| addr.ip().is_unspecified() || addr.ip().is_loopback())
}

/// See [`super::create_listen`].
pub(super) fn create(
    all: &Registry<Listening>,
    endpoints: &Arc<Endpoints>,
    id: CallId<'_>,
    backlog: u32,
) -> Result<(), Refusal> {
    let dev = &endpoints.dev;
    let addr = id.local_addr().ok_or(EAFNOSUPPORT)?;
    let netdev = dev.netdev().ok_or(ENODEV)?;
    // Nobody can reach a consumer of all devices through those of other namespaces, where the port
    // may be somebody else's.
    if !id.sees(&netdev) {
        return if is_on_all(id) {
            Ok(())
        } else {
            Err(NOT_IN_NAMESPACE)
        };
    }
    // What comes to a loopback address is for the device over the loopback interface.
    if addr.ip().is_loopback() && !netdev.is_loopback() {
        return Ok(());
    }
    let turns = Turns::new(dev.queues(), passive::read)?;
    let listener = Listener::new(endpoints, turns, id, backlog)?;
    let mapping = id.hide_mapping();
    let listening = all.add(|number| {
        id.set_provider_data(number);
        Arc::pin_init(
            pin_init!(Listening {
                number,
                consumer: id.consumer(),
                mapping,
                listener,
                acceptor <- new_spinlock!(None, "rsiw::cm::Listening::acceptor"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    });
    let result = listening.and_then(|this| {
        all.introduce(this.number, this.consumer);
        let place = Place::new(dev, id, &netdev, addr, backlog);
        this.open(place).inspect_err(|_| {
            all.remove(&this);
            this.close();
        })
    });
    if let Some(mapping) = mapping.filter(|_| result.is_err()) {
        id.restore_mapping(mapping);
    }
    Ok(result?)
}

/// See [`super::destroy_listen`].
pub(super) fn destroy(all: &Registry<Listening>, id: &CmId) -> Result {
    let this = all.get(id.provider_data());
    if let Some(this) = this.filter(|this| all.remove(this)) {
        this.close();
        if let Some(mapping) = this.mapping {
            id.restore_mapping(mapping);
        }
    }
    Ok(())
}

impl Listening {
    fn open(self: &Arc<Self>, place: Place<'_>) -> Result {
        let acceptor = acceptor::join(&self.listener, place)?;
        *self.acceptor.lock() = Some(acceptor);
        // The device may be going away, and have closed it in between.
        if self.listener.is_closed() {
            self.close();
            return Err(ENODEV);
        }
        Ok(())
    }

    /// Stops listening, and ends connections without a Request. Frees the port if nobody else
    /// uses it.
    pub(super) fn close(self: &Arc<Self>) {
        // Before the acceptor is taken: `open` sets the acceptor and then looks at this.
        self.listener.close();
        let acceptor = self.acceptor.lock().take();
        if let Some(acceptor) = acceptor {
            acceptor.leave(&self.listener);
        }
    }
}

impl Entry for Listening {
    fn number(&self) -> usize {
        self.number
    }

    fn consumer(&self) -> Option<ConsumerId> {
        Some(self.consumer)
    }
}
