// SPDX-License-Identifier: GPL-2.0

//! Where the datagrams of a device come and go: a UDP socket for each of its GIDs, while it has
//! queue pairs for datagrams. So no port is open on a host without a program that uses them.
//!
//! Locks: `UdPorts::users` is held while sockets are made and closed. Senders do not take it. So a
//! process that holds it, and is kept off its processor, keeps nobody from sending. The spin lock
//! `UdPorts::open` is taken with `users` held or by itself.
//!
//! Context: process; softirq where datagrams are received.
#![forbid(unsafe_code)]

use super::UdQpTable;
use crate::device::Device;
use crate::ffi::hash::crc32;
use crate::ffi::net::netdev::NetDevice;
use crate::ffi::net::udp::{
    Arrivals,
    DatagramHandler,
    UdpSocket, //
};
use crate::ffi::rdma::attr::Qpn;
use crate::ffi::rsiw::params;
use crate::log::Author;
use crate::proto::by_number::{
    addresses_of,
    Gid,
    GidTable,
    MAX_GIDS,
    NO_GID, //
};
use crate::proto::counters::Counter;
use crate::proto::datagram::{
    Datagram,
    Discard, //
};
use core::num::Saturating;
use kernel::prelude::*;
use kernel::sync::{
    new_mutex,
    new_spinlock,
    Arc,
    ArcBorrow,
    Mutex,
    SpinLock, //
};
use kernel::workqueue::{
    Work,
    WorkItem, //
};
use kernel::{
    impl_has_work,
    new_work, //
};

/// How many datagrams are taken in at a time; a work item takes the others.
const AT_A_TIME: u32 = 64;

/// The sockets of a device, by the index of their GIDs.
#[pin_data]
pub(crate) struct UdPorts {
    pub(super) dev: Arc<Device>,
    pub(super) qps: Arc<UdQpTable>,
    #[pin]
    users: Mutex<Users>,
    /// Changed only by those who hold `users`.
    #[pin]
    open: SpinLock<OpenPorts>,
}

/// The queue pairs that need sockets.
struct Users {
    /// How many they are.
    count: Saturating<usize>,
    /// The device is gone.
    closed: bool,
    /// The UDP port of the open sockets, at both ends.
    number: u16,
}

struct OpenPorts {
    gids: GidTable,
    ports: [Option<Arc<UdPort>>; MAX_GIDS],
}

