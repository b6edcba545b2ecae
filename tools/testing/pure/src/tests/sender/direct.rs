// SPDX-License-Identifier: GPL-2.0

//! Segments past TCP whose other end, or whose memory, is gone; and what stands behind them.

use super::*;
use crate::proto::drain::Stop;
use crate::proto::sender::PayloadError;
use crate::support::tcp::waits;

/// A sender whose segments past TCP get `answer`.
fn direct(answer: Result<bool, Stop>) -> Sending {
    let mut sending = sending();
    sending.tcp.direct = Some(answer);
    sending
}

/// M-MPA-10, T-11: what the other end does not take any more goes through TCP, in segments of that,
/// as if there had been no other way: alone, together, and behind what was handed over.
#[test]
fn m_mpa_10_other_end_has_gone() {
    for posted in [&[send(40)][..], &[send(5_000)], &[send(40), write(70_000)]] {
        let mut plain = sending();
        let mut gone = direct(Ok(false));
        for posted in posted {
            plain.post(*posted);
            gone.post(*posted);
        }
        plain.run();
        gone.run();
        assert!(!plain.tcp.out.is_empty());
        assert_eq!(gone.tcp.out, plain.tcp.out, "{posted:?}");
        assert_eq!(gone.queue.completions, plain.queue.completions);
        assert!(gone.tcp.handed.is_empty());
    }

    let mut sending = direct(Ok(true));
    sending.post(send(40));
    sending.run();
    assert!(sending.tcp.handed.len() == 1 && sending.tcp.out.is_empty());
    sending.tcp.direct = Some(Ok(false));
    sending.post(write(40));
    sending.run();
    assert!(sending.tcp.handed.len() == 1);
    assert_eq!(messages(&sending), [Opcode::Write]);
    let done = [(0, Status::Success), (1, Status::Success)];
    assert_eq!(sending.queue.completions, done);
}

/// T-19, V-ORD-12: what concerns this side only, and so may have to wait for somebody, is done once
/// the other end is let go of.
#[test]
fn v_ord_12_local_requests_wait() {
    let mut sending = direct(Ok(true));
    sending.post(send(40));
    sending.post(Posted::new(Operation::Local(Local::Register), 0));
    sending.run();
    let mut did = sending.did();
    did.retain(|did| !matches!(did, Did::Finished(_)));
    assert_eq!(did, [Did::Sent, success(0), Did::Registered, success(1)]);
    assert_eq!(sending.tcp.handed.len(), 1);
}

/// V-TM-1, V-TM-2: memory that is not there any more when its segment is handed over ends the stream;
/// the Terminate goes through TCP. A segment that is not what its header says is a defect.
#[test]
fn v_tm_1_payload_fails_past_tcp() {
    for error in [PayloadError::NoMemory, PayloadError::Broken] {
        for count in [1, 2] {
            let mut sending = direct(Ok(true));
            sending.queue.faults.payload = Some(error);
            for _ in 0..count {
                sending.post(send(40));
            }
            sending.run();
            let failure = sending.failed.as_ref().expect("failed");
            assert_eq!(failure.is_defect, error == PayloadError::Broken);
            assert!(sending.tcp.handed.is_empty());
            check_local_error(&mut sending, &[Status::Flushed; 2][..count]);
        }
    }
}

/// T-11: an other end that takes no more at a time does not tell when it does again, so somebody has
/// to go on, also where nothing was handed over; one that has to wait for something tells.
#[test]
fn t_11_goes_on_after_enough() {
    for posted in [&[send(40)][..], &[send(5_000)], &[send(40), write(70_000)]] {
        let mut sending = direct(Err(Stop::Again));
        for posted in posted {
            sending.post(*posted);
        }
        assert_eq!(sending.run_once(), Stop::Again, "{posted:?}");
        sending.tcp.direct = Some(waits());
        assert!(matches!(sending.run_once(), Stop::For(_)));
        assert!(sending.tcp.handed.is_empty() && sending.tcp.out.is_empty());
        sending.tcp.direct = Some(Ok(true));
        sending.run();
        assert!(sending.tcp.handed.len() >= posted.len());
        let completions = &sending.queue.completions;
        assert!(completions.len() == posted.len());
        assert!(completions
            .iter()
            .all(|(_, status)| *status == Status::Success));
    }
}
