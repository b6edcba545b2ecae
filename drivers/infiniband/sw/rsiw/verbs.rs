// SPDX-License-Identifier: GPL-2.0

//! The verbs: turns what the core asks for into calls of the objects that do it.
//!
//! Context: process, unless [`Driver`] says otherwise.
#![forbid(unsafe_code)]

use crate::abi::own::{
    self,
    Features, //
};
use crate::abi::{
    self,
    AllocContextResp,
    CreateCqResp,
    RegMrReq,
    RegMrResp, //
};
use crate::cm::{
    self,
    by_number, //
};
use crate::counts::Counts;
use crate::cq::{
    Cq,
    Kind, //
};
use crate::device::{
    Pd,
    Ucontext, //
};
use crate::ffi::rdma::attr::{
    DeviceAttr,
    PortAttr,
    QpModify,
    QpQuery,
    Qpn,
    SrqAttr, //
};
use crate::ffi::rdma::driver::{
    CqInit,
    Driver,
    DriverId,
    InC,
    MrChange,
    MrInit,
    MwType,
    QpInit,
    SrqChange,
    SrqInit, //
};
use crate::ffi::rdma::handle::{
    CqHandle,
    QpHandle,
    SrqHandle, //
};
use crate::ffi::rdma::iwcm::{
    AcceptRef,
    CallId,
    CmId,
    ConnParam,
    ConsumerId, //
};
use crate::ffi::rdma::kmr::{
    DmaMemory,
    FastMemory, //
};
use crate::ffi::rdma::stats::Details;
use crate::ffi::rdma::udata::Udata;
use crate::ffi::rdma::wr::{
    RecvChain,
    SendChain,
    WcRoom, //
};
use crate::ffi::rsiw::{
    self,
    Methods,
    PortCounter,
    Setting, //
};
use crate::mr::table::MAX_MR;
use crate::mr::{
    Grant,
    Mr,
    PdId,
    MAX_FAST_REG, //
};
use crate::proto::by_number::MAX_GIDS;
use crate::proto::counters::Counter;
use crate::qp::create::QpParts;
use crate::qp::Qp;
use crate::rnic::Rnic;
use crate::srq::Srq;
use crate::ud::{
    UdParts,
    UdQp, //
};
use core::num::Wrapping;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::{
    Arc,
    ArcBorrow, //
};

/// This driver.
pub(crate) struct Rsiw;

/// Flag of a new completion queue (`IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION`).
const TIMESTAMPS: u32 = 1 << 0;

/// Returns what was agreed on with the calling process, or `NONE` for a consumer in the kernel.
fn features(udata: Option<&Udata<'_>>) -> Features {
    udata
        .and_then(|udata| udata.context::<Rsiw>())
        .map_or(Features::NONE, |context| context.features)
}

#[vtable]
impl Driver for Rsiw {
    const DRIVER_ID: DriverId = DriverId::RSIW;
    const ABI_VERSION: u32 = abi::VERSION;
    const IN_C: InC = rsiw::in_c::<Self>();
    const NODE_DESC: &'static [u8] = b"rsiw: software iWARP";
    const GIDS: u16 = MAX_GIDS as u16; // CAST: 32.
    const MAX_FAST_REG: u32 = MAX_FAST_REG;

    type Device = Rnic;
    type Ucontext = Ucontext;
    type Pd = Pd;
    type Cq = Cq;
    type Qp = Qp;
    type UdQp = UdQp;
    type Srq = Srq;
    type Mr = Mr;
    type Grant = Grant;
    type Counter = Counter;

    fn enabled(rnic: &Arc<Rnic>) {
        rnic.enabled();
    }

    fn leaving(rnic: &Arc<Rnic>) {
        rnic.leave();
    }

    fn close(rnic: &Arc<Rnic>) {
        rnic.close();
    }

    fn query_device(rnic: &Rnic, for_process: bool) -> DeviceAttr {
        rnic.dev.attributes(for_process)
    }

    fn query_port(rnic: &Rnic) -> PortAttr {
        rnic.dev.port()
    }

    fn query_gid(rnic: &Rnic, index: usize) -> [u8; 16] {
        rnic.gids.get(index)
    }

    fn counts(rnic: &Rnic) -> &Counts {
        &rnic.dev.counts
    }

