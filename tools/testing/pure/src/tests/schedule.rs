// SPDX-License-Identifier: GPL-2.0

//! Who sends: each row of the table, and what is counted of doorbells.

use crate::proto::schedule::Actor::{self, Caller, Nobody, Patient, Urgent};
use crate::proto::schedule::Reason::{self, *};
use crate::proto::schedule::{who, Doorbells, Pace};

/// What the row says if the consumer polls, and if it waits for a notification.
const POLLS_OR_WAITS: [bool; 2] = [false, true];

/// Who acts, whatever the consumer does, which must not be asked: that costs something.
fn always(reason: Reason) -> Actor {
    who(reason, || {
        panic!("{reason:?}: what the consumer does does not count")
    })
}

/// Who acts if the consumer polls, and who if it waits.
fn by_consumer(reason: Reason) -> [Actor; 2] {
    POLLS_OR_WAITS.map(|waits| who(reason, || waits))
}

/// A thread that rings the doorbell sends itself unless it is one of many, or somebody else does.
#[test]
fn doorbells() {
    assert_eq!(always(Doorbell(Pace::Slow)), Caller);
    assert_eq!(by_consumer(Doorbell(Pace::Fast)), [Urgent, Patient]);
    assert_eq!(by_consumer(Busy { sends: true }), [Urgent, Patient]);
    // What is not sent is flushed, under the mutex.
    assert_eq!(always(Busy { sends: false }), Caller);
}

/// Consumers in the kernel post in any context.
#[test]
fn kernel_consumers() {
    assert_eq!(always(KernelPost), Urgent);
    assert_eq!(always(KernelRecv { flushes: true }), Urgent);
    assert_eq!(always(KernelRecv { flushes: false }), Nobody);
}

/// Small Reads of the peer gather, up to seven; large ones are answered at once.
#[test]
fn reads_of_the_peer() {
    for (len, waiting, actor) in [
        (0, 1, Patient),
        (1, 7, Patient),
        (16 * 1024 - 1, 1, Patient),
        (16 * 1024 - 1, 7, Patient),
        (16 * 1024, 1, Urgent),
        (u32::MAX, 1, Urgent),
        (0, 8, Urgent),
        (1, usize::MAX, Urgent),
        (16 * 1024, 8, Urgent),
    ] {
        assert_eq!(
            always(PeerRead { len, waiting }),
            actor,
            "{len}, one of {waiting}"
        );
    }
}

/// A response lets go on what waited for it: the FIN, or a request.
#[test]
fn responses() {
    for stalled in [false, true] {
        let draining = true;
        assert_eq!(always(ReadDone { draining, stalled }), Urgent);
    }
    let draining = false;
    let stalled = ReadDone {
        draining,
        stalled: true,
    };
    assert_eq!(by_consumer(stalled), [Urgent, Patient]);
    let idle = ReadDone {
        draining,
        stalled: false,
    };
    assert_eq!(always(idle), Nobody);
}

/// What else only a work item can do is urgent.
#[test]
fn always_urgent() {
    for reason in [Room, PeerHeard, Completions, BudgetSpent, Note] {
        assert_eq!(always(reason), Urgent, "{reason:?}");
    }
}

/// Nothing is left to nobody but what needs nobody, and a consumer that waits makes work patient,
/// never more urgent.
#[test]
fn waiting_only_makes_patient() {
    for reason in every_reason() {
        let [polls, waits] = by_consumer(reason);
        assert!(
            polls == waits || (polls, waits) == (Urgent, Patient),
            "{reason:?}"
        );
        assert_eq!(
            polls == Nobody,
            matches!(
                reason,
                KernelRecv { flushes: false }
                    | ReadDone {
                        draining: false,
                        stalled: false
                    }
            ),
            "{reason:?}"
        );
        // Only who rings a doorbell can be the one to act.
        let is_doorbell = matches!(reason, Busy { .. } | Doorbell(_));
        assert!(polls != Caller || is_doorbell, "{reason:?}");
    }
}

fn every_reason() -> Vec<Reason> {
    let mut all = vec![
        Doorbell(Pace::Slow),
        Doorbell(Pace::Fast),
        KernelPost,
        Room,
        PeerHeard,
        Completions,
        BudgetSpent,
        Note,
    ];
    for yes in [false, true] {
        all.push(Busy { sends: yes });
        all.push(KernelRecv { flushes: yes });
        for stalled in [false, true] {
            let draining = yes;
            all.push(ReadDone { draining, stalled });
        }
        let len = if yes { 16 * 1024 } else { 0 };
        for waiting in [1, 8] {
            all.push(PeerRead { len, waiting });
        }
    }
    all
}

/// The third doorbell in a row without an answer is one of many, and so are those that follow.
#[test]
fn a_row_of_doorbells() {
    let mut doorbells = Doorbells::default();
    let mut now = 1_000_000;
    let mut ring = |after: u64, answered: bool| {
        now += after;
        doorbells.ring(now, answered)
    };
    assert_eq!(ring(0, false), Pace::Slow);
    assert_eq!(ring(1, false), Pace::Slow);
    for _ in 0..100 {
        assert_eq!(ring(100_000, false), Pace::Fast);
    }
    // A pause begins a new row.
    assert_eq!(ring(100_001, false), Pace::Slow);
    assert_eq!(ring(0, false), Pace::Slow);
    assert_eq!(ring(0, false), Pace::Fast);
    // So does an answer: who waits for one after the other always sends itself.
    for _ in 0..100 {
        assert_eq!(ring(0, true), Pace::Slow);
    }
    assert_eq!(ring(0, false), Pace::Slow);
    assert_eq!(ring(0, false), Pace::Fast);
}

/// A clock that stands still or goes back, and a row without end, are no harm.
#[test]
fn doorbells_without_end() {
    let mut doorbells = Doorbells::default();
    assert_eq!(doorbells.ring(u64::MAX, false), Pace::Slow);
    assert_eq!(doorbells.ring(0, false), Pace::Slow);
    for _ in 0..10 {
        assert_eq!(doorbells.ring(0, false), Pace::Fast);
    }
    assert_eq!(doorbells.ring(u64::MAX, false), Pace::Slow);
}
