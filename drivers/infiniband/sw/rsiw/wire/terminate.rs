// SPDX-License-Identifier: GPL-2.0

//! The Terminate message (RFC 5040 section 4.8, figures 7 to 10; codes also RFC 5041 section
//! 7.2, RFC 5044 section 8, RFC 6581 section 9). Any context.
//!
//! The ULPDU is an untagged DDP header, a control word, and, where the error belongs to a
//! segment, that segment's length and headers. All shifts come from the RFC's bit numbers (T-1).
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

/// Octets of the control word.
pub(crate) const CONTROL_LEN: usize = 4;
/// Octets of the DDP Segment Length field.
const SEGMENT_LENGTH_LEN: usize = 2;
/// Longest copy of headers: untagged DDP and Read Request.
pub(crate) const MAX_QUOTE: usize = ddp::UNTAGGED_LEN + READ_REQUEST_LEN;
/// Longest ULPDU of a Terminate: 70 octets.
pub(crate) const MAX_ULPDU: usize =
    ddp::UNTAGGED_LEN + CONTROL_LEN + SEGMENT_LENGTH_LEN + MAX_QUOTE;

const M_BIT: u8 = 0x80;
const D_BIT: u8 = 0x40;
const R_BIT: u8 = 0x20;

/// The errors that end a stream, by layer, type and code. The discriminant is `0xLTCC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum TermError {
    /// RDMAP: local catastrophic error, also a Terminate the consumer asked for.
    LocalCatastrophic = 0x0000,
    /// RDMAP: invalid STag (source of a Read, STag to invalidate).
    RemoteStag = 0x0100,
    /// RDMAP: base or bounds violation.
    RemoteBounds = 0x0101,
    /// RDMAP: access rights violation.
    RemoteAccess = 0x0102,
    /// RDMAP: STag not associated with the stream.
    RemoteNotAssociated = 0x0103,
    /// RDMAP: tagged offset wraps.
    RemoteWrap = 0x0104,
    /// RDMAP: STag cannot be invalidated.
    RemoteCannotInvalidate = 0x0109,
    /// RDMAP: unspecified protection error.
    RemoteUnspecified = 0x01ff,
    /// RDMAP: wrong version.
    RdmapVersion = 0x0205,
    /// RDMAP: opcode unknown, or not fit for the segment.
    UnexpectedOpcode = 0x0206,
    /// RDMAP: catastrophic error of this stream.
    CatastrophicStream = 0x0207,
    /// RDMAP: catastrophic error of the whole device.
    CatastrophicGlobal = 0x0208,
    /// RDMAP: STag cannot be invalidated, as an operation error.
    OpCannotInvalidate = 0x0209,
    /// RDMAP: unspecified operation error.
    OpUnspecified = 0x02ff,
    /// DDP: local catastrophic error.
    DdpLocalCatastrophic = 0x1000,
    /// DDP tagged: invalid STag.
    TaggedStag = 0x1100,
    /// DDP tagged: base or bounds violation.
    TaggedBounds = 0x1101,
    /// DDP tagged: STag not associated with the stream.
    TaggedNotAssociated = 0x1102,
    /// DDP tagged: tagged offset wraps.
    TaggedWrap = 0x1103,
    /// DDP tagged: wrong version.
    TaggedVersion = 0x1104,
    /// DDP untagged: invalid queue number.
    UntaggedQn = 0x1201,
    /// DDP untagged: no buffer for the message.
    UntaggedNoBuffer = 0x1202,
    /// DDP untagged: message sequence number out of range.
    UntaggedMsn = 0x1203,
    /// DDP untagged: invalid message offset.
    UntaggedMo = 0x1204,
    /// DDP untagged: message longer than its buffer.
    UntaggedTooLong = 0x1205,
    /// DDP untagged: wrong version.
    UntaggedVersion = 0x1206,
    /// MPA: CRC error.
    MpaCrc = 0x2002,
    /// MPA: length or marker of an FPDU does not make sense.
    MpaFpdu = 0x2003,
    /// MPA: local catastrophic error in enhanced set-up.
    MpaLocalCatastrophic = 0x2005,
    /// MPA: not enough inbound read resources.
    MpaInsufficientIrd = 0x2006,
    /// MPA: no ready-to-receive message that both sides can do.
    MpaNoMatchingRtr = 0x2007,
}

