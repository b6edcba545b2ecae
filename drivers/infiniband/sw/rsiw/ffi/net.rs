// SPDX-License-Identifier: GPL-2.0

//! TCP and UDP sockets of the kernel, received data as it lies in socket buffers, and network
//! devices.
//!
//! - [`TcpSocket`] is a socket that is never waited for: no call sleeps for the peer. [`Callbacks`]
//!   direct its events to a [`StreamHandler`].
//! - [`ListenSocket`] is one that listens, and has a [`ListenHandler`].
//! - [`LockedSock`] is a socket under its lock. Received data is read there in place, as
//!   [`SkbChunk`]s; [`LockedBySock`] is data of the driver that the same lock guards.
//! - [`TxBatch`] is what one call sends: pages of a [`ChunkPool`], of which TCP takes references
//!   and which come back when the peer has acknowledged them.
//! - [`Handshake`](tls::Handshake) gives a connection TLS. From then on, everything goes through
//!   TLS.
//! - [`Flow`] is what arrives for a socket; the network stack is told where it is read.
//! - [`UdpSocket`](udp::UdpSocket) sends and receives datagrams.
//! - [`NetDevice`](netdev::NetDevice) is a network device, [`NetdevNotifier`] tells of changes.
//!
//! # Layers
//!
//! Each file uses those above it in this list only:
//!
//! - `netdev`, `skb`, `batch`: what is around sockets, and knows of none;
//! - `socket` and `lock`, which refer to each other: a TCP socket, who gets its lock, and what the
//!   lock gives access to;
//! - `tls`; `callbacks`: handlers, and sockets that have them; `udp`.
//!
//! # Lifetimes
//!
//! A [`TcpSocket`] is in an [`Arc`](kernel::sync::Arc) and is released with the last reference. A
//! guard ([`Callbacks`]) has a reference to the socket and one to the handler; dropping it waits
//! until no callback uses the handler. So a handler must not own the guard of its own socket.
//!
//! # Context
//!
//! Calls of a socket are made in process context. Callbacks come in softirq or from the backlog,
//! with the socket's lock held, and do not sleep. [`HeldSock`] keeps processes off a socket for a
//! moment, without sleeping.
//!
//! # What it does not do
//!
//! Sockets are in the namespace, and in the VRF, of an interface that the caller names, and can
//! take an address that is in use elsewhere. RDMA over TCP needs this; a `kernel::net` would have
//! options for it. [`SkbChunk`] and [`TcpNumbers`] look at TCP's own data, for which C exports no
//! function (`rsiw-tricks.rst`).
//!
//! # Examples
//!
//! ```
//! use crate::ffi::net::{
//!     netdev::NetDevice, Callbacks, LockedSock, StreamEvent, StreamHandler, TcpSocket, Ways,
//! };
//! use core::net::SocketAddr;
//! use kernel::{prelude::*, sync::{Arc, ArcBorrow}};
//!
//! // The alignment leaves room for the flags that the kernel adds to a pointer to it.
//! #[repr(align(8))]
//! struct Log;
//!
//! impl StreamHandler for Log {
//!     fn data_ready(_this: ArcBorrow<'_, Self>, _sk: &mut LockedSock<'_>) {
//!         pr_info!("there is data\n");
//!     }
//!
//!     fn records_ready(_this: ArcBorrow<'_, Self>) {}
//!
//!     fn write_space(_this: ArcBorrow<'_, Self>) {}
//!
//!     fn state_change(_this: ArcBorrow<'_, Self>, event: StreamEvent) {
//!         pr_info!("{event:?}\n");
//!     }
//! }
//!
//! /// Connects, and logs what happens, until the result is dropped.
//! fn connect(over: &NetDevice, from: &SocketAddr, to: &SocketAddr) -> Result<Callbacks<Log>> {
//!     let sock = TcpSocket::new(over, from, Ways::Interface)?;
//!     sock.bind(from)?;
//!     let callbacks = Callbacks::install(sock.claim()?, Arc::new(Log, GFP_KERNEL)?)?;
//!     sock.connect(to)?;
//!     Ok(callbacks)
//! }
//! ```
//!
//! C headers: [`include/net/sock.h`](srctree/include/net/sock.h),
//! [`include/net/tcp.h`](srctree/include/net/tcp.h),
//! [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

mod batch;
mod callbacks;
mod lock;
pub(crate) mod netdev;
mod skb;
mod socket;
pub(crate) mod tls;
pub(crate) mod udp;

#[cfg(CONFIG_KUNIT = "y")]
pub(crate) use self::batch::{
    Chunk,
    SHORT_LEN, //
};
pub(crate) use self::batch::{
    ChunkPool,
    Mark,
    TxBatch, //
};
pub(crate) use self::callbacks::{
    Callbacks,
    ListenHandler,
    ListenSocket,
    StreamEvent,
    StreamHandler, //
};
pub(crate) use self::lock::{
    HeldSock,
    LockedBySock,
    LockedSock, //
};
pub(in crate::ffi) use self::netdev::Storage;
pub(crate) use self::netdev::{
    NetdevEvent,
    NetdevHandler,
    NetdevNotifier, //
};
pub(crate) use self::skb::{
    Reach,
    SkbChunk, //
};
pub(crate) use self::socket::{
    Flow,
    SendFlags,
    TcpNumbers,
    TcpSocket,
    TcpState,
    Ways, //
};
