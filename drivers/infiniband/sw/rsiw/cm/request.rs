// SPDX-License-Identifier: GPL-2.0

//! Requests. The side that connects sends them in the order of the calls. The other side makes an
//! endpoint for each connection, reads the Requests in the order of the endpoints, and lets
//! consumers answer.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::calls::{
    config,
    depths,
    own_qp,
    Dial,
    Refusal,
    NOT_IN_NAMESPACE, //
};
use super::connection::{
    code,
    send_whole, //
};
use super::endpoint::{
    Deputy,
    Endpoint,
    EndpointState,
    Endpoints, //
};
use super::listener::Listener;
use super::registry::Entry;
use crate::ffi::mm::Payer;
use crate::ffi::net::tls::Side;
use crate::ffi::net::{
    Callbacks,
    TcpSocket,
    TcpState, //
};
use crate::ffi::rdma::iwcm::{
    AcceptRef,
    CallId,
    CmId,
    ConnParam, //
};
use crate::ffi::task::Process;
use crate::proto::connection::{
    Ask,
    Awaits,
    Connection,
    Input,
    TICK_MS, //
};
use crate::proto::crowd::Source;
use crate::proto::setup::{
    Initiator,
    Responder, //
};
use crate::qp::QpTable;
use crate::wire::mpa;
use kernel::prelude::*;
use kernel::sync::Arc;

const TOO_MUCH_DATA: Refusal =
    Refusal::new(EINVAL, "more private data than a Request has room for");

/// Starts to connect: see [`super::connect`].
pub(super) fn connect(
    endpoints: &Arc<Endpoints>,
    qps: &QpTable,
    id: CallId<'_>,
    param: &ConnParam<'_>,
) -> Result<(), Refusal> {
    let dev = &endpoints.dev;
    // For a loopback address the RDMA CM takes whatever device comes first.
    let netdev = dev.netdev().ok_or(ENODEV)?;
    if !id.sees(&netdev) {
        return Err(NOT_IN_NAMESPACE);
    }
    let qp = own_qp(dev, qps, param.qpn, id)?;
    let initiator = Initiator::new(config(dev), depths(param));
    if param.private_data.len() > initiator.max_private_data() {
        return Err(TOO_MUCH_DATA);
    }
    let initiator = KBox::new(initiator, GFP_KERNEL_ACCOUNT)?;
    let dial = Dial::new(dev, id, &netdev, param)?;
    let this = endpoints.add(qp.shared.id.payer.clone())?;
    let mut st = this.state.lock();
    st.connection = Connection::closed();
    let result = qp.attach(this.clone()).and_then(|()| {
        st.qp = Some(qp);
        st.dial = Some(dial);
        st.process = Some(Process::current());
        let (connection, outputs) = Connection::initiator(initiator);
        this.begin(&mut st, connection, outputs)
    });
    if result.is_ok() {
        this.introduce(id);
    }
    drop(st);
    // While the mutex was held, TCP and the timer may have kicked the endpoint in vain.
    Endpoint::kick(this);
    Ok(result?)
}

/// Does a step of the work that all initiators of the device share: sends the Request as soon as
/// TCP is connected. What may wait for a process is left to the endpoint's own work.
pub(super) fn request(this: &Arc<Endpoint>) {
    // Whoever has the mutex kicks the endpoint when it is unlocked.
    if let Some(mut st) = this.state.try_lock() {
        if try_request(this, &mut st) {
            let spot = st.spot.take();
            drop(st);
            drop(spot);
            this.take_over();
        }
    }
}

/// Sends the Request if TCP has connected. Returns whether the endpoint's own work has to go on.
/// Waits for nobody.
fn try_request(this: &Arc<Endpoint>, st: &mut EndpointState) -> bool {
    if st.connection.awaits() != Awaits::Connected || this.is_given_up() {
        return true;
    }
    let tcp = st.sock.as_ref().map(|sock| sock.state());
    let is_ready = match tcp.unwrap_or(TcpState::Closed) {
        TcpState::Connecting => false,
        TcpState::Closed | TcpState::Listen => return true,
        TcpState::Established | TcpState::CloseWait | TcpState::Closing => {
            match this.secure(st, Side::Client) {
                Ok(is_ready) => is_ready,
                // The endpoint's own work tells the connection.
                Err(_) => return true,
            }
        }
    };
    if !is_ready {
        if !this.has_expired() {
            return false;
        }
        let is_ending = st.is_ending();
        if !st.connection.goes_on(is_ending) {
            return true;
        }
        // Only sets the timer anew.
        this.feed(st, Input::Expired { is_ending });
        st.security.elapsed(TICK_MS);
        return false;
    }
    let (Some(sock), Some(dial)) = (&st.sock, &st.dial) else {
        return true;
    };
    let mut frame = [0; mpa::MAX_FRAME];
    let private_data = &dial.private_data;
    let outputs = this.step(
        &mut st.connection,
        Input::Connected { private_data },
        &mut frame,
    );
    let Some(Ask::Request(len)) = outputs.ask else {
        let _ = this.perform(st, outputs, &mut frame);
        return true;
    };
    let sent = frame.get(..len).ok_or(EINVAL);
    match sent.and_then(|frame| send_whole(sock, frame)) {
        // Only sets the timer anew.
        Ok(()) => this.feed(st, Input::Done),
        Err(error) => st.unsent = Some(code(error)),
    }
    true
}

