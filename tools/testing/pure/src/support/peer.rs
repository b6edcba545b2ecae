// SPDX-License-Identifier: GPL-2.0

//! A complete protocol peer over a byte pipe: what the driver does around the pure layers, with
//! vectors for memory.

use crate::proto::counters::Tally;
use crate::proto::deframer::Budget;
use crate::proto::drain::Stop;
use crate::proto::failure::{Failure, Fault};
use crate::proto::negotiate::Depths;
use crate::proto::receiver::{Extra, Lack, Receiver};
use crate::proto::request::{Operation, OperationType, Sink};
use crate::proto::sender::Sender;
use crate::proto::sends::Status;
use crate::proto::setup::{Config, Initiator, Params, Responder, SetupEvent};
use crate::proto::state::{self, remote_class, Effects, QpEvent, QpState};
use crate::proto::transport::Transport;
use crate::support::around::{Around, Did};
use crate::support::memory::{Memory, Octets};
use crate::support::piece::{Handed, Piece};
use crate::support::queue::{Posted, Queue};
use crate::support::tcp::Tcp;
use crate::support::tuning::Tuning;
use crate::wire::atomic::{AtomicOperation, WORD_LEN};
use crate::wire::ddp::{Stag, TaggedOffset};
use crate::wire::fpdu::MAX_FPDU;
use crate::wire::mpa::MAX_FRAME;
use crate::wire::rdmap::{ImmediateData, ReadRequest};
use crate::wire::terminate::TermError;
use std::collections::BTreeMap;

pub(crate) use crate::support::memory::Region;

/// A work request.
#[derive(Clone, Debug)]
pub(crate) enum Wr {
    Send {
        data: Vec<u8>,
        solicited: bool,
        invalidate: Option<Stag>,
    },
    /// A Send with immediate data.
    SendImmediate {
        data: Vec<u8>,
        immediate: [u8; 4],
        solicited: bool,
    },
    Write {
        data: Vec<u8>,
        stag: Stag,
        to: u64,
    },
    /// An RDMA Write with immediate data.
    WriteImmediate {
        data: Vec<u8>,
        stag: Stag,
        to: u64,
        immediate: [u8; 4],
        solicited: bool,
    },
    Read(ReadRequest),
    /// An Atomic Operation, and where its result goes.
    Atomic {
        operation: AtomicOperation,
        kind: OperationType,
        stag: Stag,
        to: u64,
        sink: (Stag, u64),
    },
}

impl Wr {
    /// As the sender's surroundings have it.
    fn posted(self, fence: bool) -> (Posted, Octets) {
        let none = Octets::Offsets;
        let (mut solicited, mut sink, mut operands) = (false, None, None);
        let to_sink = |stag, to, len| Some(Sink { stag, to, len });
        let (operation, octets) = match self {
            Wr::Send {
                data,
                solicited: event,
                invalidate,
            } => {
                solicited = event;
                (Operation::Send { invalidate }, Octets::These(data))
            }
            Wr::SendImmediate {
                data,
                immediate,
                solicited: event,
            } => {
                solicited = event;
                let operation = Operation::SendImmediate { data: immediate };
                (operation, Octets::These(data))
            }
            Wr::Write { data, stag, to } => {
                let (to, immediate) = (TaggedOffset(to), None);
                let operation = Operation::Write {
                    stag,
                    to,
                    immediate,
                };
                (operation, Octets::These(data))
            }
            Wr::WriteImmediate {
                data,
                stag,
                to,
                immediate,
                solicited: event,
            } => {
                solicited = event;
                let operation = Operation::Write {
                    stag,
                    to: TaggedOffset(to),
                    immediate: Some(ImmediateData::from_short(immediate)),
                };
                (operation, Octets::These(data))
            }
            Wr::Read(read) => {
                sink = to_sink(read.sink_stag, read.sink_to, read.len);
                let operation = Operation::Read {
                    stag: read.source_stag,
                    to: read.source_to,
                    invalidate: false,
                };
                (operation, none(read.len))
            }
            Wr::Atomic {
                operation,
                kind,
                stag,
                to,
                sink: (sink_stag, sink_to),
            } => {
                operands = Some(operation);
                sink = to_sink(sink_stag, TaggedOffset(sink_to), WORD_LEN);
                let to = TaggedOffset(to);
                (Operation::Atomic { stag, to, kind }, none(WORD_LEN))
            }
        };
        let posted = Posted {
            fence,
            solicited,
            sink,
            operands,
            ..Posted::new(operation, octets.len())
        };
        (posted, octets)
    }
}

/// A message received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) data: Vec<u8>,
    pub(crate) solicited: bool,
    pub(crate) extra: Extra,
}

enum Role {
    Initiator(Initiator),
    Responder(Responder, Depths),
    Done,
}

