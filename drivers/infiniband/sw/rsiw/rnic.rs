// SPDX-License-Identifier: GPL-2.0

//! An RDMA device as the core has it (an RNIC, in the words of the Verbs): all that lies over one
//! network interface; and its removal.
//!
//! The core asks one consumer after the other to let go of the device, and waits for each. Many
//! consumers wait for what they have under way, such as the answer to a connect. But once the RDMA
//! CM itself was asked, it does not tell them of such events any more. So all that is under way
//! ends, and its events reach the consumers, before the core begins to ask.
//!
//! Context: process context unless a method says otherwise.
#![forbid(unsafe_code)]

use crate::cm::{
    Acceptors,
    Cm, //
};
use crate::device::{
    Device,
    Settings, //
};
use crate::ffi::debugfs::Shown;
use crate::ffi::rdma::handle::DeviceHandle;
use crate::ffi::rdma::iwcm;
use crate::ffi::rsiw::Queues;
use crate::ffi::time::{
    Expires,
    Timer, //
};
use crate::gids::Gids;
use crate::qp::direct::LocalPeers;
use crate::qp::{
    self,
    QpTable, //
};
use crate::ud::ports::UdPorts;
use crate::ud::{
    self,
    UdQpTable, //
};
use core::num::Saturating;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::rcu::synchronize_rcu;
use kernel::sync::{
    new_mutex,
    new_spinlock,
    Arc,
    Mutex,
    SpinLock, //
};
use kernel::time::delay::fsleep;
use kernel::time::Delta;
use kernel::workqueue::{
    Work,
    WorkItem, //
};
use kernel::{
    impl_has_work,
    new_work, //
};

/// What the devices of the module share.
pub(crate) struct Shared {
    pub(crate) queues: Arc<Queues>,
    pub(crate) acceptors: Arc<Acceptors>,
    pub(crate) peers: Arc<LocalPeers>,
}

/// The driver's part of the core's device: what its objects have in common, its queue pairs and
/// connections, and how far its removal is. The core keeps it until it is done with the device.
#[pin_data]
pub(crate) struct Rnic {
    /// What all objects use.
    pub(crate) dev: Arc<Device>,
    /// The namespace of the interface.
    namespace: u64,
    pub(crate) gids: Arc<Gids>,
    pub(crate) qps: Arc<QpTable>,
    pub(crate) ud: Arc<UdPorts>,
    pub(crate) cm: Arc<Cm>,
    pub(crate) peers: Arc<LocalPeers>,
    #[pin]
    removal: Work<Self>,
    #[pin]
    watch: Work<Self, { WATCH }>,
    #[pin]
    catch_up: Work<Self, { CATCH_UP }>,
    /// Runs out when the removal has waited for so long that the log is to say for whom it waits.
    #[pin]
    grace: Timer<Self>,
    #[pin]
    stage: SpinLock<Stage>,
    /// What the administrator sees of the device in debugfs.
    #[pin]
    files: Mutex<Option<Shown<Device>>>,
}

