// SPDX-License-Identifier: GPL-2.0

//! Who sends: each row of the table, what is remembered of doorbells, and what gathers.

use crate::proto::reads::{Inbound, InboundReads};
use crate::proto::schedule::Actor::{self, Caller, Later, Nobody, Patient, Urgent};
use crate::proto::schedule::Reason::{self, *};
use crate::proto::schedule::{who, Doorbells, ReadRow, WORTH};

/// What the row says if the consumer polls, and if it sleeps until an event.
const POLLS_OR_SLEEPS: [bool; 2] = [false, true];

/// For how many doorbells holds what the last ones have shown.
const HOLDS: u32 = 256;

/// Who acts, whatever the consumer does, which must not be asked: that costs something.
fn always(reason: Reason) -> Actor {
    who(reason, || {
        panic!("{reason:?}: what the consumer does does not count")
    })
}

/// Who acts if the consumer polls, and who if it sleeps.
fn by_consumer(reason: Reason) -> [Actor; 2] {
    POLLS_OR_SLEEPS.map(|sleeps| who(reason, || sleeps))
}

/// A thread that rings the doorbell sends itself unless more may come, or somebody else sends.
#[test]
fn doorbells() {
    for (gathers, polls) in [(true, Later), (false, Caller)] {
        let row = false;
        assert_eq!(always(Doorbell { row, gathers }), Caller);
        let row = true;
        let actors = by_consumer(Doorbell { row, gathers });
        assert_eq!(actors, [polls, Patient]);
    }
    assert_eq!(by_consumer(Busy { sends: true }), [Urgent, Patient]);
    // What is not sent is flushed, under the mutex.
    assert_eq!(always(Busy { sends: false }), Caller);
}

/// Consumers in the kernel post in any context. Where the thread may sleep it sends, unless others
/// send, or more is to be done than to send.
#[test]
fn kernel_consumers() {
    assert_eq!(always(KernelPost { may_sleep: false }), Urgent);
    assert_eq!(always(KernelPost { may_sleep: true }), Caller);
    assert_eq!(always(KernelBusy), Urgent);
    assert_eq!(always(KernelRecv { flushes: true }), Urgent);
    assert_eq!(always(KernelRecv { flushes: false }), Nobody);
}

/// Reads of the peer are answered at once, or together.
#[test]
fn reads_of_the_peer() {
    assert_eq!(always(PeerRead { gathers: false }), Urgent);
    assert_eq!(always(PeerRead { gathers: true }), Later);
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
    for reason in [Room, PeerHeard, GoOn, Note] {
        assert_eq!(always(reason), Urgent, "{reason:?}");
    }
}

