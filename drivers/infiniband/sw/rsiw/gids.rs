// SPDX-License-Identifier: GPL-2.0

//! The GIDs of a device's port follow the addresses of its interface.
//!
//! A work item looks which addresses there are: notifiers may not sleep, and of several changes in
//! a row the core is told once. The core empties each index of its table before it fills it again,
//! so it is told only if a GID has really changed.
//!
//! Context: process context unless a method says otherwise.
#![forbid(unsafe_code)]

use crate::device::Guid;
use crate::ffi::net::netdev::{
    Ips,
    NetDevice, //
};
use crate::ffi::rdma::handle::DeviceHandle;
use crate::ffi::rsiw::Queues;
use crate::ffi::time::{
    Expires,
    Timer, //
};
use crate::proto::by_number::{
    addresses_of,
    Gid,
    GidTable,
    MAX_GIDS,
    NO_GID, //
};
use crate::ud::ports::UdPorts;
use kernel::prelude::*;
use kernel::sync::{
    new_spinlock,
    Arc,
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

/// Milliseconds until the next look whether an address has become usable, for which there is no
/// event.
const LOOK_MS: u32 = 500;
/// How many addresses of an interface are looked at.
const MAX_IPS: usize = 4096;

#[pin_data]
pub(crate) struct Gids {
    handle: Arc<DeviceHandle>,
    queues: Arc<Queues>,
    /// Makes the GID of index 0 if the interface has no hardware address.
    guid: Guid,
    /// They have to know the GIDs, too.
    ports: Arc<UdPorts>,
    #[pin]
    state: SpinLock<Following>,
    #[pin]
    work: Work<Self>,
    /// Runs while an address is not usable yet.
    #[pin]
    timer: Timer<Self>,
}

struct Following {
    table: GidTable,
    /// The table has changed, and the core does not know.
    is_untold: bool,
    /// The device is gone.
    closed: bool,
}

impl_has_work! {
    impl HasWork<Self> for Gids { self.work }
}

impl Gids {
    pub(crate) fn new(
        handle: Arc<DeviceHandle>,
        guid: Guid,
        ports: &Arc<UdPorts>,
        queues: &Arc<Queues>,
    ) -> Result<Arc<Self>> {
        let mut table = GidTable::EMPTY;
        let _ = table.follow(guid.to_gid(), &[]);
        let state = Following {
            table,
            is_untold: false,
            closed: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                handle,
                queues: queues.clone(),
                guid,
                ports: ports.clone(),
                state <- new_spinlock!(state, "rsiw::Gids::state"),
                work <- new_work!("rsiw::Gids::work"),
                timer <- Timer::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the GID of an index; zeros if it has none.
    pub(crate) fn get(&self, index: usize) -> Gid {
        self.state.lock().table.get(index)
    }

    /// Takes note that addresses of the interface may have changed. Any context.
    pub(crate) fn addresses_changed(self: &Arc<Self>) {
        let _ = self.queues.patient.enqueue(self.clone());
    }

    /// Makes the table follow the interface. Returns whether it has changed. Called by one thread
    /// at a time: before the device is registered, then by the work item.
    pub(crate) fn follow(self: &Arc<Self>, netdev: &NetDevice) -> bool {
        let Ok((ips, pending)) = ips(netdev) else {
            // Perhaps there is memory for the list later.
            self.look_again();
            return false;
        };
        if pending {
            self.look_again();
        }
        let first = first(netdev, self.guid);
        // Nobody else changes the table.
        let mut table = self.state.lock().table;
        let changed = table.follow(first, &ips);
        self.state.lock().table = table;
        self.ports.follow(&table);
        changed
    }

    fn look_again(self: &Arc<Self>) {
        let state = self.state.lock();
        if !state.closed {
            Timer::start(self, LOOK_MS);
        }
    }

    /// Ends following, as the device is gone.
    pub(crate) fn close(self: &Arc<Self>) {
        self.state.lock().closed = true;
        Timer::stop(self);
    }
}

/// Returns the GID of index 0 of the device over the interface, whose node has `guid`.
fn first(netdev: &NetDevice, guid: Guid) -> Gid {
    netdev.mac().map_or(guid, Guid::of_mac).to_gid()
}

/// Returns the addresses that an own GID and a peer's stand for, see [`addresses_of`].
pub(crate) fn addresses(
    netdev: &NetDevice,
    guid: Guid,
    gids: (Gid, Gid),
) -> Result<Option<(Gid, Gid)>> {
    let (ips, _) = ips(netdev)?;
    Ok(addresses_of(gids, first(netdev, guid), ips.iter().copied()))
}

/// Returns the addresses of the interface, and whether there are others that are not usable yet.
fn ips(netdev: &NetDevice) -> Result<(KVec<Gid>, bool)> {
    let mut room = MAX_GIDS;
    loop {
        let mut ips = KVec::from_elem(NO_GID, room, GFP_KERNEL)?;
        let Ips { count, pending } = netdev.copy_ips(&mut ips);
        let count = usize::try_from(count)?.min(MAX_IPS);
        if count <= room {
            ips.truncate(count);
            return Ok((ips, pending));
        }
        // More addresses may come before the next try.
        room = count;
    }
}

impl WorkItem for Gids {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let Some(netdev) = this.handle.netdev() else {
            return;
        };
        if this.follow(&netdev) || this.state.lock().is_untold {
            // While the device is not registered, as it is new or moves to another namespace, the
            // core cannot be told, and may have read the table already. This work is queued again
            // when the device is registered.
            let is_told = this.handle.gids_changed();
            this.state.lock().is_untold = !is_told;
        }
    }
}

impl Expires for Gids {
    fn timer(&self) -> &Timer<Self> {
        &self.timer
    }

    fn expired(this: Arc<Self>) {
        this.addresses_changed();
    }
}
