// SPDX-License-Identifier: GPL-2.0

//! Work requests of consumers in the kernel (`struct ib_send_wr`, `struct ib_recv_wr`).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Context: any, interrupts off included; the requests are the consumer's and do not change during
//! the call.

use super::{
    attr::AccessFlags,
    device::is_ours,
    extent::MrHead, //
};
use crate::{
    ffi::{
        copy,
        raw::b, //
    },
    proto::request::{
        AtomicKind,
        Operation, //
    },
    wire::{
        atomic::AtomicOperation,
        ddp::{
            Stag,
            TaggedOffset, //
        },
        rdmap::ImmediateData, //
    },
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::prelude::*;

/// A scatter/gather element.
#[derive(Clone, Copy)]
pub(crate) struct Element {
    /// Address.
    pub(crate) addr: u64,
    /// Octets.
    pub(crate) len: u32,
    /// STag.
    pub(crate) lkey: u32,
}

/// What some requests have beside their elements.
#[derive(Clone, Copy)]
pub(crate) enum Operands {
    /// Those of a fast registration.
    Register(Registration),
    /// Those of the bind of a window.
    Bind(Binding),
    /// Those of an Atomic Operation.
    Atomic(AtomicOperation),
}

/// A bind of a memory window (`struct rsiw_bind_mw_wr`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    /// The STag that the window was made with.
    pub(crate) window: u32,
    /// The window's STag with its new key.
    pub(crate) stag: u32,
    /// The region.
    pub(crate) region: u32,
    /// What is to be allowed.
    pub(crate) access: AccessFlags,
    /// The address by which requests name the first byte in the region.
    pub(crate) addr: u64,
    /// Octets.
    pub(crate) len: u64,
}

/// A fast registration. Only a request that was posted makes one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    /// The STag of the region with its new key.
    pub(crate) stag: u32,
    /// What is to be allowed.
    pub(crate) access: AccessFlags,
    /// The address by which requests name the first byte.
    pub(crate) iova: u64,
    /// Octets.
    pub(crate) len: u64,
    /// The memory that the region is of, as only [`FastMemory`](super::kmr::FastMemory) knows it.
    pub(super) memory: Option<u64>,
}

/// A send request.
///
/// # Invariants
///
/// The request is valid during `'a`, the first member of what its operation demands, and its list
/// has as many elements as it says.
pub(crate) struct SendWr<'a>(NonNull<b::ib_send_wr>, PhantomData<&'a b::ib_send_wr>);

