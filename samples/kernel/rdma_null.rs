// SPDX-License-Identifier: GPL-2.0

//! An RDMA driver in Rust that does nothing: its devices have protection domains, completion queues
//! and memory regions, and refuse the rest. Whoever wants to write another RDMA driver begins here.
//! `modprobe rsiw_null; rdma link add null0 type null netdev eth0` makes a device.
//!
//! It is safe Rust on `ffi/rdma` of rsiw and the modules that `ffi/rdma` uses. [`Driver`] is the
//! counterpart of `struct ib_device_ops`; what a driver does not implement is not offered. As long
//! as the kernel crate has no `kernel::rdma`, each driver compiles `ffi/` into it: see `Kbuild`.
//!
//! The next steps are queue pairs ([`Driver::create_qp`]: requests arrive as `wr::SendChain`,
//! completions leave as `wr::Wc`) and connections ([`Driver::connect`]): see `verbs.rs` of rsiw.

/// `ffi/rdma`, and the modules of `ffi/` that it uses.
#[allow(dead_code, unused_imports, reason = "each driver uses a part of it")]
#[path = "../../drivers/infiniband/sw/rsiw/ffi"]
mod ffi {
    mod hash;
    pub(crate) mod mm;
    pub(crate) mod module;
    pub(crate) mod net;
    mod raw;
    pub(crate) mod rdma;
    pub(crate) mod sync;
    pub(crate) mod task;
    mod workqueue;
}

/// What `ffi/` counts with.
#[allow(dead_code, reason = "each driver uses a part of it")]
#[path = "../../drivers/infiniband/sw/rsiw/num.rs"]
mod num;

use ffi::{
    module::{Loaded, Module, Parts},
    net::{netdev::NetDevice, NetdevEvent, NetdevHandler, NetdevNotifier},
    rdma::attr::{DeviceAttr, PortAttr},
    rdma::device::{self, Found, LinkName, LinkOps, Maker, Registration, Spec},
    rdma::driver::{CqInit, Driver, DriverId, MrInit},
    rdma::handle::{CqHandle, DeviceHandle},
    rdma::kmr::PdId,
    rdma::udata::Udata,
    rdma::umem::Umem,
};
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::sync::{Arc, ArcBorrow};

module! {
    type: Module<Null>,
    name: "rdma_null",
    authors: ["rsiw developers"],
    description: "Sample of an RDMA driver in Rust",
    license: "GPL",
}

/// The module's parts, in the order in which they are dropped: first no new devices, then none.
#[pin_data]
struct Null {
    #[pin]
    link: Registration,
    #[pin]
    notifier: NetdevNotifier<Null>,
    devices: AllDevices,
    maker: Maker,
}

impl Parts for Null {
    fn init(_loaded: Loaded) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            maker: Maker::new(Arc::new(NewDevices, GFP_KERNEL)?)?,
            devices: AllDevices,
            notifier <- NetdevNotifier::new(),
            link <- Registration::new(c"null"),
        })
    }
}

struct AllDevices;
impl Drop for AllDevices {
    fn drop(&mut self) {
        device::remove_all::<Null>();
    }
}

struct NewDevices;
impl LinkOps for NewDevices {
    fn new_link(&self, name: LinkName<'_>, netdev: &NetDevice) -> Result {
        add(name, netdev)
    }
}

/// Makes a device, whose GUID follows from the address of the interface.
fn add(name: LinkName<'_>, netdev: &NetDevice) -> Result {
    let [a, b, c, d, e, f] = netdev.mac().unwrap_or([2, 0, 0, 0, 0, 1]);
    let guid = [a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    let spec = Spec {
        name,
        netdev,
        node_guid: u64::from_ne_bytes(guid),
        comp_vectors: 1,
        port_map: false,
    };
    let make = |core| Ok(Arc::new(NullDevice { core, guid }, GFP_KERNEL)?);
    device::add::<Null>(&spec, make)
}

/// Has a device removed with its interface, which waits for that. As this driver has no number of
/// its own, it may not find its device on an interface where another driver has one, too.
impl NetdevHandler for Null {
    fn event(event: NetdevEvent, netdev: &NetDevice) {
        let found = Found::<Null>::by_netdev(netdev);
        if let (NetdevEvent::Unregister, Some(found)) = (event, found) {
            found.inner().core.unregister();
        }
    }
}

/// A device. The handle of the core's part is revoked when the core removes the device.
struct NullDevice {
    core: Arc<DeviceHandle>,
    guid: [u8; 8],
}

/// A device, as calls get it that make an object; and what they make, with its number.
type Device<'a> = ArcBorrow<'a, NullDevice>;
type Made<T> = Result<(Arc<T>, u32)>;

/// A memory region: pinned pages that nobody uses.
struct NullMr(Pin<KBox<Umem>>);

#[vtable]
impl Driver for Null {
    const DRIVER_ID: DriverId = DriverId::UNKNOWN;

    type Device = NullDevice;
    type Pd = NullDevice; // Only a reference to the device.
    type Mr = NullMr;
    // These have no data, or do not exist.
    type Ucontext = ();
    type Cq = ();
    type Qp = ();
    type UdQp = ();
    type Srq = ();
    type Grant = ();
    type Counter = ();

    fn query_device(_dev: &NullDevice, _for_process: bool) -> DeviceAttr {
        DeviceAttr {
            max_pd: 16,
            max_cq: 16,
            max_cqe: 256,
            max_mr: 16,
            ..DeviceAttr::default()
        }
    }

    fn query_port(dev: &NullDevice) -> PortAttr {
        let mtu = dev.core.netdev().map_or(0, |netdev| netdev.mtu());
        PortAttr {
            active: mtu > 0,
            max_mtu: mtu,
            mtu,
        }
    }

    fn query_gid(dev: &NullDevice, _index: usize) -> [u8; 16] {
        let [a, b, c, d, e, f, g, h] = dev.guid;
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, d, e, f, g, h]
    }

    fn alloc_ucontext(_: Device<'_>, _: &mut Udata<'_>) -> Result<Arc<()>> {
        Ok(Arc::new((), GFP_KERNEL_ACCOUNT)?)
    }

    fn alloc_pd(dev: Device<'_>, _: PdId, _: Option<&mut Udata<'_>>) -> Result<Arc<NullDevice>> {
        Ok(dev.into())
    }

    fn create_cq(
        _: Device<'_>,
        _: Arc<CqHandle>,
        init: &CqInit,
        _: Option<&mut Udata<'_>>,
    ) -> Made<()> {
        Ok((Arc::new((), GFP_KERNEL)?, init.cqe))
    }

    fn reg_user_mr(pd: Device<'_>, init: &MrInit, _: &mut Udata<'_>) -> Made<NullMr> {
        static LAST: Atomic<u32> = Atomic::new(0);
        let umem = Umem::pin(&pd.core, init.start, init.length, init.access)?;
        let mr = Arc::new(NullMr(umem), GFP_KERNEL_ACCOUNT)?;
        Ok((mr, LAST.fetch_add(1, Relaxed)))
    }

    fn dereg_mr(_: &NullDevice, mr: &NullMr) -> Result {
        mr.0.release();
        Ok(())
    }
}
