// SPDX-License-Identifier: GPL-2.0

//! A complete protocol peer over a byte pipe: what the driver does around the pure layers, with
//! vectors for memory.

use super::crc::crc32c;
use crate::proto::conn::{Config, Event as Setup, Initiator, Params, Responder};
use crate::proto::deframer::{Deframer, Fpdu, Place, Step};
use crate::proto::negotiate::Depths;
use crate::proto::order::{Order, Record, Status, Token};
use crate::proto::reads::{Irq, IrqEntry, Orq, OrqEntry, Purpose};
use crate::proto::rx::{self, Action, Limits, Rx};
use crate::proto::state::{self, remote_class, Effects, Event, State, Tcp};
use crate::proto::tx::{self, Message, Rtr, Tx};
use crate::wire::ddp::Stag;
use crate::wire::fpdu::{Crc, MAX_FPDU};
use crate::wire::marker::Markers;
use crate::wire::mpa::{RtrSet, MAX_FRAME};
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::{Quote, TermError, Terminate};
use std::collections::{BTreeMap, VecDeque};

mod send;

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

/// A message on its way out, its payload, and its work request.
struct Outgoing {
    message: Message,
    data: Vec<u8>,
    done: Option<Token>,
    response: bool,
}

pub(crate) struct Peer {
    role: Role,
    pub(crate) state: State,
    pub(crate) params: Option<Params>,
    pub(crate) private_data: Vec<u8>,
    pub(crate) setup_failed: Option<Setup>,
    mulpdu: u16,
    deframer: Deframer,
    staging: Vec<u8>,
    rx: Rx,
    tx: Tx,
    markers: Option<Markers>,
    gate: bool,
    orq: Orq<Vec<OrqEntry>>,
    irq: Irq<Vec<IrqEntry>>,
    order: Order<Vec<Record<u64, u8>>>,
    sq: VecDeque<Posted>,
    rq: VecDeque<usize>,
    open: Option<Vec<u8>>,
    open_room: usize,
    outgoing: Option<Outgoing>,
    pub(crate) regions: BTreeMap<u32, Region>,
    /// Octets for the other side, and whether a FIN follows them.
    pub(crate) out: VecDeque<u8>,
    pub(crate) fin: bool,
    pub(crate) reset: bool,
    pub(crate) established: bool,
    pub(crate) completions: Vec<(u64, Status<u8>)>,
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
            mulpdu,
            deframer: Deframer::new(),
            staging: vec![0; MAX_FPDU],
            rx: Rx::new(RtrSet::default()),
            tx: Tx::new(),
            markers: None,
            gate: false,
            orq: Orq::new(Vec::new()),
            irq: Irq::new(Vec::new()),
            order: Order::new(vec![Record::default(); 32]),
            sq: VecDeque::new(),
            rq: VecDeque::new(),
            open: None,
            open_room: 0,
            outgoing: None,
            regions: BTreeMap::new(),
            out: VecDeque::new(),
            fin: false,
            reset: false,
            established: false,
            completions: Vec::new(),
            received: Vec::new(),
            sent_terminate: None,
            got_terminate: None,
            closes: 0,
            in_place: 0,
        }
    }

    pub(crate) fn initiator(config: Config, want: Depths, pd: &[u8], mulpdu: u16) -> Self {
        let initiator = Initiator::new(config, want);
        let mut frame = [0; MAX_FRAME];
        let n = initiator.request(pd, &mut frame).expect("private data");
        let mut peer = Peer::new(Role::Initiator(initiator), mulpdu);
        peer.out.extend(&frame[..n]);
        peer
    }

    pub(crate) fn responder(config: Config, want: Depths, mulpdu: u16) -> Self {
        Peer::new(Role::Responder(Responder::new(config), want), mulpdu)
    }

    pub(crate) fn post(&mut self, id: u64, wr: Wr, fence: bool) {
        self.sq.push_back(Posted { id, wr, fence });
    }

    pub(crate) fn post_recv(&mut self, room: usize) {
        self.rq.push_back(room);
    }

    /// Nothing left to send or to wait for.
    pub(crate) fn is_idle(&self) -> bool {
        self.sq.is_empty()
            && self.outgoing.is_none()
            && self.order.is_empty()
            && self.irq.is_empty()
            && self.orq.outstanding() == 0
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
                self.out.extend(&frame[..n]);
                self.start(params);
            }
            (Some(Setup::Established(params)), Role::Initiator(initiator)) => {
                self.private_data = initiator.private_data().to_vec();
                self.start(params);
            }
            (Some(event), _) => {
                self.setup_failed = Some(event);
                self.role = Role::Done;
                self.fin = true;
            }
            (None, _) => {}
        }
        fed.consumed
    }

    fn start(&mut self, params: Params) {
        self.role = Role::Done;
        self.params = Some(params);
        self.rx = Rx::new(params.expect_rtr);
        self.markers = params.send_markers.then(Markers::new);
        self.gate = !params.wait_for_fpdu;
        self.established = !(params.wait_for_fpdu && params.peer_to_peer);
        self.orq = Orq::new(vec![OrqEntry::default(); params.orq_slots().into()]);
        self.irq = Irq::new(vec![IrqEntry::default(); params.ird.into()]);
        self.apply(Event::Connected);
        if let Some(rtr) = params.send_rtr {
            if rtr == Rtr::Read {
                let entry = OrqEntry {
                    purpose: Purpose::ReadyToReceive,
                    ..OrqEntry::default()
                };
                self.orq.push(entry).expect("room for the RTR");
            }
            self.outgoing = Some(Outgoing {
                message: self.tx.message(rtr.kind(), 0),
                data: Vec::new(),
                done: None,
                response: false,
            });
        }
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
                Err(error) => self.fail(error, None),
            }
        }
    }

    fn fpdu(&mut self, fpdu: Fpdu, bytes: &[u8]) {
        let (covered, crc) = bytes.split_at(fpdu.crc_covers());
        let on = self.params.is_some_and(|p| p.crc);
        if on && Crc::new().update(crc32c, covered).to_wire() != *crc {
            self.rx.stop();
            return self.fail(TermError::MpaCrc, None);
        }
        self.gate = true;
        let ulpdu = &covered[2..2 + usize::from(fpdu.ulpdu_len)];
        let head = &ulpdu[..ulpdu.len().min(rx::HEAD_LEN)];
        let limits = Limits {
            read: true,
            write: true,
            irq_room: self.irq.has_room(),
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
                    self.gate = true;
                    self.established = true;
                }
                self.follow(segment.action, payload)
            });
        if let Err(error) = result {
            self.rx.stop();
            self.fail(error, Quote::new(head, fpdu.ulpdu_len));
        }
    }

    fn follow(&mut self, action: Action, payload: &[u8]) -> Result<(), TermError> {
        match action {
            Action::Ignore => {}
            Action::Write { stag, to, .. } => {
                if !payload.is_empty() {
                    let region = self.regions.get_mut(&stag.0).filter(|r| r.remote_write);
                    let region = region.ok_or(TermError::TaggedStag)?;
                    let range = region.range(to.0, payload.len() as u64);
                    let range = range.ok_or(TermError::TaggedBounds)?;
                    region.bytes[range].copy_from_slice(payload);
                }
            }
            Action::ReadResponse { stag, to, last } => {
                let got = self.orq.response(stag, to, payload.len() as u16, last)?;
                if !payload.is_empty() {
                    let region = self.regions.get_mut(&got.entry.sink_stag.0);
                    let region = region.ok_or(TermError::TaggedStag)?;
                    let range = region.range(to.0, payload.len() as u64);
                    let range = range.ok_or(TermError::TaggedBounds)?;
                    region.bytes[range].copy_from_slice(payload);
                }
                if got.complete {
                    self.orq.pop();
                }
                let token = got.entry.purpose.token();
                if let Some(token) = token.filter(|_| got.complete) {
                    self.order.done(token);
                    self.complete();
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
                    self.open_room = self.rq.pop_front().ok_or(TermError::UntaggedNoBuffer)?;
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
                        let known = self.regions.remove(&stag.0);
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
                    let region = self.regions.get(&request.source_stag.0);
                    let region = region.ok_or(TermError::RemoteStag)?;
                    let range = region.range(request.source_to.0, request.len.into());
                    range.ok_or(TermError::RemoteBounds)?;
                    region
                        .remote_read
                        .then_some(())
                        .ok_or(TermError::RemoteAccess)?;
                }
                self.irq.push(msn, request)?;
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
        if self.fin {
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

    fn fail(&mut self, error: TermError, quote: Option<Quote>) {
        let event = Event::LocalError {
            error,
            in_completion: false,
            can_send: self.gate,
        };
        self.apply_with(event, quote);
    }

    fn apply(&mut self, event: Event) {
        self.apply_with(event, None);
    }

    fn apply_with(&mut self, event: Event, quote: Option<Quote>) {
        let Ok((state, effects)) = state::next(self.state, event) else {
            return;
        };
        self.state = state;
        self.follow_effects(effects, quote);
    }

    fn follow_effects(&mut self, effects: Effects, quote: Option<Quote>) {
        if let Some(error) = effects.terminate {
            assert!(self.sent_terminate.is_none() && !self.fin);
            self.sent_terminate = Some(error);
            let mut header = [0; tx::TERMINATE_HEADER];
            let frame = tx::terminate(&Terminate { error, quote }, &mut header);
            self.emit(&header[..frame.header_len], &[], frame.ulpdu_len);
        }
        match effects.tcp {
            Tcp::Keep => {}
            Tcp::Fin => self.fin = true,
            Tcp::Reset | Tcp::ResetIfDelivered => self.reset = true,
        }
        if effects.flush_sq {
            self.outgoing = None;
            while self.orq.pop().is_some() {}
            while self.irq.pop().is_some() {}
            while let Some(end) = self.order.flush() {
                self.completions.push(end);
            }
            let posted = self.sq.drain(..).map(|p| (p.id, Status::Flushed));
            self.completions.extend(posted);
        }
        self.closes += u32::from(effects.close);
    }

    fn complete(&mut self) {
        while let Some(end) = self.order.pop() {
            self.completions.push(end);
        }
    }
}
