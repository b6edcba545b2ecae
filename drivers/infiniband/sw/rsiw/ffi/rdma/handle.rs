// SPDX-License-Identifier: GPL-2.0

//! Objects of the RDMA core: revocable handles to them, and the pointers that they have to ours.
//!
//! The core frees an object when the driver's callback that destroys it has returned (see
//! *Lifetimes* in [`rdma`](super)). Each use of a handle enters a [`Gate`], which that callback
//! closes.
//!
//! The core allocates an object zeroed, with the size that the operations table names, and frees it
//! right after that callback. So the object holds only references: to the driver's object, and to
//! the handle by which the driver's object knows the core's.
//!
//! Context: any; [`Handle::revoke`] sleeps.

use super::attr::AsyncEvent;
use crate::ffi::raw::b;
use crate::ffi::sync::gate::{
    Gate,
    Gated, //
};
use core::any::TypeId;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Full,
    Release, //
};
use kernel::sync::{
    Arc,
    ArcBorrow,
    SetOnce, //
};
use kernel::types::Opaque;

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

/// The core's `B` followed by the driver's `T` and the handle to the `B`, if it has one.
///
/// # Invariants
///
/// `inner` and `handle` are null or came from [`Arc::into_raw`] and stand for one reference each.
#[repr(C)]
pub(in crate::ffi) struct Object<B, T> {
    base: Opaque<B>,
    inner: Atomic<*const T>,
    handle: Atomic<*const Handle<B>>,
}

/// The reference that the core's object holds, lent for `'a` without a change of the count.
pub(super) struct Lent<'a, T> {
    inner: ManuallyDrop<Arc<T>>,
    _object: PhantomData<&'a Arc<T>>,
}

impl<T> Deref for Lent<'_, T> {
    type Target = Arc<T>;

    #[inline(always)]
    fn deref(&self) -> &Arc<T> {
        &self.inner
    }
}

impl<B, T> Object<B, T> {
    /// The object's size for the operations table.
    pub(super) const SIZE: usize = {
        assert!(core::mem::offset_of!(Self, base) == 0);
        assert!(core::mem::align_of::<Self>() <= 8);
        core::mem::size_of::<Self>()
    };

    /// Stores the driver's object; the core's object owns the reference from now on.
    ///
    /// # Safety
    ///
    /// `base` must be the start of an `Object<B, T>` that has no driver object yet.
    pub(super) unsafe fn install(base: *mut B, inner: Arc<T>) {
        let this = base.cast::<Self>();
        // SAFETY: `base` starts an `Object`, by the caller's promise.
        // INVARIANT: the pointer comes from `into_raw` and carries its reference.
        unsafe { &(*this).inner }.store(inner.into_raw(), Release);
    }

    /// Stores the driver's object and the handle to the core's object.
    ///
    /// # Safety
    ///
    /// As [`Object::install`]; `handle` is that of `base`.
    pub(super) unsafe fn install_with(base: *mut B, inner: Arc<T>, handle: Arc<Handle<B>>) {
        let this = base.cast::<Self>();
        // SAFETY: `base` starts an `Object`, by the caller's promise.
        // INVARIANT: the pointer comes from `into_raw` and carries its reference.
        unsafe { &(*this).handle }.store(handle.into_raw(), Release);
        // SAFETY: by the caller's promise.
        unsafe { Self::install(base, inner) };
    }

    /// Returns whether there is a driver's object. Until there is, the core knows the object at
    /// most by a number that the driver gave it.
    ///
    /// # Safety
    ///
    /// `base` must be the start of an `Object<B, T>`.
    pub(super) unsafe fn is_installed(base: *mut B) -> bool {
        let this = base.cast::<Self>();
        // SAFETY: `base` starts an `Object`, by the caller's promise.
        !unsafe { &(*this).inner }.load(Acquire).is_null()
    }

    /// Borrows the driver's object.
    ///
    /// # Safety
    ///
    /// `base` must be the start of an `Object<B, T>` with a driver object that stays during `'a`.
    pub(in crate::ffi) unsafe fn get<'a>(base: *mut B) -> ArcBorrow<'a, T> {
        let this = base.cast::<Self>();
        // SAFETY: `base` starts an `Object`, by the caller's promise.
        let inner = unsafe { &(*this).inner }.load(Acquire);
        // SAFETY: the invariant says where the pointer is from; it is not taken out meanwhile.
        unsafe { ArcBorrow::from_raw(inner) }
    }