/// Nothing is left to nobody but what needs nobody, and a consumer that sleeps makes work patient,
/// never more urgent.
#[test]
fn sleeping_only_makes_patient() {
    for reason in every_reason() {
        let [polls, sleeps] = by_consumer(reason);
        assert!(
            polls == sleeps || sleeps == Patient && polls != Nobody,
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
        // Only who rings a doorbell, or posts in the kernel, can be the one to act.
        let posts = matches!(
            reason,
            Busy { .. } | Doorbell { .. } | KernelPost { may_sleep: true }
        );
        assert!(polls != Caller || posts, "{reason:?}");
    }
}

fn every_reason() -> Vec<Reason> {
    let mut all = vec![KernelBusy, Room, PeerHeard, GoOn, Note];
    for yes in [false, true] {
        all.push(Busy { sends: yes });
        for gathers in [false, true] {
            let row = yes;
            all.push(Doorbell { row, gathers });
        }
        all.push(KernelPost { may_sleep: yes });
        all.push(KernelRecv { flushes: yes });
        all.push(PeerRead { gathers: yes });
        for stalled in [false, true] {
            let draining = yes;
            all.push(ReadDone { draining, stalled });
        }
    }
    all
}

/// A process that rings doorbells, and those who take its requests.
#[derive(Clone, Copy)]
struct Ringer {
    doorbells: Doorbells,
    taken: u32,
    events: u32,
}

impl Ringer {
    /// A process whose next doorbell will be in a row; the numbers wrap soon.
    fn new() -> Self {
        let mut ringer = Ringer {
            doorbells: Doorbells::new(),
            taken: u32::MAX - 50,
            events: 0,
        };
        for _ in 1..WORTH {
            assert_eq!(ringer.ring(1), Caller);
        }
        ringer
    }

    /// The doorbell of a process that polls rings after `taken` more requests were taken. Returns
    /// who sends.
    fn ring_after(&mut self, taken: u32, answered: bool) -> Actor {
        self.taken = self.taken.wrapping_add(taken);
        self.doorbells.ring(self.taken, self.events, answered);
        let (row, gathers) = (self.doorbells.is_row(), self.doorbells.is_worth_it());
        let actor = who(Doorbell { row, gathers }, || false);
        if actor == Later {
            self.doorbells.gather();
        }
        actor
    }

    /// As [`Ringer::ring_after`], without an answer of the peer.
    fn ring(&mut self, taken: u32) -> Actor {
        self.ring_after(taken, false)
    }
}

/// Requests of a process with many on their way gather, as long as the peer does not answer all.
#[test]
fn requests_gather() {
    for count in [WORTH, 5, 64, 100_000] {
        let mut ringer = Ringer::new();
        for _ in 0..1_000 {
            assert_eq!(ringer.ring(count), Later, "{count}");
        }
        assert_eq!(ringer.ring_after(count, true), Caller, "{count}");
        for _ in 2..WORTH {
            assert_eq!(ringer.ring(1), Caller, "{count}");
        }
        assert_eq!(ringer.ring(1), Later, "{count}");
    }
}

/// If too few come, those that follow are sent one by one, and then they are given time again.
#[test]
fn requests_in_vain() {
    for count in 1..WORTH {
        let mut ringer = Ringer::new();
        for _ in 0..5 {
            assert_eq!(ringer.ring(1), Later, "{count}");
            for n in 0..HOLDS {
                let taken = if n == 0 { count } else { 1 };
                assert_eq!(ringer.ring(taken), Caller, "{count}: {n}");
            }
        }
        // There are more now.
        assert_eq!(ringer.ring(1), Later);
        assert_eq!(ringer.ring(WORTH), Later);
    }
}

/// A process that waits for an answer after few requests always sends by itself, and nothing is found
/// out about it.
#[test]
fn requests_that_are_answered() {
    for few in 1..WORTH {
        let mut ringer = Ringer::new();
        for n in 0..10 * few * HOLDS {
            assert_eq!(ringer.ring_after(1, n % few == 0), Caller, "{few}");
        }
        for _ in few + 1..WORTH {
            assert_eq!(ringer.ring(1), Caller, "{few}");
        }
        assert_eq!(ringer.ring(1), Later, "{few}");
    }
}

/// Where none was taken up to the next doorbell, nothing was in vain.
#[test]
fn requests_that_still_gather() {
    let mut ringer = Ringer::new();
    for _ in 0..10 {
        assert_eq!(ringer.ring(0), Later);
    }
    assert_eq!(ringer.ring(WORTH), Later);
    assert_eq!(ringer.ring(0), Later);
    assert_eq!(ringer.ring(1), Caller);
}

/// A process has slept if an event came of late, and not for ever.
#[test]
fn processes_that_sleep() {
    let mut ringer = Ringer::new();
    assert!(!ringer.doorbells.has_slept());
    for _ in 0..5 {
        ringer.events = ringer.events.wrapping_sub(1);
        for _ in 0..HOLDS {
            ringer.ring(1);
            assert!(ringer.doorbells.has_slept());
        }
        for _ in 0..10 {
            ringer.ring(1);
            assert!(!ringer.doorbells.has_slept());
        }
    }
}

/// Reads that come in rows of so many, each before any is answered. Returns how many of the rows
/// were left to gather.
fn rows(row: &mut ReadRow, depth: u32, count: u32) -> u32 {
    let mut gathered = 0;
    for _ in 0..count {
        let reasons: Vec<_> = (1..=depth).map(|waiting| row.arrive(waiting)).collect();
        // It is as it was for the first.
        assert!(reasons.iter().all(|reason| *reason == reasons[0]));
        gathered += u32::from(reasons[0] == (PeerRead { gathers: true }));
    }
    gathered
}

/// Reads of a peer with many on their way gather from the second row on. One with few never waits.
#[test]
fn reads_gather() {
    for depth in 1..20 {
        let mut row = ReadRow::new();
        let gathered = rows(&mut row, depth, 100);
        assert_eq!(gathered, if depth < WORTH { 0 } else { 99 }, "{depth}");
        // It has as many as another one now.
        rows(&mut row, WORTH, 1);
        assert_eq!(rows(&mut row, WORTH, 100), 100, "{depth}");
        rows(&mut row, WORTH - 1, 1);
        assert_eq!(rows(&mut row, WORTH - 1, 100), 0, "{depth}");
    }
}

/// Reads that are answered by and by are one row: what counts is how many waited at a time.
#[test]
fn reads_that_are_answered_by_and_by() {
    let mut row = ReadRow::new();
    let gathers = PeerRead { gathers: true };
    rows(&mut row, WORTH, 1);
    for _ in 0..10 {
        for waiting in [1, 2, 3, 4, 2, 2, 3] {
            assert_eq!(row.arrive(waiting), gathers);
        }
    }
    for waiting in [1, 2, 3, 3, 3, 3, 3] {
        assert_eq!(row.arrive(waiting), gathers);
    }
    assert_eq!(row.arrive(1), PeerRead { gathers: false });
}

/// The queue of Reads says how many wait.
#[test]
fn reads_in_their_queue() {
    let mut inbound = InboundReads::new(vec![Inbound::default(); 8]);
    for (count, gathers) in [(4, false), (8, true), (3, true), (4, false)] {
        for _ in 0..count {
            let pushed = inbound.push(Inbound::default());
            assert_eq!(pushed, Ok(PeerRead { gathers }));
        }
        while inbound.pop().is_some() {}
    }
}
