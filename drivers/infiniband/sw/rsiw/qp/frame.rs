// SPDX-License-Identifier: GPL-2.0

//! Putting one FPDU into a batch: pieces in stream order, with markers and CRC (RFC 5044).
//!
//! The CRC is that of the octets in the batch: it is right whoever writes the sources meanwhile.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use crate::{
    ffi::{
        crc::crc32c,
        net::{
            Mark,
            TxBatch, //
        },
        page::PageSlice, //
    },
    proto::tx::Frame,
    wire::{
        fpdu::{
            pad_len,
            Crc, //
        },
        marker::{
            FpduMarkers,
            Marker,
            Markers, //
        },
    },
};
use kernel::prelude::*;

/// Writes one FPDU into a batch that has room for it.
pub(super) struct Writer<'a> {
    batch: &'a mut TxBatch,
    /// Where the FPDU begins, if it is to have a CRC.
    crc_from: Option<Mark>,
    markers: Option<FpduMarkers>,
    next: Option<Marker>,
    /// Octets of the FPDU so far, without markers.
    pos: u32,
}

impl<'a> Writer<'a> {
    /// Begins the FPDU of `frame`.
    pub(super) fn new(
        batch: &'a mut TxBatch,
        frame: &Frame,
        crc: bool,
        markers: Option<&mut Markers>,
    ) -> Self {
        // CAST: at most 65544.
        let mut markers = markers.map(|m| m.next_fpdu(frame.fpdu_len as u32));
        Self {
            crc_from: crc.then(|| batch.mark()),
            batch,
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

    fn put_marker(&mut self) -> Result {
        if let Some(marker) = self.next.take() {
            self.batch.push_bytes(&marker.bytes)?;
            self.next = self.markers.as_mut().and_then(Iterator::next);
        }
        Ok(())
    }

    /// Adds a copy of `bytes`.
    pub(super) fn bytes(&mut self, mut bytes: &[u8]) -> Result {
        // CAST: the parts of an FPDU are far below 4 GiB.
        while let Some(n) = self.until_marker(bytes.len() as u32) {
            let (front, rest) = bytes.split_at_checked(n as usize).ok_or(EINVAL)?;
            self.batch.push_bytes(front)?;
            self.put_marker()?;
            self.pos = self.pos.saturating_add(n);
            bytes = rest;
        }
        self.batch.push_bytes(bytes)?;
        self.pos = self.pos.saturating_add(bytes.len() as u32);
        Ok(())
    }

    /// Adds a copy of a stretch of pages.
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
        self.pos = self.pos.saturating_add(pages.len());
        self.batch.push_pages(pages)
    }

    /// Ends the FPDU with pad and CRC field.
    pub(super) fn finish(mut self, ulpdu_len: u16) -> Result {
        let zeros = [0; 3];
        self.bytes(zeros.get(..pad_len(ulpdu_len)).unwrap_or(&[]))?;
        // A marker right in front of the CRC field belongs to this FPDU and its CRC.
        if self.until_marker(1).is_some() {
            self.put_marker()?;
        }
        let field = match self.crc_from {
            Some(from) => {
                let octets = self.batch.since(from)?;
                let crc = octets.fold(Crc::new(), |crc, octets| crc.update(crc32c, octets));
                crc.to_wire()
            }
            None => [0; 4],
        };
        self.batch.push_bytes(&field)
    }
}
