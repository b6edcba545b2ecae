// SPDX-License-Identifier: GPL-2.0

//! What all objects of a device use: the core's device, memory regions, memory for sending, limits;
//! and what they belong to: processes that have the device open, and protection domains.
//!
//! The administrator may change budgets of the data path ([`Tuning`]) while it runs, in
//! `rsiw/<number of the device>/` of debugfs. `proto::tuning` says what they are, and has their
//! ranges. The directory is named after the core's number of the device (`rdma dev show`): the name
//! of a device can change, and devices of several network namespaces may have the same name.
//!
//! Context: process context unless a method says otherwise; [`Pd`] and [`Tuning`] are used in any.
#![forbid(unsafe_code)]

use crate::abi::own::Features;
use crate::counts::Counts;
use crate::ffi::debugfs::Number;
use crate::ffi::hash;
use crate::ffi::net::netdev::NetDevice;
use crate::ffi::net::tls::{
    Credentials,
    Keyring,
    Proof, //
};
use crate::ffi::net::{
    ChunkPool,
    Ways, //
};
use crate::ffi::rdma::attr::{
    DeviceAttr,
    PortAttr, //
};
use crate::ffi::rdma::handle::DeviceHandle;
use crate::ffi::rsiw::{
    params,
    Queues,
    Setting,
    VERSION, //
};
use crate::ffi::workqueue::OwnedQueue;
use crate::limits::{
    self,
    Limits,
    Quota, //
};
use crate::log::{
    Author,
    Log, //
};
use crate::mr::table::{
    StagTable,
    MAX_MR, //
};
use crate::mr::{
    PdId,
    MAX_FAST_REG, //
};
use crate::proto::by_number::Gid;
use crate::proto::counters::Counter;
use crate::proto::deframer::Budget;
use crate::proto::tuning::{
    self,
    Knob,
    SendLimits, //
};
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;

/// The vendor that, with part 0, rdma-core knows as software iWARP.
const VENDOR_ID: u32 = 0x626d74;

/// What the objects of a device have in common. The objects keep it, even when the core's device is
/// gone. Of the objects it knows only the memory regions, by their STags.
#[pin_data]
pub(crate) struct Device {
    handle: Arc<DeviceHandle>,
    queues: Arc<Queues>,
    settings: Settings,
    limits: Arc<Limits>,
    /// What is counted for the whole device, except for queue pairs that are bound to counters.
    pub(crate) counts: Arc<Counts>,
    /// What is counted for queue pairs while they are bound to counters.
    pub(crate) bound_counts: Arc<Counts>,
    pub(crate) tuning: Tuning,
    /// Memory for sending.
    pub(crate) chunks: Arc<ChunkPool>,
    #[pin]
    log: Log,
    #[pin]
    pub(crate) stags: StagTable,
}

impl Device {
    pub(crate) fn new(
        handle: Arc<DeviceHandle>,
        settings: Settings,
        queues: &Arc<Queues>,
    ) -> Result<Arc<Self>> {
        let chunks = Arc::pin_init(ChunkPool::new(), GFP_KERNEL)?;
        let limits = Limits::new()?;
        let counts = Counts::new()?;
        let bound_counts = Counts::new()?;
        let stags = StagTable::new(queues.loaded())?;
        Arc::pin_init(
            pin_init!(Self {
                handle,
                queues: queues.clone(),
                settings,
                limits,
                counts,
                bound_counts,
                tuning: Tuning::new(),
                chunks,
                log <- Log::new(),
                stags <- stags,
            }),
            GFP_KERNEL,
        )
    }

    /// Any context.
    pub(crate) fn handle(&self) -> &Arc<DeviceHandle> {
        &self.handle
    }

    /// Returns the interface, unless the device is going away.
    pub(crate) fn netdev(&self) -> Option<ARef<NetDevice>> {
        self.handle.netdev()
    }

    /// Any context.
    pub(crate) fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    /// Returns the queue for the work of connections. Any context.
    pub(crate) fn cm_queue(&self) -> &OwnedQueue {
        &self.queues.cm
    }

    /// Counts something that concerns no queue pair, if it is to be counted. Any context.
    pub(crate) fn count(&self, counter: Option<Counter>) {
        if let Some(counter) = counter {
            self.counts.add(counter, 1);
        }
    }

    /// Writes a line about this device to the kernel's log, unless `author`, who can cause such
    /// lines, has caused too many of late. Any context.
    pub(crate) fn log(&self, author: Author, line: fmt::Arguments<'_>) {
        self.log.write(&*self.handle, author, line);
    }

