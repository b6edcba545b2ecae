// SPDX-License-Identifier: GPL-2.0

//! QP states: [`next`] takes a state and an event, and returns the new state and what to do (RDMAC
//! verbs section 6.2, V-ST; T-33 to T-37).
//!
//! Any context, under the lock that guards the QP's state. In Linux, Idle is RESET and INIT,
//! Closing is SQD, Terminate is SQE. Closing begins with Draining where there is work to do.
#![forbid(unsafe_code)]

use crate::wire::terminate::TermError;
use core::ffi::CStr;

/// The five states of the verbs, of which Closing has two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum QpState {
    /// No connection; posts wait.
    #[default]
    Idle,
    Rts,
    /// The consumer wants a graceful close, which begins once all work is done (verbs: Closing).
    Draining,
    Closing,
    /// A Terminate was sent or received; the connection is being closed.
    Terminate,
    /// No connection; everything is flushed.
    Error,
}

/// What to do with a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    /// Queue it; it waits, or is carried out if the state is RTS.
    Queue,
    /// Queue it; it is flushed behind what was posted before.
    Flush,
    /// Queue it and report [`QpEvent::PostedTooLate`].
    TooLate,
}

/// What to do with a segment that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Take,
    /// Report [`QpEvent::DataInClosing`] and drop what follows, unless it is a Terminate.
    TooLate,
    /// Drop it and what follows: an error has ended the stream, and is the only one that requests
    /// and the consumer are told of (T-33).
    Drop,
}

impl QpState {
    /// Returns the name; Draining is Closing for the verbs.
    pub(crate) const fn name(self) -> &'static CStr {
        match self {
            Self::Idle => c"Idle",
            Self::Rts => c"RTS",
            Self::Draining => c"Draining",
            Self::Closing => c"Closing",
            Self::Terminate => c"Terminate",
            Self::Error => c"Error",
        }
    }

    /// Returns whether messages of the SQ and Read Responses may be sent.
    pub(crate) const fn sends(self) -> bool {
        matches!(self, QpState::Rts | QpState::Draining)
    }

    /// Returns what becomes of a send request; none is refused (T-34). `was_closed`: in Idle, the
    /// connection was closed and the consumer has not asked for another since.
    pub(crate) const fn post_send(self, was_closed: bool) -> Post {
        match self {
            // If the request waited for another connection, a consumer that only polls would wait
            // for ever, not knowing that Closing is over.
            QpState::Idle if was_closed => Post::TooLate,
            // In Terminate the flush comes with the step to Error.
            QpState::Idle | QpState::Rts | QpState::Draining | QpState::Terminate => Post::Queue,
            QpState::Closing => Post::TooLate,
            QpState::Error => Post::Flush,
        }
    }

    pub(crate) const fn post_recv(self) -> Post {
        match self {
            QpState::Idle | QpState::Rts | QpState::Draining | QpState::Terminate => Post::Queue,
            QpState::Closing | QpState::Error => Post::Flush,
        }
    }

    /// Returns what becomes of a segment. In Idle, segments arrive while a connection is started.
    pub(crate) const fn arrival(self) -> Arrival {
        match self {
            QpState::Idle | QpState::Rts | QpState::Draining => Arrival::Take,
            QpState::Closing => Arrival::TooLate,
            QpState::Terminate | QpState::Error => Arrival::Drop,
        }
    }

    pub(crate) const fn in_verbs(self) -> QpState {
        match self {
            QpState::Draining => QpState::Closing,
            state => state,
        }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpEvent {
    Connected,
    /// `modify_qp` asks for state `to`.
    Modify {
        to: QpState,
        /// No work is in the SQ, and no Read of either side is to be answered. Only the step from
        /// RTS to Closing looks at this.
        idle: bool,
        /// All is flushed. Only the step from Error to Idle looks at this.
        flushed: bool,
    },
    /// The work that Draining waits for is done: see `idle` of `Modify`.
    Drained,
    Destroy {
        /// As in `Modify`, and the consumer itself destroys the QP: its process is not ending.
        idle: bool,
    },
    PeerFin {
        /// As in `Modify`, and the stream was not cut inside an FPDU.
        idle: bool,
    },
    PeerReset,
    /// TCP gave up.
    Lost,
    /// An error on this side, found in the stream or in a work request.
    LocalError {
        error: TermError,
        /// It is reported by a completion, so there is no event (T-33).
        in_completion: bool,
        /// A Terminate may go out. None may go out inside of a segment, and a responder that has
        /// received nothing sends none.
        can_send: bool,
    },
    TerminateReceived {
        /// What to raise; none if a completion tells of it (T-33).
        event: Option<Async>,
    },
    /// Both FINs are through.
    Closed,
    /// The timer of Draining, Closing or Terminate ran out.
    Timeout,
    /// A send request was posted in Closing, or in the Idle that follows Closing.
    PostedTooLate,
    /// Data other than a Terminate arrived in Closing.
    DataInClosing,
    /// The consumer ends the stream of a QP that is connected by number, or destroys the QP.
    Leave,
    /// The stream of a QP that is connected by number has ended, and not by its consumer.
    PeerGone {
        /// Requests wait for the peer, and go on waiting.
        busy: bool,
    },
    /// The peer of a QP that is connected by number is not there, and requests have waited for it
    /// for as long as they may.
    Unreachable,
}

impl QpEvent {
    pub(crate) const fn name(&self) -> &'static CStr {
        match self {
            Self::Connected => c"connected",
            Self::Modify { .. } => c"modify",
            Self::Drained => c"drained",
            Self::Destroy { .. } => c"destroy",
            Self::PeerFin { .. } => c"peer_fin",
            Self::PeerReset => c"peer_reset",
            Self::Lost => c"lost",
            Self::LocalError { .. } => c"local_error",
            Self::TerminateReceived { .. } => c"terminate_received",
            Self::Closed => c"closed",
            Self::Timeout => c"timeout",
            Self::PostedTooLate => c"posted_too_late",
            Self::DataInClosing => c"data_in_closing",
            Self::Leave => c"leave",
            Self::PeerGone { .. } => c"peer_gone",
            Self::Unreachable => c"unreachable",
        }
    }
}

