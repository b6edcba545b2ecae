// SPDX-License-Identifier: GPL-2.0

//! Numbers that the administrator reads and writes in debugfs: what `debugfs.c` makes files of, and
//! why that is not done with the kernel crate.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h).
//!
//! Context: process; [`Number::get`] any.

use super::raw::b;
use kernel::{
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// A number within a range. Writing another one to its file fails with `EINVAL`.
#[repr(C)]
pub(crate) struct Number {
    value: Atomic<u32>,
    min: u32,
    max: u32,
}

// What C makes of it.
const _: () = assert!(
    size_of::<Number>() == size_of::<b::rsiw_number>()
        && align_of::<Number>() == align_of::<b::rsiw_number>()
        && core::mem::offset_of!(Number, value) == core::mem::offset_of!(b::rsiw_number, value)
        && core::mem::offset_of!(Number, min) == core::mem::offset_of!(b::rsiw_number, min)
        && core::mem::offset_of!(Number, max) == core::mem::offset_of!(b::rsiw_number, max)
);

impl Number {
    /// The number `value`, which may be from `min` to `max` later on.
    pub(crate) const fn new(value: u32, (min, max): (u32, u32)) -> Self {
        Self {
            value: Atomic::new(value),
            min,
            max,
        }
    }

    /// What it is now.
    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        self.value.load(Relaxed)
    }
}

/// A directory, which goes with all that is in it when it is dropped.
///
/// # Invariants
///
/// The pointer is what debugfs gave for a directory, an error perhaps, and is removed once.
pub(crate) struct Directory(*mut b::dentry);

// SAFETY: debugfs may be called from any thread.
unsafe impl Send for Directory {}
// SAFETY: see above.
unsafe impl Sync for Directory {}

impl Directory {
    /// Makes one at the top, as well as debugfs can: nobody depends on it.
    pub(crate) fn new(name: &CStr) -> Self {
        // SAFETY: the name is a C string, which is copied.
        let raw = unsafe { b::rsiw_debugfs_dir(name.as_char_ptr(), core::ptr::null_mut()) };
        // INVARIANT: just made.
        Self(raw)
    }

    /// The same within this one.
    fn within(&self, name: &CStr) -> Self {
        // SAFETY: as above; by the invariant the directory is there, or an error, which debugfs
        // takes.
        let raw = unsafe { b::rsiw_debugfs_dir(name.as_char_ptr(), self.0) };
        // INVARIANT: just made.
        Self(raw)
    }
}

impl Drop for Directory {
    /// Waits for those who read or write a file at this moment. Open ones say `EIO` from then on.
    fn drop(&mut self) {
        // SAFETY: by the invariant; an error is no harm.
        unsafe { b::rsiw_debugfs_remove(self.0) };
    }
}

/// Numbers of a `T` that are shown while this exists. The order of the fields is that in which they
/// have to be dropped.
pub(crate) struct Shown<T> {
    _dir: Directory,
    _parent: Arc<Directory>,
    _data: Arc<T>,
}

impl<T: Send + Sync + 'static> Shown<T> {
    /// Shows the numbers that `numbers` finds in `data`, by their names, in a directory `name`.
    pub(crate) fn new<const N: usize>(
        parent: &Arc<Directory>,
        name: &CStr,
        data: Arc<T>,
        numbers: for<'a> fn(&'a T) -> [(&'static CStr, &'a Number); N],
    ) -> Self {
        let dir = parent.within(name);
        for (name, number) in numbers(&data) {
            let number = core::ptr::from_ref(number).cast_mut().cast();
            // SAFETY: the name is a C string, which is copied. The number has the layout of C's, and
            // C changes nothing but its atomic part, in one piece. It lives as long as `data`,
            // whatever `numbers` is, as that has to work for borrows of any length; and the file
            // goes before `data`, which stays for good if this is forgotten.
            unsafe { b::rsiw_debugfs_number(name.as_char_ptr(), dir.0, number) };
        }
        Self {
            _dir: dir,
            _parent: parent.clone(),
            _data: data,
        }
    }
}
