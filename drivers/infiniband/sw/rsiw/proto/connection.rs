// SPDX-License-Identifier: GPL-2.0

//! One connection from its first SYN to its last event, both roles: set-up by MPA (RFC 5044 section
//! 7, RFC 6581), teardown, and the contract with iw_cm.
//!
//! [`Connection::step`] takes one [`Input`] and returns the [`Outputs`] that follow from it. The
//! phase goes into a step by value, so that each arm of a `match` has to name the next phase. An
//! output that may fail, [`Ask`], is answered by the next input, [`Input::Done`] or
//! [`Input::Failed`]. An input that does not fit the phase does nothing.
//!
//! `proto::setup` makes and reads the frames of MPA, and says how many octets it wants: what lies
//! behind a frame is for the queue pair (T-25). The memory for a frame is the surroundings' (`I`
//! and `R`), and is dropped with the phase that needs it.
//!
//! Pure: no clock, no allocation, no lock. Whoever owns a connection serialises its use; nothing
//! here waits.
#![forbid(unsafe_code)]

mod active;
mod interface;
mod passive;

use self::active::Attempt;
use self::interface::{
    Established,
    Outbox,
    Reply, //
};
use super::fin::Fin;
use super::negotiate::EventDepths;
use super::setup::{
    Initiator,
    Params,
    Responder, //
};
use crate::wire::terminate::TermError;
use core::ffi::CStr;
use core::ops::DerefMut;

pub(crate) use self::interface::{
    Ask,
    Awaits,
    Callbacks,
    Code,
    Error,
    Event,
    Input,
    Log,
    Outputs,
    Qp,
    StreamEnd,
    Tcp,
    Timer, //
};

/// Milliseconds between two checks whether the process that waits in iw_cm for the end of the
/// set-up is about to end.
pub(crate) const TICK_MS: u32 = 200;
pub(crate) const CONNECT_MS: u32 = 20_000;
/// Milliseconds from the accept of TCP to the peer's Request.
pub(crate) const REQUEST_MS: u32 = 15_000;
/// Milliseconds for the consumer to answer a Request. This also ends Requests of which a listener's
/// consumer was never told, because the listener was destroyed before.
pub(crate) const ANSWER_MS: u32 = 60_000;
/// Milliseconds for the peer's Reply, for which the peer's consumer has to decide.
pub(crate) const REPLY_MS: u32 = 30_000;
/// Milliseconds for the first segment of an initiator in peer-to-peer mode.
pub(crate) const RTR_MS: u32 = 15_000;
/// How many milliseconds the peer's FIN may come after this side's.
pub(crate) const LINGER_MS: u32 = 5_000;
/// How often [`LINGER_MS`] begins again while the peer has not acknowledged the end of a stream
/// that a QP had. A path that is cut for some seconds must not lose data, as nobody is left here
/// who could be told of the loss. A connection lingers for a minute at most.
pub(crate) const LINGER_AGAIN: u8 = 11;

/// What iw_cm knows of a connection whose stream the QP has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// Nothing, so that no event is due when the stream ends.
    Down,
    /// The consumer accepted; an established event and a close event are due. The first segment has
    /// `left` milliseconds to come.
    Accepted { depths: EventDepths, left: u32 },
    /// It is up; a close event is due.
    Up,
    /// It is up, and the peer is closing; a close event is due.
    Closing,
}

/// The phase of a connection, with what belongs to it.
#[derive(Clone, Debug)]
enum Phase<I, R> {
    /// Being made; nothing happens to it.
    New,
    /// Initiator: TCP is asked to connect; for the `first` attempt, in the consumer's call.
    Dialing {
        attempt: Attempt<I>,
        first: bool,
    },
    Connecting(Attempt<I>),
    /// Initiator: TCP is given the Request.
    Requesting(Attempt<I>),
    AwaitReply(Attempt<I>),
    /// Responder: TCP is up; `heard` is whether octets were received.
    AwaitRequest {
        mpa: R,
        heard: bool,
    },
    /// Responder: the consumer has to answer.
    Requested(R),
    /// The QP is given the stream; an initiator's `mpa` has the Reply.
    Starting {
        mpa: Option<I>,
        params: Params,
    },
    /// The QP has the stream.
    Running(Link),
    /// TCP is given the last words: a Terminate, or a Reply that refuses.
    Parting,
    /// The connection is over; the FIN waits until the peer has what stands in front of it, or TCP
    /// has been asked to send it.
    Finishing(Fin),
    /// The connection is over; what the peer still sends is dropped until its FIN comes.
    Lingering,
    /// Only events are left, to be delivered.
    Closed,
}

