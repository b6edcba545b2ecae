// SPDX-License-Identifier: GPL-2.0

//! Files of `ffi/mm/`.

#[path = "../../../../../drivers/infiniband/sw/rsiw/ffi/mm/movable.rs"]
pub(crate) mod movable;

pub(crate) mod ring {
    use crate::models::Plain;

    /// A word that may not be dropped while it is read.
    pub(crate) struct SharedWord(Plain);

    impl SharedWord {
        pub(crate) fn new() -> Self {
            let word = Self(Plain::new());
            word.0.write();
            word
        }

        pub(crate) fn load(&self) -> u32 {
            self.0.read();
            0
        }
    }

    impl Drop for SharedWord {
        fn drop(&mut self) {
            self.0.write();
        }
    }
}
