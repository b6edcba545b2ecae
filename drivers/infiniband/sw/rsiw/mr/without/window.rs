// SPDX-License-Identifier: GPL-2.0

//! Stands for `mr::window`: there are regions only.
#![forbid(unsafe_code)]

use crate::{
    ffi::{
        rdma::{
            driver::MwType,
            wr::Binding, //
        },
        sync::gate::Gate,
    },
    mr::{
        access::{
            Access,
            MrAccess,
            MrError, //
        },
        By,
        Mr,
        PdId, //
    },
    wire::ddp::Stag,
};
use core::convert::Infallible;
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};

pub(crate) struct Binder;

impl Binder {
    pub(crate) fn new(flags: Flags) -> Result<Arc<Self>> {
        Ok(Arc::new(Self, flags)?)
    }

    pub(crate) fn count(&self) -> u32 {
        0
    }

    pub(crate) fn end(&self) -> Result {
        Ok(())
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Party<'a> {
    pub(crate) binder: &'a Arc<Binder>,
    pub(crate) pd: PdId,
}

pub(crate) enum BindError {}

pub(crate) struct Window(Infallible);

impl Window {
    pub(in crate::mr) fn new(_pd: PdId, _kind: MwType) -> Result<Pin<KBox<Self>>> {
        Err(EOPNOTSUPP)
    }

    pub(in crate::mr) fn gate(&self) -> &Gate {
        match self.0 {}
    }

    pub(crate) fn bind(
        &self,
        _own: Stag,
        _wr: &Binding,
        _region: Option<Arc<Mr>>,
        _party: Party<'_>,
    ) -> Result<(), BindError> {
        match self.0 {}
    }

    pub(crate) fn access(
        &self,
        _own: Arc<Mr>,
        _stag: Stag,
        _party: Party<'_>,
        _want: Access,
        _addr: u64,
        _len: u32,
    ) -> Result<MrAccess<Arc<Mr>>, MrError> {
        match self.0 {}
    }

    pub(crate) fn invalidate(
        &self,
        _stag: Stag,
        _party: Party<'_>,
        _by: By,
    ) -> Result<(), MrError> {
        match self.0 {}
    }

    pub(in crate::mr) fn unbind(&self) {
        match self.0 {}
    }
}

pub(in crate::mr) struct Windows;

impl Windows {
    pub(in crate::mr) fn new() -> Self {
        Self
    }

    pub(in crate::mr) fn count(&self) -> u32 {
        0
    }

    pub(in crate::mr) fn any(&self) -> bool {
        false
    }

    pub(in crate::mr) fn end(&self) -> Result {
        Ok(())
    }
}
