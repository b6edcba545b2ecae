// SPDX-License-Identifier: GPL-2.0

//! The surroundings of the sender: vectors for memory, a pipe for TCP, a queue for what goes past it.

use super::{range_of, World, Wr};
use crate::proto::direct::HandedOver;
use crate::proto::failure::Fault;
use crate::proto::frame::Writer;
use crate::proto::link::{Broken, Link, Refused, SendFlags};
use crate::proto::order::{Record, Token};
use crate::proto::reads::{Inbound, InboundReads, Oldest, OutboundRead};
use crate::proto::request::{Operation, Request, Sink};
use crate::proto::sender::{Atomics, Env, OpenError, PayloadError, Peeked};
use crate::proto::sends::Sends;
use crate::proto::tx::Frame;
use crate::support::crc::crc32c;
use crate::support::room::Room;
use crate::wire::atomic::{AtomicOperation, AtomicRequest, WORD_LEN};
use crate::wire::ddp::{Header, Stag, TaggedOffset};
use crate::wire::fpdu::Crc;
use crate::wire::rdmap::{Control, ImmediateData, Opcode, ReadRequest};
use crate::wire::terminate::TermError;
use std::collections::VecDeque;

/// A batch, and a pipe that takes so many batches.
pub(crate) struct Pipe {
    pub(super) emss: u32,
    batch: Vec<u8>,
    piece: Room,
    /// Octets for the other side.
    pub(crate) out: VecDeque<u8>,
    /// Batches that the pipe still takes.
    pub(super) allowance: usize,
    /// Octets that a batch may have before it is handed over; one makes it an FPDU.
    pub(super) space: usize,
    /// Whether segments go past the pipe once it is empty.
    pub(super) is_direct: bool,
    /// Segments that went past it, for the other side: headers and payload.
    pub(super) handed: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// Octets of these since the last batch.
    since: usize,
}

impl Pipe {
    pub(super) fn new(emss: u32) -> Self {
        Pipe {
            emss,
            batch: Vec::new(),
            piece: Room::default(),
            out: VecDeque::new(),
            allowance: 0,
            space: 1,
            is_direct: false,
            handed: VecDeque::new(),
            since: 0,
        }
    }
}

impl Link for Pipe {
    type Mark = usize;

    fn is_direct(&self) -> bool {
        self.is_direct && self.batch.is_empty()
    }

    fn prepare(&mut self, _front: &[u8]) -> HandedOver {
        assert!(self.is_direct());
        if !self.out.is_empty() || self.allowance == 0 {
            return HandedOver::Later;
        }
        if self.since > self.space {
            return HandedOver::Enough;
        }
        HandedOver::Taken
    }

    fn segment_size(&self) -> u32 {
        if self.is_direct() {
            return u32::MAX;
        }
        self.emss
    }

    fn space(&self) -> usize {
        self.space
    }

    fn len(&self) -> usize {
        self.batch.len() + self.since
    }

    fn reserve(&mut self, len: u32) -> bool {
        self.batch.reserve(len as usize);
        true
    }

    fn mark(&self) -> usize {
        self.batch.len()
    }

    fn truncate(&mut self, mark: usize) -> Result<(), Broken> {
        assert!(mark <= self.batch.len());
        self.batch.truncate(mark);
        Ok(())
    }

    fn clear(&mut self) {
        self.batch.clear();
    }

    fn put(&mut self, octets: &[u8]) -> Result<(), Broken> {
        self.batch.extend_from_slice(octets);
        Ok(())
    }

    fn room(&mut self, len: u32, count: u32) -> Option<&mut [u8]> {
        self.piece.get(len, count, u32::MAX)
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
        if self.since > 0 {
            assert!(self.batch.is_empty(), "one way at a time");
            assert_eq!(how, SendFlags::default(), "TCP's business");
            self.since = 0;
            return Ok(());
        }
        // A real other side takes in at once what is handed over; here TCP waits until it has.
        if self.allowance > 0 && self.handed.is_empty() {
            self.allowance -= 1;
            self.out.extend(self.batch.drain(..));
        }
        Ok(())
    }
}

impl World {
    /// Completes what is due.
    pub(super) fn complete(&mut self) {
        while let Some(end) = self.sends.get_mut().order.pop() {
            self.completions.push(end);
        }
    }
}

impl Atomics for World {
    fn operands(&self) -> Option<AtomicOperation> {
        self.operands
    }

    fn carry_out(&mut self, request: &AtomicRequest) -> Result<u64, TermError> {
        let region = self.regions.get_mut(&request.stag.0);
        let word = region.ok_or(TermError::RemoteStag)?.word(request.to)?;
        let original = u64::from_ne_bytes(*word);
        *word = request.operation.apply(original).to_ne_bytes();
        Ok(original)
    }
}

impl Env<Pipe> for World {
    type Work = u64;
    type Records = Vec<Record<u64, Fault>>;
    type Outbound = Vec<OutboundRead>;
    type Inbound = Vec<Inbound>;

