// SPDX-License-Identifier: GPL-2.0

//! Who uses a queue pair, with what belongs to a process or to a consumer in the kernel only.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

use super::sq::{
    kernel::KernelSq,
    user::Posted, //
};
use crate::{
    cq::Spare,
    ffi::{
        rdma::mmap::MmapEntry,
        task::process::Identity, //
    },
    queue::slots::Slots,
};
use kernel::{
    prelude::*,
    sync::{
        new_mutex,
        new_spinlock_irq,
        Arc,
        Mutex,
        SpinLockIrq, //
    },
};

/// The consumer of a queue pair.
pub(super) enum Consumer {
    /// A process.
    Process(OfProcess),
    /// A consumer in the kernel.
    Kernel(OfKernel),
}

/// What a process has: rings that it maps.
pub(super) struct OfProcess {
    /// The process, which alone may connect the QP.
    pub(super) owner: Identity,
    /// What it may map.
    pub(super) rings: Pin<KBox<Rings>>,
    /// Its completions have room for immediate data.
    pub(super) takes_immediate: bool,
}

/// The offers to map rings.
pub(super) struct Offers {
    /// Of the send queue.
    pub(super) send: MmapEntry,
    /// Of the receive queue; none if that is shared.
    pub(super) recv: Option<MmapEntry>,
}

impl Offers {
    /// The keys; 0 for what there is none of.
    pub(super) fn keys(&self) -> (u64, u64) {
        let recv = self.recv.as_ref();
        (self.send.key(), recv.map_or(0, MmapEntry::key))
    }
}

/// The rings of a process.
#[pin_data]
pub(super) struct Rings {
    /// Held while they are replaced.
    #[pin]
    pub(super) offers: Mutex<Offers>,
    /// A view of the send queue for who does not have the QP's mutex.
    #[pin]
    pub(super) posted: SpinLockIrq<Posted>,
}

impl Rings {
    /// Keeps the offers and the view.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(offers: Offers, posted: Posted) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                offers <- new_mutex!(offers, "rsiw::Rings::offers"),
                posted <- new_spinlock_irq!(posted, "rsiw::Rings::posted"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }
}

/// What a consumer in the kernel has: queues in private memory.
pub(super) struct OfKernel {
    /// Where it posts send requests.
    pub(super) posted: Arc<KernelSq>,
    /// Slots of the send queue.
    pub(super) send_slots: Arc<Slots>,
    /// Slots of the receive queue, its own or the shared one.
    pub(super) recv_slots: Option<Arc<Slots>>,
    /// Room for completions of requests that it did not count.
    pub(super) spare: Spare,
}

impl Consumer {
    /// The rings of a process, if it is one.
    pub(super) fn rings(&self) -> Option<&Rings> {
        match self {
            Self::Process(process) => Some(&process.rings),
            Self::Kernel(_) => None,
        }
    }

    /// What a consumer in the kernel has, if it is one.
    pub(super) fn kernel(&self) -> Option<&OfKernel> {
        match self {
            Self::Process(_) => None,
            Self::Kernel(kernel) => Some(kernel),
        }
    }

    /// Whether it can be told of immediate data.
    pub(super) fn takes_immediate(&self) -> bool {
        match self {
            Self::Process(process) => process.takes_immediate,
            Self::Kernel(_) => true,
        }
    }

    /// The slots of the send queue that completions free.
    pub(super) fn send_slots(&self) -> Option<&Arc<Slots>> {
        self.kernel().map(|kernel| &kernel.send_slots)
    }

    /// The slots of the receive queue that completions free.
    pub(super) fn recv_slots(&self) -> Option<&Arc<Slots>> {
        self.kernel()?.recv_slots.as_ref()
    }

    /// Whether requests wait in the send queue, of which that of a process has number `next`.
    pub(super) fn has_posted(&self, next: u32) -> bool {
        match self {
            Self::Process(process) => process.rings.posted.lock().has(next),
            Self::Kernel(kernel) => !kernel.posted.is_empty(),
        }
    }

    /// The depth of the send queue, as a consumer in the kernel asked for it.
    pub(super) fn send_depth(&self) -> u32 {
        match self {
            Self::Process(process) => process.rings.posted.lock().len(),
            Self::Kernel(kernel) => kernel.posted.asked_and_spare().0,
        }
    }

    /// The keys by which the send queue and the receive queue are mapped; 0 for what is not. Process
    /// context.
    pub(super) fn keys(&self) -> (u64, u64) {
        match self {
            Self::Process(process) => process.rings.offers.lock().keys(),
            Self::Kernel(_) => (0, 0),
        }
    }

    /// Ends the offers to map the rings. Process context.
    pub(super) fn forget_rings(&self) {
        if let Self::Process(process) = self {
            let offers = process.rings.offers.lock();
            offers.send.remove();
            if let Some(recv) = &offers.recv {
                recv.remove();
            }
        }
    }
}
