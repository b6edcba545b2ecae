// SPDX-License-Identifier: GPL-2.0

//! The side that connects.
#![forbid(unsafe_code)]

use super::{
    config, depths,
    endpoint::{
        Deputy,
        EndpointState, //
    },
    mapped_port,
    outputs::{
        code,
        send_whole, //
    },
    own_qp, Cm, Endpoint, Refusal, NOT_IN_NAMESPACE,
};
use crate::{
    device::Device,
    ffi::{
        net::{
            netdev::NetDevice,
            Callbacks,
            TcpSocket,
            TcpState, //
        },
        rdma::iwcm::{
            CallId,
            CmId,
            ConnParam, //
        },
        task::process::Process,
    },
    proto::{
        conn::Initiator,
        connection::{
            Ask,
            Awaits,
            Connection,
            Input, //
        },
    },
    wire::mpa,
};
use core::net::SocketAddr;
use kernel::{
    prelude::*,
    sync::{
        Arc, //
    },
};

/// First port that is not reserved for privileged users.
const FIRST_USER_PORT: u16 = 1024;

/// What a consumer asked to connect to.
pub(super) struct Dial {
    local: SocketAddr,
    /// The local port of TCP that the port mapper chose.
    mapped_port: Option<u16>,
    pub(super) remote: SocketAddr,
    tos: Option<u8>,
    private_data: KVec<u8>,
    /// On whose behalf.
    pub(super) process: Process,
}

impl Dial {
    fn new(
        dev: &Device,
        id: &CmId,
        netdev: &NetDevice,
        param: &ConnParam<'_>,
    ) -> Result<KBox<Self>> {
        let mut private_data = KVec::with_capacity(param.private_data.len(), GFP_KERNEL_ACCOUNT)?;
        private_data.extend_from_slice(param.private_data, GFP_KERNEL_ACCOUNT)?;
        let mut remote = id.remote_addr().ok_or(EAFNOSUPPORT)?;
        if let Some(port) = id.mapped_remote_port() {
            remote.set_port(port);
        }
        let dial = Dial {
            local: id.local_addr().ok_or(EAFNOSUPPORT)?,
            mapped_port: mapped_port(dev, id, netdev),
            remote,
            tos: id.tos(),
            private_data,
            process: Process::current(),
        };
        if dial.local.is_ipv4() != dial.remote.is_ipv4() {
            return Err(EAFNOSUPPORT);
        }
        Ok(KBox::new(dial, GFP_KERNEL_ACCOUNT)?)
    }
}

/// Creates a socket and starts to connect it; `port` is the local port.
fn dial_from(this: &Arc<Endpoint>, st: &mut EndpointState, port: u16) -> Result {
    let dial = st.dial.as_ref().ok_or(EINVAL)?;
    let netdev = this.cm.dev.netdev().ok_or(ENODEV)?;
    let sock = TcpSocket::new(&netdev, &dial.local)?;
    if let Some(tos) = dial.tos {
        sock.set_tos(tos);
    }
    let mut local = dial.local;
    local.set_port(port);
    if dial.mapped_port == Some(port) {
        sock.bind_beside(&local)?;
    } else {
        sock.bind(&local)?;
    }
    let callbacks = Callbacks::install(sock.clone(), this.clone())?;
    match sock.connect(&dial.remote) {
        // The peer's answer was there at once; the consumer learns of it as ever.
        Err(e) if e == ECONNREFUSED || e == ECONNRESET => {}
        other => other?,
    }
    st.callbacks = Some(callbacks);
    st.sock = Some(sock);
    Ok(())
}

