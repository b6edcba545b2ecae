// SPDX-License-Identifier: GPL-2.0

//! The memory that a message on its way out is taken from.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::{
    failure::remote,
    link::TcpLink,
    Qp, //
};
use crate::{
    ffi::rdma::wr::Local,
    mr::{
        access::{
            Access,
            MrAccess,
            MrError, //
        },
        Mr,
    },
    proto::{
        failure::Fault,
        frame::Writer,
        sender::{
            OpenError,
            PayloadError, //
        },
    },
    queue::sgl::SgList,
    wire::{
        ddp::Stag,
        rdmap::ReadRequest,
        terminate::TermError, //
    },
};
use kernel::{
    num::casts::u32_as_usize,
    prelude::*,
    sync::Arc, //
};

/// The memory of one message.
pub(super) struct Source {
    /// The elements or octets of the request that was peeked at last.
    pub(super) sgl: SgList,
    /// The list holds octets.
    pub(super) is_inline: bool,
    /// What the request registers or binds, if it does.
    pub(super) local: Option<Local>,
    /// A Read of the peer is answered; the list is not used.
    is_response: bool,
    /// The regions of the elements, or that of a response, and those of messages before as long as
    /// there is no other.
    accesses: KVec<Option<Open>>,
}

/// A region that is kept from its owner.
struct Open {
    stag: Stag,
    want: Access,
    access: MrAccess<Arc<Mr>>,
}

/// Opens `len` octets at `addr` of the region `stag`; if that is the one which `slot` has, with a
/// look at whether it may still be used.
///
/// # Errors
///
/// It may not be used like this.
#[inline]
fn open(
    slot: &mut Option<Open>,
    qp: &Qp,
    stag: Stag,
    want: Access,
    addr: u64,
    len: u32,
) -> Result<(), MrError> {
    let same = slot
        .as_mut()
        .filter(|open| open.stag == stag && open.want == want && !open.access.is_windowed());
    if let Some(open) = same {
        return open.access.move_to(stag, qp.pd.id(), want, addr, len);
    }
    let access = qp.access(stag, want, addr, len)?;
    *slot = Some(Open { stag, want, access });
    Ok(())
}

impl Source {
    /// For messages of at most `max_sge` elements or `max_inline` octets.
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
            sgl: SgList::new(max_sge, max_inline)?,
            is_inline: false,
            local: None,
            is_response: false,
            accesses,
        })
    }

    /// Keeps the memory of the request readable.
    ///
    /// # Errors
    ///
    /// It may not be read.
    pub(super) fn open_request(&mut self, qp: &Qp) -> Result<(), OpenError> {
        self.is_response = false;
        if self.is_inline {
            return Ok(());
        }
        let sges = self.sgl.elements();
        if sges.len() > self.accesses.len() {
            return Err(OpenError::Defect("no room for the accesses of a request"));
        }
        for (slot, sge) in self.accesses.iter_mut().zip(sges) {
            if sge.length > 0 {
                let (stag, want) = (Stag(sge.lkey), Access::LOCAL_READ);
                let opened = open(slot, qp, stag, want, sge.laddr, sge.length);
                opened.map_err(|_| OpenError::Fault(Fault::LocalProtection))?;
            }
        }
        Ok(())
    }

    /// Keeps what the peer wants to read readable.
    ///
    /// # Errors
    ///
    /// How the peer is told that it may not.
    pub(super) fn open_source(&mut self, qp: &Qp, request: &ReadRequest) -> Result<(), TermError> {
        self.is_response = true;
        let (stag, to) = (request.source_stag, request.source_to.0);
        let slot = self.accesses.first_mut();
        let slot = slot.ok_or(TermError::LocalCatastrophic)?;
        open(slot, qp, stag, Access::REMOTE_READ, to, request.len).map_err(remote)
    }

    /// Lets go of all memory.
    pub(super) fn close(&mut self) {
        for access in &mut self.accesses {
            *access = None;
        }
    }

    /// Writes `len` octets of the message from `offset` on.
    ///
    /// # Errors
    ///
    /// There are not that many, or those of the batch.
    pub(super) fn write(
        &self,
        offset: u32,
        len: u32,
        writer: &mut Writer<'_, TcpLink<'_>>,
    ) -> Result<(), PayloadError> {
        if self.is_response {
            return self.write_slices(writer, 0, offset, len);
        }
        if self.is_inline {
            let octets = self.sgl.octets(u32_as_usize(offset), u32_as_usize(len));
            return Ok(writer.put(octets.ok_or(PayloadError::Broken)?)?);
        }
        for piece in self.sgl.pieces(offset, len) {
            self.write_slices(writer, piece.index, piece.at, piece.len)?;
        }
        Ok(())
    }

    fn write_slices(
        &self,
        writer: &mut Writer<'_, TcpLink<'_>>,
        index: usize,
        at: u32,
        len: u32,
    ) -> Result<(), PayloadError> {
        let access = self.accesses.get(index).and_then(Option::as_ref);
        let slices = access.ok_or(PayloadError::Broken)?.access.slices(at, len);
        let mut left = len;
        for slice in slices.map_err(|_| PayloadError::Broken)? {
            left = left.checked_sub(slice.len()).ok_or(PayloadError::Broken)?;
            writer.put(slice)?;
        }
        // Memory of the kernel ends where its owner named what is none.
        if left != 0 {
            return Err(PayloadError::NoMemory);
        }
        Ok(())
    }
}