/// One connection. `I` and `R` are the memory for set-up, of an initiator and of a responder.
#[derive(Clone, Debug)]
pub(crate) struct Connection<I, R> {
    phase: Phase<I, R>,
    outbox: Outbox<I>,
    has_tcp: bool,
    /// The socket has the connection's callbacks.
    has_callbacks: bool,
    linger_again: u8,
}

impl<I, R> Connection<I, R> {
    /// Returns the name of the phase.
    pub(crate) const fn phase(&self) -> &'static CStr {
        match &self.phase {
            Phase::New => c"new",
            Phase::Dialing { .. } => c"dialing",
            Phase::Connecting(_) => c"connecting",
            Phase::Requesting(_) => c"requesting",
            Phase::AwaitReply(_) => c"await_reply",
            Phase::AwaitRequest { .. } => c"await_request",
            Phase::Requested(_) => c"requested",
            Phase::Starting { .. } => c"starting",
            Phase::Running(_) => c"running",
            Phase::Parting => c"parting",
            Phase::Finishing(_) => c"finishing",
            Phase::Lingering => c"lingering",
            Phase::Closed => c"closed",
        }
    }

    pub(crate) const fn new() -> Self {
        Self::in_phase(Phase::New)
    }

    /// Makes a connection that did not come about.
    pub(crate) const fn closed() -> Self {
        Self::in_phase(Phase::Closed)
    }

    const fn in_phase(phase: Phase<I, R>) -> Self {
        Self {
            phase,
            outbox: Outbox::new(),
            has_tcp: false,
            has_callbacks: false,
            linger_again: 0,
        }
    }

    /// Makes the side that connects; a QP is set aside for it. Also returns what to do first: if
    /// that fails, the consumer's call fails and there is no event.
    pub(crate) fn initiator(mpa: I) -> (Self, Outputs) {
        let dialing = Phase::Dialing {
            attempt: Attempt::new(mpa),
            first: true,
        };
        let outputs = Outputs {
            ask: Some(Ask::Dial),
            ..Outputs::default()
        };
        (Self::in_phase(dialing), outputs)
    }

    /// Makes the side that was connected to, with a socket that has the connection's callbacks.
    /// Also returns what to do first.
    pub(crate) fn responder(mpa: R) -> (Self, Outputs) {
        let await_request = Phase::AwaitRequest { mpa, heard: false };
        let outputs = Outputs {
            timer: Some(Timer::Arm(REQUEST_MS)),
            ..Outputs::default()
        };
        let connection = Self {
            has_tcp: true,
            has_callbacks: true,
            ..Self::in_phase(await_request)
        };
        (connection, outputs)
    }

    pub(crate) fn is_new(&self) -> bool {
        matches!(self.phase, Phase::New)
    }

    pub(crate) fn is_requested(&self) -> bool {
        matches!(self.phase, Phase::Requested(_))
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running(_))
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Returns whether an initiator goes on waiting after [`Input::Expired`].
    pub(crate) fn goes_on(&self, is_ending: bool) -> bool {
        match &self.phase {
            Phase::Connecting(attempt)
            | Phase::Requesting(attempt)
            | Phase::AwaitReply(attempt) => attempt.left() > 0 && !is_ending,
            _ => false,
        }
    }
}

