// SPDX-License-Identifier: GPL-2.0

//! Network devices, their changes, and socket addresses: C's `sockaddr_storage` to and from
//! [`SocketAddr`].
//!
//! Context: any. Callbacks about changes of network devices run in process context under RTNL,
//! those about addresses in any context.

use crate::ffi::raw::{
    b,
    h, //
};
use core::marker::PhantomData;
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6, //
};
use core::pin::Pin;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::fmt;
use kernel::prelude::*;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::types::Opaque;

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
    pub(crate) fn index(&self) -> i32 {
        // SAFETY: `self` is live.
        unsafe { h::netdev_index(self.0.get()) }
    }

    /// Returns whether the interface is a tunnel that keeps others out, such as WireGuard's. This
    /// never changes.
    pub(crate) fn is_tunnel(&self) -> bool {
        // SAFETY: `self` is live.
        unsafe { h::netdev_is_tunnel(self.0.get()) }
    }

    /// Returns the number of the interface's namespace, which no other namespace has.
    pub(crate) fn namespace(&self) -> u64 {
        // SAFETY: `self` is live.
        unsafe { h::netdev_namespace(self.0.get()) }
    }

    /// As [`NetDevice::namespace`], but not in the midst of a move to another one. Sleeps; takes
    /// the RTNL.
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

    /// Copies the IP addresses of the interface to `to`, as many as there is room for, IPv4 ones as
    /// IPv4-mapped ones. Leaves out addresses of which it is not known yet whether other hosts have
    /// them.
    pub(crate) fn copy_ips(&self, to: &mut [[u8; 16]]) -> Ips {
        let room = u32::try_from(to.len()).unwrap_or(u32::MAX);
        let mut pending = false;
        // SAFETY: `self` is live; `to` has room for that many, and any octets are an address.
        let count = unsafe {
            let to = to.as_mut_ptr().cast();
            h::netdev_copy_ips(self.0.get(), to, room, &raw mut pending)
        };
        Ips { count, pending }
    }

    /// Returns the address of a socket at `ip`, which may be an IPv4-mapped address. A link-local
    /// address gets the scope of the interface.
    pub(crate) fn address(&self, ip: [u8; 16], port: u16) -> SocketAddr {
        match Ipv6Addr::from(ip).to_canonical() {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                // CAST: indices of interfaces are positive.
                SocketAddrV6::new(ip, port, 0, self.index() as u32).into()
            }
            ip => SocketAddr::from((ip, port)),
        }
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

    /// Returns the namespace of the device, or `ENODEV` if the namespace is going away.
    pub(in crate::ffi) fn net(&self) -> Result<Net> {
        // SAFETY: `self` is live.
        let net = unsafe { h::netdev_get_net(self.0.get()) };
        // INVARIANT: the helper took a reference.
        NonNull::new(net).map(Net).ok_or(ENODEV)
    }
}

/// What [`NetDevice::copy_ips`] has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ips {
    /// How many addresses there are.
    pub(crate) count: u32,
    /// There are more addresses, of which it is not known yet whether other hosts have them. No
    /// event tells when it is.
    pub(crate) pending: bool,
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

/// What happened to a network device: the events that handlers are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetdevEvent {
    /// The device is being removed, or moved to another namespace. Under RTNL.
    Unregister,
    /// The hardware address changed. Under RTNL.
    ChangeAddr,
    /// The device may have begun or ceased to run, or to have a carrier. Under RTNL.
    ChangeState,
    /// An IP address came or went; one that is new may not be usable yet. In any context.
    ChangeIps,
}

impl NetdevEvent {
    fn from_raw(event: usize) -> Option<Self> {
        Some(match u32::try_from(event).ok()? {
            b::netdev_cmd_NETDEV_UNREGISTER => Self::Unregister,
            b::netdev_cmd_NETDEV_CHANGEADDR => Self::ChangeAddr,
            b::netdev_cmd_NETDEV_UP | b::netdev_cmd_NETDEV_DOWN | b::netdev_cmd_NETDEV_CHANGE => {
                Self::ChangeState
            }
            _ => return None,
        })
    }
}

/// The receiver of events of network devices.
pub(crate) trait NetdevHandler {
    /// Called for devices of all namespaces, in the context that `event` says.
    fn event(event: NetdevEvent, ndev: &NetDevice);
}

