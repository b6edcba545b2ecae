// SPDX-License-Identifier: GPL-2.0

//! The connection manager of the RDMA core for iWARP: identifiers, parameters, events.
//!
//! C header: [`include/rdma/iw_cm.h`](srctree/include/rdma/iw_cm.h)

use super::attr::Qpn;
use super::handle::{
    DeviceHandle,
    QpHandle, //
};
use crate::ffi::hash;
use crate::ffi::net::netdev::NetDevice;
use crate::ffi::net::{
    Storage,
    TcpSocket, //
};
use crate::ffi::raw::{
    b,
    h, //
};
use core::marker::PhantomData;
use core::net::SocketAddr;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::{
    from_err_ptr,
    to_result, //
};
use kernel::prelude::*;
use kernel::sync::aref::{
    ARef,
    AlwaysRefCounted, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;
use kernel::types::Opaque;

/// A `struct iw_cm_id`: one connection, or one listener, of a consumer. A reference is held as long
/// as events may be delivered.
///
/// # Invariants
///
/// References to this type point to an identifier whose reference count is not zero.
#[repr(transparent)]
pub(crate) struct CmId(Opaque<b::iw_cm_id>);

// SAFETY: identifiers may be used and released from any thread.
unsafe impl Send for CmId {}
// SAFETY: the fields read here are set before the driver sees the identifier; `provider_data` is
// the driver's own, and events may be delivered from any thread.
unsafe impl Sync for CmId {}

// SAFETY: `add_ref` and `rem_ref` count the references that keep an identifier alive.
unsafe impl AlwaysRefCounted for CmId {
    fn inc_ref(&self) {
        // SAFETY: the identifier is live by the type invariants.
        if let Some(add_ref) = unsafe { (*self.0.get()).add_ref } {
            // SAFETY: as above.
            unsafe { add_ref(self.0.get()) };
        }
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        let id = obj.cast::<b::iw_cm_id>().as_ptr();
        // SAFETY: the caller gives up a reference, so the identifier is still live.
        if let Some(rem_ref) = unsafe { (*id).rem_ref } {
            // SAFETY: as above.
            unsafe { rem_ref(id) };
        }
    }
}

impl CmId {
    /// # Safety
    ///
    /// `ptr` is an identifier that lives during `'a`.
    pub(in crate::ffi) unsafe fn from_raw<'a>(ptr: *mut b::iw_cm_id) -> &'a Self {
        // SAFETY: the type is transparent; the caller vouches for the identifier.
        unsafe { &*ptr.cast::<Self>() }
    }

    /// Undoes [`CallId::hide_mapping`], when the listener is gone.
    pub(crate) fn restore_mapping(&self, mapping: Mapping) {
        // An event that is being handled may see any mixture of both addresses. That event is
        // dropped: the core has marked the identifier before.
        //
        // SAFETY: the identifier is live.
        unsafe { (*self.0.get()).m_local_addr = mapping.0.into_raw() };
    }

    /// Returns the driver's number for the connection or listener; zero if it has none yet.
    pub(crate) fn provider_data(&self) -> usize {
        self.provider_field().load(Relaxed).addr()
    }

    pub(crate) fn set_provider_data(&self, number: usize) {
        let number = core::ptr::without_provenance_mut(number);
        self.provider_field().store(number, Relaxed);
    }

    /// Returns whether the consumer's identifier is `consumer`.
    pub(crate) fn is_of(&self, consumer: ConsumerId) -> bool {
        // SAFETY: the identifier is live. The core may write the pointer meanwhile, as a whole.
        let context = unsafe { (&raw const (*self.0.get()).context).read_volatile() };
        context.addr() == consumer.0
    }

    fn provider_field(&self) -> &Atomic<*mut c_void> {
        // SAFETY: the identifier is live, and the field aligned. The core writes it before the
        // driver sees the identifier; the driver does so here only.
        unsafe { Atomic::from_ptr(&raw mut (*self.0.get()).provider_data) }
    }

    /// Queues an event for the consumer. The caller holds no lock that the driver's callbacks take.
    /// With `ENOMEM` the event is lost: one with private data, or a request beyond the backlog.
    pub(crate) fn deliver(&self, event: &Event<'_>) -> Result {
        let mut raw = event.to_raw();
        if matches!(event, Event::ConnectReply { error: None, .. }) {
            // By these addresses the core finds the mapping that it has to forget with the
            // identifier. The core gives the consumer the addresses that the consumer chose.
            //
            // SAFETY: the identifier is live; the core writes the fields when handling this event.
            raw.local_addr = unsafe { (*self.0.get()).m_local_addr };
            // SAFETY: as above.
            raw.remote_addr = unsafe { (*self.0.get()).m_remote_addr };
        }
        // SAFETY: the identifier is live.
        let handler = unsafe { (*self.0.get()).event_handler }.ok_or(EINVAL)?;
        // SAFETY: the handler is this identifier's; it copies the event and what that points to.
        to_result(unsafe { handler(self.0.get(), &mut raw) })
    }
}

/// What the port mapper said of a listener.
#[derive(Clone, Copy)]
pub(crate) struct Mapping(Storage);

/// An identifier of the RDMA CM, of which only the address counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConsumerId(usize);

impl ConsumerId {
    /// Names `id`, which need not be live.
    pub(in crate::ffi) fn new(id: *const b::rdma_cm_id) -> Self {
        Self(id.addr())
    }
}

/// An identifier during a call of its consumer: to listen, to connect or to accept.
///
/// # Invariants
///
/// The RDMA CM's identifier, by which the consumer knows this one, and the device that it names
/// live during `'a`, and the core writes no address of it.
#[derive(Clone, Copy)]
pub(crate) struct CallId<'a>(&'a CmId);

