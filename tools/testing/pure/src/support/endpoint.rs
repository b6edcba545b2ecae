// SPDX-License-Identifier: GPL-2.0

//! What the driver's endpoint, its queue pair and iw_cm are to a connection, in few states, and
//! with assertions for what each of them counts on.

use crate::proto::connection::{
    Ask, Awaits, Callbacks, Code, Connection, Error, Event, Input, Log, Outputs, Qp, StreamEnd,
    Tcp, Timer,
};
use crate::proto::negotiate::Depths;
use crate::proto::setup::{Config, Initiator, Params, Responder};
use crate::wire::mpa::MAX_FRAME;
use crate::wire::terminate::TermError;

/// What the driver's events carry of private data.
pub(crate) const MAX_EVENT_DATA: usize = 255;

/// What TCP and the queue pair answer when nothing else is said.
pub(crate) const FAILURE: Code = Code(-99);

/// How a queue pair is to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QpIs {
    /// Not its queue pair, or not any more.
    Free,
    /// Set aside.
    Attached,
    /// It has the stream.
    Running,
    /// It has, and was told to end it.
    Aborted,
}

/// What becomes of the next things that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    /// How many of them succeed.
    pub(crate) good: u8,
    /// A Request is not answered for now.
    pub(crate) later: bool,
}

impl Answers {
    /// All succeed.
    pub(crate) const GOOD: Self = Self {
        good: u8::MAX,
        later: false,
    };
}

/// What the consumer was told and what it said, as far as iw_cm has assertions about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// The call to connect succeeded, so that a reply is due.
    pub(crate) connects: bool,
    /// The call to accept succeeded, so that an established event is due.
    pub(crate) accepted: bool,
    /// The call to accept or to reject was made.
    pub(crate) answered: bool,
    /// Another answer was given before the established event was told: iw_cm has given up its
    /// identifier.
    pub(crate) disowned: bool,
    pub(crate) requests: u8,
    /// With and without an error.
    pub(crate) replies: (u8, u8),
    /// With and without an error.
    pub(crate) established: (u8, u8),
    pub(crate) disconnects: u8,
    pub(crate) closes: u8,
}

impl Told {
    /// Whether iw_cm passes an answer of the consumer on.
    pub(crate) fn may_answer(&self) -> bool {
        let is_due = self.accepted && self.established == (0, 0) && !self.disowned;
        self.requests == 1 && (!self.answered || is_due)
    }
}

/// All but the connection that decides what happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Around {
    pub(crate) tcp: bool,
    /// The FIN was sent.
    pub(crate) fin: bool,
    pub(crate) callbacks: bool,
    /// The timer's milliseconds, while it runs.
    pub(crate) timer: Option<u32>,
    pub(crate) qp: QpIs,
    pub(crate) told: Told,
    /// Connections of TCP that there were, and that were given up.
    pub(crate) sockets: (u8, u8),
}

/// An endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) connection: Connection<Box<Initiator>, Box<Responder>>,
    pub(crate) around: Around,
    pub(crate) answers: Answers,
    /// What was done, for tests that look.
    pub(crate) sent: Vec<Vec<u8>>,
    /// With or without markers.
    pub(crate) terminates: Vec<(TermError, bool)>,
    pub(crate) started: Option<Params>,
    /// The private data of the peer's Reply, when the QP was given the stream.
    pub(crate) said: Vec<u8>,
    pub(crate) logs: Vec<Log>,
    pub(crate) armed: Vec<u32>,
    pub(crate) events: Vec<(Event, Vec<u8>)>,
    /// A Request that is not answered yet.
    pub(crate) unanswered: bool,
}

impl Endpoint {
    fn new(connection: Connection<Box<Initiator>, Box<Responder>>, tcp: bool, qp: QpIs) -> Self {
        Self {
            connection,
            around: Around {
                tcp,
                fin: false,
                callbacks: tcp,
                timer: None,
                qp,
                told: Told::default(),
                sockets: (u8::from(tcp), 0),
            },
            answers: Answers::GOOD,
            sent: Vec::new(),
            terminates: Vec::new(),
            started: None,
            said: Vec::new(),
            logs: Vec::new(),
            armed: Vec::new(),
            events: Vec::new(),
            unanswered: false,
        }
    }

