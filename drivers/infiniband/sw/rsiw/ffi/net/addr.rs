// SPDX-License-Identifier: GPL-2.0

//! Socket addresses: C's `sockaddr_storage` to and from [`SocketAddr`]. Any context.

use crate::ffi::raw::b;
use core::net::{
    IpAddr,
    Ipv4Addr,
    Ipv6Addr,
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6, //
};

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
