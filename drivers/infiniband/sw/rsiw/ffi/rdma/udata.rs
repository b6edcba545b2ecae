// SPDX-License-Identifier: GPL-2.0

//! The driver-private part of a verbs call by a user process.
//!
//! C header: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h).

use super::{
    driver::Driver,
    handle::{
        claim_module,
        Object, //
    },
};
use crate::ffi::raw::{
    b,
    h, //
};
use core::{
    marker::PhantomData,
    mem::size_of,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::ArcBorrow, //
};
use zerocopy::{
    FromBytes,
    Immutable,
    IntoBytes, //
};

/// The call's private input and output buffers, and the process context it belongs to.
///
/// # Invariants
///
/// The pointer is valid for `'a`, which lies within the call.
pub(crate) struct Udata<'a> {
    raw: NonNull<b::ib_udata>,
    _call: PhantomData<&'a mut b::ib_udata>,
}

impl Udata<'_> {
    /// Wraps what the core passes to a callback; `None` for consumers in the kernel.
    ///
    /// # Safety
    ///
    /// `raw` must be null or valid for the lifetime of the result.
    pub(in crate::ffi) unsafe fn from_raw(raw: *mut b::ib_udata) -> Option<Self> {
        // INVARIANT: by the caller's promise.
        NonNull::new(raw).map(|raw| Self {
            raw,
            _call: PhantomData,
        })
    }

    /// Refuses private input and clears private output, for calls that have neither.
    pub(crate) fn no_io(&mut self) -> Result {
        // SAFETY: the invariant makes the pointer valid.
        to_result(unsafe { h::ib_no_udata_io(self.raw.as_ptr()) })
    }

    /// Returns whether there is no private input.
    pub(crate) fn is_empty(&self) -> bool {
        // SAFETY: the invariant makes the pointer valid.
        unsafe { (*self.raw.as_ptr()).inlen == 0 }
    }

    /// Reads the call's private input. Fails with `EINVAL` if it is shorter than `T`, or longer
    /// with something set beyond, and with `EFAULT` if it cannot be read.
    pub(crate) fn read<T: FromBytes + IntoBytes + Immutable>(&mut self) -> Result<T> {
        self.read_from(size_of::<T>())
    }

    /// As [`Udata::read`], but only input of less than `least` octets is too short. What is missing
    /// of `T` is 0.
    pub(crate) fn read_from<T: FromBytes + IntoBytes + Immutable>(
        &mut self,
        least: usize,
    ) -> Result<T> {
        let mut req = T::new_zeroed();
        // SAFETY: the invariant makes the pointer valid; `req` has room for the size given.
        to_result(unsafe {
            b::_ib_copy_validate_udata_in(
                self.raw.as_ptr(),
                (&raw mut req).cast(),
                size_of::<T>(),
                least,
            )
        })?;
        Ok(req)
    }

    /// As [`Udata::read`], but returns `None` if the input is shorter than `T`, or missing.
    pub(crate) fn read_if_there<T: FromBytes + IntoBytes + Immutable>(
        &mut self,
    ) -> Result<Option<T>> {
        // SAFETY: the invariant makes the pointer valid.
        if unsafe { (*self.raw.as_ptr()).inlen } < size_of::<T>() {
            return Ok(None);
        }
        self.read().map(Some)
    }

    /// Returns whether the process gave room for a whole `T`.
    pub(crate) fn has_room_for<T>(&self) -> bool {
        // SAFETY: the invariant makes the pointer valid.
        unsafe { (*self.raw.as_ptr()).outlen >= size_of::<T>() }
    }

    /// Writes the call's private output. Fails with `EINVAL` if the process gave too little room,
    /// and with `EFAULT` if the buffer cannot be written.
    pub(crate) fn respond<T: IntoBytes + Immutable>(&mut self, resp: &T) -> Result {
        if !self.has_room_for::<T>() {
            return Err(EINVAL);
        }
        let bytes = resp.as_bytes();
        // SAFETY: the invariant makes the pointer valid; `bytes` is readable for its length.
        to_result(unsafe {
            b::_ib_respond_udata(self.raw.as_ptr(), bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Returns the driver's part of the process context that makes the call.
    pub(crate) fn context<D: Driver>(&self) -> Option<ArcBorrow<'_, D::Ucontext>> {
        let context = self.ucontext()?.as_ptr();
        // Otherwise the context is another driver's, whose part of it has another type.
        if !claim_module::<D>() {
            return None;
        }
        // SAFETY: the core calls this module with contexts of its devices only, whose driver is
        // `D`, and keeps the context during the call.
        let is_complete = unsafe { Object::<_, D::Ucontext>::is_installed(context) };
        // SAFETY: as above; there is a driver's part, which is taken out after all calls.
        is_complete.then(|| unsafe { Object::get(context) })
    }

    pub(super) fn ucontext(&self) -> Option<NonNull<b::ib_ucontext>> {
        // SAFETY: an udata of a driver callback is always the `driver_udata` of a bundle.
        NonNull::new(unsafe { h::udata_ucontext(self.raw.as_ptr()) })
    }
}
