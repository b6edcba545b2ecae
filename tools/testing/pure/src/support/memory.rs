// SPDX-License-Identifier: GPL-2.0

//! Registered memory, in vectors or imagined.

use crate::proto::request::Sink;
use crate::proto::segment::Target;
use crate::wire::atomic::{AtomicRequest, WORD_LEN};
use crate::wire::ddp::{Stag, TaggedOffset};
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

    /// Writes there, if all of it is in the region.
    fn write(&mut self, to: TaggedOffset, octets: &[u8]) -> Option<()> {
        let range = self.range(to, octets.len() as u32)?;
        self.bytes[range].copy_from_slice(octets);
        Some(())
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
    pub(super) fn is_imagined(&self) -> bool {
        matches!(self, Memory::Imagined)
    }

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

    /// Writes what a Write of the peer brings.
    pub(super) fn write(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        octets: &[u8],
    ) -> Result<(), TermError> {
        let Memory::Regions(regions) = self else {
            return Ok(());
        };
        let region = regions.get_mut(&stag.0).filter(|r| r.remote_write);
        let region = region.ok_or(TermError::TaggedStag)?;
        region.write(to, octets).ok_or(TermError::TaggedBounds)
    }

    /// Writes what was asked for.
    pub(super) fn fill(
        &mut self,
        stag: Stag,
        to: TaggedOffset,
        octets: &[u8],
    ) -> Result<(), TermError> {
        let Memory::Regions(regions) = self else {
            return Ok(());
        };
        let region = regions.get_mut(&stag.0);
        let written = region.and_then(|region| region.write(to, octets));
        written.ok_or(TermError::LocalCatastrophic)
    }

    /// How many octets of a train, up to `most`, are in the region, as the driver finds out before it
    /// begins.
    pub(super) fn limit(&self, target: Target, most: u32) -> u32 {
        let (Memory::Regions(regions), Target::Write(stag, to) | Target::Response(stag, to)) =
            (self, target)
        else {
            return most;
        };
        let is_write = matches!(target, Target::Write(..));
        let region = regions.get(&stag.0);
        let region = region.filter(|r| !is_write || r.remote_write);
        let fits = |n: &u32| region.is_some_and(|r| r.range(to, *n).is_some());
        (1..=most).take_while(fits).last().unwrap_or(0)
    }

    /// Takes a region away; returns whether there was one.
    pub(super) fn invalidate(&mut self, stag: Stag) -> bool {
        match self {
            Memory::Imagined => true,
            Memory::Regions(regions) => regions.remove(&stag.0).is_some(),
        }
    }

    /// Whether the peer may read what it asks for.
    pub(super) fn may_read(&self, request: &ReadRequest) -> Result<(), TermError> {
        let Memory::Regions(regions) = self else {
            return Ok(());
        };
        if request.len == 0 {
            return Ok(());
        }
        let region = regions.get(&request.source_stag.0);
        let region = region.ok_or(TermError::RemoteStag)?;
        let range = region.range(request.source_to, request.len);
        range.ok_or(TermError::RemoteBounds)?;
        let allowed = region.remote_read.then_some(());
        allowed.ok_or(TermError::RemoteAccess)
    }

    /// Whether the peer may change the word that it asks for.
    pub(super) fn may_change(&mut self, request: &AtomicRequest) -> Result<(), TermError> {
        let Memory::Regions(regions) = self else {
            return Ok(());
        };
        let region = regions.get_mut(&request.stag.0);
        region.ok_or(TermError::RemoteStag)?.word(request.to)?;
        Ok(())
    }
}

/// What was in a word before, as each operation on imagined memory finds it.
pub(crate) const fn original(request: &AtomicRequest) -> u64 {
    request.to.0.rotate_left(8) ^ request.id as u64
}
