// SPDX-License-Identifier: GPL-2.0

//! Notification of changes of network devices. Callbacks run in process context under RTNL.

use super::netdev::NetDevice;
use crate::ffi::raw::{
    b,
    h, //
};
use core::{
    marker::PhantomData,
    pin::Pin, //
};
use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

/// What happened to a network device, as far as anybody here asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetdevEvent {
    /// The device is being removed, or moved to another namespace.
    Unregister,
    /// The hardware address changed.
    ChangeAddr,
}

impl NetdevEvent {
    fn from_raw(event: usize) -> Option<Self> {
        Some(match u32::try_from(event).ok()? {
            b::netdev_cmd_NETDEV_UNREGISTER => Self::Unregister,
            b::netdev_cmd_NETDEV_CHANGEADDR => Self::ChangeAddr,
            _ => return None,
        })
    }
}

/// The receiver of events of network devices.
pub(crate) trait NetdevHandler {
    /// Called under RTNL, for devices of all namespaces.
    fn event(event: NetdevEvent, ndev: &NetDevice);
}

/// A registration of `H`, ended by dropping it (process context, RTNL not held).
///
/// # Invariants
///
/// `nb` is registered.
#[pin_data(PinnedDrop)]
pub(crate) struct NetdevNotifier<H: NetdevHandler> {
    #[pin]
    nb: Opaque<b::notifier_block>,
    _handler: PhantomData<H>,
}

// SAFETY: the notifier block is touched by its registration only, which any thread may end.
unsafe impl<H: NetdevHandler> Send for NetdevNotifier<H> {}
// SAFETY: nothing is accessible through a shared reference.
unsafe impl<H: NetdevHandler> Sync for NetdevNotifier<H> {}

impl<H: NetdevHandler> NetdevNotifier<H> {
    /// Registers `H`. Process context, RTNL not held.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: an error of the registration is one of this initialiser.
            nb <- Opaque::try_ffi_init(|slot: *mut b::notifier_block| {
                let nb = b::notifier_block {
                    notifier_call: Some(Self::callback),
                    ..pin_init::zeroed()
                };
                // SAFETY: `slot` is valid for writing.
                unsafe { slot.write(nb) };
                // SAFETY: the block is initialised and stays in place until `drop` unregisters it.
                to_result(unsafe { b::register_netdevice_notifier(slot) })
            }),
            _handler: PhantomData,
        })
    }

    /// # Safety
    ///
    /// To be called as a netdevice notifier.
    unsafe extern "C" fn callback(
        _nb: *mut b::notifier_block,
        event: usize,
        info: *mut c_void,
    ) -> c_int {
        if let Some(event) = NetdevEvent::from_raw(event) {
            // SAFETY: netdevice notifiers get a `struct netdev_notifier_info`.
            let ndev = unsafe { h::netdev_notifier_info_to_dev(info) };
            // SAFETY: the device lives at least until the notifier returns.
            H::event(event, unsafe { NetDevice::from_raw(ndev) });
        }
        0
    }
}

#[pinned_drop]
impl<H: NetdevHandler> PinnedDrop for NetdevNotifier<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: registered by the type invariants; an error cannot occur for such a block.
        unsafe { b::unregister_netdevice_notifier(self.nb.get()) };
    }
}
