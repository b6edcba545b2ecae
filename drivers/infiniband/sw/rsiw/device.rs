// SPDX-License-Identifier: GPL-2.0

//! What all objects of a device use: the core's device, memory regions, memory to send, limits.
//!
//! Context: process context unless a method says otherwise.
#![forbid(unsafe_code)]

use crate::{
    counts::Counts,
    ffi::{
        net::{
            netdev::NetDevice,
            ChunkPool, //
        },
        random,
        rdma::{
            attr::{
                DeviceAttr,
                PortAttr, //
            },
            handle::DeviceHandle,
        },
        rsiw::{
            methods::VERSION,
            queues::Queues, //
        },
        workqueue::OwnedQueue,
    },
    limits::{
        Limits,
        KERNEL_MAX_SGE,
        MAX_CQ,
        MAX_CQE,
        MAX_PD,
        MAX_QP,
        MAX_READS,
        MAX_SRQ,
        MAX_SRQ_WR,
        MAX_WR, //
    },
    mr::{
        table::{
            StagTable,
            MAX_MR, //
        },
        MAX_FAST_REG,
    },
    proto::counters::Counter,
    tuning::Tuning,
};
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// Vendor and part are those that rdma-core knows as software iWARP.
const VENDOR_ID: u32 = 0x626d74;

/// A device.
#[pin_data]
pub(crate) struct Device {
    handle: Arc<DeviceHandle>,
    queues: Arc<Queues>,
    /// Of the node.
    guid: Guid,
    /// Of the port, as a number: follows the address of the interface.
    port_guid: Atomic<u64>,
    limits: Arc<Limits>,
    /// What is counted for the whole device, but for queue pairs that are bound to counters.
    pub(crate) counts: Arc<Counts>,
    /// What is counted for these while they are.
    pub(crate) bound_counts: Arc<Counts>,
    /// Budgets of the data path.
    pub(crate) tuning: Tuning,
    /// Memory for sending.
    pub(crate) chunks: Arc<ChunkPool>,
    /// Memory regions by STag.
    #[pin]
    pub(crate) stags: StagTable,
}

impl Device {
    /// Makes the device that the core knows by `handle`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        handle: Arc<DeviceHandle>,
        guid: Guid,
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
                guid,
                port_guid: Atomic::new(guid.to_u64()),
                limits,
                counts,
                bound_counts,
                tuning: Tuning::new(),
                chunks,
                stags <- stags,
            }),
            GFP_KERNEL,
        )
    }

    /// The handle of the core's device: its name, its interface.
    pub(crate) fn handle(&self) -> &DeviceHandle {
        &self.handle
    }

    /// The same, for who keeps the core's device.
    pub(crate) fn core(&self) -> &Arc<DeviceHandle> {
        &self.handle
    }

    /// The interface, unless the device is going away.
    pub(crate) fn netdev(&self) -> Option<ARef<NetDevice>> {
        self.handle.netdev()
    }

    /// The queue for the work of queue pairs. Any context.
    pub(crate) fn queue(&self) -> &OwnedQueue {
        &self.queues.data
    }

    /// The same for sending that does not have to be done at once. Any context.
    pub(crate) fn patient_queue(&self) -> &OwnedQueue {
        &self.queues.patient
    }

    /// The module's queues. Any context.
    pub(crate) fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    /// The queue for the work of connections. Any context.
    pub(crate) fn cm_queue(&self) -> &OwnedQueue {
        &self.queues.cm
    }

    /// Counts something, if it is to be counted, that no queue pair is concerned with. Any context.
    pub(crate) fn count(&self, counter: Option<Counter>) {
        if let Some(counter) = counter {
            self.counts.add(counter, 1);
        }
    }

    /// What the device may run out of. Any context.
    pub(crate) fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The GID: the link-local prefix and the EUI-64.
    pub(crate) fn gid(&self) -> [u8; 16] {
        let mut gid = [0; 16];
        let prefix = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
        let guid = Guid::from_u64(self.port_guid.load(Relaxed));
        for (to, from) in gid.iter_mut().zip(Iterator::chain(prefix.iter(), &guid.0)) {
            *to = *from;
        }
        gid
    }

    /// Lets the GID follow the address of the interface, if that has one. Returns whether it is
    /// another now.
    pub(crate) fn follow(&self, netdev: &NetDevice) -> bool {
        let Some(mac) = netdev.mac() else {
            return false;
        };
        let guid = Guid::of_mac(mac).to_u64();
        self.port_guid.xchg(guid, Relaxed) != guid
    }

    /// Limits and abilities, for a process or for the kernel.
    ///
    /// What a process can have with rings of its own it is told when it opens the device, as what
    /// is said here is said to those with stock rings, too.
    pub(crate) fn attributes(&self, for_process: bool) -> DeviceAttr {
        let max_sge = crate::abi::MAX_SGE as u32; // CAST: 6.
        DeviceAttr {
            fw_ver: VERSION,
            sys_image_guid: self.guid.to_u64(),
            vendor_id: VENDOR_ID,
            max_qp: MAX_QP,
            max_qp_wr: MAX_WR,
            max_send_sge: if for_process { max_sge } else { KERNEL_MAX_SGE },
            // A process that asks in the old way is told the smaller number of what the kernel is
            // told. So this must be what a process can have; kernel consumers can have more.
            max_recv_sge: max_sge,
            max_sge_rd: 1,
            max_cq: MAX_CQ,
            max_cqe: MAX_CQE,
            max_mr: MAX_MR,
            max_pd: MAX_PD,
            max_fast_reg: MAX_FAST_REG,
            max_srq: MAX_SRQ,
            max_srq_wr: MAX_SRQ_WR,
            max_ird: MAX_READS.into(),
            max_ord: MAX_READS.into(),
        }
    }

    /// State of the port.
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
            // Zero stands for no limit, as the loopback interface has none.
            max_mtu: match netdev.max_mtu() {
                0 => u32::MAX,
                mtu => mtu,
            },
            mtu: netdev.mtu(),
        }
    }
}

/// The EUI-64 of a device.
#[derive(Clone, Copy)]
pub(crate) struct Guid([u8; 8]);

impl Guid {
    /// Made from the address of the interface, or random where it has none.
    pub(crate) fn new(netdev: &NetDevice) -> Self {
        Self::of_mac(netdev.mac().unwrap_or_else(|| {
            let [lo, hi] = [random::random_u32(), random::random_u32()];
            let [a, b, c, _] = lo.to_ne_bytes();
            let [d, e, f, _] = hi.to_ne_bytes();
            // A unicast address that is nobody's by assignment.
            [(a & 0xfc) | 0x02, b, c, d, e, f]
        }))
    }

    fn of_mac([a, b, c, d, e, f]: [u8; 6]) -> Self {
        Self([a ^ 0x02, b, c, 0xff, 0xfe, d, e, f])
    }

    /// As the core keeps it: in network order.
    pub(crate) fn to_u64(self) -> u64 {
        u64::from_ne_bytes(self.0)
    }

    fn from_u64(raw: u64) -> Self {
        Self(raw.to_ne_bytes())
    }
}
