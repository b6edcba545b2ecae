// SPDX-License-Identifier: GPL-2.0

//! A sender whose surroundings do what a test says, good or bad, and check what is asked of them.

use super::crc::crc32c;
use super::frames::{split, without_markers, Seen};
use super::limits::ALL;
use super::room::Room;
use crate::proto::conn::Params;
use crate::proto::direct::HandedOver;
use crate::proto::failure::{Failure, Fault};
use crate::proto::frame::Writer;
use crate::proto::link::{Broken, Link, Refused, SendFlags};
use crate::proto::negotiate::EventDepths;
use crate::proto::order::{Record, Status, Token};
use crate::proto::reads::{
    Inbound, InboundRead, InboundReads, Oldest, OutboundRead, OutboundReads,
};
use crate::proto::request::{BadRequest, Operation, Request, Sink};
use crate::proto::rx::Rx;
use crate::proto::sender::{Atomics, Env, OpenError, Outcome, PayloadError, Peeked, Sender};
use crate::proto::sends::Sends;
use crate::proto::state::QpState;
use crate::proto::tx::Frame;
use crate::support::tuning::SENDING;
use crate::wire::atomic::{AtomicOperation, AtomicRequest};
use crate::wire::ddp::{Msn, Stag};
use crate::wire::fpdu::Crc;
use crate::wire::mpa::RtrSet;
use crate::wire::rdmap::{Opcode, ReadRequest};
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
    Completed(u32, Status<Fault>),
    /// All in front of a FIN is sent; whether there was anything that the peer is to have.
    Finished(bool),
}

type Log = Rc<RefCell<Vec<Did>>>;

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
}

/// TCP, and a batch in front of it.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) segment: u32,
    /// Octets that TCP says it would take,
    pub(crate) space: usize,
    /// and that it does take.
    pub(crate) takes: usize,
    /// Octets that a batch has room for.
    pub(crate) room: usize,
    /// Octets after which a batch breaks, whatever it said about room.
    pub(crate) breaks_at: usize,
    /// A batch cannot forget a part of it.
    pub(crate) keeps: bool,
    pub(crate) refuses: bool,
    /// What becomes of segments that go past TCP; without that they do not.
    pub(crate) direct: Option<HandedOver>,
    /// Those that did: headers and payload.
    pub(crate) handed: Vec<Vec<u8>>,
    /// Octets of these since the last batch.
    since: usize,
    batch: Vec<u8>,
    piece: Room,
    /// What was sent, and how.
    pub(crate) out: Vec<u8>,
    pub(crate) flags: Vec<SendFlags>,
    log: Log,
}

impl Tcp {
    /// Takes everything from now on, in segments of the same size.
    pub(crate) fn heal(&mut self) {
        self.space = usize::MAX;
        self.takes = usize::MAX;
        self.room = usize::MAX;
        self.breaks_at = usize::MAX;
        self.keeps = false;
    }
}

impl Link for Tcp {
    type Mark = usize;

    fn is_direct(&self) -> bool {
        self.direct.is_some() && self.batch.is_empty()
    }

    fn prepare(&mut self, _front: &[u8]) -> HandedOver {
        assert!(self.is_direct());
        let outcome = self.direct.expect("direct");
        if outcome == HandedOver::Gone {
            self.direct = None;
            self.since = 0;
        }
        outcome
    }

    fn segment_size(&self) -> u32 {
        if self.is_direct() {
            return u32::MAX;
        }
        self.segment
    }

    fn space(&self) -> usize {
        if self.is_direct() {
            return usize::MAX;
        }
        self.space
    }

    fn len(&self) -> usize {
        self.batch.len() + self.since
    }

    fn reserve(&mut self, len: u32) -> bool {
        self.batch.len() + len as usize <= self.room
    }

    fn mark(&self) -> usize {
        self.batch.len()
    }

    fn truncate(&mut self, mark: usize) -> Result<(), Broken> {
        assert!(mark <= self.batch.len());
        if self.keeps {
            return Err(Broken);
        }
        self.batch.truncate(mark);
        Ok(())
    }

    fn clear(&mut self) {
        self.batch.clear();
    }

