// SPDX-License-Identifier: GPL-2.0

//! The memory that the core allocates for a verbs object: the core's part and our pointers.
//!
//! The core allocates it zeroed, with the size that the operations table names, and frees it right
//! after the destroy callback. So it holds only references: to the driver's object, and to the
//! handle by which that one knows the core's. Context: any.

use super::handle::Handle;
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Release, //
        },
        Arc,
        ArcBorrow, //
    },
    types::Opaque,
};

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

/// A reference of the core's object, lent for `'a` without a change of its count.
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

    /// As [`Object::install`], with the handle to the core's object.
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

    /// As [`Object::get`], for those who need an [`Arc`].
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

    /// As [`Object::get`] where `base` may be null (an optional relation of another object).
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
