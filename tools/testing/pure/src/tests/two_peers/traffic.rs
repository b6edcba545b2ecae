// SPDX-License-Identifier: GPL-2.0

//! Traffic that works, cut and interleaved in every way.

use super::*;
use crate::proto::tuning::{Knob, SendLimits, RX_SOFTIRQ, TX_BATCH, TX_RUN};
use crate::support::tuning::Tuning;

/// Posts `n` work requests to `peer`; notes what it and the other side must see.
fn post(
    peer: &mut Peer,
    other: &mut Peer,
    own: &mut Expect,
    theirs: &mut Expect,
    rng: &mut Rng,
    n: u64,
) {
    let mut sink_at = 0;
    own.sink.resize(SIZE, 0);
    theirs.target.resize(SIZE, 0);
    for id in 0..n {
        let len = match rng.below(8) {
            0 => 0,
            1 | 2 => 1 + rng.below(64),
            3..=5 => rng.below(5000),
            6 => 4096 - rng.below(3),
            _ => rng.below(70_000),
        };
        let at = rng.below(SIZE - len);
        let wr = match rng.below(5) {
            0 if rng.one_in(3) => {
                let data = rng.bytes(len);
                let solicited = rng.one_in(2);
                let immediate = rng.bytes(4).try_into().unwrap();
                other.post_recv(len + rng.below(100));
                theirs.received.push(Received {
                    data: data.clone(),
                    solicited,
                    extra: Extra::WithImmediate(immediate),
                });
                Wr::SendImmediate {
                    data,
                    immediate,
                    solicited,
                }
            }
            0 => {
                let data = rng.bytes(len);
                let solicited = rng.one_in(2);
                let invalidate = rng.one_in(4).then(|| {
                    let stag = Stag(0x5000_0000 + (id as u32) * 256);
                    other
                        .regions()
                        .insert(stag.0, region(Vec::new(), true, true));
                    stag
                });
                other.post_recv(len + rng.below(100));
                theirs.received.push(Received {
                    data: data.clone(),
                    solicited,
                    extra: invalidate.map_or(Extra::Nothing, Extra::Invalidated),
                });
                Wr::Send {
                    data,
                    solicited,
                    invalidate,
                }
            }
            1 => {
                let data = rng.bytes(len);
                theirs.target[at..at + len].copy_from_slice(&data);
                let to = BASE + at as u64;
                // T-23: length zero needs no valid STag.
                if len == 0 {
                    let (stag, to) = (Stag(0xdead_beef), u64::MAX);
                    Wr::Write { data, stag, to }
                } else {
                    write(to, data)
                }
            }
            2 => {
                let data = rng.bytes(len);
                theirs.target[at..at + len].copy_from_slice(&data);
                let immediate = rng.bytes(4).try_into().unwrap();
                let solicited = rng.one_in(2);
                // None of it goes there.
                other.post_recv(rng.below(2));
                theirs.received.push(Received {
                    data: Vec::new(),
                    solicited,
                    extra: Extra::Immediate(ImmediateData::from_short(immediate)),
                });
                Wr::WriteImmediate {
                    data,
                    stag: TARGET,
                    to: BASE + at as u64,
                    immediate,
                    solicited,
                }
            }
            3 if sink_at + 8 <= SIZE => {
                let n = rng.below(8);
                let word = &mut theirs.words[n];
                let operation = atomic::operation(rng, *word);
                own.sink[sink_at..sink_at + 8].copy_from_slice(&word.to_ne_bytes());
                *word = operation.apply(*word);
                let sink = (SINK, BASE + sink_at as u64);
                sink_at += 8;
                Wr::Atomic {
                    operation,
                    kind: OperationType::MaskedCompareSwap,
                    stag: WORDS,
                    to: BASE + 8 * n as u64,
                    sink,
                }
            }
            // What Atomic Operations in front of it, and none behind it, have made of the words.
            _ if len <= 64 && len <= SIZE - sink_at => {
                let words = theirs.words.map(u64::to_ne_bytes).concat();
                let at = rng.below(65 - len);
                own.sink[sink_at..sink_at + len].copy_from_slice(&words[at..at + len]);
                let sink_to = BASE + sink_at as u64;
                sink_at += len;
                read(WORDS, BASE + at as u64, len as u32, sink_to)
            }
            _ => {
                let len = len.min(SIZE - sink_at);
                let source = &other.region(SOURCE).bytes[at..at + len];
                own.sink[sink_at..sink_at + len].copy_from_slice(source);
                let source_stag = if len == 0 { Stag(7) } else { SOURCE };
                let sink_to = BASE + sink_at as u64;
                sink_at += len;
                read(source_stag, BASE + at as u64, len as u32, sink_to)
            }
        };
        if matches!(
            wr,
            Wr::Send { .. } | Wr::SendImmediate { .. } | Wr::WriteImmediate { .. }
        ) {
            own.messages.push(id);
        }
        peer.post(id, wr, rng.one_in(5));
        own.completions.push((id, Status::Success));
    }
}

