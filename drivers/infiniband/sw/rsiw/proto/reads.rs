// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads and Atomic Operations under way: ours (outbound) and the peer's (inbound) (RFC 5040
//! sections 5.2 and 6.1, RFC 7306 section 5.4). Requests of both kinds share a queue and its
//! numbers, are answered in order, and count together against ORD and IRD.
//!
//! Each queue is used under the lock of its owner, also by the receiving half in softirq. The
//! driver provides the storage, whose length is the depth: ORD (one more does no harm) and IRD.
#![forbid(unsafe_code)]

use super::ring::{
    Full,
    Ring,
    Token, //
};
use crate::wire::atomic::AtomicRequest;
use crate::wire::ddp::{
    Msn,
    Stag,
    TaggedOffset, //
};
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::TermError;
use core::ops::DerefMut;

/// One of our Reads or Atomic Operations that waits for its response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutboundRead {
    pub(crate) sink_stag: Stag,
    pub(crate) sink_to: TaggedOffset,
    pub(crate) len: u32,
    /// The request's record in `proto::sends`. The ready-to-receive message of connection set-up
    /// (RFC 6581 section 9.2) has none.
    pub(crate) token: Option<Token>,
    /// The youngest request that is placed once the peer answers (`proto::placement`).
    pub(crate) places: Option<Token>,
    /// An Atomic Operation, which is answered by an Atomic Response.
    pub(crate) is_atomic: bool,
    /// Invalidate the sink STag when the Read completes.
    pub(crate) invalidate: bool,
}

/// The oldest Read, while its response comes in. It is outstanding until [`OutboundReads::pop`], so
/// that what is fenced waits for it (V-FNC-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Responding {
    pub(crate) read: OutboundRead,
    /// Octets received so far.
    done: u32,
}

impl Responding {
    pub(crate) const fn new(read: OutboundRead) -> Self {
        Self { read, done: 0 }
    }

    /// Returns how many octets are still to come.
    pub(crate) const fn left(&self) -> u32 {
        self.read.len.saturating_sub(self.done)
    }

    /// Takes in a Read Response segment of `len` octets of payload, or several in a row.
    ///
    /// STag, offset, length and last flag must be those asked for. STag and offset of a response
    /// without payload are not checked (T-23). Fails with the error for the Terminate; nothing may
    /// be placed then.
    pub(crate) fn segment(
        &mut self,
        (stag, to): (Stag, TaggedOffset),
        len: u32,
        last: bool,
    ) -> Result<(), TermError> {
        if len > 0 {
            if stag != self.read.sink_stag {
                return Err(TermError::TaggedStag);
            }
            if self.read.sink_to.checked_add(self.done) != Some(to) {
                return Err(TermError::TaggedBounds);
            }
        }
        let left = self.left().checked_sub(len);
        match (last, left.ok_or(TermError::TaggedBounds)?) {
            // All octets are there, but the last flag is missing.
            (false, 0) => return Err(TermError::CatastrophicStream),
            // The response ends early.
            (true, 1..) => return Err(TermError::TaggedBounds),
            (true, 0) | (false, _) => {}
        }
        self.done = self.done.checked_add(len).ok_or(TermError::TaggedBounds)?;
        Ok(())
    }
}

/// What a response answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseTo {
    Read,
    /// The Atomic Operation with this number.
    Atomic(u32),
}

/// Outbound Reads and Atomic Operations, oldest first.
#[derive(Debug)]
pub(crate) struct OutboundReads<S> {
    ring: Ring<S>,
    oldest: Msn,
}

impl<S: DerefMut<Target = [OutboundRead]>> OutboundReads<S> {
    pub(crate) const fn new(slots: S) -> Self {
        OutboundReads {
            ring: Ring::new(slots),
            oldest: Msn::FIRST,
        }
    }

    /// Returns how many are outstanding, to be compared with ORD (`proto::message::may_start`).
    pub(crate) const fn outstanding(&self) -> usize {
        self.ring.len()
    }

    /// Returns entry `n`, counted from the oldest one.
    pub(crate) fn get(&self, n: usize) -> Option<&OutboundRead> {
        self.ring.get(n)
    }

