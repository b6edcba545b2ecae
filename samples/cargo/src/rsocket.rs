// SPDX-License-Identifier: GPL-2.0
//! rsockets (rsocket(7)), which librdmacm exports: the only unsafe code of this crate.

#![allow(unsafe_code)] // C functions

use std::ffi::c_void;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::raw::{c_int, c_uint};

// Linux's, on all architectures that have RDMA.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const SOCK_STREAM: c_int = 1;

#[link(name = "rdmacm")]
extern "C" {
    fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn rbind(socket: c_int, addr: *const Address, len: c_uint) -> c_int;
    fn rlisten(socket: c_int, backlog: c_int) -> c_int;
    fn raccept(socket: c_int, addr: *mut Address, len: *mut c_uint) -> c_int;
    fn rconnect(socket: c_int, addr: *const Address, len: c_uint) -> c_int;
    fn rgetsockname(socket: c_int, addr: *mut Address, len: *mut c_uint) -> c_int;
    fn rrecv(socket: c_int, buf: *mut c_void, len: usize, flags: c_int) -> isize;
    fn rsend(socket: c_int, buf: *const c_void, len: usize, flags: c_int) -> isize;
    fn rclose(socket: c_int) -> c_int;
}

/// `struct sockaddr_in6`, or `struct sockaddr_in` in its first 16 octets.
#[repr(C, align(4))]
struct Address([u8; Address::LEN as usize]);

impl Address {
    const LEN: c_uint = 28;
    const LEN_V4: c_uint = 16;

    const fn none() -> Self {
        Self([0; Self::LEN as usize])
    }

    /// Returns an address and its length.
    fn new(addr: &SocketAddr) -> (Self, c_uint) {
        let Self(mut octets) = Self::none();
        octets[..2].copy_from_slice(&family(addr).to_ne_bytes());
        octets[2..4].copy_from_slice(&addr.port().to_be_bytes());
        let len = match addr {
            SocketAddr::V4(addr) => {
                octets[4..8].copy_from_slice(&addr.ip().octets());
                Self::LEN_V4
            }
            SocketAddr::V6(addr) => {
                octets[8..24].copy_from_slice(&addr.ip().octets());
                octets[24..].copy_from_slice(&addr.scope_id().to_ne_bytes());
                Self::LEN
            }
        };
        (Self(octets), len)
    }

    /// Returns the address, unless it is of another family.
    fn get(&self) -> Option<SocketAddr> {
        let port = u16::from_be_bytes(self.octets(2));
        match u16::from_ne_bytes(self.octets(0)) {
            AF_INET => {
                let ip = Ipv4Addr::from(self.octets::<4>(4));
                Some(SocketAddr::new(IpAddr::V4(ip), port))
            }
            AF_INET6 => {
                let ip = Ipv6Addr::from(self.octets::<16>(8));
                let scope = u32::from_ne_bytes(self.octets(24));
                Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope)))
            }
            _ => None,
        }
    }

    fn octets<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| self.0[at + i])
    }
}

fn family(addr: &SocketAddr) -> u16 {
    match addr {
        SocketAddr::V4(_) => AF_INET,
        SocketAddr::V6(_) => AF_INET6,
    }
}

/// What a function has returned, if that is not an error.
fn check(returned: c_int) -> io::Result<c_int> {
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(returned)
}

fn check_len(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// An rsocket, which is closed when it is dropped.
pub(crate) struct Rsocket(c_int);

impl Rsocket {
    /// Makes one for connections of the family of `addr`.
    pub(crate) fn new(addr: &SocketAddr) -> io::Result<Self> {
        // SAFETY: It takes numbers only.
        check(unsafe { rsocket(c_int::from(family(addr)), SOCK_STREAM, 0) }).map(Self)
    }

    pub(crate) fn bind(&self, addr: &SocketAddr) -> io::Result<()> {
        let (addr, len) = Address::new(addr);
        // SAFETY: `addr` has at least `len` octets, which are read during the call.
        check(unsafe { rbind(self.0, &addr, len) }).map(drop)
    }

    pub(crate) fn listen(&self, backlog: c_int) -> io::Result<()> {
        // SAFETY: It takes numbers only.
        check(unsafe { rlisten(self.0, backlog) }).map(drop)
    }

    pub(crate) fn accept(&self) -> io::Result<Self> {
        // SAFETY: Null pointers say that the other end's address is not asked for.
        let socket = unsafe { raccept(self.0, std::ptr::null_mut(), std::ptr::null_mut()) };
        check(socket).map(Self)
    }

    pub(crate) fn connect(&self, addr: &SocketAddr) -> io::Result<()> {
        let (addr, len) = Address::new(addr);
        // SAFETY: `addr` has at least `len` octets, which are read during the call.
        check(unsafe { rconnect(self.0, &addr, len) }).map(drop)
    }

    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        let (mut addr, mut len) = (Address::none(), Address::LEN);
        // SAFETY: `addr` has `len` octets, more of which are not written to; any octets are an
        // `Address`. Both references are to these variables alone.
        check(unsafe { rgetsockname(self.0, &mut addr, &mut len) })?;
        addr.get().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Waits for octets, and returns how many have come: 0 at the end of the connection.
    pub(crate) fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `buf` has that many octets, which are written to during the call only: what
        // the other end writes to at other times is a buffer of the rsocket.
        check_len(unsafe { rrecv(self.0, buf.as_mut_ptr().cast(), buf.len(), 0) })
    }

    /// Waits for room, and returns how many octets are sent.
    pub(crate) fn send(&self, buf: &[u8]) -> io::Result<usize> {
        // SAFETY: `buf` has that many octets, which are read during the call only: they are
        // sent from a buffer of the rsocket.
        check_len(unsafe { rsend(self.0, buf.as_ptr().cast(), buf.len(), 0) })
    }
}

impl Drop for Rsocket {
    fn drop(&mut self) {
        // SAFETY: The number is of an rsocket that nobody else closes, and it is not used again.
        unsafe { rclose(self.0) };
    }
}
