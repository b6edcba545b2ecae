// SPDX-License-Identifier: GPL-2.0

//! Memory windows (draft-hilland-rddp-verbs section 7.10). A window is a part of a region. Of type
//! 2, it may be used by one stream of the peer for as long as it is bound. Of type 1, which is
//! InfiniBand's, it may be used by every stream of the protection domain until it is bound to
//! something else.
//!
//! A window has no memory of its own. An access through it is counted by the gates of both the
//! window and its region. Whoever unbinds the window waits until the window's gate is empty. The
//! region and the queue pair stay as long as windows are bound to them. Binds go through the gate
//! of the window as well: once a window is deallocated, it cannot be bound any more.
//!
//! Context: any, but for creation and binds, which sleep.
#![forbid(unsafe_code)]

mod count;

pub(super) use self::count::Windows;

use super::access::{
    Access,
    MrAccess,
    MrError, //
};
use super::range::Range;
use super::{
    By,
    Kind,
    Mr,
    PdId, //
};
use crate::ffi::rdma::attr::AccessFlags;
use crate::ffi::rdma::driver::MwType;
use crate::ffi::rdma::wr::Binding;
use crate::ffi::sync::gate::{
    Gate,
    GateGuard, //
};
use crate::wire::ddp::Stag;
use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::{
    new_spinlock_irq,
    Arc,
    SpinLockIrq, //
};

/// Offsets below this are no addresses of the kernel: a region that begins there is zero-based.
const NO_ADDRESS: u64 = 4096;

/// Stands for a queue pair that binds windows. Binders are told apart by their addresses.
pub(crate) struct Binder {
    windows: Windows,
}

impl Binder {
    pub(crate) fn new(flags: Flags) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                windows: Windows::new(),
            },
            flags,
        )?)
    }

    pub(crate) fn count(&self) -> u32 {
        self.windows.count()
    }

    /// Lets the queue pair bind no more, or returns `EBUSY` while a window is bound (V-QP-24).
    pub(crate) fn end(&self) -> Result {
        self.windows.end()
    }
}

/// A queue pair that binds, invalidates or uses a window.
#[derive(Clone, Copy)]
pub(crate) struct Party<'a> {
    pub(crate) binder: &'a Arc<Binder>,
    pub(crate) pd: PdId,
}

/// Why a bind is refused (V-WC-17, V-WC-20). The window is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BindError {
    /// The STag is not that of a window, or is that of another window, or its key is that of the
    /// bind before (V-MW-17). Or the window is being deallocated.
    Window,
    /// The window is bound already.
    Valid,
    /// There is no such region, or it cannot have windows.
    Region,
    /// The queue pair goes away.
    Binder,
    /// Queue pair, region and window are not of the same protection domain.
    Pd,
    /// A window cannot have these rights, or not on this region.
    Access,
    /// The range is not a part of the region.
    Bounds,
}

/// What a window stands for while it is valid.
struct Bound {
    region: Arc<Mr>,
    /// The queue pair that it is bound for; `None` for the whole protection domain.
    binder: Option<Arc<Binder>>,
    access: Access,
    range: Range,
    /// Where in the region the window begins.
    offset: u64,
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.region.windows.unbind();
        if let Some(binder) = &self.binder {
            binder.windows.unbind();
        }
    }
}

struct WindowState {
    /// The window's protection domain while it is not bound to a queue pair: that of its maker,
    /// then that of the queue pair that invalidated it last (V-MW-14).
    pd: PdId,
    bound: Option<Bound>,
    /// The STag of `bound`, or of the binding that ended last.
    last: Option<Stag>,
}

impl WindowState {
    fn is_for(&self, bound: &Bound, party: Party<'_>) -> bool {
        match &bound.binder {
            Some(binder) => Arc::ptr_eq(binder, party.binder),
            None => self.pd == party.pd,
        }
    }
}

#[pin_data]
pub(crate) struct Window {
    kind: MwType,
    #[pin]
    gate: Gate,
    #[pin]
    state: SpinLockIrq<WindowState>,
}

