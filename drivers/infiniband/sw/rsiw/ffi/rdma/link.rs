// SPDX-License-Identifier: GPL-2.0

//! Link types: what `rdma link add NAME type TYPE netdev DEV` makes.
//!
//! C header: [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h).

use crate::ffi::{
    net::netdev::NetDevice,
    raw::b, //
};
use core::marker::PhantomData;
use kernel::{
    error::from_result,
    prelude::*,
    str::CStr,
    types::Opaque, //
};

/// The name that the administrator chose for a device.
///
/// # Invariants
///
/// A C string, valid for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct LinkName<'a>(*const c_char, PhantomData<&'a c_char>);

impl LinkName<'_> {
    pub(super) fn as_ptr(self) -> *const c_char {
        self.0
    }
}

/// Makes devices on the administrator's request.
pub(crate) trait LinkOps: 'static {
    /// Makes a device. Process context; the core keeps link types registered (`link_ops_rwsem`).
    fn new_link(name: LinkName<'_>, netdev: &NetDevice) -> Result;
}

/// A registered link type; dropping it makes the core forget the type.
#[pin_data]
pub(crate) struct Registration<T: LinkOps> {
    #[pin]
    ops: Opaque<b::rdma_link_ops>,
    _ops: PhantomData<fn() -> T>,
    _registered: Registered,
}

// SAFETY: the core guards its list of link types itself.
unsafe impl<T: LinkOps> Send for Registration<T> {}
// SAFETY: there is nothing to do with a shared reference.
unsafe impl<T: LinkOps> Sync for Registration<T> {}

/// Undoes the registration; apart because `pin_data` types have no plain `Drop`.
struct Registered(*mut b::rdma_link_ops);

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: made only for operations that are registered and still in place: this field is
        // dropped before the memory goes away.
        unsafe { b::rdma_link_unregister(self.0) };
    }
}

impl<T: LinkOps> Registration<T> {
    pub(crate) fn new(name: &'static CStr) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            ops <- Opaque::ffi_init(|slot: *mut b::rdma_link_ops| {
                // SAFETY: `slot` is the place of the structure.
                unsafe {
                    slot.write(b::rdma_link_ops {
                        type_: name.as_char_ptr(),
                        newlink: Some(new_link::<T>),
                        ..pin_init::zeroed()
                    })
                };
                // The core does not add a type whose name it has already, but takes any out of its
                // list: so let this be a list of one.
                //
                // SAFETY: this is the place of one of its members, which was just written.
                let list = unsafe { &raw mut (*slot).list };
                // SAFETY: as above.
                unsafe {
                    list.write(b::list_head {
                        next: list,
                        prev: list,
                    })
                };
                // SAFETY: the structure is complete and pinned until it is unregistered.
                unsafe { b::rdma_link_register(slot) };
            }),
            _ops: PhantomData,
            _registered: Registered(
                // SAFETY: `this` points to the memory being initialised.
                Opaque::cast_into(unsafe { &raw const (*this.as_ptr()).ops }),
            ),
        })
    }
}

/// # Safety
///
/// Called by the core with a C string and an interface that it holds a reference to.
unsafe extern "C" fn new_link<T: LinkOps>(
    name: *const c_char,
    netdev: *mut b::net_device,
) -> c_int {
    from_result(|| {
        // INVARIANT: the core passes a C string that outlives the call.
        let name = LinkName(name, PhantomData);
        // SAFETY: the core holds a reference during the call.
        let netdev = unsafe { NetDevice::from_raw(netdev) };
        T::new_link(name, netdev)?;
        Ok(0)
    })
}
