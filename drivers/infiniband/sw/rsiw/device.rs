// SPDX-License-Identifier: GPL-2.0

//! A device: what is shared by all objects over one network interface.
//!
//! Context: process context unless a method says otherwise.
#![forbid(unsafe_code)]

mod removal;

use crate::{
    cm, cq,
    ffi::{
        net::{
            netdev::NetDevice,
            ChunkPool, //
        },
        random,
        rdma::{
            attr::{
                DeviceAttr,
                PortAttr,
                Qpn, //
            },
            device::{
                self as core_device,
                Spec, //
            },
            handle::DeviceHandle,
            kmr::KernelConsumer,
            link::LinkName, //
        },
        sync::rcu_table::RcuTable,
        timer::Timer,
        workqueue::{
            OwnedQueue,
            Queues, //
        },
    },
    mr::{
        table::{
            StagTable,
            MAX_MR, //
        },
        PdId,
        MAX_FAST_REG, //
    },
    qp::Qp,
    srq,
    verbs::Rsiw,
};
use kernel::{
    new_work,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        },
        new_spinlock,
        Arc,
        SpinLock, //
    },
    workqueue::Work,
};
use removal::Stage;

/// Queue pairs of a device.
const MAX_QP: u32 = 100 * 1024;
/// Completion queues of a device.
const MAX_CQ: u32 = 100 * 1024;
/// Shared receive queues of a device.
const MAX_SRQ: u32 = 100 * 1024;
/// Protection domains of a device.
const MAX_PD: u32 = 100 * 1024;
/// Most connections that are refused and wait for their peer to close. They cost a peer nothing.
const MAX_REFUSED: u32 = 1024;
/// Entries of a send or receive queue.
pub(crate) const MAX_WR: u32 = 32 * 1024;
/// Elements of a request of a kernel consumer. For a process it is what an entry has room for.
pub(crate) const KERNEL_MAX_SGE: u32 = 32;
/// Octets of inline data of a request of a kernel consumer.
pub(crate) const KERNEL_MAX_INLINE: u32 = 512;
/// RDMA Reads under way per QP, in each direction.
pub(crate) const MAX_READS: u16 = 128;
/// Vendor and part are those that rdma-core knows as software iWARP.
const VENDOR_ID: u32 = 0x626d74;

/// What a device may run out of.
pub(crate) struct Limits {
    /// Queue pairs.
    pub(crate) qps: Limit,
    /// Completion queues.
    pub(crate) cqs: Limit,
    /// Protection domains.
    pub(crate) pds: Limit,
    /// Shared receive queues.
    pub(crate) srqs: Limit,
    /// Refused connections whose peer has not closed yet.
    pub(crate) refused: Limit,
}

/// A count with a maximum.
pub(crate) struct Limit {
    used: Atomic<u32>,
    max: u32,
}

impl Limit {
    const fn new(max: u32) -> Self {
        Self {
            used: Atomic::new(0),
            max,
        }
    }

    /// How many there are.
    fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }
}

/// One of a limited number of objects; given back when dropped.
pub(crate) struct Quota {
    dev: Arc<Device>,
    of: fn(&Limits) -> &Limit,
}

impl Quota {
    /// Takes one.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if all are taken.
    pub(crate) fn take(dev: &Arc<Device>, of: fn(&Limits) -> &Limit) -> Result<Self> {
        let limit = of(&dev.limits);
        if limit.used.fetch_add(1, Relaxed) >= limit.max {
            limit.used.fetch_sub(1, Relaxed);
            return Err(ENOMEM);
        }
        Ok(Self {
            dev: dev.clone(),
            of,
        })
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        (self.of)(&self.dev.limits).used.fetch_sub(1, Relaxed);
    }
}

/// A device.
#[pin_data]
pub(crate) struct Device {
    handle: Arc<DeviceHandle>,
    queues: Arc<Queues>,
    /// EUI-64: made from the interface's address, or random where it has none.
    guid: [u8; 8],
    limits: Limits,
    pd_ids: Atomic<u64>,
    /// Memory for sending.
    pub(crate) chunks: Arc<ChunkPool>,
    /// Memory regions by STag.
    #[pin]
    pub(crate) stags: StagTable,
    /// Queue pairs by number.
    #[pin]
    pub(crate) qps: RcuTable<Qp>,
    /// Connections and listeners.
    #[pin]
    pub(crate) cm: cm::Registry,
    /// Connections that this side begins.
    pub(crate) initiators: Arc<cm::Initiators>,
    #[pin]
    removal: Work<Self>,
    #[pin]
    watch: Work<Self, { removal::WATCH }>,
    #[pin]
    patience: Timer<Self>,
    #[pin]
    stage: SpinLock<Stage>,
}

