// SPDX-License-Identifier: GPL-2.0

//! UDP sockets of the kernel. One kind receives datagrams, with their IP headers. Another one sends
//! them whole, from whatever address, with a traffic class and a hop limit each, and receives
//! nothing.
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
use crate::ffi::module::note_calls;
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

/// A UDP socket in the network namespace of a device. To be dropped in process context.
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
    fn new(ndev: &NetDevice, family: u32) -> Result<Self> {
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
        Ok(this)
    }

    /// Makes a socket that receives what comes to `addr` by these ways.
    pub(crate) fn receiver(ndev: &NetDevice, addr: &SocketAddr, ways: Ways) -> Result<Arc<Self>> {
        let family = if addr.is_ipv4() {
            b::AF_INET
        } else {
            b::AF_INET6
        };
        let this = Self::new(ndev, family)?;
        // SAFETY: the socket is live and unlocked.
        unsafe { ways.bind(this.sk.as_ptr(), ndev) }?;
        // SAFETY: the socket is live and unlocked.
        to_result(unsafe { h::udp_prepare_receiver(this.sock.as_ptr(), BUFFER) })?;
        let (mut storage, len) = Storage::new(addr);
        // SAFETY: the socket is live; `storage` holds an address of `len` octets.
        to_result(unsafe {
            // CAST: addresses are short.
            b::kernel_bind(
                this.sock.as_ptr(),
                storage.as_mut_ptr().cast(),
                len as c_int,
            )
        })?;
        Arc::new(this, GFP_KERNEL_ACCOUNT).map_err(Error::from)
    }

    /// Makes a socket that sends from `port`.
    pub(crate) fn sender(ndev: &NetDevice, port: u16) -> Result<Arc<Self>> {
        let this = match Self::new(ndev, b::AF_INET6) {
            // The kernel has no IPv6.
            Err(e) if e == EAFNOSUPPORT => Self::new(ndev, b::AF_INET)?,
            made => made?,
        };
        // SAFETY: the socket is live, unlocked and known to nobody else.
        to_result(unsafe { h::udp_prepare_sender(this.sock.as_ptr(), port) })?;
        Arc::new(this, GFP_KERNEL_ACCOUNT).map_err(Error::from)
    }

    /// Sends a datagram between two addresses of one family by the interfaces of an index, see
    /// [`Ways::index`]. A hop limit of 0 is that of the host.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the socket has no room, as it keeps what the interface has not sent yet and what
    /// waits for the address of a neighbour. [`UdpHandler::ready`] is called when there is room.
    /// `EMSGSIZE` if the datagram is too long for its way, and the errors of routing: it is lost
    /// then.
    pub(crate) fn send(
        &self,
        (from, to): (&SocketAddr, &SocketAddr),
        ifindex: i32,
        octets: &[u8],
        tos: u8,
        hops: u8,
    ) -> Result {
        let ((mut from, _), (mut to, _)) = (Storage::new(from), Storage::new(to));
        // SAFETY: the socket is live; both hold addresses; what is sent is only read.
        let sent = unsafe {
            h::udp_send(
                self.sock.as_ptr(),
                from.as_mut_ptr(),
                to.as_mut_ptr(),
                ifindex,
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
    /// if it had to be dropped. Any context with interrupts on.
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

/// Who hears of a socket.
pub(crate) trait UdpHandler: Send + Sync + 'static {
    /// Called when a datagram has arrived, or when a socket that sends has room. Must not sleep.
    fn ready(this: ArcBorrow<'_, Self>);
}

/// Tells a handler of a socket until it is dropped, which waits for callbacks in progress.
///
/// UDP fetches a callback without the socket's lock. So all handlers of a socket have to be of one
/// type: a socket is for one `Readiness`. Make and drop it in process context.
///
/// # Invariants
///
/// `sk_user_data` of the socket is a pointer from `Arc::into_raw` of an `Arc<H>`, owned by this
/// value, and the socket's callbacks are those for `H`.
pub(crate) struct Readiness<H: UdpHandler> {
    sock: Arc<UdpSocket>,
    originals: Hooks,
    handler: NonNull<H>,
}

// SAFETY: it owns an `Arc<H>` and a socket.
unsafe impl<H: UdpHandler> Send for Readiness<H> {}
// SAFETY: nothing of the handler is accessible through a shared reference.
unsafe impl<H: UdpHandler> Sync for Readiness<H> {}

impl<H: UdpHandler> Readiness<H> {
    /// Tells `handler` of `sock`, which had no handler before. Nothing tells of datagrams that came
    /// before.
    pub(crate) fn install(sock: &Arc<UdpSocket>, handler: Arc<H>) -> Result<Self> {
        // The kernel keeps flags in the low bits of `sk_user_data`.
        const { assert!(align_of::<H>() >= 8) };
        let sk = sock.sk;
        // Who frees what was sent fetches `write_space`, and calls it, without a lock.
        note_calls();
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
                write_space: Some(Self::write_space),
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

    /// Returns the socket.
    pub(crate) fn sock(&self) -> &UdpSocket {
        &self.sock
    }

    /// # Safety
    ///
    /// To be called as `sk_data_ready`.
    unsafe extern "C" fn data_ready(sk: *mut b::sock) {
        // SAFETY: this function is installed for `H` only, and a socket has handlers of one type.
        unsafe { with_handler::<H>(sk, H::ready) };
    }

    /// # Safety
    ///
    /// To be called as `sk_write_space`.
    unsafe extern "C" fn write_space(sk: *mut b::sock) {
        // Called for each buffer that is freed.
        // SAFETY: `sk` is live during its callbacks.
        if unsafe { h::sock_writeable(sk) } {
            // SAFETY: as for `data_ready`.
            unsafe { with_handler::<H>(sk, H::ready) };
        }
    }
}

impl<H: UdpHandler> Drop for Readiness<H> {
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