/// What notifiers are called about.
#[derive(Clone, Copy)]
enum NotifierChain {
    Devices,
    Ipv4,
    Ipv6,
}

/// An entry of a chain of notifiers, removed by dropping it.
///
/// # Invariants
///
/// `nb` is in `chain`.
#[pin_data(PinnedDrop)]
struct Notifier {
    #[pin]
    nb: Opaque<b::notifier_block>,
    chain: NotifierChain,
}

// SAFETY: the notifier block is touched by its chain only, from which any thread may take it.
unsafe impl Send for Notifier {}
// SAFETY: nothing is accessible through a shared reference.
unsafe impl Sync for Notifier {}

impl Notifier {
    /// Makes a notifier that calls `H`.
    fn new<H: NetdevHandler>(chain: NotifierChain) -> impl PinInit<Self, Error> {
        let callback = match chain {
            NotifierChain::Devices => device_event::<H>,
            NotifierChain::Ipv4 => ipv4_event::<H>,
            NotifierChain::Ipv6 => ipv6_event::<H>,
        };
        try_pin_init!(Self {
            // INVARIANT: if the registration fails, this initialiser fails.
            nb <- Opaque::try_ffi_init(move |slot: *mut b::notifier_block| {
                let nb = b::notifier_block {
                    notifier_call: Some(callback),
                    ..pin_init::zeroed()
                };
                // SAFETY: `slot` is valid for writing.
                unsafe { slot.write(nb) };
                // SAFETY: the block is initialised, has the function for this chain, and stays in
                // place until `drop` removes it.
                to_result(unsafe {
                    match chain {
                        NotifierChain::Devices => b::register_netdevice_notifier(slot),
                        NotifierChain::Ipv4 => b::register_inetaddr_notifier(slot),
                        NotifierChain::Ipv6 => h::register_inet6addr_notifier(slot),
                    }
                })
            }),
            chain,
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Notifier {
    fn drop(self: Pin<&mut Self>) {
        let nb = self.nb.get();
        // SAFETY: it is in the chain by the type invariants; an error cannot occur for such a
        // block.
        unsafe {
            match self.chain {
                NotifierChain::Devices => b::unregister_netdevice_notifier(nb),
                NotifierChain::Ipv4 => b::unregister_inetaddr_notifier(nb),
                NotifierChain::Ipv6 => h::unregister_inet6addr_notifier(nb),
            }
        };
    }
}

/// A registration of `H`, ended by dropping it (process context, RTNL not held).
#[pin_data]
pub(crate) struct NetdevNotifier<H: NetdevHandler> {
    #[pin]
    devices: Notifier,
    #[pin]
    ipv4: Notifier,
    #[pin]
    ipv6: Notifier,
    _handler: PhantomData<H>,
}

impl<H: NetdevHandler> NetdevNotifier<H> {
    /// Registers `H`. Process context, RTNL not held.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            devices <- Notifier::new::<H>(NotifierChain::Devices),
            ipv4 <- Notifier::new::<H>(NotifierChain::Ipv4),
            ipv6 <- Notifier::new::<H>(NotifierChain::Ipv6),
            _handler: PhantomData,
        }? Error)
    }
}

/// # Safety
///
/// To be called as a notifier for network devices.
unsafe extern "C" fn device_event<H: NetdevHandler>(
    _nb: *mut b::notifier_block,
    event: usize,
    info: *mut c_void,
) -> c_int {
    if let Some(event) = NetdevEvent::from_raw(event) {
        // SAFETY: netdevice notifiers get a `struct netdev_notifier_info`.
        let ndev = unsafe { h::netdev_notifier_info_to_dev(info) };
        // SAFETY: the device lives at least until the notifier returns.
        H::event(event, unsafe { NetDevice::from_raw(ndev) });
    }
    0
}

/// # Safety
///
/// To be called as a notifier for IPv4 addresses.
unsafe extern "C" fn ipv4_event<H: NetdevHandler>(
    _nb: *mut b::notifier_block,
    _event: usize,
    info: *mut c_void,
) -> c_int {
    // SAFETY: these notifiers get a `struct in_ifaddr`.
    let ndev = unsafe { h::in_ifaddr_to_dev(info) };
    // SAFETY: the address has a reference to the device, and lives until the notifier returns.
    H::event(NetdevEvent::ChangeIps, unsafe { NetDevice::from_raw(ndev) });
    0
}

/// # Safety
///
/// To be called as a notifier for IPv6 addresses.
unsafe extern "C" fn ipv6_event<H: NetdevHandler>(
    _nb: *mut b::notifier_block,
    _event: usize,
    info: *mut c_void,
) -> c_int {
    // SAFETY: these notifiers get a `struct inet6_ifaddr`.
    let ndev = unsafe { h::inet6_ifaddr_to_dev(info) };
    // SAFETY: the address has a reference to the device, and lives until the notifier returns.
    H::event(NetdevEvent::ChangeIps, unsafe { NetDevice::from_raw(ndev) });
    0
}

/// A `struct sockaddr_storage`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Storage(pub(super) b::__kernel_sockaddr_storage);

// SAFETY: it is octets; the pointer among its members is there for the alignment only.
unsafe impl Send for Storage {}
// SAFETY: as above.
unsafe impl Sync for Storage {}

impl Storage {
    pub(crate) const fn zeroed() -> Self {
        Storage(pin_init::zeroed())
    }

