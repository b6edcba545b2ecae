// SPDX-License-Identifier: GPL-2.0

//! Checks a segment, and turns it into one action (RFC 5041 section 7.1, RFC 5040 sections 5 and 7,
//! RFC 7306 sections 5 and 6).
//!
//! Softirq or process context, under the receive lock. The actions are safe to follow in whatever
//! order a peer sends its segments (T-46). The driver checks buffers and rights, for the whole
//! segment, before it places any octet of it (T-8).
//!
//! A [`Run`] is a row of segments that continue a message. None of them is the last of the message,
//! and each is as long as the segment before. Their headers are those of the segment before, except
//! for the offset (RFC 5041 section 5.2). So a header is compared as a whole with the expected one.
//! The rights may have changed, so the receiver checks them again.
#![forbid(unsafe_code)]

use super::deframer::FPDU_FRONT;
use crate::wire::atomic::AtomicResponse;
use crate::wire::ddp::{
    self,
    qn,
    Msn,
    Stag,
    Tagged,
    TaggedOffset,
    Untagged, //
};
use crate::wire::fpdu::LEN_FIELD;
use crate::wire::mpa::RtrSet;
use crate::wire::rdmap::{
    self,
    ImmediateData,
    Opcode,
    ReadRequest,
    ATOMIC_REQUEST_LEN,
    ATOMIC_RESPONSE_LEN,
    IMMEDIATE_LEN,
    READ_REQUEST_LEN, //
};
use crate::wire::terminate::{
    self,
    Received,
    TermError, //
};
use core::num::Wrapping;

/// Octets at the front of the ULPDU that [`Segments::segment`] and a Terminate's quote need.
pub(crate) const HEAD_LEN: usize = terminate::MAX_ULPDU;

/// Octets at the front of an ULPDU that are enough for most segments: see [`is_enough`].
pub(crate) const FRONT_LEN: usize = ddp::UNTAGGED_LEN;

/// Returns whether the first [`FRONT_LEN`] octets of an ULPDU say as much as the first
/// [`HEAD_LEN`].
pub(crate) fn is_enough(front: &[u8]) -> bool {
    match ddp::Header::parse(front) {
        Some((ddp::Header::Tagged(_), _)) => true,
        Some((header, _)) => matches!(
            rdmap::Control(header.rdmap()).opcode(),
            Some(
                Opcode::Send
                    | Opcode::SendSe
                    | Opcode::SendInvalidate
                    | Opcode::SendSeInvalidate
                    | Opcode::SendImmediate
                    | Opcode::SendSeImmediate
            )
        ),
        None => false,
    }
}

/// Which inbound operations the QP allows at the moment. Whether there is room for a request of the
/// peer shows when the request is queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) atomic: bool,
    /// Whether the consumer can be told of Immediate Data. If not, the opcode of such data is
    /// unexpected (RFC 7306 section 1.1).
    pub(crate) immediate: bool,
}

