// SPDX-License-Identifier: GPL-2.0

//! A table of reference-counted objects that is looked up without a lock.
//!
//! It is an xarray whose entries are small nodes with the object's reference. A lookup takes a
//! reference of its own within an RCU read-side section. A removed node drops its reference a grace
//! period later, by `call_rcu`, so that destroying a thousand objects waits for none of them.
//!
//! Where indices are scattered, the way through the xarray is long. A table for such indices also
//! has *places* for some of its nodes, by the low bits of the index. A lookup looks there first. Of
//! the nodes that share a place, the newest has it.
//!
//! The memory of the xarray itself, which neighbours share, counts for the memory cgroup of the
//! process whose insertion needs it.
//!
//! C headers: [`include/linux/xarray.h`](srctree/include/linux/xarray.h),
//! [`include/linux/rcupdate.h`](srctree/include/linux/rcupdate.h)

use crate::ffi::module::Loaded;
use crate::ffi::raw::{
    b,
    h, //
};
use core::marker::PhantomData;
use core::ops::RangeInclusive;
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{
    Acquire,
    Atomic, //
};
use kernel::sync::{
    rcu,
    Arc, //
};
use kernel::types::Opaque;

/// Places of a table that has them: two pages of pointers.
pub(crate) const PLACES: u32 = 1024;

/// What the xarray points to.
#[repr(C)]
struct Node<T> {
    rcu: Opaque<b::callback_head>,
    /// The index of the node if it may have a place, else 0.
    index: u32,
    value: Arc<T>,
}

type NodePtr<T> = Atomic<*mut Node<T>>;

/// A table from 32-bit indices to `Arc<T>`.
///
/// The table's own reference to a removed object is dropped in softirq: the `Drop` of `T`, if it is
/// the last one, must neither sleep nor wait.
///
/// # Invariants
///
/// Each entry of `xa` is null or came from `KBox::into_raw` of a [`Node`] and is freed a grace
/// period after it was erased. Each of `places` is null or an entry of `xa`, at the index that the
/// node says; both change under the xarray's lock.
#[pin_data(PinnedDrop)]
pub(crate) struct RcuTable<T: Send + Sync + 'static> {
    #[pin]
    xa: Opaque<b::xarray>,
    /// Where the search for a free index goes on; changes under the xarray's lock.
    cursor: Opaque<u32>,
    /// [`PLACES`], or none.
    places: KVec<NodePtr<T>>,
    _values: PhantomData<Arc<T>>,
}

// SAFETY: the xarray has its own lock, and the values may go to any thread.
unsafe impl<T: Send + Sync> Send for RcuTable<T> {}
// SAFETY: see above.
unsafe impl<T: Send + Sync> Sync for RcuTable<T> {}

