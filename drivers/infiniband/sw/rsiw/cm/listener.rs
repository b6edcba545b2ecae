// SPDX-License-Identifier: GPL-2.0

//! Listeners. A listener is told of Requests. A connection belongs to it until its Request has
//! come.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::endpoint::{
    Endpoint,
    Endpoints, //
};
use super::registry::Turns;
use crate::ffi::rdma::iwcm::{
    Addresses,
    CmId,
    Depths,
    Event, //
};
use crate::ffi::rdma::stats::Details;
use crate::ffi::time;
use crate::proto::crowd::{
    Crowd,
    Crowded,
    Place,
    Source, //
};
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::{
    new_spinlock,
    Arc,
    SpinLock, //
};

/// How many connections without a Request a listener may have: by its backlog, within this range.
const HALF_OPEN: (usize, usize) = (128, 1024);
/// How many handshakes of TLS a listener may have under way: the daemon has a process for each.
const HANDSHAKES: usize = 32;

/// Who is told of Requests.
pub(super) enum Addressee {
    /// A consumer of the connection manager, by its identifier.
    Consumer(ARef<CmId>),
    Other(Arc<dyn TakesRequests>),
}

/// Takes Requests where there is no consumer.
pub(super) trait TakesRequests: Send + Sync {
    /// Acts upon the Request of endpoint `number`. No lock is held.
    fn asked(self: Arc<Self>, number: usize, addresses: &Addresses, private_data: &[u8]);
}

#[pin_data]
pub(super) struct Listener {
    pub(super) endpoints: Arc<Endpoints>,
    /// Endpoints without a Request, to which something has happened.
    pub(super) turns: Arc<Turns<Endpoint>>,
    addressee: Addressee,
    #[pin]
    half_open: SpinLock<HalfOpen>,
    /// `places` is how many connections without a Request there may be, `taken` how many there are,
    /// and `shaking` how many of these are in a handshake. The last two change under the lock.
    places: usize,
    taken: Atomic<u32>,
    shaking: Atomic<u32>,
}

/// The connections without a Request. One that is driven out of its crowd is ended (T-42).
struct HalfOpen {
    closed: bool,
    /// Connections that have said nothing yet; with TLS, connections without a ClientHello, and
    /// those that wait until their handshake can begin.
    silent: Crowd<KVec<Place>>,
    /// Connections in a handshake.
    shaking: Crowd<KVec<Place>>,
    /// Connections that are through with their handshake.
    secured: Crowd<KVec<Place>>,
}

fn crowd(places: usize) -> Result<Crowd<KVec<Place>>> {
    let places = KVec::from_elem(Place::FREE, places, GFP_KERNEL_ACCOUNT)?;
    Ok(Crowd::new(places))
}

fn place(source: Source, number: usize) -> Place {
    Place::new(source, number, time::now_ms())
}

