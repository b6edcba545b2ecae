// SPDX-License-Identifier: GPL-2.0

//! What a sender needs of its surroundings. Its methods are called under the lock of the sender.
#![forbid(unsafe_code)]

use crate::num::Broken;
use crate::proto::failure::{
    Failure,
    Fault, //
};
use crate::proto::frame::Writer;
use crate::proto::message::{
    self,
    Message, //
};
use crate::proto::reads::{
    Inbound,
    InboundReads,
    OutboundRead, //
};
use crate::proto::request::{
    BadRequest,
    Local,
    Request,
    Sink, //
};
use crate::proto::sends::{
    Record,
    Sends,
    Token, //
};
use crate::proto::transport::Transport;
use crate::wire::atomic::{
    AtomicOperation,
    AtomicRequest, //
};
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::{
    TermError,
    Terminate, //
};
use core::ops::DerefMut;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadError {
    /// The memory is not there: a consumer in the kernel has named memory that does not exist.
    NoMemory,
    /// A defect: what the surroundings know does not fit together.
    Broken,
}

impl From<Broken> for PayloadError {
    fn from(Broken: Broken) -> Self {
        PayloadError::Broken
    }
}

/// A message whose source is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SourceOf<'a> {
    /// The request that was peeked at last.
    Request,
    /// The Read Response to this Read of the peer, which is not empty.
    Response(&'a ReadRequest),
}

/// Why a source is not open.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OpenError {
    /// The source may not be read. If the peer has named it, the peer is told this error.
    Denied(TermError),
    /// A defect: what the surroundings know does not fit together.
    Defect(&'static str),
}

impl OpenError {
    /// Returns how the stream ends: as `denied` says if the source may not be read.
    #[cold]
    pub(super) fn ends(self, denied: impl FnOnce(TermError) -> Failure) -> Failure {
        match self {
            Self::Denied(error) => denied(error),
            Self::Defect(what) => Failure::defect(what),
        }
    }
}

/// Why a request that is not sent was not carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotDone {
    /// The completion of the request has to say so.
    Fault(Fault),
    /// The operation would have to wait for others, which this run may not do. Nothing has changed.
    Later,
}

impl From<Fault> for NotDone {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What has just been put into the batch, or handed over.
pub(crate) enum Traced<'a> {
    /// The FPDU of `frame` and equally long ones behind it, `count` in all.
    Fpdus {
        message: &'a Message,
        frame: &'a message::Frame,
        count: u32,
    },
    Terminate(&'a Terminate),
}

/// What a sender needs of its surroundings, which send over `T`.
pub(crate) trait Env<T: Transport> {
    /// What is needed to complete a request.
    type Work: Copy;
    /// Storage of the records of [`Sends`].
    type Records: DerefMut<Target = [Record<Self::Work, Fault>]>;
    /// Storage of [`Sends::outbound`].
    type Outbound: DerefMut<Target = [OutboundRead]>;
    /// Storage of the peer's Reads.
    type Inbound: DerefMut<Target = [Inbound]>;

    /// Returns the oldest request of the send queue, which stays there. The surroundings keep its
    /// elements or octets, and its operands, until they are asked for another request.
    fn peek(&mut self) -> Option<Peeked<T, Self>>;

    /// Takes the oldest request out, so that its slot is free. Called once it is recorded as under
    /// way, or is to complete in error.
    fn consume(&mut self);

    /// Returns the operands of the Atomic Operation that was peeked at last.
    fn operands(&self) -> Option<AtomicOperation>;

    /// Returns the first element of the Read or Atomic Operation that was peeked at last, to which
    /// the response goes, or `None` if it has no element. Fails if this side may not write all of
    /// it (T-22).
    fn sink(&self) -> Result<Option<Sink>, Fault>;

    /// Calls `f` with the requests under way, locked.
    fn with_sends<R>(&self, f: impl FnOnce(&mut Sends<Self::Records, Self::Outbound>) -> R) -> R;

    /// Calls `f` with the peer's requests, locked, and returns what `f` returns; `None` if there
    /// are no requests. A request that comes at this moment may be missed; after it, the receiver
    /// makes a work item send.
    fn with_inbound<R>(
        &self,
        f: impl FnOnce(&mut InboundReads<Self::Inbound>) -> Option<R>,
    ) -> Option<R>;

    /// Records that TCP has all of these requests, or that they are carried out. Completes what is
    /// due.
    fn done(&mut self, tokens: &[Token]);

    /// Fails a request under way. Returns whether its completion tells of the failure (T-33).
    fn fail(&mut self, token: Token, fault: Fault) -> bool;

    /// Carries out the local operation that was peeked at last (V-INV, V-MR-17, V-MR-18, V-MW-2,
    /// V-MW-4). When it has invalidated an STag, nobody uses that memory.
    fn perform(&mut self, operation: Local) -> Result<(), NotDone>;

    /// Carries out an Atomic Operation of the peer, if the peer may do that there. Nobody else
    /// changes the word meanwhile. Returns the word from before, or the error that the peer is
    /// told; nothing was changed then.
    fn change_word(&mut self, request: &AtomicRequest) -> Result<u64, TermError>;

    /// Checks that the source of a message that begins or goes on may be read, and keeps it
    /// readable until [`Env::close`]. Sources of earlier messages may stay open until then, too.
    fn open(&mut self, source: SourceOf<'_>) -> Result<(), OpenError>;

    /// Lets go of all memory that was opened: at the end of a run, and before a local operation.
    fn close(&mut self);

    /// Writes `len` octets of the current message, which is open, from `offset` on.
    fn payload(
        &self,
        offset: u32,
        len: u32,
        writer: &mut Writer<'_, T>,
    ) -> Result<(), PayloadError>;

    /// Hands a segment to the other end of the connection, on this host: `front`, which is MPA's
    /// length field and the headers, and the payload of the current message that `frame` names. The
    /// message is open, and the other end takes the segment, as [`Transport::prepare`] has just
    /// returned. Fails if the memory of the message is not there.
    fn hand_over(
        &self,
        transport: &mut T,
        front: &[u8],
        frame: &message::Frame,
    ) -> Result<(), PayloadError>;

    /// Traces what was made, if somebody wants that.
    fn trace(&self, _what: Traced<'_>) {}
}

pub(crate) type Peeked<T, E> =
    Result<Request<<E as Env<T>>::Work>, BadRequest<<E as Env<T>>::Work>>;
