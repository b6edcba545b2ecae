// SPDX-License-Identifier: GPL-2.0

//! This side's FIN, and when it may go: behind all data, and once the peer has that.
//!
//! Some peers act upon a FIN before they have taken in what came right in front of it. An
//! acknowledgement says that TCP over there has the data, which drivers take in as it comes. It is
//! waited for [`FIN_WAIT_MS`] at most, as a peer that takes nothing must keep nobody from closing.
//!
//! Pure; whoever owns the value serialises its use. A queue pair has one while it has the stream, a
//! connection for the time before and after.
#![forbid(unsafe_code)]

/// Milliseconds for which the FIN waits until what stands in front of it is acknowledged: longer
/// than TCP delays an acknowledgement where the way is short, and little for a close.
pub(crate) const FIN_WAIT_MS: u32 = 200;

/// What became of the FIN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fin {
    /// There is none to be sent.
    #[default]
    No,
    /// It is to be sent once TCP has what stands in front of it.
    Wanted,
    /// Only acknowledgements are waited for.
    Waits,
    /// It was sent.
    Sent,
}

/// What to do about the FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start a timer of [`FIN_WAIT_MS`], and call [`Fin::expired`] when it runs out.
    Wait,
    /// Send it.
    Send {
        /// A timer was started for it, and is free for what follows.
        has_waited: bool,
    },
}

impl Fin {
    /// There is to be one.
    pub(crate) fn want(&mut self) {
        if *self == Fin::No {
            *self = Fin::Wanted;
        }
    }

    /// Whether [`Fin::step`] may have something to do.
    pub(crate) fn is_due(self) -> bool {
        matches!(self, Fin::Wanted | Fin::Waits)
    }

    /// TCP has all that stands in front of the FIN; `is_free` is whether nothing of it has to be
    /// acknowledged any more.
    pub(crate) fn step(&mut self, is_free: bool) -> Option<Step> {
        match (*self, is_free) {
            (Fin::Wanted | Fin::Waits, true) => {
                let has_waited = *self == Fin::Waits;
                *self = Fin::Sent;
                Some(Step::Send { has_waited })
            }
            (Fin::Wanted, false) => {
                *self = Fin::Waits;
                Some(Step::Wait)
            }
            (Fin::Waits, false) | (Fin::No | Fin::Sent, _) => None,
        }
    }

    /// The timer ran out. Returns whether it was that of the FIN, which is to be sent now.
    pub(crate) fn expired(&mut self) -> bool {
        let waits = *self == Fin::Waits;
        if waits {
            *self = Fin::Sent;
        }
        waits
    }
}