impl Window {
    pub(super) fn new(pd: PdId, kind: MwType) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                kind,
                gate <- Gate::new(),
                state <- new_spinlock_irq!(
                    WindowState { pd, bound: None, last: None },
                    "rsiw::Window::state"
                ),
            }),
            pd.memory(),
        )
    }

    /// Returns the gate of those who use memory through the window, or bind it.
    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Binds the window `own` for `party` (V-MW-2, V-MW-4). A window of type 1 may be bound
    /// already: once this returns, nobody uses what it was bound to. If no octets are to be bound,
    /// the window is only unbound (V-MW-17). Sleeps.
    pub(crate) fn bind(
        &self,
        own: Stag,
        wr: &Binding,
        region: Option<Arc<Mr>>,
        party: Party<'_>,
    ) -> Result<(), BindError> {
        let stag = Stag(wr.stag);
        if stag.index() != own.index() || Stag(wr.window).index() != own.index() {
            return Err(BindError::Window);
        }
        let old = {
            // Whoever ends the window waits until what is counted here is undone or seen.
            let _inside = self.gate.enter().ok_or(BindError::Window)?;
            let bound = if self.kind == MwType::One && wr.len == 0 {
                None
            } else {
                Some(self.bound(wr, region.ok_or(BindError::Region)?, party)?)
            };
            self.replace(bound, stag, party)?
        };
        if old.is_some() {
            self.gate.wait_empty();
        }
        Ok(())
    }

    /// Returns what the window is to stand for.
    fn bound(&self, wr: &Binding, region: Arc<Mr>, party: Party<'_>) -> Result<Bound, BindError> {
        let access = Access::of_window(wr.access).ok_or(BindError::Access)?;
        let zero_based = wr.access.contains(AccessFlags::ZERO_BASED);
        let base = if zero_based { 0 } else { wr.addr };
        let range = Range::new(base, wr.len).ok_or(BindError::Bounds)?;
        let binder = (self.kind == MwType::Two).then_some(party.binder);
        // The region of somebody else must not be held even for a moment, as its owner would
        // notice.
        if matches!(region.kind, Kind::Dma(_) | Kind::Window(_)) {
            return Err(BindError::Region);
        }
        if region.pd != party.pd {
            return Err(BindError::Pd);
        }
        // From here on the region stays as it is found.
        Bound::new(region, binder, |region| {
            let offset = region.part(wr, access)?;
            Ok((access, range, offset))
        })
    }

    /// Lets the window stand for `bound`, under `stag`. Returns what it stood for before.
    fn replace(
        &self,
        bound: Option<Bound>,
        stag: Stag,
        party: Party<'_>,
    ) -> Result<Option<Bound>, BindError> {
        let mut state = self.state.lock();
        let refusal = match &state.bound {
            Some(_) if self.kind == MwType::Two => Some(BindError::Valid),
            Some(_) if state.last == Some(stag) => Some(BindError::Window),
            _ if state.pd != party.pd => Some(BindError::Pd),
            _ => None,
        };
        let old = match refusal {
            None => {
                state.last = Some(stag);
                core::mem::replace(&mut state.bound, bound)
            }
            Some(_) => bound,
        };
        drop(state);
        refusal.map_or(Ok(old), Err)
    }

    /// Returns the region, and the offset in it, to which an access to the window leads (V-MW-8).
    /// The rights of the region do not count.
    fn locate(
        &self,
        stag: Stag,
        party: Party<'_>,
        want: Access,
        addr: u64,
        len: u32,
    ) -> Result<(Arc<Mr>, u64), MrError> {
        let state = self.state.lock();
        let bound = state.bound.as_ref().ok_or(MrError::Invalid)?;
        if state.last != Some(stag) {
            return Err(MrError::Invalid);
        }
        if !state.is_for(bound, party) {
            return Err(MrError::Pd);
        }
        if !bound.access.contains(want) {
            return Err(MrError::Access);
        }
        let offset = bound.range.locate(addr, len)?;
        let offset = bound.offset.checked_add(offset).ok_or(MrError::Bounds)?;
        Ok((bound.region.clone(), offset))
    }

    /// Makes an access of the peer of `party` through the window `own`, once it is checked.
    pub(crate) fn access(
        &self,
        own: Arc<Mr>,
        stag: Stag,
        party: Party<'_>,
        want: Access,
        addr: u64,
        len: u32,
    ) -> Result<MrAccess<Arc<Mr>>, MrError> {
        let inside = GateGuard::new(own).ok_or(MrError::Invalid)?;
        let (region, offset) = self.locate(stag, party, want, addr, len)?;
        let access = MrAccess::within(inside, region.clone(), offset, len)?;
        // This is asked once more, now inside of both gates. Whoever unbinds the window, and then
        // may take the region back, either sees us inside, or we see that the window is not bound
        // any more.
        match self.locate(stag, party, want, addr, len)? {
            (again, at) if Arc::ptr_eq(&again, &region) && at == offset => Ok(access),
            _ => Err(MrError::Invalid),
        }
    }

    /// Ends the binding for `party` (V-MW-13). As with regions, a peer cannot end a binding that is
    /// yet to be made. The caller may wait for the window to be quiet. Returns `Pd` for somebody
    /// else's window, `Invalid` for a wrong key, `Access` for a window of type 1.
    pub(crate) fn invalidate(&self, stag: Stag, party: Party<'_>, by: By) -> Result<(), MrError> {
        let mut state = self.state.lock();
        let is_theirs = match &state.bound {
            Some(bound) => state.is_for(bound, party),
            None => state.pd == party.pd,
        };
        if !is_theirs {
            return Err(MrError::Pd);
        }
        if self.kind == MwType::One {
            return Err(MrError::Access);
        }
        if state.last != Some(stag) && (state.bound.is_some() || by == By::Peer) {
            return Err(MrError::Invalid);
        }
        let old = state.bound.take();
        state.pd = party.pd;
        drop(state);
        drop(old);
        Ok(())
    }

    /// Ends the window and its binding, whoever has it. Afterwards no bind succeeds, and no region
    /// or queue pair counts the window. Sleeps until nobody uses or binds the window any more.
    pub(super) fn end(&self) {
        self.gate.close_and_wait();
        let old = self.state.lock().bound.take();
        drop(old);
    }
}

