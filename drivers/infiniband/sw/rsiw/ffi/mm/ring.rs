// SPDX-License-Identifier: GPL-2.0

//! Rings in memory that a user process shares: access by copy.
//!
//! A process may write any byte at any time (T-3). So nothing here returns a reference into the
//! memory, each read is one volatile pass into private memory, and indices are masked so that none
//! leads outside. A [`Position`] is the number of an entry among all that the queue has had; it
//! wraps.
//!
//! Context: any; users of a ring in the kernel exclude each other. Allocation and release of the
//! memory sleep; [`SharedMemory`] may also be dropped in softirq, but not with interrupts disabled
//! or under a spinlock (`vfree`).

use crate::ffi::module::Loaded;
use crate::ffi::raw::h;
use crate::num::Length;
use core::marker::PhantomData;
use core::mem::{
    align_of,
    size_of,
    size_of_val,
    MaybeUninit, //
};
use core::ops::{
    Add,
    Sub, //
};
use core::ptr::NonNull;
use kernel::page::{
    page_align,
    PAGE_SIZE, //
};
use kernel::prelude::*;
use kernel::sync::atomic::{
    atomic_load,
    atomic_store,
    Acquire,
    Relaxed,
    Release, //
};
use kernel::sync::Arc;

/// The unit of copying.
const WORD: usize = size_of::<u64>();

/// Octets that each entry has at least.
const LEAST: usize = 32;

/// Where the flags of all entries are, in octets from the beginning of the entry. In entries that
/// the kernel publishes, user space writes nothing else in the word that has them.
pub(crate) const FLAGS: usize = 8;
const FLAGS_WORD: usize = FLAGS / WORD;

/// The length of the entries of a ring.
///
/// # Invariants
///
/// A number of octets that are whole words, [`LEAST`] of them or more.
#[derive(Clone, Copy)]
pub(crate) struct EntryLen(u32);

impl EntryLen {
    /// Returns the length of an `E`.
    pub(crate) const fn of<E: FromBytes>() -> Self {
        const { assert!(size_of::<E>() % WORD == 0 && align_of::<E>() == WORD) };
        const { assert!(LEAST <= size_of::<E>() && size_of::<E>() <= u32::MAX as usize) };
        // CAST: just checked.
        // INVARIANT: just checked.
        Self(size_of::<E>() as u32)
    }

    const fn octets(self) -> usize {
        // CAST: 32 bits fit.
        self.0 as usize
    }

    /// Returns how many octets `entries` entries take, or `EINVAL` if that overflows.
    pub(crate) fn times(self, entries: u32) -> Result<usize> {
        self.octets().checked_mul(entries as usize).ok_or(EINVAL)
    }
}

/// Where a part of an entry begins.
///
/// # Invariants
///
/// A number of octets that are whole words.
#[derive(Clone, Copy)]
pub(crate) struct Place(usize);

impl Place {
    /// Returns the place that is `OCTETS` octets behind the beginning of an entry.
    pub(crate) const fn at<const OCTETS: usize>() -> Self {
        const { assert!(OCTETS % WORD == 0) };
        // INVARIANT: just checked.
        Self(OCTETS)
    }
}

/// A ring of a power of two entries at the start of shared memory. Entries begin with a front that
/// has the flags, and go on as the owner of the ring says.
///
/// # Invariants
///
/// `mem` has room for `mask + 1` entries of `len` octets; `mask + 1` is a power of two.
#[derive(Clone)]
pub(crate) struct SharedRing {
    mem: Arc<SharedMemory>,
    mask: u32,
    len: EntryLen,
}

impl SharedRing {
    /// Makes a ring of the first `entries` entries of `mem`, or returns `EINVAL` if these are not a
    /// power of two or do not fit.
    pub(crate) fn new(mem: Arc<SharedMemory>, entries: u32, len: EntryLen) -> Result<Self> {
        if !entries.is_power_of_two() || len.times(entries)? > mem.size() {
            return Err(EINVAL);
        }
        // INVARIANT: just checked.
        Ok(Self {
            mem,
            mask: entries.wrapping_sub(1),
            len,
        })
    }

    pub(crate) fn len(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    /// Returns an entry; positions go round the ring.
    #[inline(always)]
    pub(crate) fn entry(&self, at: Position) -> Entry<'_> {
        // Does not wrap: both numbers have 32 bits.
        let at = ((at.number() & self.mask) as usize).wrapping_mul(self.len.octets());
        // INVARIANT: as below.
        Entry {
            // SAFETY: by the invariant of the ring the memory has this entry.
            ptr: unsafe { self.mem.as_ptr().add(at) }.cast(),
            len: self.len,
            _ring: PhantomData,
        }
    }
}

/// An entry of a ring.
///
/// # Invariants
///
/// `ptr` points to `len` octets of the memory of a ring, which lives for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    ptr: *mut u64,
    len: EntryLen,
    _ring: PhantomData<&'a SharedRing>,
}

