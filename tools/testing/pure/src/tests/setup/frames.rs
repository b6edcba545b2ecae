// SPDX-License-Identifier: GPL-2.0

//! Frames, flags and time-outs (RFC 5044 section 7).

use super::*;

/// M-MPA-20, M-MPA-5, X-ENH-1, X-ENH-12, X-ENH-13: the Request, byte for byte.
#[test]
fn m_mpa_20_request_bytes() {
    let mut out = [0; MAX_FRAME];
    let mut request = |config, pd: &[u8]| {
        let n = Initiator::new(config, depths(5, 6))
            .request(pd, &mut out)
            .unwrap();
        out[..n].to_vec()
    };
    assert_eq!(request(config(1), b"hello"), frame(REQ, C, 1, b"hello"));
    let no_crc = Config {
        crc: false,
        ..config(1)
    };
    assert_eq!(request(no_crc, b""), frame(REQ, 0, 1, b""));
    let want = [words(5, 6, NO_BITS), b"xyz".to_vec()].concat();
    assert_eq!(request(config(2), b"xyz"), frame(REQ, C | S, 2, &want));
    assert_eq!(
        request(p2p(), b""),
        frame(REQ, C | S, 2, &words(5, 6, [true; 4]))
    );
    // T-29: capped before it is told to anybody.
    let capped = Config {
        cap: depths(2, 3),
        ..config(2)
    };
    assert_eq!(
        request(capped, b""),
        frame(REQ, C | S, 2, &words(2, 3, NO_BITS))
    );
}

/// T-9, T-10, M-MPA-27, M-MPA-36: private data of every legal length, and one more.
#[test]
fn m_mpa_36_private_data_lengths() {
    let data = Rng::new(1).bytes(600);
    for rev in [1, 2] {
        let max = if rev == 1 { 512 } else { 508 };
        for len in 0..=max {
            let initiator = Initiator::new(config(rev), depths(1, 1));
            assert_eq!(initiator.max_private_data(), max);
            let mut out = [0; MAX_FRAME];
            let n = initiator.request(&data[..len], &mut out).unwrap();
            let (mut responder, event) = respond(config(2), &out[..n]);
            assert!(matches!(event, SetupEvent::Request(_)));
            assert_eq!(responder.private_data(), &data[..len]);
            let (reply, _) = accept(&mut responder, depths(1, 1), &data[..len]);
            let (initiator, event) = initiate(config(rev), depths(1, 1), &reply);
            established(event);
            assert_eq!(initiator.private_data(), &data[..len]);
        }
        let too_long = &data[..max + 1];
        let mut out = [0; 2 * MAX_FRAME];
        let initiator = Initiator::new(config(rev), depths(1, 1));
        assert_eq!(initiator.request(too_long, &mut out), Err(Short));
        assert_eq!(initiator.request(&[], &mut out[..20]).is_ok(), rev == 1);
        assert_eq!(initiator.request(&[1], &mut out[..20]), Err(Short));
        // A reply that does not fit leaves the request open.
        let request = frame(
            REQ,
            if rev == 2 { S } else { 0 },
            rev,
            &words(1, 1, NO_BITS),
        );
        let (mut responder, _) = respond(config(2), &request);
        assert_eq!(
            responder.accept(depths(1, 1), too_long, &mut out),
            Err(Short)
        );
        assert_eq!(responder.reject(too_long, &mut out), Err(Short));
        accept(&mut responder, depths(1, 1), &[]);
        assert_eq!(responder.accept(depths(1, 1), &[], &mut out), Err(Short));
    }
}

/// M-MPA-27: 513 octets and more, and nonsense beyond.
#[test]
fn m_mpa_27_too_much_private_data() {
    for len in [513u16, 600, 0x8000, 0xffff] {
        let mut request = frame(REQ, C, 1, &[]);
        request[18..20].copy_from_slice(&len.to_be_bytes());
        let (_, event) = respond(config(2), &request);
        assert_eq!(reason(event), (Reason::PrivateData, None));
        request[..16].copy_from_slice(REP);
        let (_, event) = initiate(config(2), depths(1, 1), &request);
        assert_eq!(reason(event), (Reason::PrivateData, None));
    }
}

