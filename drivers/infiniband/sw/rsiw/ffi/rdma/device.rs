// SPDX-License-Identifier: GPL-2.0

//! Making, finding and removing devices, and link types: what `rdma link add NAME type TYPE netdev
//! DEV` makes.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)
//!
//! Context: process, where nothing else is said.

use super::callbacks::Vtable;
use super::driver::Driver;
use super::handle::{
    claim_module,
    event,
    is_ours,
    DeviceHandle,
    Handle,
    Object, //
};
use crate::ffi::net::netdev::NetDevice;
use crate::ffi::raw::{
    b,
    h, //
};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::error::{
    from_result,
    to_result, //
};
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};
use kernel::sync::{
    Arc,
    ArcBorrow, //
};
use kernel::types::{
    Opaque,
    ScopeGuard, //
};

/// How many octets the name of a device may have (`IB_DEVICE_NAME_MAX`).
const NAME_MAX: usize = 64;

/// What the core has to know of a new device.
pub(crate) struct Spec<'a> {
    pub(crate) name: LinkName<'a>,
    pub(crate) netdev: &'a NetDevice,
    /// EUI-64 in network byte order.
    pub(crate) node_guid: u64,
    pub(crate) comp_vectors: u32,
    /// Whether the port mapper chooses ports.
    pub(crate) port_map: bool,
}

/// Makes a device and registers it with the core; `make` makes the driver's part. After an error
/// nothing is left behind. The error is `EEXIST` if the interface has a device of a driver with
/// this number (the caller makes one device at a time), `EINVAL` without completion vectors or for
/// a second driver of the module, `ENODEV` if the interface's namespace is going away, or that of
/// the core or of `make`.
pub(crate) fn add<D: Driver>(
    spec: &Spec<'_>,
    make: impl FnOnce(Arc<DeviceHandle>) -> Result<Arc<D::Device>>,
) -> Result {
    if is_taken::<D>(spec.netdev) {
        return Err(EEXIST);
    }
    let comp_vectors = c_int::try_from(spec.comp_vectors)?;
    if comp_vectors == 0 || !claim_module::<D>() {
        return Err(EINVAL);
    }
    // The device belongs to the namespace of its interface; where devices are shared, the core
    // takes the initial one instead. The namespace has to stay until the device is registered.
    let net = spec.netdev.net()?;
    // SAFETY: the size is that of the object, which starts with the core's structure.
    let raw = unsafe { b::_ib_alloc_device(Vtable::<D>::DEVICE_SIZE, net.as_raw()) };
    let obj = NonNull::new(raw).ok_or(ENOMEM)?;
    // SAFETY: until it is registered the device is ours to free; the driver's part goes with it.
    let unwind = ScopeGuard::new(move || unsafe { b::ib_dealloc_device(raw) });

    // SAFETY: the device is valid; the table is static.
    unsafe { b::ib_set_device_ops(raw, Vtable::<D>::OPS) };
    // SAFETY: revoked in `dealloc_driver`, which the core calls before it frees the device.
    let handle = unsafe { Handle::new(obj, GFP_KERNEL) }?;
    let inner = make(handle.clone()).inspect_err(|_| handle.revoke())?;
    // SAFETY: the core has allocated it zeroed, with the size of the object, so that it has no
    // driver's object yet; the handle was made for it above.
    unsafe { Object::<b::ib_device, D::Device>::install_with(raw, inner, handle) };

    {
        // SAFETY: nobody else knows the device yet.
        let dev = unsafe { &mut *raw };
        dev.link_ops = Vtable::<D>::LINK_OPS;
        if let Some(definitions) = D::IN_C.definitions {
            dev.driver_def = definitions();
        }
        dev.node_type = b::RDMA_NODE_RNIC as u8; // CAST: a small enumeration.
        dev.node_guid = spec.node_guid;
        dev.phys_port_cnt = 1;
        dev.num_comp_vectors = comp_vectors;
        dev.uverbs_cmd_mask |= 1 << b::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND;
        if !spec.port_map {
            dev.iw_driver_flags = b::iw_flags_IW_F_NO_PORT_MAP;
        }
        for (to, from) in dev.node_desc.iter_mut().zip(D::NODE_DESC) {
            *to = *from;
        }
        let name = spec.netdev.name();
        for (to, from) in dev.iw_ifname.iter_mut().zip(name.as_bytes()) {
            *to = *from;
        }
    }
    // SAFETY: both devices are valid; the core takes its own reference.
    to_result(unsafe { b::ib_device_set_netdev(raw, spec.netdev.as_ptr(), 1) })?;
    // SAFETY: the device is not registered yet.
    unsafe { h::ib_mark_name_assigned_by_user(raw) };
    // SAFETY: the device is complete; no DMA device means that addresses are kernel addresses.
    to_result(unsafe { b::ib_register_device(raw, spec.name.as_ptr(), core::ptr::null_mut()) })?;
    unwind.dismiss();
    Ok(())
}

