// SPDX-License-Identifier: GPL-2.0

//! The sending half of a connection: turns requests and Read Responses into batches of FPDUs, and
//! hands these to TCP (RFC 5040 section 5, RFC 5041 section 5, RFC 5044 sections 4 and 5).
//!
//! As many FPDUs as fit are copied into a batch and handed to TCP in one call. So the consumer's
//! memory is free again when its request completes (T-19), and no region is kept from its owner
//! while the sender waits for the peer (T-20). Read Responses do not wait for the send queue
//! (T-47); the two take turns, message by message. Under the lock of the sender. Nothing here
//! waits: what TCP does not take stays in the batch until there is space.
#![forbid(unsafe_code)]

mod env;
mod start;

use super::counters::{
    Counter,
    Tally, //
};
use super::drain::{
    Marked,
    Stop, //
};
use super::failure::{
    Failure,
    Fault, //
};
use super::frame::Writer;
use super::message::{
    self,
    Kind,
    Message,
    Messages,
    Packer,
    Rtr,
    MAX_HEADER,
    MAX_TERMINATE, //
};
use super::placement::Unasked;
use super::sends::Token;
use super::setup::Params;
use super::state::QpState;
use super::transport::{
    Refused,
    SendFlags,
    Transport, //
};
use super::tuning::SendLimits;
use crate::num::{
    Broken,
    Length, //
};
use crate::wire::ddp::Msn;
use crate::wire::fpdu::{
    mulpdu,
    Markers,
    LARGE_SEGMENT, //
};
use crate::wire::rdmap::ImmediateData;
use crate::wire::terminate::{
    Quote,
    TermError,
    Terminate, //
};
use core::num::{
    Saturating,
    Wrapping, //
};

pub(crate) use self::env::{
    Env,
    NotDone,
    OpenError,
    PayloadError,
    Peeked,
    SourceOf,
    Traced, //
};

#[derive(Clone, Copy, Debug)]
enum Origin {
    /// A request of the send queue, which ends when TCP has all of it.
    Request(Token),
    /// The peer's request of this number, which the message answers.
    Peer(Msn),
    /// A request of the peer whose slot is free already, as this is the last segment of its answer.
    Answered,
    /// Nobody: no request ends with this message.
    Bare,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    message: Message,
    /// Immediate Data that follow the message, and whether the peer is to raise an event.
    then: Option<(ImmediateData, bool)>,
    origin: Origin,
}

/// The part of a sender that puts FPDUs into the batch.
#[derive(Debug)]
struct Framer {
    flags: SendFlags,
    ends: start::Ends,
    /// The memory of the current message is open.
    is_open: bool,
    /// The memory of this or an earlier message may be open.
    has_opened: bool,
    packer: Packer,
    markers: Option<Markers>,
    emss: u32,
    mulpdu: u16,
    crc: bool,
    /// FPDUs need not fit the segments of TCP.
    is_large: bool,
}

/// The sending half of a connection: the message that it is at, and all that has to be known in the
/// next run. The batch is the [`Transport`]'s, requests and responses are those of [`Env`].
#[derive(Debug)]
pub(crate) struct Sender {
    framer: Framer,
    current: Option<Current>,
    messages: Messages,
    rtr: Option<Rtr>,
    /// Responder: nothing may be sent before the first FPDU came in (T-24).
    wait_for_fpdu: bool,
    sq_turn: bool,
    /// How many local operations this run may still carry out.
    locals: Saturating<u32>,
    /// Whether this run may send to the peer, and who wakes the sender if not.
    may_start: Result<(), Marked>,
    terminate: Option<Terminate>,
    /// A Terminate is in the batch, or TCP has it.
    has_terminated: bool,
    /// Something was sent that the peer has to have before the FIN. Messages of set-up do not
    /// count, nor do Read and Atomic Requests, as these are answered.
    pub(crate) has_spoken: bool,
    /// TCP has refused a batch: nothing is sent any more, and its requests do not succeed.
    refused: Option<Refused>,
    /// Requests complete when the peer has placed them.
    awaits_placement: bool,
    unasked: Unasked,
    /// The peer takes Sends with immediate data.
    has_send_immediate: bool,
    /// How many Sends, Immediates and Writes were sent.
    sent: Wrapping<u32>,
    /// What was sent since the caller last took it.
    pub(crate) tally: Tally,
    /// The calls of TCP since then.
    pub(crate) batches: Wrapping<u32>,
}

