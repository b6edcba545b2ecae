// SPDX-License-Identifier: GPL-2.0

//! The ends of connections on this host, found by their addresses, so that the two ends of one
//! connection know each other.
//!
//! An end is entered when its queue pair takes the stream over. It leaves the table before its
//! connection is taken apart, and both links go with it, as linked ends would keep each other for
//! ever. A sender that uses the other end at that moment has its own reference for one call.
//!
//! Context: process.
#![forbid(unsafe_code)]

use crate::{
    ffi::{
        net::{
            TcpNumbers,
            TcpSocket, //
        },
        rsiw::params, //
    },
    proto::transport::{
        are_two_ends,
        Numbers,
        Scope, //
    },
    qp::stream::Stream, //
};
use core::net::{
    IpAddr,
    SocketAddr, //
};
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
    sync::{
        new_spinlock_irq,
        Arc,
        SpinLockIrq, //
    },
};

/// How many ends with the right addresses are looked at. There can be several: in different
/// namespaces, and while an old one is on its way out.
const MOST_CANDIDATES: usize = 16;

type EndAddr = (IpAddr, u16);

/// The key of an end in the table, which orders those with the same addresses by namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EndKey {
    local: EndAddr,
    remote: EndAddr,
    namespace: u64,
    /// Unique among all ends, also those that have left.
    number: u64,
}

/// The ends, and the number that was given out last.
struct KnownEnds {
    ends: RBTree<EndKey, Arc<Stream>>,
    last: u64,
}

/// The ends of all connections of the module.
#[pin_data]
pub(crate) struct LocalPeers {
    /// Also held around any change of two links to each other.
    #[pin]
    table: SpinLockIrq<KnownEnds>,
}

impl LocalPeers {
    /// Makes an empty table.
    pub(crate) fn none() -> Result<Arc<Self>> {
        let table = KnownEnds {
            ends: RBTree::new(),
            last: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                table <- new_spinlock_irq!(table, "rsiw::LocalPeers::table"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns a number that no end has had.
    fn number(&self) -> u64 {
        let mut table = self.table.lock();
        table.last = table.last.wrapping_add(1);
        table.last
    }
}

/// An end that is to be entered.
pub(in crate::qp) struct Prepared {
    entry: KnownEnd,
    node: RBTreeNode<EndKey, Arc<Stream>>,
    scope: Scope,
}

/// An end that is, or will be, in the table, which it leaves when this is dropped. Process context.
pub(in crate::qp) struct KnownEnd {
    all: Arc<LocalPeers>,
    key: EndKey,
    end: Arc<Stream>,
}

impl Prepared {
    /// Prepares the end of a new connection for `all`. Returns `None` if all has to go through TCP,
    /// because of a parameter, of markers, of TLS, or of a lack of memory. No lock is held.
    pub(in crate::qp) fn new(all: &Arc<LocalPeers>, stream: &Arc<Stream>) -> Option<Self> {
        let scope = Scope::of(params::direct());
        let sock = &stream.sock;
        if scope == Scope::Nowhere || stream.has_markers || sock.is_secure() {
            return None;
        }
        let place = |addr: SocketAddr| (addr.ip(), addr.port());
        let (local, remote) = (sock.local_addr().ok()?, sock.peer_addr().ok()?);
        let key = EndKey {
            local: place(local.get()?),
            remote: place(remote.get()?),
            namespace: sock.namespace(),
            number: all.number(),
        };
        let (all, end) = (all.clone(), stream.clone());
        let node = RBTreeNode::new(key, end.clone(), GFP_KERNEL_ACCOUNT).ok()?;
        let entry = KnownEnd { all, key, end };
        Some(Self { entry, node, scope })
    }

    /// Enters the end. If the other end is in the table already, both get a link to each other.
    pub(in crate::qp) fn enter(self) -> KnownEnd {
        let Self { entry, node, scope } = self;
        let mut table = entry.all.table.lock();
        if let Some(other) = table.other_end(&entry.key, scope, &entry.end.sock) {
            // The other end may be sending, and wait for this end as soon as it knows it. By then
            // this end has to know whom to wake.
            entry.end.link_to(other.clone());
            other.link_to(entry.end.clone());
        }
        table.ends.insert(node);
        drop(table);
        entry
    }
}

impl KnownEnds {
    /// Returns the other end of the connection of `sock`, whose key is `key`, if it is in the table
    /// and has no link yet.
    fn other_end(&self, key: &EndKey, scope: Scope, sock: &TcpSocket) -> Option<Arc<Stream>> {
        let mut from = EndKey {
            local: key.remote,
            remote: key.local,
            namespace: match scope {
                Scope::Host => 0,
                _ => key.namespace,
            },
            number: 0,
        };
        // Bound: a constant.
        for _ in 0..MOST_CANDIDATES {
            let cursor = self.ends.cursor_lower_bound(&from)?;
            let (at, end) = cursor.current();
            let is_near = scope == Scope::Host || at.namespace == key.namespace;
            if at.local != from.local || at.remote != from.remote || !is_near {
                return None;
            }
            let (own, other) = TcpNumbers::of_both(sock, &end.sock);
            if are_two_ends(&own.into(), &other.into()) && end.peer.lock().is_none() {
                return Some(end.clone());
            }
            from = EndKey {
                number: at.number.checked_add(1)?,
                ..*at
            };
        }
        None
    }
}

impl From<TcpNumbers> for Numbers {
    fn from(of: TcpNumbers) -> Self {
        Self {
            acknowledged: of.snd_una,
            written: of.write_seq,
            received: of.rcv_nxt,
        }
    }
}

impl Drop for KnownEnd {
    fn drop(&mut self) {
        let mut table = self.all.table.lock();
        let node = table.ends.remove_node(&self.key);
        let links = self.end.unlink();
        // Both have a link to each other, or none: see `table`.
        let back = links[0].as_ref().map(|other| other.unlink());
        drop(table);
        // If its sender waits for this end, it has to go on through TCP.
        if let [Some(other), _] = &links {
            other.qp.urge();
        }
        drop((node, back, links));
    }
}
