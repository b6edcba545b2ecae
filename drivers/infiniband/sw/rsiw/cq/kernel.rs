// SPDX-License-Identifier: GPL-2.0

//! Completion queues of kernel consumers, and their completion vectors: the processor on which the
//! consumer's handler is called (V-RNIC-14).
//!
//! A vector is a processor. If a completion is made on another processor of the same package, the
//! handler is called on that one: the two share a cache, and an interrupt would cost more than it
//! brings, as for requests of block devices (`blk_mq_complete_need_ipi`). Otherwise the vector's
//! processor calls the handler. The call is made in softirq, as with an adapter: never in a thread
//! inside a call of the consumer, which may hold its locks. One work item makes all calls of a
//! queue, so that no two overlap. Processes need no vector: all that their handler does is to wake
//! them.
//!
//! Context: any; for the queue under its lock. Creation sleeps.
#![forbid(unsafe_code)]

use super::{
    Completion,
    Overflow, //
};
use crate::abi::notify;
use crate::ffi::rdma::handle::{
    CqHandle,
    QpHandle, //
};
use crate::ffi::rdma::wr::{
    Wc,
    WcExtra,
    WcOpcode,
    WcRoom,
    WcStatus, //
};
use crate::ffi::rsiw::Queues;
use crate::ffi::task::NoSoftirq;
use crate::proto::failure::Fault;
use crate::proto::receiver::Extra;
use crate::proto::request::{
    operations,
    OperationType, //
};
use crate::proto::ring::{
    Full,
    Ring, //
};
use crate::proto::sends::Status;
use crate::queue::Slots;
use core::num::Saturating;
use kernel::impl_has_work;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::{
    new_work,
    Work,
    WorkItem, //
};

/// A completion, and the slots of which it frees one when it is polled.
type KernelEntry = (Wc, Option<Arc<Slots>>);

/// Entries in order; free places hold `None`.
type KernelEntries = Ring<KVVec<Option<KernelEntry>>>;

fn free(slots: Option<Arc<Slots>>) {
    if let Some(slots) = slots {
        slots.free();
    }
}

/// Completions that were not polled yet, in order.
pub(super) struct KernelRing {
    entries: KernelEntries,
    /// Entries that the consumer asked for.
    asked: Saturating<usize>,
    /// Entries that the consumer's queue pairs need beyond those: entries to spare.
    spare: Saturating<usize>,
    /// What the consumer waits for: flags of [`notify`].
    armed: u32,
}

impl KernelRing {
    pub(super) fn new(entries: u32) -> Result<Self> {
        // CAST: 32 bits fit.
        let asked = entries as usize;
        Ok(Self {
            entries: Self::memory(asked)?,
            asked: Saturating(asked),
            spare: Saturating(0),
            armed: notify::NOT,
        })
    }

    /// Allocates the memory of a ring of `entries` entries. Sleeps.
    pub(super) fn memory(entries: usize) -> Result<KernelEntries> {
        let mut memory = KVVec::with_capacity(entries, GFP_KERNEL)?;
        for _ in 0..entries {
            memory.push_within_capacity(None).map_err(|_| ENOMEM)?;
        }
        Ok(Ring::new(memory))
    }

    /// Returns how many entries the ring has to have for `more` entries to spare; `None` if it has
    /// enough.
    pub(super) fn lacks(&self, more: u32) -> Option<usize> {
        // CAST: 32 bits fit.
        let Saturating(needed) = self.asked + self.spare + Saturating(more as usize);
        Some(needed).filter(|needed| *needed > self.entries.capacity())
    }

    /// Adds `more` to the number of entries to spare. If there is `memory`, the ring moves there,
    /// and the caller gets the old memory in `memory`.
    pub(super) fn add_spare(&mut self, more: u32, memory: Option<&mut KernelEntries>) {
        if let Some(memory) = memory {
            // Bounded by what the kernel consumer has left in its queue.
            while let Some(entry) = self.take() {
                // The new memory is larger.
                let _ = memory.push(Some(entry));
            }
            core::mem::swap(&mut self.entries, memory);
        }
        // CAST: 32 bits fit.
        self.spare += more as usize;
    }

    /// Takes `less` from the number of entries to spare. The memory is kept for other queue pairs.
    pub(super) fn drop_spare(&mut self, less: u32) {
        // CAST: 32 bits fit.
        self.spare -= less as usize;
    }

    fn take(&mut self) -> Option<KernelEntry> {
        let entry = self.entries.get_mut(0)?.take();
        self.entries.drop_oldest();
        entry
    }

