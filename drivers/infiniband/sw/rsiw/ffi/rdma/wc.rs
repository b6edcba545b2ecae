// SPDX-License-Identifier: GPL-2.0

//! Completions for consumers in the kernel (`struct ib_wc`).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Context: any.

use super::handle::QpHandle;
use crate::{
    ffi::raw::b,
    proto::{
        failure::{
            Cause,
            Fault, //
        },
        order::Status,
        receiver::Extra,
        request::{
            AtomicKind,
            OperationType, //
        },
    },
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A completion as a kernel consumer wants it.
#[derive(Clone)]
pub(crate) struct Wc {
    id: u64,
    status: b::ib_wc_status,
    opcode: b::ib_wc_opcode,
    byte_len: u32,
    cause: Cause,
    extra: Extra,
    qp: Arc<QpHandle>,
}

impl Wc {
    /// A completion of a request of `qp`.
    pub(crate) fn new(
        id: u64,
        status: Status<Fault>,
        operation: OperationType,
        byte_len: u32,
        cause: Cause,
        extra: Extra,
        qp: &Arc<QpHandle>,
    ) -> Self {
        Self {
            id,
            status: wc_status(status),
            opcode: wc_opcode(operation, &extra),
            byte_len,
            cause,
            extra,
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
        wc.byte_len = self.byte_len;
        wc.vendor_err = self.cause.0;
        wc.qp = qp;
        // CAST: flag bits, twice.
        match self.extra {
            Extra::Nothing => {}
            Extra::Invalidated(stag) => {
                wc.ex.invalidate_rkey = ManuallyDrop::new(stag.0);
                wc.wc_flags = b::ib_wc_flags_IB_WC_WITH_INVALIDATE as c_int;
            }
            Extra::Immediate(data) => {
                wc.ex.imm_data = ManuallyDrop::new(u32::from_ne_bytes(data.short()));
                wc.wc_flags = b::ib_wc_flags_IB_WC_WITH_IMM as c_int;
            }
        }
        wc
    }
}

/// How a request ended (`enum ib_wc_status`).
const fn wc_status(status: Status<Fault>) -> b::ib_wc_status {
    match status {
        Status::Success => b::ib_wc_status_IB_WC_SUCCESS,
        Status::Flushed => b::ib_wc_status_IB_WC_WR_FLUSH_ERR,
        Status::Failed(fault) => match fault {
            Fault::LocalLength => b::ib_wc_status_IB_WC_LOC_LEN_ERR,
            Fault::LocalProtection => b::ib_wc_status_IB_WC_LOC_PROT_ERR,
            Fault::LocalOperation => b::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
            Fault::Bind => b::ib_wc_status_IB_WC_MW_BIND_ERR,
            Fault::RemoteAccess => b::ib_wc_status_IB_WC_REM_ACCESS_ERR,
            Fault::RemoteInvalid => b::ib_wc_status_IB_WC_REM_INV_REQ_ERR,
            Fault::General => b::ib_wc_status_IB_WC_GENERAL_ERR,
        },
    }
}

/// What a request was (`enum ib_wc_opcode`).
const fn wc_opcode(operation: OperationType, extra: &Extra) -> b::ib_wc_opcode {
    match operation {
        // The peer's consumer has posted an RDMA Write with it; there is no other way.
        OperationType::Receive if matches!(extra, Extra::Immediate(_)) => {
            b::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM
        }
        OperationType::Send => b::ib_wc_opcode_IB_WC_SEND,
        OperationType::Write => b::ib_wc_opcode_IB_WC_RDMA_WRITE,
        OperationType::Read => b::ib_wc_opcode_IB_WC_RDMA_READ,
        OperationType::Atomic(kind) => match kind {
            AtomicKind::CompareSwap => b::ib_wc_opcode_IB_WC_COMP_SWAP,
            AtomicKind::FetchAdd => b::ib_wc_opcode_IB_WC_FETCH_ADD,
            AtomicKind::MaskedCompareSwap => b::ib_wc_opcode_IB_WC_MASKED_COMP_SWAP,
            AtomicKind::MaskedFetchAdd => b::ib_wc_opcode_IB_WC_MASKED_FETCH_ADD,
        },
        OperationType::Invalidate => b::ib_wc_opcode_IB_WC_LOCAL_INV,
        OperationType::Register => b::ib_wc_opcode_IB_WC_REG_MR,
        OperationType::Bind => b::ib_wc_opcode_IB_WC_BIND_MW,
        OperationType::Receive => b::ib_wc_opcode_IB_WC_RECV,
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

    /// Adds a completion, if there is room, and unless its queue pair, which it names, was
    /// destroyed.
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