    /// Ends the device's part of the log, while the device still has a name. Any context.
    pub(crate) fn close_log(&self) {
        self.log.close(&*self.handle);
    }

    /// Any context.
    pub(crate) fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// Returns how the ends of connections show who they are, if all connections have TLS below
    /// MPA. Any context.
    pub(crate) fn tls(&self) -> Option<&Credentials> {
        self.settings.tls.as_ref()
    }

    /// Returns the GUID of the node. Any context.
    pub(crate) fn guid(&self) -> Guid {
        self.settings.guid
    }

    /// Returns by which interfaces packets of connections come and go. Any context.
    pub(crate) fn ways(&self) -> Ways {
        self.settings.ways
    }

    /// Returns a setting, in the parameter's words. Any context.
    pub(crate) fn setting(&self, which: Setting) -> &'static CStr {
        match (which, self.tls().map(|credentials| credentials.proof)) {
            (Setting::Tls, Some(Proof::SharedKey(_))) => c"psk",
            (Setting::Tls, Some(Proof::Certificates)) => c"x509",
            (Setting::Tls, None) => c"off",
            (Setting::BindNetdev, _) => match self.ways() {
                Ways::Interface => c"on",
                Ways::Vrf => c"off",
            },
        }
    }

    /// Returns limits and abilities, for a process or for the kernel. The limits of own rings are
    /// not among them, as processes with stock rings are told the same. A process with own rings
    /// learns its limits when it opens the device.
    pub(crate) fn attributes(&self, for_process: bool) -> DeviceAttr {
        let max_sge = crate::abi::MAX_SGE as u32; // CAST: 6.
        DeviceAttr {
            fw_ver: VERSION,
            sys_image_guid: self.guid().to_u64(),
            vendor_id: VENDOR_ID,
            max_qp: limits::MAX_QP,
            max_qp_wr: limits::MAX_WR,
            max_send_sge: if for_process {
                max_sge
            } else {
                limits::KERNEL_MAX_SGE
            },
            // A process that asks in the old way is told the smaller of the kernel's two numbers.
            // So this must be what a process can have; kernel consumers can have more.
            max_recv_sge: max_sge,
            max_sge_rd: 1,
            max_cq: limits::MAX_CQ,
            max_cqe: limits::MAX_CQE,
            max_mr: MAX_MR,
            max_pd: limits::MAX_PD,
            max_fast_reg: MAX_FAST_REG,
            max_srq: limits::MAX_SRQ,
            max_srq_wr: limits::MAX_SRQ_WR,
            max_ird: limits::MAX_READS.into(),
            max_ord: limits::MAX_READS.into(),
        }
    }

    pub(crate) fn port(&self) -> PortAttr {
        let Some(netdev) = self.netdev() else {
            // The interface is gone, the device will follow.
            return PortAttr {
                active: false,
                max_mtu: 0,
                mtu: 0,
            };
        };
        PortAttr {
            active: netdev.is_running() && netdev.has_carrier(),
            // Zero means no limit, as for the loopback interface.
            max_mtu: match netdev.max_mtu() {
                0 => u32::MAX,
                mtu => mtu,
            },
            mtu: netdev.mtu(),
        }
    }
}

/// What a device is made with, and keeps.
pub(crate) struct Settings {
    /// The GUID of the node.
    pub(crate) guid: Guid,
    /// Set if all connections have TLS below MPA.
    tls: Option<Credentials>,
    ways: Ways,
}

impl Settings {
    /// Returns what the parameters say now for a device over `netdev`. Fails with `ENOKEY` or
    /// `ENOTDIR` if the keyring that they name does not exist, or is no keyring.
    ///
    /// With [`Ways::Vrf`], a peer that comes to an address of `netdev` by another interface is
    /// served like one that comes by `netdev`. So [`Ways::Interface`] is the default where this
    /// matters.
    pub(crate) fn new(netdev: &NetDevice) -> Result<Self> {
        let tls = credentials()?;
        let is_bound = match params::bind_netdev() {
            0 => tls.is_some() || netdev.is_tunnel(),
            1 => true,
            _ => false,
        };
        Ok(Self {
            guid: Guid::new(netdev),
            tls,
            ways: if is_bound { Ways::Interface } else { Ways::Vrf },
        })
    }
}

