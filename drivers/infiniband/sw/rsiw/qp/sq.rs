// SPDX-License-Identifier: GPL-2.0

//! The send queue: requests out of the process's ring, completions in post order.
//!
//! A request is copied out of shared memory once, validated, and only the copy is used (T-3). Its
//! slot goes back to the process at that moment; what is under way is counted here.
//!
//! Context: [`SqRing`] in process context under the QP's mutex; [`Sq`] in any context under its own
//! lock, which comes before those of completion queues.
#![forbid(unsafe_code)]

use crate::{
    abi::{
        wqe,
        Opcode,
        Sge,
        Sqe,
        WcStatus,
        MAX_INLINE,
        MAX_SGE, //
    },
    ffi::ring::SharedRing,
    proto::{
        order::{
            Order,
            Record, //
        },
        reads::{
            Orq,
            OrqEntry, //
        },
        tx::Class,
    },
    wire::ddp::{
        Stag,
        TaggedOffset, //
    },
};
use kernel::{
    prelude::*,
    sync::barrier::{
        smp_mb,
        Full, //
    },
};

/// What a request does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// Send, perhaps invalidating an STag of the peer.
    Send {
        /// The STag.
        invalidate: Option<Stag>,
    },
    /// RDMA Write.
    Write {
        /// Sink.
        stag: Stag,
        /// Offset in the sink.
        to: TaggedOffset,
    },
    /// RDMA Read into the first element.
    Read {
        /// Source.
        stag: Stag,
        /// Offset in the source.
        to: TaggedOffset,
    },
}

/// Where the octets of a request are.
#[derive(Clone, Copy)]
pub(super) enum Data {
    /// In so many of these elements.
    Sges([Sge; MAX_SGE], usize),
    /// In the request itself.
    Inline([u8; MAX_INLINE]),
}

/// A validated send request.
#[derive(Clone, Copy)]
pub(super) struct Wqe {
    /// For its completion.
    pub(super) work: Work,
    /// What to do.
    pub(super) operation: Operation,
    /// The peer is to raise an event.
    pub(super) solicited: bool,
    /// Earlier Reads must be complete first.
    pub(super) fence: bool,
    /// Octets of the message.
    pub(super) len: u32,
    /// The octets.
    pub(super) data: Data,
}

/// Octets of all elements: at most 6 summands of 32 bits (T-18).
pub(super) fn total_len(sges: &[Sge]) -> u64 {
    sges.iter()
        .fold(0, |sum, sge| sum.saturating_add(sge.length.into()))
}

/// What is needed to complete a request.
#[derive(Clone, Copy)]
pub(super) struct Work {
    /// The consumer's name for it.
    pub(super) id: u64,
    /// What it was.
    pub(super) opcode: Opcode,
    /// Success is reported too.
    pub(super) signalled: bool,
    /// Octets of the message.
    pub(super) bytes: u32,
}

impl Default for Work {
    fn default() -> Self {
        Self {
            id: 0,
            opcode: Opcode::Send,
            signalled: false,
            bytes: 0,
        }
    }
}

/// A request that cannot be carried out (V-WC-3, V-WC-21).
pub(super) struct BadWqe {
    /// For its completion.
    pub(super) work: Work,
    /// What is wrong.
    pub(super) status: WcStatus,
}