/// T-25: every cut, and nothing behind the frame is taken.
#[test]
fn t_25_every_cut_and_what_follows() {
    let request = frame(REQ, C | S, 2, &[words(3, 4, NO_BITS), vec![9; 40]].concat());
    let stream = [&request[..], &[0x55; 30]].concat();
    for cut in 0..=stream.len() {
        let mut responder = Responder::new(config(2));
        let (a, b) = stream.split_at(cut);
        let mut fed = responder.feed(a);
        let mut taken = fed.consumed;
        if fed.event.is_none() {
            assert_eq!(taken, cut);
            assert!(responder.wanted() > 0 && responder.wanted() <= stream.len() - cut);
            fed = responder.feed(b);
            taken += fed.consumed;
        }
        assert!(matches!(fed.event, Some(SetupEvent::Request(_))));
        assert_eq!(taken, request.len());
        assert_eq!(responder.wanted(), 0);
        assert_eq!(responder.private_data(), [9; 40]);
        assert_eq!(responder.feed(&stream).consumed, 0);
    }
    // `wanted` bytes at a time never read too far.
    for key in [REQ, REP] {
        let stream = [frame(key, C, 1, b"data"), vec![1; 50]].concat();
        let mut responder = Responder::new(config(1));
        let mut initiator = Initiator::new(config(1), depths(1, 1));
        let mut at = 0;
        loop {
            let (n, fed) = if key == REQ {
                let n = responder.wanted();
                (n, responder.feed(&stream[at..at + n]))
            } else {
                let n = initiator.wanted();
                (n, initiator.feed(&stream[at..at + n]))
            };
            assert_eq!(fed.consumed, n);
            at += n;
            if fed.event.is_some() {
                break;
            }
        }
        assert_eq!(at, 24);
    }
}

/// M-MPA-25, M-MPA-26, M-MPA-33, P-ERR-28: keys and revisions.
#[test]
fn m_mpa_25_26_keys_and_revisions() {
    let mut bad = frame(REQ, C, 1, &[]);
    bad[0] ^= 1;
    assert_eq!(reason(respond(config(2), &bad).1).0, Reason::Key);
    assert_eq!(
        reason(initiate(config(2), depths(1, 1), &bad).1).0,
        Reason::Key
    );
    let request = frame(REQ, C, 1, &[]);
    let reply = frame(REP, C, 1, &[]);
    assert_eq!(
        reason(initiate(config(2), depths(1, 1), &request).1).0,
        Reason::Crossed
    );
    assert_eq!(reason(respond(config(2), &reply).1).0, Reason::Crossed);
    for (ours, theirs, want) in [
        (2, 0, Some(Reason::Rdmac)),
        (2, 1, None),
        (2, 2, None),
        (1, 2, Some(Reason::Revision)),
        (2, 3, Some(Reason::Revision)),
        (2, 255, Some(Reason::Revision)),
    ] {
        let (_, event) = respond(config(ours), &frame(REQ, C, theirs, &[]));
        let got = match event {
            SetupEvent::Failed(f) => Some(f.reason),
            _ => None,
        };
        assert_eq!(got, want, "responder {ours}, request {theirs}");
        let (_, event) = initiate(config(ours), depths(1, 1), &frame(REP, C, theirs, &[]));
        let got = match event {
            SetupEvent::Failed(f) => Some(f.reason),
            _ => None,
        };
        assert_eq!(got, want, "initiator {ours}, reply {theirs}");
    }
}

/// T-28, M-MPA-6, M-MPA-18, M-MPA-24: flags are built fresh; CRC if either wants it; markers if
/// the peer wants them; long FPDUs if both do.
#[test]
fn t_28_flags() {
    for theirs in 0..=255u8 {
        for (crc, large_fpdus) in [(false, true), (true, true), (true, false)] {
            let ours = Config {
                crc,
                large_fpdus,
                ..config(2)
            };
            let large = large_fpdus && theirs & L != 0;
            let request = frame(REQ, theirs & !S, 1, &[]);
            let (mut responder, _) = respond(ours, &request);
            let (reply, params) = accept(&mut responder, depths(1, 1), &[]);
            let both = crc || theirs & C != 0;
            let flags = if both { C } else { 0 } | if large { L } else { 0 };
            assert_eq!(reply[16], flags);
            assert_eq!((params.crc, params.send_markers), (both, theirs & M != 0));
            assert_eq!(params.large_fpdus, large);
            assert!(params.wait_for_fpdu && params.send_rtr.is_none());

            let reply = frame(REP, theirs & !(S | R), 1, &[]);
            let (_, event) = initiate(ours, depths(1, 1), &reply);
            let params = established(event);
            assert_eq!((params.crc, params.send_markers), (both, theirs & M != 0));
            assert_eq!(params.large_fpdus, large);
            assert!(!params.wait_for_fpdu);
        }
    }
}

