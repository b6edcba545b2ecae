// SPDX-License-Identifier: GPL-2.0

//! The receiver in surroundings that the input chooses.

use super::message_len;
use crate::proto::deframer::Reach;
use crate::proto::reads::OutboundRead;
use crate::proto::receiver::Lack;
use crate::proto::segment::Rights;
use crate::proto::sends::Token;
use crate::proto::state::QpState;
use crate::support::frames::fpdu;
use crate::support::receiving::{Faults, Receiving};
use crate::support::rng::{Choices, Input};
use crate::support::sending::params;
use crate::wire::atomic::WORD_LEN;
use crate::wire::ddp::{self, Stag};
use crate::wire::rdmap::{self, Opcode};
use crate::wire::terminate::TermError;
use std::collections::VecDeque;

/// A receiver; the input chooses FPDUs, good ones and others, how they are cut, what is around, and
/// what fails. Nothing happens that the surroundings do not expect, and nothing behind an error.
pub fn receiver(data: &[u8]) {
    let mut input = Input(data);
    let mut agreed = params(4);
    agreed.crc = input.one_in(2);
    agreed.expect_rtr.send = input.one_in(4);
    let mut receiving = match input.one_in(4) {
        true => Receiving::in_buffers(&agreed),
        false => Receiving::new(&agreed),
    };
    let mut numbers = Numbers::default();
    let mut held = Vec::new();
    while !input.0.is_empty() {
        match input.below(24) {
            0..=2 => {
                let len = u64::from(message_len(&mut input));
                receiving
                    .around
                    .recvs
                    .push_back((!input.one_in(32)).then_some(len));
            }
            3 | 4 => {
                let token = Token(u32::try_from(input.bits()).unwrap_or(0));
                let invalidate = input.one_in(2);
                let is_request = !input.one_in(8);
                let entry = OutboundRead {
                    sink_stag: Stag(1),
                    len: message_len(&mut input),
                    token: is_request.then_some(token),
                    invalidate: is_request && invalidate,
                    ..OutboundRead::default()
                };
                if receiving.around.outbound().push(entry).is_ok() {
                    numbers.responses.push_back((0, entry.len));
                }
            }
            5 => receiving.around.quiet = !receiving.around.quiet,
            6 => receiving.has_memory = !receiving.has_memory,
            7 => {
                let which = input.below(32);
                receiving.around.faults = Faults {
                    write: (which == 0).then_some(TermError::TaggedStag),
                    response: which == 1,
                    recv: which == 2,
                    invalidate: (which == 3).then_some(TermError::RemoteCannotInvalidate),
                    sink: which == 4,
                    cq_is_full: which == 5,
                    read: (which == 6).then_some(TermError::RemoteStag),
                    ..Faults::default()
                };
                receiving.around.rights = Rights {
                    read: which != 7,
                    write: which != 8,
                    immediate: which != 10,
                    atomic: which != 11,
                };
                receiving.around.has_read_room = which != 9;
            }
            8 if input.one_in(2) => {
                let token = Token(u32::try_from(input.bits()).unwrap_or(0));
                let entry = OutboundRead {
                    sink_stag: Stag(1),
                    len: WORD_LEN,
                    token: Some(token),
                    is_atomic: true,
                    ..OutboundRead::default()
                };
                let _ = receiving.around.outbound().push(entry);
            }
            8 if input.one_in(4) => {
                receiving.around.state = QpState::Closing;
                receiving.flush();
            }
            9 => {
                // Octets that are no FPDU, or too few of one.
                let len = input.below(64).min(input.0.len());
                let (octets, rest) = input.0.split_at(len);
                input.0 = rest;
                held.extend_from_slice(octets);
            }
            10 => receiving.feed(&[]),
            _ => {
                held.extend(fpdu(&segment(&mut input, &mut numbers)));
                // What is held goes with what follows, or in pieces.
                match input.below(4) {
                    0 => {}
                    1 => {
                        let at = input.below(held.len());
                        let rest = held.split_off(at);
                        receiving.feed(&held);
                        held = rest;
                    }
                    _ => receiving.feed(&core::mem::take(&mut held)),
                }
            }
        }
    }
    receiving.around.quiet = true;
    receiving.has_memory = true;
    receiving.missing = Reach::Apart;
    receiving.feed(&held);
    assert!(receiving.unread.is_empty() && receiving.receiver.lacks() != Lack::Quiet);
}

