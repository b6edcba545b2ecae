// SPDX-License-Identifier: GPL-2.0

//! Completions for consumers in the kernel (`struct ib_wc`).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Context: any.

use super::handle::QpHandle;
use crate::ffi::raw::b;
use core::{
    marker::PhantomData,
    mem::ManuallyDrop, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// How a request ended (`enum ib_wc_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Success.
    Success,
    /// Message longer than the receive buffer.
    LocalLength,
    /// A local STag, its rights or bounds do not fit.
    LocalProtection,
    /// The request is wrong in itself.
    LocalOperation,
    /// Not executed.
    Flushed,
    /// A response that does not fit the request.
    BadResponse,
    /// A local STag lacks the right for what the peer did.
    LocalAccess,
    /// The peer refused the access.
    RemoteAccess,
    /// The peer refused the request.
    RemoteInvalidRequest,
    /// Any other error.
    General,
    /// A window cannot be bound.
    Bind,
}

/// What a request was (`enum ib_wc_opcode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    /// A Send of any kind.
    Send,
    /// RDMA Write.
    Write,
    /// RDMA Read, with or without invalidation.
    Read,
    /// Local invalidation.
    LocalInvalidate,
    /// Fast registration.
    Register,
    /// Bind of a window.
    Bind,
    /// A receive.
    Receive,
}

/// A completion as a kernel consumer wants it.
#[derive(Clone)]
pub(crate) struct Wc {
    id: u64,
    status: b::ib_wc_status,
    opcode: b::ib_wc_opcode,
    vendor_err: u32,
    byte_len: u32,
    invalidated: Option<u32>,
    qp: Arc<QpHandle>,
}

impl Wc {
    /// A completion of a request of `qp`.
    pub(crate) fn new(
        id: u64,
        (status, vendor_err): (Status, u32),
        opcode: Opcode,
        byte_len: u32,
        invalidated: Option<u32>,
        qp: &Arc<QpHandle>,
    ) -> Self {
        Self {
            id,
            status: status.to_raw(),
            opcode: opcode.to_raw(),
            vendor_err,
            byte_len,
            invalidated,
            qp: qp.clone(),
        }
    }

    /// Whether it is one of `qp`.
    pub(crate) fn is_of(&self, qp: &QpHandle) -> bool {
        core::ptr::eq(&raw const *self.qp, qp)
    }

    fn to_raw(&self, qp: *mut b::ib_qp) -> b::ib_wc {
        // SAFETY: integers and pointers may be zero.
        let mut wc: b::ib_wc = unsafe { core::mem::zeroed() };
        wc.__bindgen_anon_1.wr_id = ManuallyDrop::new(self.id);
        wc.status = self.status;
        wc.opcode = self.opcode;
        wc.vendor_err = self.vendor_err;
        wc.byte_len = self.byte_len;
        wc.qp = qp;
        if let Some(stag) = self.invalidated {
            wc.ex.invalidate_rkey = ManuallyDrop::new(stag);
            wc.wc_flags = b::ib_wc_flags_IB_WC_WITH_INVALIDATE as c_int; // CAST: flag bits.
        }
        wc
    }
}

impl Status {
    fn to_raw(self) -> b::ib_wc_status {
        match self {
            Self::Success => b::ib_wc_status_IB_WC_SUCCESS,
            Self::LocalLength => b::ib_wc_status_IB_WC_LOC_LEN_ERR,
            Self::LocalProtection => b::ib_wc_status_IB_WC_LOC_PROT_ERR,
            Self::LocalOperation => b::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
            Self::Flushed => b::ib_wc_status_IB_WC_WR_FLUSH_ERR,
            Self::BadResponse => b::ib_wc_status_IB_WC_BAD_RESP_ERR,
            Self::LocalAccess => b::ib_wc_status_IB_WC_LOC_ACCESS_ERR,
            Self::RemoteAccess => b::ib_wc_status_IB_WC_REM_ACCESS_ERR,
            Self::RemoteInvalidRequest => b::ib_wc_status_IB_WC_REM_INV_REQ_ERR,
            Self::General => b::ib_wc_status_IB_WC_GENERAL_ERR,
            Self::Bind => b::ib_wc_status_IB_WC_MW_BIND_ERR,
        }
    }
}

impl Opcode {
    fn to_raw(self) -> b::ib_wc_opcode {
        match self {
            Self::Send => b::ib_wc_opcode_IB_WC_SEND,
            Self::Write => b::ib_wc_opcode_IB_WC_RDMA_WRITE,
            Self::Read => b::ib_wc_opcode_IB_WC_RDMA_READ,
            Self::LocalInvalidate => b::ib_wc_opcode_IB_WC_LOCAL_INV,
            Self::Register => b::ib_wc_opcode_IB_WC_REG_MR,
            Self::Bind => b::ib_wc_opcode_IB_WC_BIND_MW,
            Self::Receive => b::ib_wc_opcode_IB_WC_RECV,
        }
    }
}

/// Room for completions in the memory of a consumer who polls.
///
/// # Invariants
///
/// There is room for `room` completions from `next` on.
pub(crate) struct WcRoom<'a> {
    next: *mut b::ib_wc,
    room: usize,
    used: c_int,
    _memory: PhantomData<&'a mut b::ib_wc>,
}

impl WcRoom<'_> {
    /// # Safety
    ///
    /// `wc` must have room for `count` completions for as long as the value exists.
    pub(super) unsafe fn from_raw(wc: *mut b::ib_wc, count: c_int) -> Self {
        // INVARIANT: by the caller's promise.
        Self {
            next: wc,
            room: usize::try_from(count).unwrap_or(0),
            used: 0,
            _memory: PhantomData,
        }
    }

    /// Whether there is no more room.
    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Adds a completion, if there is room, and unless its queue pair, which it names, was destroyed.
    pub(crate) fn push(&mut self, wc: &Wc) {
        let Some(room) = self.room.checked_sub(1) else {
            return;
        };
        let Some(raw) = wc.qp.with(|qp| wc.to_raw(qp)) else {
            return;
        };
        // SAFETY: by the invariant there is room for this one.
        unsafe { self.next.write(raw) };
        self.next = self.next.wrapping_add(1);
        self.room = room;
        self.used = self.used.wrapping_add(1);
    }

    /// How many were added.
    pub(super) fn used(&self) -> c_int {
        self.used
    }
}
