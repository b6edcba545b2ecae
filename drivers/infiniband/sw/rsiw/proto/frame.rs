// SPDX-License-Identifier: GPL-2.0

//! Putting FPDUs into a batch: pieces in stream order, with markers and CRC (RFC 5044 section 4).
//! Under the lock of the sender.
//!
//! Mostly there are no markers, and there is room in one piece for an FPDU, or for several that
//! differ in their offset only. Then header, payload and trailer are written there one behind the
//! other. Otherwise the batch takes one piece after the other. The CRC is that of the octets in the
//! batch, so it is right even if somebody writes to the sources meanwhile.
#![forbid(unsafe_code)]

use super::message::{
    advance_front,
    Frame,
    Message, //
};
use super::transport::{
    Piece,
    Transport, //
};
use crate::num::{
    Broken,
    Length, //
};
use crate::wire::fpdu::{
    pad_len,
    Crc,
    FpduMarkers,
    Marker,
    Markers,
    CRC_LEN,
    LEN_FIELD, //
};

const MAX_PAD: usize = 3;

/// Writes the octets of FPDUs in front of their trailers.
pub(crate) enum Writer<'a, T: Transport> {
    /// To memory in one piece.
    Flat(Flat<'a>),
    /// To a batch, piece by piece.
    Pieces(Pieces<'a, T>),
}

impl<'a, T: Transport> Writer<'a, T> {
    /// Begins the FPDU of `frame` with its header, without markers. `room` is as long as this FPDU,
    /// or as this FPDU and equally long ones that follow in `message`. Fails if `room` is too
    /// short, or if lengths in `frame` contradict one another.
    #[inline]
    pub(super) fn flat(
        room: &'a mut [u8],
        message: &Message,
        frame: &Frame,
        crc: bool,
    ) -> Result<Self, Broken> {
        Flat::new(room, message, frame, crc).map(Self::Flat)
    }

    /// Begins the FPDU of `frame` with its header, behind what is in the batch. Fails if there can
    /// be no such FPDU, or there is no room for it.
    pub(super) fn pieces(
        transport: &'a mut T,
        header: &[u8],
        frame: &Frame,
        crc: bool,
        markers: Option<&mut Markers>,
    ) -> Result<Self, Broken> {
        let mut pieces = Pieces::new(transport, frame, crc, markers)?;
        pieces.put(header)?;
        Ok(Self::Pieces(pieces))
    }

    /// Ends the last FPDU with pad and CRC. Fails if the batch does, or if octets are missing.
    #[inline]
    pub(super) fn finish(self) -> Result<(), Broken> {
        match self {
            Self::Flat(flat) => flat.finish::<T>(),
            Self::Pieces(pieces) => pieces.finish(),
        }
    }

    /// Adds a copy of `piece`. Fails if it does not fit into the FPDUs, or the batch.
    #[inline]
    pub(crate) fn put<P: Piece<T>>(&mut self, piece: P) -> Result<(), Broken> {
        match self {
            Self::Flat(flat) => flat.put(piece),
            Self::Pieces(pieces) => pieces.put(piece),
        }
    }
}

/// Room in one piece for FPDUs that are as long as the first.
pub(crate) struct Flat<'a> {
    fpdu: &'a mut [u8],
    /// Room for the FPDUs behind `fpdu`.
    behind: &'a mut [u8],
    pos: usize,
    /// Octets of payload that are still missing in the FPDU.
    left: u32,
    /// Octets of payload of each FPDU.
    payload: u16,
    crc: bool,
}

impl<'a> Flat<'a> {
    #[inline]
    fn new(
        room: &'a mut [u8],
        message: &Message,
        frame: &Frame,
        crc: bool,
    ) -> Result<Self, Broken> {
        let (fpdu, behind) = room.split_at_mut_checked(frame.fpdu_len).ok_or(Broken)?;
        let header = fpdu.get_mut(..frame.header_len).ok_or(Broken)?;
        if !message.put_header(frame, header) {
            return Err(Broken);
        }
        // What is left behind the payload is pad and CRC field.
        let rest = pad_len(frame.ulpdu_len).try_add(CRC_LEN)?;
        if fpdu.len().try_sub(rest)? != frame.header_len.try_add(frame.payload)? {
            return Err(Broken);
        }
        Ok(Self {
            fpdu,
            behind,
            pos: frame.header_len,
            left: frame.payload.into(),
            payload: frame.payload,
            crc,
        })
    }