    /// Adds a completion of a request of `qp`. Returns whether the consumer waits for it.
    pub(super) fn add(
        &mut self,
        completion: &Completion,
        qp: &Arc<QpHandle>,
        slots: Option<&Arc<Slots>>,
    ) -> Result<bool, Overflow> {
        if self.entries.is_full() {
            // Nobody will poll this completion.
            free(slots.cloned());
            return Err(Overflow);
        }
        let entry = (completion.to_wc(qp), slots.cloned());
        self.entries.push(Some(entry)).map_err(|Full| Overflow)?;
        let notify = completion.fires(self.armed);
        if notify {
            // The consumer is told once for each time that it arms the queue.
            self.armed = notify::NOT;
        }
        Ok(notify)
    }

    pub(super) fn poll(&mut self, room: &mut WcRoom<'_>) {
        // Bounded by what the kernel consumer asks for.
        while !room.is_full() {
            let Some((wc, slots)) = self.take() else {
                break;
            };
            room.push(&wc);
            free(slots);
        }
    }

    pub(super) fn armed_for(&self) -> u32 {
        self.armed
    }

    /// Returns how many completions wait.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Arms the queue; "next" wins over "solicited" (V-CQ-22). Returns whether completions wait.
    pub(super) fn arm(&mut self, solicited: bool) -> bool {
        self.armed |= if solicited {
            notify::SOLICITED
        } else {
            notify::NEXT_COMPLETION
        };
        !self.entries.is_empty()
    }

    /// Forgets the completions of a QP that is being destroyed: they name it (V-CQ-29).
    pub(super) fn forget(&mut self, qp: &QpHandle) {
        // Bounded by what the kernel consumer has left in its queue.
        for _ in 0..self.entries.len() {
            match self.take() {
                Some((wc, slots)) if wc.is_of(qp) => free(slots),
                // The others stay in order; there is room for what was taken out.
                entry => {
                    let _ = self.entries.push(entry);
                }
            }
        }
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
                // Consumers in the kernel have no datagrams.
                Extra::Nothing | Extra::FromQp(_) | Extra::FromQpWithImmediate(..) => {
                    WcExtra::Nothing
                }
                Extra::Invalidated(stag) => WcExtra::Invalidated(stag.0),
                Extra::Immediate(data) => WcExtra::Immediate(data.short()),
                Extra::WithImmediate(data) => WcExtra::Immediate(data),
            },
            qp,
        )
    }
}

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
            Fault::RetryExceeded => WcStatus::RETRY_EXC_ERR,
            Fault::RnrRetryExceeded => WcStatus::RNR_RETRY_EXC_ERR,
            Fault::RemoteOperation => WcStatus::REM_OP_ERR,
        },
    }
}

macro_rules! opcodes {
    ($($(#[$_doc:meta])* $operation:ident, $_name:literal, $_ring:ident, $core:ident;)*) => {
        const fn wc_opcode(operation: OperationType, extra: &Extra) -> WcOpcode {
            match operation {
                // Consumers send Immediate Data with an RDMA Write only.
                OperationType::Receive if matches!(extra, Extra::Immediate(_)) => {
                    WcOpcode::RECV_RDMA_WITH_IMM
                }
                $(OperationType::$operation => WcOpcode::$core,)*
            }
        }
    };
}
operations!(opcodes);

/// Calls the handler of a completion queue, on one processor or near it.
#[pin_data]
pub(super) struct Vector {
    handle: Arc<CqHandle>,
    queues: Arc<Queues>,
    cpu: u32,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Vector { self.work }
}

impl WorkItem for Vector {
    type Pointer = Arc<Self>;

    /// Runs in softirq.
    fn run(this: Arc<Self>) {
        this.handle.notify();
    }
}

impl Vector {
    pub(super) fn new(handle: Arc<CqHandle>, queues: &Arc<Queues>, cpu: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                handle,
                queues: queues.clone(),
                cpu,
                work <- new_work!("rsiw::Vector::work"),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn processor(&self) -> u32 {
        self.cpu
    }

    /// Makes softirq call the handler soon: on this processor if it is near the vector's, or if the
    /// vector's is offline; otherwise on the vector's. Several calls that are still to come become
    /// one. Any context with interrupts on, without a lock that the handler might take.
    pub(super) fn notify(this: &Arc<Self>) {
        // In a thread the softirq runs when this is dropped, and no other thread has to be woken
        // for it.
        let no_softirq = NoSoftirq::enter();
        let queue = &this.queues.softirq;
        if no_softirq.is_near(this.cpu) || !queue.enqueue_elsewhere(this.cpu, this.clone()) {
            // If this fails, the work is queued already, and runs later.
            let _ = queue.enqueue(this.clone());
        }
    }
}
