// SPDX-License-Identifier: GPL-2.0

//! Safe code that must not compile, as it would undo what the unsafe code of `ffi/` relies on.
//! `misuse` compiles it as a module of the driver and compares: each line that ends in `//~` and
//! numbers of errors has these, or one without a number for `lifetime`, and there are no others.
#![forbid(unsafe_code)]
#![allow(dead_code, missing_docs, unused_variables, reason = "never used")]

use crate::ffi::{
    debugfs::{
        Directory,
        Number,
        Shown, //
    },
    net::{
        tls::{
            Credentials,
            Handshake,
            HandshakeHandler,
            Side, //
        },
        Callbacks,
        HeldSock,
        LockedBySock,
        LockedSock,
        StreamHandler,
        TcpSocket, //
    },
    rdma::{
        attr::{
            AccessFlags,
            AsyncEvent, //
        },
        handle::{
            CqHandle,
            DeviceHandle, //
        },
        iwcm::{
            CallId,
            CmId, //
        },
        kmr::{
            DmaMemory,
            FastMemory,
            PdId, //
        },
        stats::Details,
        udata::Udata,
        umem::Umem,
        wr::{
            Registration,
            SendChain,
            SendWr, //
        },
    },
    sync::gate::{
        Gate,
        GateGuard, //
    },
};
use core::mem::swap;
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
};

fn is_send<T: Send>(_: T) {}

/// What it is about does compile: the proof that a socket is held is used where it belongs.
fn use_proof(a: &TcpSocket, slot: &LockedBySock<u32>) -> Option<u32> {
    let mut held = a.hold(|| {})?;
    held.with(|sk| slot.get(sk).copied())
}

/// With the proof of another socket one would get at what belongs to a socket that is not held.
fn swap_proofs(a: &TcpSocket, b: &TcpSocket) {
    let (Some(mut a), Some(mut b)) = (a.hold(|| {}), b.hold(|| {})) else {
        return;
    };
    swap(&mut *a, &mut *b); //~ E0614
}

fn swap_proofs_within(a: &mut HeldSock<'_>, b: &mut HeldSock<'_>) {
    a.with(|a| b.with(|b| swap(a, b))); //~ E0521
}

fn swap_proofs_of_process(a: &TcpSocket, b: &TcpSocket) {
    a.with_lock(|a| b.with_lock(|b| swap(a, b))); //~ E0521
}

fn keep_proof(a: &TcpSocket) {
    let mut kept = None;
    a.with_lock(|sk| kept = Some(sk)); //~ E0521
}

fn keep_guarded<'a>(a: &TcpSocket, slot: &'a LockedBySock<u32>) -> Option<&'a mut u32> {
    a.with_lock(|sk| slot.get(sk)) //~ lifetime
}

fn pass_proof_on(held: HeldSock<'_>) {
    is_send(held); //~ E0277
}

/// What a kernel consumer names is kernel memory.
fn pass_for_kernel(mut pd: PdId) -> PdId {
    pd.is_process = false; //~ E0616
    pd
}

fn make_domain() -> PdId {
    PdId::new(false) //~ E0624
}

/// A registration is for the region that the consumer named.
fn register_other(asked: Registration, other: Registration) -> Registration {
    let mut forged = asked;
    forged.memory = other.memory; //~ E0616
    forged
}

/// A region that the consumer has invalidated since is not made once more.
fn register_again(memory: &FastMemory<u32>, asked: Registration) {
    let _ = memory.try_register(asked, |_, _| Ok::<u32, ()>(0));
    let _ = memory.try_register(asked, |_, _| Ok::<u32, ()>(0)); //~ E0382
}

fn register_by_request(wr: SendWr<'_>) -> (Option<Registration>, Option<Registration>) {
    (wr.into_registration(), wr.into_registration()) //~ E0382
}

/// Consumers take what an event names for what its type says.
fn report_wrong(cq: &CqHandle) {
    cq.event(AsyncEvent::Fatal); //~ E0599
}

/// Memory is unpinned with the device that it was pinned for.
fn pin_without_device(device: &DeviceHandle) {
    let _ = Umem::pin(device, 0, 1, AccessFlags::NONE); //~ E0308
}

/// Debugfs knows a number as long as its file is there.
fn show_borrowed(parent: &Arc<Directory>, data: Arc<&Number>) {
    let shown = Shown::new(parent, c"x", data, |number| [(c"x", *number)]); //~ E0521
    core::mem::forget(shown);
}

/// Who is inside of a gate is counted.
fn change_gate(guard: &mut GateGuard<&Gate>, other: &Gate) {
    guard.gate = core::ptr::NonNull::from(other); //~ E0616
}

fn keep_memory<'a>(memory: &'a DmaMemory, pd: PdId, guard: GateGuard<&'a Gate>) -> usize {
    let slices = memory.slices(&guard, pd, 0, 1);
    drop(guard); //~ E0505
    slices.into_iter().flatten().count()
}

/// What a call of the core lends ends with it.
fn keep_call(id: CallId<'_>) -> CallId<'static> {
    id //~ lifetime
}

/// The device that an identifier names may be gone after the call.
fn follow_late(kept: &ARef<CmId>) -> Option<u16> {
    kept.mapped_port() //~ E0599
}

fn keep_request<'a>(chain: &mut SendChain<'a>) -> Option<SendWr<'static>> {
    chain.next() //~ lifetime
}

fn keep_udata(kept: &mut Option<&'static mut Udata<'static>>, udata: &mut Udata<'_>) {
    *kept = Some(udata); //~ lifetime
}

fn keep_details(kept: &mut Option<&'static mut Details<'static>>, to: &mut Details<'_>) {
    *kept = Some(to); //~ lifetime
}

/// TLS takes the hooks that it finds for those below its own: they must not be a handler's.
fn shake_with_callbacks<H: StreamHandler + HandshakeHandler>(
    sock: &Arc<TcpSocket>,
    handler: &Arc<H>,
    credentials: &Credentials,
) -> Result<(Callbacks<H>, Handshake<H>)> {
    let claim = sock.claim()?;
    let callbacks = Callbacks::install(claim, handler.clone())?;
    let shake = Handshake::start(claim, Side::Client, credentials, 1, handler.clone())?; //~ E0382
    Ok((callbacks, shake))
}

fn shake_without_claim<H: HandshakeHandler>(
    sock: Arc<TcpSocket>,
    handler: Arc<H>,
    credentials: &Credentials,
) -> Result<Handshake<H>> {
    Handshake::start(sock, Side::Client, credentials, 1, handler) //~ E0308
}

fn send_proof(sk: &mut LockedSock<'_>) {
    is_send(sk); //~ E0277
}
