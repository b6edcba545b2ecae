// SPDX-License-Identifier: GPL-2.0

//! Finds FPDUs in the received stream, however it is cut (RFC 5044 sections 4.1 and 5.2).
//!
//! The stream comes in chunks. An FPDU that lies whole in a chunk is used where it is; otherwise
//! its octets are gathered in a staging buffer of the driver's. Softirq, under the receive lock.
#![forbid(unsafe_code)]

use crate::wire::ddp;
use crate::wire::fpdu::{
    self,
    LEN_FIELD, //
};
use crate::wire::terminate::TermError;
use crate::wire::Short;

/// The unread rest of a chunk of the stream.
pub(crate) trait ByteSource {
    /// Octets left.
    fn len(&self) -> usize;

    /// Copies `out.len()` octets from `offset` on, without consuming them.
    ///
    /// # Errors
    ///
    /// [`Short`] if there are not that many.
    fn copy_to(&self, offset: usize, out: &mut [u8]) -> Result<(), Short>;
}

impl ByteSource for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn copy_to(&self, offset: usize, out: &mut [u8]) -> Result<(), Short> {
        let rest = self.get(offset..).ok_or(Short)?;
        let from = rest.get(..out.len()).ok_or(Short)?;
        out.copy_from_slice(from);
        Ok(())
    }
}

/// Where a complete FPDU lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the front of the chunk; consume [`Fpdu::len`] octets of it afterwards.
    Chunk,
    /// At the front of the staging buffer; nothing of the chunk is consumed.
    Staging,
}

/// A complete FPDU, not yet checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fpdu {
    /// Where it is.
    pub(crate) place: Place,
    /// Its ULPDU_Length. The ULPDU begins 2 octets into the FPDU.
    pub(crate) ulpdu_len: u16,
    /// Octets of all of it: length field, ULPDU, pad and CRC.
    pub(crate) len: usize,
}

impl Fpdu {
    /// Octets that the CRC covers, from the front of the FPDU; the CRC field follows.
    pub(crate) const fn crc_covers(&self) -> usize {
        self.len.saturating_sub(fpdu::CRC_LEN)
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The chunk is used up.
    NeedMore,
    /// Copy the next `n` octets of the chunk to `at` in the staging buffer and consume them.
    Stage {
        /// Offset in the staging buffer.
        at: usize,
        /// Octets to copy, at least one.
        n: usize,
    },
    /// Use this FPDU.
    Fpdu(Fpdu),
}

/// State between chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deframer {
    /// Octets in the staging buffer.
    have: usize,
    /// The first of them.
    head: [u8; LEN_FIELD],
}

impl Deframer {
    /// Nothing received yet.
    pub(crate) const fn new() -> Self {
        Deframer {
            have: 0,
            head: [0; LEN_FIELD],
        }
    }

    /// Octets of an incomplete FPDU that wait in the staging buffer.
    ///
    /// Not zero when the peer's FIN arrives: the stream was cut.
    pub(crate) const fn staged(&self) -> usize {
        self.have
    }

    /// Returns the FPDU that begins with `front`, if none is under way and the `left` octets that
    /// are left of the chunk have all of it. This is the short way to the most frequent answer of
    /// [`Deframer::next`].
    #[inline]
    pub(crate) fn whole(&self, front: [u8; LEN_FIELD], left: usize) -> Option<Fpdu> {
        let ulpdu_len = u16::from_be_bytes(front);
        let len = fpdu::fpdu_len(ulpdu_len);
        let is_whole = self.have == 0 && usize::from(ulpdu_len) >= ddp::TAGGED_LEN && len <= left;
        is_whole.then_some(Fpdu {
            place: Place::Chunk,
            ulpdu_len,
            len,
        })
    }

    /// Tells what to do with `src`, the rest of the chunk. The caller does that and calls again
    /// until it gets [`Step::NeedMore`].
    ///
    /// The staging buffer needs [`fpdu::MAX_FPDU`] octets and must not change in between. The
    /// CRC of an FPDU is to be verified before anything else is made of it (T-8).
    ///
    /// # Errors
    ///
    /// An FPDU too short for any DDP header. The stream is of no use after that.
    pub(crate) fn next(&mut self, src: &impl ByteSource) -> Result<Step, TermError> {
        let left = src.len();
        let Some(total) = self.total(src, left)? else {
            // Not even the length field is complete.
            return self.stage(src, left);
        };
        if self.have == 0 {
            if left >= total.len {
                return Ok(Step::Fpdu(total));
            }
            return self.stage(src, left);
        }
        match total.len.checked_sub(self.have) {
            Some(missing) if missing > 0 => self.stage(src, left.min(missing)),
            _ => {
                self.have = 0;
                Ok(Step::Fpdu(Fpdu {
                    place: Place::Staging,
                    ..total
                }))
            }
        }
    }

    /// The FPDU in progress, as far as its length is known from staging and chunk together.
    fn total(&self, src: &impl ByteSource, left: usize) -> Result<Option<Fpdu>, TermError> {
        let mut head = self.head;
        let missing = head.get_mut(self.have..).unwrap_or(&mut []);
        if missing.len() > left {
            return Ok(None);
        }
        src.copy_to(0, missing)
            .map_err(|_| TermError::CatastrophicStream)?;
        let ulpdu_len = u16::from_be_bytes(head);
        if usize::from(ulpdu_len) < ddp::TAGGED_LEN {
            return Err(TermError::MpaFpdu);
        }
        Ok(Some(Fpdu {
            place: Place::Chunk,
            ulpdu_len,
            len: fpdu::fpdu_len(ulpdu_len),
        }))
    }

    fn stage(&mut self, src: &impl ByteSource, n: usize) -> Result<Step, TermError> {
        if n == 0 {
            return Ok(Step::NeedMore);
        }
        let at = self.have;
        let head = self.head.get_mut(at..).unwrap_or(&mut []);
        let head = match head.len() {
            have if have > n => head.get_mut(..n).unwrap_or(&mut []),
            _ => head,
        };
        src.copy_to(0, head)
            .map_err(|_| TermError::CatastrophicStream)?;
        self.have = at.saturating_add(n);
        Ok(Step::Stage { at, n })
    }
}
