// SPDX-License-Identifier: GPL-2.0

//! A complete protocol peer over a byte pipe: what the driver does around the pure layers, with
//! vectors for memory.

use super::crc::crc32c;
use crate::proto::conn::{Config, Event as Setup, Initiator, Params, Responder};
use crate::proto::deframer::{Deframer, Fpdu, Place, Step};
use crate::proto::failure::{Failure, Fault};
use crate::proto::link::Link;
use crate::proto::negotiate::Depths;
use crate::proto::order::{Record, Status};
use crate::proto::reads::{Irq, IrqEntry, Orq, OrqEntry};
use crate::proto::request::Sink;
use crate::proto::rx::{self, Action, Limits, Rx};
use crate::proto::sender::{Outcome, Sender};
use crate::proto::sends::Sends;
use crate::proto::state::{self, remote_class, Effects, Event, State, Tcp};
use crate::wire::ddp::{Stag, TaggedOffset};
use crate::wire::fpdu::{Crc, MAX_FPDU};
use crate::wire::mpa::{RtrSet, MAX_FRAME};
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::{Quote, TermError};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

mod send;

use self::send::Pipe;

/// A work request.
#[derive(Clone, Debug)]
pub(crate) enum Wr {
    Send {
        data: Vec<u8>,
        solicited: bool,
        invalidate: Option<Stag>,
    },
    Write {
        data: Vec<u8>,
        stag: Stag,
        to: u64,
    },
    Read(ReadRequest),
}

/// Registered memory.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) base: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) remote_read: bool,
    pub(crate) remote_write: bool,
}

impl Region {
    fn range(&self, to: u64, len: u64) -> Option<std::ops::Range<usize>> {
        let start = to.checked_sub(self.base)?;
        let end = start.checked_add(len)?;
        (end <= self.bytes.len() as u64).then_some(start as usize..end as usize)
    }
}

/// A message received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) data: Vec<u8>,
    pub(crate) solicited: bool,
    pub(crate) invalidated: Option<Stag>,
}

enum Role {
    Initiator(Initiator),
    Responder(Responder, Depths),
    Done,
}

struct Posted {
    id: u64,
    wr: Wr,
    fence: bool,
}

/// The octets of a region that a peer names.
fn range_of(region: &Region, to: TaggedOffset, len: u32) -> Option<std::ops::Range<usize>> {
    region.range(to.0, len.into())
}

/// What the sender and the receiver find around them.
pub(crate) struct World {
    sends: RefCell<Sends<Vec<Record<u64, Fault>>, Vec<OrqEntry>>>,
    irq: RefCell<Irq<Vec<IrqEntry>>>,
    sq: VecDeque<Posted>,
    /// Octets of the message being sent, and the sink of the Read.
    source: Vec<u8>,
    sink: Option<Sink>,
    rq: VecDeque<usize>,
    heard: bool,
    wants_fin: bool,
    fin: bool,
    regions: BTreeMap<u32, Region>,
    completions: Vec<(u64, Status<Fault>)>,
}

pub(crate) struct Peer {
    role: Role,
    pub(crate) state: State,
    pub(crate) params: Option<Params>,
    pub(crate) private_data: Vec<u8>,
    pub(crate) setup_failed: Option<Setup>,
    deframer: Deframer,
    staging: Vec<u8>,
    rx: Rx,
    sender: Option<Sender>,
    world: World,
    pipe: Pipe,
    open: Option<Vec<u8>>,
    open_room: usize,
    pub(crate) reset: bool,
    pub(crate) established: bool,
    pub(crate) received: Vec<Received>,
    pub(crate) sent_terminate: Option<TermError>,
    pub(crate) got_terminate: Option<u16>,
    pub(crate) closes: u32,
    /// FPDUs that were used where they lay in the chunk.
    pub(crate) in_place: u32,
}

