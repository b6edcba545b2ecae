// SPDX-License-Identifier: GPL-2.0

//! Set-up modes, errors, closing and options, seen across the wire.

use super::*;
use crate::support::frames::{split, without_markers};

/// To where the peer allows it.
fn write_octet(octet: u8) -> Wr {
    write(BASE, vec![octet])
}

/// T-24, M-MPA-22: the responder is silent until the first FPDU.
#[test]
fn t_24_responder_waits() {
    let (mut a, mut b) = pair(config(1, true, false), config(2, true, false));
    b.post(0, send(b"first?"), false);
    a.post_recv(10);
    settle(&mut a, &mut b);
    assert!(a.received().is_empty() && b.completions().is_empty() && b.established);
    b.post_recv(10);
    a.post(0, send(b"you first"), false);
    settle(&mut a, &mut b);
    assert_eq!(a.received()[0].data, b"first?");
}

/// X-ENH-15, X-ENH-19, X-ENH-20: each ready-to-receive message opens the responder, completes no
/// work request and takes no receive.
#[test]
fn x_enh_19_peer_to_peer() {
    for (send_rtr, write, read) in [
        (true, false, false),
        (false, true, false),
        (false, false, true),
    ] {
        let rtr = RtrSet {
            send: send_rtr,
            write,
            read,
        };
        let a = Config {
            rtr,
            ..config(2, true, true)
        };
        let (mut a, mut b) = pair(a, config(2, true, false));
        b.post_recv(10);
        a.post_recv(10);
        b.post(0, send(b"hi"), false);
        // The Request, and the Reply.
        deliver(&mut a, &mut b, usize::MAX);
        b.transmit(10);
        deliver(&mut b, &mut a, usize::MAX);
        assert!(!b.established && a.established && a.received().is_empty());
        settle(&mut a, &mut b);
        assert!(b.established);
        assert_eq!(a.received()[0].data, b"hi");
        assert!(a.completions().is_empty() && b.received().is_empty());
        assert!(a.is_idle() && b.is_idle());
        a.post(5, send(b"ho"), false);
        settle(&mut a, &mut b);
        assert_eq!(
            (a.completions().len(), &b.received()[0].data[..]),
            (1, &b"ho"[..])
        );
    }
}

/// Both sides count the same messages as placed: of a Write with immediate data there are two, and
/// the ready-to-receive Write is one.
#[test]
fn what_is_placed_is_counted() {
    let (mut a, mut b) = connected(config(2, true, true), config(2, true, false));
    assert_eq!((a.placed(), b.placed()), (0, 1));
    b.post_recv(10);
    b.post_recv(10);
    let (to, immediate, solicited) = (BASE, [1, 2, 3, 4], false);
    let data = vec![7; 3000];
    a.post(0, send(b"a Send"), false);
    a.post(1, write(to, data.clone()), false);
    let with_immediate = Wr::WriteImmediate {
        data,
        stag: TARGET,
        to,
        immediate,
        solicited,
    };
    a.post(2, with_immediate, false);
    a.post(3, read(SOURCE, BASE, 100, BASE), false);
    settle(&mut a, &mut b);
    assert_eq!((a.placed(), b.placed()), (0, 5));
}

