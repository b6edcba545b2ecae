// SPDX-License-Identifier: GPL-2.0

//! RDMAP control octet, opcodes and the Read Request header (RFC 5040 section 4; opcodes 8 to 11 of
//! RFC 7306). Any context.
#![forbid(unsafe_code)]

use super::ddp::{
    Stag,
    TaggedOffset, //
};
use core::ffi::CStr;
use zerocopy::byteorder::big_endian::{
    U32,
    U64, //
};
use zerocopy_derive::{
    FromBytes,
    Immutable,
    IntoBytes,
    KnownLayout,
    Unaligned, //
};

/// RDMAP version of the RFCs; 0 would be RDMAC's.
pub(crate) const VERSION: u8 = 1;
/// Octets of the Read Request header, which follows the DDP header.
pub(crate) const READ_REQUEST_LEN: usize = 28;
/// Payload of an Immediate message (RFC 7306 section 6).
pub(crate) const IMMEDIATE_LEN: usize = 8;
/// Octets of the Atomic Request and Response headers (RFC 7306 sections 5.2.1 and 5.2.2, T-40).
pub(crate) const ATOMIC_REQUEST_LEN: usize = 52;
pub(crate) const ATOMIC_RESPONSE_LEN: usize = 12;

/// Declares the opcodes, with their names in trace events. `Se` stands for Solicited Event.
macro_rules! opcodes {
    ($($(#[$doc:meta])* $opcode:ident = $number:literal, $name:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Opcode {
            $($(#[$doc])* $opcode = $number,)*
        }

        impl Opcode {
            /// Returns the opcode numbered `n`; `None` for unassigned and experimental ones.
            pub(crate) const fn from_bits(n: u8) -> Option<Self> {
                Some(match n {
                    $($number => Opcode::$opcode,)*
                    _ => return None,
                })
            }

            pub(crate) const fn name_of(opcode: Option<Self>) -> &'static CStr {
                match opcode {
                    None => c"unknown",
                    $(Some(Opcode::$opcode) => $name,)*
                }
            }
        }
    };
}

opcodes! {
    Write = 0, c"write";
    ReadRequest = 1, c"read_request";
    ReadResponse = 2, c"read_response";
    Send = 3, c"send";
    SendInvalidate = 4, c"send_inv";
    SendSe = 5, c"send_se";
    SendSeInvalidate = 6, c"send_se_inv";
    Terminate = 7, c"terminate";
    Immediate = 8, c"immediate";
    ImmediateSe = 9, c"immediate_se";
    AtomicRequest = 10, c"atomic_request";
    AtomicResponse = 11, c"atomic_response";
    /// In no RFC: a Send whose header has four octets of immediate data in the place of an STag to
    /// invalidate. Used only between queue pairs that are connected by number.
    SendImmediate = 12, c"send_imm";
    SendSeImmediate = 13, c"send_se_imm";
}

impl Opcode {
    pub(crate) const fn send(solicited: bool, invalidate: bool) -> Self {
        match (solicited, invalidate) {
            (false, false) => Opcode::Send,
            (false, true) => Opcode::SendInvalidate,
            (true, false) => Opcode::SendSe,
            (true, true) => Opcode::SendSeInvalidate,
        }
    }

    pub(crate) const fn send_immediate(solicited: bool) -> Self {
        match solicited {
            false => Opcode::SendImmediate,
            true => Opcode::SendSeImmediate,
        }
    }

    pub(crate) const fn immediate(solicited: bool) -> Self {
        match solicited {
            false => Opcode::Immediate,
            true => Opcode::ImmediateSe,
        }
    }

    /// Returns whether messages of this opcode are tagged (RFC 5040 figure 4).
    pub(crate) const fn tagged(self) -> bool {
        matches!(self, Opcode::Write | Opcode::ReadResponse)
    }

    pub(crate) const fn invalidates(self) -> bool {
        matches!(self, Opcode::SendInvalidate | Opcode::SendSeInvalidate)
    }

    pub(crate) const fn is_send_immediate(self) -> bool {
        matches!(self, Opcode::SendImmediate | Opcode::SendSeImmediate)
    }

    pub(crate) const fn solicited(self) -> bool {
        matches!(
            self,
            Opcode::SendSe
                | Opcode::SendSeInvalidate
                | Opcode::ImmediateSe
                | Opcode::SendSeImmediate
        )
    }
}

/// RDMAP control octet: RV, two reserved bits, opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control(pub(crate) u8);

impl Control {
    pub(crate) const fn new(opcode: Opcode) -> Self {
        // CAST: the discriminant is the wire value.
        Control((VERSION << 6) | opcode as u8)
    }

    /// Returns the RV field. The reserved bits are not checked (RFC 5040 section 4.1, P-RDMAP-1).
    pub(crate) const fn version(self) -> u8 {
        self.0 >> 6
    }

    pub(crate) const fn opcode(self) -> Option<Opcode> {
        Opcode::from_bits(self.0 & 0x0f)
    }
}

/// The data of an Immediate message (RFC 7306 section 6.1). Consumers see 32 of its 64 bits. The
/// RFC does not say which; adapters use the first half, and so does this driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImmediateData(pub(crate) [u8; IMMEDIATE_LEN]);

impl ImmediateData {
    /// Makes the data from the four octets that a consumer gives, which are in wire order.
    pub(crate) const fn from_short(short: [u8; 4]) -> Self {
        let [a, b, c, d] = short;
        Self([a, b, c, d, 0, 0, 0, 0])
    }

    /// Returns what a consumer gets, in wire order: the first half or, if that is zero, the other.
    pub(crate) const fn short(self) -> [u8; 4] {
        match self.0 {
            [0, 0, 0, 0, short @ ..] => short,
            [a, b, c, d, ..] => [a, b, c, d],
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().copied().map(Self)
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawReadRequest {
    sink_stag: U32,
    sink_to: U64,
    len: U32,
    source_stag: U32,
    source_to: U64,
}

const _: () = assert!(size_of::<RawReadRequest>() == READ_REQUEST_LEN);

/// The Read Request header (RFC 5040 section 4.4): `len` octets of the source, at the responder,
/// are to be placed in the sink, at the requester.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    pub(crate) sink_stag: Stag,
    pub(crate) sink_to: TaggedOffset,
    pub(crate) len: u32,
    pub(crate) source_stag: Stag,
    pub(crate) source_to: TaggedOffset,
}

impl ReadRequest {
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        use zerocopy::FromBytes;

        let (raw, _) = RawReadRequest::read_from_prefix(bytes).ok()?;
        Some(ReadRequest {
            sink_stag: Stag(raw.sink_stag.get()),
            sink_to: TaggedOffset(raw.sink_to.get()),
            len: raw.len.get(),
            source_stag: Stag(raw.source_stag.get()),
            source_to: TaggedOffset(raw.source_to.get()),
        })
    }

    pub(crate) fn to_wire(self) -> [u8; READ_REQUEST_LEN] {
        zerocopy::transmute!(RawReadRequest {
            sink_stag: U32::new(self.sink_stag.0),
            sink_to: U64::new(self.sink_to.0),
            len: U32::new(self.len),
            source_stag: U32::new(self.source_stag.0),
            source_to: U64::new(self.source_to.0),
        })
    }

    /// Returns the request for what is left after `done` octets, as a Terminate quotes a Read that
    /// fails on the way (RFC 5040 section 4.8, P-TERM-6).
    #[must_use]
    pub(crate) const fn advanced(self, done: u32) -> Self {
        ReadRequest {
            sink_to: self.sink_to.behind(done),
            len: self.len.saturating_sub(done),
            source_to: self.source_to.behind(done),
            ..self
        }
    }
}
