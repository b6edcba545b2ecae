// SPDX-License-Identifier: GPL-2.0

//! Atomic Operations of two peers (RFC 7306 section 5).

use super::*;

/// 64 random bits.
fn bits(rng: &mut Rng) -> u64 {
    rng.bits() ^ rng.bits().rotate_left(32)
}

/// An operation that often finds what it expects.
pub(in crate::tests) fn operation(rng: &mut Rng, word: u64) -> AtomicOperation {
    let mask = match rng.below(4) {
        0 => 0,
        1 => u64::MAX,
        2 => bits(rng),
        _ => bits(rng) & bits(rng) & bits(rng),
    };
    match rng.one_in(2) {
        true => AtomicOperation::FetchAdd {
            add: bits(rng),
            mask,
        },
        false => AtomicOperation::CmpSwap {
            swap: bits(rng),
            swap_mask: mask,
            compare: word ^ (u64::from(rng.one_in(4)) << rng.below(64)),
            compare_mask: bits(rng),
        },
    }
}

/// Adds to a word, with the result in a word of the sink.
pub(in super::super) fn add(add: u64, n: u64, sink: u64) -> Wr {
    Wr::Atomic {
        operation: AtomicOperation::FetchAdd { add, mask: 0 },
        kind: OperationType::FetchAdd,
        stag: WORDS,
        to: BASE + 8 * n,
        sink: (SINK, BASE + 8 * sink),
    }
}

fn read_word(n: u64, sink: u64) -> Wr {
    read(WORDS, BASE + 8 * n, 8, BASE + 8 * sink)
}

fn word(peer: &Peer, stag: Stag, n: usize) -> u64 {
    let bytes = &peer.region(stag).bytes[8 * n..];
    u64::from_ne_bytes(*bytes.first_chunk().expect("a word"))
}

fn add_at(to: u64, stag: Stag) -> Wr {
    Wr::Atomic {
        operation: AtomicOperation::FetchAdd { add: 1, mask: 0 },
        kind: OperationType::FetchAdd,
        stag,
        to,
        sink: (SINK, BASE),
    }
}

/// X-ATM-14: Reads and Atomic Operations see each other in the order of the requests, over TCP and
/// past it, though there are more of them than may be outstanding (X-ATM-13).
#[test]
fn x_atm_14_mutual_order() {
    for direct in [false, true] {
        for batch in [1, 100_000] {
            let (mut a, mut b) = talking();
            for peer in [&mut a, &mut b] {
                peer.set_batch(batch);
                if direct {
                    peer.go_direct();
                }
            }
            for n in 0..20 {
                a.post(3 * n, add(1, 0, 3 * n), false);
                a.post(3 * n + 1, read_word(0, 3 * n + 1), false);
                a.post(3 * n + 2, add(10, 0, 3 * n + 2), false);
            }
            let before = a.completions().len();
            let (mut most, mut turns) = (0, 0);
            loop {
                a.transmit(100);
                deliver(&mut a, &mut b, usize::MAX);
                most = most.max(b.under_way().1);
                b.transmit(100);
                if !deliver(&mut b, &mut a, usize::MAX) && a.is_idle() {
                    break;
                }
                turns += 1;
                assert!(turns < 1_000);
            }
            assert_eq!(most, 2, "ORD");
            for n in 0..20 {
                let at = 3 * n as usize;
                let got = [at, at + 1, at + 2].map(|at| word(&a, SINK, at));
                assert_eq!(got, [11 * n, 11 * n + 1, 11 * n + 1]);
            }
            assert_eq!(word(&b, WORDS, 0), 220);
            let ids: Vec<u64> = a.completions()[before..].iter().map(|c| c.0).collect();
            assert_eq!(ids, (0..60).collect::<Vec<_>>());
        }
    }
}

