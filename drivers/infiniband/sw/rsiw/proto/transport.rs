// SPDX-License-Identifier: GPL-2.0

//! What a sender needs of TCP: a batch of octets that are put together and handed over in one go.
//! And two ends of one TCP connection on one host: who they are, and when segments go from one to
//! the other without TCP.
//!
//! Two sockets are the two ends of one connection if their addresses say so and each has received
//! what the other has sent, as far as the numbers of TCP tell (RFC 9293 section 3.4). Numbers of
//! other sockets fit by chance only. A segment may go past TCP if the other end has read all that
//! was written to TCP before it. That is checked each time. So neither side has to remember which
//! way its segments go, and no segment overtakes another one that goes through TCP.
//!
//! Context: under the lock of the sender.
#![forbid(unsafe_code)]

use super::drain::{
    Marked,
    Stop, //
};
use super::failure::Failure;
use crate::num::Broken;
use crate::wire::fpdu::Crc;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SendFlags {
    /// More follows at once: TCP may hold back a last, short segment.
    pub(crate) more: bool,
    /// Nothing that follows shares a segment with the end of this batch.
    pub(crate) eor: bool,
    /// Nothing shares a segment with the end of what was sent before this batch, if TCP has not
    /// sent that yet.
    pub(crate) cut: bool,
}

/// Why a batch has no room for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// There is no memory now.
    Memory,
    /// The batch has as much as it may have.
    Room,
}

impl Shortage {
    /// Returns how the sender stops for whom there is no room. What is in the batch goes out first.
    pub(super) fn stop(self, transport: &mut impl Transport) -> Stop {
        match self {
            _ if transport.unsent() > 0 => Stop::Again,
            Self::Memory => transport.starve(),
            Self::Room => Failure::defect("an FPDU fits no batch").into(),
        }
    }
}

/// What TCP takes at the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    /// The octets of a segment (EMSS).
    pub(crate) segment_size: u32,
    /// How many octets there is room for in the socket.
    pub(crate) space: usize,
}

/// TCP does not send any more. Whoever returns this has ended the connection; TCP tells of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) Marked);

/// TCP, and a batch in front of it. Octets are copied into the batch once, so a CRC is that of what
/// is sent, even if somebody changes the sources meanwhile.
pub(crate) trait Transport {
    /// A place in the batch, valid until something behind it has left.
    type Mark: Copy;

    /// Returns whether segments go past TCP to the other end of the connection, which is on this
    /// host. Then [`super::sender::Env::hand_over`] takes them there instead of the batch, and
    /// [`Transport::unsent`] counts what was handed over since the last [`Transport::send`], which
    /// lets go of the other end.
    fn is_direct(&self) -> bool;

    /// Returns whether the other end, on this host, has placed what was handed over. It has not if
    /// that has ended the stream.
    fn has_placed(&self) -> bool;

    /// Asks the other end to take the next segment, of which `front` are MPA's length field and the
    /// headers. Returns whether it does, and then the segment has to be handed over; if not, the
    /// other end has gone, and TCP has to carry the segment, or to refuse it. Fails with
    /// [`Stop::Again`] if the other end takes more once it is let go of.
    fn prepare(&mut self, front: &[u8]) -> Result<bool, Stop>;

    /// Returns what TCP, or the other end, takes now. Called before a batch is made.
    fn capacity(&self) -> Capacity;

    /// Returns how many octets of the batch are left to send.
    fn unsent(&self) -> usize;

    /// Makes room for `len` more octets. Called for each FPDU; if several are written at once, for
    /// the first.
    fn reserve(&mut self, len: u32) -> Result<(), Shortage>;

    /// Returns how the sender stops if there is no memory for the next FPDU. It waits for a timer,
    /// as nobody tells when there is memory. If this run may not wait for memory, it leaves the
    /// FPDU to another run, which may.
    fn starve(&mut self) -> Stop;

    /// Returns the place of the next octet.
    fn mark(&self) -> Self::Mark;

    /// Forgets the octets from `mark` on. If something behind `mark` has left, forgets all that is
    /// left to send, and fails.
    fn truncate(&mut self, mark: Self::Mark) -> Result<(), Broken>;

    /// Adds a copy of `octets`. Fails if there is no room; some may have been added then.
    fn put(&mut self, octets: &[u8]) -> Result<(), Broken>;

    /// Lets `write` fill room in one piece for `len` octets, or for up to `count` times as many,
    /// and adds the octets unless `write` fails. Returns `None` if there is no such room.
    fn put_with<R, E: From<Broken>>(
        &mut self,
        len: u32,
        count: u32,
        write: impl FnOnce(&mut [u8]) -> Result<R, E>,
    ) -> Option<Result<R, E>>;

    /// Continues `crc`, a CRC32c, with octets in one piece.
    fn crc32c(crc: u32, octets: &[u8]) -> u32;

    /// Returns the CRC of the octets from `mark` on. Fails if something behind `mark` has left.
    fn crc_since(&self, mark: Self::Mark) -> Result<Crc, Broken>;

    /// Hands as much of the batch to TCP as TCP takes. Returns [`Stop::Empty`] if that is all of
    /// it. Fails if the stream cannot go on, and forgets the batch then.
    fn send(&mut self, how: SendFlags) -> Result<Stop, Refused>;
}

/// A stretch of memory to be sent over `T`.
pub(crate) trait Piece<T>: Sized {
    fn len(&self) -> u32;

    /// Takes the first `len` octets away, or all if there are fewer.
    fn take_front(&mut self, len: u32) -> Self;

    /// Adds a copy to the batch. Fails if that has no room.
    fn put(&self, transport: &mut T) -> Result<(), Broken>;

    /// Copies all of it to `out`. Fails if that has another length.
    fn copy_to(&self, out: &mut [u8]) -> Result<(), Broken>;
}

impl<T: Transport> Piece<T> for &[u8] {
    fn len(&self) -> u32 {
        // A payload has fewer octets than `u32::MAX`; whatever is longer does not fit its FPDU.
        u32::try_from(<[u8]>::len(self)).unwrap_or(u32::MAX)
    }

    fn take_front(&mut self, len: u32) -> Self {
        // CAST: lossless where there are octets to be sent.
        let (front, rest) = self.split_at_checked(len as usize).unwrap_or((self, &[]));
        *self = rest;
        front
    }

    fn put(&self, transport: &mut T) -> Result<(), Broken> {
        transport.put(self)
    }

    #[inline]
    fn copy_to(&self, out: &mut [u8]) -> Result<(), Broken> {
        if out.len() != <[u8]>::len(self) {
            return Err(Broken);
        }
        out.copy_from_slice(self);
        Ok(())
    }
}

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
    /// The number of the oldest octet that is not acknowledged (`SND.UNA`).
    pub(crate) acknowledged: u32,
    /// The number of the octet behind the last one written, which may not be sent yet.
    pub(crate) written: u32,
    /// The number of the octet that is expected next (`RCV.NXT`).
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
