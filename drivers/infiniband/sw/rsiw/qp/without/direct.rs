// SPDX-License-Identifier: GPL-2.0

//! Stands for `qp::direct`: both ends on one host use TCP, too.
#![forbid(unsafe_code)]

use crate::{
    ffi::{
        net::TcpSocket,
        rsiw::queues::Common, //
    },
    proto::{
        drain::Stop,
        sender::PayloadError,
        tx::Frame, //
    },
    qp::{
        base::Base,
        source::Source,
        stream::Stream, //
    },
};
use core::{
    any::Any,
    convert::Infallible,
    marker::PhantomData, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

pub(crate) struct LocalPeers;

impl Common for LocalPeers {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl LocalPeers {
    pub(crate) fn none() -> Result<Arc<dyn Common>> {
        Ok(Arc::new(Self, GFP_KERNEL)?)
    }
}

pub(in crate::qp) enum Prepared {}

pub(in crate::qp) enum Entry {}

impl Prepared {
    pub(in crate::qp) fn new(_stream: &Arc<Stream>) -> Option<Self> {
        None
    }

    pub(in crate::qp) fn enter(self) -> Entry {
        match self {}
    }
}

pub(in crate::qp) struct Direct<'a>(Infallible, PhantomData<&'a ()>);

impl<'a> Direct<'a> {
    pub(in crate::qp) fn new(_end: &'a Stream, _own: &'a TcpSocket) -> Option<Self> {
        None
    }

    pub(in crate::qp) fn peer(&self) -> &'a Base {
        match self.0 {}
    }

    pub(in crate::qp) fn len(&self) -> usize {
        match self.0 {}
    }

    pub(in crate::qp) fn let_go(&mut self) {
        match self.0 {}
    }

    pub(in crate::qp) fn prepare(&mut self, _front: &[u8]) -> Result<bool, Stop> {
        match self.0 {}
    }

    pub(in crate::qp) fn hand_over(
        &mut self,
        _source: &Source,
        _front: &[u8],
        _frame: &Frame,
    ) -> Result<(), PayloadError> {
        match self.0 {}
    }
}
