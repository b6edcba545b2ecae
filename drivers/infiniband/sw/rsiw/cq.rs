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

use self::kernel::{
    KernelRing,
    Vector, //
};
use self::user::{
    Moved,
    UserRing, //
};
use crate::abi::own::ResizeCqReq;
use crate::abi::{
    notify,
    ResizeCqResp, //
};
use crate::ffi::mm::movable::MovableWord;
use crate::ffi::module::Loaded;
use crate::ffi::rdma::attr::Qpn;
use crate::ffi::rdma::driver::CqInit;
use crate::ffi::rdma::handle::{
    CqHandle,
    QpHandle, //
};
use crate::ffi::rdma::stats::Details;
use crate::ffi::rdma::udata::{
    MmapEntry,
    Udata, //
};
use crate::ffi::rdma::wr::WcRoom;
use crate::ffi::rsiw::{
    trace,
    Queues, //
};
use crate::ffi::sync::{
    Watch,
    Watched, //
};
use crate::ffi::task::memory_for;
use crate::limits::{
    Limits,
    Quota,
    MAX_CQE, //
};
use crate::proto::failure::{
    Cause,
    Fault, //
};
use crate::proto::receiver::Extra;
use crate::proto::request::OperationType;
use crate::proto::sends::Status;
use crate::queue::shared::Offer;
use crate::queue::Slots;
use ::kernel::prelude::*;
use ::kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use ::kernel::sync::{
    new_spinlock_irq,
    Arc, //
};

pub(crate) use self::user::Kind;

/// How a work request ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The consumer's name for the request.
    pub(crate) id: u64,
    pub(crate) operation: OperationType,
    pub(crate) status: Status<Fault>,
    /// Octets received or read.
    pub(crate) bytes: u32,
    pub(crate) cause: Cause,
    /// What a receive tells beside its message.
    pub(crate) extra: Extra,
    pub(crate) qp: Qpn,
    /// A receive of a Send with Solicited Event.
    pub(crate) solicited: bool,
}

/// The queue is full: the completion is lost, and its QP has to end (V-CQ-7, T-43).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

enum CqRing {
    User(UserRing),
    Kernel(KernelRing),
}

impl CqRing {
    /// Returns the ring of a process, or `EOPNOTSUPP` for a kernel consumer.
    fn user(&mut self) -> Result<&mut UserRing> {
        match self {
            CqRing::User(ring) => Ok(ring),
            CqRing::Kernel(_) => Err(EOPNOTSUPP),
        }
    }
}

/// What the queue's lock protects.
struct CqState {
    ring: CqRing,
    overflow: Lost,
}

/// Whether completions were lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    No,
    /// The consumer has yet to be told.
    Yes,
    Told,
}

/// What is told of a queue to those who do not have its lock.
struct CqTold {
    /// Completions that wait, for a kernel consumer.
    waiting: u32,
    /// What a kernel consumer waits for: flags of [`notify`].
    armed: u32,
    overflowed: bool,
}

impl Watch for CqState {
    /// The number of completions that wait, 32 bits; then what the queue is armed for, 31; and
    /// whether completions were lost. The first two are 0 for a process.
    #[inline(always)]
    fn word(&self) -> u64 {
        let lost = u64::from(self.overflow != Lost::No) << 63;
        match &self.ring {
            CqRing::User(_) => lost,
            // CAST: the length is at most 32 bits.
            CqRing::Kernel(ring) => ring.len() as u64 | u64::from(ring.armed_for()) << 32 | lost,
        }
    }
}

impl CqTold {
    /// Returns the parts of a word that [`CqState`] has made.
    fn of(word: u64) -> Self {
        Self {
            // CAST: the lower half.
            waiting: word as u32,
            // CAST: the upper half.
            armed: (word >> 32) as u32 & (u32::MAX >> 1),
            overflowed: word >> 63 != 0,
        }
    }
}

/// A ring that the queue of a process may go on in, and the offer to map it.
type NewCqRing = (UserRing, MmapEntry);

/// Who polls a queue, as far as is known without the queue's lock.
enum CqConsumer {
    /// A process, which says in this word of its ring what it waits for.
    Process(MovableWord),
    /// A consumer in the kernel, whose handler is called through this.
    Kernel(Arc<Vector>),
}

/// A completion queue, to which any number of queue pairs add. What is left of a queue pair may
/// keep the queue longer than the core does.
#[pin_data]
pub(crate) struct Cq {
    handle: Arc<CqHandle>,
    consumer: CqConsumer,
    len: Atomic<u32>,
    #[pin]
    offer: Offer<NewCqRing>,
    #[pin]
    state: Watched<CqState>,
    /// Notifications up to now; wraps. Changes under the queue's lock.
    notified: Atomic<u32>,
    /// Needed for the ring that a resize makes.
    loaded: Loaded,
    _quota: Quota,
}

