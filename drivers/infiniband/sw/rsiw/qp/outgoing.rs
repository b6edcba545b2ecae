// SPDX-License-Identifier: GPL-2.0

//! A message on its way out, and the memory it is taken from.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::{
    failure::Failure,
    frame::Writer,
    sgl::SgList,
    sq::Wqe,
    tx::response_failure,
    Qp, //
};
use crate::{
    abi::WcStatus,
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
}

/// The memory that the message being sent is taken from: that of one message at a time.
pub(super) struct Payload {
    /// The elements or octets of a request.
    pub(super) sgl: SgList,
    /// The regions of the elements, or that of a response.
    accesses: KVec<Option<MrAccess<Arc<Mr>>>>,
    /// Whether the accesses are there.
    is_open: bool,
}

impl Payload {
    /// For requests of at most `max_sge` elements or `max_inline` octets.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(max_sge: u32, max_inline: u32) -> Result<Self> {
        let mut accesses = KVec::new();
        for _ in 0..max_sge.max(1) {
            accesses.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            sgl: SgList::new(max_sge, max_inline)?,
            accesses,
            is_open: false,
        })
    }

    /// Most regions that a message may take.
    pub(super) fn width(&self) -> usize {
        self.accesses.len()
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
        self.is_open = false;
        self.accesses.iter_mut().filter_map(Option::take)
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
        let mut left = len;
        for slice in slices {
            left = left.checked_sub(slice.len()).ok_or(EINVAL)?;
            writer.pages(slice)?;
        }
        if left != 0 {
            return Err(EFAULT);
        }
        Ok(())
    }
}

impl Outgoing {
    /// A message of which nothing is sent yet.
    pub(super) fn new(message: Message, origin: Origin) -> Self {
        Self { message, origin }
    }

    /// Checks that the memory may be read and keeps it readable.
    ///
    /// # Errors
    ///
    /// The request completes in error, or the peer's Read is refused.
    pub(super) fn open(&self, qp: &Arc<Qp>, payload: &mut Payload) -> Result<(), Failure> {
        if payload.is_open {
            return Ok(());
        }
        match &self.origin {
            Origin::Request(wqe, token) if !wqe.is_inline => {
                let sges = payload.sgl.elements();
                for (slot, sge) in payload.accesses.iter_mut().zip(sges) {
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
                if let Some(first) = payload.accesses.first_mut() {
                    *first = Some(access);
                }
            }
            _ => {}
        }
        payload.is_open = true;
        Ok(())
    }

    /// Elements that the payload may lie in.
    pub(super) fn elements(&self, payload: &Payload) -> usize {
        match &self.origin {
            Origin::Request(wqe, _) if !wqe.is_inline => payload.sgl.elements().len(),
            Origin::Response(_) => 1,
            _ => 0,
        }
    }

    /// Octets of the payload that have to be copied.
    pub(super) fn inline_len(&self) -> usize {
        match &self.origin {
            Origin::Request(wqe, _) if wqe.is_inline => wqe.len as usize, // CAST: small.
            _ => 0,
        }
    }

    /// Adds the payload of `frame`.
    ///
    /// # Errors
    ///
    /// Those of the batch; there are none if it has the room.
    pub(super) fn write_payload<K>(
        &self,
        payload: &Payload,
        writer: &mut Writer<'_, K>,
        frame: &Frame,
    ) -> Result {
        let len = u32::from(frame.payload);
        if len == 0 {
            return Ok(());
        }
        match &self.origin {
            Origin::Request(wqe, _) if wqe.is_inline => {
                // CAST: 32 bits fit.
                let octets = payload.sgl.octets(frame.offset as usize, len as usize);
                writer.bytes(octets.ok_or(EINVAL)?)
            }
            Origin::Request(..) => {
                for piece in payload.sgl.pieces(frame.offset, len) {
                    payload.write_slices(writer, piece.index, piece.at, piece.len)?;
                }
                Ok(())
            }
            Origin::Response(_) => payload.write_slices(writer, 0, frame.offset, len),
            Origin::Bare => Err(EINVAL),
        }
    }
}
