// SPDX-License-Identifier: GPL-2.0

//! What a receiver asks its caller to do, one [`Step`] at a time, and what the caller gets to know
//! by it.
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

use crate::proto::failure::Fault;
use crate::proto::reads::ResponseTo;
use crate::proto::segment::Rights;
use crate::proto::sends::Token;
use crate::proto::state::Arrival;
use crate::wire::ddp::{
    Msn,
    Stag, //
};
use crate::wire::rdmap::ImmediateData;

/// The state of the queue pair. It may change at any moment, so it is asked for with each FPDU.
pub(crate) trait Conditions {
    /// Returns what is to be done with a segment that arrives.
    fn arrival(&self) -> Arrival;

    /// Returns what the peer may do.
    fn rights(&self) -> Rights;

    /// Returns whether each ULPDU is traced.
    fn traces(&self) -> bool;
}

/// What the caller is to do next. If a step cannot be done, the caller says so by
/// [`Receiver::refuse`]; otherwise the step counts as done. For steps that only tell of something
/// the caller leaves a note; others act upon it without the receive lock.
///
/// [`Receiver::refuse`]: super::Receiver::refuse
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: the chunk is used up as far as [`Receiver::used`] says, and
    /// [`Receiver::lacks`] says what is needed to go on.
    ///
    /// [`Receiver::used`]: super::Receiver::used
    /// [`Receiver::lacks`]: super::Receiver::lacks
    Pause,
    /// The first FPDU with the right CRC has come in, and is no Terminate that is as it should be.
    /// From now on this side may send: transmission that has waited for it is to go on.
    Heard,
    /// For tracing: the ULPDU of [`Receiver::head`] has come in.
    ///
    /// [`Receiver::head`]: super::Receiver::head
    Ulpdu,
    /// The first segment has passed the protocol's checks, and is no Terminate.
    FirstSegment,
    /// Take the oldest receive, keep its elements for placing, and give it to [`Receiver::give`].
    ///
    /// [`Receiver::give`]: super::Receiver::give
    Receive,
    /// Place [`Receiver::payload`] at [`Receiver::target`]. The payload is not empty, and a receive
    /// has room for it. Refuse this step if the payload may not be placed (then nothing of it has
    /// been placed), or if the memory is not there. If the access is the peer's, the peer is told
    /// the error.
    ///
    /// [`Receiver::payload`]: super::Receiver::payload
    /// [`Receiver::target`]: super::Receiver::target
    Place,
    /// Take in a Send that is one segment, as most short ones are. Do [`Step::Receive`], but give
    /// the receive to [`Receiver::begin_message`]. If that returns true, do [`Step::Place`], tell
    /// [`Receiver::end_message`], and do [`Step::Complete`].
    ///
    /// [`Receiver::begin_message`]: super::Receiver::begin_message
    /// [`Receiver::end_message`]: super::Receiver::end_message
    Message,
    /// Place the payloads of [`Receiver::train`], the first of which belongs at
    /// [`Receiver::target`]: as many as one look-up of the memory allows. If it allows none, place
    /// none: the first segment is then taken in by itself, which shows why. Then tell
    /// [`Receiver::took`].
    ///
    /// [`Receiver::target`]: super::Receiver::target
    /// [`Receiver::train`]: super::Receiver::train
    /// [`Receiver::took`]: super::Receiver::took
    Train,
    /// Complete a receive with [`Receiver::received`]. Refuse this step if the completion queue is
    /// full: that ends the stream (V-CQ-7).
    ///
    /// [`Receiver::received`]: super::Receiver::received
    Complete,
    /// Give the request that a response answers to [`Receiver::responds`].
    ///
    /// [`Receiver::responds`]: super::Receiver::responds
    Response(ResponseTo),
    /// The response of our oldest Read or Atomic Operation is placed.
    ReadDone,
    /// Invalidate an STag (T-7, T-21).
    Invalidate(Invalidation),
    /// Tell [`Receiver::set_quiet`] whether nobody uses the memory of the region that was
    /// invalidated last.
    ///
    /// [`Receiver::set_quiet`]: super::Receiver::set_quiet
    Quiet,
    /// Queue [`Receiver::request`], a Read or Atomic Operation of the peer. Refuse this step if
    /// there is no room for it, or if the peer may not read or change that memory.
    ///
    /// [`Receiver::request`]: super::Receiver::request
    Request,
    /// Data came in although this side is closing.
    DataInClosing,
    /// The peer has ended the stream: see `proto::segment::Action::Terminate`.
    Terminated {
        code: u16,
        read: Option<Msn>,
        placed: Option<u32>,
    },
    /// The stream must end. First complete in error the request or receive to blame
    /// ([`Receiver::blame`]), then take the cause by [`Receiver::failure`].
    ///
    /// [`Receiver::blame`]: super::Receiver::blame
    /// [`Receiver::failure`]: super::Receiver::failure
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalidation {
    /// The STag that the peer names in a Send. If this STag cannot be invalidated, the peer is told
    /// the error.
    ForPeer(Stag),
    /// The STag of the sink of a Read of ours.
    Sink(Stag),
}

/// The request or receive whose completion tells of a failure (T-33).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Blame {
    #[default]
    Nobody,
    /// The receive of this name.
    Receive(u64, Fault),
    /// The request of this token.
    Request(Token, Fault),
}

/// A receive that was taken from its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recv {
    /// The consumer's name for the receive.
    pub(crate) id: u64,
    /// How many octets the receive has room for.
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
    /// Immediate data, beside a message.
    WithImmediate([u8; 4]),
    /// A datagram's sender: the number of its QP.
    FromQp(u32),
    /// A datagram's sender, and immediate data.
    FromQpWithImmediate(u32, [u8; 4]),
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

impl Received {
    /// The value while no receive is complete.
    pub(super) const NONE: Self = Self {
        id: 0,
        len: 0,
        solicited: false,
        extra: Extra::Nothing,
    };
}
