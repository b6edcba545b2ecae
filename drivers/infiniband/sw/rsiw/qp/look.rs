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
        workqueue::Queues,
    },
    proto::{
        schedule::Reason,
        tuning::nanos, //
    },
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
#[pin_data]
pub(super) struct Look {
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
    thread: Arc<ServingThread<Qp>>,
}

impl Look {
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
        if us == 0 || !ServingThread::<Qp>::EXIST || context::processors() < 2 {
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
    fn looks(&self) -> bool {
        *self.phase.lock() == Phase::Looks
    }

    /// There is no thread any more that would act upon what was posted.
    fn end(&self) {
        let mut phase = self.phase.lock();
        *phase = Phase::Over;
        self.word.store(0);
    }

    /// Whether there is none.
    fn is_over(&self) -> bool {
        *self.phase.lock() == Phase::Over
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
    /// Lets the queue be looked at from the first call on, if the process has asked for that. If it
    /// cannot have one more thread it does without, and calls.
    pub(super) fn prepare_to_look(self: &Arc<Self>) {
        if let Some(look) = self.look.as_deref() {
            if look.thread.start(self.clone()).is_err() {
                look.end();
            }
        }
    }

    /// What the process has whose queue is looked at.
    #[inline]
    pub(super) fn looked_at(&self) -> Option<&Look> {
        self.look.as_deref().filter(|look| !look.is_over())
    }

    /// Lets the queue be looked at from now on, if the process has asked for that.
    #[inline]
    pub(super) fn begin_to_look(&self) {
        if let Some(look) = self.look.as_deref() {
            if look.change(Phase::Asleep, Phase::Looks) {
                look.thread.wake();
            }
        }
    }

    /// Nobody begins to look any more. Who looks at this moment ends by himself.
    pub(super) fn end_looking(&self) {
        if let Some(look) = self.look.as_deref() {
            look.end();
            look.thread.end();
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

    /// Looks at the queue until something was taken out, for as long as was asked for, or until the
    /// process is to stop. Returns whether something was.
    fn look_for_a_while(self: &Arc<Self>, us: u32) -> bool {
        let end = clock::now().saturating_add(nanos(us));
        loop {
            match self.look_once() {
                Seen::Taken => return true,
                Seen::Waiting => return false,
                Seen::Nothing => {}
            }
            if clock::now() >= end || context::is_wanted() || current!().signal_pending() {
                return false;
            }
            cpu_relax();
        }
    }

    /// Looks no more, until the process calls. What was posted before it could see that is dealt
    /// with.
    fn stop_looking(self: &Arc<Self>, look: &Look) {
        if !look.change(Phase::Looks, Phase::Asleep) {
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
            look.change(Phase::Asleep, Phase::Looks);
        }
    }
}

impl Serves for Qp {
    const NAME: &'static CStr = c"rsiw-look";

    fn is_due(this: ArcBorrow<'_, Self>) -> bool {
        this.look.as_deref().is_some_and(Look::looks)
    }

    fn serve(this: ArcBorrow<'_, Self>) {
        let qp = Arc::from(this);
        if let Some(look) = qp.look.as_deref() {
            // A thread that stops cannot be relied on: others may have the queue pair, too.
            if !qp.look_for_a_while(look.us) || current!().signal_pending() {
                qp.stop_looking(look);
            }
        }
    }

    fn is_over(this: ArcBorrow<'_, Self>) {
        let qp = Arc::from(this);
        if let Some(look) = qp.look.as_deref() {
            look.end();
            // As when it stops looking. Others may have the queue pair, too, and go on.
            smp_mb(Full);
            qp.schedule(Reason::GoOn);
        }
    }
}