pub(crate) struct Peer {
    role: Role,
    pub(crate) params: Option<Params>,
    pub(crate) private_data: Vec<u8>,
    pub(crate) setup_failed: Option<SetupEvent>,
    receiver: Option<Receiver<Vec<u8>>>,
    /// What the receiver has not taken yet.
    unread: Vec<u8>,
    sender: Option<Sender>,
    world: Around,
    pipe: Tcp,
    /// Budgets.
    pub(crate) tuning: Tuning,
    /// Its requests complete when the other side has placed them.
    pub(crate) awaits_placement: bool,
    pub(crate) reset: bool,
    pub(crate) established: bool,
    pub(crate) sent_terminate: Option<TermError>,
    pub(crate) got_terminate: Option<u16>,
    pub(crate) closes: u32,
    /// Messages, and what was wrong with others.
    received: Vec<Received>,
    failed_receives: Vec<Fault>,
}

impl Peer {
    fn new(role: Role, mulpdu: u16) -> Self {
        // Length field and CRC.
        let mut pipe = Tcp::new(u32::from(mulpdu) + 6);
        pipe.is_read = true;
        pipe.allowance = 0;
        // An octet makes a batch of one FPDU.
        pipe.space = 1;
        let regions = Memory::Regions(BTreeMap::new());
        let mut world = Around::new(Queue::new(32, regions, pipe.log.clone()));
        world.state = QpState::Idle;
        Peer {
            role,
            params: None,
            private_data: Vec::new(),
            setup_failed: None,
            receiver: None,
            unread: Vec::new(),
            sender: None,
            world,
            pipe,
            tuning: Tuning::default(),
            awaits_placement: false,
            reset: false,
            established: false,
            sent_terminate: None,
            got_terminate: None,
            closes: 0,
            received: Vec::new(),
            failed_receives: Vec::new(),
        }
    }

    pub(crate) fn state(&self) -> QpState {
        self.world.state
    }

    pub(crate) fn received(&self) -> &[Received] {
        &self.received
    }

    /// Payloads that were placed from where they lay in the chunk.
    pub(crate) fn in_place(&self) -> u32 {
        self.world.in_place
    }

    /// What was wrong with receives that did not get their message.
    pub(crate) fn failed_receives(&self) -> &[Fault] {
        &self.failed_receives
    }

    /// Whether nobody uses regions when they are invalidated.
    pub(crate) fn set_quiet(&mut self, quiet: bool) {
        self.world.quiet = quiet;
        if self.receiver.is_some() {
            let stream = std::mem::take(&mut self.unread);
            self.data(&stream);
        }
    }

    /// Whether the receiver waits until nobody uses what is invalidated.
    fn waits(&self) -> bool {
        let receiver = self.receiver.as_ref();
        receiver.is_none_or(|receiver| receiver.lacks() == Lack::Quiet)
    }