/// What to do with TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tcp {
    /// Nothing; with [`Effects::close`], release the socket and let TCP finish.
    #[default]
    Keep,
    /// Send FIN behind what is queued, the Terminate included; go on reading until the peer's FIN,
    /// as unread data would turn the close into a RST (T-32).
    Fin,
    /// Reset if the peer has acknowledged all that was sent, else as `Keep`.
    ResetIfDelivered,
    Reset,
}

/// An asynchronous event, which tells the consumer that the stream has ended, if no completion
/// does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Async {
    /// `IB_EVENT_QP_FATAL`.
    Fatal,
    /// `IB_EVENT_QP_REQ_ERR`.
    Request,
    /// `IB_EVENT_QP_ACCESS_ERR`.
    Access,
}

/// What to do about a transition, in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// Send a Terminate at the next segment boundary.
    pub(crate) terminate: Option<TermError>,
    pub(crate) tcp: Tcp,
    /// Start the timer that ends in [`QpEvent::Timeout`].
    pub(crate) start_timer: bool,
    /// Complete what is in the SQ as flushed, in order.
    pub(crate) flush_sq: bool,
    /// Complete what is in the RQ as flushed, in order; with a shared RQ only the receive in
    /// progress.
    pub(crate) flush_rq: bool,
    /// With a shared RQ, tell that no more receives are taken from it: `LAST_WQE_REACHED` (T-16).
    pub(crate) last_wqe: bool,
    /// Forget all protocol state: the QP is as new (T-35).
    pub(crate) renew: bool,
    pub(crate) event: Option<Async>,
    /// Tell iw_cm that the peer disconnects.
    pub(crate) disconnect: bool,
    /// TCP does not belong to the QP any more: tell iw_cm, exactly once per connection.
    pub(crate) close: bool,
}

/// The transition is not allowed; nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Illegal;

/// Returns the event for an error of the stream (V-AE-5 to V-AE-28).
pub(crate) const fn async_class(error: TermError) -> Async {
    match error {
        TermError::CatastrophicStream | TermError::CatastrophicGlobal => Async::Fatal,
        TermError::TaggedVersion => Async::Request,
        _ => remote_class(error.code()),
    }
}

/// Returns the event for an error that the peer's Terminate names by this code (V-AE-2).
pub(crate) const fn remote_class(code: u16) -> Async {
    match code >> 8 {
        0x01 | 0x11 => Async::Access,
        0x02 | 0x12 => Async::Request,
        _ => Async::Fatal,
    }
}