/// Random operations, sizes, options, schedules and cuts (P-RDMAP-7 to 14, P-ORD, T-6, T-46,
/// V-ORD-2, V-ORD-7, V-RD-12, T-47).
#[test]
fn random_traffic() {
    for seed in 0..400 {
        traffic(seed, None, Tunings::Default);
    }
}

/// The same traffic, past TCP from some moment on, and through it again from another one on (T-6,
/// T-46).
#[test]
fn random_traffic_past_tcp() {
    for seed in 0..400 {
        traffic(seed, Some(1 + seed as usize % 7 * 10), Tunings::Default);
    }
}

/// The same with budgets at both ends of their ranges, and anywhere within.
#[test]
fn random_traffic_with_any_tuning() {
    for seed in 0..300 {
        let direct = (seed % 3 == 2).then_some(1 + seed as usize % 7 * 10);
        let tunings = match seed % 4 {
            0 => Tunings::Least,
            1 => Tunings::Most,
            _ => Tunings::Any,
        };
        traffic(seed, direct, tunings);
    }
}

/// Which budgets the peers have.
#[derive(Clone, Copy)]
enum Tunings {
    Default,
    Least,
    Most,
    Any,
}

impl Tunings {
    fn pick(self, rng: &mut Rng) -> Tuning {
        let mut pick = |knob: Knob| match self {
            Tunings::Default => knob.default,
            Tunings::Least => knob.range.0,
            Tunings::Most => knob.range.1,
            Tunings::Any => knob.range.0 + rng.below((knob.range.1 - knob.range.0) as usize) as u32,
        };
        Tuning {
            rx: pick(RX_SOFTIRQ),
            tx: SendLimits {
                batch: pick(TX_BATCH),
                run: pick(TX_RUN),
            },
        }
    }
}

