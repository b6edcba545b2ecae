// SPDX-License-Identifier: GPL-2.0

//! RDMA devices: what a driver implements, and what it gets from the RDMA core.
//!
//! [`driver::Driver`] is the safe counterpart of `struct ib_device_ops`. `callbacks` makes C's
//! table from it: a callback converts its arguments, calls one method and converts the result. A
//! method that a driver does not implement is not in the table, so the core itself refuses such
//! calls.
//!
//! | For | Module |
//! |-----|--------|
//! | making, finding and removing devices; `rdma link add` | [`device`] |
//! | attributes of devices, ports and queues | [`attr`] |
//! | calls of processes: their private parts, and rings that they map | [`udata`], [`udata`] |
//! | memory of processes and of DMA buffers; of consumers in the kernel | [`umem`], [`kmr`] |
//! | requests and completions of consumers in the kernel | [`wr`], [`wr`] |
//! | completion handlers and events | [`handle`] |
//! | connections of iWARP | [`iwcm`] |
//! | counters; what `rdma resource show -dd` tells | [`stats`] |
//!
//! # Lifetimes
//!
//! The core allocates the memory of an object, of the size that the table names, and frees it as
//! soon as the callback that destroys the object has returned. In that memory the core's structure
//! is followed by a reference to the driver's object, which is an [`Arc`](kernel::sync::Arc) and
//! may live longer. The driver's object never has a plain pointer to the core's. It has a
//! [`handle::Handle`], which each use enters like a gate. The callback that destroys an object
//! first calls the driver. Unless the driver refuses, the callback then revokes the handle, which
//! waits for those inside and refuses later ones. Regions are the core's exception: ffi allocates
//! their memory.
//!
//! # Context
//!
//! Methods of [`driver::Driver`] are called in process context and may sleep, unless they say
//! otherwise (posting, polling, arming). Upcalls through a handle are made in any context.
//!
//! # What it does not do
//!
//! It knows only RNICs of iWARP (one port, no partition keys), and software devices: there is no
//! DMA, and consumers name addresses of the kernel. A module has one driver. The core has no
//! structure for `IB_WR_BIND_MW`, so consumers post `struct rsiw_bind_mw_wr`
//! (`include/rdma/rsiw_verbs.h`); nothing else is of rsiw alone. What the core's macros must
//! declare in C (methods by `RDMA_VERBS_IOCTL`, files in sysfs) a driver names by [`driver::InC`].
//!
//! # Examples
//!
//! A whole driver, of 200 lines, is `samples/kernel/rdma_null.rs`. Its completion queue would tell
//! a consumer in the kernel of completions like this:
//!
//! ```
//! use crate::ffi::rdma::{
//!     handle::CqHandle,
//!     wr::{Wc, WcRoom},
//! };
//! use kernel::{new_spinlock, prelude::*, sync::{Arc, SpinLock}};
//!
//! #[pin_data]
//! struct Cq {
//!     handle: Arc<CqHandle>,
//!     #[pin]
//!     completions: SpinLock<KVec<Wc>>,
//! }
//!
//! impl Cq {
//!     /// Makes the queue that the core knows by `handle`: for `Driver::create_cq`.
//!     fn new(handle: Arc<CqHandle>) -> Result<Arc<Self>> {
//!         let completions = KVec::with_capacity(16, GFP_KERNEL)?;
//!         let new = pin_init!(Self {
//!             handle,
//!             completions <- new_spinlock!(completions),
//!         });
//!         Arc::pin_init(new, GFP_KERNEL)
//!     }
//!
//!     /// Adds a completion and calls the consumer's handler, without the lock.
//!     fn add(&self, wc: Wc) -> Result {
//!         self.completions.lock().push_within_capacity(wc)?;
//!         self.handle.notify();
//!         Ok(())
//!     }
//!
//!     /// Hands completions out: for `Driver::poll_cq`.
//!     fn poll(&self, room: &mut WcRoom<'_>) {
//!         let mut completions = self.completions.lock();
//!         while !room.is_full() {
//!             let Some(wc) = completions.pop() else { break };
//!             room.push(&wc);
//!         }
//!     }
//! }
//! ```
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h).

pub(crate) mod attr;
pub(super) mod callbacks;
pub(crate) mod device;
pub(crate) mod driver;
mod extent;
pub(crate) mod handle;
pub(crate) mod iwcm;
pub(crate) mod kmr;
pub(crate) mod stats;
pub(crate) mod udata;
pub(crate) mod umem;
pub(crate) mod wr;