    fn peek(&mut self) -> Option<Peeked<Pipe, Self>> {
        let posted = self.sq.front()?;
        let mut len = 0;
        let mut solicit = false;
        self.sink = None;
        let operation = match &posted.wr {
            Wr::Send {
                data,
                solicited,
                invalidate,
            } => {
                self.source.clone_from(data);
                len = data.len() as u32;
                solicit = *solicited;
                Operation::Send {
                    invalidate: *invalidate,
                }
            }
            Wr::Write { data, stag, to } => {
                self.source.clone_from(data);
                len = data.len() as u32;
                let (stag, to) = (*stag, TaggedOffset(*to));
                Operation::Write {
                    stag,
                    to,
                    immediate: None,
                }
            }
            Wr::WriteImmediate {
                data,
                stag,
                to,
                immediate,
                solicited,
            } => {
                self.source.clone_from(data);
                len = data.len() as u32;
                solicit = *solicited;
                Operation::Write {
                    stag: *stag,
                    to: TaggedOffset(*to),
                    immediate: Some(ImmediateData::from_short(*immediate)),
                }
            }
            Wr::Read(request) => {
                len += request.len;
                self.sink = Some(Sink {
                    stag: request.sink_stag,
                    to: request.sink_to,
                    len,
                });
                Operation::Read {
                    stag: request.source_stag,
                    to: request.source_to,
                    invalidate: false,
                }
            }
            Wr::Atomic {
                operation,
                kind,
                stag,
                to,
                sink: (sink_stag, sink_to),
            } => {
                len = WORD_LEN;
                self.operands = Some(*operation);
                self.sink = Some(Sink {
                    stag: *sink_stag,
                    to: TaggedOffset(*sink_to),
                    len,
                });
                Operation::Atomic {
                    stag: *stag,
                    to: TaggedOffset(*to),
                    kind: *kind,
                }
            }
        };
        Some(Ok(Request {
            work: posted.id,
            operation,
            solicited: solicit,
            fence: posted.fence,
            len,
            is_inline: false,
        }))
    }

    fn consume(&mut self) {
        self.sq.pop_front().expect("peeked at");
    }

    fn has_requests(&self) -> bool {
        !self.sq.is_empty()
    }

    fn sink(&self) -> Option<Sink> {
        self.sink
    }

    fn may_write(&self, sink: &Sink) -> bool {
        let region = self.regions.get(&sink.stag.0);
        region.is_some_and(|region| region.range(sink.to.0, sink.len.into()).is_some())
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
        for token in tokens {
            self.sends.get_mut().order.done(*token);
        }
        self.complete();
        self.sends.get_mut().order.is_empty()
    }

    fn done_alone(&mut self, work: &u64) {
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

    fn fail_new(&mut self, work: u64, fault: Fault) -> bool {
        let token = self.sends.get_mut().order.push(work).expect("room");
        self.fail(token, fault)
    }

    fn invalidate(&mut self, _stag: Stag) -> Result<(), Fault> {
        unreachable!("no such request is posted");
    }

    fn register(&mut self) -> Result<(), Fault> {
        unreachable!("no such request is posted");
    }

    fn bind(&mut self) -> Result<(), Fault> {
        unreachable!("no such request is posted");
    }

    fn open_request(&mut self) -> Result<(), OpenError> {
        Ok(())
    }

    fn open_source(&mut self, request: &ReadRequest) -> Result<(), TermError> {
        let region = self.regions.get(&request.source_stag.0);
        let region = region.ok_or(TermError::RemoteStag)?;
        let range = range_of(region, request.source_to, request.len);
        self.source = region.bytes[range.ok_or(TermError::RemoteBounds)?].to_vec();
        Ok(())
    }

    fn close(&mut self) {}

    fn payload(
        &self,
        offset: u32,
        len: u32,
        writer: &mut Writer<'_, Pipe>,
    ) -> Result<(), PayloadError> {
        Ok(writer.put(&self.source[offset as usize..][..len as usize])?)
    }

    fn copy(&self, to: &mut [u8]) -> Result<(), PayloadError> {
        to.copy_from_slice(&self.source);
        Ok(())
    }

    fn hand_over(&self, link: &mut Pipe, front: &[u8], frame: &Frame) -> Result<(), PayloadError> {
        assert_eq!(link.prepare(front), HandedOver::Taken);
        let (header, _) = Header::parse(&front[2..]).expect("a header");
        let opcode = Control(header.rdmap()).opcode();
        let answers = [Opcode::ReadResponse, Opcode::AtomicResponse].map(Some);
        if answers.contains(&opcode) && header.control().last() {
            // The other side may send its next request at once.
            assert!(self.inbound.borrow().has_room(), "its slot is free");
        }
        link.allowance -= 1;
        let payload = &self.source[frame.offset as usize..][..frame.payload.into()];
        link.since += front.len() + payload.len();
        link.handed.push_back((front.to_vec(), payload.to_vec()));
        Ok(())
    }

    fn heard_of_peer(&self) -> bool {
        self.heard
    }

    fn finish(&mut self, _link: &mut Pipe, _has_spoken: bool) {
        self.fin |= self.wants_fin;
    }
}