    /// Records a request; call this before the request can reach the peer. Returns [`Full`] if the
    /// driver let more requests start than there is room for.
    pub(crate) fn push(&mut self, entry: OutboundRead) -> Result<(), Full> {
        self.ring.push(entry)
    }

    /// Returns the request that a response answers. Fails with the error for the Terminate if that
    /// is not the oldest request. Responses come in the order of the requests (RFC 5040 section
    /// 5.2.2, P-RDMAP-11; RFC 7306 sections 5.2.2 and 5.4, X-ATM-14, X-ATM-15).
    pub(crate) fn answered(&self, asked: ResponseTo) -> Result<OutboundRead, TermError> {
        let oldest = self.ring.get(0);
        let due = oldest.filter(|entry| match asked {
            ResponseTo::Read => !entry.is_atomic,
            ResponseTo::Atomic(id) => entry.is_atomic && id == self.oldest.0,
        });
        due.copied().ok_or_else(|| match asked {
            ResponseTo::Read => TermError::TaggedStag,
            // Nobody has asked for this response.
            ResponseTo::Atomic(_) if !self.has_atomics() => TermError::UntaggedNoBuffer,
            // It does not answer the oldest request.
            ResponseTo::Atomic(_) => TermError::CatastrophicStream,
        })
    }

    fn has_atomics(&self) -> bool {
        // Bound: ORD.
        let mut all = (0..self.ring.len()).filter_map(|n| self.get(n));
        all.any(|entry| entry.is_atomic)
    }

    /// Returns the entry of the request with this number, by which a Terminate names it.
    pub(crate) fn find(&self, msn: Msn) -> Option<&OutboundRead> {
        // CAST: u32 fits into usize on all targets.
        self.ring.get(msn.since(self.oldest) as usize)
    }

    /// Takes the oldest request out: its response is placed, or it is flushed.
    pub(crate) fn pop(&mut self) -> Option<OutboundRead> {
        self.oldest = self.oldest.next();
        self.ring.pop()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InboundRead {
    pub(crate) msn: Msn,
    pub(crate) request: ReadRequest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inbound {
    Read(InboundRead),
    Atomic(Msn, AtomicRequest),
}

impl Default for Inbound {
    fn default() -> Self {
        Self::Read(InboundRead::default())
    }
}

impl Inbound {
    const fn msn(&self) -> Msn {
        match self {
            Self::Read(InboundRead { msn, .. }) | Self::Atomic(msn, _) => *msn,
        }
    }
}

/// Inbound Reads and Atomic Operations, oldest first, at most IRD (T-29).
#[derive(Debug)]
pub(crate) struct InboundReads<S> {
    ring: Ring<S>,
}

impl<S: DerefMut<Target = [Inbound]>> InboundReads<S> {
    pub(crate) const fn new(slots: S) -> Self {
        InboundReads {
            ring: Ring::new(slots),
        }
    }

    /// Returns whether another request fits.
    pub(crate) fn has_room(&self) -> bool {
        !self.ring.is_full()
    }

    pub(crate) const fn len(&self) -> usize {
        self.ring.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Queues a request, or fails if the peer has more under way than IRD.
    pub(crate) fn push(&mut self, request: Inbound) -> Result<(), TermError> {
        let pushed = self.ring.push(request);
        pushed.map_err(|Full| TermError::UntaggedNoBuffer)
    }

    /// Returns a copy of the request to answer next. A Read is shorter than an Atomic Operation, so
    /// only its own octets are copied.
    pub(crate) fn front(&self) -> Option<Inbound> {
        Some(match self.ring.get(0)? {
            Inbound::Read(read) => Inbound::Read(*read),
            Inbound::Atomic(msn, request) => Inbound::Atomic(*msn, *request),
        })
    }

    /// Takes the oldest request out and returns its number: its response is with TCP, or
    /// the request is dropped. Frees its slot for the peer's next request.
    pub(crate) fn pop(&mut self) -> Option<Msn> {
        let oldest = self.ring.get(0).map(Inbound::msn);
        self.ring.drop_oldest();
        oldest
    }
}
