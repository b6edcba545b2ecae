// SPDX-License-Identifier: GPL-2.0

//! A send queue that is polled: the library, which does not call while the word says that somebody
//! looks, meets the thread that stops. Copies of `user/librsiw/send.c`, `qp/actors.rs` and
//! `qp/poller.rs`.

use crate::{check::check, copies::Copied, models::Plain};
use kernel::sync::{atomic::*, Mutex};

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "user/librsiw/send.c",
        from: "static bool is_polled(",
        lines: &["return qp->polled && __atomic_load_n(qp->polled, __ATOMIC_RELAXED);"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/actors.rs",
        from: "    fn stop_polling(",
        lines: &[
            "if !poller.pause() {",
            "smp_mb(Full);",
            "let mut inner = self.inner.lock();",
            "let seen = self.deal_with_posted(&mut inner, &mut after);",
            "false => poller.resume(),",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/actors.rs",
        from: "    fn go_on_without(",
        lines: &["poller.set_over();", "smp_mb(Full);", "qp.urge();"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/poller.rs",
        from: "    fn change(",
        lines: &[
            "let mut phase = self.phase.lock();",
            "self.word.store((to == PollPhase::Polls).into());",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/mm/ring.rs",
        from: "    pub(crate) fn store(&self, value: u32)",
        lines: &["unsafe { atomic_store(self.ptr(), value, Relaxed) };"],
    },
];

const VALID: u32 = 1;

struct Queue {
    flags: Atomic<u32>,
    content: Plain,
    /// Whether the thread polls, and what the process reads of that.
    polls: Mutex<bool>,
    word: Atomic<u32>,
    taken: AtomicFlag,
    called: AtomicFlag,
}

impl Queue {
    fn new() -> Self {
        Self {
            flags: Atomic::new(0),
            content: Plain::new(),
            polls: Mutex::new(true),
            word: Atomic::new(1),
            taken: Atomic::new(false),
            called: Atomic::new(false),
        }
    }

    /// `rsiw_publish()`.
    fn post(&self) {
        self.content.write();
        self.flags.store(VALID, Release);
        smp_mb(Full);
        let is_polled = self.word.load(Relaxed) != 0;
        self.called.store(!is_polled, Relaxed);
    }

    /// `Poller::change`.
    fn change(&self, polls: bool) {
        let mut now = self.polls.lock();
        *now = polls;
        self.word.store(polls.into(), Relaxed);
    }

    fn look(&self) -> bool {
        let seen = self.flags.load(Acquire) & VALID != 0;
        if seen {
            self.content.read();
            self.taken.store(true, Relaxed);
        }
        seen
    }

    /// `Qp::stop_polling`. With something taken it goes on polling.
    fn stop(&self) {
        self.change(false);
        smp_mb(Full);
        if self.look() {
            self.change(true);
        }
    }
}

/// A request is seen by the last look, or its poster calls.
fn stops() {
    let queue = super::beside(Queue::new(), Queue::post, Queue::stop);
    assert!(queue.taken.load(Relaxed) || queue.called.load(Relaxed));
}

#[test]
fn look_word() {
    check(file!(), &[stops], &[]);
}
