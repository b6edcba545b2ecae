// SPDX-License-Identifier: GPL-2.0

//! RCU, as a lock that readers share, and that whoever waits for a grace period has for a moment: a
//! read-side section ends before that, and what it did is seen then, or it begins afterwards, and
//! sees what was done before. That is what RCU promises.

use loom::sync::{RwLock, RwLockReadGuard};

loom::lazy_static! {
    static ref SECTIONS: RwLock<()> = RwLock::new(());
}

/// Must be called before a model that uses RCU makes threads.
pub fn begin() {
    let _ = &*SECTIONS;
}

pub struct Guard(#[expect(dead_code)] RwLockReadGuard<'static, ()>);

pub fn read_lock() -> Guard {
    Guard(SECTIONS.read().unwrap())
}

pub fn synchronize_rcu() {
    drop(SECTIONS.write().unwrap());
}