/// Returns the segment size for which FPDUs are made, given the segment size of TCP.
fn segment_size(emss: u32, is_large: bool) -> u32 {
    match is_large {
        true => emss.max(LARGE_SEGMENT),
        false => emss,
    }
}

impl Framer {
    fn set_segment_size(&mut self, emss: u32) {
        let emss = segment_size(emss, self.is_large);
        if emss != self.emss {
            self.emss = emss;
            self.packer.set_emss(emss);
            self.mulpdu = mulpdu(emss, self.markers.is_some());
        }
    }

    /// Lets go of the memory of all messages.
    fn close<T: Transport, E: Env<T>>(&mut self, env: &mut E) {
        self.is_open = false;
        if core::mem::take(&mut self.has_opened) {
            env.close();
        }
    }

    /// Returns how many octets of the stream the FPDU of `frame` takes at this place, with markers.
    fn octets(&self, frame: &message::Frame) -> Result<u32, Broken> {
        let len = u32::try_from(frame.fpdu_len)?;
        len.try_add(self.markers.as_ref().map_or(0, |m| m.overhead(len)))
    }

    fn put_terminate<T: Transport>(
        &mut self,
        transport: &mut T,
        message: &Terminate,
    ) -> Result<(), Broken> {
        let (mut fpdu, mut markers) = ([0; MAX_TERMINATE], self.markers);
        let crc32c = self.crc.then_some(T::crc32c as fn(u32, &[u8]) -> u32);
        let fpdu =
            message::terminate(message, markers.as_mut(), crc32c, &mut fpdu).ok_or(Broken)?;
        let len = u32::try_from(fpdu.len())?;
        transport.reserve(len).map_err(|_| Broken)?;
        let before = transport.mark();
        if let Err(Broken) = transport.put(fpdu) {
            transport.truncate(before)?;
            return Err(Broken);
        }
        self.markers = markers;
        self.flags.cut = self.packer.push(len) && !self.is_large;
        Ok(())
    }

