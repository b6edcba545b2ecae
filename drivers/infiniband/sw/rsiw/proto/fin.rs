// SPDX-License-Identifier: GPL-2.0

//! This side's FIN: it goes out behind all data, once the peer has acknowledged that.
//!
//! Some peers act upon a FIN before they have taken in what came right in front of it. An
//! acknowledgement says that TCP over there has the data, which drivers take in as it comes. The
//! FIN waits for it [`FIN_WAIT_MS`] at most: a peer that takes nothing must not prevent the close.
//!
//! With TLS, something has to go out in front of the FIN, for which there may be no memory. Then the
//! FIN is tried again every [`FIN_WAIT_MS`], [`FIN_RETRIES`] times at most, and sent without it.
//!
//! Pure; whoever owns the value serialises its use. A queue pair has one while it has the stream, a
//! connection before and after.
#![forbid(unsafe_code)]

/// Milliseconds for which the FIN waits for an acknowledgement: longer than TCP delays one where
/// the way is short, and little for a close.
pub(crate) const FIN_WAIT_MS: u32 = 200;
/// How often the FIN is tried again: that lasts as long as a side waits for the peer's FIN.
pub(crate) const FIN_RETRIES: u8 = 25;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fin {
    #[default]
    No,
    /// It is to be sent once TCP has what stands in front of it.
    Wanted,
    /// It is to be sent once the peer has acknowledged what stands in front of it.
    Waits,
    /// It is being sent, and may be tried again this many times; [`Fin::answer`] comes next.
    Tried(u8),
    /// It could not be sent, and is to be tried again up to this many times.
    Refused(u8),
    Sent,
}

/// What to do about the FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start a timer of [`FIN_WAIT_MS`], and call [`Fin::expired`] when it runs out.
    Wait,
    /// Send it, and call [`Fin::answer`].
    Send {
        /// Whether a timer was started for the FIN; it is free for what follows then.
        has_waited: bool,
        /// Whether this is the last try, in which the FIN goes out whatever stands in front of it.
        anyway: bool,
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
            (Fin::Wanted | Fin::Waits, true) => Some(self.send(FIN_RETRIES)),
            (Fin::Wanted, false) => {
                *self = Fin::Waits;
                Some(Step::Wait)
            }
            _ => None,
        }
    }

    /// Takes note that the timer ran out. Returns what to do if it was started for the FIN.
    pub(crate) fn expired(&mut self) -> Option<Step> {
        match *self {
            Fin::Waits => Some(self.send(FIN_RETRIES)),
            Fin::Refused(left) => Some(self.send(left.saturating_sub(1))),
            _ => None,
        }
    }

    /// Takes note whether the FIN was sent. Returns what to do if not.
    pub(crate) fn answer(&mut self, is_sent: bool) -> Option<Step> {
        let Fin::Tried(left) = *self else {
            return None;
        };
        if is_sent {
            *self = Fin::Sent;
            return None;
        }
        *self = Fin::Refused(left);
        Some(Step::Wait)
    }

    fn send(&mut self, left: u8) -> Step {
        let has_waited = *self != Fin::Wanted;
        *self = Fin::Tried(left);
        Step::Send {
            has_waited,
            anyway: left == 0,
        }
    }
}
