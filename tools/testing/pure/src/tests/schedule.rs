// SPDX-License-Identifier: GPL-2.0

//! Who sends: each row of the table, what is remembered of doorbells, and what gathers.

use crate::proto::schedule::Actor::{self, Caller, Later, Patient, Urgent};
use crate::proto::schedule::Reason::{self, *};
use crate::proto::schedule::{who, Doorbells, Row, WORTH};

/// What the row says if the consumer polls, and if it sleeps until an event.
const POLLS_OR_SLEEPS: [bool; 2] = [false, true];

/// For how many doorbells holds what the last ones have shown.
const HOLDS: u32 = 256;

/// Who sends, whatever the consumer does, which must not be asked: that costs something.
fn always(reason: Reason) -> Actor {
    who(reason, || {
        panic!("{reason:?}: what the consumer does does not count")
    })
}

/// Who sends if the consumer polls, and who if it sleeps.
fn by_consumer(reason: Reason) -> [Actor; 2] {
    POLLS_OR_SLEEPS.map(|sleeps| who(reason, || sleeps))
}

/// A thread that rings the doorbell sends itself unless more may come.
#[test]
fn doorbells() {
    for row in [Row::None, Row::OneByOne] {
        assert_eq!(always(Doorbell(row)), Caller);
    }
    assert_eq!(always(Doorbell(Row::Gathers)), Later);
    assert_eq!(by_consumer(Doorbell(Row::Leaves)), [Caller, Patient]);
}

/// What was left to a work item comes in its turn if nobody polls for it.
#[test]
fn left_to_a_work_item() {
    assert_eq!(by_consumer(Left), [Urgent, Patient]);
}

/// The thread of a consumer in the kernel sends, unless it may not sleep and has more under way.
#[test]
fn kernel_consumers() {
    for one_of_many in [false, true] {
        let actor = if one_of_many { Patient } else { Caller };
        assert_eq!(always(KernelPost { one_of_many }), actor);
    }
}

/// A process that rings doorbells, and those who take its requests.
#[derive(Clone, Copy)]
struct Ringer {
    doorbells: Doorbells,
    taken: u32,
    events: u32,
    /// It sleeps until an event.
    sleeps: bool,
}

impl Ringer {
    /// A process whose next doorbell will be in a row; the numbers wrap soon.
    fn new() -> Self {
        let mut ringer = Ringer {
            doorbells: Doorbells::new(),
            taken: u32::MAX - 50,
            events: 0,
            sleeps: false,
        };
        for _ in 1..WORTH {
            assert_eq!(ringer.ring(1), Caller);
        }
        ringer
    }

    /// The doorbell rings while few requests wait, after `taken` more requests were taken. Returns
    /// who sends.
    fn ring_after(&mut self, taken: u32, answered: bool) -> Actor {
        self.taken = self.taken.wrapping_add(taken);
        self.doorbells.ring(self.taken, self.events, answered);
        let actor = who(Doorbell(self.doorbells.row(true)), || self.sleeps);
        if actor != Caller {
            self.doorbells.leave();
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

/// If too few come some times in succession, those that follow are sent one by one, and then they are
/// given time again.
#[test]
fn requests_in_vain() {
    for count in 1..WORTH {
        let mut ringer = Ringer::new();
        for _ in 0..5 {
            assert_eq!(ringer.ring(1), Later, "{count}");
            for _ in 1..WORTH {
                assert_eq!(ringer.ring(count), Later, "{count}");
            }
            for n in 0..HOLDS {
                let taken = if n == 0 { count } else { 1 };
                assert_eq!(ringer.ring(taken), Caller, "{count}: {n}");
            }
        }
        // There are more now, but for some.
        assert_eq!(ringer.ring(1), Later);
        for _ in 0..100 {
            for _ in 1..WORTH {
                assert_eq!(ringer.ring(count), Later);
            }
            assert_eq!(ringer.ring(WORTH), Later);
        }
    }
}

/// Where the process sleeps, requests for which time was in vain are left to the patient work item.
/// If that finds too few some times in succession, too, those that follow are sent one by one, and
/// then they are given time again.
#[test]
fn turns_in_vain() {
    for count in 1..WORTH {
        let mut ringer = Ringer::new();
        ringer.sleeps = true;
        for _ in 0..5 {
            assert_eq!(ringer.ring(1), Later, "{count}");
            for _ in 1..WORTH {
                assert_eq!(ringer.ring(count), Later, "{count}");
            }
            for n in 0..WORTH {
                assert_eq!(ringer.ring(count), Patient, "{count}: {n}");
            }
            for n in 0..HOLDS {
                assert_eq!(ringer.ring(count), Caller, "{count}: {n}");
            }
        }
    }
}

/// The patient work item goes on as long as it finds enough now and then, until time is tried again.
#[test]
fn turns_that_are_worth_it() {
    let mut ringer = Ringer::new();
    ringer.sleeps = true;
    for _ in 0..5 {
        for _ in 0..WORTH {
            assert_eq!(ringer.ring(1), Later);
        }
        for n in 0..HOLDS {
            let is_last = n % WORTH == WORTH - 1;
            let taken = if is_last { WORTH } else { 1 };
            assert_eq!(ringer.ring(taken), Patient, "{n}");
        }
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
    for _ in 1..WORTH {
        assert_eq!(ringer.ring(1), Later);
    }
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