impl<T: Send + Sync + 'static> RcuTable<T> {
    /// Makes an empty table without places, for indices that are few or chosen by the table, which
    /// looks for free ones from `first` on.
    pub(crate) fn new(first: u32, loaded: Loaded) -> impl PinInit<Self> {
        Self::over(KVec::new(), first, loaded)
    }

    /// Makes an empty table with places, for what [`RcuTable::insert`] puts in. Sleeps.
    pub(crate) fn with_places(loaded: Loaded) -> Result<impl PinInit<Self>> {
        let mut places = KVec::with_capacity(PLACES as usize, GFP_KERNEL)?;
        for _ in 0..PLACES {
            let place = Atomic::new(core::ptr::null_mut());
            places.push_within_capacity(place).map_err(|_| ENOMEM)?;
        }
        Ok(Self::over(places, 0, loaded))
    }

    /// Makes an empty table; all of `places` must be null.
    fn over(places: KVec<NodePtr<T>>, first: u32, _loaded: Loaded) -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: an empty xarray, and nothing in the places.
            xa <- Opaque::ffi_init(|xa| {
                // SAFETY: `xa` is valid for writes.
                unsafe { h::xa_init_alloc_irq_account(xa) }
            }),
            cursor: Opaque::new(first),
            places,
            _values: PhantomData,
        })
    }

    fn node(index: u32, value: Arc<T>, flags: Flags) -> Result<*mut Node<T>> {
        let node = Node {
            rcu: Opaque::uninit(),
            index,
            value,
        };
        Ok(KBox::into_raw(KBox::new(node, flags)?))
    }

    /// Frees a node that never was in the table.
    fn unnode(node: *mut Node<T>) {
        // SAFETY: only called with what `node` returned and the table did not take.
        drop(unsafe { KBox::from_raw(node) });
    }

    #[inline(always)]
    fn place(&self, index: u32) -> Option<&NodePtr<T>> {
        self.places.get((index % PLACES) as usize)
    }

    /// Returns the place of an index, for C; null if the table has no places.
    fn raw_place(&self, index: u32) -> *mut *mut c_void {
        self.place(index)
            .map_or(core::ptr::null_mut(), |place| place.as_ptr().cast())
    }

    /// Puts `value` at `index`, in memory of `flags`, or fails with `EBUSY` if the index is taken,
    /// or with `ENOMEM`. Sleeps.
    pub(crate) fn insert(&self, index: u32, value: Arc<T>, flags: Flags) -> Result {
        let node = Self::node(index, value, flags)?;
        let place = self.raw_place(index);
        // SAFETY: the xarray is initialised, and `node` is not a special entry. The place is null
        // or lives as long as the table, and is written under the xarray's lock only.
        // INVARIANT: a node, published after its initialisation; its place has it once the xarray
        // does, under the same lock.
        let ret = to_result(unsafe {
            h::xa_insert_irq(
                self.xa.get(),
                index as usize,
                node.cast(),
                place,
                b::GFP_KERNEL,
            )
        });
        if ret.is_err() {
            Self::unnode(node);
        }
        ret
    }

    /// Puts `value` at a free index of `range`, in memory of `flags`, and returns the index.
    /// Indices go round the range, so that none is taken again soon. Fails with `EBUSY` if no index
    /// is free, or with `ENOMEM`. Sleeps.
    pub(crate) fn insert_free(
        &self,
        range: RangeInclusive<u32>,
        value: Arc<T>,
        flags: Flags,
    ) -> Result<u32> {
        let mut index = 0;
        // The node gets no place: others may see it before its index can be written into it.
        let node = Self::node(index, value, flags)?;
        // SAFETY: the xarray is initialised and tracks free entries; `node` is not a special entry;
        // the cursor is accessed here only, under the xarray's lock.
        // INVARIANT: a node, published after its initialisation.
        let ret = unsafe {
            h::xa_alloc_cyclic_irq(
                self.xa.get(),
                &mut index,
                node.cast(),
                *range.start(),
                *range.end(),
                self.cursor.get(),
                b::GFP_KERNEL,
            )
        };
        if let Err(e) = to_result(ret) {
            Self::unnode(node);
            return Err(e);
        }
        Ok(index)
    }

    /// Takes a reference to what is at `index`. Any context.
    #[inline(always)]
    pub(crate) fn lookup(&self, index: u32) -> Option<Arc<T>> {
        let _rcu = rcu::read_lock();
        let recent = self
            .place(index)
            .and_then(|place| NonNull::new(place.load(Acquire)))
            // SAFETY: by the invariant what is found in a place is in the xarray or was within this
            // read-side section, and so is not freed before its end. It was initialised before it
            // got there.
            .filter(|node| unsafe { node.as_ref() }.index == index);
        let node = match recent {
            Some(node) => node,
            None => {
                // SAFETY: the xarray is initialised.
                let node = unsafe { b::xa_load(self.xa.get(), index as usize) };
                NonNull::new(node.cast::<Node<T>>())?
            }
        };
        // SAFETY: by the invariant a node found within a read-side section is not freed before its
        // end; nodes do not change while they are in the table.
        Some(unsafe { node.as_ref() }.value.clone())
    }

    /// Calls `f` for everything in the table, in the context of the caller. What is put in or taken
    /// out meanwhile may be seen or not.
    pub(crate) fn for_each(&self, mut f: impl FnMut(Arc<T>)) {
        let mut index = 0;
        loop {
            let found = {
                let _rcu = rcu::read_lock();
                // SAFETY: the xarray is initialised.
                let node =
                    unsafe { b::xa_find(self.xa.get(), &mut index, usize::MAX, b::XA_PRESENT) };
                NonNull::new(node.cast::<Node<T>>()).map(|node| {
                    // SAFETY: as in `lookup`.
                    unsafe { node.as_ref() }.value.clone()
                })
            };
            let Some(value) = found else {
                return;
            };
            f(value);
            let Some(next) = index.checked_add(1) else {
                return;
            };
            index = next;
        }
    }

    /// Empties `index` and returns what was there. Lookups that came before may still hold
    /// references. Any context.
    pub(crate) fn remove(&self, index: u32) -> Option<Arc<T>> {
        let place = self.raw_place(index);
        // SAFETY: the xarray is initialised. The place is null or lives as long as the table, and
        // is written under the xarray's lock only.
        // INVARIANT: the node leaves the xarray and its place under the same lock.
        let node = unsafe { h::xa_erase_irqsave(self.xa.get(), index as usize, place) };
        let node = NonNull::new(node.cast::<Node<T>>())?;
        // SAFETY: erasing made us the one who frees the node, which has not happened yet.
        let value = unsafe { node.as_ref() }.value.clone();
        // SAFETY: the head is part of the node, which nobody else frees.
        let head = unsafe { Opaque::cast_into(&raw const (*node.as_ptr()).rcu) };
        // SAFETY: the head stays valid until the callback, which frees the node.
        // INVARIANT: the node is freed a grace period after it was erased.
        unsafe { h::call_rcu_hurry(head, Some(free_node::<T>)) };
        Some(value)
    }
}

/// Frees a [`Node`] after its grace period. Softirq.
///
/// # Safety
///
/// `head` must be the first field of a node that no longer is in a table.
unsafe extern "C" fn free_node<T>(head: *mut b::callback_head) {
    // SAFETY: the node came from `KBox::into_raw`, and this is the only place that frees it.
    drop(unsafe { KBox::from_raw(head.cast::<Node<T>>()) });
}

#[pinned_drop]
impl<T: Send + Sync + 'static> PinnedDrop for RcuTable<T> {
    fn drop(self: Pin<&mut Self>) {
        let mut index = 0;
        loop {
            // SAFETY: the xarray is initialised.
            let node = unsafe { b::xa_find(self.xa.get(), &mut index, usize::MAX, b::XA_PRESENT) };
            let Some(node) = NonNull::new(node.cast::<Node<T>>()) else {
                break;
            };
            // SAFETY: the xarray is initialised. Nobody looks at the places any more.
            unsafe { h::xa_erase_irqsave(self.xa.get(), index, core::ptr::null_mut()) };
            // SAFETY: by the invariant from `KBox::into_raw`; no lookup runs, as the table is ours.
            drop(unsafe { KBox::from_raw(node.as_ptr()) });
        }
        // SAFETY: the xarray is initialised and not used again.
        unsafe { b::xa_destroy(self.xa.get()) };
    }
}