/// What to do with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing: the ready-to-receive Send of a peer-to-peer connection (RFC 6581 section 5,
    /// X-ENH-20), or a segment behind a Terminate or an error (RFC 5041 section 7.1, D-DDP-23).
    Ignore,
    /// Place the payload at (`stag`, `to`), which needs the remote write right. An empty payload is
    /// neither checked nor placed (T-23).
    Write {
        stag: Stag,
        /// `to` + payload length does not wrap.
        to: TaggedOffset,
        last: bool,
    },
    /// Check the segment against the oldest Read of ours (`proto::reads::Responding`), then place
    /// it. Sink and offset are what the peer says.
    ReadResponse {
        stag: Stag,
        to: TaggedOffset,
        last: bool,
    },
    /// Place the payload at offset `mo` of the receive in progress.
    Send {
        msn: Msn,
        /// `mo` + payload length is at most `u32::MAX`.
        mo: u32,
        /// Beginning of the message: take a receive, or fail with `TermError::UntaggedNoBuffer`.
        first: bool,
        /// End of the message: complete the receive with `mo` + payload length octets.
        last: bool,
        solicited: bool,
        /// STag to invalidate at the end of the message, before the completion.
        invalidate: Option<Stag>,
        /// Immediate data of the message.
        immediate: Option<[u8; 4]>,
    },
    /// Complete a receive with `data`; nothing is placed.
    Immediate {
        msn: Msn,
        data: ImmediateData,
        solicited: bool,
    },
    /// Check that there is room for the request, then its source (unless the length is 0), and
    /// queue it among the inbound Reads.
    ReadRequest {
        msn: Msn,
        /// What to read and where to send it; the source does not wrap.
        request: ReadRequest,
    },
    /// Read the Atomic Request behind the DDP header. Check that there is room for it, then the
    /// word that it names, and queue it among the inbound Reads.
    AtomicRequest {
        /// Number of the request on its queue.
        msn: Msn,
    },
    /// Find the operation that is answered (`proto::reads::OutboundReads::answered`), then place
    /// the result.
    AtomicResponse(AtomicResponse),
    /// The peer ends the stream; send no Terminate back.
    Terminate {
        /// `0xLTCC`.
        code: u16,
        /// The Read Request or Atomic Request that the Terminate names.
        read: Option<Msn>,
        /// How many messages the peer has placed, if it says that.
        placed: Option<u32>,
    },
}

/// A segment that passed all checks of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Octets of headers at the front of the ULPDU; the payload follows.
    pub(crate) header_len: u16,
    pub(crate) payload_len: u16,
    /// This is the first segment of the connection. It tells the consumer of a responder in
    /// peer-to-peer mode that the connection is established (RFC 6581 section 5, X-ENH-19). (The
    /// responder may send, if only a Terminate, after any FPDU with the right CRC: T-24.)
    pub(crate) first: bool,
    pub(crate) action: Action,
}

impl Segment {
    /// Returns where the payload begins in the FPDU.
    pub(crate) fn payload_at(&self) -> u32 {
        // CAST: 2. Headers have 70 octets at most.
        (LEN_FIELD as u32).wrapping_add(self.header_len.into())
    }
}

/// A Send without Invalidate in one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WholeSend {
    pub(crate) payload_len: u16,
    pub(crate) solicited: bool,
}

/// A Send in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SendInProgress {
    opcode: Opcode,
    mo: Wrapping<u32>,
}

/// The segments that come in on one connection: the numbers of the next messages, and the message
/// in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segments {
    send_msn: Msn,
    read_msn: Msn,
    /// The number of the next Atomic Response.
    atomic_msn: Msn,
    open: Option<SendInProgress>,
    rtr: RtrSet,
    /// The peer may send Sends with immediate data.
    has_send_immediate: bool,
    first: bool,
    stopped: bool,
    denied: bool,
    /// The segment that is likely to come next.
    run: Option<Run>,
}

/// The number of header octets of a segment, and what it asks for.
type Parsed = Result<(u16, Action), TermError>;

// CAST: 14, 18, 26, 30, 46 and 70.
const TAGGED_LEN: u16 = ddp::TAGGED_LEN as u16;
const UNTAGGED_LEN: u16 = ddp::UNTAGGED_LEN as u16;
const IMMEDIATE_HEADER: u16 = (ddp::UNTAGGED_LEN + IMMEDIATE_LEN) as u16;
const REQUEST_LEN: u16 = (ddp::UNTAGGED_LEN + READ_REQUEST_LEN) as u16;
const ATOMIC_REQUEST_HEADER: u16 = (ddp::UNTAGGED_LEN + ATOMIC_REQUEST_LEN) as u16;
const ATOMIC_RESPONSE_HEADER: u16 = (ddp::UNTAGGED_LEN + ATOMIC_RESPONSE_LEN) as u16;

const _: () = assert!(HEAD_LEN >= ddp::UNTAGGED_LEN + ATOMIC_REQUEST_LEN);

