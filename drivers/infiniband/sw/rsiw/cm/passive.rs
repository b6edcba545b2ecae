// SPDX-License-Identifier: GPL-2.0

//! The side that was connected to: its endpoints, and what their consumers answer.
//!
//! Context: process.
#![forbid(unsafe_code)]

use super::{
    config,
    depths,
    endpoint::Deputy,
    listen::Listener,
    own_qp,
    Cm,
    Endpoint, //
    Refusal,
};
use crate::{
    ffi::{
        net::{
            Callbacks,
            TcpSocket, //
        },
        rdma::iwcm::{
            CallId,
            CmId,
            ConnParam, //
        },
    },
    proto::{
        conn::Responder,
        connection::{
            Connection,
            Input, //
        },
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Makes an endpoint for a TCP connection that was just accepted.
pub(super) fn create(listener: &Arc<Listener>, sock: Arc<TcpSocket>) -> Result {
    let responder = KBox::new(Responder::new(config()), GFP_KERNEL)?;
    let this = Endpoint::register(&listener.cm)?;
    let mut st = this.state.lock();
    st.connection = Connection::closed();
    let result = listener
        .admit(this.number)
        .and_then(|()| {
            this.leave_to(Deputy::Listener(listener.clone()));
            Callbacks::install(sock.clone(), this.clone())
        })
        .and_then(|callbacks| {
            st.callbacks = Some(callbacks);
            st.sock = Some(sock);
            let (connection, outputs) = Connection::responder(responder);
            this.begin(&mut st, connection);
            this.act(&mut st, outputs, &mut [])
        });
    drop(st);
    // The Request may be there already; if there was an error the endpoint goes away.
    Endpoint::kick(this);
    result
}

/// See [`super::reject`].
pub(super) fn reject(cm: &Cm, id: &CmId, private_data: &[u8]) -> Result {
    // Without an endpoint the connection is gone already, which is what is asked for.
    let Some(this) = cm.endpoints.get(id.provider_data()) else {
        return Ok(());
    };
    let result = this.feed(&mut this.state.lock(), Input::Reject { private_data });
    Endpoint::kick(this);
    result
}

/// A Request that was answered, or not in time.
const OVER: Refusal = Refusal::new(ECONNRESET, "there is no such request any more");

/// See [`super::accept`].
pub(super) fn accept(cm: &Cm, id: CallId<'_>, param: &ConnParam<'_>) -> Result<(), Refusal> {
    let this = cm.endpoints.get(id.provider_data()).ok_or(OVER)?;
    let result = answer(&this, cm, id, param);
    Endpoint::kick(this);
    result
}

/// Accepts the Request of `this` with the QP that the consumer names.
fn answer(
    this: &Arc<Endpoint>,
    cm: &Cm,
    id: CallId<'_>,
    param: &ConnParam<'_>,
) -> Result<(), Refusal> {
    let mut st = this.state.lock();
    if !st.connection.is_requested() {
        return Err(OVER);
    }
    let attached = own_qp(cm, param.qpn, id).and_then(|qp| {
        qp.attach(this.clone())?;
        Ok(qp)
    });
    match attached {
        Ok(qp) => st.qp = Some(qp),
        Err(refusal) => {
            // iw_cm is through with the connection.
            this.tell(&mut st, Input::Abort);
            return Err(refusal);
        }
    }
    let accept = Input::Accept {
        want: depths(param),
        private_data: param.private_data,
    };
    this.feed(&mut st, accept)?;
    this.set_cm_id(id.into());
    this.introduce(id.consumer());
    Ok(())
}
