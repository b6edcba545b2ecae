// SPDX-License-Identifier: GPL-2.0

//! Stands for the kernel crate, as far as the files that the models run use it. What orders memory
//! is loom's, or [`sync`]'s by loom. The rest is as simple as it can be.

pub mod sync;
pub mod weak;
pub mod workqueue;

mod boxes;
pub mod init;

#[doc(hidden)]
pub use init::field as __field;

pub mod prelude {
    pub use crate::{
        alloc::{Flags, GFP_KERNEL},
        boxes::{KBox, KVec},
        error::{code::*, Error, Result},
        init::PinInit,
        pin_init,
    };
    pub use core::{ffi::c_void, pin::Pin};
    pub use macros::{pin_data, pinned_drop};
}

pub mod alloc {
    #[derive(Clone, Copy)]
    pub struct Flags;

    pub const GFP_KERNEL: Flags = Flags;
}

pub mod error {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Error(i32);

    pub type Result<T = (), E = Error> = core::result::Result<T, E>;

    pub mod code {
        use super::Error;

        pub const ENOMEM: Error = Error(-12);
        pub const EBUSY: Error = Error(-16);
    }

    pub fn to_result(code: i32) -> Result {
        if code < 0 {
            Err(Error(code))
        } else {
            Ok(())
        }
    }
}

/// There are no interrupts: what would be one is a thread.
pub mod interrupt {
    pub struct LocalInterruptDisabled;

    pub fn local_interrupt_disable() -> LocalInterruptDisabled {
        LocalInterruptDisabled
    }
}

pub mod num {
    pub mod casts {
        pub fn u32_as_usize(n: u32) -> usize {
            n as usize
        }
    }
}

pub mod time {
    pub struct Delta;

    impl Delta {
        pub const fn from_micros(_: i64) -> Self {
            Self
        }
    }

    pub mod delay {
        /// Others go on meanwhile.
        pub fn fsleep(_: super::Delta) {
            loom::thread::yield_now();
        }
    }
}

pub mod types {
    pub use crate::boxes::Opaque;
}

#[macro_export]
macro_rules! pr_err_once {
    ($($arg:tt)*) => {
        assert!(false, $($arg)*)
    };
}
