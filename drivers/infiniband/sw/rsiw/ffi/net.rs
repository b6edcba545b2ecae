// SPDX-License-Identifier: GPL-2.0

//! Kernel TCP sockets, socket buffers and network devices.
//!
//! C headers: [`include/net/sock.h`](srctree/include/net/sock.h),
//! [`include/net/tcp.h`](srctree/include/net/tcp.h),
//! [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

mod addr;
mod batch;
mod callbacks;
mod chunk;
mod guarded;
mod held;
mod listen;
pub(crate) mod netdev;
mod notifier;
mod skb;
mod socket;
mod tcp;

pub(in crate::ffi) use self::addr::Storage;
/// For tests.
#[cfg(CONFIG_KUNIT = "y")]
pub(crate) use self::chunk::{
    Chunk,
    SHORT_LEN, //
};
pub(crate) use self::{
    batch::{
        Mark,
        TxBatch, //
    },
    callbacks::{
        Callbacks,
        ListenCallbacks,
        ListenHandler,
        StreamEvent,
        StreamHandler, //
    },
    chunk::ChunkPool,
    guarded::LockedBySock,
    held::{
        HeldSock,
        Sequences, //
    },
    listen::ListenSocket,
    netdev::{
        NetDevice, //
    },
    notifier::{
        NetdevEvent,
        NetdevHandler,
        NetdevNotifier, //
    },
    skb::{
        Reach,
        SkbChunk, //
    },
    socket::{
        SendFlags,
        TcpSocket, //
    },
    tcp::{
        LockedSock,
        TcpState, //
    },
};
