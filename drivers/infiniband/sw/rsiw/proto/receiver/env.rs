// SPDX-License-Identifier: GPL-2.0

//! What a receiver needs of its surroundings, and what it tells them.
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

use crate::proto::budget::Budget;
use crate::proto::chunk::{
    Chunk,
    Payload, //
};
use crate::proto::failure::{
    Failure,
    Fault, //
};
use crate::proto::order::Token;
use crate::proto::reads::{
    Inbound,
    OutboundRead,
    OutboundReads, //
};
use crate::proto::rx::{
    Limits,
    Target, //
};
use crate::proto::state::QpState;
use crate::proto::train::Train;
use crate::wire::ddp::{
    Msn,
    Stag, //
};
use crate::wire::rdmap::ImmediateData;
use crate::wire::terminate::TermError;
use core::ops::DerefMut;

/// A receive that was taken from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recv {
    /// The consumer's name for it.
    pub(crate) id: u64,
    /// Octets that it has room for.
    pub(crate) len: u64,
}

/// What a receive tells its consumer beside the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extra {
    /// Nothing.
    #[default]
    Nothing,
    /// The STag that the peer has invalidated.
    Invalidated(Stag),
    /// Immediate Data, instead of a message.
    Immediate(ImmediateData),
}

impl Extra {
    /// What a Send that invalidates this tells.
    pub(crate) fn of_send(invalidate: Option<Stag>) -> Self {
        invalidate.map_or(Self::Nothing, Self::Invalidated)
    }
}

/// A message that a receive has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// The consumer's name for the receive.
    pub(crate) id: u64,
    /// Octets of the message.
    pub(crate) len: u32,
    /// The peer asks for an event.
    pub(crate) solicited: bool,
    /// What else there is to tell.
    pub(crate) extra: Extra,
}

/// A payload could not be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unplaced;

/// What a receiver needs of its surroundings, which receive octets in chunks `C`.
///
/// The methods that tell of something leave a note for others to act upon: the caller holds the
/// receive lock.
pub(crate) trait Env<C>: Limits {
    /// What keeps our Reads under way.
    type Reads: DerefMut<Target = [OutboundRead]>;

    /// The state of the connection, which may be another by now.
    fn state(&self) -> QpState;

    /// An FPDU has come in, whose CRC is right: this side may send.
    fn fpdu_received(&mut self);

    /// The first segment has passed the protocol's checks.
    fn first_segment(&mut self);

    /// An ULPDU of `len` octets has come in that begins with `head`; for who wants to know.
    fn ulpdu_received(&self, _head: &[u8], _len: u16) {}

    /// Data came in although this side is closing.
    fn data_in_closing(&mut self);

    /// The peer has ended the stream: see [`Action::Terminate`].
    fn terminate_received(&mut self, code: u16, read: Option<Msn>);

    /// The stream must end.
    fn fail(&mut self, failure: Failure);

    /// Places a payload, which is not empty, if that is allowed there. A receive has room for it.
    ///
    /// # Errors
    ///
    /// It is not allowed: how the peer is told, if it is the peer's. Nothing has been placed. Or the
    /// memory is not there.
    fn place(
        &mut self,
        target: Target,
        payload: &Payload<'_, C>,
        budget: &mut Budget,
    ) -> Result<(), TermError>;

    /// Places the payloads of a train, the first of which belongs to `target`, as many as the memory
    /// allows for without another question. None is placed where it does not, which is found out
    /// with the first segment by itself then.
    ///
    /// # Errors
    ///
    /// The payload that was taken last could not be placed.
    fn place_train(&mut self, target: Target, train: &mut Train<'_, C>) -> Result<(), Unplaced>
    where
        C: Chunk;

    /// Takes the oldest receive, and keeps the names of its memory for [`Env::place`]. `None` if there
    /// is none.
    ///
    /// # Errors
    ///
    /// It makes no sense.
    fn take_recv(&mut self) -> Result<Option<Recv>, Failure>;

    /// Completes a receive.
    ///
    /// # Errors
    ///
    /// The completion queue is full, which ends the stream (V-CQ-7).
    fn complete_recv(&mut self, received: &Received) -> Result<(), Failure>;

    /// Completes a receive in error. Returns whether the completion tells so (T-33).
    fn fail_recv(&mut self, id: u64, fault: Fault) -> bool;

    /// Invalidates an STag for the peer (T-7, T-21). The region is asked for by [`Env::is_quiet`].
    ///
    /// # Errors
    ///
    /// How the peer is told that it cannot.
    fn invalidate_for_peer(&mut self, stag: Stag) -> Result<(), TermError>;

    /// Invalidates the sink of a Read of ours; as [`Env::invalidate_for_peer`].
    ///
    /// # Errors
    ///
    /// It cannot.
    fn invalidate_sink(&mut self, stag: Stag) -> Result<(), Unplaced>;

    /// Whether nobody uses the memory of the region that was invalidated last.
    fn is_quiet(&self) -> bool;

    /// Has `f` use our Reads and Atomic Operations under way.
    fn with_reads<R>(&mut self, f: impl FnOnce(&mut OutboundReads<Self::Reads>) -> R) -> R;

    /// The response of our oldest Read is placed; `None` for one that is no request's.
    fn read_done(&mut self, token: Option<Token>);

    /// A request under way failed. Returns whether its completion tells so (T-33).
    fn fail_send(&mut self, token: Token, fault: Fault) -> bool;

    /// Queues a Read or an Atomic Operation of the peer, if the peer may do that there.
    ///
    /// # Errors
    ///
    /// What the Terminate has to say.
    fn request_received(&mut self, request: Inbound) -> Result<(), TermError>;
}