impl<'a> CallId<'a> {
    /// # Safety
    ///
    /// `ptr`, the RDMA CM's identifier by which its consumer knows it, and the device that it names
    /// live during `'a`. The core does not write addresses, type of service and options meanwhile.
    pub(in crate::ffi) unsafe fn from_raw(ptr: *mut b::iw_cm_id) -> Self {
        // SAFETY: by the caller's promise.
        // INVARIANT: as above.
        Self(unsafe { CmId::from_raw(ptr) })
    }

    /// Returns the local address that the consumer chose.
    pub(crate) fn local_addr(self) -> Option<SocketAddr> {
        // SAFETY: the identifier is live; nobody writes the address during the call.
        Storage::from_raw(unsafe { (*self.0 .0.get()).local_addr }).get()
    }

    pub(crate) fn remote_addr(self) -> Option<SocketAddr> {
        // SAFETY: as for `local_addr`.
        Storage::from_raw(unsafe { (*self.0 .0.get()).remote_addr }).get()
    }

    /// Returns the local TCP port that the port mapper chose in place of the consumer's. The
    /// mapper's daemon has a socket that is bound to that port, but does not listen. Any process
    /// may say that it is the daemon: the core asks for no privilege.
    pub(crate) fn mapped_port(self) -> Option<u16> {
        // SAFETY: the identifier is live; nobody writes the address during the call.
        let mapped = Storage::from_raw(unsafe { (*self.0 .0.get()).m_local_addr });
        self.changed_port(self.local_addr(), mapped.get())
    }

    /// Returns the peer's TCP port according to the port mapper, if the consumer chose another one.
    pub(crate) fn mapped_remote_port(self) -> Option<u16> {
        // SAFETY: as for `mapped_port`.
        let mapped = Storage::from_raw(unsafe { (*self.0 .0.get()).m_remote_addr });
        self.changed_port(self.remote_addr(), mapped.get())
    }

    /// Returns the port of `mapped`, if it differs from the port of `asked`, and the mapper may
    /// choose one.
    fn changed_port(self, asked: Option<SocketAddr>, mapped: Option<SocketAddr>) -> Option<u16> {
        // SAFETY: the identifier is live; nobody writes this field now.
        let is_mapped = unsafe { b::iw_cm_id::mapped_raw(self.0 .0.get()) };
        if !is_mapped || !self.may_map() {
            return None;
        }
        let (asked, mapped) = (asked?.port(), mapped?.port());
        (mapped != 0 && mapped != asked).then_some(mapped)
    }

