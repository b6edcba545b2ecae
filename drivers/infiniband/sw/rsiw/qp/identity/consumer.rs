// SPDX-License-Identifier: GPL-2.0

//! The consumer of a queue pair: what only a process, or only a consumer in the kernel, has.
//!
//! Context: any, if a method does not say otherwise.
#![forbid(unsafe_code)]

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
            Identity,
            Thread, //
        },
    },
    qp::sq::kernel::KernelSq,
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

pub(in crate::qp) enum Consumer {
    Process(OfProcess),
    Kernel(OfKernel),
}

/// What a process has: rings that it maps.
pub(in crate::qp) struct OfProcess {
    /// The only process that may connect the QP.
    pub(in crate::qp) owner: Identity,
    /// The thread that has made the QP.
    pub(in crate::qp) thread: Thread,
    pub(in crate::qp) rings: Pin<KBox<ProcessRings>>,
    /// Whether its completions have room for immediate data.
    pub(in crate::qp) takes_immediate: bool,
    /// And for immediate data that come with a Send.
    pub(in crate::qp) takes_send_immediate: bool,
}

/// The offers to map rings.
pub(in crate::qp) struct Offers {
    pub(in crate::qp) send: MmapEntry,
    /// `None` if the receive queue is shared.
    pub(in crate::qp) recv: Option<MmapEntry>,
}

impl Offers {
    /// Returns the keys of both, 0 where there is none.
    pub(in crate::qp) fn keys(&self) -> (u64, u64) {
        let recv = self.recv.as_ref();
        (self.send.key(), recv.map_or(0, MmapEntry::key))
    }
}

/// Own rings that the queues of a process may go on in.
pub(in crate::qp) struct NewRings {
    pub(in crate::qp) sq: SharedRing,
    /// `None` if the receive queue is shared.
    pub(in crate::qp) rq: Option<SharedRing>,
    /// Behind the entries of `rq`, if the process knows of it.
    pub(in crate::qp) word: Option<SharedWord>,
    pub(in crate::qp) offers: Offers,
}

/// The offers to map the rings in use, and other rings.
pub(in crate::qp) struct OfferedRings {
    pub(in crate::qp) offers: Offers,
    pub(in crate::qp) made: Made<NewRings>,
}

/// The rings of a process.
#[pin_data]
pub(in crate::qp) struct ProcessRings {
    /// Locked while the rings are replaced.
    #[pin]
    pub(in crate::qp) offered: Mutex<OfferedRings>,
    /// The send queue for those who describe the QP. Only a resize takes this lock else.
    #[pin]
    pub(in crate::qp) posted: SpinLockIrq<SharedRing>,
}

impl ProcessRings {
    pub(in crate::qp) fn new(offers: Offers, posted: SharedRing) -> Result<Pin<KBox<Self>>> {
        let offered = OfferedRings {
            offers,
            made: Made::NONE,
        };
        KBox::pin_init(
            pin_init!(Self {
                offered <- new_mutex!(offered, "rsiw::ProcessRings::offered"),
                posted <- new_spinlock_irq!(posted, "rsiw::ProcessRings::posted"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }
}

/// What a consumer in the kernel has: queues in private memory.
pub(in crate::qp) struct OfKernel {
    /// The process in whose call the QP was made, which may be one of the kernel.
    pub(in crate::qp) maker: Identity,
    pub(in crate::qp) posted: Arc<KernelSq>,
    pub(in crate::qp) send_slots: Arc<Slots>,
    /// The slots of its own receive queue, or of the shared one.
    pub(in crate::qp) recv_slots: Option<Arc<Slots>>,
    /// Room for completions of requests that the consumer did not count: those beyond the depth
    /// that it asked for.
    pub(in crate::qp) spare: Spare,
}

impl Consumer {
    /// Returns whether the calling process cannot be the consumer. One in the kernel calls in a
    /// thread of the kernel, which no process has, or in the call that made the QP, as who mounts.
    /// Process context.
    pub(in crate::qp) fn is_not_the_caller(&self) -> bool {
        match self {
            Self::Process(process) => !process.owner.is_current(),
            Self::Kernel(kernel) => !is_kernel_thread() && !kernel.maker.is_current(),
        }
    }

    /// Returns the thread of a process that has made the QP.
    pub(in crate::qp) fn thread(&self) -> Option<&Thread> {
        match self {
            Self::Process(process) => Some(&process.thread),
            Self::Kernel(_) => None,
        }
    }

    pub(in crate::qp) fn rings(&self) -> Option<&ProcessRings> {
        match self {
            Self::Process(process) => Some(&process.rings),
            Self::Kernel(_) => None,
        }
    }

    pub(in crate::qp) fn kernel(&self) -> Option<&OfKernel> {
        match self {
            Self::Process(_) => None,
            Self::Kernel(kernel) => Some(kernel),
        }
    }

    /// Returns whether completions have room for immediate data.
    pub(in crate::qp) fn takes_immediate(&self) -> bool {
        match self {
            Self::Process(process) => process.takes_immediate,
            Self::Kernel(_) => true,
        }
    }

    /// Returns whether the consumer can be told of immediate data that come with a Send. Those in
    /// the kernel do not connect by number.
    pub(in crate::qp) fn takes_send_immediate(&self) -> bool {
        match self {
            Self::Process(process) => process.takes_send_immediate,
            Self::Kernel(_) => false,
        }
    }

    /// Returns the slots of the send queue, which completions free.
    pub(in crate::qp) fn send_slots(&self) -> Option<&Arc<Slots>> {
        self.kernel().map(|kernel| &kernel.send_slots)
    }

    pub(in crate::qp) fn recv_slots(&self) -> Option<&Arc<Slots>> {
        self.kernel()?.recv_slots.as_ref()
    }

    /// Returns whether requests seem to wait in the send queue; `next` is the number of a process's
    /// next. Takes no lock of those who post or send.
    pub(in crate::qp) fn has_posted(&self, next: u32) -> bool {
        match self {
            Self::Process(process) => {
                valid_from(&process.rings.posted.lock(), Position::of(next), 1) != 0
            }
            Self::Kernel(kernel) => !kernel.posted.seems_empty(),
        }
    }

    /// Returns the depth of the send queue, for a consumer in the kernel the one that it asked for.
    /// Takes no lock of those who post or send.
    pub(in crate::qp) fn send_depth(&self) -> u32 {
        match self {
            Self::Process(process) => process.rings.posted.lock().len(),
            Self::Kernel(kernel) => kernel.posted.asked(),
        }
    }

    /// Returns the keys by which the send queue and the receive queue are mapped, 0 where there is
    /// none. Process context.
    pub(in crate::qp) fn keys(&self) -> (u64, u64) {
        match self {
            Self::Process(process) => process.rings.offered.lock().offers.keys(),
            Self::Kernel(_) => (0, 0),
        }
    }

    /// Withdraws the offers to map the rings. Process context.
    pub(in crate::qp) fn forget_rings(&self) {
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