/// What the next segments of a peer have to say.
struct Numbers {
    send: u32,
    read: u32,
    atomic: u32,
    /// The request of ours that is answered next.
    request: u32,
    /// Octets of the message before, and of how many.
    message: u32,
    responses: VecDeque<(u32, u32)>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            send: 1,
            read: 1,
            atomic: 1,
            request: 1,
            message: 0,
            responses: VecDeque::new(),
        }
    }
}

/// A segment; mostly one that fits.
fn segment(input: &mut Input<'_>, numbers: &mut Numbers) -> Vec<u8> {
    const OPCODES: [Opcode; 11] = [
        Opcode::Send,
        Opcode::Send,
        Opcode::SendSeInvalidate,
        Opcode::SendImmediate,
        Opcode::Write,
        Opcode::ReadResponse,
        Opcode::ReadResponse,
        Opcode::ReadRequest,
        Opcode::AtomicRequest,
        Opcode::AtomicResponse,
        Opcode::Terminate,
    ];
    let opcode = OPCODES.get(input.below(OPCODES.len())).copied();
    let opcode = opcode.unwrap_or(Opcode::Send);
    let mut last = !input.one_in(4);
    let mut len = match opcode {
        Opcode::ReadRequest => 28,
        Opcode::AtomicRequest => 52,
        Opcode::AtomicResponse => 12,
        Opcode::Send if input.one_in(16) => 9_000,
        _ => u32::try_from(input.below(256)).unwrap_or(0),
    };
    let mut at = 0;
    match opcode {
        Opcode::ReadResponse => {
            if let Some((done, all)) = numbers.responses.front_mut() {
                at = *done;
                let left = all.saturating_sub(*done);
                len = if last {
                    left.min(60_000)
                } else {
                    len.min(left)
                };
                last = len == left;
                *done = done.saturating_add(len);
                if last {
                    numbers.request = numbers.request.wrapping_add(1);
                    numbers.responses.pop_front();
                }
            }
        }
        Opcode::Write => at = len,
        Opcode::ReadRequest
        | Opcode::AtomicRequest
        | Opcode::AtomicResponse
        | Opcode::Terminate => last = true,
        _ => {
            at = numbers.message;
            numbers.message = if last { 0 } else { at.saturating_add(len) };
        }
    }
    let mut out = vec![
        ddp::Control::new(opcode.tagged(), last).0,
        rdmap::Control::new(opcode).0,
    ];
    out.extend(1u32.to_be_bytes());
    if opcode.tagged() {
        out.extend(u64::from(at).to_be_bytes());
    } else {
        let (qn, msn) = match opcode {
            Opcode::ReadRequest | Opcode::AtomicRequest => (1u32, &mut numbers.read),
            Opcode::AtomicResponse => (3, &mut numbers.atomic),
            Opcode::Terminate => (2, &mut 1),
            _ => (0, &mut numbers.send),
        };
        out.extend(qn.to_be_bytes());
        out.extend(msn.to_be_bytes());
        out.extend(at.to_be_bytes());
        *msn = msn.wrapping_add(u32::from(last));
    }
    let mut fill = u8::try_from(input.below(256)).unwrap_or(0);
    if opcode == Opcode::AtomicResponse {
        // What it answers is the oldest of all requests, if anything is.
        out.extend(numbers.request.to_be_bytes());
        numbers.request = numbers.request.wrapping_add(1);
        len = len.saturating_sub(4);
    } else if opcode == Opcode::AtomicRequest {
        fill &= 0xf2;
    }
    let end = out.len().saturating_add(usize::try_from(len).unwrap_or(0));
    out.resize(end, fill);
    if input.one_in(32) {
        let at = input.below(out.len());
        if let Some(octet) = out.get_mut(at) {
            *octet ^= 1;
        }
    }
    out
}
