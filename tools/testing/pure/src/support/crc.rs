// SPDX-License-Identifier: GPL-2.0

//! CRC32c by table, with the calling convention of the kernel's `crc32c`.

use std::cell::Cell;

thread_local! {
    static DONE: Cell<usize> = const { Cell::new(0) };
}

/// Octets that went into CRCs of this thread since this was asked last.
pub(crate) fn take_done() -> usize {
    DONE.take()
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

static TABLE: [u32; 256] = table();

/// Feeds `bytes` into the register `crc`.
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    DONE.set(DONE.get().wrapping_add(bytes.len()));
    bytes.iter().fold(crc, |crc, &b| {
        (crc >> 8) ^ TABLE[usize::from((crc as u8) ^ b)]
    })
}
