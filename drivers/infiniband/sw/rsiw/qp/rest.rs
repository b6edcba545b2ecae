// SPDX-License-Identifier: GPL-2.0

//! What is left of a chunk of received octets.
//!
//! Context: softirq or process, with the socket's lock held.
#![forbid(unsafe_code)]

use crate::{
    ffi::net::SkbChunk,
    proto::{
        deframer::ByteSource,
        rx::FRONT_LEN, //
    },
    wire::{
        fpdu::LEN_FIELD,
        Short, //
    },
};
use kernel::prelude::*;

/// Octets at the front of an FPDU, up to those of its ULPDU that mostly are enough.
const FPDU_FRONT: usize = LEN_FIELD + FRONT_LEN;

/// The rest of a chunk.
pub(super) struct Rest<'a> {
    chunk: &'a SkbChunk<'a>,
    at: usize,
    len: usize,
    /// Its first octets, which are looked at more than once.
    front: [u8; FPDU_FRONT],
}

impl<'a> Rest<'a> {
    /// What is behind octet `at` of `chunk`.
    ///
    /// # Errors
    ///
    /// Those of reading it; `EINVAL` if the chunk ends in front of `at`.
    pub(super) fn new(chunk: &'a SkbChunk<'a>, at: usize) -> Result<Self> {
        let mut rest = Self {
            chunk,
            at,
            len: chunk.len().checked_sub(at).ok_or(EINVAL)?,
            front: [0; FPDU_FRONT],
        };
        let len = rest.len.min(FPDU_FRONT);
        if let Some(front) = rest.front.get_mut(..len).filter(|front| !front.is_empty()) {
            chunk.copy_to(at, front)?;
        }
        Ok(rest)
    }

    /// The first octets of the FPDU that begins here.
    pub(super) fn front(&self) -> &[u8] {
        &self.front
    }
}

impl ByteSource for Rest<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn copy_to(&self, offset: usize, out: &mut [u8]) -> Result<(), Short> {
        let end = offset.checked_add(out.len()).ok_or(Short)?;
        if end > self.len() {
            return Err(Short);
        }
        if let Some(front) = self.front.get(offset..end) {
            out.copy_from_slice(front);
            return Ok(());
        }
        let at = self.at.checked_add(offset).ok_or(Short)?;
        self.chunk.copy_to(at, out).map_err(|_| Short)
    }
}
