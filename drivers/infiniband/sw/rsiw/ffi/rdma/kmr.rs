// SPDX-License-Identifier: GPL-2.0

//! Memory of kernel consumers: all of it under one key, or what a fast-register request names.
//!
//! A fast-register region has two lists of its memory. `map_mr_sg` writes the *staged* one,
//! whenever the consumer likes. A request that registers the region makes it the *active* one while
//! nobody is inside the gate, so those inside may read the active list without a lock.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h). Context: any, but for
//! creation and release, which sleep.

use super::extent::{
    Layout,
    Staging, //
};
use super::wr::Registration;
use crate::ffi::mm::page::{
    KernelPieces,
    PageSlice, //
};
use crate::ffi::sync::gate::{
    Gate,
    GateGuard,
    GatePtr,
    Gated, //
};
use crate::ffi::task::memory_for;
use core::cell::UnsafeCell;
use core::num::NonZero;
use core::num::Saturating;
use core::slice;
use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};
use kernel::sync::Arc;

fn unique() -> NonZero<u64> {
    static MADE: Atomic<u64> = Atomic::new(0);
    // No machine makes so many that this saturates.
    NonZero::<u64>::MIN.saturating_add(MADE.fetch_add(1, Relaxed))
}

/// Names a protection domain, and tells whether it belongs to a process or to a consumer in the
/// kernel, which is trusted to name memory that it owns. Only the callback that makes a domain
/// makes this, so a process's domain cannot pass for one of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PdId {
    n: NonZero<u64>,
    is_process: bool,
}

impl PdId {
    pub(super) fn new(is_process: bool) -> Self {
        Self {
            n: unique(),
            is_process,
        }
    }

    pub(crate) fn is_process(self) -> bool {
        self.is_process
    }

    /// Returns the flags for allocating what belongs to the domain.
    pub(crate) fn memory(self) -> Flags {
        memory_for(self.is_process)
    }
}

/// All memory of the kernel, named by its addresses (STag 0 of RDMAC, `get_dma_mr`).
#[pin_data]
pub(crate) struct DmaMemory {
    #[pin]
    gate: Gate,
}

impl DmaMemory {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                gate <- Gate::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the pieces of `len` octets from address `addr` on, which the consumer that has `pd`
    /// named. `None` if the guard is another gate's, or the consumer a process.
    pub(crate) fn slices<'a, P: GatePtr>(
        &'a self,
        guard: &'a GateGuard<P>,
        pd: PdId,
        addr: u64,
        len: u32,
    ) -> Option<Slices<'a>> {
        if pd.is_process || !core::ptr::eq(guard.gate(), &self.gate) {
            return None;
        }
        // SAFETY: the domain is one of a consumer in the kernel, which keeps the memory that it
        // names until its request completes.
        let current = unsafe { KernelPieces::new(addr, len) };
        Some(Slices {
            current,
            rest: Layout::NONE.iter(),
            left: Saturating(0),
        })
    }

    /// Refuses later use and waits for present one. Sleeps.
    pub(crate) fn release(&self) {
        self.gate.close_and_wait();
    }
}

