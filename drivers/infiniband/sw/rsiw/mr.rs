// SPDX-License-Identifier: GPL-2.0

//! Memory regions (draft-hilland-rddp-verbs section 7).
//!
//! A region is found by its STag in the device's [`StagTable`] and used through
//! [`access::MrAccess`]: one function checks STag, state, protection domain, rights and bounds, and
//! what it returns is inside the region's gate until it is dropped. Deregistration takes the STag
//! away, closes the gate and waits (T-20), so no byte is touched afterwards, whoever still has a
//! reference to the region.
//! Memory of consumers in the kernel is registered by a request (fast registration, section
//! 7.3.2.5).
//!
//! Context: access in any context, registration and deregistration sleep.
#![forbid(unsafe_code)]

pub(crate) mod access;
mod permute;
mod range;
pub(crate) mod table;
pub(crate) mod window;

use self::access::{
    Access,
    MrError, //
};
use self::range::Range;
use self::table::StagTable;
use self::window::{
    Window,
    Windows, //
};
use crate::ffi::rdma::attr::AccessFlags;
use crate::ffi::rdma::driver::{
    MrChange,
    MrInit,
    MwType, //
};
use crate::ffi::rdma::handle::DeviceHandle;
use crate::ffi::rdma::kmr::{
    DmaMemory,
    FastMemory, //
};
use crate::ffi::rdma::stats::Details;
use crate::ffi::rdma::umem::Umem;
use crate::ffi::rdma::wr::Registration;
use crate::ffi::sync::gate::{
    Gate,
    GateGuard,
    GatePtr,
    Gated,
    PAUSE, //
};
use crate::wire::ddp::Stag;
use core::ops::Deref;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    AtomicFlag,
    Relaxed, //
};
use kernel::sync::Arc;
use kernel::time::delay::fsleep;

pub(crate) use crate::ffi::rdma::kmr::PdId;

/// How many extents a fast-register region may have, before adjacent ones are joined.
pub(crate) const MAX_FAST_REG: u32 = 1024;

enum Kind {
    /// Memory of a process.
    User {
        umem: Pin<KBox<Umem>>,
        /// Whether the memory was pinned for writing.
        writable: bool,
        access: Access,
        range: Range,
        /// The region as the process asked for it.
        init: MrInit,
    },
    /// All memory of the kernel, for this side only (V-STAG0).
    Dma(Arc<DmaMemory>),
    /// What a fast-register request of a kernel consumer names.
    Fast(Arc<FastMemory<Grant>>),
    /// A part of another region.
    Window(Pin<KBox<Window>>),
}

fn user_range(init: &MrInit) -> Result<Range> {
    let base = if init.access.contains(AccessFlags::ZERO_BASED) {
        0
    } else {
        init.iova
    };
    Range::new(base, init.length).ok_or(EINVAL)
}

/// What access a region grants, and under which STag.
#[derive(Clone, Copy)]
pub(crate) struct Grant {
    stag: Stag,
    access: Access,
    range: Range,
}

/// Who wants to invalidate a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Peer,
    Consumer,
}

/// A memory region. May be dropped in softirq once it was deregistered.
pub(crate) struct Mr {
    /// Set before the region gets into the table. The key of a fast-register region may change
    /// later: see [`Grant`].
    stag: Atomic<u32>,
    pd: PdId,
    /// RDMAC's state Valid. Becomes true only while the gate is empty.
    valid: AtomicFlag,
    windows: Windows,
    kind: Kind,
}

impl Gated for Mr {
    #[inline(always)]
    fn gate(&self) -> &Gate {
        match &self.kind {
            Kind::User { umem, .. } => umem.gate(),
            Kind::Dma(memory) => memory.gate(),
            Kind::Fast(memory) => memory.gate(),
            Kind::Window(window) => window.gate(),
        }
    }
}

impl Mr {
    /// Registers memory of the calling process, or a DMA buffer of it, under a new STag with `key`.
    /// The table has a reference from here on: only [`Mr::deregister`] undoes this.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an empty region or one whose addresses wrap, `ENOMEM`, and those of
    /// [`Umem::pin`] and [`Umem::map_dmabuf`].
    pub(crate) fn register_user(
        device: &Arc<DeviceHandle>,
        table: &StagTable,
        pd: PdId,
        init: &MrInit,
        key: u8,
    ) -> Result<Arc<Self>> {
        let range = user_range(init)?;
        let writable = Access::from_verbs(init.access).writes();
        let umem = match init.fd {
            None => Umem::pin(device, init.start, init.length, init.access)?,
            Some(fd) => Umem::map_dmabuf(device, fd, init.start, init.length, writable)?,
        };
        Self::add_user(table, pd, init, (umem, writable, range), key)
    }

