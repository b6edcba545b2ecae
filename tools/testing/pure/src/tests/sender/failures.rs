// SPDX-License-Identifier: GPL-2.0

//! What goes wrong while a message is sent: where the stream ends then, and what is told.

use super::*;
use crate::num::Broken;
use crate::proto::drain::Stop;
use crate::proto::sender::{OpenError, PayloadError};
use crate::proto::state::QpState;
use crate::proto::transport::Piece;
use crate::support::tcp::Tcp;

/// V-WC-6, V-WC-8, V-TM-2, T-33: memory that may not be read: the request completes in error, what
/// is in front of it was sent.
#[test]
fn v_wc_6_memory_of_a_request() {
    let mut sending = sending();
    sending.post(send(10));
    sending.run();
    sending.post(send(10));
    sending.post(write(10));
    sending.queue.faults.open = Some(OpenError::Denied(TermError::RemoteStag));
    sending.run();
    let failure = sending.failed.as_ref().expect("failed");
    assert!(failure.in_completion && !failure.is_defect);
    assert_eq!(messages(&sending), [Opcode::Send, Opcode::Terminate]);
    let fault = Status::Failed(Fault::LocalProtection);
    check_local_error(&mut sending, &[Status::Success, fault, Status::Flushed]);
}

/// What only a defect can bring about ends the stream, with a message in the log, and no completion
/// tells of it.
#[test]
fn defect_ends_the_stream() {
    for n in 0..3 {
        let mut sending = sending();
        sending.post(send(10));
        sending.post(write(1_000));
        let faults = &mut sending.queue.faults;
        match n {
            0 => faults.open = Some(OpenError::Defect("lost count")),
            1 => faults.payload = Some(PayloadError::Broken),
            // The FPDU has not as many octets as its header says.
            _ => faults.short = true,
        }
        sending.run();
        let failure = sending.failed.as_ref().expect("failed");
        assert!(failure.is_defect && !failure.in_completion && failure.detail.is_some());
        assert_eq!(messages(&sending), [Opcode::Terminate]);
        check_local_error(&mut sending, &[Status::Flushed, Status::Flushed]);
    }
}

/// V-TM-1, V-TM-2, M-MPA-15: memory that is not there any more in the middle of a message: no octet
/// of that FPDU is sent; those in front of it are, and the Terminate, with the markers where they
/// belong.
#[test]
fn v_tm_1_payload_fails() {
    // The Terminate begins anywhere between two markers.
    for (markers, before) in [(false, 0)]
        .into_iter()
        .chain((0..512).step_by(8).map(|n| (true, n)))
    {
        let mut agreed = params(4);
        agreed.send_markers = markers;
        let mut sending = Sending::new(&agreed, EMSS, 8);
        sending.post(send(before));
        sending.post(write(20_000));
        sending.tcp.space = 4_000;
        sending.tcp.takes = 4_000;
        sending.run();
        sending.queue.faults.payload = Some(PayloadError::NoMemory);
        sending.tcp.heal();
        sending.run();
        let failure = sending.failed.as_ref().expect("failed");
        assert!(!failure.is_defect && !failure.in_completion);
        let seen = sending.seen();
        assert!(seen.len() > 3 && seen[1..seen.len() - 1].iter().all(|fpdu| !fpdu.last));
        check_local_error(&mut sending, &[Status::Success, Status::Flushed]);
    }
}

/// V-TM-1, T-19: requests whose last FPDU is in front of the bad one in the same batch complete;
/// where the batch cannot forget a part of it, none of it is sent, and none completes.
#[test]
fn v_tm_1_in_one_batch() {
    for keeps in [false, true] {
        let mut sending = sending();
        sending.post(send(0));
        sending.post(send(1));
        sending.queue.faults.short = true;
        sending.tcp.keeps = keeps;
        sending.run();
        assert!(sending.failed.as_ref().is_some_and(|f| f.is_defect));
        let sent = messages(&sending);
        if keeps {
            assert_eq!(sent, [Opcode::Terminate]);
            check_local_error(&mut sending, &[Status::Flushed, Status::Flushed]);
        } else {
            assert_eq!(sent, [Opcode::Send, Opcode::Terminate]);
            check_local_error(&mut sending, &[Status::Success, Status::Flushed]);
        }
    }
}

/// P-TERM-6, V-TM-8: a source that a Read names wrongly is told with the Read Request in question,
/// advanced by what was answered; a Read of nothing is answered whatever it names (P-RDMAP-10).
#[test]
fn p_term_6_source_of_a_read() {
    let mut sending = sending();
    sending.queue.faults.source = Some(TermError::RemoteStag);
    sending.peer_reads(peers_read(0));
    sending.run();
    assert_eq!(messages(&sending), [Opcode::ReadResponse]);
    sending.queue.faults.source = None;
    sending.peer_reads(peers_read(10_000));
    sending.tcp.space = 1;
    sending.tcp.takes = 2_000;
    sending.run();
    sending.queue.faults.source = Some(TermError::RemoteStag);
    sending.tcp.heal();
    sending.run();
    let seen = sending.seen();
    let answered: usize = seen[..seen.len() - 1].iter().map(|f| f.payload.len()).sum();
    assert!(answered > 0);
    let terminate = terminate(&sending).expect("a Terminate");
    assert_eq!(terminate.code, TermError::RemoteStag.code());
    let request = terminate.read_request.expect("the Read Request");
    assert_eq!(request.len as usize, 10_000 - answered);
}

/// T-32: a Terminate that the batch has no room for, or breaks at, is still owed, whole, and no FIN
/// goes out that would say that all is well.
#[test]
fn t_32_terminate_has_no_room() {
    for (room, breaks_at) in [(10, usize::MAX), (usize::MAX, 10)] {
        let mut sending = sending();
        sending.tcp.room = room;
        sending.tcp.breaks_at = breaks_at;
        sending.state = QpState::Terminate;
        sending.sender.set_terminate(&TermError::MpaCrc.into());
        sending.run();
        assert_eq!(sending.did(), []);
        assert!(sending.tcp.out.is_empty());
        assert!(sending.sender.owes_terminate(true));
    }
}

/// T-32: what fails is told to the peer in front of the FIN.
#[test]
fn t_32_fin_behind_terminate() {
    let mut sending = sending();
    sending.queue.faults.open = Some(OpenError::Denied(TermError::RemoteStag));
    sending.post(send(10));
    assert!(matches!(sending.run_once(), Stop::Failed(_)));
    assert!(!sending
        .did()
        .iter()
        .any(|did| matches!(did, Did::Finished(_))));
    sending
        .sender
        .set_terminate(&TermError::LocalCatastrophic.into());
    sending.state = QpState::Terminate;
    sending.run();
    assert_eq!(sending.did(), [Did::Sent, Did::Finished(true)]);
}

/// T-8: a piece of memory is copied as a whole, or not at all.
#[test]
fn t_8_whole_pieces() {
    let piece: &[u8] = &[1, 2, 3];
    for len in 0..6 {
        let mut out = vec![0; len];
        let copied = Piece::<Tcp>::copy_to(&piece, &mut out);
        let (end, octets) = match len {
            3 => (Ok(()), vec![1, 2, 3]),
            _ => (Err(Broken), vec![0; len]),
        };
        assert_eq!((copied, out), (end, octets));
    }
}