/// M-MPA-7, M-MPA-32, T-8, P-ERR-1: a wrong bit anywhere in an FPDU places nothing, and 0x2002
/// comes back. (The length field is left alone, it moves the end of the FPDU.)
#[test]
fn t_8_bad_crc_places_nothing() {
    for bit in 16..8 * 64 {
        let (mut a, mut b) = connected(config(1, true, false), config(2, true, false));
        let (stag, to) = (TARGET, BASE);
        let data = vec![0xff; 44];
        a.post(0, Wr::Write { data, stag, to }, false);
        a.transmit(10);
        assert_eq!(a.out().len(), 64);
        a.out()[bit / 8] ^= 1 << (bit % 8);
        settle(&mut a, &mut b);
        assert!(b.region(TARGET).bytes.iter().all(|&x| x == 0));
        // The responder had not received anything: no FPDU, so no Terminate either (T-24).
        assert!(b.reset && b.sent_terminate.is_none());
        assert_eq!(b.state(), QpState::Error);
    }
    let (mut a, mut b) = pair(config(1, true, false), config(2, true, false));
    a.post(0, write_octet(1), false);
    settle(&mut a, &mut b);
    a.post(0, write_octet(2), false);
    a.transmit(1);
    *a.out().last_mut().unwrap() ^= 1;
    settle(&mut a, &mut b);
    assert_eq!(b.sent_terminate, Some(TermError::MpaCrc));
    assert_eq!(a.got_terminate, Some(0x2002));
    assert_eq!(b.region(TARGET).bytes[0], 1);
}

/// M-MPA-3: with CRC off any value of the field is accepted.
#[test]
fn m_mpa_3_crc_off() {
    let (mut a, mut b) = connected(config(1, false, false), config(2, false, false));
    a.post(0, write_octet(1), false);
    a.transmit(1);
    *a.out().last_mut().unwrap() ^= 0x5a;
    settle(&mut a, &mut b);
    assert_eq!(b.region(TARGET).bytes[0], 1);
}

/// P-RDMAP-17, P-RDMAP-20, P-RDMAP-23, V-TM-1: an error at the sink; the Terminate is the last
/// thing sent, what is behind the bad segment is ignored, everything is flushed in order.
#[test]
fn p_rdmap_17_error_and_flush() {
    let (mut a, mut b) = connected(config(2, true, false), config(2, true, false));
    for (id, at) in [(0, 0), (1, SIZE as u64 - 1), (2, 10_000)] {
        a.post(id, write(BASE + at, vec![1; 3000]), false);
    }
    b.post(0, send(b"never received"), false);
    settle(&mut a, &mut b);
    assert_eq!(b.sent_terminate, Some(TermError::TaggedBounds));
    assert_eq!((a.got_terminate, a.sent_terminate), (Some(0x1101), None));
    assert_eq!(
        (a.state(), b.state()),
        (QpState::Terminate, QpState::Terminate)
    );
    assert!(a.fin() && b.fin() && !a.reset && !b.reset);
    let target = &b.region(TARGET).bytes;
    assert!(target[..3000].iter().all(|&x| x == 1));
    assert!(target[3000..].iter().all(|&x| x == 0));
    for peer in [&mut a, &mut b] {
        peer.peer_fin();
        peer.closed();
        assert_eq!((peer.state(), peer.closes), (QpState::Error, 1));
    }
    assert_eq!(a.completions().len(), 3);
    assert_eq!(b.completions(), [(0, Status::Flushed)]);
}

/// T-24, P-ERR-14: a first FPDU with the right CRC but wrong contents is answered.
#[test]
fn t_24_terminate_for_the_first_fpdu() {
    let (mut a, mut b) = pair(config(1, true, false), config(2, true, false));
    let (stag, to) = (Stag(9), 0);
    let data = vec![1];
    a.post(0, Wr::Write { data, stag, to }, false);
    settle(&mut a, &mut b);
    assert_eq!(a.got_terminate, Some(0x1100));
    assert!(!b.reset && b.fin());
}

