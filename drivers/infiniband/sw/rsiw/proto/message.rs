// SPDX-License-Identifier: GPL-2.0

//! Turns messages into FPDUs: headers, segmentation, packing into TCP segments; says when a request
//! may start (RFC 5041 section 5.2, RFC 5040 section 5, RFC 5044 section 5.1). Under the lock of
//! the sender.
#![forbid(unsafe_code)]

use super::failure::Fault;
use super::request::{
    Local,
    Operation, //
};
use crate::num::{
    Broken,
    Length, //
};
use crate::wire::atomic::{
    AtomicRequest,
    AtomicResponse, //
};
use crate::wire::ddp::{
    self,
    qn,
    Msn,
    Stag,
    Tagged,
    TaggedOffset,
    Untagged, //
};
use crate::wire::fpdu::{
    self,
    Crc,
    Markers,
    CRC_LEN,
    LEN_FIELD,
    MARKER_LEN, //
};
use crate::wire::rdmap::{
    Control,
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
    Terminate, //
};
use core::num::{
    Saturating,
    Wrapping, //
};
use zerocopy::byteorder::big_endian::{
    U16,
    U32,
    U64, //
};
use zerocopy::IntoBytes;
use zerocopy_derive::{
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// The most octets in front of a payload: length field, untagged header, Atomic Request.
pub(crate) const MAX_HEADER: usize = LEN_FIELD + ddp::UNTAGGED_LEN + ATOMIC_REQUEST_LEN;
/// The most octets of the FPDU of a Terminate, including the one marker that may be in it.
// CAST: a small constant.
pub(crate) const MAX_TERMINATE: usize = fpdu::fpdu_len(terminate::MAX_ULPDU as u16) + MARKER_LEN;

/// STag of the ready-to-receive Write and Read. Nobody checks it at length zero, but some adapters
/// refuse an STag of zero.
const RTR_STAG: Stag = Stag(1);

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Send {
        /// Ask the peer for an event.
        solicited: bool,
        /// Invalidate this STag at the peer.
        invalidate: Option<Stag>,
    },
    /// A Send with immediate data; `data` is as in the header.
    SendImmediate {
        solicited: bool,
        data: [u8; 4],
    },
    Write {
        stag: Stag,
        to: TaggedOffset,
    },
    /// Immediate Data. This kind and the next three are all header, and their message length is 0.
    Immediate {
        data: ImmediateData,
        solicited: bool,
    },
    ReadRequest(ReadRequest),
    AtomicRequest(AtomicRequest),
    AtomicResponse(AtomicResponse),
    /// The answer to this Read Request.
    ReadResponse(ReadRequest),
}

impl Kind {
    pub(crate) const fn opcode(&self) -> Opcode {
        match self {
            Self::Send {
                solicited,
                invalidate,
            } => Opcode::send(*solicited, invalidate.is_some()),
            Self::SendImmediate { solicited, .. } => Opcode::send_immediate(*solicited),
            Self::Write { .. } => Opcode::Write,
            Self::Immediate { solicited, .. } => Opcode::immediate(*solicited),
            Self::ReadRequest(_) => Opcode::ReadRequest,
            Self::AtomicRequest(_) => Opcode::AtomicRequest,
            Self::AtomicResponse(_) => Opcode::AtomicResponse,
            Self::ReadResponse(_) => Opcode::ReadResponse,
        }
    }
}

impl Kind {
    /// Returns whether the receiver counts the message among those that it has placed.
    pub(crate) const fn is_placed(&self) -> bool {
        matches!(
            self,
            Self::Send { .. }
                | Self::SendImmediate { .. }
                | Self::Write { .. }
                | Self::Immediate { .. }
        )
    }
}

/// The ready-to-receive message, of length 0, that an initiator in peer-to-peer mode sends first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rtr {
    Send,
    Write,
    /// It has to be queued among the outbound Reads before it is sent.
    Read,
}

impl Rtr {
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Rtr::Send => Kind::Send {
                solicited: false,
                invalidate: None,
            },
            Rtr::Write => Kind::Write {
                stag: RTR_STAG,
                to: TaggedOffset(0),
            },
            Rtr::Read => Kind::ReadRequest(ReadRequest {
                sink_stag: RTR_STAG,
                sink_to: TaggedOffset(0),
                len: 0,
                source_stag: RTR_STAG,
                source_to: TaggedOffset(0),
            }),
        }
    }
}

