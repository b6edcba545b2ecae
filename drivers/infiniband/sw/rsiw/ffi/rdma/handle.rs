// SPDX-License-Identifier: GPL-2.0

//! Revocable handles to objects that the RDMA core owns, and frees when the driver's callback that
//! destroys them has returned (see *Lifetimes* in [`rdma`](super)). Each use enters a [`Gate`],
//! which that callback closes. Context: any; [`Handle::revoke`] sleeps.

use super::attr::AsyncEvent;
use crate::ffi::{
    raw::b,
    sync::gate::{
        Gate,
        Gated, //
    },
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};

/// A handle to the core's object of type `B`, usable until the core destroys that object.
///
/// # Invariants
///
/// `obj` points to a live object as long as `gate` is open or has users inside.
#[pin_data]
pub(crate) struct Handle<B> {
    obj: NonNull<B>,
    #[pin]
    gate: Gate,
    _type: PhantomData<B>,
}

// SAFETY: the core allows what a handle does to its objects from any thread and in any context.
unsafe impl<B> Send for Handle<B> {}
// SAFETY: see above.
unsafe impl<B> Sync for Handle<B> {}

impl<B> Gated for Handle<B> {
    fn gate(&self) -> &Gate {
        &self.gate
    }
}

/// Makes an event; the caller fills in the device and the element.
pub(super) fn event(kind: b::ib_event_type) -> b::ib_event {
    // SAFETY: integers and pointers may be zero.
    let mut event: b::ib_event = unsafe { core::mem::zeroed() };
    event.event = kind;
    event
}

pub(crate) type CqHandle = Handle<b::ib_cq>;
pub(crate) type QpHandle = Handle<b::ib_qp>;
pub(crate) type SrqHandle = Handle<b::ib_srq>;
pub(super) type UcontextHandle = Handle<b::ib_ucontext>;
pub(crate) type DeviceHandle = Handle<b::ib_device>;

impl<B> Handle<B> {
    /// # Safety
    ///
    /// `obj` must stay valid until [`Handle::revoke`] has returned.
    pub(super) unsafe fn new(obj: NonNull<B>, flags: Flags) -> Result<Arc<Self>> {
        // INVARIANT: by the caller's promise the object lives until the gate is closed and empty.
        Arc::pin_init(
            pin_init!(Self {
                obj,
                gate <- Gate::new(),
                _type: PhantomData,
            }),
            flags,
        )
    }

    /// Ends the use of the object: waits for those who use it now and refuses later ones. Sleeps.
    pub(super) fn revoke(&self) {
        self.gate.close_and_wait();
    }

    /// Runs `f` on the object, if it still exists.
    pub(in crate::ffi) fn with<R>(&self, f: impl FnOnce(*mut B) -> R) -> Option<R> {
        let _guard = self.gate.enter()?;
        Some(f(self.obj.as_ptr()))
    }

    /// Takes a reference that keeps the core's object alive until [`Handle::release`]: destroying
    /// it waits for that. Returns the object, or `None` if it is being destroyed.
    pub(super) fn hold(&self) -> Option<NonNull<B>> {
        core::mem::forget(self.gate.enter()?);
        Some(self.obj)
    }

    /// Gives back a reference.
    ///
    /// # Safety
    ///
    /// The caller owns a reference that was taken with [`Handle::hold`].
    pub(super) unsafe fn release(&self) {
        // SAFETY: the reference is a guard that `hold` has forgotten.
        unsafe { self.gate.leave() };
    }

    /// Returns the address, for comparison.
    pub(in crate::ffi) fn as_ptr(&self) -> *mut B {
        self.obj.as_ptr()
    }
}

/// Raises an event of the object of `$handle`, which is the `$element` of the event and has the
/// consumer's context in `$context`.
macro_rules! raise {
    ($handle:expr, $kind:expr, $element:ident, $context:ident) => {
        $handle.with(|obj| {
            let mut ev = event($kind);
            ev.element.$element = ManuallyDrop::new(obj);
            // SAFETY: the gate keeps the object alive.
            ev.device = unsafe { (*obj).device };
            // SAFETY: as above.
            let (handler, context) = unsafe { ((*obj).event_handler, (*obj).$context) };
            if let Some(handler) = handler {
                // SAFETY: the event lives across the call and names the object whose handler it is.
                unsafe { handler(&raw mut ev, context) };
            }
        });
    };
}

impl CqHandle {
    /// Calls the completion handler. No lock may be held that polling or arming this queue takes.
    pub(crate) fn notify(&self) {
        self.with(|cq| {
            // SAFETY: the gate keeps the queue alive.
            let (handler, context) = unsafe { ((*cq).comp_handler, (*cq).cq_context) };
            if let Some(handler) = handler {
                // SAFETY: this is how the core documents the call of `comp_handler`.
                unsafe { handler(cq, context) };
            }
        });
    }

    /// Reports that the queue has overflowed.
    pub(crate) fn overflowed(&self) {
        raise!(self, b::ib_event_type_IB_EVENT_CQ_ERR, cq, cq_context);
    }
}

impl QpHandle {
    /// Reports an asynchronous event of this queue pair.
    pub(crate) fn event(&self, kind: AsyncEvent) {
        raise!(self, kind.to_raw(), qp, qp_context);
    }
}

impl SrqHandle {
    /// Reports that the shared receive queue has fewer receives than its limit.
    pub(crate) fn limit_reached(&self) {
        raise!(
            self,
            b::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
            srq,
            srq_context
        );
    }
}
