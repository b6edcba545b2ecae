// SPDX-License-Identifier: GPL-2.0

//! Whose devices are: this module's or another one's, and of which driver. Context: any.

use crate::ffi::raw::b;
use core::any::TypeId;
use kernel::{
    module::this_module,
    sync::SetOnce, //
};

/// The driver of this module, to which all devices of this module belong.
static DRIVER: SetOnce<TypeId> = SetOnce::new();

/// Returns whether `D` is the only driver of this module. The first one to ask is it.
pub(super) fn is_only<D: 'static>() -> bool {
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