/// The message numbers of one connection, in the sending direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Messages {
    send_msn: Msn,
    read_msn: Msn,
    /// The number of the next Atomic Response.
    atomic_msn: Msn,
}

impl Messages {
    pub(crate) const fn new() -> Self {
        Messages {
            send_msn: Msn::FIRST,
            read_msn: Msn::FIRST,
            atomic_msn: Msn::FIRST,
        }
    }

    /// Returns the numbers of the next Send or Immediate, and the next Read or Atomic Request.
    pub(crate) const fn next(&self) -> (Msn, Msn) {
        (self.send_msn, self.read_msn)
    }

    /// Begins a message of `len` octets (ignored for kinds that are all header). Each message must
    /// be sent up to its last FPDU before the next one begins.
    #[inline(always)]
    pub(crate) fn message(&mut self, kind: Kind, len: u32) -> Message {
        let (msn, len) = match kind {
            Kind::Send { .. } | Kind::SendImmediate { .. } => (self.send_msn.take(), len),
            Kind::Immediate { .. } => (self.send_msn.take(), 0),
            Kind::ReadRequest(_) | Kind::AtomicRequest(_) => (self.read_msn.take(), 0),
            Kind::AtomicResponse(_) => (self.atomic_msn.take(), 0),
            Kind::Write { .. } | Kind::ReadResponse(_) => (Msn::FIRST, len),
        };
        Message {
            kind,
            msn,
            sent: Wrapping(0),
            left: len,
            done: false,
        }
    }
}

/// One FPDU of a message. On the wire: the header ([`Message::put_header`]), `payload` octets of
/// the message from `offset` on, pad and CRC field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Octets of the header, MPA's length field included.
    pub(crate) header_len: usize,
    pub(crate) payload: u16,
    /// Where the payload begins in the message.
    pub(crate) offset: u32,
    pub(crate) ulpdu_len: u16,
    /// Octets of the whole FPDU without markers.
    pub(crate) fpdu_len: usize,
    /// This is the last FPDU of the message.
    pub(crate) last: bool,
}

/// Octets of the longest header of an FPDU with payload, MPA's length field included.
pub(crate) const FRONT: usize = size_of::<UntaggedFpdu>();

/// Changes the front of an FPDU into the front of the next one of the same length, whose offset is
/// `payload` octets further on in the message.
#[inline]
pub(crate) fn advance_front(front: &mut [u8; FRONT], payload: u16) {
    let [_, _, control, ..] = *front;
    // Both kinds of header end with the offset.
    let tagged = front.first_chunk_mut::<{ size_of::<TaggedFpdu>() }>();
    if let (true, Some(header)) = (ddp::Control(control).tagged(), tagged) {
        if let Some(to) = header.last_chunk_mut() {
            let before = TaggedOffset(u64::from_be_bytes(*to));
            *to = before.behind(payload.into()).0.to_be_bytes();
        }
    } else if let Some(mo) = front.last_chunk_mut() {
        *mo = u32::from_be_bytes(*mo)
            .wrapping_add(payload.into())
            .to_be_bytes();
    }
}

