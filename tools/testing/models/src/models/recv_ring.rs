// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a process: the library, which fills entries and calls nobody, meets whoever
//! takes them out as messages come; and where the queue is flushed, of which a word tells it, it
//! calls. Copies of `user/librsiw/qp.c`, `queue/rq.rs`, `qp/shared.rs` and `ud/rq.rs`; how both
//! read and write flags is in `send_ring`, and how the kernel writes the word in `look_word`.

use crate::{check::check, copies::Copied, models::Plain};
use kernel::sync::atomic::*;

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "user/librsiw/qp.c",
        from: "int rsiw_put_recv(",
        lines: &[
            "if (rsiw_flags(rqe) & SIW_WQE_VALID)",
            "rqe->id = wr->wr_id;",
            "rsiw_set_flags(rqe, SIW_WQE_VALID);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/queue/rq.rs",
        from: "    /// [`Rq::take`] for a process.",
        lines: &[
            "if entry.flags() & wqe::VALID == 0 {",
            "let front = entry.front();",
            "entry.set_flags(0);",
            "self.get.advance();",
        ],
    },
    Copied {
        file: "user/librsiw/qp.c",
        from: "static bool is_flushed(",
        lines: &[
            "__atomic_thread_fence(__ATOMIC_SEQ_CST);",
            "return __atomic_load_n(&ctrl->flushes, __ATOMIC_RELAXED);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/shared.rs",
        from: "    pub(super) fn set_state(",
        lines: &[
            "rq.set_flushes(state.post_recv() == Post::Flush);",
            "smp_mb(Full);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ud/rq.rs",
        from: "    pub(super) fn flush_recvs(",
        lines: &[
            "rq.set_flushes(true);",
            "smp_mb(Full);",
            "drain(AT_A_TIME, || receiving.discard(), flush);",
        ],
    },
];

const VALID: u32 = 1;

struct Entry {
    flags: Atomic<u32>,
    content: Plain,
}

/// `rsiw_put_recv()`. Returns whether the entry was free.
fn put(entry: &Entry) -> bool {
    if entry.flags.load(Acquire) & VALID != 0 {
        return false;
    }
    entry.content.write();
    entry.flags.store(VALID, Release);
    true
}

/// `UserRq::take`. Returns whether there was a receive.
fn take(entry: &Entry) -> bool {
    if entry.flags.load(Acquire) & VALID == 0 {
        return false;
    }
    entry.content.read();
    entry.flags.store(0, Release);
    true
}

/// What is taken is complete, and an entry is filled again only when it was read.
fn receives() {
    let entry = Entry {
        flags: Atomic::new(0),
        content: Plain::new(),
    };
    super::beside(
        entry,
        |entry| {
            take(entry);
            take(entry);
        },
        |entry| {
            put(entry);
            put(entry);
        },
    );
}

struct Flushed {
    entry: Entry,
    word: Atomic<u32>,
    taken: AtomicFlag,
    called: AtomicFlag,
}

/// What is posted while the flush begins is flushed, or its poster calls.
fn flushes() {
    let queue = Flushed {
        entry: Entry {
            flags: Atomic::new(0),
            content: Plain::new(),
        },
        word: Atomic::new(0),
        taken: Atomic::new(false),
        called: Atomic::new(false),
    };
    let queue = super::beside(
        queue,
        // `rsiw_post_recv()`.
        |queue| {
            put(&queue.entry);
            smp_mb(Full);
            queue.called.store(queue.word.load(Relaxed) != 0, Relaxed);
        },
        // `Shared::set_state` and the flush, or `UdQp::flush_recvs`.
        |queue| {
            queue.word.store(1, Relaxed);
            smp_mb(Full);
            queue.taken.store(take(&queue.entry), Relaxed);
        },
    );
    assert!(queue.taken.load(Relaxed) || queue.called.load(Relaxed));
}

#[test]
fn recv_ring() {
    check(file!(), &[receives, flushes], &[]);
}
