// SPDX-License-Identifier: GPL-2.0

//! Completions for consumers in the kernel (`struct ib_wc`).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h). Context: any.

use super::handle::QpHandle;
use crate::ffi::raw::b;
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    num::Saturating, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A completion for a consumer in the kernel.
#[derive(Clone)]
pub(crate) struct Wc {
    id: u64,
    status: WcStatus,
    opcode: WcOpcode,
    byte_len: u32,
    vendor_err: u32,
    extra: WcExtra,
    qp: Arc<QpHandle>,
}

impl Wc {
    /// Makes the completion of a request of `qp`. `id` is the consumer's name for it, `byte_len`
    /// the octets received or read, `vendor_err` the failure in the driver's own terms.
    pub(crate) fn new(
        id: u64,
        status: WcStatus,
        opcode: WcOpcode,
        byte_len: u32,
        vendor_err: u32,
        extra: WcExtra,
        qp: &Arc<QpHandle>,
    ) -> Self {
        Self {
            id,
            status,
            opcode,
            byte_len,
            vendor_err,
            extra,
            qp: qp.clone(),
        }
    }

    pub(crate) fn is_of(&self, qp: &QpHandle) -> bool {
        core::ptr::eq(&raw const *self.qp, qp)
    }

    fn to_raw(&self, qp: *mut b::ib_qp) -> b::ib_wc {
        // SAFETY: integers and pointers may be zero.
        let mut wc: b::ib_wc = unsafe { core::mem::zeroed() };
        wc.__bindgen_anon_1.wr_id = ManuallyDrop::new(self.id);
        wc.status = self.status.0;
        wc.opcode = self.opcode.0;
        wc.byte_len = self.byte_len;
        wc.vendor_err = self.vendor_err;
        wc.qp = qp;
        // CAST: flag bits, twice.
        match self.extra {
            WcExtra::Nothing => {}
            WcExtra::Invalidated(key) => {
                wc.ex.invalidate_rkey = ManuallyDrop::new(key);
                wc.wc_flags = b::ib_wc_flags_IB_WC_WITH_INVALIDATE as c_int;
            }
            WcExtra::Immediate(data) => {
                wc.ex.imm_data = ManuallyDrop::new(u32::from_ne_bytes(data));
                wc.wc_flags = b::ib_wc_flags_IB_WC_WITH_IMM as c_int;
            }
        }
        wc
    }
}

/// Declares a type for numbers of the core, with constants.
macro_rules! numbers {
    (
        $(#[$type_doc:meta])* $name:ident($raw:ty);
        $($(#[$doc:meta])* $number:ident = $value:ident,)*
    ) => {
        $(#[$type_doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name($raw);

        impl $name {
            $($(#[$doc])* pub(crate) const $number: Self = Self(b::$value);)*
        }
    };
}

numbers! {
    /// How a request ended (`enum ib_wc_status`).
    WcStatus(b::ib_wc_status);
    SUCCESS = ib_wc_status_IB_WC_SUCCESS,
    /// The message does not fit the receive, or is longer than the device allows.
    LOC_LEN_ERR = ib_wc_status_IB_WC_LOC_LEN_ERR,
    /// The queue pair cannot do that.
    LOC_QP_OP_ERR = ib_wc_status_IB_WC_LOC_QP_OP_ERR,
    /// An element names memory that it must not.
    LOC_PROT_ERR = ib_wc_status_IB_WC_LOC_PROT_ERR,
    /// Not carried out: the queue pair is in the Error state.
    WR_FLUSH_ERR = ib_wc_status_IB_WC_WR_FLUSH_ERR,
    MW_BIND_ERR = ib_wc_status_IB_WC_MW_BIND_ERR,
    /// The peer takes the message for wrong.
    REM_INV_REQ_ERR = ib_wc_status_IB_WC_REM_INV_REQ_ERR,
    REM_ACCESS_ERR = ib_wc_status_IB_WC_REM_ACCESS_ERR,
    GENERAL_ERR = ib_wc_status_IB_WC_GENERAL_ERR,
}

numbers! {
    /// What a request was (`enum ib_wc_opcode`).
    WcOpcode(b::ib_wc_opcode);
    SEND = ib_wc_opcode_IB_WC_SEND,
    RDMA_WRITE = ib_wc_opcode_IB_WC_RDMA_WRITE,
    RDMA_READ = ib_wc_opcode_IB_WC_RDMA_READ,
    COMP_SWAP = ib_wc_opcode_IB_WC_COMP_SWAP,
    FETCH_ADD = ib_wc_opcode_IB_WC_FETCH_ADD,
    /// Compare and Swap of some bits.
    MASKED_COMP_SWAP = ib_wc_opcode_IB_WC_MASKED_COMP_SWAP,
    /// Fetch and Add of several fields.
    MASKED_FETCH_ADD = ib_wc_opcode_IB_WC_MASKED_FETCH_ADD,
    BIND_MW = ib_wc_opcode_IB_WC_BIND_MW,
    LOCAL_INV = ib_wc_opcode_IB_WC_LOCAL_INV,
    REG_MR = ib_wc_opcode_IB_WC_REG_MR,
    RECV = ib_wc_opcode_IB_WC_RECV,
    /// A receive that an RDMA Write with immediate data has taken.
    RECV_RDMA_WITH_IMM = ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM,
}

/// What a completion tells beside how the request ended.
#[derive(Clone, Copy)]
pub(crate) enum WcExtra {
    Nothing,
    /// The peer has invalidated this key.
    Invalidated(u32),
    /// Immediate data, as on the wire.
    Immediate([u8; 4]),
}

/// Room for completions in the memory of a consumer who polls.
///
/// # Invariants
///
/// There is room for `room` completions from `next` on.
pub(crate) struct WcRoom<'a> {
    next: *mut b::ib_wc,
    room: usize,
    used: Saturating<c_int>,
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
            used: Saturating(0),
            _memory: PhantomData,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Adds a completion if there is room, unless its queue pair, which it names, was destroyed.
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
        self.used += 1;
    }

    pub(super) fn used(&self) -> c_int {
        self.used.0
    }
}
