// SPDX-License-Identifier: GPL-2.0

//! Completion queues (draft-hilland-rddp-verbs section 5.3).
//!
//! The ring is the process's as much as ours: it polls and arms by writing to it. The index of the
//! next entry to fill is private, entries are never read back, and the flags of user space decide
//! nothing but whether there is room and whether someone waits (T-43).
//!
//! Context: [`Cq::push`] in any context without a lock of the consumer's; creation and destruction
//! sleep. Lock order: the queue's lock comes after those of QPs and regions; handlers are called
//! without it.
#![forbid(unsafe_code)]

use crate::{
    abi::{
        notify,
        wqe,
        CqCtrl,
        Cqe,
        Opcode,
        WcStatus, //
    },
    ffi::{
        rdma::{
            attr::EventType,
            driver::HasCqHandle,
            handle::CqHandle,
            mmap::MmapEntry,
            udata::Udata, //
        },
        ring::{
            SharedRing,
            SharedWord, //
        },
        shmem::SharedMemory,
    },
    wire::ddp::Stag,
};
use core::mem::size_of;
use kernel::{
    prelude::*,
    sync::{
        barrier::{
            smp_mb,
            Full, //
        },
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

/// What the queue's lock protects.
struct State {
    /// Number of the next entry; wraps.
    put: u32,
    /// The event was raised.
    overflowed: bool,
}

/// A completion queue of a process.
#[pin_data]
pub(crate) struct Cq {
    handle: Arc<CqHandle>,
    ring: SharedRing<Cqe>,
    /// [`CqCtrl::flags`].
    armed: SharedWord,
    entry: MmapEntry,
    #[pin]
    state: SpinLockIrq<State>,
}

impl HasCqHandle for Cq {
    fn handle(&self) -> &CqHandle {
        &self.handle
    }
}

impl Cq {
    /// Makes a queue of at least `entries` entries for the process that makes the call.
    ///
    /// # Errors
    ///
    /// `EINVAL` for none or too many entries, `ENOMEM`.
    pub(crate) fn new(handle: Arc<CqHandle>, entries: u32, udata: &Udata<'_>) -> Result<Arc<Self>> {
        if !(1..=MAX_CQE).contains(&entries) {
            return Err(EINVAL);
        }
        let entries = entries.checked_next_power_of_two().ok_or(EINVAL)?;
        let ctrl = SharedRing::<Cqe>::bytes(entries)?;
        let len = ctrl.checked_add(size_of::<CqCtrl>()).ok_or(EINVAL)?;
        let mem = SharedMemory::new(len)?;
        let ring = SharedRing::new(mem.clone(), entries)?;
        let armed = SharedWord::new(mem.clone(), ctrl)?;
        let entry = MmapEntry::insert(udata, mem)?;
        let state = State {
            put: 0,
            overflowed: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                handle,
                ring,
                armed,
                entry,
                state <- new_spinlock_irq!(state, "rsiw::Cq::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> u32 {
        self.ring.len()
    }

    /// The offset by which the process maps the queue.
    pub(crate) fn mmap_key(&self) -> u64 {
        self.entry.key()
    }

    /// Ends the offer to map the queue. Sleeps.
    ///
    /// To be called when the queue is destroyed. Late completions are harmless: the memory stays,
    /// and the handle lets no handler be called.
    pub(crate) fn close(&self) {
        self.entry.remove();
    }

    /// Adds a completion. Gives whether the consumer waits for one like this: then the caller is to
    /// call [`Cq::notify`] once it holds no lock. Any context.
    ///
    /// # Errors
    ///
    /// [`Overflow`] if the queue is full. The consumer is told by an event, once.
    pub(crate) fn add(&self, completion: &Completion) -> Result<bool, Overflow> {
        let mut state = self.state.lock();
        let index = state.put;
        if self.ring.flags(index) != 0 {
            let first = !core::mem::replace(&mut state.overflowed, true);
            drop(state);
            if first {
                self.handle.event(EventType::CqError);
            }
            return Err(Overflow);
        }
        self.ring.publish(index, &completion.to_cqe());
        state.put = index.wrapping_add(1);
        // The consumer arms, then polls; we publish, then look whether it armed. One of the two
        // sees the other.
        smp_mb(Full);
        let notify = completion.fires(self.armed.load());
        if notify {
            // One call per arming.
            self.armed.store(notify::NOT);
        }
        Ok(notify)
    }

    /// Calls the consumer's handler. Any context, without a lock that the handler might take.
    pub(crate) fn notify(&self) {
        self.handle.notify();
    }
}

impl Completion {
    /// The entry that reports this.
    fn to_cqe(self) -> Cqe {
        let mut flags = wqe::VALID;
        if self.invalidated.is_some() {
            flags |= wqe::REM_INVAL;
        }
        Cqe {
            id: self.id,
            flags: flags as u8,         // CAST: the bits used are below 8.
            opcode: self.opcode as u8,  // CAST: the enumeration's representation.
            status: self.status as u16, // CAST: the enumeration's representation.
            bytes: self.bytes,
            inval_stag: self.invalidated.map_or(0, |stag| u64::from(stag.0)),
            qp_id: u64::from(self.qp),
        }
    }

    /// Whether a consumer that armed the queue with `armed` is to be told of this (T-14).
    fn fires(&self, armed: u32) -> bool {
        if armed & notify::NEXT_COMPLETION != 0 {
            return true;
        }
        armed & notify::SOLICITED != 0 && (self.solicited || self.status != WcStatus::Success)
    }
}