/// Returns the state that follows `state` when `event` happens, and what to do; or [`Illegal`]: a
/// call for `Modify` is refused then, other events are ignored.
pub(crate) fn next(state: QpState, event: QpEvent) -> Result<(QpState, Effects), Illegal> {
    match event {
        QpEvent::Modify { to, idle, flushed } => modify(state, to, idle, flushed),
        // What has completed may still be in TCP, and a reset would destroy it. Nothing asks for a
        // reset here (V-QP-25), and consumers such as rsockets count on the arrival of all that.
        QpEvent::Destroy { idle: true } if state == QpState::Rts => to_error(Tcp::Keep, None),
        QpEvent::Destroy { idle } => modify(state, QpState::Error, idle, false),
        // A FIN tells the peer only that the stream has ended.
        QpEvent::Leave if state == QpState::Rts => to_error(Tcp::Keep, None),
        QpEvent::Leave => modify(state, QpState::Error, false, false),
        _ => match state {
            QpState::Idle => match event {
                QpEvent::Connected => Ok((QpState::Rts, Effects::default())),
                QpEvent::PostedTooLate | QpEvent::Unreachable => idle_to_error(),
                _ => Err(Illegal),
            },
            QpState::Rts => rts(event),
            QpState::Draining => draining(event),
            QpState::Closing => closing(event),
            QpState::Terminate => terminate(event),
            QpState::Error => Err(Illegal),
        },
    }
}

fn to_error(tcp: Tcp, event: Option<Async>) -> Result<(QpState, Effects), Illegal> {
    let effects = Effects {
        tcp,
        flush_sq: true,
        flush_rq: true,
        last_wqe: true,
        event,
        close: true,
        ..Effects::default()
    };
    Ok((QpState::Error, effects))
}

/// Goes to Error from Idle, in which there is no connection: see [`to_error`].
fn idle_to_error() -> Result<(QpState, Effects), Illegal> {
    let (state, effects) = to_error(Tcp::Keep, None)?;
    Ok((
        state,
        Effects {
            close: false,
            ..effects
        },
    ))
}

/// Closes the connection; the flush comes with the next step.
fn to_terminate(
    message: Option<TermError>,
    event: Option<Async>,
) -> Result<(QpState, Effects), Illegal> {
    let effects = Effects {
        terminate: message,
        tcp: Tcp::Fin,
        start_timer: true,
        event,
        ..Effects::default()
    };
    Ok((QpState::Terminate, effects))
}

fn to_closing(disconnect: bool) -> Result<(QpState, Effects), Illegal> {
    let effects = Effects {
        tcp: Tcp::Fin,
        start_timer: true,
        flush_rq: true,
        disconnect,
        ..Effects::default()
    };
    Ok((QpState::Closing, effects))
}

fn modify(
    state: QpState,
    to: QpState,
    idle: bool,
    flushed: bool,
) -> Result<(QpState, Effects), Illegal> {
    match (state, to) {
        (QpState::Idle, QpState::Idle)
        | (QpState::Rts, QpState::Rts)
        | (QpState::Error, QpState::Error) => Ok((state, Effects::default())),
        (QpState::Idle, QpState::Error) => idle_to_error(),
        (QpState::Rts, QpState::Closing) if idle => to_closing(false),
        // Consumers disconnect right behind their last answer, which has to arrive (V-ST-10).
        (QpState::Rts, QpState::Closing) => {
            let effects = Effects {
                start_timer: true,
                ..Effects::default()
            };
            Ok((QpState::Draining, effects))
        }
        // A QP that is not connected, or is about to end, has nothing to disconnect. Both sides may
        // disconnect at once, and programs do so when they are told that the peer has.
        (_, QpState::Closing) => Ok((state, Effects::default())),
        (QpState::Rts, QpState::Terminate) => {
            to_terminate(Some(TermError::LocalCatastrophic), None)
        }
        (QpState::Rts, QpState::Error) => to_error(Tcp::Reset, None),
        // Linux wants this to work (T-34). The FIN is on its way, or wanted; a RST now could
        // destroy what is in front of it, such as the Terminate (T-32).
        (QpState::Draining | QpState::Closing | QpState::Terminate, QpState::Error) => {
            to_error(Tcp::Keep, None)
        }
        (QpState::Error, QpState::Idle) if flushed => Ok((
            QpState::Idle,
            Effects {
                renew: true,
                ..Effects::default()
            },
        )),
        _ => Err(Illegal),
    }
}

