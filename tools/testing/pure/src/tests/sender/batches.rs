// SPDX-License-Identifier: GPL-2.0

//! How FPDUs get into batches, and batches into TCP.

use super::*;
use crate::proto::drain::{Stop, Waker};
use crate::proto::failure::Failure;
use crate::proto::setup::Params;
use crate::proto::state::QpState;
use crate::proto::transport::{SendFlags, Transport};
use crate::proto::tuning::TX_BATCH;
use crate::wire::fpdu::{fpdu_len, mulpdu};

/// M-MPA-10, T-27: FPDUs follow the size of TCP's segments when that changes, in the middle of a
/// message too.
#[test]
fn m_mpa_10_segment_size_changes() {
    let mut sending = sending();
    sending.tcp.takes = 3_000;
    sending.tcp.space = 2_000;
    sending.post(write(20_000));
    sending.run();
    let before = sending.tcp.out.len();
    for emss in [600, 4_000] {
        sending.tcp.segment = emss;
        sending.tcp.takes = 6_000;
        sending.run();
    }
    sending.tcp.heal();
    sending.settle();
    let seen = sending.seen();
    assert!(before == 3_000 && seen.len() > 10);
    let longest = |emss| fpdu_len(mulpdu(emss, false));
    // What was in the batch is as it was.
    let lens: Vec<_> = seen.iter().map(|fpdu| fpdu.len).collect();
    let end = lens.len() - 1;
    let kinds = [longest(EMSS), longest(600), longest(4_000)];
    assert!(
        lens[..end].iter().all(|len| kinds.contains(len)),
        "{lens:?}"
    );
    for kind in kinds {
        assert!(lens.contains(&kind), "{kind}: {lens:?}");
    }
}

/// T-11, V-ORD-2: so many requests as can end with a batch; the next ones go with another.
#[test]
fn v_ord_2_batch_of_small_requests() {
    // FPDUs of 24 octets fill segments of this size.
    let mut sending = Sending::new(&params(4), 1440, 400);
    for _ in 0..300 {
        sending.post(send(0));
    }
    sending.run();
    let did = sending.did();
    let mut batches = Vec::new();
    for done in did {
        match done {
            Did::Sent => batches.push(0),
            Did::Completed(_, Status::Success) => *batches.last_mut().expect("sent") += 1,
            _ => {}
        }
    }
    assert_eq!(batches, [128, 128, 44]);
    assert_eq!(sending.seen().len(), 300);
}

/// V-RD-11: one caller sends a MiB, in batches, and then lets others have the processor.
#[test]
fn v_rd_11_budget() {
    let mut sending = sending();
    for _ in 0..3 {
        sending.post(write(1 << 20));
    }
    let mut rounds = 0;
    while matches!(sending.run_once(), Stop::Again) {
        rounds += 1;
        let sent = sending.tcp.out.len();
        let least = rounds << 20;
        assert!(sent >= least && sent < least + rounds * (TX_BATCH.default as usize + 1_500));
    }
    assert_eq!(rounds, 3);
    assert_eq!(sending.queue.completions.len(), 3);
}

/// T-19: a request completes when TCP has its last octet, not before; nothing else is begun until
/// then.
#[test]
fn t_19_partly_taken() {
    let mut sending = sending();
    sending.post(send(100));
    sending.post(send(100));
    let len = fpdu_len(118);
    sending.tcp.space = 1;
    for takes in [0, 1, len - 2] {
        sending.tcp.takes = takes;
        sending.run();
        assert!(sending.queue.completions.is_empty() && !sending.did().contains(&Did::Sent));
    }
    sending.tcp.takes = 1;
    sending.run();
    assert_eq!(sending.queue.completions, [(0, Status::Success)]);
    assert_eq!(sending.tcp.out.len(), len);
    sending.settle();
}

/// Octets of the FPDUs that were sent.
fn sent_lens(mut out: &[u8]) -> Vec<usize> {
    let mut lens = Vec::new();
    while let [hi, lo, ..] = out {
        let len = fpdu_len(u16::from_be_bytes([*hi, *lo]));
        lens.push(len);
        out = &out[len..];
    }
    lens
}

