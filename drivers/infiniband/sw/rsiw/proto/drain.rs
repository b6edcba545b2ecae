// SPDX-License-Identifier: GPL-2.0

//! Taking out of a ring what others put into it, and who goes on when that stops. Any context.
//!
//! Whoever puts an entry into a ring rings only if nobody seems to be at work there: the library of
//! a process leaves out the doorbell if the entry before is not taken yet. So whoever takes entries
//! out ends in one of two ways. Either it sees the ring empty, with a full barrier behind the last
//! entry that it freed, or it leaves somebody who goes on. *A drain ends empty or with a
//! successor.*
#![forbid(unsafe_code)]

use super::failure::Failure;
use core::ffi::CStr;

/// Why a sender has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a drain ends empty or with a successor"]
pub(crate) enum Stop {
    /// There is nothing to send: the send queue was seen empty, or nothing of it is sent in this
    /// state.
    Empty,
    /// The next message has to wait for something; the waker tells when that is there.
    For(Marked),
    /// There may be more to send, and nobody will tell of it: the caller makes somebody go on.
    Again,
    /// An error ends the stream.
    Failed(Failure),
}

impl Stop {
    /// Returns the name of what the other end on this host answers, see `Transport::prepare`.
    pub(crate) const fn name_of(answer: &Result<bool, Self>) -> &'static CStr {
        match answer {
            Ok(true) => c"taken",
            Ok(false) => c"gone",
            Err(Self::Again) => c"enough",
            Err(_) => c"later",
        }
    }
}

impl From<Marked> for Stop {
    #[inline]
    fn from(marked: Marked) -> Self {
        Self::For(marked)
    }
}

impl From<Failure> for Stop {
    #[inline]
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Who tells a sender that waits that it can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waker {
    /// The socket: TCP has room again, or the connection is over.
    Socket,
    /// The response to a Read, behind which requests complete.
    Read,
    /// The first FPDU of the peer.
    Peer,
    /// The other end of the connection, on this host.
    OtherEnd,
    /// The timer that runs for want of memory.
    Timer,
}

impl Waker {
    /// Calls `set`, which sets the mark that tells the waker that somebody waits for it. The caller
    /// still holds the lock under which it has seen that it has to wait.
    #[inline(always)]
    pub(crate) fn mark(self, set: impl FnOnce()) -> Marked {
        set();
        Marked(self)
    }
}

/// A waker whose mark is set. Only [`Waker::mark`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marked(Waker);

/// How taking entries out of a ring has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a drain ends empty or with a successor"]
pub(crate) enum Drained {
    /// The ring was seen empty: whoever puts something into it from now on tells of it.
    Empty,
    /// There may be more entries, and nobody will tell of them.
    Again,
}

impl Drained {
    /// Calls `successor`, which makes somebody go on, unless the ring was seen empty.
    #[inline]
    pub(crate) fn or_leave_to(self, successor: impl FnOnce()) {
        if self == Self::Again {
            successor();
        }
    }
}

/// When to look again at a ring of whose entries nobody tells.
///
/// The time doubles with each look that finds nothing, up to 16 s. So an entry waits at most as
/// long as it took to come, and at most 16 s. A ring that nobody uses any more costs next to
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relook {
    ms: u32,
}

impl Relook {
    /// The look after one that has found something, and the very first.
    pub(crate) const FIRST: Self = Self { ms: 1 };
    const MOST_MS: u32 = 16_384;

    /// Returns when to look next after a look that has found nothing.
    pub(crate) fn later(self) -> Self {
        Self {
            ms: self.ms.saturating_mul(2).min(Self::MOST_MS),
        }
    }

    /// Returns the milliseconds until the look.
    pub(crate) const fn ms(self) -> u32 {
        self.ms
    }
}

/// Calls `each` with up to `most` entries. `take` takes the oldest entry out, if there is one, and
/// has a full barrier between freeing an entry and looking at the next one.
#[inline]
pub(crate) fn drain<T>(
    most: usize,
    mut take: impl FnMut() -> Option<T>,
    mut each: impl FnMut(T),
) -> Drained {
    for _ in 0..most {
        match take() {
            Some(entry) => each(entry),
            None => return Drained::Empty,
        }
    }
    Drained::Again
}
