// SPDX-License-Identifier: GPL-2.0

//! The Terminate message (RFC 5040 section 4.8, figures 7 to 10; codes also RFC 5041 section 7.2,
//! RFC 5044 section 8, RFC 6581 section 9). Any context.
//!
//! The ULPDU is an untagged DDP header, a control word and, if the error belongs to a segment, that
//! segment's length and headers. All shifts come from the RFC's bit numbers (T-1).
#![forbid(unsafe_code)]

use super::ddp::{
    self,
    qn,
    Msn,
    Stag,
    TaggedOffset,
    Untagged, //
};
use super::rdmap::{
    self,
    Opcode,
    ReadRequest,
    ATOMIC_REQUEST_LEN,
    READ_REQUEST_LEN, //
};
use core::num::Saturating;
use zerocopy::byteorder::big_endian::U32;
use zerocopy::IntoBytes;

pub(crate) const CONTROL_LEN: usize = 4;
const SEGMENT_LENGTH_LEN: usize = 2;
pub(crate) const MAX_QUOTE: usize = ddp::UNTAGGED_LEN + READ_REQUEST_LEN;
/// Longest ULPDU of a Terminate: 70 octets.
pub(crate) const MAX_ULPDU: usize =
    ddp::UNTAGGED_LEN + CONTROL_LEN + SEGMENT_LENGTH_LEN + MAX_QUOTE;

const M_BIT: u8 = 0x80;
const D_BIT: u8 = 0x40;
const R_BIT: u8 = 0x20;

/// The errors that end a stream. The discriminant is `0xLTCC`: layer, type, code. Layer and type
/// decide what an error quotes and, with few exceptions, its event and its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum TermError {
    /// RDMAP: local catastrophic error, also a Terminate that the consumer asked for.
    LocalCatastrophic = 0x0000,
    // RDMAP, remote protection errors.
    /// Invalid STag: the source of a Read, or one to invalidate.
    RemoteStag = 0x0100,
    RemoteBounds = 0x0101,
    RemoteAccess = 0x0102,
    /// The STag is not associated with the stream.
    RemoteNotAssociated = 0x0103,
    /// The tagged offset wraps.
    RemoteWrap = 0x0104,
    RemoteCannotInvalidate = 0x0109,
    RemoteUnspecified = 0x01ff,
    // RDMAP, remote operation errors.
    RdmapVersion = 0x0205,
    /// The opcode is unknown, or does not fit the segment.
    UnexpectedOpcode = 0x0206,
    CatastrophicStream = 0x0207,
    /// A catastrophic error of the whole device.
    CatastrophicGlobal = 0x0208,
    OpCannotInvalidate = 0x0209,
    OpUnspecified = 0x02ff,
    /// No error, and in no RFC: the consumer of a queue pair that is connected by number ends the
    /// stream. The quote says how many Sends and Writes are placed.
    Leaving = 0x0f01,
    // DDP.
    DdpLocalCatastrophic = 0x1000,
    TaggedStag = 0x1100,
    TaggedBounds = 0x1101,
    TaggedNotAssociated = 0x1102,
    TaggedWrap = 0x1103,
    TaggedVersion = 0x1104,
    UntaggedQn = 0x1201,
    UntaggedNoBuffer = 0x1202,
    UntaggedMsn = 0x1203,
    UntaggedMo = 0x1204,
    /// The message is longer than its buffer.
    UntaggedTooLong = 0x1205,
    UntaggedVersion = 0x1206,
    // MPA.
    MpaCrc = 0x2002,
    /// The length of an FPDU, or a marker in it, does not make sense.
    MpaFpdu = 0x2003,
    /// Local catastrophic error in enhanced set-up.
    MpaLocalCatastrophic = 0x2005,
    MpaInsufficientIrd = 0x2006,
    MpaNoMatchingRtr = 0x2007,
}

/// Which headers of the bad segment a Terminate may carry (RFC 5040 figure 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    Nothing,
    Ddp,
    DdpAndRdmap,
}

impl TermError {
    pub(crate) const fn code(self) -> u16 {
        // CAST: the discriminant is the code.
        self as u16
    }

