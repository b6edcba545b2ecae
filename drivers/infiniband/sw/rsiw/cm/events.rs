// SPDX-License-Identifier: GPL-2.0

//! The events that an endpoint owes iw_cm.
//!
//! Each kind occurs once in the life of a connection, and in the order of [`Outbox::next`]. The
//! core has assertions about that: an established event for each successful accept, a reply for
//! each successful connect, exactly one close event after either, and none of them otherwise.
#![forbid(unsafe_code)]

use super::listen::Listener;
use crate::{
    ffi::iwcm::{
        Addresses,
        CmId,
        Depths,
        Event,
        MAX_EVENT_DATA, //
    },
    proto::negotiate::EventDepths, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A copy of private data.
pub(super) fn copy(data: &[u8]) -> Result<KVec<u8>> {
    let mut copy = KVec::from_elem(0, data.len(), GFP_KERNEL_ACCOUNT)?;
    for (to, from) in copy.iter_mut().zip(data) {
        *to = *from;
    }
    Ok(copy)
}

/// Private data for an event, cut to what one can tell (T-10).
pub(super) fn private_data(data: &[u8]) -> Result<KVec<u8>> {
    copy(data.get(..MAX_EVENT_DATA).unwrap_or(data))
}

/// Read depths for an event.
pub(super) fn event_depths(depths: EventDepths) -> Depths {
    Depths {
        ird: depths.ird,
        ord: depths.ord,
    }
}

/// A connection request, for the consumer of the listener.
pub(super) struct Request {
    pub(super) listener: Arc<Listener>,
    pub(super) addresses: Addresses,
    pub(super) depths: Depths,
    pub(super) data: KVec<u8>,
}

/// The end of a connect.
pub(super) struct Reply {
    /// Why there is no connection.
    pub(super) error: Option<Error>,
    pub(super) addresses: Option<Addresses>,
    pub(super) depths: Depths,
    pub(super) data: KVec<u8>,
}

impl Reply {
    /// There is no connection.
    pub(super) fn failed(error: Error) -> Self {
        Self {
            error: Some(error),
            addresses: None,
            depths: Depths::default(),
            data: KVec::new(),
        }
    }
}

/// The end of an accept.
#[derive(Clone, Copy)]
pub(super) struct Established {
    /// Why the connection is dead already.
    pub(super) error: Option<Error>,
    pub(super) depths: Depths,
}

/// One event to be delivered.
pub(super) enum Pending {
    Request(Request),
    Reply(Reply),
    Established(Established),
    Disconnect,
    Close,
}

impl Pending {
    /// Hands the event to iw_cm; `id` is that of the connection, `number` the endpoint's. No lock
    /// may be held.
    pub(super) fn deliver(&self, id: Option<&CmId>, number: usize) -> Result {
        let event = match self {
            Pending::Request(request) => {
                let event = Event::ConnectRequest {
                    number,
                    addresses: request.addresses,
                    depths: request.depths,
                    private_data: &request.data,
                };
                return request.listener.deliver(&event);
            }
            Pending::Reply(reply) => Event::ConnectReply {
                error: reply.error,
                addresses: reply.addresses,
                depths: reply.depths,
                private_data: &reply.data,
            },
            Pending::Established(established) => Event::Established {
                error: established.error,
                depths: established.depths,
            },
            Pending::Disconnect => Event::Disconnect,
            Pending::Close => Event::Close,
        };
        id.ok_or(EINVAL)?.deliver(&event)
    }

    /// Whether nothing may follow this event.
    pub(super) fn is_last(&self) -> bool {
        match self {
            Pending::Reply(reply) => reply.error.is_some(),
            Pending::Close => true,
            _ => false,
        }
    }
}

/// Events that wait to be delivered.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) request: Option<Request>,
    pub(super) reply: Option<Reply>,
    pub(super) established: Option<Established>,
    pub(super) disconnect: bool,
    pub(super) close: bool,
}

impl Outbox {
    /// The next event.
    pub(super) fn next(&mut self) -> Option<Pending> {
        if let Some(request) = self.request.take() {
            return Some(Pending::Request(request));
        }
        if let Some(reply) = self.reply.take() {
            return Some(Pending::Reply(reply));
        }
        if let Some(established) = self.established.take() {
            return Some(Pending::Established(established));
        }
        if core::mem::take(&mut self.disconnect) {
            return Some(Pending::Disconnect);
        }
        core::mem::take(&mut self.close).then_some(Pending::Close)
    }
}
