// SPDX-License-Identifier: GPL-2.0

//! A message on its way out, and the memory it is taken from.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::{
    failure::Failure,
    frame::Writer,
    rq::pieces,
    sq::{
        Data,
        Wqe, //
    },
    tx::response_failure,
    Qp, //
};
use crate::{
    abi::{
        Sge,
        WcStatus,
        MAX_SGE, //
    },
    mr::{
        access::{
            Access,
            MrAccess, //
        },
        Mr, //
    },
    proto::{
        order::Token,
        reads::IrqEntry,
        tx::{
            Frame,
            Message, //
        },
    },
    wire::{
        ddp::Stag,
        terminate::TermError, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Where a message comes from.
pub(super) enum Origin {
    /// A request of the send queue, which ends when TCP has all of it.
    Request(Wqe, Token),
    /// A Read of the peer.
    Response(IrqEntry),
    /// Headers only.
    Bare,
}

/// A message being sent.
pub(super) struct Outgoing {
    /// How far it is.
    pub(super) message: Message,
    /// Where it comes from.
    pub(super) origin: Origin,
    /// Whether the accesses are there.
    is_open: bool,
    accesses: [Option<MrAccess<Arc<Mr>>>; MAX_SGE],
}

impl Outgoing {
    /// No message.
    pub(super) fn new() -> Self {
        Self {
            message: Message::none(),
            origin: Origin::Bare,
            is_open: false,
            accesses: [const { None }; MAX_SGE],
        }
    }

    /// Becomes a message of which nothing is sent yet.
    pub(super) fn begin(&mut self, message: Message, origin: Origin) {
        self.message = message;
        self.origin = origin;
        self.is_open = false;
    }

    /// Checks that the memory may be read and keeps it readable.
    ///
    /// # Errors
    ///
    /// The request completes in error, or the peer's Read is refused.
    pub(super) fn open(&mut self, qp: &Arc<Qp>) -> Result<(), Failure> {
        if self.is_open {
            return Ok(());
        }
        match &self.origin {
            Origin::Request(wqe, token) => {
                for (slot, sge) in self.accesses.iter_mut().zip(wqe.sges()) {
                    if sge.length == 0 {
                        continue;
                    }
                    let access =
                        qp.access(Stag(sge.lkey), Access::LOCAL_READ, sge.laddr, sge.length);
                    *slot = Some(access.map_err(|_| Failure {
                        in_completion: qp.fail_send(*token, WcStatus::LocProtErr),
                        ..TermError::LocalCatastrophic.into()
                    })?);
                }
            }
            Origin::Response(entry) if entry.request.len > 0 => {
                let request = &entry.request;
                let access = qp
                    .access(
                        request.source_stag,
                        Access::REMOTE_READ,
                        request.source_to.0,
                        request.len,
                    )
                    .map_err(|e| response_failure(entry, e, self.message.sent()))?;
                let [first, ..] = &mut self.accesses;
                *first = Some(access);
            }
            _ => {}
        }
        self.is_open = true;
        Ok(())
    }

    /// Lets go of the memory.
    pub(super) fn close(&mut self) {
        for access in &mut self.accesses {
            *access = None;
        }
        self.is_open = false;
    }

    /// Hands the accesses over.
    pub(super) fn take_accesses(&mut self) -> impl Iterator<Item = MrAccess<Arc<Mr>>> + '_ {
        self.accesses.iter_mut().filter_map(Option::take)
    }

    /// Elements that the payload may lie in.
    pub(super) fn elements(&self) -> usize {
        match &self.origin {
            Origin::Request(wqe, _) => wqe.sges().len(),
            Origin::Response(_) => 1,
            Origin::Bare => 0,
        }
    }

    /// Octets of the payload that have to be copied.
    pub(super) fn inline_len(&self) -> usize {
        match &self.origin {
            Origin::Request(
                Wqe {
                    data: Data::Inline(_),
                    len,
                    ..
                },
                _,
            ) => *len as usize, // CAST: small.
            _ => 0,
        }
    }

    /// Adds the payload of `frame`.
    ///
    /// # Errors
    ///
    /// Those of the batch; there are none if it has the room.
    pub(super) fn write_payload<K>(&self, writer: &mut Writer<'_, K>, frame: &Frame) -> Result {
        let len = u32::from(frame.payload);
        if len == 0 {
            return Ok(());
        }
        match &self.origin {
            Origin::Request(
                Wqe {
                    data: Data::Inline(data),
                    ..
                },
                _,
            ) => {
                // CAST: 32 bits fit.
                let at = frame.offset as usize;
                let end = at.checked_add(len as usize).ok_or(EINVAL)?;
                writer.bytes(data.get(at..end).ok_or(EINVAL)?)
            }
            Origin::Request(wqe, _) => self.write_pieces(writer, wqe.sges(), frame.offset, len),
            Origin::Response(_) => self.write_slices(writer, 0, frame.offset, len),
            Origin::Bare => Err(EINVAL),
        }
    }

    fn write_pieces<K>(
        &self,
        writer: &mut Writer<'_, K>,
        sges: &[Sge],
        offset: u32,
        len: u32,
    ) -> Result {
        for piece in pieces(sges, offset, len) {
            self.write_slices(writer, piece.index, piece.at, piece.len)?;
        }
        Ok(())
    }

    fn write_slices<K>(
        &self,
        writer: &mut Writer<'_, K>,
        index: usize,
        at: u32,
        len: u32,
    ) -> Result {
        let access = self.accesses.get(index).and_then(Option::as_ref);
        let slices = access.ok_or(EINVAL)?.slices(at, len).map_err(|_| EINVAL)?;
        for slice in slices {
            writer.pages(slice)?;
        }
        Ok(())
    }
}
