// SPDX-License-Identifier: GPL-2.0

//! The surroundings of a sender: its queue, and what is under way. They do what a test says, good or
//! bad, and check what is asked of them.

use super::memory::{Memory, Octets};
use super::tcp::Tcp;
use crate::proto::drain::{Drained, Marked, Stop, Waker};
use crate::proto::failure::Fault;
use crate::proto::frame::Writer;
use crate::proto::message::Frame;
use crate::proto::reads::{Inbound, InboundReads, OutboundRead, OutboundReads};
use crate::proto::request::{BadRequest, Local, Operation, Request, Sink};
use crate::proto::sender::{Env, NotDone, OpenError, PayloadError, Peeked, Sender, SourceOf};
use crate::proto::sends::{Completed, Record, Sends, Status, Token};
use crate::proto::setup::Params;
use crate::proto::transport::Transport;
use crate::wire::atomic::{AtomicOperation, AtomicRequest};
use crate::wire::ddp::{Header, Stag};
use crate::wire::rdmap::{Control, Opcode};
use crate::wire::terminate::TermError;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// What a sender did, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// TCP has all of a batch.
    Sent,
    Invalidated(Stag),
    Registered,
    Bound,
    /// Carried out an Atomic Operation of the peer.
    CarriedOut(AtomicRequest),
    Completed(u64, Status<Fault>),
    /// All in front of a FIN is sent; whether there was anything that the peer is to have.
    Finished(bool),
}

pub(super) type Log = Rc<RefCell<Vec<Did>>>;

/// A request as it is posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    pub(crate) operation: Result<Operation, Fault>,
    pub(crate) len: u32,
    pub(crate) fence: bool,
    pub(crate) solicited: bool,
    pub(crate) sink: Option<Sink>,
    pub(crate) operands: Option<AtomicOperation>,
}

