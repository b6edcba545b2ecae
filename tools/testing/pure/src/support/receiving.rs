// SPDX-License-Identifier: GPL-2.0

//! A receiver whose surroundings do what a test says, good or bad, and check what is asked of them.

use super::crc::crc32c;
use super::limits::{Fixed, ALL};
use super::peer::recv::{octets, Piece};
use super::trains::place_each;
use crate::proto::budget::Budget;
use crate::proto::chunk::{Payload, Reach};
use crate::proto::conn::Params;
use crate::proto::failure::{Failure, Fault};
use crate::proto::order::Token;
use crate::proto::reads::{OutboundRead, OutboundReads, Response};
use crate::proto::receiver::{Atomics, Env, Received, Receiver, Recv, Unplaced};
use crate::proto::rx::{Going, Limits};
use crate::proto::state::QpState;
use crate::proto::train::Train;
use crate::support::tuning::SOFTIRQ;
use crate::wire::atomic::AtomicRequest;
use crate::wire::ddp::{Msn, Stag, TaggedOffset};
use crate::wire::fpdu::MAX_FPDU;
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::TermError;
use std::collections::VecDeque;

/// What a receiver did, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    FirstFpdu,
    FirstSegment,
    DataInClosing,
    Terminated(u16, Option<Msn>),
    Failed(TermError),
    Write(Stag, TaggedOffset, Vec<u8>),
    Response(Stag, TaggedOffset, Vec<u8>),
    Completed(Received),
    FailedRecv(u64, Fault),
    Invalidated(Stag),
    ReadDone(Option<Token>),
    FailedSend(Token, Fault),
    ReadRequest(Msn, ReadRequest),
    AtomicRequest(Msn, AtomicRequest),
    Result(Stag, TaggedOffset, u64),
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// A Write may not be placed,
    pub(crate) write: Option<TermError>,
    /// nor a Read Response or a result,
    pub(crate) response: bool,
    /// which turns out only when a train is placed,
    pub(crate) late: bool,
    /// nor a Send.
    pub(crate) recv: bool,
    /// The peer may not invalidate.
    pub(crate) invalidate: Option<TermError>,
    /// The sink of a Read cannot be invalidated.
    pub(crate) sink: bool,
    /// The completion queue is full.
    pub(crate) cq_is_full: bool,
    /// The peer may not read, nor change a word.
    pub(crate) read: Option<TermError>,
}

/// A receive that a message is placed into.
#[derive(Clone, Copy, Debug)]
struct Open {
    recv: Recv,
    placed: u32,
}

/// What a receiver finds around it.
pub(crate) struct Around {
    pub(crate) state: QpState,
    pub(crate) limits: Fixed,
    pub(crate) faults: Faults,
    /// Receives, by what they have room for; `None` makes no sense.
    pub(crate) recvs: VecDeque<Option<u64>>,
    next: u64,
    open: Option<Open>,
    /// The message that was placed last.
    pub(crate) message: Vec<u8>,
    pub(crate) outbound: OutboundReads<Vec<OutboundRead>>,
    /// Nobody uses what is invalidated.
    pub(crate) quiet: bool,
    /// Something is invalidated, and what it was for has not completed.
    invalidated: bool,
    did: Vec<Did>,
    /// Segments that were placed behind another one without a look at more than their headers.
    pub(crate) in_trains: u32,
    heard: bool,
    first: bool,
    /// Nothing may happen any more.
    over: bool,
    pub(crate) failure: Option<Failure>,
}

impl Around {
    fn tell(&mut self, did: Did) {
        assert!(!self.over, "{did:?} behind the end");
        assert!(self.heard || did == Did::FirstFpdu || matches!(did, Did::Failed(_)));
        self.did.push(did);
    }

    /// A receive is through.
    fn close(&mut self, id: u64) -> Open {
        let open = self.open.take().expect("a receive in progress");
        assert_eq!(open.recv.id, id);
        open
    }

    /// What is done behind an invalidation.
    fn end_invalidation(&mut self) {
        let waited = std::mem::take(&mut self.invalidated);
        assert!(!waited || self.quiet, "somebody uses the memory still");
    }
}

impl Limits for Around {
    fn may_read(&self) -> bool {
        self.limits.read
    }

    fn may_write(&self) -> bool {
        self.limits.write
    }

    fn may_atomic(&self) -> bool {
        self.limits.atomic
    }

    fn has_read_room(&self) -> bool {
        self.limits.read_room
    }

    fn may_take_immediate(&self) -> bool {
        self.limits.immediate
    }
}

impl Atomics for Around {
    fn atomic_request(&mut self, msn: Msn, request: AtomicRequest) -> Result<(), TermError> {
        if let Some(error) = self.faults.read {
            return Err(error);
        }
        self.tell(Did::AtomicRequest(msn, request));
        Ok(())
    }

