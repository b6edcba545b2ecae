// SPDX-License-Identifier: GPL-2.0

//! Memory regions (draft-hilland-rddp-verbs section 7).
//!
//! A region is found by its STag in the device's [`StagTable`] and used through [`MrAccess`]: one
//! function checks STag, state, protection domain, rights and bounds, and what it returns is inside
//! the region's gate until it is dropped. Deregistration takes the STag away, closes the gate and
//! waits (T-20), so no byte is touched afterwards, whoever still has a reference to the region.
//!
//! Context: access in any context, registration and deregistration sleep.
#![forbid(unsafe_code)]

pub(crate) mod access;
pub(crate) mod fast;
mod permute;
mod range;
pub(crate) mod table;
pub(crate) mod window;

use self::{
    access::{
        Access,
        MrError, //
    },
    range::Range,
    table::StagTable,
    window::{
        Window,
        Windows, //
    },
};
use crate::{
    ffi::{
        rdma::{
            attr::AccessFlags,
            details::Details,
            driver::{
                MrChange,
                MrInit,
                MwType, //
            },
            handle::DeviceHandle,
            kmr::{
                DmaMemory,
                FastMemory, //
            },
            umem::Umem, //
        },
        sync::gate::{
            Gate,
            GateGuard,
            GatePtr,
            Gated, //
        },
    },
    wire::ddp::Stag,
};
use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Relaxed, //
        },
        Arc, //
    },
};

pub(crate) use crate::ffi::rdma::kmr::PdId;

/// Pages, or stretches, of a fast-register region.
pub(crate) const MAX_FAST_REG: u32 = 1024;

/// What a region consists of.
enum Kind {
    /// Memory of a process.
    User {
        umem: Pin<KBox<Umem>>,
        /// The process may write it, or gave the right to when it was pinned.
        writable: bool,
        access: Access,
        range: Range,
        /// As it was asked for.
        init: MrInit,
    },
    /// All memory of the kernel, for this side only (V-STAG0).
    Dma(Arc<DmaMemory>),
    /// What a fast-register request of a kernel consumer names.
    Fast(Arc<FastMemory<Grant>>),
    /// A part of another region.
    Window(Pin<KBox<Window>>),
}

/// The addresses of a process's region.
fn user_range(init: &MrInit) -> Result<Range> {
    let base = if init.access.contains(AccessFlags::ZERO_BASED) {
        0
    } else {
        init.iova
    };
    Range::new(base, init.length).ok_or(EINVAL)
}

/// What may be done with a region, and how it is named.
#[derive(Clone, Copy)]
pub(crate) struct Grant {
    stag: Stag,
    access: Access,
    range: Range,
}

/// Who wants to invalidate a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The peer of a stream.
    Peer,
    /// This side's consumer.
    Consumer,
}

/// A memory region.
///
/// May be dropped in softirq once it was deregistered.
pub(crate) struct Mr {
    /// Set before the region gets into the table. A fast-register region has another key later.
    stag: Atomic<u32>,
    pd: PdId,
    /// RDMAC's state Valid. Written with the gate empty, or to false.
    valid: AtomicFlag,
    /// Bound to it.
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
    /// Registers memory of the calling process, or a DMA buffer of its, and makes it known under a
    /// new STag with `key`.
    ///
    /// The table has a reference from here on: only [`Mr::deregister`] undoes this.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an empty region or one whose addresses wrap, `ENOMEM`, and what pinning says
    /// (see [`Umem::pin`] and [`Umem::map_dmabuf`]).
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

    /// Adds a region of memory that is pinned, for writing or not.
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
    /// ends first, so that a peer sees nothing but a deregistration and a registration (V-MR-12);
    /// also if the rest fails (V-MR-10). Its memory stays the same, whatever is at its addresses by
    /// now and whoever calls; only if it is to be written to for the first time, it has to be
    /// pinned once more.
    ///
    /// # Errors
    ///
    /// As [`Mr::register_user`]. With nothing changed, `EINVAL` for a region that is no process's,
    /// or whose memory is to stay but went when this failed before, `EBUSY` while windows are bound
    /// (V-MR-9), `EOPNOTSUPP` for memory that would have to be pinned once more and is another
    /// process's, or a DMA buffer, which is known by a descriptor only while it is registered.
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