impl Peer {
    fn new(role: Role, mulpdu: u16) -> Self {
        Peer {
            role,
            state: State::Idle,
            params: None,
            private_data: Vec::new(),
            setup_failed: None,
            deframer: Deframer::new(),
            staging: vec![0; MAX_FPDU],
            rx: Rx::new(RtrSet::default()),
            sender: None,
            world: World {
                sends: RefCell::new(Sends::new(vec![Record::default(); 32], Vec::new())),
                irq: RefCell::new(Irq::new(Vec::new())),
                sq: VecDeque::new(),
                source: Vec::new(),
                sink: None,
                rq: VecDeque::new(),
                heard: false,
                wants_fin: false,
                fin: false,
                regions: BTreeMap::new(),
                completions: Vec::new(),
            },
            // Length field and CRC.
            pipe: Pipe::new(u32::from(mulpdu) + 6),
            open: None,
            open_room: 0,
            reset: false,
            established: false,
            received: Vec::new(),
            sent_terminate: None,
            got_terminate: None,
            closes: 0,
            in_place: 0,
        }
    }

    /// The octets that wait for the other side.
    pub(crate) fn out(&mut self) -> &mut VecDeque<u8> {
        &mut self.pipe.out
    }

    /// Whether a FIN follows them.
    pub(crate) fn fin(&self) -> bool {
        self.world.fin
    }

    pub(crate) fn regions(&mut self) -> &mut BTreeMap<u32, Region> {
        &mut self.world.regions
    }

    pub(crate) fn region(&self, stag: Stag) -> &Region {
        &self.world.regions[&stag.0]
    }

    pub(crate) fn completions(&self) -> &[(u64, Status<Fault>)] {
        &self.world.completions
    }

    pub(crate) fn initiator(config: Config, want: Depths, pd: &[u8], mulpdu: u16) -> Self {
        let initiator = Initiator::new(config, want);
        let mut frame = [0; MAX_FRAME];
        let n = initiator.request(pd, &mut frame).expect("private data");
        let mut peer = Peer::new(Role::Initiator(initiator), mulpdu);
        peer.out().extend(&frame[..n]);
        peer
    }

    pub(crate) fn responder(config: Config, want: Depths, mulpdu: u16) -> Self {
        Peer::new(Role::Responder(Responder::new(config), want), mulpdu)
    }

    pub(crate) fn post(&mut self, id: u64, wr: Wr, fence: bool) {
        self.world.sq.push_back(Posted { id, wr, fence });
    }

    pub(crate) fn post_recv(&mut self, room: usize) {
        self.world.rq.push_back(room);
    }

    /// Nothing left to send or to wait for.
    pub(crate) fn is_idle(&self) -> bool {
        let sends = self.world.sends.borrow();
        self.world.sq.is_empty()
            && self.pipe.is_empty()
            && !self.sender.as_ref().is_some_and(Sender::is_busy)
            && sends.order.is_empty()
            && self.world.irq.borrow().is_empty()
            && sends.orq.outstanding() == 0
    }

    /// Sends up to `fpdus` FPDUs.
    pub(crate) fn transmit(&mut self, fpdus: usize) {
        let Some(sender) = &mut self.sender else {
            return;
        };
        self.pipe.allowance = fpdus;
        match sender.run(&mut self.world, &mut self.pipe, self.state) {
            Outcome::Idle | Outcome::Again => {}
            Outcome::Failed(failure) => self.fail(failure),
        }
        self.pipe.allowance = 0;
    }

    /// Takes in a piece of the stream.
    pub(crate) fn receive(&mut self, chunk: &[u8]) {
        let n = self.set_up(chunk);
        if self.state == State::Rts {
            self.data(&chunk[n..]);
        }
    }

    fn set_up(&mut self, chunk: &[u8]) -> usize {
        let fed = match &mut self.role {
            Role::Initiator(initiator) => initiator.feed(chunk),
            Role::Responder(responder, _) => responder.feed(chunk),
            Role::Done => return 0,
        };
        match (fed.event, &mut self.role) {
            (Some(Setup::Request(_)), Role::Responder(responder, want)) => {
                self.private_data = responder.private_data().to_vec();
                let mut frame = [0; MAX_FRAME];
                let (n, params) = responder
                    .accept(*want, b"welcome", &mut frame)
                    .expect("fits");
                self.out().extend(&frame[..n]);
                self.start(params);
            }
            (Some(Setup::Established(params)), Role::Initiator(initiator)) => {
                self.private_data = initiator.private_data().to_vec();
                self.start(params);
            }
            (Some(event), _) => {
                self.setup_failed = Some(event);
                self.role = Role::Done;
                self.world.fin = true;
            }
            (None, _) => {}
        }
        fed.consumed
    }