    fn put(&mut self, octets: &[u8]) -> Result<(), Broken> {
        let fits = self.breaks_at.saturating_sub(self.batch.len());
        self.batch.extend(octets.iter().take(fits));
        if octets.len() > fits {
            return Err(Broken);
        }
        Ok(())
    }

    fn room(&mut self, len: u32, count: u32) -> Option<&mut [u8]> {
        let left = self.breaks_at.min(self.room);
        let left = left.saturating_sub(self.batch.len());
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        self.piece.get(len, count, left / len)
    }

    fn commit(&mut self, len: u32) -> Result<(), Broken> {
        self.piece.commit(len, &mut self.batch);
        Ok(())
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }

    fn crc_since(&self, mark: usize) -> Result<Crc, Broken> {
        Ok(Crc::new().update(crc32c, &self.batch[mark..]))
    }

    fn send(&mut self, how: SendFlags) -> Result<(), Refused> {
        if std::mem::take(&mut self.since) > 0 {
            assert!(self.batch.is_empty(), "one way at a time");
            self.log.borrow_mut().push(Did::Sent);
            return Ok(());
        }
        assert!(!self.batch.is_empty(), "nothing is sent");
        if self.refuses {
            return Err(Refused);
        }
        self.flags.push(how);
        let n = self.takes.min(self.batch.len());
        if self.takes != usize::MAX {
            self.takes -= n;
        }
        self.out.extend(self.batch.drain(..n));
        if self.batch.is_empty() {
            self.log.borrow_mut().push(Did::Sent);
        }
        Ok(())
    }
}

/// Requests that are known by a number, and the Reads among them.
type UnderWay = Sends<Vec<Record<u32, Fault>>, Vec<OutboundRead>>;

/// The send queue and what is under way. The octets of a message are its offsets.
pub(crate) struct Queue {
    posted: VecDeque<(u32, Posted)>,
    next: u32,
    peeked: Option<Posted>,
    sends: RefCell<UnderWay>,
    inbound: RefCell<InboundReads<Vec<Inbound>>>,
    msn: Msn,
    pub(crate) heard: bool,
    pub(crate) faults: Faults,
    /// Octets of the message whose memory is open.
    open: Option<u32>,
    /// All that completed, in this order.
    pub(crate) completions: Vec<(u32, Status<Fault>)>,
    log: Log,
}

impl Queue {
    fn tell(&self, did: Did) {
        self.log.borrow_mut().push(did);
    }

    /// Whether transmission waits for a Read to complete.
    #[cfg(test)]
    pub(crate) fn stalled(&self) -> bool {
        self.sends.borrow().stalled
    }

    /// Leaves no room for Reads of ours.
    #[cfg(test)]
    pub(crate) fn no_reads(&mut self) {
        self.sends.get_mut().outbound = OutboundReads::new(Vec::new());
    }

    fn completed(&mut self, id: u32, status: Status<Fault>) {
        // T-4, T-11: in post order, each once.
        assert_eq!(id as usize, self.completions.len(), "{status:?}");
        self.completions.push((id, status));
        self.tell(Did::Completed(id, status));
    }

    fn complete(&mut self) {
        while let Some((id, status)) = { self.sends.get_mut().order.pop() } {
            self.completed(id, status);
        }
    }

    fn local(&mut self, did: Did) -> Result<(), Fault> {
        assert!(self.open.is_none(), "{did:?} while memory is open");
        match self.faults.local {
            Some(fault) => Err(fault),
            None => {
                self.tell(did);
                Ok(())
            }
        }
    }
}

/// What was in a word before, as each operation finds it.
pub(crate) const fn original(request: &AtomicRequest) -> u64 {
    request.to.0.rotate_left(8) ^ request.id as u64
}

impl Atomics for Queue {
    fn operands(&self) -> Option<AtomicOperation> {
        self.peeked.expect("peeked at").operands
    }

    fn carry_out(&mut self, request: &AtomicRequest) -> Result<u64, TermError> {
        match self.faults.source {
            Some(error) => Err(error),
            None => {
                self.tell(Did::CarriedOut(*request));
                Ok(original(request))
            }
        }
    }
}

