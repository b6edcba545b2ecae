// SPDX-License-Identifier: GPL-2.0

//! A sender in its surroundings.

use super::frames::{split, without_markers, Seen};
use super::memory::{Memory, Octets};
use super::queue::Queue;
pub(crate) use super::queue::{Faults, Posted};
use super::rights::ALL;
use super::tcp::Tcp;
#[cfg(test)]
use crate::proto::drain::Drained;
use crate::proto::drain::{Stop, Waker};
use crate::proto::failure::{Failure, Fault};
use crate::proto::negotiate::EventDepths;
use crate::proto::reads::{Inbound, InboundRead};
use crate::proto::segment::Segments;
use crate::proto::sender::Sender;
#[cfg(test)]
use crate::proto::sends::Completed;
use crate::proto::sends::Status;
use crate::proto::setup::Params;
use crate::proto::state::QpState;
use crate::support::tuning::SENDING;
use crate::wire::atomic::AtomicRequest;
use crate::wire::ddp::Msn;
use crate::wire::mpa::RtrSet;
use crate::wire::rdmap::{Opcode, ReadRequest};

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

const ALL_WAKERS: [Waker; 5] = [
    Waker::Socket,
    Waker::Read,
    Waker::Peer,
    Waker::OtherEnd,
    Waker::Timer,
];

/// A sender and its surroundings.
pub(crate) struct Sending {
    pub(crate) sender: Sender,
    pub(crate) queue: Queue,
    pub(crate) tcp: Tcp,
    /// Numbers of our next request and of the peer's.
    next: u64,
    msn: Msn,
    pub(crate) state: QpState,
    has_crc: bool,
    has_markers: bool,
    /// What ended the stream.
    pub(crate) failed: Option<Failure>,
}

impl Sending {
    /// With room for `records` requests under way, and segments of `emss` octets.
    pub(crate) fn new(params: &Params, emss: u32, records: usize) -> Self {
        let tcp = Tcp::new(emss);
        let mut queue = Queue::new(records, Memory::Imagined, tcp.log.clone());
        queue.connect(params);
        queue.heard = !params.wait_for_fpdu;
        Self {
            sender: Sender::new(params, emss),
            queue,
            tcp,
            next: 0,
            msn: Msn::FIRST,
            state: QpState::Rts,
            has_crc: params.crc,
            has_markers: params.send_markers,
            failed: None,
        }
    }

    /// Has requests complete when the peer has placed them.
    pub(crate) fn await_placement(&mut self) {
        self.sender.await_placement();
        self.queue.awaits_placement = true;
        self.queue.sends.get_mut().await_placement(true);
    }

    /// Posts a request; they are numbered from zero on.
    pub(crate) fn post(&mut self, posted: Posted) {
        let octets = Octets::Offsets(posted.len);
        self.queue.posted.push_back((self.next, posted, octets));
        self.next += 1;
    }

    /// A Read of the peer, if there is room for it.
    pub(crate) fn peer_reads(&mut self, request: ReadRequest) {
        let msn = self.msn;
        self.peer_asks(Inbound::Read(InboundRead { msn, request }));
    }

    /// An Atomic Operation of the peer, likewise.
    pub(crate) fn peer_changes(&mut self, request: AtomicRequest) {
        self.peer_asks(Inbound::Atomic(self.msn, request));
    }

    fn peer_asks(&mut self, request: Inbound) {
        let inbound = self.queue.inbound.get_mut();
        if inbound.push(request).is_ok() {
            self.msn = self.msn.next();
        }
    }

    /// The peer answers our oldest Read, if there is one. Returns whether there was.
    pub(crate) fn answer(&mut self) -> bool {
        let is_answered = self.end_read();
        self.queue.complete();
        is_answered
    }

    /// Changes what an answer to our oldest Read changes, if there is one. Returns whether there is.
    fn end_read(&mut self) -> bool {
        let sends = self.queue.sends.get_mut();
        let is_there = sends.outbound.outstanding() > 0;
        let _ = sends.answered();
        is_there
    }