    /// Returns whether the port mapper may choose ports for the device. The core asks the mapper in
    /// any case.
    fn may_map(self) -> bool {
        // SAFETY: the identifier, and the device that it names, are live.
        let flags = unsafe { (*(*self.0 .0.get()).device).iw_driver_flags };
        flags & b::iw_flags_IW_F_NO_PORT_MAP == 0
    }

    /// Keeps the core from believing the port mapper about where connections of this listener come
    /// from, unless the mapper may choose ports for the device. Call it before the first event.
    /// Returns what [`CmId::restore_mapping`] must give back before the core forgets the listener,
    /// whose mapping it would not find otherwise.
    ///
    /// The core looks up what it was told about a connection, by anybody, under the address that
    /// the listener was mapped to. So that address becomes one that nobody can guess.
    pub(crate) fn hide_mapping(self) -> Option<Mapping> {
        if self.may_map() {
            return None;
        }
        let mut octets = [0; 16];
        for (to, from) in octets.iter_mut().zip(
            core::iter::repeat_with(hash::random_u32).flat_map(u32::to_ne_bytes), //
        ) {
            *to = from;
        }
        let secret = Storage::new(&SocketAddr::from((octets, 0))).0;
        // SAFETY: the identifier is live; the core reads the field when it handles an event.
        let mapped = unsafe { &raw mut (*self.0 .0.get()).m_local_addr };
        // SAFETY: as above.
        let before = unsafe { mapped.replace(secret.into_raw()) };
        Some(Mapping(Storage::from_raw(before)))
    }

    /// Returns the type of service, if the consumer chose one.
    pub(crate) fn tos(self) -> Option<u8> {
        // SAFETY: the identifier is live; nobody writes this field now.
        let is_set = unsafe { b::iw_cm_id::tos_set_raw(self.0 .0.get()) };
        // SAFETY: as above.
        is_set.then_some(unsafe { (*self.0 .0.get()).tos })
    }

    /// Returns whether an IPv6 listener leaves IPv4 alone.
    pub(crate) fn afonly(self) -> bool {
        // SAFETY: the identifier is live; nobody writes this field now.
        unsafe { b::iw_cm_id::afonly_raw(self.0 .0.get()) }
    }

    /// Returns whether `netdev` is in the network namespace of the consumer.
    pub(crate) fn sees(self, netdev: &NetDevice) -> bool {
        // SAFETY: both are live; the RDMA CM's identifier is by the type invariants.
        unsafe { h::iw_cm_id_sees_netdev(self.0 .0.get(), netdev.as_ptr()) }
    }

    /// Returns the port space of the RDMA CM in which the consumer has its port.
    pub(crate) fn port_space(self) -> u32 {
        // SAFETY: the identifier is live, and so is the RDMA CM's by the type invariants.
        unsafe { h::iw_cm_id_port_space(self.0 .0.get()) }
    }

    pub(crate) fn consumer(self) -> ConsumerId {
        // SAFETY: the identifier is live. The core has written the pointer before the call.
        ConsumerId(unsafe { (*self.0 .0.get()).context }.addr())
    }

    /// Returns whether the consumer's identifier is bound to the device `dev`.
    pub(crate) fn is_on(self, dev: &DeviceHandle) -> bool {
        // SAFETY: the identifier is live, and so is the RDMA CM's by the type invariants.
        unsafe { h::iw_cm_id_is_on(self.0 .0.get(), dev.as_ptr()) }
    }

    /// Returns whether the consumer made `qp` for this connection, as those in the kernel do;
    /// `None` if it made none, as processes do.
    pub(crate) fn made(self, qp: &QpHandle) -> Option<bool> {
        Some(self.qp()?.as_ptr() == qp.as_ptr())
    }

    /// Returns whether the consumer made a queue pair for this connection, as only those in the
    /// kernel do.
    pub(crate) fn has_qp(self) -> bool {
        self.qp().is_some()
    }

    fn qp(self) -> Option<NonNull<b::ib_qp>> {
        // SAFETY: the identifier is live, and so is the RDMA CM's by the type invariants.
        NonNull::new(unsafe { h::iw_cm_id_qp(self.0 .0.get()) })
    }
}

impl Deref for CallId<'_> {
    type Target = CmId;

    fn deref(&self) -> &CmId {
        self.0
    }
}

impl From<CallId<'_>> for ARef<CmId> {
    fn from(id: CallId<'_>) -> Self {
        id.0.into()
    }
}