/// RFC 5044 section 5.1, M-MPA-12: the first FPDU of a message fills the segment that the one before has begun,
/// where enough of it fits; all of that is one record.
#[test]
fn m_mpa_12_fills_a_segment() {
    let emss = EMSS as usize;
    for first in [4, 500, 1_000, emss - 200] {
        let mut sending = sending();
        sending.post(send(first as u32));
        sending.post(send(2_000));
        sending.post(write(3_000));
        sending.run();
        assert_eq!(sending.tcp.flags, [SendFlags::default()], "{first}");
        let lens = sent_lens(&sending.tcp.out);
        let mut at = 0;
        for len in &lens {
            assert!(
                at % emss == 0 || at % emss + len <= emss,
                "{first}: {lens:?}"
            );
            at += len;
        }
        assert_eq!(lens[0] + lens[1], emss, "{lens:?}");
        assert_eq!(sending.queue.completions.len(), 3);
    }
}

/// RFC 5044 section 5.1, M-MPA-12: TCP may have sent what was left of a segment when the next batch
/// comes, which so begins one of its own. If TCP has not, it is told to.
#[test]
fn m_mpa_12_batches_begin_segments() {
    let emss = EMSS as usize;
    let mut sending = sending();
    sending.post(send(100));
    sending.run();
    let begin = sending.tcp.out.len();
    for _ in 0..20 {
        sending.post(send(220));
    }
    sending.run();
    let cut = SendFlags {
        cut: true,
        ..SendFlags::default()
    };
    assert_eq!(sending.tcp.flags, [SendFlags::default(), cut]);
    let mut at = 0;
    for len in sent_lens(&sending.tcp.out[begin..]) {
        assert!(at % emss + len <= emss, "{at} {len}");
        at += len;
    }
    assert!(at > 2 * emss);
}

/// M-MPA-12: a segment of which too little is left is ended, and with it the batch; more than a
/// segment in one batch is told to TCP.
#[test]
fn m_mpa_12_ends_a_segment() {
    let mut sending = sending();
    // Without the headers of another one, and four octets.
    sending.post(send(EMSS - 24 - 24));
    sending.post(send(1_000));
    sending.run();
    let eor = SendFlags {
        eor: true,
        more: true,
        ..SendFlags::default()
    };
    assert_eq!(sending.tcp.flags, [eor, SendFlags::default()]);
    let mut sending = self::sending();
    sending.tcp.space = 1;
    sending.post(send(1_000));
    sending.post(send(1_000));
    sending.run();
    let cut = SendFlags {
        cut: true,
        ..SendFlags::default()
    };
    assert_eq!(sending.tcp.flags, [SendFlags::default(), cut]);
}

/// M-MPA-12: the same for a Terminate, unless FPDUs need not fit segments.
#[test]
fn m_mpa_12_terminate_begins_a_segment() {
    for (before, large_fpdus) in [(false, false), (true, false), (true, true)] {
        let params = Params {
            large_fpdus,
            ..params(4)
        };
        let mut sending = Sending::new(&params, EMSS, 32);
        if before {
            sending.post(send(100));
            sending.run();
        }
        let failure = Failure::from(TermError::LocalCatastrophic);
        sending.sender.set_terminate(&failure);
        sending.state = QpState::Terminate;
        sending.run();
        let cut = before && !large_fpdus;
        let flags = SendFlags {
            cut,
            ..SendFlags::default()
        };
        assert_eq!(sending.tcp.flags.last(), Some(&flags));
    }
}

/// T-32: a FIN waits until the peer has acknowledged what was sent, however many messages that was.
#[test]
fn t_32_has_spoken() {
    for count in 0..4 {
        let mut sending = sending();
        for _ in 0..count {
            sending.post(send(10));
        }
        sending.run();
        let finished = Did::Finished(count > 0);
        assert_eq!(sending.did().last(), Some(&finished), "{count}");
    }
}

