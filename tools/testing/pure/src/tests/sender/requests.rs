// SPDX-License-Identifier: GPL-2.0

//! When requests start, in which order, and what is wrong with them from the start.

use super::*;
use crate::proto::drain::Stop;
use crate::proto::message::Rtr;
use crate::proto::request::OperationType;

const INVALIDATE: Operation = Operation::Local(Local::Invalidate { stag: Stag(9) });

/// V-FNC, T-41: what holds a request back, and what stays on this side.
#[test]
fn t_41_types() {
    let (send, write, read) = (
        send(1).operation,
        write(1).operation,
        read(1, true).operation,
    );
    let cases = [
        (send, OperationType::Send, false, false),
        (write, OperationType::Write, false, false),
        (read, OperationType::Read, false, false),
        (Ok(INVALIDATE), OperationType::Invalidate, true, true),
        (
            Ok(Operation::Local(Local::Register)),
            OperationType::Register,
            true,
            false,
        ),
        (
            Ok(Operation::Local(Local::Bind)),
            OperationType::Bind,
            true,
            true,
        ),
    ];
    for (operation, kind, is_local, takes_back) in cases {
        let operation = operation.expect("good");
        assert_eq!(operation.kind(), kind);
        assert_eq!(operation.is_local(), is_local);
        assert_eq!(operation.takes_back(), takes_back);
    }
}

/// T-19, T-20, V-ORD-12, V-MR-18, V-MW-2: what takes memory back is done once TCP has all that was
/// posted in front of it, a registration at once, and each before the next request.
#[test]
fn v_ord_12_local_requests() {
    let mut sending = sending();
    for posted in [
        send(100),
        Posted::new(INVALIDATE, 0),
        Posted::new(Operation::Local(Local::Register), 0),
        write(10),
        Posted::new(Operation::Local(Local::Register), 0),
        Posted::new(Operation::Local(Local::Bind), 0),
        send(0),
    ] {
        sending.post(posted);
    }
    sending.run();
    let did = sending.did();
    let done: Vec<_> = did
        .iter()
        .filter(|did| !matches!(did, Did::Finished(_)))
        .collect();
    let want = [
        Did::Sent,
        success(0),
        Did::Invalidated(Stag(9)),
        success(1),
        Did::Registered,
        success(2),
        // While the Write is in the batch; completes behind it.
        Did::Registered,
        Did::Sent,
        success(3),
        success(4),
        Did::Bound,
        success(5),
        Did::Sent,
        success(6),
    ];
    assert_eq!(done, want.iter().collect::<Vec<_>>());
    let sent = [Opcode::Send, Opcode::Write, Opcode::Send];
    assert_eq!(messages(&sending), sent);
}

/// V-FNC-3: an invalidation with a fence waits for all that was posted in front of it, if anything
/// was.
#[test]
fn v_fnc_3_fence() {
    let fenced = || fenced(Posted::new(INVALIDATE, 0));
    let mut sending = sending();
    sending.post(fenced());
    sending.run();
    assert_eq!(sending.queue.completions, [(0, Status::Success)]);
    sending.post(read(10, false));
    sending.post(fenced());
    sending.run();
    assert_eq!(sending.queue.completions.len(), 1);
    assert!(sending.answer());
    sending.run();
    let ids: Vec<_> = sending.queue.completions.iter().map(|c| c.0).collect();
    assert_eq!(ids, [0, 1, 2]);
}

/// V-ORD-12, V-MR-18: what would have to wait for others, where that may not be, is left to another
/// run; it has not begun, and nothing behind it has. What is in front of it has been sent.
#[test]
fn v_ord_12_local_requests_later() {
    for local in [
        INVALIDATE,
        Operation::Local(Local::Register),
        Operation::Local(Local::Bind),
    ] {
        let mut sending = sending();
        sending.post(send(100));
        sending.post(Posted::new(local, 0));
        sending.post(send(10));
        sending.queue.faults.later = true;
        for _ in 0..2 {
            assert_eq!(sending.run_once(), Stop::Again);
            assert_eq!(messages(&sending), [Opcode::Send]);
            assert_eq!(sending.queue.completions.len(), 1);
        }
        sending.queue.faults.later = false;
        sending.run();
        assert_eq!(messages(&sending), [Opcode::Send, Opcode::Send]);
        let ids: Vec<_> = sending.queue.completions.iter().map(|c| c.0).collect();
        assert_eq!(ids, [0, 1, 2]);
    }
}

