// SPDX-License-Identifier: GPL-2.0

//! Putting one FPDU into a batch: pieces in stream order, with markers and CRC (RFC 5044 section
//! 4).
//!
//! Mostly there is room for all of it in one piece, and no marker: header, payload and trailer are
//! written there one behind the other. Otherwise the batch takes piece by piece.
//!
//! The CRC is that of the octets in the batch: it is right whoever writes the sources meanwhile.
//!
//! Under the lock of the sender.
#![forbid(unsafe_code)]

use super::link::{
    Broken,
    Link,
    Piece, //
};
use super::tx::{
    Frame,
    MAX_HEADER, //
};
use crate::wire::fpdu::{
    pad_len,
    Crc,
    CRC_LEN,
    LEN_FIELD, //
};
use crate::wire::marker::{
    FpduMarkers,
    Marker,
    Markers, //
};

/// Octets of padding, at most.
const MAX_PAD: usize = 3;

/// Writes the octets of one FPDU in front of its trailer.
pub(crate) enum Writer<'a, L: Link> {
    /// To memory in one piece.
    Flat(Flat<'a>),
    /// To a batch.
    Pieces(Pieces<'a, L>),
}

impl<'a, L: Link> Writer<'a, L> {
    /// Begins the FPDU of `frame`, without markers, in room for just that.
    #[inline]
    pub(super) fn flat(room: &'a mut [u8], frame: &Frame, crc: bool) -> Self {
        Self::Flat(Flat {
            room,
            pos: 0,
            ulpdu_len: frame.ulpdu_len,
            crc,
        })
    }

    /// Begins the FPDU of `frame` behind what is in the batch.
    ///
    /// # Errors
    ///
    /// There can be no such FPDU.
    pub(super) fn pieces(
        link: &'a mut L,
        frame: &Frame,
        crc: bool,
        markers: Option<&mut Markers>,
    ) -> Result<Self, Broken> {
        Pieces::new(link, frame, crc, markers).map(Self::Pieces)
    }

    /// Ends the FPDU with pad and CRC field.
    ///
    /// # Errors
    ///
    /// It has not as many octets as its header says, or those of the batch.
    #[inline]
    pub(super) fn finish(self) -> Result<(), Broken> {
        match self {
            Self::Flat(flat) => flat.finish(L::crc32c),
            Self::Pieces(pieces) => pieces.finish(),
        }
    }

    /// Has `write` write the `len` octets of the header.
    ///
    /// # Errors
    ///
    /// They do not fit into the FPDU, or the batch, or are not as many.
    #[inline]
    pub(super) fn header(
        &mut self,
        len: usize,
        write: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<(), Broken> {
        let mut buf = [0; MAX_HEADER];
        let out = match self {
            Self::Flat(flat) => flat.next(len)?,
            Self::Pieces(_) => buf.get_mut(..len).ok_or(Broken)?,
        };
        if !write(out) {
            return Err(Broken);
        }
        match self {
            Self::Flat(_) => Ok(()),
            Self::Pieces(pieces) => pieces.put(buf.get(..len).ok_or(Broken)?),
        }
    }

    /// Adds a copy of `piece`.
    ///
    /// # Errors
    ///
    /// It does not fit into the FPDU, or the batch.
    #[inline]
    pub(crate) fn put<P: Piece<L>>(&mut self, piece: P) -> Result<(), Broken> {
        match self {
            Self::Flat(flat) => {
                let len = usize::try_from(piece.len()).map_err(|_| Broken)?;
                piece.copy_to(flat.next(len)?)
            }
            Self::Pieces(pieces) => pieces.put(piece),
        }
    }
}

/// Room for one FPDU in one piece.
pub(crate) struct Flat<'a> {
    room: &'a mut [u8],
    /// Octets written.
    pos: usize,
    /// The ULPDU_Length that its header has.
    ulpdu_len: u16,
    crc: bool,
}

impl Flat<'_> {
    /// The place of the next `len` octets, which are to be written.
    #[inline]
    fn next(&mut self, len: usize) -> Result<&mut [u8], Broken> {
        let end = self.pos.checked_add(len).ok_or(Broken)?;
        let out = self.room.get_mut(self.pos..end).ok_or(Broken)?;
        self.pos = end;
        Ok(out)
    }

    #[inline]
    fn finish(self, crc32c: impl Fn(u32, &[u8]) -> u32) -> Result<(), Broken> {
        let trailer = self.room.get_mut(self.pos..).ok_or(Broken)?;
        let len = pad_len(self.ulpdu_len).wrapping_add(CRC_LEN);
        let front = usize::from(self.ulpdu_len).wrapping_add(LEN_FIELD);
        if self.pos != front || trailer.len() != len {
            return Err(Broken);
        }
        trailer.fill(0);
        if !self.crc {
            return Ok(());
        }
        let (covered, field) = self.room.split_last_chunk_mut::<CRC_LEN>().ok_or(Broken)?;
        *field = Crc::new().update(crc32c, covered).to_wire();
        Ok(())
    }
}