impl Listener {
    pub(super) fn new(
        endpoints: &Arc<Endpoints>,
        turns: Arc<Turns<Endpoint>>,
        addressee: Addressee,
        backlog: u32,
    ) -> Result<Arc<Self>> {
        let (least, most) = HALF_OPEN;
        let places = usize::try_from(backlog)
            .unwrap_or(most)
            .max(least)
            .min(most);
        let has_tls = endpoints.dev.tls().is_some();
        let half_open = HalfOpen {
            closed: false,
            silent: crowd(places)?,
            shaking: crowd(if has_tls { HANDSHAKES } else { 0 })?,
            secured: crowd(if has_tls { places } else { 0 })?,
        };
        Arc::pin_init(
            pin_init!(Self {
                endpoints: endpoints.clone(),
                turns,
                addressee,
                half_open <- new_spinlock!(half_open, "rsiw::cm::Listener::half_open"),
                places,
                taken: Atomic::new(0),
                shaking: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Refuses new connections, and ends those without a Request.
    pub(super) fn close(&self) {
        self.half_open.lock().closed = true;
        while let Some(number) = self.pop() {
            self.end(number);
        }
    }

    fn pop(&self) -> Option<usize> {
        let mut half_open = self.half_open.lock();
        let HalfOpen {
            silent,
            shaking,
            secured,
            ..
        } = &mut *half_open;
        let number = silent
            .pop()
            .or_else(|| shaking.pop())
            .or_else(|| secured.pop());
        self.show(&half_open);
        number
    }

    pub(super) fn is_closed(&self) -> bool {
        self.half_open.lock().closed
    }

    pub(super) fn describe(&self, to: &mut Details<'_>) -> Result {
        to.number(c"half_open", self.taken.load(Relaxed))?;
        to.count(c"max_half_open", self.places)?;
        to.number(c"handshakes", self.shaking.load(Relaxed))
    }

    /// Tells the addressee of the Request of endpoint `number`, or returns `ECONNABORTED` if the
    /// listener is closed. No lock may be held.
    pub(super) fn deliver(
        &self,
        number: usize,
        addresses: Addresses,
        depths: Depths,
        private_data: &[u8],
    ) -> Result {
        if self.is_closed() {
            return Err(ECONNABORTED);
        }
        match &self.addressee {
            Addressee::Consumer(id) => id.deliver(&Event::ConnectRequest {
                number,
                addresses,
                depths,
                private_data,
            }),
            Addressee::Other(other) => {
                other.clone().asked(number, &addresses, private_data);
                Ok(())
            }
        }
    }

    /// Removes an endpoint that has got its Request, or is gone.
    pub(super) fn forget(&self, source: Source, number: usize) {
        let mut half_open = self.half_open.lock();
        let _ = half_open.silent.remove(source, number)
            || half_open.shaking.remove(source, number)
            || half_open.secured.remove(source, number);
        self.show(&half_open);
    }

    /// Publishes how many connections there are, for observers. Under the lock.
    fn show(&self, half_open: &HalfOpen) {
        let HalfOpen {
            silent,
            shaking,
            secured,
            ..
        } = half_open;
        let number = |count| u32::try_from(count).unwrap_or(u32::MAX);
        let others = number(shaking.len()).saturating_add(number(secured.len()));
        let taken = number(silent.len()).saturating_add(others);
        self.taken.store(taken, Relaxed);
        self.shaking.store(number(shaking.len()), Relaxed);
    }

    /// Adds an endpoint without a Request, for which another one may have to go. Returns
    /// `ECONNABORTED` if the listener is closed.
    pub(super) fn admit(&self, source: Source, number: usize) -> Result {
        self.change(|half_open| match half_open.closed {
            true => Err(ECONNABORTED),
            false => Ok(half_open.silent.admit(place(source, number))),
        })
    }

    /// Counts the endpoint among those in a handshake. Fails with `EAGAIN` as long as there are too
    /// many of these, or with `ECONNABORTED` if the endpoint has been driven out.
    pub(super) fn begin_handshake(&self, source: Source, number: usize) -> Result {
        self.change(|half_open| {
            if !half_open.silent.remove(source, number) {
                return Err(ECONNABORTED);
            }
            let place = place(source, number);
            half_open.shaking.admit_in_turn(place).map_err(|Crowded| {
                // The endpoint gets back the place that it had.
                half_open.silent.admit(place);
                EAGAIN
            })
        })
    }

    /// Undoes [`Listener::begin_handshake`]. Fails with `ECONNABORTED` if the endpoint has been
    /// driven out.
    pub(super) fn put_off(&self, source: Source, number: usize) -> Result {
        self.change(|half_open| match half_open.shaking.remove(source, number) {
            true => Ok(half_open.silent.admit(place(source, number))),
            false => Err(ECONNABORTED),
        })
    }

    /// Counts the endpoint among those that are through with the handshake. Fails with
    /// `ECONNABORTED` if the endpoint has been driven out.
    pub(super) fn end_handshake(&self, source: Source, number: usize) -> Result {
        self.change(|half_open| match half_open.shaking.remove(source, number) {
            true => Ok(half_open.secured.admit(place(source, number))),
            false => Err(ECONNABORTED),
        })
    }

    /// Changes the connections without a Request by `change`, and ends the one that has to go for
    /// that.
    fn change(&self, change: impl FnOnce(&mut HalfOpen) -> Result<Option<usize>>) -> Result {
        let goes = {
            let mut half_open = self.half_open.lock();
            let goes = change(&mut half_open);
            self.show(&half_open);
            goes?
        };
        if let Some(number) = goes {
            self.end(number);
        }
        Ok(())
    }

    /// Ends a connection without a Request. If its Request has come just now, it stays.
    fn end(&self, number: usize) {
        if let Some(endpoint) = self.endpoints.all.get(number) {
            endpoint.drive_out();
        }
    }
}
