// SPDX-License-Identifier: GPL-2.0

//! Completion queues (draft-hilland-rddp-verbs section 5.3).
//!
//! A process has its queue in shared memory ([`user`]), a kernel consumer polls ([`kernel`]).
//!
//! Context: any, without a lock of the consumer's; creation and destruction sleep. Lock order: the
//! queue's lock comes after those of QPs and regions; handlers are called without it.
#![forbid(unsafe_code)]

mod kernel;
mod user;
mod vector;

pub(crate) use self::user::Kind;

use self::{
    kernel::KernelRing,
    user::{
        Moved,
        UserRing, //
    },
    vector::Vector, //
};
use crate::{
    abi::{
        notify,
        ResizeCqResp, //
    },
    ffi::{
        mm::ring::MovableWord,
        module::Loaded,
        rdma::{
            attr::Qpn,
            details::Details,
            driver::CqInit,
            handle::{
                CqHandle,
                QpHandle, //
            },
            mmap::MmapEntry,
            udata::Udata,
            wc::WcRoom,
        },
        rsiw::{
            queues::Queues,
            trace, //
        },
        task::process::memory_for,
    },
    limits::MAX_CQE,
    proto::{
        failure::{
            Cause,
            Fault, //
        },
        names::Name,
        order::Status,
        receiver::Extra,
        request::OperationType,
    },
    queue::slots::Slots,
};
use ::kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_mutex,
        new_spinlock_irq,
        Arc,
        Mutex,
        SpinLockIrq, //
    },
};

/// How a work request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The consumer's name for the request.
    pub(crate) id: u64,
    /// What it was.
    pub(crate) operation: OperationType,
    /// How it ended.
    pub(crate) status: Status<Fault>,
    /// Octets received or read.
    pub(crate) bytes: u32,
    /// Why it failed, if it did.
    pub(crate) cause: Cause,
    /// What a receive tells beside its message.
    pub(crate) extra: Extra,
    /// Number of the QP.
    pub(crate) qp: Qpn,
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
struct CqState {
    ring: Ring,
    overflow: Lost,
}

/// Whether completions were lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    No,
    /// The consumer is to be told.
    Yes,
    Told,
}

/// A completion queue.
#[pin_data]
pub(crate) struct Cq {
    handle: Arc<CqHandle>,
    /// None for processes.
    vector: Option<Arc<Vector>>,
    len: Atomic<u32>,
    /// None for kernel consumers. Held while the queue is resized.
    #[pin]
    entry: Mutex<Option<MmapEntry>>,
    #[pin]
    state: SpinLockIrq<CqState>,
    /// Notifications up to now; wraps. Changes under the queue's lock.
    notified: Atomic<u32>,
    /// The word in which a process says what it waits for. It lies in the process's ring, and there
    /// is none for a kernel consumer.
    armed: Option<MovableWord>,
    /// For another ring.
    loaded: Loaded,
}