impl Env<Tcp> for Queue {
    type Work = u32;
    type Records = Vec<Record<u32, Fault>>;
    type Outbound = Vec<OutboundRead>;
    type Inbound = Vec<Inbound>;

    fn peek(&mut self) -> Option<Peeked<Tcp, Self>> {
        let &(work, posted) = self.posted.front()?;
        self.peeked = Some(posted);
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
        self.posted.pop_front().expect("peeked at");
    }

    fn has_requests(&self) -> bool {
        !self.posted.is_empty()
    }

    fn sink(&self) -> Option<Sink> {
        self.peeked.expect("peeked at").sink
    }

    fn may_write(&self, sink: &Sink) -> bool {
        assert!(sink.len > 0);
        !self.faults.sink
    }

    fn with_sends<R>(&self, f: impl FnOnce(&mut Sends<Self::Records, Self::Outbound>) -> R) -> R {
        f(&mut self.sends.borrow_mut())
    }

    fn oldest_inbound(&self) -> Option<Oldest> {
        self.inbound.borrow().front()
    }

    fn with_inbound<R>(&self, f: impl FnOnce(&mut InboundReads<Self::Inbound>) -> R) -> R {
        f(&mut self.inbound.borrow_mut())
    }

    fn done(&mut self, tokens: &[Token]) -> bool {
        assert!(!tokens.is_empty());
        for token in tokens {
            self.sends.get_mut().order.done(*token);
        }
        self.complete();
        self.sends.get_mut().order.is_empty()
    }

    fn done_alone(&mut self, work: &u32) {
        let sends = self.sends.get_mut();
        assert!(sends.order.is_empty(), "it is not alone");
        let token = sends.order.push(*work).expect("room");
        sends.order.done(token);
        self.complete();
    }

    fn fail(&mut self, token: Token, fault: Fault) -> bool {
        let told = self.sends.get_mut().order.fail(token, fault);
        self.complete();
        told
    }

    fn fail_new(&mut self, work: u32, fault: Fault) -> bool {
        let token = self.sends.get_mut().order.push(work).expect("room");
        self.fail(token, fault)
    }

    fn invalidate(&mut self, stag: Stag) -> Result<(), Fault> {
        self.local(Did::Invalidated(stag))
    }

    fn register(&mut self) -> Result<(), Fault> {
        self.local(Did::Registered)
    }

    fn bind(&mut self) -> Result<(), Fault> {
        self.local(Did::Bound)
    }

    fn open_request(&mut self) -> Result<(), OpenError> {
        match self.faults.open {
            Some(error) => Err(error),
            None => {
                self.open = Some(self.peeked.expect("peeked at").len);
                Ok(())
            }
        }
    }

    fn open_source(&mut self, request: &ReadRequest) -> Result<(), TermError> {
        assert!(request.len > 0);
        match self.faults.source {
            Some(error) => Err(error),
            None => {
                self.open = Some(request.len);
                Ok(())
            }
        }
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
        let open = self.open.expect("open");
        let end = offset.checked_add(len).expect("inside");
        assert!(len > 0 && end <= open, "{offset} {len} of {open}");
        let octets: Vec<u8> = (offset..end).map(|n| n as u8).collect();
        let (front, rest) = octets.split_at(octets.len() / 2);
        writer.put(front)?;
        if let Some(error) = self.faults.payload {
            return Err(error);
        }
        let skip = usize::from(self.faults.short);
        Ok(writer.put(&rest[skip..])?)
    }

    fn copy(&self, to: &mut [u8]) -> Result<(), PayloadError> {
        assert_eq!(self.open.map(|len| len as usize), Some(to.len()));
        if self.faults.short {
            return Err(PayloadError::Broken);
        }
        for (n, octet) in to.iter_mut().enumerate() {
            *octet = n as u8;
        }
        self.faults.payload.map_or(Ok(()), Err)
    }