fn rts(event: QpEvent) -> Result<(QpState, Effects), Illegal> {
    match event {
        QpEvent::PeerFin { idle: true } => to_closing(true),
        // "Bad LLP Close" (T-37).
        QpEvent::PeerFin { idle: false } => {
            let (state, effects) =
                to_terminate(Some(TermError::CatastrophicStream), Some(Async::Fatal))?;
            Ok((
                state,
                Effects {
                    disconnect: true,
                    ..effects
                },
            ))
        }
        QpEvent::PeerReset | QpEvent::Lost => {
            let (state, effects) = to_error(Tcp::Reset, Some(Async::Fatal))?;
            Ok((
                state,
                Effects {
                    disconnect: true,
                    ..effects
                },
            ))
        }
        QpEvent::LocalError {
            error,
            in_completion,
            can_send,
        } => {
            let event = if in_completion {
                None
            } else {
                Some(async_class(error))
            };
            if can_send {
                to_terminate(Some(error), event)
            } else {
                to_error(Tcp::Reset, event)
            }
        }
        QpEvent::TerminateReceived { event } => {
            let (state, effects) = to_terminate(None, event)?;
            Ok((
                state,
                Effects {
                    disconnect: true,
                    ..effects
                },
            ))
        }
        // In InfiniBand only those who wait for a peer learn that it is gone: receives stay where
        // they are, and requests fail when their time is over.
        QpEvent::PeerGone { busy } => {
            let effects = Effects {
                renew: !busy,
                close: true,
                ..Effects::default()
            };
            Ok((QpState::Idle, effects))
        }
        QpEvent::Unreachable => to_error(Tcp::Keep, None),
        // Both sides have sent their FINs at once, so that the state was not Closing in between.
        QpEvent::Closed => {
            let (state, effects) = to_error(Tcp::Keep, None)?;
            Ok((
                state,
                Effects {
                    disconnect: true,
                    ..effects
                },
            ))
        }
        _ => Err(Illegal),
    }
}

/// Draining is like RTS, except that this state ends once the work is done, or by a time-out.
fn draining(event: QpEvent) -> Result<(QpState, Effects), Illegal> {
    match event {
        QpEvent::Drained => to_closing(false),
        // "Bad Close": what was posted does not get done.
        QpEvent::Timeout => to_error(Tcp::Reset, Some(Async::Fatal)),
        event => rts(event),
    }
}

fn closing(event: QpEvent) -> Result<(QpState, Effects), Illegal> {
    match event {
        QpEvent::PeerFin { .. } => Ok((QpState::Closing, Effects::default())),
        // Consumers of InfiniBand disconnect by going to Error, and wait for `LAST_WQE_REACHED`
        // then.
        QpEvent::Closed => {
            let effects = Effects {
                last_wqe: true,
                renew: true,
                close: true,
                ..Effects::default()
            };
            Ok((QpState::Idle, effects))
        }
        // "Bad Close". The FIN is behind requests that have completed, which a reset now could
        // destroy. rsockets close while their peer still sends.
        QpEvent::PostedTooLate | QpEvent::DataInClosing => {
            to_error(Tcp::ResetIfDelivered, Some(Async::Fatal))
        }
        // For example, a completion queue has no room for what is flushed now.
        QpEvent::LocalError { in_completion, .. } => {
            let event = (!in_completion).then_some(Async::Fatal);
            to_error(Tcp::ResetIfDelivered, event)
        }
        // "LLP Connection Lost".
        QpEvent::Timeout | QpEvent::PeerReset | QpEvent::Lost => {
            to_error(Tcp::Reset, Some(Async::Fatal))
        }
        QpEvent::TerminateReceived { event } => to_error(Tcp::Keep, event),
        _ => Err(Illegal),
    }
}

fn terminate(event: QpEvent) -> Result<(QpState, Effects), Illegal> {
    match event {
        // The first error counts; what comes in meanwhile is dropped.
        QpEvent::PeerFin { .. }
        | QpEvent::LocalError { .. }
        | QpEvent::TerminateReceived { .. } => Ok((QpState::Terminate, Effects::default())),
        QpEvent::Closed => to_error(Tcp::Keep, None),
        QpEvent::Timeout | QpEvent::PeerReset | QpEvent::Lost => to_error(Tcp::Reset, None),
        _ => Err(Illegal),
    }
}