/// Makes an endpoint for a TCP connection that was just accepted, for which `payer` pays.
pub(super) fn create(listener: &Arc<Listener>, sock: Arc<TcpSocket>, payer: &Payer) -> Result {
    let dev = &listener.endpoints.dev;
    let responder = KBox::new(Responder::new(config(dev)), GFP_KERNEL_ACCOUNT)?;
    let peer = sock.peer_addr()?.get().ok_or(ECONNRESET)?;
    let source = Source::of(peer.ip());
    let sock = match dev.tls() {
        Some(_) => sock.with_file(&peer)?,
        None => sock,
    };
    let this = listener.endpoints.add(payer.clone())?;
    let mut st = this.state.lock();
    st.connection = Connection::closed();
    let result = listener.admit(source, this.number()).and_then(|()| {
        this.leave_to(Deputy::Listener(listener.clone()));
        st.source = source;
        st.security = this.wanted_security(Side::Server);
        st.callbacks = Some(Callbacks::install(sock.claim()?, this.clone())?);
        st.sock = Some(sock);
        let (connection, outputs) = Connection::responder(responder);
        this.begin(&mut st, connection, outputs)
    });
    drop(st);
    // The Request or a ClientHello may be there already; if there was an error the endpoint goes
    // away.
    Endpoint::kick(this);
    result
}

/// Does a step of the listener's work, for an endpoint without a Request. The endpoint's own work
/// takes over once the Request's event is delivered, or if there will be no Request.
pub(super) fn read(this: &Arc<Endpoint>) {
    if let Some(Deputy::Listener(listener)) = this.deputy() {
        // Nobody else knows the endpoint, so no process keeps this waiting.
        let mut st = this.state.lock();
        // The process that listens pays for all endpoints of this work.
        this.payer.pays(|| this.advance(&mut st));
        if matches!(st.connection.awaits(), Awaits::Frame(_)) {
            return;
        }
        let request = this.next_event(&mut st);
        let (source, spot) = (st.source, st.spot.take());
        drop(st);
        listener.forget(source, this.number());
        if let Some(request) = request {
            this.deliver(request);
        }
        // From now on the endpoints behind it may deliver their Requests.
        drop(spot);
    }
    this.take_over();
}

/// Rejects a Request: see [`super::reject`].
pub(super) fn reject(endpoints: &Endpoints, id: &CmId, private_data: &[u8]) -> Result {
    // Without an endpoint the connection is gone already, which is what is asked for.
    let Some(this) = endpoints.all.get(id.provider_data()) else {
        return Ok(());
    };
    let result = this.try_feed(&mut this.state.lock(), Input::Reject { private_data });
    Endpoint::kick(this);
    result
}

/// The Request was answered already, or not in time.
const OVER: Refusal = Refusal::new(ECONNRESET, "there is no such request any more");

/// Accepts a Request: see [`super::accept`].
pub(super) fn accept(
    endpoints: &Endpoints,
    qps: &QpTable,
    id: CallId<'_>,
    param: &ConnParam<'_>,
    reference: AcceptRef,
) -> Result<(), Refusal> {
    let this = endpoints.all.get(id.provider_data()).ok_or(OVER)?;
    let result = answer(&this, qps, id, param, reference);
    Endpoint::kick(this);
    result
}

/// Accepts the Request of `this` with the QP that the consumer names.
fn answer(
    this: &Arc<Endpoint>,
    qps: &QpTable,
    id: CallId<'_>,
    param: &ConnParam<'_>,
    reference: AcceptRef,
) -> Result<(), Refusal> {
    let mut st = this.state.lock();
    if !st.connection.is_requested() {
        let first = st.accepted.take().ok_or(OVER)?;
        // The consumer has accepted once more before it was told of the first accept. iw_cm waits
        // for that event, so this call succeeds, too. Then the connection ends.
        first.replaced(&reference);
        st.accepted = Some(reference);
        this.feed(&mut st, Input::Shut);
        return Ok(());
    }
    let accept = Input::Accept {
        want: depths(param),
        private_data: param.private_data,
    };
    let attached = own_qp(this.dev(), qps, param.qpn, id).and_then(|qp| {
        qp.attach(this.clone())?;
        Ok(qp)
    });
    match attached {
        Ok(qp) => st.qp = Some(qp),
        Err(refusal) => {
            // If accepting fails, iw_cm does nothing more with the connection.
            this.feed(&mut st, Input::Abort);
            return Err(refusal);
        }
    }
    this.try_feed(&mut st, accept)?;
    st.accepted = Some(reference);
    st.process = Some(Process::current());
    this.introduce(id);
    Ok(())
}