    fn hand_over(&self, link: &mut Tcp, front: &[u8], frame: &Frame) -> Result<(), PayloadError> {
        assert_eq!(link.direct, Some(HandedOver::Taken));
        if let Some(error) = self.faults.payload {
            return Err(error);
        }
        let end = frame.offset + u32::from(frame.payload);
        assert!(frame.payload == 0 || self.open.is_some_and(|open| end <= open));
        let mut segment = front.to_vec();
        segment.extend((frame.offset..end).map(|n| n as u8));
        link.since += segment.len();
        link.handed.push(segment);
        Ok(())
    }

    fn heard_of_peer(&self) -> bool {
        self.heard
    }

    fn finish(&mut self, link: &mut Tcp, has_spoken: bool) {
        assert!(link.is_empty(), "a FIN in front of what is not sent");
        self.tell(Did::Finished(has_spoken));
    }
}

/// What was agreed on for a connection that has nothing special.
pub(crate) fn params(depth: u16) -> Params {
    Params {
        crc: true,
        send_markers: false,
        large_fpdus: false,
        ird: depth,
        ord: depth,
        send_rtr: None,
        peer_to_peer: false,
        expect_rtr: RtrSet::default(),
        wait_for_fpdu: false,
        event: EventDepths::default(),
    }
}

/// A sender and its surroundings.
pub(crate) struct Sending {
    pub(crate) sender: Sender,
    pub(crate) queue: Queue,
    pub(crate) tcp: Tcp,
    pub(crate) state: QpState,
    has_crc: bool,
    has_markers: bool,
    /// What ended the stream.
    pub(crate) failed: Option<Failure>,
}

impl Sending {
    /// With room for `records` requests under way, and segments of `emss` octets.
    pub(crate) fn new(params: &Params, emss: u32, records: usize) -> Self {
        let log = Log::default();
        let reads = vec![OutboundRead::default(); params.outbound_slots().into()];
        let mut sends = Sends::new(vec![Record::default(); records], Vec::new());
        sends.ord = params.ord.into();
        sends.outbound = OutboundReads::new(reads);
        let inbound = InboundReads::new(vec![Inbound::default(); params.ird.into()]);
        Self {
            sender: Sender::new(params, emss),
            queue: Queue {
                posted: VecDeque::new(),
                next: 0,
                peeked: None,
                sends: RefCell::new(sends),
                inbound: RefCell::new(inbound),
                msn: Msn::FIRST,
                heard: !params.wait_for_fpdu,
                faults: Faults::default(),
                open: None,
                completions: Vec::new(),
                log: log.clone(),
            },
            tcp: Tcp {
                segment: emss,
                space: usize::MAX,
                takes: usize::MAX,
                room: usize::MAX,
                breaks_at: usize::MAX,
                keeps: false,
                refuses: false,
                direct: None,
                handed: Vec::new(),
                since: 0,
                batch: Vec::new(),
                piece: Room::default(),
                out: Vec::new(),
                flags: Vec::new(),
                log,
            },
            state: QpState::Rts,
            has_crc: params.crc,
            has_markers: params.send_markers,
            failed: None,
        }
    }

    /// Posts a request; they are numbered from zero on.
    pub(crate) fn post(&mut self, posted: Posted) {
        let id = self.queue.next;
        self.queue.next += 1;
        self.queue.posted.push_back((id, posted));
    }

    /// A Read of the peer, if there is room for it.
    pub(crate) fn peer_reads(&mut self, request: ReadRequest) {
        let msn = self.queue.msn;
        self.peer_asks(Inbound::Read(InboundRead { msn, request }));
    }

    /// An Atomic Operation of the peer, likewise.
    pub(crate) fn peer_changes(&mut self, request: AtomicRequest) {
        self.peer_asks(Inbound::Atomic(self.queue.msn, request));
    }

    fn peer_asks(&mut self, request: Inbound) {
        let queue = &mut self.queue;
        if queue.inbound.get_mut().push(request, 8, 1 << 17).is_ok() {
            queue.msn = queue.msn.next();
        }
    }

    /// The peer answers our oldest Read, if there is one. Returns whether there was.
    pub(crate) fn answer(&mut self) -> bool {
        let sends = self.queue.sends.get_mut();
        let Some(entry) = sends.outbound.pop() else {
            return false;
        };
        if let Some(token) = entry.purpose.token() {
            sends.order.done(token);
        }
        self.queue.complete();
        true
    }