/// The reference to a queue pair that iw_cm has taken for an accept.
///
/// iw_cm stores it with the identifier, and gives it back when the accept fails, or later with the
/// close event. If the consumer accepts by the identifier once more, iw_cm stores the reference of
/// that accept in its place, and forgets this one.
///
/// # Invariants
///
/// For an accept of the identifier at `id`, iw_cm has got a reference to the queue pair of `qp`, by
/// [`Handle::hold`](super::handle::Handle::hold).
pub(crate) struct AcceptRef {
    id: NonNull<CmId>,
    qp: Arc<QpHandle>,
}

// SAFETY: the identifier is only compared.
unsafe impl Send for AcceptRef {}

impl AcceptRef {
    /// # Safety
    ///
    /// iw_cm calls to accept by `id`, and has a reference to the queue pair of `qp` for that.
    pub(super) unsafe fn new(id: CallId<'_>, qp: Arc<QpHandle>) -> Self {
        // INVARIANT: as the caller says.
        Self {
            id: NonNull::from(id.0),
            qp,
        }
    }

    /// Gives the reference back in the place of iw_cm, which has stored that of a later accept,
    /// `by`, in its place. Does nothing if that is of another identifier.
    pub(crate) fn replaced(self, by: &Self) {
        if self.id == by.id {
            // SAFETY: by the type invariants iw_cm took the reference. It accepts only by an
            // identifier that no event has come for since, so it had not given the reference back.
            // Now it has no pointer to it any more.
            unsafe { self.qp.release() };
        }
    }
}

/// Waits until iw_cm has delivered the events that it was given.
pub(crate) fn flush_events(dev: &DeviceHandle) {
    dev.with(|dev| {
        // SAFETY: the handle keeps the device alive; the identifier gets no event to be handled.
        let id = unsafe { b::iw_create_cm_id(dev, None, core::ptr::null_mut()) };
        // Without memory consumers may miss an event, as they may if it comes late.
        let Ok(id) = from_err_ptr(id) else {
            return;
        };
        // iw_cm supposes that a second reference is an event's, and then waits for all events that
        // were queued before.
        let other = {
            // SAFETY: the identifier is live, and is kept by the reference that is taken here.
            let id: &CmId = unsafe { CmId::from_raw(id) };
            ARef::from(id)
        };
        // SAFETY: nobody else knows the identifier; it is freed with the last reference.
        unsafe { b::iw_destroy_cm_id(id) };
        drop(other);
    });
}

/// The interface that owns the local address of a connection, as the RDMA CM will find it.
pub(crate) struct LocalOwner {
    ifindex: i32,
}

impl LocalOwner {
    /// Returns the owner, if there is one. Process context.
    pub(crate) fn of(sock: &TcpSocket) -> Option<Self> {
        let addr = sock.local_addr().ok()?.get()?;
        let raw = Storage::new(&addr).0.into_raw();
        // SAFETY: the socket is live, and keeps its namespace; the address lives across the call.
        let ifindex = unsafe { h::rdma_cm_owner(sock.sk().as_ptr(), &raw const raw) };
        (ifindex != 0).then_some(Self { ifindex })
    }

    /// Returns whether the device over `netdev` can have the connection. Of several such devices
    /// the RDMA CM takes the one registered first, or that of a listener at one address.
    pub(crate) fn suits(&self, netdev: &NetDevice) -> bool {
        // SAFETY: the interface is live.
        unsafe { h::rdma_cm_suits(netdev.as_ptr(), self.ifindex) }
    }
}

/// Local and remote address of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// Read depths as events carry them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depths {
    pub(crate) ird: u8,
    pub(crate) ord: u8,
}

/// What happened, for the consumer.
pub(crate) enum Event<'a> {
    /// A peer asks for a connection; delivered to the listener.
    ConnectRequest {
        /// The value of [`CmId::provider_data`] for the new identifier.
        number: usize,
        addresses: Addresses,
        /// The peer's read depths, from its own view.
        depths: Depths,
        /// For the consumer, as below. Only the first 255 octets are delivered (T-10).
        private_data: &'a [u8],
    },
    /// The answer to a connect; without an error the connection is up.
    ConnectReply {
        error: Option<Error>,
        /// The responder's read depths, from this side's view.
        depths: Depths,
        private_data: &'a [u8],
    },
    /// The connection that the consumer accepted is up. Follows each successful accept. It has no
    /// status, as programs do not look at one: if the connection failed before it could be used,
    /// the close event behind this one tells the consumer, as with adapters.
    Established {
        /// Read depths, as in `ConnectReply`.
        depths: Depths,
    },
    /// The peer wants to end the connection.
    Disconnect,
    /// The connection has ended; nothing follows.
    Close,
}

