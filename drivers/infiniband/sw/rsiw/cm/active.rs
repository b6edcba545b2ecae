// SPDX-License-Identifier: GPL-2.0

//! The side that connects: consumers' calls, and sending Requests in their order.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    calls::{
        config,
        depths,
        own_qp,
        Refusal,
        NOT_IN_NAMESPACE, //
    },
    dial::Dial,
    endpoint::{
        Endpoint,
        EndpointState,
        Endpoints, //
    },
    outputs::{
        code,
        send_whole, //
    },
};
use crate::{
    ffi::{
        net::{
            tls::Side,
            TcpState, //
        },
        rdma::iwcm::{
            CallId,
            ConnParam, //
        },
        task::process::Process,
    },
    proto::{
        connection::{
            Ask,
            Awaits,
            Connection,
            Input,
            TICK_MS, //
        },
        setup::Initiator,
    },
    qp::QpTable,
    wire::mpa,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

const TOO_MUCH_DATA: Refusal =
    Refusal::new(EINVAL, "more private data than a Request has room for");

/// See [`super::connect`].
pub(super) fn connect(
    endpoints: &Arc<Endpoints>,
    qps: &QpTable,
    id: CallId<'_>,
    param: &ConnParam<'_>,
) -> Result<(), Refusal> {
    let dev = &endpoints.dev;
    // The RDMA CM takes whatever device comes first for a loopback address.
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
    let this = endpoints.add(qp.payer.clone())?;
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
    // TCP and the timer have kicked the endpoint in vain until now.
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
