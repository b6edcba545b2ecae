// SPDX-License-Identifier: GPL-2.0

//! FPDUs (RFC 5044 sections 4.1 to 4.5): length field, pad, CRC, size limits, and the markers in
//! the sent stream. Any context; the caller brings the CRC32c function.
//!
//! Markers are for peers that ask for them. This side never asks, so there is no receiving half. A
//! marker stands at every 512th octet of the stream, counted from the first FPDU, markers included;
//! the stream begins with one. FPDUs and markers are multiples of four octets, so that a marker
//! never cuts a 32-bit word.
#![forbid(unsafe_code)]

use core::num::Saturating;

/// Octets of the ULPDU_Length field, with which an FPDU begins.
pub(crate) const LEN_FIELD: usize = 2;
/// Octets of the CRC field at the end, which is there even if CRCs are off.
pub(crate) const CRC_LEN: usize = 4;
/// Octets that an FPDU adds to its ULPDU, without the pad.
pub(crate) const OVERHEAD: usize = LEN_FIELD + CRC_LEN;
const MAX_PAD: usize = 3;
/// Longest ULPDU that the length field can name; a receiver takes any length (section 4.1).
pub(crate) const MAX_ULPDU: u16 = u16::MAX;
/// Longest FPDU that a peer may send, for which the deframer's buffer has room.
pub(crate) const MAX_FPDU: usize = fpdu_len(MAX_ULPDU);
/// Smallest MULPDU that may be reported to DDP (section 4.5).
pub(crate) const MIN_MULPDU: u16 = 128;
/// Largest ULPDU ever sent: longer ones would overflow FPDUPTR (section 3).
pub(crate) const MAX_MULPDU: u16 = 64768;

/// Segment size if FPDUs need not fit TCP's segments: that of the longest FPDU ever sent.
// CAST: 32 bits fit.
pub(crate) const LARGE_SEGMENT: u32 = fpdu_len(MAX_MULPDU) as u32;

/// Returns how many zero octets stand between ULPDU and CRC field, 0 to 3.
pub(crate) const fn pad_len(ulpdu_len: u16) -> usize {
    // CAST: at most 3, what length field and ULPDU lack to a multiple of 4.
    (2u16.wrapping_sub(ulpdu_len) & 3) as usize
}

/// Returns how many octets stand in front of the CRC field: length field, ULPDU and pad.
pub(crate) const fn covered_len(ulpdu_len: u16) -> usize {
    // CAST: u16 to usize is lossless; `From` is not const.
    (ulpdu_len as usize).wrapping_add(LEN_FIELD + MAX_PAD) & !MAX_PAD
}

/// Returns the octets of a whole FPDU, without markers.
pub(crate) const fn fpdu_len(ulpdu_len: u16) -> usize {
    covered_len(ulpdu_len).wrapping_add(CRC_LEN)
}

/// Returns the largest ULPDU whose FPDU fits into a TCP segment of `emss` octets (RFC 5044 section
/// 4.5), kept between [`MIN_MULPDU`] and [`MAX_MULPDU`].
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

/// A CRC32c in the making: the raw register, all ones at the start and complemented only at the
/// end, as for the kernel's `crc32c(seed, data)`. The low octet is first on the wire (section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crc(pub(crate) u32);

impl Crc {
    pub(crate) const fn new() -> Self {
        Crc(!0)
    }

    /// Feeds `bytes` through `crc32c(register, bytes) -> register`.
    #[must_use]
    pub(crate) fn update(self, crc32c: impl Fn(u32, &[u8]) -> u32, bytes: &[u8]) -> Self {
        Crc(crc32c(self.0, bytes))
    }

    pub(crate) const fn to_wire(self) -> [u8; CRC_LEN] {
        (!self.0).to_le_bytes()
    }

    pub(crate) fn matches(self, wire: [u8; CRC_LEN]) -> bool {
        self.to_wire() == wire
    }
}

pub(crate) const MARKER_LEN: usize = 4;
/// Octets of FPDU between two markers.
const GAP: u32 = 508;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Octets of the FPDU in front of the marker, from the length field on, without other markers.
    /// The CRC covers a marker in every place, also in front of the length field (T-26, M-MPA-17).
    pub(crate) at: u32,
    /// The octets to insert: 16 zero bits and FPDUPTR.
    pub(crate) bytes: [u8; MARKER_LEN],
}

/// Where the next marker of the stream is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Markers {
    /// Octets of FPDU until the next marker, 0..=508; 0 means at once.
    until: u32,
}

impl Markers {
    pub(crate) const fn new() -> Self {
        Markers { until: 0 }
    }

    /// Returns the markers of the next FPDU, which has `fpdu_len` octets without them; moves on.
    pub(crate) fn next_fpdu(&mut self, fpdu_len: u32) -> FpduMarkers {
        let it = FpduMarkers {
            next: Saturating(self.until),
            end: fpdu_len,
            inserted: Saturating(0),
        };
        // A marker that is due right at the end belongs to the next FPDU.
        self.until = match fpdu_len.checked_sub(self.until) {
            None | Some(0) => self.until.abs_diff(fpdu_len),
            Some(past) => match past % GAP {
                0 => 0,
                n => GAP.abs_diff(n),
            },
        };
        it
    }

    /// Returns how many octets the markers add to the next FPDU, if it has `fpdu_len` without them.
    pub(crate) fn overhead(&self, fpdu_len: u32) -> u32 {
        match fpdu_len.checked_sub(self.until) {
            None | Some(0) => 0,
            Some(past) => past.div_ceil(GAP).saturating_mul(4),
        }
    }
}

/// The markers of one FPDU, in ascending order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FpduMarkers {
    next: Saturating<u32>,
    end: u32,
    /// Octets of markers inserted behind the length field so far.
    inserted: Saturating<u16>,
}

impl Iterator for FpduMarkers {
    type Item = Marker;

    fn next(&mut self) -> Option<Marker> {
        let at = self.next.0;
        if at >= self.end {
            return None;
        }
        self.next += GAP;
        // FPDUPTR counts octets of the stream, earlier markers of this FPDU included.
        let ptr = match u16::try_from(at) {
            Ok(at) => (self.inserted + Saturating(at)).0,
            Err(_) => u16::MAX,
        };
        if at > 0 {
            self.inserted += 4;
        }
        let [hi, lo] = ptr.to_be_bytes();
        Some(Marker {
            at,
            bytes: [0, 0, hi, lo],
        })
    }
}
