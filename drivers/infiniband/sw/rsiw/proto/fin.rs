// SPDX-License-Identifier: GPL-2.0

//! This side's FIN: it goes out behind all data, once the peer has acknowledged that.
//!
//! Some peers act upon a FIN before they have taken in what came right in front of it. An
//! acknowledgement says that TCP over there has the data, which drivers take in as it comes. The
//! FIN waits for it [`FIN_WAIT_MS`] at most: a peer that takes nothing must not prevent the close.
//!
//! Pure; whoever owns the value serialises its use. A queue pair has one while it has the stream, a
//! connection before and after.
#![forbid(unsafe_code)]

/// Milliseconds for which the FIN waits for an acknowledgement: longer than TCP delays one where
/// the way is short, and little for a close.
pub(crate) const FIN_WAIT_MS: u32 = 200;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fin {
    #[default]
    No,
    /// It is to be sent once TCP has what stands in front of it.
    Wanted,
    /// It is to be sent once that is acknowledged.
    Waits,
    Sent,
}

/// What to do about the FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start a timer of [`FIN_WAIT_MS`], and call [`Fin::expired`] when it runs out.
    Wait,
    Send {
        /// A timer was started for it, and is free for what follows.
        has_waited: bool,
    },
}

impl Fin {
    pub(crate) fn want(&mut self) {
        if *self == Fin::No {
            *self = Fin::Wanted;
        }
    }

    /// Returns whether [`Fin::step`] may have something to do.
    pub(crate) fn is_due(self) -> bool {
        matches!(self, Fin::Wanted | Fin::Waits)
    }

    /// Returns what to do now that TCP has all that stands in front of the FIN; `is_free` is
    /// whether all of that is acknowledged, or need not be.
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

    /// Takes note that the timer ran out. Returns whether the FIN is to be sent now.
    pub(crate) fn expired(&mut self) -> bool {
        let waits = *self == Fin::Waits;
        if waits {
            *self = Fin::Sent;
        }
        waits
    }
}