    pub(in crate::ffi) fn from_raw(raw: b::__kernel_sockaddr_storage) -> Self {
        Storage(raw)
    }

    pub(in crate::ffi) fn into_raw(self) -> b::__kernel_sockaddr_storage {
        self.0
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut b::__kernel_sockaddr_storage {
        &raw mut self.0
    }

    /// Returns the C address of `addr`, and the length that socket calls want for it.
    pub(crate) fn new(addr: &SocketAddr) -> (Self, usize) {
        let mut storage = Self::zeroed();
        let ptr = storage.as_mut_ptr();
        match addr {
            SocketAddr::V4(v4) => {
                let sin = b::sockaddr_in {
                    // CAST: address families are small constants.
                    sin_family: b::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: b::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    ..pin_init::zeroed()
                };
                // SAFETY: `sockaddr_storage` is larger than and at least as aligned as
                // `sockaddr_in`, and any bytes are a valid value of it.
                unsafe { ptr.cast::<b::sockaddr_in>().write(sin) };
                (storage, size_of::<b::sockaddr_in>())
            }
            SocketAddr::V6(v6) => {
                let sin6 = b::sockaddr_in6 {
                    // CAST: address families are small constants.
                    sin6_family: b::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo().to_be(),
                    sin6_addr: b::in6_addr {
                        in6_u: b::in6_addr__bindgen_ty_1 {
                            u6_addr8: v6.ip().octets(),
                        },
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above, for `sockaddr_in6`.
                unsafe { ptr.cast::<b::sockaddr_in6>().write(sin6) };
                (storage, size_of::<b::sockaddr_in6>())
            }
        }
    }

    /// Returns the address if it is an IPv4 or IPv6 one. IPv4 addresses in IPv6 form become IPv4
    /// addresses: the rest of the RDMA stack looks network devices up by them.
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        let ptr = &raw const self.0;
        // SAFETY: all bytes are initialised; the family comes first in each kind of address.
        let family = unsafe { ptr.cast::<u16>().read() };
        match u32::from(family) {
            b::AF_INET => {
                // SAFETY: `sockaddr_storage` is larger than and at least as aligned as
                // `sockaddr_in`, which consists of integers.
                let sin = unsafe { ptr.cast::<b::sockaddr_in>().read() };
                Some(SocketAddr::V4(SocketAddrV4::new(
                    Ipv4Addr::from(sin.sin_addr.s_addr.to_ne_bytes()),
                    u16::from_be(sin.sin_port),
                )))
            }
            b::AF_INET6 => {
                // SAFETY: as above, for `sockaddr_in6`.
                let sin6 = unsafe { ptr.cast::<b::sockaddr_in6>().read() };
                // SAFETY: all members of the union are integers of the same total size.
                let octets = unsafe { sin6.sin6_addr.in6_u.u6_addr8 };
                let port = u16::from_be(sin6.sin6_port);
                let ip = Ipv6Addr::from(octets);
                Some(match ip.to_canonical() {
                    IpAddr::V4(v4) => SocketAddr::V4(SocketAddrV4::new(v4, port)),
                    IpAddr::V6(v6) => SocketAddr::V6(SocketAddrV6::new(
                        v6,
                        port,
                        u32::from_be(sin6.sin6_flowinfo),
                        sin6.sin6_scope_id,
                    )),
                })
            }
            _ => None,
        }
    }
}
