// SPDX-License-Identifier: GPL-2.0

//! The surroundings of a receiver, and those of a sender among them. They do what a test says, good
//! or bad, and check what is asked of them.

use super::piece::{octets, Octets, Piece};
use super::queue::Queue;
use super::rights::ALL;
use super::trains::place_each;
use crate::proto::deframer::{Budget, Source, Train};
use crate::proto::failure::{Failure, Fault};
use crate::proto::reads::{Inbound, InboundRead, OutboundRead, OutboundReads};
use crate::proto::receiver::{
    Blame, Conditions, Invalidation, Lack, Received, Receiver, Recv, Step,
};
use crate::proto::segment::{Rights, Target};
use crate::proto::sender::Env as _;
use crate::proto::sends::Token;
use crate::proto::state::{Arrival, QpState};
use crate::wire::atomic::AtomicRequest;
use crate::wire::ddp::{Msn, Stag, TaggedOffset};
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
    pub(crate) rights: Rights,
    /// There is room for another request of the peer.
    pub(crate) has_read_room: bool,
    /// Each ULPDU is traced: how they begin.
    pub(crate) traces: bool,
    pub(crate) heads: Vec<Vec<u8>>,
    pub(crate) faults: Faults,
    /// Receives, by what they have room for; `None` makes no sense.
    pub(crate) recvs: VecDeque<Option<u64>>,
    next: u64,
    open: Option<Open>,
    /// The message that was placed last, and those that were received.
    pub(crate) message: Vec<u8>,
    pub(super) received: Vec<(Received, Vec<u8>)>,
    /// The sender's surroundings, and its memory.
    pub(crate) queue: Queue,
    /// Nobody uses what is invalidated.
    pub(crate) quiet: bool,
    /// Something is invalidated, and what it was for has not completed.
    invalidated: bool,
    pub(super) did: Vec<Did>,
    /// Segments that were placed behind another one without a look at more than their headers.
    pub(crate) in_trains: u32,
    /// Payloads that were placed from where they lay in the chunk.
    pub(super) in_place: u32,
    first: bool,
    /// Nothing may happen any more.
    over: bool,
    pub(crate) failure: Option<Failure>,
}

impl Around {
    pub(super) fn new(queue: Queue) -> Self {
        Self {
            state: QpState::Rts,
            rights: ALL,
            has_read_room: true,
            traces: false,
            heads: Vec::new(),
            faults: Faults::default(),
            recvs: VecDeque::new(),
            next: 0,
            open: None,
            message: Vec::new(),
            received: Vec::new(),
            queue,
            quiet: true,
            invalidated: false,
            did: Vec::new(),
            in_trains: 0,
            in_place: 0,
            first: false,
            over: false,
            failure: None,
        }
    }

    /// Reads and Atomic Operations of ours.
    pub(crate) fn outbound(&mut self) -> &mut OutboundReads<Vec<OutboundRead>> {
        &mut self.queue.sends.get_mut().outbound
    }

    /// The receive in progress is flushed.
    pub(super) fn flush(&mut self) -> Option<Recv> {
        self.invalidated = false;
        self.open.take().map(|open| open.recv)
    }

    fn tell(&mut self, did: Did) {
        assert!(!self.over, "{did:?} behind the end");
        // A Terminate that comes first does not let this side send.
        let may_be_first = matches!(
            did,
            Did::FirstFpdu | Did::FirstSegment | Did::Terminated(..) | Did::Failed(_)
        );
        assert!(self.queue.heard || may_be_first);
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

impl Conditions for Around {
    fn arrival(&self) -> Arrival {
        self.state.arrival()
    }

    fn rights(&self) -> Rights {
        self.rights
    }

    fn traces(&self) -> bool {
        self.traces
    }
}

impl Around {
    /// Takes in octets from the front of a chunk. Returns how many.
    pub(crate) fn take<C: Octets>(&mut self, receiver: &mut Receiver<Vec<u8>>, chunk: &C) -> usize {
        receiver.open(chunk);
        self.feed(receiver, Some(chunk), |receiver, chunk, around| {
            receiver.next(chunk, around)
        });
        receiver.used()
    }

    /// Begins a turn with what had to wait.
    pub(crate) fn begin(&mut self, receiver: &mut Receiver<Vec<u8>>, budget: Budget) {
        receiver.begin(budget);
        self.feed(receiver, None::<&Piece<'_>>, |receiver, chunk, around| {
            receiver.next(chunk, around)
        });
    }

    /// Has a segment admitted that begins with `front`. Returns what is lacking.
    pub(crate) fn admit(&mut self, receiver: &mut Receiver<Vec<u8>>, front: &[u8]) -> Lack {
        if receiver.is_patient() {
            self.feed(receiver, None::<&Piece<'_>>, |receiver, _, around| {
                receiver.admit(front, around)
            });
        }
        receiver.lacks()
    }

