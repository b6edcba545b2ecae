// SPDX-License-Identifier: GPL-2.0

//! What traces call things: as the code does, unless a specification has another word.

use crate::proto::connection::{Code, Error, Event, Input, StreamEnd};
use crate::proto::drain::Stop;
use crate::proto::message::{Kind, Messages};
use crate::proto::negotiate::{Depths, EventDepths};
use crate::proto::request::OperationType;
use crate::proto::schedule::Actor;
use crate::proto::sends::Status;
use crate::proto::state::{QpEvent, QpState};
use crate::support::faults::FAULTS;
use crate::support::tcp::waits;
use crate::wire::atomic::{AtomicOperation, AtomicRequest, AtomicResponse};
use crate::wire::ddp::{Msn, Stag, TaggedOffset};
use crate::wire::rdmap::{ImmediateData, Opcode, ReadRequest};
use crate::wire::terminate::TermError;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fmt::Debug;

/// Whether `name` is that of the variant with which `debug` begins.
pub(super) fn is_of_variant(name: &CStr, debug: &str) -> bool {
    let variant: String = debug.chars().take_while(|c| c.is_alphanumeric()).collect();
    let mut snake = String::new();
    for c in variant.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    name.to_str() == Ok(&snake)
}

fn check(name: &CStr, value: impl Debug) {
    assert!(
        is_of_variant(name, &format!("{value:?}")),
        "{value:?}: {name:?}"
    );
}

fn all_differ<const N: usize>(names: [&CStr; N]) {
    assert_eq!(BTreeSet::from(names).len(), N, "{names:?}");
}

#[test]
fn states_and_events_have_their_names() {
    use QpState::*;

    all_differ([Idle, Rts, Draining, Closing, Terminate, Error].map(QpState::name));
    let idle = true;
    for event in [
        QpEvent::Connected,
        QpEvent::Modify {
            to: Rts,
            idle,
            flushed: true,
        },
        QpEvent::Drained,
        QpEvent::Destroy { idle },
        QpEvent::PeerFin { idle },
        QpEvent::PeerReset,
        QpEvent::Lost,
        QpEvent::LocalError {
            error: TermError::MpaCrc,
            in_completion: false,
            can_send: true,
        },
        QpEvent::TerminateReceived { event: None },
        QpEvent::Closed,
        QpEvent::Timeout,
        QpEvent::PostedTooLate,
        QpEvent::DataInClosing,
        QpEvent::Leave,
        QpEvent::PeerGone { busy: true },
        QpEvent::Unreachable,
    ] {
        check(event.name(), event);
    }
    use Actor::{Caller, Later, Patient, Urgent};
    all_differ([Caller, Urgent, Patient, Later].map(Actor::name));
}

#[test]
fn answers_have_names() {
    let answers = [Ok(true), Ok(false), Err(Stop::Again), waits()];
    all_differ(answers.map(|answer| Stop::name_of(&answer)));
}

#[test]
fn operations_and_statuses_have_their_names() {
    for operation in OperationType::ALL {
        check(operation.name(), operation);
    }
    all_differ([Status::Success.name(), Status::Flushed.name()]);
    for fault in FAULTS {
        check(Status::Failed(fault).name(), fault);
    }
}

#[test]
fn messages_have_the_opcodes_of_their_segments() {
    let send = |solicited, invalidate: Option<u32>| Kind::Send {
        solicited,
        invalidate: invalidate.map(Stag),
    };
    let operation = AtomicOperation::FetchAdd { add: 1, mask: 0 };
    let atomic = AtomicRequest {
        id: 1,
        stag: Stag(1),
        to: TaggedOffset(2),
        operation,
    };
    let immediate = |solicited| Kind::Immediate {
        data: ImmediateData([0; 8]),
        solicited,
    };
    let send_immediate = |solicited| Kind::SendImmediate {
        data: [0; 4],
        solicited,
    };
    let (stag, to) = (Stag(1), TaggedOffset(0));
    for (kind, opcode) in [
        (send(false, None), Opcode::Send),
        (send(true, Some(1)), Opcode::SendSeInvalidate),
        (Kind::Write { stag, to }, Opcode::Write),
        (send_immediate(false), Opcode::SendImmediate),
        (send_immediate(true), Opcode::SendSeImmediate),
        (immediate(false), Opcode::Immediate),
        (immediate(true), Opcode::ImmediateSe),
        (
            Kind::ReadResponse(ReadRequest::default()),
            Opcode::ReadResponse,
        ),
        (Kind::AtomicRequest(atomic), Opcode::AtomicRequest),
        (
            Kind::AtomicResponse(AtomicResponse { id: 1, original: 2 }),
            Opcode::AtomicResponse,
        ),
        (
            Kind::ReadRequest(ReadRequest {
                sink_stag: stag,
                sink_to: to,
                len: 0,
                source_stag: stag,
                source_to: to,
            }),
            Opcode::ReadRequest,
        ),
    ] {
        assert_eq!(kind.opcode(), opcode);
    }
    let mut tx = Messages::new();
    let numbers = [(); 3].map(|()| tx.message(send(false, None), 0).msn());
    assert_eq!(numbers, [1, 2, 3].map(Msn));
    let names: BTreeSet<_> = (0..12)
        .map(|n| Opcode::name_of(Opcode::from_bits(n)))
        .chain([Opcode::name_of(None)])
        .collect();
    assert_eq!(names.len(), 13);
}

#[test]
fn inputs_and_events_of_connections_have_their_names() {
    let depths = EventDepths::default();
    let private_data: &[u8] = b"";
    for input in [
        Input::Connected { private_data },
        Input::Closed(None),
        Input::Octets(b""),
        Input::Expired { is_ending: false },
        Input::Unacknowledged,
        Input::Accept {
            want: Depths { ird: 1, ord: 1 },
            private_data,
        },
        Input::Reject { private_data },
        Input::Abort,
        Input::DrivenOut,
        Input::Shut,
        Input::Done,
        Input::Failed(Code(-1)),
        Input::FirstSegment,
        Input::PeerClosing,
        Input::StreamEnded(StreamEnd::Reset),
        Input::Acknowledged,
        Input::Drained,
        Input::Undelivered(Event::Close),
    ] {
        check(input.name(), input);
    }
    let error = Some(Error::Reset);
    let events = [
        Event::Request { depths, data: 0 },
        Event::Reply {
            error,
            depths,
            data: 0,
        },
        Event::Established { error, depths },
        Event::Disconnect,
        Event::Close,
    ];
    all_differ(events.map(|event| event.name()));
    let errors = events.map(|event| event.error());
    assert_eq!(errors, [None, error, error, None, None]);
}
