// SPDX-License-Identifier: GPL-2.0

//! Work requests of consumers in the kernel (`struct ib_send_wr`, `struct ib_recv_wr`), which are
//! the consumer's and do not change during the call, and their completions (`struct ib_wc`).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h). Context: any, interrupts
//! off included.

use super::attr::AccessFlags;
use super::extent::MrHead;
use super::handle::{
    is_ours,
    QpHandle, //
};
use crate::ffi::mm::page;
use crate::ffi::raw::b;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::num::{
    NonZero,
    Saturating, //
};
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A scatter/gather element.
#[derive(Clone, Copy)]
pub(crate) struct Element {
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) lkey: u32,
}

/// What a send request asks for. Keys and addresses are those of the request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SendOp {
    Send {
        /// The key of the peer to invalidate, if any.
        invalidate: Option<u32>,
    },
    Write {
        to: Remote,
        /// Immediate data, as on the wire.
        immediate: Option<[u8; 4]>,
    },
    Read {
        from: Remote,
        /// Invalidate the sink's STag when the Read completes.
        invalidate: bool,
    },
    Atomic {
        /// Where the word is.
        at: Remote,
        operation: AtomicOp,
    },
    Invalidate {
        /// The key to invalidate on this side.
        key: u32,
    },
    /// See [`SendWr::into_registration`].
    Register,
    Bind(Binding),
}

/// Memory of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) rkey: u32,
    pub(crate) addr: u64,
}

/// An atomic operation with its operands (`struct ib_atomic_wr`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum AtomicOp {
    CompareSwap {
        /// The expected value.
        compare: u64,
        swap: u64,
    },
    FetchAdd {
        /// The addend.
        add: u64,
    },
    /// Compare and Swap of some bits.
    MaskedCompareSwap {
        compare: u64,
        /// The bits to compare.
        compare_mask: u64,
        swap: u64,
        /// The bits to replace.
        swap_mask: u64,
    },
    /// Fetch and Add of several fields.
    MaskedFetchAdd {
        add: u64,
        /// The most significant bit of each field.
        boundary: u64,
    },
}

/// A bind of a memory window (`struct rsiw_bind_mw_wr`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    /// The STag that the window was made with.
    pub(crate) window: u32,
    /// The window's STag with its new key.
    pub(crate) stag: u32,
    /// The region's STag.
    pub(crate) region: u32,
    pub(crate) access: AccessFlags,
    /// The address by which requests name the first octet in the region.
    pub(crate) addr: u64,
    pub(crate) len: u64,
}

/// A fast registration. Only a request that was posted makes one, and each makes only one: what the
/// consumer invalidates later stays invalid.
#[derive(Debug)]
pub(crate) struct Registration {
    /// The STag of the region with its new key.
    pub(crate) stag: u32,
    pub(crate) access: AccessFlags,
    /// The address by which requests name the first octet.
    pub(crate) iova: u64,
    pub(crate) len: u64,
    /// The number of the region's memory, for [`FastMemory`](super::kmr::FastMemory) only.
    pub(super) memory: Option<NonZero<u64>>,
}

/// A send request.
///
/// # Invariants
///
/// The request is valid during `'a` and the first member of the structure that its operation
/// demands; its list has as many elements as it says.
pub(crate) struct SendWr<'a>(NonNull<b::ib_send_wr>, PhantomData<&'a b::ib_send_wr>);