    fn open<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        current: &Current,
    ) -> Result<(), Failure> {
        match (&current.origin, current.message.kind()) {
            (Origin::Request(token), _) => env.open(SourceOf::Request).map_err(|error| {
                error.ends(|_| Failure::of_request(env.fail(*token, Fault::LocalProtection)))
            })?,
            (Origin::Peer(msn), Kind::ReadResponse(request)) if request.len > 0 => {
                env.open(SourceOf::Response(request)).map_err(|error| {
                    error.ends(|error| Failure {
                        quote: Some(Quote::read_request(*request, *msn, current.message.sent())),
                        ..error.into()
                    })
                })?;
            }
            _ => {}
        }
        self.is_open = true;
        Ok(())
    }

    /// Writes up to `count` FPDUs of `len` octets, markers included: that of `frame`, for which
    /// there is room, and equally long ones behind it. Returns how many.
    #[inline]
    fn write<T: Transport, E: Env<T>>(
        &mut self,
        env: &E,
        transport: &mut T,
        message: &Message,
        frame: &message::Frame,
        (len, count): (u32, u32),
    ) -> Result<u32, PayloadError> {
        if self.markers.is_none() {
            let written = transport.put_with(len, count, |room| {
                let octets = u32::try_from(room.len()).map_err(Broken::from)?;
                let count = octets.checked_div(len).ok_or(Broken)?;
                let writer = Writer::flat(room, message, frame, self.crc)?;
                write_payload::<T, E>(env, writer, frame, count)?;
                Ok(count)
            });
            if let Some(written) = written {
                return written;
            }
        }
        let mut header = [0; MAX_HEADER];
        let header = header.get_mut(..frame.header_len).ok_or(Broken)?;
        if !message.put_header(frame, header) {
            return Err(PayloadError::Broken);
        }
        let writer = Writer::pieces(transport, header, frame, self.crc, self.markers.as_mut())?;
        write_payload(env, writer, frame, 1)?;
        Ok(1)
    }

    /// Returns the next FPDU of a message, and how many octets of the stream it takes. It is
    /// shorter than it might be if that fills the TCP segment which the batch has begun.
    #[inline(always)]
    fn next_frame(&self, message: &Message) -> Result<(message::Frame, u32), Failure> {
        let no_fpdu = |Broken| Failure::defect("a message has no FPDU");
        let mut frame = message.frame(self.mulpdu).map_err(no_fpdu)?;
        if self.markers.is_none() {
            if let Some(mulpdu) = self.packer.fill(&frame) {
                frame = message.frame(mulpdu).map_err(no_fpdu)?;
            }
        }
        let len = self.octets(&frame);
        let len = len.map_err(|Broken| Failure::defect("an FPDU is too long"))?;
        Ok((frame, len))
    }

    /// Returns how many FPDUs like that of `frame`, of `len` octets, are written at once: as many
    /// as have `room` if each fills a segment, else one. Each leaves the packer as the first does.
    #[inline(always)]
    fn count_alike(
        &self,
        message: &Message,
        frame: &message::Frame,
        len: u32,
        room: impl FnOnce() -> usize,
    ) -> u32 {
        if self.markers.is_some() || len != self.emss {
            return 1;
        }
        let room = u32::try_from(room()).unwrap_or(u32::MAX);
        room.div_ceil(len.max(1)).min(message.alike(frame)).max(1)
    }

    /// Adds the next FPDU of a message to the batch, and those behind it that fill a segment each,
    /// until the batch has `limit` octets; or hands one over. Returns how many FPDUs that were.
    /// Stops with [`Stop::Again`] if the first does not fit behind what is in the batch, or waits if
    /// there is no memory for it alone.
    fn put_fpdus<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        transport: &mut T,
        current: &mut Current,
        limit: usize,
    ) -> Result<u32, Stop> {
        if !self.is_open {
            self.has_opened = true;
            self.open(env, current)?;
        }
        if transport.is_direct() {
            if self.hand_over(env, transport, current)? {
                return Ok(1);
            }
            self.set_segment_size(transport.capacity().segment_size);
        }
        let (frame, len) = self.next_frame(&current.message)?;
        if let Err(shortage) = transport.reserve(len) {
            self.flags.more = transport.unsent() > 0;
            return Err(shortage.stop(transport));
        }
        let mut packer = self.packer;
        if packer.push(len) && !self.is_large {
            if transport.unsent() > 0 {
                // The batch ends its TCP segment; this FPDU begins the next.
                self.packer.end_record();
                self.flags.more = true;
                self.flags.eor = true;
                return Err(Stop::Again);
            }
            self.flags.cut = true;
        }
        let room = || limit.saturating_sub(transport.unsent());
        let count = self.count_alike(&current.message, &frame, len, room);
        let before = (transport.mark(), self.markers);
        let written = self.write(env, transport, &current.message, &frame, (len, count));
        let written = written.and_then(|count| {
            current.message.advance(&frame, count)?;
            Ok(count)
        });
        let error = match written {
            Ok(count) => {
                self.packer = packer;
                env.trace(Traced::Fpdus {
                    message: &current.message,
                    frame: &frame,
                    count,
                });
                return Ok(count);
            }
            Err(error) => error,
        };
        Err(self.take_back(transport, before, error).into())
    }

    /// Removes what was written of FPDUs since batch and markers were as `before`. What is in front
    /// of it, and a Terminate, can still go out.
    #[cold]
    fn take_back<T: Transport>(
        &mut self,
        transport: &mut T,
        before: (T::Mark, Option<Markers>),
        error: PayloadError,
    ) -> Failure {
        if transport.truncate(before.0).is_err() {
            // Nothing goes out, and the requests in the batch do not complete.
            self.ends.clear();
        }
        self.markers = before.1;
        match error {
            PayloadError::NoMemory => TermError::LocalCatastrophic.into(),
            PayloadError::Broken => Failure::defect("an FPDU is not what its header says"),
        }
    }
}

/// Writes the payload of `count` FPDUs, of which `frame` is the first, and the trailer of the last.
#[inline]
fn write_payload<T: Transport, E: Env<T>>(
    env: &E,
    mut writer: Writer<'_, T>,
    frame: &message::Frame,
    count: u32,
) -> Result<(), PayloadError> {
    if frame.payload > 0 {
        let len = count.try_mul(frame.payload)?;
        env.payload(frame.offset, len, &mut writer)?;
    }
    Ok(writer.finish()?)
}

