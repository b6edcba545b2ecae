// SPDX-License-Identifier: GPL-2.0

//! The surroundings of the receiver: vectors for memory.

use super::{Note, Region, World};
use crate::proto::budget::Budget;
use crate::proto::chunk::{Chunk, Payload, Reach, Source};
use crate::proto::failure::{Failure, Fault};
use crate::proto::order::Token;
use crate::proto::reads::{Inbound, InboundRead, Response};
use crate::proto::receiver::{Atomics, Env, Received, Recv, Unplaced};
use crate::proto::rx::{Going, Limits};
use crate::proto::state::QpState;
use crate::proto::train::Train;
use crate::support::crc::crc32c;
use crate::support::trains::place_each;
use crate::wire::atomic::{AtomicRequest, WORD_LEN};
use crate::wire::ddp::{Msn, Stag, TaggedOffset};
use crate::wire::fpdu::Crc;
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::TermError;
use crate::wire::Short;
use std::cell::Cell;

/// A piece of the stream.
pub(crate) struct Piece<'a> {
    /// Its octets, and those behind it.
    octets: &'a [u8],
    len: usize,
    /// Octets that can be read.
    reach: Cell<usize>,
    /// What those that are not there come to.
    missing: Reach,
}

impl<'a> Piece<'a> {
    /// All of `octets`.
    pub(crate) fn all(octets: &'a [u8]) -> Self {
        Self::front(octets, octets.len(), Reach::Apart)
    }

    /// The first `len` of `octets`, of which the others are behind it. Those that are not there are
    /// `missing`.
    pub(crate) fn front(octets: &'a [u8], len: usize, missing: Reach) -> Self {
        let reach = Cell::new(len);
        Self {
            octets,
            len,
            reach,
            missing,
        }
    }

    fn get(&self, at: usize, len: usize) -> Result<&[u8], Short> {
        let end = at.checked_add(len).ok_or(Short)?;
        self.octets[..self.reach.get()].get(at..end).ok_or(Short)
    }
}

impl Chunk for Piece<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) -> Result<(), Short> {
        to.copy_from_slice(self.get(at, to.len())?);
        Ok(())
    }

    fn reach(&self, at: usize, len: usize) -> Reach {
        if at + len > self.octets.len() {
            return self.missing;
        }
        self.reach.set(self.reach.get().max(at + len));
        Reach::Here
    }

    fn crc(&self, at: usize, len: usize, crc: Crc) -> Result<Crc, Short> {
        Ok(crc.update(crc32c, self.get(at, len)?))
    }
}

/// The octets of a payload.
pub(crate) fn octets<'a>(payload: &'a Payload<'_, Piece<'_>>) -> &'a [u8] {
    let len = payload.len as usize;
    match payload.source {
        Source::Chunk { chunk, at } => chunk.get(at + payload.at, len).unwrap(),
        Source::Bytes(bytes) => &bytes[payload.at..][..len],
    }
}

/// Writes a payload to a region.
fn write(region: &mut Region, to: TaggedOffset, payload: &Payload<'_, Piece<'_>>) -> Option<()> {
    let range = region.range(to, payload.len)?;
    region.bytes[range].copy_from_slice(octets(payload));
    Some(())
}

impl World {
    /// Counts payloads that are placed from where they lie in the chunk.
    fn count(&mut self, payload: &Payload<'_, Piece<'_>>) {
        self.in_place += u32::from(matches!(payload.source, Source::Chunk { .. }));
    }
}

impl Limits for World {
    fn may_read(&self) -> bool {
        true
    }

    fn may_write(&self) -> bool {
        true
    }

    fn may_atomic(&self) -> bool {
        true
    }

    fn has_read_room(&self) -> bool {
        self.queue.inbound.borrow().has_room()
    }

    fn may_take_immediate(&self) -> bool {
        true
    }
}

impl Atomics for World {
    fn atomic_request(&mut self, msn: Msn, request: AtomicRequest) -> Result<(), TermError> {
        let region = self.queue.memory.regions_mut().get_mut(&request.stag.0);
        region.ok_or(TermError::RemoteStag)?.word(request.to)?;
        let inbound = self.queue.inbound.get_mut();
        inbound.push(Inbound::Atomic(msn, request), 8, 1 << 17)?;
        Ok(())
    }

    fn atomic_response(&mut self, id: u32) -> Result<Response, TermError> {
        self.queue.sends.get_mut().outbound.atomic_response(id)
    }

    fn place_result(&mut self, stag: Stag, to: TaggedOffset, result: u64) -> Result<(), Unplaced> {
        let region = self
            .queue
            .memory
            .regions_mut()
            .get_mut(&stag.0)
            .ok_or(Unplaced)?;
        let range = region.range(to, WORD_LEN).ok_or(Unplaced)?;
        region.bytes[range].copy_from_slice(&result.to_ne_bytes());
        Ok(())
    }
}

impl<'c> Env<Piece<'c>> for World {
    fn crc32c(crc: u32, octets: &[u8]) -> u32 {
        crc32c(crc, octets)
    }

