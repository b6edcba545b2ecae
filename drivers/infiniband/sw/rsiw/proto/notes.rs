// SPDX-License-Identifier: GPL-2.0

//! What softirq and timers find out, as sets of notes that a work item acts upon. Pure: whoever
//! owns a set serialises its use.
//!
//! The work item is queued after something was noted. It takes all notes at once, under the mutex
//! of its object, and acts upon them one by one, in the order of their kinds, not of their arrival
//! ([`act_upon_each`]). Acting upon one note may settle another one, which is then removed: a timer
//! that is stopped, or set anew, has not run out. Values that go with a note are kept elsewhere,
//! and are stored before the note is.
#![forbid(unsafe_code)]

use core::marker::PhantomData;

/// A kind of notes.
pub(crate) trait Note: Copy + Eq + 'static {
    /// All notes, in the order in which they are acted upon.
    const ALL: &'static [Self];

    /// Returns the bit that stands for this note.
    fn bit(self) -> u32;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notes<N> {
    bits: u32,
    _kind: PhantomData<fn() -> N>,
}

impl<N: Note> Notes<N> {
    pub(crate) const NONE: Self = Self::from_bits(0);

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self {
            bits,
            _kind: PhantomData,
        }
    }

    pub(crate) const fn bits(self) -> u32 {
        self.bits
    }
}

impl<N: Note> Notes<N> {
    pub(crate) fn contains(self, note: N) -> bool {
        self.bits & note.bit() != 0
    }

    #[must_use]
    pub(crate) fn with(self, note: N) -> Self {
        Self::from_bits(self.bits | note.bit())
    }

    #[must_use]
    pub(crate) fn without(self, note: N) -> Self {
        Self::from_bits(self.bits & !note.bit())
    }

    /// Returns `note` alone, if it is in the set.
    #[must_use]
    pub(crate) fn only(self, note: N) -> Self {
        Self::from_bits(self.bits & note.bit())
    }

    pub(crate) fn insert(&mut self, note: N) {
        *self = self.with(note);
    }

    /// Removes `note`. Returns whether it was there.
    pub(crate) fn remove(&mut self, note: N) -> bool {
        let had = self.contains(note);
        *self = self.without(note);
        had
    }

    /// Takes the note that is next.
    fn pop(&mut self) -> Option<N> {
        let next = N::ALL.iter().copied().find(|note| self.contains(*note))?;
        self.remove(next);
        Some(next)
    }
}

/// What a mutex guards, with the notes that were taken and not acted upon yet.
pub(crate) trait Noted {
    type Note: Note;

    /// Returns the notes that are left: none unless [`act_upon_each`] runs.
    fn left(&mut self) -> &mut Notes<Self::Note>;
}

/// Calls `act` for each note `taken`, in their order; `act` may remove others from [`Noted::left`].
pub(crate) fn act_upon_each<G: Noted>(
    guarded: &mut G,
    taken: Notes<G::Note>,
    mut act: impl FnMut(&mut G, G::Note),
) {
    *guarded.left() = taken;
    while let Some(note) = guarded.left().pop() {
        act(guarded, note);
    }
}

/// What a queue pair's work item acts upon, in an order in which one note may follow from those
/// above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum QpNote {
    /// An error of this side, the first one: the stream must end.
    Failure = 0x01,
    /// The peer's Terminate.
    Terminate = 0x02,
    /// Data came in although this side is closing.
    DataInClosing = 0x04,
    /// Data may be waiting in the socket, or the state of TCP changed.
    Socket = 0x08,
    /// The timer of Draining, Closing, Terminate or the FIN ran out, or in Error that of the next
    /// look at the receives.
    Timeout = 0x10,
    /// The interface is gone.
    Lost = 0x20,
    /// There may be more to complete, to flush or to send.
    Again = 0x40,
}

impl Note for QpNote {
    const ALL: &'static [Self] = &[
        Self::Failure,
        Self::Terminate,
        Self::DataInClosing,
        Self::Socket,
        Self::Timeout,
        Self::Lost,
        Self::Again,
    ];

    fn bit(self) -> u32 {
        // CAST: the enumeration's representation.
        self as u32
    }
}

/// What an endpoint's work item acts upon, in this order. Each of [`EndpointNote::StreamEnded`],
/// [`EndpointNote::Shut`] and [`EndpointNote::Abort`] ends the connection; the first one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum EndpointNote {
    /// Responder: the first segment was received.
    FirstSegment = 0x01,
    PeerClosing = 0x02,
    /// The queue pair has left the stream.
    StreamEnded = 0x04,
    /// The connection has to make room for another one that waits for its Request, too, or its
    /// listener goes away.
    DrivenOut = 0x08,
    /// The device goes away.
    Shut = 0x10,
    /// The queue pair that is set aside goes away or into error.
    Abort = 0x20,
    Expired = 0x40,
}

impl Note for EndpointNote {
    const ALL: &'static [Self] = &[
        Self::FirstSegment,
        Self::PeerClosing,
        Self::StreamEnded,
        Self::DrivenOut,
        Self::Shut,
        Self::Abort,
        Self::Expired,
    ];

    fn bit(self) -> u32 {
        // CAST: the enumeration's representation.
        self as u32
    }
}

impl Notes<EndpointNote> {
    /// Removes all notes that end the connection. Called after one of them was acted upon, as the
    /// others must not end what follows.
    pub(crate) fn forget_ends(&mut self) {
        for end in [
            EndpointNote::StreamEnded,
            EndpointNote::Shut,
            EndpointNote::Abort,
        ] {
            self.remove(end);
        }
    }
}