impl SendWr<'_> {
    fn wr(&self) -> &b::ib_send_wr {
        // SAFETY: by the invariant.
        unsafe { self.0.as_ref() }
    }

    /// The consumer's name for it.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: both members are 64 bits, any of which is an integer.
        unsafe { *self.wr().__bindgen_anon_1.wr_id }
    }

    /// What it asks for, with operands if it has any; `None` for what this driver does not know.
    pub(crate) fn operation(&self) -> Option<(Operation, Option<Operands>)> {
        // SAFETY: 32 bits of either member.
        let key = Stag(unsafe { *self.wr().ex.invalidate_rkey });
        let operation = match self.wr().opcode {
            b::ib_wr_opcode_IB_WR_SEND => Operation::Send { invalidate: None },
            b::ib_wr_opcode_IB_WR_SEND_WITH_INV => Operation::Send {
                invalidate: Some(key),
            },
            b::ib_wr_opcode_IB_WR_RDMA_WRITE => {
                let (stag, to) = self.remote();
                Operation::Write {
                    stag,
                    to,
                    immediate: None,
                }
            }
            b::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => {
                let (stag, to) = self.remote();
                // The other member of the same size.
                let data = key.0.to_ne_bytes();
                Operation::Write {
                    stag,
                    to,
                    immediate: Some(ImmediateData::from_short(data)),
                }
            }
            b::ib_wr_opcode_IB_WR_RDMA_READ => {
                let (stag, to) = self.remote();
                Operation::Read {
                    stag,
                    to,
                    invalidate: false,
                }
            }
            b::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => {
                let (stag, to) = self.remote();
                Operation::Read {
                    stag,
                    to,
                    invalidate: true,
                }
            }
            b::ib_wr_opcode_IB_WR_LOCAL_INV => Operation::Invalidate { stag: key },
            b::ib_wr_opcode_IB_WR_REG_MR => {
                let operands = Operands::Register(self.registration()?);
                return Some((Operation::Register, Some(operands)));
            }
            b::ib_wr_opcode_IB_WR_BIND_MW => {
                let operands = Operands::Bind(self.binding()?);
                return Some((Operation::Bind, Some(operands)));
            }
            b::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => {
                return Some(self.atomic(AtomicKind::CompareSwap));
            }
            b::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
                return Some(self.atomic(AtomicKind::FetchAdd));
            }
            b::ib_wr_opcode_IB_WR_MASKED_ATOMIC_CMP_AND_SWP => {
                return Some(self.atomic(AtomicKind::MaskedCompareSwap));
            }
            b::ib_wr_opcode_IB_WR_MASKED_ATOMIC_FETCH_AND_ADD => {
                return Some(self.atomic(AtomicKind::MaskedFetchAdd));
            }
            _ => return None,
        };
        Some((operation, None))
    }

    /// The remote side of a Read or Write.
    fn remote(&self) -> (Stag, TaggedOffset) {
        // SAFETY: by the invariant, for these operations.
        let wr = unsafe { self.0.cast::<b::ib_rdma_wr>().as_ref() };
        (Stag(wr.rkey), TaggedOffset(wr.remote_addr))
    }

    /// An Atomic Operation and its operands. Without masks all bits count, and are one field.
    fn atomic(&self, kind: AtomicKind) -> (Operation, Option<Operands>) {
        // SAFETY: by the invariant, for these operations.
        let wr = unsafe { self.0.cast::<b::ib_atomic_wr>().as_ref() };
        let (add, compare, swap) = (wr.compare_add, wr.compare_add, wr.swap);
        let fetch_add = |mask| AtomicOperation::FetchAdd { add, mask };
        let cmp_swap = |compare_mask, swap_mask| AtomicOperation::CmpSwap {
            swap,
            swap_mask,
            compare,
            compare_mask,
        };
        let operation = match kind {
            AtomicKind::CompareSwap => cmp_swap(u64::MAX, u64::MAX),
            AtomicKind::FetchAdd => fetch_add(0),
            AtomicKind::MaskedCompareSwap => cmp_swap(wr.compare_add_mask, wr.swap_mask),
            AtomicKind::MaskedFetchAdd => fetch_add(wr.compare_add_mask),
        };
        let (stag, to) = (Stag(wr.rkey), TaggedOffset(wr.remote_addr));
        let asked = Operation::Atomic { stag, to, kind };
        (asked, Some(Operands::Atomic(operation)))
    }

    fn registration(&self) -> Option<Registration> {
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
        // SAFETY: all regions of this driver begin with this.
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

    /// Success is to be reported too.
    pub(crate) fn is_signalled(&self) -> bool {
        self.has(b::ib_send_flags_IB_SEND_SIGNALED)
    }

    /// The peer is to raise an event.
    pub(crate) fn is_solicited(&self) -> bool {
        self.has(b::ib_send_flags_IB_SEND_SOLICITED)
    }

    /// Earlier requests must be complete first.
    pub(crate) fn is_fenced(&self) -> bool {
        self.has(b::ib_send_flags_IB_SEND_FENCE)
    }

    /// The octets are to be copied now.
    pub(crate) fn is_inline(&self) -> bool {
        self.has(b::ib_send_flags_IB_SEND_INLINE)
    }

    /// The elements.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number that is none.
    pub(crate) fn elements(&self) -> Result<Elements<'_>> {
        // SAFETY: by the invariant.
        unsafe { Elements::from_raw(self.wr().sg_list, self.wr().num_sge) }
    }

    /// Copies the octets of all elements, whose STags do not matter, to `to`. Returns how many.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they do not fit.
    pub(crate) fn copy_inline(&self, to: &mut [u8]) -> Result<usize> {
        let mut at = 0usize;
        for element in self.elements()? {
            let len = usize::try_from(element.len)?;
            let end = at.checked_add(len).ok_or(EINVAL)?;
            let part = to.get_mut(at..end).ok_or(EINVAL)?;
            let from = usize::try_from(element.addr)?;
            // SAFETY: a kernel consumer names kernel memory of its own; `part` is as long.
            unsafe { copy::fetch(part, core::ptr::with_exposed_provenance(from)) };
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
    /// The consumer's name for it.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: both members are 64 bits, any of which is an integer.
        unsafe { *self.0.__bindgen_anon_1.wr_id }
    }

    /// The elements.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number that is none.
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

    /// The request handed out last, which is the bad one if posting failed.
    pub(super) fn current(&self) -> *const W {
        self.current
    }
}

/// Send requests to be posted.
pub(crate) type SendChain<'a> = Chain<'a, b::ib_send_wr>;
/// Receive requests to be posted.
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
