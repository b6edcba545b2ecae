// SPDX-License-Identifier: GPL-2.0

//! Callbacks for consumers in the kernel, which this driver does not serve.
//!
//! The core shows a device to the connection manager only if these exist. No kernel consumer can
//! get a protection domain, a completion queue or a queue pair, so that the others are called for
//! objects of processes at most, which use their rings instead.

use crate::ffi::raw::b;
use kernel::prelude::*;

/// # Safety
///
/// None; the type is the core's.
pub(super) unsafe extern "C" fn get_dma_mr(_pd: *mut b::ib_pd, _access: c_int) -> *mut b::ib_mr {
    EOPNOTSUPP.to_ptr()
}

/// # Safety
///
/// Called by the core with a place for the request that failed.
pub(super) unsafe extern "C" fn post_recv(
    _qp: *mut b::ib_qp,
    wr: *const b::ib_recv_wr,
    bad_wr: *mut *const b::ib_recv_wr,
) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { *bad_wr = wr };
    EOPNOTSUPP.to_errno()
}

/// # Safety
///
/// None; the type is the core's.
pub(super) unsafe extern "C" fn poll_cq(
    _cq: *mut b::ib_cq,
    _entries: c_int,
    _wc: *mut b::ib_wc,
) -> c_int {
    EOPNOTSUPP.to_errno()
}

/// # Safety
///
/// None; the type is the core's.
pub(super) unsafe extern "C" fn req_notify_cq(
    _cq: *mut b::ib_cq,
    _flags: b::ib_cq_notify_flags,
) -> c_int {
    EOPNOTSUPP.to_errno()
}
