// SPDX-License-Identifier: GPL-2.0

//! UDP sockets of the kernel: datagrams that are sent whole, with a traffic class and a hop limit
//! each, and received with their IP headers.
//!
//! Context: process, if a method does not say otherwise.

use super::callbacks::{
    lock,
    unlock,
    with_handler,
    Hooks, //
};
use super::netdev::{
    NetDevice,
    Storage, //
};
use super::socket::Ways;
use crate::ffi::raw::{
    b,
    h, //
};
use core::net::SocketAddr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    ArcBorrow, //
};

/// A UDP socket in the network namespace of a device, bound to an address.
///
/// # Invariants
///
/// `sock` is a UDP socket that this value owns, `sk` its `struct sock`.
pub(crate) struct UdpSocket {
    sock: NonNull<b::socket>,
    sk: NonNull<b::sock>,
}

// SAFETY: sockets may be used and closed by any thread.
unsafe impl Send for UdpSocket {}
// SAFETY: the socket calls made here take the locks they need.
unsafe impl Sync for UdpSocket {}

/// How many octets of buffers with received datagrams a socket keeps.
const BUFFER: c_int = 2 << 20;

impl UdpSocket {
    /// Creates a socket in the namespace of `ndev` with these ways, and binds it.
    pub(crate) fn new(ndev: &NetDevice, addr: &SocketAddr, ways: Ways) -> Result<Arc<Self>> {
        let family = if addr.is_ipv4() {
            b::AF_INET
        } else {
            b::AF_INET6
        };
        let net = ndev.net()?;
        let mut sock = core::ptr::null_mut();
        // SAFETY: `net` is a live namespace; `sock` is a place for the result.
        to_result(unsafe {
            b::sock_create_kern(
                net.as_raw(),
                // CAST: small constants.
                family as c_int,
                b::sock_type_SOCK_DGRAM as c_int,
                b::IPPROTO_UDP as c_int,
                &mut sock,
            )
        })?;
        let sock = NonNull::new(sock).ok_or(EINVAL)?;
        // SAFETY: the call above returned a new socket that nobody else knows.
        let sk = unsafe { (*sock.as_ptr()).sk };
        // The kernel crate knows `struct sock` by name only: the cast is to the same C type.
        let sk = NonNull::new(sk.cast::<b::sock>()).ok_or(EINVAL)?;
        // INVARIANT: as above; whatever fails below, dropping this closes the socket.
        let this = Self { sock, sk };
        // SAFETY: the socket is new: not locked and not visible to anyone else.
        unsafe { h::sock_reclassify(sk.as_ptr()) };
        // SAFETY: `net` keeps the namespace alive; the socket holds no reference to it yet.
        unsafe { b::sk_net_refcnt_upgrade(sk.as_ptr()) };
        // SAFETY: the socket is live and unlocked.
        to_result(unsafe { h::udp_prepare(sock.as_ptr(), BUFFER) })?;
        // SAFETY: the socket is live and unlocked.
        unsafe { ways.bind(sk.as_ptr(), ndev) }?;
        let (mut storage, len) = Storage::new(addr);
        // SAFETY: the socket is live; `storage` holds an address of `len` octets.
        to_result(unsafe {
            // CAST: addresses are short.
            b::kernel_bind(sock.as_ptr(), storage.as_mut_ptr().cast(), len as c_int)
        })?;
        Arc::new(this, GFP_KERNEL_ACCOUNT).map_err(Error::from)
    }

    /// Sends a datagram. Waits for room while the interface has other datagrams to send, for a
    /// second at most. A hop limit of 0 is that of the host.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if it is too long for the way, `EAGAIN` if there was no room, and those of
    /// routing. The datagram is lost then.
    pub(crate) fn send(&self, to: &SocketAddr, octets: &[u8], tos: u8, hops: u8) -> Result {
        let (mut storage, len) = Storage::new(to);
        // SAFETY: the socket is live; `storage` holds an address of `len` octets; what is sent is
        // only read.
        let sent = unsafe {
            h::udp_send(
                self.sock.as_ptr(),
                storage.as_mut_ptr(),
                // CAST: addresses are short.
                len as c_int,
                octets.as_ptr().cast_mut().cast(),
                octets.len(),
                tos.into(),
                hops.into(),
            )
        };
        usize::try_from(sent)
            .map(drop)
            .map_err(|_| Error::from_errno(sent))
    }

    /// Takes the next datagram that was received, `None` if there is none; or fails with `EBADMSG`
    /// if it had to be dropped.
    pub(crate) fn receive(&self) -> Result<Option<Packet>> {
        let mut skb = core::ptr::null_mut();
        // SAFETY: the socket is live; `skb` is a place for the result.
        match to_result(unsafe { h::udp_receive(self.sk.as_ptr(), &mut skb) }) {
            Ok(()) => {}
            Err(e) if e == EAGAIN => return Ok(None),
            Err(e) => return Err(e),
        }
        // INVARIANT: the helper took it out of the queue, and made it linear.
        Ok(NonNull::new(skb).map(Packet))
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        // SAFETY: this value owns the socket.
        unsafe { b::sock_release(self.sock.as_ptr()) };
    }
}

