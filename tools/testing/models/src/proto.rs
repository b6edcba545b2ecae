// SPDX-License-Identifier: GPL-2.0

//! Files of `proto/`.

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/drain.rs"]
pub(crate) mod drain;

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/notes.rs"]
pub(crate) mod notes;

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/placement.rs"]
pub(crate) mod placement;

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/ring.rs"]
pub(crate) mod ring;

#[allow(dead_code)]
#[path = "../../../../drivers/infiniband/sw/rsiw/proto/sends.rs"]
pub(crate) mod sends;

pub(crate) mod failure {
    /// Nothing fails here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Fault;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Failure;
}

pub(crate) mod reads {
    use super::ring::{Full, Ring, Token};
    use std::ops::DerefMut;

    /// What requests under way need of a Read.
    #[derive(Clone, Copy, Debug, Default)]
    pub(crate) struct OutboundRead {
        pub(crate) token: Option<Token>,
        pub(crate) places: Option<Token>,
    }

    #[derive(Debug)]
    pub(crate) struct OutboundReads<S>(Ring<S>);

    #[allow(dead_code)]
    impl<S: DerefMut<Target = [OutboundRead]>> OutboundReads<S> {
        pub(crate) const fn new(slots: S) -> Self {
            Self(Ring::new(slots))
        }

        pub(crate) const fn outstanding(&self) -> usize {
            self.0.len()
        }

        pub(crate) fn get(&self, n: usize) -> Option<&OutboundRead> {
            self.0.get(n)
        }

        pub(crate) fn push(&mut self, read: OutboundRead) -> Result<(), Full> {
            self.0.push(read)
        }

        pub(crate) fn pop(&mut self) -> Option<OutboundRead> {
            self.0.pop()
        }
    }
}

pub(crate) mod state {
    /// The states are only numbers here.
    #[allow(dead_code)]
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) enum QpState {
        #[default]
        Idle,
        Rts,
        Draining,
        Closing,
        Terminate,
        Error,
    }
}