impl Posted {
    pub(crate) const fn new(operation: Operation, len: u32) -> Self {
        Self {
            operation: Ok(operation),
            len,
            fence: false,
            solicited: false,
            sink: None,
            operands: None,
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// The memory of a request cannot be opened.
    pub(crate) open: Option<OpenError>,
    /// That of a Read or an Atomic Operation of the peer cannot.
    pub(crate) source: Option<TermError>,
    /// A payload cannot be read.
    pub(crate) payload: Option<PayloadError>,
    /// It has an octet less than it should have.
    pub(crate) short: bool,
    /// The sink of a Read may not be written.
    pub(crate) sink: bool,
    /// An invalidation, a registration or a bind fails.
    pub(crate) local: Option<Fault>,
    /// They would have to wait, which this run may not.
    pub(crate) later: bool,
}

/// Requests that are known by a number, and the Reads among them.
type UnderWay = Sends<Vec<Record<u64, Fault>>, Vec<OutboundRead>>;

/// The send queue and what is under way.
pub(crate) struct Queue {
    pub(super) posted: VecDeque<(u64, Posted, Octets)>,
    peeked: Option<(Posted, Octets)>,
    /// The queue was seen empty in the last run: whoever posts rings.
    pub(super) was_empty: bool,
    pub(super) sends: RefCell<UnderWay>,
    pub(super) inbound: RefCell<InboundReads<Vec<Inbound>>>,
    pub(crate) heard: bool,
    /// Requests complete when the peer has placed them.
    pub(crate) awaits_placement: bool,
    pub(crate) faults: Faults,
    pub(crate) memory: Memory,
    /// The message whose memory is open.
    open: Option<Octets>,
    /// Whoever posts does so again as soon as a request is taken.
    pub(crate) is_endless: bool,
    /// All that completed, in this order.
    pub(crate) completions: Vec<(u64, Status<Fault>)>,
    /// A FIN is to follow what is sent, and does.
    pub(super) wants_fin: bool,
    pub(super) fin: bool,
    log: Log,
}

impl Queue {
    /// One that tells `log` what is done.
    pub(super) fn new(records: usize, memory: Memory, log: Log) -> Self {
        let records = vec![Record::default(); records];
        Self {
            posted: VecDeque::new(),
            peeked: None,
            was_empty: false,
            sends: RefCell::new(Sends::new(records, Vec::new())),
            inbound: RefCell::new(InboundReads::new(Vec::new())),
            heard: false,
            awaits_placement: false,
            faults: Faults::default(),
            memory,
            open: None,
            is_endless: false,
            completions: Vec::new(),
            wants_fin: false,
            fin: false,
            log,
        }
    }

    /// Has as many slots for Reads as was agreed on.
    pub(super) fn connect(&mut self, params: &Params) {
        let sends = self.sends.get_mut();
        sends.ord = params.ord.into();
        let slots = params.outbound_slots().into();
        sends.outbound = OutboundReads::new(vec![OutboundRead::default(); slots]);
        sends.await_placement(self.awaits_placement);
        let inbound = vec![Inbound::default(); params.ird.into()];
        self.inbound = RefCell::new(InboundReads::new(inbound));
    }

    /// Whether memory is open.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Everything that is not complete is flushed.
    pub(crate) fn flush(&mut self) {
        while self.sends.get_mut().outbound.pop().is_some() {}
        while let Some((id, status)) = { self.sends.get_mut().flush(&mut None) } {
            self.completed(id, status);
        }
        while let Some((id, ..)) = self.posted.pop_front() {
            self.completed(id, Status::Flushed);
        }
    }

    fn peeked(&self) -> &(Posted, Octets) {
        self.peeked.as_ref().expect("peeked at")
    }

    fn tell(&self, did: Did) {
        self.log.borrow_mut().push(did);
    }

    /// How many requests have not begun.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.posted.len()
    }

    /// Whether transmission waits for a Read to complete.
    pub(crate) fn stalled(&self) -> bool {
        self.sends.borrow().is_stalled()
    }

    /// Has no Read of ours begin any more.
    #[cfg(test)]
    pub(crate) fn forbid_reads(&mut self) {
        self.sends.get_mut().ord = 0;
    }

    /// Leaves no room for Reads of ours.
    #[cfg(test)]
    pub(crate) fn no_reads(&mut self) {
        self.sends.get_mut().outbound = OutboundReads::new(Vec::new());
    }

    fn completed(&mut self, id: u64, status: Status<Fault>) {
        self.completions.push((id, status));
        self.tell(Did::Completed(id, status));
    }

    /// The response of our oldest Read is placed.
    pub(super) fn answered(&mut self) {
        let _ = self.sends.get_mut().answered();
        self.complete();
    }

    /// The peer has placed all up to this request.
    #[cfg(test)]
    pub(crate) fn placed(&mut self, token: Token) {
        self.sends.get_mut().placed(token);
        self.complete();
    }

    /// The peer tells of nothing any more.
    #[cfg(test)]
    pub(crate) fn placed_all(&mut self) {
        self.sends.get_mut().placed_all();
        self.complete();
    }

    /// Completes what is due, in one hold of the lock.
    pub(super) fn complete_some(&mut self) -> Completed {
        let mut due = Vec::new();
        let completed = self
            .sends
            .get_mut()
            .complete(|id, status| due.push((id, status)));
        for (id, status) in due {
            self.completed(id, status);
        }
        completed
    }

    /// Completes all that is due. Returns whether transmission waited for it.
    pub(super) fn complete(&mut self) -> bool {
        let mut resumed = false;
        loop {
            let Completed { drained, resumes } = self.complete_some();
            resumed |= resumes;
            if drained == Drained::Empty {
                return resumed;
            }
        }
    }

    /// Whether an FPDU of the peer has come in, or who wakes the sender when one has.
    pub(super) fn heard_of_peer(&self) -> Result<(), Marked> {
        match self.heard {
            true => Ok(()),
            false => Err(Waker::Peer.mark(|| ())),
        }
    }

    /// Sends a FIN that is wanted, as `sender` has stopped with `stop`, if it may follow.
    pub(super) fn finish(&mut self, sender: &Sender, tcp: &Tcp, stop: &Stop) {
        if sender.may_finish(stop, !tcp.has_batch()) {
            self.fin |= self.wants_fin;
            self.tell(Did::Finished(sender.has_spoken));
        }
    }
}

impl Env<Tcp> for Queue {
    type Work = u64;
    type Records = Vec<Record<u64, Fault>>;
    type Outbound = Vec<OutboundRead>;
    type Inbound = Vec<Inbound>;

    fn peek(&mut self) -> Option<Peeked<Tcp, Self>> {
        self.was_empty = self.posted.is_empty();
        let (work, posted, octets) = self.posted.front()?;
        let (work, posted) = (*work, *posted);
        self.peeked = Some((posted, octets.clone()));
        Some(match posted.operation {
            Ok(operation) => Ok(Request {
                work,
                operation,
                solicited: posted.solicited,
                fence: posted.fence,
                len: posted.len,
                is_inline: false,
            }),
            Err(fault) => Err(BadRequest { work, fault }),
        })
    }

