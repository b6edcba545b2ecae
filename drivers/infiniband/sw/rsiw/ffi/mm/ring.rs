// SPDX-License-Identifier: GPL-2.0

//! Rings in memory that a user process shares: typed access by copy.
//!
//! A process may write any byte at any time (T-3). So nothing here returns a reference into the
//! memory, each read is one volatile pass into private memory, and indices are masked so that none
//! leads outside. A [`Position`] is the number of an entry among all that the queue has had; it
//! wraps.
//!
//! Context: any; users of a ring in the kernel exclude each other. Allocation and release of the
//! memory sleep; [`SharedMemory`] may also be dropped in softirq, but not with interrupts disabled
//! or under a spinlock (`vfree`).

use crate::ffi::{
    module::Loaded,
    raw::h, //
};
use core::{
    marker::PhantomData,
    mem::{
        align_of,
        size_of,
        size_of_val,
        MaybeUninit, //
    },
    ops::{
        Add,
        Sub, //
    },
    ptr::NonNull, //
};
use kernel::{
    page::{
        page_align,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::{
        atomic::{
            atomic_load,
            atomic_store,
            Acquire,
            Relaxed,
            Release, //
        },
        Arc, //
    },
};

/// The unit of copying.
const WORD: usize = size_of::<u64>();

/// An integer that can carry an entry's flags.
pub(crate) trait RingFlags: Copy {
    /// Reads with acquire semantics.
    ///
    /// # Safety
    ///
    /// `ptr` must be valid and aligned; concurrent stores by the kernel must be atomic.
    unsafe fn load(ptr: *mut u8) -> Self;

    /// Writes with release semantics.
    ///
    /// # Safety
    ///
    /// As [`RingFlags::load`].
    unsafe fn store(ptr: *mut u8, value: Self);
}

/// Implements [`RingFlags`] through the signed type that the kernel's atomics have.
macro_rules! impl_ring_flags {
    ($unsigned:ty, $signed:ty) => {
        impl RingFlags for $unsigned {
            unsafe fn load(ptr: *mut u8) -> Self {
                // SAFETY: by the caller's promise.
                let v = unsafe { atomic_load(ptr.cast::<$signed>(), Acquire) };
                // CAST: the same bits.
                v as $unsigned
            }

            unsafe fn store(ptr: *mut u8, value: Self) {
                // CAST: the same bits.
                // SAFETY: by the caller's promise.
                unsafe { atomic_store(ptr.cast::<$signed>(), value as $signed, Release) };
            }
        }
    };
}

impl_ring_flags!(u8, i8);
impl_ring_flags!(u16, i16);

/// An entry of a ring: plain data with flags that say who owns it. The layout is checked when a
/// ring of the type is instantiated.
pub(crate) trait RingEntry: FromBytes + IntoBytes + Copy {
    type Flags: RingFlags;

    /// Offset of the flags in bytes. In entries that the kernel publishes, user space writes
    /// nothing else in their word.
    const FLAGS_OFFSET: usize;
}

/// A ring of a power of two entries `T` at the start of shared memory.
///
/// # Invariants
///
/// `mem` has room for `mask + 1` entries; `mask + 1` is a power of two.
pub(crate) struct SharedRing<T> {
    mem: Arc<SharedMemory>,
    mask: u32,
    _entries: PhantomData<fn() -> T>,
}

impl<T> Clone for SharedRing<T> {
    fn clone(&self) -> Self {
        // INVARIANT: as of `self`.
        Self {
            mem: self.mem.clone(),
            mask: self.mask,
            _entries: PhantomData,
        }
    }
}

impl<T: RingEntry> SharedRing<T> {
    const WORDS: usize = {
        assert!(size_of::<T>() % WORD == 0 && align_of::<T>() == WORD);
        assert!(T::FLAGS_OFFSET + size_of::<T::Flags>() <= size_of::<T>());
        assert!(T::FLAGS_OFFSET % align_of::<T::Flags>() == 0);
        size_of::<T>() / WORD
    };
    const FLAGS_WORD: usize = T::FLAGS_OFFSET / WORD;

    /// Returns how many bytes `entries` entries take, or `EINVAL` if that overflows.
    pub(crate) fn bytes(entries: u32) -> Result<usize> {
        size_of::<T>().checked_mul(entries as usize).ok_or(EINVAL)
    }

    /// Makes a ring of the first `entries` entries of `mem`, or returns `EINVAL` if these are not a
    /// power of two or do not fit.
    pub(crate) fn new(mem: Arc<SharedMemory>, entries: u32) -> Result<Self> {
        // Has the compiler check the layout, whatever is done with the ring.
        const { assert!(Self::WORDS > 0 && Self::FLAGS_WORD < Self::WORDS) };
        if !entries.is_power_of_two() || Self::bytes(entries)? > mem.size() {
            return Err(EINVAL);
        }
        // INVARIANT: just checked.
        Ok(Self {
            mem,
            mask: entries.wrapping_sub(1),
            _entries: PhantomData,
        })
    }

    pub(crate) fn len(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    fn entry(&self, at: Position) -> *mut u64 {
        let at = (at.number() & self.mask) as usize * size_of::<T>();
        // SAFETY: by the invariant the memory has this entry.
        unsafe { self.mem.as_ptr().add(at) }.cast()
    }

    /// Copies an entry out, in one pass. Do not use the flags in the copy: see
    /// [`SharedRing::flags`].
    pub(crate) fn read(&self, at: Position) -> T {
        self.front(at)
    }

    /// As [`SharedRing::read`], for the front of an entry, up to the end of an `F`.
    #[inline]
    pub(crate) fn front<F: FromBytes>(&self, at: Position) -> F {
        const { assert!(size_of::<F>() % WORD == 0 && align_of::<F>() == WORD) };
        const { assert!(size_of::<F>() <= size_of::<T>()) };
        let src = self.entry(at);
        let mut copy = MaybeUninit::<F>::uninit();
        let dst = copy.as_mut_ptr().cast::<u64>();
        for i in 0..size_of::<F>() / WORD {
            // SAFETY: by the invariant the entry has this word; the memory is aligned as vmalloc
            // and `T` are; the access is volatile, as others may write at the same time.
            let word = unsafe { src.add(i).read_volatile() };
            // SAFETY: `F` has this word too and is aligned to words.
            unsafe { dst.add(i).write(word) };
        }
        // SAFETY: all words were written, and `F` takes any bytes (`FromBytes`).
        unsafe { copy.assume_init() }
    }

    /// Fills `to` from byte `AT` of an entry on, in one pass, if the entry has as much. Returns
    /// whether it has.
    #[inline]
    #[must_use]
    pub(crate) fn copy<const AT: usize, E: FromBytes>(&self, at: Position, to: &mut [E]) -> bool {
        const { assert!(size_of::<E>() % WORD == 0 && align_of::<E>() == WORD) };
        const { assert!(AT % WORD == 0 && AT <= size_of::<T>()) };
        if size_of_val(to) > size_of::<T>() - AT {
            return false;
        }
        // SAFETY: `AT` is inside the entry.
        let src = unsafe { self.entry(at).byte_add(AT) };
        let dst = to.as_mut_ptr().cast::<u64>();
        for i in 0..size_of_val(to) / WORD {
            // SAFETY: as in `front`; the entry has this word, as was just checked.
            let word = unsafe { src.add(i).read_volatile() };
            // SAFETY: `to` has this word too, takes any bytes and is aligned to words.
            unsafe { dst.add(i).write(word) };
        }
        true
    }

    /// Returns the flags of an entry. What its owner wrote before setting them is visible then.
    pub(crate) fn flags(&self, at: Position) -> T::Flags {
        let ptr = self.entry(at).cast::<u8>();
        // SAFETY: inside the entry and aligned (see `WORDS`); the kernel's accesses are atomic or
        // volatile.
        unsafe { T::Flags::load(ptr.add(T::FLAGS_OFFSET)) }
    }

    /// Sets the flags of an entry after all that was read from or written to it.
    pub(crate) fn set_flags(&self, at: Position, flags: T::Flags) {
        let ptr = self.entry(at).cast::<u8>();
        // SAFETY: as in `flags`.
        unsafe { T::Flags::store(ptr.add(T::FLAGS_OFFSET), flags) };
    }

    /// Copies the entry of `from` at `at` to the same place here, in one pass, the word with the
    /// flags last: whoever sees them sees the rest.
    pub(crate) fn carry_over(&self, at: Position, from: &Self) {
        let (src, dst) = (from.entry(at), self.entry(at));
        for i in (0..Self::WORDS).filter(|&i| i != Self::FLAGS_WORD) {
            // SAFETY: as in `front`.
            let word = unsafe { src.add(i).read_volatile() };
            // SAFETY: by the invariant the entry has this word.
            unsafe { dst.add(i).write_volatile(word) };
        }
        // SAFETY: as above.
        let word = unsafe { src.add(Self::FLAGS_WORD).read_volatile() };
        // SAFETY: as in `publish`.
        unsafe { atomic_store(dst.add(Self::FLAGS_WORD), word, Release) };
    }

    /// Writes an entry, the word with the flags last: whoever sees them sees the rest.
    pub(crate) fn publish(&self, at: Position, entry: &T) {
        let dst = self.entry(at);
        let src = core::ptr::from_ref(entry).cast::<u64>();
        for i in (0..Self::WORDS).filter(|&i| i != Self::FLAGS_WORD) {
            // SAFETY: `T` has this word, without padding (`IntoBytes`).
            let word = unsafe { src.add(i).read() };
            // SAFETY: by the invariant the entry has this word.
            unsafe { dst.add(i).write_volatile(word) };
        }
        // SAFETY: as above.
        let word = unsafe { src.add(Self::FLAGS_WORD).read() };
        // SAFETY: as above; the word is accessed by volatile and atomic operations only.
        unsafe { atomic_store(dst.add(Self::FLAGS_WORD), word, Release) };
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
        let end = offset.checked_add(size_of::<u32>()).ok_or(EINVAL)?;
        if offset % align_of::<u32>() != 0 || end > mem.size() {
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
/// read and write them at any time, also after they were freed. `owner` frees them.
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
        // SAFETY: by the invariant it frees the memory, which nobody in the kernel uses any more.
        unsafe { h::shared_free(self.owner.as_ptr()) };
    }
}

/// The number of one of these things.
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
