// SPDX-License-Identifier: GPL-2.0

//! The completion queue of a process: the kernel, which adds completions and looks whether somebody
//! waits, meets the program, which arms, polls and sleeps. Copies of `cq/user.rs`,
//! `ffi/mm/ring.rs` and `user/librsiw/cq.c`, and of what siw's own library does.

use crate::{
    check::{check, Spare},
    copies::Copied,
    models::Plain,
};
use kernel::{sync::atomic::*, weak::Strength};
use loom::{
    sync::{Condvar, Mutex},
    thread,
};

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "user/librsiw/cq.c",
        from: "static struct rsiw_cqe *oldest(",
        lines: &["return rsiw_flags(cqe) & SIW_WQE_VALID ? cqe : NULL;"],
    },
    Copied {
        file: "user/librsiw/cq.c",
        from: "static void take(",
        lines: &["rsiw_set_flags(cqe, 0);"],
    },
    Copied {
        file: "user/librsiw/cq.c",
        from: "int rsiw_req_notify_cq(",
        lines: &[
            "__atomic_fetch_or(&cq->ctrl->flags, flags, __ATOMIC_SEQ_CST);",
            "__atomic_thread_fence(__ATOMIC_SEQ_CST);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/cq/user.rs",
        from: "    pub(super) fn add(",
        lines: &[
            "if entry.short_flags() != FREE {",
            "self.publish(entry, completion);",
            "smp_mb(Full);",
            "let notify = completion.fires(self.armed.load());",
            "self.armed.store(notify::NOT);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/mm/ring.rs",
        from: "    pub(crate) fn short_flags(",
        lines: &["let flags = unsafe { atomic_load(self.flags_ptr().cast::<i8>(), Acquire) };"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/mm/ring.rs",
        from: "    pub(crate) fn set_short_flags(",
        lines: &["unsafe { atomic_store(self.flags_ptr().cast::<i8>(), flags as i8, Release) };"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/mm/ring.rs",
        from: "    pub(crate) fn publish<",
        lines: &[
            "unsafe { dst.add(i).write_volatile(word) };",
            "unsafe { atomic_store(dst.add(FLAGS_WORD), word, Release) };",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/mm/ring.rs",
        from: "    pub(crate) fn load(&self) -> u32 {\n        // SAFETY: valid",
        lines: &["unsafe { atomic_load(self.ptr(), Relaxed) }"],
    },
];

const VALID: u32 = 1;
const NEXT: u32 = 2;

struct Entry {
    flags: Atomic<u32>,
    content: Plain,
}

struct Queue {
    ring: Vec<Entry>,
    armed: Atomic<u32>,
    /// Calls of the completion handler that the program has not seen.
    events: Mutex<u32>,
    event: Condvar,
}

impl Queue {
    fn new(len: usize) -> Self {
        let entry = |_| Entry {
            flags: Atomic::new(0),
            content: Plain::new(),
        };
        Self {
            ring: (0..len).map(entry).collect(),
            armed: Atomic::new(0),
            events: Mutex::new(0),
            event: Condvar::new(),
        }
    }

    fn entry(&self, number: usize) -> &Entry {
        &self.ring[number % self.ring.len()]
    }

    /// `UserRing::add`, and the call of the handler. Returns whether there was room.
    fn add(&self, put: usize) -> bool {
        let entry = self.entry(put);
        if entry.flags.load(Acquire) != 0 {
            return false;
        }
        entry.content.write();
        entry.flags.store(VALID, Release);
        smp_mb(Full);
        if self.armed.load(Relaxed) & NEXT != 0 {
            self.armed.store(0, Relaxed);
            *self.events.lock().unwrap() += 1;
            self.event.notify_one();
        }
        true
    }

    /// `rsiw_poll_cq()`, for one completion.
    fn poll(&self, next: usize) -> bool {
        let entry = self.entry(next);
        if entry.flags.load(Acquire) & VALID == 0 {
            return false;
        }
        entry.content.read();
        entry.flags.store(0, Release);
        true
    }

    /// `rsiw_req_notify_cq()`.
    fn arm_own(&self) {
        self.armed.fetch_or(NEXT, SeqCst);
        smp_mb(Full);
    }

    /// The same in siw's own library: a store, and as the next poll begins with a load, and both
    /// are sequentially consistent, there is a fence in between.
    fn arm_stock(&self) {
        self.armed.store(NEXT, Release);
        smp_mb(Full);
    }

    /// `ibv_get_cq_event()`.
    fn sleep(&self) {
        let mut events = self.events.lock().unwrap();
        while *events == 0 {
            events = self.event.wait(events).unwrap();
        }
        *events -= 1;
    }
}

/// A program that sleeps until the next completion has all of them, and does not sleep for ever.
fn wakes(arm: fn(&Queue)) {
    let program = move |queue: &Queue| {
        let mut got = 0;
        loop {
            arm(queue);
            while queue.poll(got) {
                got += 1;
            }
            if got == 2 {
                break;
            }
            queue.sleep();
        }
    };
    let queue = loom::sync::Arc::new(Queue::new(2));
    let thread = {
        let queue = queue.clone();
        thread::spawn(move || {
            assert!(queue.add(0));
            assert!(queue.add(1));
        })
    };
    program(&queue);
    thread.join().unwrap();
}

/// An entry is filled again only once it was read.
fn goes_round() {
    super::beside(
        Queue::new(1),
        |queue| {
            queue.add(0);
            queue.add(1);
        },
        |queue| {
            queue.poll(0);
        },
    );
}

#[test]
fn completions() {
    check(
        file!(),
        &[
            || wakes(Queue::arm_own),
            || wakes(Queue::arm_stock),
            goes_round,
        ],
        &[
            Spare {
                line: "self.armed.fetch_or(NEXT, SeqCst);",
                enough: Strength::Nothing,
                because: "the fence behind it orders",
            },
            Spare {
                line: "self.armed.store(NEXT, Release);",
                enough: Strength::Nothing,
                because: "the kernel looks at nothing that was written before",
            },
        ],
    );
}
