// SPDX-License-Identifier: GPL-2.0

//! Making and removing devices: link types, the end of interfaces, the module's life.
//!
//! Context: process; events of interfaces come with the RTNL held, those of IP addresses in any
//! context.
#![forbid(unsafe_code)]

use crate::cm::Acceptors;
use crate::device::Settings;
use crate::ffi::module::{
    self,
    Loaded,
    Parts, //
};
use crate::ffi::net::netdev::NetDevice;
use crate::ffi::net::tls::Credentials;
use crate::ffi::net::{
    NetdevEvent,
    NetdevHandler,
    NetdevNotifier, //
};
use crate::ffi::rdma::device::{
    self as core_device,
    Found,
    LinkName,
    LinkOps,
    Maker,
    Registration,
    Spec, //
};
use crate::ffi::rdma::driver::DriverId;
use crate::ffi::rsiw::{
    params,
    Queues,
    SharedQueues, //
};
use crate::qp::direct::LocalPeers;
use crate::rnic::{
    Rnic,
    Shared, //
};
use crate::verbs::Rsiw;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What makes and removes devices. The fields are dropped in this order: first there are no new
/// devices, then none at all, then nothing that they left behind.
#[pin_data]
pub(crate) struct Links {
    #[pin]
    own: Registration,
    siw: Option<Pin<KBox<Registration>>>,
    #[pin]
    notifier: NetdevNotifier<Watcher>,
    devices: AllDevices,
    maker: Maker,
    queues: SharedQueues,
}

impl Parts for Links {
    /// Starts to offer devices. Returns `EBUSY` if siw is loaded, or `ENOMEM`.
    fn init(loaded: Loaded) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            queues: refuse_siw().and_then(|()| SharedQueues::new(loaded))?,
            maker: make_devices(queues.get())?,
            devices: AllDevices(queues.get().clone()),
            notifier <- NetdevNotifier::new(),
            siw: if IS_SIWS && params::siw_link_type() {
                Some(KBox::pin_init(Registration::new(c"siw"), GFP_KERNEL)?)
            } else {
                None
            },
            own <- Registration::new(c"rsiw"),
        })
    }
}

/// Lets devices be made, which use `queues`. Returns `EBUSY` if there is a [`Maker`] already, or
/// `ENOMEM`.
fn make_devices(queues: &Arc<Queues>) -> Result<Maker> {
    let shared = Shared {
        queues: queues.clone(),
        acceptors: Acceptors::none()?,
        peers: LocalPeers::none()?,
    };
    Maker::new(Arc::new(shared, GFP_KERNEL)?)
}

/// Whether devices have the driver number of siw, because the kernel has none for this driver.
const IS_SIWS: bool = DriverId::RSIW.is(DriverId::SIW);

/// Returns `EBUSY` if siw is loaded and its devices have the same driver number as ours: each
/// driver would take the other's devices for its own.
fn refuse_siw() -> Result {
    if IS_SIWS && module::is_loaded(c"siw") {
        pr_err!(
            "the module siw is loaded; unload it first: both serve the same user-space provider\n"
        );
        return Err(EBUSY);
    }
    Ok(())
}

/// Makes the device `name` over `netdev`. Returns `EEXIST` if the interface has one already, or
/// else the core's error.
fn add(name: LinkName<'_>, netdev: &NetDevice, shared: &Shared) -> Result {
    let is_wanted = params::port_map();
    // The core asks the port mapper's daemon, iwpmd, on behalf of the first namespace only.
    let port_map = is_wanted && netdev.is_in_first_namespace();
    if is_wanted && !port_map {
        let name = netdev.name();
        pr_info!("{name}: no port mapper outside the first network namespace\n");
    }
    let namespace = netdev.settled_namespace();
    let settings = Settings::new(netdev).inspect_err(|error| {
        let name = netdev.name();
        pr_err!("{name}: no device, as tls_keyring is not usable: {error:?}\n");
    })?;
    let spec = Spec {
        name,
        netdev,
        node_guid: settings.guid.to_u64(),
        comp_vectors: kernel::cpu::nr_cpu_ids(),
        port_map,
    };
    let mut made = None;
    core_device::add::<Rsiw>(&spec, |handle| {
        let rnic = Rnic::new(handle, namespace, settings, shared)?;
        let _ = rnic.gids.follow(netdev);
        Ok(made.insert(rnic).clone())
    })?;
    if let Some(rnic) = made {
        rnic.cm.open();
        rnic.show();
        if rnic.dev.tls().is_some_and(Credentials::is_by_certificate) {
            let name = netdev.name();
            pr_info!("{name}: x509.truststore of tlshd.conf says who may connect; without it that is whoever has a certificate of a public authority\n");
        }
    }
    // The addresses may have changed before anybody could find the device.
    addresses_changed(netdev);
    Ok(())
}

/// Lets the GIDs of a device follow the addresses of its interface, which may have changed.
fn addresses_changed(netdev: &NetDevice) {
    if let Some(device) = Found::<Rsiw>::by_netdev(netdev) {
        device.inner().gids.addresses_changed();
    }
}

impl LinkOps for Shared {
    fn new_link(&self, name: LinkName<'_>, netdev: &NetDevice) -> Result {
        add(name, netdev, self)
    }
}

/// Follows the interfaces that devices run over.
struct Watcher;

impl NetdevHandler for Watcher {
    fn event(event: NetdevEvent, netdev: &NetDevice) {
        match event {
            NetdevEvent::Unregister => {
                if let Some(device) = Found::<Rsiw>::by_netdev(netdev) {
                    let rnic: Arc<Rnic> = device.inner().into();
                    rnic.interface_gone();
                }
            }
            NetdevEvent::ChangeAddr | NetdevEvent::ChangeIps => addresses_changed(netdev),
            // The core looks at one device of an interface only, and at none that has to do with a
            // bond or a team. It tells of each state once, whoever asks for that.
            NetdevEvent::ChangeState => {
                if let Some(device) = Found::<Rsiw>::by_netdev(netdev) {
                    device.port_changed(netdev);
                    // An interface goes down and up when it enters or leaves a VRF. The sockets for
                    // datagrams follow it.
                    device.inner().gids.addresses_changed();
                }
            }
        }
    }
}

/// Dropping this removes all devices, also those whose removal is queued already.
struct AllDevices(Arc<Queues>);

impl Drop for AllDevices {
    fn drop(&mut self) {
        // When the notifier was unregistered, it was told that all interfaces go, and it has queued
        // the removal of their devices.
        self.0.patient.flush();
        core_device::remove_all::<Rsiw>();
    }
}
