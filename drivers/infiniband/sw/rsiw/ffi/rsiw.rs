// SPDX-License-Identifier: GPL-2.0

//! Only for this driver: its workqueues, its module parameters and the C header of its ABI; trace
//! events; and what is written in C: methods that processes call by `RDMA_VERBS_IOCTL`, declared in
//! `methods.c`, and files in sysfs, in `sysfs.c`.
//!
//! Context: process, if a method does not say otherwise. The core keeps the object and its process
//! context during the call of a method, and no call destroys it.

pub(crate) mod trace;

use super::debugfs::Directory;
use super::module::Loaded;
use super::raw::b;
use super::rdma::callbacks::{
    is_ud,
    DeviceObject,
    QpObject,
    SrqObject, //
};
use super::rdma::driver::{
    Driver,
    InC, //
};
use super::rdma::udata::Udata;
use super::task::Reaping;
use super::workqueue::OwnedQueue;
use core::marker::PhantomData;
use kernel::error::from_result;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::Arc;

/// What all devices of the module use.
pub(crate) struct Queues {
    /// For queue pairs. It is urgent, as a thread that polls for a completion would otherwise keep
    /// the processor, and with it the work item that is to bring the completion.
    pub(crate) data: OwnedQueue,
    /// For sending what can wait a little while more of it comes.
    pub(crate) patient: OwnedQueue,
    /// For handlers of completions, and for what else has to run on a certain processor.
    pub(crate) softirq: OwnedQueue,
    /// For connections. Their work runs side by side, so that one which waits for its process does
    /// not hold up others.
    pub(crate) cm: OwnedQueue,
    /// See [`Reaping::reaping`].
    pub(crate) reaping: OwnedQueue,
    loaded: Loaded,
    /// Where devices have their files.
    pub(crate) debugfs: Arc<Directory>,
}

impl Queues {
    pub(crate) fn loaded(&self) -> Loaded {
        self.loaded
    }

    fn drain(&self) {
        self.cm.drain();
        self.patient.drain();
        self.data.drain();
        self.softirq.drain();
        self.reaping.drain();
    }
}

impl Reaping for Queues {
    fn reaping(&self) -> &OwnedQueue {
        &self.reaping
    }

    fn loaded(&self) -> Loaded {
        self.loaded
    }
}

/// Keeps the queues of the module. Dropping this waits for what is queued.
pub(crate) struct SharedQueues(Arc<Queues>);

impl SharedQueues {
    /// Makes the queues, when the module is loaded, or returns `ENOMEM`.
    pub(crate) fn new(loaded: Loaded) -> Result<Self> {
        let queues = Queues {
            data: OwnedQueue::new_urgent(c"rsiw")?,
            patient: OwnedQueue::new_adjustable(c"rsiw-post")?,
            softirq: OwnedQueue::new_softirq(c"rsiw-comp")?,
            cm: OwnedQueue::new(c"rsiw-cm")?,
            reaping: OwnedQueue::new_idle(c"rsiw-reap")?,
            loaded,
            debugfs: Arc::new(Directory::new(c"rsiw"), GFP_KERNEL)?,
        };
        Ok(Self(Arc::new(queues, GFP_KERNEL)?))
    }

    pub(crate) fn get(&self) -> &Arc<Queues> {
        &self.0
    }
}

impl Drop for SharedQueues {
    fn drop(&mut self) {
        // What is dropped in RCU callbacks may queue work, and the other way round.
        self.0.drain();
        kernel::sync::rcu::rcu_barrier();
        self.0.drain();
    }
}

pub(crate) mod params {
    //! Module parameters: reads what `params.c` declares. Any context.

    use crate::ffi::raw::b;