// The control octets of a Send in one segment.
const WHOLE: u8 = ddp::Control::new(false, true).0;
const SEND: u8 = rdmap::Control::new(Opcode::Send).0;
const SEND_SE: u8 = rdmap::Control::new(Opcode::SendSe).0;

const _: () = assert!(qn::SEND == 0);

impl Segments {
    /// `rtr` is `setup::Params::expect_rtr`.
    pub(crate) const fn new(rtr: RtrSet) -> Self {
        Segments {
            send_msn: Msn::FIRST,
            read_msn: Msn::FIRST,
            atomic_msn: Msn::FIRST,
            open: None,
            rtr,
            has_send_immediate: false,
            first: true,
            stopped: false,
            denied: false,
            run: None,
        }
    }

    /// Lets the peer send Sends with immediate data.
    pub(crate) fn allow_send_immediate(&mut self) {
        self.has_send_immediate = true;
    }

    /// Returns whether the refused segment asked for a Read or Atomic Operation that the consumer
    /// has not enabled. The error is the same as for a wrong queue number (V-AE-12).
    pub(crate) const fn denied(&self) -> bool {
        self.denied
    }

    /// Returns the numbers that the next Send and the next Read or Atomic Request must have.
    #[cfg(test)]
    pub(crate) const fn next(&self) -> (Msn, Msn) {
        (self.send_msn, self.read_msn)
    }

    /// Returns whether a Send is incomplete: its receive is taken but not completed.
    pub(crate) const fn in_message(&self) -> bool {
        self.open.is_some()
    }

    /// Takes in one segment whose CRC is right. `head` are the first octets of the ULPDU: all of
    /// it, [`HEAD_LEN`], or fewer if they are enough. `ulpdu_len` is its real length.
    ///
    /// Returns the error for the Terminate if something is wrong; all further segments are
    /// ignored then.
    pub(crate) fn segment(
        &mut self,
        head: &[u8],
        ulpdu_len: u16,
        rights: &Rights,
    ) -> Result<Segment, TermError> {
        if self.stopped {
            return Ok(Segment {
                header_len: 0,
                payload_len: 0,
                first: false,
                action: Action::Ignore,
            });
        }
        let result = self.parse(head, ulpdu_len, rights);
        let first = self.first;
        self.first = false;
        match result {
            Ok((header_len, action)) => {
                self.stopped = matches!(action, Action::Terminate { .. });
                // Only a defect of this driver could make the header longer than the segment.
                let payload_len = ulpdu_len.checked_sub(header_len).ok_or_else(|| {
                    self.stopped = true;
                    TermError::LocalCatastrophic
                })?;
                let segment = Segment {
                    header_len,
                    payload_len,
                    first,
                    action,
                };
                self.run = Run::after(head, ulpdu_len, &segment);
                Ok(segment)
            }
            Err(e) => {
                self.stopped = true;
                Err(e)
            }
        }
    }

    /// Takes in the segment of an ULPDU that begins with `head`, if it is all of the Send that is
    /// due. Else returns `None` and changes nothing; errors are left to [`Segments::segment`].
    #[inline]
    pub(crate) fn whole_send(&mut self, head: &[u8], ulpdu_len: u16) -> Option<WholeSend> {
        let [control, rdmap, _, _, _, _, rest @ ..] = *head.first_chunk::<FRONT_LEN>()?;
        let (number, mo) = rest.split_first_chunk::<8>()?;
        let solicited = rdmap == SEND_SE;
        // The queue number is zero, so both fields together are the MSN.
        let is_next = u64::from_be_bytes(*number) == self.send_msn.0.into();
        let is_whole = control == WHOLE && *mo == [0; 4] && (rdmap == SEND || solicited);
        if !is_next || !is_whole || self.open.is_some() || self.first || self.stopped {
            return None;
        }
        let payload_len = ulpdu_len.checked_sub(UNTAGGED_LEN)?;
        self.send_msn = self.send_msn.next();
        self.run = None;
        Some(WholeSend {
            payload_len,
            solicited,
        })
    }