impl Frame {
    /// Returns the FPDU behind this one, which is as long. This one must not be the last.
    #[inline]
    pub(crate) fn next(&self) -> Self {
        Self {
            // A message is at most 2^32 - 1 octets long.
            offset: self.offset.wrapping_add(self.payload.into()),
            ..*self
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    kind: Kind,
    msn: Msn,
    /// Octets of payload in the FPDUs made so far.
    sent: Wrapping<u32>,
    /// Octets of payload still to come.
    left: u32,
    done: bool,
}

impl Message {
    /// Returns whether the last FPDU has been made.
    pub(crate) const fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) const fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Returns the number of the message, among those of its kind.
    pub(crate) const fn msn(&self) -> Msn {
        self.msn
    }

    pub(crate) const fn sent(&self) -> u32 {
        self.sent.0
    }

    /// Returns the next FPDU, with an ULPDU of at most `mulpdu` octets (`wire::fpdu::mulpdu`, or
    /// what [`Packer::fill`] says). A message of length zero is one FPDU (RFC 5041 section 5.2,
    /// D-DDP-10). Fails if the message is done, or if its headers are longer than `mulpdu`.
    #[inline(always)]
    pub(crate) fn frame(&self, mulpdu: u16) -> Result<Frame, Broken> {
        if self.done {
            return Err(Broken);
        }
        let header_len = match self.kind {
            Kind::Send { .. } | Kind::SendImmediate { .. } => size_of::<UntaggedFpdu>(),
            Kind::Immediate { .. } => size_of::<ImmediateFpdu>(),
            Kind::ReadRequest(_) => size_of::<ReadRequestFpdu>(),
            Kind::AtomicRequest(_) => size_of::<AtomicRequestFpdu>(),
            Kind::AtomicResponse(_) => size_of::<AtomicResponseFpdu>(),
            Kind::Write { .. } | Kind::ReadResponse(_) => size_of::<TaggedFpdu>(),
        };
        let ddp_len = u16::try_from(header_len.try_sub(LEN_FIELD)?)?;
        let room = mulpdu.min(fpdu::MAX_MULPDU).try_sub(ddp_len)?;
        let payload = u16::try_from(self.left).map_or(room, |left| left.min(room));
        let ulpdu_len = ddp_len.try_add(payload)?;
        Ok(Frame {
            header_len,
            payload,
            offset: self.sent.0,
            ulpdu_len,
            fpdu_len: fpdu::fpdu_len(ulpdu_len),
            last: self.left == u32::from(payload),
        })
    }

    /// Returns the number of FPDUs, from `frame` on, that are as long as `frame` and not the last
    /// of the message. `frame` is what [`Message::frame`] returned.
    #[inline]
    pub(crate) fn alike(&self, frame: &Frame) -> u32 {
        let behind = self.left.checked_sub(1);
        let alike = behind.and_then(|behind| behind.checked_div(frame.payload.into()));
        alike.unwrap_or(0)
    }

    /// Moves on behind `count` FPDUs: `frame`, which [`Message::frame`] returned, and equally long
    /// ones behind it. Fails if there are fewer.
    #[inline]
    pub(crate) fn advance(&mut self, frame: &Frame, count: u32) -> Result<(), Broken> {
        if count == 0 || count > 1 && count > self.alike(frame) {
            return Err(Broken);
        }
        let len = count.try_mul(frame.payload)?;
        self.sent += len;
        self.left = self.left.try_sub(len)?;
        self.done = frame.last;
        Ok(())
    }

    /// Writes the header of `frame` to `out`. Returns whether `out` has the length of the header.
    #[inline(always)]
    #[must_use]
    pub(crate) fn put_header(&self, frame: &Frame, out: &mut [u8]) -> bool {
        let len = U16::new(frame.ulpdu_len);
        let tagged = |opcode, stag: Stag, to: TaggedOffset| TaggedFpdu {
            len,
            ddp: Tagged {
                control: ddp::Control::new(true, frame.last),
                rdmap: Control::new(opcode).0,
                stag: U32::new(stag.0),
                to: U64::new(to.behind(frame.offset).0),
            },
        };
        match self.kind {
            Kind::Send {
                solicited,
                invalidate,
            } => {
                let opcode = Opcode::send(solicited, invalidate.is_some());
                let front = self.untagged(frame, opcode, invalidate, qn::SEND);
                front.write_to(out).is_ok()
            }
            Kind::Write { stag, to } => tagged(Opcode::Write, stag, to).write_to(out).is_ok(),
            Kind::ReadResponse(ReadRequest {
                sink_stag, sink_to, ..
            }) => tagged(Opcode::ReadResponse, sink_stag, sink_to)
                .write_to(out)
                .is_ok(),
            Kind::SendImmediate { solicited, data } => {
                let opcode = Opcode::send_immediate(solicited);
                let data = Stag(u32::from_be_bytes(data));
                let front = self.untagged(frame, opcode, Some(data), qn::SEND);
                front.write_to(out).is_ok()
            }
            _ => self.put_all(frame, out),
        }
    }

    #[inline(always)]
    fn untagged(
        &self,
        frame: &Frame,
        opcode: Opcode,
        invalidate: Option<Stag>,
        qn: u32,
    ) -> UntaggedFpdu {
        UntaggedFpdu {
            len: U16::new(frame.ulpdu_len),
            ddp: Untagged {
                control: ddp::Control::new(false, frame.last),
                rdmap: Control::new(opcode).0,
                invalidate: U32::new(invalidate.unwrap_or_default().0),
                qn: U32::new(qn),
                msn: U32::new(self.msn.0),
                mo: U32::new(frame.offset),
            },
        }
    }

    /// Writes a header that is all of the message. This is a function of its own, so that it does
    /// not slow down other messages.
    #[inline(never)]
    fn put_all(&self, frame: &Frame, out: &mut [u8]) -> bool {
        let front = |opcode, qn| self.untagged(frame, opcode, None, qn);
        match self.kind {
            Kind::Immediate { data, solicited } => ImmediateFpdu {
                front: front(Opcode::immediate(solicited), qn::SEND),
                data: data.0,
            }
            .write_to(out)
            .is_ok(),
            Kind::ReadRequest(request) => ReadRequestFpdu {
                front: front(Opcode::ReadRequest, qn::READ_REQUEST),
                request: request.to_wire(),
            }
            .write_to(out)
            .is_ok(),
            Kind::AtomicRequest(request) => AtomicRequestFpdu {
                front: front(Opcode::AtomicRequest, qn::READ_REQUEST),
                request: request.to_wire(),
            }
            .write_to(out)
            .is_ok(),
            Kind::AtomicResponse(response) => AtomicResponseFpdu {
                front: front(Opcode::AtomicResponse, qn::ATOMIC_RESPONSE),
                response: response.to_wire(),
            }
            .write_to(out)
            .is_ok(),
            Kind::Send { .. }
            | Kind::SendImmediate { .. }
            | Kind::Write { .. }
            | Kind::ReadResponse(_) => false,
        }
    }
}

#[derive(Clone, Copy, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TaggedFpdu {
    len: U16,
    ddp: Tagged,
}