    fn atomic_response(&mut self, id: u32) -> Result<Response, TermError> {
        self.outbound.atomic_response(id)
    }

    fn place_result(&mut self, stag: Stag, to: TaggedOffset, result: u64) -> Result<(), Unplaced> {
        if self.faults.response {
            return Err(Unplaced);
        }
        self.tell(Did::Result(stag, to, result));
        Ok(())
    }
}

impl<'c> Env<Piece<'c>> for Around {
    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }

    fn state(&self) -> QpState {
        self.state
    }

    fn fpdu_received(&mut self) {
        if !std::mem::replace(&mut self.heard, true) {
            self.tell(Did::FirstFpdu);
        }
    }

    fn first_segment(&mut self) {
        assert!(!std::mem::replace(&mut self.first, true), "told twice");
        self.tell(Did::FirstSegment);
    }

    fn data_in_closing(&mut self) {
        assert_eq!(self.state, QpState::Closing);
        self.tell(Did::DataInClosing);
        self.over = true;
    }

    fn terminate_received(&mut self, code: u16, read: Option<Msn>) {
        self.tell(Did::Terminated(code, read));
        self.over = true;
    }

    fn fail(&mut self, failure: Failure) {
        self.tell(Did::Failed(failure.error));
        self.over = true;
        self.failure = Some(failure);
    }

    fn place_write(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        payload: &Payload<'_, Piece<'c>>,
        budget: &mut Budget,
    ) -> Result<(), TermError> {
        budget.piece();
        assert!(payload.len > 0);
        if let Some(error) = self.faults.write {
            return Err(error);
        }
        self.tell(Did::Write(stag, to, octets(payload).to_vec()));
        Ok(())
    }

    fn place_response(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        payload: &Payload<'_, Piece<'c>>,
        budget: &mut Budget,
    ) -> Result<(), Unplaced> {
        budget.piece();
        assert!(payload.len > 0);
        if self.faults.response {
            return Err(Unplaced);
        }
        self.tell(Did::Response(stag, to, octets(payload).to_vec()));
        Ok(())
    }

    fn place_train(
        &mut self,
        going: Going,
        train: &mut Train<'_, Piece<'c>>,
    ) -> Result<(), Unplaced> {
        assert_eq!(self.state, QpState::Rts, "not while this side is closing");
        let refused = match going {
            Going::Write(..) => self.faults.write.is_some() || !self.limits.write,
            Going::Response(..) => self.faults.response && !self.faults.late,
            Going::Send { .. } => false,
        };
        if refused {
            return Ok(());
        }
        self.in_trains += place_each(self, going, train)?;
        Ok(())
    }

    fn take_recv(&mut self) -> Result<Option<Recv>, Failure> {
        assert!(self.open.is_none(), "the receive before is in progress");
        let Some(len) = self.recvs.pop_front() else {
            return Ok(None);
        };
        let len = len.ok_or(TermError::LocalCatastrophic)?;
        let recv = Recv { id: self.next, len };
        self.next += 1;
        self.open = Some(Open { recv, placed: 0 });
        self.message.clear();
        Ok(Some(recv))
    }

    fn place_recv(
        &mut self,
        offset: u32,
        payload: &Payload<'_, Piece<'c>>,
        budget: &mut Budget,
    ) -> Result<(), Unplaced> {
        budget.piece();
        let open = self.open.as_mut().expect("a receive in progress");
        assert_eq!(open.placed, offset);
        open.placed += payload.len;
        assert!(
            u64::from(open.placed) <= open.recv.len,
            "beyond the receive"
        );
        if self.faults.recv {
            return Err(Unplaced);
        }
        self.message.extend_from_slice(octets(payload));
        Ok(())
    }

    fn complete_recv(&mut self, received: &Received) -> Result<(), Failure> {
        let open = self.close(received.id);
        assert_eq!(open.placed, received.len);
        self.end_invalidation();
        if self.faults.cq_is_full {
            return Err(TermError::CatastrophicStream.into());
        }
        self.tell(Did::Completed(*received));
        Ok(())
    }

    fn fail_recv(&mut self, id: u64, fault: Fault) -> bool {
        self.close(id);
        self.tell(Did::FailedRecv(id, fault));
        true
    }

    fn invalidate_for_peer(&mut self, stag: Stag) -> Result<(), TermError> {
        if let Some(error) = self.faults.invalidate {
            return Err(error);
        }
        self.invalidated = true;
        self.tell(Did::Invalidated(stag));
        Ok(())
    }

    fn invalidate_sink(&mut self, stag: Stag) -> Result<(), Unplaced> {
        if self.faults.sink {
            return Err(Unplaced);
        }
        self.invalidated = true;
        self.tell(Did::Invalidated(stag));
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.quiet
    }

    fn response(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        len: u32,
        last: bool,
    ) -> Result<Response, TermError> {
        self.outbound.response(stag, to, len, last)
    }

    fn response_left(&self, stag: Stag, to: TaggedOffset) -> u32 {
        self.outbound.left(stag, to)
    }

    fn read_done(&mut self, token: Option<Token>) {
        self.end_invalidation();
        let entry = self.outbound.pop().expect("its response came");
        assert_eq!(entry.purpose.token(), token);
        self.tell(Did::ReadDone(token));
    }

    fn fail_send(&mut self, token: Token, fault: Fault) -> bool {
        self.tell(Did::FailedSend(token, fault));
        true
    }

    fn read_request(&mut self, msn: Msn, request: ReadRequest) -> Result<(), TermError> {
        if let Some(error) = self.faults.read {
            return Err(error);
        }
        self.tell(Did::ReadRequest(msn, request));
        Ok(())
    }
}

