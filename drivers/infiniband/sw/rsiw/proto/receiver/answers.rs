// SPDX-License-Identifier: GPL-2.0

//! What the caller of a [`Receiver`] asks and answers while it does a [`Step`], and how a stream
//! ends.
//!
//! Softirq or process context, under the receive lock.
#![forbid(unsafe_code)]

use super::step::{
    Blame,
    Extra,
    Received,
    Recv,
    Step, //
};
use super::{
    shorter,
    Failed,
    Receiver, //
};
use crate::proto::counters::Counter;
use crate::proto::deframer::{
    Chunk,
    Deframer,
    Fpdu,
    Payload,
    Source,
    Taken,
    Train, //
};
use crate::proto::failure::{
    Failure,
    Fault, //
};
use crate::proto::reads::{
    Inbound,
    OutboundRead,
    Responding, //
};
use crate::proto::segment::{
    Target,
    HEAD_LEN, //
};
use crate::wire::atomic::{
    AtomicResponse,
    WORD_LEN, //
};
use crate::wire::ddp::{
    Stag,
    TaggedOffset, //
};
use crate::wire::fpdu::LEN_FIELD;
use crate::wire::terminate::{
    Quote,
    TermError, //
};
use core::ops::DerefMut;

/// The first octets of an ULPDU, as many as `Segments::segment` needs.
#[derive(Debug)]
pub(crate) struct Head {
    octets: [u8; HEAD_LEN],
    pub(crate) ulpdu_len: u16,
}

impl Head {
    pub(crate) fn octets(&self) -> &[u8] {
        self.octets
            .get(..self.ulpdu_len.into())
            .unwrap_or(&self.octets)
    }
}

impl<B: DerefMut<Target = [u8]>> Receiver<B> {
    /// For [`Step::Receive`]: gives the receiver the oldest receive, if there is one.
    #[inline]
    pub(crate) fn give(&mut self, recv: Option<Recv>) {
        match (recv, self.rest) {
            (_, Rest::Look) => self.looked(recv),
            (None, _) => self.failure = Some(TermError::UntaggedNoBuffer.into()),
            (Some(_), _) => {
                self.recv = recv;
                self.patience.found();
            }
        }
    }

    /// For [`Step::Place`] and [`Step::Train`]: returns where the payload belongs; for a train,
    /// where its first payload belongs.
    #[inline]
    pub(crate) fn target(&self) -> Target {
        self.target
    }

    /// For [`Step::Complete`]: returns what to complete the receive with.
    #[inline]
    pub(crate) fn received(&self) -> &Received {
        &self.received
    }

    /// For [`Step::Place`]: returns the payload to be placed.
    #[inline]
    pub(crate) fn payload<'a, C>(&'a mut self, chunk: Option<&'a C>) -> Payload<'a, C> {
        let budget = &mut self.budget;
        if let Some(result) = &self.result {
            return Payload {
                source: Source::Bytes(result),
                at: 0,
                len: WORD_LEN,
                budget,
            };
        }
        Payload {
            source: source(self.fpdu.as_ref(), &self.deframer, chunk),
            // CAST: a header's length.
            at: self.payload.at as usize,
            len: self.payload.len,
            budget,
        }
    }

    /// For [`Step::Message`]: gives the receiver the oldest receive, if there is one. Returns
    /// whether the payload is to be placed. If not, the steps that follow show why.
    #[inline]
    pub(crate) fn begin_message(&mut self, recv: Option<Recv>) -> bool {
        self.give(recv);
        match (self.recv, self.rest) {
            (Some(_), Rest::Send(part)) => matches!(self.send(&part), Ok(Some(Step::Place))),
            _ => false,
        }
    }

    /// For [`Step::Message`]: tells the receiver that the payload is placed.
    #[inline]
    pub(crate) fn end_message(&mut self) {
        self.complete();
    }

    /// For [`Step::Train`]: returns the FPDUs that may be placed; `None` if there are none.
    #[inline]
    pub(crate) fn train<'a, C: Chunk>(&'a mut self, chunk: Option<&'a C>) -> Option<Train<'a, C>> {
        let (run, budget) = (self.segments.run_on()?, &mut self.budget);
        let (at, room) = (self.used.0, self.payload.len);
        Some(Train::new(chunk?, at, run, room, budget, self.crc))
    }

