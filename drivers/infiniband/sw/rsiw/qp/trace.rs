// SPDX-License-Identifier: GPL-2.0

//! Trace events of a queue pair.
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::identity::QpIdentity;
use crate::{
    ffi::rsiw::trace,
    mr::{
        access::{
            Access,
            MrError, //
        },
        By, //
    },
    proto::{
        deframer::FPDU_FRONT,
        drain::Stop,
        schedule::Actor,
        state::{
            QpEvent,
            QpState, //
        },
        tx::{
            Frame,
            Message, //
        },
    },
    wire::{
        ddp::{
            Header,
            Stag,
            UNTAGGED_LEN, //
        },
        rdmap::{
            Control,
            Opcode, //
        },
        terminate::{
            self,
            Terminate,
            CONTROL_LEN,
            MAX_ULPDU, //
        },
    },
};
use kernel::prelude::*;

/// Where the quote begins in a Terminate's ULPDU: length and headers of the segment at fault.
const QUOTE_AT: usize = UNTAGGED_LEN + CONTROL_LEN;

impl QpIdentity {
    #[inline(always)]
    pub(super) fn trace_state(&self, event: &QpEvent, from: QpState, to: QpState) {
        let (event, from, to) = (event.name(), from.name(), to.name());
        trace::qp_state(|| (self.dev.handle(), self.num().0, event, from, to));
    }

    /// Traces who sends upon a doorbell.
    #[inline(always)]
    pub(super) fn trace_doorbell(&self, actor: Actor) {
        trace::doorbell(|| (self.dev.handle(), self.num().0, actor.name()));
    }

    /// Traces that TCP was given a batch of `octets`, and did not take the last `left` of them.
    #[inline(always)]
    pub(super) fn trace_batch(&self, octets: usize, left: usize, sent: Result<usize>) {
        trace::batch(|| {
            let number = |n| u32::try_from(n).unwrap_or(u32::MAX);
            let error = sent.map_or_else(|e| e.to_errno(), |_| 0);
            let (dev, num) = (self.dev.handle(), self.num().0);
            (dev, num, number(octets), number(left), error)
        });
    }

    /// Traces that the QP at the other end, on this host, was asked to take a segment.
    #[inline(always)]
    pub(super) fn trace_direct<'a>(
        &self,
        peer: impl FnOnce() -> &'a Self,
        answer: &Result<bool, Stop>,
    ) {
        trace::direct(|| {
            let (dev, num) = (self.dev.handle(), self.num().0);
            (dev, num, peer().num().0, Stop::name_of(answer))
        });
    }

    /// Traces the FPDU of `frame` and those behind it that are alike, `count` in all.
    #[inline(always)]
    pub(super) fn trace_fpdus(&self, message: &Message, frame: &Frame, count: u32) {
        if trace::is_fpdu_tx_on() {
            self.trace_each_fpdu(message, *frame, count);
        }
    }

    #[cold]
    #[inline(never)]
    fn trace_each_fpdu(&self, message: &Message, mut frame: Frame, count: u32) {
        for _ in 0..count {
            self.trace_fpdu(message, &frame);
            frame = frame.next();
        }
    }

    fn trace_fpdu(&self, message: &Message, frame: &Frame) {
        trace::fpdu_tx(|| {
            let opcode = Opcode::name_of(Some(message.kind().opcode()));
            let (msn, payload) = (message.msn().0, frame.payload.into());
            let (dev, num) = (self.dev.handle(), self.num().0);
            (dev, num, opcode, msn, frame.offset, payload, frame.last)
        });
    }

    /// Traces a Terminate that was put into the batch.
    #[inline(always)]
    pub(super) fn trace_terminate(&self, message: &Terminate) {
        trace::terminate_tx(|event| {
            let mut ulpdu = [0; MAX_ULPDU];
            let len = message.emit(&mut ulpdu).into();
            let quote = ulpdu.get(QUOTE_AT..len).unwrap_or(&[]);
            event.emit(self.dev.handle(), self.num().0, message.error.code(), quote);
        });
    }

    /// Traces the ULPDU that a train took in last; `front` returns the first octets of its FPDU.
    #[inline(always)]
    pub(super) fn trace_train(&self, front: impl FnOnce() -> Option<[u8; FPDU_FRONT]>) {
        if trace::is_ulpdu_rx_on() {
            self.trace_front(front());
        }
    }

    #[cold]
    #[inline(never)]
    fn trace_front(&self, front: Option<[u8; FPDU_FRONT]>) {
        if let Some(([hi, lo], head)) = front.as_ref().and_then(|front| front.split_first_chunk()) {
            self.trace_ulpdu(head, u16::from_be_bytes([*hi, *lo]));
        }
    }

    /// Traces a received ULPDU of `len` octets that begins with `head`.
    #[inline(always)]
    pub(super) fn trace_ulpdu(&self, head: &[u8], len: u16) {
        self.trace_terminate_received(head);
        trace::fpdu_rx(|| {
            let (dev, num) = (self.dev.handle(), self.num().0);
            let Some((header, _)) = Header::parse(head) else {
                return (dev, num, c"cut", len.into(), false, 0, 0, 0, 0);
            };
            let opcode = Opcode::name_of(Control(header.rdmap()).opcode());
            let last = header.control().last();
            let (stag, to, msn, mo) = match header {
                Header::Tagged(h) => (h.stag.get(), h.to.get(), 0, 0),
                Header::Untagged(h) => (h.invalidate.get(), 0, h.msn.get(), h.mo.get()),
            };
            (dev, num, opcode, len.into(), last, stag, to, msn, mo)
        });
    }

    /// Traces the received ULPDU that begins with `head` if it is a Terminate.
    #[inline(always)]
    fn trace_terminate_received(&self, head: &[u8]) {
        trace::terminate_rx(|event| {
            let code = match Header::parse(head) {
                Some((header, payload))
                    if Control(header.rdmap()).opcode() == Some(Opcode::Terminate) =>
                {
                    terminate::Received::parse(payload).map(|received| received.code)
                }
                _ => None,
            };
            if let Some(code) = code {
                let quote = head.get(QUOTE_AT..).unwrap_or(&[]);
                event.emit(self.dev.handle(), self.num().0, code, quote);
            }
        });
    }

    #[cold]
    pub(super) fn trace_refused(&self, want: Access, why: MrError, at: (Stag, u64), len: u32) {
        let (stag, addr) = at;
        trace::refused(|| {
            let (dev, num) = (self.dev.handle(), self.num().0);
            (dev, num, want.name(), why.name(), stag.0, addr, len)
        });
    }

    /// Traces the attempt to invalidate an STag.
    #[inline(always)]
    pub(super) fn trace_invalidate(
        &self,
        stag: Stag,
        by: By,
        result: core::result::Result<(), MrError>,
    ) {
        trace::invalidate(|| {
            let by: &CStr = match by {
                By::Peer => c"peer",
                By::Consumer => c"consumer",
            };
            let result = result.map_or_else(MrError::name, |()| c"done");
            (self.dev.handle(), self.num().0, stag.0, by, result)
        });
    }
}
