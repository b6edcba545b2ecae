// SPDX-License-Identifier: GPL-2.0

//! Listeners, which are told of Requests, and to which connections belong that have sent none yet.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    endpoint::{
        Endpoint,
        Endpoints, //
    },
    turns::Turns,
};
use crate::ffi::rdma::{
    details::Details,
    iwcm::{
        CallId,
        CmId,
        Event, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_spinlock,
        Arc,
        SpinLock, //
    },
};

/// Range of how many connections without a Request a listener may have.
const HALF_OPEN: (usize, usize) = (128, 1024);

#[pin_data]
pub(super) struct Listener {
    pub(super) endpoints: Arc<Endpoints>,
    /// Endpoints without a Request, to which something has happened.
    pub(super) turns: Arc<Turns<Endpoint>>,
    cm_id: ARef<CmId>,
    #[pin]
    half_open: SpinLock<HalfOpen>,
    /// How many places there are, and how many of them are taken, which changes under the lock.
    places: usize,
    taken: Atomic<u32>,
}

struct HalfOpen {
    closed: bool,
    /// Numbers of the endpoints without a Request; zero is a free place. If there is none, the
    /// oldest endpoint goes (T-42).
    numbers: KVec<usize>,
}

impl Listener {
    pub(super) fn new(
        endpoints: &Arc<Endpoints>,
        turns: Arc<Turns<Endpoint>>,
        id: CallId<'_>,
        backlog: u32,
    ) -> Result<Arc<Self>> {
        let (least, most) = HALF_OPEN;
        let places = usize::try_from(backlog)
            .unwrap_or(most)
            .max(least)
            .min(most);
        let numbers = KVec::from_elem(0, places, GFP_KERNEL_ACCOUNT)?;
        let half_open = HalfOpen {
            closed: false,
            numbers,
        };
        Arc::pin_init(
            pin_init!(Self {
                endpoints: endpoints.clone(),
                turns,
                cm_id: id.into(),
                half_open <- new_spinlock!(half_open, "rsiw::cm::Listener::half_open"),
                places,
                taken: Atomic::new(0),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Refuses new connections, and ends those without a Request.
    pub(super) fn close(&self) {
        let numbers = {
            let mut half_open = self.half_open.lock();
            half_open.closed = true;
            self.taken.store(0, Relaxed);
            core::mem::replace(&mut half_open.numbers, KVec::new())
        };
        for number in numbers {
            self.end(number);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.half_open.lock().closed
    }

    pub(super) fn describe(&self, to: &mut Details<'_>) -> Result {
        to.number(c"half_open", self.taken.load(Relaxed))?;
        to.count(c"max_half_open", self.places)
    }

    /// Hands an event to the consumer, or returns `ECONNABORTED` if the listener is closed. No lock
    /// may be held.
    pub(super) fn deliver(&self, event: &Event<'_>) -> Result {
        if self.is_closed() {
            return Err(ECONNABORTED);
        }
        self.cm_id.deliver(event)
    }

    /// Removes an endpoint that has got its Request, or is gone.
    pub(super) fn forget(&self, number: usize) {
        let mut half_open = self.half_open.lock();
        // Bound: the places, 1,024 at most.
        if let Some(place) = half_open.numbers.iter_mut().find(|n| **n == number) {
            *place = 0;
            let taken = self.taken.load(Relaxed).saturating_sub(1);
            self.taken.store(taken, Relaxed);
        }
    }

    /// Adds an endpoint without a Request, which ends the oldest one if there is no free place.
    /// Returns `ECONNABORTED` if the listener is closed.
    pub(super) fn admit(&self, number: usize) -> Result {
        let mut half_open = self.half_open.lock();
        if half_open.closed {
            return Err(ECONNABORTED);
        }
        // Numbers grow, so that the least is a free place or the oldest.
        // Bound: the places, 1,024 at most.
        let place = half_open.numbers.iter_mut().min().ok_or(ENOSPC)?;
        let oldest = core::mem::replace(place, number);
        if oldest == 0 {
            let taken = self.taken.load(Relaxed).saturating_add(1);
            self.taken.store(taken, Relaxed);
        }
        drop(half_open);
        self.end(oldest);
        Ok(())
    }

    /// Ends a connection without a Request; zero is none.
    fn end(&self, number: usize) {
        if let Some(endpoint) = self.endpoints.all.get(number) {
            endpoint.shut();
        }
    }
}
