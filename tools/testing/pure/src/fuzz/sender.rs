// SPDX-License-Identifier: GPL-2.0

//! The sender in surroundings that the input chooses.

use super::message_len;
use crate::proto::failure::Fault;
use crate::proto::message::Rtr;
use crate::proto::request::{Local, Operation, OperationType, Sink};
use crate::proto::sender::{OpenError, PayloadError};
use crate::proto::state::QpState;
use crate::support::rng::{Choices, Input};
use crate::support::sending::{params, Faults, Posted, Sending};
use crate::wire::atomic::{AtomicOperation, AtomicRequest, WORD_LEN};
use crate::wire::ddp::{Stag, TaggedOffset};
use crate::wire::rdmap::{ImmediateData, ReadRequest};
use crate::wire::terminate::TermError;

/// A sender; the input chooses requests, the peer's Reads, what TCP takes, and what fails. What is
/// sent is always good; each request ends once, in order; what can be sent is.
pub fn sender(data: &[u8]) {
    let mut input = Input(data);
    let how = input.below(64);
    let mut agreed = params(u16::from(how & 3 != 0).saturating_mul(2));
    agreed.crc = how & 4 != 0;
    agreed.send_markers = how & 8 != 0;
    agreed.wait_for_fpdu = how & 16 != 0;
    agreed.send_rtr = match how & 3 {
        1 => Some(Rtr::Read),
        2 => Some(Rtr::Write),
        _ => None,
    };
    let mut sending = Sending::new(&agreed, segment_size(&mut input), 6);
    if how & 32 != 0 && agreed.ord > 0 {
        sending.await_placement();
    }
    while !input.0.is_empty() {
        match input.below(20) {
            0..=7 => sending.post(posted(&mut input)),
            8 if input.one_in(2) => sending.peer_changes(AtomicRequest {
                id: u32::try_from(input.bits()).unwrap_or(0),
                stag: Stag(3),
                to: TaggedOffset(input.bits()),
                operation: operation(&mut input),
            }),
            8 | 9 => sending.peer_reads(ReadRequest {
                sink_stag: Stag(2),
                len: message_len(&mut input),
                ..ReadRequest::default()
            }),
            10 => {
                sending.answer();
            }
            11 => sending.queue.heard = true,
            12 => sending.tcp.segment = segment_size(&mut input),
            13 => {
                sending.tcp.space = message_len(&mut input) as usize;
                sending.tcp.takes = message_len(&mut input) as usize;
            }
            14 => {
                sending.tcp.heal();
                match input.below(16) {
                    0 => sending.tcp.room = message_len(&mut input) as usize,
                    1 => sending.tcp.breaks_at = message_len(&mut input) as usize,
                    2 => sending.tcp.refuses = true,
                    // Where the next marker is due depends on what was forgotten.
                    3 => sending.tcp.keeps = !agreed.send_markers,
                    4 => sending.tcp.is_hasty = true,
                    5 => {
                        sending.tcp.is_hasty = true;
                        sending.tcp.room = 0;
                    }
                    _ => {}
                }
            }
            15 => {
                let which = input.below(32);
                sending.queue.faults = Faults {
                    open: match which {
                        0 => Some(OpenError::Denied(TermError::RemoteStag)),
                        1 => Some(OpenError::Defect("fuzzed")),
                        _ => None,
                    },
                    source: (which == 2).then_some(TermError::RemoteStag),
                    payload: (which == 3).then_some(PayloadError::NoMemory),
                    short: which == 4,
                    sink: which == 5,
                    local: (which == 6).then_some(Fault::Bind),
                    later: which == 7,
                };
            }
            16 if sending.state.sends() => {
                let states = [
                    QpState::Draining,
                    QpState::Closing,
                    QpState::Rts,
                    QpState::Rts,
                ];
                let state = states.get(input.below(4));
                sending.state = state.copied().unwrap_or(QpState::Rts);
            }
            _ => sending.run(),
        }
    }
    sending.settle();
}

fn segment_size(input: &mut Input<'_>) -> u32 {
    let n = u32::try_from(input.below(256)).unwrap_or(0);
    n.saturating_mul(24).saturating_add(120)
}

fn operation(input: &mut Input<'_>) -> AtomicOperation {
    let (data, mask) = (input.bits(), input.bits());
    match input.one_in(2) {
        true => AtomicOperation::FetchAdd { add: data, mask },
        false => AtomicOperation::CmpSwap {
            swap: data,
            swap_mask: mask,
            compare: !data,
            compare_mask: !mask,
        },
    }
}

fn posted(input: &mut Input<'_>) -> Posted {
    let stag = Stag(u32::from(!input.one_in(16)));
    let to = TaggedOffset(input.bits());
    let len = message_len(input);
    let (operation, len) = match input.below(11) {
        0..=2 => {
            let invalidate = input.one_in(4).then_some(stag);
            (Operation::Send { invalidate }, len)
        }
        3 | 4 => {
            let immediate = input.one_in(4).then(|| ImmediateData(to.0.to_be_bytes()));
            (
                Operation::Write {
                    stag,
                    to,
                    immediate,
                },
                len,
            )
        }
        5 | 6 => {
            let invalidate = input.one_in(4);
            (
                Operation::Read {
                    stag,
                    to,
                    invalidate,
                },
                len,
            )
        }
        7 => (Operation::Local(Local::Invalidate { stag }), 0),
        8 => (Operation::Local(Local::Register), 0),
        9 => {
            let kind = OperationType::FetchAdd;
            // Too long for a result, at times.
            let len = WORD_LEN.saturating_add(u32::from(input.one_in(16)));
            (Operation::Atomic { stag, to, kind }, len)
        }
        _ => (Operation::Local(Local::Bind), 0),
    };
    let flags = input.below(32);
    let operands = Some(self::operation(input));
    Posted {
        operation: match flags {
            0 => Err(Fault::LocalOperation),
            _ => Ok(operation),
        },
        fence: flags & 1 != 0,
        solicited: flags & 2 != 0,
        sink: (flags & 4 == 0 || len > 0).then_some(Sink { stag, to, len }),
        operands,
        ..Posted::new(operation, len)
    }
}