impl Device {
    /// Makes the device `name` over `netdev`.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the interface has one already, otherwise what the core says.
    pub(crate) fn add(name: LinkName<'_>, netdev: &NetDevice, queues: &Arc<Queues>) -> Result {
        if core_device::is_taken::<Rsiw>(netdev) {
            return Err(EEXIST);
        }
        let guid = guid(netdev);
        let spec = Spec {
            name,
            netdev,
            node_guid: u64::from_ne_bytes(guid),
            comp_vectors: kernel::cpu::nr_cpu_ids(),
        };
        core_device::add::<Rsiw>(&spec, |handle| {
            let chunks = Arc::pin_init(ChunkPool::new(), GFP_KERNEL)?;
            let initiators = cm::Initiators::new(queues)?;
            let loaded = queues.loaded();
            Arc::pin_init(
                pin_init!(Self {
                    handle,
                    queues: queues.clone(),
                    guid,
                    limits: Limits {
                        qps: Limit::new(MAX_QP),
                        cqs: Limit::new(MAX_CQ),
                        pds: Limit::new(MAX_PD),
                        srqs: Limit::new(MAX_SRQ),
                        refused: Limit::new(MAX_REFUSED),
                    },
                    pd_ids: Atomic::new(0),
                    chunks,
                    stags <- StagTable::new(loaded),
                    qps <- RcuTable::new(loaded),
                    cm <- cm::Registry::new(),
                    initiators,
                    removal <- new_work!("rsiw::Device::removal"),
                    watch <- new_work!("rsiw::Device::watch"),
                    patience <- Timer::new(),
                    stage <- new_spinlock!(Stage::Used, "rsiw::Device::stage"),
                }),
                GFP_KERNEL,
            )
        })
    }

    /// The handle of the core's device: its name, its interface.
    pub(crate) fn handle(&self) -> &DeviceHandle {
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

    /// A number for a new protection domain.
    pub(crate) fn next_pd_id(&self, kernel: Option<KernelConsumer>) -> PdId {
        PdId::new(self.pd_ids.fetch_add(1, Relaxed), kernel)
    }

    /// The QP of that number. Any context.
    pub(crate) fn qp_by_num(&self, num: Qpn) -> Option<Arc<Qp>> {
        self.qps.lookup(num.0)
    }

    /// The GID: the link-local prefix and the EUI-64.
    pub(crate) fn gid(&self) -> [u8; 16] {
        let mut gid = [0; 16];
        let prefix = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
        for (to, from) in gid
            .iter_mut()
            .zip(Iterator::chain(prefix.iter(), &self.guid))
        {
            *to = *from;
        }
        gid
    }

    /// Limits and abilities, for a process or for the kernel.
    pub(crate) fn attributes(&self, for_process: bool) -> DeviceAttr {
        let max_sge = crate::abi::MAX_SGE as u32; // CAST: 6.
        DeviceAttr {
            sys_image_guid: u64::from_ne_bytes(self.guid),
            vendor_id: VENDOR_ID,
            max_qp: MAX_QP,
            max_qp_wr: MAX_WR,
            max_send_sge: if for_process { max_sge } else { KERNEL_MAX_SGE },
            // A process that asks in the old way is told the smaller number of what the kernel is
            // told. So this must be what a process can have; kernel consumers can have more.
            max_recv_sge: max_sge,
            max_sge_rd: 1,
            max_cq: MAX_CQ,
            max_cqe: cq::MAX_CQE,
            max_mr: MAX_MR,
            max_pd: MAX_PD,
            max_fast_reg: MAX_FAST_REG,
            max_srq: MAX_SRQ,
            max_srq_wr: srq::MAX_SRQ_WR,
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

/// The EUI-64 of an interface: from its address, or a random local one.
fn guid(netdev: &NetDevice) -> [u8; 8] {
    let [a, b, c, d, e, f] = netdev.mac().unwrap_or_else(|| {
        let [lo, hi] = [random::random_u32(), random::random_u32()];
        let [a, b, c, _] = lo.to_ne_bytes();
        let [d, e, f, _] = hi.to_ne_bytes();
        // A unicast address that is nobody's by assignment.
        [(a & 0xfc) | 0x02, b, c, d, e, f]
    });
    [a ^ 0x02, b, c, 0xff, 0xfe, d, e, f]
}
