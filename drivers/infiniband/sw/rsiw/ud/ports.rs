// SPDX-License-Identifier: GPL-2.0

//! Where the datagrams of a device arrive: a UDP socket for each of its GIDs, while it has queue
//! pairs for datagrams. So no port is open on a host without a program that uses them.
//!
//! A work item opens and closes the sockets. So none belongs to the process that has happened to
//! need it first, and nobody waits for a process that is kept off its processor. Another one, which
//! is urgent, takes in what is too much for a callback.
//!
//! Context: process; softirq where datagrams are received, and of the timer. The spin lock
//! `UdPorts::sockets` is taken by itself.
#![forbid(unsafe_code)]

use super::UdQpTable;
use crate::device::Device;
use crate::ffi::hash::crc32;
use crate::ffi::net::netdev::NetDevice;
use crate::ffi::net::udp::{
    Readiness,
    UdpHandler,
    UdpSocket, //
};
use crate::ffi::rdma::attr::Qpn;
use crate::ffi::rsiw::params;
use crate::ffi::time::{
    Expires,
    Timer, //
};
use crate::ffi::workqueue;
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
    new_spinlock,
    Arc,
    ArcBorrow,
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
/// Milliseconds until the next try, if a socket could not be opened. Nobody tells when the port at an
/// address becomes free.
const RETRY_MS: u32 = 1000;

/// The sockets of a device, by the index of their GIDs.
#[pin_data]
pub(crate) struct UdPorts {
    pub(super) dev: Arc<Device>,
    pub(super) qps: Arc<UdQpTable>,
    #[pin]
    sockets: SpinLock<Sockets>,
    /// Opens and closes sockets.
    #[pin]
    adjusting: Work<Self>,
    /// Takes in what callbacks have left.
    #[pin]
    receiving: Work<Self, { RECEIVING }>,
    /// Runs while a socket that is wanted could not be opened.
    #[pin]
    timer: Timer<Self>,
}

const RECEIVING: u64 = 1;

impl_has_work! {
    impl HasWork<Self> for UdPorts { self.adjusting }
    impl HasWork<Self, RECEIVING> for UdPorts { self.receiving }
}

struct Sockets {
    /// How many queue pairs need the sockets.
    users: Saturating<usize>,
    /// The UDP port at both ends, while there are users.
    number: u16,
    gids: GidTable,
    /// The device is gone.
    closed: bool,
    /// The sockets. Only the work item `adjusting` changes them.
    open: [Option<OpenPort>; MAX_GIDS],
    /// Those that are wanted and could not be opened, of which the log tells. Only `adjusting`
    /// changes them, too.
    missing: [Option<At>; MAX_GIDS],
    /// A socket that is wanted is not there for want of memory.
    lacks_memory: bool,
}

impl Sockets {
    /// Returns which socket is wanted at `index`, if its packets come by the interfaces of `ways`.
    fn wanted(&self, index: usize, ways: i32) -> Option<At> {
        let (gid, number) = (self.gids.get(index), self.number);
        let is_wanted = self.users.0 > 0 && !self.closed && gid != NO_GID;
        is_wanted.then_some(At { gid, number, ways })
    }

    fn port(&self, index: usize) -> Option<&Arc<UdPort>> {
        self.open.get(index)?.as_ref().map(|open| &open.port)
    }
}

/// What a socket is for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct At {
    gid: Gid,
    number: u16,
    /// The index of the interfaces, see [`Ways::index`].
    ///
    /// [`Ways::index`]: crate::ffi::net::Ways::index
    ways: i32,
}

/// A queue pair needs the sockets of its device, until this is dropped. Process context.
pub(super) struct UdUser {
    ports: Arc<UdPorts>,
    /// The UDP port at both ends.
    pub(super) number: u16,
}

impl Drop for UdUser {
    fn drop(&mut self) {
        let mut sockets = self.ports.sockets.lock();
        sockets.users -= 1;
        let is_last = sockets.users.0 == 0;
        drop(sockets);
        if is_last {
            self.ports.begin_to_adjust();
        }
    }
}

