// SPDX-License-Identifier: GPL-2.0

//! Listeners.
#![forbid(unsafe_code)]

use super::{
    acceptor::{
        self,
        Acceptor, //
    },
    registry::Entry,
    turns::Turns,
    Cm, Endpoint, Refusal, NOT_IN_NAMESPACE,
};
use crate::ffi::{
    net::netdev::NetDevice,
    rdma::{
        details::Details,
        iwcm::{
            CallId,
            CmId,
            ConsumerId,
            Event,
            Mapping, //
        },
    },
};
use core::net::SocketAddr;
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        new_spinlock,
        Arc,
        SpinLock, //
    },
};

/// Least and most connections that may have said nothing yet.
const HALF_OPEN: (usize, usize) = (128, 1024);

/// A listener of a consumer.
#[pin_data]
pub(crate) struct Listener {
    pub(super) cm: Arc<Cm>,
    number: usize,
    cm_id: ARef<CmId>,
    consumer: ConsumerId,
    /// What the core needs back when the consumer gives the listener up.
    mapping: Option<Mapping>,
    /// Where its connections come from, until it is closed.
    #[pin]
    acceptor: SpinLock<Option<Arc<Acceptor>>>,
    #[pin]
    half_open: SpinLock<HalfOpen>,
    /// Of endpoints without a Request.
    pub(super) turns: Arc<Turns<Endpoint>>,
}

struct HalfOpen {
    /// Nobody listens any more.
    closed: bool,
    /// Numbers of the endpoints without a Request, and zeros. If there is no room for another
    /// one, the oldest goes (T-42).
    numbers: KVec<usize>,
}

/// See [`super::create_listen`].
pub(super) fn create(cm: &Arc<Cm>, id: CallId<'_>, backlog: u32) -> Result<(), Refusal> {
    let addr = id.local_addr().ok_or(EAFNOSUPPORT)?;
    let netdev = cm.dev.netdev().ok_or(ENODEV)?;
    // A consumer that listens on the wildcard, or on a loopback address, listens on the devices of
    // all namespaces, also on those that others add later. Nobody can reach it through those of
    // others, where the port may be somebody else's.
    let ip = addr.ip();
    let on_all = ip.is_unspecified() || ip.is_loopback();
    if !id.sees(&netdev) {
        return if on_all {
            Ok(())
        } else {
            Err(NOT_IN_NAMESPACE)
        };
    }
    // What comes to a loopback address is for the device over the loopback interface.
    if ip.is_loopback() && !netdev.is_loopback() {
        return Ok(());
    }
    let (least, most) = HALF_OPEN;
    let places = usize::try_from(backlog)
        .unwrap_or(most)
        .max(least)
        .min(most);
    let half_open = HalfOpen {
        closed: false,
        numbers: KVec::from_elem(0, places, GFP_KERNEL_ACCOUNT)?,
    };
    let turns = Turns::new(cm.dev.queues(), Endpoint::read)?;
    let mapping = id.hide_mapping();
    let listener = cm.listeners.add(|number| {
        id.set_provider_data(number);
        Arc::pin_init(
            pin_init!(Listener {
                cm: cm.clone(),
                number,
                cm_id: id.into(),
                consumer: id.consumer(),
                mapping,
                acceptor <- new_spinlock!(None, "rsiw::cm::Listener::acceptor"),
                half_open <- new_spinlock!(half_open, "rsiw::cm::Listener::half_open"),
                turns,
            }),
            GFP_KERNEL_ACCOUNT,
        )
    });
    let result = listener.and_then(|this| {
        cm.listeners.introduce(this.number, this.consumer);
        this.open(id, &netdev, addr, backlog).inspect_err(|_| {
            cm.listeners.remove(&this);
            this.close();
        })
    });
    if let Some(mapping) = mapping.filter(|_| result.is_err()) {
        id.restore_mapping(mapping);
    }
    Ok(result?)
}

/// See [`super::destroy_listen`].
pub(super) fn destroy(cm: &Cm, id: &CmId) -> Result {
    let this = cm.listeners.get(id.provider_data());
    if let Some(this) = this.filter(|this| cm.listeners.remove(this)) {
        this.close();
        if let Some(mapping) = this.mapping {
            id.restore_mapping(mapping);
        }
    }
    Ok(())
}

impl Listener {
    fn open(
        self: &Arc<Self>,
        id: CallId<'_>,
        netdev: &NetDevice,
        addr: SocketAddr,
        backlog: u32,
    ) -> Result {
        let acceptor = acceptor::attend(self, id, netdev, addr, backlog)?;
        *self.acceptor.lock() = Some(acceptor);
        // The device may be going away, and have closed it in between.
        if self.half_open.lock().closed {
            self.close();
            return Err(ENODEV);
        }
        Ok(())
    }

    /// Gets no more connections, and ends those without a Request. If nobody else uses the port it
    /// is free then.
    pub(super) fn close(self: &Arc<Self>) {
        let numbers = {
            let mut half_open = self.half_open.lock();
            half_open.closed = true;
            core::mem::replace(&mut half_open.numbers, KVec::new())
        };
        let acceptor = self.acceptor.lock().take();
        if let Some(acceptor) = acceptor {
            acceptor.leave(self);
        }
        for number in numbers {
            self.end(number);
        }
    }

    /// Tells how it is.
    ///
    /// # Errors
    ///
    /// Those of [`Details`].
    pub(super) fn describe(&self, to: &mut Details<'_>) -> Result {
        let (half_open, most) = {
            let half_open = self.half_open.lock();
            // As many as the backlog, at most 1,024.
            let taken = half_open.numbers.iter().filter(|n| **n != 0);
            let taken = taken.fold(0, |count: usize, _| count.saturating_add(1));
            (taken, half_open.numbers.len())
        };
        to.count(c"half_open", half_open)?;
        to.count(c"max_half_open", most)
    }

    /// Hands an event to the consumer. No lock may be held.
    pub(super) fn deliver(&self, event: &Event<'_>) -> Result {
        if self.half_open.lock().closed {
            return Err(ECONNABORTED);
        }
        self.cm_id.deliver(event)
    }

    /// An endpoint has got its Request, or is gone.
    pub(super) fn forget(&self, number: usize) {
        let mut half_open = self.half_open.lock();
        if let Some(place) = half_open.numbers.iter_mut().find(|n| **n == number) {
            *place = 0;
        }
    }

    /// Counts a connection that has said nothing yet, and ends the oldest one if there are too
    /// many.
    pub(super) fn admit(&self, number: usize) -> Result {
        let mut half_open = self.half_open.lock();
        if half_open.closed {
            return Err(ECONNABORTED);
        }
        // Numbers grow, so that the least is a free place or the oldest.
        let place = half_open.numbers.iter_mut().min().ok_or(ENOSPC)?;
        let oldest = core::mem::replace(place, number);
        drop(half_open);
        self.end(oldest);
        Ok(())
    }

    /// Ends a connection without a Request; zero is none.
    fn end(&self, number: usize) {
        if let Some(endpoint) = self.cm.endpoints.get(number) {
            endpoint.shut();
        }
    }
}

impl Entry for Listener {
    fn number(&self) -> usize {
        self.number
    }

    fn consumer(&self) -> Option<ConsumerId> {
        Some(self.consumer)
    }
}