/// T-47: local requests that are posted as fast as they are carried out do not keep a run from
/// its end, whatever is sent between them.
#[test]
fn local_requests_without_end() {
    for sends in 0..3 {
        let mut sending = sending();
        sending.queue.is_endless = true;
        for _ in 0..4 {
            sending.post(Posted::new(INVALIDATE, 0));
        }
        for _ in 0..sends {
            sending.post(send(10));
        }
        for _ in 0..3 {
            let before = sending.queue.completions.len();
            assert_eq!(sending.run_once(), Stop::Again);
            let done = sending.queue.completions.len() - before;
            assert!((128..400).contains(&done), "{sends}: {done}");
        }
    }
}

/// Without memory to send with, where it may not be waited for, the rest is left to another run.
#[test]
fn memory_later() {
    let mut sending = sending();
    sending.post(send(10));
    sending.post(send(3000));
    sending.tcp.is_hasty = true;
    sending.tcp.room = 0;
    assert_eq!(sending.run_once(), Stop::Again);
    assert_eq!(sending.run_once(), Stop::Again);
    assert!(sending.seen().is_empty());
    sending.tcp.heal();
    sending.run();
    assert!(sending.failed.is_none());
    assert_eq!(messages(&sending), [Opcode::Send, Opcode::Send]);
    assert_eq!(sending.queue.completions.len(), 2);
    // TCP does not wait for more.
    assert!(sending.tcp.flags.last().is_some_and(|flags| !flags.more));
}

/// V-RD-12, T-47: a response to the peer does not wait for a request that waits, whichever has the
/// turn.
#[test]
fn v_rd_12_response_in_either_turn() {
    for turns in 0..2 {
        let mut sending = Sending::new(&params(1), EMSS, 32);
        sending.post(read(10, false));
        sending.post(read(10, false));
        sending.run();
        for _ in 0..turns {
            assert!(matches!(sending.run_once(), Stop::For(_)));
        }
        sending.peer_reads(peers_read(10));
        sending.run();
        let want = [Opcode::ReadRequest, Opcode::ReadResponse];
        assert_eq!(messages(&sending), want, "{turns}");
    }
}

/// V-RD-11, T-47: a request that waits for the batch to leave has the next turn, whatever the peer
/// reads meanwhile.
#[test]
fn v_rd_11_turn_behind_a_flush() {
    let mut sending = sending();
    sending.post(send(10));
    sending.post(Posted::new(INVALIDATE, 0));
    sending.post(send(20));
    for _ in 0..4 {
        sending.peer_reads(peers_read(10));
    }
    sending.run();
    let (send, answer) = (Opcode::Send, Opcode::ReadResponse);
    let sent = messages(&sending);
    let second = sent.iter().rposition(|op| *op == send).expect("two");
    assert_eq!(sent.len(), 6);
    assert!(
        sent[..second].iter().filter(|op| **op == answer).count() <= 2,
        "{sent:?}"
    );
}

/// V-INV-13, V-MR-17, V-MW-4, V-WC-22: what fails on this side completes in error, and ends the
/// stream; what is in front of it has been sent.
#[test]
fn v_inv_13_local_failures() {
    for (operation, fault) in [
        (INVALIDATE, Fault::LocalProtection),
        (Operation::Local(Local::Register), Fault::LocalOperation),
        (Operation::Local(Local::Bind), Fault::Bind),
    ] {
        let mut sending = sending();
        sending.post(send(10));
        sending.post(Posted::new(operation, 0));
        sending.post(send(20));
        sending.queue.faults.local = Some(fault);
        sending.run();
        let in_completion = sending.failed.as_ref().map(|f| f.in_completion);
        assert_eq!(in_completion, Some(true));
        assert_eq!(messages(&sending), [Opcode::Send, Opcode::Terminate]);
        let ends = [Status::Success, Status::Failed(fault), Status::Flushed];
        check_local_error(&mut sending, &ends);
    }
}