    /// Returns whether [`Segments::segment`] would find a segment that takes a receive.
    pub(crate) fn takes_recv(&self, head: &[u8], ulpdu_len: u16, rights: &Rights) -> bool {
        let segment = { *self }.segment(head, ulpdu_len, rights);
        matches!(
            segment.map(|segment| segment.action),
            Ok(Action::Send { first: true, .. } | Action::Immediate { .. })
        )
    }

    /// Returns whether [`Segments::segment`] would find a Terminate, in which nothing is wrong.
    #[cold]
    pub(crate) fn is_end(&self, head: &[u8], ulpdu_len: u16, rights: &Rights) -> bool {
        let segment = { *self }.segment(head, ulpdu_len, rights);
        matches!(
            segment.map(|segment| segment.action),
            Ok(Action::Terminate { .. })
        )
    }

    /// Returns the segment that is likely to come next, if it may come now.
    #[inline]
    pub(crate) fn run(&mut self, rights: &Rights) -> Option<&mut Run> {
        let run = self.run.as_mut().filter(|_| !self.stopped)?;
        let may_come = match run.target() {
            // The right may have been withdrawn.
            Target::Write(..) => rights.write,
            Target::Response(..) => true,
            Target::Receive(mo) => self.open.is_some_and(|open| open.mo.0 == mo),
        };
        may_come.then_some(run)
    }

    /// Returns again the segment that [`Segments::run`] has returned.
    #[inline]
    pub(crate) fn run_on(&mut self) -> Option<&mut Run> {
        self.run.as_mut()
    }

    /// Records that segments of the run, with `payload` octets in all, were taken in.
    #[inline]
    pub(crate) fn went_on(&mut self, payload: u32) {
        if let Some(open) = &mut self.open {
            // Only a Send is open. A run ends before this would wrap.
            if matches!(self.run.map(|run| run.target()), Some(Target::Receive(_))) {
                open.mo += payload;
            }
        }
    }

    /// Returns the state without the run. A receiver must behave in the same way with it.
    #[cfg(test)]
    pub(crate) fn without_run(self) -> Self {
        Segments { run: None, ..self }
    }

    fn parse(&mut self, head: &[u8], ulpdu_len: u16, rights: &Rights) -> Parsed {
        let (header, rest) = ddp::Header::parse(head).ok_or(TermError::MpaFpdu)?;
        let len = usize::from(ulpdu_len)
            .checked_sub(header.control().header_len())
            .ok_or(TermError::MpaFpdu)?;
        // CAST: smaller than the u16 it comes from.
        let len = len as u32;
        if header.control().version() != ddp::VERSION {
            return Err(match header {
                ddp::Header::Tagged(_) => TermError::TaggedVersion,
                ddp::Header::Untagged(_) => TermError::UntaggedVersion,
            });
        }
        let control = rdmap::Control(header.rdmap());
        if control.version() != rdmap::VERSION {
            return Err(TermError::RdmapVersion);
        }
        let opcode = control.opcode().ok_or(TermError::UnexpectedOpcode)?;
        match (&header, opcode) {
            (ddp::Header::Tagged(h), Opcode::Write | Opcode::ReadResponse) => {
                self.tagged(opcode, h, len, rights)
            }
            (ddp::Header::Untagged(h), Opcode::ReadRequest) => {
                self.read_request(h, rest, len, rights)
            }
            (ddp::Header::Untagged(h), Opcode::AtomicRequest) => {
                self.atomic_request(h, len, rights)
            }
            (ddp::Header::Untagged(h), Opcode::AtomicResponse) => {
                self.atomic_response(h, rest, len)
            }
            (
                ddp::Header::Untagged(h),
                Opcode::Send | Opcode::SendSe | Opcode::SendInvalidate | Opcode::SendSeInvalidate,
            ) => self.send(opcode, h, len),
            (ddp::Header::Untagged(h), Opcode::SendImmediate | Opcode::SendSeImmediate)
                if rights.immediate && self.has_send_immediate =>
            {
                self.send(opcode, h, len)
            }
            (ddp::Header::Untagged(h), Opcode::Immediate | Opcode::ImmediateSe)
                if rights.immediate =>
            {
                self.immediate(opcode, h, rest, len)
            }
            (ddp::Header::Untagged(h), Opcode::Terminate) => {
                if h.qn.get() != qn::TERMINATE {
                    return Err(TermError::UntaggedQn);
                }
                let terminate = Received::parse(rest);
                Ok((
                    UNTAGGED_LEN,
                    Action::Terminate {
                        code: terminate.map_or(0, |t| t.code),
                        read: terminate.and_then(|t| t.refused_read()),
                        placed: terminate.and_then(|t| t.placed()),
                    },
                ))
            }
            _ => Err(TermError::UnexpectedOpcode),
        }
    }