    fn start(&mut self, params: Params) {
        self.role = Role::Done;
        self.params = Some(params);
        self.rx = Rx::new(params.expect_rtr);
        self.sender = Some(Sender::new(&params, self.pipe.emss));
        self.established = !(params.wait_for_fpdu && params.peer_to_peer);
        let sends = self.world.sends.get_mut();
        sends.ord = params.ord.into();
        sends.orq = Orq::new(vec![OrqEntry::default(); params.orq_slots().into()]);
        self.world.irq = RefCell::new(Irq::new(vec![IrqEntry::default(); params.ird.into()]));
        self.apply(Event::Connected);
    }

    fn data(&mut self, mut chunk: &[u8]) {
        while self.state == State::Rts {
            match self.deframer.next(&chunk) {
                Ok(Step::NeedMore) => return,
                Ok(Step::Stage { at, n }) => {
                    self.staging[at..at + n].copy_from_slice(&chunk[..n]);
                    chunk = &chunk[n..];
                }
                Ok(Step::Fpdu(fpdu)) if fpdu.place == Place::Chunk => {
                    let (bytes, rest) = chunk.split_at(fpdu.len);
                    self.in_place += 1;
                    self.fpdu(fpdu, bytes);
                    chunk = rest;
                }
                Ok(Step::Fpdu(fpdu)) => {
                    let bytes = std::mem::take(&mut self.staging);
                    self.fpdu(fpdu, &bytes[..fpdu.len]);
                    self.staging = bytes;
                }
                Err(error) => self.fail(error.into()),
            }
        }
    }

    fn fpdu(&mut self, fpdu: Fpdu, bytes: &[u8]) {
        let (covered, crc) = bytes.split_at(fpdu.crc_covers());
        let on = self.params.is_some_and(|p| p.crc);
        if on && Crc::new().update(crc32c, covered).to_wire() != *crc {
            self.rx.stop();
            return self.fail(TermError::MpaCrc.into());
        }
        self.world.heard = true;
        let ulpdu = &covered[2..2 + usize::from(fpdu.ulpdu_len)];
        let head = &ulpdu[..ulpdu.len().min(rx::HEAD_LEN)];
        let limits = Limits {
            read: true,
            write: true,
            irq_room: self.world.irq.borrow().has_room(),
        };
        let result = self
            .rx
            .segment(head, fpdu.ulpdu_len, &limits)
            .and_then(|segment| {
                let payload = &ulpdu[segment.header_len.into()..];
                assert!(
                    segment.action == Action::Ignore || payload.len() == segment.payload_len.into()
                );
                if segment.first {
                    self.established = true;
                }
                self.follow(segment.action, payload)
            });
        if let Err(error) = result {
            self.rx.stop();
            let quote = Quote::new(head, fpdu.ulpdu_len);
            self.fail(Failure {
                quote,
                ..error.into()
            });
        }
    }

