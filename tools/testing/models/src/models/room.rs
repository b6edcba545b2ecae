// SPDX-License-Identifier: GPL-2.0

//! A queue pair for datagrams that finds no room in its socket meets the host that frees what was
//! under way. Copies of `ud/sq.rs`, `ud/mod.rs` and `ffi/net/udp.rs`.

use crate::{check::check, copies::Copied};
use kernel::sync::atomic::*;

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "drivers/infiniband/sw/rsiw/ud/sq.rs",
        from: "    pub(super) fn send_all(",
        lines: &[
            "Err(NoRoom) if self.waits.load(Relaxed) => break Drained::Empty,",
            "self.waits.store(true, Relaxed);",
            "smp_mb(Full);",
            "continue;",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ud/mod.rs",
        from: "    fn ready(",
        lines: &[
            "if this.waits.xchg(false, Full) {",
            "Arc::from(this).leave_to_work();",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/net/udp.rs",
        from: "    unsafe extern \"C\" fn write_space(",
        lines: &[
            "if unsafe { h::sock_writeable(sk) } {",
            "with_handler::<H>(sk, H::ready)",
        ],
    },
];

/// What a socket may have under way.
const ROOM: u32 = 2;

struct Socket {
    /// `sk_wmem_alloc`: it is full.
    under_way: Atomic<u32>,
    waits: AtomicFlag,
    is_sent: AtomicFlag,
    is_queued: AtomicFlag,
}

impl Socket {
    fn new() -> Self {
        Self {
            under_way: Atomic::new(ROOM),
            waits: Atomic::new(false),
            is_sent: Atomic::new(false),
            is_queued: Atomic::new(false),
        }
    }

    /// `UdQp::send_all`, with one request.
    fn send_all(&self) {
        while self.under_way.load(Relaxed) >= ROOM {
            if self.waits.load(Relaxed) {
                return;
            }
            self.waits.store(true, Relaxed);
            smp_mb(Full);
        }
        self.is_sent.store(true, Relaxed);
    }

    /// `sock_wfree()` of each of the buffers.
    fn free_all(&self) {
        for _ in 0..ROOM {
            let before = self.under_way.fetch_sub(1, Relaxed);
            // `sock_writeable()`.
            if before - 1 < ROOM / 2 && self.waits.xchg(false, Full) {
                self.is_queued.store(true, Relaxed);
            }
        }
    }
}

/// The request is sent, or the work item sends it.
fn meets() {
    let socket = super::beside(Socket::new(), Socket::send_all, Socket::free_all);
    assert!(socket.is_sent.load(Relaxed) || socket.is_queued.load(Relaxed));
}

/// The same for a second request, which finds that somebody waits already.
fn meets_again() {
    let socket = Socket::new();
    socket.waits.store(true, Relaxed);
    let socket = super::beside(socket, Socket::send_all, Socket::free_all);
    assert!(socket.is_sent.load(Relaxed) || socket.is_queued.load(Relaxed));
}

#[test]
fn room() {
    check(file!(), &[meets, meets_again], &[]);
}
