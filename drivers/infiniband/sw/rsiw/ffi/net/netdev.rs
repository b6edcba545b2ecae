// SPDX-License-Identifier: GPL-2.0

//! Network devices. Any context.

use crate::ffi::raw::{
    b,
    h, //
};
use core::ptr::NonNull;
use kernel::{
    fmt,
    prelude::*,
    sync::aref::AlwaysRefCounted,
    types::Opaque, //
};

/// Longest interface name with its terminator (`IFNAMSIZ`).
const NAME_LEN: usize = 16;

/// A `struct net_device`.
///
/// References hold up the device's unregistration: keep none beyond `NETDEV_UNREGISTER`.
///
/// # Invariants
///
/// References to this type point to a network device whose reference count is not zero.
#[repr(transparent)]
pub(crate) struct NetDevice(Opaque<b::net_device>);

// SAFETY: a network device may be used and released from any thread.
unsafe impl Send for NetDevice {}
// SAFETY: the methods read single fields in ways that bear concurrent writers.
unsafe impl Sync for NetDevice {}

// SAFETY: `dev_hold` and `dev_put` count the references that keep a network device alive.
unsafe impl AlwaysRefCounted for NetDevice {
    fn inc_ref(&self) {
        // SAFETY: `self` is a live device by the type invariants.
        unsafe { h::dev_hold(self.0.get()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: the caller gives up a reference, so that the device is still live.
        unsafe { h::dev_put(obj.cast().as_ptr()) };
    }
}

impl NetDevice {
    /// Borrows a C network device.
    ///
    /// # Safety
    ///
    /// `ptr` is a network device with a reference that lasts for `'a`.
    pub(in crate::ffi) unsafe fn from_raw<'a>(ptr: *mut b::net_device) -> &'a Self {
        // SAFETY: the type is transparent; the caller vouches for the device.
        unsafe { &*ptr.cast::<Self>() }
    }

    pub(in crate::ffi) fn as_ptr(&self) -> *mut b::net_device {
        self.0.get()
    }

    pub(crate) fn name(&self) -> DeviceName {
        let mut name = DeviceName([0; NAME_LEN]);
        // SAFETY: `self` is live; the array has the length that the helper fills.
        unsafe { h::netdev_copy_name(self.0.get(), name.0.as_mut_ptr().cast()) };
        name
    }

    /// Returns the interface index of the VRF that the interface is in now; zero if it is in none.
    pub(crate) fn vrf(&self) -> i32 {
        // SAFETY: `self` is live.
        unsafe { h::netdev_vrf(self.0.get()) }
    }

    /// Returns the interface's index, which no other interface of its namespace has.
    pub(super) fn index(&self) -> i32 {
        // SAFETY: `self` is live.
        unsafe { h::netdev_index(self.0.get()) }
    }

    /// Returns whether the interface is a tunnel that keeps others out, such as WireGuard's. It
    /// stays what it is.
    pub(crate) fn is_tunnel(&self) -> bool {
        // SAFETY: `self` is live.
        unsafe { h::netdev_is_tunnel(self.0.get()) }
    }

    /// Returns the number of the interface's namespace, which no other one has.
    pub(crate) fn namespace(&self) -> u64 {
        // SAFETY: `self` is live.
        unsafe { h::netdev_namespace(self.0.get()) }
    }

    /// As [`NetDevice::namespace`], while no move to another one is under way. Sleeps; takes the
    /// RTNL.
    pub(crate) fn settled_namespace(&self) -> u64 {
        // SAFETY: `self` is live.
        unsafe { h::netdev_settled_namespace(self.0.get()) }
    }

    pub(crate) fn mtu(&self) -> u32 {
        // SAFETY: `self` is live.
        unsafe { h::netdev_mtu(self.0.get()) }
    }

    pub(crate) fn max_mtu(&self) -> u32 {
        // SAFETY: `self` is live.
        unsafe { h::netdev_max_mtu(self.0.get()) }
    }

    /// Returns the hardware address, if it has six octets and is not zero.
    pub(crate) fn mac(&self) -> Option<[u8; 6]> {
        let mut mac = [0; 6];
        // SAFETY: `self` is live; `mac` has room for the octets asked for.
        let len = unsafe { h::netdev_copy_addr(self.0.get(), mac.as_mut_ptr(), 6) };
        (len == 6 && mac != [0; 6]).then_some(mac)
    }

    pub(crate) fn is_loopback(&self) -> bool {
        // SAFETY: `self` is live.
        unsafe { h::netif_is_loopback(self.0.get()) }
    }

    /// Returns whether the interface is up.
    pub(crate) fn is_running(&self) -> bool {
        // SAFETY: `self` is live.
        unsafe { h::netif_running(self.0.get()) }
    }

    pub(crate) fn has_carrier(&self) -> bool {
        // SAFETY: `self` is live.
        unsafe { h::netif_carrier_ok(self.0.get()) }
    }

    /// Returns whether listening at `port` takes a privilege in the namespace of the interface.
    pub(crate) fn is_port_reserved(&self, port: u16) -> bool {
        // SAFETY: `self` is live.
        unsafe { h::netdev_port_is_reserved(self.0.get(), port) }
    }

    pub(crate) fn is_in_first_namespace(&self) -> bool {
        self.net()
            .is_ok_and(|net| core::ptr::eq(net.as_raw(), &raw const b::init_net))
    }

    /// Returns the namespace of the device, or `ENODEV` if that is going away.
    pub(in crate::ffi) fn net(&self) -> Result<Net> {
        // SAFETY: `self` is live.
        let net = unsafe { h::netdev_get_net(self.0.get()) };
        // INVARIANT: the helper took a reference.
        NonNull::new(net).map(Net).ok_or(ENODEV)
    }
}

/// A reference to a network namespace.
///
/// # Invariants
///
/// Owns a reference of the namespace.
pub(in crate::ffi) struct Net(NonNull<b::net>);

impl Net {
    pub(in crate::ffi) fn as_raw(&self) -> *mut b::net {
        self.0.as_ptr()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: the reference is owned by the type invariants.
        unsafe { h::put_net(self.0.as_ptr()) };
    }
}

/// A copy of an interface's name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceName([u8; NAME_LEN]);

impl DeviceName {
    /// Returns the octets of the name, without terminator.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.split(|c| *c == 0).next().unwrap_or(&[])
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(core::str::from_utf8(self.as_bytes()).unwrap_or("?"))
    }
}
