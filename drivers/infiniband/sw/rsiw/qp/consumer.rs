// SPDX-License-Identifier: GPL-2.0

//! The consumer of a queue pair: what only a process, or only a consumer in the kernel, has.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

use super::sq::kernel::KernelSq;
use crate::{
    cq::Spare,
    ffi::{
        mm::ring::{
            Position,
            SharedRing,
            SharedWord, //
        },
        rdma::udata::MmapEntry,
        task::{
            is_kernel_thread,
            Identity, //
        },
    },
    queue::{
        posted::Slots,
        shared::{
            valid_from,
            Made, //
        },
    },
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

pub(super) enum Consumer {
    Process(OfProcess),
    Kernel(OfKernel),
}

/// What a process has: rings that it maps.
pub(super) struct OfProcess {
    /// The only process that may connect the QP.
    pub(super) owner: Identity,
    pub(super) rings: Pin<KBox<Rings>>,
    /// Whether its completions have room for immediate data.
    pub(super) takes_immediate: bool,
}

/// The offers to map rings.
pub(super) struct Offers {
    pub(super) send: MmapEntry,
    /// `None` if the receive queue is shared.
    pub(super) recv: Option<MmapEntry>,
}

impl Offers {
    /// Returns the keys of both, 0 where there is none.
    pub(super) fn keys(&self) -> (u64, u64) {
        let recv = self.recv.as_ref();
        (self.send.key(), recv.map_or(0, MmapEntry::key))
    }
}

/// Own rings that the queues of a process may go on in.
pub(super) struct NewRings {
    pub(super) sq: SharedRing,
    /// `None` if the receive queue is shared.
    pub(super) rq: Option<SharedRing>,
    /// Behind the entries of `rq`, if the process knows of it.
    pub(super) word: Option<SharedWord>,
    pub(super) offers: Offers,
}

/// The offers to map the rings in use, and other rings.
pub(super) struct OfferedRings {
    pub(super) offers: Offers,
    pub(super) made: Made<NewRings>,
}

/// The rings of a process.
#[pin_data]
pub(super) struct Rings {
    /// Locked while the rings are replaced.
    #[pin]
    pub(super) offered: Mutex<OfferedRings>,
    /// The send queue for those who describe the QP. Only a resize takes this lock else.
    #[pin]
    pub(super) posted: SpinLockIrq<SharedRing>,
}

impl Rings {
    pub(super) fn new(offers: Offers, posted: SharedRing) -> Result<Pin<KBox<Self>>> {
        let offered = OfferedRings {
            offers,
            made: Made::NONE,
        };
        KBox::pin_init(
            pin_init!(Self {
                offered <- new_mutex!(offered, "rsiw::Rings::offered"),
                posted <- new_spinlock_irq!(posted, "rsiw::Rings::posted"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }
}

/// What a consumer in the kernel has: queues in private memory.
pub(super) struct OfKernel {
    /// The process in whose call the QP was made, which may be one of the kernel.
    pub(super) maker: Identity,
    pub(super) posted: Arc<KernelSq>,
    pub(super) send_slots: Arc<Slots>,
    /// The slots of its own receive queue, or of the shared one.
    pub(super) recv_slots: Option<Arc<Slots>>,
    /// Room for completions of requests that the consumer did not count: those beyond the depth
    /// that it asked for.
    pub(super) spare: Spare,
}

impl Consumer {
    /// Returns whether the calling process cannot be the consumer. One in the kernel calls in a
    /// thread of the kernel, which no process has, or in the call that made the QP, as who mounts.
    /// Process context.
    pub(super) fn is_not_the_caller(&self) -> bool {
        match self {
            Self::Process(process) => !process.owner.is_current(),
            Self::Kernel(kernel) => !is_kernel_thread() && !kernel.maker.is_current(),
        }
    }

    pub(super) fn rings(&self) -> Option<&Rings> {
        match self {
            Self::Process(process) => Some(&process.rings),
            Self::Kernel(_) => None,
        }
    }

    pub(super) fn kernel(&self) -> Option<&OfKernel> {
        match self {
            Self::Process(_) => None,
            Self::Kernel(kernel) => Some(kernel),
        }
    }

    /// Returns whether completions have room for immediate data.
    pub(super) fn takes_immediate(&self) -> bool {
        match self {
            Self::Process(process) => process.takes_immediate,
            Self::Kernel(_) => true,
        }
    }

    /// Returns the slots of the send queue, which completions free.
    pub(super) fn send_slots(&self) -> Option<&Arc<Slots>> {
        self.kernel().map(|kernel| &kernel.send_slots)
    }

    pub(super) fn recv_slots(&self) -> Option<&Arc<Slots>> {
        self.kernel()?.recv_slots.as_ref()
    }

    /// Returns whether requests seem to wait in the send queue; `next` is the number of a process's
    /// next. Takes no lock of those who post or send.
    pub(super) fn has_posted(&self, next: u32) -> bool {
        match self {
            Self::Process(process) => {
                valid_from(&process.rings.posted.lock(), Position::of(next), 1) != 0
            }
            Self::Kernel(kernel) => !kernel.posted.seems_empty(),
        }
    }

    /// Returns the depth of the send queue, for a consumer in the kernel the one that it asked for.
    /// Takes no lock of those who post or send.
    pub(super) fn send_depth(&self) -> u32 {
        match self {
            Self::Process(process) => process.rings.posted.lock().len(),
            Self::Kernel(kernel) => kernel.posted.asked(),
        }
    }

    /// Returns the keys by which the send queue and the receive queue are mapped, 0 where there is
    /// none. Process context.
    pub(super) fn keys(&self) -> (u64, u64) {
        match self {
            Self::Process(process) => process.rings.offered.lock().offers.keys(),
            Self::Kernel(_) => (0, 0),
        }
    }

    /// Withdraws the offers to map the rings. Process context.
    pub(super) fn forget_rings(&self) {
        if let Self::Process(process) = self {
            let mut offered = process.rings.offered.lock();
            offered.made.forget();
            offered.offers.send.remove();
            if let Some(recv) = &offered.offers.recv {
                recv.remove();
            }
        }
    }
}
