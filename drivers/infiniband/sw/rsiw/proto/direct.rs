// SPDX-License-Identifier: GPL-2.0

//! Two ends of one TCP connection on one host: who they are, when segments go from one to the other
//! without TCP, and what becomes of a segment that does.
//!
//! Two sockets are the two ends of one connection if their addresses say so and each has received
//! what the other has sent, as far as the numbers of TCP tell (RFC 9293 section 3.4): others agree
//! in that by chance only. A segment may go past TCP if nothing that was written to TCP before it
//! is left to be read at the other end. That is looked at each time, so that no direction has to
//! remember which way it goes, and a stream that has fallen back to TCP does not mix both ways.
//!
//! Pure: any context.
#![forbid(unsafe_code)]

/// Where the other end of a connection may be for segments to go past TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Nowhere: everything goes through TCP.
    Nowhere,
    /// In the same network namespace.
    Namespace,
    /// Anywhere on this host.
    Host,
}

impl Scope {
    /// What the administrator's number stands for. One that stands for nothing is that of the
    /// default.
    pub(crate) const fn of(number: u32) -> Self {
        match number {
            0 => Self::Nowhere,
            2 => Self::Host,
            _ => Self::Namespace,
        }
    }
}

/// Sequence numbers of a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// Of the oldest octet that was sent and not acknowledged (`SND.UNA`).
    pub(crate) acknowledged: u32,
    /// Of the octet behind the last that was written, which may not be sent yet.
    pub(crate) written: u32,
    /// Of the octet that is expected next (`RCV.NXT`).
    pub(crate) received: u32,
}

/// Whether two sockets whose addresses fit can be the ends of one connection.
///
/// Other threads send, receive and acknowledge meanwhile. What was acknowledged has to be read
/// before what was received, of both, and that before what was written.
pub(crate) const fn are_two_ends(a: &Numbers, b: &Numbers) -> bool {
    has_received(b, a) && has_received(a, b)
}

/// Whether what `to` has received is what `from` has sent.
const fn has_received(to: &Numbers, from: &Numbers) -> bool {
    let under_way = from.written.wrapping_sub(from.acknowledged);
    let received = to.received.wrapping_sub(from.acknowledged);
    // TCP never has as much as half of the numbers under way.
    under_way <= i32::MAX.unsigned_abs() && received <= under_way
}

/// Whether TCP has nothing for a reader that has read all in front of `read`, and nothing under way
/// to it, when the last octet written by the other end is in front of `written`.
pub(crate) const fn is_empty(written: u32, read: u32) -> bool {
    written == read
}

/// What becomes of a segment for the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedOver {
    /// It is taken in, as it would be from TCP.
    Taken,
    /// The other end has taken in as much as it may at a time; it goes on at once, once it was let
    /// go of.
    Enough,
    /// The other end cannot take it now. The sender is told when it can.
    Later,
    /// There is no other end to be handed to (any more): TCP has to carry it, or to refuse it.
    Gone,
}