impl Bound {
    /// Keeps the region and, if there is one, the queue pair from going, then lets `look` examine
    /// the region.
    fn new(
        region: Arc<Mr>,
        binder: Option<&Arc<Binder>>,
        look: impl FnOnce(&Mr) -> Result<(Access, Range, u64), BindError>,
    ) -> Result<Self, BindError> {
        if !region.windows.bind() {
            return Err(BindError::Region);
        }
        // Dropping this undoes both counts.
        let mut bound = Self {
            region,
            binder: None,
            access: Access::LOCAL_READ,
            range: Range::ALL,
            offset: 0,
        };
        if let Some(binder) = binder {
            // A work item may carry out a request after the queue pair has ended.
            if !binder.windows.bind() {
                return Err(BindError::Binder);
            }
            bound.binder = Some(binder.clone());
        }
        let (access, range, offset) = look(&bound.region)?;
        bound.access = access;
        bound.range = range;
        bound.offset = offset;
        Ok(bound)
    }
}

impl Mr {
    /// Returns where in the region the part that `wr` asks for begins, if a window with `access`
    /// may have that part.
    fn part(&self, wr: &Binding, access: Access) -> Result<u64, BindError> {
        let guard = GateGuard::new(self).ok_or(BindError::Region)?;
        if !guard.valid.load(Relaxed) {
            return Err(BindError::Region);
        }
        let grant = Self::grant(&guard).ok_or(BindError::Region)?;
        if grant.stag != Stag(wr.region) || grant.range.base() < NO_ADDRESS {
            return Err(BindError::Region);
        }
        let needs_write = access.lets_peer_write();
        if !grant.access.contains(Access::BIND)
            || (needs_write && !grant.access.contains(Access::LOCAL_WRITE))
        {
            return Err(BindError::Access);
        }
        grant
            .range
            .locate_long(wr.addr, wr.len)
            .map_err(|_| BindError::Bounds)
    }
}
