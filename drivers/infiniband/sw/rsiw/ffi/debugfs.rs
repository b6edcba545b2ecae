// SPDX-License-Identifier: GPL-2.0

//! Numbers that the administrator reads and writes in debugfs. `debugfs.c` makes the files, and
//! says why the kernel crate does not.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h). Context: process;
//! [`Number::get`] any.

use super::raw::b;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};
use kernel::sync::Arc;

/// A number within a range. Writing a number outside the range to its file fails with `EINVAL`.
#[repr(C)]
pub(crate) struct Number {
    value: Atomic<u32>,
    min: u32,
    max: u32,
}

// The layout that C expects.
const _: () = assert!(
    size_of::<Number>() == size_of::<b::rsiw_number>()
        && align_of::<Number>() == align_of::<b::rsiw_number>()
        && core::mem::offset_of!(Number, value) == core::mem::offset_of!(b::rsiw_number, value)
        && core::mem::offset_of!(Number, min) == core::mem::offset_of!(b::rsiw_number, min)
        && core::mem::offset_of!(Number, max) == core::mem::offset_of!(b::rsiw_number, max)
);

impl Number {
    pub(crate) const fn new(value: u32, (min, max): (u32, u32)) -> Self {
        Self {
            value: Atomic::new(value),
            min,
            max,
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        self.value.load(Relaxed)
    }
}

/// A directory. Dropping it removes it with all that is in it.
///
/// # Invariants
///
/// The pointer is what debugfs returned for a directory, perhaps an error, and is removed once.
pub(crate) struct Directory(*mut b::dentry);

// SAFETY: debugfs may be called from any thread.
unsafe impl Send for Directory {}
// SAFETY: see above.
unsafe impl Sync for Directory {}

impl Directory {
    /// Makes a directory at the top. An error is ignored, as nobody depends on the files.
    pub(crate) fn new(name: &CStr) -> Self {
        // SAFETY: the name is a C string, which is copied.
        let raw = unsafe { b::rsiw_debugfs_dir(name.as_char_ptr(), core::ptr::null_mut()) };
        // INVARIANT: just made.
        Self(raw)
    }

    fn within(&self, name: &CStr) -> Self {
        // SAFETY: as above; by the invariant it is a directory or an error; debugfs takes both.
        let raw = unsafe { b::rsiw_debugfs_dir(name.as_char_ptr(), self.0) };
        // INVARIANT: just made.
        Self(raw)
    }
}

impl Drop for Directory {
    /// Waits for reads and writes under way. Open files fail with `EIO` from then on.
    fn drop(&mut self) {
        // SAFETY: by the invariant; debugfs accepts an error, too.
        unsafe { b::rsiw_debugfs_remove(self.0) };
    }
}

/// Shows numbers of a `T` in debugfs as long as this exists. The fields are in the order in which
/// they must be dropped.
pub(crate) struct Shown<T> {
    _dir: Directory,
    _parent: Arc<Directory>,
    _data: Arc<T>,
}

impl<T: Send + Sync + 'static> Shown<T> {
    /// Shows the numbers that `numbers` finds in `data`, by their names, in a new directory `name`.
    pub(crate) fn new<const N: usize>(
        parent: &Arc<Directory>,
        name: &CStr,
        data: Arc<T>,
        numbers: for<'a> fn(&'a T) -> [(&'static CStr, &'a Number); N],
    ) -> Self {
        let dir = parent.within(name);
        for (name, number) in numbers(&data) {
            let number = core::ptr::from_ref(number).cast_mut().cast();
            // SAFETY: the name is a C string, which is copied. The number has C's layout, and C
            // changes only its atomic part, in one piece. As `numbers` works for borrows of any
            // length, the number lives as long as `data`, which the file does not outlive, and
            // which stays if this value is forgotten.
            unsafe { b::rsiw_debugfs_number(name.as_char_ptr(), dir.0, number) };
        }
        Self {
            _dir: dir,
            _parent: parent.clone(),
            _data: data,
        }
    }
}
