// SPDX-License-Identifier: GPL-2.0

//! FPDU arithmetic: length field, pad, CRC and the size limits (RFC 5044 sections 4.1 to 4.5).
//!
//! Any context. The CRC itself is passed in, the kernel and the tests bring their own.
#![forbid(unsafe_code)]

use core::num::Saturating;

/// Octets of the ULPDU_Length field in front of each FPDU.
pub(crate) const LEN_FIELD: usize = 2;
/// Octets of the CRC field at the end of each FPDU, present also when CRC is off.
pub(crate) const CRC_LEN: usize = 4;
/// Octets that an FPDU has beside its ULPDU, the pad aside.
pub(crate) const OVERHEAD: usize = LEN_FIELD + CRC_LEN;
/// Longest pad, up to a multiple of 4.
const MAX_PAD: usize = 3;
/// Longest trailer: the pad and the CRC.
pub(crate) const MAX_TRAILER: usize = MAX_PAD + CRC_LEN;
/// Longest ULPDU that the length field can name; a receiver takes all of them (section 4.1).
pub(crate) const MAX_ULPDU: u16 = u16::MAX;
/// Longest FPDU that a peer may send: the capacity a staging buffer needs.
pub(crate) const MAX_FPDU: usize = fpdu_len(MAX_ULPDU);
/// Smallest MULPDU that may be reported to DDP (section 4.5).
pub(crate) const MIN_MULPDU: u16 = 128;
/// Largest ULPDU ever sent: longer ones would overflow FPDUPTR (section 3).
pub(crate) const MAX_MULPDU: u16 = 64768;

/// Segment size that takes the longest FPDU that is ever sent, where FPDUs need not fit the segments
/// of TCP.
// CAST: 32 bits fit.
pub(crate) const LARGE_SEGMENT: u32 = fpdu_len(MAX_MULPDU) as u32;

/// Number of zero octets between an ULPDU of `ulpdu_len` octets and the CRC, 0 to 3.
pub(crate) const fn pad_len(ulpdu_len: u16) -> usize {
    // What the ULPDU and the length field lack to a multiple of 4.
    // CAST: a value of at most 3.
    (2u16.wrapping_sub(ulpdu_len) & 3) as usize
}

/// Octets in front of the CRC: length field, ULPDU and pad.
pub(crate) const fn covered_len(ulpdu_len: u16) -> usize {
    // CAST: u16 to usize is lossless; `From` is not const.
    (ulpdu_len as usize).wrapping_add(LEN_FIELD + MAX_PAD) & !MAX_PAD
}

/// Octets of the whole FPDU without markers: length field, ULPDU, pad and CRC.
pub(crate) const fn fpdu_len(ulpdu_len: u16) -> usize {
    covered_len(ulpdu_len).wrapping_add(CRC_LEN)
}

/// Largest ULPDU whose FPDU fits into one TCP segment of `emss` octets (RFC 5044 section 4.5).
///
/// The formula gives values that are no use for tiny or huge segments, so the result is kept
/// between [`MIN_MULPDU`] and [`MAX_MULPDU`].
pub(crate) fn mulpdu(emss: u32, markers: bool) -> u16 {
    // CAST: 6.
    let mut fit = Saturating(emss) - Saturating(OVERHEAD as u32);
    if markers {
        fit -= Saturating(emss.div_ceil(512)) * Saturating(4);
    }
    fit -= emss & 3;
    let fit = fit.0.clamp(u32::from(MIN_MULPDU), u32::from(MAX_MULPDU));
    u16::try_from(fit).unwrap_or(MIN_MULPDU)
}

/// A CRC32c in the making (section 4.4: the iSCSI way, low octet first on the wire).
///
/// Holds the raw register: all ones at the start, complemented only at the end. That is the
/// convention of the kernel's `crc32c(seed, data)` too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crc(pub(crate) u32);

impl Crc {
    /// The state before the first octet.
    pub(crate) const fn new() -> Self {
        Crc(!0)
    }

    /// Feeds `bytes` through `crc32c(register, bytes) -> register`.
    #[must_use]
    pub(crate) fn update(self, crc32c: impl Fn(u32, &[u8]) -> u32, bytes: &[u8]) -> Self {
        Crc(crc32c(self.0, bytes))
    }

    /// The four octets of the CRC field.
    pub(crate) const fn to_wire(self) -> [u8; CRC_LEN] {
        (!self.0).to_le_bytes()
    }

    /// Whether the CRC field received, `wire`, is the one computed.
    pub(crate) fn matches(self, wire: [u8; CRC_LEN]) -> bool {
        self.to_wire() == wire
    }
}

/// Pad and CRC field of one FPDU, ready to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    bytes: [u8; MAX_TRAILER],
    len: u8,
}

impl Trailer {
    /// The trailer for an ULPDU of `ulpdu_len` octets; `crc` covers all octets before it.
    ///
    /// The pad is fed into the CRC here. Without CRC the field is zero.
    pub(crate) fn new(
        ulpdu_len: u16,
        crc: Option<Crc>,
        crc32c: impl Fn(u32, &[u8]) -> u32,
    ) -> Self {
        let pad = pad_len(ulpdu_len);
        let mut bytes = [0; MAX_TRAILER];
        if let Some(crc) = crc {
            let crc = match [0u8; 3].get(..pad) {
                Some(zeros) if pad > 0 => crc.update(crc32c, zeros),
                _ => crc,
            };
            for (to, from) in bytes.iter_mut().skip(pad).zip(crc.to_wire()) {
                *to = from;
            }
        }
        // CAST: at most 7.
        Trailer {
            bytes,
            len: pad.wrapping_add(CRC_LEN) as u8,
        }
    }

    /// The octets to send.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.len))
            .unwrap_or(&self.bytes)
    }
}
