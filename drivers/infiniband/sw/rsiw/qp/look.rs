// SPDX-License-Identifier: GPL-2.0

//! Looking at the send queue of a process, which need not call for each request then.
//!
//! A process may ask for that when it makes a queue pair. A thread of it in the kernel is woken
//! when it has called, and looks at the queue until no request has come for as many microseconds
//! as were asked for; it sends what it finds. That takes a second processor, and pays where the
//! process has one to spare: there is no call in the way of a request, and the thread that posts
//! goes on while another one sends.
//!
//! The thread is one of the process's own, so that it is the process that pays for the time.
//! Whether it looks is said by a word in memory that the process maps and may write to, which the
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
    /// It looks at the queue.
    Looks,
    /// There is none any more.
    Over,
}

/// What a process has that asked for its queue to be looked at.
#[pin_data]
pub(super) struct Look<Q: Serves> {
    /// Not 0 while somebody looks.
    word: SharedWord,
    /// For how long, in microseconds.
    us: u32,
    /// The offer to map the word.
    entry: MmapEntry,
    /// What is in the word follows from this, and changes under this lock.
    #[pin]
    phase: SpinLock<Phase>,
    /// Who looks.
    thread: Arc<ServingThread<Q>>,
}

impl<Q: Serves<Reaper = Queues>> Look<Q> {
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
        let look = KBox::pin_init(
            pin_init!(Self {
                word,
                us,
                entry,
                phase <- new_spinlock!(Phase::Asleep, "rsiw::Look::phase"),
                thread,
            }),
            GFP_KERNEL_ACCOUNT,
        );
        look.map(Some)
    }

    /// Ends the offer to map the word.
    pub(super) fn forget(&self) {
        self.entry.remove();
    }

    /// Tells the process of it.
    pub(super) fn tell(&self, resp: &mut own::CreateQpResp) {
        resp.look_us = self.us;
        resp.look_key = self.entry.key();
    }

    /// For how long, in microseconds.
    pub(super) fn us(&self) -> u32 {
        self.us
    }

    /// Lets the queue of `qp` be looked at from the first call on. If the process cannot have one
    /// more thread it does without, and calls.
    pub(super) fn prepare(&self, qp: Arc<Q>) {
        if self.thread.start(qp).is_err() {
            self.is_over_now();
        }
    }

    /// Lets the queue be looked at from now on.
    #[inline]
    pub(super) fn begin(&self) {
        if self.change(Phase::Asleep, Phase::Looks) {
            self.thread.wake();
        }
    }

    /// Goes on looking, which was about to end.
    pub(super) fn go_on(&self) {
        self.change(Phase::Asleep, Phase::Looks);
    }

    /// Ends looking, until the process calls. Returns whether the thread looked.
    pub(super) fn pause(&self) -> bool {
        self.change(Phase::Looks, Phase::Asleep)
    }

    /// Nobody begins to look any more. Who looks at this moment ends by himself.
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
            self.word.store((to == Phase::Looks).into());
        }
        fits
    }

    /// Whether the thread looks.
    pub(super) fn looks(&self) -> bool {
        *self.phase.lock() == Phase::Looks
    }

    /// There is no thread any more that would act upon what was posted.
    pub(super) fn is_over_now(&self) {
        let mut phase = self.phase.lock();
        *phase = Phase::Over;
        self.word.store(0);
    }

    /// Whether there is none.
    pub(super) fn is_over(&self) -> bool {
        *self.phase.lock() == Phase::Over
    }
}
