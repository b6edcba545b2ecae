// SPDX-License-Identifier: GPL-2.0

//! The sender in surroundings that do what a test says: `proto::sender` as the module compiles it.

mod atomic;
mod batches;
mod direct;
mod failures;
mod placement;
mod requests;
mod short;
mod wakers;

use crate::proto::failure::Fault;
use crate::proto::request::{Local, Operation, Sink};
use crate::proto::sends::Status;
use crate::support::queue::Did;
use crate::support::sending::{params, Posted, Sending};
use crate::wire::ddp::{Stag, TaggedOffset};
use crate::wire::rdmap::{ImmediateData, Opcode, ReadRequest};
use crate::wire::terminate::{Received, TermError};

/// Octets of a TCP segment, where nothing else is said.
const EMSS: u32 = 1448;

fn sending() -> Sending {
    Sending::new(&params(4), EMSS, 32)
}

fn send(len: u32) -> Posted {
    Posted::new(Operation::Send { invalidate: None }, len)
}

fn fenced(posted: Posted) -> Posted {
    Posted {
        fence: true,
        ..posted
    }
}

/// One that does not say what it should.
fn bad(fault: Fault) -> Posted {
    Posted {
        operation: Err(fault),
        ..send(0)
    }
}

/// A Write to `stag`.
fn write_to(stag: Stag, len: u32, immediate: Option<ImmediateData>) -> Posted {
    let operation = Operation::Write {
        stag,
        to: TaggedOffset(0),
        immediate,
    };
    Posted::new(operation, len)
}

fn write(len: u32) -> Posted {
    write_to(Stag(5), len, None)
}

fn read(len: u32, invalidate: bool) -> Posted {
    let (stag, to) = (Stag(5), TaggedOffset(0));
    let operation = Operation::Read {
        stag,
        to,
        invalidate,
    };
    Posted {
        sink: Some(Sink {
            stag: Stag(6),
            to: TaggedOffset(600),
            len,
        }),
        ..Posted::new(operation, len)
    }
}

/// What the peer reads.
fn peers_read(len: u32) -> ReadRequest {
    ReadRequest {
        sink_stag: Stag(7),
        len,
        ..ReadRequest::default()
    }
}

/// The messages that were sent, by their last FPDU.
fn messages(sending: &Sending) -> Vec<Opcode> {
    let seen = sending.seen();
    let last = seen.iter().filter(|fpdu| fpdu.last);
    last.map(|fpdu| fpdu.opcode).collect()
}

/// What the Terminate says that was sent last.
fn terminate(sending: &Sending) -> Option<Received> {
    let seen = sending.seen();
    let last = seen
        .last()
        .filter(|fpdu| fpdu.opcode == Opcode::Terminate)?;
    Received::parse(&last.payload)
}

fn success(id: u64) -> Did {
    Did::Completed(id, Status::Success)
}

/// The stream ended with a Terminate of code zero, and `completions` are how the requests did.
fn check_local_error(sending: &mut Sending, completions: &[Status<Fault>]) {
    let failure = sending.failed.as_ref().expect("failed");
    assert_eq!(failure.error, TermError::LocalCatastrophic);
    // V-TM-6, V-TM-10: no segment is quoted.
    let terminate = terminate(sending).expect("a Terminate");
    assert_eq!((terminate.code, terminate.quoted), (0, None));
    sending.settle();
    let got: Vec<_> = sending.queue.completions.iter().map(|c| c.1).collect();
    assert_eq!(got, completions);
}