impl UdPorts {
    pub(crate) fn new(dev: &Arc<Device>, qps: Arc<UdQpTable>) -> Result<Arc<Self>> {
        let sockets = Sockets {
            users: Saturating(0),
            number: 0,
            gids: GidTable::EMPTY,
            closed: false,
            open: [const { None }; MAX_GIDS],
            missing: [None; MAX_GIDS],
            lacks_memory: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                dev: dev.clone(),
                qps,
                sockets <- new_spinlock!(sockets, "rsiw::UdPorts::sockets"),
                adjusting <- new_work!("rsiw::UdPorts::adjusting"),
                receiving <- new_work!("rsiw::UdPorts::receiving"),
                timer <- Timer::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the UDP port that is used if a new queue pair is the first; or `EOPNOTSUPP`, with a
    /// line in the log, if the device has no datagrams.
    fn number_for_new(&self) -> Result<u16> {
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

    /// Counts a user of the sockets, and waits until they are open.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the device has no datagrams, `ENOMEM` if there is no memory for one of its
    /// sockets. All else, such as that a port is in use, is in the log: there are no datagrams at
    /// that GID until a later try.
    pub(super) fn join(self: &Arc<Self>) -> Result<UdUser> {
        let number = self.number_for_new()?;
        let mut sockets = self.sockets.lock();
        if sockets.users.0 == 0 {
            sockets.number = number;
        }
        sockets.users += 1;
        let user = UdUser {
            ports: self.clone(),
            number: sockets.number,
        };
        drop(sockets);
        self.begin_to_adjust();
        workqueue::flush(&self.adjusting);
        let lacks_memory = self.sockets.lock().lacks_memory;
        match lacks_memory {
            true => Err(ENOMEM),
            false => Ok(user),
        }
    }

    /// Takes note of the GIDs of the device, and waits until their sockets are open.
    pub(crate) fn follow(self: &Arc<Self>, gids: &GidTable) {
        self.sockets.lock().gids = *gids;
        self.begin_to_adjust();
        workqueue::flush(&self.adjusting);
    }

    fn begin_to_adjust(self: &Arc<Self>) {
        let _ = self.dev.queues().cm.enqueue::<_, 0>(self.clone());
    }

    fn leave_to_work(self: &Arc<Self>) {
        let _ = self.dev.queues().data.enqueue::<_, RECEIVING>(self.clone());
    }

    /// Closes all for good, as the device goes away.
    pub(crate) fn close(self: &Arc<Self>) {
        self.sockets.lock().closed = true;
        // Nobody starts the timer any more.
        Timer::stop(self);
        self.begin_to_adjust();
        workqueue::flush(&self.adjusting);
    }

    /// Opens the sockets that are wanted, and closes all others. Tries again later if one cannot be
    /// opened.
    fn adjust(self: &Arc<Self>) {
        let Some(netdev) = self.dev.netdev() else {
            (0..MAX_GIDS).for_each(|index| self.replace(index, None));
            return;
        };
        let ways = self.dev.ways().index(&netdev);
        let (mut is_missing, mut lacks_memory) = (false, false);
        for index in 0..MAX_GIDS {
            let mut sockets = self.sockets.lock();
            let wanted = sockets.wanted(index, ways);
            let told_of = sockets.missing.get_mut(index).and_then(Option::take);
            let is_right = sockets.port(index).map(|port| port.at) == wanted;
            drop(sockets);
            if is_right {
                continue;
            }
            // The address may be that of the new socket.
            self.replace(index, None);
            let opened = wanted.map_or(Ok(None), |at| self.open(&netdev, at).map(Some));
            match opened {
                Ok(port) => {
                    self.replace(index, port);
                    // Nobody was told of what came before the callback was there.
                    self.leave_to_work();
                }
                // The first GID need not be an address of the interface.
                Err(e) if e == EADDRNOTAVAIL || e == EAFNOSUPPORT => {}
                Err(e) => {
                    is_missing = true;
                    lacks_memory |= e == ENOMEM;
                    if let Some(slot) = self.sockets.lock().missing.get_mut(index) {
                        *slot = wanted;
                    }
                    if told_of != wanted {
                        let errno = e.to_errno();
                        // A process may have the port, and make queue pairs as often as it wants.
                        self.dev.log(
                            Author::Process,
                            fmt!("no datagrams at GID {index}: error {errno}"),
                        );
                    }
                }
            }
        }
        let mut sockets = self.sockets.lock();
        sockets.lacks_memory = lacks_memory;
        if is_missing && !sockets.closed {
            Timer::start(self, RETRY_MS);
        }
    }

    /// Puts a socket, or none, in the place of that of the GID at `index`, which is closed when this
    /// returns.
    fn replace(&self, index: usize, port: Option<OpenPort>) {
        let old = match self.sockets.lock().open.get_mut(index) {
            Some(slot) => core::mem::replace(slot, port),
            None => port,
        };
        if old.is_some() {
            drop(old);
            // That work item may be taking in something from the old socket.
            workqueue::flush(&self.receiving);
        }
    }

    fn open(self: &Arc<Self>, netdev: &NetDevice, at: At) -> Result<OpenPort> {
        let addr = netdev.address(at.gid, at.number);
        let sock = UdpSocket::receiver(netdev, &addr, self.dev.ways())?;
        let port = UdPort {
            at,
            ports: self.clone(),
            sock: sock.clone(),
        };
        let port = Arc::new(port, GFP_KERNEL)?;
        let _readiness = Readiness::install(&sock, port.clone())?;
        Ok(OpenPort { _readiness, port })
    }

    /// Returns the addresses from and to which datagrams of the GID at `index` go, if their `dest`
    /// is this. See [`addresses_of`] for GIDs that are no address.
    pub(super) fn way(&self, index: usize, dest: Gid) -> Option<(Gid, Gid)> {
        let sockets = self.sockets.lock();
        let gids = (sockets.gids.get(index), dest);
        // Bound: [`MAX_GIDS`].
        let addresses = sockets.open.iter().flatten().map(|open| open.port.at.gid);
        addresses_of(gids, sockets.gids.get(0), addresses)
    }

    /// Takes in what callbacks have left. Returns whether something is left again.
    fn receive_left(&self) -> bool {
        let mut is_left = false;
        for index in 0..MAX_GIDS {
            let port = self.sockets.lock().port(index).cloned();
            is_left |= port.is_some_and(|port| port.receive_some());
        }
        is_left
    }
}

impl WorkItem for UdPorts {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.adjust();
    }
}

impl Expires for UdPorts {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        this.begin_to_adjust();
    }
}

impl WorkItem<RECEIVING> for UdPorts {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if this.receive_left() {
            this.leave_to_work();
        }
    }
}

/// A socket while it is open. To be dropped in process context, without a lock.
struct OpenPort {
    /// Dropped first: nobody is told any more.
    _readiness: Readiness<UdPort>,
    port: Arc<UdPort>,
}

/// The socket of a GID.
struct UdPort {
    at: At,
    /// They have this port until the last user has left, or the device.
    ports: Arc<UdPorts>,
    sock: Arc<UdpSocket>,
}

impl UdPort {
    /// Takes in what has arrived. Returns whether that is too much for one time: the work item
    /// `receiving` does the rest then.
    fn receive_some(&self) -> bool {
        for _ in 0..AT_A_TIME {
            if !self.receive() {
                return false;
            }
        }
        true
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
        self.ports.dev.count(Some(counter));
        true
    }

    fn hand_over(&self, datagram: &Datagram<'_>) -> Result<(), Discard> {
        let qp = self.ports.qps.lookup(Qpn(datagram.headers.dest_qpn));
        qp.ok_or(Discard::NoQp)?.receive(datagram)
    }
}

impl UdpHandler for UdPort {
    fn ready(this: ArcBorrow<'_, Self>) {
        if this.receive_some() {
            this.ports.leave_to_work();
        }
    }
}