/// X-ATM-16, X-ATM-17: an Atomic Operation completes with its response, and what is behind it not
/// before; what is fenced is not even sent before.
#[test]
fn x_atm_16_17_order() {
    for fence in [false, true] {
        let (mut a, mut b) = talking();
        let before = (a.completions().len(), b.received().len());
        b.post_recv(10);
        a.post(0, add(5, 1, 0), false);
        a.post(1, send(b"behind"), fence);
        a.transmit(100);
        deliver(&mut a, &mut b, usize::MAX);
        assert_eq!(b.received().len() - before.1, usize::from(!fence));
        assert_eq!(a.completions().len(), before.0);
        settle(&mut a, &mut b);
        assert_eq!(b.received().len() - before.1, 1);
        let ends = [(0, Status::Success), (1, Status::Success)];
        assert_eq!(a.completions()[before.0..], ends);
        assert_eq!((word(&a, SINK, 0), word(&b, WORDS, 1)), (0, 5));
    }
}

/// X-ATM-9, X-ATM-10, X-ATM-19: what the peer may not change stays as it is, and what is in front of
/// it is done; the Terminate says why.
#[test]
fn x_atm_10_refused() {
    for (wr, error) in [
        (add_at(BASE + 1, WORDS), TermError::CatastrophicStream),
        (add_at(BASE + 60, WORDS), TermError::RemoteBounds),
        (add_at(BASE - 8, WORDS), TermError::RemoteBounds),
        (add_at(BASE, TARGET), TermError::RemoteAccess),
        (add_at(BASE, Stag(0x7777_7700)), TermError::RemoteStag),
    ] {
        for direct in [false, true] {
            let (mut a, mut b) = talking();
            if direct {
                a.go_direct();
                b.go_direct();
            }
            a.post(0, add(1, 0, 0), false);
            settle(&mut a, &mut b);
            a.post(1, wr.clone(), false);
            settle(&mut a, &mut b);
            assert_eq!(b.sent_terminate, Some(error));
            assert_eq!(a.got_terminate, Some(error.code()));
            assert_eq!(word(&b, WORDS, 0), 1);
            assert!(b.region(TARGET).bytes.iter().all(|octet| *octet == 0));
            // It is flushed with what is behind it.
            let last = a.completions().last();
            assert_eq!(last, Some(&(0, Status::Success)));
            a.peer_fin();
            let last = a.completions().last();
            assert_eq!(last, Some(&(1, Status::Flushed)));
        }
    }
}

/// X-ATM-14, X-ATM-19: what is gone when its turn comes is refused behind the answers in front of it.
#[test]
fn x_atm_14_gone_in_its_turn() {
    let (mut a, mut b) = talking();
    a.post(0, read(SOURCE, BASE, 5_000, BASE), false);
    a.post(1, add(1, 0, 1), false);
    a.transmit(100);
    deliver(&mut a, &mut b, usize::MAX);
    assert_eq!(b.under_way().1, 2);
    b.regions().remove(&WORDS.0);
    settle(&mut a, &mut b);
    assert_eq!(b.sent_terminate, Some(TermError::RemoteStag));
    assert_eq!(a.got_terminate, Some(TermError::RemoteStag.code()));
    assert_eq!(a.completions().last(), Some(&(0, Status::Success)));
}

/// X-ATM-16: a result that has no place ends the stream, and says so in the completion; nothing is
/// sent for a sink that is known to be none.
#[test]
fn x_atm_16_no_place_for_the_result() {
    let (mut a, mut b) = talking();
    a.post(0, add(1, 0, 0), false);
    a.transmit(100);
    a.regions().remove(&SINK.0);
    settle(&mut a, &mut b);
    assert_eq!(word(&b, WORDS, 0), 1);
    assert_eq!(a.sent_terminate, Some(TermError::LocalCatastrophic));
    let failed = Status::Failed(Fault::LocalProtection);
    assert_eq!(a.completions().last(), Some(&(0, failed)));

    let (mut a, mut b) = talking();
    a.post(0, add(1, 0, SIZE as u64 / 8), false);
    settle(&mut a, &mut b);
    assert_eq!(word(&b, WORDS, 0), 0);
    assert_eq!(a.completions().last(), Some(&(0, failed)));
}