/// Lets both sides do random things; past TCP after some of them.
fn traffic(seed: u64, direct: Option<usize>, tunings: Tunings) {
    let mut rng = Rng::new(seed);
    let what = format!("seed {seed}");
    let rev = 1 + rng.below(2) as u8;
    let p2p = rev == 2 && rng.one_in(2);
    let mulpdus = [128, 132, 500, 1442, 1443, 8900, 64768];
    let pick = |rng: &mut Rng| mulpdus[rng.below(mulpdus.len())];
    let depth = |rng: &mut Rng| Depths {
        ird: 1 + rng.below(4) as u16,
        ord: 1 + rng.below(4) as u16,
    };
    let (a_crc, b_crc) = (rng.one_in(2), rng.one_in(2));
    let mulpdu = pick(&mut rng);
    // Revision 1 negotiates nothing: let the depths fit.
    let (a_want, b_want) = if rev == 2 {
        (depth(&mut rng), depth(&mut rng))
    } else {
        (Depths { ird: 3, ord: 2 }, Depths { ird: 2, ord: 3 })
    };
    let (a_large, b_large) = (seed % 3 == 0, seed % 4 == 0);
    let a_config = Config {
        large_fpdus: a_large,
        ..config(rev, a_crc, p2p)
    };
    let b_config = Config {
        large_fpdus: b_large,
        ..config(2, b_crc, false)
    };
    let mut a = Peer::initiator(a_config, a_want, b"hello", mulpdu);
    let mulpdu = pick(&mut rng);
    let mut b = Peer::responder(b_config, b_want, mulpdu);
    // Choices of its own, so that the others stay what they are.
    let mut tuning_rng = Rng::new(!seed);
    for peer in [&mut a, &mut b] {
        peer.set_batch([1, 3_000, 100_000][rng.below(3)]);
        peer.tuning = tunings.pick(&mut tuning_rng);
        if !matches!(tunings, Tunings::Default) && seed % 2 == 0 {
            // What fits is up to the batch.
            peer.set_batch(1 << 20);
        }
    }
    add_regions(&mut a, &mut rng, SIZE);
    add_regions(&mut b, &mut rng, SIZE);
    let (mut a_want, mut b_want) = (Expect::default(), Expect::default());
    let n = 1 + rng.below(25) as u64;
    post(&mut a, &mut b, &mut a_want, &mut b_want, &mut rng, n);
    let n = rng.below(25) as u64;
    post(&mut b, &mut a, &mut b_want, &mut a_want, &mut rng, n);
    let big = rng.one_in(2);
    // Segments past TCP wait here, and do not in the driver.
    let placed = direct.is_none() && seed % 3 != 0;
    (a.awaits_placement, b.awaits_placement) = (placed, placed && seed % 2 == 0);
    let (mut still, mut steps) = (0, 0);
    while still < 200 {
        steps += 1;
        if direct == Some(steps) {
            a.go_direct();
            b.go_direct();
        }
        if direct.is_some_and(|direct| steps > 4 * direct) && seed % 3 == 0 {
            for peer in [&mut a, &mut b] {
                if peer.handed() == 0 {
                    peer.leave_direct();
                }
            }
        }
        let (x, y) = if rng.one_in(2) {
            (&mut a, &mut b)
        } else {
            (&mut b, &mut a)
        };
        if rng.one_in(2) {
            x.transmit(rng.below(5));
        } else {
            let n = match rng.below(if big { 4 } else { 3 }) {
                0 => rng.below(4),
                1 => rng.below(100),
                2 => rng.below(3000),
                _ => 100_000,
            };
            deliver(x, y, n);
        }
        are_placed(&a, &b, &a_want);
        are_placed(&b, &a, &b_want);
        let empty = |peer: &mut Peer| peer.out().is_empty() && peer.handed() == 0;
        let idle = empty(&mut a) && empty(&mut b) && a.is_idle() && b.is_idle();
        still = if idle { still + 1 } else { 0 };
    }
    let (ap, bp) = (a.params.unwrap(), b.params.unwrap());
    assert_eq!((ap.crc, bp.crc), (a_crc || b_crc, a_crc || b_crc));
    assert_eq!([ap.large_fpdus, bp.large_fpdus], [a_large && b_large; 2]);
    assert!(
        ap.ord <= bp.ird && bp.ord <= ap.ird,
        "{what}: X-ENH-7, X-ENH-8"
    );
    assert_eq!(
        (&a.private_data[..], &b.private_data[..]),
        (&b"welcome"[..], &b"hello"[..])
    );
    assert!(a.established && b.established);
    verify(&a, &a_want, &what);
    verify(&b, &b_want, &what);
}

/// Messages of `from` do not complete before `to` has them, if that is wanted.
fn are_placed(from: &Peer, to: &Peer, want: &Expect) {
    let completed = from.completions().len() as u64;
    let messages = want.messages.iter().filter(|id| **id < completed).count();
    assert!(!from.awaits_placement || messages <= to.received().len());
}

/// A small script with one of each operation, in both directions.
fn script(p2p: bool, seed: u64) -> (Peer, Peer, Expect, Expect) {
    let mut rng = Rng::new(seed);
    let depths = Depths { ird: 2, ord: 2 };
    let mut a = Peer::initiator(config(2, true, p2p), depths, b"", 128);
    let mut b = Peer::responder(config(2, false, false), depths, 140);
    add_regions(&mut a, &mut rng, 500);
    add_regions(&mut b, &mut rng, 500);
    let (mut a_want, mut b_want) = (Expect::default(), Expect::default());
    for expect in [&mut a_want, &mut b_want] {
        expect.target.resize(500, 0);
        expect.sink.resize(500, 0);
    }
    script_side(&mut a, &mut b, &mut a_want, &mut b_want, &mut rng);
    script_side(&mut b, &mut a, &mut b_want, &mut a_want, &mut rng);
    (a, b, a_want, b_want)
}