    fn follow(&mut self, action: Action, payload: &[u8]) -> Result<(), TermError> {
        match action {
            Action::Ignore => {}
            Action::Write { stag, to, .. } => {
                if !payload.is_empty() {
                    let region = self
                        .world
                        .regions
                        .get_mut(&stag.0)
                        .filter(|r| r.remote_write);
                    let region = region.ok_or(TermError::TaggedStag)?;
                    let range = region.range(to.0, payload.len() as u64);
                    let range = range.ok_or(TermError::TaggedBounds)?;
                    region.bytes[range].copy_from_slice(payload);
                }
            }
            Action::ReadResponse { stag, to, last } => {
                let sends = self.world.sends.get_mut();
                let got = sends.orq.response(stag, to, payload.len() as u16, last)?;
                if !payload.is_empty() {
                    let region = self.world.regions.get_mut(&got.entry.sink_stag.0);
                    let region = region.ok_or(TermError::TaggedStag)?;
                    let range = region.range(to.0, payload.len() as u64);
                    let range = range.ok_or(TermError::TaggedBounds)?;
                    region.bytes[range].copy_from_slice(payload);
                }
                if got.complete {
                    self.world.sends.get_mut().orq.pop();
                }
                let token = got.entry.purpose.token();
                if let Some(token) = token.filter(|_| got.complete) {
                    self.world.sends.get_mut().order.done(token);
                    self.world.complete();
                }
            }
            Action::Send {
                mo,
                first,
                last,
                solicited,
                invalidate,
                ..
            } => {
                if first {
                    self.open_room = self
                        .world
                        .rq
                        .pop_front()
                        .ok_or(TermError::UntaggedNoBuffer)?;
                    self.open = Some(Vec::new());
                }
                let open = self.open.as_mut().expect("`first` opened it");
                assert_eq!(open.len(), mo as usize);
                if open.len() + payload.len() > self.open_room {
                    return Err(TermError::UntaggedTooLong);
                }
                open.extend_from_slice(payload);
                if last {
                    let data = self.open.take().expect("open");
                    if let Some(stag) = invalidate {
                        let known = self.world.regions.remove(&stag.0);
                        known.ok_or(TermError::RemoteCannotInvalidate)?;
                    }
                    self.received.push(Received {
                        data,
                        solicited,
                        invalidated: invalidate,
                    });
                }
            }
            Action::ReadRequest { msn, request } => {
                if request.len > 0 {
                    let region = self.world.regions.get(&request.source_stag.0);
                    let region = region.ok_or(TermError::RemoteStag)?;
                    let range = region.range(request.source_to.0, request.len.into());
                    range.ok_or(TermError::RemoteBounds)?;
                    region
                        .remote_read
                        .then_some(())
                        .ok_or(TermError::RemoteAccess)?;
                }
                self.world.irq.get_mut().push(msn, request)?;
            }
            Action::Terminate { code, .. } => {
                self.got_terminate = Some(code);
                self.apply(Event::TerminateReceived {
                    event: Some(remote_class(code)),
                });
            }
        }
        Ok(())
    }

    /// The other side's FIN.
    pub(crate) fn peer_fin(&mut self) {
        let idle = self.is_idle() && self.deframer.staged() == 0 && !self.rx.in_message();
        self.apply(Event::PeerFin { idle });
        if self.fin() {
            self.apply(Event::Closed);
        }
    }

    pub(crate) fn disconnect(&mut self) {
        self.apply(Event::Modify {
            to: State::Closing,
            idle: self.is_idle(),
            flushed: false,
        });
    }

    pub(crate) fn closed(&mut self) {
        self.apply(Event::Closed);
    }

    fn fail(&mut self, failure: Failure) {
        let can_send = self.sender.as_ref();
        let event = Event::LocalError {
            error: failure.error,
            in_completion: failure.in_completion,
            can_send: can_send.is_some_and(|sender| sender.may_send(self.world.heard)),
        };
        self.apply_with(event, Some(failure));
    }

    fn apply(&mut self, event: Event) {
        self.apply_with(event, None);
    }

    fn apply_with(&mut self, event: Event, failure: Option<Failure>) {
        let Ok((state, effects)) = state::next(self.state, event) else {
            return;
        };
        self.state = state;
        self.follow_effects(effects, failure);
    }

    fn follow_effects(&mut self, effects: Effects, failure: Option<Failure>) {
        if let (Some(error), Some(sender)) = (effects.terminate, &mut self.sender) {
            assert!(self.sent_terminate.is_none() && !self.world.fin);
            self.sent_terminate = Some(error);
            sender.set_terminate(&failure.unwrap_or(error.into()));
        }
        match effects.tcp {
            Tcp::Keep => {}
            Tcp::Fin => self.world.wants_fin = true,
            Tcp::Reset | Tcp::ResetIfDelivered => self.reset = true,
        }
        if effects.terminate.is_some() || effects.tcp == Tcp::Fin {
            self.transmit(usize::MAX);
        }
        if effects.flush_sq {
            let sends = self.world.sends.get_mut();
            while sends.orq.pop().is_some() {}
            while let Some(end) = sends.order.flush() {
                self.world.completions.push(end);
            }
            while self.world.irq.get_mut().pop().is_some() {}
            let posted = self.world.sq.drain(..).map(|p| (p.id, Status::Flushed));
            self.world.completions.extend(posted);
        }
        if effects.close {
            self.sender = None;
            self.closes += 1;
        }
    }
}