impl Entry<'_> {
    /// Copies the front out, up to the end of an `F`, in one pass. Do not use the flags in the
    /// copy: see [`Entry::flags`].
    #[inline]
    pub(crate) fn front<F: FromBytes>(self) -> F {
        const { assert!(size_of::<F>() % WORD == 0 && align_of::<F>() == WORD) };
        const { assert!(size_of::<F>() <= LEAST) };
        let mut copy = MaybeUninit::<F>::uninit();
        let dst = copy.as_mut_ptr().cast::<u64>();
        for i in 0..size_of::<F>() / WORD {
            // SAFETY: each entry has this word, see `EntryLen`; the memory is aligned as vmalloc
            // and entries are; the access is volatile, as others may write at the same time.
            let word = unsafe { self.ptr.add(i).read_volatile() };
            // SAFETY: `F` has this word too and is aligned to words.
            unsafe { dst.add(i).write(word) };
        }
        // SAFETY: all words were written, and `F` takes any bytes (`FromBytes`).
        unsafe { copy.assume_init() }
    }

    /// Fills `to` from a place on, in one pass, if the entry has as much. Returns whether it has.
    #[inline]
    #[must_use]
    pub(crate) fn copy<P: FromBytes>(self, from: Place, to: &mut [P]) -> bool {
        const { assert!(size_of::<P>() % WORD == 0 && align_of::<P>() == WORD) };
        let room = self.len.octets().checked_sub(from.0);
        if room.is_none_or(|room| size_of_val(to) > room) {
            return false;
        }
        // SAFETY: the place is inside the entry, or its end, as was just checked.
        let src = unsafe { self.ptr.byte_add(from.0) };
        let dst = to.as_mut_ptr().cast::<u64>();
        for i in 0..size_of_val(to) / WORD {
            // SAFETY: as in `front`; the entry has this word, as was just checked.
            let word = unsafe { src.add(i).read_volatile() };
            // SAFETY: `to` has this word too, takes any bytes and is aligned to words.
            unsafe { dst.add(i).write(word) };
        }
        true
    }

    #[inline(always)]
    fn flags_ptr(self) -> *mut u8 {
        // SAFETY: inside the entry, see `EntryLen`.
        unsafe { self.ptr.byte_add(FLAGS) }.cast()
    }

    /// Returns the flags of a request. What its owner wrote before setting them is visible then.
    #[inline(always)]
    pub(crate) fn flags(self) -> u16 {
        // SAFETY: see `flags_ptr`; aligned, as it is the beginning of a word; the kernel's accesses
        // are atomic or volatile.
        let flags = unsafe { atomic_load(self.flags_ptr().cast::<i16>(), Acquire) };
        // CAST: the same bits.
        flags as u16
    }

    /// Sets the flags of a request after all that was read from or written to it.
    #[inline(always)]
    pub(crate) fn set_flags(self, flags: u16) {
        // CAST: the same bits.
        // SAFETY: as in `flags`.
        unsafe { atomic_store(self.flags_ptr().cast::<i16>(), flags as i16, Release) };
    }

    /// As [`Entry::flags`], for a completion, which has fewer flags.
    #[inline(always)]
    pub(crate) fn short_flags(self) -> u8 {
        // SAFETY: as in `flags`.
        let flags = unsafe { atomic_load(self.flags_ptr().cast::<i8>(), Acquire) };
        // CAST: the same bits.
        flags as u8
    }

    /// As [`Entry::set_flags`], for a completion.
    #[inline(always)]
    pub(crate) fn set_short_flags(self, flags: u8) {
        // CAST: the same bits.
        // SAFETY: as in `flags`.
        unsafe { atomic_store(self.flags_ptr().cast::<i8>(), flags as i8, Release) };
    }

    /// Copies the entry `from`, which has the same length, to here, in one pass. The word with the
    /// flags comes last: whoever sees them sees the rest.
    pub(crate) fn carry_over(self, from: Entry<'_>) {
        let (src, dst) = (from.ptr, self.ptr);
        // Whatever is passed, nothing outside of the two is accessed.
        let words = self.len.octets().min(from.len.octets()) / WORD;
        for i in (0..words).filter(|&i| i != FLAGS_WORD) {
            // SAFETY: as in `front`.
            let word = unsafe { src.add(i).read_volatile() };
            // SAFETY: the entry has this word.
            unsafe { dst.add(i).write_volatile(word) };
        }
        // SAFETY: as above.
        let word = unsafe { src.add(FLAGS_WORD).read_volatile() };
        // SAFETY: as in `publish`.
        unsafe { atomic_store(dst.add(FLAGS_WORD), word, Release) };
    }

    /// Writes a front and what the entry has behind it, as far as there is room. The word with the
    /// flags comes last: whoever sees them sees the rest.
    #[inline]
    pub(crate) fn publish<F: IntoBytes>(self, front: &F, behind: &[u64]) {
        const { assert!(size_of::<F>() == LEAST && align_of::<F>() == WORD) };
        let dst = self.ptr;
        for (i, word) in (LEAST / WORD..self.len.octets() / WORD).zip(behind) {
            // SAFETY: the entry has this word, see above.
            unsafe { dst.add(i).write_volatile(*word) };
        }
        let src = core::ptr::from_ref(front).cast::<u64>();
        for i in (0..LEAST / WORD).filter(|&i| i != FLAGS_WORD) {
            // SAFETY: `F` has this word, without padding (`IntoBytes`).
            let word = unsafe { src.add(i).read() };
            // SAFETY: each entry has this word, see `EntryLen`.
            unsafe { dst.add(i).write_volatile(word) };
        }
        // SAFETY: as above.
        let word = unsafe { src.add(FLAGS_WORD).read() };
        // SAFETY: as above; the word is accessed by volatile and atomic operations only.
        unsafe { atomic_store(dst.add(FLAGS_WORD), word, Release) };
    }
}

