// SPDX-License-Identifier: GPL-2.0

//! Enhanced set-up (RFC 6581).

use super::*;

/// X-ENH-2, X-ENH-3: what is not enhanced gets no enhanced answer, and the other way round.
#[test]
fn x_enh_3_same_format_back() {
    let pd = words(7, 7, NO_BITS);
    for (flags, rev, enhanced) in [
        (C, 1, false),
        (C | S, 1, false),
        (C, 2, false),
        (C | S, 2, true),
    ] {
        let (mut responder, event) = respond(config(2), &frame(REQ, flags, rev, &pd));
        let SetupEvent::Request(got) = event else {
            panic!();
        };
        // Without negotiation the consumer may take what the device can do.
        assert_eq!(
            (got.ird, got.ord),
            if enhanced { (7, 7) } else { (128, 128) }
        );
        assert_eq!(responder.private_data().len(), if enhanced { 0 } else { 4 });
        let (reply, params) = accept(&mut responder, depths(3, 4), b"pd");
        let want = if enhanced {
            [words(7, 4, NO_BITS), b"pd".to_vec()].concat()
        } else {
            b"pd".to_vec()
        };
        assert_eq!(
            reply,
            frame(REP, flags & if enhanced { C | S } else { C }, rev, &want)
        );
        assert_eq!((params.ird, params.ord), (if enhanced { 7 } else { 3 }, 4));
    }
}

/// T-9, X-ENH-4: the S bit with less private data than the words need.
#[test]
fn x_enh_4_short_enhanced_frames() {
    for len in 0..4 {
        let request = frame(REQ, C | S, 2, &[0; 3][..len]);
        assert_eq!(
            reason(respond(config(2), &request).1),
            (Reason::PrivateData, None)
        );
        for flags in [C | S, C | S | R] {
            let reply = frame(REP, flags, 2, &[0; 3][..len]);
            let (_, event) = initiate(config(2), depths(1, 1), &reply);
            assert_eq!(reason(event), (Reason::PrivateData, None));
        }
    }
}

/// X-ENH-7, X-ENH-8, X-ENH-11, X-ENH-21, T-29: the depths.
#[test]
fn x_enh_7_8_depths() {
    // Request (ird, ord), consumer's wish, Reply, own.
    let none = NO_NEGOTIATION;
    for (request, want, reply, own) in [
        ((2, 5), (1, 16), (5, 2), (5, 2)),
        ((2, 5), (8, 1), (8, 1), (8, 1)),
        ((0, 0), (4, 4), (4, 0), (4, 0)),
        ((none, 5), (1, 16), (5, none), (5, 16)),
        ((2, none), (1, 16), (none, 2), (1, 2)),
        ((none, none), (9, 8), (none, none), (9, 8)),
        ((16000, 16000), (1, 200), (128, 128), (128, 128)),
    ] {
        let pd = words(request.0, request.1, NO_BITS);
        let (mut responder, _) = respond(config(2), &frame(REQ, C | S, 2, &pd));
        let (got, params) = accept(&mut responder, depths(want.0, want.1), &[]);
        assert_eq!(
            got[20..],
            words(reply.0, reply.1, NO_BITS),
            "{request:?} {want:?}"
        );
        assert_eq!((params.ird, params.ord), own, "{request:?} {want:?}");
    }
    // Reply (ird, ord), wish, own.
    for (reply, want, own) in [
        ((1, 1), (4, 4), (4, 1)),
        ((8, 8), (4, 4), (8, 4)),
        ((none, 2), (4, 4), (4, 4)),
        ((2, none), (4, 4), (4, 2)),
        ((0, 0), (4, 4), (4, 0)),
        ((16383 - 1, 128), (4, 200), (128, 128)),
    ] {
        let frame = frame(REP, C | S, 2, &words(reply.0, reply.1, NO_BITS));
        let (_, event) = initiate(config(2), depths(want.0, want.1), &frame);
        let params = established(event);
        assert_eq!((params.ird, params.ord), own, "{reply:?} {want:?}");
    }
}

/// What a side agrees on with itself is what it agrees on with one that is like it.
#[test]
fn a_side_that_is_its_own_peer() {
    for (crc, large_fpdus) in [(false, false), (false, true), (true, false), (true, true)] {
        let config = Config {
            crc,
            large_fpdus,
            ..config(2)
        };
        let flags = S | if crc { C } else { 0 } | if large_fpdus { L } else { 0 };
        let reply = frame(REP, flags, 2, &words(128, 128, NO_BITS));
        let other = established(initiate(config, config.cap, &reply).1);
        let own = Params {
            event: other.event,
            ..Params::with_itself(&config)
        };
        assert_eq!(own, other);
    }
}

/// X-ENH-9: the responder wants what cannot be.
#[test]
fn x_enh_9_insufficient_ird() {
    let reply = frame(REP, C | S, 2, &words(1, 200, NO_BITS));
    let (_, event) = initiate(config(2), depths(4, 4), &reply);
    let want = (Reason::InsufficientIrd, Some(TermError::MpaInsufficientIrd));
    assert_eq!(reason(event), want);
}