    /// Tells how it is. Keys, and where it is, are the core's to tell: it knows who asks.
    ///
    /// # Errors
    ///
    /// Those of [`Details`].
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

    /// Makes the region by which a kernel consumer names all memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new_dma(
        table: &StagTable,
        pd: PdId,
        memory: Arc<DmaMemory>,
    ) -> Result<Arc<Self>> {
        Self::add(table, pd, Kind::Dma(memory), 0)
    }

    /// Makes a region for fast registration. It is not valid yet (V-MR-1).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
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

    /// Makes a window, which is not bound to anything (V-MW-1).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new_window(table: &StagTable, pd: PdId, kind: MwType) -> Result<Arc<Self>> {
        Self::add(table, pd, Kind::Window(Window::new(pd, kind)?), 0)
    }

    /// The window, if it is one.
    pub(crate) fn window(&self) -> Option<&Window> {
        match &self.kind {
            Kind::Window(window) => Some(window),
            _ => None,
        }
    }

    /// Ends all access: takes the STag away and waits for those who use the memory now, then gives
    /// the memory back. A second time, nothing happens. Sleeps.
    ///
    /// # Errors
    ///
    /// `EBUSY`, and nothing is changed, while windows are bound to the region.
    pub(crate) fn deregister(&self, table: &StagTable) -> Result {
        self.end(table)?;
        self.release();
        Ok(())
    }

    /// Takes the STag away; see [`Mr::deregister`].
    fn end(&self, table: &StagTable) -> Result {
        self.windows.end()?;
        // A second time, the STag may be another's.
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
            Kind::Window(window) => window.unbind(),
        }
    }

    /// The STag that the region was made with; local and remote key at once.
    pub(crate) fn stag(&self) -> Stag {
        Stag(self.stag.load(Relaxed))
    }

    /// Whether it is memory of a process.
    pub(crate) fn is_user(&self) -> bool {
        matches!(self.kind, Kind::User { .. })
    }

    /// What may be done with the region, for someone inside its gate.
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

    /// Makes the STag invalid (T-21): domain, key and, for a peer, a remote right must be there. An
    /// STag that is invalid already may be invalidated again (V-INV-4), but not one that is yet to
    /// be registered: whose consumer believed that would go on to give the memory to others.
    /// Accesses in progress end as they began: see [`Mr::is_quiet`]. Any context.
    ///
    /// # Errors
    ///
    /// Which of them is not; `Access` for a region that may not be invalidated.
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

    /// Whether nobody uses the memory now: after an invalidation, nobody will before the next
    /// registration. Any context.
    pub(crate) fn is_quiet(&self) -> bool {
        self.gate().is_empty()
    }

    /// Waits for the region to be quiet. Nobody uses memory for longer than it takes to copy it.
    /// Sleeps.
    pub(crate) fn wait_quiet(&self) {
        self.gate().wait_empty();
    }

    /// Whether the `len` octets at `addr` may be used like this. Returns their offset.
    ///
    /// Lengths of zero are not for this function (T-23).
    #[inline(always)]
    fn check<P: GatePtr + Deref<Target = Self>>(
        guard: &GateGuard<P>,
        stag: Stag,
        pd: PdId,
        want: Access,
        addr: u64,
        len: u32,
    ) -> Result<u64, MrError> {
        // Going in comes first: who invalidates sees us inside, or we see that it is invalid.
        if !guard.valid.load(Relaxed) {
            return Err(MrError::Invalid);
        }
        let grant = Self::grant(guard).ok_or(MrError::Invalid)?;
        if stag != grant.stag {
            return Err(MrError::Invalid);
        }
        // The key to all memory of the kernel is every kernel consumer's (V-STAG0-2).
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