    fn state(&self) -> QpState {
        self.state
    }

    fn fpdu_received(&mut self) {
        self.queue.heard = true;
    }

    fn first_segment(&mut self) {
        self.notes.push(Note::FirstSegment);
    }

    fn data_in_closing(&mut self) {
        self.notes.push(Note::DataInClosing);
    }

    fn terminate_received(&mut self, code: u16, _read: Option<Msn>) {
        self.notes.push(Note::Terminate(code));
    }

    fn fail(&mut self, failure: Failure) {
        self.notes.push(Note::Failed(failure));
    }

    fn place_write(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        payload: &Payload<'_, Piece<'c>>,
        _budget: &mut Budget,
    ) -> Result<(), TermError> {
        self.count(payload);
        let region = self
            .queue
            .memory
            .regions_mut()
            .get_mut(&stag.0)
            .filter(|r| r.remote_write);
        let region = region.ok_or(TermError::TaggedStag)?;
        write(region, to, payload).ok_or(TermError::TaggedBounds)
    }

    fn place_response(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        payload: &Payload<'_, Piece<'c>>,
        _budget: &mut Budget,
    ) -> Result<(), Unplaced> {
        self.count(payload);
        let region = self
            .queue
            .memory
            .regions_mut()
            .get_mut(&stag.0)
            .ok_or(Unplaced)?;
        write(region, to, payload).ok_or(Unplaced)
    }

    fn place_train(
        &mut self,
        going: Going,
        train: &mut Train<'_, Piece<'c>>,
    ) -> Result<(), Unplaced> {
        // What of it is in the region, as the driver finds out before it begins.
        if let Going::Write(stag, to) | Going::Response(stag, to) = going {
            let write = matches!(going, Going::Write(..));
            let region = self.queue.memory.regions().get(&stag.0);
            let region = region.filter(|r| !write || r.remote_write);
            let fits = |n: &u32| region.is_some_and(|r| r.range(to, *n).is_some());
            let limit = (1..=train.limit()).take_while(fits).last();
            train.set_limit(limit.unwrap_or(0));
        }
        place_each(self, going, train).map(|_| ())
    }

    fn take_recv(&mut self) -> Result<Option<Recv>, Failure> {
        assert!(self.open.is_empty(), "the receive before is in progress");
        let room = self.rq.pop_front();
        Ok(room.map(|room| Recv {
            id: 0,
            len: room as u64,
        }))
    }

    fn place_recv(
        &mut self,
        offset: u32,
        payload: &Payload<'_, Piece<'c>>,
        _budget: &mut Budget,
    ) -> Result<(), Unplaced> {
        self.count(payload);
        assert_eq!(self.open.len(), offset as usize);
        self.open.extend_from_slice(octets(payload));
        Ok(())
    }

    fn complete_recv(&mut self, received: &Received) -> Result<(), Failure> {
        assert_eq!(self.open.len(), received.len as usize);
        self.received.push(super::Received {
            data: std::mem::take(&mut self.open),
            solicited: received.solicited,
            extra: received.extra,
        });
        Ok(())
    }

    fn fail_recv(&mut self, _id: u64, fault: Fault) -> bool {
        self.open.clear();
        self.failed_receives.push(fault);
        true
    }

    fn invalidate_for_peer(&mut self, stag: Stag) -> Result<(), TermError> {
        let region = self.queue.memory.regions_mut().remove(&stag.0);
        region.map(drop).ok_or(TermError::RemoteCannotInvalidate)
    }

    fn invalidate_sink(&mut self, stag: Stag) -> Result<(), Unplaced> {
        self.queue
            .memory
            .regions_mut()
            .remove(&stag.0)
            .map(drop)
            .ok_or(Unplaced)
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
        self.queue
            .sends
            .get_mut()
            .outbound
            .response(stag, to, len, last)
    }

    fn response_left(&self, stag: Stag, to: TaggedOffset) -> u32 {
        self.queue.sends.borrow().outbound.left(stag, to)
    }

    fn read_done(&mut self, token: Option<Token>) {
        let sends = self.queue.sends.get_mut();
        sends.outbound.pop().expect("its response came");
        if let Some(token) = token {
            sends.order.done(token);
        }
        self.queue.complete();
    }

    fn fail_send(&mut self, token: Token, fault: Fault) -> bool {
        let told = self.queue.sends.get_mut().order.fail(token, fault);
        self.queue.complete();
        told
    }

    fn read_request(&mut self, msn: Msn, request: ReadRequest) -> Result<(), TermError> {
        if request.len > 0 {
            let region = self.queue.memory.regions().get(&request.source_stag.0);
            let region = region.ok_or(TermError::RemoteStag)?;
            let range = region.range(request.source_to, request.len);
            range.ok_or(TermError::RemoteBounds)?;
            let allowed = region.remote_read.then_some(());
            allowed.ok_or(TermError::RemoteAccess)?;
        }
        let read = Inbound::Read(InboundRead { msn, request });
        self.queue.inbound.get_mut().push(read, 8, 1 << 17)?;
        Ok(())
    }
}
