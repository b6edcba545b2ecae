// SPDX-License-Identifier: GPL-2.0

//! This side's FIN: it goes out behind all data, once the peer has acknowledged the data.
//!
//! Some peers act upon a FIN before they have taken in what came right in front of it. An
//! acknowledgement says that the peer's TCP has the data, which drivers take in as it comes. The
//! FIN waits for the acknowledgement [`FIN_WAIT_MS`] at most: a peer that takes nothing must not
//! prevent the close.
//!
//! With TLS, a close_notify has to go out in front of the FIN, for which there may be no memory.
//! Then the FIN is tried again every [`FIN_WAIT_MS`], [`FIN_RETRIES`] times at most. The last time
//! the FIN is sent without it.
//!
//! Pure; whoever owns the value serialises its use. A queue pair has one while it has the stream, a
//! connection before and after.
#![forbid(unsafe_code)]

/// Milliseconds for which the FIN waits for an acknowledgement: longer than TCP delays one where
/// the way is short, and little for a close.
pub(crate) const FIN_WAIT_MS: u32 = 200;
/// How often the FIN is tried again. All tries take as long as a side waits for the peer's FIN.
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
        /// Whether a timer was started for the FIN. The timer is free for other uses then.
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

/// Whether a stream that is to end still moves. Nobody waits for a stream that stands still.
///
/// What was posted before a disconnect, and what has completed but is still in TCP's queue, may
/// take longer than one time-out on a slow path. A peer that takes little at a time can hold up the
/// end for [`MOST_PERIODS`] time-outs at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Movement {
    /// One number that changed whenever the peer took something, and one that changed whenever it
    /// sent something.
    at: (u32, u32),
    left: u8,
}

/// How many time-outs a stream that moves is given at most.
pub(crate) const MOST_PERIODS: u8 = 12;

impl Movement {
    /// Begins the first time-out, with the stream at `at`.
    pub(crate) const fn begin(at: (u32, u32)) -> Self {
        Self {
            at,
            left: MOST_PERIODS - 1,
        }
    }

    /// Takes note that a time-out has run out, with the stream at `at`. Returns whether another one
    /// begins.
    pub(crate) fn goes_on(&mut self, at: (u32, u32)) -> bool {
        let has_moved = self.at != at;
        self.at = at;
        match self.left.checked_sub(1) {
            Some(left) if has_moved => {
                self.left = left;
                true
            }
            _ => false,
        }
    }
}
