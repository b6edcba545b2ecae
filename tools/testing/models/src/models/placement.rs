// SPDX-License-Identifier: GPL-2.0

//! Placed octets: who copies a message to its place meets a program that polls its last octet.
//! Copy of `ffi/helpers/copy.c`.

use crate::{check::check, copies::Copied, models::Plain};
use kernel::sync::atomic::*;

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/helpers/copy.c",
        from: "#define rsiw_store(",
        lines: &["smp_store_release((__le##bits *)(to), cpu_to_le##bits((u##bits)(word)))"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/helpers/copy.c",
        from: "void rsiw_helper_place(",
        lines: &[
            "smp_wmb();",
            "memmove(to, from, len - 8);",
            "rsiw_store(64, end - 8, word);",
        ],
    },
];

struct Memory {
    front: Plain,
    last: Atomic<u32>,
}

/// Whoever sees the last word sees what is in front of it. (The program has to acquire.)
fn polls() {
    let memory = Memory {
        front: Plain::new(),
        last: Atomic::new(0),
    };
    super::beside(
        memory,
        |memory| {
            if memory.last.load(Acquire) != 0 {
                memory.front.read();
            }
        },
        |memory| {
            memory.front.write();
            memory.last.store(1, Release);
        },
    );
}

struct Two {
    data: Atomic<u32>,
    flag: Atomic<u32>,
}

/// What was placed first is seen first, also if both are shorter than a word.
fn one_by_one() {
    let memory = Two {
        data: Atomic::new(0),
        flag: Atomic::new(0),
    };
    super::beside(
        memory,
        |memory| {
            if memory.flag.load(Acquire) != 0 {
                assert_eq!(memory.data.load(Relaxed), 1);
            }
        },
        |memory| {
            memory.data.store(1, Relaxed);
            // smp_wmb(), of which there is no weaker one in loom.
            smp_mb(Release);
            memory.flag.store(1, Relaxed);
        },
    );
}

#[test]
fn placement() {
    check(file!(), &[polls, one_by_one], &[]);
}