/// A 32-bit word of shared memory, behind a ring.
///
/// # Invariants
///
/// `offset` is a multiple of four and inside `mem`.
#[derive(Clone)]
pub(crate) struct SharedWord {
    mem: Arc<SharedMemory>,
    offset: usize,
}

impl SharedWord {
    /// Takes the word at byte `offset` of `mem`. Fails with `EINVAL` if it is unaligned or outside.
    pub(crate) fn new(mem: Arc<SharedMemory>, offset: usize) -> Result<Self> {
        let end = offset.end_within(size_of::<u32>(), mem.size());
        if offset % align_of::<u32>() != 0 || end.is_none() {
            return Err(EINVAL);
        }
        // INVARIANT: just checked.
        Ok(Self { mem, offset })
    }

    fn ptr(&self) -> *mut u32 {
        self.mem.as_ptr().wrapping_add(self.offset).cast()
    }

    /// Reads the word. No ordering.
    pub(crate) fn load(&self) -> u32 {
        // SAFETY: valid and aligned by the invariant; the kernel uses atomic operations only.
        unsafe { atomic_load(self.ptr(), Relaxed) }
    }

    /// Writes the word. No ordering.
    pub(crate) fn store(&self, value: u32) {
        // SAFETY: as in `load`.
        unsafe { atomic_store(self.ptr(), value, Relaxed) };
    }
}

/// Zeroed pages, freed with the last reference, that count for the memory cgroup of the process
/// that asked for them. A process that maps them holds references of its own to the pages.
///
/// # Invariants
///
/// `ptr` came from `__vmalloc` and has `size` bytes, a multiple of the page size. Processes may
/// read and write them at any time, also after they were freed. `owner` is what to free them by.
pub(crate) struct SharedMemory {
    owner: NonNull<c_void>,
    ptr: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory belongs to no thread; all access goes through volatile or atomic operations.
unsafe impl Send for SharedMemory {}
// SAFETY: see above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Allocates at least `len` bytes. Returns `EINVAL` if that is zero or overflows, or `ENOMEM`.
    pub(crate) fn new(len: usize, _loaded: Loaded) -> Result<Arc<Self>> {
        let size = page_align(len).ok_or(EINVAL)?;
        if size < PAGE_SIZE {
            return Err(EINVAL);
        }
        let mut ptr = core::ptr::null_mut();
        // SAFETY: any size may be asked for; `ptr` is writable.
        let owner = unsafe { h::shared_alloc(size, &mut ptr) };
        // INVARIANT: freshly allocated with this size, which was rounded up above.
        let this = Self {
            owner: NonNull::new(owner).ok_or(ENOMEM)?,
            ptr: NonNull::new(ptr.cast()).ok_or(ENOMEM)?,
            size,
        };
        Ok(Arc::new(this, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns the length in bytes, of whole pages.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the address of the first byte. It is valid for volatile and atomic access of
    /// [`SharedMemory::size`] bytes as long as `self` lives.
    pub(in crate::ffi) fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: by the invariant this frees the memory, which nobody in the kernel uses any more.
        unsafe { h::shared_free(self.owner.as_ptr()) };
    }
}

/// The number of an entry: see the top of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position(u32);

impl Position {
    pub(crate) const FIRST: Self = Self(0);

    /// Returns the position that has this [`Position::number`].
    pub(crate) const fn of(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    pub(crate) fn advance(&mut self) {
        *self = *self + 1;
    }
}

impl Add<u32> for Position {
    type Output = Self;

    fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }
}

impl Sub<u32> for Position {
    type Output = Self;

    fn sub(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count))
    }
}

/// Counts from an earlier position up to this one.
impl Sub for Position {
    type Output = u32;

    fn sub(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}
