// SPDX-License-Identifier: GPL-2.0

//! Connection set-up, both roles (RFC 5044 sections 7 and 8, RFC 6581). A [`Collector`] gathers the
//! peer's frame from octets, however the stream is cut.
//!
//! Process context or softirq, under the lock of the endpoint. Takes bytes as they come (T-42), but
//! no octet behind the peer's frame (T-25). What is around it, which is TCP, time-outs and
//! the consumer, is in `connection`.
#![forbid(unsafe_code)]

use super::message::Rtr;
use super::negotiate::{
    self,
    Depths,
    EventDepths, //
};
use crate::wire::mpa::{
    self,
    Enhanced,
    FrameError,
    Header,
    Kind,
    RtrSet,
    ENHANCED_LEN,
    HEADER_LEN,
    MAX_FRAME, //
};
use crate::wire::terminate::TermError;
use crate::wire::Short;
use core::num::Saturating;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// Highest MPA revision, 1 or 2. An initiator uses it and, with 2, the enhanced set-up.
    pub(crate) rev: u8,
    /// Ask for CRCs (the default, T-26).
    pub(crate) crc: bool,
    /// Send FPDUs that are longer than a TCP segment to a peer that does so too.
    pub(crate) large_fpdus: bool,
    /// Initiator: ask for peer-to-peer mode; needs revision 2.
    pub(crate) peer_to_peer: bool,
    /// Ready-to-receive messages that this side can send and receive.
    pub(crate) rtr: RtrSet,
    pub(crate) cap: Depths,
}

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Params {
    pub(crate) crc: bool,
    /// Insert markers into what is sent. (This side never asks for them.)
    pub(crate) send_markers: bool,
    /// FPDUs may be longer than a TCP segment, against RFC 5044 section 5.1.
    pub(crate) large_fpdus: bool,
    pub(crate) ird: u16,
    pub(crate) ord: u16,
    /// Initiator in peer-to-peer mode: send this before anything else.
    pub(crate) send_rtr: Option<Rtr>,
    /// Responder in peer-to-peer mode: the consumer learns that the connection is established with
    /// the first segment (`segment::Segment::first`), not before.
    pub(crate) peer_to_peer: bool,
    /// Responder in peer-to-peer mode: the ready-to-receive messages that may come.
    pub(crate) expect_rtr: RtrSet,
    /// Responder: send no FPDU before one came in and had the right CRC (T-24, M-MPA-22).
    pub(crate) wait_for_fpdu: bool,
    pub(crate) event: EventDepths,
}

impl Params {
    /// Returns the parameters of a side that is connected to itself: what it sends comes back to
    /// it.
    pub(crate) fn with_itself(config: &Config) -> Self {
        Self {
            crc: config.crc,
            send_markers: false,
            large_fpdus: config.large_fpdus,
            ird: config.cap.ird,
            ord: config.cap.ord,
            send_rtr: None,
            peer_to_peer: false,
            expect_rtr: RtrSet::default(),
            wait_for_fpdu: false,
            event: EventDepths::default(),
        }
    }

    /// Returns the slots that outbound Reads need: ORD, but at least one for a ready-to-receive
    /// Read (RFC 6581 section 9.1, X-ENH-18).
    pub(crate) fn outbound_slots(&self) -> u16 {
        self.ord.max(u16::from(self.send_rtr == Some(Rtr::Read)))
    }
}