impl Sender {
    /// Makes a sender. TCP has segments of `emss` octets, and no request is under way.
    pub(crate) fn new(params: &Params, emss: u32) -> Self {
        let emss = segment_size(emss, params.large_fpdus);
        Self {
            framer: Framer {
                flags: SendFlags::default(),
                ends: start::Ends::new(),
                is_open: false,
                has_opened: false,
                packer: Packer::new(emss),
                markers: params.send_markers.then(Markers::new),
                emss,
                mulpdu: mulpdu(emss, params.send_markers),
                crc: params.crc,
                is_large: params.large_fpdus,
            },
            current: None,
            messages: Messages::new(),
            rtr: params.send_rtr,
            wait_for_fpdu: params.wait_for_fpdu,
            sq_turn: true,
            locals: start::MOST_LOCAL,
            may_start: Ok(()),
            terminate: None,
            has_terminated: false,
            has_spoken: false,
            refused: None,
            awaits_placement: false,
            unasked: Unasked::NOTHING,
            has_send_immediate: false,
            sent: Wrapping(0),
            tally: Tally::new(),
            batches: Wrapping(0),
        }
    }

    /// Makes requests complete when the peer has placed them (`proto::placement`). Whoever calls
    /// this tells [`Sends`](super::sends::Sends), too.
    pub(crate) fn await_placement(&mut self) {
        self.awaits_placement = true;
    }

    /// Lets requests be Sends with immediate data, which the peer takes.
    pub(crate) fn allow_send_immediate(&mut self) {
        self.has_send_immediate = true;
    }

    /// Returns whether a message is on its way, apart from what is in the batch.
    pub(crate) const fn is_busy(&self) -> bool {
        self.current.is_some() || self.refused.is_some()
    }

    /// Returns whether this side may send: a responder must have heard of its peer first.
    pub(crate) const fn may_send(&self, heard_of_peer: bool) -> bool {
        !self.wait_for_fpdu || heard_of_peer
    }

    /// Makes the sender send a Terminate behind what TCP has or the batch holds.
    pub(crate) fn set_terminate(&mut self, failure: &Failure) {
        self.terminate = Some(Terminate {
            error: failure.error,
            quote: failure.quote,
        });
    }

    /// Returns the youngest request known to be placed, if the peer says that it has placed
    /// `messages` messages ([`Quote::placed`]).
    pub(crate) fn placed(&self, messages: u32) -> Option<Token> {
        self.unasked.placed(messages)
    }

    /// Returns whether TCP still lacks a Terminate, or a part of one; `is_batch_empty` says whether
    /// TCP has all of the batch.
    pub(crate) const fn owes_terminate(&self, is_batch_empty: bool) -> bool {
        self.terminate.is_some() || (self.has_terminated && !is_batch_empty)
    }

    /// Returns whether a FIN that is wanted may follow what was sent: TCP has all of the batch, as
    /// `is_batch_empty` says, and all of a Terminate. `stop` is how the run has stopped; after a
    /// failure a Terminate is still to come.
    pub(crate) const fn may_finish(&self, stop: &Stop, is_batch_empty: bool) -> bool {
        is_batch_empty
            && self.terminate.is_none()
            && self.refused.is_none()
            && !matches!(stop, Stop::Failed(_))
    }

    /// Sends what `state` allows, until `limits.run` octets have gone: what is in the batch, a
    /// Terminate, then requests and responses in turn. `heard` says whether an FPDU of the peer has
    /// come in, or who wakes the sender when one has. Lets go of all regions before it returns.
    pub(crate) fn run<T, E>(
        &mut self,
        env: &mut E,
        transport: &mut T,
        heard: Result<(), Marked>,
        state: QpState,
        limits: SendLimits,
    ) -> Stop
    where
        T: Transport,
        E: Env<T>,
    {
        self.locals = start::MOST_LOCAL;
        self.may_start = match self.wait_for_fpdu {
            true => heard,
            false => Ok(()),
        };
        let stop = self.send(env, transport, state, limits);
        // No region may be kept from its owner while the peer is awaited (T-20), nor while the
        // caller waits for the owner.
        self.framer.close(env);
        stop
    }