/// V-WC-3, V-WC-21, T-4: a request that makes no sense fails in its turn: behind those in front of
/// it, of which a Read is not complete, and which is flushed then.
#[test]
fn v_wc_3_bad_request() {
    for fault in [Fault::LocalOperation, Fault::LocalLength] {
        let mut sending = sending();
        sending.post(send(10));
        sending.post(read(10, false));
        sending.post(bad(fault));
        sending.run();
        assert_eq!(
            messages(&sending),
            [Opcode::Send, Opcode::ReadRequest, Opcode::Terminate]
        );
        assert_eq!(sending.queue.completions.len(), 1);
        let ends = [Status::Success, Status::Flushed, Status::Failed(fault)];
        check_local_error(&mut sending, &ends);
    }
}

/// V-RD-2, T-11: no more requests are under way than there are records for, good ones or bad ones;
/// they go on when a Read completes.
#[test]
fn v_rd_2_no_record() {
    for is_good in [true, false] {
        let mut sending = Sending::new(&params(4), EMSS, 2);
        sending.post(read(10, false));
        sending.post(send(10));
        sending.post(send(30));
        if !is_good {
            sending.post(bad(Fault::LocalOperation));
        }
        sending.run();
        let first = [Opcode::ReadRequest, Opcode::Send];
        assert_eq!(messages(&sending), first);
        assert!(sending.queue.stalled() && sending.failed.is_none());
        assert!(sending.answer());
        sending.run();
        let sent = messages(&sending);
        assert_eq!(sent[2], Opcode::Send);
        assert_eq!(sending.failed.is_some(), !is_good);
        sending.settle();
    }
    // A bad one that finds no record.
    let mut sending = Sending::new(&params(4), EMSS, 1);
    sending.post(read(10, false));
    sending.post(bad(Fault::LocalOperation));
    sending.run();
    assert!(sending.failed.is_none() && sending.queue.stalled());
    assert!(sending.answer());
    sending.run();
    let ends = [Status::Success, Status::Failed(Fault::LocalOperation)];
    check_local_error(&mut sending, &ends);
}

/// X-IMM-3, X-IMM-4: a Write with immediate data is a Write and Immediate Data behind it, or that
/// alone if the Write is empty, and one request.
#[test]
fn x_imm_4_write_with_immediate() {
    for (solicited, opcode) in [(false, Opcode::Immediate), (true, Opcode::ImmediateSe)] {
        for len in [0, 1, 1400, 100_000] {
            let mut sending = sending();
            let data = ImmediateData::from_short([1, 2, 3, 4]);
            sending.post(Posted {
                solicited,
                ..write_to(Stag(5), len, Some(data))
            });
            sending.post(send(1));
            sending.run();
            let all = [Opcode::Write, opcode, Opcode::Send];
            assert_eq!(messages(&sending), all[usize::from(len == 0)..]);
            sending.settle();
            let got: Vec<_> = sending.queue.completions.iter().map(|c| c.1).collect();
            assert_eq!(got, [Status::Success; 2]);
        }
    }
}

/// V-STAG0-8: a Write to nobody fails with immediate data, too; without octets there is no Write.
#[test]
fn x_imm_4_to_nobody() {
    let to_nobody = |len| write_to(Stag(0), len, Some(ImmediateData([0; 8])));
    let mut sending = sending();
    sending.post(to_nobody(0));
    sending.post(to_nobody(1));
    sending.run();
    assert_eq!(messages(&sending), [Opcode::Immediate, Opcode::Terminate]);
    let ends = [Status::Success, Status::Failed(Fault::LocalProtection)];
    check_local_error(&mut sending, &ends);
}

