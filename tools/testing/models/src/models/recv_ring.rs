// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a process: the library, which fills entries and calls nobody, meets whoever
//! takes them out as messages come. Copies of `user/librsiw/qp.c` and `queue/rq/user.rs`; how both
//! read and write flags is in `send_ring`.

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
        file: "drivers/infiniband/sw/rsiw/queue/rq/user.rs",
        from: "    fn has_next(",
        lines: &["self.ring.flags(self.get) & wqe::VALID != 0"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/queue/rq/user.rs",
        from: "    fn consume(",
        lines: &["self.ring.set_flags(self.get, 0);", "self.get.advance();"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/queue/rq/user.rs",
        from: "    pub(crate) fn take(",
        lines: &[
            "if !self.has_next() {",
            "self.ring.front(self.get)",
            "self.consume();",
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

#[test]
fn recv_ring() {
    check(file!(), &[receives], &[]);
}
