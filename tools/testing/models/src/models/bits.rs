// SPDX-License-Identifier: GPL-2.0

//! Bits by which softirq, timers and threads bring each other about: `Stream::starves` and
//! `Stream::pauses`, the word of `Shared::inbound`, `Stream::awaited`. Copies of `qp/stream.rs`,
//! `qp/intake.rs`, `qp/sending.rs`, `qp/direct.rs` and `ffi/sync.rs`.

use crate::{check::check, copies::Copied};
use kernel::{
    sync::{atomic::*, Mutex},
    workqueue::Work,
};

pub(crate) const COPIED: &[Copied] = &[
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/stream.rs",
        from: "    pub(super) fn starve(",
        lines: &[
            "self.starves.xchg(true, Acquire);",
            "if !self.pauses.load(Relaxed) {",
            "Timer::start(self, STARVED_MS);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/stream.rs",
        from: "    fn expired(",
        lines: &[
            "this.pauses.store(false, Relaxed);",
            "this.starves.store(false, Release);",
            "this.qp.note(QpNote::Socket);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/stream.rs",
        from: "    fn pause(",
        lines: &[
            "if is_later && !self.pauses.load(Relaxed) {",
            "self.pauses.store(true, Relaxed);",
            "Timer::start(self, ms);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/intake.rs",
        from: "    fn queue_inbound(",
        lines: &["self.inbound.lock().push(request)?;", "wakes.urge();"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/sending.rs",
        from: "    fn with_inbound<",
        lines: &[
            "if self.qp.inbound.word() == 0 {",
            "f(&mut self.qp.inbound.lock())",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/ffi/sync.rs",
        from: "    fn drop(&mut self)",
        lines: &["self.word.store(self.guard.word(), Relaxed);"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/direct.rs",
        from: "    fn hold(&mut self)",
        lines: &[
            "end.sock.hold(|| marked = Some(end.mark_awaited()));",
            "end.qp.note(QpNote::Socket);",
            "return Err(end.mark_awaited().into());",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/stream.rs",
        from: "    pub(super) fn mark_awaited(",
        lines: &["self.awaited.store(true, Relaxed)"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/stream.rs",
        from: "    fn wake_sender_now(",
        lines: &["self.awaited.store(false, Relaxed);", "other.qp.urge();"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/direct.rs",
        from: "    pub(super) fn enter(",
        lines: &[
            "entry.end.link_to(other.clone());",
            "other.link_to(entry.end.clone());",
        ],
    },
];

struct Stream<const WAKES: bool> {
    starves: AtomicFlag,
    pauses: AtomicFlag,
    timer: Mutex<bool>,
    work: Work,
}

impl<const WAKES: bool> Stream<WAKES> {
    /// Makes one whose timer runs, for a receive.
    fn new() -> Self {
        Self {
            starves: Atomic::new(false),
            pauses: Atomic::new(true),
            timer: Mutex::new(true),
            work: Work::new(),
        }
    }

    fn starve(&self) {
        self.starves.xchg(true, Acquire);
        if !self.pauses.load(Relaxed) {
            *self.timer.lock() = true;
        }
    }

    fn runs_out(&self) {
        if core::mem::replace(&mut *self.timer.lock(), false) {
            self.pauses.store(false, Relaxed);
            // A store in the driver. loom does not put one behind an exchange that came first.
            self.starves.xchg(false, Release);
            if WAKES {
                self.work.queue();
            }
        }
    }
}

/// Whoever sends nothing until the timer has run out does not do so without a timer, and goes on
/// then.
pub(crate) fn starves<const WAKES: bool>() {
    let new = Stream::<WAKES>::new();
    let stream = super::beside(new, Stream::starve, Stream::runs_out);
    if stream.starves.load(Relaxed) {
        assert!(*stream.timer.lock());
    }
    stream.runs_out();
    assert!(stream.work.begin() && !stream.starves.load(Relaxed));
}

struct Reads<const WAKES: bool> {
    inbound: Mutex<u32>,
    word: Atomic<u32>,
    work: Work,
}

impl<const WAKES: bool> Reads<WAKES> {
    /// A request of the peer comes in.
    fn received(&self) {
        {
            let mut inbound = self.inbound.lock();
            *inbound += 1;
            self.word.store(*inbound, Relaxed);
        }
        if WAKES {
            self.work.queue();
        }
    }

    /// The work item answers what it finds.
    fn answer(&self) {
        if self.work.begin() && self.word.load(Relaxed) != 0 {
            let mut inbound = self.inbound.lock();
            *inbound = 0;
            self.word.store(0, Relaxed);
        }
    }
}

/// A request of the peer is answered by the work item that is queued behind it.
pub(crate) fn is_answered<const WAKES: bool>() {
    let reads = Reads::<WAKES> {
        inbound: Mutex::new(0),
        word: Atomic::new(0),
        work: Work::new(),
    };
    let twice = |reads: &Reads<WAKES>| {
        reads.received();
        reads.received();
    };
    let reads = super::beside(reads, Reads::answer, twice);
    reads.answer();
    assert_eq!(*reads.inbound.lock(), 0);
}

struct Peers<const WAKES: bool> {
    /// The end that is entered knows the other one, which sends, and that one knows it.
    is_linked: [Mutex<bool>; 2],
    awaited: AtomicFlag,
    /// The socket of the other end, and whether it has read what TCP had for it.
    socket: Mutex<bool>,
    /// What sends, and whether it got through.
    sender: Work,
    sent: AtomicFlag,
}

impl<const WAKES: bool> Peers<WAKES> {
    fn enter(&self) {
        for end in &self.is_linked {
            *end.lock() = true;
        }
    }

    fn send(&self) {
        if self.sender.begin() {
            if !*self.is_linked[1].lock() {
                // Through TCP.
                self.sent.store(true, Relaxed);
                return;
            }
            let socket = self.socket.lock();
            if *socket {
                self.sent.store(true, Relaxed);
            } else {
                self.awaited.store(true, Relaxed);
            }
        }
    }

    fn receive(&self) {
        *self.socket.lock() = true;
        if self.awaited.load(Relaxed) {
            self.awaited.store(false, Relaxed);
            if WAKES && *self.is_linked[0].lock() {
                self.sender.queue();
            }
        }
    }
}

/// A sender past TCP that waits for the other end is woken, from the first moment on in which it
/// knows that.
pub(crate) fn is_woken<const WAKES: bool>() {
    let peers = Peers::<WAKES> {
        is_linked: [Mutex::new(false), Mutex::new(false)],
        awaited: Atomic::new(false),
        socket: Mutex::new(false),
        sender: Work::new(),
        sent: Atomic::new(false),
    };
    peers.sender.queue();
    let peers = super::beside_all(peers, Peers::send, [Peers::receive, Peers::enter]);
    peers.send();
    assert!(peers.sent.load(Relaxed));
}

#[test]
fn bits() {
    check(
        file!(),
        &[starves::<true>, is_answered::<true>, is_woken::<true>],
        &[],
    );
}
