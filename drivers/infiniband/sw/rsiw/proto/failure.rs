// SPDX-License-Identifier: GPL-2.0

//! What goes wrong with a request, and with a stream. Any context.
#![forbid(unsafe_code)]

use super::sends::Status;
use super::state::{
    QpEvent,
    QpState, //
};
use crate::num::Broken;
use crate::wire::terminate::{
    Quote,
    TermError, //
};
use core::ffi::CStr;

/// What was wrong with a request, as its completion says (draft-hilland-rddp-verbs section 8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The message is longer than the request allows.
    LocalLength,
    /// A local STag, its rights or its bounds do not allow it.
    LocalProtection,
    /// The request makes no sense, or lacks resources.
    LocalOperation,
    Bind,
    RemoteAccess,
    RemoteInvalid,
    General,
    /// The peer is not there, or does not answer.
    RetryExceeded,
    /// The peer has no receive for a message.
    RnrRetryExceeded,
    /// The peer failed at its own end: its receive was bad, or its memory.
    RemoteOperation,
}

impl Status<Fault> {
    /// Returns the name in trace events.
    pub(crate) const fn name(self) -> &'static CStr {
        match self {
            Self::Success => c"success",
            Self::Flushed => c"flushed",
            Self::Failed(Fault::LocalLength) => c"local_length",
            Self::Failed(Fault::LocalProtection) => c"local_protection",
            Self::Failed(Fault::LocalOperation) => c"local_operation",
            Self::Failed(Fault::Bind) => c"bind",
            Self::Failed(Fault::RemoteAccess) => c"remote_access",
            Self::Failed(Fault::RemoteInvalid) => c"remote_invalid",
            Self::Failed(Fault::General) => c"general",
            Self::Failed(Fault::RetryExceeded) => c"retry_exceeded",
            Self::Failed(Fault::RnrRetryExceeded) => c"rnr_retry_exceeded",
            Self::Failed(Fault::RemoteOperation) => c"remote_operation",
        }
    }
}

/// Why a request failed, as `vendor_err` has it: whose error it was, and which.
///
/// | upper half | lower half |
/// |---|---|
/// | 0 | 0: nothing, or nothing is known |
/// | 1 | this side ended the stream: the code of its Terminate, `0xLTCC` |
/// | 2 | the peer ended the stream: the code of its Terminate |
/// | 3 | the request itself, see [`Fault`]: its number from 1 on |
/// | 4 | no error ended the stream: the number of the [`QpEvent`] |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cause(pub(crate) u32);

impl Cause {
    pub(crate) const NONE: Self = Self(0);

    const fn new(by: u16, what: u16) -> Self {
        let ([a, b], [c, d]) = (by.to_be_bytes(), what.to_be_bytes());
        Self(u32::from_be_bytes([a, b, c, d]))
    }

    pub(crate) const fn here(error: TermError) -> Self {
        Self::new(1, error.code())
    }

    pub(crate) const fn peer(code: u16) -> Self {
        Self::new(2, code)
    }

    /// Returns why a request ended with `status`; `stream` is why its stream ended, if it has.
    pub(crate) const fn of(status: Status<Fault>, stream: Self) -> Self {
        match status {
            Status::Success => Self::NONE,
            Status::Failed(fault) if stream.0 == 0 => Self::new(
                3,
                match fault {
                    Fault::LocalLength => 1,
                    Fault::LocalProtection => 2,
                    Fault::LocalOperation => 3,
                    Fault::Bind => 4,
                    Fault::RemoteAccess => 5,
                    Fault::RemoteInvalid => 6,
                    Fault::General => 7,
                    Fault::RetryExceeded => 8,
                    Fault::RnrRetryExceeded => 9,
                    Fault::RemoteOperation => 10,
                },
            ),
            Status::Failed(_) | Status::Flushed => stream,
        }
    }

    /// Returns the cause of a stream's end by `event`. `None` for errors, which have causes of
    /// their own, and for events that do not end a stream.
    pub(crate) const fn of_event(event: &QpEvent) -> Option<Self> {
        let number = match event {
            QpEvent::Modify {
                to: QpState::Error, ..
            } => 1,
            QpEvent::Modify {
                to: QpState::Closing,
                ..
            }
            | QpEvent::Drained => 2,
            QpEvent::Destroy { .. } => 3,
            QpEvent::PeerFin { .. } => 4,
            QpEvent::PeerReset => 5,
            QpEvent::Lost => 6,
            QpEvent::Timeout => 7,
            QpEvent::PostedTooLate => 8,
            QpEvent::DataInClosing => 9,
            QpEvent::Leave => 10,
            QpEvent::PeerGone { .. } => 11,
            QpEvent::Unreachable => 12,
            QpEvent::Connected
            | QpEvent::Modify { .. }
            | QpEvent::LocalError { .. }
            | QpEvent::TerminateReceived { .. }
            | QpEvent::Closed => return None,
        };
        Some(Self::new(4, number))
    }
}

/// An error that ends the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) error: TermError,
    pub(crate) quote: Option<Quote>,
    /// A completion tells of the failure, so there is no asynchronous event (T-33).
    pub(crate) in_completion: bool,
    /// The peer lacks a right, although the code says something else (V-AE-12).
    pub(crate) denied: bool,
    /// What the log says beside the error.
    pub(crate) detail: Option<&'static str>,
    /// Only a defect of this driver can cause the failure.
    pub(crate) is_defect: bool,
}

impl Failure {
    pub(crate) const fn new(error: TermError, detail: &'static str) -> Self {
        Self {
            detail: Some(detail),
            ..Self::plain(error)
        }
    }

    /// Makes an error that only a defect of this driver can cause: the stream ends before wrong
    /// octets get anywhere.
    #[cold]
    pub(crate) const fn defect(what: &'static str) -> Self {
        Self {
            is_defect: true,
            ..Self::new(TermError::LocalCatastrophic, what)
        }
    }

    /// Makes the error of a request of this side that cannot be carried out.
    pub(crate) const fn of_request(in_completion: bool) -> Self {
        Self {
            in_completion,
            ..Self::plain(TermError::LocalCatastrophic)
        }
    }

    const fn plain(error: TermError) -> Self {
        Self {
            error,
            quote: None,
            in_completion: false,
            denied: false,
            detail: None,
            is_defect: false,
        }
    }
}

impl From<TermError> for Failure {
    fn from(error: TermError) -> Self {
        Self::plain(error)
    }
}

impl From<Broken> for Failure {
    fn from(Broken: Broken) -> Self {
        Self::defect("numbers contradict one another")
    }
}
