// SPDX-License-Identifier: GPL-2.0

//! The send queue of a process: the library, which fills entries and calls the kernel only if
//! nobody seems to be at work, meets whoever takes them out, and, with a queue for datagrams, whoever
//! changes the state. Copies of `user/librsiw/send.c`, `qp/sq.rs`, `ud/mod.rs`, `ud/sq.rs` and
//! `ffi/mm/ring.rs`, and of what siw's own library does.

use crate::{
    check::{check, Spare},
    copies::Copied,
    models::Plain,
};
use kernel::{
    sync::{atomic::*, Mutex},
    weak::Strength,
    workqueue::Work,
};

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "user/librsiw/rsiw.h",
        from: "#define rsiw_flags",
        lines: &[
            "__atomic_load_n(&(entry)->flags, __ATOMIC_ACQUIRE)",
            "__atomic_store_n(&(entry)->flags, (to), __ATOMIC_RELEASE)",
        ],
    },
    Copied {
        file: "user/librsiw/send.c",
        from: "struct rsiw_sqe *rsiw_stage(",
        lines: &["if (qp->staged > qp->sq.mask || rsiw_flags(sqe) & SIW_WQE_VALID)"],
    },
    Copied {
        file: "user/librsiw/send.c",
        from: "bool rsiw_publish(",
        lines: &[
            "rsiw_set_flags(sqe, sqe->flags | SIW_WQE_VALID);",
            "__atomic_thread_fence(__ATOMIC_SEQ_CST);",
            "if (count <= qp->sq.mask && rsiw_flags(sqe) & SIW_WQE_VALID && is_called(qp))",
            "if (is_polled(qp))",
            "qp->owed_at = first;",
            "__atomic_store_n(&qp->owed, qp->owed + 1, __ATOMIC_RELAXED);",
        ],
    },
    Copied {
        file: "user/librsiw/send.c",
        from: "static bool is_called(",
        lines: &[
            "if (__atomic_load_n(&qp->called, __ATOMIC_RELAXED) == qp->owed)",
            "return !(rsiw_flags(sqe) & SIW_WQE_VALID);",
        ],
    },
    Copied {
        file: "user/librsiw/send.c",
        from: "int rsiw_ring_doorbell(",
        lines: &[
            "uint32_t owed = __atomic_load_n(&qp->owed, __ATOMIC_ACQUIRE);",
            "int ret = call_kernel(qp);",
            "__atomic_store_n(&qp->called, owed, __ATOMIC_RELAXED);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/mm/ring.rs",
        from: "    pub(crate) fn flags(",
        lines: &["let flags = unsafe { atomic_load(self.flags_ptr().cast::<i16>(), Acquire) };"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/mm/ring.rs",
        from: "    pub(crate) fn set_flags(",
        lines: &["unsafe { atomic_store(self.flags_ptr().cast::<i16>(), flags as i16, Release) };"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/sq.rs",
        from: "    fn peek(",
        lines: &[
            "let entry = self.ring.entry(self.get);",
            "let flags = entry.flags();",
            "if flags & wqe::VALID == 0 {",
            "None => self.validate((entry, None), flags, sgl, operands),",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/actors.rs",
        from: "    pub(crate) fn doorbell(",
        lines: &[
            "let mut inner = match self.inner.try_lock() {",
            "None => {",
            "self.hand_over(actor);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/sq.rs",
        from: "    fn consume(",
        lines: &[
            "self.ring.entry(self.get).set_flags(0);",
            "self.get.advance();",
            "smp_mb(Full);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ud/sq.rs",
        from: "    fn take(",
        lines: &[
            "let entry = self.ring.entry(self.get);",
            "let flags = entry.flags();",
            "if flags & wqe::VALID == 0 {",
            "self.ring.entry(self.get).set_flags(0);",
            "self.get.advance();",
            "smp_mb(Full);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ud/mod.rs",
        from: "    fn attrs(",
        lines: &["UdAttrs::of_word(self.attrs.load(Acquire))"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ud/mod.rs",
        from: "    fn set_attrs(",
        lines: &[
            "self.attrs.store(attrs.to_word(), Release);",
            "smp_mb(Full);",
        ],
    },
];

const RTS: u32 = 1;
const VALID: u32 = 1;
const LEN: usize = 2;

struct Entry {
    flags: Atomic<u32>,
    content: Plain,
}

struct Queue {
    ring: [Entry; LEN],
    /// The mutex of the queue pair, and what it protects: how many were taken.
    inner: Mutex<usize>,
    work: Work,
    /// The state of a queue pair for datagrams.
    attrs: Atomic<u32>,
    /// Calls that posts have had to make, and the last of these that has returned.
    owed: Atomic<u32>,
    called: Atomic<u32>,
    /// The request of the last of these posts, under the library's lock.
    owed_at: Mutex<usize>,
}

impl Queue {
    /// Makes a queue with one request, for which a call is owed.
    fn new() -> Self {
        let queue = Self {
            ring: [0; LEN].map(|flags| Entry {
                flags: Atomic::new(flags),
                content: Plain::new(),
            }),
            inner: Mutex::new(0),
            work: Work::new(),
            attrs: Atomic::new(0),
            owed: Atomic::new(1),
            called: Atomic::new(0),
            owed_at: Mutex::new(0),
        };
        queue.ring[0].flags.store(VALID, Relaxed);
        queue
    }

    /// `UserSq::peek` and `UserSq::consume`, until nothing is found.
    fn drain(&self, get: &mut usize) {
        loop {
            let entry = &self.ring[*get % LEN];
            if entry.flags.load(Acquire) & VALID == 0 {
                return;
            }
            entry.content.read();
            entry.flags.store(0, Release);
            *get += 1;
            smp_mb(Full);
        }
    }

    /// Whoever is there takes requests out.
    fn run(&self) {
        self.drain(&mut self.inner.lock());
    }

    /// `rsiw_ring_doorbell()`, and `Qp::doorbell`. If somebody has the mutex, the work item comes
    /// later.
    fn ring(&self) {
        let owed = self.owed.load(Acquire);
        match self.inner.try_lock() {
            Some(mut get) => self.drain(&mut get),
            None => self.work.queue(),
        }
        self.called.store(owed, Relaxed);
    }

    /// `UdQp::go_on`.
    fn go_on(&self) {
        if self.attrs.load(Acquire) == RTS {
            self.run();
        }
    }

    /// `UdQp::modify`, which takes the step to RTS.
    fn modify(&self) {
        self.attrs.store(RTS, Release);
        smp_mb(Full);
        self.go_on();
    }

    /// Posts a datagram to a queue of which all is taken, and so calls the kernel.
    fn post_datagram(&self) {
        assert_eq!(self.publish(1), Some(true));
        self.go_on();
    }

    /// Posts two more requests, one by one, and calls the kernel where that is needed.
    fn post(&self) {
        for put in 1..3 {
            if self.publish(put) == Some(true) {
                self.ring();
            }
        }
    }

    /// Posts a request and never calls the kernel: the thread is kept from running. Then another
    /// thread posts.
    fn post_behind(&self) {
        self.publish(1);
        if self.publish(2) == Some(true) {
            self.ring();
        }
    }

    /// `is_called()`.
    fn is_called(&self) -> bool {
        let at = *self.owed_at.lock();
        if self.called.load(Relaxed) == self.owed.load(Relaxed) {
            return true;
        }
        self.ring[at % LEN].flags.load(Acquire) & VALID == 0
    }

    /// Fills an entry and returns whether to call the kernel, or `None` if the entry is taken: what
    /// `rsiw_stage()` and `rsiw_publish()` do, without what `look_word` has. siw's own library does
    /// the same by sequentially consistent accesses. loom does not model these, and a barrier
    /// between those of which it matters stands for them, too.
    fn publish(&self, put: usize) -> Option<bool> {
        let entry = &self.ring[put % LEN];
        if entry.flags.load(Acquire) & VALID != 0 {
            return None;
        }
        entry.content.write();
        entry.flags.store(VALID, Release);
        smp_mb(Full);
        let before = &self.ring[(put - 1) % LEN];
        if before.flags.load(Acquire) & VALID != 0 && self.is_called() {
            return Some(false);
        }
        *self.owed_at.lock() = put;
        self.owed.store(self.owed.load(Relaxed) + 1, Relaxed);
        Some(true)
    }

    /// Nothing is left for which nobody comes.
    fn is_left_empty(&self) {
        if self.work.begin() {
            self.run();
        }
        for entry in &self.ring {
            assert_eq!(entry.flags.load(Relaxed), 0);
        }
    }
}

/// Those who post call where that is needed.
fn doorbell() {
    super::beside(Queue::new(), Queue::post, Queue::ring).is_left_empty();
}

/// One who ought to call does not: the next one sees to it.
fn kept_from_running() {
    super::beside(Queue::new(), Queue::post_behind, Queue::ring).is_left_empty();
}

/// As above, with a queue of which all is taken when the other one calls.
fn kept_from_running_first() {
    let queue = Queue::new();
    queue.run();
    super::beside(queue, Queue::post_behind, Queue::ring).is_left_empty();
}

/// The state changes beside one who posts.
fn state_changes() {
    let queue = Queue::new();
    queue.run();
    super::beside(queue, Queue::post_datagram, Queue::modify).is_left_empty();
}

#[test]
fn send_ring() {
    check(
        file!(),
        &[
            doorbell,
            kept_from_running,
            kept_from_running_first,
            state_changes,
        ],
        &[
            Spare {
                line: "if self.attrs.load(Acquire) == RTS {",
                enough: Strength::Nothing,
                because: "who changes the state takes the lock of the queue next",
            },
            Spare {
                line: "self.attrs.store(RTS, Release);",
                enough: Strength::Nothing,
                because: "as above",
            },
            Spare {
                line: "if before.flags.load(Acquire) & VALID != 0 && self.is_called() {",
                enough: Strength::Nothing,
                because: "nothing in the entry is looked at",
            },
            Spare {
                line: "self.ring[at % LEN].flags.load(Acquire) & VALID == 0",
                enough: Strength::Nothing,
                because: "as above",
            },
        ],
    );
}