    fn tagged(&mut self, opcode: Opcode, h: &Tagged, len: u32, rights: &Rights) -> Parsed {
        let stag = Stag(h.stag.get());
        let to = TaggedOffset(h.to.get());
        let last = h.control.last();
        if opcode == Opcode::ReadResponse {
            return Ok((TAGGED_LEN, Action::ReadResponse { stag, to, last }));
        }
        if len > 0 && !rights.write {
            self.denied = true;
            return Err(TermError::TaggedNotAssociated);
        }
        if wraps(to, len) {
            return Err(TermError::TaggedWrap);
        }
        Ok((TAGGED_LEN, Action::Write { stag, to, last }))
    }

    /// Returns number and offset of a segment of a Send or Immediate Data, if both are what is due.
    #[inline]
    fn due(&self, opcode: Opcode, h: &Untagged) -> Result<(Msn, u32), TermError> {
        if h.qn.get() != qn::SEND {
            return Err(TermError::UntaggedQn);
        }
        let msn = Msn(h.msn.get());
        if msn != self.send_msn {
            return Err(TermError::UntaggedMsn);
        }
        let mo = h.mo.get();
        if mo != self.open.map_or(0, |open| open.mo.0) {
            return Err(TermError::UntaggedMo);
        }
        if self.open.is_some_and(|open| open.opcode != opcode) {
            return Err(TermError::UnexpectedOpcode);
        }
        Ok((msn, mo))
    }

    fn send(&mut self, opcode: Opcode, h: &Untagged, len: u32) -> Parsed {
        let (msn, mo) = self.due(opcode, h)?;
        let end = mo.checked_add(len).ok_or(TermError::UntaggedTooLong)?;
        let first = self.open.is_none();
        let last = h.control.last();
        if last {
            self.open = None;
            self.send_msn = msn.next();
        } else {
            self.open = Some(SendInProgress {
                opcode,
                mo: Wrapping(end),
            });
        }
        if self.first && self.rtr.send && last && len == 0 && opcode == Opcode::Send {
            return Ok((UNTAGGED_LEN, Action::Ignore));
        }
        let field = h.invalidate.get();
        let invalidate = opcode.invalidates().then_some(Stag(field));
        let immediate = opcode.is_send_immediate().then_some(field.to_be_bytes());
        let solicited = opcode.solicited();
        Ok((
            UNTAGGED_LEN,
            Action::Send {
                msn,
                mo,
                first,
                last,
                solicited,
                invalidate,
                immediate,
            },
        ))
    }

    /// Takes in Immediate Data, a message of its own among the Sends (RFC 7306 section 6.3).
    fn immediate(&mut self, opcode: Opcode, h: &Untagged, rest: &[u8], len: u32) -> Parsed {
        // Fails inside a Send, whose opcode differs.
        let (msn, _) = self.due(opcode, h)?;
        // CAST: 8.
        if len != IMMEDIATE_LEN as u32 || !h.control.last() {
            return Err(TermError::CatastrophicStream);
        }
        let data = ImmediateData::parse(rest).ok_or(TermError::MpaFpdu)?;
        self.send_msn = msn.next();
        let solicited = opcode.solicited();
        Ok((
            IMMEDIATE_HEADER,
            Action::Immediate {
                msn,
                data,
                solicited,
            },
        ))
    }