/// Adds one FPDU to a batch that has room for it.
pub(crate) struct Pieces<'a, L: Link> {
    link: &'a mut L,
    /// Where the FPDU begins, if it is to have a CRC.
    crc_from: Option<L::Mark>,
    markers: Option<FpduMarkers>,
    next: Option<Marker>,
    /// Octets of the FPDU so far, without markers.
    pos: u32,
    /// The ULPDU_Length that its header has.
    ulpdu_len: u16,
}

impl<'a, L: Link> Pieces<'a, L> {
    fn new(
        link: &'a mut L,
        frame: &Frame,
        crc: bool,
        markers: Option<&mut Markers>,
    ) -> Result<Self, Broken> {
        let len = u32::try_from(frame.fpdu_len).map_err(|_| Broken)?;
        let mut markers = markers.map(|m| m.next_fpdu(len));
        Ok(Self {
            crc_from: crc.then(|| link.mark()),
            link,
            next: markers.as_mut().and_then(Iterator::next),
            markers,
            pos: 0,
            ulpdu_len: frame.ulpdu_len,
        })
    }

    /// Octets until the next marker is due, if that is before `len` octets from here.
    fn until_marker(&self, len: u32) -> Option<u32> {
        let marker = self.next.as_ref()?;
        marker.at.checked_sub(self.pos).filter(|n| *n < len)
    }

    fn put_marker(&mut self) -> Result<(), Broken> {
        if let Some(marker) = self.next.take() {
            self.link.put(&marker.bytes)?;
            self.next = self.markers.as_mut().and_then(Iterator::next);
        }
        Ok(())
    }

    fn put<P: Piece<L>>(&mut self, mut piece: P) -> Result<(), Broken> {
        while let Some(n) = self.until_marker(piece.len()) {
            let front = piece.sub(0, n).ok_or(Broken)?;
            let rest = piece.len().checked_sub(n).ok_or(Broken)?;
            piece = piece.sub(n, rest).ok_or(Broken)?;
            self.put_whole(&front)?;
            self.put_marker()?;
        }
        self.put_whole(&piece)
    }

    fn put_whole<P: Piece<L>>(&mut self, piece: &P) -> Result<(), Broken> {
        self.pos = self.pos.checked_add(piece.len()).ok_or(Broken)?;
        piece.put(self.link)
    }

    fn finish(mut self) -> Result<(), Broken> {
        let len = usize::from(self.ulpdu_len).checked_add(LEN_FIELD);
        if len.and_then(|len| u32::try_from(len).ok()) != Some(self.pos) {
            return Err(Broken);
        }
        let zeros: &[u8] = &[0; MAX_PAD];
        self.put(zeros.get(..pad_len(self.ulpdu_len)).ok_or(Broken)?)?;
        // A marker right in front of the CRC field belongs to this FPDU and its CRC.
        if self.until_marker(1).is_some() {
            self.put_marker()?;
        }
        let field = match self.crc_from {
            Some(from) => self.link.crc_since(from)?.to_wire(),
            None => [0; CRC_LEN],
        };
        self.link.put(&field)
    }
}