    /// As [`Sending::answer`], as the driver does it: in some holds of the lock, in front of each of
    /// which `between` is called. Returns whether the sender is to run.
    #[cfg(test)]
    pub(crate) fn answer_in_parts(&mut self, mut between: impl FnMut(&mut Self, u32)) -> bool {
        let mut holds = 0;
        let mut hold = |this: &mut Self| {
            between(this, holds);
            holds += 1;
            assert!(holds > 1 || this.end_read());
            this.queue.complete_some()
        };
        let first = hold(self);
        let Completed { drained, resumes } = first.and_the_rest(|| hold(self));
        let is_left = drained == Drained::Again;
        if is_left {
            // The work item completes the rest, and sends.
            self.queue.complete();
        }
        resumes || is_left
    }

    /// Runs the sender once.
    pub(crate) fn run_once(&mut self) -> Stop {
        self.tcp.marked = None;
        self.queue.was_empty = false;
        let (queue, tcp) = (&mut self.queue, &mut self.tcp);
        let heard = queue.heard_of_peer();
        let stop = self.sender.run(queue, tcp, heard, self.state, SENDING);
        // T-20: no region is kept from its owner.
        assert!(!self.queue.is_open(), "memory is left open");
        self.queue.finish(&self.sender, &self.tcp, &stop);
        self.check(&stop);
        stop
    }

    /// A sender that stops has seen the queue empty, or waits for who has its mark, or says that
    /// somebody has to go on.
    fn check(&self, stop: &Stop) {
        let is_sent = !self.tcp.has_batch() && !self.sender.owes_terminate(true);
        let is_waker = |waker: &Waker| *stop == Stop::For(waker.mark(|| ()));
        match stop {
            Stop::Empty => assert!(
                is_sent && (self.queue.was_empty || !self.state.sends()),
                "there is something left"
            ),
            Stop::For(_) => match ALL_WAKERS.into_iter().find(is_waker).expect("a waker") {
                Waker::Socket if self.tcp.has_refused => {}
                Waker::Read => assert!(is_sent && self.queue.stalled()),
                Waker::Peer => assert!(is_sent && self.queue.heard_of_peer().is_err()),
                waker => assert_eq!(self.tcp.marked, Some(waker)),
            },
            Stop::Again | Stop::Failed(_) => {}
        }
    }

    /// Runs the sender as the driver does, until it waits; ends the stream if something failed.
    pub(crate) fn run(&mut self) {
        for _ in 0..10_000 {
            match self.run_once() {
                Stop::Empty | Stop::For(_) => return,
                // Who goes on may wait.
                Stop::Again => {
                    self.queue.faults.later = false;
                    if core::mem::take(&mut self.tcp.is_hasty) {
                        self.tcp.room = usize::MAX;
                    }
                }
                Stop::Failed(failure) => {
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
    pub(crate) fn did(&mut self) -> Vec<super::queue::Did> {
        std::mem::take(&mut *self.tcp.log.borrow_mut())
    }

    /// The FPDUs that TCP has got. A receiver likes them; nothing follows a Terminate; payloads are
    /// of one piece of a message.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let out = &self.tcp.out;
        let (seen, rest) = match self.has_markers {
            true => split(&without_markers(out, self.has_crc), None),
            false => split(out, Some(self.has_crc)),
        };
        let is_cut = self.tcp.refuses || self.tcp.has_batch();
        assert!(rest == 0 || is_cut, "{rest} octets are no FPDU");
        let mut rx = Segments::new(RtrSet::default());
        rx.allow_send_immediate();
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
            self.queue.flush();
        } else {
            assert!(!self.sender.is_busy() && self.queue.inbound.get_mut().is_empty());
        }
        let queue = &self.queue;
        // T-4, T-11: in post order, each once.
        let ids: Vec<_> = queue.completions.iter().map(|c| c.0).collect();
        assert_eq!(ids, Vec::from_iter(0..self.next), "each once, in order");
        let of =
            |f: fn(&Status<Fault>) -> bool| queue.completions.iter().filter(|c| f(&c.1)).count();
        let failed = of(|status| matches!(status, Status::Failed(_)));
        // T-33: one at most, and then no event.
        let told = self.failed.as_ref().is_some_and(|f| f.in_completion);
        assert_eq!(failed, usize::from(told));
        assert!(is_over || of(|status| *status == Status::Success) == ids.len());
        self.seen();
    }
}
