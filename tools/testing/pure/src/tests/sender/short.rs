// SPDX-License-Identifier: GPL-2.0

//! Short messages that nothing else is to be sent with.

use super::*;
use crate::proto::sender::{OpenError, PayloadError};
use crate::proto::state::QpState;

/// The octets of the first FPDU of `posted`, which `behind` is posted behind, and how many calls of
/// TCP it took to send all.
fn first_fpdu(crc: bool, posted: Posted, behind: Option<Posted>) -> (Vec<u8>, usize) {
    let mut agreed = params(4);
    agreed.crc = crc;
    let mut sending = Sending::new(&agreed, EMSS, 8);
    sending.post(posted);
    if let Some(behind) = behind {
        sending.post(behind);
    }
    sending.run();
    let ends = vec![Status::Success; 1 + usize::from(behind.is_some())];
    let statuses: Vec<_> = sending.queue.completions.iter().map(|(_, s)| *s).collect();
    assert_eq!(statuses, ends);
    let ulpdu_len = usize::from(u16::from_be_bytes([sending.tcp.out[0], sending.tcp.out[1]]));
    let len = (2 + ulpdu_len).next_multiple_of(4) + 4;
    (sending.tcp.out[..len].to_vec(), sending.tcp.flags.len())
}

/// D-DDP-10, M-MPA-4 to 8: a message has the same octets alone and with another behind it.
#[test]
fn m_mpa_4_octets_are_the_same() {
    for crc in [false, true] {
        for len in (0..64).chain(1_300..1_424) {
            let marked = Posted {
                solicited: true,
                ..send(len)
            };
            let stag = Some(Stag(7));
            let invalidates = Posted::new(Operation::Send { invalidate: stag }, len);
            for posted in [send(len), write(len), marked, invalidates] {
                let (alone, calls) = first_fpdu(crc, posted, None);
                let (followed, _) = first_fpdu(crc, posted, Some(send(1)));
                assert_eq!(alone, followed, "{posted:?}");
                assert_eq!(calls, 1);
            }
        }
    }
}

/// What is posted together leaves in one call, a message that is longer than a segment as well.
#[test]
fn together_in_one_call() {
    for (posted, behind) in [(send(1), Some(write(2))), (send(3_000), None)] {
        assert_eq!(first_fpdu(false, posted, behind).1, 1);
    }
}

/// T-11, T-19: a short message of which TCP takes a part completes once TCP has the rest; one that
/// TCP refuses does not complete.
#[test]
fn t_11_taken_in_parts() {
    let mut sending = sending();
    sending.post(send(20));
    sending.tcp.takes = 10;
    sending.run();
    assert_eq!(sending.tcp.out.len(), 10);
    assert!(sending.queue.completions.is_empty());
    sending.tcp.heal();
    sending.run();
    assert_eq!(sending.queue.completions, [(0, Status::Success)]);

    sending.tcp.refuses = true;
    sending.post(send(20));
    sending.run();
    assert_eq!(sending.queue.completions, [(0, Status::Success)]);
}

/// V-FNC-4: a short message with a fence waits for the Reads in front of it.
#[test]
fn v_fnc_4_fence() {
    let mut sending = sending();
    sending.post(read(10, false));
    sending.run();
    sending.post(fenced(send(10)));
    sending.run();
    assert_eq!(messages(&sending), [Opcode::ReadRequest]);
    assert!(sending.queue.stalled());
    assert!(sending.answer());
    sending.run();
    assert_eq!(messages(&sending), [Opcode::ReadRequest, Opcode::Send]);
}

/// V-WC-6, V-TM-1, T-32: what is wrong with a short message ends the stream as it does behind
/// others.
#[test]
fn v_wc_6_what_is_wrong() {
    let protection = Status::Failed(Fault::LocalProtection);
    for n in 0..3 {
        let mut sending = sending();
        let faults = &mut sending.queue.faults;
        let end = match n {
            0 => {
                faults.open = Some(OpenError::Denied(TermError::RemoteStag));
                protection
            }
            1 => {
                faults.payload = Some(PayloadError::NoMemory);
                Status::Flushed
            }
            _ => {
                faults.short = true;
                Status::Flushed
            }
        };
        sending.post(send(40));
        sending.run();
        assert_eq!(sending.state, QpState::Terminate);
        assert!(sending
            .failed
            .as_ref()
            .is_some_and(|f| f.is_defect == (n == 2)));
        assert_eq!(messages(&sending), [Opcode::Terminate]);
        check_local_error(&mut sending, &[end]);
    }
}

/// T-4, V-ORD-2: a short message behind a Read is sent at once, and completes behind it.
#[test]
fn t_4_behind_a_read() {
    let mut sending = sending();
    sending.post(read(10, false));
    sending.run();
    for n in 1..3 {
        sending.post(send(n));
        sending.run();
    }
    let sent = [Opcode::ReadRequest, Opcode::Send, Opcode::Send];
    assert_eq!(messages(&sending), sent);
    assert!(sending.queue.completions.is_empty());
    assert!(sending.answer());
    let ended: Vec<_> = sending.queue.completions.iter().map(|(n, _)| *n).collect();
    assert_eq!(ended, [0, 1, 2]);
}
