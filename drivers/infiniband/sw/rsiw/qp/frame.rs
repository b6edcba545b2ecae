// SPDX-License-Identifier: GPL-2.0

//! Putting one FPDU into a batch: pieces in stream order, with markers and CRC (RFC 5044).
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use crate::{
    ffi::{
        crc::{
            crc32c,
            crc32c_pages, //
        },
        net::TxBatch,
        page::PageSlice, //
    },
    proto::tx::{
        Frame,
        MAX_HEADER, //
    },
    wire::{
        fpdu::{
            pad_len,
            Crc,
            MAX_TRAILER, //
        },
        marker::{
            FpduMarkers,
            Marker,
            Markers,
            MARKER_LEN, //
        },
    },
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

/// What the parts of an FPDU can take in a batch at the most.
pub(super) struct Room {
    pieces: usize,
    copied: usize,
}

impl Room {
    /// For a frame whose payload lies in `elements` elements, with so many octets of markers.
    pub(super) fn of(frame: &Frame, elements: usize, overhead: u32) -> Self {
        // CAST: at most one marker in 508 octets of 65544.
        let markers = overhead as usize / MARKER_LEN;
        let pages = usize::from(frame.payload) / PAGE_SIZE;
        Self {
            // Each element adds a begun page at both ends, each marker splits what it falls into.
            pieces: pages
                .saturating_add(elements.saturating_mul(2))
                .saturating_add(markers.saturating_mul(2))
                .saturating_add(2),
            copied: MAX_HEADER
                .saturating_add(MAX_TRAILER)
                .saturating_add(markers.saturating_mul(MARKER_LEN)),
        }
    }

    /// Whether the batch has it, with `inline` more octets to be copied.
    pub(super) fn is_in<K>(&self, batch: &TxBatch<K>, inline: usize) -> bool {
        batch.pieces_left() >= self.pieces
            && batch.copy_left() >= self.copied.saturating_add(inline)
    }
}

/// Writes one FPDU into a batch that has room for it.
pub(super) struct Writer<'a, K> {
    batch: &'a mut TxBatch<K>,
    crc: Option<Crc>,
    markers: Option<FpduMarkers>,
    next: Option<Marker>,
    /// Octets of the FPDU so far, without markers.
    pos: u32,
}

impl<'a, K> Writer<'a, K> {
    /// Begins the FPDU of `frame`.
    pub(super) fn new(
        batch: &'a mut TxBatch<K>,
        frame: &Frame,
        crc: bool,
        markers: Option<&mut Markers>,
    ) -> Self {
        // CAST: at most 65544.
        let mut markers = markers.map(|m| m.next_fpdu(frame.fpdu_len as u32));
        Self {
            batch,
            crc: crc.then(Crc::new),
            next: markers.as_mut().and_then(Iterator::next),
            markers,
            pos: 0,
        }
    }

    /// Octets until the next marker is due, if that is before `len` octets from here.
    fn until_marker(&self, len: u32) -> Option<u32> {
        let marker = self.next.as_ref()?;
        marker.at.checked_sub(self.pos).filter(|n| *n < len)
    }

    fn put(&mut self, bytes: &[u8]) -> Result {
        if let Some(crc) = &mut self.crc {
            *crc = crc.update(crc32c, bytes);
        }
        self.batch.push_bytes(bytes)
    }

    fn put_marker(&mut self) -> Result {
        if let Some(marker) = self.next.take() {
            self.put(&marker.bytes)?;
            self.next = self.markers.as_mut().and_then(Iterator::next);
        }
        Ok(())
    }

    /// Adds a copy of `bytes`.
    pub(super) fn bytes(&mut self, mut bytes: &[u8]) -> Result {
        // CAST: the parts of an FPDU are far below 4 GiB.
        while let Some(n) = self.until_marker(bytes.len() as u32) {
            let (front, rest) = bytes.split_at_checked(n as usize).ok_or(EINVAL)?;
            self.put(front)?;
            self.put_marker()?;
            self.pos = self.pos.saturating_add(n);
            bytes = rest;
        }
        self.put(bytes)?;
        self.pos = self.pos.saturating_add(bytes.len() as u32);
        Ok(())
    }

    /// Adds a stretch of pages, which the batch or its sender keeps.
    pub(super) fn pages(&mut self, mut pages: PageSlice<'_>) -> Result {
        while let Some(n) = self.until_marker(pages.len()) {
            let front = pages.sub(0, n).ok_or(EINVAL)?;
            pages = pages.sub(n, pages.len().saturating_sub(n)).ok_or(EINVAL)?;
            self.put_pages(&front)?;
            self.put_marker()?;
        }
        self.put_pages(&pages)
    }

    fn put_pages(&mut self, pages: &PageSlice<'_>) -> Result {
        if let Some(crc) = &mut self.crc {
            *crc = Crc(crc32c_pages(crc.0, pages));
        }
        self.pos = self.pos.saturating_add(pages.len());
        self.batch.push_page(pages)
    }

    /// Ends the FPDU with pad and CRC field.
    pub(super) fn finish(mut self, ulpdu_len: u16) -> Result {
        let zeros = [0; 3];
        self.bytes(zeros.get(..pad_len(ulpdu_len)).unwrap_or(&[]))?;
        // A marker right in front of the CRC field belongs to this FPDU and its CRC.
        if self.until_marker(1).is_some() {
            self.put_marker()?;
        }
        let field = self.crc.take().map_or([0; 4], |crc| crc.to_wire());
        self.batch.push_bytes(&field)
    }
}