fn script_side(x: &mut Peer, y: &mut Peer, own: &mut Expect, theirs: &mut Expect, rng: &mut Rng) {
    let data = rng.bytes(150);
    y.post_recv(150);
    theirs.received.push(Received {
        data: data.clone(),
        solicited: true,
        extra: Extra::Nothing,
    });
    let send = Wr::Send {
        data,
        solicited: true,
        invalidate: None,
    };
    let data = rng.bytes(130);
    theirs.target[3..133].copy_from_slice(&data);
    let write = write(BASE + 3, data);
    own.sink[5..155].copy_from_slice(&y.region(SOURCE).bytes[100..250]);
    let read = read(SOURCE, BASE + 100, 150, BASE + 5);
    let empty_read = Wr::Read(ReadRequest::default());
    theirs.words[1] = 0x0102_0304_0506_0708;
    own.sink[160..168].copy_from_slice(&[0; 8]);
    let atomic = atomic::add(theirs.words[1], 1, 20);
    for (id, wr) in [read, send, empty_read, atomic, write]
        .into_iter()
        .enumerate()
    {
        x.post(id as u64, wr, false);
        own.completions.push((id as u64, Status::Success));
    }
}

/// M-MPA-13, T-25, V-ST-6: each possible cut of each direction, and single octets.
#[test]
fn m_mpa_13_streams_at_every_cut() {
    for p2p in [false, true] {
        // How much each side sends in all.
        let (mut a, mut b, ..) = script(p2p, 1);
        let (mut a_total, mut b_total) = (0, 0);
        loop {
            a.transmit(100);
            b.transmit(100);
            let (n, m) = (a.out().len(), b.out().len());
            if n + m == 0 {
                break;
            }
            (a_total, b_total) = (a_total + n, b_total + m);
            deliver(&mut a, &mut b, n);
            deliver(&mut b, &mut a, m);
        }
        for (cut_a, total) in [(true, a_total), (false, b_total)] {
            for cut in 1..=total {
                let (mut a, mut b, a_want, b_want) = script(p2p, 1);
                run_with_cut(&mut a, &mut b, cut_a, cut);
                let what = format!("cut {cut} of {total}, initiator {cut_a}");
                verify(&a, &a_want, &what);
                verify(&b, &b_want, &what);
            }
        }
        for size in [1, 2, 3, 5, 7, 64] {
            let (mut a, mut b, a_want, b_want) = script(p2p, 1);
            loop {
                a.transmit(1);
                b.transmit(1);
                let moved = deliver(&mut a, &mut b, size) | deliver(&mut b, &mut a, size);
                if !moved {
                    break;
                }
            }
            verify(&a, &a_want, &format!("chunks of {size}"));
            verify(&b, &b_want, &format!("chunks of {size}"));
            assert!(size >= 64 || a.in_place() + b.in_place() == 0);
        }
    }
}

/// Everything is delivered as it comes, but one side's stream is cut once.
fn run_with_cut(a: &mut Peer, b: &mut Peer, cut_a: bool, cut: usize) {
    let mut seen = 0;
    loop {
        a.transmit(100);
        b.transmit(100);
        let mut moved = false;
        for from_a in [true, false] {
            let (x, y) = if from_a {
                (&mut *a, &mut *b)
            } else {
                (&mut *b, &mut *a)
            };
            let n = x.out().len();
            if from_a == cut_a && seen < cut && seen + n > cut {
                deliver(x, y, cut - seen);
                seen = cut;
                // The other side may answer before the rest comes.
                y.transmit(100);
                moved = true;
                continue;
            }
            if from_a == cut_a {
                seen += n;
            }
            moved |= deliver(x, y, n);
        }
        if !moved {
            return;
        }
    }
}