/// What came of the peer's frame. Its private data is what `private_data()` of the role returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetupEvent {
    /// Responder: tell the consumer, then accept or reject.
    Request(EventDepths),
    Established(Params),
    /// Initiator: the responder's consumer does not want the connection; TCP is still open.
    Rejected(EventDepths),
    Failed(SetupFailure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fed {
    /// Octets taken; the rest is for the data path.
    pub(crate) consumed: usize,
    pub(crate) event: Option<SetupEvent>,
}

impl Fed {
    fn new(consumed: usize, judged: Option<Result<SetupEvent, SetupFailure>>) -> Self {
        Self {
            consumed,
            event: judged.map(|event| event.unwrap_or_else(SetupEvent::Failed)),
        }
    }
}

/// The side that connects.
#[derive(Clone, Debug)]
pub(crate) struct Initiator {
    config: Config,
    want: Depths,
    /// The older set-up must not be tried.
    is_only_enhanced: bool,
    reply: Collector,
}

impl Initiator {
    /// `want` is the consumer's IRD and ORD.
    pub(crate) fn new(config: Config, want: Depths) -> Self {
        let want = want.capped(config.cap);
        Initiator {
            config,
            want,
            is_only_enhanced: false,
            reply: Collector::new(),
        }
    }

    /// Like [`Initiator::new`], but never tries the older set-up.
    pub(crate) fn only_enhanced(config: Config, want: Depths) -> Self {
        Initiator {
            is_only_enhanced: true,
            ..Self::new(config, want)
        }
    }

    fn is_enhanced(&self) -> bool {
        self.config.rev >= mpa::REV_2
    }

    /// Returns an initiator for the older set-up, unless this is one or must not try that. It may
    /// do better on another TCP connection (RFC 6581 section 10).
    pub(crate) fn older(&self) -> Option<Self> {
        let config = Config {
            rev: mpa::REV_1,
            peer_to_peer: false,
            ..self.config
        };
        let may_be_older = self.is_enhanced() && !self.is_only_enhanced;
        may_be_older.then(|| Self::new(config, self.want))
    }

    pub(crate) fn max_private_data(&self) -> usize {
        max_private_data(self.is_enhanced())
    }

    /// Writes the Request into `out` ([`mpa::MAX_FRAME`] octets are enough) and returns its length,
    /// or [`Short`] if there is too much private data.
    pub(crate) fn request(&self, private_data: &[u8], out: &mut [u8]) -> Result<usize, Short> {
        let words = self.is_enhanced().then_some(Enhanced {
            peer_to_peer: self.config.peer_to_peer.then_some(self.config.rtr),
            ird: self.want.ird,
            ord: self.want.ord,
        });
        let header = Header {
            large_fpdus: self.config.large_fpdus,
            ..frame(Kind::Request, self.config.rev, self.config.crc)
        };
        mpa::emit(header, words, private_data, out)
    }

    /// Returns how many octets to read next; 0 once the Reply is complete. Reading no more leaves
    /// what follows the Reply to the data path.
    pub(crate) fn wanted(&self) -> usize {
        self.reply.wanted()
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Fed {
        let (consumed, frame) = self.reply.feed(bytes);
        let judged = frame.map(|header| self.judge(&header?));
        Fed::new(consumed, judged)
    }

    fn judge(&self, header: &Header) -> Result<SetupEvent, SetupFailure> {
        if header.kind != Kind::Reply {
            return Err(Reason::Crossed.into());
        }
        check_rev(header.rev, self.config.rev)?;
        let words = self.reply.enhanced(header)?;
        let depths = words.map(|w| Depths {
            ird: w.ird,
            ord: w.ord,
        });
        if header.reject {
            return Ok(SetupEvent::Rejected(negotiate::connect_reply_event(
                depths, self.want,
            )));
        }
        let mut own = self.want;
        let mut send_rtr = None;
        if let Some(words) = words.filter(|_| self.is_enhanced()) {
            let reply = Depths {
                ird: words.ird,
                ord: words.ord,
            };
            own = negotiate::initiator(self.want, reply, self.config.cap)
                .map_err(|e| failure(Reason::InsufficientIrd, e))?;
            if self.config.peer_to_peer {
                let answer = words.peer_to_peer.unwrap_or_default();
                let rtr = negotiate::choose_rtr(self.config.rtr, answer)
                    .map_err(|e| failure(Reason::NoCommonRtr, e))?;
                send_rtr = Some(rtr);
            }
        } else if self.config.peer_to_peer && self.is_enhanced() {
            return Err(Reason::NotEnhanced.into());
        }
        Ok(SetupEvent::Established(Params {
            crc: self.config.crc || header.crc,
            send_markers: header.markers,
            large_fpdus: self.config.large_fpdus && header.large_fpdus,
            ird: own.ird,
            ord: own.ord,
            send_rtr,
            peer_to_peer: send_rtr.is_some(),
            expect_rtr: RtrSet::default(),
            wait_for_fpdu: false,
            event: negotiate::connect_reply_event(depths, own),
        }))
    }

    /// Returns whether the Reply asks for markers, which then begin the stream (M-MPA-14).
    pub(crate) fn peer_wants_markers(&self) -> bool {
        self.reply.wants_markers()
    }

    /// Takes note that TCP was closed or reset. An old responder may do that on an enhanced
    /// Request; a new connection with revision 1 may do better (RFC 6581 section 10, X-ENH-5).
    pub(crate) fn closed(&mut self) -> Option<SetupEvent> {
        self.reply
            .end()
            .then(|| SetupEvent::Failed(Reason::Closed.into()))
    }

    /// Returns the private data; up to 512 octets, more than an iw_cm event can tell (T-10).
    pub(crate) fn private_data(&self) -> &[u8] {
        self.reply.private_data()
    }
}

/// The side that listens.
#[derive(Clone, Debug)]
pub(crate) struct Responder {
    config: Config,
    request: Collector,
    /// The Request, from its arrival until it is answered.
    open: Option<(Header, Option<Enhanced>)>,
}

impl Responder {
    pub(crate) const fn new(config: Config) -> Self {
        Responder {
            config,
            request: Collector::new(),
            open: None,
        }
    }

    pub(crate) fn wanted(&self) -> usize {
        self.request.wanted()
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Fed {
        let (consumed, frame) = self.request.feed(bytes);
        let judged = frame.map(|header| self.judge(&header?));
        Fed::new(consumed, judged)
    }

    fn judge(&mut self, header: &Header) -> Result<SetupEvent, SetupFailure> {
        if header.kind != Kind::Request {
            return Err(Reason::Crossed.into());
        }
        check_rev(header.rev, self.config.rev)?;
        let words = self.request.enhanced(header)?;
        self.open = Some((*header, words));
        let depths = words.map(|w| Depths {
            ird: w.ird,
            ord: w.ord,
        });
        Ok(SetupEvent::Request(negotiate::connect_request_event(
            depths,
            self.config.cap,
        )))
    }

    /// Accepts the Request: writes the Reply into `out`, returns its length and what was agreed.
    /// `want` is the consumer's IRD and ORD. The flags are built fresh (T-28). Returns [`Short`]
    /// and changes nothing if there is too much private data or no Request.
    pub(crate) fn accept(
        &mut self,
        want: Depths,
        private_data: &[u8],
        out: &mut [u8],
    ) -> Result<(usize, Params), Short> {
        let (request, words) = self.open.ok_or(Short)?;
        let crc = self.config.crc || request.crc;
        let mut own = want.capped(self.config.cap);
        let mut expect_rtr = RtrSet::default();
        let reply = words.map(|words| {
            let asked = Depths {
                ird: words.ird,
                ord: words.ord,
            };
            let (mut depths, mut reply) = negotiate::responder(want, asked, self.config.cap);
            if let Some(offer) = words.peer_to_peer {
                expect_rtr = negotiate::answer_rtr(self.config.rtr, offer);
                if expect_rtr.read && depths.ird == 0 {
                    depths.ird = 1;
                    reply.ird = reply.ird.max(1);
                }
            }
            own = depths;
            Enhanced {
                peer_to_peer: words.peer_to_peer.map(|_| expect_rtr),
                ird: reply.ird,
                ord: reply.ord,
            }
        });
        let large_fpdus = self.config.large_fpdus && request.large_fpdus;
        let header = Header {
            large_fpdus,
            ..frame(Kind::Reply, request.rev, crc)
        };
        let n = mpa::emit(header, reply, private_data, out)?;
        self.open = None;
        let params = Params {
            crc,
            send_markers: request.markers,
            large_fpdus,
            ird: own.ird,
            ord: own.ord,
            send_rtr: None,
            peer_to_peer: !expect_rtr.is_empty(),
            expect_rtr,
            wait_for_fpdu: true,
            event: negotiate::connect_reply_event(None, own),
        };
        Ok((n, params))
    }

    /// Rejects the Request: writes the Reply into `out` and returns its length, or fails as
    /// [`Responder::accept`]. TCP may be closed once the Reply is sent.
    pub(crate) fn reject(&mut self, private_data: &[u8], out: &mut [u8]) -> Result<usize, Short> {
        let (request, words) = self.open.ok_or(Short)?;
        let words = words.map(|words| {
            let asked = Depths {
                ird: words.ird,
                ord: words.ord,
            };
            let (_, reply) = negotiate::responder(self.config.cap, asked, self.config.cap);
            Enhanced {
                peer_to_peer: None,
                ird: reply.ird,
                ord: reply.ord,
            }
        });
        let mut header = frame(Kind::Reply, request.rev, self.config.crc || request.crc);
        header.reject = true;
        let n = mpa::emit(header, words, private_data, out)?;
        self.open = None;
        Ok(n)
    }

    pub(crate) fn private_data(&self) -> &[u8] {
        self.request.private_data()
    }
}

fn max_private_data(enhanced: bool) -> usize {
    match enhanced {
        true => mpa::MAX_PRIVATE_DATA - ENHANCED_LEN,
        false => mpa::MAX_PRIVATE_DATA,
    }
}

fn frame(kind: Kind, rev: u8, crc: bool) -> Header {
    Header {
        kind,
        markers: false,
        crc,
        reject: false,
        enhanced: false,
        large_fpdus: false,
        rev,
        pd_len: 0,
    }
}

fn failure(reason: Reason, terminate: TermError) -> SetupFailure {
    SetupFailure {
        reason,
        terminate: Some(terminate),
    }
}

fn check_rev(rev: u8, highest: u8) -> Result<(), SetupFailure> {
    match rev {
        mpa::REV_RDMAC => Err(Reason::Rdmac.into()),
        rev if rev > highest => Err(Reason::Revision.into()),
        _ => Ok(()),
    }
}

/// Why set-up failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// TCP ended before the frame was complete: `-ECONNRESET`.
    Closed,
    /// The frame has neither key of MPA: `-EPROTO`, as with all reasons below.
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

    /// Returns the length of the frame, as far as it is known.
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

    /// Ends the frame: nothing more comes. Returns whether the frame was still awaited.
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