/// T-30, L-CORE-5, X-ENH-10: the depths in events, cut to 8 bits.
#[test]
fn t_30_event_depths() {
    let request = frame(REQ, S, 2, &words(300, 4, NO_BITS));
    let SetupEvent::Request(got) = respond(config(2), &request).1 else {
        panic!();
    };
    assert_eq!((got.ird, got.ord), (255, 4));
    let request = frame(REQ, S, 2, &words(NO_NEGOTIATION, 4, NO_BITS));
    let SetupEvent::Request(got) = respond(config(2), &request).1 else {
        panic!();
    };
    assert_eq!((got.ird, got.ord), (128, 4));
    // At the initiator: the responder's ORD as `ird`, its IRD as `ord`.
    let reply = frame(REP, S, 2, &words(300, 5, NO_BITS));
    let params = established(initiate(config(2), depths(16, 16), &reply).1);
    assert_eq!((params.event.ird, params.event.ord), (5, 255));
    let reply = frame(REP, S | R, 2, &words(7, 5, NO_BITS));
    let SetupEvent::Rejected(got) = initiate(config(2), depths(16, 16), &reply).1 else {
        panic!();
    };
    assert_eq!((got.ird, got.ord), (5, 7));
}

/// X-ENH-12 to X-ENH-16, X-ENH-18: peer-to-peer mode.
#[test]
fn x_enh_12_16_peer_to_peer() {
    // A = 0: B, C, D mean nothing.
    let (mut responder, _) = respond(
        config(2),
        &frame(REQ, C | S, 2, &words(1, 1, [false, true, true, true])),
    );
    let (reply, params) = accept(&mut responder, depths(1, 1), &[]);
    assert_eq!(reply[20..], words(1, 1, NO_BITS));
    assert!(!params.peer_to_peer && params.expect_rtr.is_empty());

    // Each offer is answered with what is common, an empty one with something.
    for offer in 0..8u8 {
        let bits = [true, offer & 4 != 0, offer & 2 != 0, offer & 1 != 0];
        let (mut responder, _) = respond(config(2), &frame(REQ, C | S, 2, &words(1, 0, bits)));
        let (reply, params) = accept(&mut responder, depths(0, 1), &[]);
        let answer = Enhanced::parse([reply[20], reply[21], reply[22], reply[23]]);
        assert!(params.peer_to_peer);
        assert_eq!(answer.peer_to_peer, Some(params.expect_rtr));
        if offer == 0 {
            assert!(!params.expect_rtr.is_empty());
        } else {
            let got = params.expect_rtr;
            assert_eq!([got.send, got.write, got.read], bits[1..]);
        }
        // X-ENH-18: a Read needs a place, also where ORD is 0.
        assert_eq!(
            (params.ird, answer.ird),
            if offer & 1 != 0 || offer == 0 {
                (1, 1)
            } else {
                (0, 0)
            }
        );

        let reply = frame(REP, C | S, 2, &words(1, 1, bits));
        let (_, event) = initiate(p2p(), depths(1, 0), &reply);
        let rtr = match offer {
            0 => {
                let want = (Reason::NoCommonRtr, Some(TermError::MpaNoMatchingRtr));
                assert_eq!(reason(event), want);
                continue;
            }
            n if n & 2 != 0 => Rtr::Write,
            n if n & 1 != 0 => Rtr::Read,
            _ => Rtr::Send,
        };
        let params = established(event);
        assert_eq!(params.send_rtr, Some(rtr));
        assert_eq!(params.outbound_slots(), u16::from(rtr == Rtr::Read));
    }

    // X-ENH-16: only what this side cannot do; A not echoed; not enhanced at all.
    let only_send = Config {
        rtr: RtrSet {
            send: true,
            ..RtrSet::default()
        },
        ..p2p()
    };
    let no_rtr = (Reason::NoCommonRtr, Some(TermError::MpaNoMatchingRtr));
    let reply = frame(REP, C | S, 2, &words(1, 1, [true, false, true, true]));
    assert_eq!(reason(initiate(only_send, depths(1, 1), &reply).1), no_rtr);
    let reply = frame(REP, C | S, 2, &words(1, 1, [false, true, true, true]));
    assert_eq!(reason(initiate(p2p(), depths(1, 1), &reply).1), no_rtr);
    let reply = frame(REP, C, 2, &words(1, 1, [true; 4]));
    assert_eq!(
        reason(initiate(p2p(), depths(1, 1), &reply).1),
        (Reason::NotEnhanced, None)
    );
}

/// X-ENH-11: a responder with no negotiation may still have to raise IRD for a Read RTR.
#[test]
fn x_enh_18_no_negotiation() {
    let request = frame(REQ, C | S, 2, &words(1, NO_NEGOTIATION, [true; 4]));
    let (mut responder, _) = respond(config(2), &request);
    let (reply, params) = accept(&mut responder, depths(0, 0), &[]);
    assert_eq!(params.ird, 1);
    let answer = Enhanced::parse([reply[20], reply[21], reply[22], reply[23]]);
    assert_eq!((answer.ird, answer.ord), (NO_NEGOTIATION, 0));
}