    #[inline]
    fn send<T, E>(
        &mut self,
        env: &mut E,
        transport: &mut T,
        state: QpState,
        limits: SendLimits,
    ) -> Stop
    where
        T: Transport,
        E: Env<T>,
    {
        // CAST: 32 bits fit, here and below.
        let (mut budget, batch) = (Saturating(limits.run as usize), limits.batch as usize);
        let mut is_all = false;
        loop {
            if let Err(stop) = self.flush(env, transport) {
                return stop;
            }
            if let Some(message) = self.terminate.take() {
                self.has_spoken = true;
                if self.framer.put_terminate(transport, &message).is_err() {
                    // The Terminate is still owed: a FIN without it would say that all is well.
                    self.terminate = Some(message);
                    return transport.starve();
                }
                self.has_terminated = true;
                if message.error != TermError::Leaving {
                    self.tally.terminate_sent(message.error);
                }
                env.trace(Traced::Terminate(&message));
                continue;
            }
            // A work item was queued for what came meanwhile.
            if is_all || !state.sends() {
                return Stop::Empty;
            }
            if budget.0 == 0 {
                return Stop::Again;
            }
            let stop = self.fill(env, transport, batch);
            budget -= transport.unsent();
            if let Stop::Failed(_) = stop {
                // The segments in front of the bad one go out (V-TM-1).
                let _ = self.flush(env, transport);
                self.framer.close(env);
                self.current = None;
                return stop;
            }
            if transport.unsent() == 0 {
                return stop;
            }
            // If `fill` has stopped for another reason, that may be over once the batch is flushed.
            is_all = matches!(stop, Stop::Empty);
        }
    }