/// T-32: a batch that is full goes out before the FPDU that does not fit, which comes with the
/// next; an FPDU for which there is no memory waits, and one that fits no batch is a defect.
#[test]
fn t_32_no_room() {
    let mut sending = sending();
    sending.tcp.room = 2 * EMSS as usize;
    sending.post(write(10_000));
    sending.run();
    assert_eq!(sending.queue.completions, [(0, Status::Success)]);
    assert!(
        sending
            .did()
            .iter()
            .filter(|did| **did == Did::Sent)
            .count()
            >= 4
    );

    sending.tcp.room = 200;
    sending.post(write(100));
    sending.post(write(1_000));
    sending.run();
    assert_eq!(sending.tcp.marked, Some(Waker::Timer));
    assert_eq!(sending.queue.completions.len(), 2);
    sending.tcp.heal();
    sending.run();
    let all = [0, 1, 2].map(|n| (n, Status::Success));
    assert_eq!(sending.queue.completions, all);

    (sending.tcp.room, sending.tcp.is_full) = (200, true);
    sending.post(write(1_000));
    sending.run();
    assert!(sending.failed.as_ref().is_some_and(|f| f.is_defect));
}

/// T-11, T-32: TCP that refuses a batch is not given anything any more, and what ended in the batch
/// never completes, not even when TCP would take it later.
#[test]
fn t_11_refused() {
    let mut sending = sending();
    sending.post(send(10));
    sending.run();
    assert_eq!(sending.did().last(), Some(&Did::Finished(true)));
    sending.tcp.refuses = true;
    sending.post(send(20));
    sending.run();
    assert!(sending.sender.is_busy());
    assert_eq!(sending.did(), [], "a FIN behind half of the stream");
    sending.tcp.refuses = false;
    sending.post(send(30));
    sending
        .sender
        .set_terminate(&TermError::CatastrophicStream.into());
    sending.run();
    assert_eq!(sending.did(), []);
    assert_eq!(messages(&sending), [Opcode::Send]);
    assert_eq!(sending.queue.completions, [(0, Status::Success)]);
    sending.queue.flush();
    assert_eq!(
        sending.queue.completions[1..],
        [(1, Status::Flushed), (2, Status::Flushed)]
    );
}

/// T-32, V-TM-3: whether TCP has all of a Terminate, without which a FIN would be a good end.
#[test]
fn t_32_owes_terminate() {
    let mut sending = sending();
    let owes = |sending: &Sending| sending.sender.owes_terminate(sending.tcp.unsent() == 0);
    assert!(!owes(&sending));
    sending.post(send(10));
    sending.tcp.takes = 0;
    sending.run();
    assert!(!owes(&sending));
    sending.state = QpState::Terminate;
    sending.sender.set_terminate(&TermError::MpaCrc.into());
    assert!(owes(&sending));
    sending.run();
    assert!(owes(&sending));
    sending.tcp.heal();
    sending.tcp.takes = 5;
    assert!(matches!(sending.run_once(), Stop::For(_)));
    assert!(owes(&sending));
    sending.tcp.heal();
    sending.run();
    assert!(!owes(&sending));
}

/// V-TM-5, T-36: in a state in which nothing is sent, what is in the batch leaves, and nothing is
/// begun.
#[test]
fn v_tm_5_not_sending() {
    for state in [
        QpState::Closing,
        QpState::Terminate,
        QpState::Error,
        QpState::Idle,
    ] {
        let mut sending = sending();
        sending.post(send(10));
        sending.tcp.takes = 0;
        sending.run();
        sending.post(send(20));
        sending.state = state;
        sending.tcp.heal();
        sending.run();
        assert_eq!(messages(&sending), [Opcode::Send]);
        assert_eq!(sending.queue.completions, [(0, Status::Success)]);
        assert_eq!(sending.did().last(), Some(&Did::Finished(true)));
    }
}

/// M-MPA-15, M-MPA-17: markers with and without CRC, for FPDUs that end anywhere between two.
#[test]
fn m_mpa_15_markers() {
    for crc in [true, false] {
        let mut agreed = params(4);
        agreed.send_markers = true;
        agreed.crc = crc;
        let mut sending = Sending::new(&agreed, EMSS, 600);
        for len in 0..520 {
            sending.post(send(len));
        }
        sending.run();
        let sent = sending.seen();
        assert!(sent.len() >= 520 && sending.queue.completions.len() == 520);
        let lens = sent.iter().filter(|f| f.last).map(|f| f.payload.len());
        assert!(lens.eq(0..520));
    }
}