    /// Does what a receiver, asked by `next`, wants done.
    pub(crate) fn feed<C: Octets>(
        &mut self,
        receiver: &mut Receiver<Vec<u8>>,
        chunk: Option<&C>,
        next: impl Fn(&mut Receiver<Vec<u8>>, Option<&C>, &Self) -> Step,
    ) {
        loop {
            let done: Result<(), Failure> = match next(receiver, chunk, self) {
                Step::Pause => return,
                Step::Message => self.take_message(receiver, chunk),
                Step::Receive => self.take_recv().map(|recv| receiver.give(recv)),
                Step::Place => self.place_payload(receiver, chunk),
                Step::Train => {
                    let target = receiver.target();
                    let mut train = receiver.train(chunk).expect("a chunk");
                    let placed = self.place_train(target, &mut train);
                    let taken = train.end();
                    receiver.took(&taken, placed.is_ok());
                    Ok(())
                }
                Step::Complete => self.complete_recv(receiver.received()),
                Step::Response(asked) => {
                    let read = self.outbound().answered(asked);
                    read.map(|read| receiver.responds(read))
                        .map_err(Failure::from)
                }
                Step::Invalidate(what) => self.invalidate(what).map_err(Failure::from),
                Step::Quiet => {
                    receiver.set_quiet(self.quiet);
                    Ok(())
                }
                Step::Request => receiver
                    .request()
                    .and_then(|request| self.request_received(request).map_err(Failure::from)),
                Step::Failed => {
                    let told = self.blame(receiver.blame());
                    self.fail(receiver.failure(told));
                    Ok(())
                }
                Step::Ulpdu => receiver
                    .head(chunk)
                    .map(|head| self.heads.push(head.octets().to_vec())),
                step => {
                    self.note(step);
                    Ok(())
                }
            };
            if let Err(why) = done {
                receiver.refuse(why);
            }
        }
    }

    fn take_message<C: Octets>(
        &mut self,
        receiver: &mut Receiver<Vec<u8>>,
        chunk: Option<&C>,
    ) -> Result<(), Failure> {
        if !receiver.begin_message(self.take_recv()?) {
            return Ok(());
        }
        self.place_payload(receiver, chunk)?;
        receiver.end_message();
        self.complete_recv(receiver.received())
    }

    fn place_payload<C: Octets>(
        &mut self,
        receiver: &mut Receiver<Vec<u8>>,
        chunk: Option<&C>,
    ) -> Result<(), Failure> {
        let target = receiver.target();
        let mut payload = receiver.payload(chunk);
        payload.count_piece();
        let octets = octets(&payload);
        self.in_place += u32::from(matches!(payload.source, Source::Chunk { .. }));
        self.place(target, octets).map_err(Failure::from)
    }

    /// What the receiver has found out.
    fn note(&mut self, step: Step) {
        match step {
            Step::Heard => {
                assert!(
                    !std::mem::replace(&mut self.queue.heard, true),
                    "told twice"
                );
                self.tell(Did::FirstFpdu);
            }
            Step::FirstSegment => {
                assert!(!std::mem::replace(&mut self.first, true), "told twice");
                self.tell(Did::FirstSegment);
            }
            Step::DataInClosing => {
                assert_eq!(self.state, QpState::Closing);
                self.tell(Did::DataInClosing);
                self.over = true;
            }
            Step::Terminated { code, read, .. } => {
                self.tell(Did::Terminated(code, read));
                self.over = true;
            }
            Step::ReadDone => self.read_done(),
            step => panic!("{step:?} is not told"),
        }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.tell(Did::Failed(failure.error));
        self.over = true;
        self.failure = Some(failure);
    }