/// Returns whether `netdev` has a device of this driver, or of another one with its number.
fn is_taken<D: Driver>(netdev: &NetDevice) -> bool {
    let raw = lookup::<D>(netdev);
    if let Some(raw) = raw {
        // SAFETY: gives back the reference of the lookup.
        unsafe { b::ib_device_put(raw.as_ptr()) };
    }
    raw.is_some()
}

/// Finds the device over `netdev` by the number of `D` and takes a reference to its registration.
fn lookup<D: Driver>(netdev: &NetDevice) -> Option<NonNull<b::ib_device>> {
    // SAFETY: `netdev` is valid; the result carries a reference.
    NonNull::new(unsafe { b::ib_device_get_by_netdev(netdev.as_ptr(), D::DRIVER_ID.0) })
}

/// A registered device, found by its interface, that stays registered while this exists.
///
/// # Invariants
///
/// The device is one of `D`, and there is a reference to its registration.
pub(crate) struct Found<D: Driver>(NonNull<b::ib_device>, PhantomData<D>);

impl<D: Driver> Found<D> {
    pub(crate) fn by_netdev(netdev: &NetDevice) -> Option<Self> {
        let raw = lookup::<D>(netdev)?;
        // Another driver may have the same number, as siw has for the sake of its provider.
        //
        // SAFETY: there is a reference to the device.
        if !unsafe { is_ours(raw.as_ptr()) } || !claim_module::<D>() {
            // SAFETY: gives the reference back.
            unsafe { b::ib_device_put(raw.as_ptr()) };
            return None;
        }
        // INVARIANT: its operations belong to this module, whose only driver is `D`.
        Some(Self(raw, PhantomData))
    }

    pub(crate) fn inner(&self) -> ArcBorrow<'_, D::Device> {
        // SAFETY: by the invariant; the core gives up a device after its registration.
        unsafe { Object::get(self.0.as_ptr()) }
    }

    /// Tells consumers if the state of the port is another one than they were told last. `netdev`
    /// is the interface of the device. Process context, RTNL held.
    pub(crate) fn port_changed(&self, netdev: &NetDevice) {
        // SAFETY: the device is registered by the invariant; the interface is live.
        unsafe { b::ib_dispatch_port_state_event(self.0.as_ptr(), netdev.as_ptr()) };
    }
}

impl<D: Driver> Drop for Found<D> {
    fn drop(&mut self) {
        // SAFETY: gives back the reference of `by_netdev`.
        unsafe { b::ib_device_put(self.0.as_ptr()) };
    }
}

/// Removes all devices of the driver and waits until they are gone.
pub(crate) fn remove_all<D: Driver>() {
    // SAFETY: may be called at any time in process context.
    unsafe { b::ib_unregister_driver(D::DRIVER_ID.0) };
}

impl DeviceHandle {
    /// Makes the core remove the device, in another context. Does nothing while the device is not
    /// registered, as when it moves to another namespace; see [`Driver::enabled`].
    pub(crate) fn unregister(&self) {
        self.with(|dev| {
            // SAFETY: the gate keeps the device alive.
            if unsafe { h::ib_device_try_get(dev) } {
                // SAFETY: the reference keeps the device registered; it has a `dealloc_driver`.
                unsafe { b::ib_unregister_device_queued(dev) };
                // SAFETY: gives the reference back.
                unsafe { b::ib_device_put(dev) };
            }
        });
    }

    /// Makes the core read the port's GIDs anew; returns false if the device is not registered. The
    /// core tells consumers only of GIDs that it gave itself. While it reads, consumers may find one
    /// GID or another missing.
    pub(crate) fn gids_changed(&self) -> bool {
        let told = self.with(|dev| {
            // SAFETY: the gate keeps the device alive.
            if !unsafe { h::ib_device_try_get(dev) } {
                return false;
            }
            let mut event = event(b::ib_event_type_IB_EVENT_GID_CHANGE);
            event.device = dev;
            event.element.port_num = ManuallyDrop::new(1);
            // SAFETY: the reference keeps the device registered; the event lives across the call.
            unsafe { b::ib_dispatch_event(&raw const event) };
            // SAFETY: gives the reference back.
            unsafe { b::ib_device_put(dev) };
            true
        });
        told == Some(true)
    }

    /// Returns whether the core takes the device from its clients now: to remove it, or to move it
    /// to another namespace, in which it adds the device to them again.
    pub(crate) fn is_moving(&self) -> bool {
        // SAFETY: the gate keeps the device alive.
        self.with(|dev| unsafe { h::ib_device_is_moving(dev) }) == Some(true)
    }

    /// Returns the core's number of the device, unless it is going away. A registered device keeps
    /// it until it is gone, and no other device has it meanwhile.
    pub(crate) fn number(&self) -> Option<u32> {
        self.with(|dev| {
            // SAFETY: the gate keeps the device alive; registration has set it.
            unsafe { (*dev).index }
        })
    }