impl Cq {
    /// Makes a queue of at least `init.cqe` entries, for the process that makes the call, which uses
    /// entries of that kind, or a kernel consumer, whose handler `init` wants called on one processor.
    ///
    /// # Errors
    ///
    /// `EINVAL` for none or too many entries, `ENOMEM`.
    pub(crate) fn new(
        handle: Arc<CqHandle>,
        init: &CqInit,
        queues: &Arc<Queues>,
        kind: Kind,
        udata: Option<&Udata<'_>>,
    ) -> Result<Arc<Self>> {
        if !(1..=MAX_CQE).contains(&init.cqe) {
            return Err(EINVAL);
        }
        let len = init.cqe.checked_next_power_of_two().ok_or(EINVAL)?;
        let loaded = queues.loaded();
        let (ring, entry, armed, vector) = match udata {
            Some(udata) => {
                let (ring, entry) = UserRing::new(len, kind, udata, loaded)?;
                let armed = MovableWord::new(ring.armed()?);
                (Ring::User(ring), Some(entry), Some(armed), None)
            }
            None => {
                let ring = Ring::Kernel(KernelRing::new(len)?);
                let vector = Vector::new(handle.clone(), queues, init.vector)?;
                (ring, None, None, Some(vector))
            }
        };
        let state = CqState {
            ring,
            overflow: Lost::No,
        };
        Arc::pin_init(
            pin_init!(Self {
                handle,
                vector,
                len: Atomic::new(len),
                entry <- new_mutex!(entry, "rsiw::Cq::entry"),
                state <- new_spinlock_irq!(state, "rsiw::Cq::state"),
                notified: Atomic::new(0),
                armed,
                loaded,
            }),
            memory_for(udata.is_some()),
        )
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// The offset by which the process maps the queue.
    pub(crate) fn mmap_key(&self) -> u64 {
        self.entry.lock().as_ref().map_or(0, MmapEntry::key)
    }

    /// Gives the queue of a process room for at least `entries` entries, in a ring of its own: what
    /// was not polled and the arming move there, and nothing gets lost (V-CQ-11). The old ring
    /// stays memory for as long as it is mapped, but nothing comes there any more. Returns the
    /// number of entries. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if more than that wait (V-CQ-12), for none or too many entries, or if the process
    /// has no room for the answer, `EOPNOTSUPP` for kernel consumers, `ENOMEM`. Nothing has changed
    /// then (V-CQ-13).
    pub(crate) fn resize(&self, entries: u32, udata: &mut Udata<'_>) -> Result<u32> {
        if !(1..=MAX_CQE).contains(&entries) {
            return Err(EINVAL);
        }
        let len = entries.checked_next_power_of_two().ok_or(EINVAL)?;
        let mut entry = self.entry.lock();
        if entry.is_none() {
            return Err(EOPNOTSUPP);
        }
        let kind = match &self.state.lock().ring {
            Ring::Kernel(_) => return Err(EOPNOTSUPP),
            Ring::User(ring) => ring.kind(),
        };
        let (mut ring, offer) = UserRing::new(len, kind, udata, self.loaded)?;
        let armed = ring.armed()?;
        udata.respond(&ResizeCqResp {
            num_cqe: len,
            pad: 0,
            cq_key: offer.key(),
        })?;
        let mut waiting = match &self.state.lock().ring {
            Ring::Kernel(_) => return Err(EOPNOTSUPP),
            Ring::User(old) => old.waiting(),
        };
        // There may be many: not with the lock, which keeps interrupts off.
        let found = waiting.count();
        let since = match &self.state.lock().ring {
            Ring::Kernel(_) => return Err(EOPNOTSUPP),
            Ring::User(old) => old.since(&waiting),
        };
        let first = waiting.copy_to(&mut ring, found, since)?;
        // What comes meanwhile fills the new ring at most, or the process polls, which it must not.
        let replaced = loop {
            let since = match &mut self.state.lock().ring {
                Ring::Kernel(_) => return Err(EOPNOTSUPP),
                Ring::User(old) => match old.go_on_in(&mut ring, &waiting)? {
                    Moved::Yes => break self.armed.as_ref().map(|word| word.replace(armed)),
                    Moved::NotYet(since) => since,
                },
            };
            waiting.catch_up(&mut ring, since)?;
        };
        ring.forget_from(first);
        self.len.store(len, Relaxed);
        let old = entry.replace(offer);
        // Memory is given up without a lock.
        drop(entry);
        drop((old, ring, replaced));
        Ok(len)
    }

    /// Makes room for `more` completions. Sleeps.
    fn add_spare(&self, more: u32) -> Result {
        // One at a time: what is allocated for one is enough for that one.
        let _resizing = self.entry.lock();
        let lacks = match &self.state.lock().ring {
            Ring::User(_) => return Ok(()),
            Ring::Kernel(ring) => ring.lacks(more),
        };
        let mut memory = lacks.map(KernelRing::memory).transpose()?;
        if let Ring::Kernel(ring) = &mut self.state.lock().ring {
            ring.add_spare(more, memory.as_mut());
        }
        // What was replaced is given up without the lock.
        drop(memory);
        Ok(())
    }

    /// Ends the offer to map the queue. Sleeps.
    ///
    /// To be called when the queue is destroyed. Late completions are harmless: the memory stays,
    /// and the handle lets no handler be called.
    pub(crate) fn close(&self) {
        if let Some(entry) = &*self.entry.lock() {
            entry.remove();
        }
    }

    /// Adds a completion of a request of `qp`, which frees one of `slots` when it is polled.
    /// Returns whether the consumer waits for one like this: then the caller is to call
    /// [`Cq::notify`] once it holds no lock. Any context.
    ///
    /// # Errors
    ///
    /// [`Overflow`] if the queue is full; see [`Cq::report`].
    pub(crate) fn add(
        &self,
        completion: &Completion,
        qp: &Arc<QpHandle>,
        slots: Option<&Arc<Slots>>,
    ) -> Result<bool, Overflow> {
        let mut state = self.state.lock();
        trace::completion(&self.handle, || completion.fields());
        let added = match &mut state.ring {
            Ring::User(ring) => ring.add(completion),
            Ring::Kernel(ring) => ring.add(completion, qp, slots),
        };
        if added.is_err() && state.overflow == Lost::No {
            state.overflow = Lost::Yes;
        }
        if added == Ok(true) {
            let notified = self.notified.load(Relaxed);
            self.notified.store(notified.wrapping_add(1), Relaxed);
        }
        added
    }

    /// Tells the consumer, once, that completions were lost. Any context, without a lock.
    pub(crate) fn report(&self) {
        let mut state = self.state.lock();
        if state.overflow != Lost::Yes {
            return;
        }
        state.overflow = Lost::Told;
        drop(state);
        self.handle.overflowed();
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

    /// Asks for one call of the handler, at the next completion or the next solicited one. Returns
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

    /// Whether the consumer, a process, waits for a notification rather than looking for
    /// completions all the time. Any context; takes no lock.
    #[inline(never)]
    pub(crate) fn is_awaited(&self) -> bool {
        let armed = self.armed.as_ref();
        armed.is_some_and(|word| word.load() != notify::NOT)
    }

    /// Number of notifications to the consumer up to now; wraps. Any context.
    #[inline]
    pub(crate) fn notified(&self) -> u32 {
        self.notified.load(Relaxed)
    }

    /// Forgets the completions of a QP that is being destroyed, if they are a kernel consumer's. No
    /// more of them must come. Any context.
    pub(crate) fn forget(&self, qp: &QpHandle) {
        if let Ring::Kernel(ring) = &mut self.state.lock().ring {
            ring.forget(qp);
        }
    }

    /// Tells how it is.
    ///
    /// # Errors
    ///
    /// Those of [`Details`].
    pub(crate) fn describe(&self, to: &mut Details<'_>) -> Result {
        let (armed, waiting, lost) = {
            let state = self.state.lock();
            let (armed, waiting) = match &state.ring {
                Ring::User(ring) => (ring.armed_for(), None),
                Ring::Kernel(ring) => (ring.armed_for(), Some(ring.len())),
            };
            (armed, waiting, state.overflow != Lost::No)
        };
        to.number(c"entries", self.len())?;
        if let Some(waiting) = waiting {
            to.count(c"waiting", waiting)?;
        }
        let armed = if armed & notify::NEXT_COMPLETION != 0 {
            c"next"
        } else if armed & notify::SOLICITED != 0 {
            c"solicited"
        } else {
            c"no"
        };
        to.word(c"armed", armed)?;
        to.flag(c"overflowed", lost)
    }

    /// Calls the consumer's handler, if that is one in the kernel in softirq. Any context with
    /// interrupts on, without a lock that the handler might take.
    pub(crate) fn notify(&self) {
        match &self.vector {
            Some(vector) => Vector::notify(vector),
            None => self.handle.notify(),
        }
    }
}

/// Entries of a queue beyond those that a kernel consumer asked for.
///
/// The consumer counts requests that complete, as many as it asks for in its send queue, which has
/// more slots than that. Each of these makes a completion if it is flushed.
pub(crate) struct Spare {
    cq: Arc<Cq>,
    entries: Atomic<u32>,
}

impl Spare {
    /// Has none yet.
    pub(crate) fn new(cq: Arc<Cq>) -> Self {
        Self {
            cq,
            entries: Atomic::new(0),
        }
    }

    /// Has at least `entries`. Nothing is done for the queue of a process. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn extend(&self, entries: u32) -> Result {
        let more = entries.checked_sub(self.entries.load(Relaxed));
        if let Some(more) = more.filter(|more| *more > 0) {
            self.cq.add_spare(more)?;
            self.entries.fetch_add(more, Relaxed);
        }
        Ok(())
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if let Ring::Kernel(ring) = &mut self.cq.state.lock().ring {
            ring.drop_spare(self.entries.load(Relaxed));
        }
    }
}

impl Completion {
    /// What a trace event tells of it.
    fn fields(&self) -> (u32, u64, Name, Name, u32, u32) {
        let (operation, status) = (self.operation.name(), self.status.name());
        (
            self.qp.0,
            self.id,
            operation,
            status,
            self.bytes,
            self.cause.0,
        )
    }

    /// Whether a consumer that armed the queue with `armed` is to be told of this (T-14).
    fn fires(&self, armed: u32) -> bool {
        if armed & notify::NEXT_COMPLETION != 0 {
            return true;
        }
        armed & notify::SOLICITED != 0 && (self.solicited || self.status != Status::Success)
    }
}
