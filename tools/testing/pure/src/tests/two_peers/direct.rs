// SPDX-License-Identifier: GPL-2.0

//! Two ends on one host: segments past TCP are checked, ordered and answered as those in it.

use super::*;

/// A connected pair that sends past TCP and has nothing on its way.
fn direct() -> (Peer, Peer) {
    let (mut a, mut b) = talking();
    a.go_direct();
    b.go_direct();
    (a, b)
}

/// All goes one way from the moment on at which TCP is empty: not before.
#[test]
fn waits_for_tcp() {
    let (mut a, mut b) = connected(config(2, true, false), config(2, true, false));
    a.post(0, write(BASE, vec![1; 5_000]), false);
    a.transmit(1);
    a.go_direct();
    a.transmit(100);
    assert!(!a.out().is_empty() && a.handed() == 0);
    while a.handed() == 0 {
        assert!(deliver(&mut a, &mut b, 1));
        a.transmit(100);
    }
    assert!(a.out().is_empty());
    settle(&mut a, &mut b);
    assert_eq!(b.region(TARGET).bytes[..5_000], [1; 5_000]);
    assert_eq!(a.completions(), [(0, Status::Success)]);
}

/// Long messages are cut into as few segments as there can be, not into those of TCP.
#[test]
fn few_segments() {
    let (mut a, mut b) = direct();
    a.post(0, write(BASE, vec![2; 65_536]), false);
    a.transmit(100);
    assert!(a.handed() <= 2);
    settle(&mut a, &mut b);
    assert_eq!(b.region(TARGET).bytes[..65_536], [2; 65_536]);
}

/// What is wrong with a segment is told as over TCP, behind what came before (P-ERR).
#[test]
fn errors_are_told() {
    let not_there = Wr::Write {
        data: vec![1],
        stag: SOURCE,
        to: BASE,
    };
    let cases: [(Wr, TermError); 3] = [
        (not_there, TermError::TaggedStag),
        (
            write(BASE + SIZE as u64 - 5, vec![1; 10]),
            TermError::TaggedBounds,
        ),
        (send(b"nobody waits"), TermError::UntaggedNoBuffer),
    ];
    for (wr, error) in cases {
        let (mut a, mut b) = direct();
        b.post(1, write(BASE, vec![3; 100]), false);
        a.post(0, write(BASE, vec![4; 100]), false);
        a.post(1, wr, false);
        settle(&mut a, &mut b);
        assert_eq!(b.region(TARGET).bytes[..100], [4; 100]);
        assert_eq!(a.region(TARGET).bytes[..100], [3; 100]);
        assert_eq!(b.sent_terminate, Some(error));
        assert_eq!(a.got_terminate, Some(error.code()));
        assert!(a.out().is_empty() && b.out().is_empty());
    }
}

/// A Terminate goes through TCP, behind what was handed over, and the FIN behind that (T-32).
#[test]
fn a_terminate_goes_through_tcp() {
    let (mut a, mut b) = direct();
    b.post(1, write(BASE, vec![3; 100]), false);
    b.transmit(100);
    assert_eq!(b.handed(), 1);
    a.post(0, send(b"nobody waits"), false);
    a.transmit(100);
    deliver(&mut a, &mut b, usize::MAX);
    b.transmit(100);
    // Nothing may overtake what the other side has not taken in.
    assert_eq!(b.sent_terminate, Some(TermError::UntaggedNoBuffer));
    assert!(b.out().is_empty() && b.handed() == 1 && !b.fin());
    deliver(&mut b, &mut a, 0);
    b.transmit(100);
    assert!(!b.out().is_empty() && b.handed() == 0);
    settle(&mut a, &mut b);
    assert_eq!(a.region(TARGET).bytes[..100], [3; 100]);
    assert_eq!(a.got_terminate, Some(TermError::UntaggedNoBuffer.code()));
}

/// What comes behind a message that waits for a region to be quiet waits too, and stays with its
/// sender (V-INV-14).
#[test]
fn v_inv_14_later() {
    let (mut a, mut b) = direct();
    let stag = Stag(0x5000_0000);
    b.regions().insert(stag.0, region(Vec::new(), true, true));
    b.post_recv(10);
    b.set_quiet(false);
    let data = b"bye".to_vec();
    let invalidate = Some(stag);
    let solicited = false;
    a.post(
        0,
        Wr::Send {
            data,
            solicited,
            invalidate,
        },
        false,
    );
    a.post(1, write(BASE, vec![5; 100]), false);
    let before = b.received().len();
    settle(&mut a, &mut b);
    assert_eq!(b.received().len(), before);
    assert_eq!(a.handed(), 1);
    assert_eq!(b.region(TARGET).bytes[..100], [0; 100]);
    b.set_quiet(true);
    settle(&mut a, &mut b);
    assert_eq!(b.received().len(), before + 1);
    assert_eq!(b.region(TARGET).bytes[..100], [5; 100]);
}

/// What has no receive stays with its sender, and all behind it, if it may wait for one (V-WR-19).
#[test]
fn waits_for_receives() {
    let (mut a, mut b) = direct();
    b.set_patience(100);
    let before = b.received().len();
    for n in 0..3 {
        a.post(n, send(&[n as u8; 70_000]), false);
        a.post(10 + n, write(BASE, vec![n as u8; 10]), false);
    }
    for n in 0..3 {
        settle(&mut a, &mut b);
        assert_eq!(b.received().len(), before + n);
        if let Some(written) = n.checked_sub(1) {
            assert_eq!(b.region(TARGET).bytes[..10], [written as u8; 10]);
        }
        b.post_recv(70_000);
    }
    settle(&mut a, &mut b);
    let got: Vec<_> = b.received()[before..].iter().map(|r| r.data[0]).collect();
    assert_eq!(got, [0, 1, 2]);
    assert_eq!(b.state(), QpState::Rts);
}