#[derive(Clone, Copy, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct UntaggedFpdu {
    len: U16,
    ddp: Untagged,
}

/// An FPDU with Immediate Data. This type and those below lack the trailer.
#[derive(Clone, Copy, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ImmediateFpdu {
    front: UntaggedFpdu,
    data: [u8; IMMEDIATE_LEN],
}

#[derive(Clone, Copy, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReadRequestFpdu {
    front: UntaggedFpdu,
    request: [u8; READ_REQUEST_LEN],
}

#[derive(Clone, Copy, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AtomicRequestFpdu {
    front: UntaggedFpdu,
    request: [u8; ATOMIC_REQUEST_LEN],
}

#[derive(Clone, Copy, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AtomicResponseFpdu {
    front: UntaggedFpdu,
    response: [u8; ATOMIC_RESPONSE_LEN],
}

const _: () = assert!(size_of::<AtomicRequestFpdu>() == MAX_HEADER);

/// Makes the one FPDU of a Terminate, after which nothing may be sent (T-32, P-RDMAP-17), with the
/// marker that is due in it, if any, and with a CRC if there is `crc32c`. Returns `None` if it does
/// not fit, which is a defect.
pub(crate) fn terminate<'a>(
    message: &Terminate,
    markers: Option<&mut Markers>,
    crc32c: Option<fn(u32, &[u8]) -> u32>,
    out: &'a mut [u8; MAX_TERMINATE],
) -> Option<&'a [u8]> {
    // What is behind the ULPDU stays zero, as a pad has to be.
    let mut plain = [0; LEN_FIELD + terminate::MAX_ULPDU];
    let (len_field, ulpdu) = plain.split_first_chunk_mut()?;
    let ulpdu_len = message.emit(ulpdu.first_chunk_mut()?);
    *len_field = ulpdu_len.to_be_bytes();
    let plain = plain.get(..fpdu::covered_len(ulpdu_len))?;
    // The FPDU is too short for two markers. CAST: it is short.
    let fpdu_len = fpdu::fpdu_len(ulpdu_len) as u32;
    let marker = markers.and_then(|markers| markers.next_fpdu(fpdu_len).next());
    // CAST: 32 bits fit.
    let at = marker.map_or(0, |marker| marker.at as usize);
    let marker = marker.as_ref().map_or(&[][..], |marker| &marker.bytes);
    let (before, behind) = plain.split_at_checked(at)?;
    let len = plain.len().checked_add(marker.len())?;
    let (front, crc) = out.split_at_mut_checked(len)?;
    let all = before.iter().chain(marker).chain(behind);
    for (to, from) in front.iter_mut().zip(all) {
        *to = *from;
    }
    *crc.first_chunk_mut()? = match crc32c {
        Some(crc32c) => Crc::new().update(crc32c, front).to_wire(),
        None => [0; CRC_LEN],
    };
    out.get(..len.checked_add(CRC_LEN)?)
}