    /// Ends an FPDU and begins the one behind it.
    #[inline]
    fn next<T: Transport>(&mut self) -> Result<(), Broken> {
        self.trailer::<T>()?;
        let behind = core::mem::take(&mut self.behind);
        let (fpdu, behind) = behind.split_at_mut_checked(self.fpdu.len()).ok_or(Broken)?;
        let front = fpdu.first_chunk_mut().ok_or(Broken)?;
        *front = *self.fpdu.first_chunk().ok_or(Broken)?;
        advance_front(front, self.payload);
        self.pos = self.pos.try_sub(self.payload)?;
        self.left = self.payload.into();
        self.fpdu = fpdu;
        self.behind = behind;
        Ok(())
    }

    #[inline]
    fn put<T: Transport, P: Piece<T>>(&mut self, mut piece: P) -> Result<(), Broken> {
        while piece.len() > self.left {
            let front = piece.take_front(self.left);
            self.copy(&front)?;
            self.next::<T>()?;
        }
        self.copy(&piece)
    }

    /// Writes all of `piece`, which belongs to this FPDU.
    #[inline]
    fn copy<T: Transport, P: Piece<T>>(&mut self, piece: &P) -> Result<(), Broken> {
        let len = piece.len();
        self.left = self.left.try_sub(len)?;
        let end = self.pos.try_add(len)?;
        piece.copy_to(self.fpdu.get_mut(self.pos..end).ok_or(Broken)?)?;
        self.pos = end;
        Ok(())
    }

    #[inline]
    fn trailer<T: Transport>(&mut self) -> Result<(), Broken> {
        if self.left != 0 {
            return Err(Broken);
        }
        let (covered, field) = self.fpdu.split_last_chunk_mut::<CRC_LEN>().ok_or(Broken)?;
        covered.get_mut(self.pos..).ok_or(Broken)?.fill(0);
        *field = match self.crc {
            true => Crc::new().update(T::crc32c, covered).to_wire(),
            false => [0; CRC_LEN],
        };
        Ok(())
    }

    #[inline]
    fn finish<T: Transport>(mut self) -> Result<(), Broken> {
        self.trailer::<T>()?;
        if !self.behind.is_empty() {
            return Err(Broken);
        }
        Ok(())
    }
}

/// Adds one FPDU to a batch that has room for it.
pub(crate) struct Pieces<'a, T: Transport> {
    transport: &'a mut T,
    /// Where the FPDU begins, if it is to have a CRC.
    crc_from: Option<T::Mark>,
    markers: Option<FpduMarkers>,
    next: Option<Marker>,
    /// Octets of the FPDU so far, without markers.
    pos: u32,
    ulpdu_len: u16,
}

impl<'a, T: Transport> Pieces<'a, T> {
    fn new(
        transport: &'a mut T,
        frame: &Frame,
        crc: bool,
        markers: Option<&mut Markers>,
    ) -> Result<Self, Broken> {
        let len = u32::try_from(frame.fpdu_len)?;
        let mut markers = markers.map(|m| m.next_fpdu(len));
        Ok(Self {
            crc_from: crc.then(|| transport.mark()),
            transport,
            next: markers.as_mut().and_then(Iterator::next),
            markers,
            pos: 0,
            ulpdu_len: frame.ulpdu_len,
        })
    }

    /// Returns how many octets there are to the next marker, if fewer than `len`.
    fn until_marker(&self, len: u32) -> Option<u32> {
        let marker = self.next.as_ref()?;
        marker.at.checked_sub(self.pos).filter(|n| *n < len)
    }

    fn put_marker(&mut self) -> Result<(), Broken> {
        if let Some(marker) = self.next.take() {
            self.transport.put(&marker.bytes)?;
            self.next = self.markers.as_mut().and_then(Iterator::next);
        }
        Ok(())
    }

    fn put<P: Piece<T>>(&mut self, mut piece: P) -> Result<(), Broken> {
        while let Some(n) = self.until_marker(piece.len()) {
            let front = piece.take_front(n);
            self.put_whole(&front)?;
            self.put_marker()?;
        }
        self.put_whole(&piece)
    }

    fn put_whole<P: Piece<T>>(&mut self, piece: &P) -> Result<(), Broken> {
        self.pos = self.pos.try_add(piece.len())?;
        piece.put(self.transport)
    }

    fn finish(mut self) -> Result<(), Broken> {
        if self.pos.try_sub(LEN_FIELD)? != self.ulpdu_len.into() {
            return Err(Broken);
        }
        let zeros: &[u8] = &[0; MAX_PAD];
        self.put(zeros.get(..pad_len(self.ulpdu_len)).ok_or(Broken)?)?;
        // A marker that stands right in front of the CRC field is a part of this FPDU, and its CRC
        // covers it.
        if self.until_marker(1).is_some() {
            self.put_marker()?;
        }
        let field = match self.crc_from {
            Some(from) => self.transport.crc_since(from)?.to_wire(),
            None => [0; CRC_LEN],
        };
        self.transport.put(&field)
    }
}