    /// Returns the interface of the device, unless the device is going away.
    pub(crate) fn netdev(&self) -> Option<ARef<NetDevice>> {
        self.with(|dev| {
            // SAFETY: the gate keeps the device alive; the result carries a reference.
            let raw = unsafe { b::ib_device_get_netdev(dev, 1) };
            // SAFETY: the reference of the call becomes that of the `ARef`.
            NonNull::new(raw).map(|raw| unsafe { ARef::from_raw(raw.cast()) })
        })
        .flatten()
    }
}

impl kernel::fmt::Display for DeviceHandle {
    fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
        self.with(|dev| {
            // The administrator may change the name meanwhile: then this shows a mixture of both
            // names.
            //
            // SAFETY: the gate keeps the device alive; this is the address of one of its fields.
            let name = unsafe { &raw const (*dev).name }.cast::<u8>();
            for i in 0..NAME_MAX {
                // SAFETY: as above; the array has this length.
                match unsafe { name.add(i).read_volatile() } {
                    0 => break,
                    c => kernel::fmt::Write::write_char(f, char::from(c))?,
                }
            }
            Ok(())
        })
        .unwrap_or_else(|| f.write_str("(removed)"))
    }
}

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
pub(crate) trait LinkOps: Send + Sync {
    /// Makes a device. Called one at a time, so that no two find an interface without a device.
    /// Process context; the core keeps link types registered (`link_ops_rwsem`).
    fn new_link(&self, name: LinkName<'_>, netdev: &NetDevice) -> Result;
}

kernel::sync::global_lock! {
    // SAFETY: nobody looks at it before `MAKER_STATE` says that it is initialised.
    unsafe(uninit) static MAKER: Mutex<Option<Arc<dyn LinkOps>>> = None;
}

/// The state of [`static@MAKER`]: not initialised, being initialised, or initialised for good.
static MAKER_STATE: Atomic<u32> = Atomic::new(UNUSED);
const UNUSED: u32 = 0;
const BEGUN: u32 = 1;
const READY: u32 = 2;

/// As long as this exists, an object makes the devices of all link types of the module. There is
/// one maker at a time, as the core passes nothing by which the module could tell several apart.
pub(crate) struct Maker(());

impl Maker {
    /// Lets `ops` make the devices, or fails with `EBUSY` if another object makes them.
    pub(crate) fn new(ops: Arc<dyn LinkOps>) -> Result<Self> {
        match MAKER_STATE.cmpxchg(UNUSED, BEGUN, Relaxed) {
            Ok(_) => {
                // SAFETY: only one caller gets here, once, and nobody looks at it before the store.
                unsafe { MAKER.init() };
                MAKER_STATE.store(READY, Release);
            }
            Err(READY) => {}
            Err(_) => return Err(EBUSY),
        }
        // Pairs with the release above, in the call that initialised `MAKER`.
        MAKER_STATE.load(Acquire);
        let mut maker = MAKER.lock();
        if maker.is_some() {
            return Err(EBUSY);
        }
        *maker = Some(ops);
        Ok(Self(()))
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        let ops = MAKER.lock().take();
        drop(ops);
    }
}

/// A registered link type, for which the [`Maker`] makes devices, if there is one; dropping it
/// makes the core forget the type.
#[pin_data]
pub(crate) struct Registration {
    #[pin]
    ops: Opaque<b::rdma_link_ops>,
    _registered: Registered,
}

// SAFETY: the core guards its list of link types itself.
unsafe impl Send for Registration {}
// SAFETY: there is nothing to do with a shared reference.
unsafe impl Sync for Registration {}

/// Undoes the registration. It is a type of its own, because `pin_data` types have no plain `Drop`.
struct Registered(*mut b::rdma_link_ops);

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: made only for operations that are registered and still in place: this field is
        // dropped before the memory goes away.
        unsafe { b::rdma_link_unregister(self.0) };
    }
}

impl Registration {
    pub(crate) fn new(name: &'static CStr) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            ops <- Opaque::ffi_init(|slot: *mut b::rdma_link_ops| {
                // SAFETY: `slot` is the place of the structure.
                unsafe {
                    slot.write(b::rdma_link_ops {
                        type_: name.as_char_ptr(),
                        newlink: Some(new_link),
                        ..pin_init::zeroed()
                    })
                };
                // The core does not add a type whose name it has already, but takes any type out of
                // its list: so this is made a list of one.
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
unsafe extern "C" fn new_link(name: *const c_char, netdev: *mut b::net_device) -> c_int {
    from_result(|| {
        // INVARIANT: the core passes a C string that outlives the call.
        let name = LinkName(name, PhantomData);
        // SAFETY: the core holds a reference during the call.
        let netdev = unsafe { NetDevice::from_raw(netdev) };
        if MAKER_STATE.load(Acquire) != READY {
            return Err(ENODEV);
        }
        let maker = MAKER.lock();
        maker.as_ref().ok_or(ENODEV)?.new_link(name, netdev)?;
        Ok(0)
    })
}