    const fn parts(self) -> Parts {
        match self.code() >> 8 {
            0x01 => Parts::DdpAndRdmap,
            0x02 | 0x0f..=0x1f => Parts::Ddp,
            _ => Parts::Nothing,
        }
    }
}

/// Length and headers of a segment, kept for the Terminate about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quote {
    bytes: [u8; MAX_QUOTE],
    ddp_len: u8,
    /// Whether a Read Request header stands behind the DDP header.
    read_request: bool,
    ulpdu_len: u16,
}

impl Quote {
    /// Quotes the segment that has `ulpdu_len` octets and begins with `ulpdu`, which may be cut
    /// short. Returns `None` if not even the DDP header is there.
    pub(crate) fn new(ulpdu: &[u8], ulpdu_len: u16) -> Option<Self> {
        let (header, _) = ddp::Header::parse(ulpdu)?;
        let ddp_len = header.control().header_len();
        let is_read = matches!(header, ddp::Header::Untagged(_))
            && rdmap::Control(header.rdmap()).opcode() == Some(Opcode::ReadRequest);
        let read_request = is_read && ulpdu.len() >= MAX_QUOTE;
        let mut bytes = [0; MAX_QUOTE];
        let keep = if read_request { MAX_QUOTE } else { ddp_len };
        for (to, from) in bytes.iter_mut().zip(ulpdu.iter().take(keep)) {
            *to = *from;
        }
        // CAST: 14 or 18.
        Some(Quote {
            bytes,
            ddp_len: ddp_len as u8,
            read_request,
            ulpdu_len,
        })
    }

    /// Quotes the Read Request with number `msn`, of which `done` octets are answered.
    pub(crate) fn read_request(request: ReadRequest, msn: Msn, done: u32) -> Self {
        let header = untagged(Opcode::ReadRequest, qn::READ_REQUEST, msn);
        let read = request.advanced(done).to_wire();
        let mut bytes = [0; MAX_QUOTE];
        for (to, from) in bytes.iter_mut().zip(header.as_bytes().iter().chain(&read)) {
            *to = *from;
        }
        // CAST: 18 and 46.
        Quote {
            bytes,
            ddp_len: ddp::UNTAGGED_LEN as u8,
            read_request: true,
            ulpdu_len: MAX_QUOTE as u16,
        }
    }

    /// Quotes no segment, but says how many messages are placed, for [`TermError::Leaving`].
    pub(crate) fn placed(messages: u32) -> Self {
        let header = untagged(Opcode::Send, qn::SEND, Msn(messages));
        let mut bytes = [0; MAX_QUOTE];
        for (to, from) in bytes.iter_mut().zip(header.as_bytes()) {
            *to = *from;
        }
        // CAST: 18.
        Quote {
            bytes,
            ddp_len: ddp::UNTAGGED_LEN as u8,
            read_request: false,
            ulpdu_len: ddp::UNTAGGED_LEN as u16,
        }
    }

    /// Quotes the Atomic Request with number `msn`: its DDP header only (RFC 7306 section 8.1).
    pub(crate) fn atomic_request(msn: Msn) -> Self {
        let header = untagged(Opcode::AtomicRequest, qn::READ_REQUEST, msn);
        let mut bytes = [0; MAX_QUOTE];
        for (to, from) in bytes.iter_mut().zip(header.as_bytes()) {
            *to = *from;
        }
        // CAST: 18 and 70.
        Quote {
            bytes,
            ddp_len: ddp::UNTAGGED_LEN as u8,
            read_request: false,
            ulpdu_len: ATOMIC_REQUEST_ULPDU as u16,
        }
    }
}

const ATOMIC_REQUEST_ULPDU: usize = ddp::UNTAGGED_LEN + ATOMIC_REQUEST_LEN;

/// Returns the header of an untagged message of one segment.
fn untagged(opcode: Opcode, qn: u32, msn: Msn) -> Untagged {
    Untagged {
        control: ddp::Control::new(false, true),
        rdmap: rdmap::Control::new(opcode).0,
        invalidate: U32::new(0),
        qn: U32::new(qn),
        msn: U32::new(msn.0),
        mo: U32::new(0),
    }
}

/// A Terminate to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terminate {
    pub(crate) error: TermError,
    /// The bad segment; `None` if the error belongs to no segment.
    pub(crate) quote: Option<Quote>,
}