impl Event<'_> {
    fn to_raw(&self) -> b::iw_cm_event {
        let mut raw: b::iw_cm_event = pin_init::zeroed();
        match *self {
            Event::ConnectRequest {
                number,
                addresses,
                depths,
                private_data,
            } => {
                raw.event = b::iw_cm_event_type_IW_CM_EVENT_CONNECT_REQUEST;
                raw.provider_data = core::ptr::without_provenance_mut(number);
                raw.local_addr = Storage::new(&addresses.local).0.into_raw();
                raw.remote_addr = Storage::new(&addresses.remote).0.into_raw();
                set_depths(&mut raw, depths);
                set_private_data(&mut raw, private_data);
            }
            Event::ConnectReply {
                error,
                depths,
                private_data,
            } => {
                raw.event = b::iw_cm_event_type_IW_CM_EVENT_CONNECT_REPLY;
                raw.status = error.map_or(0, |e| e.to_errno());
                set_depths(&mut raw, depths);
                set_private_data(&mut raw, private_data);
            }
            Event::Established { depths } => {
                raw.event = b::iw_cm_event_type_IW_CM_EVENT_ESTABLISHED;
                set_depths(&mut raw, depths);
            }
            Event::Disconnect => raw.event = b::iw_cm_event_type_IW_CM_EVENT_DISCONNECT,
            Event::Close => raw.event = b::iw_cm_event_type_IW_CM_EVENT_CLOSE,
        }
        raw
    }
}

fn set_depths(raw: &mut b::iw_cm_event, depths: Depths) {
    raw.ird = depths.ird;
    raw.ord = depths.ord;
}

/// How many octets of private data an event may have.
pub(crate) const MAX_EVENT_DATA: usize = u8::MAX as usize;

fn set_private_data(raw: &mut b::iw_cm_event, data: &[u8]) {
    // Consumers take any pointer that is not null for data, even if the length is 0.
    if data.is_empty() {
        return;
    }
    let data = data.get(..MAX_EVENT_DATA).unwrap_or(data);
    // The handler only reads from it.
    raw.private_data = data.as_ptr().cast_mut().cast();
    raw.private_data_len = u8::try_from(data.len()).unwrap_or(u8::MAX);
}

/// What a consumer says to connect or to accept: a `struct iw_cm_conn_param`.
pub(crate) struct ConnParam<'a> {
    pub(crate) private_data: &'a [u8],
    /// Reads that this side wants to have outstanding.
    pub(crate) ord: u32,
    /// Reads of the peer to be served at a time.
    pub(crate) ird: u32,
    pub(crate) qpn: Qpn,
    _param: PhantomData<&'a b::iw_cm_conn_param>,
}

impl<'a> ConnParam<'a> {
    /// # Safety
    ///
    /// `ptr` and the private data it points to are valid, and not written, during `'a`.
    pub(in crate::ffi) unsafe fn from_raw(ptr: *const b::iw_cm_conn_param) -> Self {
        // SAFETY: the caller vouches for the parameters.
        let raw = unsafe { &*ptr };
        // SAFETY: the caller vouches for the private data.
        let private_data =
            unsafe { private_data(raw.private_data, usize::from(raw.private_data_len)) };
        Self {
            private_data,
            ord: raw.ord,
            ird: raw.ird,
            qpn: Qpn(raw.qpn),
            _param: PhantomData,
        }
    }
}

/// # Safety
///
/// `ptr` is null, or `len` octets from it on are valid and not written during `'a`.
pub(in crate::ffi) unsafe fn private_data<'a>(ptr: *const c_void, len: usize) -> &'a [u8] {
    if ptr.is_null() {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { core::slice::from_raw_parts(ptr.cast(), len) }
}
