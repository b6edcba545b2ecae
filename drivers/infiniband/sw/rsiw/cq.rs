// SPDX-License-Identifier: GPL-2.0

//! Completion queues (draft-hilland-rddp-verbs section 5.3).
//!
//! A process has its queue in shared memory ([`user`]), a kernel consumer polls ([`kernel`]).
//!
//! Context: any, without a lock of the consumer's; creation and destruction sleep. Lock order: the queue's lock comes after those of QPs and regions; handlers are called
//! without it.
#![forbid(unsafe_code)]

mod kernel;
mod user;

use self::{
    kernel::KernelRing,
    user::UserRing, //
};
use crate::{
    abi::{
        notify,
        Opcode,
        WcStatus, //
    },
    ffi::rdma::{
        attr::EventType,
        driver::HasCqHandle,
        handle::{
            CqHandle,
            QpHandle, //
        },
        mmap::MmapEntry,
        udata::Udata,
        wc::WcRoom, //
    },
    wire::ddp::Stag,
};
use ::kernel::{
    prelude::*,
    sync::{
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
};

/// Largest number of entries.
pub(crate) const MAX_CQE: u32 = 1 << 21;

/// How a work request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The consumer's name for the request.
    pub(crate) id: u64,
    /// What it was.
    pub(crate) opcode: Opcode,
    /// How it ended.
    pub(crate) status: WcStatus,
    /// Octets received or read.
    pub(crate) bytes: u32,
    /// The STag that the peer's Send invalidated.
    pub(crate) invalidated: Option<Stag>,
    /// Number of the QP.
    pub(crate) qp: u32,
    /// A receive that the peer wants noticed (Send with Solicited Event).
    pub(crate) solicited: bool,
}

/// The queue is full: the completion is lost, and its QP has to end (V-CQ-7, T-43).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

/// Where completions wait.
enum Ring {
    User(UserRing),
    Kernel(KernelRing),
}

/// What the queue's lock protects.
struct State {
    ring: Ring,
    /// The event was raised.
    overflowed: bool,
}

/// A completion queue.
#[pin_data]
pub(crate) struct Cq {
    handle: Arc<CqHandle>,
    len: u32,
    /// None for kernel consumers.
    entry: Option<MmapEntry>,
    #[pin]
    state: SpinLockIrq<State>,
}

impl HasCqHandle for Cq {
    fn handle(&self) -> &CqHandle {
        &self.handle
    }
}

impl Cq {
    /// Makes a queue of at least `entries` entries, for the process that makes the call or a kernel
    /// consumer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for none or too many entries, `ENOMEM`.
    pub(crate) fn new(
        handle: Arc<CqHandle>,
        entries: u32,
        udata: Option<&Udata<'_>>,
    ) -> Result<Arc<Self>> {
        if !(1..=MAX_CQE).contains(&entries) {
            return Err(EINVAL);
        }
        let len = entries.checked_next_power_of_two().ok_or(EINVAL)?;
        let (ring, entry) = match udata {
            Some(udata) => {
                let (ring, entry) = UserRing::new(len, udata)?;
                (Ring::User(ring), Some(entry))
            }
            None => (Ring::Kernel(KernelRing::new(len)?), None),
        };
        let state = State {
            ring,
            overflowed: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                handle,
                len,
                entry,
                state <- new_spinlock_irq!(state, "rsiw::Cq::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// The offset by which the process maps the queue.
    pub(crate) fn mmap_key(&self) -> u64 {
        self.entry.as_ref().map_or(0, MmapEntry::key)
    }

    /// Ends the offer to map the queue. Sleeps.
    ///
    /// To be called when the queue is destroyed. Late completions are harmless: the memory stays,
    /// and the handle lets no handler be called.
    pub(crate) fn close(&self) {
        if let Some(entry) = &self.entry {
            entry.remove();
        }
    }

    /// Adds a completion of a request of `qp`. Gives whether the consumer waits for one like this:
    /// then the caller is to call [`Cq::notify`] once it holds no lock. Any context.
    ///
    /// # Errors
    ///
    /// [`Overflow`] if the queue is full. The consumer is told by an event, once.
    pub(crate) fn add(&self, completion: &Completion, qp: &QpHandle) -> Result<bool, Overflow> {
        let mut state = self.state.lock();
        let added = match &mut state.ring {
            Ring::User(ring) => ring.add(completion),
            Ring::Kernel(ring) => ring.add(completion, qp),
        };
        if added.is_err() {
            let first = !core::mem::replace(&mut state.overflowed, true);
            drop(state);
            if first {
                self.handle.event(EventType::CqError);
            }
        }
        added
    }

    /// Moves completions to a kernel consumer. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for the queue of a process.
    pub(crate) fn poll(&self, room: &mut WcRoom<'_>) -> Result {
        match &mut self.state.lock().ring {
            Ring::User(_) => return Err(EINVAL),
            Ring::Kernel(ring) => ring.poll(room),
        }
        Ok(())
    }

    /// Asks for one call of the handler, at the next completion or the next solicited one. Gives
    /// whether completions wait already. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for the queue of a process.
    pub(crate) fn arm(&self, solicited: bool) -> Result<bool> {
        match &mut self.state.lock().ring {
            Ring::User(_) => Err(EINVAL),
            Ring::Kernel(ring) => Ok(ring.arm(solicited)),
        }
    }

    /// Forgets the completions of a QP that is being destroyed, if they are a kernel consumer's. No
    /// more of them must come. Any context.
    pub(crate) fn forget(&self, qp: &QpHandle) {
        if let Ring::Kernel(ring) = &mut self.state.lock().ring {
            ring.forget(qp);
        }
    }

    /// Calls the consumer's handler. Any context, without a lock that the handler might take.
    pub(crate) fn notify(&self) {
        self.handle.notify();
    }
}

impl Completion {
    /// Whether a consumer that armed the queue with `armed` is to be told of this (T-14).
    fn fires(&self, armed: u32) -> bool {
        if armed & notify::NEXT_COMPLETION != 0 {
            return true;
        }
        armed & notify::SOLICITED != 0 && (self.solicited || self.status != WcStatus::Success)
    }
}
