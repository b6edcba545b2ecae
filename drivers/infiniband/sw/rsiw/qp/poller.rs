// SPDX-License-Identifier: GPL-2.0

//! Polling the send queue of a process, which need not call for each request then.
//!
//! A process may ask for that when it makes a queue pair. A thread of it in the kernel is woken
//! when it has called, and polls the ring until no request has come for as many microseconds
//! as were asked for; it sends what it finds. That takes a second processor, and pays where the
//! process has one to spare: there is no call in the way of a request, and the thread that posts
//! goes on while another one sends.
//!
//! The thread is one of the process's own, so that it is the process that pays for the time.
//! Whether it polls is said by a word in memory that the process maps and may write to, which the
//! kernel never reads.
//!
//! Context: process.
#![forbid(unsafe_code)]

use crate::{
    abi::own,
    ffi::{
        mm::{
            ring::SharedWord,
            shmem::SharedMemory, //
        },
        rdma::{
            mmap::MmapEntry,
            udata::Udata, //
        },
        rsiw::queues::Queues,
        task::{
            context,
            serving::{
                Serves,
                ServingThread, //
            },
        },
    },
};
use core::mem::size_of;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};

/// What the thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It waits for a call of the process.
    Asleep,
    /// It polls the ring.
    Polls,
    /// There is none any more.
    Over,
}

/// What a process has that asked for its ring to be polled.
#[pin_data]
pub(super) struct Poller<Q: Serves> {
    /// Not 0 while the thread polls.
    word: SharedWord,
    /// For how long, in microseconds.
    us: u32,
    /// The offer to map the word.
    entry: MmapEntry,
    /// What is in the word follows from this, and changes under this lock.
    #[pin]
    phase: SpinLock<Phase>,
    /// The thread.
    thread: Arc<ServingThread<Q>>,
}

impl<Q: Serves<Reaper = Queues>> Poller<Q> {
    /// What the process gets that makes the call and asks for `us` microseconds: nothing where the
    /// kernel has no such threads, or the process one processor, on which looking would keep it
    /// from posting.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(
        us: u32,
        udata: &Udata<'_>,
        queues: &Arc<Queues>,
    ) -> Result<Option<Pin<KBox<Self>>>> {
        if us == 0 || !ServingThread::<Q>::EXIST || context::processors() < 2 {
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
                phase <- new_spinlock!(Phase::Asleep, "rsiw::Poller::phase"),
                thread,
            }),
            GFP_KERNEL_ACCOUNT,
        );
        poller.map(Some)
    }

    /// Ends the offer to map the word.
    pub(super) fn forget(&self) {
        self.entry.remove();
    }

    /// Tells the process of it.
    pub(super) fn describe(&self, resp: &mut own::CreateQpResp) {
        resp.poll_us = self.us;
        resp.poll_key = self.entry.key();
    }

    /// For how long, in microseconds.
    pub(super) fn us(&self) -> u32 {
        self.us
    }

    /// Lets the ring of `qp` be polled from the first call on. If the process cannot have one
    /// more thread it does without, and calls.
    pub(super) fn prepare(&self, qp: Arc<Q>) {
        if self.thread.start(qp).is_err() {
            self.is_over_now();
        }
    }

    /// Lets the ring be polled from now on.
    #[inline]
    pub(super) fn begin(&self) {
        if self.change(Phase::Asleep, Phase::Polls) {
            self.thread.wake();
        }
    }

    /// Goes on polling, which was about to end.
    pub(super) fn resume(&self) {
        self.change(Phase::Asleep, Phase::Polls);
    }

    /// Ends polling, until the process calls. Returns whether the thread polled.
    pub(super) fn pause(&self) -> bool {
        self.change(Phase::Polls, Phase::Asleep)
    }

    /// Nobody begins to poll any more. A thread that polls at this moment ends by itself.
    pub(super) fn end(&self) {
        self.is_over_now();
        self.thread.end();
    }

    /// Changes from one phase to another. Returns whether it was the one.
    fn change(&self, from: Phase, to: Phase) -> bool {
        let mut phase = self.phase.lock();
        let fits = *phase == from;
        if fits {
            *phase = to;
            self.word.store((to == Phase::Polls).into());
        }
        fits
    }

    /// Returns whether the thread polls.
    pub(super) fn polls(&self) -> bool {
        *self.phase.lock() == Phase::Polls
    }

    /// There is no thread any more that would act upon what was posted.
    pub(super) fn is_over_now(&self) {
        let mut phase = self.phase.lock();
        *phase = Phase::Over;
        self.word.store(0);
    }

    /// Returns whether there is none.
    pub(super) fn is_over(&self) -> bool {
        *self.phase.lock() == Phase::Over
    }
}
