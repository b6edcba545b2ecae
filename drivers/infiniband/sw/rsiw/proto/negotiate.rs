// SPDX-License-Identifier: GPL-2.0

//! Read depths and ready-to-receive messages in enhanced set-up (RFC 6581 section 9). Pure
//! functions, any context. Depths that a peer names are capped here, before anything is allocated
//! for them (T-29).
#![forbid(unsafe_code)]

use super::message::Rtr;
use crate::wire::mpa::{
    RtrSet,
    NO_NEGOTIATION, //
};
use crate::wire::terminate::TermError;

/// Read depths, from the view of whoever names them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depths {
    /// Inbound: Reads that the peer may have outstanding here.
    pub(crate) ird: u16,
    /// Outbound: Reads that may be outstanding at the peer.
    pub(crate) ord: u16,
}

impl Depths {
    #[must_use]
    pub(crate) fn capped(self, cap: Depths) -> Depths {
        Depths {
            ird: self.ird.min(cap.ird),
            ord: self.ord.min(cap.ord),
        }
    }
}

/// IRD and ORD as an iw_cm event carries them, cut to 8 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventDepths {
    pub(crate) ird: u8,
    pub(crate) ord: u8,
}

fn event_field(depth: u16, own: u16) -> u8 {
    let depth = if depth == NO_NEGOTIATION { own } else { depth };
    u8::try_from(depth).unwrap_or(u8::MAX)
}

/// Returns the depths for a CONNECT_REQUEST: the peer's IRD as `ird`, its ORD as `ord` (T-30). If
/// the peer does not negotiate, the limits `cap` of this device stand in: the consumer may take as
/// much as the device can do.
pub(crate) fn connect_request_event(peer: Option<Depths>, cap: Depths) -> EventDepths {
    let peer = peer.unwrap_or(Depths {
        ird: cap.ord,
        ord: cap.ird,
    });
    EventDepths {
        ird: event_field(peer.ird, cap.ord),
        ord: event_field(peer.ord, cap.ird),
    }
}

/// Returns the depths for a CONNECT_REPLY: the responder's ORD as `ird`, its IRD as `ord`, which
/// consumers in the kernel rely on. If the responder does not negotiate, this side's own values
/// stand in.
pub(crate) fn connect_reply_event(reply: Option<Depths>, own: Depths) -> EventDepths {
    let reply = reply.unwrap_or(Depths {
        ird: own.ord,
        ord: own.ird,
    });
    EventDepths {
        ird: event_field(reply.ord, own.ird),
        ord: event_field(reply.ird, own.ord),
    }
}

/// Returns the responder's own depths and those of its Reply. `want` is what the consumer accepted
/// with, `request` what the Request says, `cap` the limits of the device.
///
/// The responder's ORD is at most the initiator's IRD, and its IRD at least the initiator's ORD
/// (RFC 6581 section 9.1, X-ENH-7), as far as the device can; if it cannot, the initiator lowers
/// its ORD. If the initiator does not negotiate a depth, the Reply does not negotiate it either,
/// and the responder keeps its own value (X-ENH-11).
pub(crate) fn responder(want: Depths, request: Depths, cap: Depths) -> (Depths, Depths) {
    let mut own = want.capped(cap);
    let mut reply = Depths {
        ird: NO_NEGOTIATION,
        ord: NO_NEGOTIATION,
    };
    if request.ird != NO_NEGOTIATION {
        own.ord = own.ord.min(request.ird);
        reply.ord = own.ord;
    }
    if request.ord != NO_NEGOTIATION {
        own.ird = own.ird.max(request.ord).min(cap.ird);
        reply.ird = own.ird;
    }
    (own, reply)
}

/// Returns the initiator's own depths, given the Reply (X-ENH-8, X-ENH-11). Fails if the responder
/// wants more Reads outstanding than this device can take (RFC 6581 section 9.1, X-ENH-9).
pub(crate) fn initiator(want: Depths, reply: Depths, cap: Depths) -> Result<Depths, TermError> {
    let mut own = want.capped(cap);
    if reply.ird != NO_NEGOTIATION {
        own.ord = own.ord.min(reply.ird);
    }
    if reply.ord != NO_NEGOTIATION {
        if reply.ord > cap.ird {
            return Err(TermError::MpaInsufficientIrd);
        }
        own.ird = own.ird.max(reply.ord);
    }
    Ok(own)
}

/// Returns a responder's answer to the ready-to-receive messages on offer: those that both sides
/// can do. If there are none, returns all that the responder can do (RFC 6581 section 9.2,
/// X-ENH-14).
pub(crate) fn answer_rtr(own: RtrSet, offer: RtrSet) -> RtrSet {
    let common = own.common(offer);
    if common.is_empty() {
        own
    } else {
        common
    }
}

/// Chooses the ready-to-receive message of an initiator. A Write needs no resources at either side,
/// a Read needs some, a Send a message number on the receive queue. Fails if there is none that
/// both can do (RFC 6581 section 9.2, X-ENH-16).
pub(crate) fn choose_rtr(own: RtrSet, answer: RtrSet) -> Result<Rtr, TermError> {
    match own.common(answer) {
        RtrSet { write: true, .. } => Ok(Rtr::Write),
        RtrSet { read: true, .. } => Ok(Rtr::Read),
        RtrSet { send: true, .. } => Ok(Rtr::Send),
        _ => Err(TermError::MpaNoMatchingRtr),
    }
}
