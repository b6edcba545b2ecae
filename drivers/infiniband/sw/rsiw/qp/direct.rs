// SPDX-License-Identifier: GPL-2.0

//! Segments from a sender to the receiver at the other end of the connection, on this host, without
//! TCP: see `proto::direct`.
//!
//! The sender holds the other end's socket, as softirq does when data arrives, and feeds its
//! receiver from its own memory: each octet is copied once, from its source to its sink. It never
//! waits for a process that has that socket, nor for anything that the receiver waits for; it leaves
//! a mark there, and is woken (`Stream::awaited`).
//!
//! Context: process, under the QP's mutex. Bottom halves are off while the other end is held, which
//! is for one batch at most.
#![forbid(unsafe_code)]

use super::{
    ends::End,
    place::CopyToPage,
    rx::RxState,
    source::Source,
    Qp, //
};
use crate::{
    ffi::{
        cell::ExclusiveCell,
        net::{
            HeldSock,
            TcpSocket,
            TcpState, //
        },
        page::PageSlice,
    },
    mr::access::Slices,
    proto::{
        direct::{
            is_empty,
            HandedOver, //
        },
        notes::QpNote,
        sender::PayloadError,
        tx::Frame,
    },
};
use core::ops::Range;
use kernel::{
    prelude::*,
    sync::atomic::Relaxed, //
};

/// What a segment costs beside its octets, as the receiver counts it.
const SEGMENT: usize = 512;

/// The other end of a connection, as the sender uses it.
pub(super) struct Direct<'a> {
    end: &'a End,
    own: &'a TcpSocket,
    held: Option<Held<'a>>,
    /// Octets that were handed over since the other end was let go of last, or what costs as much.
    len: usize,
}

/// The other end, held.
struct Held<'a> {
    end: &'a End,
    rx: Option<KBox<RxState>>,
    sock: Option<HeldSock<'a>>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let stream = &self.end.stream;
        let waits = self.rx.as_ref().is_some_and(|rx| {
            rx.waits_for().is_some() || rx.waits_for_recv() && !stream.pauses.load(Relaxed)
        });
        if let Some(mut rx) = self.rx.take() {
            rx.let_go();
            stream.qp.count_received(rx.tally());
            *stream.rx.lock() = Some(rx);
        }
        self.sock = None;
        stream.qp.answered.store(true, Relaxed);
        if waits {
            stream.qp.note(QpNote::Socket);
        }
    }
}

impl<'a> Direct<'a> {
    /// For one run of the sender whose socket is `own`.
    pub(super) fn new(end: &'a End, own: &'a TcpSocket) -> Self {
        Self {
            end,
            own,
            held: None,
            len: 0,
        }
    }

    /// The QP at the other end.
    pub(super) fn peer(&self) -> &'a Qp {
        &self.end.stream.qp
    }

    /// What was handed over since [`Direct::let_go`].
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Lets others have the other end, and act upon what it has got.
    pub(super) fn let_go(&mut self) {
        self.held = None;
        self.len = 0;
    }

    /// Has the other end take the next segment, of which `front` are the headers. With
    /// [`HandedOver::Gone`] this is not to be used again.
    #[inline]
    pub(super) fn prepare(&mut self, front: &[u8]) -> HandedOver {
        if self.held.is_none() {
            let outcome = self.hold();
            if outcome != HandedOver::Taken {
                return outcome;
            }
        }
        let stream = &self.end.stream;
        let Some(rx) = self.held.as_mut().and_then(|held| held.rx.as_mut()) else {
            return HandedOver::Gone;
        };
        let outcome = if rx.is_spent() {
            HandedOver::Enough
        } else if rx.is_ready(&stream.qp, front) {
            return HandedOver::Taken;
        } else {
            // Its work item waits for what it waits for.
            stream.awaited.store(true, Relaxed);
            HandedOver::Later
        };
        // The sender lets go if something was handed over.
        if self.len == 0 {
            self.let_go();
        }
        outcome
    }

    /// Hands over a segment, behind [`Direct::prepare`].
    ///
    /// # Errors
    ///
    /// Nobody takes it, or the memory of the message is not there.
    #[inline]
    pub(super) fn hand_over(
        &mut self,
        source: &Source,
        front: &[u8],
        frame: &Frame,
    ) -> Result<(), PayloadError> {
        let qp = &self.end.stream.qp;
        let rx = self.held.as_mut().and_then(|held| held.rx.as_mut());
        let rx = rx.ok_or(PayloadError::Broken)?;
        // Before anything can fail: the sender lets go of the other end if this is not zero.
        self.len = self
            .len
            .saturating_add(frame.fpdu_len)
            .saturating_add(SEGMENT);
        if !source.is_whole(frame.offset, frame.payload.into()) {
            return Err(PayloadError::NoMemory);
        }
        let segment = Segment::new(source, front, frame);
        rx.take_in(qp, &segment, front, frame.ulpdu_len);
        Ok(())
    }

    /// Holds the other end, if all that TCP had for it was read.
    fn hold(&mut self) -> HandedOver {
        let end = self.end;
        let stream = &end.stream;
        let mut is_taken = false;
        let sock = end.sock.hold(|| {
            is_taken = true;
            stream.awaited.store(true, Relaxed);
        });
        let Some(sock) = sock else {
            // Its work item gets the socket when the process has given it back.
            stream.qp.note(QpNote::Socket);
            return HandedOver::Later;
        };
        let sends = matches!(
            self.own.state(),
            TcpState::Established | TcpState::CloseWait
        );
        let receives = matches!(sock.state(), TcpState::Established | TcpState::Closing);
        if !sends || !receives {
            return HandedOver::Gone;
        }
        if !is_empty(self.own.written(), sock.read_up_to()) {
            // It wakes this side when it has read more.
            stream.awaited.store(true, Relaxed);
            return HandedOver::Later;
        }
        // A statement of its own, so that the lock is not held any longer.
        let taken = stream.rx.lock().take();
        let Some(mut rx) = taken else {
            // The stream is over.
            return HandedOver::Gone;
        };
        rx.begin(&stream.qp, stream.qp.dev.tuning.softirq_budget());
        self.held = Some(Held {
            end,
            rx: Some(rx),
            sock: Some(sock),
        });
        HandedOver::Taken
    }
}