/// V-STAG0-8, T-23: STag 0 is nobody's; nothing is sent to it, but nothing is sent anywhere.
#[test]
fn v_stag0_8_nobodys() {
    let to_nobody = |len| write_to(Stag(0), len, None);
    let mut sending = sending();
    sending.post(to_nobody(0));
    sending.post(to_nobody(1));
    sending.run();
    assert_eq!(messages(&sending), [Opcode::Write, Opcode::Terminate]);
    let ends = [Status::Success, Status::Failed(Fault::LocalProtection)];
    check_local_error(&mut sending, &ends);
}

/// T-22, T-23: the sink of a Read must be this side's to write, if there is anything to write.
#[test]
fn t_22_sink_of_a_read() {
    let mut sending = sending();
    sending.queue.faults.sink = true;
    sending.post(read(0, false));
    sending.post(read(0, true));
    sending.run();
    assert!(sending.failed.is_none());
    let sinks: Vec<_> = sending
        .seen()
        .iter()
        .map(|fpdu| ReadRequest::parse(&fpdu.payload).expect("a Read").sink_stag)
        .collect();
    // What is to be invalidated is named.
    assert_eq!(sinks, [Stag(1), Stag(6)]);
    sending.post(read(1, false));
    sending.run();
    assert_eq!(messages(&sending).len(), 3);
    let ends = [
        Status::Flushed,
        Status::Flushed,
        Status::Failed(Fault::LocalProtection),
    ];
    check_local_error(&mut sending, &ends);
}

/// T-24: a responder that has not heard of its peer sends nothing, but does what concerns this side
/// only.
#[test]
fn t_24_local_requests_do_not_wait() {
    let mut agreed = params(4);
    agreed.wait_for_fpdu = true;
    let mut sending = Sending::new(&agreed, EMSS, 8);
    sending.post(Posted::new(Operation::Local(Local::Register), 0));
    sending.post(Posted::new(INVALIDATE, 0));
    sending.post(send(10));
    sending.run();
    assert!(sending.tcp.out.is_empty());
    assert_eq!(sending.queue.completions.len(), 2);
    assert!(!sending.sender.may_send(false) && sending.sender.may_send(true));
    sending.queue.heard = true;
    sending.run();
    assert_eq!(messages(&sending), [Opcode::Send]);
}

/// X-ENH-19, X-ENH-18: the ready-to-receive message comes first and is no request; where there is
/// no room for its Read, nothing is sent but a Terminate.
#[test]
fn x_enh_18_ready_to_receive() {
    for rtr in [Rtr::Send, Rtr::Write, Rtr::Read] {
        let mut agreed = params(1);
        agreed.send_rtr = Some(rtr);
        let mut sending = Sending::new(&agreed, EMSS, 8);
        sending.run();
        let first = match rtr {
            Rtr::Send => Opcode::Send,
            Rtr::Write => Opcode::Write,
            Rtr::Read => Opcode::ReadRequest,
        };
        assert_eq!(messages(&sending), [first]);
        // It is nothing that the peer has to have before the FIN.
        assert_eq!(sending.did().last(), Some(&Did::Finished(false)));
        assert_eq!(sending.answer(), rtr == Rtr::Read);
        sending.post(send(10));
        sending.run();
        assert_eq!(messages(&sending), [first, Opcode::Send]);
        assert_eq!(sending.did().last(), Some(&Did::Finished(true)));
        assert_eq!(sending.queue.completions, [(0, Status::Success)]);
    }
    let mut agreed = params(1);
    agreed.send_rtr = Some(Rtr::Read);
    let mut sending = Sending::new(&agreed, EMSS, 8);
    sending.queue.no_reads();
    let stop = sending.run_once();
    assert!(matches!(stop, Stop::Failed(failure) if !failure.in_completion));
    assert!(sending.tcp.out.is_empty());
}