/// A receiver and its surroundings.
pub(crate) struct Receiving {
    pub(crate) receiver: Receiver<Vec<u8>>,
    pub(crate) around: Around,
    /// What was not taken yet.
    pub(crate) unread: Vec<u8>,
    /// Octets of the buffers that it lies in, if they are not one.
    buffers: Option<VecDeque<usize>>,
    /// What octets that are not there come to.
    pub(crate) missing: Reach,
    /// There is memory for the staging buffer.
    pub(crate) has_memory: bool,
}

impl Receiving {
    /// With room for so many Reads of ours.
    pub(crate) fn new(params: &Params) -> Self {
        Self {
            receiver: Receiver::new(params),
            around: Around {
                state: QpState::Rts,
                limits: ALL,
                faults: Faults::default(),
                recvs: VecDeque::new(),
                next: 0,
                open: None,
                message: Vec::new(),
                outbound: OutboundReads::new(vec![
                    OutboundRead::default();
                    params.outbound_slots().into()
                ]),
                quiet: true,
                invalidated: false,
                did: Vec::new(),
                in_trains: 0,
                heard: false,
                first: false,
                over: false,
                failure: None,
            },
            unread: Vec::new(),
            buffers: None,
            missing: Reach::Apart,
            has_memory: true,
        }
    }

    /// The same; what is fed at once is in a buffer of its own, and segments are taken in from
    /// several. What is missing can be waited for.
    pub(crate) fn in_buffers(params: &Params) -> Self {
        Self {
            buffers: Some(VecDeque::new()),
            missing: Reach::Later,
            ..Self::new(params)
        }
    }

    /// Octets come in: takes what can be taken.
    pub(crate) fn feed(&mut self, octets: &[u8]) {
        self.unread.extend_from_slice(octets);
        if let Some(buffers) = &mut self.buffers {
            buffers.push_back(octets.len());
        }
        while self.turn(SOFTIRQ) {}
    }

    /// One turn, as in softirq or by the work item; returns whether it has to be followed by
    /// another.
    pub(crate) fn turn(&mut self, budget: Budget) -> bool {
        if self.has_memory && self.receiver.wants_staging() {
            self.receiver.set_staging(vec![0; MAX_FPDU]);
        }
        self.receiver.begin(budget);
        let around = &mut self.around;
        self.receiver.resume::<Piece<'_>, _>(around);
        loop {
            let front = self.buffers.as_ref().and_then(|b| b.front().copied());
            let len = front.unwrap_or(self.unread.len());
            let piece = Piece::front(&self.unread, len, self.missing);
            let n = self.receiver.consume(around, &piece);
            assert!(n <= len);
            self.unread.drain(..n);
            match &mut self.buffers {
                Some(buffers) if n == len => {
                    buffers.pop_front();
                }
                Some(buffers) => buffers[0] -= n,
                None => {}
            }
            if n < len || self.unread.is_empty() {
                break;
            }
        }
        if self.receiver.is_spent() {
            return true;
        }
        let wants = self.receiver.wants_staging();
        let waits = self.receiver.waits_for_quiet() || self.receiver.waits_for_recv();
        let is_later = self.missing == Reach::Later;
        assert!(self.unread.is_empty() || wants || waits || is_later);
        wants && self.has_memory
    }

    /// The receive in progress is flushed.
    pub(crate) fn flush(&mut self) -> Option<Recv> {
        let recv = self.receiver.take_recv();
        let open = self.around.open.take();
        assert_eq!(recv, open.map(|open| open.recv));
        self.around.invalidated = false;
        recv
    }

    /// What was done since this was asked last.
    #[cfg(test)]
    pub(crate) fn did(&mut self) -> Vec<Did> {
        std::mem::take(&mut self.around.did)
    }
}
