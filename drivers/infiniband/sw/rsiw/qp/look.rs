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

use super::{
    control::Inner,
    effects::After,
    Qp, //
};
use crate::{
    abi::own,
    ffi::{
        clock, context,
        module::Loaded,
        rdma::{
            mmap::MmapEntry,
            udata::Udata, //
        },
        ring::SharedWord,
        serving::{
            Serves,
            ServingThread, //
        },
        shmem::SharedMemory,
    },
    proto::tuning::nanos,
};
use core::mem::size_of;
use kernel::{
    new_spinlock,
    prelude::*,
    processor::cpu_relax,
    sync::{
        barrier::{
            smp_mb,
            Full, //
        },
        Arc,
        ArcBorrow,
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
pub(super) struct Look {
    /// Not 0 while somebody looks.
    word: SharedWord,
    /// For how long, in microseconds.
    us: u32,
    /// The offer to map the word.
    entry: MmapEntry,
}

impl Look {
    /// What the process gets that makes the call and asks for `us` microseconds: nothing where the
    /// kernel has no such threads, or the process one processor, on which looking would keep it
    /// from posting.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(us: u32, udata: &Udata<'_>, loaded: Loaded) -> Result<Option<Self>> {
        if us == 0 || !ServingThread::<Qp>::EXIST || context::processors() < 2 {
            return Ok(None);
        }
        let mem = SharedMemory::new(size_of::<u32>(), loaded)?;
        Ok(Some(Self {
            word: SharedWord::new(mem.clone(), 0)?,
            us,
            entry: MmapEntry::insert(udata, mem)?,
        }))
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
}

/// The thread that looks, if there is one.
#[pin_data]
pub(super) struct Looker {
    #[pin]
    thread: ServingThread<Qp>,
    /// What is in the word follows from this, and changes under this lock.
    #[pin]
    phase: SpinLock<Phase>,
}

impl Looker {
    /// There is no thread.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            thread <- ServingThread::new(),
            phase <- new_spinlock!(Phase::Over, "rsiw::Looker::phase"),
        })
    }

    /// Changes from one phase to another. Returns whether it was the one.
    fn change(&self, look: &Look, from: Phase, to: Phase) -> bool {
        let mut phase = self.phase.lock();
        let fits = *phase == from;
        if fits {
            *phase = to;
            look.word.store((to == Phase::Looks).into());
        }
        fits
    }

    /// Whether the thread looks.
    fn looks(&self) -> bool {
        *self.phase.lock() == Phase::Looks
    }

    /// There is no thread any more that would act upon what was posted.
    fn is_over(&self, look: &Look) {
        *self.phase.lock() = Phase::Over;
        look.word.store(0);
    }
}

/// What came of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// No request, or somebody else is at work on them.
    Nothing,
    /// Requests, of which some were taken out.
    Taken,
    /// Requests that have to wait: who goes on with them is notified by other means.
    Waiting,
}

impl Qp {
    /// Lets the queue be looked at from the first call on, if the process has asked for that.
    ///
    /// # Errors
    ///
    /// See [`ServingThread::start`].
    pub(super) fn prepare_to_look(self: &Arc<Self>) -> Result {
        if let Some(look) = self.consumer.look() {
            self.looker.thread.start(self.clone())?;
            self.looker.change(look, Phase::Over, Phase::Asleep);
        }
        Ok(())
    }

    /// Lets the queue be looked at from now on, if the process has asked for that.
    #[inline]
    pub(super) fn begin_to_look(&self) {
        if let Some(look) = self.consumer.look() {
            if self.looker.change(look, Phase::Asleep, Phase::Looks) {
                self.looker.thread.wake();
            }
        }
    }

    /// Nobody looks any more. Sleeps.
    pub(super) fn end_looking(&self) {
        if let Some(look) = self.consumer.look() {
            self.looker.is_over(look);
            self.looker.thread.stop();
        }
    }

    /// Sends what is in the queue, or flushes it. What may be looked at has nobody who waits for a
    /// better time.
    fn deal_with_posted(self: &Arc<Self>, inner: &mut Inner, after: &mut After) -> Seen {
        if inner.ring.is_empty() {
            return Seen::Nothing;
        }
        let before = inner.ring.taken();
        self.send_posts(inner, after);
        if inner.ring.taken() == before {
            Seen::Waiting
        } else {
            Seen::Taken
        }
    }

    /// Looks at the queue once, if nobody else does.
    fn look_once(self: &Arc<Self>) -> Seen {
        let Some(mut inner) = self.inner.try_lock() else {
            return Seen::Nothing;
        };
        let mut after = After::default();
        let seen = self.deal_with_posted(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        seen
    }

    /// Looks at the queue until something was taken out, or for as long as was asked for. Returns
    /// whether something was.
    fn look_for_a_while(self: &Arc<Self>, us: u32) -> bool {
        let end = clock::now().saturating_add(nanos(us));
        loop {
            match self.look_once() {
                Seen::Taken => return true,
                Seen::Waiting => return false,
                Seen::Nothing => {}
            }
            if clock::now() >= end || context::is_wanted() {
                return false;
            }
            cpu_relax();
        }
    }

    /// Looks no more, until the process calls. What was posted before it could see that is dealt
    /// with.
    fn stop_looking(self: &Arc<Self>, look: &Look) {
        if !self.looker.change(look, Phase::Looks, Phase::Asleep) {
            return;
        }
        // The process has set the flags of an entry, and then found the word set: the entry is seen
        // below. Else it finds the word cleared, and calls.
        smp_mb(Full);
        let mut after = After::default();
        let mut inner = self.inner.lock();
        let seen = self.deal_with_posted(&mut inner, &mut after);
        drop(inner);
        after.run(self);
        if seen == Seen::Taken {
            self.looker.change(look, Phase::Asleep, Phase::Looks);
        }
    }
}

impl Serves for Qp {
    const NAME: &'static CStr = c"rsiw-look";

    fn is_due(this: ArcBorrow<'_, Self>) -> bool {
        this.looker.looks()
    }

    fn serve(this: ArcBorrow<'_, Self>) {
        let qp = Arc::from(this);
        if let Some(look) = qp.consumer.look() {
            if !qp.look_for_a_while(look.us) {
                qp.stop_looking(look);
            }
        }
    }

    fn is_over(this: ArcBorrow<'_, Self>) {
        if let Some(look) = this.consumer.look() {
            this.looker.is_over(look);
        }
    }
}
