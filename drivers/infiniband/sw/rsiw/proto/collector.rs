// SPDX-License-Identifier: GPL-2.0

//! Gathers one MPA Request or Reply frame from octets that come in any cut, and says why set-up
//! fails (RFC 5044 sections 7.1 and 8). Context as in `proto::setup`.
#![forbid(unsafe_code)]

use crate::wire::mpa::{
    Enhanced,
    FrameError,
    Header,
    ENHANCED_LEN,
    HEADER_LEN,
    MAX_FRAME, //
};
use crate::wire::terminate::TermError;
use core::num::Saturating;

/// Why set-up failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// TCP ended before the frame was complete: `-ECONNRESET`.
    Closed,
    /// Neither key of MPA: `-EPROTO`, as all that follow.
    Key,
    /// A Request where a Reply was due, or the other way round.
    Crossed,
    Rdmac,
    /// A revision that this side does not have.
    Revision,
    /// Private data longer than allowed, or too short for the enhanced words.
    PrivateData,
    /// The Reply is not enhanced, although peer-to-peer mode needs it.
    NotEnhanced,
    /// The responder wants more Reads outstanding than this device can take.
    InsufficientIrd,
    NoCommonRtr,
}

/// Set-up failed: send the Terminate, if any, then close TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetupFailure {
    pub(crate) reason: Reason,
    /// Only where the RFC wants one: from an initiator, after an enhanced Reply.
    pub(crate) terminate: Option<TermError>,
}

impl From<Reason> for SetupFailure {
    fn from(reason: Reason) -> Self {
        SetupFailure {
            reason,
            terminate: None,
        }
    }
}

impl From<FrameError> for SetupFailure {
    fn from(e: FrameError) -> Self {
        match e {
            FrameError::Key => Reason::Key.into(),
            FrameError::PrivateDataLength => Reason::PrivateData.into(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Collector {
    buf: [u8; MAX_FRAME],
    have: Saturating<usize>,
    header: Option<Header>,
    /// The frame is complete or wrong, or will not come any more.
    over: bool,
}

impl Collector {
    pub(super) const fn new() -> Self {
        Collector {
            buf: [0; MAX_FRAME],
            have: Saturating(0),
            header: None,
            over: false,
        }
    }

    /// Returns the octets of the frame, as far as they are known.
    fn frame_len(&self) -> usize {
        self.header.map_or(HEADER_LEN, |h| {
            HEADER_LEN.saturating_add(usize::from(h.pd_len))
        })
    }

    fn missing(&self) -> usize {
        (Saturating(self.frame_len()) - self.have).0
    }

    /// Returns how many octets to read next, 0 once the frame is over. Reading no more than that
    /// leaves what follows the frame to the data path.
    pub(super) fn wanted(&self) -> usize {
        if self.over {
            0
        } else {
            self.missing()
        }
    }

    /// Ends the frame: nothing more comes. Returns whether it was not over yet.
    pub(super) fn end(&mut self) -> bool {
        !core::mem::replace(&mut self.over, true)
    }

    /// Takes what it needs of `bytes`. Returns how much that was and, once, the header of the
    /// complete frame or what is wrong with it.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> (usize, Option<Result<Header, SetupFailure>>) {
        if self.over {
            return (0, None);
        }
        let (taken, result) = self.gather(bytes);
        let result = result.map_err(SetupFailure::from).transpose();
        self.over = result.is_some();
        (taken, result)
    }

    fn gather(&mut self, bytes: &[u8]) -> (usize, Result<Option<Header>, FrameError>) {
        let mut taken = Saturating(0);
        loop {
            let end = self.frame_len();
            let to = self.buf.get_mut(self.have.0..end).unwrap_or(&mut []);
            let from = bytes.get(taken.0..).unwrap_or(&[]);
            for (to, from) in to.iter_mut().zip(from) {
                *to = *from;
                taken += 1;
                self.have += 1;
            }
            if self.missing() > 0 {
                return (taken.0, Ok(None));
            }
            if let Some(header) = self.header {
                return (taken.0, Ok(Some(header)));
            }
            let Some(bytes) = self.buf.first_chunk::<HEADER_LEN>() else {
                return (taken.0, Err(FrameError::PrivateDataLength));
            };
            match Header::parse(bytes) {
                Ok(header) => self.header = Some(header),
                Err(e) => return (taken.0, Err(e)),
            }
        }
    }

    /// Returns whether the frame asks for markers, once its header is there.
    pub(super) fn wants_markers(&self) -> bool {
        self.header.is_some_and(|header| header.markers)
    }

    /// Returns the enhanced words, if the frame has them. Fails if it is too short (T-9, X-ENH-4).
    pub(super) fn enhanced(&self, header: &Header) -> Result<Option<Enhanced>, SetupFailure> {
        if !header.enhanced {
            return Ok(None);
        }
        if usize::from(header.pd_len) < ENHANCED_LEN {
            return Err(Reason::PrivateData.into());
        }
        match self
            .buf
            .get(HEADER_LEN..)
            .and_then(|pd| pd.first_chunk::<ENHANCED_LEN>())
        {
            Some(words) => Ok(Some(Enhanced::parse(*words))),
            None => Err(Reason::PrivateData.into()),
        }
    }

    /// Returns the consumer's private data, without the enhanced words.
    pub(super) fn private_data(&self) -> &[u8] {
        let Some(header) = self.header else {
            return &[];
        };
        let begin = match header.enhanced {
            true => HEADER_LEN + ENHANCED_LEN,
            false => HEADER_LEN,
        };
        let end = self.frame_len().min(self.have.0);
        self.buf.get(begin..end).unwrap_or(&[])
    }
}