impl Gated for DmaMemory {
    fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// The part of a registration that those inside the gate may read.
struct Active<R> {
    layout: Layout,
    grant: Option<R>,
}

/// Memory of a fast-register region, with what its registration grants.
///
/// # Invariants
///
/// `active` changes only within [`Gate::exclusively`], and once `gate` is closed and empty. While
/// it grants something, the consumer keeps the memory of its list until the region is invalidated
/// or deregistered and everybody has left the gate.
#[pin_data]
pub(crate) struct FastMemory<R> {
    id: NonZero<u64>,
    #[pin]
    gate: Gate,
    released: Atomic<bool>,
    #[pin]
    staging: Staging,
    active: UnsafeCell<Active<R>>,
}

// SAFETY: the memory is no thread's; the invariants order changes of `active` after all its uses.
unsafe impl<R: Send> Send for FastMemory<R> {}
// SAFETY: see above.
unsafe impl<R: Send + Sync> Sync for FastMemory<R> {}

impl<R: Send + Sync> FastMemory<R> {
    /// Makes memory for at most `max` extents, with `gaps` of any alignment, or returns `ENOMEM`.
    pub(super) fn new(max: usize, gaps: bool) -> Result<Arc<Self>> {
        let active = Active {
            layout: Layout::new(max)?,
            grant: None,
        };
        let staged = Layout::new(max)?;
        Arc::pin_init(
            pin_init!(Self {
                id: unique(),
                gate <- Gate::new(),
                released: Atomic::new(false),
                staging <- Staging::new(staged, max, gaps),
                active: UnsafeCell::new(active),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn id(&self) -> NonZero<u64> {
        self.id
    }

    pub(super) fn staging(&self) -> &Staging {
        &self.staging
    }

    /// Returns whether `wr` asks for this memory.
    pub(crate) fn is_meant(&self, wr: &Registration) -> bool {
        wr.memory == Some(self.id)
    }

    /// Makes the staged list the active one, as the consumer asked by `wr`. `grant` gets the list's
    /// length, the offset of its first octet in a page and the mask of such offsets (`None` if it
    /// may begin anywhere), and returns what the registration grants, or why there is none.
    ///
    /// Gives `wr` back if somebody is inside the gate, it is closed, or `wr` asks for other memory.
    pub(crate) fn try_register<E>(
        &self,
        wr: Registration,
        grant: impl FnOnce(u64, Option<(u64, u64)>) -> Result<R, E>,
    ) -> Result<Result<(), E>, Registration> {
        if !self.is_meant(&wr) {
            return Err(wr);
        }
        let done = self.gate.exclusively(|| {
            // SAFETY: by the gate nobody is inside, so that nobody reads `active`.
            // INVARIANT: inside `exclusively`.
            let active = unsafe { &mut *self.active.get() };
            active.grant = None;
            let mut staged = self.staging.lock();
            staged.activate(&mut active.layout);
            drop(staged);
            active.grant = Some(grant(active.layout.len(), active.layout.page_offset())?);
            Ok(())
        });
        done.ok_or(wr)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    /// Returns what the latest registration grants.
    pub(crate) fn grant<'a, P: GatePtr>(&'a self, guard: &'a GateGuard<P>) -> Option<&'a R> {
        self.active(guard)?.grant.as_ref()
    }

    /// Returns the pieces of `len` octets from octet `at` on. `None` if the range is not inside, if
    /// nothing is granted, or if the guard is another gate's.
    pub(crate) fn slices<'a, P: GatePtr>(
        &'a self,
        guard: &'a GateGuard<P>,
        at: u64,
        len: u32,
    ) -> Option<Slices<'a>> {
        let active = self.active(guard)?;
        active.grant.as_ref()?;
        let (first, skip, rest) = active.layout.find(at, len)?;
        let front = first.len.checked_sub(skip)?.min(len);
        // SAFETY: by the type invariants, the guard being held for `'a`.
        let current = unsafe { KernelPieces::new(first.addr.checked_add(skip.into())?, front) };
        Some(Slices {
            current,
            rest: rest.iter(),
            left: Saturating(len) - Saturating(front),
        })
    }

    fn active<'a, P: GatePtr>(&'a self, guard: &'a GateGuard<P>) -> Option<&'a Active<R>> {
        if !core::ptr::eq(guard.gate(), &self.gate) {
            return None;
        }
        // SAFETY: the guard counts its holder into the gate for `'a`, so nothing changes `active`.
        Some(unsafe { &*self.active.get() })
    }

    /// Refuses later use, waits for present one and gives up the lists. Sleeps.
    pub(crate) fn release(&self) {
        self.gate.close_and_wait();
        if self.released.xchg(true, Full) {
            return;
        }
        drop(self.staging.take());
        // SAFETY: the closed, empty gate leaves no reader, and `released` lets in only one caller.
        // INVARIANT: the gate is closed and empty.
        let active = unsafe { &mut *self.active.get() };
        active.grant = None;
        active.layout = Layout::empty();
    }
}

impl<R> Gated for FastMemory<R> {
    fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// The pieces of a range of kernel memory. Ends early at what is no memory.
pub(crate) struct Slices<'a> {
    current: KernelPieces<'a>,
    /// Stretches after the current one.
    rest: slice::Iter<'a, super::extent::Extent>,
    /// Octets of the range in the stretches of `rest`.
    left: Saturating<u32>,
}

impl<'a> Iterator for Slices<'a> {
    type Item = PageSlice<'a>;

    fn next(&mut self) -> Option<PageSlice<'a>> {
        loop {
            if let Some(piece) = self.current.next() {
                return Some(piece);
            }
            if self.left.0 == 0 || !self.current.is_done() {
                return None;
            }
            let extent = self.rest.next()?;
            let len = extent.len.min(self.left.0);
            self.left -= len;
            // SAFETY: the extent is part of the range that the iterator was made for.
            self.current = unsafe { KernelPieces::new(extent.addr, len) };
        }
    }
}
