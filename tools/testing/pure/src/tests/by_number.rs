// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that are connected by number: who dials, who meets whom, and for how long they try.

use crate::proto::by_number::{
    answer_ms, judge, receive_ms, Callee, Caller, Gid, Hello, Objection, Pair, QpEnd, Silence,
    Trying, Verdict, HELLO_LEN,
};
use crate::support::rng::{Choices, Rng};

const A: Gid = [1; 16];
const B: Gid = [2; 16];

/// Both ends of a connection, as each has been told.
fn pairs(qpn_a: u32, qpn_b: u32) -> (Pair, Pair) {
    let (a, b) = (QpEnd::new(qpn_a, A), QpEnd::new(qpn_b, B));
    (Pair::new(a, b, 0xb), Pair::new(b, a, 0xa))
}

/// Exactly one of the two dials, whatever their numbers, and whichever of its addresses an end has
/// been told of if their numbers differ.
#[test]
fn one_of_the_two_dials() {
    for (qpn_a, qpn_b) in [(2, 2), (2, 3), (3, 2), (0xff_ffff, 0)] {
        let (a, b) = pairs(qpn_a, qpn_b);
        assert_eq!((a.dials(), a.listens()), (b.listens(), b.dials()));
        assert_ne!(a.dials(), b.dials(), "{qpn_a} {qpn_b}");
    }
    let end = QpEnd::new(0x0100_0005, A);
    assert_eq!((end.qpn(), end.gid()), (5, A));
    let elsewhere = Pair::new(QpEnd::new(2, [9; 16]), QpEnd::new(3, [8; 16]), 0);
    assert!(!elsewhere.dials());
}

/// A queue pair that is connected to itself neither dials nor lets anybody in.
#[test]
fn one_end_is_both() {
    let same = QpEnd::new(2, A);
    // Bits above the 24 of a number mean nothing.
    for peer in [same, QpEnd::new(0xff00_0002, A)] {
        let pair = Pair::new(same, peer, 7);
        assert_eq!(pair.caller(), Caller::Nobody);
        assert!(!pair.dials() && !pair.listens());
        let hello = pair.hello(None, true);
        // What it expects is its own PSN.
        assert_eq!(pair.check(&hello, Some(7)), Ok(()));
        assert_eq!(pair.check(&hello, Some(8)), Err(Objection::Psn));
        let seen = Callee::Waits(pair, Some(7));
        let verdict = judge(&hello, A, A, seen);
        assert_eq!(verdict, Verdict::Refuse(Objection::NotExpected));
    }
    let pair = Pair::new(same, QpEnd::new(2, B), 7);
    assert_eq!(pair.caller(), Caller::OtherEnd);
}

#[test]
fn a_hello_is_what_it_was() {
    let (a, _) = pairs(0x12_3456, 0x65_4321);
    for rnr_retry in [None, Some(0), Some(7)] {
        let hello = a.hello(rnr_retry, rnr_retry.is_none());
        let wire = hello.to_wire();
        assert_eq!(Hello::parse(&wire), Ok(hello));
        assert_eq!((hello.from, hello.to), (0x12_3456, 0x65_4321));
        assert_eq!(hello.rnr_retry, rnr_retry);
        assert_eq!(hello.takes_immediate, rnr_retry.is_none());
        // A later version may say more behind it.
        let mut longer = wire.to_vec();
        longer.push(1);
        assert_eq!(Hello::parse(&longer), Ok(hello));
        assert_eq!(
            Hello::parse(&wire[..HELLO_LEN - 1]),
            Err(Objection::Foreign)
        );
        for at in 0..8 {
            let mut other = wire;
            other[at] ^= 0x40;
            assert_eq!(Hello::parse(&other), Err(Objection::Foreign));
        }
        let mut other = wire;
        other[8] = 2;
        assert_eq!(Hello::parse(&other), Err(Objection::Version));
    }
    assert_eq!(Hello::parse(&[]), Err(Objection::Foreign));
}

#[test]
fn a_refusal_says_why() {
    let all = [
        Objection::Foreign,
        Objection::Version,
        Objection::NoSuchQp,
        Objection::NotExpected,
        Objection::Taken,
        Objection::Psn,
        Objection::Crowded,
    ];
    for (n, objection) in (1..).zip(all) {
        let wire = objection.to_wire();
        assert_eq!(wire[9], n);
        assert_eq!(Hello::parse(&wire), Err(objection));
        assert!(!objection.text().is_empty());
    }
    let mut unknown = Objection::Psn.to_wire();
    unknown[9] = 99;
    assert_eq!(Hello::parse(&unknown), Err(Objection::Foreign));
}

