// SPDX-License-Identifier: GPL-2.0

//! The side that was connected to: its endpoints, reading their Requests in order, and the
//! consumers' answers.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    calls::{
        config,
        depths,
        own_qp,
        Refusal, //
    },
    endpoint::{
        Deputy,
        Endpoint,
        Endpoints, //
    },
    listener::Listener,
    registry::Entry, //
};
use crate::{
    ffi::{
        mm::payer::Payer,
        net::{
            tls::Side,
            Callbacks,
            TcpSocket, //
        },
        rdma::iwcm::{
            CallId,
            CmId,
            ConnParam, //
        },
        task::process::Process,
    },
    proto::{
        connection::{
            Awaits,
            Connection,
            Input, //
        },
        crowd::Source,
        setup::Responder,
    },
    qp::QpTable,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

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
        // Nobody else knows the endpoint, so that no process keeps this waiting.
        let mut st = this.state.lock();
        // Who listens pays for all whose turn comes in this work.
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
        // Those behind it deliver theirs now.
        drop(spot);
    }
    this.take_over();
}

/// See [`super::reject`].
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

/// See [`super::accept`].
pub(super) fn accept(
    endpoints: &Endpoints,
    qps: &QpTable,
    id: CallId<'_>,
    param: &ConnParam<'_>,
) -> Result<(), Refusal> {
    let this = endpoints.all.get(id.provider_data()).ok_or(OVER)?;
    let result = answer(&this, qps, id, param);
    Endpoint::kick(this);
    result
}

/// Accepts the Request of `this` with the QP that the consumer names.
fn answer(
    this: &Arc<Endpoint>,
    qps: &QpTable,
    id: CallId<'_>,
    param: &ConnParam<'_>,
) -> Result<(), Refusal> {
    let accept = Input::Accept {
        want: depths(param),
        private_data: param.private_data,
    };
    let mut st = this.state.lock();
    if !st.connection.is_requested() {
        this.feed(&mut st, accept);
        return Err(OVER);
    }
    let attached = own_qp(this.dev(), qps, param.qpn, id).and_then(|qp| {
        qp.attach(this.clone())?;
        Ok(qp)
    });
    match attached {
        Ok(qp) => st.qp = Some(qp),
        Err(refusal) => {
            // iw_cm is through with the connection.
            this.feed(&mut st, Input::Abort);
            return Err(refusal);
        }
    }
    this.try_feed(&mut st, accept)?;
    st.process = Some(Process::current());
    this.introduce(id);
    Ok(())
}
