// SPDX-License-Identifier: GPL-2.0

//! An RDMA device as the core has it (an RNIC, in the words of the Verbs): all that lies over one
//! network interface.
//!
//! Context: process context unless a method says otherwise.
#![forbid(unsafe_code)]

mod removal;

use self::removal::Stage;
use crate::{
    cm::Cm,
    device::{
        Device,
        Settings, //
    },
    ffi::{
        debugfs::Shown,
        rdma::handle::DeviceHandle,
        rsiw::queues::Queues,
        time::timer::Timer, //
    },
    qp::QpTable,
};
use kernel::{
    new_work,
    prelude::*,
    str::CString,
    sync::{
        new_mutex,
        new_spinlock,
        Arc,
        Mutex,
        SpinLock, //
    },
    workqueue::Work,
};

/// The driver's part of the core's device: what its objects have in common, its queue pairs and
/// connections, and how far its removal is. The core has it until it is done with the device.
#[pin_data]
pub(crate) struct Rnic {
    /// What all objects use.
    pub(crate) dev: Arc<Device>,
    pub(crate) qps: Arc<QpTable>,
    pub(crate) cm: Arc<Cm>,
    #[pin]
    removal: Work<Self>,
    #[pin]
    watch: Work<Self, { removal::WATCH }>,
    /// Runs out when the removal has waited so long that the log says for whom.
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
        settings: Settings,
        queues: &Arc<Queues>,
    ) -> Result<Arc<Self>> {
        let dev = Device::new(handle, settings, queues)?;
        let qps = QpTable::new(queues.loaded())?;
        let cm = Cm::new(&dev, &qps)?;
        Arc::pin_init(
            pin_init!(Self {
                dev,
                qps,
                cm,
                removal <- new_work!("rsiw::Rnic::removal"),
                watch <- new_work!("rsiw::Rnic::watch"),
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
        // Nobody depends on the files.
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
