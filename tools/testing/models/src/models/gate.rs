// SPDX-License-Identifier: GPL-2.0

//! `ffi/sync/gate.rs`: users of memory meet who takes it back, or changes what it stands for.

use crate::{
    check::{check, Spare},
    copies::Copied,
    ffi::sync::gate::Gate,
    models::Plain,
};
use kernel::{
    init::PinInit,
    prelude::*,
    sync::{atomic::*, Arc},
    weak::Strength,
};
use loom::thread;

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "drivers/infiniband/sw/rsiw/mr.rs",
        from: "    fn check<P:",
        lines: &["if !guard.valid.load(Relaxed) {"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/mr.rs",
        from: "    pub(crate) fn invalidate(",
        lines: &[
            "let guard = GateGuard::new(self)",
            "self.valid.store(false, Relaxed);",
            "!self.valid.load(Relaxed)",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/mr.rs",
        from: "    pub(crate) fn wait_quiet(",
        lines: &["self.gate().wait_empty();"],
    },
];

struct Region {
    gate: Gate,
    valid: AtomicFlag,
    memory: Plain,
}

impl Region {
    fn new() -> Arc<Self> {
        let region = Self {
            gate: Gate::new().init(),
            valid: Atomic::new(true),
            memory: Plain::new(),
        };
        Arc::new(region, GFP_KERNEL).unwrap()
    }

    /// What `Mr::check` does: goes in, then looks whether the region is valid.
    fn access(&self) {
        if let Some(_inside) = self.gate.enter() {
            if self.valid.load(Relaxed) {
                self.memory.read();
            }
        }
    }

    fn change(&self) {
        self.memory.write();
    }
}

fn with_users(users: usize, owner: fn(&Region)) {
    let region = Region::new();
    let threads: Vec<_> = (0..users)
        .map(|_| {
            let region = region.clone();
            thread::spawn(move || region.access())
        })
        .collect();
    owner(&region);
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Whoever has closed the gate has the memory alone.
fn close() {
    with_users(2, |region| {
        region.gate.close_and_wait();
        region.change();
    });
}

/// So has a second one that closes it, who may find all done.
fn close_twice() {
    let region = Region::new();
    let other = {
        let region = region.clone();
        thread::spawn(move || {
            region.access();
            region.gate.close_and_wait();
        })
    };
    region.gate.close_and_wait();
    region.change();
    other.join().unwrap();
}

/// Whoever has made the region invalid has the memory alone once the gate was empty.
fn invalidate() {
    with_users(1, |region| {
        region.valid.store(false, Relaxed);
        region.gate.wait_empty();
        region.change();
    });
}

/// Whoever holds the gate exclusively has the memory alone.
fn exclusively() {
    with_users(2, |region| {
        region.gate.exclusively(|| region.change());
    });
}

#[test]
fn gate() {
    check(
        "ffi/sync/gate.rs",
        &[close, close_twice, invalidate, exclusively],
        &[
            Spare {
                line: "match self.state.cmpxchg(state, state | CLOSED, Full)",
                enough: Strength::Nothing,
                because: "users go in before or after it; the load at the end acquires",
            },
            Spare {
                line: "self.state.cmpxchg(0, EXCLUSIVE, Full)",
                enough: Strength::Acquire,
                because: "users before it have gone out by releases",
            },
        ],
    );
}
