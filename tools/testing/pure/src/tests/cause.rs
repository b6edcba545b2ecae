// SPDX-License-Identifier: GPL-2.0

//! What `vendor_err` says of failed requests.

use crate::proto::failure::{Cause, Fault};
use crate::proto::sends::Status;
use crate::proto::state::{QpEvent, QpState};
use crate::support::faults::FAULTS;
use crate::wire::terminate::TermError;

#[test]
fn the_cause_of_a_request_is_its_own_or_that_of_the_stream() {
    let stream = Cause::here(TermError::UntaggedNoBuffer);
    assert_eq!(stream.0, 0x0001_1202);
    assert_eq!(Cause::peer(0x1101).0, 0x0002_1101);
    let own = Status::Failed(Fault::LocalProtection);
    assert_eq!(Cause::of(Status::Success, stream), Cause::NONE);
    assert_eq!(Cause::of(own, Cause::NONE).0, 0x0003_0002);
    assert_eq!(Cause::of(own, stream), stream);
    assert_eq!(Cause::of(Status::Flushed, stream), stream);
    for (n, fault) in (1..).zip(FAULTS) {
        assert_eq!(
            Cause::of(Status::Failed(fault), Cause::NONE).0,
            0x0003_0000 + n
        );
    }
}

#[test]
fn events_that_end_a_stream_without_error_are_told_apart() {
    let modify = |to| QpEvent::Modify {
        to,
        idle: true,
        flushed: true,
    };
    let idle = true;
    let events = [
        modify(QpState::Error),
        modify(QpState::Closing),
        QpEvent::Destroy { idle },
        QpEvent::PeerFin { idle },
        QpEvent::PeerReset,
        QpEvent::Lost,
        QpEvent::Timeout,
        QpEvent::PostedTooLate,
        QpEvent::DataInClosing,
        QpEvent::Leave,
        QpEvent::PeerGone { busy: true },
        QpEvent::Unreachable,
    ];
    for (n, event) in (1..).zip(events) {
        assert_eq!(
            Cause::of_event(&event),
            Some(Cause(0x0004_0000 + n)),
            "{event:?}"
        );
    }
    for event in [
        QpEvent::Connected,
        QpEvent::Closed,
        modify(QpState::Rts),
        QpEvent::TerminateReceived { event: None },
    ] {
        assert_eq!(Cause::of_event(&event), None, "{event:?}");
    }
}
