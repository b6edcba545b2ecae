// SPDX-License-Identifier: GPL-2.0

//! Two ends of one TCP connection on one host: who they are, and when segments go from one to the
//! other without TCP. Pure: any context.
//!
//! Two sockets are the two ends of one connection if their addresses say so and each has received
//! what the other has sent, as far as the numbers of TCP tell (RFC 9293 section 3.4): others agree
//! in that by chance only. A segment may go past TCP if the other end has read all that was written
//! to TCP before it. That is checked each time, so that neither side has to remember which way its
//! segments go, and none overtakes another that goes through TCP.
#![forbid(unsafe_code)]

/// Where the other end of a connection may be for segments to go past TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Nowhere,
    Namespace,
    Host,
}

impl Scope {
    /// Returns the scope for the administrator's number; any unknown number is the default.
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
    /// Of the oldest octet that is not acknowledged (`SND.UNA`).
    pub(crate) acknowledged: u32,
    /// Of the octet behind the last one written, which may not be sent yet.
    pub(crate) written: u32,
    /// Of the octet that is expected next (`RCV.NXT`).
    pub(crate) received: u32,
}

/// Returns whether two sockets whose addresses fit can be the ends of one connection. Other threads
/// send, receive and acknowledge meanwhile: the caller has to read, of both sockets, first what was
/// acknowledged, then what was received, then what was written.
pub(crate) const fn are_two_ends(a: &Numbers, b: &Numbers) -> bool {
    has_received(b, a) && has_received(a, b)
}

/// Returns whether what `to` has received can be what `from` has sent.
const fn has_received(to: &Numbers, from: &Numbers) -> bool {
    let under_way = from.written.wrapping_sub(from.acknowledged);
    let received = to.received.wrapping_sub(from.acknowledged);
    // TCP never has as much as half of the numbers under way.
    under_way <= i32::MAX.unsigned_abs() && received <= under_way
}

/// Returns whether all that was written to TCP is read: `written` is the number of the octet that
/// is written next, `read` that of the octet that the other end reads next.
pub(crate) const fn is_empty(written: u32, read: u32) -> bool {
    written == read
}
