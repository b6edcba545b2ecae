// SPDX-License-Identifier: GPL-2.0

//! What a QP allows its peer, as tests want it.

use crate::proto::rx::Limits;

/// Limits that do not change.
#[derive(Clone, Copy)]
pub(crate) struct Fixed {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) atomic: bool,
    pub(crate) read_room: bool,
    pub(crate) immediate: bool,
}

/// Everything is allowed.
pub(crate) const ALL: Fixed = Fixed {
    read: true,
    write: true,
    atomic: true,
    read_room: true,
    immediate: true,
};

impl Limits for Fixed {
    fn may_read(&self) -> bool {
        self.read
    }

    fn may_write(&self) -> bool {
        self.write
    }

    fn may_atomic(&self) -> bool {
        self.atomic
    }

    fn has_read_room(&self) -> bool {
        self.read_room
    }

    fn may_take_immediate(&self) -> bool {
        self.immediate
    }
}