/// A Request is taken from the address that the QP names only, and if both numbers and the PSN are
/// right; one that comes early is parked.
#[test]
fn who_is_let_in() {
    let (a, b) = pairs(5, 4);
    let hello = a.hello(None, true);
    let waits = |psn| Callee::Waits(b, psn);
    assert_eq!(judge(&hello, A, B, waits(None)), Verdict::Accept);
    assert_eq!(judge(&hello, A, B, waits(Some(0xb))), Verdict::Accept);
    assert_eq!(
        judge(&hello, A, B, waits(Some(0x0100_000b))),
        Verdict::Accept
    );
    let refused = |verdict| match verdict {
        Verdict::Refuse(objection) => objection,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(judge(&hello, A, B, waits(Some(0xc)))),
        Objection::Psn
    );
    assert_eq!(judge(&hello, A, B, Callee::Unready), Verdict::Park);
    assert_eq!(
        refused(judge(&hello, A, B, Callee::Nobody)),
        Objection::NoSuchQp
    );
    assert_eq!(
        refused(judge(&hello, A, B, Callee::Taken)),
        Objection::Taken
    );
    let not_expected = [
        judge(&hello, [3; 16], B, waits(None)),
        judge(&hello, A, [3; 16], waits(None)),
        judge(&pairs(6, 4).0.hello(None, true), A, B, waits(None)),
        judge(&pairs(5, 3).0.hello(None, true), A, B, waits(None)),
        // This end is the one that dials.
        judge(&b.hello(None, true), B, A, Callee::Waits(a, None)),
    ];
    for verdict in not_expected {
        assert_eq!(refused(verdict), Objection::NotExpected);
    }
}

/// Each end finds out that the other one expects another PSN, whichever of both takes the step to
/// RTS first.
#[test]
fn psns_are_checked_when_they_are_known() {
    let (a, b) = pairs(5, 4);
    assert_eq!(b.check(&a.hello(None, true), None), Ok(()));
    assert_eq!(b.check(&a.hello(None, true), Some(0xb)), Ok(()));
    assert_eq!(
        b.check(&a.hello(None, true), Some(0xa)),
        Err(Objection::Psn)
    );
    assert_eq!(
        a.hello(None, true).check_psn(Some(0xa)),
        Err(Objection::Psn)
    );
    assert_eq!(a.hello(None, true).check_psn(None), Ok(()));
}

/// The two ends of a connection, with the steps and messages that may come in any order.
struct Model {
    ends: [(Pair, bool); 2],
    parked: Option<Hello>,
    met: bool,
}

impl Model {
    fn new() -> Self {
        let (a, b) = pairs(5, 4);
        Self {
            ends: [(a, false), (b, false)],
            parked: None,
            met: false,
        }
    }

    fn dialer(&self) -> usize {
        usize::from(!self.ends[0].0.dials())
    }

    /// What the work of an end does.
    fn act(&mut self, end: usize) {
        let (pair, is_ready) = self.ends[end];
        if !is_ready || self.met {
            return;
        }
        if !pair.dials() {
            // It looks whether the Request is there already.
            self.met = self
                .parked
                .take()
                .is_some_and(|hello| pair.check(&hello, None).is_ok());
            return;
        }
        let hello = pair.hello(None, true);
        let (other, other_is_ready) = self.ends[1 - end];
        let seen = match other_is_ready {
            true => Callee::Waits(other, None),
            false => Callee::Unready,
        };
        match judge(&hello, A, B, seen) {
            Verdict::Accept => self.met = true,
            Verdict::Park => self.parked = Some(hello),
            Verdict::Refuse(objection) => panic!("{objection:?}"),
        }
    }
}

/// In whatever order the ends are ready and act, they meet once both have been ready and have acted
/// since.
#[test]
fn the_two_meet_in_any_order() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        for _ in 0..rng.below(12) {
            let end = usize::from(rng.below(2) == 1);
            match rng.below(3) {
                0 => model.ends[end].1 = true,
                // TCP is lost, or the Request has waited for too long.
                1 if !model.met => model.parked = None,
                _ => model.act(end),
            }
            assert!(!model.met || model.ends.iter().all(|(_, is_ready)| *is_ready));
        }
        model.ends[0].1 = true;
        model.ends[1].1 = true;
        model.act(model.dialer());
        model.act(1 - model.dialer());
        assert!(model.met, "seed {seed}");
    }
}

