// SPDX-License-Identifier: GPL-2.0

//! `ffi/mm/movable.rs`: who adds a completion, and looks whether the queue is armed, meets who gives
//! the queue other rings.

use crate::{
    check::{check, Spare},
    ffi::mm::{movable::MovableWord, ring::SharedWord},
};
use kernel::{prelude::*, sync::rcu, weak::Strength};

fn word() -> KBox<SharedWord> {
    KBox::new(SharedWord::new(), GFP_KERNEL).unwrap()
}

/// What is read is complete, and lives.
fn moves() {
    rcu::begin();
    super::beside(
        MovableWord::new(word()),
        |armed| {
            armed.load();
        },
        |armed| drop(armed.replace(word())),
    );
}

#[test]
fn movable() {
    check(
        "ffi/mm/movable.rs",
        &[moves],
        &[Spare {
            line: "self.word.xchg(KBox::into_raw(word), Full)",
            enough: Strength::Release,
            because: "the word that comes out is not read; the grace period orders the rest",
        }],
    );
}