/// A segment is filled up if that makes room for this many octets of payload. One more FPDU takes
/// some hundred instructions on both sides together, one more record of TCP some ten thousand.
const LEAST_PAYLOAD: u16 = 4;

/// Fills TCP segments of `emss` octets with FPDUs, so that each FPDU begins with a segment or
/// shares one with others (RFC 5044 section 5.1, M-MPA-12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packer {
    emss: u32,
    used: Saturating<u32>,
    /// TCP was given what is in the segment so far.
    is_handed_over: bool,
}

impl Packer {
    /// Starts at the beginning of a new segment.
    pub(crate) const fn new(emss: u32) -> Self {
        Packer {
            emss,
            used: Saturating(0),
            is_handed_over: false,
        }
    }

    /// Adds an FPDU of `len` octets, markers included. Returns whether TCP must be made to end its
    /// segment in front of it ("end of record").
    #[inline(always)]
    pub(crate) fn push(&mut self, len: u32) -> bool {
        let end = self.used + Saturating(len);
        let begins = core::mem::take(&mut self.is_handed_over);
        if end.0 <= self.emss && !begins {
            self.used = end;
            return false;
        }
        let cut = self.used.0 > 0 && self.used.0 < self.emss;
        self.used.0 = match len.checked_rem(self.emss) {
            Some(rest) if rest > 0 => rest,
            _ => self.emss,
        };
        cut
    }

    /// Returns the length of the ULPDU that fills the rest of the segment, if the FPDU of `frame`
    /// is too long for that rest, and if the rest is worth it. The message then goes on in the next
    /// segment. So TCP has full segments instead of records that end early, each with a buffer and
    /// an acknowledgement of its own.
    #[inline(always)]
    pub(crate) fn fill(&self, frame: &Frame) -> Option<u16> {
        if self.used.0 == 0 || self.is_handed_over {
            return None;
        }
        let rest = usize::try_from(self.emss.checked_sub(self.used.0)?).ok()?;
        if frame.fpdu_len <= rest {
            return None;
        }
        // A length that needs no pad.
        let ulpdu_len = (rest & !3).checked_sub(fpdu::OVERHEAD)?;
        let ulpdu_len = u16::try_from(ulpdu_len).ok()?;
        let header_len = frame.ulpdu_len.checked_sub(frame.payload)?;
        let payload = ulpdu_len.checked_sub(header_len)?;
        (payload >= LEAST_PAYLOAD).then_some(ulpdu_len)
    }

    /// Takes note that TCP has what was put together so far, and may have sent the end of it
    /// already. So the next FPDU begins a segment.
    pub(crate) fn end_batch(&mut self) {
        self.is_handed_over = true;
    }

    /// Takes note that a record was ended, so the next FPDU begins a segment.
    pub(crate) fn end_record(&mut self) {
        self.used.0 = 0;
    }

    pub(crate) fn set_emss(&mut self, emss: u32) {
        self.emss = emss;
        self.used.0 = self.used.0.min(emss);
    }
}

/// Returns whether the next request of the SQ may start (V-FNC, V-RD-1 to 3, T-41). If not, the
/// requests behind it wait too (V-RD-2). `reads` is the number of our outstanding Reads and Atomic
/// Operations; `earlier` says whether a request posted before is incomplete. Fails for a Read or
/// Atomic Operation if ORD is zero: it completes in error (V-RD-3).
pub(crate) const fn may_start(
    operation: &Operation,
    fence: bool,
    reads: usize,
    ord: usize,
    earlier: bool,
) -> Result<bool, Fault> {
    let waits = match operation {
        Operation::Read { .. } | Operation::Atomic { .. } if ord == 0 => {
            return Err(Fault::LocalOperation);
        }
        Operation::Read { .. } | Operation::Atomic { .. } => reads >= ord,
        Operation::Send { .. } | Operation::SendImmediate { .. } | Operation::Write { .. } => {
            fence && reads > 0
        }
        Operation::Local(Local::Invalidate { .. }) => fence && earlier,
        Operation::Local(Local::Register | Local::Bind) => false,
    };
    Ok(!waits)
}