    /// Adds a region of pinned memory.
    fn add_user(
        table: &StagTable,
        pd: PdId,
        init: &MrInit,
        (umem, writable, range): (Pin<KBox<Umem>>, bool, Range),
        key: u8,
    ) -> Result<Arc<Self>> {
        let kind = Kind::User {
            umem,
            writable,
            access: Access::from_verbs(init.access),
            range,
            init: *init,
        };
        Self::add(table, pd, kind, key)
    }

    /// Registers the memory of this region again, or other memory in its place (V-MR-8). The region
    /// ends first, also if the rest fails (V-MR-10), so that a peer sees nothing but a
    /// deregistration and a registration (V-MR-12). Memory that stays is the same, whatever is at
    /// its addresses by now and whoever calls. It is pinned once more only if it is to be written
    /// to for the first time.
    ///
    /// # Errors
    ///
    /// As [`Mr::register_user`]. The following change nothing: `EINVAL` for a region that is no
    /// process's, or whose memory is to stay but went when an earlier call failed; `EBUSY` while
    /// windows are bound (V-MR-9); `EOPNOTSUPP` for memory that would have to be pinned once more
    /// and is another process's, or a DMA buffer, whose descriptor is known only while it is
    /// registered.
    pub(crate) fn reregister(
        &self,
        device: &Arc<DeviceHandle>,
        table: &StagTable,
        pd: PdId,
        change: &MrChange,
        key: u8,
    ) -> Result<(Arc<Self>, MrInit)> {
        let Kind::User {
            umem,
            writable,
            init,
            ..
        } = &self.kind
        else {
            return Err(EINVAL);
        };
        let mut init = *init;
        if let Some((start, length, iova)) = change.memory {
            init = MrInit {
                fd: None,
                start,
                length,
                iova,
                access: init.access,
            };
        }
        if let Some(access) = change.access {
            init.access = access;
        }
        let is_same = change.memory.is_none();
        if is_same && umem.gate().is_closed() {
            return Err(EINVAL);
        }
        let suffices = *writable || !Access::from_verbs(init.access).writes();
        if is_same && !suffices && !umem.is_callers() {
            return Err(EOPNOTSUPP);
        }
        self.end(table)?;
        let mr = if is_same && suffices {
            let umem = umem.renew()?;
            let range = user_range(&init)?;
            Self::add_user(table, pd, &init, (umem, *writable, range), key)?
        } else {
            self.release();
            Self::register_user(device, table, pd, &init, key)?
        };
        Ok((mr, init))
    }

    /// Describes the region. Only the core tells keys and addresses, as it knows who asks.
    pub(crate) fn describe(&self, to: &mut Details<'_>) -> Result {
        let kind = match &self.kind {
            Kind::User { init, .. } if init.fd.is_some() => c"dmabuf",
            Kind::User { .. } => c"user",
            Kind::Dma(_) => c"dma",
            Kind::Fast(_) => c"fast",
            Kind::Window(_) => c"window",
        };
        to.word(c"kind", kind)?;
        to.flag(c"valid", self.valid.load(Relaxed))?;
        to.number(c"windows", self.windows.count())?;
        to.number(c"users", self.gate().users())?;
        if let Kind::User { access, .. } = &self.kind {
            to.flag(c"local_write", access.contains(Access::LOCAL_WRITE))?;
            to.flag(c"remote_write", access.contains(Access::REMOTE_WRITE))?;
            to.flag(c"remote_read", access.contains(Access::REMOTE_READ))?;
            to.flag(c"remote_atomic", access.contains(Access::REMOTE_ATOMIC))?;
        }
        Ok(())
    }

    /// Creates the region by which a kernel consumer names all memory.
    pub(crate) fn new_dma(
        table: &StagTable,
        pd: PdId,
        memory: Arc<DmaMemory>,
    ) -> Result<Arc<Self>> {
        Self::add(table, pd, Kind::Dma(memory), 0)
    }