impl<I, R> Connection<I, R>
where
    I: DerefMut<Target = Initiator>,
    R: DerefMut<Target = Responder>,
{
    pub(crate) fn awaits(&self) -> Awaits {
        match &self.phase {
            Phase::Connecting(_) => Awaits::Connected,
            Phase::AwaitReply(attempt) => Awaits::Frame(attempt.mpa.wanted()),
            Phase::AwaitRequest { mpa, .. } => Awaits::Frame(mpa.wanted()),
            Phase::Finishing(_) => Awaits::Acknowledgement,
            Phase::Lingering => Awaits::Drained,
            _ => Awaits::Nothing,
        }
    }

    /// Returns the private data of the peer's Reply, while the QP is given the stream.
    pub(crate) fn reply_data(&self) -> &[u8] {
        match &self.phase {
            Phase::Starting { mpa: Some(mpa), .. } => mpa.private_data(),
            _ => &[],
        }
    }

    /// Takes the next event, and writes its private data to `data`, as much as there is room for.
    pub(crate) fn next_event(&mut self, data: &mut [u8]) -> Option<Event> {
        if let Some(depths) = self.outbox.request.take() {
            let private_data = match &self.phase {
                Phase::Requested(mpa) => mpa.private_data(),
                _ => &[],
            };
            let data = interface::copy(private_data, data);
            return Some(Event::Request { depths, data });
        }
        if let Some(Reply { error, depths, mpa }) = self.outbox.reply.take() {
            let private_data = mpa.as_ref().map_or(&[][..], |mpa| mpa.private_data());
            let data = interface::copy(private_data, data);
            return Some(Event::Reply {
                error,
                depths,
                data,
            });
        }
        if let Some(Established { error, depths }) = self.outbox.established.take() {
            return Some(Event::Established { error, depths });
        }
        if core::mem::take(&mut self.outbox.disconnect) {
            return Some(Event::Disconnect);
        }
        core::mem::take(&mut self.outbox.close).then_some(Event::Close)
    }

    /// Takes one step. `frame` gets the frame to be sent; it has at least `mpa::MAX_FRAME` octets
    /// where [`Input::makes_frame`] says so.
    pub(crate) fn step(&mut self, input: Input<'_>, frame: &mut [u8]) -> Outputs {
        let mut out = Outputs::default();
        let phase = core::mem::replace(&mut self.phase, Phase::Closed);
        self.phase = self.next(phase, input, frame, &mut out);
        out
    }

    fn next(
        &mut self,
        phase: Phase<I, R>,
        input: Input<'_>,
        frame: &mut [u8],
        out: &mut Outputs,
    ) -> Phase<I, R> {
        match input {
            Input::Undelivered(event) => return self.undelivered(phase, event, frame, out),
            Input::Accept { .. } if !matches!(phase, Phase::Requested(_)) => {
                out.fails = Some(Error::Reset);
                return phase;
            }
            Input::Reject { .. } if !matches!(phase, Phase::Requested(_)) => {
                return self.rejected_late(phase, out);
            }
            _ => {}
        }
        match phase {
            Phase::New => Phase::New,
            Phase::Dialing { attempt, first } => self.dialing(attempt, first, input, out),
            Phase::Connecting(attempt) => self.connecting(attempt, input, frame, out),
            Phase::Requesting(attempt) => self.requesting(attempt, input, out),
            Phase::AwaitReply(attempt) => self.await_reply(attempt, input, out),
            Phase::AwaitRequest { mpa, heard } => self.await_request(mpa, heard, input, out),
            Phase::Requested(mpa) => self.requested(mpa, input, frame, out),
            Phase::Starting { mpa, params } => self.starting(mpa, params, input, out),
            Phase::Running(link) => self.running(link, input, out),
            Phase::Parting => match input {
                Input::Done => self.close(out),
                Input::Failed(_) => self.reset(out),
                _ => Phase::Parting,
            },
            Phase::Finishing(fin) => self.finishing(fin, input, out),
            Phase::Lingering => match input {
                Input::Abort | Input::Shut | Input::Expired { .. } => self.reset(out),
                Input::Drained => self.give_up(Tcp::Release, out),
                Input::Unacknowledged => self.linger_on(out),
                _ => Phase::Lingering,
            },
            Phase::Closed => Phase::Closed,
        }
    }

    /// Gives TCP to the QP, which then installs its own callbacks and drains the socket (T-25).
    fn start(
        &mut self,
        reply: usize,
        mpa: Option<I>,
        params: Params,
        out: &mut Outputs,
    ) -> Phase<I, R> {
        self.has_callbacks = false;
        out.callbacks = Some(Callbacks::Remove);
        out.ask = Some(Ask::Start { reply, params });
        Phase::Starting { mpa, params }
    }

    fn starting(
        &mut self,
        mpa: Option<I>,
        params: Params,
        input: Input<'_>,
        out: &mut Outputs,
    ) -> Phase<I, R> {
        let depths = params.event;
        match (input, mpa) {
            (Input::Done, Some(mpa)) => {
                self.outbox.reply = Some(Reply {
                    error: None,
                    depths,
                    mpa: Some(mpa),
                });
                Phase::Running(Link::Up)
            }
            (Input::Done, None) if params.peer_to_peer => {
                out.timer = Some(Timer::Arm(TICK_MS));
                let left = RTR_MS;
                Phase::Running(Link::Accepted { depths, left })
            }
            (Input::Done, None) => {
                out.timer = Some(Timer::Disarm);
                self.established(None, depths);
                Phase::Running(Link::Up)
            }
            (Input::Failed(_), Some(_)) => {
                self.connect_failed(Reply::failed(Error::Reset), out);
                // An initiator that gives up after the Reply sends a Terminate (X-ENH-17).
                out.ask = Some(Ask::Terminate {
                    error: TermError::MpaLocalCatastrophic,
                    markers: params.send_markers,
                });
                Phase::Parting
            }
            (Input::Failed(code), None) => self.accept_failed(Error::Other(code), out),
            (_, mpa) => Phase::Starting { mpa, params },
        }
    }

    fn running(&mut self, link: Link, input: Input<'_>, out: &mut Outputs) -> Phase<I, R> {
        match (input, link) {
            (Input::FirstSegment, Link::Accepted { depths, .. }) => {
                out.timer = Some(Timer::Disarm);
                self.established(None, depths);
                Phase::Running(Link::Up)
            }
            (Input::PeerClosing, Link::Up) => {
                self.outbox.disconnect = true;
                Phase::Running(Link::Closing)
            }
            (Input::Expired { is_ending }, Link::Accepted { depths, left }) => {
                let left = left.saturating_sub(TICK_MS);
                if left > 0 && !is_ending {
                    out.timer = Some(Timer::Arm(TICK_MS));
                } else {
                    out.log = (left == 0).then_some(Log::NoFirstSegment);
                    out.qp = Some(Qp::Abort);
                }
                Phase::Running(Link::Accepted { depths, left })
            }
            (Input::Shut, _) => {
                out.qp = Some(Qp::Abort);
                Phase::Running(link)
            }
            (Input::StreamEnded(end), _) => {
                if let Link::Accepted { depths, left } = link {
                    let error = match left {
                        0 => Error::TimedOut,
                        _ => Error::Reset,
                    };
                    self.established(Some(error), depths);
                }
                self.outbox.close = link != Link::Down;
                out.qp = Some(Qp::Forget);
                match end {
                    StreamEnd::Reset => self.reset(out),
                    StreamEnd::Graceful => {
                        self.linger_again = LINGER_AGAIN;
                        self.close(out)
                    }
                }
            }
            _ => Phase::Running(link),
        }
    }

    /// Lets the consumer know how its accept ended.
    fn established(&mut self, error: Option<Error>, depths: EventDepths) {
        self.outbox.established = Some(Established { error, depths });
    }

    fn undelivered(
        &mut self,
        phase: Phase<I, R>,
        event: Event,
        frame: &mut [u8],
        out: &mut Outputs,
    ) -> Phase<I, R> {
        match (event, phase) {
            (Event::Request { .. }, phase) => {
                out.log = Some(Log::NoRoom);
                match phase {
                    Phase::Requested(mpa) => self.refuse(mpa, &[], frame, out),
                    phase => phase,
                }
            }
            // Private data takes memory, which may be lacking. An event without data gets through.
            (Event::Reply { error, data, .. }, phase) if data > 0 => {
                self.outbox.disconnect = false;
                self.outbox.close = false;
                self.outbox.reply = Some(Reply::failed(error.unwrap_or(Error::NoMemory)));
                match phase {
                    Phase::Running(_) if error.is_none() => {
                        out.qp = Some(Qp::Abort);
                        Phase::Running(Link::Down)
                    }
                    phase => phase,
                }
            }
            (_, phase) => {
                out.log = Some(Log::EventLost);
                phase
            }
        }
    }
}