    /// The side that connects, and whether its consumer's call succeeded.
    pub(crate) fn connect(config: Config, want: Depths, good: bool) -> (Self, Result<(), Error>) {
        let initiator = Box::new(Initiator::new(config, want));
        let (connection, outputs) = Connection::initiator(initiator);
        let mut this = Self::new(connection, false, QpIs::Attached);
        this.answers.good = u8::from(good);
        let result = this.act(outputs, &mut []);
        this.answers = Answers::GOOD;
        this.around.told.connects = result.is_ok();
        (this, result)
    }

    /// The side that was connected to.
    pub(crate) fn listen(config: Config) -> Self {
        let (connection, outputs) = Connection::responder(Box::new(Responder::new(config)));
        let mut this = Self::new(connection, true, QpIs::Free);
        assert!(this.act(outputs, &mut []).is_ok());
        this
    }

    /// What the input leads to, at once.
    pub(crate) fn feed(&mut self, input: Input<'_>) -> Result<(), Error> {
        let was_closed = self.connection.is_closed();
        let mut room = [0; MAX_FRAME];
        let frame = match input.makes_frame() {
            true => &mut room[..],
            false => &mut [],
        };
        let outputs = self.connection.step(input, frame);
        if was_closed {
            let said = Outputs {
                log: None,
                fails: None,
                ..outputs
            };
            assert_eq!(said, Outputs::default(), "{input:?} behind the end");
        }
        self.act(outputs, frame)
    }

    fn act(&mut self, mut outputs: Outputs, frame: &mut [u8]) -> Result<(), Error> {
        let mut result = Ok(());
        for _ in 0..4 {
            self.carry_out(&outputs);
            if let Some(error) = outputs.fails {
                result = Err(error);
            }
            let Some(ask) = outputs.ask else {
                self.check();
                return result;
            };
            if self.answers.later && matches!(ask, Ask::Request(_)) {
                self.unanswered = true;
                return result;
            }
            let answer = self.answer(ask, frame);
            outputs = self.connection.step(answer, frame);
        }
        panic!("always something else is asked for");
    }

    fn carry_out(&mut self, outputs: &Outputs) {
        let around = &mut self.around;
        self.logs.extend(outputs.log);
        match outputs.timer {
            Some(Timer::Arm(ms)) => {
                around.timer = Some(ms);
                self.armed.push(ms);
            }
            Some(Timer::Disarm) => around.timer = None,
            None => {}
        }
        match outputs.callbacks {
            Some(Callbacks::Install) => {
                assert!(around.tcp && !around.callbacks);
                around.callbacks = true;
            }
            Some(Callbacks::Remove) => {
                assert!(around.tcp && around.callbacks);
                around.callbacks = false;
            }
            None => {}
        }
        match outputs.qp {
            Some(Qp::Detach(_)) => {
                assert_eq!(around.qp, QpIs::Attached);
                around.qp = QpIs::Free;
            }
            Some(Qp::Abort) => {
                assert!(matches!(around.qp, QpIs::Running | QpIs::Aborted));
                around.qp = QpIs::Aborted;
            }
            Some(Qp::Forget) => {
                assert!(matches!(around.qp, QpIs::Running | QpIs::Aborted));
                around.qp = QpIs::Free;
            }
            None => {}
        }
        match outputs.tcp {
            Some(Tcp::Reset | Tcp::Release) => {
                assert!(around.tcp && !around.callbacks);
                around.tcp = false;
                around.sockets.1 += 1;
            }
            None => {}
        }
    }