    fn consume(&mut self) {
        let taken = self.posted.pop_front().expect("peeked at");
        if self.is_endless {
            self.posted.push_back(taken);
        }
    }

    fn operands(&self) -> Option<AtomicOperation> {
        self.peeked().0.operands
    }

    fn sink(&self) -> Result<Option<Sink>, Fault> {
        let sink = self.peeked().0.sink;
        let is_bad = |sink: Sink| self.faults.sink || !self.memory.may_write(&sink);
        match sink.filter(|sink| sink.len > 0).is_some_and(is_bad) {
            true => Err(Fault::LocalProtection),
            false => Ok(sink),
        }
    }

    fn with_sends<R>(&self, f: impl FnOnce(&mut Sends<Self::Records, Self::Outbound>) -> R) -> R {
        f(&mut self.sends.borrow_mut())
    }

    fn with_inbound<R>(
        &self,
        f: impl FnOnce(&mut InboundReads<Self::Inbound>) -> Option<R>,
    ) -> Option<R> {
        f(&mut self.inbound.borrow_mut())
    }

    fn done(&mut self, tokens: &[Token]) {
        assert!(!tokens.is_empty());
        for token in tokens {
            self.sends.get_mut().done(*token);
        }
        self.complete();
    }

    fn fail(&mut self, token: Token, fault: Fault) -> bool {
        let told = self.sends.get_mut().fail(token, fault);
        self.complete();
        told
    }

    fn perform(&mut self, operation: Local) -> Result<(), NotDone> {
        let did = match operation {
            Local::Invalidate { stag } => Did::Invalidated(stag),
            Local::Register => Did::Registered,
            Local::Bind => Did::Bound,
        };
        assert!(self.open.is_none(), "{did:?} while memory is open");
        if self.faults.later {
            return Err(NotDone::Later);
        }
        match self.faults.local {
            Some(fault) => Err(fault.into()),
            None => {
                self.tell(did);
                Ok(())
            }
        }
    }

    fn change_word(&mut self, request: &AtomicRequest) -> Result<u64, TermError> {
        match self.faults.source {
            Some(error) => Err(error),
            None => {
                self.tell(Did::CarriedOut(*request));
                self.memory.change(request)
            }
        }
    }

    fn open(&mut self, source: SourceOf<'_>) -> Result<(), OpenError> {
        let denied = self.faults.source.map(OpenError::Denied);
        let (fault, octets) = match source {
            SourceOf::Request => (self.faults.open, Ok(self.peeked().1.clone())),
            SourceOf::Response(request) => {
                assert!(request.len > 0);
                (denied, self.memory.source(request))
            }
        };
        if let Some(error) = fault {
            return Err(error);
        }
        self.open = Some(octets.map_err(OpenError::Denied)?);
        Ok(())
    }

    fn close(&mut self) {
        self.open = None;
    }

    fn payload(
        &self,
        offset: u32,
        len: u32,
        writer: &mut Writer<'_, Tcp>,
    ) -> Result<(), PayloadError> {
        assert!(len > 0);
        let octets = self.open.as_ref().expect("open").get(offset, len);
        let (front, rest) = octets.split_at(octets.len() / 2);
        writer.put(front)?;
        if let Some(error) = self.faults.payload {
            return Err(error);
        }
        let skip = usize::from(self.faults.short);
        Ok(writer.put(&rest[skip..])?)
    }

    fn hand_over(
        &self,
        transport: &mut Tcp,
        front: &[u8],
        frame: &Frame,
    ) -> Result<(), PayloadError> {
        assert_eq!(transport.prepare(front), Ok(true));
        if let Some(error) = self.faults.payload {
            return Err(error);
        }
        let (header, _) = Header::parse(&front[2..]).expect("a header");
        let opcode = Control(header.rdmap()).opcode();
        let answers = [Opcode::ReadResponse, Opcode::AtomicResponse].map(Some);
        if answers.contains(&opcode) && header.control().last() {
            // The other side may send its next request at once.
            assert!(self.inbound.borrow().has_room(), "its slot is free");
        }
        let open = self.open.as_ref();
        let payload = match frame.payload {
            0 => Vec::new(),
            len => open.expect("open").get(frame.offset, len.into()),
        };
        transport.hand_over(front, payload);
        Ok(())
    }
}
