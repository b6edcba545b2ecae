// SPDX-License-Identifier: GPL-2.0

//! Atomic Operations: when ours start, and how the peer's are answered (RFC 7306 section 5).

use super::*;
use crate::proto::request::OperationType;
use crate::support::memory::original;
use crate::wire::atomic::{AtomicOperation, AtomicRequest, AtomicResponse};
use crate::wire::ddp::Msn;
use crate::wire::terminate::Quoted;

const ADD: AtomicOperation = AtomicOperation::FetchAdd { add: 3, mask: 0 };

/// What is asked for, of so many octets of sink.
fn atomic(len: u32) -> Posted {
    let (stag, to) = (Stag(5), TaggedOffset(0x500));
    let kind = OperationType::FetchAdd;
    Posted {
        sink: Some(Sink {
            stag: Stag(6),
            to: TaggedOffset(600),
            len,
        }),
        operands: Some(ADD),
        ..Posted::new(Operation::Atomic { stag, to, kind }, len)
    }
}

/// What the peer asks for.
pub(super) fn peers(id: u32) -> AtomicRequest {
    AtomicRequest {
        id,
        stag: Stag(8),
        to: TaggedOffset(8),
        operation: ADD,
    }
}

/// V-FNC, T-41: an Atomic Operation is no Read for its completion, and nothing of this side only.
#[test]
fn t_41_type() {
    let operation = atomic(8).operation.expect("good");
    let kind = OperationType::FetchAdd;
    assert_eq!(operation.kind(), kind);
    assert!(!operation.is_local() && !operation.takes_back());
}

/// X-ATM-13, X-ATM-15, V-RD-1: Atomic Operations and Reads count together against ORD; each Request
/// ID is the number of its request.
#[test]
fn x_atm_13_depth_and_numbers() {
    let mut sending = Sending::new(&params(3), EMSS, 32);
    for posted in [
        read(8, false),
        atomic(8),
        read(8, false),
        atomic(8),
        atomic(8),
    ] {
        sending.post(posted);
    }
    sending.run();
    let three = [
        Opcode::ReadRequest,
        Opcode::AtomicRequest,
        Opcode::ReadRequest,
    ];
    assert_eq!(messages(&sending), three);
    assert!(sending.queue.stalled());
    for answered in 1..=2 {
        assert!(sending.answer());
        sending.run();
        assert_eq!(messages(&sending).len(), 3 + answered);
        assert_eq!(sending.queue.completions.len(), answered);
    }
    let requests: Vec<_> = sending
        .seen()
        .iter()
        .filter(|fpdu| fpdu.opcode == Opcode::AtomicRequest)
        .map(|fpdu| AtomicRequest::parse(&fpdu.payload).expect("a request"))
        .collect();
    let want = [2, 4, 5].map(|id| AtomicRequest {
        id,
        stag: Stag(5),
        to: TaggedOffset(0x500),
        operation: ADD,
    });
    assert_eq!(requests, want);
    sending.settle();
}

/// X-ATM-16, V-RD-3: one without a place for its result, or without depth, fails in its turn.
#[test]
fn x_atm_16_cannot_start() {
    let cases = [
        (4, atomic(7), false, Fault::LocalProtection),
        (4, atomic(9), false, Fault::LocalProtection),
        (4, atomic(8), true, Fault::LocalProtection),
        (
            4,
            Posted {
                sink: None,
                ..atomic(8)
            },
            false,
            Fault::LocalProtection,
        ),
        (0, atomic(8), false, Fault::LocalOperation),
    ];
    for (depth, posted, no_sink, fault) in cases {
        let mut sending = Sending::new(&params(depth), EMSS, 32);
        sending.queue.faults.sink = no_sink;
        sending.post(send(10));
        sending.post(posted);
        sending.run();
        assert_eq!(messages(&sending), [Opcode::Send, Opcode::Terminate]);
        check_local_error(&mut sending, &[Status::Success, Status::Failed(fault)]);
    }
}

/// V-FNC-1, X-ATM-17: what is fenced waits for Atomic Operations too.
#[test]
fn x_atm_17_fence_waits() {
    let mut sending = sending();
    sending.post(atomic(8));
    sending.post(send(1));
    sending.post(fenced(write(1)));
    sending.run();
    assert_eq!(messages(&sending), [Opcode::AtomicRequest, Opcode::Send]);
    assert!(sending.answer());
    sending.run();
    assert_eq!(messages(&sending).len(), 3);
    sending.settle();
}

/// X-ATM-14, X-ATM-15: each is carried out once, in its turn, and answered with what was there
/// before; responses are numbered among themselves.
#[test]
fn x_atm_14_answers() {
    for takes in [usize::MAX, 1, 7] {
        let mut sending = sending();
        // TCP takes the answers in pieces, or all at once.
        sending.tcp.takes = takes;
        sending.peer_changes(peers(11));
        sending.peer_reads(peers_read(2_000));
        sending.peer_changes(peers(12));
        sending.run();
        sending.tcp.heal();
        sending.run();
        let carried: Vec<_> = sending
            .did()
            .into_iter()
            .filter(|did| matches!(did, Did::CarriedOut(_)))
            .collect();
        assert_eq!(carried, [11, 12].map(|id| Did::CarriedOut(peers(id))));
        let (atomic, read) = (Opcode::AtomicResponse, Opcode::ReadResponse);
        assert_eq!(messages(&sending), [atomic, read, atomic]);
        let answers: Vec<_> = sending
            .seen()
            .iter()
            .filter(|fpdu| fpdu.opcode == Opcode::AtomicResponse)
            .map(|fpdu| AtomicResponse::parse(&fpdu.payload).expect("a response"))
            .collect();
        let want = [11, 12].map(|id| AtomicResponse {
            id,
            original: original(&peers(id)),
        });
        assert_eq!(answers, want);
        sending.settle();
    }
}

/// X-ATM-10, X-ATM-19: one that is refused ends the stream behind the answers in front of it; the
/// Terminate names it.
#[test]
fn x_atm_19_refused() {
    for error in [TermError::RemoteAccess, TermError::CatastrophicStream] {
        let mut sending = sending();
        sending.peer_reads(peers_read(0));
        sending.peer_changes(peers(11));
        sending.queue.faults.source = Some(error);
        sending.run();
        let sent = [Opcode::ReadResponse, Opcode::Terminate];
        assert_eq!(messages(&sending), sent);
        let terminate = terminate(&sending).expect("a Terminate");
        let quoted = Quoted::Untagged {
            opcode: Some(Opcode::AtomicRequest),
            qn: 1,
            msn: Msn(2),
            mo: 0,
        };
        assert_eq!(
            (terminate.code, terminate.quoted),
            (error.code(), Some(quoted))
        );
        assert_eq!(
            (terminate.segment_len, terminate.read_request),
            (Some(70), None)
        );
        sending.settle();
    }
}