    /// Creates a region for fast registration, which is not valid yet (V-MR-1).
    pub(crate) fn new_fast(
        table: &StagTable,
        pd: PdId,
        memory: Arc<FastMemory<Grant>>,
    ) -> Result<Arc<Self>> {
        Self::add(table, pd, Kind::Fast(memory), 0)
    }

    fn add(table: &StagTable, pd: PdId, kind: Kind, key: u8) -> Result<Arc<Self>> {
        let mr = Arc::new(
            Self {
                stag: Atomic::new(0),
                pd,
                valid: AtomicFlag::new(!matches!(kind, Kind::Fast(_))),
                windows: Windows::new(),
                kind,
            },
            pd.memory(),
        )?;
        table.insert(&mr, key, pd.memory())?;
        Ok(mr)
    }

    /// Creates a window that is not bound to anything (V-MW-1).
    pub(crate) fn new_window(table: &StagTable, pd: PdId, kind: MwType) -> Result<Arc<Self>> {
        Self::add(table, pd, Kind::Window(Window::new(pd, kind)?), 0)
    }

    pub(crate) fn window(&self) -> Option<&Window> {
        match &self.kind {
            Kind::Window(window) => Some(window),
            _ => None,
        }
    }

    /// Ends all access: takes the STag away, waits for those who use the memory now, and gives the
    /// memory back. Does nothing the second time. While windows are bound to the region, returns
    /// `EBUSY` with nothing changed. Sleeps.
    pub(crate) fn deregister(&self, table: &StagTable) -> Result {
        self.end(table)?;
        self.release();
        Ok(())
    }

    /// Takes the STag away; see [`Mr::deregister`].
    fn end(&self, table: &StagTable) -> Result {
        self.windows.end()?;
        // The second time the STag may belong to another region.
        let known = table.lookup(self.stag());
        if known.is_some_and(|known| core::ptr::eq(&*known, self)) {
            table.remove(self.stag());
        }
        Ok(())
    }

    /// Waits for those who use the memory, and gives it back.
    fn release(&self) {
        match &self.kind {
            Kind::User { umem, .. } => umem.release(),
            Kind::Dma(memory) => memory.release(),
            Kind::Fast(memory) => memory.release(),
            Kind::Window(window) => window.end(),
        }
    }

    /// Returns the STag that the region was made with, its local and remote key at once.
    pub(crate) fn stag(&self) -> Stag {
        Stag(self.stag.load(Relaxed))
    }

    pub(crate) fn is_user(&self) -> bool {
        matches!(self.kind, Kind::User { .. })
    }

    /// Returns what the region grants to someone inside its gate.
    #[inline(always)]
    fn grant<P: GatePtr + Deref<Target = Self>>(guard: &GateGuard<P>) -> Option<Grant> {
        Some(match &guard.kind {
            Kind::User { access, range, .. } => Grant {
                stag: guard.stag(),
                access: *access,
                range: *range,
            },
            Kind::Dma(_) => Grant {
                stag: guard.stag(),
                access: Access::LOCAL_WRITE,
                range: Range::ALL,
            },
            Kind::Fast(memory) => *memory.grant(guard)?,
            Kind::Window(_) => return None,
        })
    }

    /// Makes the STag invalid (T-21). Domain and key must be right, and a peer must have a right to
    /// the region. An STag that is invalid already may be invalidated again (V-INV-4). But a peer
    /// may not invalidate one that is yet to be registered: the consumer would believe it, and give
    /// the memory to others. Accesses in progress go on: see [`Mr::is_quiet`]. Any context.
    ///
    /// # Errors
    ///
    /// The error says what is wrong; it is `Access` for a region that may not be invalidated.
    pub(crate) fn invalidate(&self, stag: Stag, pd: PdId, by: By) -> Result<(), MrError> {
        let guard = GateGuard::new(self).ok_or(MrError::Invalid)?;
        if pd != self.pd {
            return Err(MrError::Pd);
        }
        match self.kind {
            Kind::Dma(_) => return Err(MrError::Access),
            Kind::User { .. } if by == By::Consumer => return Err(MrError::Access),
            _ if self.windows.any() => return Err(MrError::Bound),
            _ => {}
        }
        let grant = Self::grant(&guard).filter(|grant| grant.stag == stag);
        match (grant, by) {
            (Some(grant), By::Peer) if !grant.access.is_remote() => Err(MrError::Access),
            (Some(_), _) => {
                self.valid.store(false, Relaxed);
                Ok(())
            }
            (None, By::Consumer) if !self.valid.load(Relaxed) => Ok(()),
            (None, _) => Err(MrError::Invalid),
        }
    }

