// SPDX-License-Identifier: GPL-2.0

//! Notes: what an operation takes, from the send queue to the receiver of the peer.

use super::receiver::{counted, receiving, Peer};
use crate::proto::counters::Counter;
use crate::proto::order::Status;
use crate::proto::request::{Operation, OperationType};
use crate::proto::tx::Kind;
use crate::support::queue;
use crate::support::sending::{params, Posted, Sending};
use crate::wire::rdmap::{ImmediateData, Opcode};

const DATA: ImmediateData = ImmediateData::from_short([1, 2, 3, 4]);

/// It is a message among the Sends, which completes when TCP has it.
#[test]
fn is_sent() {
    let mut sending = Sending::new(&params(4), 1448, 8);
    let operation = Operation::Note { data: DATA };
    assert_eq!(operation.kind(), OperationType::Note);
    assert_eq!(operation.kind().name(), c"note");
    sending.post(Posted::new(operation, 0));
    sending.post(Posted::new(Operation::Send { invalidate: None }, 10));
    sending.run();
    let did = sending.did();
    for id in [0, 1] {
        assert!(did.contains(&queue::Did::Completed(id, Status::Success)));
    }
    let opcodes: Vec<_> = sending.seen().iter().map(|seen| seen.opcode).collect();
    assert_eq!(opcodes, [Opcode::Note, Opcode::Send]);
}

/// It takes no receive, and has its number like others.
#[test]
fn is_received() {
    let mut peer = Peer::new(100);
    let mut receiving = receiving();
    receiving.feed(&peer.message(Kind::Note(DATA), 0).concat());
    assert_eq!(counted(&mut receiving, Counter::RxImmediates), 1);
    receiving.around.recvs.push_back(Some(40));
    receiving.feed(&peer.send(40).concat());
    assert!(receiving.around.failure.is_none());
    // Not in the middle of another message.
    let mut whole = peer.send(400);
    whole.truncate(1);
    receiving.around.recvs.push_back(Some(400));
    receiving.feed(&whole.concat());
    receiving.feed(&peer.message(Kind::Note(DATA), 0).concat());
    assert!(receiving.around.failure.is_some());
}
