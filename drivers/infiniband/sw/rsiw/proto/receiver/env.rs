// SPDX-License-Identifier: GPL-2.0

//! What a receiver needs of its surroundings, and what it tells them. Softirq or process context,
//! under the receive lock.
#![forbid(unsafe_code)]

use crate::{
    proto::{
        deframer::{
            Budget,
            Chunk,
            Payload,
            Train, //
        },
        failure::{
            Failure,
            Fault, //
        },
        order::Token,
        reads::{
            Inbound,
            OutboundRead,
            OutboundReads, //
        },
        rx::{
            Limits,
            Target, //
        },
        state::QpState, //
    },
    wire::{
        ddp::{
            Msn,
            Stag, //
        },
        rdmap::ImmediateData,
        terminate::TermError, //
    },
};
use core::ops::DerefMut;

/// A receive that was taken from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recv {
    /// The consumer's name for it.
    pub(crate) id: u64,
    /// Octets that it has room for.
    pub(crate) len: u64,
}

/// What a receive tells its consumer besides the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extra {
    #[default]
    Nothing,
    /// The STag that the peer has invalidated.
    Invalidated(Stag),
    /// Immediate Data, instead of a message.
    Immediate(ImmediateData),
}

impl Extra {
    /// Returns what a Send that invalidates this STag tells.
    pub(crate) fn of_send(invalidate: Option<Stag>) -> Self {
        invalidate.map_or(Self::Nothing, Self::Invalidated)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// The consumer's name for the receive.
    pub(crate) id: u64,
    /// Octets of the message.
    pub(crate) len: u32,
    pub(crate) solicited: bool,
    pub(crate) extra: Extra,
}

/// A payload could not be placed, or a sink not be invalidated. What that means for the stream
/// depends on whose memory it is, which the receiver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unplaced;

/// What a receiver needs of its surroundings, which receive octets in chunks `C`. Methods that tell
/// of something leave a note for others to act upon, as the caller holds the receive lock.
pub(crate) trait Env<C>: Limits {
    /// Storage of our Reads under way.
    type Reads: DerefMut<Target = [OutboundRead]>;

    /// Returns the state of the connection, which may be another by now.
    fn state(&self) -> QpState;

    /// Tells that an FPDU with the right CRC has come in. From the first one on this side may send:
    /// transmission that has waited for it is to go on.
    fn fpdu_received(&mut self);

    /// Tells that the first segment has passed the protocol's checks.
    fn first_segment(&mut self);

    /// For tracing: an ULPDU of `len` octets that begins with `head` has come in.
    fn ulpdu_received(&self, _head: &[u8], _len: u16) {}

    /// Tells that data came in although this side is closing.
    fn data_in_closing(&mut self);

    /// Tells that the peer has ended the stream: see `proto::rx::Action::Terminate`.
    fn terminate_received(&mut self, code: u16, read: Option<Msn>);

    /// Tells that the stream must end.
    fn fail(&mut self, failure: Failure);

    /// Places a payload, which is not empty, and for which a receive has room. Fails if that is not
    /// allowed (then nothing has been placed), or if the memory is not there. The error is what
    /// the peer is told, if the access is the peer's.
    fn place(
        &mut self,
        target: Target,
        payload: &Payload<'_, C>,
        budget: &mut Budget,
    ) -> Result<(), TermError>;

    /// Places the payloads of a train, the first of which belongs to `target`: as many as one
    /// look-up of the memory allows. If it allows none, the first segment by itself will find out
    /// why. Fails if the payload that was taken last could not be placed.
    fn place_train(&mut self, target: Target, train: &mut Train<'_, C>) -> Result<(), Unplaced>
    where
        C: Chunk;

    /// Takes the oldest receive, if there is one, and keeps the names of its memory for
    /// [`Env::place`]. Fails if the receive makes no sense.
    fn take_recv(&mut self) -> Result<Option<Recv>, Failure>;

    /// Completes a receive. Fails if the completion queue is full, which ends the stream (V-CQ-7).
    fn complete_recv(&mut self, received: &Received) -> Result<(), Failure>;

    /// Completes a receive in error. Returns whether the completion tells so (T-33).
    fn fail_recv(&mut self, id: u64, fault: Fault) -> bool;

    /// Invalidates an STag for the peer (T-7, T-21); [`Env::is_quiet`] then refers to its region.
    /// Returns what the peer is told if that cannot be.
    fn invalidate_for_peer(&mut self, stag: Stag) -> Result<(), TermError>;

    /// Invalidates the sink of a Read of ours; as [`Env::invalidate_for_peer`].
    fn invalidate_sink(&mut self, stag: Stag) -> Result<(), Unplaced>;

    /// Returns whether nobody uses the memory of the region that was invalidated last.
    fn is_quiet(&self) -> bool;

    /// Has `f` use our Reads and Atomic Operations under way.
    fn with_reads<R>(&mut self, f: impl FnOnce(&mut OutboundReads<Self::Reads>) -> R) -> R;

    /// Tells that the response of our oldest Read is placed; `token` is `None` for the Read that is
    /// a ready-to-receive message.
    fn read_done(&mut self, token: Option<Token>);

    /// Fails a request under way. Returns whether its completion tells so (T-33).
    fn fail_send(&mut self, token: Token, fault: Fault) -> bool;

    /// Queues a Read or Atomic Operation of the peer, if the peer may do that there. Returns the
    /// error for the Terminate if not.
    fn request_received(&mut self, request: Inbound) -> Result<(), TermError>;
}