/// P-ERR-10, P-ERR-13, P-ERR-19, P-ERR-25: the codes for what only the driver can check.
#[test]
fn p_err_codes_across_the_wire() {
    let read = |stag, to, len| read(stag, to, len, BASE);
    let nowhere = Wr::Write {
        data: vec![1],
        stag: Stag(9),
        to: 0,
    };
    let inv = Wr::Send {
        data: vec![],
        solicited: false,
        invalidate: Some(Stag(9)),
    };
    let cases = [
        (send(b"no buffer"), 0, 0x1202),
        (send(b"too long"), 7, 0x1205),
        (inv, 7, 0x0109),
        (read(Stag(9), BASE, 1), 0, 0x0100),
        (read(SOURCE, BASE + SIZE as u64, 1), 0, 0x0101),
        (read(SOURCE, BASE - 1, 1), 0, 0x0101),
        (read(TARGET, BASE, 1), 0, 0x0102),
        (read(SOURCE, u64::MAX, 2), 0, 0x0104),
        (nowhere, 0, 0x1100),
        (write(u64::MAX, vec![1, 2]), 0, 0x1103),
    ];
    for (wr, recv, code) in cases {
        let (mut a, mut b) = pair(config(2, true, false), config(2, true, false));
        a.post(0, write_octet(1), false);
        settle(&mut a, &mut b);
        if recv > 0 {
            b.post_recv(recv);
        }
        a.post(1, wr, false);
        settle(&mut a, &mut b);
        assert_eq!(a.got_terminate, Some(code));
        assert_eq!(a.sent_terminate, None);
    }
}

/// V-ST-11, T-37, V-CM-5: a normal close of an idle connection ends in Idle on both sides; with
/// work pending it is 0x0207.
#[test]
fn t_37_close() {
    let (mut a, mut b) = pair(config(2, true, false), config(2, true, false));
    a.post(0, write_octet(1), false);
    settle(&mut a, &mut b);
    a.disconnect();
    assert!(a.fin() && a.state() == QpState::Closing);
    b.peer_fin();
    assert_eq!((b.state(), b.closes), (QpState::Idle, 1));
    a.peer_fin();
    assert_eq!((a.state(), a.closes), (QpState::Idle, 1));

    let (mut a, mut b) = pair(config(2, true, false), config(2, true, false));
    a.post(0, write_octet(1), false);
    settle(&mut a, &mut b);
    b.post(0, Wr::Read(ReadRequest::default()), false);
    b.transmit(1);
    a.disconnect();
    b.peer_fin();
    assert_eq!(b.sent_terminate, Some(TermError::CatastrophicStream));
}

/// V-RD-3: a Read with ORD 0 fails alone; all else is flushed behind it.
#[test]
fn v_rd_3_no_read_resources() {
    let none = Depths { ird: 2, ord: 0 };
    let mut a = Peer::initiator(config(2, true, false), none, b"", 1442);
    let mut b = Peer::responder(config(2, true, false), none, 1442);
    settle(&mut a, &mut b);
    a.post(1, Wr::Read(ReadRequest::default()), false);
    a.post(2, send(b""), false);
    settle(&mut a, &mut b);
    assert_eq!(b.got_terminate, Some(0x0000));
    a.peer_fin();
    assert_eq!(
        a.completions(),
        [
            (1, Status::Failed(Fault::LocalOperation)),
            (2, Status::Flushed)
        ]
    );
}

/// M-MPA-14: what a peer with markers gets. (This side never asks, so the Reply is doctored.)
#[test]
fn m_mpa_14_markers_for_a_peer_that_asks() {
    let (mut a, mut b) = pair(config(1, true, false), config(2, true, false));
    deliver(&mut a, &mut b, usize::MAX);
    b.out()[16] |= 0x80;
    deliver(&mut b, &mut a, usize::MAX);
    assert!(a.params.unwrap().send_markers);
    for id in 0..40 {
        let data = vec![id as u8; 1 + 97 * id as usize];
        a.post(id, write(BASE, data), false);
    }
    a.transmit(1000);
    let marked: Vec<u8> = a.out().drain(..).collect();
    let plain = without_markers(&marked, true);
    let (fpdus, rest) = split(&plain, None);
    assert!(fpdus.len() >= 40 && rest == 0);
    assert!(marked.len() - plain.len() > 4 * 60);
    // The CRCs cover the markers, so a receiver without CRC sees the right contents.
    b.ignore_crc();
    b.receive(&plain);
    assert_eq!(b.state(), QpState::Rts);
    assert_eq!(b.region(TARGET).bytes[..3784], [39; 3784]);
}
