// SPDX-License-Identifier: GPL-2.0

//! Registered memory, in vectors or imagined.

use crate::proto::request::Sink;
use crate::wire::atomic::{AtomicRequest, WORD_LEN};
use crate::wire::ddp::TaggedOffset;
use crate::wire::rdmap::ReadRequest;
use crate::wire::terminate::TermError;
use std::collections::BTreeMap;

/// The octets of a message.
#[derive(Clone, Debug)]
pub(crate) enum Octets {
    /// So many, which are their offsets.
    Offsets(u32),
    These(Vec<u8>),
}

impl Octets {
    pub(super) fn len(&self) -> u32 {
        match self {
            Octets::Offsets(len) => *len,
            Octets::These(octets) => octets.len() as u32,
        }
    }

    pub(super) fn get(&self, offset: u32, len: u32) -> Vec<u8> {
        let end = offset.checked_add(len).expect("inside");
        assert!(end <= self.len(), "{offset} {len} of {}", self.len());
        match self {
            Octets::Offsets(_) => (offset..end).map(|n| n as u8).collect(),
            Octets::These(octets) => octets[offset as usize..end as usize].to_vec(),
        }
    }
}

/// Registered memory.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) base: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) remote_read: bool,
    pub(crate) remote_write: bool,
    pub(crate) remote_atomic: bool,
}

impl Region {
    /// The word at `to`, whose address is its offset.
    pub(super) fn word(
        &mut self,
        to: TaggedOffset,
    ) -> Result<&mut [u8; WORD_LEN as usize], TermError> {
        if !self.remote_atomic {
            return Err(TermError::RemoteAccess);
        }
        let range = self.range(to, WORD_LEN);
        let range = range.ok_or(TermError::RemoteBounds)?;
        if to.0 % u64::from(WORD_LEN) != 0 {
            return Err(TermError::CatastrophicStream);
        }
        Ok(self.bytes[range].first_chunk_mut().expect("a word"))
    }

    /// The octets that a peer names.
    pub(super) fn range(&self, to: TaggedOffset, len: u32) -> Option<std::ops::Range<usize>> {
        let start = to.0.checked_sub(self.base)?;
        let end = start.checked_add(len.into())?;
        (end <= self.bytes.len() as u64).then_some(start as usize..end as usize)
    }
}

/// What there is of it.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Whatever is asked for.
    Imagined,
    Regions(BTreeMap<u32, Region>),
}

impl Memory {
    /// The regions; some memory that is not imagined.
    pub(super) fn regions(&self) -> &BTreeMap<u32, Region> {
        match self {
            Memory::Imagined => panic!("no regions"),
            Memory::Regions(regions) => regions,
        }
    }

    /// The same, to be changed.
    pub(super) fn regions_mut(&mut self) -> &mut BTreeMap<u32, Region> {
        match self {
            Memory::Imagined => panic!("no regions"),
            Memory::Regions(regions) => regions,
        }
    }

    /// Whether this side may write all of `sink`.
    pub(super) fn may_write(&self, sink: &Sink) -> bool {
        match self {
            Memory::Imagined => true,
            Memory::Regions(regions) => {
                let region = regions.get(&sink.stag.0);
                region.is_some_and(|region| region.range(sink.to, sink.len).is_some())
            }
        }
    }

    /// What a Read of the peer brings.
    pub(super) fn source(&self, request: &ReadRequest) -> Result<Octets, TermError> {
        let Memory::Regions(regions) = self else {
            return Ok(Octets::Offsets(request.len));
        };
        let region = regions.get(&request.source_stag.0);
        let region = region.ok_or(TermError::RemoteStag)?;
        let range = region.range(request.source_to, request.len);
        let range = range.ok_or(TermError::RemoteBounds)?;
        Ok(Octets::These(region.bytes[range].to_vec()))
    }

    /// Carries out an Atomic Operation; returns what was in the word before.
    pub(super) fn change(&mut self, request: &AtomicRequest) -> Result<u64, TermError> {
        let Memory::Regions(regions) = self else {
            return Ok(original(request));
        };
        let region = regions.get_mut(&request.stag.0);
        let word = region.ok_or(TermError::RemoteStag)?.word(request.to)?;
        let original = u64::from_ne_bytes(*word);
        *word = request.operation.apply(original).to_ne_bytes();
        Ok(original)
    }
}

/// What was in a word before, as each operation on imagined memory finds it.
pub(crate) const fn original(request: &AtomicRequest) -> u64 {
    request.to.0.rotate_left(8) ^ request.id as u64
}
