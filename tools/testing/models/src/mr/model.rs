// SPDX-License-Identifier: GPL-2.0

//! `mr/window/count.rs`: who binds and unbinds windows meets who takes the region or the binding
//! queue pair away, or registers the region again.

use super::count::Windows;
use crate::{check::check, copies::Copied, ffi::sync::gate::Gate, models::Plain};
use kernel::{
    init::PinInit,
    prelude::*,
    sync::{atomic::*, Arc},
};
use loom::thread;

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "drivers/infiniband/sw/rsiw/mr/window.rs",
        from: "    fn new(\n        region: Arc<Mr>,",
        lines: &[
            "if !region.windows.bind() {",
            "if !binder.windows.bind() {",
            "let (access, range, offset) = look(&bound.region)?;",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/mr/window.rs",
        from: "    fn drop(&mut self) {",
        lines: &["self.region.windows.unbind();", "binder.windows.unbind();"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/mr/window.rs",
        from: "    fn part(",
        lines: &[
            "let guard = GateGuard::new(self)",
            "if !guard.valid.load(Relaxed) {",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/mr/window.rs",
        from: "    pub(crate) fn bind(",
        lines: &[
            "let _inside = self.gate.enter().ok_or(BindError::Window)?;",
            "Some(self.bound(wr, region.ok_or(BindError::Region)?, party)?)",
            "self.replace(bound, stag, party)?",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/mr/window.rs",
        from: "    pub(super) fn end(",
        lines: &[
            "self.gate.close_and_wait();",
            "let old = self.state.lock().bound.take();",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/mr.rs",
        from: "    pub(crate) fn register_fast(",
        lines: &[
            "if self.valid.load(Relaxed) || self.windows.any() {",
            "self.valid.store(true, Relaxed);",
            "match memory.try_register(wr, grant) {",
        ],
    },
];

/// Who deallocates a window meets who binds it.
struct Window {
    gate: Gate,
    region: Arc<Region>,
}

struct Region {
    gate: Gate,
    windows: Windows,
    valid: AtomicFlag,
    memory: Plain,
    /// Whether a window is bound.
    bound: AtomicFlag,
}

fn region() -> Arc<Region> {
    let region = Region {
        gate: Gate::new().init(),
        windows: Windows::new(),
        valid: Atomic::new(true),
        memory: Plain::new(),
        bound: Atomic::new(false),
    };
    Arc::new(region, GFP_KERNEL).unwrap()
}

/// Once no more windows are allowed, as a region or a queue pair goes, all that used it is over.
fn ends() {
    let region = region();
    let users: Vec<_> = (0..2)
        .map(|_| {
            let region = region.clone();
            thread::spawn(move || {
                if region.windows.bind() {
                    region.memory.read();
                    region.windows.unbind();
                }
            })
        })
        .collect();
    if region.windows.end().is_ok() {
        region.memory.write();
    }
    for user in users {
        user.join().unwrap();
    }
}

/// So it is where somebody has found none, such as who registers the region again.
fn none_any_more() {
    let region = region();
    assert!(region.windows.bind());
    let user = {
        let region = region.clone();
        thread::spawn(move || {
            region.memory.read();
            region.windows.unbind();
        })
    };
    if !region.windows.any() {
        region.memory.write();
    }
    user.join().unwrap();
}

/// A region that was invalidated and is registered again has no window of before: see `Bound::new`
/// in `mr/window.rs`, `Mr::invalidate` in `mr.rs` and `Mr::register_fast` in `mr.rs`.
fn binds() {
    let region = region();
    let user = {
        let region = region.clone();
        thread::spawn(move || {
            region.windows.bind();
            let valid = region
                .gate
                .enter()
                .is_some_and(|_| region.valid.load(Relaxed));
            region.bound.store(valid, Relaxed);
        })
    };
    region.valid.store(false, Relaxed);
    let registers = region.gate.is_empty() && !region.windows.any();
    user.join().unwrap();
    assert!(!(registers && region.bound.load(Relaxed)));
}

/// A window that was deallocated is bound to nothing, and nothing is counted for it, though a
/// request to bind it is carried out at the same time.
fn deallocates() {
    let window = Window {
        gate: Gate::new().init(),
        region: region(),
    };
    let window = Arc::new(window, GFP_KERNEL).unwrap();
    let binder = {
        let window = window.clone();
        thread::spawn(move || {
            let Some(_inside) = window.gate.enter() else {
                return;
            };
            if window.region.windows.bind() {
                window.region.bound.store(true, Relaxed);
            }
        })
    };
    window.gate.close_and_wait();
    if window.region.bound.load(Relaxed) {
        window.region.windows.unbind();
    }
    assert!(window.region.windows.end().is_ok());
    binder.join().unwrap();
    assert!(!window.region.windows.any());
}

#[test]
fn windows() {
    check(
        "mr/window/count.rs",
        &[ends, none_any_more, binds, deallocates],
        &[],
    );
}
