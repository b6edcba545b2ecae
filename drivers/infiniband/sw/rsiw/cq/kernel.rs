// SPDX-License-Identifier: GPL-2.0

//! Completion queues of kernel consumers.
//!
//! Context: any, under the queue's lock; creation sleeps.
#![forbid(unsafe_code)]

use super::{
    Completion,
    Overflow, //
};
use crate::{
    abi::notify,
    ffi::rdma::{
        handle::QpHandle,
        wc::{
            Wc,
            WcExtra,
            WcOpcode,
            WcRoom,
            WcStatus, //
        },
    },
    proto::{
        failure::Fault,
        order::Status,
        receiver::Extra,
        request::{
            operations,
            OperationType, //
        },
    },
    queue::slots::Slots,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A completion, and what has one of its slots free once it is polled.
type Entry = (Wc, Option<Arc<Slots>>);

/// Where entries are.
type Memory = KVVec<Option<Entry>>;

fn free(slots: Option<Arc<Slots>>) {
    if let Some(slots) = slots {
        slots.free();
    }
}

/// Completions that were not polled yet, in order.
pub(super) struct KernelRing {
    /// `None` for a slot without a completion.
    slots: Memory,
    /// Entries that the consumer asked for.
    asked: usize,
    /// Entries that its queue pairs need beyond those.
    spare: usize,
    /// Slot of the oldest completion.
    head: usize,
    /// Slots in use from there on.
    len: usize,
    /// What the consumer waits for: flags of [`notify`].
    armed: u32,
}

impl KernelRing {
    /// Makes a ring of `entries` entries.
    pub(super) fn new(entries: u32) -> Result<Self> {
        // CAST: 32 bits fit.
        let asked = entries as usize;
        Ok(Self {
            slots: Self::memory(asked)?,
            asked,
            spare: 0,
            head: 0,
            len: 0,
            armed: notify::NOT,
        })
    }

    /// Makes the memory of a ring of `entries` entries. Sleeps.
    pub(super) fn memory(entries: usize) -> Result<Memory> {
        let mut memory = KVVec::with_capacity(entries, GFP_KERNEL)?;
        for _ in 0..entries {
            memory.push_within_capacity(None).map_err(|_| ENOMEM)?;
        }
        Ok(memory)
    }

    /// Number of entries that it takes to have `more` to spare, if that is more than there are.
    pub(super) fn lacks(&self, more: u32) -> Option<usize> {
        // CAST: 32 bits fit.
        let spare = self.spare.saturating_add(more as usize);
        Some(self.asked.saturating_add(spare)).filter(|needed| *needed > self.slots.len())
    }

    /// Notes `more` entries to spare; `memory` is what they take, and what is not used any more
    /// afterwards.
    pub(super) fn add_spare(&mut self, more: u32, memory: Option<&mut Memory>) {
        if let Some(memory) = memory {
            // As many as the consumer, which is in the kernel, has left in its queue.
            for n in 0..self.len {
                let from = self.index(n);
                let entry = self.slots.get_mut(from).and_then(Option::take);
                if let Some(to) = memory.get_mut(n) {
                    *to = entry;
                }
            }
            core::mem::swap(&mut self.slots, memory);
            self.head = 0;
        }
        // CAST: 32 bits fit.
        self.spare = self.spare.saturating_add(more as usize);
    }

    /// Notes that `less` entries to spare are not needed any more. The memory is kept for others.
    pub(super) fn drop_spare(&mut self, less: u32) {
        // CAST: 32 bits fit.
        self.spare = self.spare.saturating_sub(less as usize);
    }

    /// The slot `n` after the oldest one, `n` being at most their number.
    fn index(&self, n: usize) -> usize {
        let at = self.head.wrapping_add(n);
        at.checked_sub(self.slots.len()).unwrap_or(at)
    }

    /// Adds a completion of a request of `qp`. Returns whether the consumer waits for one like
    /// this.
    pub(super) fn add(
        &mut self,
        completion: &Completion,
        qp: &Arc<QpHandle>,
        slots: Option<&Arc<Slots>>,
    ) -> Result<bool, Overflow> {
        let index = self.index(self.len);
        let full = self.len >= self.slots.len();
        let Some(room) = self.slots.get_mut(index).filter(|_| !full) else {
            // Nobody will poll it.
            free(slots.cloned());
            return Err(Overflow);
        };
        *room = Some((completion.to_wc(qp), slots.cloned()));
        self.len = self.len.saturating_add(1);
        let notify = completion.fires(self.armed);
        if notify {
            // One call per arming.
            self.armed = notify::NOT;
        }
        Ok(notify)
    }

    /// Moves completions to the consumer.
    pub(super) fn poll(&mut self, room: &mut WcRoom<'_>) {
        // As many as the consumer, which is in the kernel, asks for.
        while self.len > 0 && !room.is_full() {
            if let Some((wc, slots)) = self.slots.get_mut(self.head).and_then(Option::take) {
                room.push(&wc);
                free(slots);
            }
            self.head = self.index(1);
            self.len = self.len.saturating_sub(1);
        }
    }

    /// What the consumer waits for: flags of [`notify`].
    pub(super) fn armed_for(&self) -> u32 {
        self.armed
    }

    /// How many completions wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Arms the queue; "next" wins over "solicited" (V-CQ-22). Returns whether completions wait.
    pub(super) fn arm(&mut self, solicited: bool) -> bool {
        self.armed |= if solicited {
            notify::SOLICITED
        } else {
            notify::NEXT_COMPLETION
        };
        self.len > 0
    }

    /// Forgets the completions of a QP that is being destroyed: they name it (V-CQ-29).
    pub(super) fn forget(&mut self, qp: &QpHandle) {
        let mut kept: usize = 0;
        // As many as the consumer, which is in the kernel, has left in its queue.
        for n in 0..self.len {
            let (from, to) = (self.index(n), self.index(kept));
            match self.slots.get_mut(from).and_then(Option::take) {
                Some((wc, slots)) if wc.is_of(qp) => free(slots),
                entry => {
                    if let Some(slot) = self.slots.get_mut(to) {
                        *slot = entry;
                    }
                    kept = kept.saturating_add(1);
                }
            }
        }
        self.len = kept;
    }
}

impl Completion {
    fn to_wc(self, qp: &Arc<QpHandle>) -> Wc {
        Wc::new(
            self.id,
            wc_status(self.status),
            wc_opcode(self.operation, &self.extra),
            self.bytes,
            self.cause.0,
            match self.extra {
                Extra::Nothing => WcExtra::Nothing,
                Extra::Invalidated(stag) => WcExtra::Invalidated(stag.0),
                Extra::Immediate(data) => WcExtra::Immediate(data.short()),
            },
            qp,
        )
    }
}

/// Returns how a request ended, in the core's terms.
const fn wc_status(status: Status<Fault>) -> WcStatus {
    match status {
        Status::Success => WcStatus::SUCCESS,
        Status::Flushed => WcStatus::WR_FLUSH_ERR,
        Status::Failed(fault) => match fault {
            Fault::LocalLength => WcStatus::LOC_LEN_ERR,
            Fault::LocalProtection => WcStatus::LOC_PROT_ERR,
            Fault::LocalOperation => WcStatus::LOC_QP_OP_ERR,
            Fault::Bind => WcStatus::MW_BIND_ERR,
            Fault::RemoteAccess => WcStatus::REM_ACCESS_ERR,
            Fault::RemoteInvalid => WcStatus::REM_INV_REQ_ERR,
            Fault::General => WcStatus::GENERAL_ERR,
        },
    }
}

macro_rules! opcodes {
    ($($(#[$_doc:meta])* $operation:ident, $_name:literal, $_ring:ident, $core:ident;)*) => {
        /// Returns what a request was, in the core's terms.
        const fn wc_opcode(operation: OperationType, extra: &Extra) -> WcOpcode {
            match operation {
                // The peer's consumer has posted an RDMA Write with it; there is no other way.
                OperationType::Receive if matches!(extra, Extra::Immediate(_)) => {
                    WcOpcode::RECV_RDMA_WITH_IMM
                }
                $(OperationType::$operation => WcOpcode::$core,)*
            }
        }
    };
}
operations!(opcodes);
