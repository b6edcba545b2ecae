// SPDX-License-Identifier: GPL-2.0

//! Polling the send queue of a process, so that it need not call for each request.
//!
//! A process may ask for polling when it makes a queue pair. A thread in the kernel is woken when
//! the process calls, and sends what it finds in the ring, until no request has come for the time
//! that was asked for. That takes a second processor, and pays where the process has one to spare:
//! no call is in the way of a request, and the thread that posts goes on while another one sends.
//!
//! The thread belongs to the process, so that it is the process that pays for the time. A word in
//! memory that the process maps and may write to says whether the thread polls; the kernel never
//! reads it.
//!
//! Context: process.
#![forbid(unsafe_code)]

use crate::abi::own;
use crate::ffi::mm::ring::{
    SharedMemory,
    SharedWord, //
};
use crate::ffi::rdma::udata::{
    MmapEntry,
    Udata, //
};
use crate::ffi::rsiw::Queues;
use crate::ffi::task::{
    self,
    Serves,
    ServingThread, //
};
use core::mem::size_of;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    SpinLock, //
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollPhase {
    /// The thread waits for a call of the process.
    Asleep,
    /// The process has called, and the thread has not run since. It may be stopped, or have no
    /// processor, so the process goes on calling.
    Called,
    Polls,
    /// There is no thread any more.
    Over,
}

/// The thread that polls the ring of a process, and what the process sees of it.
#[pin_data]
pub(in crate::qp) struct Poller<Q: Serves> {
    /// Tells the process whether the thread polls: 1 if it does, otherwise 0.
    word: SharedWord,
    /// For how long to poll without a request, in microseconds.
    us: u32,
    /// The offer to map the word.
    entry: MmapEntry,
    /// What `word` says follows from this; both change under this lock.
    #[pin]
    phase: SpinLock<PollPhase>,
    thread: Arc<ServingThread<Q>>,
}

impl<Q: Serves<Reaper = Queues>> Poller<Q> {
    /// Makes the poller that the calling process asks for with `us` microseconds: none if that is
    /// 0, if the kernel has no such threads, or if the process has one processor only, on which
    /// polling would keep it from posting.
    pub(in crate::qp) fn new(
        us: u32,
        udata: &Udata<'_>,
        queues: &Arc<Queues>,
    ) -> Result<Option<Pin<KBox<Self>>>> {
        if us == 0 || !ServingThread::<Q>::EXIST || task::processors() < 2 {
            return Ok(None);
        }
        let mem = SharedMemory::new(size_of::<u32>(), queues.loaded())?;
        let word = SharedWord::new(mem.clone(), 0)?;
        let entry = MmapEntry::insert(udata, mem)?;
        let thread = ServingThread::new(queues)?;
        let poller = KBox::pin_init(
            pin_init!(Self {
                word,
                us,
                entry,
                phase <- new_spinlock!(PollPhase::Asleep, "rsiw::Poller::phase"),
                thread,
            }),
            GFP_KERNEL_ACCOUNT,
        );
        poller.map(Some)
    }

    /// Withdraws the offer to map the word.
    pub(in crate::qp) fn forget(&self) {
        self.entry.remove();
    }

    /// Fills in what the process is told.
    pub(in crate::qp) fn describe(&self, resp: &mut own::CreateQpResp) {
        resp.poll_us = self.us;
        resp.poll_key = self.entry.key();
    }

    pub(in crate::qp) fn us(&self) -> u32 {
        self.us
    }

    /// Lets the ring of `qp` be polled from the first call on. If the process cannot have one more
    /// thread, it has to call for each request. Returns `ERESTARTNOINTR` if a signal has come.
    pub(in crate::qp) fn prepare(&self, qp: Arc<Q>) -> Result {
        match self.thread.start(qp) {
            // The system call begins anew after the signal.
            Err(e) if e == ERESTARTNOINTR => return Err(e),
            Err(_) => self.set_over(),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Makes the thread poll the ring from now on.
    #[inline]
    pub(in crate::qp) fn begin(&self) {
        if self.change(PollPhase::Asleep, PollPhase::Called) {
            self.thread.wake();
        }
    }

    /// Tells the process that the thread polls. Called in that thread.
    pub(in crate::qp) fn answer(&self) {
        self.change(PollPhase::Called, PollPhase::Polls);
    }

    /// Undoes [`Poller::pause`]. Called in the thread, which goes on polling.
    pub(in crate::qp) fn resume(&self) {
        self.change(PollPhase::Asleep, PollPhase::Polls);
    }

    /// Ends polling, until the process calls. Returns whether the thread polled.
    pub(in crate::qp) fn pause(&self) -> bool {
        self.change(PollPhase::Polls, PollPhase::Asleep)
    }

    /// Ends polling for good. A thread that polls at this moment ends by itself.
    pub(in crate::qp) fn end(&self) {
        self.set_over();
        self.thread.end();
    }

    /// Changes the phase to `to` if it is `from`. Returns whether it was.
    fn change(&self, from: PollPhase, to: PollPhase) -> bool {
        let mut phase = self.phase.lock();
        let fits = *phase == from;
        if fits {
            *phase = to;
            self.word.store((to == PollPhase::Polls).into());
        }
        fits
    }

    pub(in crate::qp) fn is_due(&self) -> bool {
        matches!(*self.phase.lock(), PollPhase::Called | PollPhase::Polls)
    }

    pub(in crate::qp) fn polls(&self) -> bool {
        *self.phase.lock() == PollPhase::Polls
    }

    /// Records that no thread acts upon what is posted any more.
    pub(in crate::qp) fn set_over(&self) {
        let mut phase = self.phase.lock();
        *phase = PollPhase::Over;
        self.word.store(0);
    }

    pub(in crate::qp) fn is_over(&self) -> bool {
        *self.phase.lock() == PollPhase::Over
    }
}