    /// For [`Step::Train`]: tells the receiver what was taken in, and whether the payload of the
    /// last FPDU could be placed.
    #[inline]
    pub(crate) fn took(&mut self, taken: &Taken, is_placed: bool) {
        if taken.fpdus == 0 {
            return;
        }
        let target = self.target;
        self.rest = Rest::Nothing;
        self.used += taken.octets;
        self.segments.went_on(taken.payload);
        self.tally.add(Counter::RxFpdus, taken.fpdus.into());
        self.tally.went_on(target, taken.payload);
        if let (Target::Response(stag, to), Some(read)) = (target, &mut self.responding) {
            let segments = read.segment((stag, to), taken.payload, false);
            self.failure = segments.err().map(Failure::from);
        }
        if !is_placed && self.failure.is_none() {
            match target {
                Target::Write(..) => {}
                Target::Response(..) => self.blame_request(),
                Target::Receive(_) => self.blame_recv(Fault::LocalProtection),
            }
            self.failure = Some(TermError::LocalCatastrophic.into());
        }
        if self.failure.is_some() {
            self.fpdu = self.segments.run_on().map(|run| AtHand {
                lies: Lies::InChunk {
                    at: taken.last_at,
                    left: 0,
                },
                ulpdu_len: run.ulpdu_len(),
                len: 0,
            });
        }
    }

    /// For [`Step::Response`]: gives the receiver the request that is answered.
    pub(crate) fn responds(&mut self, read: OutboundRead) {
        self.responding = Some(Responding::new(read));
    }

    /// For [`Step::Request`]: returns the request.
    pub(crate) fn request(&mut self) -> Result<Inbound, Failure> {
        let request = self.request.take();
        request.ok_or_else(|| Failure::defect("nothing is asked for"))
    }

    /// For [`Step::Quiet`]: tells the receiver whether nobody uses the memory of the invalidated
    /// region.
    pub(crate) fn set_quiet(&mut self, is_quiet: bool) {
        let Rest::Invalidated(pending) = self.rest else {
            return;
        };
        if is_quiet {
            self.rest = Rest::Ended(pending);
        } else {
            self.finish();
            self.fpdu = None;
            self.rest = Rest::Waits(pending);
        }
    }

    /// For [`Step::Ulpdu`]: returns the first octets of the ULPDU at hand. Fails if it does not lie
    /// in `chunk`.
    pub(crate) fn head<C: Chunk>(&self, chunk: Option<&C>) -> Result<Head, Failure> {
        let mut octets = [0; HEAD_LEN];
        let ulpdu_len = self.fpdu.map_or(0, |fpdu| fpdu.ulpdu_len);
        let len = HEAD_LEN.min(ulpdu_len.into());
        let source = source(self.fpdu.as_ref(), &self.deframer, chunk);
        let to = octets.get_mut(..len).unwrap_or(&mut []);
        source.copy_to(LEN_FIELD, to).map_err(shorter)?;
        Ok(Head { octets, ulpdu_len })
    }

    /// Says that what the last step asked for cannot be done. What that means for the stream
    /// depends on whose memory it is.
    pub(crate) fn refuse(&mut self, why: Failure) {
        self.failure = Some(match self.rest {
            Rest::Sent { .. } => {
                self.blame_recv(Fault::LocalProtection);
                TermError::LocalCatastrophic.into()
            }
            Rest::Responded { .. } | Rest::Invalidated(Pending::Read) => {
                self.blame_request();
                TermError::LocalCatastrophic.into()
            }
            Rest::Invalidated(Pending::Receive) => {
                self.blame_recv(Fault::RemoteInvalid);
                why
            }
            _ => why,
        });
    }

    /// For [`Step::Failed`]: returns whose completion is to tell of the failure.
    pub(crate) fn blame(&mut self) -> Blame {
        core::mem::take(&mut self.blame)
    }

    /// For [`Step::Failed`]: returns why the stream ends. `told` says whether the completion of the
    /// request or receive to blame tells of the failure.
    pub(crate) fn failure(&mut self, told: bool) -> Failure {
        let failure = self.failure.take();
        let mut failure = failure.unwrap_or_else(|| Failure::defect("nothing has failed"));
        failure.in_completion |= told;
        failure
    }

    /// Lets the receive in progress complete in error.
    pub(super) fn blame_recv(&mut self, fault: Fault) {
        if let Some(recv) = self.recv.take() {
            self.blame = Blame::Receive(recv.id, fault);
        }
    }

    /// Lets the request whose response comes in complete in error.
    fn blame_request(&mut self) {
        let token = self.responding.and_then(|responding| responding.read.token);
        if let Some(token) = token {
            self.blame = Blame::Request(token, Fault::LocalProtection);
        }
    }

    /// Makes the stream end because of `why`.
    #[cold]
    pub(super) fn fails(&mut self, why: Failure) -> Failed {
        self.failure = Some(why);
        Failed
    }