impl Wqe {
    /// Validates a private copy of an entry.
    fn new(sqe: &Sqe, flags: u16, sig_all: bool, max_sge: u32) -> Result<Self, BadWqe> {
        let mut work = Work {
            id: sqe.id,
            opcode: Opcode::Send,
            signalled: sig_all || flags & wqe::SIGNALLED != 0,
            bytes: 0,
        };
        let bad = |work, status| Err(BadWqe { work, status });
        let Some(opcode) = Opcode::from_user(sqe.opcode) else {
            return bad(work, WcStatus::LocQpOpErr);
        };
        work.opcode = opcode;
        let stag = Stag(sqe.rkey);
        let to = TaggedOffset(sqe.raddr);
        let operation = match opcode {
            Opcode::Write => Operation::Write { stag, to },
            Opcode::Read => Operation::Read { stag, to },
            Opcode::SendRemoteInv => Operation::Send {
                invalidate: Some(stag),
            },
            _ => Operation::Send { invalidate: None },
        };
        let is_read = matches!(operation, Operation::Read { .. });
        let (len, data) = if flags & wqe::INLINE != 0 && !is_read {
            let [first, ..] = sqe.sge;
            let mut data = [0; MAX_INLINE];
            // CAST: 32 bits fit.
            let len = first.length as usize;
            match (sqe.inline_data(len), data.get_mut(..len)) {
                (Some(from), Some(to)) => to.copy_from_slice(from),
                _ => return bad(work, WcStatus::LocLenErr),
            }
            (u64::from(first.length), Data::Inline(data))
        } else {
            let count = usize::from(sqe.num_sge);
            let limit = if is_read { 1 } else { max_sge };
            let Some(sges) = sqe.sge.get(..count).filter(|_| count <= limit as usize) else {
                return bad(work, WcStatus::LocQpOpErr);
            };
            let len = total_len(sges);
            (len, Data::Sges(sqe.sge, count))
        };
        let Ok(len) = u32::try_from(len) else {
            return bad(work, WcStatus::LocLenErr);
        };
        work.bytes = len;
        Ok(Self {
            work,
            operation,
            solicited: flags & wqe::SOLICITED != 0,
            fence: flags & wqe::READ_FENCE != 0,
            len,
            data,
        })
    }

    /// The class by which fences and ORD hold it back.
    pub(super) fn class(&self) -> Class {
        match self.operation {
            Operation::Read { .. } => Class::Read,
            _ => Class::Transfer,
        }
    }

    /// The elements of the octets; none for inline data.
    pub(super) fn sges(&self) -> &[Sge] {
        match &self.data {
            Data::Sges(sges, count) => sges.get(..*count).unwrap_or(&[]),
            Data::Inline(_) => &[],
        }
    }
}

/// The process's ring of send requests.
pub(super) struct SqRing {
    ring: SharedRing<Sqe>,
    /// Number of the next entry; wraps.
    get: u32,
    sig_all: bool,
    max_sge: u32,
}

impl SqRing {
    /// Takes the consuming end of a ring.
    pub(super) fn new(ring: SharedRing<Sqe>, sig_all: bool, max_sge: u32) -> Self {
        Self {
            ring,
            get: 0,
            sig_all,
            max_sge,
        }
    }

    /// Number of slots.
    pub(super) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// Whether no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.ring.flags(self.get) & wqe::VALID == 0
    }

    /// Looks at the oldest request, which stays where it is.
    pub(super) fn peek(&self) -> Option<Result<Wqe, BadWqe>> {
        let flags = self.ring.flags(self.get);
        if flags & wqe::VALID == 0 {
            return None;
        }
        let sqe = self.ring.read(self.get);
        Some(Wqe::new(&sqe, flags, self.sig_all, self.max_sge))
    }

    /// Gives the slot of the oldest request back to the process.
    pub(super) fn consume(&mut self) {
        self.ring.set_flags(self.get, 0);
        self.get = self.get.wrapping_add(1);
        // The library rings the doorbell only if it finds the slot before its own cleared. So clear,
        // then look at the next slot: one of the two sees the other.
        smp_mb(Full);
    }
}

/// Send requests under way.
pub(super) struct Sq {
    /// In post order.
    pub(super) order: Order<KVVec<Record<Work>>>,
    /// Our RDMA Reads.
    pub(super) orq: Orq<KVec<OrqEntry>>,
    /// Most Reads that may be outstanding.
    pub(super) ord: usize,
    /// Transmission waits for a Read to complete.
    pub(super) stalled: bool,
}

impl Sq {
    /// For `depth` requests under way.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(depth: u32) -> Result<Self> {
        // CAST: 32 bits fit.
        let records = KVVec::from_elem(Record::default(), depth as usize, GFP_KERNEL)?;
        Ok(Self {
            order: Order::new(records),
            orq: Orq::new(KVec::new()),
            ord: 0,
            stalled: false,
        })
    }
}