impl Cq {
    /// Creates a queue of at least `init.cqe` entries: with `udata` for the calling process, whose
    /// entries are of that `kind`, else for a kernel consumer, whose handler is called on processor
    /// `init.vector`. Returns `ENOMEM`, also if the device has all the queues it may have, or
    /// `EINVAL` for no entries or too many.
    pub(crate) fn new(
        handle: Arc<CqHandle>,
        init: &CqInit,
        limits: &Arc<Limits>,
        queues: &Arc<Queues>,
        kind: Kind,
        udata: Option<&Udata<'_>>,
    ) -> Result<Arc<Self>> {
        let quota = Quota::take(limits, |limits| &limits.cqs)?;
        if !(1..=MAX_CQE).contains(&init.cqe) {
            return Err(EINVAL);
        }
        let len = init.cqe.checked_next_power_of_two().ok_or(EINVAL)?;
        let loaded = queues.loaded();
        let (ring, entry, consumer) = match udata {
            Some(udata) => {
                let (ring, entry) = UserRing::new(len, kind, udata, loaded)?;
                let armed = MovableWord::new(ring.armed()?);
                (CqRing::User(ring), Some(entry), CqConsumer::Process(armed))
            }
            None => {
                let ring = CqRing::Kernel(KernelRing::new(len)?);
                let vector = Vector::new(handle.clone(), queues, init.vector)?;
                (ring, None, CqConsumer::Kernel(vector))
            }
        };
        let state = CqState {
            ring,
            overflow: Lost::No,
        };
        Arc::pin_init(
            pin_init!(Self {
                handle,
                consumer,
                len: Atomic::new(len),
                offer <- Offer::new(entry),
                state <- Watched::new(new_spinlock_irq!(state, "rsiw::Cq::state")),
                notified: Atomic::new(0),
                loaded,
                _quota: quota,
            }),
            memory_for(udata.is_some()),
        )
    }

    pub(crate) fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// Returns the processor that is the vector of a kernel consumer's queue.
    pub(crate) fn processor(&self) -> Option<u32> {
        match &self.consumer {
            CqConsumer::Process(_) => None,
            CqConsumer::Kernel(vector) => Some(vector.processor()),
        }
    }

    /// Returns the offset by which the process maps the queue.
    pub(crate) fn mmap_key(&self) -> u64 {
        self.offer.key()
    }

    /// Gives the queue of a process at least `entries` entries, and returns the number that it has
    /// then. A request may also ask for one step of that only. The completions that were not
    /// polled, and what the process has asked to be told of, move to a new ring. Nothing gets lost
    /// (V-CQ-11). The old ring stays in memory for as long as it is mapped, but gets no more
    /// entries. Sleeps.
    ///
    /// # Errors
    ///
    /// `EINVAL` if more completions wait than there is room for (V-CQ-12), for no entries or too
    /// many, if the process has no room for the answer, or if it moves to a ring that was not made;
    /// `EOPNOTSUPP` for kernel consumers; `ENOMEM`, `EFAULT`. Nothing has changed then (V-CQ-13).
    pub(crate) fn resize(&self, entries: u32, udata: &mut Udata<'_>) -> Result<u32> {
        let step = udata.read_from::<ResizeCqReq>(0)?.step()?;
        let mut offered = self.offer.offered();
        let made = &mut offered.made;
        let new = made.take_step(step, || self.make_ring(entries, udata))?;
        let Some((mut ring, entry)) = new else {
            return Ok(self.len());
        };
        let (len, armed) = (ring.len(), ring.armed()?);
        let mut waiting = self.state.lock().ring.user()?.waiting();
        // Without the lock, which keeps interrupts off, as there may be many.
        let found = waiting.count();
        let since = self.state.lock().ring.user()?.since(&waiting);
        let first = waiting.copy_to(&mut ring, found, since)?;
        // This loop ends: what comes meanwhile can at most fill the new ring, which is an error.
        let replaced = loop {
            let mut state = self.state.lock();
            let since = match state.ring.user()?.go_on_in(&mut ring, &waiting)? {
                Moved::Yes => break self.armed().map(|word| word.replace(armed)),
                Moved::NotYet(since) => since,
            };
            drop(state);
            waiting.catch_up(&mut ring, since)?;
        };
        ring.forget_from(first);
        self.len.store(len, Relaxed);
        let old = offered.entry.replace(entry);
        // Memory is freed without a lock held.
        drop(offered);
        drop((old, ring, replaced));
        Ok(len)
    }

    /// Makes a ring of at least `entries` entries, and tells the process how to map it.
    fn make_ring(&self, entries: u32, udata: &mut Udata<'_>) -> Result<NewCqRing> {
        if !(1..=MAX_CQE).contains(&entries) {
            return Err(EINVAL);
        }
        let len = entries.checked_next_power_of_two().ok_or(EINVAL)?;
        let kind = self.state.lock().ring.user()?.kind();
        let (ring, entry) = UserRing::new(len, kind, udata, self.loaded)?;
        udata.respond(&ResizeCqResp {
            num_cqe: len,
            pad: 0,
            cq_key: entry.key(),
        })?;
        Ok((ring, entry))
    }