    /// Ends the stream, and quotes the FPDU at hand.
    #[cold]
    pub(super) fn end<C: Chunk>(&mut self, chunk: Option<&C>) -> Step {
        let failure = self.failure(false);
        let failure = match self.fpdu.and_then(|_| self.head(chunk).ok()) {
            Some(head) => self.quoted(failure, head.octets(), head.ulpdu_len),
            None => failure,
        };
        match self.rest {
            Rest::Nothing | Rest::Train => {}
            _ => self.finish(),
        }
        self.fail(failure)
    }

    pub(super) fn quoted(&self, failure: Failure, head: &[u8], ulpdu_len: u16) -> Failure {
        let denied = self.segments.denied();
        let why = denied.then_some("the rights of the queue pair do not allow it");
        Failure {
            quote: Quote::new(head, ulpdu_len),
            denied,
            detail: failure.detail.or(why),
            ..failure
        }
    }

    pub(super) fn fail(&mut self, failure: Failure) -> Step {
        self.stopped = true;
        self.failure = Some(failure);
        Step::Failed
    }
}

/// Returns the octets of the FPDU `fpdu`: none if they are in a chunk and there is no chunk.
#[inline]
fn source<'a, B: DerefMut<Target = [u8]>, C>(
    fpdu: Option<&AtHand>,
    deframer: &'a Deframer<B>,
    chunk: Option<&'a C>,
) -> Source<'a, C> {
    match (fpdu.map(|fpdu| fpdu.lies), chunk) {
        (Some(Lies::InChunk { at, .. }), Some(chunk)) => Source::Chunk { chunk, at },
        (Some(Lies::InBuffer), _) => Source::Bytes(deframer.buffer()),
        _ => Source::Bytes(&[]),
    }
}

/// The FPDU that is taken in, or was taken in last.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtHand {
    pub(super) lies: Lies,
    pub(super) ulpdu_len: u16,
    /// Octets of the whole FPDU.
    pub(super) len: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Lies {
    /// In the chunk, from octet `at` on. The chunk has `left` octets from there; if the FPDU is
    /// longer, the rest is in the buffers behind the chunk.
    InChunk {
        at: usize,
        left: usize,
    },
    InBuffer,
}

/// A payload in the FPDU at hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) at: u32,
    pub(super) len: u32,
}

/// A segment of a Send, or Immediate Data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) mo: u32,
    pub(super) payload: Stretch,
    /// Whether the message begins here.
    pub(super) first: bool,
    pub(super) last: Option<End>,
}

/// The end of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) solicited: bool,
    pub(super) extra: Extra,
}

/// What completes once nobody uses an invalidated region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Receive,
    Read,
}

/// What remains to be done of the segment at hand.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Rest {
    /// Nothing: the next FPDU is looked for.
    Nothing,
    /// The next FPDU and the FPDUs behind it that continue its message are being placed. If none of
    /// them can be placed in this way, the next FPDU is taken in by itself.
    Train,
    /// All of it: only the CRC was checked.
    Ulpdu,
    /// All of it, but first a receive is looked for. If there is none, the segment may wait.
    Look,
    /// All of it, in another turn: there is no receive now, and the segment waits for one.
    Wait,
    Write {
        stag: Stag,
        to: TaggedOffset,
        payload: Stretch,
        last: bool,
    },
    /// The payload of a Write is being placed, or there is nothing to do for the segment.
    Written {
        last: bool,
    },
    Send(Part),
    /// The payload of a Send is being placed. If it is the last one, the receive is completed next.
    Sent {
        last: bool,
    },
    Response {
        stag: Stag,
        to: TaggedOffset,
        payload: Stretch,
        last: bool,
    },
    /// An Atomic Response: the Atomic Operation that it answers is to be found.
    AskAtomic(AtomicResponse),
    /// An Atomic Response: the Atomic Operation that it answers has been asked for.
    Atomic(AtomicResponse),
    /// The payload of a response is being placed.
    Responded {
        last: bool,
    },
    /// An STag is being invalidated. The next question is whether somebody still uses its memory.
    Invalidated(Pending),
    /// Somebody still uses the memory of the invalidated region, so the completion waits for
    /// another turn. The FPDU is used up.
    Waits(Pending),
    /// Nobody uses the memory of the invalidated region any more.
    Ended(Pending),
    /// Only this step is left.
    Tell(Step),
}

impl AtHand {
    #[inline]
    pub(super) fn new<C>(fpdu: &Fpdu<'_, C>, lies: Lies) -> Self {
        Self {
            lies,
            ulpdu_len: fpdu.ulpdu_len,
            len: fpdu.len,
        }
    }
}