    fn alloc_ucontext(_rnic: ArcBorrow<'_, Rnic>, udata: &mut Udata<'_>) -> Result<Arc<Ucontext>> {
        let asked = match udata.read_if_there::<own::AllocContextReq>()? {
            Some(req) if udata.has_room_for::<own::AllocContextResp>() => req.agree(),
            _ => None,
        };
        let features = asked.map_or(Features::NONE, |(features, _)| features);
        let context = Arc::new(Ucontext { features }, GFP_KERNEL_ACCOUNT)?;
        match asked {
            Some((features, version)) => {
                udata.respond(&own::AllocContextResp::new(features, version, MAX_MR))?;
            }
            None => udata.respond(&AllocContextResp::default())?,
        }
        Ok(context)
    }

    fn alloc_pd(
        rnic: ArcBorrow<'_, Rnic>,
        id: PdId,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Arc<Pd>> {
        if let Some(udata) = udata {
            udata.no_io()?;
        }
        Pd::new(rnic.dev.clone(), id)
    }

    fn create_cq(
        rnic: ArcBorrow<'_, Rnic>,
        handle: Arc<CqHandle>,
        init: &CqInit,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Cq>, u32)> {
        let features = features(udata.as_deref());
        let kind = Kind {
            rings: features.rings(),
            timestamps: init.flags == TIMESTAMPS && features.has_timestamps(),
        };
        if init.flags != 0 && !kind.timestamps {
            return Err(EOPNOTSUPP);
        }
        if init.vector >= kernel::cpu::nr_cpu_ids() {
            return Err(EINVAL);
        }
        let dev = &rnic.dev;
        let (limits, queues) = (dev.limits(), dev.queues());
        let cq = Cq::new(handle, init, limits, queues, kind, udata.as_deref())?;
        let len = cq.len();
        if let Some(udata) = udata {
            udata.respond(&CreateCqResp {
                cq_id: 0,
                num_cqe: len,
                cq_key: cq.mmap_key(),
            })?;
        }
        Ok((cq, len))
    }

    fn resize_cq(cq: &Cq, entries: u32, udata: &mut Udata<'_>) -> Result<u32> {
        cq.resize(entries, udata)
    }

    fn destroy_cq(cq: &Cq) {
        cq.close();
    }

    fn poll_cq(cq: &Cq, room: &mut WcRoom<'_>) -> Result {
        cq.poll(room)
    }

    fn arm_cq(cq: &Cq, solicited: bool) -> Result<bool> {
        cq.arm(solicited)
    }

    fn create_srq(
        pd: ArcBorrow<'_, Pd>,
        handle: Arc<SrqHandle>,
        init: &mut SrqInit,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<Arc<Srq>> {
        let rings = features(udata.as_deref()).rings();
        Srq::create(&pd.into(), handle, init, rings, udata)
    }

    fn modify_srq(srq: &Srq, change: &SrqChange) -> Result {
        srq.modify(change)
    }

    fn query_srq(srq: &Srq) -> SrqAttr {
        srq.query()
    }

    fn post_srq_recv(srq: &Srq, chain: &mut RecvChain<'_>) -> Result {
        srq.post(chain)
    }

    fn destroy_srq(srq: &Srq) {
        srq.close();
    }

    fn create_qp(
        rnic: ArcBorrow<'_, Rnic>,
        pd: ArcBorrow<'_, Pd>,
        handle: Arc<QpHandle>,
        init: &mut QpInit<Self>,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Qp>, Qpn)> {
        if init.flags != 0 {
            return Err(EOPNOTSUPP);
        }
        let parts = QpParts {
            pd: pd.into(),
            send_cq: init.send_cq.as_ref().ok_or(EINVAL)?.clone(),
            recv_cq: init.recv_cq.as_ref().ok_or(EINVAL)?.clone(),
            srq: init.srq.clone(),
            peers: rnic.peers.clone(),
            features: features(udata.as_deref()),
        };
        Qp::create(&rnic.qps, handle, parts, &mut init.cap, init.sig_all, udata)
    }

    fn modify_qp(rnic: ArcBorrow<'_, Rnic>, qp: ArcBorrow<'_, Qp>, attr: &QpModify) -> Result {
        match &attr.cap {
            Some(cap) if attr.is_of_sizes() => qp.resize(cap),
            Some(_) => Err(EINVAL),
            None if by_number::concerns(&qp, attr) => {
                by_number::modify(&rnic.cm.meeting_place, &Arc::from(qp), attr)
            }
            None => Arc::from(qp).modify(attr),
        }
    }

    fn query_qp(qp: &Qp) -> QpQuery {
        qp.shared.query()
    }

    fn destroy_qp(qp: ArcBorrow<'_, Qp>) -> Result {
        Arc::from(qp).destroy()
    }

    fn free_number(qp: &Qp) {
        qp.free_number();
    }

    fn create_ud_qp(
        rnic: ArcBorrow<'_, Rnic>,
        pd: ArcBorrow<'_, Pd>,
        handle: Arc<QpHandle>,
        init: &mut QpInit<Self>,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<UdQp>, Qpn)> {
        let udata = udata.ok_or(EOPNOTSUPP)?;
        if init.flags != 0 {
            return Err(EOPNOTSUPP);
        }
        let parts = UdParts {
            pd: pd.into(),
            send_cq: init.send_cq.as_ref().ok_or(EINVAL)?.clone(),
            recv_cq: init.recv_cq.as_ref().ok_or(EINVAL)?.clone(),
            srq: init.srq.clone(),
            features: features(Some(udata)),
        };
        UdQp::create(&rnic.ud, handle, parts, &mut init.cap, init.sig_all, udata)
    }

    fn modify_ud_qp(qp: ArcBorrow<'_, UdQp>, attr: &QpModify) -> Result {
        Arc::from(qp).modify(attr)
    }

    fn query_ud_qp(qp: &UdQp) -> QpQuery {
        qp.query()
    }

    fn destroy_ud_qp(qp: ArcBorrow<'_, UdQp>) {
        qp.destroy();
    }

    fn ud_doorbell(qp: ArcBorrow<'_, UdQp>) {
        Arc::from(qp).doorbell();
    }

    fn doorbell(qp: &Arc<Qp>) -> Result {
        qp.doorbell()
    }

    fn post_send(qp: &Arc<Qp>, chain: &mut SendChain<'_>) -> Result {
        qp.post_send(chain)
    }

    fn post_recv(qp: &Arc<Qp>, chain: &mut RecvChain<'_>) -> Result {
        qp.post_recv(chain)
    }

    fn qp_by_num(rnic: &Rnic, num: Qpn) -> Option<Arc<QpHandle>> {
        cm::handle_for_caller(&rnic.dev, &rnic.qps, num)
    }

    fn held_qp(rnic: &Rnic, num: Qpn) -> Option<Arc<QpHandle>> {
        let qp = rnic.qps.lookup(num)?;
        Some(qp.shared.id.handle.clone())
    }

    fn count_in(qp: &Qp, counts: Option<Arc<Counts>>) {
        qp.shared.counts.count_in(counts);
    }

    fn describe_qp(qp: &Qp, to: &mut Details<'_>) -> Result {
        qp.describe(to)
    }

    fn describe_cq(cq: &Cq, to: &mut Details<'_>) -> Result {
        cq.describe(to)
    }

    fn describe_srq(srq: &Srq, to: &mut Details<'_>) -> Result {
        srq.describe(to)
    }

    fn describe_cm_id(rnic: &Rnic, id: ConsumerId, to: &mut Details<'_>) -> Result {
        cm::describe(&rnic.cm, id, to)
    }

    fn describe_mr(mr: &Mr, to: &mut Details<'_>) -> Result {
        mr.describe(to)
    }

    fn reg_user_mr(
        pd: ArcBorrow<'_, Pd>,
        init: &MrInit,
        udata: &mut Udata<'_>,
    ) -> Result<(Arc<Mr>, u32)> {
        let key = udata.read::<RegMrReq>()?.stag_key;
        let dev = pd.device();
        let mr = Mr::register_user(dev.handle(), &dev.stags, pd.id(), init, key)?;
        let stag = mr.stag().0;
        if let Err(e) = udata.respond(&RegMrResp { stag, pad: 0 }) {
            mr.deregister(&dev.stags)?;
            return Err(e);
        }
        Ok((mr, stag))
    }

    fn reg_dmabuf_mr(pd: ArcBorrow<'_, Pd>, init: &MrInit) -> Result<(Arc<Mr>, u32)> {
        let dev = pd.device();
        let mr = Mr::register_user(dev.handle(), &dev.stags, pd.id(), init, 0)?;
        let stag = mr.stag().0;
        Ok((mr, stag))
    }

    fn rereg_user_mr(
        pd: ArcBorrow<'_, Pd>,
        mr: &Mr,
        change: &MrChange,
        udata: &mut Udata<'_>,
    ) -> Result<(Arc<Mr>, u32, MrInit)> {
        // The key may be chosen as at registration.
        let key = if udata.is_empty() {
            mr.stag().key()
        } else {
            udata.read::<RegMrReq>()?.stag_key
        };
        let dev = pd.device();
        let (mr, init) = mr.reregister(dev.handle(), &dev.stags, pd.id(), change, key)?;
        let stag = mr.stag().0;
        Ok((mr, stag, init))
    }

    fn get_dma_mr(pd: ArcBorrow<'_, Pd>, memory: Arc<DmaMemory>) -> Result<(Arc<Mr>, u32)> {
        let mr = Mr::new_dma(&pd.device().stags, pd.id(), memory)?;
        let stag = mr.stag().0;
        Ok((mr, stag))
    }

    fn alloc_mr(pd: ArcBorrow<'_, Pd>, memory: Arc<FastMemory<Grant>>) -> Result<(Arc<Mr>, u32)> {
        let mr = Mr::new_fast(&pd.device().stags, pd.id(), memory)?;
        let stag = mr.stag().0;
        Ok((mr, stag))
    }

    fn dereg_mr(rnic: &Rnic, mr: &Mr) -> Result {
        mr.deregister(&rnic.dev.stags)
    }

    fn alloc_mw(
        pd: ArcBorrow<'_, Pd>,
        kind: MwType,
        udata: Option<&mut Udata<'_>>,
    ) -> Result<(Arc<Mr>, u32)> {
        if let Some(udata) = udata {
            udata.no_io()?;
            // The stock library could not bind the window.
            if !features(Some(udata)).has_windows() {
                return Err(EOPNOTSUPP);
            }
        }
        let window = Mr::new_window(&pd.device().stags, pd.id(), kind)?;
        let stag = window.stag().0;
        Ok((window, stag))
    }

    fn connect(rnic: ArcBorrow<'_, Rnic>, id: CallId<'_>, param: &ConnParam<'_>) -> Result {
        cm::connect(&rnic.cm, id, param)
    }

    fn accept(
        rnic: ArcBorrow<'_, Rnic>,
        id: CallId<'_>,
        param: &ConnParam<'_>,
        reference: AcceptRef,
    ) -> Result {
        cm::accept(&rnic.cm, id, param, reference)
    }

    fn reject(rnic: ArcBorrow<'_, Rnic>, id: &CmId, private_data: &[u8]) -> Result {
        cm::reject(&rnic.cm, id, private_data)
    }

    fn create_listen(rnic: ArcBorrow<'_, Rnic>, id: CallId<'_>, backlog: u32) -> Result {
        cm::create_listen(&rnic.cm, id, backlog)
    }

    fn destroy_listen(rnic: ArcBorrow<'_, Rnic>, id: &CmId) -> Result {
        cm::destroy_listen(&rnic.cm, id)
    }
}

impl Methods for Rsiw {
    fn resize_qp(qp: &Qp, udata: &mut Udata<'_>) -> Result {
        if !features(Some(udata)).has_resize() {
            return Err(EOPNOTSUPP);
        }
        qp.resize_rings(udata)
    }

    fn resize_srq(srq: &Srq, udata: &mut Udata<'_>) -> Result {
        if !features(Some(udata)).has_resize() {
            return Err(EOPNOTSUPP);
        }
        srq.resize_ring(udata)
    }

    fn port_counter(rnic: &Rnic, which: PortCounter) -> u64 {
        let (counts, bound) = (&rnic.dev.counts, &rnic.dev.bound_counts);
        let Wrapping(sum) = counts.of_port(which) + bound.of_port(which);
        match which {
            PortCounter::XmitData | PortCounter::RcvData => sum / 4,
            PortCounter::XmitPackets | PortCounter::RcvPackets => sum,
        }
    }

    fn setting(rnic: &Rnic, which: Setting) -> &'static CStr {
        rnic.dev.setting(which)
    }
}
