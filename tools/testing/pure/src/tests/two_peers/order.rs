// SPDX-License-Identifier: GPL-2.0

//! What waits for what: turns of requests and responses, invalidations that wait for others, memory
//! that goes while it is read from.

use super::*;
use crate::wire::ddp::Header;
use crate::wire::fpdu::fpdu_len;
use crate::wire::rdmap::{Control, Opcode};

/// Operations of the messages that wait for the other side, one for each.
fn messages(peer: &mut Peer) -> Vec<Opcode> {
    let stream: Vec<u8> = peer.out().to_vec();
    let mut rest = &stream[..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let len = u16::from_be_bytes([rest[0], rest[1]]);
        let (header, _) = Header::parse(&rest[2..]).expect("an FPDU");
        if header.control().last() {
            found.push(Control(header.rdmap()).opcode().expect("known"));
        }
        rest = &rest[fpdu_len(len)..];
    }
    found
}

fn read_all(len: u32) -> Wr {
    read(SOURCE, BASE, len, BASE)
}

/// T-47: Read Responses and requests take turns, message by message, in whatever batches they
/// leave.
#[test]
fn t_47_turns() {
    for batch in [1, 5_000, 100_000] {
        let (mut a, mut b) = talking();
        b.set_batch(batch);
        for id in 0..2 {
            a.post(id, read_all(3_000), false);
        }
        a.transmit(100);
        deliver(&mut a, &mut b, usize::MAX);
        for id in 0..4 {
            b.post(id, write(BASE, vec![7; 3_000]), false);
        }
        b.transmit(100);
        let mut sent = messages(&mut b);
        // Either may be the first.
        if sent[0] == Opcode::ReadResponse {
            sent.remove(0);
        }
        let turns = [Opcode::Write, Opcode::ReadResponse];
        assert_eq!(sent[..2], turns, "{batch}");
        let writes = sent.iter().filter(|op| **op == Opcode::Write).count();
        assert_eq!(writes, 4);
    }
}

/// V-INV-14: a receive completes once nobody uses what its message invalidates; what comes behind
/// it waits.
#[test]
fn v_inv_14_waits_for_quiet() {
    let (mut a, mut b) = talking();
    let before = b.received().len();
    for _ in 0..2 {
        b.post_recv(10);
    }
    b.set_quiet(false);
    let invalidating = Wr::Send {
        data: b"inv".to_vec(),
        solicited: false,
        invalidate: Some(TARGET),
    };
    a.post(1, invalidating, false);
    a.post(2, send(b"behind"), false);
    settle(&mut a, &mut b);
    assert_eq!(b.received().len(), before);
    b.set_quiet(true);
    let received: Vec<_> = b.received()[before..].iter().map(|r| &r.data[..]).collect();
    assert_eq!(received, [&b"inv"[..], b"behind"]);
    assert_eq!(b.received()[before].extra, Extra::Invalidated(TARGET));
    assert_eq!((a.state(), b.state()), (QpState::Rts, QpState::Rts));
}

/// V-TM-1: a source that goes while it is read ends the stream behind the segments in front of it.
#[test]
fn v_tm_1_source_goes() {
    let (mut a, mut b) = talking();
    a.post(1, read_all(5_000), false);
    a.transmit(10);
    deliver(&mut a, &mut b, usize::MAX);
    b.transmit(2);
    let whole = b.out().len();
    assert!(whole > 2_800);
    b.regions().remove(&SOURCE.0);
    b.transmit(1);
    assert_eq!(b.sent_terminate, Some(TermError::RemoteStag));
    assert!(b.out().len() > whole && b.state() == QpState::Terminate);
    deliver(&mut b, &mut a, usize::MAX);
    assert_eq!(a.got_terminate, Some(TermError::RemoteStag.code()));
}

/// A Send that is longer than its receive fails that, and the stream (V-WC, T-33).
#[test]
fn v_wc_too_long() {
    let (mut a, mut b) = talking();
    b.post_recv(4);
    a.post(1, send(b"five!"), false);
    settle(&mut a, &mut b);
    assert_eq!(b.failed_receives(), [Fault::LocalLength]);
    assert_eq!(b.sent_terminate, Some(TermError::UntaggedTooLong));
}
