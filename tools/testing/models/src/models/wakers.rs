// SPDX-License-Identifier: GPL-2.0

//! What transmission waits for, and who tells it that this is there: one model for each, in which
//! the wake-up can be left out. Runs `proto/sends.rs`; the others are copies of `qp/stream.rs`,
//! `qp/shared.rs` and `qp/intake.rs`.

use super::bits;
use crate::{
    check::check_each,
    copies::Copied,
    proto::{
        drain::Drained,
        failure::Fault,
        reads::OutboundRead,
        sends::{Completed, Record, Sends, Token, AT_A_TIME},
    },
};
use kernel::{
    sync::{atomic::*, Mutex},
    workqueue::Work,
};

/// A call that takes the mutex of an endpoint that it has made.
const fn begins(file: &'static str, from: &'static str) -> Copied {
    Copied {
        file,
        from,
        lines: &[
            "let mut st = this.state.lock();",
            "drop(st);",
            "Endpoint::kick(this);",
        ],
    }
}

pub(crate) const COPIED: &[Copied] = &[
    begins(
        "drivers/infiniband/sw/rsiw/cm/request.rs",
        "pub(super) fn connect(",
    ),
    begins(
        "drivers/infiniband/sw/rsiw/cm/request.rs",
        "pub(super) fn create(",
    ),
    Copied {
        file: "drivers/infiniband/sw/rsiw/cm/request.rs",
        from: "pub(super) fn accept(",
        lines: &[
            "let result = answer(&this, qps, id, param, reference);",
            "Endpoint::kick(this);",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/cm/request.rs",
        from: "pub(super) fn reject(",
        lines: &["this.state.lock()", "Endpoint::kick(this);"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/stream.rs",
        from: "    fn write_space(",
        lines: &["this.qp.urge();"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/shared.rs",
        from: "    pub(super) fn set_heard(",
        lines: &["self.heard.store(1, Release);"],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/intake.rs",
        from: "    fn do_rarely<",
        lines: &[
            "Step::Heard => {",
            "shared.flags.set_heard();",
            "wakes.urge();",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/intake.rs",
        from: "    fn end_read(",
        lines: &[
            "let resumes = self.read_done();",
            "} else if resumes {",
            "wakes.clone().wake(self.who(Reason::Left));",
        ],
    },
    Copied {
        file: "drivers/infiniband/sw/rsiw/qp/completions.rs",
        from: "    fn with_sends<",
        lines: &[
            "let mut sq = self.sq.lock();",
            "let result = change(&mut sq);",
            "let first = complete(&mut sq);",
            "drop(sq);",
            "first.and_the_rest(|| complete(&mut self.sq.lock()));",
            "drained.or_leave_to(|| self.notes.leave(QpNote::Again));",
            "(result, resumes)",
        ],
    },
];

/// Who sends: a thread, and the work item if that is queued.
struct Sender<T> {
    waits_for: T,
    work: Work,
    sent: Mutex<bool>,
}

/// Runs who sends beside what it waits for, and the work item afterwards, if it is queued. Fails if
/// nothing is sent then.
fn sends<T: Send + Sync + 'static>(waits_for: T, send: fn(&Sender<T>), other: fn(&Sender<T>)) {
    let sender = Sender {
        waits_for,
        work: Work::new(),
        sent: Mutex::new(false),
    };
    let sender = super::beside(sender, send, other);
    if sender.work.begin() {
        send(&sender);
    }
    assert!(*sender.sent.lock());
}

#[derive(Default)]
struct Socket {
    has_room: bool,
    /// `SOCK_NOSPACE`.
    lacked_some: bool,
}

/// TCP tells of room who found none.
fn room<const WAKES: bool>() {
    sends(
        Mutex::new(Socket::default()),
        |sender| {
            let mut socket = sender.waits_for.lock();
            socket.lacked_some = !socket.has_room;
            *sender.sent.lock() |= socket.has_room;
        },
        |sender| {
            let mut socket = sender.waits_for.lock();
            socket.has_room = true;
            if socket.lacked_some && WAKES {
                sender.work.queue();
            }
        },
    );
}

/// The first FPDU of the peer lets a responder send.
fn first_fpdu<const WAKES: bool>() {
    sends(
        Atomic::<u32>::new(0),
        |sender| *sender.sent.lock() |= sender.waits_for.load(Relaxed) != 0,
        |sender| {
            sender.waits_for.store(1, Relaxed);
            if WAKES {
                sender.work.queue();
            }
        },
    );
}

/// Work that finds the mutex of an endpoint taken goes away: whoever has it kicks the endpoint.
fn mutex<const WAKES: bool>() {
    sends(
        // The mutex, and a note: of TCP or the timer.
        (Mutex::new(()), Atomic::<u32>::new(0)),
        |sender| {
            let (mutex, noted) = &sender.waits_for;
            noted.store(1, Relaxed);
            sender.work.queue();
            if sender.work.begin() {
                if let Some(_guard) = mutex.try_lock() {
                    *sender.sent.lock() |= noted.load(Relaxed) != 0;
                }
            }
        },
        |sender| {
            let (mutex, noted) = &sender.waits_for;
            let guard = mutex.lock();
            // Too early to find anything.
            noted.load(Relaxed);
            drop(guard);
            if WAKES {
                sender.work.queue();
            }
        },
    );
}

type Sq = Mutex<Sends<Vec<Record<u32, Fault>>, Vec<OutboundRead>>>;

/// A Read, and as many behind it as complete in three holds of the lock.
fn under_way() -> Sq {
    let count = 2 * AT_A_TIME + 1;
    let records = (0..count).map(|_| Record::default()).collect();
    let mut sends = Sends::new(records, Vec::new());
    for _ in 0..count {
        let token = sends.push(0).unwrap();
        if token != Token(0) {
            sends.done(token);
        }
    }
    Mutex::new(sends)
}

/// A request that waits until all in front of it are complete goes on when they are, whichever hold
/// of the lock it comes between.
fn read_done<const WAKES: bool>() {
    sends(
        under_way(),
        |sender| {
            let mut sends = sender.waits_for.lock();
            if sends.is_empty() {
                *sender.sent.lock() = true;
            } else {
                let _ = sends.stall();
            }
        },
        |sender| {
            let complete = |sends: &mut Sends<_, _>| sends.complete(|_, _| ());
            let first = {
                let mut sends = sender.waits_for.lock();
                sends.done(Token(0));
                complete(&mut sends)
            };
            let all = first.and_the_rest(|| complete(&mut sender.waits_for.lock()));
            let Completed { drained, resumes } = all;
            assert_eq!(drained, Drained::Empty);
            if resumes && WAKES {
                sender.work.queue();
            }
        },
    );
}

#[test]
fn wakers() {
    check_each(&[
        ("room in the socket", room::<true>, room::<false>),
        ("the first FPDU", first_fpdu::<true>, first_fpdu::<false>),
        ("the mutex of an endpoint", mutex::<true>, mutex::<false>),
        ("a Read that is done", read_done::<true>, read_done::<false>),
        (
            "a Read of the peer",
            bits::is_answered::<true>,
            bits::is_answered::<false>,
        ),
        (
            "the other end on this host",
            bits::is_woken::<true>,
            bits::is_woken::<false>,
        ),
        (
            "a timer, for want of memory",
            bits::starves::<true>,
            bits::starves::<false>,
        ),
    ]);
}
