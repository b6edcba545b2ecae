// SPDX-License-Identifier: GPL-2.0

//! Delivers the events of a connection to iw_cm. `proto::connection::events` decides which there
//! are, and in which order.
//!
//! Context: process; no lock may be held while an event is delivered.
#![forbid(unsafe_code)]

use super::{
    endpoint::{
        Deputy,
        Endpoint,
        EndpointState, //
    },
    listener::Listener,
    outputs::errno,
    registry::Entry, //
};
use crate::{
    ffi::{
        rdma::iwcm::{
            self,
            Addresses,
            CmId,
            Depths,
            MAX_EVENT_DATA, //
        },
        rsiw::trace,
    },
    proto::{
        connection::{
            Event,
            Input, //
        },
        counters::Counter,
        negotiate::EventDepths,
    },
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
};

fn event_depths(depths: EventDepths) -> Depths {
    Depths {
        ird: depths.ird,
        ord: depths.ord,
    }
}

/// Returns what an event counts as. TCP's own errors for a refusal and a time-out count as these.
fn counter_of(event: &Event) -> Option<Counter> {
    match event.error().map(errno) {
        Some(e) if e == ECONNREFUSED => Some(Counter::ConnRefused),
        Some(e) if e == ETIMEDOUT => Some(Counter::ConnTimedOut),
        _ => Counter::of_event(event),
    }
}

/// An event taken from a connection, and all that its delivery needs.
pub(super) struct Pending {
    event: Event,
    /// Private data, cut to what an event may carry (T-10).
    data: [u8; MAX_EVENT_DATA],
    /// Of a Request.
    addresses: Option<Addresses>,
    /// To whom a Request goes; all other events go to `id`.
    listener: Option<Arc<Listener>>,
    id: Option<ARef<CmId>>,
}

impl Pending {
    fn deliver(&self, number: usize) -> Result {
        let data = |len| self.data.get(..len).unwrap_or(&[]);
        let event = match self.event {
            Event::Request { depths, data: len } => {
                let listener = self.listener.as_ref().ok_or(EINVAL)?;
                return listener.deliver(&iwcm::Event::ConnectRequest {
                    number,
                    addresses: self.addresses.ok_or(EAFNOSUPPORT)?,
                    depths: event_depths(depths),
                    private_data: data(len),
                });
            }
            Event::Reply {
                error,
                depths,
                data: len,
            } => iwcm::Event::ConnectReply {
                error: error.map(errno),
                depths: event_depths(depths),
                private_data: data(len),
            },
            Event::Established { error: _, depths } => iwcm::Event::Established {
                depths: event_depths(depths),
            },
            Event::Disconnect => iwcm::Event::Disconnect,
            Event::Close => iwcm::Event::Close,
        };
        self.id.as_ref().ok_or(EINVAL)?.deliver(&event)
    }
}

impl Endpoint {
    /// Takes the next event that is due. Under the mutex.
    pub(super) fn next_event(&self, st: &mut EndpointState) -> Option<Pending> {
        let mut data = [0; MAX_EVENT_DATA];
        let event = st.connection.next_event(&mut data)?;
        // With any event that the consumer of `id` is told, iw_cm stops waiting.
        st.process = None;
        self.dev().count(counter_of(&event));
        let error = event.error().map_or(0, |error| errno(error).to_errno());
        let number = self.trace_number();
        trace::setup_event(|| (self.dev().handle(), number, event.name(), error));
        let (listener, addresses) = match event {
            Event::Request { .. } => match self.deputy() {
                Some(Deputy::Listener(listener)) => (Some(listener), st.both_ends()),
                _ => (None, None),
            },
            _ => (None, None),
        };
        let id = if event.is_last() {
            self.take_cm_id()
        } else {
            self.cm_id()
        };
        Some(Pending {
            event,
            data,
            addresses,
            listener,
            id,
        })
    }

    /// Delivers an event. If that fails, the connection is told.
    pub(super) fn deliver(self: &Arc<Self>, pending: Pending) {
        let input = match pending.deliver(self.number()) {
            Ok(()) => return,
            // The listener is gone. It has ended those without a Request likewise.
            Err(e) if e == ECONNABORTED => Input::Shut,
            Err(_) => Input::Undelivered(pending.event),
        };
        let mut st = self.state.lock();
        if let Some(id) = pending.id.filter(|_| self.cm_id().is_none()) {
            self.set_cm_id(id);
        }
        self.feed(&mut st, input);
    }
}
