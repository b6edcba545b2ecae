// SPDX-License-Identifier: GPL-2.0

//! Checked access to a region's memory (draft-hilland-rddp-verbs sections 7.4 and 7.6.3).
//!
//! Context: any.
#![forbid(unsafe_code)]

use super::range::RangeError;
use super::{
    Kind,
    Mr,
    PdId, //
};
use crate::ffi::mm::page::PageSlice;
use crate::ffi::rdma::attr::AccessFlags;
use crate::ffi::rdma::{
    kmr,
    umem, //
};
use crate::ffi::sync::gate::{
    GateGuard,
    GatePtr, //
};
use crate::num::Length;
use crate::wire::ddp::Stag;
use core::ops::{
    BitOr,
    Deref, //
};
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

/// A set of rights to a region. Local read comes with every region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access(AccessFlags);

impl Access {
    /// Source of Sends and Writes of this side: granted by every region.
    pub(crate) const LOCAL_READ: Self = Self(AccessFlags::NONE);
    /// Sink of receives and of this side's Reads (T-22).
    pub(crate) const LOCAL_WRITE: Self = Self(AccessFlags::LOCAL_WRITE);
    /// Sink of the peer's Writes.
    pub(crate) const REMOTE_WRITE: Self = Self(AccessFlags::REMOTE_WRITE);
    /// Source of the peer's Reads.
    pub(crate) const REMOTE_READ: Self = Self(AccessFlags::REMOTE_READ);
    /// Target of the peer's Atomic Operations.
    pub(crate) const REMOTE_ATOMIC: Self = Self(AccessFlags::REMOTE_ATOMIC);

    /// Windows may be bound to the region.
    pub(crate) const BIND: Self = Self(AccessFlags::MW_BIND);

    const REMOTE: AccessFlags = Self::REMOTE_WRITE
        .0
        .union(Self::REMOTE_READ.0)
        .union(Self::REMOTE_ATOMIC.0);
    const ALL: AccessFlags = Self::REMOTE.union(Self::LOCAL_WRITE.0).union(Self::BIND.0);

    /// Returns whether a region may have these rights: what the peer may change, this side may, too
    /// (draft-hilland-rddp-verbs figure 18; local read is always granted).
    pub(crate) fn is_legal(self) -> bool {
        self.contains(Self::LOCAL_WRITE) || !self.lets_peer_write()
    }

    /// Returns whether the peer may change the memory.
    pub(crate) fn lets_peer_write(self) -> bool {
        self.contains(Self::REMOTE_WRITE) || self.contains(Self::REMOTE_ATOMIC)
    }

    /// Returns what trace events call a use of memory that needs these rights.
    pub(crate) fn name(self) -> &'static CStr {
        if self.contains(Self::REMOTE_WRITE) {
            c"remote_write"
        } else if self.contains(Self::REMOTE_ATOMIC) {
            c"remote_atomic"
        } else if self.contains(Self::REMOTE_READ) {
            c"remote_read"
        } else if self.contains(Self::LOCAL_WRITE) {
            c"local_write"
        } else {
            c"local_read"
        }
    }

    /// Returns whether the memory may be changed, by either side.
    pub(crate) fn writes(self) -> bool {
        self.contains(Self::LOCAL_WRITE) || self.lets_peer_write()
    }

    /// Returns whether the peer has any right.
    pub(crate) fn is_remote(self) -> bool {
        self.0.common(Self::REMOTE) != AccessFlags::NONE
    }

    /// Returns the rights that `flags` give to a window; `None` if they give the peer no right, or
    /// have unknown flags. Local write means nothing to a window, but programs ask for it as well.
    pub(crate) fn of_window(flags: AccessFlags) -> Option<Self> {
        let rights = Self(flags.common(Self::REMOTE));
        let known = Self::REMOTE
            .union(Self::LOCAL_WRITE.0)
            .union(AccessFlags::ZERO_BASED)
            .union(AccessFlags::OPTIONAL);
        (rights.is_remote() && flags.is_within(known)).then_some(rights)
    }

    /// Returns whether all of `flags` mean something to a fast registration: they are rights, or
    /// flags that a device may ignore.
    pub(crate) fn are_known(flags: AccessFlags) -> bool {
        flags.is_within(Self::ALL.union(AccessFlags::OPTIONAL))
    }

    /// Returns the rights among `flags`.
    pub(crate) fn from_verbs(flags: AccessFlags) -> Self {
        Self(flags.common(Self::ALL))
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.0.contains(other.0)
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0.union(other.0))
    }
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MrError {
    /// There is no such region, its key is another, or it is not valid (any more).
    Invalid,
    /// The region belongs to another protection domain, the window to another queue pair.
    Pd,
    /// The region does not grant the right.
    Access,
    /// The range is not inside the region.
    Bounds,
    /// The range goes beyond the end of the address space.
    Wrap,
    /// Windows are bound to the region, which cannot be invalidated now.
    Bound,
}

impl MrError {
    /// Returns the name in trace events.
    pub(crate) const fn name(self) -> &'static CStr {
        match self {
            Self::Invalid => c"invalid_stag",
            Self::Pd => c"not_associated",
            Self::Access => c"access_rights",
            Self::Bounds => c"bounds",
            Self::Wrap => c"wrap",
            Self::Bound => c"windows_bound",
        }
    }
}

impl From<RangeError> for MrError {
    fn from(e: RangeError) -> Self {
        match e {
            RangeError::Wrap => Self::Wrap,
            RangeError::Outside => Self::Bounds,
        }
    }
}

