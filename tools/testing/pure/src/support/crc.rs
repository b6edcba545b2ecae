// SPDX-License-Identifier: GPL-2.0

//! CRC32c and CRC-32 by table, with the calling conventions of the kernel's `crc32c` and `crc32_le`.

use std::cell::Cell;

thread_local! {
    static DONE: Cell<usize> = const { Cell::new(0) };
}

/// Octets that went into CRC32cs of this thread since this was asked last.
pub(crate) fn take_done() -> usize {
    DONE.take()
}

const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 {
                (crc >> 1) ^ polynomial
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

static CASTAGNOLI: [u32; 256] = table(0x82f6_3b78);
static ETHERNET: [u32; 256] = table(0xedb8_8320);

/// Feeds `bytes` into the register `crc`.
fn feed(table: &[u32; 256], crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, &b| {
        (crc >> 8) ^ table[usize::from((crc as u8) ^ b)]
    })
}

pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    DONE.set(DONE.get().wrapping_add(bytes.len()));
    feed(&CASTAGNOLI, crc, bytes)
}

/// The CRC of Ethernet, and of datagrams.
pub(crate) fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    feed(&ETHERNET, crc, bytes)
}
