// SPDX-License-Identifier: GPL-2.0

//! The surroundings of the sender: vectors for memory, a pipe for TCP.

use super::{range_of, World, Wr};
use crate::proto::failure::Fault;
use crate::proto::frame::Writer;
use crate::proto::link::{Broken, Link, Refused, SendFlags};
use crate::proto::order::{Record, Token};
use crate::proto::reads::{InboundRead, InboundReads, OutboundRead};
use crate::proto::request::{Operation, Request, Sink};
use crate::proto::sender::{Env, OpenError, PayloadError, Peeked};
use crate::proto::sends::Sends;
use crate::support::crc::crc32c;
use crate::wire::ddp::{Stag, TaggedOffset};
use crate::wire::fpdu::Crc;
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::TermError;
use std::collections::VecDeque;

/// A batch, and a pipe that takes so many batches.
pub(crate) struct Pipe {
    pub(super) emss: u32,
    batch: Vec<u8>,
    /// Octets in one piece that are not in the batch yet, and which turn it is to say how many there are.
    piece: Vec<u8>,
    turn: usize,
    /// Octets for the other side.
    pub(crate) out: VecDeque<u8>,
    /// Batches that the pipe still takes.
    pub(super) allowance: usize,
    /// Octets that a batch may have before it is handed over; one makes it an FPDU.
    pub(super) space: usize,
}

impl Pipe {
    pub(super) fn new(emss: u32) -> Self {
        Pipe {
            emss,
            batch: Vec::new(),
            piece: Vec::new(),
            turn: 0,
            out: VecDeque::new(),
            allowance: 0,
            space: 1,
        }
    }
}

impl Link for Pipe {
    type Mark = usize;

    fn segment_size(&self) -> u32 {
        self.emss
    }

    fn space(&self) -> usize {
        self.space
    }

    fn len(&self) -> usize {
        self.batch.len()
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

    /// One time there is none, then for one or for three, then for as many as are wanted.
    fn room(&mut self, len: u32, count: u32) -> Option<&mut [u8]> {
        self.turn = (self.turn + 1) % 4;
        let most = [0, 1, 3, u32::MAX][self.turn];
        let len = len * count.min(most);
        if len == 0 {
            return None;
        }
        self.piece = vec![0xa5; len as usize];
        Some(&mut self.piece)
    }

    fn commit(&mut self, len: u32) -> Result<(), Broken> {
        assert_eq!(self.piece.len(), len as usize, "what was asked for");
        self.batch.append(&mut self.piece);
        Ok(())
    }

    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }

    fn crc_since(&self, mark: usize) -> Result<Crc, Broken> {
        Ok(Crc::new().update(crc32c, &self.batch[mark..]))
    }

    fn send(&mut self, _how: SendFlags) -> Result<(), Refused> {
        if self.allowance > 0 {
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

impl Env<Pipe> for World {
    type Work = u64;
    type Records = Vec<Record<u64, Fault>>;
    type Outbound = Vec<OutboundRead>;
    type Inbound = Vec<InboundRead>;

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
                Operation::Write { stag, to }
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

    fn with_inbound<R>(&self, f: impl FnOnce(&mut InboundReads<Self::Inbound>) -> R) -> R {
        f(&mut self.inbound.borrow_mut())
    }

    fn done(&mut self, tokens: &[Token]) {
        for token in tokens {
            self.sends.get_mut().order.done(*token);
        }
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

    fn heard_of_peer(&self) -> bool {
        self.heard
    }

    fn finish(&mut self, _link: &mut Pipe, _has_spoken: bool) {
        self.fin |= self.wants_fin;
    }
}