/// Starts to connect TCP.
///
/// Ports of RDMA consumers have a number space of their own, in which a port is free that TCP may
/// be using. Then another is taken, unless the consumer wanted a privileged one.
pub(super) fn dial(this: &Arc<Endpoint>, st: &mut EndpointState) -> Result {
    // Before anything can queue the endpoint's own work: if that had the mutex when it is the
    // endpoint's turn, others would pass.
    this.leave_to(Deputy::Initiators);
    let dial = st.dial.as_ref().ok_or(EINVAL)?;
    let port = dial.mapped_port.unwrap_or(dial.local.port());
    match dial_from(this, st, port) {
        Err(e) if (e == EADDRINUSE || e == EADDRNOTAVAIL) && port >= FIRST_USER_PORT => {
            dial_from(this, st, 0)
        }
        other => other,
    }
}

const TOO_MUCH_DATA: Refusal =
    Refusal::new(EINVAL, "more private data than a Request has room for");

/// See [`super::connect`].
pub(super) fn connect(cm: &Arc<Cm>, id: CallId<'_>, param: &ConnParam<'_>) -> Result<(), Refusal> {
    // The RDMA CM takes whatever device comes first for a loopback address.
    let netdev = cm.dev.netdev().ok_or(ENODEV)?;
    if !id.sees(&netdev) {
        return Err(NOT_IN_NAMESPACE);
    }
    let qp = own_qp(cm, param.qpn, id)?;
    let initiator = Initiator::new(config(), depths(param));
    if param.private_data.len() > initiator.max_private_data() {
        return Err(TOO_MUCH_DATA);
    }
    let initiator = KBox::new(initiator, GFP_KERNEL_ACCOUNT)?;
    let dial = Dial::new(&cm.dev, &id, &netdev, param)?;
    let this = Endpoint::register(cm)?;
    let mut st = this.state.lock();
    st.connection = Connection::closed();
    let result = qp.attach(this.clone()).and_then(|()| {
        st.qp = Some(qp);
        st.dial = Some(dial);
        let (connection, outputs) = Connection::initiator(initiator);
        this.begin(&mut st, connection);
        this.act(&mut st, outputs, &mut [])
    });
    if result.is_ok() {
        this.set_cm_id(id.into());
        this.introduce(id.consumer());
    }
    let sock = st.sock.clone();
    drop(st);
    // As long as TCP connects, it is nobody's turn: TCP tells when that has changed, and until then
    // the timer has the endpoint looked at.
    let is_waiting = sock.is_some_and(|sock| sock.state() == TcpState::Connecting);
    if result.is_err() || !is_waiting {
        Endpoint::kick(this);
    }
    Ok(result?)
}

/// TCP may have connected; the Request is sent then. Returns whether the endpoint's own work has to
/// go on. Waits for nobody.
pub(super) fn request(this: &Arc<Endpoint>, st: &mut EndpointState) -> bool {
    if st.connection.awaits() != Awaits::Connected || this.is_given_up() {
        return true;
    }
    let (Some(sock), Some(dial)) = (&st.sock, &st.dial) else {
        return true;
    };
    match sock.state() {
        TcpState::Connecting => {
            if !this.has_expired() {
                return false;
            }
            let is_ending = st.is_ending();
            if !st.connection.goes_on(is_ending) {
                return true;
            }
            // Only sets the timer anew.
            this.tell(st, Input::Expired { is_ending });
            return false;
        }
        TcpState::Closed | TcpState::Listen => return true,
        TcpState::Established | TcpState::CloseWait | TcpState::Closing => {}
    }
    let mut frame = [0; mpa::MAX_FRAME];
    let private_data = &dial.private_data;
    let outputs = this.step(
        &mut st.connection,
        Input::Connected { private_data },
        &mut frame,
    );
    let Some(Ask::Request(len)) = outputs.ask else {
        let _ = this.act(st, outputs, &mut frame);
        return true;
    };
    let sent = frame.get(..len).ok_or(EINVAL);
    match sent.and_then(|frame| send_whole(sock, frame)) {
        // Only sets the timer anew.
        Ok(()) => this.tell(st, Input::Done),
        Err(error) => st.unsent = Some(code(error)),
    }
    true
}