impl SendWr<'_> {
    fn wr(&self) -> &b::ib_send_wr {
        // SAFETY: by the invariant.
        unsafe { self.0.as_ref() }
    }

    /// Returns the consumer's name for the request.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: both members are 64 bits, any of which is an integer.
        unsafe { *self.wr().__bindgen_anon_1.wr_id }
    }

    /// Returns what the request asks for; `None` if that is unknown here.
    pub(crate) fn operation(&self) -> Option<SendOp> {
        // SAFETY: 32 bits of either member.
        let key = unsafe { *self.wr().ex.invalidate_rkey };
        Some(match self.wr().opcode {
            b::ib_wr_opcode_IB_WR_SEND => SendOp::Send { invalidate: None },
            b::ib_wr_opcode_IB_WR_SEND_WITH_INV => SendOp::Send {
                invalidate: Some(key),
            },
            b::ib_wr_opcode_IB_WR_RDMA_WRITE => SendOp::Write {
                to: self.remote(),
                immediate: None,
            },
            b::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => SendOp::Write {
                to: self.remote(),
                // `imm_data` is the other member, of the same size.
                immediate: Some(key.to_ne_bytes()),
            },
            b::ib_wr_opcode_IB_WR_RDMA_READ => SendOp::Read {
                from: self.remote(),
                invalidate: false,
            },
            b::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => SendOp::Read {
                from: self.remote(),
                invalidate: true,
            },
            b::ib_wr_opcode_IB_WR_LOCAL_INV => SendOp::Invalidate { key },
            b::ib_wr_opcode_IB_WR_REG_MR => SendOp::Register,
            b::ib_wr_opcode_IB_WR_BIND_MW => SendOp::Bind(self.binding()?),
            b::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => self.atomic(|wr| AtomicOp::CompareSwap {
                compare: wr.compare_add,
                swap: wr.swap,
            }),
            b::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => self.atomic(|wr| AtomicOp::FetchAdd {
                add: wr.compare_add,
            }),
            b::ib_wr_opcode_IB_WR_MASKED_ATOMIC_CMP_AND_SWP => {
                self.atomic(|wr| AtomicOp::MaskedCompareSwap {
                    compare: wr.compare_add,
                    compare_mask: wr.compare_add_mask,
                    swap: wr.swap,
                    swap_mask: wr.swap_mask,
                })
            }
            b::ib_wr_opcode_IB_WR_MASKED_ATOMIC_FETCH_AND_ADD => {
                self.atomic(|wr| AtomicOp::MaskedFetchAdd {
                    add: wr.compare_add,
                    boundary: wr.compare_add_mask,
                })
            }
            _ => return None,
        })
    }

    fn remote(&self) -> Remote {
        // SAFETY: by the invariant, for these operations.
        let wr = unsafe { self.0.cast::<b::ib_rdma_wr>().as_ref() };
        Remote {
            rkey: wr.rkey,
            addr: wr.remote_addr,
        }
    }

    fn atomic(&self, operation: impl FnOnce(&b::ib_atomic_wr) -> AtomicOp) -> SendOp {
        // SAFETY: by the invariant, for these operations.
        let wr = unsafe { self.0.cast::<b::ib_atomic_wr>().as_ref() };
        SendOp::Atomic {
            at: Remote {
                rkey: wr.rkey,
                addr: wr.remote_addr,
            },
            operation: operation(wr),
        }
    }

    /// Returns the registration that the request asks for; `None` if it asks for something else, or
    /// for a region of another driver.
    pub(crate) fn into_registration(self) -> Option<Registration> {
        if self.wr().opcode != b::ib_wr_opcode_IB_WR_REG_MR {
            return None;
        }
        // SAFETY: by the invariant, for this operation.
        let wr = unsafe { self.0.cast::<b::ib_reg_wr>().as_ref() };
        if wr.mr.is_null() {
            return None;
        }
        // SAFETY: the consumer names a region of its own.
        let mr = unsafe { &*wr.mr };
        // SAFETY: the device of a region is there as long as the region.
        if !unsafe { is_ours(mr.device) } {
            return None;
        }
        // SAFETY: all regions of this driver begin with an `MrHead`.
        let head = unsafe { &*wr.mr.cast::<MrHead>() };
        Some(Registration {
            stag: wr.key,
            access: AccessFlags::from_raw(wr.access),
            iova: mr.iova,
            len: mr.length,
            memory: head.memory,
        })
    }

    fn binding(&self) -> Option<Binding> {
        // SAFETY: by the invariant, for this operation.
        let wr = unsafe { self.0.cast::<b::rsiw_bind_mw_wr>().as_ref() };
        // SAFETY: null, or a window of the consumer's own.
        let mw = unsafe { wr.mw.as_ref() }?;
        // SAFETY: null, or a region of the consumer's own.
        let mr = unsafe { wr.mr.as_ref() }?;
        Some(Binding {
            window: mw.rkey,
            stag: wr.rkey,
            region: mr.lkey,
            access: AccessFlags::from_raw(wr.access),
            addr: wr.addr,
            len: wr.length,
        })
    }

    fn has(&self, flag: b::ib_send_flags) -> bool {
        self.wr().send_flags & flag != 0
    }

    /// Returns whether success is reported, too.
    pub(crate) fn is_signalled(&self) -> bool {
        self.has(b::ib_send_flags_IB_SEND_SIGNALED)
    }

    /// Returns whether the peer is to raise an event.
    pub(crate) fn is_solicited(&self) -> bool {
        self.has(b::ib_send_flags_IB_SEND_SOLICITED)
    }

    /// Returns whether earlier requests must be complete first.
    pub(crate) fn is_fenced(&self) -> bool {
        self.has(b::ib_send_flags_IB_SEND_FENCE)
    }

    /// Returns whether the octets are to be copied now.
    pub(crate) fn is_inline(&self) -> bool {
        self.has(b::ib_send_flags_IB_SEND_INLINE)
    }

    /// Returns the elements, or `EINVAL` if their number is negative or the list is missing.
    pub(crate) fn elements(&self) -> Result<Elements<'_>> {
        // SAFETY: by the invariant.
        unsafe { Elements::from_raw(self.wr().sg_list, self.wr().num_sge) }
    }

    /// Copies the octets of all elements, whose STags do not matter, to `to`. Returns how many, or
    /// `EINVAL` if they do not fit.
    pub(crate) fn copy_inline(&self, to: &mut [u8]) -> Result<usize> {
        let mut at = 0usize;
        // Bound: the elements that a consumer in the kernel gives, until `to` is full.
        for element in self.elements()? {
            let len = usize::try_from(element.len)?;
            let end = at.checked_add(len).ok_or(EINVAL)?;
            let part = to.get_mut(at..end).ok_or(EINVAL)?;
            let from = usize::try_from(element.addr)?;
            // SAFETY: a kernel consumer names kernel memory of its own; `part` is as long.
            unsafe { page::fetch(part, core::ptr::with_exposed_provenance(from)) };
            at = end;
        }
        Ok(at)
    }
}

