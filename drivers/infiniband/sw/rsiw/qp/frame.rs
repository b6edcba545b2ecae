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
            Crc,
            LEN_FIELD, //
        },
        marker::{
            FpduMarkers,
            Marker,
            Markers, //
        },
    },
};
use kernel::{
    num::casts::u32_as_usize,
    prelude::*, //
};

/// Writes one FPDU into a batch that has room for it.
pub(super) struct Writer<'a> {
    batch: &'a mut TxBatch,
    /// Where the FPDU begins, if it is to have a CRC.
    crc_from: Option<Mark>,
    markers: Option<FpduMarkers>,
    next: Option<Marker>,
    /// Octets of the FPDU so far, without markers.
    pos: u32,
    /// The ULPDU_Length that it will have had to have.
    ulpdu_len: u16,
}

impl<'a> Writer<'a> {
    /// Begins the FPDU of `frame`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there can be no such FPDU.
    pub(super) fn new(
        batch: &'a mut TxBatch,
        frame: &Frame,
        crc: bool,
        markers: Option<&mut Markers>,
    ) -> Result<Self> {
        let len = u32::try_from(frame.fpdu_len)?;
        let mut markers = markers.map(|m| m.next_fpdu(len));
        Ok(Self {
            crc_from: crc.then(|| batch.mark()),
            batch,
            next: markers.as_mut().and_then(Iterator::next),
            markers,
            pos: 0,
            ulpdu_len: frame.ulpdu_len,
        })
    }

    /// Counts octets of the FPDU.
    fn count(&mut self, n: u32) -> Result {
        self.pos = self.pos.checked_add(n).ok_or(EINVAL)?;
        Ok(())
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
        while let Some(n) = self.until_marker(u32::try_from(bytes.len())?) {
            let (front, rest) = bytes.split_at_checked(u32_as_usize(n)).ok_or(EINVAL)?;
            self.batch.push_bytes(front)?;
            self.put_marker()?;
            self.count(n)?;
            bytes = rest;
        }
        self.batch.push_bytes(bytes)?;
        self.count(u32::try_from(bytes.len())?)
    }

    /// Adds a copy of a stretch of pages.
    pub(super) fn pages(&mut self, mut pages: PageSlice<'_>) -> Result {
        while let Some(n) = self.until_marker(pages.len()) {
            let front = pages.sub(0, n).ok_or(EINVAL)?;
            let rest = pages.len().checked_sub(n).ok_or(EINVAL)?;
            pages = pages.sub(n, rest).ok_or(EINVAL)?;
            self.put_pages(&front)?;
            self.put_marker()?;
        }
        self.put_pages(&pages)
    }

    fn put_pages(&mut self, pages: &PageSlice<'_>) -> Result {
        self.count(pages.len())?;
        self.batch.push_pages(pages)
    }

    /// Ends the FPDU with pad and CRC field.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has not as many octets as its header says.
    pub(super) fn finish(mut self) -> Result {
        let len = usize::from(self.ulpdu_len).checked_add(LEN_FIELD);
        if len != Some(u32_as_usize(self.pos)) {
            return Err(EINVAL);
        }
        let zeros = [0; 3];
        let pad = zeros.get(..pad_len(self.ulpdu_len));
        self.bytes(pad.ok_or(EINVAL)?)?;
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