    fn read_request(&mut self, h: &Untagged, rest: &[u8], len: u32, rights: &Rights) -> Parsed {
        let expected = HeaderOnly {
            qn: qn::READ_REQUEST,
            msn: self.read_msn,
            len: READ_REQUEST_LEN,
        };
        expected.check(h, len)?;
        let request = ReadRequest::parse(rest).ok_or(TermError::MpaFpdu)?;
        if request.len > 0 && !rights.read {
            self.denied = true;
            return Err(TermError::UntaggedQn);
        }
        if wraps(request.source_to, request.len) {
            return Err(TermError::RemoteWrap);
        }
        let msn = self.read_msn;
        self.read_msn = msn.next();
        Ok((REQUEST_LEN, Action::ReadRequest { msn, request }))
    }

    fn atomic_request(&mut self, h: &Untagged, len: u32, rights: &Rights) -> Parsed {
        let expected = HeaderOnly {
            qn: qn::READ_REQUEST,
            msn: self.read_msn,
            len: ATOMIC_REQUEST_LEN,
        };
        expected.check(h, len)?;
        if !rights.atomic {
            self.denied = true;
            return Err(TermError::UntaggedQn);
        }
        let msn = self.read_msn;
        self.read_msn = msn.next();
        Ok((ATOMIC_REQUEST_HEADER, Action::AtomicRequest { msn }))
    }

    fn atomic_response(&mut self, h: &Untagged, rest: &[u8], len: u32) -> Parsed {
        let expected = HeaderOnly {
            qn: qn::ATOMIC_RESPONSE,
            msn: self.atomic_msn,
            len: ATOMIC_RESPONSE_LEN,
        };
        expected.check(h, len)?;
        let response = AtomicResponse::parse(rest).ok_or(TermError::MpaFpdu)?;
        self.atomic_msn = self.atomic_msn.next();
        Ok((ATOMIC_RESPONSE_HEADER, Action::AtomicResponse(response)))
    }
}

/// The message that is due on a queue whose messages have a header only, and one segment.
struct HeaderOnly {
    qn: u32,
    msn: Msn,
    /// Octets behind the DDP header.
    len: usize,
}

impl HeaderOnly {
    /// Checks a segment, which has `len` octets behind its DDP header, against what is due.
    fn check(&self, h: &Untagged, len: u32) -> Result<(), TermError> {
        if h.qn.get() != self.qn {
            return Err(TermError::UntaggedQn);
        }
        if Msn(h.msn.get()) != self.msn {
            return Err(TermError::UntaggedMsn);
        }
        if h.mo.get() != 0 {
            return Err(TermError::UntaggedMo);
        }
        // CAST: a few octets.
        match len.cmp(&(self.len as u32)) {
            core::cmp::Ordering::Less => return Err(TermError::UntaggedMo),
            core::cmp::Ordering::Greater => return Err(TermError::UntaggedTooLong),
            core::cmp::Ordering::Equal => {}
        }
        if !h.control.last() {
            return Err(TermError::CatastrophicStream);
        }
        Ok(())
    }
}

/// Returns whether the last of `len` octets from `to` on lies beyond the end of the offsets (T-18).
fn wraps(to: TaggedOffset, len: u32) -> bool {
    let last = len.checked_sub(1);
    last.is_some_and(|last| to.checked_add(last).is_none())
}

/// The front of an FPDU, up to the end of most headers.
type FpduFront = [u8; FPDU_FRONT];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Memory that the peer writes to.
    Write(Stag, TaggedOffset),
    /// The sink of a Read of ours.
    Response(Stag, TaggedOffset),
    /// An offset in the receive in progress.
    Receive(u32),
}