    /// Makes room for `more` completions of a kernel consumer. Sleeps.
    fn add_spare(&self, more: u32) -> Result {
        // This is done by one caller at a time, so that what each allocates is enough.
        let _resizing = self.offer.offered();
        let lacks = match &self.state.lock().ring {
            CqRing::User(_) => return Ok(()),
            CqRing::Kernel(ring) => ring.lacks(more),
        };
        let mut memory = lacks.map(KernelRing::memory).transpose()?;
        if let CqRing::Kernel(ring) = &mut self.state.lock().ring {
            ring.add_spare(more, memory.as_mut());
        }
        // The memory that was replaced is freed without the lock.
        drop(memory);
        Ok(())
    }

    /// Ends the offer to map the queue, as it is being destroyed. Late completions are harmless:
    /// the memory stays, and the handle lets no handler be called. Sleeps.
    pub(crate) fn close(&self) {
        self.offer.close();
    }

    /// Adds a completion of a request of `qp`, which frees one of `slots` when it is polled.
    /// Returns whether the consumer waits for it; if so, [`Cq::notify`] is to be called once no
    /// lock is held. Any context.
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
            CqRing::User(ring) => ring.add(completion),
            CqRing::Kernel(ring) => ring.add(completion, qp, slots),
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

    /// Moves completions to a kernel consumer; `EINVAL` for the queue of a process. Any context.
    pub(crate) fn poll(&self, room: &mut WcRoom<'_>) -> Result {
        match &mut self.state.lock().ring {
            CqRing::User(_) => return Err(EINVAL),
            CqRing::Kernel(ring) => ring.poll(room),
        }
        Ok(())
    }

    /// Asks for one call of the handler, at the next completion or the next solicited one. Returns
    /// whether completions wait already, or `EINVAL` for the queue of a process. Any context.
    pub(crate) fn arm(&self, solicited: bool) -> Result<bool> {
        match &mut self.state.lock().ring {
            CqRing::User(_) => Err(EINVAL),
            CqRing::Kernel(ring) => Ok(ring.arm(solicited)),
        }
    }

    /// Returns whether the consumer, which is a process, waits for a notification. If not, it polls
    /// all the time. Any context; takes no lock.
    #[inline(never)]
    pub(crate) fn is_awaited(&self) -> bool {
        self.armed().is_some_and(|word| word.load() != notify::NOT)
    }

    /// Returns the word in which a process says what it waits for.
    fn armed(&self) -> Option<&MovableWord> {
        match &self.consumer {
            CqConsumer::Process(word) => Some(word),
            CqConsumer::Kernel(_) => None,
        }
    }

    /// Returns the number of notifications to the consumer so far, which wraps. Any context.
    #[inline]
    pub(crate) fn notified(&self) -> u32 {
        self.notified.load(Relaxed)
    }

    /// Drops a kernel consumer's completions of a QP that is being destroyed. No more of them may
    /// come. Any context.
    pub(crate) fn forget(&self, qp: &QpHandle) {
        if let CqRing::Kernel(ring) = &mut self.state.lock().ring {
            ring.forget(qp);
        }
    }

    pub(crate) fn describe(&self, to: &mut Details<'_>) -> Result {
        let told = CqTold::of(self.state.word());
        to.number(c"entries", self.len())?;
        let armed = match &self.consumer {
            CqConsumer::Process(word) => word.load(),
            CqConsumer::Kernel(_) => {
                to.number(c"waiting", told.waiting)?;
                told.armed
            }
        };
        let armed = if armed & notify::NEXT_COMPLETION != 0 {
            c"next"
        } else if armed & notify::SOLICITED != 0 {
            c"solicited"
        } else {
            c"no"
        };
        to.word(c"armed", armed)?;
        to.flag(c"overflowed", told.overflowed)
    }

    /// Calls the consumer's handler, that of a kernel consumer in softirq. Any context with
    /// interrupts on, without a lock that the handler might take.
    pub(crate) fn notify(&self) {
        match &self.consumer {
            CqConsumer::Process(_) => self.handle.notify(),
            CqConsumer::Kernel(vector) => Vector::notify(vector),
        }
    }
}

/// Entries of a queue beyond those that a kernel consumer asked for.
///
/// The consumer sizes the queue for the sends that it asks for. Its send queue has more slots than
/// that, each of which makes a completion if it is flushed.
pub(crate) struct Spare {
    cq: Arc<Cq>,
    entries: Atomic<u32>,
}

impl Spare {
    pub(crate) fn new(cq: Arc<Cq>) -> Self {
        Self {
            cq,
            entries: Atomic::new(0),
        }
    }

    /// Raises the number of these entries to at least `entries`, or returns `ENOMEM`. Does nothing
    /// for the queue of a process. Sleeps.
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
        if let CqRing::Kernel(ring) = &mut self.cq.state.lock().ring {
            ring.drop_spare(self.entries.load(Relaxed));
        }
    }
}

impl Completion {
    /// Returns what a trace event shows.
    fn fields(&self) -> (u32, u64, &'static CStr, &'static CStr, u32, u32) {
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

    /// Returns whether a consumer that armed the queue with `armed` is to be told of this (T-14).
    fn fires(&self, armed: u32) -> bool {
        if armed & notify::NEXT_COMPLETION != 0 {
            return true;
        }
        armed & notify::SOLICITED != 0 && (self.solicited || self.status != Status::Success)
    }
}
