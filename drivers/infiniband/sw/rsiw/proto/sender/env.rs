// SPDX-License-Identifier: GPL-2.0

//! What a sender needs of its surroundings. Its methods are called under the lock of the sender.
#![forbid(unsafe_code)]

use crate::proto::drain::Marked;
use crate::proto::failure::Fault;
use crate::proto::frame::Writer;
use crate::proto::reads::{
    Inbound,
    InboundReads,
    OutboundRead, //
};
use crate::proto::request::{
    BadRequest,
    Request,
    Sink, //
};
use crate::proto::sends::{
    Record,
    Sends,
    Token, //
};
use crate::proto::transport::{
    Broken,
    Transport, //
};
use crate::proto::tx::{
    self,
    Message, //
};
use crate::wire::atomic::{
    AtomicOperation,
    AtomicRequest, //
};
use crate::wire::ddp::Stag;
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::{
    TermError,
    Terminate, //
};
use core::ops::DerefMut;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadError {
    /// The memory is not there: the kernel's own, which its owner names without having it.
    NoMemory,
    /// The surroundings have lost count.
    Broken,
}

impl From<Broken> for PayloadError {
    fn from(Broken: Broken) -> Self {
        PayloadError::Broken
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum OpenError {
    /// Its completion has to say so.
    Fault(Fault),
    /// The surroundings have lost count.
    Defect(&'static str),
}

/// Why a request that is not sent was not carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NotDone {
    /// Its completion has to say so.
    Fault(Fault),
    /// It would have to wait for others, which this run may not do. Nothing has changed.
    Later,
}

impl From<Fault> for NotDone {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

pub(crate) trait Atomics {
    /// Returns the operands of the Atomic Operation that was peeked at last.
    fn operands(&self) -> Option<AtomicOperation>;

    /// Carries out an Atomic Operation of the peer, if the peer may do that there, so that nobody
    /// else changes the word meanwhile. Returns what it was before, or how the peer is told that
    /// nothing was changed.
    fn change_word(&mut self, request: &AtomicRequest) -> Result<u64, TermError>;
}

/// What a sender needs of its surroundings, which send over `T`.
pub(crate) trait Env<T: Transport>: Atomics {
    /// What is needed to complete a request.
    type Work: Copy;
    /// Storage of the records of [`Sends`].
    type Records: DerefMut<Target = [Record<Self::Work, Fault>]>;
    /// Storage of [`Sends::outbound`].
    type Outbound: DerefMut<Target = [OutboundRead]>;
    /// Storage of the peer's Reads.
    type Inbound: DerefMut<Target = [Inbound]>;

    /// Returns the oldest request of the send queue, which stays there. The surroundings keep the
    /// names of its memory, or its octets, and its operands, until they are asked for another.
    fn peek(&mut self) -> Option<Peeked<T, Self>>;

    /// Takes the oldest request out, so that its slot is free.
    fn consume(&mut self);

    /// Returns the first element of the request that was peeked at.
    fn sink(&self) -> Option<Sink>;

    /// Returns whether this side may write all of `sink`, which is not empty (T-22).
    fn may_write(&self, sink: &Sink) -> bool;

    /// Calls `f` with the requests under way, locked.
    fn with_sends<R>(&self, f: impl FnOnce(&mut Sends<Self::Records, Self::Outbound>) -> R) -> R;

    /// Returns the oldest request of the peer. May miss one that comes at this moment; the receiver
    /// has a work item send afterwards.
    fn oldest_inbound(&self) -> Option<Inbound>;

    /// Calls `f` with the peer's requests, locked.
    fn with_inbound<R>(&self, f: impl FnOnce(&mut InboundReads<Self::Inbound>) -> R) -> R;

    /// Completes what is due, as TCP has all of these requests.
    fn done(&mut self, tokens: &[Token]);

    /// Fails a request under way. Returns whether its completion tells so (T-33).
    fn fail(&mut self, token: Token, fault: Fault) -> bool;

    /// Fails a request that has not begun. Returns whether its completion tells so.
    fn fail_new(&mut self, work: Self::Work, fault: Fault) -> bool;

    /// Invalidates an STag (V-INV). When this returns, nobody uses its memory.
    fn invalidate(&mut self, stag: Stag) -> Result<(), NotDone>;

    /// Carries out the fast registration that was peeked at last (V-MR-17, V-MR-18).
    fn register(&mut self) -> Result<(), NotDone>;

    /// Carries out the bind of a window that was peeked at last (V-MW-2, V-MW-4).
    fn bind(&mut self) -> Result<(), NotDone>;

    /// Checks that the memory of the current request may be read, and keeps it readable until
    /// [`Env::close`]. Memory of earlier messages may stay open until then, too.
    fn open_request(&mut self) -> Result<(), OpenError>;

    /// Does the same for the source of a Read of the peer, which is not empty. Returns what the
    /// peer is told if it may not be read.
    fn open_source(&mut self, request: &ReadRequest) -> Result<(), TermError>;

    /// Lets go of all memory that was opened.
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
        frame: &tx::Frame,
    ) -> Result<(), PayloadError>;

    /// Has the sender wait unless an FPDU of the peer has come in.
    fn heard_of_peer(&self) -> Result<(), Marked>;

    /// For tracing: the FPDU of `frame` and those behind it that are alike, `count` in all, are in
    /// the batch.
    fn fpdus_made(&self, _message: &Message, _frame: &tx::Frame, _count: u32) {}

    /// For tracing: a Terminate is in the batch.
    fn terminate_made(&self, _message: &Terminate) {}

    /// Sends a FIN that is wanted, as TCP has all that is in front of it; with `has_spoken`, once
    /// the peer has acknowledged that.
    fn finish(&mut self, transport: &mut T, has_spoken: bool);
}

pub(crate) type Peeked<T, E> =
    Result<Request<<E as Env<T>>::Work>, BadRequest<<E as Env<T>>::Work>>;
