// SPDX-License-Identifier: GPL-2.0

//! The memory that an outgoing message is read from.
//!
//! Context: process, under the QP's mutex.
#![forbid(unsafe_code)]

use super::identity::QpIdentity;
use super::memory::{
    remote,
    CachedRegion,
    Purpose, //
};
use super::sq::Operands;
use crate::ffi::mm::page::PageSlice;
use crate::mr::access::{
    MrError,
    Slices, //
};
use crate::num::Length;
use crate::proto::frame::Writer;
use crate::proto::sender::{
    OpenError,
    PayloadError,
    SourceOf, //
};
use crate::proto::transport::{
    Piece,
    Transport, //
};
use crate::queue::SgList;
use crate::wire::ddp::Stag;
use crate::wire::rdmap::ReadRequest;
use kernel::num::casts::u32_as_usize;
use kernel::prelude::*;

pub(super) struct Source {
    /// The elements or octets of the request that was peeked at last.
    pub(super) sgl: SgList,
    /// The list holds octets instead of elements.
    pub(super) is_inline: bool,
    /// What the request has besides its elements.
    pub(super) operands: Option<Operands>,
    /// The message answers a Read of the peer; the list is not used.
    is_response: bool,
    /// The regions of the elements, or the one of a response. Each stays open for later messages
    /// until another one takes its place.
    accesses: KVec<CachedRegion>,
}

impl Source {
    /// Makes room for messages of at most `max_sge` elements or `max_inline` octets.
    pub(super) fn new(max_sge: u32, max_inline: u32) -> Result<Self> {
        let width = max_sge.max(1);
        let mut accesses = KVec::with_capacity(u32_as_usize(width), GFP_KERNEL_ACCOUNT)?;
        for _ in 0..width {
            accesses
                .push_within_capacity(CachedRegion::NONE)
                .map_err(|_| ENOMEM)?;
        }
        Ok(Self {
            sgl: SgList::new(max_sge, max_inline)?,
            is_inline: false,
            operands: None,
            is_response: false,
            accesses,
        })
    }

    /// Opens what a message is read from, or returns why it may not be read.
    #[inline(always)]
    pub(super) fn open(&mut self, id: &QpIdentity, of: SourceOf<'_>) -> Result<(), OpenError> {
        match of {
            SourceOf::Request => self.open_request(id),
            SourceOf::Response(request) => self.open_response(id, request),
        }
    }

    fn open_request(&mut self, id: &QpIdentity) -> Result<(), OpenError> {
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
                let (stag, addr) = (Stag(sge.lkey), sge.laddr);
                let opened = slot.open(id, Purpose::Request, stag, addr, sge.length);
                opened.map_err(denied)?;
            }
        }
        Ok(())
    }

    fn open_response(&mut self, id: &QpIdentity, request: &ReadRequest) -> Result<(), OpenError> {
        self.is_response = true;
        let (stag, to) = (request.source_stag, request.source_to.0);
        let slot = self.accesses.first_mut();
        let slot = slot.ok_or(OpenError::Defect("no room for the access of a response"))?;
        let opened = slot.open(id, Purpose::Answer, stag, to, request.len);
        opened.map(|_| ()).map_err(denied)
    }

    /// Lets go of all memory.
    pub(super) fn close(&mut self) {
        for access in &mut self.accesses {
            access.close();
        }
    }

    /// Writes `len` octets of the message from `offset` on. Fails if the message is shorter, if its
    /// memory is not there, or if the batch is full.
    pub(super) fn write<T>(
        &self,
        offset: u32,
        len: u32,
        writer: &mut Writer<'_, T>,
    ) -> Result<(), PayloadError>
    where
        T: Transport,
        for<'a> PageSlice<'a>: Piece<T>,
    {
        if self.is_inline && !self.is_response {
            let octets = self.sgl.octets(u32_as_usize(offset), u32_as_usize(len));
            return Ok(writer.put(octets.ok_or(PayloadError::Broken)?)?);
        }
        if offset == 0 {
            if let Some(message) = self.in_one_page(len) {
                return Ok(writer.put(message)?);
            }
        }
        if self.is_response {
            return self.write_slices(writer, 0, offset, len);
        }
        for piece in self.sgl.pieces(offset, len) {
            self.write_slices(writer, piece.index, piece.at, piece.len)?;
        }
        Ok(())
    }

    /// Returns whether there is memory for all of the `len` octets of the message from `offset` on.
    /// Memory of a process is always there; slices of kernel memory end early at an address that is
    /// not memory.
    #[inline]
    pub(super) fn is_whole(&self, offset: u32, len: u32) -> bool {
        let is_there = |index: usize, at: u32, len: u32| {
            let access = self.accesses.get(index).and_then(CachedRegion::access);
            access.is_some_and(|access| {
                access.is_pinned()
                    || access.slices(at, len).is_ok_and(|slices| {
                        slices.fold(0u32, |sum, slice| sum.saturating_add(slice.len())) == len
                    })
            })
        };
        if len == 0 || (self.is_inline && !self.is_response) {
            return true;
        }
        if self.is_response {
            return is_there(0, offset, len);
        }
        self.sgl
            .pieces(offset, len)
            .all(|piece| is_there(piece.index, piece.at, piece.len))
    }

    /// Returns the first `len` octets of the message if its first element, or the response, holds
    /// all of them and they lie in one page of a process. That is so for most short messages.
    #[inline]
    pub(super) fn in_one_page(&self, len: u32) -> Option<PageSlice<'_>> {
        // An element without octets is not opened: its access may be that of an earlier message.
        let first = self.sgl.elements().first();
        if !self.is_response && first.is_none_or(|element| element.length != len) {
            return None;
        }
        let access = self.accesses.first().and_then(CachedRegion::access)?;
        let is_all = access.len() == len;
        is_all.then(|| access.in_one_page())?
    }

    /// Returns the `len` octets of the message from `offset` on, if they came with the request.
    pub(super) fn octets(&self, offset: u32, len: u32) -> Option<&[u8]> {
        if !self.is_inline || self.is_response {
            return None;
        }
        self.sgl.octets(u32_as_usize(offset), u32_as_usize(len))
    }

    /// Returns the memory of the message from `offset` on: `len` octets, or fewer if the element
    /// ends before. Returns `EINVAL` if the message is shorter.
    #[inline]
    pub(super) fn slices(&self, offset: u32, len: u32) -> Result<Slices<'_>> {
        let (index, at, len) = if self.is_response {
            (0, offset, len)
        } else {
            let piece = self.sgl.pieces(offset, len).next().ok_or(EINVAL)?;
            (piece.index, piece.at, piece.len)
        };
        let access = self.accesses.get(index).and_then(CachedRegion::access);
        access.ok_or(EINVAL)?.slices(at, len).map_err(|_| EINVAL)
    }

    fn write_slices<T>(
        &self,
        writer: &mut Writer<'_, T>,
        index: usize,
        at: u32,
        len: u32,
    ) -> Result<(), PayloadError>
    where
        T: Transport,
        for<'a> PageSlice<'a>: Piece<T>,
    {
        let access = self.accesses.get(index).and_then(CachedRegion::access);
        let slices = access.ok_or(PayloadError::Broken)?.slices(at, len);
        let mut left = len;
        for slice in slices.map_err(|_| PayloadError::Broken)? {
            left = left.try_sub(slice.len())?;
            writer.put(slice)?;
        }
        // Slices of kernel memory end early at an address that is not memory.
        if left != 0 {
            return Err(PayloadError::NoMemory);
        }
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn denied(error: MrError) -> OpenError {
    OpenError::Denied(remote(error))
}