    fn answer(&mut self, ask: Ask, frame: &[u8]) -> Input<'static> {
        let around = &mut self.around;
        let is_good = self.answers.good > 0 || matches!(ask, Ask::Finish { anyway: true });
        self.answers.good = match self.answers.good {
            u8::MAX => u8::MAX,
            good => good.saturating_sub(1),
        };
        match ask {
            Ask::Dial => {
                assert!(!around.tcp && around.qp == QpIs::Attached);
                if is_good {
                    around.tcp = true;
                    around.callbacks = true;
                    around.sockets.0 += 1;
                }
            }
            Ask::Request(len) => {
                assert!(around.tcp && around.callbacks && around.qp == QpIs::Attached);
                self.sent.push(frame[..len].to_vec());
            }
            Ask::Refuse(len) => {
                assert!(around.tcp && around.callbacks && around.qp == QpIs::Free);
                self.sent.push(frame[..len].to_vec());
            }
            Ask::Finish { .. } => {
                assert!(around.tcp && !around.fin && around.callbacks);
                around.fin = is_good;
            }
            Ask::Terminate { error, markers } => {
                assert!(around.tcp && around.qp == QpIs::Free);
                self.terminates.push((error, markers));
            }
            Ask::Start { reply, params } => {
                assert!(around.tcp && !around.callbacks && around.qp == QpIs::Attached);
                if reply > 0 {
                    self.sent.push(frame[..reply].to_vec());
                }
                if is_good {
                    around.qp = QpIs::Running;
                    self.started = Some(params);
                    self.said = self.connection.reply_data().to_vec();
                }
            }
        }
        if is_good {
            Input::Done
        } else {
            Input::Failed(FAILURE)
        }
    }

    /// What holds between two inputs.
    fn check(&self) {
        let around = &self.around;
        let connection = &self.connection;
        if connection.is_closed() {
            assert!(!around.tcp && !around.callbacks, "something is left");
            assert_eq!((around.timer, around.qp), (None, QpIs::Free));
        } else {
            assert!(around.sockets.0 <= 2);
        }
        assert_eq!(u8::from(around.tcp), around.sockets.0 - around.sockets.1);
        let running = matches!(around.qp, QpIs::Running | QpIs::Aborted);
        assert_eq!(running, connection.is_running());
        // Nothing waits for ever: somebody calls, or the queue pair does.
        assert!(
            around.timer.is_some() || running || connection.is_closed(),
            "no time-out: {connection:?}"
        );
    }

    /// The consumer accepts, as the driver has it do.
    pub(crate) fn accept(&mut self, want: Depths, private_data: &[u8]) -> Result<(), Error> {
        let accept = Input::Accept { want, private_data };
        let told = &mut self.around.told;
        told.answered = true;
        if told.accepted {
            // iw_cm waits for the events of the first accept.
            return self.feed(Input::Shut);
        }
        if !self.connection.is_requested() {
            return self.feed(accept);
        }
        self.around.qp = QpIs::Attached;
        let result = self.feed(accept);
        self.around.told.accepted = result.is_ok();
        result
    }

    /// The consumer rejects.
    pub(crate) fn reject(&mut self, private_data: &[u8]) {
        let told = &mut self.around.told;
        told.answered = true;
        told.disowned |= told.accepted && told.established == (0, 0);
        assert!(self.feed(Input::Reject { private_data }).is_ok());
    }

    /// TCP connects and takes the Request, or not.
    #[cfg(test)]
    pub(crate) fn connected(&mut self, private_data: &[u8]) {
        assert!(self.feed(Input::Connected { private_data }).is_ok());
    }

    /// The timer runs out.
    pub(crate) fn expire(&mut self, is_ending: bool) {
        if self.around.timer.take().is_some() {
            assert!(self.feed(Input::Expired { is_ending }).is_ok());
        }
    }

    /// The timer runs out where the connection lingers and TCP still sends.
    #[cfg(test)]
    pub(crate) fn unacknowledged(&mut self) {
        if self.connection.awaits() == Awaits::Drained && self.around.timer.take().is_some() {
            assert!(self.feed(Input::Unacknowledged).is_ok());
        }
    }

    /// Feeds octets as the driver does, as many as are wanted each time; returns how many those
    /// were.
    pub(crate) fn octets(&mut self, stream: &[u8]) -> usize {
        let mut taken = 0;
        while let Awaits::Frame(wanted) = self.connection.awaits() {
            assert!(wanted > 0 && wanted <= MAX_FRAME);
            let rest = &stream[taken..];
            let chunk = &rest[..wanted.min(rest.len())];
            if chunk.is_empty() {
                break;
            }
            taken += chunk.len();
            assert!(self.feed(Input::Octets(chunk)).is_ok());
        }
        taken
    }

    /// Takes the next event, which the consumer gets if it is `delivered`.
    pub(crate) fn deliver(&mut self, delivered: bool) -> Option<Event> {
        let mut data = [0; MAX_EVENT_DATA];
        let event = self.connection.next_event(&mut data)?;
        let len = match event {
            Event::Request { data, .. } | Event::Reply { data, .. } => data,
            _ => 0,
        };
        self.tell(event, delivered);
        if delivered {
            self.events.push((event, data[..len].to_vec()));
        } else {
            assert!(self.feed(Input::Undelivered(event)).is_ok());
        }
        Some(event)
    }

    /// What iw_cm's assertions are about. An event that is lost for good counts.
    fn tell(&mut self, event: Event, delivered: bool) {
        let told = &mut self.around.told;
        let last = told.closes + told.replies.0;
        assert_eq!(last, 0, "{event:?} behind the last event");
        assert!(!told.disowned, "{event:?} behind another answer");
        match event {
            Event::Request { .. } => {
                assert!(!told.answered && !told.connects);
                told.requests += 1;
                assert_eq!(told.requests, 1);
            }
            Event::Reply { error, data, .. } => {
                assert!(told.connects);
                if !delivered && data > 0 {
                    return;
                }
                match error {
                    Some(_) => told.replies.0 += 1,
                    None => told.replies.1 += 1,
                }
                assert_eq!(told.replies.0 + told.replies.1, 1);
            }
            Event::Established { error, .. } => {
                assert!(told.accepted);
                match error {
                    Some(_) => told.established.0 += 1,
                    None => told.established.1 += 1,
                }
                assert_eq!(told.established.0 + told.established.1, 1);
            }
            Event::Disconnect => {
                assert_eq!(told.replies.1 + told.established.1, 1);
                told.disconnects += 1;
                assert_eq!(told.disconnects, 1);
            }
            Event::Close => {
                let begun = told.established.0 + told.established.1 + told.replies.1;
                assert_eq!(begun, 1, "a close event for no connection");
                told.closes += 1;
            }
        }
    }

    /// Delivers all that is due.
    pub(crate) fn deliver_all(&mut self) {
        while self.deliver(true).is_some() {}
    }

    /// Lets time go by, and nothing else, until the connection is over and everything is told;
    /// checks that all was told that iw_cm counts on.
    pub(crate) fn settle(&mut self) {
        if core::mem::take(&mut self.unanswered) {
            assert!(self.feed(Input::Done).is_ok());
        }
        for _ in 0..1000 {
            self.deliver_all();
            match self.around.qp {
                // Without a time-out of set-up, its end is the queue pair's.
                QpIs::Running if self.around.timer.is_none() => self.stream_ends(StreamEnd::Reset),
                QpIs::Aborted => self.stream_ends(StreamEnd::Graceful),
                _ => self.expire(false),
            }
            if self.connection.is_closed() {
                self.deliver_all();
                return self.check_told();
            }
        }
        panic!("does not end: {self:?}");
    }

    /// Forgets what was done.
    #[cfg(test)]
    pub(crate) fn forget(&mut self) {
        self.sent.clear();
        self.terminates.clear();
        self.logs.clear();
        self.armed.clear();
        self.events.clear();
    }

    pub(crate) fn stream_ends(&mut self, end: StreamEnd) {
        assert!(self.feed(Input::StreamEnded(end)).is_ok());
    }

    fn check_told(&self) {
        let told = &self.around.told;
        let replies = told.replies.0 + told.replies.1;
        let established = told.established.0 + told.established.1;
        assert_eq!(replies, u8::from(told.connects), "one reply per connect");
        assert_eq!(
            established,
            u8::from(told.accepted && !told.disowned),
            "one established event per accept"
        );
        let close = told.replies.1 + established;
        assert_eq!(told.closes, close, "one close event per connection");
        assert_eq!(self.around.sockets.0, self.around.sockets.1);
    }
}