impl Target {
    /// Returns the target `octets` octets behind this one, if the offset does not wrap.
    #[inline(always)]
    fn behind(self, octets: u32) -> Option<Self> {
        Some(match self {
            Self::Write(stag, to) => Self::Write(stag, to.checked_add(octets)?),
            Self::Response(stag, to) => Self::Response(stag, to.checked_add(octets)?),
            Self::Receive(offset) => Self::Receive(offset.checked_add(octets)?),
        })
    }
}

/// The segment that is expected next, as it continues the message of the segment before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The front of its FPDU, up to the end of the headers, which end with the offset.
    front: FpduFront,
    ulpdu_len: u16,
    /// Octets of its payload, at least one.
    payload_len: u16,
    target: Target,
}

impl Run {
    /// Returns what may follow `segment`, whose ULPDU has `ulpdu_len` octets and begins with
    /// `head`.
    #[inline]
    fn after(head: &[u8], ulpdu_len: u16, segment: &Segment) -> Option<Self> {
        let (target, last) = match segment.action {
            Action::Write { stag, to, last } => (Target::Write(stag, to), last),
            Action::ReadResponse { stag, to, last } => (Target::Response(stag, to), last),
            Action::Send { mo, last, .. } => (Target::Receive(mo), last),
            _ => return None,
        };
        if last || segment.payload_len == 0 {
            return None;
        }
        let mut front = [0; FPDU_FRONT];
        let (len, headers) = front.split_first_chunk_mut::<LEN_FIELD>()?;
        *len = ulpdu_len.to_be_bytes();
        match target {
            Target::Receive(_) => {
                *headers.first_chunk_mut()? = *head.first_chunk::<{ ddp::UNTAGGED_LEN }>()?;
            }
            Target::Write(..) | Target::Response(..) => {
                *headers.first_chunk_mut()? = *head.first_chunk::<{ ddp::TAGGED_LEN }>()?;
            }
        }
        let mut run = Self {
            front,
            ulpdu_len,
            payload_len: segment.payload_len,
            target,
        };
        run.advance().then_some(run)
    }

    /// Moves on: the segment behind the expected one is expected from now on. Returns false if
    /// there can be none, as its offset would wrap.
    #[inline(always)]
    #[must_use]
    pub(crate) fn advance(&mut self) -> bool {
        let Some(next) = self.target.behind(self.payload_len.into()) else {
            return false;
        };
        self.target = next;
        match next {
            Target::Write(_, to) | Target::Response(_, to) => {
                let headers = self.front.first_chunk_mut();
                let headers: Option<&mut [u8; LEN_FIELD + ddp::TAGGED_LEN]> = headers;
                if let Some(field) = headers.and_then(|headers| headers.last_chunk_mut()) {
                    *field = to.0.to_be_bytes();
                }
            }
            Target::Receive(offset) => {
                if let Some(field) = self.front.last_chunk_mut() {
                    *field = offset.to_be_bytes();
                }
            }
        }
        true
    }

    /// Returns whether an FPDU that begins with `front` has the expected segment.
    #[inline(always)]
    pub(crate) fn is_next(&self, front: &FpduFront) -> bool {
        let ((a, b, c), (x, y, z)) = (words(front), words(&self.front));
        a == x && b == y && (c == z || !matches!(self.target, Target::Receive(_)))
    }

    #[inline]
    pub(crate) fn target(&self) -> Target {
        self.target
    }

    #[inline]
    pub(crate) fn ulpdu_len(&self) -> u16 {
        self.ulpdu_len
    }

    #[inline]
    pub(crate) fn front_len(&self) -> usize {
        let header_len = self.ulpdu_len.wrapping_sub(self.payload_len);
        LEN_FIELD.wrapping_add(header_len.into())
    }

    #[inline]
    pub(crate) fn payload_len(&self) -> u16 {
        self.payload_len
    }
}

/// Returns the octets in words, which are compared faster.
#[inline]
fn words(front: &FpduFront) -> (u64, u64, u32) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = *front;
    (
        u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
        u32::from_ne_bytes([q, r, s, t]),
    )
}