/// A datagram that was received.
///
/// # Invariants
///
/// A linear socket buffer that this value owns, with the headers of IP and UDP.
pub(crate) struct Packet(NonNull<b::sk_buff>);

impl Packet {
    /// Returns the octets from the IP header up to that of UDP.
    pub(crate) fn ip_header(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: by the invariant.
        let start = unsafe { h::udp_ip_header(self.0.as_ptr(), &mut len) };
        // SAFETY: that many octets are there as long as the buffer, and nobody writes to it.
        // CAST: 32 bits fit.
        unsafe { core::slice::from_raw_parts(start.cast(), len as usize) }
    }

    /// Returns the octets from the header of UDP on.
    pub(crate) fn datagram(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: by the invariant.
        let start = unsafe { h::udp_datagram(self.0.as_ptr(), &mut len) };
        // SAFETY: as above.
        // CAST: 32 bits fit.
        unsafe { core::slice::from_raw_parts(start.cast(), len as usize) }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        // SAFETY: this value owns the buffer.
        unsafe { h::udp_free(self.0.as_ptr()) };
    }
}

/// The receiver of a socket's events. Methods must not sleep.
pub(crate) trait DatagramHandler: Send + Sync + 'static {
    /// Called when a datagram has arrived. Any context.
    fn arrived(this: ArcBorrow<'_, Self>);
}

/// Directs the events of a socket to a handler until it is dropped, which waits for callbacks in
/// progress.
///
/// UDP fetches a callback without the socket's lock. So all handlers of a socket have to be of one
/// type: a socket is for one `Arrivals`.
///
/// # Invariants
///
/// `sk_user_data` of the socket is a pointer from `Arc::into_raw` of an `Arc<H>`, owned by this
/// value, and the socket's callbacks are those for `H`.
pub(crate) struct Arrivals<H: DatagramHandler> {
    sock: Arc<UdpSocket>,
    originals: Hooks,
    handler: NonNull<H>,
}

// SAFETY: it owns an `Arc<H>` and a socket.
unsafe impl<H: DatagramHandler> Send for Arrivals<H> {}
// SAFETY: nothing of the handler is accessible through a shared reference.
unsafe impl<H: DatagramHandler> Sync for Arrivals<H> {}

impl<H: DatagramHandler> Arrivals<H> {
    /// Directs the events of `sock`, which had no handler before, to `handler`. Datagrams that came
    /// before are not reported.
    pub(crate) fn install(sock: &Arc<UdpSocket>, handler: Arc<H>) -> Result<Self> {
        // The kernel keeps flags in the low bits of `sk_user_data`.
        const { assert!(align_of::<H>() >= 8) };
        let sk = sock.sk;
        // SAFETY: the socket is live; this is process context, without its locks.
        unsafe { lock(sk) };
        // SAFETY: the locks are held.
        let is_free = unsafe { h::sk_user_data(sk.as_ptr()) }.is_null();
        // SAFETY: the locks are held.
        let originals = unsafe { Hooks::of(sk) };
        let raw = Arc::into_raw(handler).cast_mut();
        if is_free {
            // SAFETY: the locks are held; the pointer stays good until `drop` takes it back.
            unsafe { h::sk_set_user_data(sk.as_ptr(), raw.cast()) };
            let hooks = Hooks {
                data_ready: Some(Self::data_ready),
                ..originals
            };
            // SAFETY: the locks are held; the function expects the handler that was just stored.
            unsafe { hooks.store(sk) };
        }
        // SAFETY: the locks are held.
        unsafe { unlock(sk) };
        match NonNull::new(raw) {
            // INVARIANT: pointer and callbacks were stored above.
            Some(handler) if is_free => Ok(Self {
                sock: sock.clone(),
                originals,
                handler,
            }),
            _ => {
                // SAFETY: `raw` comes from `into_raw` above and was not stored.
                drop(unsafe { Arc::from_raw(raw.cast_const()) });
                Err(EBUSY)
            }
        }
    }

    /// # Safety
    ///
    /// To be called as `sk_data_ready`.
    unsafe extern "C" fn data_ready(sk: *mut b::sock) {
        // SAFETY: this function is installed for `H` only, and a socket has handlers of one type.
        unsafe { with_handler::<H>(sk, H::arrived) };
    }
}

impl<H: DatagramHandler> Drop for Arrivals<H> {
    fn drop(&mut self) {
        let sk = self.sock.sk;
        // SAFETY: the socket is live; this is process context, without its locks.
        unsafe { lock(sk) };
        // SAFETY: the locks are held.
        unsafe { self.originals.store(sk) };
        // SAFETY: the locks are held; the pointer is this value's.
        unsafe { h::sk_set_user_data(sk.as_ptr(), core::ptr::null_mut()) };
        // SAFETY: the locks are held.
        unsafe { unlock(sk) };
        // SAFETY: from `into_raw` and owned by this value, by the invariants; no callback uses it.
        drop(unsafe { Arc::from_raw(self.handler.as_ptr().cast_const()) });
    }
}
