// SPDX-License-Identifier: GPL-2.0

//! T-11: what a sender waits for, and who tells it that this is there. Each case is run again without
//! being told, and then must not come to an end: so it shows what it is meant to show. (In all other
//! tests `Sending` checks that a sender that is idle waits for something.)

use super::{messages, read, send, sending, write, EMSS};
use crate::proto::direct::HandedOver;
use crate::proto::request::Operation;
use crate::proto::sends::{AT_A_TIME, TIMES};
use crate::proto::setup::Params;
use crate::support::queue::Did;
use crate::support::sending::{params, Posted, Sending};
use crate::wire::ddp::Stag;
use crate::wire::rdmap::Opcode;
use crate::wire::terminate::TermError;

fn invalidate(fence: bool) -> Posted {
    let operation = Operation::Invalidate { stag: Stag(9) };
    Posted {
        fence,
        ..Posted::new(operation, 0)
    }
}

fn fenced(posted: Posted) -> Posted {
    Posted {
        fence: true,
        ..posted
    }
}

/// A sender that waits, and what it waits for.
struct Case {
    what: &'static str,
    sending: Sending,
    /// Makes it happen. Returns whether the sender is told.
    happens: fn(&mut Sending) -> bool,
    /// Whether what was waited for has been done.
    is_done: fn(&Sending) -> bool,
}

fn read_is_done(sending: &mut Sending) -> bool {
    sending.answer_in_parts(|_, _| {})
}

fn all_begun(sending: &Sending) -> bool {
    sending.queue.waiting() == 0
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |what, sending, happens, is_done| {
        cases.push(Case {
            what,
            sending,
            happens,
            is_done,
        });
    };

    let mut full = sending();
    full.tcp.takes = 100;
    full.post(send(10_000));
    add(
        "room in the socket",
        full,
        |sending| {
            let was_told = sending.tcp.told.room;
            sending.tcp.heal();
            was_told
        },
        |sending| messages(sending) == [Opcode::Send],
    );

    let mut starved = sending();
    starved.sender.set_terminate(&TermError::MpaCrc.into());
    starved.tcp.room = 0;
    add(
        "memory for a Terminate",
        starved,
        |sending| {
            let was_told = sending.tcp.told.memory;
            sending.tcp.heal();
            was_told
        },
        |sending| messages(sending) == [Opcode::Terminate],
    );

    // Each kind of request that waits for a Read, and one that waits for a record.
    let behind: [(&str, u16, Posted); 5] = [
        ("a fence", 4, fenced(send(10))),
        ("a fence of a Write", 4, fenced(write(10))),
        ("ORD", 1, read(10, false)),
        ("an earlier request", 4, invalidate(true)),
        ("a record", 4, send(10)),
    ];
    for (what, ord, posted) in behind {
        let records = if what == "a record" { 1 } else { 32 };
        let mut reads = Sending::new(&params(ord), EMSS, records);
        reads.post(read(10, false));
        reads.post(posted);
        add(what, reads, read_is_done, all_begun);
    }

    let waits = Params {
        wait_for_fpdu: true,
        ..params(4)
    };
    let mut responder = Sending::new(&waits, EMSS, 32);
    responder.post(send(10));
    add(
        "the first FPDU of the peer",
        responder,
        |sending| {
            sending.queue.heard = true;
            true
        },
        |sending| messages(sending) == [Opcode::Send],
    );

    let mut local = sending();
    local.tcp.direct = Some(HandedOver::Later);
    local.post(send(10));
    add(
        "the other end on this host",
        local,
        |sending| {
            let was_told = sending.tcp.told.other_end;
            sending.tcp.direct = Some(HandedOver::Taken);
            was_told
        },
        |sending| sending.tcp.handed.len() == 1,
    );
    cases
}

#[test]
fn t_11_each_waker() {
    for tells in [true, false] {
        for case in cases() {
            let (what, mut sending) = (case.what, case.sending);
            // Nothing comes of itself.
            for _ in 0..2 {
                sending.run();
                assert!(!(case.is_done)(&sending), "{what}: does not wait");
            }
            if (case.happens)(&mut sending) && tells {
                sending.run();
            }
            assert_eq!((case.is_done)(&sending), tells, "{what}");
        }
    }
}

/// A request that is looked at between any two of the holds in which others complete behind a Read is
/// carried out by itself.
#[test]
fn t_11_between_parts() {
    let most = AT_A_TIME * TIMES as usize;
    let mut in_between = 0;
    for writes in [
        0,
        1,
        62,
        63,
        64,
        100,
        127,
        128,
        200,
        most - 1,
        most,
        most + 1,
    ] {
        for at in 0..TIMES {
            let mut sending = Sending::new(&params(4), EMSS, 512);
            sending.post(read(10, false));
            for _ in 0..writes {
                sending.post(write(8));
            }
            sending.run();
            assert!(sending.did().contains(&Did::Sent));
            sending.post(invalidate(true));
            let mut looked = false;
            let is_told = sending.answer_in_parts(|sending, hold| {
                if hold == at {
                    // Its doorbell has the sender look at it, and nothing else does.
                    sending.run();
                    looked = true;
                    in_between += usize::from(sending.queue.stalled() && hold > 0);
                }
            });
            if !looked || is_told {
                sending.run();
            }
            assert_eq!(
                sending.queue.completions.len(),
                writes + 2,
                "{writes}, {at}"
            );
        }
    }
    assert!(in_between > 10, "{in_between}");
}