/// M-MPA-28: a reject carries private data.
#[test]
fn m_mpa_28_reject_has_data() {
    for rev in [1, 2] {
        let mut out = [0; MAX_FRAME];
        let n = Initiator::new(config(rev), depths(2, 3))
            .request(b"please", &mut out)
            .unwrap();
        let (mut responder, _) = respond(config(2), &out[..n]);
        let n = responder.reject(b"no", &mut out).unwrap();
        assert_eq!(out[16] & !S, C | R);
        let (initiator, event) = initiate(config(rev), depths(2, 3), &out[..n]);
        assert!(matches!(event, SetupEvent::Rejected(_)));
        assert_eq!(initiator.private_data(), b"no");
        assert_eq!(initiator.wanted(), 0);
        assert_eq!(responder.accept(depths(1, 1), &[], &mut out), Err(Short));
    }
}

/// T-28, M-MPA-28: a reject says, as an accept does, that there are CRCs if either side wants them.
#[test]
fn t_28_flags_of_a_reject() {
    for (crc, theirs, want) in [(false, 0, R), (false, C, C | R), (true, 0, C | R)] {
        let ours = Config { crc, ..config(2) };
        let (mut responder, _) = respond(ours, &frame(REQ, theirs, 1, &[]));
        let mut out = [0; MAX_FRAME];
        let n = responder.reject(&[], &mut out).unwrap();
        assert_eq!(out[..n], frame(REP, want, 1, &[]));
    }
}

/// T-42b: an early close is told once, and not after the end.
#[test]
fn t_42b_early_close() {
    let mut initiator = Initiator::new(config(2), depths(1, 1));
    assert_eq!(reason(initiator.closed().unwrap()).0, Reason::Closed);
    assert!(initiator.closed().is_none());
    assert_eq!(initiator.feed(&[0; 5]).consumed, 0);
    let (mut initiator, _) = initiate(config(1), depths(1, 1), &frame(REP, C, 1, &[]));
    assert!(initiator.closed().is_none());
}

/// T-9, T-46: frames at random.
#[test]
fn t_9_random_frames() {
    let mut rng = Rng::new(5);
    for _ in 0..50_000 {
        let len = rng.below(64);
        let pd = rng.bytes(len);
        let key = if rng.one_in(2) { REQ } else { REP };
        let flags = rng.bits() as u8;
        let mut bytes = frame(key, flags, rng.below(4) as u8, &pd);
        if rng.one_in(3) {
            let at = rng.below(bytes.len());
            bytes[at] = rng.bits() as u8;
        }
        let cut = rng.below(bytes.len());
        let mut responder = Responder::new(config(2));
        let mut initiator = Initiator::new(p2p(), depths(3, 3));
        for part in [&bytes[..cut], &bytes[cut..]] {
            assert!(responder.feed(part).consumed <= part.len());
            assert!(initiator.feed(part).consumed <= part.len());
        }
        assert!(responder.private_data().len() <= 512);
        assert!(initiator.private_data().len() <= 512);
        let mut out = [0; MAX_FRAME];
        if let Ok((_, params)) = responder.accept(depths(999, 999), &[1; 9], &mut out) {
            assert!(params.ird <= 128 && params.ord <= 128);
        }
    }
}

/// X-ENH-5: the older set-up is tried after the enhanced one, unless that would not do.
#[test]
fn x_enh_5_only_enhanced() {
    let (enhanced, want) = (p2p(), depths(3, 3));
    assert!(Initiator::new(enhanced, want).older().is_some());
    assert!(Initiator::only_enhanced(enhanced, want).older().is_none());
}
