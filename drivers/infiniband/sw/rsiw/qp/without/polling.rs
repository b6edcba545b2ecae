// SPDX-License-Identifier: GPL-2.0

//! Stands for `qp::polling`: a process calls for its requests.
#![forbid(unsafe_code)]

use crate::{
    abi::own,
    ffi::{
        rdma::udata::Udata,
        rsiw::queues::Queues, //
    },
};
use core::{
    convert::Infallible,
    marker::PhantomData, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

pub(in crate::qp) struct Poller<Q>(Infallible, PhantomData<Q>);

impl<Q> Poller<Q> {
    pub(in crate::qp) fn new(
        _us: u32,
        _udata: &Udata<'_>,
        _queues: &Arc<Queues>,
    ) -> Result<Option<Pin<KBox<Self>>>> {
        Ok(None)
    }

    pub(in crate::qp) fn forget(&self) {
        match self.0 {}
    }

    pub(in crate::qp) fn describe(&self, _resp: &mut own::CreateQpResp) {
        match self.0 {}
    }

    pub(in crate::qp) fn us(&self) -> u32 {
        match self.0 {}
    }

    pub(in crate::qp) fn prepare(&self, _qp: Arc<Q>) -> Result {
        match self.0 {}
    }

    pub(in crate::qp) fn begin(&self) {
        match self.0 {}
    }

    pub(in crate::qp) fn end(&self) {
        match self.0 {}
    }

    pub(in crate::qp) fn is_over(&self) -> bool {
        match self.0 {}
    }
}
