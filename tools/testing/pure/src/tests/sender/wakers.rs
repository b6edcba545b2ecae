// SPDX-License-Identifier: GPL-2.0

//! T-11: what a sender waits for, and who wakes it. Each case is run again without being woken, and
//! then must not come to an end: so it shows what it is meant to show. (In all other tests `Sending`
//! checks why the sender stops.)

use super::{fenced, messages, read, send, sending, write, EMSS};
use crate::proto::drain::{Stop, Waker};
use crate::proto::request::{Local, Operation};
use crate::proto::sends::{AT_A_TIME, TIMES};
use crate::proto::setup::Params;
use crate::support::queue::Did;
use crate::support::sending::{params, Posted, Sending};
use crate::support::tcp::waits;
use crate::wire::ddp::Stag;
use crate::wire::rdmap::Opcode;
use crate::wire::terminate::TermError;

fn invalidate() -> Posted {
    let operation = Operation::Local(Local::Invalidate { stag: Stag(9) });
    fenced(Posted::new(operation, 0))
}

/// A sender that waits.
struct Case {
    what: &'static str,
    sending: Sending,
    waker: Waker,
    /// Makes happen what it waits for. Returns whether the waker wakes the sender.
    happens: fn(&mut Sending) -> bool,
    /// Whether what waited has been done.
    is_done: fn(&Sending) -> bool,
}

/// TCP, or the other end on this host, takes everything, and wakes who has left a mark.
fn heals(sending: &mut Sending) -> bool {
    sending.tcp.heal();
    sending.tcp.direct = sending.tcp.direct.and(Some(Ok(true)));
    sending.tcp.marked.is_some()
}

fn read_is_done(sending: &mut Sending) -> bool {
    sending.answer_in_parts(|_, _| {})
}

fn all_begun(sending: &Sending) -> bool {
    sending.queue.waiting() == 0
}

fn is_sent(sending: &Sending) -> bool {
    messages(sending) == [Opcode::Send]
}

fn cases() -> Vec<Case> {
    let case = |what, sending, waker, happens, is_done| Case {
        what,
        sending,
        waker,
        happens,
        is_done,
    };

    let mut full = sending();
    full.tcp.takes = 100;
    full.post(send(10_000));

    let mut starved = sending();
    starved.sender.set_terminate(&TermError::MpaCrc.into());
    starved.tcp.room = 0;
    let terminates = |sending: &Sending| messages(sending) == [Opcode::Terminate];

    let mut lacking = sending();
    lacking.post(send(10));
    lacking.tcp.room = 0;

    let mut responder = Sending::new(
        &Params {
            wait_for_fpdu: true,
            ..params(4)
        },
        EMSS,
        32,
    );
    responder.post(send(10));
    // Whoever stores this always wakes.
    let hears = |sending: &mut Sending| {
        sending.queue.heard = true;
        true
    };

    let mut local = sending();
    local.tcp.direct = Some(waits());
    local.post(send(10));
    let takes = |sending: &Sending| sending.tcp.handed.len() == 1;

    let mut cases = vec![
        case("room in the socket", full, Waker::Socket, heals, is_sent),
        case("memory", lacking, Waker::Timer, heals, is_sent),
        case("memory to end", starved, Waker::Timer, heals, terminates),
        case("the first FPDU", responder, Waker::Peer, hears, is_sent),
        case("the other end", local, Waker::OtherEnd, heals, takes),
    ];
    // Each kind of request that waits for a Read, and one that waits for a record.
    let behind: [(&str, u16, Posted); 5] = [
        ("a fence", 4, fenced(send(10))),
        ("a fence of a Write", 4, fenced(write(10))),
        ("ORD", 1, read(10, false)),
        ("an earlier request", 4, invalidate()),
        ("a record", 4, send(10)),
    ];
    for (what, ord, posted) in behind {
        let records = if what == "a record" { 1 } else { 32 };
        let mut reads = Sending::new(&params(ord), EMSS, records);
        reads.post(read(10, false));
        reads.post(posted);
        cases.push(case(what, reads, Waker::Read, read_is_done, all_begun));
    }
    // The Read of the consumer takes the only place for the sender's own.
    let mut asks = Sending::new(&params(1), EMSS, 32);
    asks.await_placement();
    asks.post(read(10, false));
    asks.post(write(10));
    let is_asked = |sending: &Sending| messages(sending).len() == 3;
    cases.push(case("a Read", asks, Waker::Read, read_is_done, is_asked));
    // One is under way for an earlier Write.
    let mut again = Sending::new(&params(4), EMSS, 32);
    again.await_placement();
    again.post(write(10));
    again.run();
    again.post(write(10));
    let is_asked = |sending: &Sending| messages(sending).len() == 4;
    cases.push(case(
        "placement",
        again,
        Waker::Read,
        read_is_done,
        is_asked,
    ));
    cases
}

#[test]
fn t_11_each_waker() {
    for wakes in [true, false] {
        for case in cases() {
            let (what, mut sending) = (case.what, case.sending);
            // Nothing comes of itself.
            for _ in 0..2 {
                let stop = Stop::For(case.waker.mark(|| ()));
                assert_eq!(sending.run_once(), stop, "{what}: does not wait");
                assert!(!(case.is_done)(&sending), "{what}: does not wait");
            }
            if (case.happens)(&mut sending) && wakes {
                sending.run();
            }
            assert_eq!((case.is_done)(&sending), wakes, "{what}");
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
            sending.post(invalidate());
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