impl Rnic {
    pub(crate) fn new(
        handle: Arc<DeviceHandle>,
        namespace: u64,
        settings: Settings,
        shared: &Shared,
    ) -> Result<Arc<Self>> {
        let guid = settings.guid;
        let dev = Device::new(handle.clone(), settings, &shared.queues)?;
        let loaded = shared.queues.loaded();
        let qps = QpTable::new(qp::NUMBERS, loaded)?;
        let ud = UdPorts::new(&dev, UdQpTable::new(ud::NUMBERS, loaded)?)?;
        let gids = Gids::new(handle, guid, &ud, &shared.queues)?;
        let cm = Cm::new(&dev, &qps, &shared.acceptors)?;
        Arc::pin_init(
            pin_init!(Self {
                dev,
                namespace,
                gids,
                qps,
                ud,
                cm,
                peers: shared.peers.clone(),
                removal <- new_work!("rsiw::Rnic::removal"),
                watch <- new_work!("rsiw::Rnic::watch"),
                catch_up <- new_work!("rsiw::Rnic::catch_up"),
                grace <- Timer::new(),
                stage <- new_spinlock!(Stage::Used, "rsiw::Rnic::stage"),
                files <- new_mutex!(None, "rsiw::Rnic::files"),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes the files of the device in debugfs. The device is registered, and may be gone already.
    pub(crate) fn show(&self) {
        let Some(number) = self.dev.handle().number() else {
            return;
        };
        // An error is ignored, as nobody depends on the files.
        let Ok(name) = CString::try_from_fmt(fmt!("{number}")) else {
            return;
        };
        let root = &self.dev.queues().debugfs;
        let files = Shown::new(root, &name, self.dev.clone(), |dev| dev.tuning.numbers());
        let mut slot = self.files.lock();
        // Whoever removes the device sets the stage first, and then empties the slot.
        if !matches!(*self.stage.lock(), Stage::Gone) {
            *slot = Some(files);
        }
    }
}

/// How many milliseconds connections may take to end. How long they take does not depend on peers.
const END_MS: u32 = 5_000;
/// Milliseconds between lines in the log that say for whom a removal waits.
const GRACE_MS: u32 = 10_000;
/// How many milliseconds consumers may take to clean up behind connects that failed.
const CLEANUP_MS: u32 = 2_000;
/// How many milliseconds pass between two looks whether consumers have cleaned up.
const LOOK_MS: u32 = 10;
/// Identifies the work item that logs for whom a removal waits. That without a number begins the
/// removal.
const WATCH: u64 = 1;
/// Identifies the work item that does what could not be done while the device was not registered.
const CATCH_UP: u64 = 2;

/// How far the removal is.
enum Stage {
    Used,
    /// The core asks consumers to let go.
    Leaving,
    /// The core is done with the device.
    Gone,
}

impl_has_work! {
    impl HasWork<Self> for Rnic { self.removal }
    impl HasWork<Self, WATCH> for Rnic { self.watch }
    impl HasWork<Self, CATCH_UP> for Rnic { self.catch_up }
}

/// Waits until consumers have cleaned up, [`CLEANUP_MS`] at most.
fn wait_until(is_clean: impl Fn() -> bool) {
    for _ in 0..CLEANUP_MS / LOOK_MS {
        if is_clean() {
            break;
        }
        fsleep(Delta::from_millis(LOOK_MS.into()));
    }
}

impl Rnic {
    /// Starts the removal of the device, as the interface is gone for good and no stream will hear
    /// of its peer any more. May be called with the RTNL held, and waits for nobody.
    pub(crate) fn interface_gone(self: &Arc<Self>) {
        // Not in the queue of connections, as the removal waits for the work in that queue.
        let _ = self.dev.queues().patient.enqueue::<_, 0>(self.clone());
    }

    /// Has done what could not be done while the device was not registered: it was new, or has moved
    /// to another namespace. Waits for nobody.
    pub(crate) fn enabled(self: &Arc<Self>) {
        let queues = self.dev.queues().clone();
        let _ = queues.patient.enqueue::<_, CATCH_UP>(self.clone());
        self.gids.addresses_changed();
    }

    /// Starts the removal of the device if its interface has moved to another namespace. That event
    /// comes once, and only to a device that is registered. The event that an interface is deleted
    /// comes again, each second, as long as the core has a reference to the interface.
    fn check_interface(self: &Arc<Self>) {
        let netdev = self.dev.handle().netdev();
        if netdev.is_none_or(|netdev| netdev.settled_namespace() != self.namespace) {
            self.interface_gone();
        }
    }

    /// Ends what consumers have under way, and lets nothing new begin, before the core removes the
    /// device. Waits for all this, but for a limited time.
    pub(crate) fn leave(self: &Arc<Self>) {
        self.cm.close();
        self.ud.close();
        self.qps.for_each(|qp| qp.lost());
        self.cm.end_all(END_MS);
        iwcm::flush_events(self.dev.handle());
        self.await_cleanup();
        let mut stage = self.stage.lock();
        if matches!(*stage, Stage::Used) {
            *stage = Stage::Leaving;
            Timer::start(self, GRACE_MS);
        }
    }

    /// Waits until consumers in the kernel whose connects failed have cleaned up. The core does not
    /// wait for that: its stock of completion queues goes with the device, whether consumers have
    /// returned theirs or not.
    fn await_cleanup(&self) {
        wait_until(|| {
            let (mut known, mut unconnected) = (Saturating(0), false);
            self.qps.for_each(|qp| {
                known += 1;
                unconnected |= qp.shared.is_unconnected_of_kernel() || qp.is_ending();
            });
            // Queue pairs that have given back their numbers, and not all else yet, are counted,
            // though they are not in the table any more.
            !unconnected && self.dev.limits().qps.used() == known.0
        });
        // Consumers return completion queues at once when their queue pairs are gone.
        synchronize_rcu();
    }

    /// Waits until consumers in the kernel have given up their protection domains. The core does
    /// not wait for that: it frees what it keeps of the device once each consumer has said that it
    /// is done, and some consumers (rtrs) give up their domain only after that.
    fn await_domains(&self) {
        wait_until(|| self.dev.limits().pds.used() == 0);
        // The core takes a domain off its list as soon as the driver has given it up.
        synchronize_rcu();
    }

    /// Ends all that is left of the device, when the core is done with it.
    pub(crate) fn close(self: &Arc<Self>) {
        self.await_domains();
        *self.stage.lock() = Stage::Gone;
        let files = self.files.lock().take();
        drop(files);
        Timer::stop(self);
        self.gids.close();
        self.cm.close_all();
        self.dev.close_log();
    }

    /// Logs who has not let go yet.
    fn warn_of_users(&self) {
        let mut qps = Saturating(0u32);
        self.qps.for_each(|qp| {
            if qp.shared.id.is_of_kernel() {
                qps += 1;
            }
        });
        let (Saturating(qps), listeners) = (qps, self.cm.listeners());
        let handle = self.dev.handle();
        pr_info!(
            "{handle}: removal waits for consumers: queue pairs {qps}, listeners {listeners}\n"
        );
    }
}

impl WorkItem for Rnic {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.leave();
        this.dev.handle().unregister();
    }
}

impl WorkItem<WATCH> for Rnic {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let stage = this.stage.lock();
        if !matches!(*stage, Stage::Leaving) {
            return;
        }
        Timer::start(&this, GRACE_MS);
        drop(stage);
        this.warn_of_users();
    }
}

impl WorkItem<CATCH_UP> for Rnic {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let stage = this.stage.lock();
        match *stage {
            Stage::Used => {
                drop(stage);
                this.check_interface();
            }
            Stage::Leaving => {
                drop(stage);
                // The core was perhaps asked while the device was not registered, in vain.
                this.dev.handle().unregister();
            }
            Stage::Gone => {}
        }
    }
}

impl Expires for Rnic {
    fn timer(&self) -> &Timer<Self> {
        &self.grace
    }

    fn expired(this: Arc<Self>) {
        let queues = this.dev.queues().clone();
        let _ = queues.patient.enqueue::<_, WATCH>(this);
    }
}