    /// Returns whether nobody uses the memory now; after an invalidation, nobody will before the
    /// next registration. Any context.
    pub(crate) fn is_quiet(&self) -> bool {
        self.gate().is_empty()
    }

    /// Waits until nobody uses the memory; nobody does for longer than it takes to copy it. Sleeps.
    pub(crate) fn wait_quiet(&self) {
        self.gate().wait_empty();
    }

    /// Checks whether the `len` octets at `addr`, at least one (T-23), may be used for `want`.
    /// Returns their offset in the region.
    #[inline(always)]
    fn check<P: GatePtr + Deref<Target = Self>>(
        guard: &GateGuard<P>,
        stag: Stag,
        pd: PdId,
        want: Access,
        addr: u64,
        len: u32,
    ) -> Result<u64, MrError> {
        // This is asked after going in: either whoever invalidates the region sees us inside, or we
        // see that it is invalid.
        if !guard.valid.load(Relaxed) {
            return Err(MrError::Invalid);
        }
        let grant = Self::grant(guard).ok_or(MrError::Invalid)?;
        if stag != grant.stag {
            return Err(MrError::Invalid);
        }
        // Every kernel consumer may use the key to all memory of the kernel (V-STAG0-2).
        let everywhere = matches!(guard.kind, Kind::Dma(_)) && !pd.is_process();
        if pd != guard.pd && !everywhere {
            return Err(MrError::Pd);
        }
        if !grant.access.contains(want) {
            return Err(MrError::Access);
        }
        Ok(grant.range.locate(addr, len)?)
    }
}

/// Why a registration is refused (V-WC-9, V-WC-17 to 19).
#[derive(Debug)]
pub(crate) enum FastError {
    /// The STag is no fast-register region's, or names another region.
    Stag,
    /// The region belongs to another protection domain.
    Pd,
    /// The region is valid already.
    Valid,
    /// A region cannot have this combination of rights.
    Access,
    /// More octets than the list has, or none at all.
    Length,
    /// The address is not at the same place in a page as the first byte, or wraps.
    Address,
    /// The memory of an earlier registration is still in use, and the caller must not wait. The new
    /// registration can be made later.
    Busy(Registration),
}

impl Mr {
    /// Registers what was mapped last, on behalf of a QP in `pd`. If `may_wait`, waits for those
    /// who still use the memory of an earlier registration.
    ///
    /// On an error the region stays as it is. But after `Length` and `Address` it no longer has a
    /// key that a peer may invalidate.
    pub(crate) fn register_fast(
        &self,
        pd: PdId,
        mut wr: Registration,
        may_wait: bool,
    ) -> Result<(), FastError> {
        let Kind::Fast(memory) = &self.kind else {
            return Err(FastError::Stag);
        };
        let stag = Stag(wr.stag);
        if stag.index() != self.stag().index() || !memory.is_meant(&wr) {
            return Err(FastError::Stag);
        }
        if pd != self.pd {
            return Err(FastError::Pd);
        }
        // If a window was being bound while the peer invalidated the region, it stands for the
        // earlier registration.
        if self.valid.load(Relaxed) || self.windows.any() {
            return Err(FastError::Valid);
        }
        let access = Access::from_verbs(wr.access);
        if !access.is_legal() || !Access::are_known(wr.access) {
            return Err(FastError::Access);
        }
        let (iova, wanted) = (wr.iova, wr.len);
        let range = Range::new(iova, wanted).ok_or(FastError::Length)?;
        let grant = |len: u64, page_offset: Option<(u64, u64)>| {
            if wanted > len {
                return Err(FastError::Length);
            }
            if page_offset.is_some_and(|(offset, mask)| iova & mask != offset) {
                return Err(FastError::Address);
            }
            // Nobody is inside the gate. Whoever goes in next, perhaps to invalidate the region,
            // finds both: that it is valid, and what it grants.
            self.valid.store(true, Relaxed);
            Ok(Grant {
                stag,
                access,
                range,
            })
        };
        loop {
            wr = match memory.try_register(wr, grant) {
                Ok(result) => return result,
                Err(_) if memory.is_closed() => return Err(FastError::Stag),
                Err(later) if !may_wait => return Err(FastError::Busy(later)),
                Err(later) => later,
            };
            fsleep(PAUSE);
        }
    }
}