/// A receive request.
///
/// # Invariants
///
/// Its list has as many elements as it says.
pub(crate) struct RecvWr<'a>(&'a b::ib_recv_wr);

impl RecvWr<'_> {
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: both members are 64 bits, any of which is an integer.
        unsafe { *self.0.__bindgen_anon_1.wr_id }
    }

    /// Returns the elements, or `EINVAL` if their number is negative or the list is missing.
    pub(crate) fn elements(&self) -> Result<Elements<'_>> {
        // SAFETY: by the invariant.
        unsafe { Elements::from_raw(self.0.sg_list, self.0.num_sge) }
    }
}

/// The elements of a request.
#[derive(Clone)]
pub(crate) struct Elements<'a>(core::slice::Iter<'a, b::ib_sge>);

impl Elements<'_> {
    /// # Safety
    ///
    /// `list` must have `count` elements, if that is more than 0.
    unsafe fn from_raw<'a>(list: *const b::ib_sge, count: c_int) -> Result<Elements<'a>> {
        let elements: &[b::ib_sge] = match usize::try_from(count)? {
            0 => &[],
            _ if list.is_null() => return Err(EINVAL),
            // SAFETY: by the caller's promise.
            count => unsafe { core::slice::from_raw_parts(list, count) },
        };
        Ok(Elements(elements.iter()))
    }
}

impl Iterator for Elements<'_> {
    type Item = Element;

    fn next(&mut self) -> Option<Element> {
        self.0.next().map(|sge| Element {
            addr: sge.addr,
            len: sge.length,
            lkey: sge.lkey,
        })
    }
}

impl ExactSizeIterator for Elements<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A list of requests of type `W` to be posted one after the other.
///
/// # Invariants
///
/// `next` is null or a valid request, and so is what follows it.
pub(crate) struct Chain<'a, W> {
    current: *const W,
    next: *const W,
    _requests: PhantomData<&'a W>,
}

impl<W> Chain<'_, W> {
    /// # Safety
    ///
    /// `first` must be null or the first of a list of valid requests.
    pub(super) unsafe fn from_raw(first: *const W) -> Self {
        // INVARIANT: by the caller's promise.
        Self {
            current: first,
            next: first,
            _requests: PhantomData,
        }
    }

    /// Returns the request handed out last, which is the bad one if posting failed.
    pub(super) fn current(&self) -> *const W {
        self.current
    }
}

pub(crate) type SendChain<'a> = Chain<'a, b::ib_send_wr>;
pub(crate) type RecvChain<'a> = Chain<'a, b::ib_recv_wr>;

impl<'a> Iterator for SendChain<'a> {
    type Item = SendWr<'a>;

    fn next(&mut self) -> Option<SendWr<'a>> {
        let wr = NonNull::new(self.next.cast_mut())?;
        self.current = self.next;
        // SAFETY: by the invariant.
        self.next = unsafe { wr.as_ref() }.next;
        // INVARIANT: what the core demands of consumers.
        Some(SendWr(wr, PhantomData))
    }
}

impl<'a> Iterator for RecvChain<'a> {
    type Item = RecvWr<'a>;

    fn next(&mut self) -> Option<RecvWr<'a>> {
        // SAFETY: by the invariant.
        let wr = unsafe { self.next.as_ref() }?;
        self.current = self.next;
        self.next = wr.next;
        // INVARIANT: what the core demands of consumers.
        Some(RecvWr(wr))
    }
}

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
        // CAST: flag bits, in both places.
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
    /// The peer found the message wrong.
    REM_INV_REQ_ERR = ib_wc_status_IB_WC_REM_INV_REQ_ERR,
    REM_ACCESS_ERR = ib_wc_status_IB_WC_REM_ACCESS_ERR,
    GENERAL_ERR = ib_wc_status_IB_WC_GENERAL_ERR,
    RETRY_EXC_ERR = ib_wc_status_IB_WC_RETRY_EXC_ERR,
    RNR_RETRY_EXC_ERR = ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR,
    REM_OP_ERR = ib_wc_status_IB_WC_REM_OP_ERR,
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