    /// Declares functions that read parameters; each is named as its parameter.
    macro_rules! parameters {
        ($( $(#[$doc:meta])* fn $name:ident() -> $kind:ty = $var:ident; )*) => { $(
            $(#[$doc])*
            pub(crate) fn $name() -> $kind {
                // SAFETY: the variable is static; the core, which may write it meanwhile, does so
                // as a whole and with a value of its type.
                unsafe { (&raw const b::$var).read_volatile() }
            }
        )* };
    }

    parameters! {
        /// Whether this side asks for CRCs (RFC 5044 section 4.4): by default yes. They are used
        /// unless both sides say no. For new connections.
        fn mpa_crc() -> bool = rsiw_mpa_crc;

        /// Whether FPDUs may exceed a TCP segment if the peer does the same: by default yes. For
        /// new connections.
        fn large_fpdus() -> bool = rsiw_large_fpdus;

        /// Where the other end of a connection may be for segments to go there without TCP: nowhere
        /// (0), in the same network namespace (1), anywhere on this host (2). For new connections.
        fn direct() -> u32 = rsiw_direct;

        /// Whether the port mapper chooses the ports that TCP uses, so that a service may have the
        /// same port for TCP and for RDMA. For new devices in the first network namespace.
        fn port_map() -> bool = rsiw_port_map;

        /// Milliseconds that a Send waits for a receive before it ends the stream. For new
        /// connections.
        fn rnr_wait_ms() -> u32 = rsiw_rnr_wait_ms;

        /// Whether Sends and Writes complete when the peer has placed them, instead of when TCP has
        /// them. For new connections.
        fn wait_placed() -> bool = rsiw_wait_placed;

        /// The TCP port at which queue pairs are reached that programs connect by number; zero is
        /// none. For queue pairs that take the step to RTR.
        fn qp_port() -> u16 = rsiw_qp_port;

        /// The UDP port of datagrams, at both ends; zero is none. For devices that have no queue
        /// pair for datagrams yet.
        fn ud_port() -> u16 = rsiw_ud_port;

        /// Whether connections have TLS below MPA: no (0), with a key that both ends have (1), with
        /// certificates (2). For new devices, as are the next two.
        fn tls() -> u32 = rsiw_tls;

        /// The number of the keyring in which the daemon that does handshakes looks; zero is none.
        fn tls_keyring() -> i32 = rsiw_tls_keyring;

        /// The number of the key by which the side that connects says who it is; zero is none.
        fn tls_key() -> i32 = rsiw_tls_key;

        /// Whether connections use the interface of their device only: with TLS and over tunnels
        /// (0), in any case (1), never (2). For new devices.
        fn bind_netdev() -> u32 = rsiw_bind_netdev;

        /// Whether the link type `siw` is registered too, for tools that name it. Set when the
        /// module is loaded.
        fn siw_link_type() -> bool = rsiw_siw_link_type;
    }
}

#[allow(
    dead_code,
    reason = "all of it is looked at when this is compiled, only; not all compilers call that a use"
)]
pub(crate) mod uapi {
    //! What the driver's own ABI is in C, with which `abi::own` compares what the driver uses.
    //!
    //! C header: [`include/uapi/rdma/rsiw-abi.h`](srctree/include/uapi/rdma/rsiw-abi.h)

    use crate::ffi::raw::b;

    pub(crate) use b::{
        rsiw_bind as Bind,
        rsiw_cqe as Cqe,
        rsiw_dest as Dest,
        rsiw_path as Path,
        rsiw_rq_ctrl as RqCtrl,
        rsiw_rqe as Rqe,
        rsiw_sge as Sge,
        rsiw_sqe as Sqe,
        rsiw_ureq_alloc_ctx as AllocContextReq,
        rsiw_ureq_create_qp as CreateQpReq,
        rsiw_ureq_resize_cq as ResizeCqReq,
        rsiw_ureq_resize_qp as ResizeQpReq,
        rsiw_ureq_resize_srq as ResizeSrqReq,
        rsiw_uresp_alloc_ctx as AllocContextResp,
        rsiw_uresp_create_qp as CreateQpResp,
        rsiw_uresp_resize_cq as ResizeCqResp,
        rsiw_uresp_resize_qp as ResizeQpResp,
        rsiw_uresp_resize_srq as ResizeSrqResp, //
    };

    pub(crate) const MAGIC: u32 = b::RSIW_ABI_MAGIC;
    pub(crate) const VERSION: u32 = b::RSIW_ABI_VERSION;

