// SPDX-License-Identifier: GPL-2.0

//! `qp/shared/published.rs`: who has the mutex of a queue pair meets who looks at the state without it.

use super::published::Published;
use crate::{check::check, copies::Copied, proto::state::QpState};
use kernel::{
    prelude::*,
    sync::{atomic::*, Arc, Mutex},
};
use loom::thread;

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/state.rs",
        from: "    fn take_stream(",
        lines: &[
            "shared.flags.reclaims.store(reclaims, Relaxed);",
            "shared.flags.answered.store(true, Relaxed);",
            ".cmpxchg(AccessFlags::NONE, DEFAULT_RIGHTS, Relaxed);",
            "shared.flags.ended_by.store(Cause::NONE.0, Relaxed);",
            "shared.published.set_ird(params.ird);",
            "shared.set_state(state);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/actors.rs",
        from: "    pub(crate) fn post_recv(",
        lines: &[
            "let result = match &mut *self.shared.rq.lock() {",
            "if self.shared.state().post_recv() == Post::Flush {",
        ],
    },
];

struct Qp {
    published: Published,
    /// What the peer may do.
    access: Atomic<u32>,
    /// The lock of the receive queue, and receives that wait.
    rq: Mutex<u32>,
}

fn qp() -> Arc<Qp> {
    let qp = Qp {
        published: Published::new(1),
        access: Atomic::new(0),
        rq: Mutex::new(0),
    };
    Arc::new(qp, GFP_KERNEL).unwrap()
}

/// Whoever sees that there is a connection sees what was agreed upon it: `Qp::start` in
/// `qp/state.rs` sets that before.
fn connects() {
    let qp = qp();
    let owner = {
        let qp = qp.clone();
        thread::spawn(move || {
            qp.access.store(3, Relaxed);
            qp.published.set_ird(7);
            qp.published.set_state(QpState::Rts);
        })
    };
    if qp.published.state() == QpState::Rts {
        assert_eq!(qp.published.ird(), 7);
        assert_eq!(qp.access.load(Relaxed), 3);
    }
    owner.join().unwrap();
}

/// A receive that is posted when the queue is flushed is flushed, or its poster sees that it has to
/// have that done: `Qp::post_recv` in `qp/actors.rs`.
fn flushes() {
    let qp = qp();
    let owner = {
        let qp = qp.clone();
        thread::spawn(move || {
            qp.published.set_state(QpState::Error);
            *qp.rq.lock() = 0;
        })
    };
    *qp.rq.lock() += 1;
    let flushes = qp.published.state() == QpState::Error;
    owner.join().unwrap();
    assert!(flushes || *qp.rq.lock() == 0);
}

#[test]
fn published() {
    check("qp/shared/published.rs", &[connects, flushes], &[]);
}