    /// The octets that wait for the other side.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.pipe.out
    }

    /// Whether a FIN follows them.
    pub(crate) fn fin(&self) -> bool {
        self.world.queue.fin
    }

    pub(crate) fn regions(&mut self) -> &mut BTreeMap<u32, Region> {
        self.world.queue.memory.regions_mut()
    }

    pub(crate) fn region(&self, stag: Stag) -> &Region {
        &self.world.queue.memory.regions()[&stag.0]
    }

    pub(crate) fn completions(&self) -> &[(u64, Status<Fault>)] {
        &self.world.queue.completions
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
        let (posted, octets) = wr.posted(fence);
        self.world.queue.posted.push_back((id, posted, octets));
    }

    pub(crate) fn post_recv(&mut self, room: usize) {
        self.world.recvs.push_back(Some(room as u64));
    }

    /// Lets Sends of the other side wait for a receive.
    #[cfg(test)]
    pub(crate) fn set_patience(&mut self, ms: u32) {
        let receiver = self.receiver.as_mut().expect("connected");
        receiver.set_patience(ms);
    }

    /// How many messages of the other side this one has placed.
    #[cfg(test)]
    pub(crate) fn placed(&self) -> u32 {
        self.receiver.as_ref().expect("connected").placed()
    }

    /// Nothing left to send or to wait for.
    pub(crate) fn is_idle(&self) -> bool {
        let sends = self.world.queue.sends.borrow();
        self.world.queue.posted.is_empty()
            && self.pipe.unsent() == 0
            && !self.sender.as_ref().is_some_and(Sender::is_busy)
            && sends.is_empty()
            && self.world.queue.inbound.borrow().is_empty()
            && sends.outbound.outstanding() == 0
    }

    /// Has batches of `octets` octets or a little more sent at a time, instead of one FPDU.
    pub(crate) fn set_batch(&mut self, octets: usize) {
        self.pipe.space = octets;
    }

    /// From now on segments go to the other side without the pipe, as soon as that is empty.
    pub(crate) fn go_direct(&mut self) {
        self.pipe.direct = Some(Ok(true));
    }

    /// From now on all goes through the pipe again, once what went past it was taken.
    pub(crate) fn leave_direct(&mut self) {
        assert!(self.pipe.handed.is_empty());
        self.pipe.direct = None;
    }

    /// Segments that wait for the other side, past the pipe.
    pub(crate) fn handed(&self) -> usize {
        self.pipe.handed.len()
    }

    /// Gives up to `n` segments to the other side. Returns whether it took one.
    pub(crate) fn hand_over(&mut self, to: &mut Peer, n: usize) -> bool {
        let mut taken = false;
        for _ in 0..n {
            // All that came through the pipe is in front of them.
            assert!(self.pipe.out.is_empty() || self.pipe.handed.is_empty());
            let Some((front, payload)) = self.pipe.handed.front() else {
                break;
            };
            if !to.unread.is_empty() || !to.take_in(front, payload) {
                break;
            }
            self.pipe.handed.pop_front();
            taken = true;
        }
        taken
    }

    fn take_in(&mut self, front: &[u8], payload: &[u8]) -> bool {
        let Some(receiver) = &mut self.receiver else {
            return true;
        };
        let budget = Budget::new(self.tuning.rx);
        self.world.begin(receiver, budget);
        let is_admitted = self.world.admit(receiver, front) == Lack::Nothing;
        if is_admitted {
            assert_ne!(
                self.world.take(receiver, &Handed { front, payload }),
                0,
                "it is lost"
            );
        }
        self.act();
        is_admitted
    }

    /// Sends up to `batches` batches, of one FPDU each unless [`Peer::set_batch`] says otherwise.
    pub(crate) fn transmit(&mut self, batches: usize) {
        let Some(sender) = &mut self.sender else {
            return;
        };
        self.pipe.allowance = batches;
        let (queue, pipe, state) = (&mut self.world.queue, &mut self.pipe, self.world.state);
        let heard = queue.heard_of_peer();
        let stop = sender.run(queue, pipe, heard, state, self.tuning.tx);
        queue.finish(sender, pipe, &stop);
        match stop {
            Stop::Empty | Stop::For(_) | Stop::Again => {}
            Stop::Failed(failure) => self.fail(failure),
        }
        self.pipe.allowance = 0;
    }

    /// Takes in a piece of the stream.
    pub(crate) fn receive(&mut self, chunk: &[u8]) {
        let n = self.set_up(chunk);
        if self.receiver.is_some() {
            let mut stream = std::mem::take(&mut self.unread);
            stream.extend_from_slice(&chunk[n..]);
            self.data(&stream);
        }
    }

    fn set_up(&mut self, chunk: &[u8]) -> usize {
        let fed = match &mut self.role {
            Role::Initiator(initiator) => initiator.feed(chunk),
            Role::Responder(responder, _) => responder.feed(chunk),
            Role::Done => return 0,
        };
        match (fed.event, &mut self.role) {
            (Some(SetupEvent::Request(_)), Role::Responder(responder, want)) => {
                self.private_data = responder.private_data().to_vec();
                let mut frame = [0; MAX_FRAME];
                let (n, params) = responder
                    .accept(*want, b"welcome", &mut frame)
                    .expect("fits");
                self.out().extend(&frame[..n]);
                self.start(params);
            }
            (Some(SetupEvent::Established(params)), Role::Initiator(initiator)) => {
                self.private_data = initiator.private_data().to_vec();
                self.start(params);
            }
            (Some(event), _) => {
                self.setup_failed = Some(event);
                self.role = Role::Done;
                self.world.queue.fin = true;
            }
            (None, _) => {}
        }
        fed.consumed
    }

    fn start(&mut self, params: Params) {
        self.role = Role::Done;
        self.params = Some(params);
        self.listen(&params);
        let mut sender = Sender::new(&params, self.pipe.segment);
        sender.allow_send_immediate();
        if self.awaits_placement {
            sender.await_placement();
            self.world.queue.awaits_placement = true;
        }
        self.sender = Some(sender);
        self.established = !(params.wait_for_fpdu && params.peer_to_peer);
        self.world.queue.connect(&params);
        self.apply(QpEvent::Connected);
    }

    /// Makes a new receiver.
    fn listen(&mut self, params: &Params) {
        let mut receiver = Receiver::new(params);
        receiver.set_buffer(vec![0; MAX_FPDU]);
        receiver.allow_send_immediate();
        self.receiver = Some(receiver);
    }

    /// How many of its requests and of the peer's Reads are under way.
    pub(crate) fn under_way(&self) -> (usize, usize) {
        (
            self.world.queue.sends.borrow().len(),
            self.world.queue.inbound.borrow().len(),
        )
    }

    /// What was sent since this was looked at last; connected.
    pub(crate) fn tx_tally(&mut self) -> &mut Tally {
        &mut self.sender.as_mut().expect("connected").tally
    }

    /// What was received since this was looked at last; connected.
    pub(crate) fn rx_tally(&mut self) -> &mut Tally {
        &mut self.receiver.as_mut().expect("connected").tally
    }

    /// Takes FPDUs in whatever their CRC; nothing may have come yet.
    pub(crate) fn ignore_crc(&mut self) {
        let params = self.params.expect("connected");
        self.listen(&Params {
            crc: false,
            ..params
        });
    }

    fn data(&mut self, mut chunk: &[u8]) {
        loop {
            let Some(receiver) = &mut self.receiver else {
                return;
            };
            // As in softirq, again and again.
            let budget = Budget::new(self.tuning.rx);
            self.world.begin(receiver, budget);
            let n = self.world.take(receiver, &Piece::all(chunk));
            let again = receiver.lacks() == Lack::Turn;
            chunk = &chunk[n..];
            self.act();
            if !again && (n == 0 || chunk.is_empty()) {
                assert!(chunk.is_empty() || self.waits());
                self.unread.extend_from_slice(chunk);
                return;
            }
        }
    }

    /// Acts upon what the receiver has found out.
    fn act(&mut self) {
        for did in std::mem::take(&mut self.world.did) {
            match did {
                Did::FirstSegment => self.established = true,
                Did::DataInClosing => self.apply(QpEvent::DataInClosing),
                Did::Failed(_) => {
                    let failure = self.world.failure.take().expect("what has failed");
                    self.fail(failure);
                }
                Did::Terminated(code, _) => {
                    self.got_terminate = Some(code);
                    self.apply(QpEvent::TerminateReceived {
                        event: Some(remote_class(code)),
                    });
                }
                Did::FailedRecv(_, fault) => self.failed_receives.push(fault),
                _ => {}
            }
        }
        let received = self.world.received.drain(..);
        self.received.extend(received.map(|(how, data)| Received {
            data,
            solicited: how.solicited,
            extra: how.extra,
        }));
    }

    /// The other side's FIN.
    pub(crate) fn peer_fin(&mut self) {
        let cut = self.receiver.as_ref().is_some_and(Receiver::is_cut);
        let idle = self.is_idle() && !cut;
        self.apply(QpEvent::PeerFin { idle });
        if self.fin() {
            self.apply(QpEvent::Closed);
        }
    }

    pub(crate) fn disconnect(&mut self) {
        self.apply(QpEvent::Modify {
            to: QpState::Closing,
            idle: self.is_idle(),
            flushed: false,
        });
    }

    pub(crate) fn closed(&mut self) {
        self.apply(QpEvent::Closed);
    }

    fn fail(&mut self, failure: Failure) {
        let can_send = self.sender.as_ref();
        let event = QpEvent::LocalError {
            error: failure.error,
            in_completion: failure.in_completion,
            can_send: can_send.is_some_and(|sender| sender.may_send(self.world.queue.heard)),
        };
        self.apply_with(event, Some(failure));
    }

    fn apply(&mut self, event: QpEvent) {
        self.apply_with(event, None);
    }

    fn apply_with(&mut self, event: QpEvent, failure: Option<Failure>) {
        let Ok((state, effects)) = state::next(self.world.state, event) else {
            return;
        };
        self.world.state = state;
        self.follow_effects(effects, failure);
    }

    fn follow_effects(&mut self, effects: Effects, failure: Option<Failure>) {
        let heard = self.world.queue.heard;
        let sender = self.sender.as_mut().filter(|sender| sender.may_send(heard));
        if let (Some(error), Some(sender)) = (effects.terminate, sender) {
            assert!(self.sent_terminate.is_none() && !self.world.queue.fin);
            self.sent_terminate = Some(error);
            sender.set_terminate(&failure.unwrap_or(error.into()));
        }
        match effects.tcp {
            state::Tcp::Keep => {}
            state::Tcp::Fin => self.world.queue.wants_fin = true,
            state::Tcp::Reset | state::Tcp::ResetIfDelivered => self.reset = true,
        }
        if effects.terminate.is_some() || effects.tcp == state::Tcp::Fin {
            self.transmit(usize::MAX);
        }
        if effects.flush_sq {
            let queue = &mut self.world.queue;
            while queue.inbound.get_mut().pop().is_some() {}
            queue.flush();
        }
        if effects.close {
            self.sender = None;
            self.receiver = None;
            self.closes += 1;
        }
    }
}