    // CAST: C has one type for all of these numbers, which fit.
    pub(crate) const MAX_SGE: usize = b::RSIW_MAX_SGE as usize;
    pub(crate) const MAX_INLINE: usize = b::RSIW_MAX_INLINE as usize;
    pub(crate) const FEATURE_RINGS: u64 = b::rsiw_feature_RSIW_FEATURE_RINGS as u64;
    pub(crate) const FEATURE_IMM: u64 = b::rsiw_feature_RSIW_FEATURE_IMM as u64;
    pub(crate) const FEATURE_ATOMIC: u64 = b::rsiw_feature_RSIW_FEATURE_ATOMIC as u64;
    pub(crate) const FEATURE_WINDOWS: u64 = b::rsiw_feature_RSIW_FEATURE_WINDOWS as u64;
    pub(crate) const FEATURE_TIMESTAMP: u64 = b::rsiw_feature_RSIW_FEATURE_TIMESTAMP as u64;
    pub(crate) const FEATURE_RESIZE: u64 = b::rsiw_feature_RSIW_FEATURE_RESIZE as u64;
    pub(crate) const FEATURE_RESIZE_STEPS: u64 = b::rsiw_feature_RSIW_FEATURE_RESIZE_STEPS as u64;
    pub(crate) const FEATURE_SEND_IMM: u64 = b::rsiw_feature_RSIW_FEATURE_SEND_IMM as u64;
    pub(crate) const FEATURE_UD: u64 = b::rsiw_feature_RSIW_FEATURE_UD as u64;
    pub(crate) const RESIZE_MAKE: u32 = b::rsiw_resize_flags_RSIW_RESIZE_MAKE;
    pub(crate) const RESIZE_MOVE: u32 = b::rsiw_resize_flags_RSIW_RESIZE_MOVE;
    pub(crate) const RESIZE_SRQ_LIMIT: u32 = b::rsiw_resize_srq_flags_RSIW_RESIZE_SRQ_LIMIT;
    pub(crate) const FEATURE_POLL: u64 = b::rsiw_feature_RSIW_FEATURE_POLL as u64;
    pub(crate) const FEATURE_FLUSH: u64 = b::rsiw_feature_RSIW_FEATURE_FLUSH as u64;
    pub(crate) const MAX_POLL_US: u32 = b::RSIW_MAX_POLL_US;
    pub(crate) const OP_BIND_MW: u8 = b::rsiw_opcode_RSIW_OP_BIND_MW as u8;
    pub(crate) const OP_WRITE_WITH_IMM: u8 = b::rsiw_opcode_RSIW_OP_WRITE_WITH_IMM as u8;
    pub(crate) const OP_SEND_WITH_IMM: u8 = b::rsiw_opcode_RSIW_OP_SEND_WITH_IMM as u8;
    pub(crate) const CQE_WITH_IMM: u16 = b::RSIW_CQE_WITH_IMM as u16;
    pub(crate) const CQE_OF_SEND: u16 = b::RSIW_CQE_OF_SEND as u16;
    pub(crate) const CQE_OF_DATAGRAM: u16 = b::RSIW_CQE_OF_DATAGRAM as u16;
}

/// The driver's version, in the form that the stock library expects of a version of firmware.
pub(crate) const VERSION: u64 = {
    // CAST: 32 bits.
    let (major, minor) = (b::RSIW_VERSION_MAJOR as u64, b::RSIW_VERSION_MINOR as u64);
    major << 32 | minor << 16
};

/// A counter that every port of an adapter has, by its name in sysfs. Data is counted in units of
/// four octets, of payload only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortCounter {
    XmitData,
    RcvData,
    XmitPackets,
    RcvPackets,
}

/// What a device was made with, by the name of the parameter and of the file in sysfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Tls,
    BindNetdev,
}

