// SPDX-License-Identifier: GPL-2.0

//! A message on its way out, and the memory it is taken from.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::{
    failure::{
        defect,
        Failure, //
    },
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
    num::casts::u32_as_usize,
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
    /// The elements or octets of a request.
    pub(super) sgl: SgList,
    /// The regions of the elements, or that of a response.
    accesses: KVec<Option<MrAccess<Arc<Mr>>>>,
    /// Whether the accesses are there.
    is_open: bool,
}

impl Outgoing {
    /// No message; there will be ones of at most `max_sge` elements or `max_inline` octets.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(max_sge: u32, max_inline: u32) -> Result<Self> {
        let width = max_sge.max(1);
        let mut accesses = KVec::with_capacity(u32_as_usize(width), GFP_KERNEL)?;
        for _ in 0..width {
            accesses.push_within_capacity(None).map_err(|_| ENOMEM)?;
        }
        Ok(Self {
            message: Message::none(),
            origin: Origin::Bare,
            sgl: SgList::new(max_sge, max_inline)?,
            accesses,
            is_open: false,
        })
    }

    /// Becomes a message of which nothing is sent yet, and whose elements are there already.
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
            Origin::Request(wqe, token) if !wqe.is_inline => {
                let sges = self.sgl.elements();
                if sges.len() > self.accesses.len() {
                    return Err(defect("no room for the accesses of a request").into());
                }
                for (slot, sge) in self.accesses.iter_mut().zip(sges) {
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
                let first = self.accesses.first_mut();
                *first.ok_or_else(|| defect("no room for an access"))? = Some(access);
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

    /// Adds the payload of `frame`.
    ///
    /// # Errors
    ///
    /// Those of the batch; there are none if it has the room. `EFAULT` if there is no memory any more.
    pub(super) fn write_payload(&self, writer: &mut Writer<'_>, frame: &Frame) -> Result {
        let len = u32::from(frame.payload);
        if len == 0 {
            return Ok(());
        }
        match &self.origin {
            Origin::Request(wqe, _) if wqe.is_inline => {
                let octets = self
                    .sgl
                    .octets(u32_as_usize(frame.offset), u32_as_usize(len));
                writer.bytes(octets.ok_or(EINVAL)?)
            }
            Origin::Request(..) => {
                for piece in self.sgl.pieces(frame.offset, len) {
                    self.write_slices(writer, piece.index, piece.at, piece.len)?;
                }
                Ok(())
            }
            Origin::Response(_) => self.write_slices(writer, 0, frame.offset, len),
            Origin::Bare => Err(EINVAL),
        }
    }

    fn write_slices(&self, writer: &mut Writer<'_>, index: usize, at: u32, len: u32) -> Result {
        let access = self.accesses.get(index).and_then(Option::as_ref);
        let slices = access.ok_or(EINVAL)?.slices(at, len).map_err(|_| EINVAL)?;
        let mut left = len;
        for slice in slices {
            left = left.checked_sub(slice.len()).ok_or(EINVAL)?;
            writer.pages(slice)?;
        }
        // Memory of the kernel ends where its owner named what is none.
        if left != 0 {
            return Err(EFAULT);
        }
        Ok(())
    }
}