    /// Borrows the driver's object in its [`Arc`].
    ///
    /// # Safety
    ///
    /// As [`Object::get`].
    #[inline(always)]
    pub(super) unsafe fn lend<'a>(base: *mut B) -> Lent<'a, T> {
        let this = base.cast::<Self>();
        // SAFETY: `base` starts an `Object`, by the caller's promise.
        let inner = unsafe { &(*this).inner }.load(Acquire);
        // SAFETY: the invariant says where the pointer is from. Its reference is not taken out
        // meanwhile, and this one is not dropped.
        let inner = ManuallyDrop::new(unsafe { Arc::from_raw(inner) });
        Lent {
            inner,
            _object: PhantomData,
        }
    }

    /// Returns a reference to the driver's object, or `None` if `base` is null (an optional
    /// relation of another object).
    ///
    /// # Safety
    ///
    /// As [`Object::get`], if `base` is not null.
    pub(super) unsafe fn get_opt(base: *mut B) -> Option<Arc<T>> {
        let base = NonNull::new(base)?;
        // SAFETY: by the caller's promise.
        Some(unsafe { Self::get(base.as_ptr()) }.into())
    }

    /// Borrows the handle to the core's object.
    ///
    /// # Safety
    ///
    /// `base` must be the start of an `Object<B, T>` with a handle that stays during `'a`.
    pub(super) unsafe fn handle<'a>(base: *mut B) -> ArcBorrow<'a, Handle<B>> {
        let this = base.cast::<Self>();
        // SAFETY: `base` starts an `Object`, by the caller's promise.
        let handle = unsafe { &(*this).handle }.load(Acquire);
        // SAFETY: the invariant says where the pointer is from; it is not taken out meanwhile.
        unsafe { ArcBorrow::from_raw(handle) }
    }

    /// Returns the handle to the core's object, if it is installed.
    ///
    /// # Safety
    ///
    /// `base` must be the start of an `Object<B, U>`, whatever `U` is, whose handle is not taken
    /// out meanwhile. (The place of the handle does not depend on `U`.)
    pub(super) unsafe fn handle_of_any(base: *mut B) -> Option<Arc<Handle<B>>> {
        let this = base.cast::<Self>();
        // SAFETY: `base` starts an object of the same layout, by the caller's promise.
        let handle = unsafe { &(*this).handle }.load(Acquire);
        if handle.is_null() {
            return None;
        }
        // SAFETY: the invariant says where the pointer is from; it is not taken out meanwhile.
        Some(unsafe { ArcBorrow::from_raw(handle) }.into())
    }

    /// Drops the handle, which has no use any more.
    ///
    /// # Safety
    ///
    /// As [`Object::take`]; the handle was revoked.
    pub(super) unsafe fn drop_handle(base: *mut B) {
        let this = base.cast::<Self>();
        // SAFETY: `base` starts an `Object`, by the caller's promise.
        // INVARIANT: null stands for "no handle".
        let handle = unsafe { &(*this).handle }.xchg(core::ptr::null(), Full);
        if !handle.is_null() {
            // SAFETY: by the invariant the pointer came from `into_raw`; the reference is ours now.
            drop(unsafe { Arc::from_raw(handle) });
        }
    }

    /// Takes the driver's object back.
    ///
    /// # Safety
    ///
    /// `base` must be the start of an `Object<B, T>`; nobody may use the driver's object through
    /// the core afterwards.
    pub(super) unsafe fn take(base: *mut B) -> Option<Arc<T>> {
        let this = base.cast::<Self>();
        // SAFETY: `base` starts an `Object`, by the caller's promise.
        // INVARIANT: null stands for "no object".
        let inner = unsafe { &(*this).inner }.xchg(core::ptr::null(), Full);
        if inner.is_null() {
            return None;
        }
        // SAFETY: by the invariant the pointer came from `into_raw`; the reference is ours now.
        Some(unsafe { Arc::from_raw(inner) })
    }
}

/// The driver of this module, to which all devices of this module belong.
static DRIVER: SetOnce<TypeId> = SetOnce::new();

/// Makes `D` the driver of this module if there is none yet. Returns whether it is the driver.
pub(super) fn claim_module<D: 'static>() -> bool {
    let id = TypeId::of::<D>();
    DRIVER.populate(id) || DRIVER.as_ref() == Some(&id)
}

/// Returns whether a device is one of this module.
///
/// # Safety
///
/// The device is live.
pub(super) unsafe fn is_ours(dev: *const b::ib_device) -> bool {
    // SAFETY: by the caller's promise.
    let owner = unsafe { (*dev).ops.owner };
    core::ptr::eq(owner, this_module::<crate::LocalModule>().as_ptr())
}