/// A range of a region that may be used in the way that was asked for, as long as this value lives.
/// Deregistration waits for it, so it must not be held across anything that waits for a peer. It
/// borrows or owns the region, depending on `P`.
///
/// # Invariants
///
/// The region grants the access to the `len` octets from byte `offset` on.
pub(crate) struct MrAccess<P: GatePtr> {
    guard: GateGuard<P>,
    /// The window through which it is used.
    window: Option<GateGuard<P>>,
    /// The protection domain on whose behalf the region is used; `None` if it is used through a
    /// window.
    pd: Option<PdId>,
    offset: u64,
    len: u32,
}

impl<P: GatePtr + Deref<Target = Mr>> MrAccess<P> {
    /// Checks the whole range before anything of it is used (T-8): `len` octets at `addr` of the
    /// region `mr` found by `stag`, on behalf of protection domain `pd`, for `want`. Not to be
    /// called for a length of zero: there is nothing to check then (T-23).
    #[inline(always)]
    pub(crate) fn new(
        mr: P,
        stag: Stag,
        pd: PdId,
        want: Access,
        addr: u64,
        len: u32,
    ) -> Result<Self, MrError> {
        let guard = GateGuard::new(mr).ok_or(MrError::Invalid)?;
        let offset = Mr::check(&guard, stag, pd, want, addr, len)?;
        // INVARIANT: just checked.
        Ok(Self {
            guard,
            window: None,
            pd: Some(pd),
            offset,
            len,
        })
    }

    /// Makes an access through a window, which has rights and users of its own, to `len` octets
    /// from `offset` on of a region. Checks only that the region is valid.
    pub(super) fn within(
        window: GateGuard<P>,
        mr: P,
        offset: u64,
        len: u32,
    ) -> Result<Self, MrError> {
        let guard = GateGuard::new(mr).ok_or(MrError::Invalid)?;
        if !guard.valid.load(Relaxed) {
            return Err(MrError::Invalid);
        }
        // INVARIANT: the window has the right to this part, which the region granted to it.
        Ok(Self {
            guard,
            window: Some(window),
            // Only the region of all kernel memory needs the domain, and it has no windows.
            pd: None,
            offset,
            len,
        })
    }

    /// Moves to another range of the same region, checked as by [`MrAccess::new`]. Nothing has
    /// changed if there is an error.
    #[inline]
    pub(crate) fn move_to(
        &mut self,
        stag: Stag,
        pd: PdId,
        want: Access,
        addr: u64,
        len: u32,
    ) -> Result<(), MrError> {
        // INVARIANT: just checked.
        self.offset = Mr::check(&self.guard, stag, pd, want, addr, len)?;
        self.len = len;
        Ok(())
    }

    /// Extends the range to the end of the region, but to `most` octets at most. Does nothing
    /// through a window, as a window may be shorter than its region.
    #[inline]
    pub(crate) fn extend(&mut self, most: u32) {
        if self.is_windowed() {
            return;
        }
        let rest = Mr::grant(&self.guard).map_or(0, |grant| grant.range.behind(self.offset));
        let rest = u32::try_from(rest).unwrap_or(u32::MAX);
        // INVARIANT: what a region grants it grants to all of its octets.
        self.len = self.len.max(most.min(rest));
    }

    /// Returns whether the region is used through a window, which has rights and a range of its
    /// own.
    pub(crate) fn is_windowed(&self) -> bool {
        self.window.is_some()
    }

    /// Returns whether the memory is a process's. Such memory is pinned, and there are no holes in
    /// it.
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self.guard.kind, Kind::User { .. })
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns all of the range, if it is memory of a process and lies in one page. Most short
    /// ranges do.
    #[inline(always)]
    pub(crate) fn in_one_page(&self) -> Option<PageSlice<'_>> {
        match &self.guard.kind {
            Kind::User { umem, .. } => umem.in_one_page(&self.guard, self.offset, self.len),
            _ => None,
        }
    }

    /// Returns the pieces of `len` octets from octet `at` of the range on, or [`MrError::Bounds`]
    /// if they are not all in the range.
    pub(crate) fn slices(&self, at: u32, len: u32) -> Result<Slices<'_>, MrError> {
        at.end_within(len, self.len).ok_or(MrError::Bounds)?;
        let at = self
            .offset
            .checked_add(u64::from(at))
            .ok_or(MrError::Bounds)?;
        match &self.guard.kind {
            Kind::User { umem, .. } => umem.slices(&self.guard, at, len).map(Slices::User),
            Kind::Dma(memory) => self
                .pd
                .and_then(|pd| memory.slices(&self.guard, pd, at, len))
                .map(Slices::Kernel),
            Kind::Fast(memory) => memory.slices(&self.guard, at, len).map(Slices::Kernel),
            // An access through a window goes to its region, which is never a window.
            Kind::Window(_) => None,
        }
        .ok_or(MrError::Bounds)
    }
}

/// The pieces of a range, of whatever kind of memory.
pub(crate) enum Slices<'a> {
    /// Pinned memory of a process.
    User(umem::Slices<'a>),
    /// Memory of the kernel. Ends at the first address that its owner names without having memory
    /// there.
    Kernel(kmr::Slices<'a>),
}

impl<'a> Iterator for Slices<'a> {
    type Item = PageSlice<'a>;

    #[inline]
    fn next(&mut self) -> Option<PageSlice<'a>> {
        match self {
            Self::User(slices) => slices.next(),
            Self::Kernel(slices) => slices.next(),
        }
    }
}