/// Returns what the parameters say of TLS for new devices. Fails as [`Settings::new`].
fn credentials() -> Result<Option<Credentials>> {
    let proof = match params::tls() {
        1 => Proof::SharedKey(params::tls_key()),
        2 => Proof::Certificates,
        _ => return Ok(None),
    };
    let keyring = match params::tls_keyring() {
        0 => None,
        serial => {
            let keyring = Keyring::lookup(serial)?;
            Some(Arc::new(keyring, GFP_KERNEL)?)
        }
    };
    Ok(Some(Credentials { proof, keyring }))
}

/// The EUI-64 of a device.
#[derive(Clone, Copy)]
pub(crate) struct Guid([u8; 8]);

impl Guid {
    /// Makes one from the address of the interface, or a random one if it has no address.
    pub(crate) fn new(netdev: &NetDevice) -> Self {
        Self::of_mac(netdev.mac().unwrap_or_else(|| {
            let [lo, hi] = [hash::random_u32(), hash::random_u32()];
            let [a, b, c, _] = lo.to_ne_bytes();
            let [d, e, f, _] = hi.to_ne_bytes();
            // A locally administered unicast address.
            [(a & 0xfc) | 0x02, b, c, d, e, f]
        }))
    }

    pub(crate) fn of_mac([a, b, c, d, e, f]: [u8; 6]) -> Self {
        Self([a ^ 0x02, b, c, 0xff, 0xfe, d, e, f])
    }

    /// Returns the GID that is made of the link-local prefix and this GUID.
    pub(crate) fn to_gid(self) -> Gid {
        let Self([a, b, c, d, e, f, g, h]) = self;
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, d, e, f, g, h]
    }

    /// Returns the GUID as the core keeps it: in network order.
    pub(crate) fn to_u64(self) -> u64 {
        u64::from_ne_bytes(self.0)
    }
}

/// A process that has the device open.
pub(crate) struct Ucontext {
    pub(crate) features: Features,
}

/// A protection domain: regions and queue pairs of the same domain may be used together.
pub(crate) struct Pd {
    dev: Arc<Device>,
    id: PdId,
    /// Queue pairs of the domain. A region that more than one stream can reach must not be
    /// invalidated by a peer (RFC 5040 section 8.1.1).
    qps: Atomic<u32>,
    _quota: Quota,
}

impl Pd {
    /// Makes the domain that `id` is for. Returns `ENOMEM`, also if the device has all the domains
    /// it may have.
    pub(crate) fn new(dev: Arc<Device>, id: PdId) -> Result<Arc<Self>> {
        let quota = Quota::take(dev.limits(), |limits| &limits.pds)?;
        Ok(Arc::new(
            Self {
                dev,
                id,
                qps: Atomic::new(0),
                _quota: quota,
            },
            id.memory(),
        )?)
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.dev
    }

    pub(crate) fn id(&self) -> PdId {
        self.id
    }

    /// Counts a queue pair that joins the domain.
    pub(crate) fn join(&self) {
        self.qps.fetch_add(1, Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.qps.fetch_sub(1, Relaxed);
    }

    /// Returns whether only one stream can reach the domain's regions.
    pub(crate) fn is_single_stream(&self) -> bool {
        self.qps.load(Relaxed) <= 1
    }
}

pub(crate) struct Tuning {
    rx_softirq: Number,
    rx_work: Number,
    tx_batch: Number,
    tx_run: Number,
}

const fn number(knob: Knob) -> Number {
    Number::new(knob.default, knob.range)
}

impl Tuning {
    pub(crate) const fn new() -> Self {
        Self {
            rx_softirq: number(tuning::RX_SOFTIRQ),
            rx_work: number(tuning::RX_WORK),
            tx_batch: number(tuning::TX_BATCH),
            tx_run: number(tuning::TX_RUN),
        }
    }

    /// Returns the budget for receiving in softirq.
    #[inline]
    pub(crate) fn softirq_budget(&self) -> Budget {
        Budget::new(self.rx_softirq.get())
    }

    /// Returns the budget for receiving in the work item.
    pub(crate) fn work_budget(&self) -> Budget {
        Budget::new(self.rx_work.get())
    }

    #[inline]
    pub(crate) fn sending(&self) -> SendLimits {
        SendLimits {
            batch: self.tx_batch.get(),
            run: self.tx_run.get(),
        }
    }

    /// Returns all budgets, with their names.
    pub(crate) fn numbers(&self) -> [(&'static CStr, &Number); 4] {
        [
            (tuning::RX_SOFTIRQ.name, &self.rx_softirq),
            (tuning::RX_WORK.name, &self.rx_work),
            (tuning::TX_BATCH.name, &self.tx_batch),
            (tuning::TX_RUN.name, &self.tx_run),
        ]
    }
}
