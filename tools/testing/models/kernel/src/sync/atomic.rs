// SPDX-License-Identifier: GPL-2.0

//! The kernel's atomic operations.
//!
//! loom treats what is sequentially consistent as if it only acquired and released, except fences.
//! So an operation that is fully ordered has a fence on either side, which is what the kernel says
//! of it. (A compare-and-exchange that fails orders nothing; here the fence before it stays. Nobody
//! relies on that, as all that fail are tried again or given up.)
//!
//! loom leaves out orders that make no difference. But it remembers only the last access to each
//! word, so a thread's load hides that of another thread from the store that follows, and orders are
//! left out that do make one. So each operation here stores into a word first which nobody reads:
//! loom tries all orders of these, and such stores order nothing.

use crate::weak::{self, Strength};
use loom::sync::atomic::{fence, AtomicUsize, Ordering};
use std::{marker::PhantomData, panic::Location};

/// How an operation is ordered.
pub trait Order {
    const STRENGTH: Strength;
}

macro_rules! orders {
    ($($name:ident = $strength:ident;)*) => {$(
        pub struct $name;

        impl Order for $name {
            const STRENGTH: Strength = Strength::$strength;
        }
    )*};
}

orders! {
    Relaxed = Nothing;
    Acquire = Acquire;
    Release = Release;
    Full = Full;
    Read = Acquire;
    // What C and C++ call sequentially consistent, as one operation: the kernel has none of it.
    SeqCst = AcquireRelease;
}

pub trait OfLoad: Order {}
pub trait OfStore: Order {}

impl OfLoad for Relaxed {}
impl OfLoad for Acquire {}
impl OfStore for Relaxed {}
impl OfStore for Release {}

/// A value that fits into a word.
pub trait Word: Copy {
    fn to(self) -> usize;
    fn from(word: usize) -> Self;
}

macro_rules! words {
    ($($type:ty)*) => {$(
        impl Word for $type {
            fn to(self) -> usize {
                self as usize
            }

            fn from(word: usize) -> Self {
                word as $type
            }
        }
    )*};
}

words!(u32 usize);

impl Word for bool {
    fn to(self) -> usize {
        self.into()
    }

    fn from(word: usize) -> Self {
        word != 0
    }
}

impl<T> Word for *mut T {
    fn to(self) -> usize {
        self.expose_provenance()
    }

    fn from(word: usize) -> Self {
        core::ptr::with_exposed_provenance_mut(word)
    }
}

loom::lazy_static! {
    static ref COMMON: AtomicUsize = AtomicUsize::new(0);
}

/// Has loom try all orders of calls of this. Must be called before a model makes threads.
pub fn any_order() {
    COMMON.store(0, Ordering::Relaxed);
}

/// Calls `op` with the ordering, and between the fences, that `strength` stands for.
fn ordered<R>(strength: Strength, op: impl FnOnce(Ordering) -> R) -> R {
    any_order();
    let ordering = match strength {
        Strength::Nothing => Ordering::Relaxed,
        Strength::Acquire => Ordering::Acquire,
        Strength::Release => Ordering::Release,
        Strength::AcquireRelease | Strength::Full => Ordering::AcqRel,
    };
    if strength == Strength::Full {
        fully_ordered(|| op(ordering))
    } else {
        op(ordering)
    }
}

/// Calls `op` between full barriers.
pub(crate) fn fully_ordered<R>(op: impl FnOnce() -> R) -> R {
    fence(Ordering::SeqCst);
    let result = op();
    fence(Ordering::SeqCst);
    result
}

/// An atomic value.
#[repr(transparent)]
pub struct Atomic<T> {
    word: AtomicUsize,
    _type: PhantomData<T>,
}

// SAFETY: it is a number, whatever it stands for.
unsafe impl<T> Send for Atomic<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Atomic<T> {}

pub type AtomicFlag = Atomic<bool>;

impl<T: Word> Atomic<T> {
    pub fn new(value: T) -> Self {
        Self {
            word: AtomicUsize::new(value.to()),
            _type: PhantomData,
        }
    }

    /// For C, which finds this there and not a `T`.
    pub fn as_ptr(&self) -> *mut T {
        (&raw const *self).cast_mut().cast()
    }

    #[track_caller]
    pub fn load<O: OfLoad>(&self, _: O) -> T {
        let strength = weak::strength(O::STRENGTH, Location::caller());
        T::from(ordered(strength, |ordering| self.word.load(ordering)))
    }

    #[track_caller]
    pub fn store<O: OfStore>(&self, value: T, _: O) {
        let strength = weak::strength(O::STRENGTH, Location::caller());
        ordered(strength, |ordering| self.word.store(value.to(), ordering));
    }

    #[track_caller]
    pub fn xchg<O: Order>(&self, value: T, _: O) -> T {
        let strength = weak::strength(O::STRENGTH, Location::caller());
        T::from(ordered(strength, |ordering| {
            self.word.swap(value.to(), ordering)
        }))
    }

    #[track_caller]
    pub fn cmpxchg<O: Order>(&self, old: T, new: T, _: O) -> Result<T, T> {
        let strength = weak::strength(O::STRENGTH, Location::caller());
        let result = ordered(strength, |ordering| {
            self.word
                .compare_exchange(old.to(), new.to(), ordering, Ordering::Relaxed)
        });
        result.map(T::from).map_err(T::from)
    }

    #[track_caller]
    pub fn fetch_add<O: Order>(&self, value: T, _: O) -> T {
        let strength = weak::strength(O::STRENGTH, Location::caller());
        T::from(ordered(strength, |ordering| {
            self.word.fetch_add(value.to(), ordering)
        }))
    }

    #[track_caller]
    pub fn fetch_sub<O: Order>(&self, value: T, _: O) -> T {
        let strength = weak::strength(O::STRENGTH, Location::caller());
        T::from(ordered(strength, |ordering| {
            self.word.fetch_sub(value.to(), ordering)
        }))
    }

    #[track_caller]
    pub fn fetch_or<O: Order>(&self, value: T, _: O) -> T {
        let strength = weak::strength(O::STRENGTH, Location::caller());
        T::from(ordered(strength, |ordering| {
            self.word.fetch_or(value.to(), ordering)
        }))
    }
}

/// A barrier between what is in front of it and what is behind it.
#[track_caller]
pub fn smp_mb<O: Order>(_: O) {
    any_order();
    match weak::strength(O::STRENGTH, Location::caller()) {
        Strength::Nothing => {}
        Strength::Acquire => fence(Ordering::Acquire),
        Strength::Release => fence(Ordering::Release),
        Strength::AcquireRelease => fence(Ordering::AcqRel),
        Strength::Full => fence(Ordering::SeqCst),
    }
}