/// The layer that a Terminate is about (RFC 5040 section 4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// RDMAP.
    Rdmap,
    /// DDP.
    Ddp,
    /// MPA, the lower layer protocol.
    Mpa,
}

impl Layer {
    /// That of `code`, `0xLTCC`, if it is a known one.
    pub(crate) const fn of(code: u16) -> Option<Self> {
        match code >> 12 {
            0 => Some(Self::Rdmap),
            1 => Some(Self::Ddp),
            2 => Some(Self::Mpa),
            _ => None,
        }
    }
}

/// Which parts of the bad segment a Terminate may carry (RFC 5040 figure 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    Nothing,
    Ddp,
    DdpAndRdmap,
}

impl TermError {
    /// The error as `0xLTCC`: layer, type, code.
    pub(crate) const fn code(self) -> u16 {
        // CAST: the discriminant is the code.
        self as u16
    }

    const fn parts(self) -> Parts {
        match self.code() >> 8 {
            0x01 => Parts::DdpAndRdmap,
            0x02 | 0x10..=0x1f => Parts::Ddp,
            _ => Parts::Nothing,
        }
    }
}

/// Length and headers of a segment, kept for the Terminate that complains about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quote {
    bytes: [u8; MAX_QUOTE],
    ddp_len: u8,
    /// Whether a Read Request header stands behind the DDP header.
    read_request: bool,
    ulpdu_len: u16,
}

impl Quote {
    /// Quotes the segment that begins with the octets `ulpdu` and has `ulpdu_len` of them.
    ///
    /// `ulpdu` may be cut short. `None` if not even the DDP header is there.
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

    /// Quotes the Read Request `request` with number `msn`, of which `done` octets are answered.
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

    /// Quotes the Atomic Request with number `msn`, of which a Terminate has the DDP header only
    /// (RFC 7306 section 8.1).
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

/// Octets of an Atomic Request.
const ATOMIC_REQUEST_ULPDU: usize = ddp::UNTAGGED_LEN + ATOMIC_REQUEST_LEN;

/// An untagged header for a message of one segment.
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

/// A Terminate to be sent. Small enough to be kept until its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terminate {
    /// What went wrong.
    pub(crate) error: TermError,
    /// The segment that was bad; `None` if the error belongs to no segment.
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

/// A header quoted in a Terminate that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quoted {
    /// A tagged segment, of an RDMA Write or a Read Response.
    Tagged {
        /// Opcode, if it is a known one.
        opcode: Option<Opcode>,
        /// STag.
        stag: Stag,
        /// Tagged offset.
        to: TaggedOffset,
    },
    /// An untagged segment.
    Untagged {
        /// Opcode, if it is a known one.
        opcode: Option<Opcode>,
        /// Queue number.
        qn: u32,
        /// Message sequence number.
        msn: Msn,
        /// Message offset.
        mo: u32,
    },
}

/// A Terminate that was received. Nothing in it is to be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// `0xLTCC`, not necessarily one of [`TermError`] (RFC 6580 section 3, X-IANA-1).
    pub(crate) code: u16,
    /// DDP Segment Length, if it is there and marked as valid.
    pub(crate) segment_len: Option<u16>,
    /// The DDP header of the bad segment.
    pub(crate) quoted: Option<Quoted>,
    /// Its Read Request header.
    pub(crate) read_request: Option<ReadRequest>,
}

impl Received {
    /// The number of the Read Request or Atomic Request that the peer refuses, if it is about one.
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

    /// Reads what follows the DDP header. Parts that are announced but missing are left out.
    ///
    /// `None` if there is no whole control word.
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