/// The methods that a driver implements, besides those of [`Driver`], to use this module.
pub(crate) trait Methods: Driver {
    /// Gives the queues of a process's queue pair other depths, as the process's part of the call
    /// says, or fails without changing any.
    fn resize_qp(qp: &Self::Qp, udata: &mut Udata<'_>) -> Result;

    /// Gives the shared receive queue of a process another depth, as the process's part of the call
    /// says. Otherwise as [`Methods::resize_qp`].
    fn resize_srq(srq: &Self::Srq, udata: &mut Udata<'_>) -> Result;

    /// Returns a counter of the port. Any context.
    fn port_counter(dev: &Self::Device, which: PortCounter) -> u64;

    /// Returns the value of a setting, as the file in sysfs shows it. Any context.
    fn setting(dev: &Self::Device, which: Setting) -> &'static CStr;
}

/// Names what is written in C, and calls the methods of `D`, the only driver of the module.
pub(crate) const fn in_c<D: Methods>() -> InC {
    InC {
        definitions: Some(definitions::<D>),
        port_groups: (&raw const b::rsiw_port_groups).cast_mut().cast(),
        get_dev_fw_str: Some(b::rsiw_get_dev_fw_str),
    }
}

struct MethodCallbacks<D>(PhantomData<D>);

impl<D: Methods> MethodCallbacks<D> {
    const ALL: &'static b::rsiw_methods = &b::rsiw_methods {
        resize_qp: Some(resize_qp::<D>),
        resize_srq: Some(resize_srq::<D>),
        port_counter: Some(port_counter::<D>),
        setting: Some(setting::<D>),
    };
}

fn definitions<D: Methods>() -> *const b::uapi_definition {
    // SAFETY: the callbacks are static, and those of `D`, as are all devices with the definitions.
    unsafe { b::rsiw_definitions(MethodCallbacks::<D>::ALL) }
}

/// # Safety
///
/// Called by a method with a queue pair of `D` and the udata of its call.
unsafe extern "C" fn resize_qp<D: Methods>(qp: *mut b::ib_qp, udata: *mut b::ib_udata) -> c_int {
    from_result(|| {
        // SAFETY: the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        // SAFETY: the core's object lives during the call.
        if unsafe { is_ud(qp) } {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: the queue pair is one of `D` (see `Vtable`).
        let qp = unsafe { QpObject::<D>::get(qp) };
        D::resize_qp(&qp, &mut udata)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called by a method with a shared receive queue of `D` and the udata of its call.
unsafe extern "C" fn resize_srq<D: Methods>(srq: *mut b::ib_srq, udata: *mut b::ib_udata) -> c_int {
    from_result(|| {
        // SAFETY: the udata of this call.
        let mut udata = unsafe { Udata::from_raw(udata) }.ok_or(EINVAL)?;
        // SAFETY: the queue is one of `D` (see `Vtable`).
        let srq = unsafe { SrqObject::<D>::get(srq) };
        D::resize_srq(&srq, &mut udata)?;
        Ok(0)
    })
}

/// # Safety
///
/// Called for an attribute of a device of `D`.
unsafe extern "C" fn port_counter<D: Methods>(
    dev: *mut b::ib_device,
    which: b::rsiw_port_counter,
) -> u64 {
    let which = match which {
        b::rsiw_port_counter_RSIW_PORT_XMIT_DATA => PortCounter::XmitData,
        b::rsiw_port_counter_RSIW_PORT_RCV_DATA => PortCounter::RcvData,
        b::rsiw_port_counter_RSIW_PORT_XMIT_PACKETS => PortCounter::XmitPackets,
        _ => PortCounter::RcvPackets,
    };
    // SAFETY: the device is one of `D` (see `Vtable`).
    let dev = unsafe { DeviceObject::<D>::get(dev) };
    D::port_counter(&dev, which)
}

/// # Safety
///
/// Called for an attribute of a device of `D`.
unsafe extern "C" fn setting<D: Methods>(
    dev: *mut b::ib_device,
    which: b::rsiw_setting,
) -> *const c_char {
    let which = match which {
        b::rsiw_setting_RSIW_SETTING_TLS => Setting::Tls,
        _ => Setting::BindNetdev,
    };
    // SAFETY: the device is one of `D` (see `Vtable`).
    let dev = unsafe { DeviceObject::<D>::get(dev) };
    D::setting(&dev, which).as_char_ptr()
}