    /// Runs the sender once.
    pub(crate) fn run_once(&mut self) -> Outcome {
        let outcome = self
            .sender
            .run(&mut self.queue, &mut self.tcp, self.state, SENDING);
        // T-20: no region is kept from its owner.
        assert!(self.queue.open.is_none(), "memory is left open");
        outcome
    }

    /// Runs the sender as the driver does, until it waits; ends the stream if something failed.
    pub(crate) fn run(&mut self) {
        for _ in 0..10_000 {
            match self.run_once() {
                Outcome::Idle => return,
                Outcome::Again => {}
                Outcome::Failed => {
                    let failure = self.sender.take_failure().expect("what has failed");
                    assert!(self.failed.is_none(), "fails twice");
                    self.sender.set_terminate(&failure);
                    self.failed = Some(failure);
                    self.state = QpState::Terminate;
                }
            }
        }
        panic!("does not come to an end");
    }

    /// What was done since this was asked last.
    #[cfg(test)]
    pub(crate) fn did(&mut self) -> Vec<Did> {
        std::mem::take(&mut *self.tcp.log.borrow_mut())
    }

    /// Everything that is not complete is flushed.
    pub(crate) fn flush(&mut self) {
        let queue = &mut self.queue;
        while queue.sends.get_mut().outbound.pop().is_some() {}
        while let Some((id, status)) = { queue.sends.get_mut().order.flush() } {
            queue.completed(id, status);
        }
        while let Some((id, _)) = queue.posted.pop_front() {
            queue.completed(id, Status::Flushed);
        }
    }

    /// The FPDUs that TCP has got. A receiver likes them; nothing follows a Terminate; payloads are
    /// of one piece of a message.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let out = &self.tcp.out;
        let (seen, rest) = match self.has_markers {
            true => split(&without_markers(out, self.has_crc), None),
            false => split(out, Some(self.has_crc)),
        };
        let is_cut = self.tcp.refuses || !self.tcp.batch.is_empty();
        assert!(rest == 0 || is_cut, "{rest} octets are no FPDU");
        let mut rx = Rx::new(RtrSet::default());
        for (n, fpdu) in seen.iter().enumerate() {
            let len = u16::try_from(fpdu.ulpdu.len()).expect("a ULPDU");
            rx.segment(&fpdu.ulpdu, len, &ALL).expect("a good segment");
            if fpdu.opcode == Opcode::Terminate {
                assert_eq!(n + 1, seen.len(), "behind a Terminate");
            } else if !matches!(
                fpdu.opcode,
                Opcode::ReadRequest
                    | Opcode::AtomicRequest
                    | Opcode::AtomicResponse
                    | Opcode::Immediate
                    | Opcode::ImmediateSe
            ) {
                let mut pairs = fpdu.payload.iter().zip(fpdu.payload.iter().skip(1));
                assert!(pairs.all(|(a, b)| a.wrapping_add(1) == *b));
            }
        }
        seen
    }

    /// Lets everything go well until nothing is left to do, and checks what came of it.
    pub(crate) fn settle(&mut self) {
        self.queue.heard = true;
        self.queue.faults = Faults::default();
        self.tcp.heal();
        loop {
            self.run();
            if self.failed.is_some() || !self.answer() {
                break;
            }
        }
        let is_over = self.failed.is_some() || self.tcp.refuses || !self.state.sends();
        if is_over {
            self.flush();
        } else {
            assert!(!self.sender.is_busy() && self.queue.inbound.get_mut().is_empty());
        }
        let queue = &self.queue;
        assert_eq!(queue.completions.len(), queue.next as usize, "none is lost");
        let of =
            |f: fn(&Status<Fault>) -> bool| queue.completions.iter().filter(|c| f(&c.1)).count();
        let failed = of(|status| matches!(status, Status::Failed(_)));
        // T-33: one at most, and then no event.
        let told = self.failed.as_ref().is_some_and(|f| f.in_completion);
        assert_eq!(failed, usize::from(told));
        assert!(is_over || of(|status| *status == Status::Success) == queue.next as usize);
        self.seen();
    }
}