#[test]
fn pauses_grow_and_waiting_ends() {
    let mut trying = Trying::NOT_YET;
    assert!(trying.is_first());
    let mut now = 7_000;
    for pause in [50, 100, 200, 400, 800, 1_000, 1_000] {
        assert_eq!(trying.next(now, false, 2_000), Some(pause));
        now += u64::from(pause);
    }
    assert!(!trying.is_first());
    // Only what is posted waits, and from then on.
    let mut next = |ms, posted| trying.next(now + ms, posted, 2_000);
    assert_eq!(next(0, true), Some(1_000));
    assert_eq!(next(1_000, false), Some(1_000));
    assert_eq!(next(2_000, true), Some(1_000));
    assert_eq!(next(3_000, true), None);
}

/// Tries that come early, as streams end in vain, use up no time; nor does a host that is late.
#[test]
fn waiting_ends_by_the_clock() {
    let mut trying = Trying::NOT_YET;
    assert_eq!(trying.next(0, true, 2_000), Some(50));
    for now in 1..2_000 {
        assert!(trying.next(now, true, 2_000).is_some(), "after {now} ms");
    }
    assert_eq!(trying.next(2_000, true, 2_000), None);
    let mut trying = Trying::NOT_YET;
    for _ in 0..20 {
        assert!(trying.next(5, true, 2_000).is_some());
    }
    // The pauses have grown to a second meanwhile.
    assert!(trying.next(60_000, true, 2_000).is_some());
    assert_eq!(trying.next(61_000, true, 2_000), None);
}

#[test]
fn the_first_try_waits_for_rts_once() {
    let mut trying = Trying::NOT_YET;
    assert_eq!(trying.put_off(false), Some(200));
    assert_eq!(trying.put_off(false), None);
    let mut trying = Trying::NOT_YET;
    assert_eq!(trying.put_off(true), None);
    // Nor do later tries.
    let _ = trying.next(0, false, 2_000);
    assert_eq!(trying.put_off(false), None);
}

/// Only a peer that acknowledges nothing for all of the time is silent.
#[test]
fn silence() {
    let mut silence = Silence::NONE;
    assert_eq!(
        [500, 3_000, 8_000, 60_000].map(Silence::pause),
        [500, 750, 2_000, 5_000]
    );
    assert!(!silence.look(0, Some(200), 1_000));
    assert!(!silence.look(500, Some(700), 1_000));
    assert!(silence.look(1_000, Some(1_200), 1_000));
    let mut silence = Silence::NONE;
    // After a long rest, it has been asked just now.
    assert!(!silence.look(0, Some(60_000), 1_000));
    assert!(!silence.look(500, Some(100), 1_000));
    assert!(!silence.look(1_000, Some(600), 1_000));
    assert!(!silence.look(1_500, None, 1_000));
    assert!(!silence.look(2_000, Some(600), 1_000));
    assert!(silence.look(2_500, Some(1_100), 1_000));
    // Looks that come early, and one that comes late.
    let mut silence = Silence::NONE;
    for now in 0..1_000 {
        assert!(!silence.look(now, Some(60_000), 1_000));
    }
    assert!(silence.look(1_000, Some(61_000), 1_000));
    let mut silence = Silence::NONE;
    assert!(!silence.look(0, None, 1_000));
    assert!(!silence.look(60_000, Some(60_000), 1_000));
    assert!(silence.look(60_500, Some(60_500), 1_000));
}

#[test]
fn times_are_those_of_infiniband() {
    assert_eq!(answer_ms(14, 7), 2_000);
    assert_eq!(answer_ms(20, 0), 4_294);
    assert_eq!(answer_ms(20, 6), 30_064);
    assert_eq!(answer_ms(0, 0), 60_000);
    assert_eq!(answer_ms(31, 7), 60_000);
    assert_eq!(answer_ms(255, 255), 60_000);
    assert_eq!(receive_ms(Some(0), 12), 0);
    assert_eq!(receive_ms(Some(1), 12), 1);
    assert_eq!(receive_ms(Some(6), 0), 3_933);
    assert_eq!(receive_ms(Some(2), 31), 984);
    assert_eq!(receive_ms(Some(2), 0xff), 984);
    for forever in [None, Some(7), Some(200)] {
        assert_eq!(receive_ms(forever, 1), u32::MAX);
    }
}