impl Terminate {
    /// Writes the ULPDU, DDP header first, and returns its length.
    pub(crate) fn emit(&self, out: &mut [u8; MAX_ULPDU]) -> u16 {
        let header = untagged(Opcode::Terminate, qn::TERMINATE, Msn::FIRST);
        let [layer_type, code] = self.error.code().to_be_bytes();
        let mut bits = 0;
        let mut length: &[u8] = &[];
        let mut headers: &[u8] = &[];
        let quoted_len;
        if let (Some(quote), Parts::Ddp | Parts::DdpAndRdmap) = (&self.quote, self.error.parts()) {
            quoted_len = quote.ulpdu_len.to_be_bytes();
            length = &quoted_len;
            bits = M_BIT | D_BIT;
            let mut keep = usize::from(quote.ddp_len);
            if quote.read_request && self.error.parts() == Parts::DdpAndRdmap {
                bits |= R_BIT;
                keep = MAX_QUOTE;
            }
            headers = quote.bytes.get(..keep).unwrap_or(&[]);
        }
        let control = [layer_type, code, bits, 0];
        let all = header
            .as_bytes()
            .iter()
            .chain(&control)
            .chain(length)
            .chain(headers);
        let mut n = Saturating(0u16);
        for (to, from) in out.iter_mut().zip(all) {
            *to = *from;
            n += 1;
        }
        n.0
    }
}

/// A header quoted in a received Terminate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoted {
    Tagged {
        opcode: Option<Opcode>,
        stag: Stag,
        to: TaggedOffset,
    },
    Untagged {
        opcode: Option<Opcode>,
        qn: u32,
        msn: Msn,
        mo: u32,
    },
}

/// A received Terminate. Nothing in it can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// `0xLTCC`, not necessarily one of [`TermError`] (RFC 6580 section 3, X-IANA-1).
    pub(crate) code: u16,
    /// DDP Segment Length, if it is there and marked as valid.
    pub(crate) segment_len: Option<u16>,
    pub(crate) quoted: Option<Quoted>,
    pub(crate) read_request: Option<ReadRequest>,
}

impl Received {
    /// Returns the number of the Read Request or Atomic Request that the peer refuses, if any.
    pub(crate) fn refused_read(&self) -> Option<Msn> {
        match self.quoted? {
            Quoted::Untagged {
                opcode: Some(Opcode::ReadRequest | Opcode::AtomicRequest),
                qn: qn::READ_REQUEST,
                msn,
                ..
            } => Some(msn),
            _ => None,
        }
    }

    /// Returns how many messages the peer has placed, if that is what it says.
    pub(crate) fn placed(&self) -> Option<u32> {
        match self.quoted? {
            Quoted::Untagged { msn, .. } if self.code == TermError::Leaving.code() => Some(msn.0),
            _ => None,
        }
    }

    /// Reads what follows the DDP header; leaves out parts that are announced but missing. Returns
    /// `None` without a whole control word.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let (&[layer_type, code, bits, _], rest) = payload.split_first_chunk::<CONTROL_LEN>()?;
        let mut out = Received {
            code: u16::from_be_bytes([layer_type, code]),
            segment_len: None,
            quoted: None,
            read_request: None,
        };
        if bits & D_BIT == 0 {
            return Some(out);
        }
        let Some((length, rest)) = rest.split_first_chunk::<SEGMENT_LENGTH_LEN>() else {
            return Some(out);
        };
        if bits & M_BIT != 0 {
            out.segment_len = Some(u16::from_be_bytes(*length));
        }
        let Some((header, rest)) = ddp::Header::parse(rest) else {
            return Some(out);
        };
        let opcode = rdmap::Control(header.rdmap()).opcode();
        out.quoted = Some(match header {
            ddp::Header::Tagged(h) => Quoted::Tagged {
                opcode,
                stag: Stag(h.stag.get()),
                to: TaggedOffset(h.to.get()),
            },
            ddp::Header::Untagged(h) => Quoted::Untagged {
                opcode,
                qn: h.qn.get(),
                msn: Msn(h.msn.get()),
                mo: h.mo.get(),
            },
        });
        if bits & R_BIT != 0 {
            out.read_request = ReadRequest::parse(rest);
        }
        Some(out)
    }
}