    /// Hands the batch to TCP. Stops if TCP does not take all of it.
    #[inline(always)]
    fn flush<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        transport: &mut T,
    ) -> Result<(), Stop> {
        if let Some(Refused(end)) = self.refused {
            return Err(end.into());
        }
        let before = transport.unsent();
        if before > 0 {
            let stop = match transport.send(self.framer.flags) {
                Ok(stop) => stop,
                // Without the FPDUs of the batch the stream may still consist of whole FPDUs, so
                // that the peer would not miss them. That is why whoever refuses a batch has ended
                // the connection. TCP tells of that, and the requests are flushed then.
                Err(Refused(end)) => {
                    self.refused = Some(Refused(end));
                    self.framer.ends.clear();
                    return Err(end.into());
                }
            };
            // If TCP has taken nothing, it gets the same flags with the same octets next time.
            if transport.unsent() != before {
                self.batches += 1;
                self.framer.packer.end_batch();
                self.framer.flags.cut = false;
            }
            if !matches!(stop, Stop::Empty) {
                return Err(stop);
            }
            self.framer.flags = SendFlags::default();
        }
        if !self.framer.ends.tokens().is_empty() {
            env.done(self.framer.ends.tokens());
            self.framer.ends.clear();
        }
        Ok(())
    }

    /// Puts FPDUs into the empty batch, as many as are ready and fit, up to `batch` octets. Returns
    /// why no more are put there: [`Stop::Again`] if the batch is full, or has to be flushed first.
    #[inline(always)]
    fn fill<T, E>(&mut self, env: &mut E, transport: &mut T, batch: usize) -> Stop
    where
        T: Transport,
        E: Env<T>,
    {
        let capacity = transport.capacity();
        self.framer.set_segment_size(capacity.segment_size);
        let limit = capacity.space.min(batch);
        loop {
            if let Err(stop) = self.put_some(env, transport, limit) {
                return stop;
            }
        }
    }

    /// Puts the next FPDUs of one message into the batch, unless the batch has `limit` octets.
    #[inline(always)]
    fn put_some<T, E>(&mut self, env: &mut E, transport: &mut T, limit: usize) -> Result<(), Stop>
    where
        T: Transport,
        E: Env<T>,
    {
        let unsent = transport.unsent();
        if unsent > 0 && unsent >= limit {
            return Err(Stop::Again);
        }
        if self.current.is_none() {
            if self.framer.ends.is_full() {
                return Err(Stop::Again);
            }
            self.next_message(env, transport)?;
        }
        let no_message = || Failure::defect("there is no message to send");
        let current = self.current.as_mut().ok_or_else(no_message)?;
        let before = current.message.sent();
        let count = self.framer.put_fpdus(env, transport, current, limit)?;
        self.tally.add(Counter::TxFpdus, count.into());
        let is_done = current.message.is_done();
        // This is false for FPDUs that TCP has to carry: they are in the batch.
        if transport.is_direct() {
            let octets = current.message.sent().try_sub(before);
            let octets = octets.map_err(Failure::from)?;
            self.tally.handed_over(octets, is_done);
        }
        if !is_done {
            return Ok(());
        }
        self.tally
            .sent(current.message.kind(), current.message.sent());
        self.sent += u32::from(current.message.kind().is_placed());
        if let Some((data, solicited)) = current.then.take() {
            self.unasked.add_part(current.message.sent());
            let kind = Kind::Immediate { data, solicited };
            current.message = self.messages.message(kind, 0);
            return Ok(());
        }
        let origin = current.origin;
        if self.awaits_placement {
            let octets = current.message.sent();
            let is_placed = transport.is_direct() && transport.has_placed();
            self.note_unplaced(env, &origin, octets, is_placed);
        }
        self.current = None;
        // The next message mostly lies in the same memory.
        self.framer.is_open = false;
        self.end_message(env, &origin)?;
        Ok(())
    }

    /// Ends a message, all of which is in the batch.
    fn end_message<T, E>(&mut self, env: &mut E, origin: &Origin) -> Result<(), Failure>
    where
        T: Transport,
        E: Env<T>,
    {
        self.has_spoken |= !matches!(origin, Origin::Bare);
        match origin {
            Origin::Request(token) => {
                if !self.framer.ends.push(*token) {
                    return Err(Failure::defect("a batch ends too many requests"));
                }
            }
            Origin::Peer(msn) => start::end_response(env, *msn)?,
            Origin::Answered | Origin::Bare => {}
        }
        Ok(())
    }

    /// Makes what is to be sent next the current message, if it may start.
    #[inline(always)]
    fn next_message<T, E>(&mut self, env: &mut E, transport: &T) -> Result<(), Stop>
    where
        T: Transport,
        E: Env<T>,
    {
        if let Some(rtr) = self.rtr.take() {
            self.current = Some(self.ready_to_receive(env, rtr)?);
            return Ok(());
        }
        if let Some(token) = self.unasked.youngest() {
            return self.next_or_ask(env, transport, token);
        }
        self.next_in_turn(env, transport)
    }

    /// Like `next_message`, but may first ask the peer whether all up to `token` is placed.
    #[inline(never)]
    fn next_or_ask<T, E>(&mut self, env: &mut E, transport: &T, token: Token) -> Result<(), Stop>
    where
        T: Transport,
        E: Env<T>,
    {
        if self.unasked.is_due() && self.ask_placement(env, token, false)? {
            return Ok(());
        }
        match self.next_in_turn(env, transport) {
            Err(stop @ (Stop::Empty | Stop::For(_))) => {
                match self.ask_placement(env, token, true)? {
                    true => Ok(()),
                    false => Err(stop),
                }
            }
            other => other,
        }
    }

    /// Takes note of a message that is in the batch or handed over as a whole, and that the peer
    /// has to place; `is_placed` says that it has done so.
    #[inline(never)]
    fn note_unplaced<T, E>(&mut self, env: &E, origin: &Origin, octets: u32, is_placed: bool)
    where
        T: Transport,
        E: Env<T>,
    {
        match origin {
            Origin::Request(token) if is_placed => {
                env.with_sends(|sends| sends.placed(*token));
                self.unasked = Unasked::NOTHING;
            }
            Origin::Request(token) => self.unasked.add(*token, octets, self.sent),
            _ => {}
        }
    }

    /// Makes a request or a response the current message, if one may start.
    #[inline(always)]
    fn next_in_turn<T, E>(&mut self, env: &mut E, transport: &T) -> Result<(), Stop>
    where
        T: Transport,
        E: Env<T>,
    {
        let sq_first = self.sq_turn;
        self.sq_turn = !sq_first;
        if !sq_first {
            return match self.next_response(env)? {
                true => Ok(()),
                false => self.next_request(env, transport),
            };
        }
        let started = self.next_request(env, transport);
        let gives_way = matches!(started, Err(Stop::Empty | Stop::For(_)));
        // Responses do not wait for requests (T-47). Nor does the question what the peer has placed
        // wait for responses, as the peer may go on reading without end.
        if gives_way && (self.asks_in_turn(env)? || self.next_response(env)?) {
            return Ok(());
        }
        started
    }

    /// Starts the oldest request of the send queue, if it may start.
    fn next_request<T: Transport, E: Env<T>>(
        &mut self,
        env: &mut E,
        transport: &T,
    ) -> Result<(), Stop> {
        let now = start::Now {
            is_flushed: transport.unsent() == 0,
            is_direct: transport.is_direct(),
            may_send: self.may_start,
            has_send_immediate: self.has_send_immediate,
        };
        let (locals, current) = (&mut self.locals, &mut self.current);
        let started = start::next_request(env, &mut self.messages, &now, locals, current);
        if matches!(started, Err(Stop::Again)) && !now.is_flushed {
            // The request begins the next batch: responses, one after the other, could otherwise
            // keep it waiting for ever.
            self.sq_turn = true;
        }
        started
    }
}