    pub(super) fn place(&mut self, target: Target, octets: Vec<u8>) -> Result<(), TermError> {
        assert!(!octets.is_empty());
        match target {
            Target::Write(stag, to) => {
                if let Some(error) = self.faults.write {
                    return Err(error);
                }
                self.queue.memory.write(stag, to, &octets)?;
                self.tell(Did::Write(stag, to, octets));
            }
            Target::Response(stag, to) => {
                if self.faults.response {
                    return Err(TermError::LocalCatastrophic);
                }
                self.queue.memory.fill(stag, to, &octets)?;
                self.tell(Did::Response(stag, to, octets));
            }
            Target::Receive(offset) => {
                let open = self.open.as_mut().expect("a receive in progress");
                assert_eq!(open.placed, offset);
                open.placed += u32::try_from(octets.len()).expect("short");
                assert!(
                    u64::from(open.placed) <= open.recv.len,
                    "beyond the receive"
                );
                if self.faults.recv {
                    return Err(TermError::LocalCatastrophic);
                }
                self.message.extend_from_slice(&octets);
            }
        }
        Ok(())
    }

    /// Places the payloads of a train. Fails if that of the last one could not be.
    fn place_train<C: Octets>(
        &mut self,
        target: Target,
        train: &mut Train<'_, C>,
    ) -> Result<(), TermError> {
        assert_ne!(
            self.state,
            QpState::Closing,
            "not while this side is closing"
        );
        let refused = match target {
            Target::Write(..) => self.faults.write.is_some() || !self.rights.write,
            Target::Response(..) => self.faults.response && !self.faults.late,
            Target::Receive(_) => false,
        };
        if refused {
            return Ok(());
        }
        train.set_limit(self.queue.memory.limit(target, train.limit()));
        self.in_trains += place_each(self, target, train)?;
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

    fn complete_recv(&mut self, received: &Received) -> Result<(), Failure> {
        let open = self.close(received.id);
        assert_eq!(open.placed, received.len);
        self.end_invalidation();
        if self.faults.cq_is_full {
            return Err(TermError::CatastrophicStream.into());
        }
        self.tell(Did::Completed(*received));
        self.received.push((*received, self.message.clone()));
        Ok(())
    }

    /// Completes what is to blame in error. Returns whether that tells so.
    fn blame(&mut self, blame: Blame) -> bool {
        match blame {
            Blame::Nobody => false,
            Blame::Receive(id, fault) => {
                self.close(id);
                self.tell(Did::FailedRecv(id, fault));
                true
            }
            Blame::Request(token, fault) => {
                self.tell(Did::FailedSend(token, fault));
                self.queue.memory.is_imagined() || self.queue.fail(token, fault)
            }
        }
    }

    fn invalidate(&mut self, what: Invalidation) -> Result<(), TermError> {
        let (stag, refused) = match what {
            Invalidation::ForPeer(stag) => (stag, self.faults.invalidate),
            Invalidation::Sink(stag) => (stag, self.faults.sink.then_some(TermError::RemoteStag)),
        };
        if let Some(error) = refused {
            return Err(error);
        }
        if !self.queue.memory.invalidate(stag) {
            return Err(TermError::RemoteCannotInvalidate);
        }
        self.invalidated = true;
        self.tell(Did::Invalidated(stag));
        Ok(())
    }

    fn read_done(&mut self) {
        self.end_invalidation();
        let entry = *self.outbound().get(0).expect("its response came");
        self.tell(Did::ReadDone(entry.token));
        if self.queue.memory.is_imagined() {
            // Requests that are imagined are not under way.
            let _ = self.outbound().pop();
        } else {
            self.queue.answered();
        }
    }

    fn request_received(&mut self, request: Inbound) -> Result<(), TermError> {
        let imagined = self.queue.memory.is_imagined();
        if !self.has_read_room || !(imagined || self.queue.inbound.borrow().has_room()) {
            return Err(TermError::UntaggedNoBuffer);
        }
        if let Some(error) = self.faults.read {
            return Err(error);
        }
        let memory = &mut self.queue.memory;
        let did = match request {
            Inbound::Read(InboundRead { msn, request }) => {
                memory.may_read(&request)?;
                Did::ReadRequest(msn, request)
            }
            Inbound::Atomic(msn, request) => {
                memory.may_change(&request)?;
                Did::AtomicRequest(msn, request)
            }
        };
        self.tell(did);
        // The sender is to do it.
        if !imagined {
            self.queue.inbound.get_mut().push(request)?;
        }
        Ok(())
    }
}
