// SPDX-License-Identifier: GPL-2.0

//! What a QP allows its peer, as tests want it.

use crate::proto::segment::Rights;

/// Everything is allowed.
pub(crate) const ALL: Rights = Rights {
    read: true,
    write: true,
    atomic: true,
    immediate: true,
};
