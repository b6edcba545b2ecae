// SPDX-License-Identifier: GPL-2.0

//! Markers in the sent stream (RFC 5044 sections 4.2 to 4.4), for peers that ask for them. This
//! side never asks, so there is no receiving half. Any context, under the lock of the sender.
//!
//! A marker stands at every 512th octet of the stream, counted from the first FPDU and with the
//! markers themselves; the stream begins with one. FPDUs and markers are multiples of four octets,
//! so that a marker never cuts a 32-bit word.
#![forbid(unsafe_code)]

use core::num::Saturating;

pub(crate) const MARKER_LEN: usize = 4;
/// Octets of FPDU between two markers.
const GAP: u32 = 508;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Octets of the FPDU in front of it, from the length field on, without markers. The CRC covers
    /// it in every place, also in front of the length field (T-26, M-MPA-17).
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