/// A segment in front of its pad: headers, and octets of a message in the sender's memory.
struct Segment<'a> {
    source: &'a Source,
    /// Octets of the headers.
    front: usize,
    /// Where the payload begins in the message, and where it ends.
    offset: u32,
    end: u32,
    cursor: ExclusiveCell<Cursor<'a>>,
}

/// A place in the message. It is mostly read from front to back: where the last octets were is
/// where the next ones are looked for.
struct Cursor<'a> {
    at: u32,
    /// What follows in one piece, and behind that. Nothing if that is not known.
    piece: Option<PageSlice<'a>>,
    rest: Option<Slices<'a>>,
}

impl<'a> Segment<'a> {
    fn new(source: &'a Source, front: &[u8], frame: &Frame) -> Self {
        Self {
            source,
            front: front.len(),
            offset: frame.offset,
            end: frame.offset.saturating_add(frame.payload.into()),
            cursor: ExclusiveCell::new(Cursor {
                at: frame.offset,
                piece: None,
                rest: None,
            }),
        }
    }

    /// Moves to the place in the message `at` octets from its begin.
    #[inline(never)]
    fn look(&self, cursor: &mut Cursor<'a>, at: u32) -> Result<PageSlice<'a>> {
        let len = self.end.checked_sub(at).ok_or(EINVAL)?;
        let rest = cursor.rest.insert(self.source.slices(at, len)?);
        cursor.at = at;
        // Memory of the kernel ends where its owner named what is none.
        rest.next().filter(|piece| piece.len() > 0).ok_or(EFAULT)
    }

    /// Copies the octets of `range` of the message to `to`, which has room for them.
    #[inline(always)]
    fn copy(&self, cursor: &mut Cursor<'a>, range: Range<u32>, to: &PageSlice<'_>) -> Result {
        let Range { start: mut at, end } = range;
        let mut done = 0u32;
        while let Some(missing) = end.checked_sub(at).filter(|missing| *missing > 0) {
            let mut piece = match cursor.piece.take() {
                Some(piece) if cursor.at == at => piece,
                _ => self.look(cursor, at)?,
            };
            let front = piece.take_front(missing);
            to.copy_from(done, &front)?;
            at = at.wrapping_add(front.len());
            done = done.wrapping_add(front.len());
            cursor.at = at;
            cursor.piece = match piece.len() {
                0 => cursor.rest.as_mut().and_then(Iterator::next),
                _ => Some(piece),
            };
        }
        Ok(())
    }
}

impl CopyToPage for Segment<'_> {
    #[inline]
    fn copy_to_page(&self, at: usize, to: &PageSlice<'_>) -> Result {
        let skip = u32::try_from(at.checked_sub(self.front).ok_or(EINVAL)?)?;
        let at = self.offset.checked_add(skip).ok_or(EINVAL)?;
        let end = at.checked_add(to.len()).filter(|end| *end <= self.end);
        let end = end.ok_or(EINVAL)?;
        if let Some(octets) = self.source.octets(at, to.len()) {
            return to.copy_in(0, octets);
        }
        let copied = self.cursor.with(|cursor| self.copy(cursor, at..end, to));
        copied.ok_or(EINVAL)?
    }
}