impl UdPorts {
    pub(crate) fn new(dev: &Arc<Device>, qps: Arc<UdQpTable>) -> Result<Arc<Self>> {
        let users = Users {
            count: Saturating(0),
            closed: false,
            number: 0,
        };
        let open = OpenPorts {
            gids: GidTable::EMPTY,
            ports: [const { None }; MAX_GIDS],
        };
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.clone(),
                qps,
                users <- new_mutex!(users, "rsiw::UdPorts::users"),
                open <- new_spinlock!(open, "rsiw::UdPorts::open"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the UDP port that is used if a new queue pair is the first; or `EOPNOTSUPP`, with a
    /// line in the log, if the device has no datagrams.
    pub(super) fn number_for_new(&self) -> Result<u16> {
        let number = params::ud_port();
        let why = if number == 0 {
            "the parameter ud_port is 0"
        } else if self.dev.tls().is_some() {
            "the device has TLS, which datagrams would go past"
        } else {
            return Ok(number);
        };
        self.dev
            .log(Author::Process, fmt!("no QP for datagrams: {why}"));
        Err(EOPNOTSUPP)
    }

    /// Counts a user of the sockets, until [`UdPorts::leave`], and opens them.
    pub(super) fn join(&self, number: u16) {
        let mut users = self.users.lock();
        if users.count.0 == 0 {
            users.number = number;
        }
        users.count += 1;
        self.open_all(&users);
    }

    pub(super) fn leave(&self) {
        let mut users = self.users.lock();
        users.count -= 1;
        if users.count.0 == 0 {
            self.close_all();
        }
    }

    /// Takes note of the GIDs of the device.
    pub(crate) fn follow(&self, gids: &GidTable) {
        let users = self.users.lock();
        self.open.lock().gids = *gids;
        if users.count.0 > 0 {
            self.open_all(&users);
        }
    }

    /// Puts `port`, a socket or none, in the place of the socket of the GID at `index`, and closes
    /// the old one.
    fn replace(&self, index: usize, port: Option<Arc<UdPort>>) {
        let old = match self.open.lock().ports.get_mut(index) {
            Some(slot) => core::mem::replace(slot, port),
            None => port,
        };
        if let Some(old) = old {
            old.close();
        }
    }

    /// Opens the sockets of all GIDs that have none, and closes those of former GIDs.
    fn open_all(&self, users: &Users) {
        let Some(netdev) = self.dev.netdev().filter(|_| !users.closed) else {
            return;
        };
        for index in 0..MAX_GIDS {
            let (gid, is_open) = {
                let open = self.open.lock();
                let gid = open.gids.get(index);
                let port = open.ports.get(index).and_then(Option::as_ref);
                (gid, port.is_some_and(|port| port.gid == gid))
            };
            if is_open {
                continue;
            }
            // The old socket is closed even if no other one replaces it.
            self.replace(index, None);
            if gid == NO_GID {
                continue;
            }
            match self.open(&netdev, gid, users.number) {
                Ok(port) => self.replace(index, Some(port)),
                // The first GID need not be an address of the interface.
                Err(e) if e == EADDRNOTAVAIL || e == EAFNOSUPPORT => {}
                Err(e) => {
                    let errno = e.to_errno();
                    self.dev.log(
                        Author::Kernel,
                        fmt!("no datagrams at GID {index}: error {errno}"),
                    );
                }
            }
        }
    }

    fn open(&self, netdev: &NetDevice, gid: Gid, number: u16) -> Result<Arc<UdPort>> {
        let at = netdev.address(gid, number);
        let sock = UdpSocket::new(netdev, &at, self.dev.ways())?;
        UdPort::new(self, gid, number, sock)
    }

    /// Returns the socket from which datagrams of the GID at `index` go to `dest`, and their
    /// address. See [`addresses_of`] for GIDs that are no address.
    pub(super) fn way(&self, index: usize, dest: Gid) -> Option<(Arc<UdPort>, Gid)> {
        let open = self.open.lock();
        let gids = (open.gids.get(index), dest);
        let mut ports = open.ports.iter().flatten();
        // Bound: [`MAX_GIDS`].
        let addresses = ports.clone().map(|port| port.gid);
        let (own, to) = addresses_of(gids, open.gids.get(0), addresses)?;
        let port = ports.find(|port| port.gid == own)?;
        Some((port.clone(), to))
    }

    /// Closes all for good, as the device goes away.
    pub(crate) fn close(&self) {
        let mut users = self.users.lock();
        users.closed = true;
        self.close_all();
    }

    fn close_all(&self) {
        for index in 0..MAX_GIDS {
            self.replace(index, None);
        }
    }
}

/// The socket of a GID.
#[pin_data]
pub(super) struct UdPort {
    gid: Gid,
    number: u16,
    dev: Arc<Device>,
    qps: Arc<UdQpTable>,
    sock: Arc<UdpSocket>,
    /// `None` once the port is closed.
    #[pin]
    arrivals: Mutex<Option<Arrivals<UdPort>>>,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for UdPort { self.work }
}

impl UdPort {
    fn new(ports: &UdPorts, gid: Gid, number: u16, sock: Arc<UdpSocket>) -> Result<Arc<Self>> {
        let port = Arc::pin_init(
            pin_init!(Self {
                gid,
                number,
                dev: ports.dev.clone(),
                qps: ports.qps.clone(),
                sock,
                arrivals <- new_mutex!(None, "rsiw::UdPort::arrivals"),
                work <- new_work!("rsiw::UdPort::work"),
            }),
            GFP_KERNEL,
        )?;
        let arrivals = Arrivals::install(&port.sock, port.clone())?;
        *port.arrivals.lock() = Some(arrivals);
        // Nobody was told of what came before.
        port.leave_to_work();
        Ok(port)
    }

    pub(super) fn gid(&self) -> Gid {
        self.gid
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Ends the reports of arrivals. The socket is closed when the last sender lets go of it.
    fn close(&self) {
        let arrivals = self.arrivals.lock().take();
        drop(arrivals);
    }

    /// Sends a packet; see [`UdpSocket::send`].
    pub(super) fn send(&self, to: Gid, packet: &[u8], tos: u8, hops: u8) -> Result {
        let netdev = self.dev.netdev().ok_or(ENODEV)?;
        let to = netdev.address(to, self.number);
        self.sock.send(&to, packet, tos, hops)
    }

    fn leave_to_work(self: &Arc<Self>) {
        let _ = self.dev.queues().data.enqueue(self.clone());
    }

    /// Takes in what has arrived, and leaves to a work item what is too much for one time.
    fn receive_some(this: ArcBorrow<'_, Self>) {
        for _ in 0..AT_A_TIME {
            if !this.receive() {
                return;
            }
        }
        Arc::from(this).leave_to_work();
    }

    /// Takes in a datagram, if there is one. Returns whether there was.
    fn receive(&self) -> bool {
        let counter = match self.sock.receive() {
            Ok(None) => return false,
            Err(_) => Counter::DatagramsDropped,
            Ok(Some(packet)) => {
                let datagram = Datagram::parse(packet.ip_header(), packet.datagram(), crc32);
                match datagram.and_then(|datagram| self.hand_over(&datagram)) {
                    Ok(()) => Counter::RxDatagrams,
                    Err(_) => Counter::DatagramsDropped,
                }
            }
        };
        self.dev.count(Some(counter));
        true
    }

    fn hand_over(&self, datagram: &Datagram<'_>) -> Result<(), Discard> {
        let qp = self.qps.lookup(Qpn(datagram.headers.dest_qpn));
        qp.ok_or(Discard::NoQp)?.receive(datagram)
    }
}

impl DatagramHandler for UdPort {
    fn arrived(this: ArcBorrow<'_, Self>) {
        Self::receive_some(this);
    }
}

impl WorkItem for UdPort {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        Self::receive_some(this.as_arc_borrow());
    }
}
